//! SCRAM-SHA-256 (RFC 5802, 7677), the server's half: what is kept of a password, and the exchange that proves one.
//!
//! Pure: messages in, messages out. The key derivation and the client's half are those of the postgres-protocol crate;
//! hashes are ring's.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SecureRandom as _;
use ring::{digest, hmac, pbkdf2, rand};

use crate::error::{Error, Result};

/// The mechanism without channel binding.
pub const PLAIN: &str = "SCRAM-SHA-256";
/// The mechanism that ties the proof to the TLS connection.
pub const PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Rounds of the key derivation, as in PostgreSQL.
const ITERATIONS: u32 = 4096;
/// The most rounds of a verifier that is given instead of a password: a client does them at every log-in, the server
/// once, to see that it isn't that of the empty password.
const MOST_ITERATIONS: u32 = 100_000;
/// The most salt of one, in bytes: the server sends it to whoever asks to log in.
const MOST_SALT: usize = 1024;
const KEY: usize = digest::SHA256_OUTPUT_LEN;

/// What is kept of a password: it checks a proof, and neither the password nor a proof can be made from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY],
    server_key: [u8; KEY],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(********)")
    }
}

impl Verifier {
    /// Reads PostgreSQL's form, `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`. `None`: it isn't one.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| -> Option<[u8; KEY]> { BASE64.decode(text).ok()?.try_into().ok() };
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty())?;
        Some(Self {
            iterations: iterations.parse().ok()?,
            salt,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }

    /// Whether a client would prove it in reasonable time, and in messages of the usual size.
    fn is_usable(&self) -> bool {
        self.iterations.get() <= MOST_ITERATIONS && self.salt.len() <= MOST_SALT
    }

    /// Whether it was made of this password.
    fn fits(&self, password: &str) -> bool {
        let mut salted = [0; KEY];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, self.iterations, &self.salt, password.as_bytes(), &mut salted);
        let client_key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salted), b"Client Key");
        digest::digest(&digest::SHA256, client_key.as_ref()).as_ref() == self.stored_key
    }

    /// One that no password fits, always the same for a name: what a name without a password, or without a user, is
    /// asked with.
    pub fn mock(secret: &[u8], user: &str) -> Self {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), user.as_bytes());
        // Nobody knows a key whose hash is these zeros.
        Self {
            iterations: NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN),
            salt: tag.as_ref()[..16].to_vec(),
            stored_key: [0; KEY],
            server_key: [0; KEY],
        }
    }
}

/// The verifier to keep for a password, in PostgreSQL's form. A password in that form is one already, as in PostgreSQL.
///
/// # Errors
/// [`Error::Data`] for an empty password, for a verifier that clients couldn't prove, and for one that looks like another
/// kind of hash.
pub fn verifier_of(password: &str) -> Result<String> {
    let verifier = match Verifier::parse(password) {
        Some(given) if given.is_usable() => password.to_owned(),
        Some(_) => {
            let most = format!("{MOST_ITERATIONS} rounds and {MOST_SALT} bytes of salt");
            return Err(unusable(format!("a SCRAM-SHA-256 verifier has at most {most}")));
        }
        None => {
            refuse_other_hashes(password)?;
            postgres_protocol::password::scram_sha_256(password.as_bytes())
        }
    };
    // Also in a verifier, as of psql's \password, which makes one of whatever is typed; and where nothing is left of a
    // password once it is prepared (a soft hyphen). No client could prove it.
    match Verifier::parse(&verifier) {
        Some(made) if !made.fits("") => Ok(verifier),
        Some(_) | None => Err(unusable("a password can't be empty")),
    }
}

fn refuse_other_hashes(password: &str) -> Result<()> {
    let is_md5 = |hash: &str| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if password.starts_with("SCRAM-SHA-256$") || password.strip_prefix("md5").is_some_and(is_md5) {
        return Err(unusable(
            "the password looks like a hash, but not like one that can be used: give a SCRAM-SHA-256 verifier or the password itself",
        ));
    }
    Ok(())
}

fn unusable(message: impl Into<String>) -> Error {
    Error::Data { sqlstate: "22023", message: message.into() }
}

/// Why an exchange broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The client's message isn't SCRAM, or asks for what there isn't: in words.
    Malformed(&'static str),
    /// The proof is wrong.
    Refused,
}

/// An exchange whose first message has been answered.
pub struct Exchange {
    verifier: Verifier,
    /// `n,,`, `y,,` or `p=tls-server-end-point,,`, with the binding's data: what `c=` has to hold.
    binding: Vec<u8>,
    nonce: String,
    /// The two messages so far, as the proof signs them.
    signed: String,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

impl Exchange {
    /// Answers the client's first message. `end_point` is the hash of the server's certificate, over TLS.
    ///
    /// # Errors
    /// [`Broken::Malformed`], also for a client that was kept from seeing that channel binding was offered.
    pub fn begin(
        mechanism: &str,
        message: &[u8],
        verifier: Verifier,
        end_point: Option<&[u8]>,
    ) -> Result<(Self, String), Broken> {
        let mut random = [0; 18];
        rand::SystemRandom::new().fill(&mut random).map_err(|_| Broken::Malformed("no random numbers"))?;
        Self::begin_with(mechanism, message, verifier, end_point, &BASE64.encode(random))
    }

    fn begin_with(
        mechanism: &str,
        message: &[u8],
        verifier: Verifier,
        end_point: Option<&[u8]>,
        nonce: &str,
    ) -> Result<(Self, String), Broken> {
        let message = std::str::from_utf8(message).map_err(|_| Broken::Malformed("it isn't UTF-8"))?;
        let bare_at = message.match_indices(',').nth(1).map(|(at, _)| at + 1);
        let (header, bare) = message.split_at(bare_at.ok_or(Broken::Malformed("it has no header"))?);
        let mut binding = header.as_bytes().to_vec();
        match (mechanism, header.split(',').next(), end_point) {
            (PLAIN, Some("n"), _) | (PLAIN, Some("y"), None) => {}
            (PLAIN, Some("y"), Some(_)) => {
                return Err(Broken::Malformed(
                    "the client supports channel binding but thinks that the server doesn't",
                ));
            }
            (PLUS, Some("p=tls-server-end-point"), Some(hash)) => binding.extend_from_slice(hash),
            _ => return Err(Broken::Malformed("its channel binding doesn't fit the mechanism")),
        }
        if !header.ends_with(",,") {
            return Err(Broken::Malformed("authorization identities are not supported"));
        }
        let mut attributes = bare.split(',');
        // The name is that of the startup packet, as in PostgreSQL.
        if !attributes.next().is_some_and(|name| name.starts_with("n=")) {
            return Err(Broken::Malformed("it has no name"));
        }
        let client_nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r=")).unwrap_or_default();
        if client_nonce.is_empty() || !client_nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Broken::Malformed("it has no nonce"));
        }
        let nonce = format!("{client_nonce}{nonce}");
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let signed = format!("{bare},{answer}");
        Ok((Self { verifier, binding, nonce, signed }, answer))
    }

    /// Checks the client's last message. The answer proves to the client that the server knows the verifier.
    ///
    /// # Errors
    /// [`Broken::Refused`] when the proof is wrong.
    pub fn finish(self, message: &[u8]) -> Result<String, Broken> {
        let message = std::str::from_utf8(message).map_err(|_| Broken::Malformed("it isn't UTF-8"))?;
        let (unproven, proof) = message.rsplit_once(",p=").ok_or(Broken::Malformed("it has no proof"))?;
        let mut attributes = unproven.split(',');
        let binding =
            attributes.next().and_then(|data| data.strip_prefix("c=")).and_then(|data| BASE64.decode(data).ok());
        if binding.as_deref() != Some(self.binding.as_slice()) {
            // Somebody sits between the two, or the client is wrong about itself.
            return Err(Broken::Refused);
        }
        if attributes.next().and_then(|nonce| nonce.strip_prefix("r=")) != Some(self.nonce.as_str()) {
            return Err(Broken::Malformed("its nonce is another one"));
        }
        let proof: [u8; KEY] = BASE64
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(Broken::Malformed("its proof isn't one"))?;
        let signed = format!("{},{unproven}", self.signed);
        let sign = |key: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
        let signature = sign(&self.verifier.stored_key);
        let client_key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(proof, sign)| proof ^ sign).collect();
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        // In any time: how much of a hash is right doesn't lead to what it is the hash of.
        if stored_key.as_ref() != self.verifier.stored_key {
            return Err(Broken::Refused);
        }
        Ok(format!("v={}", BASE64.encode(sign(&self.verifier.server_key))))
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    fn kept(password: &str) -> Verifier {
        Verifier::parse(&verifier_of(password).unwrap()).unwrap()
    }

    /// The whole exchange with the client of the postgres-protocol crate.
    fn exchange(
        mechanism: &str,
        password: &str,
        verifier: Verifier,
        binding: ChannelBinding,
        end_point: Option<&[u8]>,
    ) -> Result<(), Broken> {
        let mut client = ScramSha256::new(password.as_bytes(), binding);
        let (exchange, answer) = Exchange::begin(mechanism, client.message(), verifier, end_point)?;
        client.update(answer.as_bytes()).unwrap();
        let last = exchange.finish(client.message())?;
        client.finish(last.as_bytes()).expect("the client finds that the server knows the verifier");
        Ok(())
    }

    #[test]
    fn the_right_password_is_proven_and_a_wrong_one_is_not() {
        let none = ChannelBinding::unsupported;
        assert_eq!(exchange(PLAIN, "geheim", kept("geheim"), none(), None), Ok(()));
        assert_eq!(exchange(PLAIN, "geheim!", kept("geheim"), none(), None), Err(Broken::Refused));
        assert_eq!(exchange(PLAIN, "geheim", Verifier::mock(b"secret", "u"), none(), None), Err(Broken::Refused));
    }

    #[test]
    fn the_binding_must_be_that_of_the_servers_certificate() {
        let bound = |hash: &[u8]| ChannelBinding::tls_server_end_point(hash.to_vec());
        assert_eq!(exchange(PLUS, "x", kept("x"), bound(b"hash"), Some(b"hash")), Ok(()));
        assert_eq!(exchange(PLUS, "x", kept("x"), bound(b"other"), Some(b"hash")), Err(Broken::Refused));
    }

    #[test]
    fn a_client_that_was_kept_from_channel_binding_is_refused() {
        // It would have bound, had it seen the offer.
        let result = exchange(PLAIN, "x", kept("x"), ChannelBinding::unrequested(), Some(b"hash"));
        assert!(matches!(result, Err(Broken::Malformed(text)) if text.contains("thinks")), "{result:?}");
        let result = exchange(PLAIN, "x", kept("x"), ChannelBinding::tls_server_end_point(vec![1]), Some(b"hash"));
        assert!(matches!(result, Err(Broken::Malformed(_))), "{result:?}");
    }

    #[test]
    fn the_example_of_rfc_7677() {
        let salt = "W22ZaJ0SNY7soEsUEjb6gQ==";
        let verifier = Verifier::parse(&format!(
            "SCRAM-SHA-256$4096:{salt}$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        ))
        .unwrap();
        let (exchange, answer) = Exchange::begin_with(
            PLAIN,
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            verifier,
            None,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .unwrap();
        assert_eq!(answer, format!("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s={salt},i=4096"));
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(exchange.finish(last).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_verifier_is_a_password_too_and_other_hashes_are_none() {
        let verifier = verifier_of("x").unwrap();
        assert_eq!(verifier_of(&verifier).unwrap(), verifier);
        let empty = postgres_protocol::password::scram_sha_256(b"");
        let (rounds, salt) = (verifier.replace("$4096:", "$100001:"), "QUJD".repeat(400));
        let salty = format!("SCRAM-SHA-256$4096:{salt}${}", verifier.rsplit_once('$').unwrap().1);
        for bad in
            ["", &empty, "\u{ad}", &rounds, &salty, "SCRAM-SHA-256$4096:broken", "md50123456789abcdef0123456789abcdef"]
        {
            assert_eq!(verifier_of(bad).unwrap_err().sqlstate(), "22023", "{bad}");
        }
        assert!(!format!("{:?}", kept("x")).contains("4096"));
    }

    #[test]
    fn a_mock_is_the_same_for_a_name_and_another_for_another() {
        assert_eq!(Verifier::mock(b"s", "a"), Verifier::mock(b"s", "a"));
        assert_ne!(Verifier::mock(b"s", "a"), Verifier::mock(b"s", "b"));
        assert_ne!(Verifier::mock(b"s", "a"), Verifier::mock(b"t", "a"));
    }

    proptest::proptest! {
        #[test]
        fn no_message_makes_it_panic(first: Vec<u8>, last: Vec<u8>, text in "[ny],,n=,r=[a-z]{0,3}", end in "c=.{0,6},r=.{0,6},p=.{0,6}") {
            let verifier = || Verifier::mock(b"s", "u");
            let _ = Exchange::begin(PLAIN, &first, verifier(), None);
            for last in [last.as_slice(), end.as_bytes()] {
                if let Ok((exchange, _)) = Exchange::begin(PLAIN, text.as_bytes(), verifier(), None) {
                    proptest::prop_assert!(exchange.finish(last).is_err());
                }
            }
        }
    }
}

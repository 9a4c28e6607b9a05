//! Who is it? Between the startup packet and the session a client proves the user that it names.
//!
//! A user with a password proves it by SCRAM, wherever it comes from. One without a password comes in from this machine
//! only. Whatever else is wrong (no such user, no password, a password that has ended), the client gets the same
//! questions and the same answer as for a wrong password; only the log says more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use pgwire::error::PgWireError;
use pgwire::messages::startup::{Authentication, PasswordMessageFamily};
use pgwire::messages::{PgWireBackendMessage as Backend, PgWireFrontendMessage as Frontend};

use super::connection::Link;
use super::tls::Tls;
use crate::auth::scram::{self, Broken, Exchange, Verifier};
use crate::auth::throttle::Throttle;
use crate::clock::now_micros;
use crate::error::{Error, Result};
use crate::observe;
use crate::store::users::User;

/// Finds a user by name.
pub type FindUser = Box<dyn Fn(&str) -> Result<Option<User>> + Send + Sync>;

/// What the server knows of those who may come in.
pub struct Door {
    /// Finds a user.
    pub find: FindUser,
    /// What made-up salts are made of.
    pub secret: Vec<u8>,
    /// The certificate. `None`: there is no TLS.
    pub tls: Option<Arc<Tls>>,
    /// Nobody comes in without TLS.
    pub tls_required: bool,
    /// Who failed of late.
    pub throttle: Throttle,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// Lets a client prove that it is `name`. `None` when it went away.
///
/// # Errors
/// The answer for the client, within; a broken connection.
pub(super) async fn prove(link: &mut Link, door: &Door, name: &str) -> Result<Result<Option<User>>, PgWireError> {
    let found = match link.peer().and_then(|address| Ok((address, (door.find)(name)?))) {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    let (address, user) = found;
    if let Some(open) = user.as_ref().filter(|user| user.can_login && user.verifier.is_none())
        && address.ip().to_canonical().is_loopback()
    {
        return Ok(Ok(Some(open.clone())));
    }
    match door.throttle.attempt(address.ip(), Instant::now()) {
        None => return Ok(Err(refused("28000", "too many failed logins from this address, try again later"))),
        Some(wait) if !wait.is_zero() => {
            metrics::counter!(observe::LOGINS_DELAYED).increment(1);
            tokio::time::sleep(wait).await;
        }
        Some(_) => {}
    }
    let (verifier, obstacle) = verifier(user.as_ref(), name, &door.secret);
    let proven = match exchange(link, verifier).await? {
        None => return Ok(Ok(None)),
        Some(Err(Broken::Malformed(what))) => {
            return Ok(Err(refused("08P01", &format!("malformed SCRAM message: {what}"))));
        }
        Some(Err(Broken::Refused)) => Err("the password is wrong"),
        Some(Ok(())) => obstacle.map_or(Ok(()), Err),
    };
    Ok(match (proven, user) {
        (Ok(()), Some(user)) if user.can_login => Ok(Some(user)),
        (Ok(()), Some(_)) => Err(refused("28000", &format!("role \"{name}\" is not permitted to log in"))),
        (proven, _) => {
            failed(door, address, name, obstacle.or(proven.err()).unwrap_or_default());
            Err(refused("28P01", &format!("password authentication failed for user \"{name}\"")))
        }
    })
}

fn refused(sqlstate: &'static str, message: &str) -> Error {
    Error::Session { sqlstate, message: message.into() }
}

fn failed(door: &Door, address: SocketAddr, name: &str, why: &str) {
    door.throttle.failed(address.ip(), Instant::now());
    metrics::counter!(observe::LOGINS_FAILED).increment(1);
    tracing::warn!(%address, user = ?name, why, "a login failed");
}

/// What to check the proof with, and what is in the way whatever the proof.
fn verifier(user: Option<&User>, name: &str, secret: &[u8]) -> (Verifier, Option<&'static str>) {
    let mock = || Verifier::mock(secret, name);
    let Some(user) = user else { return (mock(), Some("there is no such user")) };
    if !user.can_login {
        return (mock(), Some("the role has NOLOGIN"));
    }
    let Some(verifier) = user.verifier.as_deref() else {
        return (mock(), Some("the user has no password, and comes in from this machine only"));
    };
    match Verifier::parse(verifier) {
        None => (mock(), Some("the user's verifier is damaged: set the password again")),
        Some(verifier) if user.valid_until.is_some_and(|until| until < now_micros()) => {
            (verifier, Some("the user's password has ended"))
        }
        Some(verifier) => (verifier, None),
    }
}

/// The messages of SCRAM. `None`: the client went away.
async fn exchange(link: &mut Link, verifier: Verifier) -> Result<Option<Result<(), Broken>>, PgWireError> {
    let end_point = link.end_point();
    let mut mechanisms = vec![scram::PLAIN.to_owned()];
    if end_point.is_some() {
        mechanisms.insert(0, scram::PLUS.to_owned());
    }
    link.send(Backend::Authentication(Authentication::SASL(mechanisms))).await?;
    let Some(first) = answer(link).await? else { return Ok(None) };
    let Some((mechanism, message)) = initial(first) else {
        return Ok(Some(Err(Broken::Malformed("it isn't an initial response"))));
    };
    let begun = Exchange::begin(&mechanism, &message, verifier, end_point.as_deref());
    let (exchange, question) = match begun {
        Ok(begun) => begun,
        Err(broken) => return Ok(Some(Err(broken))),
    };
    link.send(Backend::Authentication(Authentication::SASLContinue(question.into()))).await?;
    let Some(last) = answer(link).await? else { return Ok(None) };
    Ok(Some(match exchange.finish(&last) {
        Ok(proof) => {
            link.feed(Backend::Authentication(Authentication::SASLFinal(proof.into()))).await?;
            Ok(())
        }
        Err(broken) => Err(broken),
    }))
}

/// The body of the client's next message. An empty one is never right.
async fn answer(link: &mut Link) -> Result<Option<Bytes>, PgWireError> {
    match link.next().await {
        None => Ok(None),
        Some(Ok(Frontend::PasswordMessageFamily(PasswordMessageFamily::Raw(body)))) => Ok(Some(body.freeze())),
        Some(Ok(_)) => Ok(Some(Bytes::new())),
        Some(Err(error)) => Err(error),
    }
}

/// The mechanism, and the message for it.
fn initial(mut body: Bytes) -> Option<(String, Bytes)> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let mechanism = String::from_utf8(body.split_to(end).to_vec()).ok()?;
    body.advance(1);
    let length = usize::try_from(body.try_get_i32().ok()?).ok()?;
    (length == body.len()).then_some((mechanism, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_initial_response_is_none() {
        let good = Bytes::from_static(b"SCRAM-SHA-256\0\0\0\0\x03n,,");
        assert_eq!(initial(good), Some(("SCRAM-SHA-256".into(), Bytes::from_static(b"n,,"))));
        for bad in [&b""[..], b"SCRAM", b"SCRAM\0", b"SCRAM\0\0\0", b"SCRAM\0\xff\xff\xff\xff", b"SCRAM\0\0\0\0\x09abc"]
        {
            assert_eq!(initial(Bytes::copy_from_slice(bad)), None, "{bad:?}");
        }
    }
}

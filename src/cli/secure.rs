//! TLS to a server, for the commands that ask one: `sslmode` and `sslrootcert` of the URL, as libpq knows them.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;

use super::connector::Connector;
use crate::error::{Error, Result};

/// What a URL says about TLS.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The URL without what tokio-postgres doesn't know.
    pub url: String,
    /// Whether TLS is used.
    pub mode: SslMode,
    /// The file of the certificates to trust. `None`: the server's isn't looked at, as libpq doesn't for `require`.
    root: Option<String>,
    /// Whether the certificate has to be for the server's name: not for `verify-ca`.
    name_matters: bool,
}

impl Wanted {
    /// Reads a URL's `sslmode` and `sslrootcert`; what it doesn't say is taken from `PGSSLMODE` and `PGSSLROOTCERT`.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a mode that there isn't, and for `verify-full` without a certificate to trust.
    pub fn of(url: &str) -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::with_defaults(url, variable("PGSSLMODE"), variable("PGSSLROOTCERT"))
    }

    fn with_defaults(url: &str, mode: Option<String>, default_root: Option<String>) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut root, mut rest) = (mode.as_deref().unwrap_or("prefer"), None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => root = Some(value.replace("%2F", "/")),
                _ => rest.push(pair),
            }
        }
        let wrong = |value: &str, allowed: &str| {
            Err(Error::InvalidValue { what: "sslmode".into(), value: value.into(), allowed: allowed.into() })
        };
        // Where nothing is to be trusted, a variable that says what to trust is for others.
        let root = root.or(default_root.filter(|_| !["disable", "prefer"].contains(&mode)));
        let name_matters = mode != "verify-ca";
        let mode = match (mode, &root) {
            ("disable", _) => SslMode::Disable,
            ("prefer", None) => SslMode::Prefer,
            ("require" | "verify-ca" | "verify-full", Some(_)) | ("require", None) => SslMode::Require,
            ("prefer", Some(_)) => return wrong(mode, "require, verify-ca or verify-full, beside sslrootcert"),
            ("verify-ca" | "verify-full", None) => {
                return wrong(mode, "verify-ca or verify-full with sslrootcert=FILE");
            }
            _ => return wrong(mode, "disable, prefer, require, verify-ca or verify-full"),
        };
        let separator = if rest.is_empty() { "" } else { "?" };
        Ok(Self { url: format!("{base}{separator}{}", rest.join("&")), mode, root, name_matters })
    }

    /// How to shake hands.
    ///
    /// # Errors
    /// [`Error::Connection`] when the certificates to trust can't be read.
    pub fn connector(&self) -> Result<Connector> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Internal(error.to_string()))?;
        let config = match &self.root {
            Some(path) => {
                let trusted = Trusted::load(path, provider, self.name_matters)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(trusted)).with_no_client_auth()
            }
            None => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(provider))).with_no_client_auth()
            }
        };
        Ok(Connector::new(config))
    }
}

/// Takes a certificate of an authority that is trusted, or that is itself trusted: `verify-full`, and without a look at
/// the name `verify-ca`.
#[derive(Debug)]
struct Trusted {
    chain: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
    name_matters: bool,
}

impl Trusted {
    fn load(path: &str, provider: Arc<CryptoProvider>, name_matters: bool) -> Result<Self> {
        let failed = |error: String| Error::Connection {
            message: format!("sslrootcert {path} cannot be used: {error}"),
            hint: "It is a file of certificates to trust, in PEM.".into(),
        };
        let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let roots: Vec<_> = certificates.map_err(|error| failed(error.to_string()))?;
        if roots.is_empty() {
            return Err(failed("it holds no certificate".into()));
        }
        let mut store = RootCertStore::empty();
        for root in &roots {
            store.add(root.clone()).map_err(|error| failed(error.to_string()))?;
        }
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
        let chain = chain.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Self { chain, roots, name_matters })
    }

    /// Whether all is right with a certificate but that it may sign others, and it is one of those that are trusted: what
    /// `openssl req -x509` makes. Its dates are looked at before that.
    fn signs_itself(&self, leaf: &CertificateDer<'_>, error: &CertificateError) -> bool {
        matches!(error, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
            && self.roots.iter().any(|root| root.as_ref() == leaf.as_ref())
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let mut verified = self.chain.verify_server_cert(leaf, chain, name, ocsp, now);
        if let Err(rustls::Error::InvalidCertificate(error)) = &verified
            && self.signs_itself(leaf, error)
        {
            verified =
                verify_server_name(&ParsedCertificate::try_from(leaf)?, name).map(|()| ServerCertVerified::assertion());
        }
        match verified {
            // The name is looked at last, when all else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.name_matters => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Takes any certificate, as libpq does without one to trust. Who has a password still finds out whom it talks to: its
/// proof is bound to the server's certificate, and the server has to know the verifier.
#[derive(Debug)]
struct AnyName(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Wanted> {
        Wanted::with_defaults(url, None, None)
    }

    #[test]
    fn a_url_says_how() {
        let wanted = of("postgres://u@h/dev?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fca.pem").unwrap();
        assert_eq!(wanted.url, "postgres://u@h/dev?connect_timeout=3");
        assert_eq!((wanted.mode, wanted.root.as_deref()), (SslMode::Require, Some("/ca.pem")));
        assert_eq!(of("postgres://u@h/dev").unwrap().mode, SslMode::Prefer);
        let from_env =
            Wanted::with_defaults("postgres://h/", Some("verify-ca".into()), Some("/ca.pem".into())).unwrap();
        assert_eq!((from_env.mode, from_env.name_matters), (SslMode::Require, false));
        let url_wins = Wanted::with_defaults("postgres://h/?sslmode=disable", Some("require".into()), None).unwrap();
        assert_eq!(url_wins.mode, SslMode::Disable);
        for mode in ["verify-full", "verify-ca", "allow", "maybe"] {
            assert_eq!(of(&format!("postgres://h/?sslmode={mode}")).unwrap_err().sqlstate(), "22023", "{mode}");
        }
    }
}

//! TLS for clients: the certificate, read again when its files change, and what binds a login to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ring::digest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::auth::passwords::warn_of_readers;
use crate::catalog::Encryption;
use crate::error::{Error, Result};

/// The protocol's name in TLS, which clients that start with TLS at once have to offer.
pub(super) const ALPN: &[u8] = b"postgresql";

/// A certificate with its key, from two files.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// `tls-server-end-point` of RFC 5929: the hash of the certificate.
    end_point: Arc<[u8]>,
    stamp: Stamp,
}

/// When both files were written last; None for one that can't be looked at.
type Stamp = [Option<SystemTime>; 2];

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate chain and its key, both in PEM.
    ///
    /// # Errors
    /// [`Error::Config`] when they can't be read, or don't belong together.
    pub fn load(cert: PathBuf, key: PathBuf) -> Result<Self> {
        let loaded = Loaded::read(&cert, &key)?;
        Ok(Self { cert, key, loaded: Mutex::new(loaded) })
    }

    /// Reads the files again. Connections from now on get the new certificate; those that are open keep theirs.
    ///
    /// # Errors
    /// As [`Self::load`]; then the old one stays in use.
    pub fn reload(&self) -> Result<()> {
        let loaded = Loaded::read(&self.cert, &self.key)?;
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
        tracing::info!(cert = %self.cert.display(), "the TLS certificate was read again");
        Ok(())
    }

    /// The certificate in use, after a look at its files.
    fn current(&self) -> Loaded {
        let known = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if stamp(&self.cert, &self.key) == known.stamp {
            return known;
        }
        // Perhaps only one of the two is written yet: the next connection looks again.
        if let Err(error) = self.reload() {
            tracing::warn!(%error, hint = error.hint(), "the TLS certificate has changed but can't be used; the old one stays");
        }
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server's side of the handshake. Gives the hash of the certificate too.
    pub(super) async fn accept(&self, socket: TcpStream) -> std::io::Result<(TlsStream<TcpStream>, Arc<[u8]>)> {
        let current = self.current();
        let stream = TlsAcceptor::from(current.config).accept(socket).await?;
        Ok((stream, current.end_point))
    }
}

fn stamp(cert: &Path, key: &Path) -> Stamp {
    [cert, key].map(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}

impl Loaded {
    fn read(cert: &Path, key: &Path) -> Result<Self> {
        // Looked at before they are read: what is written in between is read the next time.
        let stamp = stamp(cert, key);
        let wrong = |path: &Path, error: &dyn fmt::Display| Error::Config {
            message: format!("TLS file {} cannot be used: {error}", path.display()),
            hint: "--tls-cert takes the certificate with its chain and --tls-key its private key, both in PEM.".into(),
        };
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).map_err(|error| wrong(cert, &error))?;
        let Some(leaf) = chain.first() else { return Err(wrong(cert, &"it holds no certificate")) };
        let end_point = end_point(leaf).map_err(|error| wrong(cert, &error))?;
        warn_of_readers(key);
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(cert, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| wrong(cert, &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { config: Arc::new(config), end_point: end_point.into(), stamp })
    }
}

/// What was agreed on in the handshake, in the words of PostgreSQL's clients.
pub(super) fn encryption(connection: &rustls::ServerConnection) -> Encryption {
    let version = match connection.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "",
    };
    let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
    // rustls puts the version into the names of those of TLS 1.3.
    let cipher = suite.and_then(|suite| suite.as_str()).unwrap_or_default().replacen("TLS13_", "TLS_", 1);
    let bits = if cipher.contains("AES_128") { 128 } else { 256 };
    Encryption { version: version.into(), cipher, bits }
}

/// `tls-server-end-point` of RFC 5929: the hash of a certificate by the function that its own signature uses, or by
/// SHA-256 where that is a weak one.
///
/// # Errors
/// What is wrong with the certificate, in words.
pub fn end_point(leaf: &CertificateDer<'_>) -> Result<Vec<u8>, String> {
    let parsed = Certificate::from_der(leaf).map_err(|error| error.to_string())?;
    let algorithm = match parsed.signature_algorithm.oid.to_string().as_str() {
        // RSA and ECDSA with SHA-384.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => &digest::SHA384,
        // RSA and ECDSA with SHA-512; Ed25519, as OpenSSL's users do.
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "1.3.101.112" => &digest::SHA512,
        _ => &digest::SHA256,
    };
    Ok(digest::digest(algorithm, leaf).as_ref().to_vec())
}

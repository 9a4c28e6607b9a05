//! Who comes in, and what they may do: real clients against a real server.

mod cli;
mod hostile;
mod login;
mod owners;
mod privileges;
mod rights;
mod secrets;
mod terminal;
mod tls;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::NoTls;

use crate::server::{Server, Session};

pub(super) const PASSWORD: &str = "open sesame";

/// A server whose user root has a password.
pub(super) fn guarded(flags: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let mut all = vec!["--password-file", file.to_str().unwrap()];
    all.extend(flags);
    (Server::start_with(&all), dir)
}

pub(super) fn config(server: &Server, user: &str, password: Option<&str>) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config.host("localhost").hostaddr(server.address.ip()).port(server.address.port()).user(user).dbname("dev");
    if let Some(password) = password {
        config.password(password);
    }
    config
}

pub(super) async fn connect(
    server: &Server,
    user: &str,
    password: Option<&str>,
) -> Result<Session, tokio_postgres::Error> {
    let (client, connection) = config(server, user, password).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(Session(client))
}

/// SQLSTATE and message of a login that fails.
pub(super) async fn refused(server: &Server, user: &str, password: Option<&str>) -> String {
    match connect(server, user, password).await {
        Ok(_) => panic!("{user} came in"),
        Err(error) => match error.as_db_error() {
            Some(said) => format!("{} {}", said.code().code(), said.message()),
            None => format!("{error:?}"),
        },
    }
}

pub(super) fn psql(server: &Server, user: &str, password: Option<&str>, extra: &str, input: &str) -> Output {
    let mut psql = Command::new("psql");
    let target =
        format!("host=localhost hostaddr=127.0.0.1 port={} user={user} dbname=dev {extra}", server.address.port());
    psql.args(["-X", "-w", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &target]).env_remove("PGPASSWORD");
    if let Some(password) = password {
        psql.env("PGPASSWORD", password);
    }
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("psql");
    // It may have given up before it reads anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

pub(super) fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(super) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A certificate authority, and the files of a certificate that it gave `localhost`.
pub(super) struct Certificates {
    dir: tempfile::TempDir,
    authority: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // A name of its own: a certificate whose issuer has its own name counts as its own issuer.
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), root.pem()).unwrap();
        let certificates = Self { dir, authority: Issuer::new(params, key), root: root.der().clone() };
        certificates.issue("localhost");
        certificates
    }

    /// Writes another certificate over the last one.
    pub(super) fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.path("cert.pem"), leaf.pem()).unwrap();
        std::fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
    }

    /// Writes one over the last that signs itself, as `openssl req -x509` makes it: an authority, and a server's.
    pub(super) fn sign_itself(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.path("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(super) fn server(&self, flags: &[&str]) -> (Server, tempfile::TempDir) {
        let (cert, key) = (self.text("cert.pem"), self.text("key.pem"));
        let mut all = vec!["--tls-cert", &cert, "--tls-key", &key];
        all.extend(flags);
        guarded(&all)
    }

    /// A client's side that trusts the authority.
    pub(super) fn client(&self, alpn: bool) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        if alpn {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        config
    }
}

pub(super) async fn send(socket: &mut tokio::net::TcpStream, kind: Option<u8>, body: &[u8]) {
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    message.extend(body);
    socket.write_all(&message).await.unwrap();
}

pub(super) async fn receive(socket: &mut tokio::net::TcpStream) -> (u8, Vec<u8>) {
    let kind = socket.read_u8().await.unwrap();
    let mut body = vec![0; usize::try_from(socket.read_i32().await.unwrap() - 4).unwrap()];
    socket.read_exact(&mut body).await.unwrap();
    (kind, body)
}

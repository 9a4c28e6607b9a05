//! Who comes in, and what they may do: real clients against a real server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use tidegate::cli::connector::Connector;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::NoTls;
use tokio_postgres::config::{ChannelBinding, SslMode, SslNegotiation};

use crate::server::{Server, Session, program};

const PASSWORD: &str = "open sesame";

/// A server whose user root has a password.
fn guarded(flags: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let mut all = vec!["--password-file", file.to_str().unwrap()];
    all.extend(flags);
    (Server::start_with(&all), dir)
}

fn config(server: &Server, user: &str, password: Option<&str>) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config.host("localhost").hostaddr(server.address.ip()).port(server.address.port()).user(user).dbname("dev");
    if let Some(password) = password {
        config.password(password);
    }
    config
}

async fn connect(server: &Server, user: &str, password: Option<&str>) -> Result<Session, tokio_postgres::Error> {
    let (client, connection) = config(server, user, password).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(Session(client))
}

/// SQLSTATE and message of a login that fails.
async fn refused(server: &Server, user: &str, password: Option<&str>) -> String {
    match connect(server, user, password).await {
        Ok(_) => panic!("{user} came in"),
        Err(error) => match error.as_db_error() {
            Some(said) => format!("{} {}", said.code().code(), said.message()),
            None => format!("{error:?}"),
        },
    }
}

fn psql(server: &Server, user: &str, password: Option<&str>, extra: &str, input: &str) -> Output {
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

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A certificate authority, and the files of a certificate that it gave `localhost`.
pub struct Certificates {
    dir: tempfile::TempDir,
    authority: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Certificates {
    pub fn new() -> Self {
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
    fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.path("cert.pem"), leaf.pem()).unwrap();
        std::fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn server(&self, flags: &[&str]) -> (Server, tempfile::TempDir) {
        let (cert, key) = (self.text("cert.pem"), self.text("key.pem"));
        let mut all = vec!["--tls-cert", &cert, "--tls-key", &key];
        all.extend(flags);
        guarded(&all)
    }

    /// A client's side that trusts the authority.
    pub fn client(&self, alpn: bool) -> rustls::ClientConfig {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_a_password_proves_it_on_loopback_too() {
    let (server, _dir) = guarded(&[]);
    assert_eq!(connect(&server, "root", Some(PASSWORD)).await.unwrap().value("SELECT current_user").await, "root");
    assert_eq!(refused(&server, "root", Some("wrong")).await, "28P01 password authentication failed for user \"root\"");
    assert!(refused(&server, "root", None).await.contains("password missing"));
    assert_eq!(out(&psql(&server, "root", Some(PASSWORD), "", "SELECT 1")), "1");
    let wrong = psql(&server, "root", Some("wrong"), "", "SELECT 1");
    assert!(err(&wrong).contains("password authentication failed for user \"root\""), "{}", err(&wrong));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_password_is_not_gone_back_to_at_a_restart() {
    let (mut server, _dir) = guarded(&[]);
    let root = connect(&server, "root", Some(PASSWORD)).await.unwrap();
    root.run("ALTER USER root PASSWORD 'another'").await;
    server.kill_and_restart();
    assert!(refused(&server, "root", Some(PASSWORD)).await.starts_with("28P01"));
    connect(&server, "root", Some("another")).await.unwrap();
}

/// What a raw client reads when it names a user: the salt of the server's question, and its last word.
async fn told(server: &Server, user: &str) -> (String, String) {
    let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    body.extend(format!("user\0{user}\0database\0dev\0\0").as_bytes());
    send(&mut socket, None, &body).await;
    let (kind, methods) = receive(&mut socket).await;
    assert_eq!((kind, &methods[4..]), (b'R', &b"SCRAM-SHA-256\0\0"[..]));
    let first = b"n,,n=,r=clientnonce";
    let mut body = b"SCRAM-SHA-256\0".to_vec();
    body.extend(i32::try_from(first.len()).unwrap().to_be_bytes());
    body.extend(first);
    send(&mut socket, Some(b'p'), &body).await;
    let (_, question) = receive(&mut socket).await;
    let question = String::from_utf8(question[4..].to_vec()).unwrap();
    let parts: Vec<&str> = question.split(',').collect();
    assert_eq!((parts.len(), parts[2]), (3, "i=4096"));
    let proof = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [7; 32]);
    send(&mut socket, Some(b'p'), format!("c=biws,{},p={proof}", parts[0]).as_bytes()).await;
    let (kind, last) = receive(&mut socket).await;
    assert_eq!(kind, b'E');
    (parts[1].to_owned(), String::from_utf8(last).unwrap().replace(user, "?"))
}

async fn send(socket: &mut tokio::net::TcpStream, kind: Option<u8>, body: &[u8]) {
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    message.extend(body);
    socket.write_all(&message).await.unwrap();
}

async fn receive(socket: &mut tokio::net::TcpStream) -> (u8, Vec<u8>) {
    let kind = socket.read_u8().await.unwrap();
    let mut body = vec![0; usize::try_from(socket.read_i32().await.unwrap() - 4).unwrap()];
    socket.read_exact(&mut body).await.unwrap();
    (kind, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_without_a_user_looks_like_one_with_a_password() {
    let (server, _dir) = guarded(&[]);
    let root = connect(&server, "root", Some(PASSWORD)).await.unwrap();
    root.run("CREATE USER ended PASSWORD 'x' VALID UNTIL '2020-01-01'; CREATE ROLE shut").await;
    let (salt, last) = told(&server, "root").await;
    assert_eq!(told(&server, "root").await, (salt.clone(), last.clone()));
    let mut salts = vec![salt];
    for name in ["nobody", "ended", "shut", "tidegate_viewer"] {
        let (salt, said) = told(&server, name).await;
        assert_eq!(said, last, "{name}");
        // The same at every attempt, as a real one's.
        salts.push(salt);
        assert_eq!(salts.last().map(String::len), salts.first().map(String::len));
    }
    assert_eq!(told(&server, "nobody").await.0, salts[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_fails_again_and_again_has_to_wait() {
    let (server, _dir) = guarded(&[]);
    let delayed = async || {
        let metrics = http(&server, "/metrics").await;
        let line = metrics.lines().find(|line| line.starts_with("tidegate_logins_delayed_total "));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap())
    };
    for _ in 0..6 {
        assert!(refused(&server, "root", Some("wrong")).await.starts_with("28P01"));
    }
    // The first ones are free, and so was the sixth when it was made.
    assert_eq!(delayed().await, 0);
    assert!(refused(&server, "root", Some("wrong")).await.starts_with("28P01"));
    assert_eq!(delayed().await, 1);
    // The right password has to wait too, and then is right.
    connect(&server, "root", Some(PASSWORD)).await.unwrap();
    assert_eq!(delayed().await, 2);
}

async fn http(server: &Server, path: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(server.http).await.unwrap();
    socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens_beyond_loopback_with_a_user_without_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let serve = |flags: &[&str]| {
        let mut program = program();
        program.arg("serve").arg("--data-dir").arg(dir.path()).args(["--listen", "0.0.0.0:0", "--http", "127.0.0.1:0"]);
        program.args(flags).output().unwrap()
    };
    let refused = serve(&[]);
    let said = err(&refused);
    assert!(!refused.status.success() && said.contains("ERROR:  F0000: --listen 0.0.0.0 is beyond loopback"), "{said}");
    assert!(said.contains("root") && said.contains("HINT:  Set one with `tidegate passwd`"), "{said}");
    // A certificate that can't be used ends it too: never plain text instead.
    let refused = serve(&["--tls-cert", "/no/cert.pem", "--tls-key", "/no/key.pem"]);
    assert!(!refused.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_everybody_has_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, PASSWORD).unwrap();
    let server = Server::start_with(&["--listen", "0.0.0.0:0", "--password-file", file.to_str().unwrap()]);
    let root = connect(&server, "root", Some(PASSWORD)).await.unwrap();
    for sql in ["CREATE USER open", "ALTER USER root PASSWORD NULL", "CREATE USER open PASSWORD NULL"] {
        let told = root.error(sql).await;
        assert_eq!(
            (told.sqlstate.as_str(), told.detail.as_str()),
            ("22023", "The server listens beyond loopback."),
            "{sql}"
        );
    }
    root.run("CREATE ROLE group_of_some; CREATE USER closed PASSWORD 'x'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passwd_sets_a_password_from_standard_input() {
    let mut server = Server::start();
    connect(&server, "root", None).await.unwrap();
    server.kill();
    let mut passwd = program();
    let mut child =
        passwd.arg("passwd").arg("--data-dir").arg(server.data_dir()).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"geheim\n").unwrap();
    assert!(child.wait().unwrap().success());
    server.restart();
    assert!(refused(&server, "root", Some("x")).await.starts_with("28P01"));
    connect(&server, "root", Some("geheim")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_as_psql_asks_for_it() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&[]);
    let ca = certificates.text("ca.pem");
    let full = format!("sslmode=verify-full sslrootcert={ca} channel_binding=require");
    assert_eq!(out(&psql(&server, "root", Some(PASSWORD), &full, "SELECT 1")), "1");
    // Without TLS there is no channel to bind to.
    let plain = psql(&server, "root", Some(PASSWORD), "sslmode=disable channel_binding=require", "SELECT 1");
    assert!(!plain.status.success());
    assert_eq!(out(&psql(&server, "root", Some(PASSWORD), "sslmode=disable", "SELECT 1")), "1");
    let old = psql(&server, "root", Some(PASSWORD), "sslmode=require ssl_max_protocol_version=TLSv1.2", "SELECT 1");
    assert_eq!(out(&old), "1");
    // A certificate of another name.
    certificates.issue("elsewhere.example");
    let other = psql(&server, "root", Some(PASSWORD), &full, "SELECT 1");
    assert!(err(&other).contains("does not match host name"), "{}", err(&other));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_and_a_broken_one_is_not() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&[]);
    let shown = async || {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(certificates.client(true)));
        let socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown().await;
    certificates.issue("localhost");
    let second = shown().await;
    assert_ne!(first, second);
    server.signal("-HUP");
    assert_eq!(shown().await, second);
    std::fs::write(certificates.path("cert.pem"), "no certificate").unwrap();
    assert_eq!(shown().await, second);
}

#[test]
fn without_a_certificate_sighup_has_no_effect() {
    let mut server = Server::start();
    server.signal("-HUP");
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_bound_to_the_certificate() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&[]);
    for (negotiation, alpn) in [(SslNegotiation::Postgres, false), (SslNegotiation::Direct, true)] {
        let mut config = config(&server, "root", Some(PASSWORD));
        config.ssl_mode(SslMode::Require).channel_binding(ChannelBinding::Require).ssl_negotiation(negotiation);
        let connector = Connector::new(certificates.client(alpn));
        let (client, connection) = config.connect(connector.clone()).await.unwrap();
        tokio::spawn(connection);
        // A cancel request comes over TLS too.
        let cancel = client.cancel_token();
        let query =
            client.simple_query("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b");
        let canceled = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                cancel.cancel_query(connector.clone()).await.unwrap();
            }
        };
        let error = tokio::select! {
            result = query => result.unwrap_err(),
            () = canceled => unreachable!(),
        };
        assert_eq!(error.code().unwrap().code(), "57014");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_begins_with_tls_has_to_name_the_protocol() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&[]);
    let connector = tokio_rustls::TlsConnector::from(Arc::new(certificates.client(false)));
    let socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
    let mut nothing = Vec::new();
    let _ = stream.read_to_end(&mut nothing).await;
    assert_eq!(nothing, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_before_tls_is_not_taken_for_what_came_over_it() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&[]);
    let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut both = [8_i32.to_be_bytes(), 80_877_103_i32.to_be_bytes()].concat();
    both.extend([0, 0, 0, 8, 0, 3, 0, 0]);
    socket.write_all(&both).await.unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    assert_eq!(answer, b"S");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_can_be_required() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&["--tls-required"]);
    assert_eq!(refused(&server, "root", Some(PASSWORD)).await, "28000 this server takes connections over TLS only");
    assert_eq!(out(&psql(&server, "root", Some(PASSWORD), "sslmode=require", "SELECT 1")), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_takes_a_password_and_tls() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&["--tls-required"]);
    let check = |host: &str, query: &str, password: &str| {
        let url = format!("postgres://root@{host}:{}/dev?{query}", server.address.port());
        let mut program = program();
        program.args(["check", "--url", &url, "none", "1"]).env("PGPASSWORD", password).output().unwrap()
    };
    let query = format!("sslmode=verify-full&sslrootcert={}", certificates.text("ca.pem"));
    // It came in: the source isn't there.
    let asked = check("localhost", &query, PASSWORD);
    assert!(err(&asked).contains("source \"none\" does not exist"), "{}", err(&asked));
    assert!(err(&check("localhost", "sslmode=require", PASSWORD)).contains("does not exist"));
    let wrong = check("localhost", &query, "wrong");
    assert!(err(&wrong).contains("28P01"), "{}", err(&wrong));
    assert!(!err(&wrong).contains("wrong"), "{}", err(&wrong));
    assert!(err(&check("127.0.0.1", &query, PASSWORD)).contains("cannot connect"));
    assert!(err(&check("localhost", "sslmode=disable", PASSWORD)).contains("TLS only"));
}

#[tokio::test(flavor = "multi_thread")]
async fn psqls_password_sends_a_verifier() {
    let (server, _dir) = guarded(&[]);
    let root = connect(&server, "root", Some(PASSWORD)).await.unwrap();
    // What \password does: libpq asks how to hash, hashes, and sends the hash.
    assert_eq!(root.value("SHOW password_encryption").await, "scram-sha-256");
    let verifier = postgres_protocol::password::scram_sha_256(b"changed");
    root.run(&format!("ALTER USER \"root\" PASSWORD '{verifier}'")).await;
    assert_eq!(root.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'root'").await, verifier);
    connect(&server, "root", Some("changed")).await.unwrap();
    assert!(refused(&server, "root", Some(PASSWORD)).await.starts_with("28P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_shows_nowhere() {
    let (server, _dir) = guarded(&[]);
    let root = connect(&server, "root", Some(PASSWORD)).await.unwrap();
    root.run("CREATE USER u PASSWORD 'geheim'").await;
    let watcher = connect(&server, "root", Some(PASSWORD)).await.unwrap();
    let seen = watcher.rows("SELECT query FROM pg_stat_activity").await.concat();
    assert!(seen.contains(&"CREATE USER u PASSWORD '[hidden]'".to_owned()), "{seen:?}");
    for sql in ["ALTER USER u PASSWORD 'geheim' 'geheim'", "ALTER USER u 'geheim'", "ALTER USER u LOGIN 'geheim' x"] {
        let told = root.error(sql).await;
        assert!(!format!("{told:?}").contains("geheim"), "{told:?}");
    }
    let file = std::fs::read(server.data_dir().join("tidegate.db-wal")).unwrap();
    assert!(!file.windows(6).any(|bytes| bytes == b"geheim"), "the state file holds the password");
    let shown = watcher.rows("SELECT * FROM pg_roles, pg_user, rw_catalog.rw_users").await.concat();
    assert!(!shown.iter().any(|value| value.contains("SCRAM")), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_goes_takes_its_sessions_along_and_limits_hold() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u CONNECTION LIMIT 1").await;
    let first = connect(&server, "u", None).await.unwrap();
    assert_eq!(refused(&server, "u", None).await, "53300 too many connections for role \"u\"");
    assert_eq!(first.value("SELECT 1").await, "1");
    root.run("DROP USER u").await;
    let ended = first.0.simple_query("SELECT 1").await.unwrap_err();
    assert!(ended.is_closed() || ended.code().is_some_and(|code| code.code() == "57P01"), "{ended}");
    assert!(refused(&server, "u", Some("x")).await.starts_with("28P01"));
}

/// Every statement of ours, by whoever may look, act, own, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_matrix_of_who_may_do_what() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER owner_; CREATE USER viewer; CREATE USER operator; CREATE USER nobody").await;
    root.run(
        "GRANT CREATE ON SCHEMA public TO owner_; GRANT tidegate_viewer TO viewer; GRANT tidegate_operator TO operator",
    )
    .await;
    let owner = connect(&server, "owner_", None).await.unwrap();
    let options = "WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON";
    owner.run(&format!("CREATE SOURCE s (id BIGINT) {options}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    root.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state = 'Finished'", "2").await;
    root.wait_for("SELECT tidegate.can_rescale('s', '2')", "t").await;
    let viewer = connect(&server, "viewer", None).await.unwrap();
    let operator = connect(&server, "operator", None).await.unwrap();
    let nobody = connect(&server, "nobody", None).await.unwrap();
    // Who may: n nobody, v viewer, o operator, w owner. What all may end up refused for is another reason than 42501.
    let matrix: &[(&str, &str)] = &[
        ("SELECT * FROM mv", "vow"),
        ("SELECT * FROM tidegate.split_backfill_progress", "vo"),
        ("SELECT * FROM rw_catalog.rw_sources", "vo"),
        ("SELECT * FROM internal_source_backfill_progress()", "vo"),
        ("SELECT relname FROM pg_class", "nvow"),
        ("SELECT table_name FROM information_schema.tables", "nvow"),
        ("SELECT * FROM pg_authid", ""),
        ("SELECT * FROM pg_shadow", ""),
        ("SELECT * FROM tidegate.check_rescale('s', '2')", "vow"),
        ("SELECT tidegate.can_rescale('s', '2')", "vow"),
        ("EXPLAIN ALTER SOURCE s SET PARALLELISM = 2", "vow"),
        ("ALTER SOURCE s SET PARALLELISM = 2", "ow"),
        ("ALTER SOURCE s SET source_rate_limit = 1000", "ow"),
        ("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = 1000", "ow"),
        ("ALTER MATERIALIZED VIEW mv SET PARALLELISM = 2", "ow"),
        ("ALTER MATERIALIZED VIEW mv SET BACKFILL_PARALLELISM = 2", "ow"),
        ("CANCEL RESCALE 1", "ow"),
        ("RECOVER", "o"),
        ("FLUSH", "o"),
        ("WAIT", "nvow"),
        ("SHOW SOURCES", "nvow"),
        ("SHOW MATERIALIZED VIEWS", "nvow"),
        ("SHOW JOBS", "vo"),
        ("SHOW PARAMETERS", "vo"),
        ("SHOW CREATE SOURCE s", "vow"),
        ("SHOW CREATE MATERIALIZED VIEW mv", "vow"),
        ("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', splits = 1) FORMAT PLAIN ENCODE JSON", "w"),
        ("CREATE MATERIALIZED VIEW mv AS SELECT id FROM s", "w"),
        ("GRANT SELECT ON mv TO nobody", "w"),
        ("REVOKE SELECT ON mv FROM nobody", "w"),
        ("GRANT SELECT ON SCHEMA public TO nobody", ""),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO nobody", ""),
        ("GRANT tidegate_viewer TO nobody", ""),
        ("REVOKE tidegate_viewer FROM viewer", ""),
        ("CREATE USER x", ""),
        ("ALTER USER viewer NOLOGIN", ""),
        ("ALTER USER CURRENT_USER SUPERUSER", ""),
        ("ALTER USER viewer RENAME TO x", ""),
        ("DROP USER x", ""),
        ("DROP MATERIALIZED VIEW mv", "w"),
        ("DROP SOURCE s", "w"),
    ];
    for (sql, allowed) in matrix {
        // The owner last: it drops.
        for (letter, session) in [('n', &nobody), ('v', &viewer), ('o', &operator), ('w', &owner)] {
            let code = match session.0.simple_query(sql).await {
                Ok(_) => "00000".to_owned(),
                Err(error) => error.code().unwrap_or_else(|| panic!("{sql}: {error}")).code().to_owned(),
            };
            assert_eq!(code != "42501", allowed.contains(letter), "{sql} by {letter}: {code}");
        }
    }
    let history = root
        .rows(
            "SELECT DISTINCT requested_by, decision, sqlstate FROM tidegate.rescale_history
             WHERE statement = 'ALTER SOURCE s SET source_rate_limit = 1000' ORDER BY requested_by",
        )
        .await;
    assert_eq!(
        history,
        [
            ["nobody", "refused", "42501"],
            ["operator", "committed", "NULL"],
            ["owner_", "committed", "NULL"],
            ["viewer", "refused", "42501"],
        ]
    );
    let asked = "SELECT count(DISTINCT requested_by) FROM tidegate.rescale_history WHERE statement = ";
    assert_eq!(root.value(&format!("{asked}'ALTER SOURCE s SET PARALLELISM = 2'")).await, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_statements_are_hidden_and_their_sessions_safe() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u; CREATE USER op; GRANT tidegate_operator TO op").await;
    let user = connect(&server, "u", None).await.unwrap();
    let operator = connect(&server, "op", None).await.unwrap();
    let others = "SELECT DISTINCT query FROM pg_stat_activity WHERE usename <> current_user";
    assert_eq!(user.rows(others).await, [["<insufficient privilege>"]]);
    assert!(
        operator
            .rows(others)
            .await
            .concat()
            .iter()
            .any(|query| query.contains("insufficient") == query.contains("DISTINCT"))
    );
    let pid = async |session: &Session| session.value("SELECT pg_backend_pid()").await;
    let (root_pid, user_pid) = (pid(&root).await, pid(&user).await);
    assert_eq!(user.error(&format!("SELECT pg_terminate_backend({root_pid})")).await.sqlstate, "42501");
    assert_eq!(operator.error(&format!("SELECT pg_terminate_backend({root_pid})")).await.sqlstate, "42501");
    assert_eq!(operator.value(&format!("SELECT pg_cancel_backend({user_pid})")).await, "t");
    let again = connect(&server, "u", None).await.unwrap();
    assert_eq!(again.value(&format!("SELECT pg_cancel_backend({user_pid})")).await, "t");
}

/// A plan that is kept must not outlive what allowed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_holds_for_statements_that_are_prepared() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u; GRANT SELECT ON tidegate.settings TO u").await;
    let user = connect(&server, "u", None).await.unwrap();
    let prepared = user.0.prepare("SELECT name FROM tidegate.settings").await.unwrap();
    for _ in 0..2 {
        user.0.query(&prepared, &[]).await.unwrap();
        user.run("SELECT name FROM tidegate.settings").await;
    }
    root.run("REVOKE SELECT ON tidegate.settings FROM u").await;
    assert_eq!(user.0.query(&prepared, &[]).await.unwrap_err().code().unwrap().code(), "42501");
    assert_eq!(user.error("SELECT name FROM tidegate.settings").await.sqlstate, "42501");
}

#[test]
fn no_flag_takes_a_password() {
    let help = program().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("--password-file") && !help.contains("--password "), "{help}");
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md").exists());
}

//! TLS: certificates, channel binding, direct start-up, and what they keep out.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use tidegate::cli::connector::Connector;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::config::{ChannelBinding, SslMode, SslNegotiation};

use super::{Certificates, PASSWORD, config, err, out, psql, refused};
use crate::server::{PATIENCE, Server, program};

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
    let files = ["cert.pem", "key.pem"].map(|name| certificates.path(name));
    let written = files.each_ref().map(|file| std::fs::metadata(file).unwrap().modified().unwrap());
    std::fs::write(certificates.path("cert.pem"), "no certificate").unwrap();
    assert_eq!(shown().await, second);
    server.signal("-HUP");
    assert_eq!(shown().await, second);
    // A new one that the look at the files can't tell from the old one: the signal has them read.
    certificates.issue("localhost");
    for (file, at) in files.iter().zip(written) {
        std::fs::File::options().write(true).open(file).unwrap().set_modified(at).unwrap();
    }
    assert_eq!(shown().await, second);
    server.signal("-HUP");
    let since = std::time::Instant::now();
    while shown().await == second {
        assert!(since.elapsed() < PATIENCE, "SIGHUP has no effect");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
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
async fn a_connection_knows_how_it_is_encrypted() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&[]);
    let sql = "SELECT ssl, version, cipher, bits FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let over = |extra: &str| out(&psql(&server, "root", Some(PASSWORD), extra, sql));
    assert_eq!(over("sslmode=disable"), "f|||");
    assert!(over("sslmode=require").starts_with("t|TLSv1.3|TLS_"), "{}", over("sslmode=require"));
    let old = over("sslmode=require ssl_max_protocol_version=TLSv1.2");
    assert!(old.starts_with("t|TLSv1.2|TLS_ECDHE_"), "{old}");
    let gssapi = "SELECT gss_authenticated, encrypted FROM pg_stat_gssapi WHERE pid = pg_backend_pid()";
    assert_eq!(out(&psql(&server, "root", Some(PASSWORD), "", gssapi)), "f|f");
}

/// libpq itself begins with TLS from version 17 on, which comes inside psycopg's wheel.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_libpq_begins_with_tls() {
    let clients = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/libpq");
    let fetched = std::process::Command::new(clients.join("fetch.sh")).output().unwrap();
    if !fetched.status.success() {
        eprintln!("skipped: no libpq of version 17 or newer: {}", err(&fetched));
        return;
    }
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&["--tls-required"]);
    let mut python = std::process::Command::new(out(&fetched));
    python.arg(clients.join("direct.py")).args([
        &server.address.port().to_string(),
        &certificates.text("ca.pem"),
        PASSWORD,
    ]);
    assert_eq!(out(&python.output().unwrap()), "True TLSv1.3 256");
}

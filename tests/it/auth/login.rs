//! Passwords: how they are set, proven and kept.

use std::fs::Permissions;
use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use super::{Certificates, PASSWORD, connect, err, guarded, out, psql, receive, refused, send};
use crate::server::{Server, program};

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
        let (_, metrics) = server.http("/metrics").await;
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

#[test]
fn beyond_loopback_without_tls_there_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut serve = program();
    serve.args(["serve", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
    serve.env("TIDEGATE_ROOT_PASSWORD", PASSWORD).env("TIDEGATE_LOG", "info").stderr(Stdio::piped());
    let mut server = serve.spawn().unwrap();
    let mut said = String::new();
    for line in std::io::BufReader::new(server.stderr.take().unwrap()).lines() {
        said.push_str(&line.unwrap());
        if said.contains("listening on") {
            break;
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(said.contains("WARN") && said.contains("there is no TLS"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_secrets_that_others_may_read_are_told() {
    let certificates = Certificates::new();
    let password = certificates.path("password");
    std::fs::write(&password, PASSWORD).unwrap();
    let (cert, key) = (certificates.text("cert.pem"), certificates.text("key.pem"));
    for (file, other) in [(certificates.path("key.pem"), &password), (password.clone(), &certificates.path("key.pem"))]
    {
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        std::fs::set_permissions(other, Permissions::from_mode(0o600)).unwrap();
        let flags = ["--tls-cert", &cert, "--tls-key", &key, "--password-file", password.to_str().unwrap()];
        let server = Server::start_with(&flags);
        let told = "others than its owner may read it";
        server.wait_for_log(&["WARN", told, file.to_str().unwrap()]).await;
        assert!(!server.has_logged(&[told, other.to_str().unwrap()]));
    }
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
    passwd.arg("passwd").arg("--data-dir").arg(server.data_dir());
    let mut child = passwd.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"geheim\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let said = String::from_utf8(ended.stderr).unwrap();
    let dir = server.data_dir().display();
    assert_eq!(said, format!("The password of user \"root\" in {dir} is set.\n"));
    server.restart();
    assert!(refused(&server, "root", Some("x")).await.starts_with("28P01"));
    connect(&server, "root", Some("geheim")).await.unwrap();
}

#[test]
fn passwd_says_where_it_makes_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("new");
    let mut passwd = program();
    passwd.arg("passwd").arg("--data-dir").arg(&dir).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = passwd.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"geheim\n").unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let begin = format!("Made a new data directory, {}: serve it with --data-dir.\n", dir.display());
    assert!(said.starts_with(&begin), "{said}");
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

#[test]
fn no_flag_takes_a_password() {
    let help = program().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("--password-file") && !help.contains("--password "), "{help}");
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md").exists());
}

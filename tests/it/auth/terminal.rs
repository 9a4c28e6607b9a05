//! What asks on a terminal, on a pseudo-terminal that `script` makes.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::{PASSWORD, connect, guarded, refused};
use crate::server::Server;

/// Runs a command on a terminal, and types each answer when its question is there. Gives all that it has shown.
fn answer(command: &str, answers: &[(&str, &str)]) -> String {
    let mut script = Command::new("script")
        .args(["-q", "-e", "-c", command, "/dev/null"])
        .env("PGPASSWORD", PASSWORD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script, of the Debian package bsdutils");
    let (mut input, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let (mut shown, mut from) = (Vec::new(), 0);
    let mut byte = [0];
    for (question, text) in answers {
        while !String::from_utf8_lossy(&shown[from..]).contains(question) {
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{command}: {}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
        from = shown.len();
        input.write_all(format!("{text}\n").as_bytes()).unwrap();
    }
    output.read_to_end(&mut shown).unwrap();
    assert!(script.wait().unwrap().success(), "{}", String::from_utf8_lossy(&shown));
    String::from_utf8_lossy(&shown).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn psqls_password_asks_and_sets() {
    let (server, _dir) = guarded(&[]);
    let psql = format!("psql -X -h 127.0.0.1 -p {} -U root -d dev -c '\\password'", server.address.port());
    let shown = answer(&psql, &[("password", "changed"), ("again", "changed")]);
    assert!(!shown.contains("changed") && !shown.contains("ERROR"), "{shown}");
    connect(&server, "root", Some("changed")).await.unwrap();
    assert!(refused(&server, "root", Some(PASSWORD)).await.starts_with("28P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn passwd_asks_twice() {
    let mut server = Server::start();
    server.kill();
    let program = format!("{} passwd --data-dir {}", env!("CARGO_BIN_EXE_tidegate"), server.data_dir().display());
    let shown = answer(&program, &[("New password for user \"root\":", "geheim"), ("Again:", "geheim")]);
    assert!(!shown.contains("geheim"), "{shown}");
    server.restart();
    connect(&server, "root", Some("geheim")).await.unwrap();
    assert!(refused(&server, "root", Some("x")).await.starts_with("28P01"));
}

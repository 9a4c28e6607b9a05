//! What asks on a terminal, on a pseudo-terminal that `script` makes.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{PASSWORD, connect, guarded, refused};
use crate::server::{PATIENCE, Server};

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
        wait_for_silence(script.id());
        input.write_all(format!("{text}\n").as_bytes()).unwrap();
    }
    output.read_to_end(&mut shown).unwrap();
    assert!(script.wait().unwrap().success(), "{}", String::from_utf8_lossy(&shown));
    String::from_utf8_lossy(&shown).into_owned()
}

/// Waits until the terminal of what `script` runs doesn't echo: a question may be printed a moment before.
fn wait_for_silence(script: u32) {
    let since = Instant::now();
    loop {
        let children = std::fs::read_to_string(format!("/proc/{script}/task/{script}/children")).unwrap();
        let child = children.split_whitespace().next().expect("what script runs");
        let terminal = std::fs::read_link(format!("/proc/{child}/fd/0")).unwrap();
        let set = Command::new("stty").arg("-F").arg(terminal).arg("-a").output().unwrap();
        if String::from_utf8_lossy(&set.stdout).split_whitespace().any(|word| word == "-echo") {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "the terminal echoes what is typed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
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

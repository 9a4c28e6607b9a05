//! psql itself, with what it shows written in `tests/clients/psql.txt`.

use std::process::Command;

use crate::server::Server;

/// A text without the spaces that align it.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_shows_what_it_shows_of_postgresql() {
    let server = Server::start();
    let session = server.connect().await;
    session
        .run(
            "CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION, at TIMESTAMPTZ)
             WITH (connector = 'datagen', splits = 2, rows_per_split = 100) FORMAT PLAIN ENCODE JSON",
        )
        .await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT id, amount FROM s").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state = 'Finished'", "2").await;
    let expectations = include_str!("../clients/psql.txt");
    let mut shown = String::new();
    let mut command = "";
    let mut commands = 0;
    for line in expectations.lines().filter(|line| !line.starts_with('#')) {
        if let Some(next) = line.strip_prefix("> ") {
            command = next;
            commands += 1;
            shown = run(&server, command);
        } else {
            assert!(shown.contains(&squeezed(line)), "{command} doesn't show {line:?} but:\n{shown}");
        }
    }
    assert!(commands > 20);
}

/// Runs a command in psql, which must not complain.
fn run(server: &Server, command: &str) -> String {
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let mut psql = Command::new("psql");
    psql.args(["-X", "-h", &host, "-p", &port, "-U", "root", "-d", "dev", "-v", "ON_ERROR_STOP=1"]);
    let mut child = psql
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("psql, of the Debian package postgresql-client");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), format!("{command}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !err.contains("ERROR"), "{command}: {err}");
    squeezed(&out)
}

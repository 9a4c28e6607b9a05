//! psql itself. What it shows is written in `tests/clients/psql.golden`, which `TIDEGATE_REWRITE=1 cargo test` writes anew.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::server::{PATIENCE, Server};

/// The file of scripts and of what psql prints for them.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/psql.golden")
}

/// A server with a source, a view whose backfill has ended, and a user beside root.
async fn server() -> Server {
    let server = Server::start();
    let session = server.connect().await;
    for statement in [
        "CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION, at TIMESTAMPTZ)
         WITH (connector = 'datagen', splits = 2, rows_per_split = 100) FORMAT PLAIN ENCODE JSON",
        "CREATE MATERIALIZED VIEW mv AS SELECT id, amount FROM s",
        "CREATE USER bi PASSWORD 'looks'",
        "GRANT tidegate_viewer TO bi",
    ] {
        session.run(statement).await;
    }
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state = 'Finished'", "2").await;
    server
}

/// psql's arguments for a session of root's, without anything of the machine's.
fn arguments(server: &Server) -> Vec<String> {
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let fixed = ["-X", "-U", "root", "-d", "dev", "-P", "pager=off"].map(str::to_owned);
    fixed.into_iter().chain(["-h".into(), host, "-p".into(), port]).collect()
}

/// A program with psql's environment, and pipes.
fn spawn(program: &str, arguments: &[String]) -> Child {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs([
            ("LC_ALL", "C.UTF-8"),
            ("HOME", "/nonexistent"),
            ("PGTZ", "UTC"),
            ("TERM", "dumb"),
            ("PSQL_EDITOR", "true"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql, of the Debian package postgresql-client")
}

/// What psql prints for a script, its errors at the end.
fn run(server: &Server, script: &str) -> String {
    let mut child = spawn("psql", &arguments(server));
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // psql names the program and the line in its own complaints.
    format!("{out}{err}")
}

/// The output without what is another each time: see the file's head.
fn masked(server: &Server, output: &str) -> String {
    // A size of another width moves all columns behind it.
    let squeeze = output.lines().any(|line| line.split(" | ").any(is_size));
    let mut masked = String::new();
    for line in output.lines() {
        let mut line = line.replace(&server.address.port().to_string(), "<port>");
        if line.starts_with("Time: ") && line.ends_with(" ms") {
            "Time: <time>".clone_into(&mut line);
        }
        if squeeze {
            let cells = line.split(" | ").map(|cell| if is_size(cell) { "<size>" } else { cell.trim() });
            line = cells.collect::<Vec<_>>().join(" | ");
            if line.starts_with("--") && line.chars().all(|c| matches!(c, '-' | '+')) {
                "--".clone_into(&mut line);
            }
        }
        writeln!(masked, "{}", line.trim_end()).unwrap();
    }
    masked
}

fn is_size(cell: &str) -> bool {
    let mut words = cell.split_whitespace();
    words.next().is_some_and(|number| number.parse::<u64>().is_ok()) && matches!(words.next(), Some("kB" | "MB"))
}

/// One script of the file.
struct Script {
    /// The comments before it.
    comments: String,
    /// Its lines.
    lines: Vec<String>,
    /// Of lists of hundreds of rows only the last line is kept: how many there are.
    last_line: bool,
    expected: String,
}

fn scripts(text: &str) -> Vec<Script> {
    let mut scripts: Vec<Script> = Vec::new();
    let mut comments = String::new();
    let mut reading = false;
    for line in text.lines() {
        let command =
            line.strip_prefix("> ").map(|line| (line, false)).or(line.strip_prefix(">> ").map(|line| (line, true)));
        match command {
            Some((command, _)) if reading && scripts.last().is_some_and(|script| script.expected.is_empty()) => {
                scripts.last_mut().unwrap().lines.push(command.to_owned());
            }
            Some((command, last_line)) => {
                let comments = std::mem::take(&mut comments);
                scripts.push(Script { comments, lines: vec![command.to_owned()], last_line, expected: String::new() });
            }
            None if line.starts_with('#') => writeln!(comments, "{line}").unwrap(),
            None => {
                if let Some(script) = scripts.last_mut() {
                    writeln!(script.expected, "{line}").unwrap();
                }
            }
        }
        reading = command.is_some();
    }
    scripts
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_shows_what_is_written() {
    let server = server().await;
    let text = std::fs::read_to_string(golden()).unwrap();
    let rewrite = std::env::var_os("TIDEGATE_REWRITE").is_some();
    let (mut written, mut differences) = (String::new(), String::new());
    let scripts = scripts(&text);
    assert!(scripts.len() > 150, "{}", scripts.len());
    for script in scripts {
        let mut shown = masked(&server, &run(&server, &(script.lines.join("\n") + "\n")));
        if script.last_line {
            let last = shown.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
            shown = format!("{last}\n\n");
        } else if !shown.ends_with("\n\n") {
            shown.push('\n');
        }
        // Two empty lines would be read as one script's end and another's beginning.
        let mark = if script.last_line { ">>" } else { ">" };
        written.push_str(&script.comments);
        script.lines.iter().for_each(|line| writeln!(written, "{mark} {line}").unwrap());
        written.push_str(&shown);
        if shown != script.expected {
            let lines = script.lines.join("\n");
            writeln!(differences, "{lines}\nshould show:\n{}\nbut shows:\n{shown}", script.expected).unwrap();
        }
    }
    if rewrite {
        std::fs::write(golden(), written).unwrap();
    } else {
        assert!(differences.is_empty(), "{differences}");
    }
}

/// psql on a terminal, as people have it.
struct Terminal {
    child: Child,
    shown: std::sync::mpsc::Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn open(server: &Server) -> Self {
        // script gives the program that it runs a terminal, and passes on what it reads and writes.
        let command = format!("psql {}", arguments(server).join(" "));
        let mut child = spawn("script", &["-q".into(), "-e".into(), "-c".into(), command, "/dev/null".into()]);
        let mut out = child.stdout.take().unwrap();
        let (sender, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self { child, shown, text: String::new() };
        terminal.wait_for("dev=#");
        terminal
    }

    fn type_in(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits until the terminal shows this, and forgets all up to it.
    fn wait_for(&mut self, text: &str) {
        let since = Instant::now();
        loop {
            if let Some(at) = self.text.find(text) {
                self.text.drain(..at + text.len());
                return;
            }
            let left = PATIENCE.saturating_sub(since.elapsed());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("the terminal doesn't show {text:?} but {:?}", self.text),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tab_key_completes_names() {
    let server = server().await;
    let mut terminal = Terminal::open(&server);
    for (typed, completed) in [
        ("SELECT * FROM tidegate.split_b", "ackfill_progress"),
        ("SELECT * FROM rw_catalog.rw_so", "urces"),
        ("SELECT * FROM mv WHERE am", "ount"),
        ("DROP MATERIALIZED VIEW m", "v"),
        ("ALTER FOREIGN TABLE s", " "),
        ("SET search_p", "ath"),
        ("SET search_path TO tide", "gate"),
        ("SET ROLE ro", "ot"),
        ("\\df tidegate.can_r", "escale"),
        ("\\sf tidegate.can_r", "escale"),
        ("\\dn tide", "gate"),
        ("\\dT bigi", "nt"),
        ("\\des data", "gen"),
        ("\\dew tide", "gate"),
        ("\\dconfig sear", "ch_path"),
        ("\\du b", "i"),
        ("\\l d", "ev"),
    ] {
        terminal.type_in(typed);
        terminal.wait_for(typed);
        terminal.type_in("\t");
        terminal.wait_for(completed);
        // Takes the line back.
        terminal.type_in("\u{15}\n");
        terminal.wait_for("dev=#");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_set_without_being_shown() {
    let server = server().await;
    let mut terminal = Terminal::open(&server);
    terminal.type_in("\\password bi\n");
    terminal.wait_for("Enter new password");
    terminal.type_in("another\n");
    terminal.wait_for("Enter it again");
    terminal.type_in("another\n");
    terminal.wait_for("dev=#");
    terminal.type_in("\\echo done\n");
    terminal.wait_for("done");
    let url = |password: &str| format!("postgres://bi:{password}@{}/dev", server.address);
    assert!(tokio_postgres::connect(&url("looks"), tokio_postgres::NoTls).await.is_err());
    assert!(tokio_postgres::connect(&url("another"), tokio_postgres::NoTls).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn control_c_cancels_and_the_session_goes_on() {
    let server = server().await;
    let mut terminal = Terminal::open(&server);
    terminal.type_in("\\set VERBOSITY verbose\n");
    let session = server.connect().await;
    for endless in [
        "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b;",
        "COPY (SELECT 1 FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b) TO STDOUT \\g /dev/null",
        "SELECT 1 \\watch 0.01",
    ] {
        terminal.type_in(&format!("{endless}\n"));
        if endless.contains("watch") {
            terminal.wait_for("(every 0.01s)");
        } else {
            let runs = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'psql' AND state = 'active'";
            session.wait_for(runs, "1").await;
        }
        terminal.type_in("\u{3}");
        if !endless.contains("watch") {
            terminal.wait_for("57014");
        }
        terminal.wait_for("dev=#");
        terminal.type_in("SELECT 'still ' || 'there';\n");
        terminal.wait_for("still there");
    }
}

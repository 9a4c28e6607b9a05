//! A server in a process of its own, on free ports of the loopback, for tests that talk to it as users do.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// How long anything may take before a test gives up. Generous: it only bounds a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. Killed when it is dropped.
pub struct Server {
    child: Child,
    /// Where PostgreSQL clients connect.
    pub address: SocketAddr,
    /// Where HTTP is answered.
    pub http: SocketAddr,
    /// What it has logged.
    log: Arc<Mutex<String>>,
    dir: Option<TempDir>,
    data_dir: PathBuf,
    flags: Vec<String>,
    env: Vec<(String, String)>,
}

impl Server {
    /// Starts a server on a new data directory, with barriers every 50 ms.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server on a new data directory with further flags.
    pub fn start_with(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Self::start_on(&dir.path().join("data"), flags, &[]);
        server.dir = Some(dir);
        server
    }

    /// Starts a server on a data directory that outlives it, with further flags and environment.
    pub fn start_on(data_dir: &Path, flags: &[&str], env: &[(&str, &str)]) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let env: Vec<(String, String)> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (child, address, http, log) = spawn(data_dir, &flags, &env);
        Self { child, address, http, log, dir: None, data_dir: data_dir.to_path_buf(), flags, env }
    }

    /// How the process has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// The status code and the text that a path is answered with over HTTP.
    pub async fn http(&self, path: &str) -> (u16, String) {
        self.http_of(Some("localhost"), path).await
    }

    /// The same, asked of a name, or of none.
    pub async fn http_of(&self, host: Option<&str>, path: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut socket = tokio::net::TcpStream::connect(self.http).await.unwrap();
        let host = host.map_or_else(String::new, |host| format!("Host: {host}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    /// Waits until /healthz answers with this code, and returns what it says.
    pub async fn wait_for_health(&self, code: u16) -> String {
        let since = Instant::now();
        loop {
            let (now, text) = self.http("/healthz").await;
            if now == code {
                return text;
            }
            assert!(since.elapsed() < PATIENCE, "/healthz stays {now}: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a line of the log has all of these.
    pub async fn wait_for_log(&self, parts: &[&str]) {
        let since = Instant::now();
        while !self.has_logged(parts) {
            assert!(since.elapsed() < PATIENCE, "no line of the log has {parts:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether a line of the log has all of these by now.
    pub fn has_logged(&self, parts: &[&str]) -> bool {
        self.log.lock().unwrap().lines().any(|line| parts.iter().all(|part| line.contains(part)))
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The most memory that the process has used, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// The memory that the process uses, in bytes.
    #[allow(dead_code, reason = "a bench asks")]
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// A size in the kernel's words on the process, in bytes.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// The nice values of the process's threads whose names begin so.
    #[cfg(target_os = "linux")]
    pub fn nice_values(&self, name: &str) -> Vec<i32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
        // 1 (name) S ...: nice is the 17th behind the name.
        stats
            .filter_map(|stat| {
                let (head, rest) = stat.rsplit_once(") ").unwrap();
                head.split_once('(')
                    .unwrap()
                    .1
                    .starts_with(name)
                    .then(|| rest.split(' ').nth(16).unwrap().parse().unwrap())
            })
            .collect()
    }

    /// Ends the process at once, as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the process and starts another on the same data directory, on new ports.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Starts another process on the same data directory, after the last one has ended.
    pub fn restart(&mut self) {
        (self.child, self.address, self.http, self.log) = spawn(&self.data_dir, &self.flags, &self.env);
    }

    /// Sends the process a signal.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Asks the process to end, as an operator would, and waits for it.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("-TERM");
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "the server did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A connection.
    pub async fn connect(&self) -> Session {
        self.try_connect().await.unwrap()
    }

    /// A connection, if the server still answers.
    pub async fn try_connect(&self) -> Result<Session, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Session(client))
    }

    /// The URL that clients connect with.
    pub fn url(&self) -> String {
        format!("postgres://root@{}/dev?application_name=tests", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.dir.take());
    }
}

/// The program under test.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

fn spawn(
    data_dir: &Path,
    flags: &[String],
    env: &[(String, String)],
) -> (Child, SocketAddr, SocketAddr, Arc<Mutex<String>>) {
    let mut child = program()
        .arg("serve")
        .arg("--data-dir")
        .arg(data_dir)
        .args(["--http", "127.0.0.1:0"])
        .args(if flags.iter().any(|flag| flag == "--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
        .args(if flags.iter().any(|flag| flag == "--barrier-interval-ms") {
            &[][..]
        } else {
            &["--barrier-interval-ms", "50"]
        })
        .args(flags)
        .env("TIDEGATE_LOG", "info")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (found, addresses) = mpsc::channel();
    let log = Arc::<Mutex<String>>::default();
    let told = Arc::clone(&log);
    std::thread::spawn(move || {
        let verbose = std::env::var_os("TIDEGATE_TEST_LOG").is_some();
        for line in stderr.lines().map_while(Result::ok) {
            if let Some(pair) = addresses_in(&line) {
                let _ = found.send(pair);
            }
            if verbose || line.contains("ERROR") || line.contains("panicked") {
                eprintln!("server: {line}");
            }
            told.lock().unwrap().extend([&line, "\n"]);
        }
    });
    let (postgres, http) = addresses.recv_timeout(PATIENCE).expect("the server did not start");
    (child, postgres, http, log)
}

/// The addresses in the line that tells where the server listens.
fn addresses_in(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, rest) = line.split_once("listening on ")?;
    let postgres = rest.split_whitespace().next()?.parse().ok()?;
    let (_, http) = rest.split_once("HTTP on ")?;
    Some((postgres, http.split_whitespace().next()?.parse().ok()?))
}

/// A connection with a few words for tests.
pub struct Session(pub Client);

impl Session {
    /// Runs statements that have to succeed.
    pub async fn run(&self, sql: &str) {
        if let Err(error) = self.0.simple_query(sql).await {
            panic!("{sql}: {}", told(&error));
        }
    }

    /// The rows of a query as text, NULL as `NULL`.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        self.try_rows(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", told(&error)))
    }

    /// The rows of a query, or its error.
    pub async fn try_rows(&self, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
        let messages = self.0.simple_query(sql).await?;
        Ok(messages
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_owned()).collect())
                }
                _ => None,
            })
            .collect())
    }

    /// The only value of a query.
    pub async fn value(&self, sql: &str) -> String {
        let rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows[0][0].clone()
    }

    /// Waits until a query's only value is this one.
    pub async fn wait_for(&self, sql: &str, value: &str) {
        let since = Instant::now();
        loop {
            let now = self.value(sql).await;
            if now == value {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{sql} stays {now}, not {value}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The error of a statement that has to fail.
    pub async fn error(&self, sql: &str) -> Told {
        match self.0.simple_query(sql).await {
            Ok(_) => panic!("{sql} succeeded"),
            Err(error) => {
                let Some(error) = error.as_db_error() else { panic!("{sql}: {error}") };
                Told {
                    sqlstate: error.code().code().to_owned(),
                    message: error.message().to_owned(),
                    detail: error.detail().unwrap_or_default().to_owned(),
                    hint: error.hint().unwrap_or_default().to_owned(),
                }
            }
        }
    }
}

/// What a client is told of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its code.
    pub sqlstate: String,
    /// What happened.
    pub message: String,
    /// The facts.
    pub detail: String,
    /// The next step.
    pub hint: String,
}

fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| format!("{error:?}"))
}

//! Tidegate beside PostgreSQL 15 with the same rows: `cargo bench --bench postgres`.
//!
//! pgbench runs the same scripts against both, in turns, round by round. The table has, of all rounds, the smallest and the
//! median latency of each, and the same of the rounds' ratios. It needs Debian's `postgresql` (pgbench and the server, found
//! in `PG_BIN` or where Debian puts version 15); as root, PostgreSQL runs as the user `postgres`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::SinkExt as _;
use server::Server;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

#[allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "it is the tests' own")]
#[path = "../tests/it/server.rs"]
mod server;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;

/// Seconds of one run of pgbench.
const SECONDS: &str = "2";

const SIZES: &[usize] = &[10, 1_000, 100_000];

fn main() -> Result<()> {
    let table = tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run())?;
    let cores = std::thread::available_parallelism()?;
    Ok(writeln!(std::io::stdout(), "cargo bench --bench postgres    ({cores} cores)\n\n{table}")?)
}

async fn run() -> Result<String> {
    let bin = PathBuf::from(std::env::var_os("PG_BIN").unwrap_or_else(|| "/usr/lib/postgresql/15/bin".into()));
    let postgres = Postgres::start(&bin).await?;
    let tidegate = Server::start_with(&["--barrier-interval-ms", "1000"]);
    let sides = [
        Side { bin: bin.clone(), address: postgres.address, user: "postgres", database: "postgres" },
        Side { bin, address: tidegate.address, user: "root", database: "dev" },
    ];
    fill(&sides).await?;
    let mut table = String::from(
        "| measured | PostgreSQL 15 (min, median) | Tidegate (min, median) | ratio (min, median) | aim |\n|---|---|---|---|---|\n",
    );
    for case in cases(&sides)? {
        writeln!(std::io::stderr(), "{}", case.name)?;
        case.measure(&sides, &mut table)?;
    }
    Ok(table)
}

// --- What is measured ----------------------------------------------------------------------------------------------

struct Case {
    name: String,
    /// What PostgreSQL is asked, and Tidegate.
    scripts: [String; 2],
    mode: &'static str,
    clients: usize,
    aim: &'static str,
}

fn cases(sides: &[Side; 2]) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add = |what: &str, scripts: [String; 2], aims: [&'static str; 3]| {
        for (mode, clients, aim) in
            [("prepared", 1, aims[0]), ("simple", 1, aims[1]), ("prepared", 8, aims[2]), ("simple", 8, aims[2])]
        {
            let name = format!("{what}, {mode}, {clients} client{}", if clients == 1 { "" } else { "s" });
            cases.push(Case { name, scripts: scripts.clone(), mode, clients, aim });
        }
    };
    let both = |sql: String| [sql.clone(), sql];
    add(
        "ten rows of the progress table",
        [
            "SELECT * FROM progress;".into(),
            "SELECT * FROM tidegate.split_backfill_progress WHERE job_name = 'ten';".into(),
        ],
        ["1.5x", "3x", "2x"],
    );
    for rows in SIZES {
        add(&format!("all of {rows} rows"), both(format!("SELECT * FROM r{rows};")), ["1.5x", "3x", "2x"]);
    }
    for rows in SIZES {
        let sql = format!("SELECT grp, count(*), sum(amount), max(id) FROM r{rows} GROUP BY grp;");
        let aims = if *rows == 100_000 { ["0.2x", "0.2x", "2x"] } else { ["1.5x", "3x", "2x"] };
        add(&format!("grouping {rows} rows"), both(sql), aims);
    }
    for command in ["\\d", "\\d r10", "\\l", "\\dn"] {
        cases.push(Case {
            name: format!("psql's {command}, all its queries"),
            scripts: [sides[0].queries_of(command)?, sides[1].queries_of(command)?],
            mode: "simple",
            clients: 1,
            aim: "3x",
        });
    }
    Ok(cases)
}

impl Case {
    fn measure(&self, sides: &[Side; 2], table: &mut String) -> Result<()> {
        let (mut latencies, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..ROUNDS {
            let mut round = [0.0; 2];
            for ((side, script), latency) in sides.iter().zip(&self.scripts).zip(&mut round) {
                *latency = side.bench(script, self.mode, self.clients)?;
            }
            latencies.iter_mut().zip(round).for_each(|(all, latency)| all.push(latency));
            ratios.push(round[1] / round[0]);
        }
        let [theirs, ours] = latencies.map(|all| show(all, " ms"));
        writeln!(table, "| {} | {theirs} | {ours} | {} | {} |", self.name, show(ratios, "x"), self.aim)?;
        Ok(())
    }
}

/// Smallest and median.
fn show(mut figures: Vec<f64>, unit: &str) -> String {
    figures.sort_by(f64::total_cmp);
    format!("{:.3}, {:.3}{unit}", figures[0], figures[figures.len() / 2])
}

// --- The two servers -----------------------------------------------------------------------------------------------

struct Side {
    bin: PathBuf,
    address: SocketAddr,
    user: &'static str,
    database: &'static str,
}

impl Side {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command
            .args(["-h", &self.address.ip().to_string(), "-p", &self.address.port().to_string(), "-U", self.user])
            .stdin(Stdio::null());
        command
    }

    async fn connect(&self) -> Result<Client> {
        let url = format!("postgres://{}@{}/{}", self.user, self.address, self.database);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The mean latency of a script, in milliseconds.
    fn bench(&self, script: &str, mode: &str, clients: usize) -> Result<f64> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(script.as_bytes())?;
        let clients = clients.to_string();
        let output = self
            .command("pgbench")
            .args(["-n", "-M", mode, "-c", &clients, "-T", SECONDS, "-f"])
            .arg(file.path())
            .arg(self.database)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let latency = said.lines().find_map(|line| line.strip_prefix("latency average = ")?.strip_suffix(" ms"));
        match latency {
            Some(latency) if output.status.success() => Ok(latency.parse()?),
            _ => Err(format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }

    /// What psql asks this server for a backslash command, as a script.
    fn queries_of(&self, command: &str) -> Result<String> {
        let output = self.command("psql").args(["-X", "-E", "-d", self.database, "-c", command]).output()?;
        if !output.status.success() {
            return Err(format!("psql: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let (said, mut script, mut inside) = (String::from_utf8(output.stdout)?, String::new(), false);
        for line in said.lines() {
            match line {
                "********* QUERY **********" => inside = true,
                "**************************" => inside = false,
                line if inside => writeln!(script, "{line}")?,
                _ => {}
            }
        }
        Ok(script)
    }
}

/// A PostgreSQL of its own, stopped when it is dropped.
struct Postgres {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Postgres {
    async fn start(bin: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let is_root = Command::new("id").arg("-u").output()?.stdout.starts_with(b"0\n");
        let program = |name: &str| {
            let mut command = Command::new(if is_root { "runuser" } else { "env" });
            if is_root {
                command.args(["-u", "postgres", "--"]);
            }
            command.arg(bin.join(name)).current_dir("/");
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        if is_root {
            Command::new("chown").arg("postgres").arg(dir.path()).status()?;
        }
        let data = dir.path().join("data");
        let made = program("initdb").args(["-A", "trust", "-U", "postgres", "-D"]).arg(&data).status()?;
        if !made.success() {
            return Err("initdb failed".into());
        }
        // Free now, and hardly taken by anybody else until the server listens.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = program("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-k", "", "-p", &address.port().to_string()])
            .spawn()?;
        let started = Self { child, address, dir };
        let since = Instant::now();
        let side = Side { bin: bin.into(), address, user: "postgres", database: "postgres" };
        while let Err(error) = side.connect().await {
            if since.elapsed() > Duration::from_secs(60) {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(started)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its fast shutdown, of the server itself: what started it as another user doesn't pass it on.
        let pid = std::fs::read_to_string(self.dir.path().join("data/postmaster.pid")).unwrap_or_default();
        let _ = Command::new("kill").args(["-INT", pid.lines().next().unwrap_or_default()]).status();
        let _ = self.child.wait();
    }
}

// --- The same rows in both -----------------------------------------------------------------------------------------

async fn fill(sides: &[Side; 2]) -> Result<()> {
    let (theirs, ours) = (sides[0].connect().await?, sides[1].connect().await?);
    for rows in SIZES {
        ours.batch_execute(&format!(
            "CREATE SOURCE s{rows} (id BIGINT, name VARCHAR, amount DOUBLE PRECISION, at TIMESTAMPTZ)
               WITH (connector = 'datagen', splits = 1, rows_per_split = {rows}) FORMAT PLAIN ENCODE JSON;
             CREATE MATERIALIZED VIEW r{rows} AS SELECT id, name, amount, id % 100 AS grp, at FROM s{rows};"
        ))
        .await?;
        wait_for(&ours, &format!("SELECT count(*) FROM r{rows}"), *rows).await?;
        let columns = "id BIGINT, name VARCHAR, amount DOUBLE PRECISION, grp BIGINT, at TIMESTAMPTZ";
        copy(&ours, &format!("SELECT * FROM r{rows}"), &theirs, &format!("r{rows}"), columns).await?;
    }
    ours.batch_execute(
        "CREATE SOURCE ten_splits (id BIGINT)
           WITH (connector = 'datagen', splits = 10, rows_per_split = 100) FORMAT PLAIN ENCODE JSON;
         CREATE MATERIALIZED VIEW ten AS SELECT id FROM ten_splits; FLUSH; FLUSH; FLUSH",
    )
    .await?;
    let progress = "SELECT * FROM tidegate.split_backfill_progress WHERE job_name = 'ten'";
    let types = ours
        .prepare(progress)
        .await?
        .columns()
        .iter()
        .map(|column| format!("{} {}", column.name(), column.type_().name()))
        .collect::<Vec<_>>()
        .join(", ");
    copy(&ours, progress, &theirs, "progress", &types).await?;
    theirs.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

async fn wait_for(client: &Client, count: &str, rows: usize) -> Result<()> {
    while client.query_one(count, &[]).await?.try_get::<_, i64>(0)? != i64::try_from(rows)? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Makes a table with the rows of a query to another server.
async fn copy(from: &Client, query: &str, to: &Client, table: &str, columns: &str) -> Result<()> {
    to.batch_execute(&format!("CREATE TABLE {table} ({columns})")).await?;
    let mut text = String::new();
    for message in from.simple_query(query).await? {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|column| row.get(column).unwrap_or("\\N").to_owned());
            writeln!(text, "{}", values.collect::<Vec<_>>().join("\t"))?;
        }
    }
    let mut sink = Box::pin(to.copy_in(&format!("COPY {table} FROM STDIN")).await?);
    sink.send(Bytes::from(text)).await?;
    sink.close().await?;
    Ok(())
}

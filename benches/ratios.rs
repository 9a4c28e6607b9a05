//! Tidegate against bare SQLite, side by side in one run: `cargo bench --bench ratios`.
//!
//! Every pair is measured in turns, round by round, so that whatever else the machine does hits both alike. The table
//! has, of all rounds, the smallest and the median figure of each side, and the same of the rounds' ratios. Names of
//! sections (`check`, `query`, `backfill`, `kafka`) given after `--` run just these. The last says so and does nothing on
//! a machine without Apache Kafka (`tests/clients/kafka/fetch.sh`).

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use tidegate::backfill::check::{Decision, Policy, check};
use tidegate::backfill::target::Target;
use tidegate::config::{Config, Flags};
use tidegate::serve::{Listeners, serve};
use tidegate::store::Store;
use tidegate::store::check_input::{Surroundings, check_input};
use tidegate::{catalog, clock, observe};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

#[path = "ratios/kafka.rs"]
mod kafka;

#[allow(dead_code, clippy::unwrap_used, reason = "it is the tests' own")]
#[path = "../tests/it/kafka/broker.rs"]
mod broker;

/// What the broker takes from the tests' server.
mod server {
    pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |section: &str| asked.is_empty() || asked.iter().any(|name| name == section);
    // As the program's own: see `main.rs`.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(8)
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()?;
    let metrics = observe::install_metrics()?;
    let mut table = String::from(
        "| measured | Tidegate (min, median) | bare SQLite (min, median) | outcome (min, median) | aim |\n\
         |---|---|---|---|---|\n",
    );
    if wanted("check") {
        checking(&mut table)?;
    }
    if wanted("query") {
        runtime.block_on(querying(&mut table, &metrics))?;
    }
    if wanted("backfill") {
        runtime.block_on(backfilling(&mut table, &metrics))?;
    }
    if wanted("kafka") {
        runtime.block_on(kafka::consuming(&mut table, &metrics))?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "cargo bench --bench ratios    ({} cores)\n\n{table}", std::thread::available_parallelism()?)?;
    Ok(())
}

// --- What all sections share ---------------------------------------------------------------------------------------

/// One figure of every round.
#[derive(Default)]
struct Rounds(Vec<f64>);

impl Rounds {
    fn add(&mut self, figure: f64) {
        self.0.push(figure);
        self.0.sort_by(f64::total_cmp);
    }

    /// Smallest and median.
    fn show(&self, decimals: usize, unit: &str) -> String {
        format!("{:.decimals$}, {:.decimals$}{unit}", self.0[0], self.0[self.0.len() / 2])
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Times some work, and hands its outcome to the optimizer as used.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    black_box(work()?);
    Ok(start.elapsed())
}

/// Runs a prepared query and looks at every value. Answers how many rows there were.
fn read_all(statement: &mut rusqlite::Statement<'_>) -> Result<usize> {
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            black_box(row.get_ref(column)?);
        }
        count += 1;
    }
    Ok(count)
}

/// A server of this process, on a new data directory and free ports.
struct Server {
    dir: TempDir,
    address: SocketAddr,
    shutdown: CancellationToken,
    running: JoinHandle<tidegate::error::Result<()>>,
}

impl Server {
    async fn start(metrics: &PrometheusHandle) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = Config::load(Flags {
            data_dir: Some(dir.path().into()),
            listen: Some(any),
            http: Some(any),
            ..Flags::default()
        })?;
        let listeners = Listeners::bind(&config).await?;
        let address = listeners.postgres.local_addr()?;
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(serve(config, listeners, None, metrics.clone(), shutdown.clone()));
        Ok(Self { dir, address, shutdown, running })
    }

    async fn connect(&self) -> Result<Client> {
        let (client, connection) =
            tokio_postgres::connect(&format!("postgres://root@{}/dev", self.address), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The state file, opened beside the server.
    fn file(&self) -> PathBuf {
        self.dir.path().join("tidegate.db")
    }

    async fn stop(self) -> Result<()> {
        self.shutdown.cancel();
        Ok(self.running.await??)
    }
}

// --- The check against a scan --------------------------------------------------------------------------------------

const SPLITS: i64 = 100_000;

/// The forwarding-stage check of a source whose splits are all Finished, from the first read to the verdicts, against
/// reading every row of the state table.
fn checking(table: &mut String) -> Result<()> {
    const ROUNDS: usize = 25;
    let dir = tempfile::tempdir()?;
    fill_states(dir.path())?;
    let store = Store::open(dir.path())?;
    let target = Target::parse("7")?;
    let surroundings =
        Surroundings { available: 8, barrier_interval: 1_000_000, now: clock::now_micros(), asking: None };
    let (mut ours, mut bare, mut ratio) = (Rounds::default(), Rounds::default(), Rounds::default());
    for _ in 0..ROUNDS {
        let snapshot = store.snapshot()?;
        let mut checked = Ok(0);
        let check = timed(|| {
            let input = snapshot.with(|connection| check_input(connection, "s", target, &surroundings))?;
            let report = check(&input, Policy::Forwarding);
            checked = if report.decision() == Decision::Pass { Ok(report.splits.len()) } else { Err("not passed") };
            // The drop of both is part of what it costs.
            Ok(())
        })?;
        let scan = snapshot.with(|connection| {
            let mut statement = connection.prepare_cached("SELECT split_id, state FROM backfill_states")?;
            timed(|| read_all(&mut statement))
        })?;
        assert_eq!(checked, Ok(usize::try_from(SPLITS)?));
        ours.add(millis(check));
        bare.add(millis(scan));
        ratio.add(check.as_secs_f64() / scan.as_secs_f64());
    }
    writeln!(
        table,
        "| check over {SPLITS} persisted splits | {} | scan of the same rows: {} | {} | 1.5x |",
        ours.show(1, " ms"),
        bare.show(1, " ms"),
        ratio.show(2, "x")
    )?;
    Ok(())
}

/// A state file with a source of 4 actors and a view of it that has been forwarding for long.
fn fill_states(dir: &Path) -> Result<()> {
    drop(Store::open(dir)?);
    let mut connection = Connection::open(dir.join("tidegate.db"))?;
    let tx = connection.transaction()?;
    let now = clock::now_micros();
    tx.execute("UPDATE meta SET epoch = 1000, checkpoint_at = ?1, next_actor_id = 9", [now])?;
    tx.execute_batch(
        "INSERT INTO relations VALUES (1, 'public', 's', 'source', 'root', '', 0);
         INSERT INTO relations VALUES (2, 'public', 'mv', 'materialized view', 'root', '', 1);
         INSERT INTO sources (id, connector, options_json, parallelism) VALUES (1, 'datagen', '{}', '4');
         INSERT INTO jobs VALUES (2, 'SELECT id FROM s', 'created', 0, '4', NULL, '[]', 1, 2);
         INSERT INTO fragments VALUES (3, 1, 1, 'source', NULL), (4, 2, 1, 'source scan', 900);
         INSERT INTO actors SELECT value + 1, 3, value, NULL, 0, 0 FROM json_each('[0, 1, 2, 3]');
         INSERT INTO actors SELECT value + 5, 4, value, 'forwarding', 0, 2 FROM json_each('[0, 1, 2, 3]');",
    )?;
    {
        let mut split = tx.prepare(
            "INSERT INTO splits (source_id, split_id, upstream_offset, low_watermark, high_watermark, latest_offset,
                                 first_seen_at, found_at_run_time) VALUES (1, ?1, 9999, 0, 10000, 9999, 0, 0)",
        )?;
        let mut assignment = tx.prepare("INSERT INTO split_assignments VALUES (1, ?1, ?2, 0, NULL)")?;
        let mut state = tx.prepare("INSERT INTO backfill_states VALUES (4, ?1, ?2, 1000)")?;
        let mut progress =
            tx.prepare("INSERT INTO split_progress VALUES (4, ?1, 0, 1, 2, 100.0, 500.0, 500.0, NULL, 2)")?;
        for number in 0..SPLITS {
            let id = number.to_string();
            let json = format!(
                r#"{{"num_consumed_rows": {}, "state": "Finished", "target_offset": "9999"}}"#,
                number % 10_000
            );
            split.execute([&id])?;
            assignment.execute(params![id, number % 4 + 1])?;
            state.execute(params![id, json])?;
            progress.execute([&id])?;
        }
    }
    tx.commit()?;
    Ok(())
}

// --- A catalog query over the wire against SQLite ------------------------------------------------------------------

/// Ten rows of the progress view over one connection, against the same view in SQLite, prepared.
async fn querying(table: &mut String, metrics: &PrometheusHandle) -> Result<()> {
    const ROUNDS: usize = 15;
    const QUERIES: u32 = 100;
    const SQL: &str = "SELECT * FROM tidegate.split_backfill_progress";
    let server = Server::start(metrics).await?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE SOURCE s (id BIGINT, name VARCHAR)
               WITH (connector = 'datagen', splits = 10, rows_per_split = 1000) FORMAT PLAIN ENCODE JSON;
             CREATE MATERIALIZED VIEW mv AS SELECT id, name FROM s;
             FLUSH; FLUSH;",
        )
        .await?;
    let prepared = client.prepare(SQL).await?;
    let sqlite = Connection::open(server.file())?;
    sqlite.pragma_update(None, "temp_store", "memory")?;
    catalog::prepare_connection(&sqlite)?;
    let mut direct = sqlite.prepare("SELECT * FROM \"tidegate.split_backfill_progress\"")?;

    let (mut extended, mut simple, mut empty, mut bare) =
        (Rounds::default(), Rounds::default(), Rounds::default(), Rounds::default());
    let (mut extended_adds, mut simple_adds) = (Rounds::default(), Rounds::default());
    let each = |start: Instant| millis(start.elapsed()) / f64::from(QUERIES);
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for _ in 0..QUERIES {
            assert_eq!(client.query(&prepared, &[]).await?.len(), 10);
        }
        let with_prepared = each(start);
        let start = Instant::now();
        for _ in 0..QUERIES {
            black_box(client.simple_query(SQL).await?);
        }
        let with_simple = each(start);
        let start = Instant::now();
        for _ in 0..QUERIES {
            assert_eq!(read_all(&mut direct)?, 10);
        }
        let directly = each(start);
        let start = Instant::now();
        for _ in 0..QUERIES {
            client.simple_query("").await?;
        }
        let with_empty = each(start);
        // The first round warms up.
        if round > 0 {
            extended.add(with_prepared);
            simple.add(with_simple);
            bare.add(directly);
            empty.add(with_empty);
            extended_adds.add(with_prepared - directly);
            simple_adds.add(with_simple - directly);
        }
    }
    let bare = bare.show(3, " ms");
    for (name, ours, adds, aim) in [
        ("prepared", &extended, &extended_adds, "0.3 ms on top"),
        ("simple protocol (plan kept)", &simple, &simple_adds, "0.3 ms on top"),
    ] {
        writeln!(
            table,
            "| catalog query of 10 rows, {name} | {} | {bare} | {} on top | {aim} |",
            ours.show(3, " ms"),
            adds.show(3, " ms")
        )?;
    }
    writeln!(table, "| for comparison: an empty statement's round trip | {} | | | |", empty.show(3, " ms"))?;
    drop(client);
    server.stop().await
}

// --- A backfill against inserts ------------------------------------------------------------------------------------

/// Rows that a view takes in a second, against inserts of the same rows in the same number of transactions.
async fn backfilling(table: &mut String, metrics: &PrometheusHandle) -> Result<()> {
    const ROUNDS: usize = 5;
    const ROWS: usize = 1_000_000;
    let (mut ours, mut bare, mut ratio) = (Rounds::default(), Rounds::default(), Rounds::default());
    let mut transactions = Rounds::default();
    for _ in 0..ROUNDS {
        let server = Server::start(metrics).await?;
        let client = server.connect().await?;
        client
            .batch_execute(
                "CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION, name VARCHAR)
                   WITH (connector = 'datagen', splits = 4, rows_per_split = 250000) FORMAT PLAIN ENCODE JSON;
                 SET streaming_parallelism = 2;",
            )
            .await?;
        let sqlite = Connection::open(server.file())?;
        let epoch = || sqlite.query_row("SELECT epoch FROM meta", [], |row| row.get::<_, usize>(0));
        let before = epoch()?;
        let start = Instant::now();
        client.batch_execute("CREATE MATERIALIZED VIEW mv AS SELECT id, amount, name FROM s").await?;
        let backfill = start.elapsed();
        let epochs = epoch()? - before;
        let view: String =
            sqlite.query_row("SELECT 'mv_' || id FROM relations WHERE name = 'mv'", [], |row| row.get(0))?;
        let rows = rows_of(&sqlite, &view)?;
        assert_eq!(rows.len(), ROWS);
        drop((sqlite, client));
        server.stop().await?;

        let dir = tempfile::tempdir()?;
        let insert = insert_all(&dir.path().join("bare.db"), &rows, ROWS.div_ceil(epochs))?;
        let speed = |time: Duration| ROWS as f64 / time.as_secs_f64() / 1e3;
        ours.add(speed(backfill));
        bare.add(speed(insert));
        ratio.add(insert.as_secs_f64() / backfill.as_secs_f64());
        transactions.add(epochs as f64);
    }
    writeln!(
        table,
        "| backfill of {ROWS} rows (checkpoints: {}) | {} | inserts in as many transactions: {} | {} of SQLite's speed | 0.5 |",
        transactions.show(0, ""),
        ours.show(0, " thousand rows/s"),
        bare.show(0, " thousand rows/s"),
        ratio.show(2, "")
    )?;
    Ok(())
}

/// A row of the view, with its hidden columns.
type Row = (i64, String, i64, i64, f64, String);

fn rows_of(connection: &Connection, view: &str) -> Result<Vec<Row>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {view} ORDER BY rowid"))?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Inserts rows into a table like a view's.
fn insert_all(path: &Path, rows: &[Row], rows_per_transaction: usize) -> Result<Duration> {
    let mut connection = bare_table(path)?;
    timed(|| rows.chunks(rows_per_transaction).try_for_each(|part| insert_part(&mut connection, part)))
}

/// A table like a view's, in a file with the store's settings.
fn bare_table(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -64 * 1024)?;
    connection.execute_batch(
        "CREATE TABLE mv (_source_id INTEGER NOT NULL, _split TEXT NOT NULL, _offset INTEGER NOT NULL,
           id INTEGER, amount REAL, name TEXT) STRICT",
    )?;
    Ok(connection)
}

/// Inserts rows in one transaction.
fn insert_part(connection: &mut Connection, rows: &[Row]) -> Result<()> {
    let tx = connection.transaction()?;
    let mut statement = tx.prepare_cached("INSERT INTO mv VALUES (?, ?, ?, ?, ?, ?)")?;
    for row in rows {
        statement.raw_bind_parameter(1, row.0)?;
        statement.raw_bind_parameter(2, &row.1)?;
        statement.raw_bind_parameter(3, row.2)?;
        statement.raw_bind_parameter(4, row.3)?;
        statement.raw_bind_parameter(5, row.4)?;
        statement.raw_bind_parameter(6, &row.5)?;
        statement.raw_execute()?;
    }
    drop(statement);
    Ok(tx.commit()?)
}

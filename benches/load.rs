//! Many clients on many splits: `cargo bench --bench load [-- MINUTES]` (default: ten).
//!
//! 200 materialized views over 200 sources of 50 splits each, with rows coming in all the time; 500 connections that
//! idle, 64 that query without a pause, and one that rescales a source every second. What to look for: no error, memory
//! that doesn't grow, and barriers that come on time. All are printed, minute by minute; nothing is asserted, but an error
//! ends it with a failure.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use server::{Server, Session};
use tokio::sync::Mutex;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

#[allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "it is the tests' own")]
#[path = "../tests/it/server.rs"]
mod server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SOURCES: usize = 200;
const SPLITS: usize = 50;
const IDLE: usize = 500;
const BUSY: usize = 64;

/// What the busy clients ask, in turns: a BI tool's page, a pipeline's check, psql in an incident. `{n}` is a source's number.
const QUERIES: &[&str] = &[
    "SELECT split_id, state, progress_percent, eta FROM tidegate.split_backfill_progress WHERE job_name = 'mv{n}' ORDER BY split_id LIMIT 10",
    "SELECT * FROM tidegate.job_backfill_progress WHERE job_name = 'mv{n}'",
    "SELECT tidegate.can_rescale('s{n}', '3')",
    "SELECT count(*), max(id) FROM mv{n}",
    "SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'mv{n}'",
    "SELECT decision, count(*) FROM tidegate.rescale_history GROUP BY decision",
];

#[derive(Default)]
struct Seen {
    queries: AtomicU64,
    rescales: AtomicU64,
    refused: AtomicU64,
    errors: Mutex<Vec<String>>,
    /// Microseconds of each query since the last line.
    latencies: Mutex<Vec<u64>>,
}

fn main() -> Result<()> {
    let minutes = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10);
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(run(minutes))
}

async fn run(minutes: u64) -> Result<()> {
    let server = Server::start_with(&["--max-connections", "600", "--barrier-interval-ms", "1000"]);
    let since = Instant::now();
    set_up(&server).await?;
    say(&format!("{SOURCES} views of {SPLITS} splits each stand after {} s", since.elapsed().as_secs()))?;
    let (stop, seen) = (CancellationToken::new(), Arc::new(Seen::default()));
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(server.try_connect().await?);
    }
    let mut clients = Vec::new();
    for number in 0..BUSY {
        clients.push(tokio::spawn(ask(server.try_connect().await?, number, stop.clone(), Arc::clone(&seen))));
    }
    clients.push(tokio::spawn(rescale(server.try_connect().await?, stop.clone(), Arc::clone(&seen))));
    report(&server, &seen, minutes).await?;
    stop.cancel();
    for client in clients {
        client.await?;
    }
    for session in &idle {
        session.try_rows("SELECT 1").await?;
    }
    say("every idle connection still answers")?;
    let errors = seen.errors.lock().await;
    match errors.first() {
        None => say("no error"),
        Some(first) => Err(format!("{} errors, the first: {first}", errors.len()).into()),
    }
}

async fn set_up(server: &Server) -> Result<()> {
    let session = server.try_connect().await?;
    session.try_rows("SET streaming_parallelism = 2; SET background_ddl = true").await?;
    for n in 0..SOURCES {
        let source = format!(
            "CREATE SOURCE s{n} (id BIGINT, amount DOUBLE PRECISION)
             WITH (connector = 'datagen', splits = {SPLITS}, rows_per_second = 0.1, seed = {n}) FORMAT PLAIN ENCODE JSON"
        );
        session.try_rows(&source).await?;
        session.try_rows(&format!("CREATE MATERIALIZED VIEW mv{n} AS SELECT id, amount FROM s{n}")).await?;
    }
    session.try_rows("WAIT").await?;
    Ok(())
}

/// Queries without a pause.
async fn ask(session: Session, number: usize, stop: CancellationToken, seen: Arc<Seen>) {
    let mut turn = number;
    while !stop.is_cancelled() {
        let query = QUERIES[turn % QUERIES.len()].replace("{n}", &(turn * 7 % SOURCES).to_string());
        let since = Instant::now();
        if let Err(error) = session.try_rows(&query).await {
            seen.errors.lock().await.push(format!("{query}: {error}"));
            return;
        }
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        seen.latencies.lock().await.push(micros);
        seen.queries.fetch_add(1, Ordering::Relaxed);
        turn += 1;
    }
}

/// Rescales one source after the other. A refusal is an answer, too.
async fn rescale(session: Session, stop: CancellationToken, seen: Arc<Seen>) {
    for turn in 0.. {
        if stop.is_cancelled() {
            return;
        }
        let (source, parallelism) = (turn * 11 % SOURCES, 1 + turn % 4);
        let statement = format!("ALTER SOURCE s{source} SET PARALLELISM = {parallelism}");
        match session.try_rows(&statement).await {
            Ok(_) => seen.rescales.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.code().is_some_and(|code| code.code() == "55000") => {
                seen.refused.fetch_add(1, Ordering::Relaxed)
            }
            Err(error) => return seen.errors.lock().await.push(format!("{statement}: {error}")),
        };
        sleep(Duration::from_secs(1)).await;
    }
}

/// A line a minute.
async fn report(server: &Server, seen: &Seen, minutes: u64) -> Result<()> {
    say(
        "| minute | memory, MB | queries/s | median, ms | 99 %, ms | ALTERs done, refused | barriers | oldest checkpoint, s |",
    )?;
    say("|---|---|---|---|---|---|---|---|")?;
    let mut second = interval(Duration::from_secs(1));
    let (mut queries, mut epoch) = (0, gauge(server, "tidegate_epoch").await?);
    for minute in 1..=minutes {
        let mut oldest = 0.0_f64;
        for _ in 0..60 {
            second.tick().await;
            oldest = oldest.max(gauge(server, "tidegate_checkpoint_age_seconds").await?);
        }
        let mut latencies = std::mem::take(&mut *seen.latencies.lock().await);
        latencies.sort_unstable();
        let percentile =
            |percent| latencies.get(latencies.len() * percent / 100).map_or(0.0, |micros| *micros as f64 / 1e3);
        let (queries_now, epoch_now) = (seen.queries.load(Ordering::Relaxed), gauge(server, "tidegate_epoch").await?);
        say(&format!(
            "| {minute} | {} | {} | {:.1} | {:.1} | {}, {} | {} | {oldest:.1} |",
            server.memory() >> 20,
            (queries_now - queries) / 60,
            percentile(50),
            percentile(99),
            seen.rescales.load(Ordering::Relaxed),
            seen.refused.load(Ordering::Relaxed),
            epoch_now - epoch,
        ))?;
        (queries, epoch) = (queries_now, epoch_now);
    }
    Ok(())
}

/// A figure of `/metrics`.
async fn gauge(server: &Server, name: &str) -> Result<f64> {
    let (_, text) = server.http("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.ok_or_else(|| format!("no {name}"))?.trim().parse()?)
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

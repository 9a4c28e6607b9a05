//! What the outside can see without SQL: `/healthz`, `/metrics` and a status page.
//!
//! Gauges are read from the store when they are asked for, so they show what the catalog shows. Counters and times are
//! counted where things happen, through the `metrics` crate.

mod status;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use metrics::{describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::clock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::{Context, Store};

/// Seconds that one checkpoint took, from its barrier to its commit.
pub const CHECKPOINT_SECONDS: &str = "tidegate_checkpoint_seconds";
/// Rows that the views took in.
pub const ROWS: &str = "tidegate_view_rows_total";
/// Recoveries from the last checkpoint.
pub const RECOVERIES: &str = "tidegate_recoveries_total";

/// Logins that failed.
pub const LOGINS_FAILED: &str = "tidegate_logins_failed_total";
/// Logins that had to wait, since too many from their address had failed.
pub const LOGINS_DELAYED: &str = "tidegate_logins_delayed_total";

/// A checkpoint older than this many barrier intervals (and five seconds more) is not healthy.
const STALE_INTERVALS: i64 = 5;

/// What the endpoints show.
struct Observed {
    engine: Arc<dyn Engine>,
    store: Store,
    metrics: PrometheusHandle,
    barrier_interval: i64,
}

/// Sets up the process's metrics. At most once in a process.
///
/// # Errors
/// [`Error::Internal`] when another recorder is set up already.
pub fn install_metrics() -> Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| Error::Internal(format!("metrics cannot be set up: {error}")))?;
    describe_histogram!(CHECKPOINT_SECONDS, "Seconds from a barrier to its commit.");
    describe_counter!(ROWS, "Rows that the materialized views took in.");
    describe_counter!(RECOVERIES, "Recoveries from the last checkpoint.");
    describe_counter!(LOGINS_FAILED, "Logins that failed.");
    describe_counter!(LOGINS_DELAYED, "Logins that had to wait, since too many from their address had failed.");
    describe_gauge!("tidegate_epoch", "The last committed checkpoint.");
    describe_gauge!("tidegate_checkpoint_age_seconds", "Seconds since the last checkpoint.");
    describe_gauge!("tidegate_splits", "Splits of all materialized views, by state.");
    describe_gauge!("tidegate_pending_rescales", "Rescales that wait until they are safe.");
    describe_gauge!("tidegate_rescales", "Decided rescales, by decision.");
    describe_gauge!("tidegate_invariant_violations", "Rows of tidegate.invariant_violations.");
    describe_gauge!("tidegate_bad_rows", "Rows of tidegate.bad_rows.");
    Ok(handle)
}

/// Answers HTTP requests until `shutdown` fires. `barrier_interval` is in microseconds.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<dyn Engine>,
    store: Store,
    metrics: PrometheusHandle,
    barrier_interval: i64,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let observed = Arc::new(Observed { engine, store, metrics, barrier_interval });
    let router = Router::new()
        .route("/", get(show_status))
        .route("/healthz", get(health))
        .route("/metrics", get(scrape))
        .layer(from_fn(local_names_only))
        .with_state(observed);
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

/// Refuses what was asked of another name than this machine's own: a page from elsewhere can have its name lead to
/// loopback, and would read what the browser's user may see.
async fn local_names_only(request: Request, next: Next) -> Response {
    if request.headers().get(header::HOST).is_none_or(is_local) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, "ask for localhost, or for an address\n").into_response()
}

fn is_local(host: &HeaderValue) -> bool {
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<Authority>() else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

/// 200 while checkpoints are made, 503 with the reason when they aren't.
async fn health(State(observed): State<Arc<Observed>>) -> Response {
    if let Some(trouble) = observed.engine.trouble() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("no checkpoint can be made: {trouble}\n")).into_response();
    }
    match observed.store.snapshot().and_then(|snapshot| snapshot.with(last_checkpoint)) {
        Ok((epoch, at)) => {
            let age = clock::now_micros() - at;
            // One from the future says no more than an old one: the clock was set back since.
            let healthy = age.abs() <= STALE_INTERVALS * observed.barrier_interval + 5_000_000;
            let code = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (code, format!("epoch {epoch}, committed {:.1} s ago\n", age as f64 / 1e6)).into_response()
        }
        Err(error) => failed(&error),
    }
}

async fn scrape(State(observed): State<Arc<Observed>>) -> Response {
    match observed.store.snapshot().and_then(|snapshot| snapshot.with(read_gauges)) {
        Ok(()) => {
            let content_type = (header::CONTENT_TYPE, "text/plain; version=0.0.4");
            ([content_type], observed.metrics.render()).into_response()
        }
        Err(error) => failed(&error),
    }
}

async fn show_status(State(observed): State<Arc<Observed>>) -> Response {
    match observed.store.snapshot().and_then(|snapshot| snapshot.with(status::page)) {
        Ok(page) => Html(page).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(failure: &Error) -> Response {
    error!(error = %failure, detail = failure.detail(), "an HTTP request failed");
    (StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n")).into_response()
}

/// The last epoch and when it was committed.
fn last_checkpoint(connection: &Connection) -> Result<(i64, i64)> {
    connection
        .prepare_cached("SELECT epoch, checkpoint_at FROM meta")
        .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
        .context("reading the epoch")
}

fn read_gauges(connection: &Connection) -> Result<()> {
    let (epoch, at) = last_checkpoint(connection)?;
    gauge!("tidegate_epoch").set(epoch as f64);
    gauge!("tidegate_checkpoint_age_seconds").set((clock::now_micros() - at) as f64 / 1e6);
    for (name, sql) in [
        ("tidegate_pending_rescales", "SELECT '', count(*) FROM rescales WHERE decision = 'pending'"),
        ("tidegate_invariant_violations", "SELECT '', count(*) FROM invariant_violations"),
        ("tidegate_bad_rows", "SELECT '', count(*) FROM bad_rows"),
    ] {
        for (_, count) in counts(connection, sql)? {
            gauge!(name).set(count as f64);
        }
    }
    for (state, count) in split_states(connection)? {
        gauge!("tidegate_splits", "state" => state).set(count as f64);
    }
    let decided = "SELECT decision, count(*) FROM rescales WHERE decision != 'pending' GROUP BY 1";
    for (decision, count) in counts(connection, decided)? {
        gauge!("tidegate_rescales", "decision" => decision).set(count as f64);
    }
    Ok(())
}

/// All states, also those that no split is in: a gauge that isn't set keeps its last value.
fn split_states(connection: &Connection) -> Result<Vec<(String, i64)>> {
    let found = counts(
        connection,
        "SELECT CASE WHEN NOT json_valid(state) THEN 'unreadable' WHEN state ->> '$.state' = 'Finished' THEN 'Finished'
                     WHEN state ->> '$.state.SourceCachingUp' IS NOT NULL THEN 'SourceCachingUp' ELSE 'Backfilling' END,
                count(*) FROM backfill_states GROUP BY 1",
    )?;
    let of = |state: &str| found.iter().find(|(name, _)| name == state).map_or(0, |(_, count)| *count);
    Ok(["Backfilling", "SourceCachingUp", "Finished", "unreadable"].map(|state| (state.to_owned(), of(state))).into())
}

fn counts(connection: &Connection, sql: &str) -> Result<Vec<(String, i64)>> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .context("reading gauges")
}

//! `tidegate check SOURCE TARGET`: may this source be rescaled now? The answer is the exit code.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr as _;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::client::{DEFAULT_URL, connect, failed};
use super::print_error;
use crate::backfill::check::{Policy, check};
use crate::backfill::target::Target;
use crate::clock;
use crate::command::run::explain::as_json;
use crate::error::{Error, Result};
use crate::store::check_input::{Surroundings, check_input};
use crate::store::{Context, Store, view_rows::quote};

/// Checkpoints that a check waits for at most.
const BARRIERS: usize = 3;

/// Exit codes: 0 safe, 1 not safe (the reasons are printed), 2 could not tell.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The source.
    source: String,
    /// The parallelism: a number, adaptive, bounded(n) or ratio(r).
    target: String,
    /// The server to ask [default: postgres://root@127.0.0.1:4567/dev].
    #[arg(long, env = "TIDEGATE_URL")]
    url: Option<String>,
    /// Look into a data directory instead of asking a server, whether or not one runs on it.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// forwarding, all_finished or stage_aware [default: the server's].
    #[arg(long)]
    policy: Option<String>,
    /// Print the whole report as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the check and prints its outcome.
pub async fn run(args: CheckArgs) -> ExitCode {
    let report = match &args.data_dir {
        Some(dir) => offline(dir.clone(), &args),
        None => online(&args).await,
    };
    match report {
        Ok(report) => {
            print_report(&report, args.json);
            match report["decision"].as_str() {
                Some("pass") => ExitCode::SUCCESS,
                Some("fail" | "wait") => ExitCode::from(1),
                _ => ExitCode::from(2),
            }
        }
        Err(error) => {
            if args.json {
                print_report(&unknown(&error), true);
            }
            print_error(&error);
            ExitCode::from(2)
        }
    }
}

/// The report of a check that could not be made.
fn unknown(error: &Error) -> Value {
    let (sqlstate, message) = (error.sqlstate(), error.to_string());
    json!({
        "decision": "unknown",
        "safe": false,
        "error": { "sqlstate": sqlstate, "message": message, "detail": error.detail(), "hint": error.hint() },
    })
}

/// Asks a server for the report of its dry run. Actors that were just built need a checkpoint or two before anything
/// can be told of them; an ALTER waits for those, and so does this.
async fn online(args: &CheckArgs) -> Result<Value> {
    let (client, _) = connect(args.url.as_deref().unwrap_or(DEFAULT_URL), "tidegate check").await?;
    let mut report = dry_run(&client, args).await?;
    for _ in 0..BARRIERS {
        if !waits_for_barriers_only(&report) {
            break;
        }
        match client.batch_execute("FLUSH").await {
            // Who may look but not ask for a checkpoint waits for those that come by themselves.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                sleep(interval(&client).await).await
            }
            flushed => flushed.map_err(failed)?,
        }
        report = dry_run(&client, args).await?;
    }
    Ok(report)
}

/// Between two checkpoints, as far as this user may know.
async fn interval(client: &Client) -> Duration {
    let sql = "SELECT value FROM tidegate.settings WHERE name = 'barrier_interval_ms'";
    let rows = client.query(sql, &[]).await.unwrap_or_default();
    let milliseconds = rows.first().and_then(|row| row.get::<_, &str>(0).parse().ok());
    Duration::from_millis(milliseconds.unwrap_or(1000))
}

fn waits_for_barriers_only(report: &Value) -> bool {
    let open = |list: &Value, of: &str| {
        let open = list.as_array().into_iter().flatten().filter(|item| item["decision"] != "pass");
        open.filter_map(|item| item[of].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    open(&report["splits"], "split_id").is_empty()
        && open(&report["conditions"], "check_name") == ["second_checkpoint_seen"]
}

async fn dry_run(client: &Client, args: &CheckArgs) -> Result<Value> {
    if let Some(policy) = &args.policy {
        client.batch_execute(&format!("SET rescale_policy = {}", literal(policy))).await.map_err(failed)?;
    }
    let sql = format!(
        "EXPLAIN (FORMAT JSON) ALTER SOURCE {} SET PARALLELISM = {}",
        quote(&args.source),
        literal(&args.target)
    );
    let rows = client.query(&sql, &[]).await.map_err(failed)?;
    let text: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
    let unexpected = || Error::Internal(format!("the server answered the dry run with {text:?}"));
    let reports: Vec<Value> = serde_json::from_str(&text).map_err(|_| unexpected())?;
    reports.into_iter().next().ok_or_else(unexpected)
}

/// Runs the check on what a server last committed to its data directory.
fn offline(dir: PathBuf, args: &CheckArgs) -> Result<Value> {
    let invalid = |what: &str, value: &str, allowed: String| Error::InvalidValue {
        what: what.to_owned(),
        value: value.to_owned(),
        allowed,
    };
    let target = Target::parse(&args.target).map_err(|error| invalid("TARGET", &args.target, error))?;
    let store = Store::open_read_only(&dir)?;
    let report = store.snapshot()?.with(|connection| {
        let setting = |name: &str| -> Result<Option<String>> {
            use rusqlite::OptionalExtension as _;
            connection
                .query_row("SELECT value FROM settings WHERE name = ?1", [name], |row| row.get(0))
                .optional()
                .context("reading the settings")
        };
        let policy = args.policy.clone().or(setting("rescale_policy")?).unwrap_or_default();
        let policy = Policy::from_str(&policy).map_err(|allowed| invalid("--policy", &policy, allowed))?;
        let number = |name: &str| Ok::<_, Error>(setting(name)?.and_then(|value| value.parse::<i64>().ok()));
        // Without a server nothing changes, so what was committed last is fresh however old it is.
        let now = if store.is_served() {
            clock::now_micros()
        } else {
            connection.query_row("SELECT checkpoint_at FROM meta", [], |row| row.get(0)).context("reading the epoch")?
        };
        let surroundings = Surroundings {
            available: number("worker_parallelism")?.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            barrier_interval: number("barrier_interval_ms")?.unwrap_or(1000).saturating_mul(1000),
            now,
            asking: None,
        };
        Ok::<_, Error>(check(&check_input(connection, &args.source, target, &surroundings)?, policy))
    })?;
    Ok(as_json(&report))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A reader that has gone away (`| head`) has read enough: the exit code still tells.
fn print_report(report: &Value, json: bool) {
    let text = if json { format!("{report:#}\n") } else { as_text(report) };
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
}

fn as_text(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verdict = match report["decision"].as_str() {
        Some("pass") => "safe",
        Some("wait") => "not safe yet",
        Some("fail") => "not safe",
        _ => "could not tell",
    };
    let mut lines = vec![format!(
        "{verdict}: source \"{}\" from {} to {} actors, policy {}",
        text(&report["source"]),
        report["from_parallelism"],
        report["to_parallelism"],
        text(&report["policy"]),
    )];
    let of = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let is_told =
        |condition: &&Value| condition["decision"] != "pass" || text(&condition["reason"]).starts_with("Warning: ");
    for condition in of("conditions").iter().filter(is_told) {
        lines.push(format!("  {}: {}", text(&condition["check_name"]), text(&condition["reason"])));
    }
    for split in of("splits").iter().filter(|split| split["decision"] != "pass") {
        lines.push(format!("  {}: {}", text(&split["decision"]), text(&split["reason"])));
    }
    lines.join("\n") + "\n"
}

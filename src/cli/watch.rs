//! `tidegate watch`: live progress bars of every view and split.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use tokio_postgres::{Client, Row};

use super::client::{DEFAULT_URL, connect, failed};
use crate::error::Result;

/// How wide a bar is, in characters.
const BAR: usize = 30;

/// Splits that are shown of one view; the slowest come first.
const SPLITS: i64 = 20;

/// Live progress of every materialized view and its splits.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The server to ask [default: postgres://root@127.0.0.1:4567/dev].
    #[arg(long, env = "TIDEGATE_URL")]
    url: Option<String>,
    /// Seconds between two looks, from 0.1 to 3600.
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
    /// Look once and end.
    #[arg(long)]
    once: bool,
}

/// Shows progress until it is interrupted.
///
/// # Errors
/// When the server can't be reached, or no longer.
pub async fn run(args: WatchArgs) -> Result<()> {
    let (client, _) = connect(args.url.as_deref().unwrap_or(DEFAULT_URL), "tidegate watch").await?;
    let terminal = std::io::stdout().is_terminal();
    loop {
        let picture = draw(&client).await?;
        // Home, and clear what is below.
        let clear = if terminal && !args.once { "\x1b[H\x1b[J" } else { "" };
        // Nobody looks any more where it can't be written, as behind `| head`.
        let written = writeln!(std::io::stdout(), "{clear}{picture}");
        if args.once || written.is_err() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs_f64(args.interval.clamp(0.1, 3600.0))).await;
    }
}

async fn draw(client: &Client) -> Result<String> {
    let jobs = client
        .query(
            "SELECT job_id, job_name, source_name, finished, splits, progress_percent, rows_per_second, blocked_by
             FROM tidegate.job_backfill_progress ORDER BY job_name, source_name",
            &[],
        )
        .await
        .map_err(failed)?;
    let mut picture = String::new();
    if jobs.is_empty() {
        picture.push_str("no materialized view\n");
    }
    for job in &jobs {
        let job_id: i32 = job.get("job_id");
        let name = format!("{} <- {}", job.get::<_, String>("job_name"), job.get::<_, String>("source_name"));
        let finished = format!("{} of {} splits finished", job.get::<_, i64>("finished"), job.get::<_, i64>("splits"));
        line(&mut picture, &name, job, &finished);
        let splits = client
            .query(
                "SELECT split_id, state, progress_percent, rows_per_second, blocked_by
                 FROM tidegate.split_backfill_progress WHERE job_id = $1
                 ORDER BY progress_percent NULLS FIRST, source_name, split_id LIMIT $2",
                &[&job_id, &SPLITS],
            )
            .await
            .map_err(failed)?;
        for split in &splits {
            let state: Option<String> = split.get("state");
            line(&mut picture, &format!("  {}", split.get::<_, String>("split_id")), split, &state.unwrap_or_default());
        }
    }
    Ok(picture)
}

/// One bar. Writing to a String can't fail.
fn line(picture: &mut String, name: &str, row: &Row, what: &str) {
    let percent: Option<f64> = row.get("progress_percent");
    let rate: Option<f64> = row.get("rows_per_second");
    let blocked: Option<String> = row.get("blocked_by");
    let shown = percent.map_or_else(|| "    ?".to_owned(), |percent| format!("{percent:5.1}"));
    let _ = write!(picture, "{name:<24} {} {shown} %  {what}", bar(percent));
    if let Some(rate) = rate {
        let _ = write!(picture, ", {rate:.0} rows/s");
    }
    if let Some(blocked) = blocked {
        let _ = write!(picture, " - {blocked}");
    }
    picture.push('\n');
}

fn bar(percent: Option<f64>) -> String {
    let full = percent.map_or(0, |percent| ((percent.clamp(0.0, 100.0) / 100.0) * BAR as f64) as usize);
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_as_full_as_its_percentage() {
        assert_eq!(bar(Some(50.0)), format!("[{}{}]", "#".repeat(15), ".".repeat(15)));
        assert_eq!(bar(None), format!("[{}]", ".".repeat(30)));
        assert_eq!(bar(Some(100.0)), format!("[{}]", "#".repeat(30)));
    }
}

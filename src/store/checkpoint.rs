//! A checkpoint: all that the actors did between two barriers, written in one transaction.

use std::sync::Arc;

use rusqlite::{Connection, named_params, params};
use serde_json::json;

use super::Context;
use super::relations;
use super::view_rows::{self, Emitted};
use crate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::stage::{ReaderState, Stage};
use crate::backfill::state::BackfillStateWithProgress;
use crate::engine::embedded::connector::{BadRow, Gap, Watermarks};
use crate::error::Result;

/// All that one barrier writes. Only what has changed since the last one is in it.
#[derive(Debug, Default)]
pub struct Checkpoint {
    /// The live streams' positions.
    pub positions: Vec<(SourceId, SplitId, Offset)>,
    /// What the connectors last saw of the splits; what they remember of them is in `memories`.
    pub watermarks: Vec<(SourceId, SplitId, Watermarks)>,
    /// What the connectors want to be told of splits after a restart, where it has changed.
    pub memories: Vec<(SourceId, SplitId, Option<Arc<str>>)>,
    /// Splits that became unreachable (with the reason) or reachable again.
    pub split_errors: Vec<(SourceId, SplitId, Option<String>)>,
    /// Sources whose splits could not be listed (with the reason), or could again.
    pub discovery_errors: Vec<(SourceId, Option<String>)>,
    /// The state table's rows.
    pub states: Vec<(FragmentId, SplitId, BackfillStateWithProgress)>,
    /// Rates and reasons.
    pub progress: Vec<Progress>,
    /// Actors' stages.
    pub stages: Vec<(ActorId, Stage, u32)>,
    /// Rows of the views.
    pub emitted: Vec<Emitted>,
    /// Rows that could not be read or evaluated.
    pub bad_rows: Vec<(SourceId, SplitId, Option<JobId>, BadRow)>,
    /// Rows that the source deleted before a view's backfill, or the live stream (`None`), could read them.
    pub gaps: Vec<(SourceId, Option<JobId>, Gap)>,
}

/// What is known of a split's speed at a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The scan fragment.
    pub fragment: FragmentId,
    /// The split.
    pub split: SplitId,
    /// Whether its state moved since the last checkpoint.
    pub moved: bool,
    /// Percent done so far; it never goes down.
    pub percent: Option<f64>,
    /// Smoothed rows a second that the backfill reader read.
    pub rows_per_second: Option<f64>,
    /// Smoothed offsets a second.
    pub offsets_per_second: Option<f64>,
    /// The same less what its target moves on. Below 0 it falls behind.
    pub closing_per_second: Option<f64>,
    /// What holds it.
    pub blocked_by: Option<String>,
}

/// Writes a checkpoint.
///
/// # Errors
/// [`crate::error::Error::Store`]; then nothing of it is written.
pub fn write(tx: &Connection, epoch: Epoch, now: i64, checkpoint: &Checkpoint) -> Result<()> {
    write_splits(tx, now, checkpoint)?;
    write_states(tx, epoch, checkpoint)?;
    write_progress(tx, now, &checkpoint.progress)?;
    write_stages(tx, epoch, &checkpoint.stages)?;
    for emitted in &checkpoint.emitted {
        view_rows::append(tx, emitted)?;
    }
    write_bad_rows(tx, now, &checkpoint.bad_rows)?;
    write_gaps(tx, now, &checkpoint.gaps)?;
    finish_jobs(tx, now)?;
    tx.execute("UPDATE meta SET epoch = ?1, checkpoint_at = ?2", params![epoch.0, now]).context("writing the epoch")?;
    Ok(())
}

fn write_splits(tx: &Connection, now: i64, checkpoint: &Checkpoint) -> Result<()> {
    let context = "writing the positions of splits";
    let mut statement = tx
        .prepare_cached("UPDATE splits SET upstream_offset = ?3 WHERE source_id = ?1 AND split_id = ?2")
        .context(context)?;
    for (source, split, offset) in &checkpoint.positions {
        statement.execute(params![source.0, split.as_str(), offset.0]).context(context)?;
    }
    let mut statement = tx
        .prepare_cached(
            "UPDATE splits SET low_watermark = ?3, high_watermark = ?4, latest_offset = ?5
             WHERE source_id = ?1 AND split_id = ?2",
        )
        .context(context)?;
    for (source, split, marks) in &checkpoint.watermarks {
        let latest = marks.latest.map(|offset| offset.0);
        statement.execute(params![source.0, split.as_str(), marks.low.0, marks.high.0, latest]).context(context)?;
    }
    let mut statement =
        tx.prepare_cached("UPDATE splits SET memory = ?3 WHERE source_id = ?1 AND split_id = ?2").context(context)?;
    for (source, split, memory) in &checkpoint.memories {
        statement.execute(params![source.0, split.as_str(), memory.as_deref()]).context(context)?;
    }
    for (source, split, error) in &checkpoint.split_errors {
        tx.execute(
            "UPDATE splits SET error = ?3, error_at = CASE WHEN ?3 IS NULL THEN NULL ELSE coalesce(error_at, ?4) END
             WHERE source_id = ?1 AND split_id = ?2",
            params![source.0, split.as_str(), error, now],
        )
        .context(context)?;
    }
    for (source, error) in &checkpoint.discovery_errors {
        tx.execute(
            "UPDATE sources SET discovery_error = ?2,
               discovery_error_at = CASE WHEN ?2 IS NULL THEN NULL ELSE coalesce(discovery_error_at, ?3) END
             WHERE id = ?1",
            params![source.0, error, now],
        )
        .context(context)?;
    }
    Ok(())
}

fn write_states(tx: &Connection, epoch: Epoch, checkpoint: &Checkpoint) -> Result<()> {
    for (fragment, split, state) in &checkpoint.states {
        put_state(tx, epoch, *fragment, split, state)?;
    }
    Ok(())
}

/// Writes a row of the state table.
///
/// # Errors
/// [`crate::error::Error::Store`].
pub fn put_state(
    tx: &Connection,
    epoch: Epoch,
    fragment: FragmentId,
    split: &SplitId,
    state: &BackfillStateWithProgress,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO backfill_states (fragment_id, split_id, state, epoch) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET state = excluded.state, epoch = excluded.epoch",
    )
    .and_then(|mut statement| statement.execute(params![fragment.0, split.as_str(), state.to_json(), epoch.0]))
    .context("writing a backfill state")?;
    Ok(())
}

fn write_progress(tx: &Connection, now: i64, rows: &[Progress]) -> Result<()> {
    let context = "writing the progress of splits";
    let mut statement = tx
        .prepare_cached(
            "UPDATE split_progress SET
               last_change_at = CASE WHEN :moved THEN :now ELSE last_change_at END,
               max_percent = max(coalesce(max_percent, 0), coalesce(:percent, 0)),
               rows_per_second = :rows, offsets_per_second = :offsets,
               closing_per_second = :closing, blocked_by = :blocked, updated_at = :now
             WHERE fragment_id = :fragment AND split_id = :split",
        )
        .context(context)?;
    for row in rows {
        statement
            .execute(named_params! {
                ":fragment": row.fragment.0, ":split": row.split.as_str(), ":moved": row.moved,
                ":percent": row.percent, ":rows": row.rows_per_second, ":offsets": row.offsets_per_second,
                ":closing": row.closing_per_second, ":blocked": row.blocked_by, ":now": now,
            })
            .context(context)?;
    }
    Ok(())
}

/// Adds the progress row of a split that a fragment sees for the first time.
///
/// # Errors
/// [`crate::error::Error::Store`].
pub fn start_progress(
    tx: &Connection,
    now: i64,
    fragment: FragmentId,
    split: &SplitId,
    start: Option<Offset>,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT OR IGNORE INTO split_progress
           (fragment_id, split_id, start_offset, first_seen_at, last_change_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?4, ?4)",
    )
    .and_then(|mut statement| statement.execute(params![fragment.0, split.as_str(), start.map(|offset| offset.0), now]))
    .context("writing the progress of a new split")?;
    Ok(())
}

fn write_stages(tx: &Connection, epoch: Epoch, stages: &[(ActorId, Stage, u32)]) -> Result<()> {
    let context = "writing the stages of actors";
    for (actor, stage, checkpoints) in stages {
        let (name, live) = match stage {
            Stage::Backfill { reader: ReaderState::Live } => ("backfill", true),
            Stage::Backfill { reader: ReaderState::Dropped } => ("backfill", false),
            Stage::Forwarding => ("forwarding", false),
        };
        tx.prepare_cached("UPDATE actors SET stage = ?2, reader_live = ?3, checkpoints = ?4 WHERE id = ?1")
            .and_then(|mut statement| statement.execute(params![actor.0, name, live, checkpoints]))
            .context(context)?;
    }
    if !stages.is_empty() {
        tx.execute(
            "UPDATE fragments SET forwarding_epoch = ?1
             WHERE kind = 'source scan' AND forwarding_epoch IS NULL
               AND EXISTS (SELECT 1 FROM actors a WHERE a.fragment_id = fragments.id)
               AND NOT EXISTS (SELECT 1 FROM actors a WHERE a.fragment_id = fragments.id AND a.stage = 'backfill')",
            [epoch.0],
        )
        .context(context)?;
    }
    Ok(())
}

fn write_bad_rows(tx: &Connection, now: i64, rows: &[(SourceId, SplitId, Option<JobId>, BadRow)]) -> Result<()> {
    for (source, split, job, row) in rows {
        // Both streams of a split, and every view, meet the same row.
        tx.prepare_cached("INSERT OR IGNORE INTO bad_rows VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
            .and_then(|mut statement| {
                let job = job.map_or(0, |job| job.0);
                statement.execute(params![source.0, split.as_str(), row.offset.0, job, row.error, row.text, now])
            })
            .context("keeping a bad row")?;
    }
    Ok(())
}

fn write_gaps(tx: &Connection, now: i64, gaps: &[(SourceId, Option<JobId>, Gap)]) -> Result<()> {
    for (source, job, gap) in gaps {
        let context = "writing a gap";
        let job = job.map_or(0, |job| job.0);
        tx.execute(
            "INSERT OR IGNORE INTO split_gaps VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![source.0, gap.split.as_str(), job, gap.from.0, gap.to.0, now],
        )
        .context(context)?;
        let names = "SELECT s.name, j.name FROM relations s LEFT JOIN relations j ON j.id = ?2 WHERE s.id = ?1";
        let (name, view): (String, Option<String>) =
            tx.query_row(names, [source.0, job], |row| Ok((row.get(0)?, row.get(1)?))).context(context)?;
        let info = json!({
            "source": name, "split": gap.split, "view": view, "from_offset": gap.from.0, "to_offset": gap.to.0,
            "offsets": gap.to.0 - gap.from.0,
        });
        relations::log_event(tx, now, "SPLIT_GAP", &info)?;
    }
    Ok(())
}

/// A job is created once every one of its splits is Finished or SourceCachingUp: RisingWave's rule. A split whose row is
/// missing is neither.
fn finish_jobs(tx: &Connection, now: i64) -> Result<()> {
    tx.prepare_cached(
        "UPDATE jobs SET status = 'created', finished_at = ?1
         WHERE status = 'creating' AND NOT EXISTS (
           SELECT 1 FROM fragments f JOIN splits p ON p.source_id = f.source_id
           LEFT JOIN backfill_states s ON s.fragment_id = f.id AND s.split_id = p.split_id
           WHERE f.job_id = jobs.id AND f.kind = 'source scan'
             AND iif(json_valid(s.state),
                     s.state ->> '$.state' != 'Finished' AND s.state ->> '$.state.SourceCachingUp' IS NULL, 1))",
    )
    .and_then(|mut statement| statement.execute([now]))
    .context("finishing jobs")?;
    Ok(())
}

/// Whether a view is still being created.
///
/// # Errors
/// [`crate::error::Error::Store`].
pub fn creating(connection: &Connection, job: Option<JobId>) -> Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM jobs WHERE status = 'creating' AND id = coalesce(?1, id))")
        .and_then(|mut statement| statement.query_row([job.map(|job| job.0)], |row| row.get(0)))
        .context("looking for jobs that are being created")
}

/// Notes that every actor is built anew: in the backfill stage, with a reader, before its first checkpoint.
///
/// # Errors
/// [`crate::error::Error::Store`].
pub fn reset_actors(tx: &Connection) -> Result<()> {
    tx.execute("UPDATE actors SET stage = 'backfill', reader_live = 1, checkpoints = 0 WHERE stage IS NOT NULL", [])
        .context("resetting the stages of actors")?;
    Ok(())
}

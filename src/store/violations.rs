//! State rows that don't fit their job: reported with their full content, and never a reason to stop.

use rusqlite::{Connection, params};

use super::{Context, running};
use crate::backfill::check::Persisted;
use crate::backfill::id::FragmentId;
use crate::error::{Refusal, Result};

/// Looks through the state table and adds what is new to `invariant_violations`. Returns how many were added.
///
/// # Errors
/// [`crate::error::Error::Store`].
pub fn record(tx: &Connection, now: i64) -> Result<usize> {
    let fragments: Vec<(i32, String, bool)> = tx
        .prepare_cached(
            "SELECT f.id, r.name, f.forwarding_epoch IS NOT NULL
             FROM fragments f JOIN relations r ON r.id = f.job_id WHERE f.kind = 'source scan'",
        )
        .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
        .context("listing fragments")?;
    let mut added = 0;
    for (fragment, job_name, forwarding) in fragments {
        let fragment = FragmentId(fragment);
        for (split, row) in running::states(tx, fragment)? {
            let (message, content) = match row {
                Persisted::State(state) if forwarding && !state.is_finished() => {
                    (Refusal::unexpected_state(&state), Some(state.to_json()))
                }
                Persisted::State(_) => continue,
                Persisted::Unreadable(content) => {
                    ("a row of the state table is not a backfill state".to_owned(), Some(content))
                }
                Persisted::Missing => ("a split that was seen before has no row in the state table".to_owned(), None),
            };
            added += add(tx, now, fragment, &job_name, split.as_str(), &message, content.as_deref())?;
        }
    }
    Ok(added)
}

fn add(
    tx: &Connection,
    now: i64,
    fragment: FragmentId,
    job_name: &str,
    split: &str,
    message: &str,
    state: Option<&str>,
) -> Result<usize> {
    // The same row is reported once, however often it is met.
    tx.prepare_cached(
        "INSERT INTO invariant_violations (at, fragment_id, job_name, split_id, actor_id, stage, message, state)
         SELECT ?1, ?2, ?3, ?4, a.id, a.stage, ?5, ?6
         FROM fragments f
         LEFT JOIN split_assignments sa ON sa.source_id = f.source_id AND sa.split_id = ?4
         LEFT JOIN actors source_actor ON source_actor.id = sa.actor_id
         LEFT JOIN actors a ON a.fragment_id = f.id AND a.position = source_actor.position
         WHERE f.id = ?2 AND NOT EXISTS (
           SELECT 1 FROM invariant_violations v
           WHERE v.fragment_id = ?2 AND v.split_id = ?4 AND v.message = ?5 AND v.state IS ?6)",
    )
    .and_then(|mut statement| statement.execute(params![now, fragment.0, job_name, split, message, state]))
    .context("recording an invariant violation")
}

/// Records a violation that an actor has met while it ran.
///
/// # Errors
/// [`crate::error::Error::Store`].
pub fn record_one(
    tx: &Connection,
    now: i64,
    fragment: FragmentId,
    split: &str,
    message: &str,
    state: &str,
) -> Result<()> {
    let job_name: String = tx
        .query_row(
            "SELECT r.name FROM fragments f JOIN relations r ON r.id = f.job_id WHERE f.id = ?1",
            [fragment.0],
            |row| row.get(0),
        )
        .context("looking up a fragment")?;
    add(tx, now, fragment, &job_name, split, message, Some(state)).map(|_| ())
}

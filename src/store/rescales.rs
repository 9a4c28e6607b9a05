//! Rescales: asked for, pending, decided. The history is only ever added to.

use rusqlite::{Connection, OptionalExtension, named_params, params};
use serde_json::Value;

use super::Context;
use crate::backfill::assignment::Assignment;
use crate::backfill::id::{Epoch, RescaleId, SourceId};
use crate::clock::now_micros;
use crate::error::{Error, Result};

/// Who asks for what.
#[derive(Debug, Clone)]
pub struct RescaleRow {
    /// The source.
    pub source_id: SourceId,
    /// Its name at that time.
    pub source_name: String,
    /// The ALTER, as written.
    pub statement: String,
    /// The policy in force.
    pub policy: String,
    /// The target, in its canonical form.
    pub target: String,
    /// Actors before.
    pub from_parallelism: u32,
    /// Actors asked for.
    pub to_parallelism: u32,
    /// The user.
    pub requested_by: String,
    /// The client's `application_name`.
    pub application_name: String,
    /// In microseconds since 1970.
    pub requested_at: i64,
}

/// An ALTER that has a line in the history without having come to the check: one that moves no splits, or was refused before.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The ALTER, as written.
    pub statement: String,
    /// The policy in force.
    pub policy: String,
    /// The user.
    pub requested_by: String,
    /// The client's `application_name`.
    pub application_name: String,
}

impl Asked {
    /// Adds the line of an ALTER of a relation (without an id if there is none of that name), with what became of it.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn note(
        self,
        tx: &Connection,
        id: Option<i32>,
        name: &str,
        outcome: Outcome,
        sqlstate: Option<&'static str>,
    ) -> Result<()> {
        let actors: Option<u32> = tx
            .query_row(
                "SELECT count(*) FROM actors a JOIN fragments f ON f.id = a.fragment_id
                 WHERE f.job_id = ?1 GROUP BY f.id LIMIT 1",
                [id],
                |row| row.get(0),
            )
            .optional()
            .context("counting actors")?;
        let now = now_micros();
        let row = RescaleRow {
            source_id: SourceId(id.unwrap_or_default()),
            source_name: name.to_owned(),
            statement: self.statement,
            policy: self.policy,
            target: String::new(),
            from_parallelism: actors.unwrap_or_default(),
            to_parallelism: actors.unwrap_or_default(),
            requested_by: self.requested_by,
            application_name: self.application_name,
            requested_at: now,
        };
        let id = insert(tx, &row)?;
        let epoch = tx.query_row("SELECT epoch FROM meta", [], |row| row.get(0)).context("reading the epoch")?;
        decide(tx, id, outcome, &Decided { sqlstate, ..Decided::default() }, Epoch(epoch), now)
    }
}

/// How a rescale ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The new assignment is in force.
    Committed,
    /// Nothing has changed.
    Refused,
    /// Withdrawn before it was committed.
    Cancelled,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Facts of a decision.
#[derive(Debug, Default)]
pub struct Decided {
    /// Splits that moved.
    pub moved: usize,
    /// Splits that stood in the way, as JSON objects.
    pub offending: Vec<Value>,
    /// The error's code, of a refusal.
    pub sqlstate: Option<&'static str>,
    /// The assignment before.
    pub previous: Option<Assignment>,
}

/// Adds a rescale as pending.
///
/// # Errors
/// [`Error::Store`].
pub fn insert(tx: &Connection, row: &RescaleRow) -> Result<RescaleId> {
    tx.execute(
        "INSERT INTO rescales (source_id, source_name, statement, policy, target, from_parallelism, to_parallelism,
                               decision, requested_by, application_name, requested_at)
         VALUES (:source, :name, :statement, :policy, :target, :from, :to, 'pending', :by, :application, :at)",
        named_params! {
            ":source": row.source_id.0, ":name": row.source_name, ":statement": row.statement, ":policy": row.policy,
            ":target": row.target, ":from": row.from_parallelism, ":to": row.to_parallelism,
            ":by": row.requested_by, ":application": row.application_name, ":at": row.requested_at,
        },
    )
    .context("recording a rescale")?;
    Ok(RescaleId(tx.last_insert_rowid()))
}

/// Ends a pending rescale.
///
/// # Errors
/// [`Error::Store`].
pub fn decide(
    tx: &Connection,
    id: RescaleId,
    outcome: Outcome,
    decided: &Decided,
    epoch: Epoch,
    now: i64,
) -> Result<()> {
    let previous = decided.previous.as_ref().map(assignment_json);
    tx.execute(
        "UPDATE rescales SET decision = :decision, moved_splits = :moved, offending_json = :offending,
           waiting_json = '[]', decided_at = :now, epoch = :epoch, sqlstate = :sqlstate,
           previous_assignment_json = :previous
         WHERE id = :id AND decision = 'pending'",
        named_params! {
            ":id": id.0, ":decision": outcome.as_str(), ":moved": decided.moved,
            ":offending": Value::from(decided.offending.clone()).to_string(), ":now": now, ":epoch": epoch.0,
            ":sqlstate": decided.sqlstate, ":previous": previous,
        },
    )
    .context("deciding a rescale")?;
    Ok(())
}

/// Says what a pending rescale waits for.
///
/// # Errors
/// [`Error::Store`].
pub fn set_waiting(tx: &Connection, id: RescaleId, waiting_for: &[String], offending: &[Value]) -> Result<()> {
    tx.execute(
        "UPDATE rescales SET waiting_json = ?2, offending_json = ?3 WHERE id = ?1",
        params![id.0, Value::from(waiting_for.to_vec()).to_string(), Value::from(offending.to_vec()).to_string()],
    )
    .context("noting what a rescale waits for")?;
    Ok(())
}

/// The pending rescales, oldest first.
///
/// # Errors
/// [`Error::Store`].
pub fn pending(connection: &Connection) -> Result<Vec<(RescaleId, RescaleRow)>> {
    connection
        .prepare_cached(
            "SELECT id, source_id, source_name, statement, policy, target, from_parallelism, to_parallelism,
                    requested_by, application_name, requested_at
             FROM rescales WHERE decision = 'pending' ORDER BY id",
        )
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    Ok((
                        RescaleId(row.get(0)?),
                        RescaleRow {
                            source_id: SourceId(row.get(1)?),
                            source_name: row.get(2)?,
                            statement: row.get(3)?,
                            policy: row.get(4)?,
                            target: row.get(5)?,
                            from_parallelism: row.get(6)?,
                            to_parallelism: row.get(7)?,
                            requested_by: row.get(8)?,
                            application_name: row.get(9)?,
                            requested_at: row.get(10)?,
                        },
                    ))
                })?
                .collect()
        })
        .context("listing pending rescales")
}

/// Withdraws a pending rescale, on behalf of a user.
///
/// # Errors
/// [`Error::NoSuchRescale`] when it isn't pending (any more).
pub fn cancel(tx: &Connection, id: RescaleId, user: &str, now: i64) -> Result<()> {
    let changed = tx
        .execute(
            "UPDATE rescales SET decision = 'cancelled', cancelled_by = ?2, decided_at = ?3, waiting_json = '[]'
             WHERE id = ?1 AND decision = 'pending'",
            params![id.0, user, now],
        )
        .context("cancelling a rescale")?;
    if changed == 1 {
        return Ok(());
    }
    let state = tx
        .query_row("SELECT decision, decided_at FROM rescales WHERE id = ?1", [id.0], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })
        .optional()
        .context("looking up a rescale")?
        .map(|(decision, at)| format!("It was {decision} at {}.", crate::clock::display(at)));
    Err(Error::NoSuchRescale { id: id.0, state })
}

/// An assignment as `{"actor id": ["split id", ...]}`.
pub fn assignment_json(assignment: &Assignment) -> String {
    let map: serde_json::Map<String, Value> = assignment
        .iter()
        .map(|(actor, splits)| {
            (actor.to_string(), splits.iter().map(|split| Value::from(split.as_str())).collect::<Vec<_>>().into())
        })
        .collect();
    Value::from(map).to_string()
}

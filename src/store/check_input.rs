//! What the forwarding-stage check looks at, read in its caller's transaction.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Context, relations, running};
use crate::backfill::check::{Input, Job, JobActor, Persisted, SplitSeen};
use crate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, RescaleId, SourceId, SplitId};
use crate::backfill::stage::{ReaderState, Stage};
use crate::backfill::target::Target;
use crate::error::Result;
use crate::store::relations::RelationKind;

/// What the check has to know and the tables don't hold.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// Actors that there is room for: what adaptive targets resolve to.
    pub available: u32,
    /// Microseconds between two barriers.
    pub barrier_interval: i64,
    /// In microseconds since 1970.
    pub now: i64,
    /// The pending rescale that asks, if one does: it doesn't stand in its own way.
    pub asking: Option<RescaleId>,
}

/// Reads the check's input for a source.
///
/// # Errors
/// [`crate::error::Error::UndefinedRelation`] when there is no such source, [`crate::error::Error::Store`].
pub fn check_input(
    connection: &Connection,
    source: &str,
    target: Target,
    surroundings: &Surroundings,
) -> Result<Input> {
    let relation = relations::get(connection, RelationKind::Source, source)?;
    let source_id = SourceId(relation.id);
    let fragment: i32 = one(connection, "SELECT id FROM fragments WHERE job_id = ?1", source_id)?;
    let actors = running::actors(connection, FragmentId(fragment))?;
    let (epoch, checkpoint_at_micros, next_actor_id) = connection
        .prepare_cached("SELECT epoch, checkpoint_at, next_actor_id FROM meta")
        .and_then(|mut statement| {
            statement.query_row([], |row| Ok((Epoch(row.get(0)?), row.get(1)?, ActorId(row.get(2)?))))
        })
        .context("reading the epoch")?;
    let assigned = running::assigned(connection, source_id)?;
    let jobs = jobs(connection, source_id, &assigned)?;
    // The check asks when a split was seen only of one that has no state: nearly always there is none.
    let has_missing = jobs.iter().any(|job| job.states.values().any(|state| *state == Persisted::Missing));
    let seen_splits = if has_missing { seen_splits(connection, source_id)? } else { BTreeMap::new() };
    Ok(Input {
        source_id,
        source_name: relation.name,
        is_shared: true,
        assignment: running::by_actor(&assigned, &actors),
        seen_splits,
        jobs,
        rescale_in_flight: in_flight(connection, source_id, surroundings.asking)?,
        target,
        available: surroundings.available,
        next_actor_id,
        epoch,
        now_micros: surroundings.now,
        checkpoint_at_micros,
        barrier_interval_micros: surroundings.barrier_interval,
        engine_reachable: Ok(()),
    })
}

fn one<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str, source: SourceId) -> Result<T> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([source.0], |row| row.get(0)))
        .context("reading a source")
}

/// The oldest pending rescale that comes before the asking one.
fn in_flight(connection: &Connection, source: SourceId, asking: Option<RescaleId>) -> Result<Option<RescaleId>> {
    connection
        .prepare_cached(
            "SELECT min(id) FROM rescales
             WHERE decision = 'pending' AND source_id = ?1 AND id < coalesce(?2, 9223372036854775807)",
        )
        .and_then(|mut statement| {
            statement.query_row(rusqlite::params![source.0, asking.map(|id| id.0)], |row| row.get::<_, Option<i64>>(0))
        })
        .map(|id| id.map(RescaleId))
        .context("looking for pending rescales")
}

fn seen_splits(connection: &Connection, source: SourceId) -> Result<BTreeMap<SplitId, SplitSeen>> {
    connection
        .prepare_cached(
            "SELECT split_id, found_at_run_time, first_seen_at FROM splits WHERE source_id = ?1 ORDER BY split_id",
        )
        .and_then(|mut statement| {
            statement
                .query_map([source.0], |row| {
                    let seen = SplitSeen { found_at_run_time: row.get(1)?, first_seen_at_micros: row.get(2)? };
                    Ok((SplitId::from(row.get_ref(0)?.as_str()?), seen))
                })?
                .collect()
        })
        .context("reading the splits of a source")
}

fn jobs(connection: &Connection, source: SourceId, assigned: &[(SplitId, ActorId)]) -> Result<Vec<Job>> {
    let rows: Vec<(i32, String, i32, i64, bool)> = connection
        .prepare_cached(
            "SELECT j.id, r.name, f.id, j.started_at, f.forwarding_epoch IS NOT NULL
             FROM fragments f JOIN jobs j ON j.id = f.job_id JOIN relations r ON r.id = j.id
             WHERE f.source_id = ?1 AND f.kind = 'source scan' ORDER BY f.id",
        )
        .and_then(|mut statement| {
            statement
                .query_map([source.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?
                .collect()
        })
        .context("reading the views of a source")?;
    rows.into_iter()
        .map(|(id, name, fragment, created_at_micros, forwarding)| {
            let fragment_id = FragmentId(fragment);
            let states = running::states_of(connection, fragment_id, assigned.iter().map(|(split, _)| split))?;
            let (start_offsets, closing_per_second) = progress(connection, fragment_id, &states)?;
            Ok(Job {
                id: JobId(id),
                name,
                fragment_id,
                created_at_micros,
                forwarding,
                actors: job_actors(connection, fragment_id, forwarding)?,
                states,
                start_offsets,
                closing_per_second,
            })
        })
        .collect()
}

/// The actors of a fragment. Once it has gone forwarding no split of it is ever backfilled again, also by actors that
/// were built anew since and start in the backfill stage: so they count as forwarding.
fn job_actors(connection: &Connection, fragment: FragmentId, fragment_forwards: bool) -> Result<Vec<JobActor>> {
    connection
        .prepare_cached(
            "SELECT id, stage, reader_live, checkpoints FROM actors WHERE fragment_id = ?1 ORDER BY position",
        )
        .and_then(|mut statement| {
            statement
                .query_map([fragment.0], |row| {
                    let reader = if row.get(2)? { ReaderState::Live } else { ReaderState::Dropped };
                    let forwarding = fragment_forwards || row.get_ref(1)?.as_str_or_null()? == Some("forwarding");
                    Ok(JobActor {
                        id: ActorId(row.get(0)?),
                        stage: Some(if forwarding { Stage::Forwarding } else { Stage::Backfill { reader } }),
                        checkpoints: row.get(3)?,
                    })
                })?
                .collect()
        })
        .context("reading the actors of a view")
}

/// Start offsets and closing speeds of the splits that are not done: the check has no use for the others'.
fn progress(
    connection: &Connection,
    fragment: FragmentId,
    states: &BTreeMap<SplitId, Persisted>,
) -> Result<(BTreeMap<SplitId, Offset>, BTreeMap<SplitId, f64>)> {
    let mut starts = BTreeMap::new();
    let mut speeds = BTreeMap::new();
    let unfinished = states.iter().filter(|(_, row)| row.state().is_some_and(|state| !state.is_finished()));
    for (split, _) in unfinished {
        let (start, speed) = connection
            .prepare_cached(
                "SELECT start_offset, closing_per_second FROM split_progress WHERE fragment_id = ?1 AND split_id = ?2",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![fragment.0, split.as_str()], |row| {
                        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<f64>>(1)?))
                    })
                    .optional()
            })
            .context("reading the progress of splits")?
            .unwrap_or_default();
        starts.extend(start.map(|start| (split.clone(), Offset(start))));
        speeds.extend(speed.map(|speed| (split.clone(), speed)));
    }
    Ok((starts, speeds))
}

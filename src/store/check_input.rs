//! What the forwarding-stage check looks at, read in its caller's transaction.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::{Context, relations, running};
use crate::backfill::check::{Input, Job, JobActor, SplitSeen};
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
    Ok(Input {
        source_id,
        source_name: relation.name,
        is_shared: true,
        assignment: running::assignment(connection, source_id, &actors)?,
        seen_splits: seen_splits(connection, source_id)?,
        jobs: jobs(connection, source_id)?,
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

fn jobs(connection: &Connection, source: SourceId) -> Result<Vec<Job>> {
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
            let (start_offsets, offsets_per_second) = progress(connection, fragment_id)?;
            Ok(Job {
                id: JobId(id),
                name,
                fragment_id,
                created_at_micros,
                forwarding,
                actors: job_actors(connection, fragment_id, forwarding)?,
                states: running::states(connection, fragment_id)?,
                start_offsets,
                offsets_per_second,
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

/// Start offsets and rates of the splits that are not done: the check has no use for the others'.
fn progress(
    connection: &Connection,
    fragment: FragmentId,
) -> Result<(BTreeMap<SplitId, Offset>, BTreeMap<SplitId, f64>)> {
    let mut starts = BTreeMap::new();
    let mut rates = BTreeMap::new();
    connection
        .prepare_cached(
            "SELECT p.split_id, p.start_offset, p.offsets_per_second
             FROM split_progress p JOIN backfill_states s USING (fragment_id, split_id)
             WHERE p.fragment_id = ?1 AND s.state NOT LIKE '%\"Finished\"%' ORDER BY p.split_id",
        )
        .and_then(|mut statement| {
            let mut rows = statement.query([fragment.0])?;
            while let Some(row) = rows.next()? {
                let split = SplitId::from(row.get_ref(0)?.as_str()?);
                if let Some(start) = row.get::<_, Option<i64>>(1)? {
                    starts.insert(split.clone(), Offset(start));
                }
                if let Some(rate) = row.get(2)? {
                    rates.insert(split, rate);
                }
            }
            Ok(())
        })
        .context("reading the progress of splits")?;
    Ok((starts, rates))
}

//! What an engine needs to build its actors: every source with its splits, views and actors, as last committed.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::Context;
use super::format::MessageFormat;
use crate::backfill::assignment::Assignment;
use crate::backfill::check::Persisted;
use crate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::state::BackfillStateWithProgress;
use crate::error::{Error, Result};
use crate::secret::Options;

/// A source as last committed.
#[derive(Debug, Clone)]
pub struct SourceRow {
    /// Its id.
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Its connector.
    pub connector: String,
    /// The options of WITH.
    pub options: Options,
    /// How its messages become rows.
    pub format: MessageFormat,
    /// Names and PostgreSQL types of its columns.
    pub columns: Vec<(String, String)>,
    /// Rows a second and actor; 0: paused.
    pub rate_limit: Option<u32>,
    /// When it was made, in microseconds since 1970.
    pub created_at: i64,
    /// Its actors, by position.
    pub actors: Vec<ActorId>,
    /// Which of them holds which splits.
    pub assignment: Assignment,
    /// Last row that the live stream has passed, of every split.
    pub splits: BTreeMap<SplitId, Option<Offset>>,
    /// What its connector wants to be told of every split.
    pub memories: BTreeMap<SplitId, Option<String>>,
    /// The fragments that read it.
    pub scans: Vec<ScanRow>,
}

/// A fragment of a view that reads a source, as last committed.
#[derive(Debug, Clone)]
pub struct ScanRow {
    /// Its id.
    pub fragment: FragmentId,
    /// The view.
    pub job: JobId,
    /// The view's name.
    pub job_name: String,
    /// The view's SELECT.
    pub query: String,
    /// Backfill rows a second and actor; 0: paused.
    pub rate_limit: Option<u32>,
    /// Sources of the view whose backfill comes before this one's.
    pub after: Vec<SourceId>,
    /// Whether it has gone forwarding.
    pub forwarding: bool,
    /// Its actors, by position: each is paired with the source's actor there.
    pub actors: Vec<ActorId>,
    /// Its rows of the state table.
    pub states: BTreeMap<SplitId, Persisted>,
    /// The first offsets that there were to read, where they are known.
    pub starts: BTreeMap<SplitId, Offset>,
    /// Percentages already shown: they never go down.
    pub percents: BTreeMap<SplitId, f64>,
}

/// The last committed checkpoint.
///
/// # Errors
/// [`Error::Store`].
pub fn epoch(connection: &Connection) -> Result<Epoch> {
    connection.query_row("SELECT epoch FROM meta", [], |row| row.get(0)).map(Epoch).context("reading the epoch")
}

/// All sources, in the order of their ids.
///
/// # Errors
/// [`Error::Store`].
pub fn sources(connection: &Connection) -> Result<Vec<SourceRow>> {
    let ids: Vec<i32> = connection
        .prepare_cached("SELECT id FROM sources ORDER BY id")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .context("listing sources")?;
    ids.into_iter().map(|id| source(connection, SourceId(id))).collect()
}

/// One source.
///
/// # Errors
/// [`Error::Store`], also when there is none of that id.
pub fn source(connection: &Connection, id: SourceId) -> Result<SourceRow> {
    let mut row = connection
        .prepare_cached(
            "SELECT r.name, s.connector, s.options_json, s.rate_limit, r.created_at, f.id, s.format_json, s.secrets_json
             FROM sources s JOIN relations r ON r.id = s.id JOIN fragments f ON f.job_id = s.id WHERE s.id = ?1",
        )
        .and_then(|mut statement| {
            statement.query_row([id.0], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, String>(2)?,
                    row.get::<_, Option<u32>>(3)?,
                    row.get::<_, i64>(4)?,
                    FragmentId(row.get(5)?),
                    row.get::<_, String>(6)?,
                    row.get::<_, String>(7)?,
                ))
            })
        })
        .context("reading a source")
        .and_then(|(name, connector, options, rate_limit, created_at, fragment, format, secrets)| {
            let actors = actors(connection, fragment)?;
            Ok(SourceRow {
                id,
                name,
                connector,
                options: with_secrets(json(&options, "a source's options")?, &secrets)?,
                format: json(&format, "a source's format")?,
                columns: super::relations::columns(connection, id.0)?,
                rate_limit,
                created_at,
                assignment: assignment(connection, id, &actors)?,
                actors,
                splits: BTreeMap::new(),
                memories: BTreeMap::new(),
                scans: Vec::new(),
            })
        })?;
    for (split, passed, memory) in splits(connection, id)? {
        row.memories.insert(split.clone(), memory);
        row.splits.insert(split, passed);
    }
    row.scans = scans(connection, id)?;
    Ok(row)
}

/// Puts the secrets in where they are hidden.
fn with_secrets(mut options: BTreeMap<String, String>, secrets: &str) -> Result<Options> {
    // The text is in no error.
    let secrets: BTreeMap<String, String> = serde_json::from_str(secrets)
        .map_err(|error| Error::Internal(format!("a source's secrets can't be read: {error}")))?;
    options.extend(secrets);
    Ok(Options(options))
}

fn json<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Internal(format!("{what} can't be read: {error}: {text}")))
}

/// The actors of a fragment, by position.
///
/// # Errors
/// [`Error::Store`].
pub fn actors(connection: &Connection, fragment: FragmentId) -> Result<Vec<ActorId>> {
    connection
        .prepare_cached("SELECT id FROM actors WHERE fragment_id = ?1 ORDER BY position")
        .and_then(|mut statement| statement.query_map([fragment.0], |row| row.get(0).map(ActorId))?.collect())
        .context("listing actors")
}

/// Which of a source's actors holds which splits. Every actor is in it, also one that holds none.
///
/// # Errors
/// [`Error::Store`].
pub fn assignment(connection: &Connection, source: SourceId, actors: &[ActorId]) -> Result<Assignment> {
    Ok(by_actor(&assigned(connection, source)?, actors))
}

/// The splits of a source that an actor holds, in their order, each with its actor.
///
/// # Errors
/// [`Error::Store`].
pub fn assigned(connection: &Connection, source: SourceId) -> Result<Vec<(SplitId, ActorId)>> {
    connection
        .prepare_cached("SELECT split_id, actor_id FROM split_assignments WHERE source_id = ?1 ORDER BY split_id")
        .and_then(|mut statement| {
            statement
                .query_map([source.0], |row| Ok((SplitId::from(row.get_ref(0)?.as_str()?), ActorId(row.get(1)?))))?
                .collect()
        })
        .context("reading the assignment of a source")
}

/// The same by actor. Every actor is in it, also one that holds none.
pub fn by_actor(assigned: &[(SplitId, ActorId)], actors: &[ActorId]) -> Assignment {
    // What is in order makes a set without being sorted.
    let mut held: BTreeMap<ActorId, Vec<SplitId>> = actors.iter().map(|actor| (*actor, Vec::new())).collect();
    for (split, actor) in assigned {
        held.entry(*actor).or_default().push(split.clone());
    }
    held.into_iter().map(|(actor, splits)| (actor, splits.into_iter().collect())).collect()
}

type SplitRow = (SplitId, Option<Offset>, Option<String>);

fn splits(connection: &Connection, source: SourceId) -> Result<Vec<SplitRow>> {
    connection
        .prepare_cached("SELECT split_id, upstream_offset, memory FROM splits WHERE source_id = ?1")
        .and_then(|mut statement| {
            statement
                .query_map([source.0], |row| {
                    let passed = row.get::<_, Option<i64>>(1)?.map(Offset);
                    Ok((SplitId::from(row.get_ref(0)?.as_str()?), passed, row.get(2)?))
                })?
                .collect()
        })
        .context("reading the splits of a source")
}

fn scans(connection: &Connection, source: SourceId) -> Result<Vec<ScanRow>> {
    let mut scans: Vec<(ScanRow, String)> = connection
        .prepare_cached(
            "SELECT f.id, j.id, r.name, j.query, j.rate_limit, j.order_json, f.forwarding_epoch IS NOT NULL
             FROM fragments f JOIN jobs j ON j.id = f.job_id JOIN relations r ON r.id = j.id
             WHERE f.source_id = ?1 AND f.kind = 'source scan' ORDER BY f.id",
        )
        .and_then(|mut statement| {
            statement
                .query_map([source.0], |row| {
                    let scan = ScanRow {
                        fragment: FragmentId(row.get(0)?),
                        job: JobId(row.get(1)?),
                        job_name: row.get(2)?,
                        query: row.get(3)?,
                        rate_limit: row.get(4)?,
                        after: Vec::new(),
                        forwarding: row.get(6)?,
                        actors: Vec::new(),
                        states: BTreeMap::new(),
                        starts: BTreeMap::new(),
                        percents: BTreeMap::new(),
                    };
                    Ok((scan, row.get(5)?))
                })?
                .collect()
        })
        .context("reading the views of a source")?;
    for (scan, order) in &mut scans {
        let order: Vec<(i32, i32)> = json(order, "a view's backfill order")?;
        let before = order.into_iter().filter(|(_, after)| *after == source.0);
        scan.after = before.map(|(before, _)| SourceId(before)).collect();
        scan.actors = actors(connection, scan.fragment)?;
        scan.states = states(connection, scan.fragment)?;
        for (split, start, percent) in progress(connection, scan.fragment)? {
            scan.starts.extend(start.map(|start| (split.clone(), start)));
            scan.percents.extend(percent.map(|percent| (split, percent)));
        }
    }
    Ok(scans.into_iter().map(|(scan, _)| scan).collect())
}

/// A fragment's rows of the state table, one for every split of its source. Every split gets a row when it is first
/// seen, so one without is [`Persisted::Missing`].
///
/// # Errors
/// [`Error::Store`]. A row that isn't a state is no error.
pub fn states(connection: &Connection, fragment: FragmentId) -> Result<BTreeMap<SplitId, Persisted>> {
    let splits: Vec<SplitId> = connection
        .prepare_cached(
            "SELECT s.split_id FROM fragments f JOIN splits s ON s.source_id = f.source_id WHERE f.id = ?1
             ORDER BY s.split_id",
        )
        .and_then(|mut statement| {
            statement.query_map([fragment.0], |row| Ok(SplitId::from(row.get_ref(0)?.as_str()?)))?.collect()
        })
        .context("reading the splits of a source")?;
    states_of(connection, fragment, splits.iter())
}

/// The same for these splits alone, which are in order. Their ids are shared with the map.
///
/// # Errors
/// As [`states`].
pub fn states_of<'a>(
    connection: &Connection,
    fragment: FragmentId,
    splits: impl ExactSizeIterator<Item = &'a SplitId>,
) -> Result<BTreeMap<SplitId, Persisted>> {
    let mut found = Vec::with_capacity(splits.len());
    let mut splits = splits.peekable();
    connection
        .prepare_cached("SELECT split_id, state FROM backfill_states WHERE fragment_id = ?1 ORDER BY split_id")
        .and_then(|mut statement| {
            // Both are in order: one walk through each, where a join would search for every split.
            let mut rows = statement.query([fragment.0])?;
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str()?;
                while let Some(missing) = splits.next_if(|split| split.as_str() < id) {
                    found.push((missing.clone(), Persisted::Missing));
                }
                if let Some(split) = splits.next_if(|split| split.as_str() == id) {
                    found.push((split.clone(), persisted(row.get_ref(1)?.as_bytes()?)));
                }
            }
            Ok(())
        })
        .context("reading backfill states")?;
    found.extend(splits.map(|missing| (missing.clone(), Persisted::Missing)));
    Ok(found.into_iter().collect())
}

/// A state row may have been written by hand, so nothing is taken for granted.
fn persisted(content: &[u8]) -> Persisted {
    let text = String::from_utf8_lossy(content);
    match BackfillStateWithProgress::from_json(&text) {
        Ok(state) => Persisted::State(state),
        Err(_) => Persisted::Unreadable(text.into_owned()),
    }
}

type ProgressRow = (SplitId, Option<Offset>, Option<f64>);

fn progress(connection: &Connection, fragment: FragmentId) -> Result<Vec<ProgressRow>> {
    connection
        .prepare_cached("SELECT split_id, start_offset, max_percent FROM split_progress WHERE fragment_id = ?1")
        .and_then(|mut statement| {
            statement
                .query_map([fragment.0], |row| {
                    Ok((
                        SplitId::from(row.get_ref(0)?.as_str()?),
                        row.get::<_, Option<i64>>(1)?.map(Offset),
                        row.get(2)?,
                    ))
                })?
                .collect()
        })
        .context("reading the progress of splits")
}

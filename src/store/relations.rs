//! Sources and views as rows: making, finding and dropping them.

use rusqlite::{Connection, OptionalExtension, named_params, params};

use super::Context;
use super::view_rows;
use crate::backfill::id::{ActorId, FragmentId, JobId, SourceId};
use crate::error::{Error, Result, nearest};

/// What a user can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A source.
    Source,
    /// A materialized view.
    MaterializedView,
}

impl RelationKind {
    /// The kind in SQL's words, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::MaterializedView => "materialized view",
        }
    }

    fn parse(text: &str) -> Self {
        // The schema's CHECK allows these two.
        if text == "source" { Self::Source } else { Self::MaterializedView }
    }
}

/// A relation that a user made.
#[derive(Debug, Clone)]
pub struct Relation {
    /// Its oid.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: RelationKind,
    /// When it was made, in microseconds since 1970.
    pub created_at: i64,
}

/// What a new relation starts as.
#[derive(Debug, Clone)]
pub struct NewRelation {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: RelationKind,
    /// Who makes it.
    pub owner: String,
    /// The statement.
    pub definition: String,
    /// Names and PostgreSQL types of its columns.
    pub columns: Vec<(String, String)>,
}

/// Finds a relation by name.
///
/// # Errors
/// [`Error::Store`].
pub fn find(connection: &Connection, name: &str) -> Result<Option<Relation>> {
    connection
        .prepare_cached("SELECT id, name, kind, created_at FROM relations WHERE schema = 'public' AND name = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([name], |row| {
                    Ok(Relation {
                        id: row.get(0)?,
                        name: row.get(1)?,
                        kind: RelationKind::parse(row.get_ref(2)?.as_str()?),
                        created_at: row.get(3)?,
                    })
                })
                .optional()
        })
        .context("looking up a relation")
}

/// Finds a relation of a kind.
///
/// # Errors
/// [`Error::UndefinedRelation`] with the nearest name of that kind, [`Error::WrongObjectType`] for one of another kind.
pub fn get(connection: &Connection, kind: RelationKind, name: &str) -> Result<Relation> {
    match find(connection, name)? {
        Some(relation) if relation.kind == kind => Ok(relation),
        Some(relation) => Err(Error::WrongObjectType {
            name: name.to_owned(),
            expected: kind.as_str(),
            hint: format!("\"{name}\" is a {}.", relation.kind.as_str()),
        }),
        None => {
            let known = names(connection, kind)?;
            Err(Error::UndefinedRelation {
                kind: kind.as_str(),
                name: name.to_owned(),
                nearest: nearest(name, known.iter().map(String::as_str)),
            })
        }
    }
}

/// The names of all relations of a kind, in order.
///
/// # Errors
/// [`Error::Store`].
pub fn names(connection: &Connection, kind: RelationKind) -> Result<Vec<String>> {
    connection
        .prepare_cached("SELECT name FROM relations WHERE kind = ?1 ORDER BY name")
        .and_then(|mut statement| statement.query_map([kind.as_str()], |row| row.get(0))?.collect())
        .context("listing relations")
}

/// The columns of a relation: names and PostgreSQL types, in order.
///
/// # Errors
/// [`Error::Store`].
pub fn columns(connection: &Connection, relation_id: i32) -> Result<Vec<(String, String)>> {
    connection
        .prepare_cached("SELECT name, type FROM columns WHERE relation_id = ?1 ORDER BY attnum")
        .and_then(|mut statement| statement.query_map([relation_id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .context("reading the columns of a relation")
}

/// Adds a relation with its columns and returns its id.
///
/// # Errors
/// [`Error::DuplicateRelation`] when the name is taken.
pub fn insert(tx: &Connection, relation: &NewRelation, now: i64) -> Result<i32> {
    if let Some(taken) = find(tx, &relation.name)? {
        return Err(Error::DuplicateRelation { kind: taken.kind.as_str(), name: relation.name.clone() });
    }
    let id = next_oid(tx)?;
    tx.execute(
        "INSERT INTO relations (id, schema, name, kind, owner, definition, created_at)
         VALUES (:id, 'public', :name, :kind, :owner, :definition, :now)",
        named_params! {
            ":id": id, ":name": relation.name, ":kind": relation.kind.as_str(), ":owner": relation.owner,
            ":definition": relation.definition, ":now": now,
        },
    )
    .context("adding a relation")?;
    for (attnum, (name, type_name)) in (1..).zip(&relation.columns) {
        tx.execute("INSERT INTO columns VALUES (?1, ?2, ?3, ?4)", params![id, attnum, name, type_name])
            .context("adding a column")?;
    }
    Ok(id)
}

/// Adds a fragment and its actors, and returns both. Scan actors start in the backfill stage with a reader.
///
/// # Errors
/// [`Error::Store`].
pub fn insert_fragment(
    tx: &Connection,
    job: i32,
    source: SourceId,
    kind: &str,
    actors: usize,
) -> Result<(FragmentId, Vec<ActorId>)> {
    let fragment = FragmentId(next_oid(tx)?);
    tx.execute(
        "INSERT INTO fragments (id, job_id, source_id, kind) VALUES (?1, ?2, ?3, ?4)",
        params![fragment.0, job, source.0, kind],
    )
    .context("adding a fragment")?;
    let mut ids = Vec::with_capacity(actors);
    for position in 0..actors {
        let actor = next_actor_id(tx)?;
        insert_actor(tx, actor, fragment, position, kind)?;
        ids.push(actor);
    }
    Ok((fragment, ids))
}

/// Adds an actor at a position of its fragment.
///
/// # Errors
/// [`Error::Store`].
pub fn insert_actor(tx: &Connection, actor: ActorId, fragment: FragmentId, position: usize, kind: &str) -> Result<()> {
    let scan = kind == "source scan";
    tx.execute(
        "INSERT INTO actors (id, fragment_id, position, stage, reader_live) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![actor.0, fragment.0, position, scan.then_some("backfill"), scan],
    )
    .context("adding an actor")?;
    Ok(())
}

/// Drops a relation and all that hangs on it; its rescale history stays.
///
/// # Errors
/// [`Error::Store`].
pub fn drop_relation(tx: &Connection, relation: &Relation, now: i64) -> Result<()> {
    match relation.kind {
        RelationKind::Source => {
            tx.execute(
                "INSERT INTO split_assignment_history
                   (source_id, source_name, split_id, actor_id, assigned_at, assigned_by, ended_at)
                 SELECT source_id, ?2, split_id, actor_id, assigned_at, assigned_by, ?3
                 FROM split_assignments WHERE source_id = ?1",
                params![relation.id, relation.name, now],
            )
            .context("keeping the history of a dropped source")?;
            tx.execute("DELETE FROM bad_rows WHERE source_id = ?1", [relation.id]).context("dropping bad rows")?;
            tx.execute(
                "UPDATE rescales SET decision = 'cancelled', decided_at = ?2, waiting_json = '[]'
                 WHERE source_id = ?1 AND decision = 'pending'",
                params![relation.id, now],
            )
            .context("cancelling the rescales of a dropped source")?;
        }
        RelationKind::MaterializedView => {
            view_rows::drop_table(tx, JobId(relation.id))?;
            tx.execute("DELETE FROM bad_rows WHERE job_id = ?1", [relation.id]).context("dropping bad rows")?;
            tx.execute("DELETE FROM split_gaps WHERE job_id = ?1", [relation.id]).context("dropping gaps")?;
        }
    }
    tx.execute("DELETE FROM relations WHERE id = ?1", [relation.id]).context("dropping a relation")?;
    Ok(())
}

/// The views that read a source.
///
/// # Errors
/// [`Error::Store`].
pub fn views_of(connection: &Connection, source: SourceId) -> Result<Vec<String>> {
    connection
        .prepare_cached(
            "SELECT r.name FROM fragments f JOIN relations r ON r.id = f.job_id
             WHERE f.source_id = ?1 AND f.kind = 'source scan' ORDER BY r.name",
        )
        .and_then(|mut statement| statement.query_map([source.0], |row| row.get(0))?.collect())
        .context("listing the views of a source")
}

/// Takes the next oid, of a relation, fragment or role.
///
/// # Errors
/// [`Error::Store`].
pub fn next_oid(tx: &Connection) -> Result<i32> {
    tx.query_row("UPDATE meta SET next_oid = next_oid + 1 RETURNING next_oid - 1", [], |row| row.get(0))
        .context("taking an object id")
}

/// Takes the next actor id.
///
/// # Errors
/// [`Error::Store`].
pub fn next_actor_id(tx: &Connection) -> Result<ActorId> {
    tx.query_row("UPDATE meta SET next_actor_id = next_actor_id + 1 RETURNING next_actor_id - 1", [], |row| row.get(0))
        .map(ActorId)
        .context("taking an actor id")
}

/// Writes a line of `rw_catalog.rw_event_logs`.
///
/// # Errors
/// [`Error::Store`].
pub fn log_event(tx: &Connection, now: i64, event_type: &str, info: &serde_json::Value) -> Result<()> {
    tx.execute(
        "INSERT INTO events (at, event_type, info_json) VALUES (?1, ?2, ?3)",
        params![now, event_type, info.to_string()],
    )
    .context("writing the event log")?;
    Ok(())
}

//! What a reader connection of SQLite needs before the catalog can use it: functions, the list of virtual tables, and
//! a temporary view for each of them.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};

use super::view::{Column, VIEWS};
use super::{SCHEMAS, statics, store_error, types};
use crate::backfill::id::Offset;
use crate::backfill::state::{BackfillState, BackfillStateWithProgress};
use crate::error::Result;

/// Microseconds since 1970, now.
pub fn now_micros() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// When this process first looked at its catalog: when it was started, for all that anyone can see.
pub static STARTED_AT: LazyLock<i64> = LazyLock::new(now_micros);

/// Makes a reader connection ready: to be called once, before its first snapshot. Changes nothing but `temp`.
///
/// # Errors
/// [`crate::error::Error::Store`], when the database has not been migrated.
pub fn prepare_connection(connection: &Connection) -> Result<()> {
    LazyLock::force(&STARTED_AT);
    connection.set_prepared_statement_cache_capacity(256);
    functions(connection)
        .and_then(|()| tables(connection))
        .and_then(|()| views(connection))
        .map_err(|source| store_error("prepare a reader", source))
}

/// The state of a split, from its row. `None` for a row that doesn't parse.
fn state(text: Option<String>) -> Option<BackfillStateWithProgress> {
    text.and_then(|text| serde_json::from_str(&text).ok())
}

fn functions(connection: &Connection) -> rusqlite::Result<()> {
    let pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("now_micros", 0, FunctionFlags::SQLITE_UTF8, |_| Ok(now_micros()))?;
    connection.create_scalar_function("started_at_micros", 0, pure, |_| Ok(*STARTED_AT))?;
    connection.create_scalar_function("server_version", 0, pure, |_| Ok(env!("CARGO_PKG_VERSION")))?;
    connection.create_scalar_function("state_name", 1, pure, |call| {
        Ok(state(call.get(0)?).map(|state| match state.state {
            BackfillState::Backfilling(_) => "Backfilling",
            BackfillState::SourceCachingUp(_) => "SourceCachingUp",
            BackfillState::Finished => "Finished",
        }))
    })?;
    connection.create_scalar_function("state_offset", 1, pure, |call| {
        Ok(state(call.get(0)?).and_then(|state| offset(state.state)).map(|offset| offset.0))
    })?;
    connection.create_scalar_function("state_target", 1, pure, |call| {
        Ok(state(call.get(0)?).and_then(|state| state.target_offset).map(|offset| offset.0))
    })?;
    connection.create_scalar_function("state_rows", 1, pure, |call| {
        Ok(state(call.get(0)?).map(|state| i64::try_from(state.num_consumed_rows).unwrap_or(i64::MAX)))
    })?;
    connection.create_scalar_function("split_remaining", 2, pure, |call| {
        let (text, start) = (call.get::<Option<String>>(0)?, call.get::<Option<i64>>(1)?);
        Ok(state(text).and_then(|state| remaining(&state, start)))
    })?;
    connection.create_scalar_function("split_percent", 3, pure, |call| {
        let text = call.get::<Option<String>>(0)?;
        if text.is_none() {
            return Ok(Some(0.0));
        }
        let (start, max_so_far) = (call.get::<Option<i64>>(1)?, call.get::<Option<f64>>(2)?);
        Ok(state(text).and_then(|state| percent(&state, start, max_so_far)))
    })
}

fn offset(state: BackfillState) -> Option<Offset> {
    match state {
        BackfillState::Backfilling(offset) => offset,
        BackfillState::SourceCachingUp(offset) => Some(offset),
        BackfillState::Finished => None,
    }
}

/// Offsets left to the target.
fn remaining(state: &BackfillStateWithProgress, start: Option<i64>) -> Option<i64> {
    match state.state {
        BackfillState::Backfilling(done) => {
            let next = done.map(|done| done.0.saturating_add(1)).or(start)?;
            Some(state.target_offset?.0.saturating_sub(next).saturating_add(1).max(0))
        }
        BackfillState::SourceCachingUp(_) | BackfillState::Finished => Some(0),
    }
}

/// Share of start..target that is done. 100 is kept for Finished.
#[expect(clippy::cast_precision_loss, reason = "a percentage needs no more than 53 bits")]
fn percent(state: &BackfillStateWithProgress, start: Option<i64>, max_so_far: Option<f64>) -> Option<f64> {
    const ALMOST: f64 = 99.99;
    let now = match state.state {
        BackfillState::Finished => return Some(100.0),
        BackfillState::SourceCachingUp(_) => Some(ALMOST),
        BackfillState::Backfilling(_) => start.zip(state.target_offset).zip(remaining(state, start)).map(
            |((start, target), remaining)| {
                let all = target.0.saturating_sub(start).saturating_add(1).max(1) as f64;
                100.0 * (1.0 - remaining as f64 / all)
            },
        ),
    };
    let percent = match (now, max_so_far) {
        (Some(now), Some(max)) => now.max(max),
        (now, max) => now.or(max)?,
    };
    Some(percent.clamp(0.0, ALMOST))
}

fn tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TEMP TABLE catalog_schemas (oid INTEGER PRIMARY KEY, name TEXT NOT NULL, comment TEXT NOT NULL) STRICT;
         CREATE TEMP TABLE catalog_types (name TEXT PRIMARY KEY, typname TEXT, oid INTEGER, len INTEGER, byval INTEGER,
           align TEXT, storage TEXT, collation INTEGER, sql_type TEXT, is_array INTEGER) STRICT, WITHOUT ROWID;
         CREATE TEMP TABLE catalog_relations (oid INTEGER PRIMARY KEY, name TEXT NOT NULL, namespace INTEGER NOT NULL,
           kind TEXT NOT NULL, definition TEXT, natts INTEGER NOT NULL, comment TEXT) STRICT;
         CREATE TEMP TABLE catalog_columns (relation INTEGER NOT NULL, attnum INTEGER NOT NULL, name TEXT NOT NULL,
           type TEXT NOT NULL, comment TEXT, PRIMARY KEY (relation, attnum)) STRICT, WITHOUT ROWID;",
    )?;
    let mut schema = connection.prepare("INSERT INTO catalog_schemas VALUES (?, ?, ?)")?;
    for (name, oid, comment) in SCHEMAS {
        schema.execute(params![oid, name, comment])?;
    }
    let mut pg_type = connection.prepare("INSERT INTO catalog_types VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for t in types::TYPES {
        pg_type.execute(params![
            t.name, t.typname, t.oid, t.len, t.byval, t.align, t.storage, t.collation, t.sql, t.is_array()
        ])?;
    }
    let mut relation = connection.prepare("INSERT INTO catalog_relations VALUES (?, ?, ?, ?, ?, ?, ?)")?;
    let mut column = connection.prepare("INSERT INTO catalog_columns VALUES (?, ?, ?, ?, ?)")?;
    for view in VIEWS.iter().chain(statics::TABLES.iter()).filter(|view| view.is_visible()) {
        let namespace = SCHEMAS.iter().find(|(name, ..)| *name == view.schema).map(|(_, oid, _)| oid);
        // PostgreSQL's own catalog is made of tables, apart from these.
        let is_table = view.schema == "pg_catalog" && view.oid < 10000;
        let kind = if is_table { "r" } else { "v" };
        relation.execute(params![
            view.oid,
            view.name,
            namespace,
            kind,
            view.select,
            i64::try_from(view.columns.len()).unwrap_or_default(),
            (!view.comment.is_empty()).then_some(&view.comment)
        ])?;
        for (attnum, Column { name, pg_type, comment }) in (1..).zip(&view.columns) {
            column.execute(params![view.oid, attnum, name, pg_type.name, comment])?;
        }
    }
    Ok(())
}

fn views(connection: &Connection) -> rusqlite::Result<()> {
    let mut sql = String::new();
    for view in VIEWS.iter() {
        if let Some(select) = &view.select {
            sql.push_str(&format!("CREATE TEMP VIEW \"{}\" AS {select};\n", view.sqlite_name()));
        }
    }
    connection.execute_batch(&sql)
}

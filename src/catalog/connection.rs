//! What a reader connection of SQLite needs before the catalog can use it: functions, the list of virtual tables, and
//! a temporary view for each of them.

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use super::view::{Column, VIEWS};
use super::{SCHEMAS, statics, types};
use crate::backfill::id::Offset;
use crate::backfill::progress::{self, Eta};
use crate::backfill::state::BackfillStateWithProgress;
use crate::clock::now_micros;

/// When this process first looked at its catalog: when it was started, for all that anyone can see.
pub static STARTED_AT: LazyLock<i64> = LazyLock::new(now_micros);

/// Makes a reader connection ready: to be called once, before its first snapshot. Changes nothing but `temp`.
///
/// # Errors
/// Those of SQLite.
pub fn prepare_connection(connection: &Connection) -> rusqlite::Result<()> {
    LazyLock::force(&STARTED_AT);
    functions(connection)?;
    tables(connection)?;
    views(connection)
}

/// The state of a split, from its row. `None` for a row that doesn't parse.
fn state(text: Option<String>) -> Option<BackfillStateWithProgress> {
    text.and_then(|text| BackfillStateWithProgress::from_json(&text).ok())
}

fn functions(connection: &Connection) -> rusqlite::Result<()> {
    let pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("now_micros", 0, FunctionFlags::SQLITE_UTF8, |_| Ok(now_micros()))?;
    connection.create_scalar_function("started_at_micros", 0, pure, |_| Ok(*STARTED_AT))?;
    session_user(connection)?;
    connection.create_scalar_function("server_version", 0, pure, |_| Ok(env!("CARGO_PKG_VERSION")))?;
    connection.create_scalar_function("state_name", 1, pure, |call| {
        Ok(state(call.get(0)?).map(|state| state.state.name()))
    })?;
    connection.create_scalar_function("state_offset", 1, pure, |call| {
        Ok(state(call.get(0)?).and_then(|state| state.state.offset()).map(|offset| offset.0))
    })?;
    connection.create_scalar_function("state_target", 1, pure, |call| {
        Ok(state(call.get(0)?).and_then(|state| state.target_offset).map(|offset| offset.0))
    })?;
    connection.create_scalar_function("state_rows", 1, pure, |call| {
        Ok(state(call.get(0)?).map(|state| i64::try_from(state.num_consumed_rows).unwrap_or(i64::MAX)))
    })?;
    connection.create_scalar_function("split_remaining", 2, pure, |call| {
        let (text, start) = (call.get::<Option<String>>(0)?, call.get::<Option<i64>>(1)?.map(Offset));
        Ok(state(text).and_then(|state| progress::remaining(start, &state)))
    })?;
    connection.create_scalar_function("split_percent", 3, pure, |call| {
        let text = call.get::<Option<String>>(0)?;
        if text.is_none() {
            return Ok(Some(0.0));
        }
        let (start, max_so_far) = (call.get::<Option<i64>>(1)?.map(Offset), call.get::<Option<f64>>(2)?);
        Ok(state(text).and_then(|state| progress::percent(start, &state, max_so_far)))
    })?;
    connection.create_scalar_function("split_eta", 4, pure, |call| {
        let (text, start) = (call.get::<Option<String>>(0)?, call.get::<Option<i64>>(1)?.map(Offset));
        let (max_so_far, closing) = (call.get::<Option<f64>>(2)?, call.get::<Option<f64>>(3)?);
        Ok(state(text).and_then(|state| {
            let percent = progress::percent(start, &state, max_so_far);
            match progress::eta(progress::remaining(start, &state), closing, percent)? {
                Eta::Seconds(seconds) => Some((seconds * 1e6) as i64),
                Eta::Never => None,
            }
        }))
    })?;
    connection.create_scalar_function("split_work", 2, pure, |call| {
        let (text, start) = (call.get::<Option<String>>(0)?, call.get::<Option<i64>>(1)?.map(Offset));
        Ok(state(text).and_then(|state| progress::work(start, &state)))
    })
}

/// Whose query the connection runs: `session_user_id()`, as `set_session_user_id(id)` has set it last. A connection
/// serves one snapshot at a time, so one session.
fn session_user(connection: &Connection) -> rusqlite::Result<()> {
    let user = Arc::new(AtomicI64::new(0));
    let told = Arc::clone(&user);
    // Not deterministic: SQLite would take its value for a constant of the connection.
    let flags = FunctionFlags::SQLITE_UTF8;
    connection.create_scalar_function("session_user_id", 0, flags, move |_| Ok(told.load(Ordering::Relaxed)))?;
    connection.create_scalar_function("set_session_user_id", 1, flags, move |call| {
        user.store(call.get::<Option<i64>>(0)?.unwrap_or_default(), Ordering::Relaxed);
        Ok(1)
    })
}

fn tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TEMP TABLE catalog_schemas (oid INTEGER PRIMARY KEY, name TEXT NOT NULL, comment TEXT NOT NULL) STRICT;
         CREATE TEMP TABLE catalog_types (name TEXT PRIMARY KEY, typname TEXT, oid INTEGER, len INTEGER, byval INTEGER,
           align TEXT, storage TEXT, collation INTEGER, sql_type TEXT, is_array INTEGER) STRICT, WITHOUT ROWID;
         CREATE TEMP TABLE catalog_relations (oid INTEGER PRIMARY KEY, name TEXT NOT NULL, namespace INTEGER NOT NULL,
           kind TEXT NOT NULL, definition TEXT, natts INTEGER NOT NULL, comment TEXT) STRICT;
         CREATE INDEX temp.catalog_relations_by_name ON catalog_relations (name);
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
            t.name,
            t.typname,
            t.oid,
            t.len,
            t.byval,
            t.align,
            t.storage,
            t.collation,
            t.sql,
            t.is_array()
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

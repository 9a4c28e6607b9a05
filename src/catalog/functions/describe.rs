//! Comments and definitions of relations.

use datafusion::common::ScalarValue;
use rusqlite::OptionalExtension as _;

use super::super::{statics, store_error};
use super::{Call, Definition, Value, names, pure, stable, text};
use crate::error::Result;

pub const FUNCTIONS: &[Definition] = &[
    stable("obj_description", 1..=2, "text", obj_description),
    stable("col_description", 2..=2, "text", |call| {
        let (Some(relation), Some(column)) = (call.integer(0), call.integer(1)) else {
            return Ok(text(None::<String>));
        };
        one(call, "SELECT comment FROM temp.catalog_columns WHERE relation = ?1 AND attnum = ?2", [relation, column])
    }),
    // Databases and roles have no comments.
    pure("shobj_description", 2..=2, "text", nothing),
    stable("pg_get_viewdef", 1..=2, "text", |call| {
        let Some(relation) = names::relation(call, 0)? else { return Ok(text(None::<String>)) };
        one(
            call,
            "SELECT COALESCE(j.query, r.definition) FROM \"base.relations\" r LEFT JOIN main.jobs j ON j.id = r.oid WHERE r.oid = ?1",
            [relation],
        )
    }),
    stable("pg_get_userbyid", 1..=1, "name", |call| {
        let Some(id) = call.integer(0) else { return Ok(text(None::<String>)) };
        let name = one(call, "SELECT name FROM main.users WHERE id = ?1", [id])?;
        Ok(if name.is_null() { text(Some(format!("unknown (OID={id})"))) } else { name })
    }),
    // An expression is kept as its text.
    pure("pg_get_expr", 2..=3, "text", |call| Ok(text(call.text(0)))),
    // There are no indexes, constraints, triggers, rules, partitions or extended statistics.
    pure("pg_get_indexdef", 1..=3, "text", nothing),
    pure("pg_get_constraintdef", 1..=2, "text", nothing),
    pure("pg_get_triggerdef", 1..=2, "text", nothing),
    pure("pg_get_ruledef", 1..=2, "text", nothing),
    pure("pg_get_partkeydef", 1..=1, "text", nothing),
    pure("pg_get_partition_constraintdef", 1..=1, "text", nothing),
    pure("pg_get_statisticsobjdef", 1..=1, "text", nothing),
    pure("pg_get_statisticsobjdef_columns", 1..=1, "text", nothing),
    pure("pg_get_serial_sequence", 2..=2, "text", nothing),
    pure("pg_tablespace_location", 1..=1, "text", nothing),
    pure("pg_relation_filepath", 1..=1, "text", nothing),
    pure("pg_relation_is_publishable", 1..=1, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
    pure("pg_relation_is_updatable", 2..=2, "int4", |_| Ok(ScalarValue::Int32(Some(0)))),
    pure("pg_column_is_updatable", 3..=3, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
    pure("pg_index_column_has_property", 3..=3, "bool", |_| Ok(ScalarValue::Boolean(None))),
];

fn nothing(_: &Call<'_>) -> Value {
    Ok(text(None::<String>))
}

fn obj_description(call: &Call<'_>) -> Value {
    let Some(oid) = call.integer(0) else { return Ok(text(None::<String>)) };
    match call.text(1).as_deref() {
        Some("pg_namespace") => one(call, "SELECT comment FROM temp.catalog_schemas WHERE oid = ?1", [oid]),
        None | Some("pg_class") => one(call, "SELECT comment FROM temp.catalog_relations WHERE oid = ?1", [oid]),
        Some(class) => Ok(text(statics::description(oid, class))),
    }
}

/// The text that a query gives in its first row, or NULL.
fn one<P: rusqlite::Params>(call: &Call<'_>, sql: &str, parameters: P) -> Value {
    Ok(text(query_text(call, sql, parameters)?))
}

/// The text that a query gives in its first row.
pub fn query_text<P: rusqlite::Params>(call: &Call<'_>, sql: &str, parameters: P) -> Result<Option<String>> {
    call.scope.read(|connection| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(parameters, |row| row.get::<_, Option<String>>(0)).optional())
            .map(Option::flatten)
            .map_err(|source| store_error("describe a relation", source))
    })
}

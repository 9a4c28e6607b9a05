//! Names to oids and back: regclass and its kin, and what is visible without a schema.

use std::collections::HashMap;

use datafusion::common::ScalarValue;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::scope::{Scope, Visibility};
use super::super::{DATABASE, SCHEMAS, other_database, store_error};
use super::{Call, Definition, Value, describe, invalid, procedures, pure, signatures, stable, text};
use crate::error::{Error, Result};

/// The types whose values are oids, written as names.
pub const REG_TYPES: &[&str] =
    &["regclass", "regtype", "regproc", "regprocedure", "regoper", "regoperator", "regnamespace", "regrole"];

/// The function that takes a name, or an oid, to an oid: the cast to that type.
pub fn oid_function(reg_type: &str) -> String {
    format!("{reg_type}_in")
}

/// The function that takes an oid to a name: the cast from that type to text.
pub fn text_function(reg_type: &str) -> String {
    format!("{reg_type}_out")
}

pub const FUNCTIONS: &[Definition] = &[
    stable("regclass_in", 1..=1, "regclass", |call| strict(call, relation_by_name, undefined_relation)),
    pure("regtype_in", 1..=1, "regtype", |call| strict(call, type_by_name, |name| undefined("type", name))),
    pure("regproc_in", 1..=1, "regproc", |call| strict(call, function_by_name, |name| undefined("function", name))),
    pure("regprocedure_in", 1..=1, "regprocedure", |call| {
        strict(call, function_by_signature, |name| undefined("function", name))
    }),
    pure("regoper_in", 1..=1, "regoper", |call| strict(call, operator_by_name, |name| undefined("operator", name))),
    pure("regoperator_in", 1..=1, "regoperator", |call| {
        strict(call, operator_by_signature, |name| undefined("operator", name))
    }),
    stable("regnamespace_in", 1..=1, "regnamespace", |call| {
        strict(call, schema_by_name, |name| undefined("schema", name))
    }),
    stable("regrole_in", 1..=1, "regrole", |call| strict(call, role_by_name, |name| undefined("role", name))),
    pure("oid_in", 1..=1, "oid", |call| strict(call, |_, name| Err(invalid_oid(name)), undefined_relation)),
    stable("to_regclass", 1..=1, "regclass", |call| lenient(call, relation_by_name)),
    pure("to_regtype", 1..=1, "regtype", |call| lenient(call, type_by_name)),
    pure("to_regproc", 1..=1, "regproc", |call| lenient(call, function_by_name)),
    pure("to_regprocedure", 1..=1, "regprocedure", |call| lenient(call, function_by_signature)),
    pure("to_regoper", 1..=1, "regoper", |call| lenient(call, operator_by_name)),
    pure("to_regoperator", 1..=1, "regoperator", |call| lenient(call, operator_by_signature)),
    stable("to_regnamespace", 1..=1, "regnamespace", |call| lenient(call, schema_by_name)),
    stable("to_regrole", 1..=1, "regrole", |call| lenient(call, role_by_name)),
    stable("regclass_out", 1..=1, "text", |call| {
        out(call, |call, oid| {
            let Some((schema, name)) = relation_name(call.scope, oid)? else { return Ok(None) };
            let visible = relation_by_name(call, &quote(&name))? == Some(oid);
            Ok(Some(if visible { quote(&name) } else { format!("{}.{}", quote(&schema), quote(&name)) }))
        })
    }),
    pure("regtype_out", 1..=1, "text", |call| out(call, |_, oid| Ok(signatures::type_name(oid)))),
    pure("regproc_out", 1..=1, "text", |call| out(call, |_, oid| Ok(procedures::FUNCTIONS.name(oid)))),
    pure("regprocedure_out", 1..=1, "text", |call| out(call, |_, oid| Ok(procedures::FUNCTIONS.signature(oid)))),
    pure("regoper_out", 1..=1, "text", |call| out(call, |_, oid| Ok(procedures::OPERATORS.name(oid)))),
    pure("regoperator_out", 1..=1, "text", |call| out(call, |_, oid| Ok(procedures::OPERATORS.signature(oid)))),
    stable("regnamespace_out", 1..=1, "text", |call| {
        out(call, |call, oid| describe::query_text(call, "SELECT name FROM temp.catalog_schemas WHERE oid = ?1", [oid]))
    }),
    stable("regrole_out", 1..=1, "text", |call| {
        out(call, |call, oid| describe::query_text(call, "SELECT name FROM main.users WHERE id = ?1", [oid]))
    }),
    stable("pg_table_is_visible", 1..=1, "bool", |call| {
        let Some(oid) = call.integer(0) else { return Ok(ScalarValue::Boolean(None)) };
        Ok(ScalarValue::Boolean(call.scope.is_visible(oid, visibility)?))
    }),
    // All of these live in pg_catalog or tidegate, which are always in the search path, and none has the name of another.
    pure("pg_type_is_visible", 1..=1, "bool", visible),
    pure("pg_function_is_visible", 1..=1, "bool", visible),
    pure("pg_operator_is_visible", 1..=1, "bool", visible),
    pure("pg_opclass_is_visible", 1..=1, "bool", visible),
    pure("pg_opfamily_is_visible", 1..=1, "bool", visible),
    pure("pg_collation_is_visible", 1..=1, "bool", visible),
    pure("pg_conversion_is_visible", 1..=1, "bool", visible),
    pure("pg_statistics_obj_is_visible", 1..=1, "bool", visible),
    pure("pg_ts_config_is_visible", 1..=1, "bool", visible),
    pure("pg_ts_dict_is_visible", 1..=1, "bool", visible),
    pure("pg_ts_parser_is_visible", 1..=1, "bool", visible),
    pure("pg_ts_template_is_visible", 1..=1, "bool", visible),
];

fn invalid_oid(name: &str) -> Error {
    invalid("22P02", format!("invalid input syntax for type oid: \"{name}\""))
}

fn visible(call: &Call<'_>) -> Value {
    Ok(ScalarValue::Boolean((!call.any_null()).then_some(true)))
}

fn undefined(kind: &str, name: &str) -> Error {
    let sqlstate = match kind {
        "schema" => "3F000",
        "function" | "operator" => "42883",
        _ => "42704",
    };
    Error::Semantics { sqlstate, message: format!("{kind} \"{name}\" does not exist") }
}

type ByName = fn(&Call<'_>, &str) -> Result<Option<i64>>;

/// An oid from a name or an oid; a name that is unknown is an error.
fn strict(call: &Call<'_>, by_name: ByName, undefined: fn(&str) -> Error) -> Value {
    let oid = match call.text(0) {
        None => None,
        Some(name) => Some(match oid_in(call) {
            Some(oid) => oid,
            None => by_name(call, &name)?.ok_or_else(|| undefined(&name))?,
        }),
    };
    oid_value(oid)
}

/// The same; a name that is unknown is NULL.
fn lenient(call: &Call<'_>, by_name: ByName) -> Value {
    let oid = match (call.text(0), oid_in(call)) {
        (_, Some(oid)) => Some(oid),
        (Some(name), None) => by_name(call, &name)?,
        (None, None) => None,
    };
    oid_value(oid)
}

fn oid_in(call: &Call<'_>) -> Option<i64> {
    call.integer(0).or_else(|| (call.text(0)? == "-").then_some(0))
}

/// An oid has no sign, but is held in an integer that has. Negative numbers stand for themselves, as in PostgreSQL.
fn oid_value(oid: Option<i64>) -> Value {
    let Some(oid) = oid else { return Ok(ScalarValue::Int32(None)) };
    let held = u32::try_from(oid).map(u32::cast_signed).or_else(|_| i32::try_from(oid));
    let held = held.map_err(|_| invalid("22003", format!("value \"{oid}\" is out of range for type oid")))?;
    Ok(ScalarValue::Int32(Some(held)))
}

/// A name from an oid: `-` for 0, the number when nothing has it. Text stays as it is.
fn out(call: &Call<'_>, name: fn(&Call<'_>, i64) -> Result<Option<String>>) -> Value {
    Ok(match call.integer(0) {
        None => text(call.text(0)),
        Some(0) => text(Some("-")),
        Some(oid) => text(Some(name(call, oid)?.unwrap_or_else(|| oid.to_string()))),
    })
}

/// The relation that an argument names, by oid or by name.
pub fn relation(call: &Call<'_>, index: usize) -> Result<Option<i64>> {
    match (call.integer(index), call.text(index)) {
        (Some(oid), _) => Ok(Some(oid)),
        (None, Some(name)) => relation_by_name(call, &name),
        (None, None) => Ok(None),
    }
}

fn relation_by_name(call: &Call<'_>, written: &str) -> Result<Option<i64>> {
    let parts = split(written)?;
    let (path, name) = match parts.as_slice() {
        [] => return Ok(None),
        [name] => (call.scope.search_path(), name),
        [schema, name] => (vec![schema.clone()], name),
        [database, schema, name] if database == DATABASE => (vec![schema.clone()], name),
        [_, _, _] => return Err(other_database(&parts.join("."))),
        _ => return Err(Error::Semantics { sqlstate: "42601", message: format!("{TOO_MANY}{}", parts.join(".")) }),
    };
    call.scope.read(|connection| {
        let mut statement = connection
            .prepare_cached(
                "SELECT r.oid FROM temp.catalog_schemas n JOIN \"base.relations\" r ON r.namespace = n.oid
                 WHERE n.name = ?1 AND r.name = ?2",
            )
            .map_err(failed)?;
        for schema in path {
            let oid = statement.query_row(params![schema, name], |row| row.get(0)).optional().map_err(failed)?;
            if oid.is_some() {
                return Ok(oid);
            }
        }
        Ok(None)
    })
}

/// What PostgreSQL says of a name of more than three parts, before the name.
const TOO_MANY: &str = "improper relation name (too many dotted names): ";

/// The error of a name that no relation has: of its schema, if there is no such schema.
fn undefined_relation(name: &str) -> Error {
    match split(name).unwrap_or_default().as_slice() {
        [.., schema, _] if SCHEMAS.iter().all(|(known, ..)| known != schema) => undefined("schema", schema),
        _ => Error::UndefinedRelation { kind: "relation", name: name.into(), nearest: None },
    }
}

/// All relations, each with whether its name alone finds it. psql asks it of each one, so one read answers for all.
fn visibility(connection: &Connection, path: &[String]) -> Result<Visibility> {
    let sql =
        "SELECT r.oid, r.name, n.name FROM \"base.relations\" r JOIN temp.catalog_schemas n ON n.oid = r.namespace";
    let relations: Vec<(i64, String, Option<usize>)> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let rows = statement.query_map([], |row| {
                let schema: String = row.get(2)?;
                Ok((row.get(0)?, row.get(1)?, path.iter().position(|name| *name == schema)))
            })?;
            rows.collect()
        })
        .map_err(failed)?;
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (_, name, place) in &relations {
        if let Some(place) = *place {
            first.entry(name).and_modify(|first| *first = place.min(*first)).or_insert(place);
        }
    }
    let is_first = |name: &str, place: Option<usize>| place.is_some() && first.get(name).copied() == place;
    Ok(relations.iter().map(|(oid, name, place)| (*oid, is_first(name, *place))).collect())
}

fn relation_name(scope: &Scope, oid: i64) -> Result<Option<(String, String)>> {
    scope.read(|connection| {
        connection
            .prepare_cached(
                "SELECT n.name, r.name FROM \"base.relations\" r JOIN temp.catalog_schemas n ON n.oid = r.namespace
                 WHERE r.oid = ?1",
            )
            .and_then(|mut statement| statement.query_row([oid], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(failed)
    })
}

fn type_by_name(_: &Call<'_>, name: &str) -> Result<Option<i64>> {
    Ok(signatures::type_oid(&unmodified(unqualified(name))))
}

/// The name of a type without its schema, which is `pg_catalog` for all.
fn unqualified(name: &str) -> &str {
    let Some((schema, own)) = name.split_once('.') else { return name };
    let schema = schema.trim();
    let is_catalog = schema == "\"pg_catalog\"" || schema.eq_ignore_ascii_case("pg_catalog");
    if is_catalog { own } else { name }
}

/// The same without its modifier: `numeric(10,2)` is the type numeric.
fn unmodified(name: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ');
    match name.split_once('(').and_then(|(before, rest)| Some((before, rest.split_once(')')?))) {
        Some((before, (modifier, behind))) if !modifier.is_empty() && modifier.chars().all(is_number) => {
            format!("{}{behind}", before.trim_end())
        }
        _ => name.to_owned(),
    }
}

fn function_by_name(_: &Call<'_>, name: &str) -> Result<Option<i64>> {
    let parts = split(name)?;
    match parts.last().map_or(&[][..], |name| procedures::FUNCTIONS.named(name)) {
        [] => Ok(None),
        [oid] => Ok(Some(*oid)),
        _ => Err(Error::Semantics {
            sqlstate: "42725",
            message: format!("more than one function named \"{}\"", parts.join(".")),
        }),
    }
}

fn function_by_signature(_: &Call<'_>, text: &str) -> Result<Option<i64>> {
    let (name, arguments) = arguments_of(text)?;
    let parts = split(name)?;
    Ok(parts.last().and_then(|name| procedures::FUNCTIONS.with_arguments(name, &arguments)))
}

fn operator_by_name(_: &Call<'_>, name: &str) -> Result<Option<i64>> {
    match procedures::OPERATORS.named(name.rsplit('.').next().unwrap_or(name)) {
        [] => Ok(None),
        [oid] => Ok(Some(*oid)),
        _ => Err(Error::Semantics { sqlstate: "42725", message: format!("more than one operator named {name}") }),
    }
}

fn operator_by_signature(_: &Call<'_>, text: &str) -> Result<Option<i64>> {
    let (name, arguments) = arguments_of(text)?;
    Ok(procedures::OPERATORS.with_arguments(name.rsplit('.').next().unwrap_or(name), &arguments))
}

/// `name(type, type)` as the name and the oids of the types; 0 is none, and an unknown type.
fn arguments_of(text: &str) -> Result<(&str, Vec<i64>)> {
    let (name, rest) = text.split_once('(').ok_or_else(|| invalid("22P02", "expected a left parenthesis".into()))?;
    let inner =
        rest.trim_end().strip_suffix(')').ok_or_else(|| invalid("22P02", "expected a right parenthesis".into()))?;
    let types = inner.split(',').map(str::trim).filter(|name| !name.is_empty());
    let oids = types.map(|name| signatures::type_oid(unqualified(name)).unwrap_or(0));
    Ok((name.trim(), oids.collect()))
}

fn schema_by_name(call: &Call<'_>, name: &str) -> Result<Option<i64>> {
    oid_of(call, "SELECT CAST(oid AS TEXT) FROM temp.catalog_schemas WHERE name = ?1", name)
}

/// The oid of the relation that an argument names, or is the oid of; NULL for an oid that nothing has.
pub fn relation_oid(call: &Call<'_>, index: usize) -> Result<Option<i64>> {
    if let Some(oid) = call.integer(index) {
        return Ok(relation_name(call.scope, oid)?.map(|_| oid));
    }
    let name = call.text(index).unwrap_or_default();
    relation_by_name(call, &name)?.map(Some).ok_or_else(|| undefined_relation(&name))
}

/// The same for a schema.
pub fn schema_oid(call: &Call<'_>, index: usize) -> Result<Option<i64>> {
    if let Some(oid) = call.integer(index) {
        return Ok(Some(oid));
    }
    let name = call.text(index).unwrap_or_default();
    schema_by_name(call, &quote(&name))?.map(Some).ok_or_else(|| undefined("schema", &name))
}

fn role_by_name(call: &Call<'_>, name: &str) -> Result<Option<i64>> {
    oid_of(call, "SELECT CAST(id AS TEXT) FROM main.users WHERE name = ?1", name)
}

fn oid_of(call: &Call<'_>, sql: &str, name: &str) -> Result<Option<i64>> {
    let parts = split(name)?;
    let Some(name) = parts.last() else { return Ok(None) };
    Ok(describe::query_text(call, sql, [name])?.and_then(|oid| oid.parse().ok()))
}

fn failed(source: rusqlite::Error) -> Error {
    store_error("look up a name", source)
}

/// The parts of a qualified name. Unquoted parts are in lower case.
fn split(name: &str) -> Result<Vec<String>> {
    let malformed = || invalid("42602", "invalid name syntax".into());
    let mut parts = Vec::new();
    let mut rest = name.trim();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next() {
                    None => return Err(malformed()),
                    Some((index, '"')) => {
                        if chars.next_if(|(_, c)| *c == '"').is_none() {
                            break index + 1;
                        }
                        part.push('"');
                    }
                    Some((_, c)) => part.push(c),
                }
            };
            parts.push(part);
            rest = &quoted[end..];
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let part = rest[..end].trim();
            if part.is_empty() {
                return Err(malformed());
            }
            parts.push(part.to_lowercase());
            rest = &rest[end..];
        }
        match rest.strip_prefix('.') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Ok(parts),
            None => return Err(malformed()),
        }
    }
}

/// The same, for a name that may be missing.
pub fn quote_unless_empty(name: &str) -> String {
    if name.is_empty() { String::new() } else { quote(name) }
}

/// A name as it must be written in SQL.
pub fn quote(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$');
    if plain { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_postgresql_splits_them() {
        assert_eq!(split("Public.\"A \"\"b\"").unwrap(), ["public", "A \"b"]);
        assert_eq!(split("t").unwrap(), ["t"]);
        for broken in ["", "a.", "\"a", "\"a\"b"] {
            assert!(split(broken).is_err(), "{broken}");
        }
    }
}

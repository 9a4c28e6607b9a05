//! Functions and operators by their names and signatures, and how a function is defined.

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::Float32Type;

use super::super::statics;
use super::signatures::{self, integer, integers, string, type_name};
use super::{Call, Definition, Value, stable, text};
use crate::error::{Error, Result};

pub const DEFINITIONS: &[Definition] = &[stable("pg_get_functiondef", 1..=1, "text", definition)];

/// `pg_proc` by name and oid.
pub static FUNCTIONS: LazyLock<Callables> = LazyLock::new(|| Callables::read("pg_proc", "proname", "proargtypes"));

/// `pg_operator` by name and oid.
pub static OPERATORS: LazyLock<Callables> = LazyLock::new(|| Callables::read("pg_operator", "oprname", ""));

/// What has a name, and arguments by which it is told from others of that name.
#[derive(Default)]
pub struct Callables {
    by_oid: HashMap<i64, (String, Vec<i64>)>,
    by_name: HashMap<String, Vec<i64>>,
}

impl Callables {
    fn read(table: &str, name: &str, arguments: &str) -> Self {
        let mut callables = Self::default();
        let Some(batch) = statics::batch(table) else { return callables };
        let number = |name: &str, row| batch.column_by_name(name).and_then(|column| integer(column, row));
        for row in 0..batch.num_rows() {
            let arguments = match batch.column_by_name(arguments) {
                Some(list) => integers(list, row),
                None => vec![number("oprleft", row).unwrap_or(0), number("oprright", row).unwrap_or(0)],
            };
            let name = batch.column_by_name(name).and_then(|column| string(column, row));
            if let (Some(oid), Some(name)) = (number("oid", row), name) {
                callables.by_name.entry(name.clone()).or_default().push(oid);
                callables.by_oid.insert(oid, (name, arguments));
            }
        }
        callables
    }

    /// The oid of the type of an argument, where all of that name and number of arguments agree.
    pub fn argument(&self, name: &str, count: usize, index: usize) -> Option<i64> {
        let takes = self.named(name).iter().filter_map(|oid| self.by_oid.get(oid)).map(|(_, takes)| takes);
        let mut types = takes.filter(|takes| takes.len() == count).map(|takes| takes[index]);
        types.next().filter(|first| types.all(|other| other == *first))
    }

    /// Those of that name.
    pub fn named(&self, name: &str) -> &[i64] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The one of that name that takes just these.
    pub fn with_arguments(&self, name: &str, arguments: &[i64]) -> Option<i64> {
        let takes = |oid: &&i64| self.by_oid.get(oid).is_some_and(|(_, takes)| takes == arguments);
        self.named(name).iter().find(takes).copied()
    }

    /// Its name, with its schema where the name alone could be another's.
    pub fn name(&self, oid: i64) -> Option<String> {
        let (name, _) = self.by_oid.get(&oid)?;
        Some(if self.named(name).len() > 1 { format!("pg_catalog.{name}") } else { name.clone() })
    }

    /// `name(type,type)`.
    pub fn signature(&self, oid: i64) -> Option<String> {
        let (name, arguments) = self.by_oid.get(&oid)?;
        let name_of =
            |oid: &i64| if *oid == 0 { "NONE".into() } else { type_name(*oid).unwrap_or_else(|| "???".into()) };
        Some(format!("{name}({})", arguments.iter().map(name_of).collect::<Vec<_>>().join(",")))
    }
}

/// `CREATE OR REPLACE FUNCTION ...`, laid out as PostgreSQL does.
fn definition(call: &Call<'_>) -> Value {
    let row = call.integer(0).and_then(|oid| {
        let batch = statics::batch("pg_proc")?;
        let oids = batch.column_by_name("oid")?;
        Some((oid, batch, (0..batch.num_rows()).find(|row| integer(oids, *row) == Some(oid))?))
    });
    let Some((oid, batch, row)) = row else { return Ok(text(None::<String>)) };
    Ok(text(create_statement(oid, batch, row)?))
}

fn create_statement(oid: i64, batch: &RecordBatch, row: usize) -> Result<Option<String>> {
    let word = |name: &str| batch.column_by_name(name).and_then(|column| string(column, row)).unwrap_or_default();
    let flag = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_boolean_opt());
        column.is_some_and(|column| column.is_valid(row) && column.value(row))
    };
    let number = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Float32Type>());
        column.map_or(0.0, |column| column.value(row))
    };
    let (name, kind) = (word("proname"), word("prokind"));
    if kind == "a" {
        let message = format!("\"{name}\" is an aggregate function");
        return Err(Error::Semantics { sqlstate: "42809", message });
    }
    let Some((arguments, result)) = signatures::worded(oid) else { return Ok(None) };
    let of = |name: &str| batch.column_by_name(name).and_then(|column| integer(column, row)).unwrap_or(0);
    let schema = super::super::SCHEMAS.iter().find(|(_, oid, _)| i64::from(*oid) == of("pronamespace"));
    let schema = schema.map_or("pg_catalog", |(name, ..)| *name);
    let language = match of("prolang") {
        13 => "c",
        14 => "sql",
        _ => "internal",
    };
    let retset = flag("proretset");
    let volatility = match word("provolatile").as_str() {
        "i" => " IMMUTABLE",
        "s" => " STABLE",
        _ => "",
    };
    let parallel = match word("proparallel").as_str() {
        "s" => " PARALLEL SAFE",
        "r" => " PARALLEL RESTRICTED",
        _ => "",
    };
    let (cost, rows) = (number("procost"), number("prorows"));
    let usual_cost = if language == "sql" { 100.0 } else { 1.0 };
    let support = FUNCTIONS.name(of("prosupport"));
    let properties = [
        (kind == "w", " WINDOW".to_owned()),
        (true, volatility.to_owned()),
        (true, parallel.to_owned()),
        (flag("proisstrict"), " STRICT".to_owned()),
        (flag("prosecdef"), " SECURITY DEFINER".to_owned()),
        (flag("proleakproof"), " LEAKPROOF".to_owned()),
        (cost != usual_cost, format!(" COST {cost}")),
        (retset && rows > 0.0 && rows != 1000.0, format!(" ROWS {rows}")),
        (support.is_some(), format!(" SUPPORT {}", support.unwrap_or_default())),
    ];
    let properties: String = properties.into_iter().filter(|(has, _)| *has).map(|(_, words)| words).collect();
    let properties = if properties.is_empty() { properties } else { format!("{properties}\n") };
    let source = word("prosrc");
    let result = if kind == "p" { String::new() } else { format!(" RETURNS {result}\n") };
    let what = if kind == "p" { "PROCEDURE" } else { "FUNCTION" };
    let tag = if kind == "p" { "$procedure$" } else { "$function$" };
    let name = super::names::quote(&name);
    Ok(Some(format!(
        "CREATE OR REPLACE {what} {schema}.{name}({arguments})\n{result} LANGUAGE {language}\n{properties}\
         AS {tag}{source}{tag}\n"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_operators_are_told_apart_by_their_arguments() {
        assert_eq!(FUNCTIONS.name(1242).as_deref(), Some("boolin"));
        assert_eq!(FUNCTIONS.name(870).as_deref(), Some("pg_catalog.lower"));
        assert_eq!(FUNCTIONS.signature(870).as_deref(), Some("lower(text)"));
        assert_eq!(FUNCTIONS.with_arguments("lower", &[25]), Some(870));
        assert_eq!(OPERATORS.signature(96).as_deref(), Some("=(integer,integer)"));
        assert_eq!(OPERATORS.with_arguments("=", &[23, 23]), Some(96));
    }
}

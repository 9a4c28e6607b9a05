//! Types and functions, described in SQL's words from PostgreSQL's own tables.

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{Int32Type, Int64Type};
use datafusion::common::ScalarValue;

use super::super::statics;
use super::super::types;
use super::{Call, Definition, Value, pure, text};

pub const FUNCTIONS: &[Definition] = &[
    pure("format_type", 2..=2, "text", |call| {
        Ok(text(call.integer(0).map(|oid| match type_name(oid) {
            Some(name) => with_modifier(oid, name, call.integer(1).unwrap_or(-1)),
            None if oid == 0 => "-".into(),
            None => "???".into(),
        })))
    }),
    pure("pg_get_function_result", 1..=1, "text", |call| Ok(text(function(call).map(Function::result)))),
    pure("pg_get_function_arguments", 1..=1, "text", arguments),
    pure("pg_get_function_identity_arguments", 1..=1, "text", arguments),
    pure("oidvectortypes", 1..=1, "text", |call| {
        let Some(oids) = call.items(0) else { return Ok(text(None::<String>)) };
        let name = |oid: &ScalarValue| oid.to_string().parse().ok().and_then(type_name).unwrap_or_else(|| "???".into());
        Ok(text(Some(oids.iter().map(name).collect::<Vec<_>>().join(", "))))
    }),
    pure("pg_get_function_sqlbody", 1..=1, "text", |_| Ok(text(None::<String>))),
    pure("pg_get_function_arg_default", 2..=2, "text", |_| Ok(text(None::<String>))),
    pure("pg_typeof_name", 1..=1, "text", |call| Ok(text(call.args.first().map(type_of)))),
];

struct Function {
    result: i64,
    set: bool,
    arguments: Vec<i64>,
    /// Modes of all arguments, in and out; empty: all are in.
    modes: Vec<String>,
    names: Vec<String>,
}

impl Function {
    /// What it gives.
    fn result(&self) -> String {
        if let Some(columns) = self.described(&["t"]) {
            return format!("TABLE({columns})");
        }
        let name = type_name(self.result).unwrap_or_else(|| "???".into());
        if self.set { format!("SETOF {name}") } else { name }
    }

    /// Its arguments of some modes, with names where they have one. `None`: there are none.
    fn described(&self, modes: &[&str]) -> Option<String> {
        let all: Vec<_> = self
            .arguments
            .iter()
            .enumerate()
            .filter_map(|(index, oid)| {
                let mode = self.modes.get(index).map_or("i", String::as_str);
                let name = self.names.get(index).map_or("", String::as_str);
                let prefix = match mode {
                    "o" => "OUT ",
                    "b" => "INOUT ",
                    "v" => "VARIADIC ",
                    _ => "",
                };
                let type_name = type_name(*oid).unwrap_or_else(|| "???".into());
                let space = if name.is_empty() { "" } else { " " };
                modes
                    .contains(&mode)
                    .then(|| format!("{prefix}{}{space}{type_name}", super::names::quote_unless_empty(name)))
            })
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

static TYPES: LazyLock<HashMap<i64, (String, i64)>> = LazyLock::new(|| {
    let Some(batch) = statics::batch("pg_type") else { return HashMap::new() };
    let column = |name: &str| batch.column_by_name(name);
    let (Some(oids), Some(names), Some(elements)) = (column("oid"), column("typname"), column("typelem")) else {
        return HashMap::new();
    };
    (0..batch.num_rows())
        .filter_map(|row| Some((integer(oids, row)?, (string(names, row)?, integer(elements, row)?))))
        .collect()
});

static PROCEDURES: LazyLock<HashMap<i64, Function>> = LazyLock::new(|| {
    let Some(batch) = statics::batch("pg_proc") else { return HashMap::new() };
    let column = |name: &str| batch.column_by_name(name);
    let (Some(oids), Some(results), Some(sets), Some(arguments)) =
        (column("oid"), column("prorettype"), column("proretset"), column("proargtypes"))
    else {
        return HashMap::new();
    };
    let strings_of = |name: &str, row| column(name).map(|column| strings(column, row)).unwrap_or_default();
    (0..batch.num_rows())
        .filter_map(|row| {
            let all = column("proallargtypes").map(|column| integers(column, row)).unwrap_or_default();
            let function = Function {
                result: integer(results, row)?,
                set: sets.as_boolean().value(row),
                arguments: if all.is_empty() { integers(arguments, row) } else { all },
                modes: strings_of("proargmodes", row),
                names: strings_of("proargnames", row),
            };
            Some((integer(oids, row)?, function))
        })
        .collect()
});

pub(super) fn integer(column: &ArrayRef, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    column
        .as_primitive_opt::<Int32Type>()
        .map(|column| i64::from(column.value(row)))
        .or_else(|| column.as_primitive_opt::<Int64Type>().map(|column| column.value(row)))
}

pub(super) fn string(column: &ArrayRef, row: usize) -> Option<String> {
    column.as_string_opt::<i32>().filter(|column| !column.is_null(row)).map(|column| column.value(row).to_owned())
}

pub(super) fn integers(column: &ArrayRef, row: usize) -> Vec<i64> {
    let Some(list) = column.as_list_opt::<i32>().filter(|list| !list.is_null(row)) else { return Vec::new() };
    let values = list.value(row);
    (0..values.len()).filter_map(|index| integer(&values, index)).collect()
}

fn strings(column: &ArrayRef, row: usize) -> Vec<String> {
    let Some(list) = column.as_list_opt::<i32>().filter(|list| !list.is_null(row)) else { return Vec::new() };
    let values = list.value(row);
    (0..values.len()).map(|index| string(&values, index).unwrap_or_default()).collect()
}

/// The type's name in SQL's words: `integer`, `text[]`.
pub fn type_name(oid: i64) -> Option<String> {
    if let Some(known) = types::TYPES.iter().find(|known| i64::from(known.oid) == oid) {
        return Some(known.sql.into());
    }
    let (name, element) = TYPES.get(&oid)?;
    match name.strip_prefix('_') {
        Some(_) if *element != 0 => Some(format!("{}[]", type_name(*element)?)),
        _ => Some(
            match name.as_str() {
                "bpchar" => "character",
                "bit" => "bit",
                "varbit" => "bit varying",
                "timetz" => "time with time zone",
                "any" => "\"any\"",
                other => other,
            }
            .into(),
        ),
    }
}

/// The oid of a type, by either of its names.
pub fn type_oid(name: &str) -> Option<i64> {
    let name = name.trim();
    if let Some(element) = name.strip_suffix("[]") {
        let element = type_oid(element)?;
        return TYPES.iter().find(|(_, (name, of))| *of == element && name.starts_with('_')).map(|(oid, _)| *oid);
    }
    // A quoted name is the type's own, never a word of SQL for it: "char" isn't char.
    if let Some(own) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        return TYPES.iter().find(|(_, (name, _))| name == own).map(|(oid, _)| *oid);
    }
    let name = name.to_lowercase();
    let alias = match name.as_str() {
        "int" => "int4",
        "decimal" => "numeric",
        "char" | "character" => "bpchar",
        "varchar" => "varchar",
        "float" => "float8",
        other => other,
    };
    types::TYPES
        .iter()
        .find(|known| known.sql == alias || known.typname == alias)
        .map(|known| i64::from(known.oid))
        .or_else(|| TYPES.iter().find(|(_, (name, _))| name == alias).map(|(oid, _)| *oid))
}

/// What a function takes and gives, as its definition words it.
pub fn worded(oid: i64) -> Option<(String, String)> {
    let function = PROCEDURES.get(&oid)?;
    Some((function.described(&["i", "o", "b", "v"]).unwrap_or_default(), function.result()))
}

fn function(call: &Call<'_>) -> Option<&'static Function> {
    PROCEDURES.get(&call.integer(0)?)
}

fn arguments(call: &Call<'_>) -> Value {
    Ok(text(function(call).map(|function| function.described(&["i", "o", "b", "v"]).unwrap_or_default())))
}

/// A type with its length or precision.
fn with_modifier(oid: i64, name: String, modifier: i64) -> String {
    match oid {
        1042 | 1043 if modifier >= 4 => format!("{name}({})", modifier - 4),
        1700 if modifier >= 4 => format!("{name}({},{})", (modifier - 4) >> 16 & 0xffff, (modifier - 4) & 0xffff),
        _ => name,
    }
}

fn type_of(value: &ScalarValue) -> String {
    let field = datafusion::arrow::datatypes::Field::new("", value.data_type(), true);
    types::by_name(types::name_of(&field)).map_or("unknown", |pg_type| pg_type.sql).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_of_sql() {
        for (oid, name) in
            [(23, "integer"), (1009, "text[]"), (1042, "character"), (1114, "timestamp without time zone")]
        {
            assert_eq!(type_name(oid).as_deref(), Some(name));
            assert_eq!(type_oid(name), Some(oid));
        }
        assert_eq!(type_oid("int4"), Some(23));
        assert_eq!(with_modifier(1700, "numeric".into(), 655366), "numeric(10,2)");
    }

    #[test]
    fn functions_have_their_arguments() {
        // substr(text, integer).
        assert_eq!(worded(883).unwrap(), ("text, integer".into(), "text".into()));
    }
}

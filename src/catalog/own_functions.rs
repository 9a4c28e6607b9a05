//! Our own functions in `pg_proc`: those in schema `tidegate`, and RisingWave's.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
    new_null_array,
};
use datafusion::arrow::compute::{cast, concat_batches};

use super::rescale::{ARGUMENTS, CHECK_RESCALE};
use super::view::Column;

const TEXT: i32 = 25;
const BOOL: i32 = 16;
const RECORD: i32 = 2249;

struct Function {
    oid: i32,
    name: &'static str,
    namespace: i32,
    returns: i32,
    /// Name and type.
    arguments: Vec<(String, i32)>,
    /// Of the table that it gives; none: it gives a value.
    columns: Vec<(String, i32)>,
}

fn functions() -> Vec<Function> {
    let typed = |columns: &[Column]| -> Vec<(String, i32)> {
        let oid = |column: &Column| i32::try_from(column.pg_type.oid).unwrap_or(TEXT);
        columns.iter().map(|column| (column.name.clone(), oid(column))).collect()
    };
    let arguments = || ARGUMENTS.iter().map(|name| ((*name).to_owned(), TEXT)).collect::<Vec<_>>();
    vec![
        Function {
            oid: 15301,
            name: "can_rescale",
            namespace: 15001,
            returns: BOOL,
            arguments: arguments(),
            columns: Vec::new(),
        },
        Function {
            oid: 15302,
            name: "check_rescale",
            namespace: 15001,
            returns: RECORD,
            arguments: arguments(),
            columns: typed(&CHECK_RESCALE.columns),
        },
        Function {
            oid: 15303,
            name: "internal_source_backfill_progress",
            namespace: 15002,
            returns: RECORD,
            arguments: Vec::new(),
            columns: vec![("partition_id".into(), 1043), ("backfill_progress".into(), 3802)],
        },
    ]
}

/// The rows of `pg_proc` with ours behind them.
pub fn added_to(rows: &RecordBatch) -> Option<RecordBatch> {
    let functions = functions();
    let schema = rows.schema();
    let columns = schema
        .fields()
        .iter()
        .map(|field| match column(field.name(), &functions) {
            Some(values) => cast(&values, field.data_type()).ok(),
            None => Some(new_null_array(field.data_type(), functions.len())),
        })
        .collect::<Option<Vec<_>>>()?;
    let ours = RecordBatch::try_new(Arc::clone(&schema), columns).ok()?;
    concat_batches(&schema, [rows, &ours]).ok()
}

fn column(name: &str, functions: &[Function]) -> Option<ArrayRef> {
    let all = functions.len();
    let texts = |value: fn(&Function) -> String| -> ArrayRef {
        Arc::new(functions.iter().map(|function| Some(value(function))).collect::<StringArray>())
    };
    let oids = |value: fn(&Function) -> i32| -> ArrayRef {
        Arc::new(functions.iter().map(|function| Some(value(function))).collect::<Int32Array>())
    };
    let bools = |value: fn(&Function) -> bool| -> ArrayRef {
        Arc::new(functions.iter().map(|function| Some(value(function))).collect::<BooleanArray>())
    };
    Some(match name {
        "oid" => oids(|function| function.oid),
        "proname" | "prosrc" => texts(|function| function.name.into()),
        "pronamespace" => oids(|function| function.namespace),
        "proowner" => oids(|_| 10),
        "prolang" => oids(|_| 12),
        "provariadic" => oids(|_| 0),
        "prorettype" => oids(|function| function.returns),
        "procost" | "prorows" => Arc::new(Float32Array::from(vec![1.0; all])),
        "prosupport" => oids(|_| 0),
        "prokind" => texts(|_| "f".into()),
        "provolatile" => texts(|_| "s".into()),
        "proparallel" => texts(|_| "r".into()),
        "prosecdef" | "proleakproof" => bools(|_| false),
        "proisstrict" => bools(|_| true),
        "proretset" => bools(|function| !function.columns.is_empty()),
        "pronargs" => Arc::new(
            functions.iter().map(|function| i16::try_from(function.arguments.len()).ok()).collect::<Int16Array>(),
        ),
        "pronargdefaults" => Arc::new(Int16Array::from(vec![0; all])),
        "proargtypes" => lists(functions, false, |_, oid, _| oid.to_string()),
        "proallargtypes" => lists(functions, true, |_, oid, _| oid.to_string()),
        "proargmodes" => lists(functions, true, |_, _, mode| mode.to_owned()),
        "proargnames" => lists(functions, true, |name, _, _| name.to_owned()),
        _ => return None,
    })
}

/// A list for each function: of its arguments, or of these and its columns.
fn lists(functions: &[Function], with_columns: bool, item: fn(&str, i32, &str) -> String) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for function in functions {
        for (name, oid) in &function.arguments {
            lists.values().append_value(item(name, *oid, "i"));
        }
        for (name, oid) in function.columns.iter().filter(|_| with_columns) {
            lists.values().append_value(item(name, *oid, "t"));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

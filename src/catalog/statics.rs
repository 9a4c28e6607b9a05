//! The relations whose rows don't come from SQLite: what every PostgreSQL has (types, operators, functions), from
//! `datafusion-pg-catalog`, and what only the connection knows (`pg_settings`, `pg_stat_activity`, ...).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Int32Array, ListBuilder, RecordBatch, StringBuilder, new_null_array,
};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int32Type, Schema, SchemaRef};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion_pg_catalog::pg_catalog::{ArrowTable, PgCatalogStaticTables};

use super::computed::Computed;
use super::own_functions;
use super::types;
use super::view::{self, View};

/// Their columns, as PostgreSQL 15 has them.
pub static TABLES: LazyLock<Vec<View>> =
    LazyLock::new(|| view::parse_list(include_str!("../../sql/views/static.txt"), "sql/views/static.txt"));

/// The batch of one of PostgreSQL's own tables, in the columns of [`TABLES`]. `None`: not one of them.
pub fn batch(name: &str) -> Option<&'static RecordBatch> {
    static BATCHES: LazyLock<Vec<(&'static str, RecordBatch)>> = LazyLock::new(load);
    BATCHES.iter().find(|(known, _)| *known == name).map(|(_, batch)| batch)
}

/// The table of that name, if it is one of [`TABLES`].
pub fn table(name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
    match name {
        "pg_settings" => Computed::table(schema(name), super::activity::settings).map(Some),
        "pg_stat_activity" => Computed::table(schema(name), super::activity::activity).map(Some),
        "pg_stat_ssl" => Computed::table(schema(name), super::activity::tls).map(Some),
        "pg_stat_gssapi" => Computed::table(schema(name), super::activity::gssapi).map(Some),
        "pg_stat_database" => Computed::table(schema(name), super::activity::database).map(Some),
        "pg_locks" => Computed::table(schema(name), super::locks::rows).map(Some),
        "pg_timezone_names" => Computed::table(schema(name), super::timezones::names).map(Some),
        "pg_timezone_abbrevs" => Computed::table(schema(name), super::timezones::abbreviations).map(Some),
        "pg_prepared_statements" => Computed::table(schema(name), super::held::statements).map(Some),
        "pg_cursors" => Computed::table(schema(name), super::held::cursors).map(Some),
        _ => match batch(name) {
            Some(batch) => Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?))),
            None => Ok(None),
        },
    }
}

/// What PostgreSQL says of its own functions, types and operators, in the columns of `pg_description`.
pub const DESCRIPTIONS: &str = "pg_description";

/// The oids of two schemas.
const PG_CATALOG: i32 = 11;
const INFORMATION_SCHEMA: i32 = 13207;

/// What PostgreSQL says of an object of a class.
pub fn description(object: i64, class: &str) -> Option<&'static str> {
    static BY_OBJECT: LazyLock<HashMap<(i32, i32), String>> = LazyLock::new(|| {
        let Some(batch) = batch(DESCRIPTIONS) else { return HashMap::new() };
        let texts = batch.column(3).as_string::<i32>().iter();
        let (objects, classes) = (batch.column(0).as_primitive::<Int32Type>(), batch.column(1));
        let objects = objects.iter().zip(classes.as_primitive::<Int32Type>().iter());
        objects.zip(texts).filter_map(|((object, class), text)| Some(((object?, class?), text?.to_owned()))).collect()
    });
    let class = TABLES.iter().find(|table| table.name == class)?.oid;
    let key = (i32::try_from(object).ok()?, i32::try_from(class).ok()?);
    BY_OBJECT.get(&key).map(String::as_str)
}

/// The columns of one of [`TABLES`], or of a view that has rows of PostgreSQL's own too.
pub fn schema(name: &str) -> SchemaRef {
    let views = view::VIEWS.iter().filter(|view| view.schema == "pg_catalog");
    let columns = TABLES.iter().chain(views).find(|table| table.name == name).map(|table| table.columns.as_slice());
    let fields: Vec<_> = columns.unwrap_or_default().iter().map(|column| column.pg_type.field(&column.name)).collect();
    Arc::new(Schema::new(fields))
}

fn load() -> Vec<(&'static str, RecordBatch)> {
    // The data is part of the binary: it is there and well-formed, as the tests of this module find.
    let Ok(tables) = PgCatalogStaticTables::try_new() else { return Vec::new() };
    let sources: [(&str, &ArrowTable); 15] = [
        ("pg_aggregate", &tables.pg_aggregate),
        ("pg_am", &tables.pg_am),
        ("pg_amop", &tables.pg_amop),
        ("pg_amproc", &tables.pg_amproc),
        ("pg_cast", &tables.pg_cast),
        ("pg_collation", &tables.pg_collation),
        ("pg_conversion", &tables.pg_conversion),
        ("pg_language", &tables.pg_language),
        ("pg_opclass", &tables.pg_opclass),
        ("pg_operator", &tables.pg_operator),
        ("pg_opfamily", &tables.pg_opfamily),
        ("pg_proc", &tables.pg_proc),
        ("pg_range", &tables.pg_range),
        ("pg_type", &tables.pg_type),
        (DESCRIPTIONS, &tables.pg_description),
    ];
    let functions = rows_of(&tables.pg_proc).map(|rows| function_oids(&rows)).unwrap_or_default();
    sources
        .into_iter()
        .filter_map(|(name, table)| {
            let rows = fit(&rows_of(table)?, schema(name), &functions)?;
            let rows = match name {
                "pg_proc" => own_functions::added_to(&rows)?,
                DESCRIPTIONS => of_static_tables(&rows)?,
                // There is no PL/pgSQL here.
                "pg_language" => without(&rows, "lanname", &["plpgsql"])?,
                _ => rows,
            };
            Some((name, rows))
        })
        .collect()
}

fn rows_of(table: &ArrowTable) -> Option<RecordBatch> {
    datafusion::arrow::compute::concat_batches(&table.schema(), table.data()).ok()
}

/// The descriptions of rows that there are: relations and schemas have their own.
fn of_static_tables(descriptions: &RecordBatch) -> Option<RecordBatch> {
    let classes = descriptions.column_by_name("classoid")?.as_primitive_opt::<Int32Type>()?;
    let is_static = |class: i32| TABLES.iter().any(|table| i32::try_from(table.oid) == Ok(class));
    let keep: BooleanArray = classes.iter().map(|class| class.map(is_static)).collect();
    filter_record_batch(descriptions, &keep).ok()
}

/// The rows whose column isn't one of these texts.
fn without(rows: &RecordBatch, column: &str, texts: &[&str]) -> Option<RecordBatch> {
    let values = rows.column_by_name(column)?.as_string_opt::<i32>()?;
    let keep: BooleanArray = values.iter().map(|value| value.map(|value| !texts.contains(&value))).collect();
    filter_record_batch(rows, &keep).ok()
}

/// The oids of the functions of each name, in their order.
fn function_oids(functions: &RecordBatch) -> HashMap<String, Vec<i32>> {
    let mut oids: HashMap<String, Vec<i32>> = HashMap::new();
    let column = |name: &str, as_type: &DataType| cast(functions.column_by_name(name)?, as_type).ok();
    if let (Some(names), Some(numbers)) = (column("proname", &DataType::Utf8), column("oid", &DataType::Int32)) {
        for (name, oid) in names.as_string::<i32>().iter().zip(numbers.as_primitive::<Int32Type>()) {
            oids.entry(name.unwrap_or_default().to_owned()).or_default().extend(oid);
        }
    }
    oids.values_mut().for_each(|oids| oids.sort_unstable());
    oids
}

/// Functions by their oids, from their names. Aggregates of one name come in the order of their oids, as the rows that
/// name them do; which one of several others is meant isn't known.
fn function_column(names: &ArrayRef, functions: &HashMap<String, Vec<i32>>, aggregates: bool) -> Option<ArrayRef> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let oids: Int32Array = names
        .as_string_opt::<i32>()?
        .iter()
        .map(|name| {
            let name = name?.strip_prefix("pg_catalog.").or(name)?;
            let count = seen.entry(name).or_default();
            *count += 1;
            match functions.get(name).map_or(&[][..], Vec::as_slice) {
                [oid] => Some(*oid),
                oids if aggregates => oids.get(*count - 1).copied(),
                _ => Some(0),
            }
        })
        .collect();
    Some(Arc::new(oids))
}

/// The rows in the columns of PostgreSQL 15: by name, cast where the type differs, NULL where there is none.
fn fit(rows: &RecordBatch, schema: SchemaRef, functions: &HashMap<String, Vec<i32>>) -> Option<RecordBatch> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            // PostgreSQL 17 has another name for it.
            let name = if field.name() == "colliculocale" { "colllocale" } else { field.name() };
            let column = rows.column_by_name(name).and_then(|column| match field.data_type() {
                DataType::List(item) => lists(column, item),
                _ if types::name_of(field) == "regproc" => function_column(column, functions, name == "aggfnoid"),
                other if name.ends_with("namespace") => cast(column, other).ok().map(|column| namespaces(&column)),
                other => cast(column, other).ok(),
            });
            column.unwrap_or_else(|| new_null_array(field.data_type(), rows.num_rows()))
        })
        .collect();
    RecordBatch::try_new(schema, columns).ok()
}

/// The schemas with the oids that they have here: information_schema's isn't the same everywhere.
fn namespaces(oids: &ArrayRef) -> ArrayRef {
    let Some(oids) = oids.as_primitive_opt::<Int32Type>() else { return Arc::clone(oids) };
    Arc::new(oids.unary::<_, Int32Type>(|oid| if oid == PG_CATALOG { oid } else { INFORMATION_SCHEMA }))
}

/// Arrays from their text form: `{a,b}`, `['a', 'b']`, or `1 2` for vectors. Those in question hold no commas.
fn lists(column: &ArrayRef, item: &FieldRef) -> Option<ArrayRef> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for text in column.as_string_opt::<i32>()? {
        let inner = text.map(|text| text.trim_matches(['{', '}', '[', ']']));
        lists.append_option(inner.map(|inner| {
            inner
                .split([',', ' '])
                .filter(|part| !part.is_empty())
                .map(|part| Some(part.trim_matches(['"', '\'']).to_owned()))
                .collect::<Vec<_>>()
        }));
    }
    cast(&lists.finish(), &DataType::List(Arc::clone(item))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_there_with_rows_in_all_its_columns() {
        let computed = [
            "pg_cursors",
            "pg_locks",
            "pg_prepared_statements",
            "pg_settings",
            "pg_timezone_abbrevs",
            "pg_timezone_names",
        ];
        let computed = |name: &str| computed.contains(&name) || name.starts_with("pg_stat_");
        for table in TABLES.iter().filter(|table| !computed(&table.name)) {
            let batch = batch(&table.name).unwrap_or_else(|| panic!("{} is missing", table.name));
            assert!(batch.num_rows() > 0, "{}", table.name);
            for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
                // Nothing has grants.
                let known = field.name().ends_with("acl");
                let known = known
                    || ["protrftypes", "proconfig"].contains(&field.name().as_str())
                    || column.null_count() < column.len();
                assert!(known, "{}.{} is always NULL", table.name, field.name());
            }
        }
    }
}

//! The relations whose rows don't come from SQLite: what every PostgreSQL has (types, operators, functions), from
//! `datafusion-pg-catalog`, and what only the connection knows (`pg_settings`, `pg_stat_activity`, ...).

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray as _, ListBuilder, RecordBatch, StringBuilder, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion_pg_catalog::pg_catalog::{ArrowTable, PgCatalogStaticTables};

use super::computed::Computed;
use super::own_functions;
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
        _ => match batch(name) {
            Some(batch) => Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?))),
            None => Ok(None),
        },
    }
}

/// The columns of one of [`TABLES`].
pub fn schema(name: &str) -> SchemaRef {
    let columns = TABLES.iter().find(|table| table.name == name).map(|table| table.columns.as_slice());
    let fields: Vec<_> = columns.unwrap_or_default().iter().map(|column| column.pg_type.field(&column.name)).collect();
    Arc::new(Schema::new(fields))
}

fn load() -> Vec<(&'static str, RecordBatch)> {
    // The data is part of the binary: it is there and well-formed, as the tests of this module find.
    let Ok(tables) = PgCatalogStaticTables::try_new() else { return Vec::new() };
    let sources: [(&str, &ArrowTable); 18] = [
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
        ("pg_ts_config", &tables.pg_ts_config),
        ("pg_ts_dict", &tables.pg_ts_dict),
        ("pg_ts_parser", &tables.pg_ts_parser),
        ("pg_ts_template", &tables.pg_ts_template),
        ("pg_type", &tables.pg_type),
    ];
    sources
        .into_iter()
        .filter_map(|(name, table)| {
            let rows = datafusion::arrow::compute::concat_batches(&table.schema(), table.data()).ok()?;
            let rows = fit(&rows, schema(name))?;
            let rows = if name == "pg_proc" { own_functions::added_to(&rows)? } else { rows };
            Some((name, rows))
        })
        .collect()
}

/// The rows in the columns of PostgreSQL 15: by name, cast where the type differs, NULL where there is none.
fn fit(rows: &RecordBatch, schema: SchemaRef) -> Option<RecordBatch> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            let column = rows.column_by_name(field.name()).and_then(|column| match field.data_type() {
                DataType::List(item) => lists(column, item),
                other => cast(column, other).ok(),
            });
            column.unwrap_or_else(|| new_null_array(field.data_type(), rows.num_rows()))
        })
        .collect();
    RecordBatch::try_new(schema, columns).ok()
}

/// Arrays from their text form: `{a,b}`, or `1 2` for vectors. Those in question hold no commas.
fn lists(column: &ArrayRef, item: &FieldRef) -> Option<ArrayRef> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for text in column.as_string_opt::<i32>()? {
        let inner = text.map(|text| text.trim_start_matches('{').trim_end_matches('}'));
        lists.append_option(inner.map(|inner| {
            inner
                .split([',', ' '])
                .filter(|part| !part.is_empty())
                .map(|part| Some(part.trim_matches('"').to_owned()))
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
        let computed = ["pg_settings", "pg_stat_activity", "pg_stat_ssl", "pg_stat_gssapi"];
        for table in TABLES.iter().filter(|table| !computed.contains(&&*table.name)) {
            let batch = batch(&table.name).unwrap_or_else(|| panic!("{} is missing", table.name));
            assert!(batch.num_rows() > 0, "{}", table.name);
            for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
                // Newer versions of PostgreSQL have colliculocale under another name, and nothing has grants.
                let known = field.name() == "colliculocale" || field.name().ends_with("acl");
                let known = known
                    || ["protrftypes", "proconfig"].contains(&field.name().as_str())
                    || column.null_count() < column.len();
                assert!(known, "{}.{} is always NULL", table.name, field.name());
            }
        }
    }
}

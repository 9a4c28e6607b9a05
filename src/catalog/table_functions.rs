//! Functions in FROM.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableProvider};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::table::SqliteTable;
use super::{statics, types, view};
use crate::error::Error;

/// State rows as RisingWave's state tables have them, of the fragments that a condition picks.
pub fn state_rows(condition: &str) -> SqliteTable {
    let columns: Vec<view::Column> = [("partition_id", "varchar"), ("backfill_progress", "jsonb")]
        .into_iter()
        .filter_map(|(name, pg_type)| {
            Some(view::Column { name: name.into(), pg_type: types::by_name(pg_type)?, comment: None })
        })
        .collect();
    let relation = format!(
        "(SELECT split_id AS partition_id, CASE WHEN json_valid(state) THEN state ELSE json_quote(state) END AS backfill_progress
          FROM main.backfill_states WHERE {condition})"
    );
    SqliteTable::view(relation, &columns)
}

/// The functions that give a table, as opposed to a value; PostgreSQL takes both in FROM.
pub const NAMES: &[&str] = &[
    "generate_series",
    "range",
    "internal_source_backfill_progress",
    "pg_show_all_settings",
    "pg_get_keywords",
    "pg_listening_channels",
];

/// The table that a function gives.
///
/// # Errors
/// There is no such function, or its arguments are wrong.
pub fn call(state: &SessionState, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableProvider>> {
    let context = SimplifyContext::builder().with_config_options(Arc::clone(state.config_options())).build();
    let simplifier = ExprSimplifier::new(context);
    let schema = DFSchema::empty();
    let args = args
        .into_iter()
        .map(|arg| simplifier.coerce(arg, &schema).and_then(|arg| simplifier.simplify(arg)).map(widen))
        .collect::<DfResult<Vec<_>>>()?;
    match (name, args.len()) {
        ("internal_source_backfill_progress", 0) => Ok(Arc::new(state_rows(
            "fragment_id IN (SELECT f.id FROM main.fragments f JOIN main.jobs j ON j.id = f.job_id WHERE j.status = 'creating')",
        ))),
        ("pg_show_all_settings", 0) => {
            statics::table("pg_settings")?.ok_or_else(|| Error::Internal("pg_settings is missing".into()).into())
        }
        ("pg_get_keywords", 0) => keywords(),
        // Nobody can listen.
        ("pg_listening_channels", 0) => {
            let schema = Schema::new(vec![Field::new("pg_listening_channels", DataType::Utf8, true)]);
            Ok(Arc::new(EmptyTable::new(Arc::new(schema))))
        }
        _ => match state.table_functions().get(name) {
            Some(function) => function.create_table_provider_with_args(TableFunctionArgs::new(&args, state)),
            None => {
                let types: Vec<_> = args.iter().map(|_| "unknown").collect();
                Err(Error::UndefinedFunction { call: format!("{name}({})", types.join(", ")) }.into())
            }
        },
    }
}

/// generate_series and its like take no int4.
fn widen(arg: Expr) -> Expr {
    match arg {
        Expr::Literal(ScalarValue::Int32(value), metadata) => {
            Expr::Literal(ScalarValue::Int64(value.map(i64::from)), metadata)
        }
        other => other,
    }
}

fn keywords() -> DfResult<Arc<dyn TableProvider>> {
    let tables = datafusion_pg_catalog::pg_catalog::PgCatalogStaticTables::try_new()?;
    let table: Arc<MemTable> = tables.pg_get_keywords.try_into_memtable()?;
    Ok(table)
}

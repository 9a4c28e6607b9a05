//! `pg_prepared_statements` and `pg_cursors`: what the session that asks holds on to.

use std::sync::{Arc, PoisonError, RwLock};

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder, TimestampMicrosecondArray,
};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::LogicalPlan;

use super::activity::batch;
use super::scope::Scope;
use super::types;

/// The tables of this module.
const TABLES: [&str; 2] = ["pg_prepared_statements", "pg_cursors"];

/// A row of `pg_prepared_statements`.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Its name.
    pub name: String,
    /// What the client sent to prepare it.
    pub text: String,
    /// When, in microseconds since 1970.
    pub prepared_at: i64,
    /// The types of its parameters, in SQL's words.
    pub types: Vec<String>,
    /// By PREPARE, not by the protocol's message.
    pub from_sql: bool,
    /// How often it ran. Its plan serves for all values.
    pub runs: i64,
}

/// A row of `pg_cursors`.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// Its name.
    pub name: String,
    /// What the client sent to declare it.
    pub text: String,
    /// Whether it outlives its transaction.
    pub hold: bool,
    /// Whether its rows come in the binary format.
    pub binary: bool,
    /// Whether it goes backwards too.
    pub scroll: bool,
    /// When it was declared, in microseconds since 1970.
    pub declared_at: i64,
}

/// What a session holds on to, as its session told last.
#[derive(Debug, Clone, Default)]
pub struct Held(Arc<RwLock<(Vec<Statement>, Vec<Cursor>)>>);

impl Held {
    /// Tells what the session holds now.
    pub fn tell(&self, statements: Vec<Statement>, cursors: Vec<Cursor>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (statements, cursors);
    }

    /// The prepared statements.
    pub fn statements(&self) -> Vec<Statement> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// The open cursors.
    pub fn cursors(&self) -> Vec<Cursor> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

/// Whether a query reads what the session has to tell before: most don't, and needn't wait for it.
///
/// # Errors
/// None of its own.
pub fn is_read_by(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= TABLES.contains(&scan.table_name.table());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The rows of `pg_prepared_statements`.
///
/// # Errors
/// None of its own.
pub fn statements(scope: &Scope) -> DfResult<RecordBatch> {
    let rows = scope.host.held().statements();
    let number = |value: fn(&Statement) -> i64| rows.iter().map(value).collect::<Vec<_>>();
    batch(TABLES[0], rows.len(), |column| {
        Some(match column {
            "name" => Arc::new(rows.iter().map(|row| Some(&row.name)).collect::<StringArray>()),
            "statement" => Arc::new(rows.iter().map(|row| Some(&row.text)).collect::<StringArray>()),
            "prepare_time" => instants(number(|row| row.prepared_at)),
            "parameter_types" => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                rows.iter().for_each(|row| lists.append_value(row.types.iter().map(Some)));
                Arc::new(lists.finish())
            }
            "from_sql" => Arc::new(rows.iter().map(|row| Some(row.from_sql)).collect::<BooleanArray>()),
            "generic_plans" => Arc::new(Int64Array::from(number(|row| row.runs))),
            "custom_plans" => Arc::new(Int64Array::from(number(|_| 0))),
            _ => return None,
        })
    })
}

/// The rows of `pg_cursors`.
///
/// # Errors
/// None of its own.
pub fn cursors(scope: &Scope) -> DfResult<RecordBatch> {
    let rows = scope.host.held().cursors();
    let is = |value: fn(&Cursor) -> bool| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(row))).collect::<BooleanArray>())
    };
    batch(TABLES[1], rows.len(), |column| {
        Some(match column {
            "name" => Arc::new(rows.iter().map(|row| Some(&row.name)).collect::<StringArray>()),
            "statement" => Arc::new(rows.iter().map(|row| Some(&row.text)).collect::<StringArray>()),
            "is_holdable" => is(|row| row.hold),
            "is_binary" => is(|row| row.binary),
            "is_scrollable" => is(|row| row.scroll),
            "creation_time" => instants(rows.iter().map(|row| row.declared_at).collect()),
            _ => return None,
        })
    })
}

fn instants(micros: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(micros).with_timezone(types::UTC))
}

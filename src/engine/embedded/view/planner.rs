//! What DataFusion's planner asks for, and its errors in PostgreSQL's terms.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{SchemaError, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};

use crate::catalog::{DATABASE, other_database};
use crate::error::{Error, nearest};
use crate::wire::errors;

/// The sources, and DataFusion's own functions.
pub(super) struct Sources<'a> {
    pub state: &'a SessionState,
    pub schemas: &'a BTreeMap<String, SchemaRef>,
}

impl ContextProvider for Sources<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if name.catalog().is_some_and(|database| database != DATABASE) {
            return Err(other_database(&name.to_string()).into());
        }
        let public = name.schema().is_none_or(|schema| schema == "public");
        match self.schemas.get(name.table()).filter(|_| public) {
            Some(schema) => Ok(Arc::new(LogicalTableSource::new(Arc::clone(schema)))),
            None => Err(DataFusionError::External(Box::new(Error::UndefinedRelation {
                kind: "source",
                nearest: nearest(name.table(), self.schemas.keys().map(String::as_str)),
                name: name.to_string(),
            }))),
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// The error at the bottom, without what was wrapped around it on its way up.
fn root(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(*inner),
        DataFusionError::Collection(mut errors) if !errors.is_empty() => root(errors.swap_remove(0)),
        other => other,
    }
}

/// Why a query can't be planned.
pub(super) fn planning_error(error: DataFusionError) -> Error {
    match root(error) {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::InvalidQuery { sqlstate: "42000", detail: other.to_string() },
        },
        DataFusionError::SchemaError(error, _) => match *error {
            SchemaError::FieldNotFound { field, valid_fields } => Error::UndefinedColumn {
                nearest: nearest(&field.name, valid_fields.iter().map(|column| column.name.as_str())),
                name: field.flat_name(),
            },
            SchemaError::AmbiguousReference { field } => Error::Semantics {
                sqlstate: "42702",
                message: format!("column reference \"{}\" is ambiguous", field.name),
            },
            SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
                duplicate_column(&name)
            }
        },
        DataFusionError::NotImplemented(detail) => Error::InvalidQuery { sqlstate: "0A000", detail },
        DataFusionError::Plan(detail) | DataFusionError::Execution(detail) => {
            errors::known(&detail).unwrap_or(Error::InvalidQuery { sqlstate: "42000", detail })
        }
        other => Error::InvalidQuery { sqlstate: "42000", detail: other.strip_backtrace() },
    }
}

pub(super) fn duplicate_column(name: &str) -> Error {
    Error::Semantics { sqlstate: "42701", message: format!("column \"{name}\" specified more than once") }
}

/// Why a row can't be evaluated, in PostgreSQL's words where it has some.
pub(super) fn evaluation_error(error: DataFusionError) -> String {
    match root(error) {
        DataFusionError::ArrowError(error, _) => match *error {
            ArrowError::DivideByZero => "division by zero".to_owned(),
            ArrowError::ArithmeticOverflow(detail) => format!("value out of range: {detail}"),
            ArrowError::CastError(detail)
            | ArrowError::ParseError(detail)
            | ArrowError::ComputeError(detail)
            | ArrowError::InvalidArgumentError(detail) => detail,
            other => other.to_string(),
        },
        DataFusionError::Execution(detail) => detail,
        other => other.strip_backtrace(),
    }
}

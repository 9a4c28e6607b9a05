//! Which relation's column a result's column shows. Drivers look up its comment, its nullability and its table by that.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::rewrite;

/// A column of a relation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// The relation's oid.
    pub relation: u32,
    /// `pg_attribute.attnum`, from 1.
    pub column: i16,
}

/// A relation that knows its oid.
#[derive(Debug)]
pub(super) struct Relation {
    oid: u32,
    table: Arc<dyn TableProvider>,
}

impl Relation {
    pub fn new(oid: i64, table: Arc<dyn TableProvider>) -> Self {
        Self { oid: u32::try_from(oid).unwrap_or_default(), table }
    }
}

#[async_trait]
impl TableProvider for Relation {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }
}

/// The origin of each of a plan's columns; None where it is computed.
pub fn origins(plan: &LogicalPlan) -> Vec<Option<Origin>> {
    (0..plan.schema().fields().len()).map(|index| origin(plan, index)).collect()
}

fn origin(plan: &LogicalPlan, index: usize) -> Option<Origin> {
    match plan {
        LogicalPlan::Projection(projection) => of_expr(projection.expr.get(index)?, &projection.input),
        LogicalPlan::Aggregate(aggregate) => of_expr(aggregate.group_expr.get(index)?, &aggregate.input),
        LogicalPlan::Filter(filter) => origin(&filter.input, index),
        LogicalPlan::Sort(sort) => origin(&sort.input, index),
        LogicalPlan::Limit(limit) => origin(&limit.input, index),
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, index),
        LogicalPlan::Distinct(distinct) => match distinct {
            datafusion::logical_expr::Distinct::All(input) => origin(input, index),
            datafusion::logical_expr::Distinct::On(on) => of_expr(on.select_expr.get(index)?, &on.input),
        },
        // Its own columns come behind those of its input.
        LogicalPlan::Window(window) if index < window.input.schema().fields().len() => origin(&window.input, index),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full if index >= left => {
                    origin(&join.right, index - left)
                }
                JoinType::RightSemi | JoinType::RightAnti => origin(&join.right, index),
                _ if index < left => origin(&join.left, index),
                _ => None,
            }
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let relation = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<Relation>()?;
            let column = scan.projection.as_ref().map_or(Some(index), |columns| columns.get(index).copied())?;
            let schema = relation.schema();
            let hidden = rewrite::HIDDEN.iter().any(|(name, _)| name == schema.field(column).name());
            let column = i16::try_from(column + 1).ok().filter(|_| !hidden)?;
            Some(Origin { relation: relation.oid, column })
        }
        _ => None,
    }
}

fn of_expr(expr: &Expr, input: &LogicalPlan) -> Option<Origin> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Column(column) => origin(input, position(column, input)?),
        // An oid that is shown with its name: see `Session::plan`.
        Expr::ScalarFunction(call) if call.func.name() == "named_struct" => match call.args.as_slice() {
            [_, Expr::Column(column), _, _] => origin(input, position(column, input)?),
            _ => None,
        },
        _ => None,
    }
}

fn position(column: &Column, input: &LogicalPlan) -> Option<usize> {
    input.schema().maybe_index_of_column(column)
}

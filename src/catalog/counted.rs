//! `EXCEPT ALL` and `INTERSECT ALL` count how often a row comes.
//!
//! PostgreSQL: of m and n equal rows, max(m - n, 0) and min(m, n) stay. DataFusion: all of them or none. Blocked by: its
//! planner, which makes a semi or anti join of both. Remove when: `(1, 1) EXCEPT ALL (1)` has a row without this module.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result as DfResult;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt as _, Join, LogicalPlan, LogicalPlanBuilder};

/// The column that numbers equal rows.
const NUMBER: &str = "number\u{1}";

/// Numbers equal rows on both sides, so that each has at most one partner.
pub fn counted(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Join(join) if counts(&join) => numbered(join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    if plan.transformed { plan.data.recompute_schema() } else { Ok(plan.data) }
}

/// Whether a join is one of these: nothing else that a statement says becomes such a join. Without ALL the left side has
/// each row once already.
fn counts(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(*join.left, LogicalPlan::Distinct(_))
}

fn numbered(join: Join) -> DfResult<LogicalPlan> {
    let shown: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let keys = |side: fn(&(Expr, Expr)) -> &Expr| join.on.iter().map(side).cloned().collect::<Vec<Expr>>();
    let left = with_number(&join.left, keys(|(left, _)| left))?;
    let right = with_number(&join.right, keys(|(_, right)| right))?;
    let number = || Expr::Column(Column::from_name(NUMBER));
    let on = join.on.iter().cloned().chain([(number(), number())]).collect();
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(shown)?.build()
}

fn with_number(side: &Arc<LogicalPlan>, keys: Vec<Expr>) -> DfResult<LogicalPlan> {
    let columns = side.schema().columns().into_iter().map(Expr::Column);
    let number = row_number().partition_by(keys).build()?;
    let name = number.schema_name().to_string();
    let builder = LogicalPlanBuilder::from(Arc::clone(side)).window([number])?;
    builder.project(columns.chain([Expr::Column(Column::from_name(name)).alias(NUMBER)]))?.build()
}

//! Aggregates whose arguments are columns of a query further out, and so belong to that one.
//!
//! PostgreSQL: `SELECT (SELECT max(a.v) FROM b) FROM a` has one row. DataFusion: an aggregate is of the query that it stands
//! in. Blocked by: its planner groups a query before it knows what the subqueries in its list hold. Remove when: it asks.
//! Where the subquery reads from nothing, `rewrite` has put the aggregate where it belongs.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::functions::SINGLE_VALUE;
use super::subquery::subquery_of;
use crate::error::Error;

/// Refuses a plan that has one.
///
/// # Errors
/// 0A000.
pub fn check(plan: &LogicalPlan) -> DfResult<()> {
    plan.apply_with_subqueries(|plan| {
        let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(TreeNodeRecursion::Continue) };
        for expr in &aggregate.aggr_expr {
            expr.apply(|expr| match expr {
                Expr::AggregateFunction(call) if !is_ours(call) && is_of_outer_columns(expr)? => {
                    Err(Error::FeatureNotSupported {
                        what: format!("{}() of an outer query's columns in a subquery", call.func.name()),
                        hint: "It belongs to the outer query: compute it in a query in FROM, and name its result here."
                            .into(),
                    }
                    .into())
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// What `rewrite` puts around a subquery's value.
fn is_ours(call: &AggregateFunction) -> bool {
    let says_what_goes_without_saying = call.params.null_treatment == Some(NullTreatment::RespectNulls);
    says_what_goes_without_saying || matches!(call.func.name(), SINGLE_VALUE | "first_value")
}

/// Whether it has columns and all of them are outer ones. What a subquery in it has is taken for the query's own.
fn is_of_outer_columns(call: &Expr) -> DfResult<bool> {
    let (mut outer, mut own) = (false, false);
    call.apply(|expr| {
        outer |= matches!(expr, Expr::OuterReferenceColumn(..));
        own |= matches!(expr, Expr::Column(_)) || subquery_of(expr).is_some();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(outer && !own)
}

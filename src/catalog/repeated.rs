//! The names of columns that a derived table has twice.
//!
//! PostgreSQL: `SELECT *` shows both as they are. DataFusion: a relation's columns have different names, so the second `id`
//! becomes `id:1`. Blocked by: its schemas. Remove when: they take a name twice.

use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan, LogicalPlanBuilder};

use super::output_name;
use super::rewrite::UNIQUE;

/// Gives the plan's columns their own names back.
pub fn named(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    if matches!(plan, LogicalPlan::Explain(_)) {
        return Ok(plan);
    }
    let names: Vec<Option<String>> = (0..plan.schema().fields().len()).map(|index| own(&plan, index)).collect();
    if names.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let expressions: Vec<Expr> = columns
        .into_iter()
        .zip(names)
        .map(|(column, name)| {
            let unique = name.map(|name| format!("{name}{UNIQUE}{}", column.name));
            let column = Expr::Column(column);
            match unique {
                Some(unique) => column.alias(unique),
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(expressions)?.build()
}

/// The own name of a column that was renamed.
fn own(plan: &LogicalPlan, index: usize) -> Option<String> {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(index)? {
            Expr::Column(column) => own(&projection.input, projection.input.schema().maybe_index_of_column(column)?),
            _ => None,
        },
        LogicalPlan::Filter(filter) => own(&filter.input, index),
        LogicalPlan::Sort(sort) => own(&sort.input, index),
        LogicalPlan::Limit(limit) => own(&limit.input, index),
        LogicalPlan::Distinct(Distinct::All(input)) => own(input, index),
        LogicalPlan::SubqueryAlias(named) => match named.input.as_ref() {
            LogicalPlan::Projection(projection) => {
                projection.expr.get(index).and_then(renamed).or_else(|| own(&named.input, index))
            }
            input => own(input, index),
        },
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full if index >= left => {
                    own(&join.right, index - left)
                }
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => own(&join.left, index),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The name before DataFusion's. A statement's own `AS "id:1"` names no relation.
fn renamed(expr: &Expr) -> Option<String> {
    let Expr::Alias(Alias { expr, relation: Some(_), name, .. }) = expr else { return None };
    let Expr::Column(column) = expr.as_ref() else { return None };
    let count = name.strip_prefix(column.name.as_str())?.strip_prefix(':')?;
    count.parse::<usize>().ok().map(|_| output_name(&column.name).to_owned())
}

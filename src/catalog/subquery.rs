//! Subqueries that DataFusion can't turn into joins: run once for every row, or rather for every different set of the
//! outer values that they use. LATERAL is one whose rows are wanted.
//!
//! PostgreSQL: any condition may tie a subquery to the outer row. DataFusion: equalities only, and not in every place.
//! Blocked by: its decorrelation rules. Remove when: a plan with a correlated `<>` runs without this module.

mod function;
mod lateral;
mod outer;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType};
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Operator, ScalarUDF, Signature, Subquery,
    TypeSignature, Volatility,
};

pub use self::function::block_on;
use self::function::{ByRow, Kind};
use self::lateral::lateral;
use self::outer::{Outer, outer_columns};

/// Optimizes a plan, whatever its subqueries are.
///
/// # Errors
/// What DataFusion says.
pub fn optimize(plan: &LogicalPlan, state: &SessionState) -> DfResult<LogicalPlan> {
    if !has_subqueries(plan)? {
        return state.optimize(plan);
    }
    let plan = &by_row(lateral::marked(plan.clone())?, state, Which::Misread)?;
    lateral::check(plan)?;
    let optimized = state.optimize(plan);
    let stuck = match &optimized {
        Ok(optimized) => has_correlated(optimized)?,
        Err(_) => has_correlated(plan)?,
    };
    if !stuck {
        return optimized;
    }
    // What becomes a join by itself costs much less as one, also beside a subquery that doesn't.
    let some = by_row(plan.clone(), state, Which::Stuck).and_then(|plan| state.optimize(&plan));
    if let Ok(some) = some
        && !has_correlated(&some)?
    {
        return Ok(some);
    }
    let optimized = state.optimize(&by_row(plan.clone(), state, Which::All)?)?;
    // `x > ANY (SELECT ...)` is an EXISTS only now.
    if has_correlated(&optimized)? { state.optimize(&by_row(optimized, state, Which::All)?) } else { Ok(optimized) }
}

fn has_subqueries(plan: &LogicalPlan) -> DfResult<bool> {
    plan.exists(|plan| {
        let mut found = matches!(plan, LogicalPlan::Subquery(_));
        plan.apply_expressions(|expr| {
            found = found || expr.exists(|expr| Ok(subquery_of(expr).is_some()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// The subquery that an expression is.
pub fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => Some(subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        Expr::SetComparison(compared) => Some(&compared.subquery),
        _ => None,
    }
}

fn has_correlated(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                // An outer column that is left over: what referred to it was taken for a join and isn't one.
                found |= correlated(expr).is_some() || matches!(expr, Expr::OuterReferenceColumn(..));
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

fn correlated(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => (!outer_columns(subquery).is_empty()).then_some(subquery),
        // These two become joins in a filter alone.
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Which subqueries are to be run row by row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those that DataFusion makes joins of that say something else.
    Misread,
    /// Those that DataFusion can't turn into a join even when they stand alone.
    Stuck,
}

/// Whether DataFusion makes a join of a subquery that stands in a query on rows of this schema.
fn becomes_join(subquery: &Expr, outer: &DFSchemaRef, state: &SessionState) -> DfResult<bool> {
    if !matches!(subquery, Expr::ScalarSubquery(_)) {
        return Ok(false);
    }
    let row = EmptyRelation { produce_one_row: true, schema: Arc::clone(outer) };
    let builder = LogicalPlanBuilder::from(LogicalPlan::EmptyRelation(row));
    let alone = builder.project([subquery.clone().alias("alone")])?.build()?;
    state.optimize(&alone).map_or(Ok(false), |plan| Ok(!has_correlated(&plan)?))
}

/// Replaces the correlated subqueries of the outermost query, or those that are misread anywhere, by function calls.
fn by_row(plan: LogicalPlan, state: &SessionState, which: Which) -> DfResult<LogicalPlan> {
    let state = Arc::new(state.clone());
    let replace = |plan| {
        let plan = match plan {
            LogicalPlan::Join(join) => lateral(join, &state, which)?,
            other => Transformed::no(other),
        };
        plan.transform_data(|plan| {
            let preserver = NamePreserver::new(&plan);
            let outer = match plan.inputs()[..] {
                [input] => Some(Arc::clone(input.schema())),
                _ => None,
            };
            let place = if matches!(plan, LogicalPlan::Filter(_)) { Place::Conjunct } else { Place::Elsewhere };
            plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = match (which, &outer) {
                    (Which::Misread, Some(outer)) => misread(expr, place, outer, &state)?,
                    (Which::Misread, None) => Transformed::no(expr),
                    (Which::Stuck, Some(outer)) => stuck(expr, Some(outer), &state)?,
                    (Which::Stuck | Which::All, _) => stuck(expr, None, &state)?,
                };
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })
    };
    let plan = match which {
        Which::Misread => plan.transform_up_with_subqueries(replace)?,
        Which::Stuck | Which::All => plan.transform_up(replace)?,
    };
    if plan.transformed { plan.data.recompute_schema() } else { Ok(plan.data) }
}

/// Calls for the correlated subqueries of an expression, but for those that become joins of `outer`.
fn stuck(expr: Expr, outer: Option<&DFSchemaRef>, state: &Arc<SessionState>) -> DfResult<Transformed<Expr>> {
    expr.transform_down(|expr| {
        let Some(subquery) = correlated(&expr) else { return Ok(Transformed::no(expr)) };
        if let Some(outer) = outer
            && becomes_join(&expr, outer, state)?
        {
            return Ok(Transformed::no(expr));
        }
        Ok(Transformed::yes(call(&expr, subquery, state)))
    })
}

/// Where in a condition something stands, which says what it makes of NULL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// All of it, or joined to the rest by AND.
    Conjunct,
    /// Below ANDs and ORs alone: NULL is as good as false.
    Monotone,
    Elsewhere,
}

/// Calls for the subqueries of an expression whose joins would say something else. DataFusion's joins take a comparison
/// with NULL for false, but for NOT IN as a conjunct; an aggregate, a window or a limit in the joined rows is one over the
/// rows of all outer rows; and they reach no further out than the next query.
fn misread(expr: Expr, place: Place, outer: &DFSchemaRef, state: &Arc<SessionState>) -> DfResult<Transformed<Expr>> {
    let below = match &expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => place,
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) if place != Place::Elsewhere => Place::Monotone,
        _ => Place::Elsewhere,
    };
    let Some(subquery) = subquery_of(&expr).filter(|_| !matches!(expr, Expr::SetComparison(_))) else {
        return expr.map_children(|child| misread(child, below, outer, state));
    };
    let Outer { columns, further_in } = Outer::of(&subquery.subquery)?;
    let by_place = match &expr {
        Expr::InSubquery(within) if within.negated => place != Place::Conjunct || !columns.is_empty(),
        Expr::InSubquery(_) => place == Place::Elsewhere,
        _ => false,
    };
    let one_value = matches!(expr, Expr::ScalarSubquery(_));
    let known = columns.iter().all(|column| outer.has_column(column));
    if known && (by_place || further_in || (!columns.is_empty() && counts_rows(&subquery.subquery, one_value)?)) {
        return Ok(Transformed::yes(call(&expr, subquery, state)));
    }
    Ok(Transformed::no(expr))
}

/// Whether a subquery's rows depend on how many there are. Of one that is a value, DataFusion knows what aggregates and
/// limits mean, but not what a HAVING makes of no rows. Nor does it know of rows that an outer join keeps although the
/// outer row has nothing for them.
fn counts_rows(plan: &LogicalPlan, one_value: bool) -> DfResult<bool> {
    plan.exists(|plan| {
        Ok(match plan {
            LogicalPlan::Window(_) => true,
            LogicalPlan::Join(join) if matches!(join.join_type, JoinType::Left | JoinType::Right | JoinType::Full) => {
                uses_outer(plan)?
            }
            LogicalPlan::Filter(filter) if one_value => filter.input.exists(|below| {
                Ok(matches!(below, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty()))
            })?,
            LogicalPlan::Aggregate(aggregate) => !one_value && aggregate.group_expr.is_empty(),
            LogicalPlan::Limit(_) => !one_value,
            _ => false,
        })
    })
}

/// Whether a plan uses columns of a query further out.
fn uses_outer(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found = found || plan.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn call(expr: &Expr, subquery: &Subquery, state: &Arc<SessionState>) -> Expr {
    let (kind, operand) = match expr {
        Expr::Exists(Exists { negated, .. }) => (Kind::Exists { negated: *negated }, None),
        Expr::InSubquery(within) => (Kind::In { negated: within.negated }, Some(within.expr.as_ref().clone())),
        _ => (Kind::Value(Arc::clone(subquery.subquery.schema().field(0))), None),
    };
    by_row_call(&subquery.subquery, kind, outer_columns(subquery), operand.into_iter().collect(), state)
}

fn by_row_call(
    plan: &Arc<LogicalPlan>,
    kind: Kind,
    columns: Vec<Column>,
    operands: Vec<Expr>,
    state: &Arc<SessionState>,
) -> Expr {
    let args = columns.iter().cloned().map(Expr::Column).chain(operands).collect();
    // DataFusion tells expressions from each other by their names too.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let function = ByRow {
        name: format!("subquery_{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        plan: Arc::clone(plan),
        kind,
        columns,
        state: Arc::clone(state),
        optimized: OnceLock::new(),
        signature: Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable),
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), args))
}

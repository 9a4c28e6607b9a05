//! Conditions that keep others from being evaluated: `x <> 0 AND 1 / x > 2`, `x = 0 OR 1 / x > 2`, and CASE.
//!
//! PostgreSQL: CASE evaluates what it says; AND and OR go from left to right. DataFusion: a CASE of truth values becomes
//! ANDs and ORs, and these evaluate both sides. Blocked by: its simplifier doesn't ask whether an expression can fail.
//! Remove when: it does.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator, not};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::checked;
use crate::catalog::cast::CAST;
use crate::catalog::casts;
use crate::catalog::subquery::subquery_of;

/// A CASE of truth values as one of numbers, where a branch can fail.
///
/// # Errors
/// An expression has no type.
pub fn case(case: Case, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let mut branches = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let fails = branches.any(|branch| can_fail(branch));
    let expr = Expr::Case(case);
    if !fails || expr.get_type(schema)? != DataType::Boolean {
        return Ok(Transformed::no(expr));
    }
    let Expr::Case(case) = expr else { return Ok(Transformed::no(expr)) };
    let number = |branch: Box<Expr>| branch.cast_to(&DataType::Int8, schema).map(Box::new);
    let when_then_expr =
        case.when_then_expr.into_iter().map(|(when, then)| Ok((when, number(then)?))).collect::<DfResult<Vec<_>>>()?;
    let else_expr = case.else_expr.map(number).transpose()?;
    Ok(Transformed::yes(is_one(Case { expr: case.expr, when_then_expr, else_expr })))
}

/// The condition of a WHERE in which what can fail is evaluated only where all that stands before it is true.
///
/// # Errors
/// An expression has no type.
pub fn condition(condition: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let parts = split_conjunction_owned(condition.clone());
    if parts.len() < 2 || !parts.iter().skip(1).any(can_fail) {
        return Ok(Transformed::no(condition));
    }
    let (mut before, mut all) = (Vec::new(), Vec::new());
    for part in parts {
        let alone = is_alone(&part)?;
        let fails = can_fail(&part);
        let guard = if fails && !alone { conjunction(before.clone()) } else { None };
        if !fails && !alone {
            before.push(part.clone());
        }
        all.push(match guard {
            Some(guard) => is_one(Case {
                expr: None,
                when_then_expr: vec![(Box::new(guard), Box::new(part.cast_to(&DataType::Int8, schema)?))],
                else_expr: Some(Box::new(Expr::Literal(ScalarValue::Int8(Some(0)), None))),
            }),
            None => part,
        });
    }
    Ok(conjunction(all).map_or(Transformed::no(condition), Transformed::yes))
}

/// `a AND b` and `a OR b` anywhere, in which what can fail is evaluated only where what stands before it leaves the result
/// open.
///
/// # Errors
/// An expression has no type.
pub fn operands(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let whole = |left, right| Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) });
    // What stands on the left has been looked at: this is done from the leaves up.
    if !can_fail(&right) || is_alone(&right)? {
        return Ok(Transformed::no(whole(left, right)));
    }
    let mut before = Vec::new();
    for part in split_binary(&left, op) {
        if before.len() < GUARDS && !can_fail(part) && !is_alone(part)? {
            before.push(part.clone());
        }
    }
    let before = if op == Operator::And { conjunction(before).map(not) } else { disjunction(before) };
    let Some(decided) = before else { return Ok(Transformed::no(whole(left, right))) };
    let guarded = is_one(Case {
        expr: None,
        when_then_expr: vec![(Box::new(decided), Box::new(Expr::Literal(ScalarValue::Int8(Some(0)), None)))],
        else_expr: Some(Box::new(right.cast_to(&DataType::Int8, schema)?)),
    });
    Ok(Transformed::yes(whole(left, guarded)))
}

/// So many conditions guard one that can fail. Each guard is evaluated once more: a chain of a thousand ORs isn't to
/// become a million.
const GUARDS: usize = 16;

/// What isn't to be repeated, or to be put into a CASE: a subquery becomes a join only where it stands alone.
fn is_alone(part: &Expr) -> DfResult<bool> {
    Ok(is_guarded(part) || part.is_volatile() || part.exists(|expr| Ok(subquery_of(expr).is_some()))?)
}

/// Guards in a filter what has come into it from another one: DataFusion puts the condition on what a subquery gives,
/// `x::int > 5`, beside the subquery's own, `x ~ '^[0-9]+$'`.
#[derive(Debug)]
pub struct MergedFilters;

impl OptimizerRule for MergedFilters {
    fn name(&self) -> &'static str {
        "merged_filters"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(mut filter) = plan else { return Ok(Transformed::no(plan)) };
        let parts = split_conjunction_owned(filter.predicate.clone());
        let (failing, sure): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(can_fail);
        if failing.is_empty() || sure.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let Some(all) = conjunction(sure.into_iter().chain(failing)) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let condition = condition(all, filter.input.schema())?;
        filter.predicate = condition.data;
        Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), condition.transformed))
    }
}

fn is_one(case: Case) -> Expr {
    Expr::Case(case).eq(Expr::Literal(ScalarValue::Int8(Some(1)), None))
}

/// What the two functions above have made.
fn is_guarded(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return false };
    matches!(left.as_ref(), Expr::Case(_)) && matches!(right.as_ref(), Expr::Literal(ScalarValue::Int8(Some(1)), _))
}

/// Whether an expression can be an error of a row: arithmetic, and a cast of a value.
fn can_fail(expr: &Expr) -> bool {
    let fails = |expr: &Expr| match expr {
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            let casts = casts::target(name).is_some() || (name.starts_with(CAST) && name != "cast_to_Utf8");
            checked(expr).is_some() || (casts && !matches!(function.args.first(), Some(Expr::Literal(..))))
        }
        _ => false,
    };
    !is_guarded(expr) && expr.exists(|expr| Ok(fails(expr))).unwrap_or(false)
}

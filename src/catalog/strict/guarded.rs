//! Conditions that keep others from being evaluated: `x <> 0 AND 1 / x > 2`, and CASE.
//!
//! PostgreSQL: CASE evaluates what it says; AND goes from left to right. DataFusion: a CASE of truth values becomes ANDs
//! and ORs, and an AND evaluates both sides. Blocked by: its simplifier doesn't ask whether an expression can fail.
//! Remove when: it does.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, Operator};

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
        // A subquery becomes a join only where it stands alone.
        let alone = is_guarded(&part) || part.is_volatile() || part.exists(|expr| Ok(subquery_of(expr).is_some()))?;
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

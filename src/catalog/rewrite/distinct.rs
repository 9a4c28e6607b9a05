//! `a IS DISTINCT FROM b AND c`: the parser takes all of `b AND c` for what a is compared with. PostgreSQL takes b.

use datafusion::logical_expr::sqlparser::ast::{BinaryOperator, Expr};

use super::take;

/// Puts AND and OR outside again.
pub fn unbound(expr: &mut Expr) {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if is_connection(right) => {
            let mut outer = take(right);
            let inner = first(&mut outer);
            let compared = take(inner);
            if let Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) = expr {
                **right = compared;
            }
            *inner = take(expr);
            *expr = outer;
        }
        // OR binds less than the AND before it.
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } if is_loose(right) => {
            let mut outer = take(right);
            if let Expr::BinaryOp { left: alternative, .. } = &mut outer
                && let Expr::BinaryOp { right, .. } = expr
            {
                **right = take(alternative);
                **alternative = take(expr);
            }
            *expr = outer;
        }
        _ => {}
    }
}

fn is_connection(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

/// An OR without brackets that begins with such a comparison.
fn is_loose(expr: &Expr) -> bool {
    let mut begin = expr;
    while let Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, left, .. } = begin {
        begin = left;
    }
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Or, .. })
        && matches!(begin, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..))
}

/// The operand that a chain of AND and OR begins with.
fn first(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, left, .. } => first(left),
        other => other,
    }
}

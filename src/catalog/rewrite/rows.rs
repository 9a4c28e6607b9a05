//! Comparisons of rows, column by column: where a NULL decides, so is the result. DataFusion compares records, in which
//! NULL is a value like others.

use datafusion::logical_expr::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::take;

/// What a comparison of rows becomes.
pub fn compared(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (Expr::Tuple(left), Expr::Tuple(right)) = (left.as_mut(), right.as_mut()) else { return None };
            if left.len() != right.len() {
                return None;
            }
            comparison(op, left, right)
        }
        Expr::InList { expr, list, negated } => {
            let Expr::Tuple(row) = expr.as_ref() else { return None };
            let fits = |item: &Expr| matches!(item, Expr::Tuple(other) if other.len() == row.len());
            if !list.iter().all(fits) {
                return None;
            }
            let one = |item: &mut Expr| match item {
                Expr::Tuple(other) => equal(&mut row.clone(), other),
                _ => None,
            };
            let any = list.iter_mut().filter_map(one).reduce(|one, other| binary(one, BinaryOperator::Or, other))?;
            Some(if *negated { not(any) } else { nested(any) })
        }
        _ => None,
    }
}

fn comparison(op: &BinaryOperator, left: &mut [Expr], right: &mut [Expr]) -> Option<Expr> {
    let strict = match op {
        BinaryOperator::Eq => return equal(left, right),
        BinaryOperator::NotEq => return equal(left, right).map(not),
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return None,
    };
    match (left, right) {
        ([left], [right]) => Some(binary(take(left), op.clone(), take(right))),
        ([left, lefts @ ..], [right, rights @ ..]) => {
            let rest = comparison(op, lefts, rights)?;
            let first = binary(left.clone(), strict, right.clone());
            let tied = binary(binary(take(left), BinaryOperator::Eq, take(right)), BinaryOperator::And, rest);
            Some(binary(first, BinaryOperator::Or, tied))
        }
        _ => None,
    }
}

fn equal(left: &mut [Expr], right: &mut [Expr]) -> Option<Expr> {
    let pairs = left.iter_mut().zip(right).map(|(left, right)| binary(take(left), BinaryOperator::Eq, take(right)));
    pairs.reduce(|one, other| binary(one, BinaryOperator::And, other))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    nested(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn not(expr: Expr) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) })
}

//! Comparisons of rows, column by column: where a NULL decides, so is the result. DataFusion compares records, in which
//! NULL is a value like others.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::logical_expr::sqlparser::ast::{
    self, BinaryOperator, Expr, Query, SetExpr, TableFactor, UnaryOperator, Value, VisitMut as _, VisitorMut,
};

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
        Expr::InSubquery { expr, subquery, negated } => {
            let Expr::Tuple(row) = expr.as_ref() else { return None };
            let within = among(row, subquery)?;
            Some(if *negated { not(within) } else { within })
        }
        _ => None,
    }
}

/// `(a, b) IN (SELECT ...)`: true where a row is equal, else NULL where one may be.
fn among(row: &[Expr], subquery: &Query) -> Option<Expr> {
    let columns: Vec<String> = (1..=row.len()).map(|n| format!("\"row {n}\"")).collect();
    let equal = |is_null: &str| {
        let pairs: Vec<String> = columns.iter().map(|column| format!("NULL = {column}")).collect();
        let condition = format!("({}) {is_null}", pairs.join(" AND "));
        let text = format!("SELECT 1 FROM (SELECT 1) AS \"rows\"({}) WHERE {condition}", columns.join(", "));
        let mut query = super::parse_query(&text)?;
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        if let TableFactor::Derived { subquery: rows, .. } = &mut select.from.first_mut()?.relation {
            **rows = subquery.clone();
        }
        let mut items = row.iter();
        let _ = select.selection.visit(&mut Fill(&mut items));
        Some(Expr::Exists { subquery: query, negated: false })
    };
    let case = |condition: Expr, result: Value| ast::CaseWhen { condition, result: Expr::Value(result.into()) };
    Some(nested(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![case(equal("IS TRUE")?, Value::Boolean(true)), case(equal("IS NULL")?, Value::Null)],
        else_result: Some(Box::new(Expr::Value(Value::Boolean(false).into()))),
    }))
}

/// Puts the items of a row where the NULLs are, from left to right.
struct Fill<'a, 'b>(&'a mut std::slice::Iter<'b, Expr>);

impl VisitorMut for Fill<'_, '_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { left, op: BinaryOperator::Eq, .. } = expr
            && matches!(left.as_ref(), Expr::Value(value) if value.value == Value::Null)
            && let Some(item) = self.0.next()
        {
            **left = item.clone();
        }
        ControlFlow::Continue(())
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

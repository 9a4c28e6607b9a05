//! Comparisons of rows, column by column: where a NULL decides, so is the result. DataFusion compares records, in which
//! NULL is a value like others.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::logical_expr::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SetExpr, Statement,
    TableFactor, UnaryOperator, Value, VisitMut as _, VisitorMut,
};

use super::{is_named, take};

/// Writes `ROW(a, b)` as `(a, b)`, which is the same.
pub fn spell_out(statement: &mut Statement) {
    struct Rows;
    impl VisitorMut for Rows {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && is_named(&function.name, "row")
                && let FunctionArguments::List(list) = &function.args
                && !list.args.is_empty()
            {
                let items = list.args.iter().map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(item)) => Some(item.clone()),
                    _ => None,
                });
                if let Some(items) = items.collect() {
                    *expr = Expr::Tuple(items);
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = statement.visit(&mut Rows);
}

/// A record that is written out, compared with a row, is one.
fn whole_row(record: &mut Expr, row: &Expr) {
    if matches!(row, Expr::Tuple(_))
        && let Some(items) = items(record)
    {
        *record = Expr::Tuple(items);
    }
}

/// The items of a row, or of a record that is written out.
fn items(row: &Expr) -> Option<Vec<Expr>> {
    match row {
        Expr::Tuple(items) => Some(items.clone()),
        Expr::Function(function) if is_named(&function.name, "named_struct") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let values = list.args.iter().skip(1).step_by(2).map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

/// What a comparison of rows becomes.
pub fn compared(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            whole_row(left, right);
            whole_row(right, left);
            let Expr::Tuple(left) = left.as_mut() else { return None };
            if let Expr::Subquery(subquery) = right.as_ref() {
                return of_one(left, op, subquery);
            }
            let Expr::Tuple(right) = right.as_mut() else { return None };
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
            let within = among(row, &BinaryOperator::Eq, subquery)?;
            Some(if *negated { not(within) } else { within })
        }
        _ => None,
    }
}

/// `x < ANY (SELECT ...)` and ALL, of a row or of one value. Of the one value, IN says the same of `= ANY`.
pub fn of_any(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::AnyOp { left, compare_op, right, .. } => {
            let Expr::Subquery(subquery) = right.as_ref() else { return None };
            among(&row_of(left, compare_op, &BinaryOperator::Eq)?, compare_op, subquery)
        }
        Expr::AllOp { left, compare_op, right } => {
            let Expr::Subquery(subquery) = right.as_ref() else { return None };
            among(&row_of(left, compare_op, &BinaryOperator::NotEq)?, &opposite(compare_op)?, subquery).map(not)
        }
        _ => None,
    }
}

fn row_of(left: &Expr, op: &BinaryOperator, is_in: &BinaryOperator) -> Option<Vec<Expr>> {
    match left {
        Expr::Tuple(row) => Some(row.clone()),
        value => (op != is_in).then(|| vec![value.clone()]),
    }
}

/// `(a, b) op ANY (SELECT ...)`: true where it is so of a row, else NULL where it may be.
fn among(row: &[Expr], op: &BinaryOperator, subquery: &Query) -> Option<Expr> {
    let exists = |is: &str| {
        let mut query = over_rows(row, op, subquery)?;
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        let condition = Box::new(select.selection.take()?);
        let condition = if is == "true" { Expr::IsTrue(condition) } else { Expr::IsNull(condition) };
        select.selection = Some(condition);
        Some(Expr::Exists { subquery: query, negated: false })
    };
    let case = |condition: Expr, result: Value| ast::CaseWhen { condition, result: Expr::Value(result.into()) };
    Some(nested(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![case(exists("true")?, Value::Boolean(true)), case(exists("null")?, Value::Null)],
        else_result: Some(Box::new(Expr::Value(Value::Boolean(false).into()))),
    }))
}

/// `(a, b) op (SELECT ...)`: what it is of the only row.
fn of_one(row: &[Expr], op: &BinaryOperator, subquery: &Query) -> Option<Expr> {
    let mut query = over_rows(row, op, subquery)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.projection = vec![ast::SelectItem::UnnamedExpr(select.selection.take()?)];
    Some(Expr::Subquery(query))
}

/// A query of a subquery's rows whose condition compares a row with them.
fn over_rows(row: &[Expr], op: &BinaryOperator, subquery: &Query) -> Option<Box<Query>> {
    let columns: Vec<String> = (1..=row.len()).map(|n| format!("row {n}")).collect();
    let names: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let mut query = super::parse_query(&format!("SELECT 1 FROM (SELECT 1) AS \"rows\"({})", names.join(", ")))?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if let TableFactor::Derived { subquery: rows, .. } = &mut select.from.first_mut()?.relation {
        **rows = subquery.clone();
    }
    let mut other: Vec<Expr> =
        columns.into_iter().map(|column| Expr::Identifier(ast::Ident::with_quote('"', column))).collect();
    select.selection = Some(comparison(op, &mut row.to_vec(), &mut other)?);
    Some(query)
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
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

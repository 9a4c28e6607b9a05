//! A whole number that is written has the type integer, if it fits. DataFusion takes it for a bigint. One with an exponent is
//! a numeric, and is written out: of DataFusion's, casts lose the exponent.

use datafusion::logical_expr::sqlparser::ast::{
    CastKind, DataType, Distinct, Expr, GroupByExpr, LimitClause, NamedWindowExpr, OrderByKind, Query, Select,
    SelectItem, Value, WindowFrameBound, WindowSpec, WindowType,
};

use super::expressions::cast_to;
use super::take;

/// Casts a number that fits.
pub fn small(expr: &mut Expr) {
    match expr {
        Expr::Value(value) => {
            let fits = matches!(&value.value, Value::Number(text, _) if text.parse::<i32>().is_ok());
            if fits {
                *expr = cast_to(take(expr), DataType::Int(None));
            } else if let Value::Number(text, _) = &mut value.value
                && let Some(plain) = written_out(text)
            {
                *text = plain;
            } else if let Value::Number(text, _) = &value.value
                && text.contains(['e', 'E'])
            {
                // More digits than an exact number has here.
                let text = Expr::Value(Value::SingleQuotedString(text.clone()).into());
                *expr = cast_to(text, DataType::DoublePrecision);
            }
        }
        Expr::Function(function) => {
            if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                frame(window);
            }
            // The type of what these give rests on the number.
            if ["round", "trunc"].iter().any(|name| super::is_named(&function.name, name))
                && let super::FunctionArguments::List(list) = &mut function.args
                && let Some(super::FunctionArg::Unnamed(super::FunctionArgExpr::Expr(digits))) = list.args.get_mut(1)
            {
                plain(digits);
            }
        }
        _ => {}
    }
}

/// `1.5e2` as `150.`, unless it has more digits than a numeric holds.
fn written_out(text: &str) -> Option<String> {
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok().filter(|exponent| (-37..=37).contains(exponent))?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let missing = usize::try_from(-point).unwrap_or(0);
    let padded = format!("{}{digits:0<width$}", "0".repeat(missing), width = usize::try_from(point).unwrap_or(0));
    let (whole, fraction) = padded.split_at(usize::try_from(point).unwrap_or(0));
    let fits = whole.len() + fraction.len() <= 38;
    fits.then(|| format!("{}.{fraction}", if whole.is_empty() { "0" } else { whole }))
}

/// A limit in quotes is a number too.
fn limit(expr: &mut Expr) {
    plain(expr);
    if let Expr::Value(value) = expr
        && let Value::SingleQuotedString(text) = &value.value
        && text.trim().parse::<u64>().is_ok()
    {
        *expr = Expr::Value(Value::Number(text.trim().to_owned(), false).into());
    }
}

/// Takes the cast away again, where a number stands for something else than its value.
fn plain(expr: &mut Expr) {
    match expr {
        Expr::Cast { kind: CastKind::Cast, expr: number, data_type: DataType::Int(None), .. }
            if matches!(number.as_ref(), Expr::Value(_)) =>
        {
            *expr = take(number);
        }
        Expr::UnaryOp { expr, .. } => plain(expr),
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => sets.iter_mut().flatten().for_each(plain),
        _ => {}
    }
}

/// Columns by their position in `ROLLUP (1, 2)`. DataFusion takes the numbers for values there.
fn in_sets(by: &mut Expr, columns: &[SelectItem]) {
    let (Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets)) = by else { return };
    for item in sets.iter_mut().flatten() {
        let Expr::Value(value) = &*item else { continue };
        let Value::Number(position, _) = &value.value else { continue };
        let position = position.parse().ok().and_then(|position: usize| position.checked_sub(1));
        if let Some(SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. }) =
            position.and_then(|position| columns.get(position))
        {
            *item = column.clone();
        }
    }
}

fn frame(window: &mut WindowSpec) {
    let Some(frame) = &mut window.window_frame else { return };
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        if let WindowFrameBound::Preceding(Some(rows)) | WindowFrameBound::Following(Some(rows)) = bound {
            plain(rows);
        }
    }
}

/// Of GROUP BY and DISTINCT ON, and the frames of named windows.
pub fn positions(select: &mut Select) {
    if let GroupByExpr::Expressions(by, _) = &mut select.group_by {
        by.iter_mut().for_each(plain);
        by.iter_mut().for_each(|by| in_sets(by, &select.projection));
    }
    if let Some(Distinct::On(on)) = &mut select.distinct {
        on.iter_mut().for_each(plain);
    }
    for window in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
            frame(window);
        }
    }
}

/// Of ORDER BY, LIMIT and OFFSET.
pub fn limits(query: &mut Query) {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(by) = &mut order.kind
    {
        by.iter_mut().for_each(|by| plain(&mut by.expr));
    }
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().chain(offset.as_mut().map(|offset| &mut offset.value)).for_each(self::limit);
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => [offset, limit].into_iter().for_each(self::limit),
        None => {}
    }
    if let Some(fetch) = &mut query.fetch {
        fetch.quantity.iter_mut().for_each(plain);
    }
}

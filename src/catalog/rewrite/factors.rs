//! Functions in FROM that become queries.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    self, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, SetExpr, TableAlias, TableFactor,
    TableFunctionArgs, Value, VisitMut as _, VisitorMut,
};

use super::{CHECK_RESCALE, call, is_named, parse_query, unqualify};

pub fn is_check_rescale(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "check_rescale")
}

pub fn is_set_of_arrays(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "unnest") || is_named(&name, "generate_series")
}

/// `unnest(x) AS y` and `generate_series(a, b) AS y`: their arguments may be columns of an outer query, which DataFusion
/// allows for UNNEST alone. The column has the alias's name.
pub fn unnest(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return };
    unqualify(name);
    let written = &args.args;
    // A series of constants may be longer than an array can be: DataFusion's function gives it a batch at a time.
    let constant = is_named(name, "generate_series") && !written.is_empty() && written.iter().all(is_number);
    let args = expressions(args);
    let function = if is_named(name, "unnest") { "unnest" } else { "generate_series" };
    let array_exprs = if function == "unnest" { args } else { vec![call(function, args)] };
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    if constant {
        if let TableFactor::Table { alias: old, .. } = factor {
            *old = Some(alias);
        }
        return;
    }
    *factor = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

/// A number as it is written, with or without a minus.
fn is_number(argument: &FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return false };
    let number = match expr {
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => expr,
        other => other,
    };
    matches!(number, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

pub fn is_options_to_table(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "pg_options_to_table")
}

/// `pg_options_to_table(x)`: the names and values of an array of `name=value`.
pub fn options_to_table(factor: &mut TableFactor) {
    struct Fill(Expr);
    impl VisitorMut for Fill {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
                *expr = self.0.clone();
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    let TableFactor::Table { alias, args: Some(args), .. } = factor else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(options))] = args.args.as_slice() else { return };
    let template = "SELECT split_part(o, '=', 1) AS option_name, substr(o, strpos(o, '=') + 1) AS option_value
        FROM unnest($1) AS options (o)";
    let Some(mut query) = parse_query(template) else { return };
    let _ = query.visit(&mut Fill(options.clone()));
    let alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new("pg_options_to_table"),
        columns: Vec::new(),
        at: None,
    });
    *factor = TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
}

/// `check_rescale(a, b)` as a query of the table of all checks: its arguments may then be parameters.
pub fn check_rescale(factor: &mut TableFactor) {
    let TableFactor::Table { alias, args: Some(args), .. } = factor else { return };
    let args = expressions(args);
    let Ok([source, target]) = <[Expr; 2]>::try_from(args) else { return };
    let columns: Vec<_> =
        super::super::rescale::CHECK_RESCALE.columns.iter().map(|column| column.name.as_str()).collect();
    let sql = format!("SELECT {} FROM \"{CHECK_RESCALE}\" WHERE source = $1 AND target = $2", columns.join(", "));
    let Some(mut query) = parse_query(&sql) else { return };
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(Expr::BinaryOp { left, right, .. }) = &mut select.selection
    {
        for (condition, argument) in [(left, source), (right, target)] {
            if let Expr::BinaryOp { right, .. } = condition.as_mut() {
                **right = as_text(argument);
            }
        }
    }
    let alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new("check_rescale"),
        columns: Vec::new(),
        at: None,
    });
    *factor = TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
}

fn as_text(expr: Expr) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type: DataType::Text,
        array: false,
        format: None,
    }
}

/// The arguments of a table function that are plain expressions.
fn expressions(args: &TableFunctionArgs) -> Vec<Expr> {
    let plain = args.args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

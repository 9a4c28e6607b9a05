//! Functions in FROM that become queries.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    self, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select, SelectItem,
    SetExpr, TableAlias, TableFactor, TableFunctionArgs, TableWithJoins, Value, VisitMut as _, VisitorMut,
};

use super::{CHECK_RESCALE, is_named, parse_query, unqualify};

pub fn is_check_rescale(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "check_rescale")
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

/// `SELECT check_rescale(a, b)`: its rows as records.
pub fn check_rescale_records(select: &mut Select) {
    let [SelectItem::ExprWithAlias { expr: Expr::Function(function), .. }] = select.projection.as_slice() else {
        return;
    };
    let FunctionArguments::List(list) = &function.args else { return };
    if !select.from.is_empty() || !is_check_rescale(&function.name) {
        return;
    }
    let mut factor = TableFactor::Table {
        name: function.name.clone(),
        alias: None,
        args: Some(TableFunctionArgs { args: list.args.clone(), settings: None }),
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    check_rescale(&mut factor);
    let columns = &super::super::rescale::CHECK_RESCALE.columns;
    let columns = columns.iter().map(|column| Expr::Identifier(Ident::new(column.name.as_str()))).collect();
    if let [SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice() {
        *expr = super::call("struct", columns);
    }
    select.from = vec![TableWithJoins { relation: factor, joins: Vec::new() }];
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

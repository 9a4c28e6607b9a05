//! Functions that give a set of rows, in FROM and in the list of a SELECT: unnested arrays.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins, Value, VisitMut as _, VisitorMut,
};

use super::super::functions::{SETS, SetColumns};
use super::super::table_functions;
use super::expressions::{cast_to, text};
use super::subqueries::empty_select;
use super::{call, is_named, unqualify};

/// A function that gives a set, as DataFusion and we have it: the function that gives an array, and the columns.
fn set(name: &ObjectName) -> Option<(&'static str, SetColumns)> {
    let mut name = name.clone();
    unqualify(&mut name);
    if is_named(&name, "unnest") {
        return Some(("", SetColumns::One));
    }
    SETS.iter().find(|(known, ..)| is_named(&name, known)).map(|(_, array, columns)| (*array, *columns))
}

/// In the list of a SELECT: the function's array, unnested. Not within a subquery.
pub fn in_projection(select: &mut Select) {
    struct Unnest {
        depth: usize,
    }
    impl VisitorMut for Unnest {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let (0, Expr::Function(function)) = (self.depth, &mut *expr)
                && let Some((array, _)) = set(&function.name)
                && !array.is_empty()
            {
                function.name = ObjectName::from(vec![Ident::new(array)]);
                *expr = unnested(array, super::take(expr));
            }
            ControlFlow::Continue(())
        }
    }
    for item in &mut select.projection {
        let _ = item.visit(&mut Unnest { depth: 0 });
    }
}

/// The items of an array that a function gives, with their exact type.
fn unnested(function: &str, array: Expr) -> Expr {
    let item = call("unnest", vec![array]);
    match function {
        "json_items" => call("as_json", vec![item]),
        "jsonb_items" => call("as_jsonb", vec![item]),
        _ => item,
    }
}

/// In FROM: a query of the unnested array, which may use what stands before it.
pub fn in_from(factor: &mut TableFactor) {
    let (name, alias, args, with_ordinality) = match factor {
        TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
            (name, alias, &mut args.args, *with_ordinality)
        }
        TableFactor::Function { name, alias, args, with_ordinality, .. } => (name, alias, args, *with_ordinality),
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
            let (alias, ordinality) = (alias.take(), *with_ordinality);
            let arrays = std::mem::take(array_exprs);
            *factor = derived(arrays, SetColumns::One, alias, &Ident::new("unnest"), ordinality);
            return;
        }
        _ => return,
    };
    let record = ["json_to_record", "jsonb_to_record", "json_to_recordset", "jsonb_to_recordset"];
    if let Some(kind) = record.into_iter().find(|known| is_set_named(name, known)) {
        let args = plain(args);
        let alias = alias.take();
        if let Some(query) = alias.as_ref().and_then(|alias| records(kind, args, alias)) {
            let alias = alias.map(|alias| TableAlias { columns: Vec::new(), ..alias });
            *factor = TableFactor::Derived { lateral: true, subquery: Box::new(query), alias, sample: None };
        }
        return;
    }
    let own = name.0.last().and_then(|part| part.as_ident()).cloned().unwrap_or_else(|| Ident::new("unnest"));
    let Some((array, columns)) = set(name) else {
        let gives_table = table_functions::NAMES.contains(&super::fold(&own).as_str());
        if !gives_table && !with_ordinality {
            let value = call(&super::fold(&own), plain(args));
            *factor = one_row(value, alias.take(), &own);
        }
        return;
    };
    if is_set_named(name, "generate_series") && !with_ordinality && is_long_series(args) {
        *alias = Some(with_one_column(alias.take().unwrap_or_else(|| named(&own))));
        return;
    }
    let args = plain(args);
    let arrays = if array.is_empty() { args } else { vec![call(array, args)] };
    *factor = derived(arrays, columns, alias.take(), &own, with_ordinality);
}

/// Any other function in FROM: one row with its value, in a column that is named like the alias.
fn one_row(value: Expr, alias: Option<TableAlias>, own: &Ident) -> TableFactor {
    let alias = with_one_column(alias.unwrap_or_else(|| named(own)));
    let item = SelectItem::ExprWithAlias { expr: value, alias: Ident::new("c1") };
    let query = select(vec![item], Vec::new());
    TableFactor::Derived { lateral: true, subquery: Box::new(query), alias: Some(alias), sample: None }
}

/// A single column without a name has the alias's.
fn with_one_column(mut alias: TableAlias) -> TableAlias {
    if alias.columns.is_empty() {
        alias.columns.push(column(alias.name.clone()));
    }
    alias
}

/// The alias of a function that has none: its own name.
fn named(own: &Ident) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(own.value.to_lowercase()), columns: Vec::new(), at: None }
}

fn derived(
    arrays: Vec<Expr>,
    columns: SetColumns,
    alias: Option<TableAlias>,
    own: &Ident,
    with_ordinality: bool,
) -> TableFactor {
    let count = arrays.len();
    let query = query(arrays, columns, with_ordinality);
    let mut alias = alias.unwrap_or_else(|| named(own));
    // Names that are given stand for the first columns. A single column has the alias's name.
    let names: Vec<Ident> = match columns {
        SetColumns::Named(name) => vec![Ident::new(name)],
        SetColumns::Many(names) => names.iter().map(|name| Ident::new(*name)).collect(),
        SetColumns::One if count == 1 => vec![alias.name.clone()],
        SetColumns::One => (0..count).map(|_| Ident::new(own.value.to_lowercase())).collect(),
    };
    let ordinality = with_ordinality.then(|| Ident::new("ordinality"));
    let missing = names.into_iter().chain(ordinality).skip(alias.columns.len()).map(column);
    alias.columns.extend(missing);
    TableFactor::Derived { lateral: true, subquery: Box::new(query), alias: Some(alias), sample: None }
}

fn is_set_named(name: &ObjectName, wanted: &str) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, wanted)
}

fn column(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name, data_type: None }
}

/// The arguments that are plain expressions.
fn plain(args: &[FunctionArg]) -> Vec<Expr> {
    let plain = args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

/// A series of written numbers that would be long as an array: DataFusion's function gives it a batch at a time.
fn is_long_series(args: &[FunctionArg]) -> bool {
    let numbers: Option<Vec<i128>> = plain(args).iter().map(written).collect();
    match numbers.as_deref() {
        Some([from, to]) => (to - from).abs() > 10_000,
        Some([from, to, step]) if *step != 0 => ((to - from) / step).abs() > 10_000,
        _ => false,
    }
}

fn written(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => written(expr).map(|value| -value),
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::Cast { expr, .. } => written(expr),
        _ => None,
    }
}

/// `SELECT unnest(a) AS c1, ...`, the fields of records each in a column, and perhaps the number of the row.
fn query(arrays: Vec<Expr>, columns: SetColumns, with_ordinality: bool) -> Query {
    let named = |expr: Expr, name: &str| SelectItem::ExprWithAlias { expr, alias: Ident::new(name) };
    let unnested = arrays.into_iter().enumerate().map(|(index, array)| {
        let function = match &array {
            Expr::Function(function) => function.name.to_string(),
            _ => String::new(),
        };
        named(unnested(&function, array), &format!("c{}", index + 1))
    });
    let unnested: Vec<SelectItem> = unnested.collect();
    let count = unnested.len();
    let inner = select(unnested, Vec::new());
    if !with_ordinality && !matches!(columns, SetColumns::Many(_)) {
        return inner;
    }
    let mut outer: Vec<SelectItem> = match columns {
        SetColumns::Many(names) => names
            .iter()
            .map(|name| named(call("get_field", vec![Expr::Identifier(Ident::new("c1")), text(*name)]), name))
            .collect(),
        _ => (1..=count)
            .map(|n| format!("c{n}"))
            .map(|name| named(Expr::Identifier(Ident::new(name.clone())), &name))
            .collect(),
    };
    if with_ordinality {
        let mut number = call("row_number", Vec::new());
        if let Expr::Function(function) = &mut number {
            function.over = Some(ast::WindowType::WindowSpec(ast::WindowSpec {
                window_name: None,
                partition_by: Vec::new(),
                order_by: Vec::new(),
                window_frame: None,
            }));
        }
        outer.push(named(cast_to(number, ast::DataType::BigInt(None)), "ordinality"));
    }
    let from = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(inner),
        alias: Some(TableAlias { explicit: true, name: Ident::new("rows"), columns: Vec::new(), at: None }),
        sample: None,
    };
    select(outer, vec![TableWithJoins { relation: from, joins: Vec::new() }])
}

fn select(projection: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Query {
    super::subqueries::query_of(SetExpr::Select(Box::new(Select { projection, from, ..empty_select() })))
}

/// `json_to_record(x) AS t (a int, b text)`: each column is a key's value.
fn records(kind: &str, args: Vec<Expr>, alias: &TableAlias) -> Option<Query> {
    let [document] = <[Expr; 1]>::try_from(args).ok()?;
    let is_set = kind.ends_with("set");
    let record = if is_set { Expr::Identifier(Ident::new("c1")) } else { document.clone() };
    let columns = alias.columns.iter().map(|column| {
        let key = text(super::fold(&column.name));
        let value = call("json_get_text", vec![record.clone(), key.clone()]);
        let mut value = match &column.data_type {
            Some(ast::DataType::JSON) => call("json_get", vec![record.clone(), key]),
            Some(ast::DataType::JSONB) => call("jsonb_get", vec![record.clone(), key]),
            Some(data_type) => cast_to(value, data_type.clone()),
            None => return None,
        };
        if let Some(new) = super::replacement(&mut value) {
            value = new;
        }
        Some(SelectItem::ExprWithAlias { expr: value, alias: column.name.clone() })
    });
    let columns: Vec<SelectItem> = columns.collect::<Option<_>>()?;
    if !is_set {
        return Some(select(columns, Vec::new()));
    }
    let items = query(vec![call("json_items", vec![document])], SetColumns::One, false);
    let from = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(items),
        alias: Some(TableAlias { explicit: true, name: Ident::new("rows"), columns: Vec::new(), at: None }),
        sample: None,
    };
    Some(select(columns, vec![TableWithJoins { relation: from, joins: Vec::new() }]))
}

//! What a view's query may say, checked on its text, and the names that its columns get.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    SetOperator, SetQuantifier, TableFactor, Value, visit_expressions,
};

use crate::catalog::fold;
use crate::error::{Error, Result};

/// A query whose outermost columns are named [`internal_name`], and the names that they should have.
pub(super) struct Named {
    pub query: Query,
    pub names: Vec<String>,
}

/// The name that the column written at a place has while the query is planned: two columns of one name can't be planned,
/// and the planner's own names aren't PostgreSQL's.
pub(super) fn internal_name(place: usize) -> String {
    format!("__tidegate_{place}")
}

/// Checks a query and names its columns.
pub(super) fn name_columns(query: &Query, state: &SessionState) -> Result<Named> {
    let mut query = query.clone();
    check_expressions(&query, state)?;
    let mut names = None;
    check_query(&mut query, &mut Some(&mut names))?;
    Ok(Named { query, names: names.unwrap_or_default() })
}

pub(super) fn refuse(message: impl Into<String>, hint: &str) -> Error {
    Error::UnsupportedView { message: message.into(), hint: hint.into() }
}

const AFTERWARDS: &str = "A materialized view keeps every row as it comes. Do this in the query that reads it.";
const ONE_SOURCE: &str = "Read one source in each SELECT, and put several together with UNION ALL.";

/// Where the outermost names go; `None` inside a subquery, whose names are for the query around it.
type Outermost<'a> = Option<&'a mut Option<Vec<String>>>;

fn check_query(query: &mut Query, outermost: &mut Outermost<'_>) -> Result<()> {
    for (found, what) in [
        (query.order_by.is_some(), "ORDER BY"),
        (query.limit_clause.is_some(), "LIMIT"),
        (query.fetch.is_some(), "FETCH FIRST"),
    ] {
        if found {
            return Err(refuse(format!("{what} is not supported in a materialized view"), AFTERWARDS));
        }
    }
    if !query.locks.is_empty()
        || query.for_clause.is_some()
        || query.settings.is_some()
        || query.format_clause.is_some()
    {
        return Err(refuse(
            "FOR, SETTINGS and FORMAT are not supported in a materialized view",
            "Leave the clause out.",
        ));
    }
    if let Some(with) = &mut query.with {
        if with.recursive {
            return Err(refuse("WITH RECURSIVE is not supported in a materialized view", ONE_SOURCE));
        }
        for table in &mut with.cte_tables {
            check_query(&mut table.query, &mut None)?;
        }
    }
    check_body(&mut query.body, outermost)
}

fn check_body(body: &mut SetExpr, outermost: &mut Outermost<'_>) -> Result<()> {
    match body {
        SetExpr::Select(select) => check_select(select, outermost),
        SetExpr::Query(query) => check_query(query, outermost),
        SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier: SetQuantifier::All, right } => {
            check_body(left, outermost)?;
            check_body(right, outermost)
        }
        SetExpr::SetOperation { op: SetOperator::Union, .. } => Err(refuse(
            "UNION without ALL is not supported in a materialized view",
            "Use UNION ALL, and SELECT DISTINCT in the query that reads the view.",
        )),
        SetExpr::SetOperation { op, .. } => {
            Err(refuse(format!("{op} is not supported in a materialized view"), "Only UNION ALL is."))
        }
        SetExpr::Values(_) | SetExpr::Table(_) => {
            Err(refuse("a materialized view must be a SELECT from a source", ONE_SOURCE))
        }
        _ => Err(refuse("a materialized view must be a SELECT", ONE_SOURCE)),
    }
}

fn check_select(select: &mut Select, outermost: &mut Outermost<'_>) -> Result<()> {
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    for (found, what) in [
        (select.distinct.is_some(), "DISTINCT"),
        (grouped, "GROUP BY"),
        (select.having.is_some(), "HAVING"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.into.is_some(), "SELECT INTO"),
        (select.top.is_some(), "TOP"),
    ] {
        if found {
            return Err(refuse(format!("{what} is not supported in a materialized view"), AFTERWARDS));
        }
    }
    match select.from.as_mut_slice() {
        [] => return Err(refuse("a materialized view must read a source", ONE_SOURCE)),
        [from] if from.joins.is_empty() => match &mut from.relation {
            TableFactor::Table { args: None, sample: None, .. } => {}
            TableFactor::Derived { lateral: false, subquery, sample: None, .. } => check_query(subquery, &mut None)?,
            TableFactor::NestedJoin { .. } => {
                return Err(refuse("joins are not supported in a materialized view", ONE_SOURCE));
            }
            other => {
                let message = format!("{other} is not supported in the FROM clause of a materialized view");
                return Err(refuse(message, ONE_SOURCE));
            }
        },
        _ => return Err(refuse("joins are not supported in a materialized view", ONE_SOURCE)),
    }
    match outermost {
        None => name_inner(select),
        Some(names) => {
            let found = name_outermost(select);
            // A UNION has the names of its first SELECT.
            names.get_or_insert(found);
        }
    }
    Ok(())
}

fn name_inner(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        {
            let alias = Ident::with_quote('"', name_of(expr));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

fn name_outermost(select: &mut Select) -> Vec<String> {
    let mut names = Vec::new();
    for item in &mut select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(fold(alias))),
            _ => continue,
        };
        let alias = Ident::with_quote('"', internal_name(names.len()));
        names.push(name.unwrap_or_else(|| name_of(expr)));
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
    names
}

/// The name that PostgreSQL gives a column that has none.
fn name_of(expr: &Expr) -> String {
    named(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// A name, and whether it is one that CASE and casts take over from what they hold.
fn named(expr: &Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match expr {
        Expr::Identifier(ident) => Some((fold(ident), true)),
        Expr::CompoundIdentifier(idents) => idents.last().map(|ident| (fold(ident), true)),
        Expr::Nested(inner) => named(inner),
        Expr::Collate { expr, .. } => named(expr),
        Expr::Function(function) => Some((function_name(function), true)),
        Expr::Cast { expr, data_type, .. } => {
            named(expr).filter(|(_, strong)| *strong).or_else(|| Some((type_name(&data_type.to_string()), false)))
        }
        Expr::TypedString(typed) => Some((type_name(&typed.data_type.to_string()), false)),
        Expr::Interval(_) => Some(("interval".to_owned(), false)),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(("bool".to_owned(), false)),
        Expr::Case { else_result, .. } => else_result
            .as_deref()
            .and_then(named)
            .filter(|(_, strong)| *strong)
            .or_else(|| Some(("case".to_owned(), false))),
        Expr::Extract { .. } => strong("extract"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Trim { trim_where, .. } => strong(match trim_where.as_ref().map(ToString::to_string).as_deref() {
            Some("LEADING") => "ltrim",
            Some("TRAILING") => "rtrim",
            _ => "btrim",
        }),
        Expr::Array(_) => strong("array"),
        _ => None,
    }
}

fn type_name(written: &str) -> String {
    let lower = written.to_lowercase();
    let bare = lower.split('(').next().unwrap_or_default().trim_end();
    match bare {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "float" | "double" | "double precision" => "float8",
        "boolean" => "bool",
        "decimal" | "dec" => "numeric",
        "character varying" => "varchar",
        "char" | "character" => "bpchar",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        other => other,
    }
    .to_owned()
}

fn function_name(function: &Function) -> String {
    match function.name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) => fold(ident),
        _ => function.name.to_string().to_lowercase(),
    }
}

/// Refuses what an expression can't be anywhere in the query.
fn check_expressions(query: &Query, state: &SessionState) -> Result<()> {
    let checked = visit_expressions(query, |expr| match check_expression(expr, state) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    });
    match checked {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn check_expression(expr: &Expr, state: &SessionState) -> Result<()> {
    match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            Err(refuse("subqueries in expressions are not supported in a materialized view", AFTERWARDS))
        }
        // DataFusion's keeps the instant, PostgreSQL's gives the time of day there: a view would keep the wrong one.
        Expr::AtTimeZone { .. } => Err(refuse("AT TIME ZONE is not supported in a materialized view", AFTERWARDS)),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Err(Error::Semantics {
                sqlstate: "42P02",
                message: format!("there is no parameter {name}: a materialized view keeps its query as it is written"),
            }),
            _ => Ok(()),
        },
        Expr::Function(function) => check_function(function, state),
        _ => Ok(()),
    }
}

fn check_function(function: &Function, state: &SessionState) -> Result<()> {
    let name = function_name(function);
    let aggregate = state.aggregate_functions().contains_key(&name);
    if function.over.is_some() || (!aggregate && state.window_functions().contains_key(&name)) {
        let message = format!("window functions are not supported in a materialized view: {name}()");
        return Err(refuse(message, AFTERWARDS));
    }
    if aggregate {
        let message = format!("aggregate functions are not supported in a materialized view: {name}()");
        return Err(refuse(message, AFTERWARDS));
    }
    if state.scalar_functions().contains_key(&name) || state.higher_order_functions().contains_key(&name) {
        return Ok(());
    }
    let arguments = match &function.args {
        FunctionArguments::List(list) => list.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    Err(Error::UndefinedFunction { call: format!("{name}({arguments})") })
}

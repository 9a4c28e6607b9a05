//! Subqueries used as values, and `array(SELECT ...)`.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::logical_expr::sqlparser::ast::{
    self, BinaryOperator, CaseWhen, Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};

use super::super::functions::SINGLE_VALUE;
use super::{call, is_named, parse_query};

/// What tells an aggregate that is put in here from one of the statement's: it says what goes without saying.
const OURS: ast::NullTreatment = ast::NullTreatment::RespectNulls;

/// `array(SELECT x ...)`: an aggregate, and an empty array where there is no row.
pub fn array_of(query: &mut Query) -> Expr {
    let mut query = query.clone();
    let mut finder = Finder::new();
    let direct = plain_select(&mut query).is_some_and(|item| {
        let _ = ast::Visit::visit(item, &mut finder);
        !finder.window
    }) && query.limit_clause.is_none()
        && query.fetch.is_none();
    if direct {
        let order = order_by(&mut query);
        if let Some(item) = plain_select(&mut query) {
            let x = std::mem::replace(item, Expr::Value(Value::Null.into()));
            *item = aggregate("array_agg", x, order);
            if let Expr::Function(function) = item {
                function.null_treatment = Some(OURS);
            }
        }
        return call("array_or_empty", vec![Expr::Subquery(Box::new(query))]);
    }
    wrap(&mut query, "array_agg");
    call("array_or_empty", vec![Expr::Subquery(Box::new(query))])
}

/// Whether a limit is `LIMIT 1`.
fn is_one(limit: &ast::LimitClause) -> bool {
    let ast::LimitClause::LimitOffset { limit: Some(Expr::Value(limit)), offset: None, .. } = limit else {
        return false;
    };
    matches!(&limit.value, Value::Number(number, _) if *number == "1")
}

/// Makes a query the aggregate of what it gives.
fn wrap(query: &mut Query, function: &str) {
    let column = Ident::new("item");
    let select = ast::Select {
        projection: vec![SelectItem::UnnamedExpr(aggregate(function, Expr::Identifier(column.clone()), Vec::new()))],
        from: vec![TableWithJoins {
            relation: TableFactor::Derived {
                lateral: false,
                subquery: Box::new(query.clone()),
                alias: Some(TableAlias {
                    explicit: true,
                    name: Ident::new("items"),
                    columns: vec![ast::TableAliasColumnDef { name: column, data_type: None }],
                    at: None,
                }),
                sample: None,
            },
            joins: Vec::new(),
        }],
        ..empty_select()
    };
    query.with = None;
    query.order_by = None;
    query.limit_clause = None;
    query.fetch = None;
    *query.body = SetExpr::Select(Box::new(select));
}

/// A query that is nothing but this.
pub fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `FETCH FIRST n ROWS ONLY` as a limit.
pub fn fetched(fetch: &mut Option<ast::Fetch>) -> Option<ast::LimitClause> {
    let plain = fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent)?;
    let one = Expr::Value(Value::Number("1".into(), false).into());
    let limit = Some(plain.quantity.unwrap_or(one));
    Some(ast::LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() })
}

/// A SELECT of nothing.
pub fn empty_select() -> Select {
    // The parser makes the one that has all fields of this version of it.
    match parse_query("SELECT 1").map(|query| *query.body) {
        Some(SetExpr::Select(select)) => *select,
        _ => unreachable!("a SELECT"),
    }
}

/// A subquery used as a value gives one row. DataFusion wants to be told with an aggregate.
///
/// With more than one row it is an error, as in PostgreSQL, but for LIMIT 1.
pub fn one_row(query: &mut Query) {
    let limited = match &query.limit_clause {
        None => false,
        Some(limit) if is_one(limit) => true,
        // The rows that there are after it are what counts.
        Some(_) => return wrap(query, SINGLE_VALUE),
    };
    let Some(item) = plain_select(query) else { return };
    let mut finder = Finder::new();
    let _ = ast::Visit::visit(item, &mut finder);
    if finder.window {
        return wrap(query, SINGLE_VALUE);
    }
    if finder.outside || finder.inside {
        return;
    }
    let order = order_by(query);
    query.limit_clause = None;
    if let Some(item) = plain_select(query) {
        let x = std::mem::replace(item, Expr::Value(Value::Null.into()));
        *item = if limited { aggregate("first_value", x, order) } else { aggregate(SINGLE_VALUE, x, Vec::new()) };
    }
}

/// `x = ANY (SELECT ...)` is IN, and `x <> ALL (SELECT ...)` is NOT IN. Of other comparisons the query is wrapped, so that it
/// isn't taken for one that gives a value: it may give any number of rows.
pub fn of_any(expr: &mut Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Expr::Subquery(query) = right.as_mut() {
                let inner = std::mem::replace(query.as_mut(), query_of(SetExpr::Select(Box::new(empty_select()))));
                *query.body = SetExpr::Query(Box::new(inner));
            }
            return None;
        }
        _ => return None,
    };
    let Expr::Subquery(query) = right.as_mut() else { return None };
    let subquery = Box::new(std::mem::replace(query.as_mut(), query_of(SetExpr::Select(Box::new(empty_select())))));
    Some(Expr::InSubquery { expr: Box::new(super::take(left)), subquery, negated })
}

/// What `(SELECT x)` is where it reads from nothing: x; and `(SELECT x WHERE c)` is x or NULL. DataFusion reaches no further
/// out than the next query, and would not find what a subquery in x refers to.
pub fn lone_value(query: &mut Query) -> Option<Expr> {
    let plain =
        query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let bare = Select { projection: select.projection.clone(), selection: select.selection.clone(), ..empty_select() };
    if !plain || bare != **select {
        return None;
    }
    match select.projection.as_mut_slice() {
        [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] => {
            let mut finder = Finder::new();
            let _ = ast::Visit::visit(item, &mut finder);
            // An aggregate of outer columns is the outer query's.
            if finder.window || (finder.outside && !finder.of_columns) {
                return None;
            }
            let value = match select.selection.take() {
                Some(condition) => Expr::Case {
                    case_token: AttachedToken::empty(),
                    end_token: AttachedToken::empty(),
                    operand: None,
                    conditions: vec![CaseWhen { condition, result: super::take(item) }],
                    else_result: None,
                },
                None if finder.has_subquery || finder.outside => super::take(item),
                None => return None,
            };
            Some(Expr::Nested(Box::new(value)))
        }
        _ => None,
    }
}

/// The only column of a SELECT that isn't grouped or made distinct, and reads from something.
fn plain_select(query: &mut Query) -> Option<&mut Expr> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, with) if by.is_empty() && with.is_empty());
    if grouped || select.distinct.is_some() || select.having.is_some() || select.from.is_empty() {
        return None;
    }
    match select.projection.as_mut_slice() {
        [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] => Some(item),
        _ => None,
    }
}

/// Takes the ORDER BY of a query with one column; a number or the column's name stands for the column.
fn order_by(query: &mut Query) -> Vec<ast::OrderByExpr> {
    let Some(order) = query.order_by.take() else { return Vec::new() };
    let OrderByKind::Expressions(mut order) = order.kind else { return Vec::new() };
    let alias = match query.body.as_ref() {
        SetExpr::Select(select) => match select.projection.as_slice() {
            [SelectItem::ExprWithAlias { alias, .. }] => Some(alias.value.clone()),
            _ => None,
        },
        _ => None,
    };
    let item = plain_select(query).map(|item| item.clone());
    for by in &mut order {
        let is_item = match &by.expr {
            Expr::Value(value) => matches!(&value.value, Value::Number(number, _) if *number == "1"),
            Expr::Identifier(ident) => Some(&ident.value) == alias.as_ref(),
            _ => false,
        };
        if let (true, Some(item)) = (is_item, &item) {
            by.expr = item.clone();
        }
    }
    order
}

fn aggregate(name: &str, x: Expr, order: Vec<ast::OrderByExpr>) -> Expr {
    let mut expr = call(name, vec![x]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut expr
        && !order.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    expr
}

/// Looks for aggregates and sets of rows, within subqueries and outside of them.
struct Finder {
    depth: usize,
    has_subquery: bool,
    outside: bool,
    inside: bool,
    /// Whether there is a window function outside.
    window: bool,
    /// Whether each aggregate outside has a column in it.
    of_columns: bool,
}

impl Finder {
    fn new() -> Self {
        Self { depth: 0, has_subquery: false, outside: false, inside: false, window: false, of_columns: true }
    }

    const AGGREGATES: &[&str] = &[
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "array_agg",
        "string_agg",
        "bool_and",
        "bool_or",
        "every",
        "first_value",
        "last_value",
        "stddev",
        "var_pop",
        "var_samp",
        "json_agg",
        "jsonb_agg",
        "median",
        "corr",
        "bit_and",
        "bit_or",
        "bit_xor",
        "json_object_agg",
        "jsonb_object_agg",
        "mode",
        "percentile_cont",
        "percentile_disc",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "unnest",
    ];
}

impl ast::Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        self.has_subquery = true;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if function.over.is_some() {
            self.window |= self.depth == 0;
        } else if Self::AGGREGATES.iter().any(|name| is_named(&function.name, name)) {
            *(if self.depth == 0 { &mut self.outside } else { &mut self.inside }) = true;
            if self.depth == 0 {
                let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let found = ast::visit_expressions(function, |expr| match is_column(expr) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
                self.of_columns &= found.is_break() && !is_named(&function.name, "unnest");
            }
        }
        ControlFlow::Continue(())
    }
}

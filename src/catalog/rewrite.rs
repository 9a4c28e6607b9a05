//! PostgreSQL's SQL as DataFusion's, on the syntax tree. What can't be said faithfully is left for DataFusion to refuse.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    self, AccessExpr, BinaryOperator, DataType, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, Value, VisitMut as _, VisitorMut, WildcardAdditionalOptions,
};
use datafusion_pg_catalog::sql::rules::{FixArrayLiteral, SqlStatementRewriteRule as _};

use super::functions::{REG_TYPES, oid_function, text_function};

/// Columns of a materialized view that only those who name them see, with their types.
pub const HIDDEN: &[(&str, &str)] = &[("_split", "text"), ("_offset", "int8")];

/// The table of all checks, which nobody can name but [`check_rescale`].
pub const CHECK_RESCALE: &str = "check_rescale\u{1}";

/// Parts the name that a column is shown under from what makes it unique within the plan.
const UNIQUE: char = '\u{1}';

/// The name to show for a column of a plan.
pub fn output_name(name: &str) -> &str {
    name.split(UNIQUE).next().unwrap_or(name)
}

/// Whether a relation, of a schema or of none, has hidden columns.
type HasHidden<'a> = &'a dyn Fn(Option<&str>, &str) -> bool;

/// Rewrites a statement. True: it names a hidden column, so materialized views have to have them.
pub fn statement(statement: &mut Statement, has_hidden: HasHidden<'_>) -> bool {
    let taken = std::mem::replace(statement, Statement::Commit { chain: false, end: false, modifier: None });
    *statement = FixArrayLiteral.rewrite(taken);
    let mut names = Names { found: false };
    let _ = statement.visit(&mut names);
    let mut rewriter = Rewriter { has_hidden: names.found.then_some(has_hidden) };
    let _ = statement.visit(&mut rewriter);
    names.found
}

/// Looks for hidden columns.
struct Names {
    found: bool,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let ident = match expr {
            Expr::Identifier(ident) => Some(&*ident),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if ident.is_some_and(|ident| HIDDEN.iter().any(|(name, _)| *name == ident.value)) {
            self.found = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

struct Rewriter<'a> {
    /// Whether a relation has hidden columns. `None`: the statement names none, so that nobody gets to see them.
    has_hidden: Option<HasHidden<'a>>,
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.set_expr(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } if is_check_rescale(name) => check_rescale(factor),
            TableFactor::Table { name, args: Some(_), .. } if is_options_to_table(name) => options_to_table(factor),
            TableFactor::Table { name, args: Some(_), .. } if is_set_of_arrays(name) => unnest(factor),
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => unqualify(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(new) = replacement(expr) {
            *expr = new;
        }
        ControlFlow::Continue(())
    }
}

impl Rewriter<'_> {
    fn set_expr(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                if let Some(has_hidden) = self.has_hidden {
                    hide(select, has_hidden);
                }
                table_oids(select);
                name_columns(select);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.set_expr(left);
                self.set_expr(right);
            }
            _ => {}
        }
    }
}

fn replacement(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::Identifier(ident) if ident.quote_style.is_none() => special_register(&ident.value),
        Expr::Function(function) => {
            unqualify(&mut function.name);
            if let FunctionArguments::Subquery(query) = &mut function.args
                && is_named(&function.name, "array")
            {
                return Some(array_of(query));
            }
            if matches!(function.args, FunctionArguments::None) {
                function.args = FunctionArguments::List(arguments(Vec::new()));
            }
            None
        }
        // There is one collation, that of bytes.
        Expr::Collate { expr, .. } => Some(std::mem::replace(expr, Expr::Value(Value::Null.into()))),
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                && let Some(plain) = parts.last().and_then(|name| operator(name))
            {
                *op = plain;
            }
            None
        }
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Expr::Value(value) = right.as_ref()
                && let Value::SingleQuotedString(text) = &value.value
                && let Some(items) = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'))
            {
                let items = items.split(',').map(|item| item.trim().trim_matches('"')).filter(|item| !item.is_empty());
                let elem = items.map(|item| Expr::Value(Value::SingleQuotedString(item.into()).into())).collect();
                **right = Expr::Array(ast::Array { elem, named: true });
            }
            None
        }
        Expr::Cast { expr: operand, data_type, .. } => cast(operand, data_type),
        Expr::Subquery(query) => {
            one_row(query);
            None
        }
        _ => None,
    }
}

/// Functions are found by their bare name.
fn unqualify(name: &mut ObjectName) {
    let schema = match name.0.as_slice() {
        [ObjectNamePart::Identifier(schema), _] => schema.value.to_lowercase(),
        _ => return,
    };
    if super::SCHEMAS.iter().any(|(known, ..)| *known == schema) {
        name.0.remove(0);
    }
}

fn is_check_rescale(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "check_rescale")
}

fn is_set_of_arrays(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "unnest") || is_named(&name, "generate_series")
}

/// `unnest(x) AS y` and `generate_series(a, b) AS y`: their arguments may be columns of an outer query, which DataFusion
/// allows for UNNEST alone. The column has the alias's name.
fn unnest(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return };
    unqualify(name);
    let args: Vec<Expr> = args
        .args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
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
    *factor = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

fn is_options_to_table(name: &ObjectName) -> bool {
    let mut name = name.clone();
    unqualify(&mut name);
    is_named(&name, "pg_options_to_table")
}

/// `pg_options_to_table(x)`: the names and values of an array of `name=value`.
fn options_to_table(factor: &mut TableFactor) {
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
fn check_rescale(factor: &mut TableFactor) {
    let TableFactor::Table { alias, args: Some(args), .. } = factor else { return };
    let args: Vec<Expr> = args
        .args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let Ok([source, target]) = <[Expr; 2]>::try_from(args) else { return };
    let columns: Vec<_> = super::rescale::CHECK_RESCALE.columns.iter().map(|column| column.name.as_str()).collect();
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

fn parse_query(sql: &str) -> Option<Box<Query>> {
    let dialect = datafusion::logical_expr::sqlparser::dialect::PostgreSqlDialect {};
    let parsed = datafusion::logical_expr::sqlparser::parser::Parser::parse_sql(&dialect, sql);
    match parsed.ok()?.pop()? {
        Statement::Query(query) => Some(query),
        _ => None,
    }
}

fn is_named(name: &ObjectName, wanted: &str) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case(wanted))
}

/// Names that PostgreSQL reads as calls.
fn special_register(name: &str) -> Option<Expr> {
    ["current_schema", "current_catalog", "current_user", "session_user", "current_role"]
        .iter()
        .find(|known| known.eq_ignore_ascii_case(name))
        .map(|known| call(known, Vec::new()))
}

fn arguments(args: Vec<Expr>) -> FunctionArgumentList {
    FunctionArgumentList {
        duplicate_treatment: None,
        args: args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect(),
        clauses: Vec::new(),
    }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(arguments(args)),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

/// The bare name of a type in lower case, for types that sqlparser doesn't have.
fn type_name(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Regclass => Some("regclass".into()),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase())
        }
        DataType::Text | DataType::Varchar(None) => Some("text".into()),
        DataType::JSONB => Some("jsonb".into()),
        DataType::JSON => Some("json".into()),
        _ => None,
    }
}

/// Casts between names and oids. DataFusion has no types for these, so that they become functions.
fn cast(operand: &mut Expr, data_type: &DataType) -> Option<Expr> {
    let to = type_name(data_type)?;
    let take = |operand: &mut Expr| std::mem::replace(operand, Expr::Value(Value::Null.into()));
    if REG_TYPES.contains(&to.as_str()) || matches!(to.as_str(), "oid" | "jsonb") {
        return Some(call(&oid_function(&to), vec![take(operand)]));
    }
    if !matches!(to.as_str(), "text" | "varchar" | "name") {
        return None;
    }
    let Expr::Function(function) = operand else { return None };
    let from = REG_TYPES.iter().find(|from| is_named(&function.name, &oid_function(from)))?;
    Some(call(&text_function(from), vec![take(operand)]))
}

/// `array(SELECT x ...)`: an aggregate, and an empty array where there is no row.
fn array_of(query: &mut Query) -> Expr {
    let mut query = query.clone();
    let direct = plain_select(&mut query).is_some() && query.limit_clause.is_none() && query.fetch.is_none();
    if direct {
        let order = order_by(&mut query);
        if let Some(item) = plain_select(&mut query) {
            let x = std::mem::replace(item, Expr::Value(Value::Null.into()));
            *item = aggregate("array_agg", x, order);
        }
        return call("array_or_empty", vec![Expr::Subquery(Box::new(query))]);
    }
    let column = Ident::new("item");
    let select = ast::Select {
        projection: vec![SelectItem::UnnamedExpr(aggregate("array_agg", Expr::Identifier(column.clone()), Vec::new()))],
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
    query.body = Box::new(SetExpr::Select(Box::new(select)));
    call("array_or_empty", vec![Expr::Subquery(Box::new(query))])
}

fn empty_select() -> Select {
    // The parser makes the one that has all fields of this version of it.
    match parse_query("SELECT 1").map(|query| *query.body) {
        Some(SetExpr::Select(select)) => *select,
        _ => unreachable!("a SELECT"),
    }
}

/// A subquery used as a value gives one row. DataFusion wants to be told with an aggregate.
///
/// PostgreSQL: an error when it gives more than one row. Here: the first one is taken.
fn one_row(query: &mut Query) {
    let Some(item) = plain_select(query) else { return };
    if contains_aggregate(item) {
        return;
    }
    let order = order_by(query);
    // LIMIT 1 and no LIMIT come to the same; any other number is a mistake that DataFusion may report.
    query.limit_clause = None;
    if let Some(item) = plain_select(query) {
        let x = std::mem::replace(item, Expr::Value(Value::Null.into()));
        *item = aggregate("first_value", x, order);
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

fn contains_aggregate(expr: &Expr) -> bool {
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
    ];
    struct Finder(bool);
    impl ast::Visitor for Finder {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && AGGREGATES.iter().any(|name| is_named(&function.name, name))
            {
                self.0 = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder(false);
    let _ = ast::Visit::visit(expr, &mut finder);
    finder.0
}

/// Keeps hidden columns out of `*`.
fn hide(select: &mut Select, has_hidden: HasHidden<'_>) {
    let relations: Vec<(Ident, bool)> = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
        .filter_map(|factor| relation(factor, has_hidden))
        .collect();
    if !relations.iter().any(|(_, hidden)| *hidden) {
        return;
    }
    let exclude = || WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(
            HIDDEN.iter().map(|(name, _)| ObjectName::from(vec![Ident::new(*name)])).collect(),
        )),
        ..WildcardAdditionalOptions::default()
    };
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(_) if relations.len() == 1 => projection.push(SelectItem::Wildcard(exclude())),
            // One relation at a time: the names to leave out would be ambiguous.
            SelectItem::Wildcard(_) => projection.extend(relations.iter().map(|(name, hidden)| {
                let options = if *hidden { exclude() } else { WildcardAdditionalOptions::default() };
                let name = ObjectName::from(vec![name.clone()]);
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
            })),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let alias = name.0.last().and_then(|part| part.as_ident()).cloned();
                let hidden = relations.iter().any(|(known, hidden)| *hidden && Some(known) == alias.as_ref());
                let options = if hidden { exclude() } else { options };
                projection
                    .push(SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options));
            }
            other => projection.push(other),
        }
    }
    select.projection = projection;
}

/// The name that a relation goes by in its query, and whether it has hidden columns.
fn relation(factor: &TableFactor, has_hidden: HasHidden<'_>) -> Option<(Ident, bool)> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
            let (table, qualifier) = parts.split_last()?;
            let schema = qualifier.last().map(|ident| ident.value.to_lowercase());
            let hidden = has_hidden(schema.as_deref(), &fold(table));
            Some((alias.as_ref().map_or_else(|| (*table).clone(), |alias| alias.name.clone()), hidden))
        }
        TableFactor::Table { name, alias, .. } => {
            let own = name.0.last().and_then(|part| part.as_ident()).cloned();
            alias.as_ref().map(|alias| alias.name.clone()).or(own).map(|name| (name, false))
        }
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| (alias.name.clone(), false)),
        _ => None,
    }
}

fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The system column `tableoid`: the oid of the relation that a row is of.
fn table_oids(select: &mut Select) {
    let relations: Vec<(String, String)> = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
        .filter_map(|factor| match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let own = name.0.last().and_then(|part| part.as_ident())?;
                Some((fold(alias.as_ref().map_or(own, |alias| &alias.name)), name.to_string()))
            }
            _ => None,
        })
        .collect();
    struct TableOids(Vec<(String, String)>);
    impl VisitorMut for TableOids {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::CompoundIdentifier(parts) = &*expr else { return ControlFlow::Continue(()) };
            if let [relation, column] = parts.as_slice()
                && column.value == "tableoid"
                && let Some((_, name)) = self.0.iter().find(|(alias, _)| *alias == fold(relation))
            {
                let name = Expr::Value(Value::SingleQuotedString(name.clone()).into());
                *expr = call(&oid_function("regclass"), vec![name]);
            }
            ControlFlow::Continue(())
        }
    }
    let mut table_oids = TableOids(relations);
    for item in &mut select.projection {
        let unnamed = matches!(item, SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) if parts.last().is_some_and(|part| part.value == "tableoid"));
        let _ = item.visit(&mut table_oids);
        if let SelectItem::UnnamedExpr(Expr::Function(_)) = item
            && unnamed
            && let SelectItem::UnnamedExpr(expr) = item
        {
            let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::new("tableoid") };
        }
    }
    let _ = select.from.visit(&mut table_oids);
    let _ = select.selection.visit(&mut table_oids);
}

/// Gives every computed column PostgreSQL's name for it, made unique where it must be: DataFusion would use the
/// expression's text, and refuses two columns of one name.
fn name_columns(select: &mut Select) {
    let has_wildcard = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut taken: Vec<String> = Vec::new();
    for item in &mut select.projection {
        let (name, is_column, aliased) = match item {
            SelectItem::ExprWithAlias { alias, .. } => (fold(alias), false, true),
            SelectItem::UnnamedExpr(expr) => {
                let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                (column_name(expr).unwrap_or_else(|| "?column?".into()), is_column, false)
            }
            _ => continue,
        };
        let unique = if taken.contains(&name) || (is_column && has_wildcard) {
            format!("{name}{UNIQUE}{}", taken.len())
        } else {
            name.clone()
        };
        // A column keeps its qualifier, unless its name is needed twice.
        let alias = if is_column && unique == name { None } else { Some(Ident::with_quote('"', &unique)) };
        taken.push(name);
        match (item, alias) {
            (SelectItem::ExprWithAlias { alias, .. }, Some(new)) if aliased && alias.value != new.value => *alias = new,
            (item @ SelectItem::UnnamedExpr(_), Some(alias)) => {
                if let SelectItem::UnnamedExpr(expr) = item {
                    let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            _ => {}
        }
    }
}

/// PostgreSQL's name for a column that isn't given one.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(AccessExpr::Dot(field)) => column_name(field),
            _ => column_name(root),
        },
        Expr::Function(function) => function.name.0.last().and_then(|part| part.as_ident()).map(fold),
        Expr::Cast { expr, data_type, .. } => column_name(expr).or_else(|| Some(cast_name(data_type))),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => column_name(inner),
        Expr::Case { else_result, .. } => {
            Some(else_result.as_deref().and_then(column_name).filter(|_| false).unwrap_or_else(|| "case".into()))
        }
        Expr::Exists { .. } => Some("exists".into()),
        Expr::Array(_) => Some("array".into()),
        Expr::Extract { .. } => Some("extract".into()),
        Expr::Substring { .. } => Some("substring".into()),
        Expr::Trim { .. } => Some("btrim".into()),
        Expr::Position { .. } => Some("position".into()),
        Expr::Ceil { .. } => Some("ceil".into()),
        Expr::Floor { .. } => Some("floor".into()),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::ExprWithAlias { alias, .. }) => Some(fold(alias)),
                Some(SelectItem::UnnamedExpr(expr)) => column_name(expr),
                _ => None,
            },
            _ => None,
        },
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some("bool".into()),
        _ => None,
    }
}

/// PostgreSQL's short name of a type.
fn cast_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".into(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".into(),
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".into(),
        DataType::Boolean | DataType::Bool => "bool".into(),
        DataType::Real | DataType::Float4 => "float4".into(),
        DataType::DoublePrecision | DataType::Float8 => "float8".into(),
        DataType::Varchar(_) | DataType::CharacterVarying(_) => "varchar".into(),
        other => type_name(other).unwrap_or_else(|| other.to_string().to_lowercase()),
    }
}

//! PostgreSQL's SQL as DataFusion's, on the syntax tree. What can't be said faithfully is left for DataFusion to refuse.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SetExpr, Statement,
    TableFactor, Value, VisitMut as _, VisitorMut,
};

use super::casts;
use super::functions::{REG_TYPES, oid_function, text_function};
use crate::error::{Error, Result};

mod aggregates;
mod columns;
mod distinct;
mod expressions;
mod factors;
mod from;
mod known;
mod numbers;
mod records;
mod rows;
mod sets;
mod subqueries;
mod values;
mod with;

use columns::{hide, name_columns, qualify_wildcards, system_columns};
use factors::{check_rescale, check_rescale_records, is_check_rescale, is_options_to_table, options_to_table};
use known::{Known, name_all};
use subqueries::{array_of, one_row};

/// Columns of a materialized view that only those who name them see, with their types.
pub const HIDDEN: &[(&str, &str)] = &[("_split", "text"), ("_offset", "int8")];

/// The table of all checks, which nobody can name but [`check_rescale`].
pub const CHECK_RESCALE: &str = "check_rescale\u{1}";

/// Parts the name that a column is shown under from what makes it unique within the plan.
pub(super) const UNIQUE: char = '\u{1}';

/// The name to show for a column of a plan.
pub fn output_name(name: &str) -> &str {
    name.split(UNIQUE).next().unwrap_or(name)
}

/// What the catalog tells of relations, of a schema or of none.
pub trait Relations {
    /// Whether it has hidden columns.
    fn has_hidden(&self, schema: Option<&str>, name: &str) -> bool;

    /// The names of its columns but those. `None`: there is no such relation.
    fn columns(&self, schema: Option<&str>, name: &str) -> Option<Vec<String>>;
}

/// Rewrites a statement. True: it names a hidden column, so materialized views have to have them.
///
/// # Errors
/// 42712: one name for two relations; 0A000: what DataFusion would answer otherwise than PostgreSQL.
pub fn statement(statement: &mut Statement, relations: &dyn Relations) -> Result<bool> {
    let mut names = Names { found: false };
    let _ = statement.visit(&mut names);
    if let Statement::Query(query) = statement {
        columns::part_from_order(query);
    }
    with::part(statement);
    rows::spell_out(statement);
    let has_hidden = names.found.then_some(relations);
    let mut rewriter = Rewriter { has_hidden, known: Known::new(relations), depth: 0 };
    match statement.visit(&mut rewriter) {
        ControlFlow::Continue(()) => Ok(names.found),
        ControlFlow::Break(error) => Err(*error),
    }
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
    has_hidden: Option<&'a dyn Relations>,
    /// What is known of the columns of relations.
    known: Known<'a>,
    /// Queries that the present one is within, itself among them.
    depth: usize,
}

impl VisitorMut for Rewriter<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if query.limit_clause.is_none() {
            query.limit_clause = subqueries::fetched(&mut query.fetch);
        }
        order_once(query);
        self.depth += 1;
        table_commands(&mut query.body);
        self.known.open(query);
        self.set_expr(&mut query.body, query.order_by.as_mut());
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } = factor {
            return ControlFlow::Break(Box::new(Error::FeatureNotSupported {
                what: "TABLESAMPLE".into(),
                hint: "WHERE random() < 0.01 takes about one row of a hundred.".into(),
            }));
        }
        match factor {
            TableFactor::Table { name, args: Some(_), .. } if is_check_rescale(name) => check_rescale(factor),
            TableFactor::Table { name, args: Some(_), .. } if is_options_to_table(name) => options_to_table(factor),
            TableFactor::Table { name, args: Some(_), .. } if is_partition_function(name) => no_partitions(factor),
            TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. } => {
                sets::in_from(factor);
                if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor {
                    unqualify(name);
                }
            }
            other => name_all(other, &self.known),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        // Before the rows become records.
        if let Some(new) = rows::of_any(expr) {
            *expr = new;
        }
        if let Some(new) = subqueries::of_any(expr) {
            *expr = new;
        }
        if let Some(new) = rows::compared(expr) {
            *expr = new;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        distinct::unbound(expr);
        if let Some(new) = replacement(expr) {
            *expr = new;
        }
        numbers::small(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        numbers::positions(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        match from::check(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        numbers::limits(query);
        self.known.close();
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl Rewriter<'_> {
    fn set_expr(&self, body: &mut SetExpr, order: Option<&mut ast::OrderBy>) {
        match body {
            SetExpr::Select(select) => {
                if let Some(relations) = self.has_hidden {
                    hide(select, relations);
                }
                qualify_wildcards(select);
                system_columns(select);
                name_columns(select, self.depth == 1);
                records::write_out(select, order, &self.known, self.has_hidden.is_none());
                check_rescale_records(select);
                sets::in_projection(select);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.set_expr(left, None);
                self.set_expr(right, None);
            }
            SetExpr::Values(rows) => values::unify(rows),
            _ => {}
        }
    }
}

/// A key that an ORDER BY names again decides nothing, and DataFusion's DISTINCT ON panics over it.
fn order_once(query: &mut Query) {
    if let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) = &mut query.order_by {
        let mut seen: Vec<Expr> = Vec::new();
        keys.retain(|key| {
            let is_new = !seen.contains(&key.expr);
            seen.push(key.expr.clone());
            is_new
        });
    }
}

/// `TABLE t` as `SELECT * FROM t`. The parser forgets whether the name was quoted: where that matters, DataFusion refuses it.
fn table_commands(body: &mut SetExpr) {
    match body {
        SetExpr::Table(table) => {
            let parts = [table.schema_name.as_deref(), table.table_name.as_deref()];
            let parts: Vec<String> =
                parts.into_iter().flatten().map(|part| Ident::with_quote('"', part).to_string()).collect();
            let name = parts.join(".");
            if name.is_empty() || name.chars().any(char::is_uppercase) {
                return;
            }
            if let Some(query) = parse_query(&format!("SELECT * FROM {name}")) {
                *body = *query.body;
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            table_commands(left);
            table_commands(right);
        }
        _ => {}
    }
}

fn replacement(expr: &mut Expr) -> Option<Expr> {
    if let Some(new) = expressions::replacement(expr) {
        return Some(new);
    }
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
            expressions::type_call(function).or_else(|| expressions::function(function))
        }
        // There is one collation, that of bytes.
        Expr::Collate { expr, .. } => Some(take(expr)),
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
            if let Some(value) = subqueries::lone_value(query) {
                return Some(value);
            }
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
        DataType::Text => Some("text".into()),
        DataType::JSONB => Some("jsonb".into()),
        DataType::JSON => Some("json".into()),
        DataType::Uuid => Some("uuid".into()),
        DataType::Varchar(None) | DataType::CharacterVarying(None) => Some("varchar".into()),
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => type_name(item).map(|item| format!("{item}[]")),
        _ => None,
    }
}

/// Casts between names and oids. DataFusion has no types for these, so that they become functions.
fn cast(operand: &mut Expr, data_type: &DataType) -> Option<Expr> {
    if let Some(sized) = expressions::sized_cast(operand, data_type) {
        return Some(sized);
    }
    let to = type_name(data_type)?;
    if REG_TYPES.contains(&to.as_str()) || NAMED_TYPES.contains(&to.as_str()) {
        return Some(call(&oid_function(&to), vec![take(operand)]));
    }
    if let Some(function) = casts::array_function(&to) {
        return Some(call(&function, vec![take(operand)]));
    }
    if let ("text" | "varchar" | "name", Expr::Function(function)) = (to.as_str(), &*operand)
        && let Some(from) = REG_TYPES.iter().find(|from| is_named(&function.name, &oid_function(from)))
    {
        return Some(call(&text_function(from), vec![take(operand)]));
    }
    None
}

/// Types that DataFusion doesn't tell from others.
const NAMED_TYPES: [&str; 9] = ["oid", "json", "jsonb", "uuid", "name", "inet", "xid", "bpchar", "char"];

/// Takes an expression out of its place.
fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// An identifier's name, as names are compared.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn is_partition_function(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|ident| ["pg_partition_tree", "pg_partition_ancestors"].contains(&ident.value.as_str()))
}

/// Of a relation that isn't partitioned these give no rows, and none is here.
fn no_partitions(factor: &mut TableFactor) {
    const NONE: &str = "SELECT 0::oid AS relid, 0::oid AS parentrelid, true AS isleaf, 0::int AS level WHERE false";
    let TableFactor::Table { alias, .. } = factor else { return };
    if let Some(subquery) = parse_query(NONE) {
        *factor = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
    }
}

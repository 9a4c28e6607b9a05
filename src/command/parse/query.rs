//! `SELECT` and its kin, and `EXPLAIN`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AnalyzeFormat, AnalyzeFormatKind, DescribeAlias, Expr, Ident, Query, Select, Statement as Sql, UtilityOption,
    Value, Visit, Visitor,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Literal};
use super::{alter, unsupported};
use crate::command::ast::{Command, Statement};
use crate::error::{Error, Result};

const EXPLAIN: &str = "EXPLAIN [(FORMAT {TEXT | JSON})] ALTER {SOURCE | MATERIALIZED VIEW} ..., or EXPLAIN [ANALYZE] [VERBOSE] SELECT ...";

/// Whether a query starts here.
pub(super) fn starts(cursor: &Cursor<'_>) -> bool {
    ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| cursor.at(&[word]))
        || cursor.peek(0) == Some(&Token::LParen)
}

/// A query that only reads.
pub(super) fn query(cursor: &mut Cursor<'_>) -> Result<Box<Query>> {
    if !starts(cursor) {
        return Err(cursor.expected(&["SELECT", "WITH", "VALUES", "TABLE"]));
    }
    let query = cursor.sqlparser(Parser::parse_query)?;
    match query.visit(&mut OnlyReads) {
        ControlFlow::Continue(()) => Ok(query),
        ControlFlow::Break(refusal) => Err(*refusal),
    }
}

/// Refuses what DataFusion would do, or pass over in silence.
struct OnlyReads;

impl Visitor for OnlyReads {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        if query.locks.is_empty() {
            return ControlFlow::Continue(());
        }
        let hint = "Leave it away: every query sees one snapshot, which nothing changes.";
        ControlFlow::Break(Box::new(unsupported::error("FOR UPDATE or FOR SHARE", hint)))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        match select.into {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(Box::new(unsupported::error(
                "SELECT INTO",
                "CREATE MATERIALIZED VIEW name AS SELECT ... keeps a query's rows.",
            ))),
        }
    }

    fn pre_visit_statement(&mut self, _: &Sql) -> ControlFlow<Self::Break> {
        ControlFlow::Break(Box::new(unsupported::error(
            "a statement within a query that changes rows",
            "Rows come from sources only.",
        )))
    }
}

/// What stands between EXPLAIN and its statement.
#[derive(Default)]
struct Options {
    json: bool,
    analyze: bool,
    verbose: bool,
    /// COSTS, TIMING and SUMMARY, where they are given.
    others: Vec<UtilityOption>,
}

/// After the word EXPLAIN.
pub(super) fn explain(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.form = Some(EXPLAIN);
    let mut options = Options::default();
    // In brackets there may also be a query, which has no need of them.
    let bracketed = cursor.peek(0) == Some(&Token::LParen)
        && OPTIONS.iter().any(|name| cursor.peek_word(1).is_some_and(|word| word.eq_ignore_ascii_case(name)));
    if bracketed {
        cursor.expect_token(&Token::LParen)?;
        cursor.list(|cursor| explain_option(cursor, &mut options))?;
        cursor.expect_token(&Token::RParen)?;
    } else {
        options.analyze = cursor.accept(&["ANALYZE"]);
        options.verbose = cursor.accept(&["VERBOSE"]);
    }
    if cursor.at(&["ALTER"]) {
        if options.analyze || options.verbose {
            let hint = "EXPLAIN ALTER ... changes nothing and tells all; ALTER ... does it.";
            return Err(unsupported::error("EXPLAIN (ANALYZE) or (VERBOSE) of ALTER", hint));
        }
        let alter = alter::alter(cursor)?;
        return Ok(Statement::Command(Command::Explain { json: options.json, alter }));
    }
    if !starts(cursor) {
        unsupported::check_statement(cursor, "EXPLAIN ")?;
        return Err(cursor.expected(&["ALTER", "SELECT"]));
    }
    cursor.form = None;
    let query = query(cursor)?;
    cursor.expect_end()?;
    Ok(Statement::Query(Box::new(Sql::Explain {
        describe_alias: DescribeAlias::Explain,
        analyze: options.analyze,
        verbose: options.verbose,
        query_plan: false,
        estimate: false,
        statement: Box::new(Sql::Query(query)),
        format: options.json.then_some(AnalyzeFormatKind::Keyword(AnalyzeFormat::JSON)),
        options: Some(options.others),
    })))
}

const OPTIONS: [&str; 12] = [
    "FORMAT",
    "ANALYZE",
    "VERBOSE",
    "COSTS",
    "BUFFERS",
    "TIMING",
    "SUMMARY",
    "SETTINGS",
    "WAL",
    "MEMORY",
    "SERIALIZE",
    "GENERIC_PLAN",
];

fn explain_option(cursor: &mut Cursor<'_>, options: &mut Options) -> Result<()> {
    match cursor.one_of(&OPTIONS)? {
        "FORMAT" => {
            let format = match cursor.accept_literal() {
                Some(Literal::String(format)) => format.to_uppercase(),
                Some(_) => return Err(cursor.unexpected()),
                None => cursor.one_of(&["TEXT", "JSON", "XML", "YAML"])?.to_owned(),
            };
            options.json = match format.as_str() {
                "TEXT" => false,
                "JSON" => true,
                _ => {
                    let value = format.to_lowercase();
                    return Err(Error::InvalidValue { what: "FORMAT".into(), value, allowed: "text, json".into() });
                }
            };
        }
        "ANALYZE" => options.analyze = on(cursor)?,
        "VERBOSE" => options.verbose = on(cursor)?,
        name @ ("COSTS" | "TIMING" | "SUMMARY" | "BUFFERS" | "SETTINGS" | "WAL") => {
            let value = Value::Boolean(on(cursor)?);
            options.others.push(UtilityOption { name: Ident::new(name), arg: Some(Expr::Value(value.into())) });
        }
        other => {
            return Err(unsupported::error(
                &format!("EXPLAIN ({other})"),
                "FORMAT, ANALYZE, VERBOSE, COSTS, TIMING, SUMMARY, BUFFERS, SETTINGS and WAL are all the options.",
            ));
        }
    }
    Ok(())
}

/// A boolean, which may be left away.
fn on(cursor: &mut Cursor<'_>) -> Result<bool> {
    if matches!(cursor.peek(0), Some(Token::Comma | Token::RParen)) {
        return Ok(true);
    }
    match cursor.accept_one_of(&["ON", "TRUE", "OFF", "FALSE"]) {
        Some(word) => Ok(matches!(word, "ON" | "TRUE")),
        None => match cursor.literal()? {
            Literal::Number(text) | Literal::String(text) => match text.to_lowercase().as_str() {
                "1" | "on" | "true" => Ok(true),
                "0" | "off" | "false" => Ok(false),
                _ => Err(Error::InvalidValue {
                    what: "an option of EXPLAIN".into(),
                    value: text,
                    allowed: "on, off".into(),
                }),
            },
            _ => Err(cursor.unexpected()),
        },
    }
}

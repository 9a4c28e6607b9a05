//! Statements: what a client sends, understood and run.
//!
//! # Parsing
//! The text is cut into tokens once, by sqlparser's tokenizer, and the tokens into statements at the semicolons. So a
//! semicolon in a string, a comment or a dollar-quoted text separates nothing. The first words of a statement decide
//! who reads it:
//! - queries (`SELECT`, `WITH`, `VALUES`, `TABLE`, `EXPLAIN` of one) are read by sqlparser and run by DataFusion;
//! - our own statements, and those on the session, are read here, token by token, into the types of [`ast`];
//! - all else is refused: what other systems have with `0A000` and a hint at what to use instead, the rest as a syntax
//!   error. Nothing is accepted that would have no effect.
//!
//! A string of several statements is read as a whole before any of them runs. So a mistake in the last one leaves all
//! of them undone, as in PostgreSQL.
//!
//! # Parameters
//! `$n` may stand wherever a literal may, in our own statements too. These are [parsed](parse()) into
//! [`Statement::Unbound`] first, which tells their kind, and [bound](bind()) by writing the values into the text as
//! quoted literals and reading it again. Every literal may be quoted (`PARALLELISM = '4'`), so text is all that is
//! needed, and a quoted literal can't be anything but a value.
//!
//! # Errors
//! Messages and positions are PostgreSQL's: `syntax error at or near "x"`, and the place of `x` in the whole string that
//! was sent, in characters from 1. The hint of an error in one of our own statements is the right form.
//!
//! # Limits
//! A statement may neither nest nor chain so deep that its tree would not fit the stack: see `parse/depth.rs` and
//! `parse/dialect.rs`.

pub mod ast;
mod parse;
pub mod run;

pub use self::ast::Statement;
use crate::error::{Error, Result};

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The statement alone, as written: without the semicolon, and the comments before and behind it.
    pub text: String,
    /// What it says.
    pub statement: Statement,
    /// The highest `n` of its `$n`; 0 without any.
    pub params: usize,
    /// Where `text` starts in the string that was sent, as a character index from 1.
    pub position: usize,
}

/// Reads all statements of a text. Never empty: a text without one gives [`Statement::Empty`].
///
/// # Errors
/// [`Error::Syntax`], [`Error::FeatureNotSupported`], [`Error::StatementTooComplex`], and the errors of values that can
/// be told from the text alone ([`Error::InvalidValue`], [`Error::UnknownOption`], [`Error::Data`] for a target, ...).
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    parse::parse(sql)
}

/// The statement with `params` in place of its `$n`, `None` as NULL. One without `$n` is returned as it is; so is a
/// query, whose `$n` are DataFusion's.
///
/// # Errors
/// As [`parse()`], without a position (the text that is read is not the one that was sent); SQLSTATE 08P01 if there are
/// fewer values than `$n`.
pub fn bind(parsed: &Parsed, params: &[Option<String>]) -> Result<Statement> {
    if !matches!(parsed.statement, Statement::Unbound(_)) {
        return Ok(parsed.statement.clone());
    }
    if params.len() < parsed.params {
        let message = format!("{} parameters are given, but the statement needs {}", params.len(), parsed.params);
        return Err(Error::Semantics { sqlstate: "08P01", message });
    }
    let mut text = String::with_capacity(parsed.text.len());
    let mut copied = 0;
    for (number, place) in parse::placeholders(&parsed.text)? {
        text.push_str(&parsed.text[copied..place.start]);
        match &params[number - 1] {
            Some(value) => text.extend(["'", &value.replace('\'', "''"), "'"]),
            None => text.push_str("NULL"),
        }
        copied = place.end;
    }
    text.push_str(&parsed.text[copied..]);
    let bound = parse(&text).map_err(without_position)?;
    match <[Parsed; 1]>::try_from(bound) {
        Ok([bound]) => Ok(bound.statement),
        Err(_) => Err(Error::Internal("a statement became several when its parameters were bound".into())),
    }
}

/// The name that a text gives of a source or view, as a statement would: `s`, `"S"`, `public.s`.
///
/// # Errors
/// [`Error::Syntax`]; one of a name that is in another schema or database.
pub fn relation_name(text: &str, kind: &'static str) -> Result<String> {
    parse::relation_name(text, kind)
}

/// The text as it may be shown and logged: [`HIDDEN`](crate::secret::HIDDEN) stands in place of every secret in it.
pub fn without_secrets(sql: &str) -> std::borrow::Cow<'_, str> {
    parse::without_secrets(sql)
}

fn without_position(error: Error) -> Error {
    match error {
        Error::Syntax { message, hint, .. } => Error::Syntax { message, position: None, hint },
        other => other,
    }
}

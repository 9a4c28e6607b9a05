//! `COPY {table | (query)} TO STDOUT`.

use datafusion::sql::sqlparser::ast::Statement as Sql;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Literal};
use super::{query, unsupported};
use crate::command::ast::{CopyFormat, CopyOptions, ForceQuote, Session, Statement};
use crate::error::{Error, Result};

const FORM: &str = "COPY {name [(columns)] | (SELECT ...)} TO STDOUT [WITH (FORMAT {text | csv | binary}, HEADER, \
    DELIMITER '...', NULL '...', QUOTE '...', ESCAPE '...', FORCE_QUOTE {(columns) | *}, ENCODING 'UTF8')]";

/// The options as they are read: which were given matters to what goes with what.
#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<ForceQuote>,
    encoding: Option<String>,
}

/// After the word COPY.
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some(FORM);
    let mut given = Given::default();
    // Where it stood before PostgreSQL 7.3.
    if cursor.accept(&["BINARY"]) {
        given.format = Some(CopyFormat::Binary);
    }
    let (query, query_text) = if cursor.accept_token(&Token::LParen) {
        let from = cursor.index();
        let query = Sql::Query(query::query(cursor)?);
        let text = cursor.fragment.between(from, cursor.index()).to_owned();
        cursor.expect_token(&Token::RParen)?;
        (query, text)
    } else {
        table(cursor)?
    };
    if cursor.one_of(&["TO", "FROM"])? == "FROM" {
        return Err(unsupported::error("COPY FROM", "Append lines to the source's files: a source only grows."));
    }
    if !cursor.accept(&["STDOUT"]) && !cursor.accept(&["STDIN"]) {
        return Err(unsupported::error(
            "COPY TO a file or a program of the server",
            "Use psql's \\copy ... to 'file'.",
        ));
    }
    cursor.accept(&["WITH"]);
    if cursor.accept_token(&Token::LParen) {
        cursor.list(|cursor| option(cursor, &mut given))?;
        cursor.expect_token(&Token::RParen)?;
    } else {
        while !cursor.at_end() {
            old_option(cursor, &mut given)?;
        }
    }
    Ok(Session::CopyTo { query: Box::new(query), query_text, options: given.checked()? })
}

/// `name [(columns)]`, as the query that it stands for.
fn table(cursor: &mut Cursor<'_>) -> Result<(Sql, String)> {
    let from = cursor.index();
    cursor.name()?;
    while cursor.accept_token(&Token::Period) {
        cursor.name()?;
    }
    let name = cursor.fragment.between(from, cursor.index()).to_owned();
    let mut columns = "*".to_owned();
    if cursor.accept_token(&Token::LParen) {
        let from = cursor.index();
        cursor.list(Cursor::name)?;
        cursor.fragment.between(from, cursor.index()).clone_into(&mut columns);
        cursor.expect_token(&Token::RParen)?;
    }
    let text = format!("SELECT {columns} FROM {name}");
    match super::parse(&text)?.pop().map(|parsed| parsed.statement) {
        Some(Statement::Query(query)) => Ok((*query, text)),
        _ => Err(cursor.unexpected()),
    }
}

/// An option in brackets.
fn option(cursor: &mut Cursor<'_>, given: &mut Given) -> Result<()> {
    let at = cursor.index();
    let name = cursor.dotted()?;
    match name.as_str() {
        "format" => {
            let format = match word_or_text(cursor)?.to_lowercase().as_str() {
                "text" => CopyFormat::Text,
                "csv" => CopyFormat::Csv,
                "binary" => CopyFormat::Binary,
                other => return Err(invalid(format!("COPY format \"{other}\" not recognized"))),
            };
            once(cursor, at, &mut given.format, format)
        }
        "delimiter" => text(cursor).and_then(|text| once(cursor, at, &mut given.delimiter, text)),
        "null" => text(cursor).and_then(|text| once(cursor, at, &mut given.null, text)),
        "quote" => text(cursor).and_then(|text| once(cursor, at, &mut given.quote, text)),
        "escape" => text(cursor).and_then(|text| once(cursor, at, &mut given.escape, text)),
        "encoding" => word_or_text(cursor).and_then(|text| once(cursor, at, &mut given.encoding, text)),
        "header" => {
            let on = match cursor.peek(0) {
                Some(Token::Comma | Token::RParen) => true,
                _ => boolean(&word_or_text(cursor)?)?,
            };
            once(cursor, at, &mut given.header, on)
        }
        "force_quote" => {
            let columns = if cursor.accept_token(&Token::Mul) {
                ForceQuote::All
            } else {
                cursor.expect_token(&Token::LParen)?;
                let columns = cursor.list(Cursor::name)?;
                cursor.expect_token(&Token::RParen)?;
                ForceQuote::Columns(columns)
            };
            once(cursor, at, &mut given.force_quote, columns)
        }
        "freeze" | "force_not_null" | "force_null" => Err(Error::FeatureNotSupported {
            what: format!("{} of COPY TO", name.to_uppercase()),
            hint: "It is of use to COPY FROM only: leave it away.".into(),
        }),
        _ => Err(cursor.error_at(at, format!("option \"{name}\" not recognized"))),
    }
}

/// An option without brackets, as psql's \copy and old scripts write it.
fn old_option(cursor: &mut Cursor<'_>, given: &mut Given) -> Result<()> {
    const WORDS: &[&str] = &["BINARY", "CSV", "HEADER", "DELIMITER", "NULL", "QUOTE", "ESCAPE", "FORCE", "ENCODING"];
    let at = cursor.index();
    let word = cursor.one_of(WORDS)?;
    cursor.accept(&["AS"]);
    match word {
        "BINARY" => once(cursor, at, &mut given.format, CopyFormat::Binary),
        "CSV" => once(cursor, at, &mut given.format, CopyFormat::Csv),
        "HEADER" => once(cursor, at, &mut given.header, true),
        "DELIMITER" => text(cursor).and_then(|text| once(cursor, at, &mut given.delimiter, text)),
        "NULL" => text(cursor).and_then(|text| once(cursor, at, &mut given.null, text)),
        "QUOTE" => text(cursor).and_then(|text| once(cursor, at, &mut given.quote, text)),
        "ESCAPE" => text(cursor).and_then(|text| once(cursor, at, &mut given.escape, text)),
        "ENCODING" => text(cursor).and_then(|text| once(cursor, at, &mut given.encoding, text)),
        _ => {
            cursor.expect(&["QUOTE"])?;
            let columns = if cursor.accept_token(&Token::Mul) {
                ForceQuote::All
            } else {
                ForceQuote::Columns(cursor.list(Cursor::name)?)
            };
            once(cursor, at, &mut given.force_quote, columns)
        }
    }
}

fn once<T>(cursor: &Cursor<'_>, at: usize, option: &mut Option<T>, value: T) -> Result<()> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(cursor.error_at(at, "conflicting or redundant options".into())),
    }
}

fn text(cursor: &mut Cursor<'_>) -> Result<String> {
    match cursor.accept_literal() {
        Some(Literal::String(text)) => Ok(text),
        _ => Err(cursor.unexpected()),
    }
}

fn word_or_text(cursor: &mut Cursor<'_>) -> Result<String> {
    match cursor.accept_literal() {
        Some(Literal::String(text) | Literal::Number(text)) => Ok(text),
        Some(Literal::Boolean(value)) => Ok(value.to_string()),
        Some(_) => Err(cursor.unexpected()),
        None => cursor.dotted(),
    }
}

fn boolean(value: &str) -> Result<bool> {
    match value.to_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        "match" => Err(unsupported("cannot use \"match\" with HEADER in COPY TO")),
        _ => Err(syntax("header requires a Boolean value or \"match\"")),
    }
}

fn invalid(message: String) -> Error {
    Error::Data { sqlstate: "22023", message }
}

fn syntax(message: &str) -> Error {
    Error::Semantics { sqlstate: "42601", message: message.into() }
}

fn unsupported(message: &str) -> Error {
    Error::Semantics { sqlstate: "0A000", message: message.into() }
}

/// The one byte of an option that has to be one.
fn byte(option: &str, value: Option<String>, default: u8) -> Result<u8> {
    match value.as_deref().map(str::as_bytes) {
        None => Ok(default),
        Some([byte]) => Ok(*byte),
        Some(_) => Err(unsupported(&format!("COPY {option} must be a single one-byte character"))),
    }
}

impl Given {
    /// The options, if they go together. The checks and their words are PostgreSQL's.
    fn checked(self) -> Result<CopyOptions> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let csv = format == CopyFormat::Csv;
        if format == CopyFormat::Binary {
            if self.delimiter.is_some() {
                return Err(syntax("cannot specify DELIMITER in BINARY mode"));
            }
            if self.null.is_some() {
                return Err(syntax("cannot specify NULL in BINARY mode"));
            }
            if self.header == Some(true) {
                return Err(unsupported("cannot specify HEADER in BINARY mode"));
            }
        }
        for (option, given) in [
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("force quote", self.force_quote.is_some()),
        ] {
            if given && !csv {
                return Err(unsupported(&format!("COPY {option} available only in CSV mode")));
            }
        }
        let encoding = self.encoding.map(|name| name.replace(['-', '_'], "").to_uppercase());
        if encoding.as_deref().is_some_and(|name| !["UTF8", "UNICODE", "SQLASCII"].contains(&name)) {
            return Err(Error::FeatureNotSupported {
                what: "an encoding other than UTF8".into(),
                hint: "Leave ENCODING away, and convert the file.".into(),
            });
        }
        let delimiter = byte("delimiter", self.delimiter, if csv { b',' } else { b'\t' })?;
        let quote = byte("quote", self.quote, b'"')?;
        let escape = byte("escape", self.escape, quote)?;
        let null = self.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".into() });
        if matches!(delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return".into()));
        }
        if null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return".into()));
        }
        let confusing = matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
        if format == CopyFormat::Text && confusing {
            return Err(invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
        }
        if csv && delimiter == quote {
            return Err(invalid("COPY delimiter and quote must be different".into()));
        }
        if format != CopyFormat::Binary && null.as_bytes().contains(&delimiter) {
            return Err(invalid("COPY delimiter must not appear in the NULL specification".into()));
        }
        if csv && null.as_bytes().contains(&quote) {
            return Err(invalid("CSV quote character must not appear in the NULL specification".into()));
        }
        let force_quote = self.force_quote.unwrap_or_else(|| ForceQuote::Columns(Vec::new()));
        Ok(CopyOptions { format, delimiter, null, header: self.header == Some(true), quote, escape, force_quote })
    }
}

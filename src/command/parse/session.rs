//! Settings, cursors, prepared statements: what concerns the connection alone.

use datafusion::sql::sqlparser::ast::Statement as Sql;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Literal};
use super::{query, show, statement, transaction, unsupported};
use crate::command::ast::{Direction, Discard, Session, SetValue, Statement};
use crate::error::{Error, Result};

const SET: &str = "SET [SESSION | LOCAL] name {TO | =} {value, ... | DEFAULT}";

/// After the word SET.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some(SET);
    if cursor.accept(&["SESSION", "CHARACTERISTICS"]) {
        cursor.expect(&["AS", "TRANSACTION"])?;
        return some_modes(cursor).map(Session::SetSessionCharacteristics);
    }
    if cursor.accept(&["TRANSACTION"]) {
        if cursor.at(&["SNAPSHOT"]) {
            return Err(unsupported::error("SET TRANSACTION SNAPSHOT", "BEGIN takes a snapshot of its own."));
        }
        return some_modes(cursor).map(Session::SetTransaction);
    }
    // `SET session = ...` would be a setting of that name.
    let named =
        cursor.peek(1) == Some(&Token::Eq) || cursor.peek_word(1).is_some_and(|word| word.eq_ignore_ascii_case("TO"));
    let local = !named && cursor.accept_one_of(&["SESSION", "LOCAL"]) == Some("LOCAL");
    if !named && let Some(own) = own_role(cursor)? {
        return Ok(own);
    }
    let (name, value) = if cursor.accept(&["TIME", "ZONE"]) {
        ("timezone".into(), time_zone(cursor)?)
    } else if cursor.accept(&["NAMES"]) {
        let value = if cursor.at_end() { SetValue::Default } else { value(cursor)? };
        ("client_encoding".into(), value)
    } else if cursor.accept(&["SCHEMA"]) {
        ("search_path".into(), value(cursor)?)
    } else {
        let name = cursor.dotted()?.to_ascii_lowercase();
        if !cursor.accept_token(&Token::Eq) {
            cursor.expect(&["TO"])?;
        }
        (name, value(cursor)?)
    };
    Ok(Session::Set { name, value, local })
}

fn some_modes(cursor: &mut Cursor<'_>) -> Result<crate::command::ast::TransactionModes> {
    let modes = transaction::modes(cursor)?;
    if modes == Default::default() { Err(cursor.unexpected()) } else { Ok(modes) }
}

/// Behind SET and perhaps SESSION: acting as another user, which nobody does, or as oneself again, which is no change.
fn own_role(cursor: &mut Cursor<'_>) -> Result<Option<Session>> {
    let (what, hint) = match () {
        () if cursor.accept(&["SESSION", "AUTHORIZATION"]) || cursor.accept(&["AUTHORIZATION"]) => {
            if cursor.accept(&["DEFAULT"]) {
                return Ok(Some(Session::OwnRole("SET")));
            }
            ("SET SESSION AUTHORIZATION", "Connect as that user.")
        }
        () if cursor.accept(&["ROLE"]) => {
            if cursor.accept(&["NONE"]) {
                return Ok(Some(Session::OwnRole("SET")));
            }
            ("SET ROLE", "Members of a role may always do what it may: leave it away, or connect as that user.")
        }
        () if cursor.at(&["CONSTRAINTS"]) => ("SET CONSTRAINTS", "There are none."),
        () => return Ok(None),
    };
    Err(unsupported::error(what, hint))
}

fn value(cursor: &mut Cursor<'_>) -> Result<SetValue> {
    if cursor.accept(&["DEFAULT"]) {
        return Ok(SetValue::Default);
    }
    cursor.list(one_value).map(SetValue::Values)
}

fn one_value(cursor: &mut Cursor<'_>) -> Result<String> {
    match cursor.accept_literal() {
        Some(Literal::String(text) | Literal::Number(text)) => Ok(text),
        Some(Literal::Boolean(value)) => Ok(value.to_string()),
        Some(Literal::Parameter) => Ok(String::new()),
        Some(Literal::Null) => Err(cursor.fragment.unexpected(cursor.index() - 1, None)),
        // Reserved, and yet a value.
        None if cursor.accept(&["ON"]) => Ok("on".into()),
        None => cursor.name(),
    }
}

fn time_zone(cursor: &mut Cursor<'_>) -> Result<SetValue> {
    if cursor.accept(&["LOCAL"]) {
        return Ok(SetValue::Default);
    }
    if cursor.at(&["INTERVAL"]) {
        return Err(unsupported::error("SET TIME ZONE INTERVAL", "Name the zone: SET TIME ZONE 'Europe/Berlin'."));
    }
    match value(cursor)? {
        SetValue::Values(values) if values.len() != 1 => Err(cursor.unexpected()),
        value => Ok(value),
    }
}

/// After the word RESET.
pub(super) fn reset(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("RESET {name | ALL}");
    if cursor.accept(&["SESSION", "AUTHORIZATION"]) || cursor.accept(&["ROLE"]) {
        return Ok(Session::OwnRole("RESET"));
    }
    Ok(show::setting(cursor)?.map_or(Session::ResetAll, Session::Reset))
}

/// After the word DISCARD.
pub(super) fn discard(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("DISCARD {ALL | PLANS | SEQUENCES | TEMP}");
    Ok(Session::Discard(match cursor.one_of(&["ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"])? {
        "ALL" => Discard::All,
        "PLANS" => Discard::Plans,
        "SEQUENCES" => Discard::Sequences,
        _ => Discard::Temp,
    }))
}

/// After the word DECLARE.
pub(super) fn declare(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form =
        Some("DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [{WITH | WITHOUT} HOLD] FOR SELECT ...");
    let name = cursor.name()?;
    let (mut scroll, mut binary) = (None, false);
    loop {
        if cursor.accept(&["BINARY"]) {
            binary = true;
        } else if cursor.accept(&["NO", "SCROLL"]) {
            scroll = Some(false);
        } else if cursor.accept(&["SCROLL"]) {
            scroll = Some(true);
        } else if cursor.accept_one_of(&["INSENSITIVE", "ASENSITIVE"]).is_none() {
            break;
        }
    }
    cursor.expect(&["CURSOR"])?;
    let hold = match cursor.accept_one_of(&["WITH", "WITHOUT"]) {
        Some(word) => cursor.expect(&["HOLD"]).map(|()| word == "WITH")?,
        None => false,
    };
    cursor.expect(&["FOR"])?;
    let from = cursor.index();
    let query = Box::new(Sql::Query(query::query(cursor)?));
    let query_text = cursor.fragment.between(from, cursor.index()).to_owned();
    Ok(Session::DeclareCursor { name, scroll, hold, binary, query, query_text })
}

/// After the word FETCH or MOVE.
pub(super) fn fetch(cursor: &mut Cursor<'_>, move_only: bool) -> Result<Session> {
    cursor.form = Some(
        "FETCH [NEXT | PRIOR | FIRST | LAST | ABSOLUTE n | RELATIVE n | n | ALL | FORWARD [n | ALL] | BACKWARD [n | ALL]] \
         [FROM | IN] name",
    );
    // A cursor may have the name of a direction: `FETCH next` is one.
    let direction = if cursor.peek(1).is_none() { Direction::Forward(1) } else { direction(cursor)? };
    cursor.accept_one_of(&["FROM", "IN"]);
    let name = cursor.name()?;
    Ok(Session::Fetch { cursor: name, direction, move_only })
}

fn direction(cursor: &mut Cursor<'_>) -> Result<Direction> {
    const WORDS: &[&str] = &["NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL", "FORWARD", "BACKWARD"];
    Ok(match cursor.accept_one_of(WORDS) {
        Some("NEXT") => Direction::Forward(1),
        Some("PRIOR") => Direction::Forward(-1),
        Some("FIRST") => Direction::Absolute(1),
        Some("LAST") => Direction::Absolute(-1),
        Some("ABSOLUTE") => Direction::Absolute(count(cursor)?),
        Some("RELATIVE") => Direction::Relative(count(cursor)?),
        Some("ALL") => Direction::ForwardAll,
        Some("FORWARD") => match many(cursor)? {
            Many::All => Direction::ForwardAll,
            Many::Rows(rows) => Direction::Forward(rows),
        },
        Some(_) => match many(cursor)? {
            Many::All => Direction::BackwardAll,
            Many::Rows(rows) => Direction::Forward(rows.saturating_neg()),
        },
        None if starts_number(cursor) => Direction::Forward(count(cursor)?),
        None => Direction::Forward(1),
    })
}

enum Many {
    All,
    Rows(i64),
}

fn many(cursor: &mut Cursor<'_>) -> Result<Many> {
    if cursor.accept(&["ALL"]) {
        Ok(Many::All)
    } else if starts_number(cursor) {
        count(cursor).map(Many::Rows)
    } else {
        Ok(Many::Rows(1))
    }
}

fn starts_number(cursor: &Cursor<'_>) -> bool {
    matches!(
        cursor.peek(0),
        Some(Token::Number(..) | Token::Minus | Token::Plus | Token::Placeholder(_) | Token::SingleQuotedString(_))
    )
}

fn count(cursor: &mut Cursor<'_>) -> Result<i64> {
    cursor.integer("the number of rows", "a whole number")
}

/// After the word CLOSE.
pub(super) fn close(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("CLOSE {name | ALL}");
    if cursor.accept(&["ALL"]) { Ok(Session::CloseAll) } else { cursor.name().map(Session::Close) }
}

/// After the word PREPARE. What is prepared takes all that is left.
pub(super) fn prepare(cursor: &mut Cursor<'_>) -> Result<Session> {
    const FORM: &str = "PREPARE name [(type, ...)] AS {SELECT ... | ALTER ... | ...}";
    cursor.form = Some(FORM);
    if cursor.at(&["TRANSACTION"]) {
        return Err(transaction::two_phase());
    }
    let name = cursor.name()?;
    let mut types = Vec::new();
    if cursor.accept_token(&Token::LParen) {
        types = cursor.list(type_name)?;
        cursor.expect_token(&Token::RParen)?;
    }
    cursor.expect(&["AS"])?;
    // Looked at before it is read: a PREPARE of a PREPARE of a PREPARE ... has no end.
    if cursor.at(&["PREPARE"]) || cursor.at_end() {
        return Err(cursor.unexpected());
    }
    let prepared = statement(cursor.fragment.skip(cursor.index()))?;
    let inner = match &prepared.statement {
        Statement::Unbound(inner) => inner,
        other => other,
    };
    // A password would stand in the text of EXECUTE, where nobody would know it for one.
    if matches!(inner, Statement::Session(_) | Statement::Command(crate::command::ast::Command::Role(_))) {
        return Err(cursor.unexpected());
    }
    Ok(Session::Prepare { name, types, statement: Box::new(prepared) })
}

fn type_name(cursor: &mut Cursor<'_>) -> Result<String> {
    let from = cursor.index();
    cursor.sqlparser(|parser| parser.parse_data_type())?;
    Ok(cursor.fragment.between(from, cursor.index()).to_owned())
}

/// After the word EXECUTE.
pub(super) fn execute(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("EXECUTE name [(literal, ...)]");
    let name = cursor.name()?;
    let mut params = Vec::new();
    if cursor.accept_token(&Token::LParen) {
        params = cursor.list(|cursor| {
            Ok(match cursor.literal()? {
                Literal::String(text) | Literal::Number(text) => Some(text),
                Literal::Boolean(value) => Some(value.to_string()),
                Literal::Null | Literal::Parameter => None,
            })
        })?;
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(Session::Execute { name, params })
}

/// After the word DEALLOCATE.
pub(super) fn deallocate(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("DEALLOCATE [PREPARE] {name | ALL}");
    // PREPARE is also a name.
    if cursor.peek(1).is_some() {
        cursor.accept(&["PREPARE"]);
    }
    if cursor.accept(&["ALL"]) { Ok(Session::DeallocateAll) } else { cursor.name().map(Session::Deallocate) }
}

/// After the word UNLISTEN.
pub(super) fn unlisten(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("UNLISTEN {channel | *}");
    if cursor.accept_token(&Token::Mul) { Ok(Session::UnlistenAll) } else { cursor.name().map(Session::Unlisten) }
}

/// After the word SAVEPOINT, LISTEN: a name alone.
pub(super) fn named(cursor: &mut Cursor<'_>, make: fn(String) -> Session, form: &'static str) -> Result<Session> {
    cursor.form = Some(form);
    cursor.name().map(make)
}

/// A `$n` that can't be: `$0`, `$x`.
pub(super) fn parameter_number(text: &str) -> Result<usize, Error> {
    match text.trim_start_matches('$').parse::<u16>() {
        Ok(number @ 1..) => Ok(usize::from(number)),
        _ => Err(Error::Semantics { sqlstate: "42P02", message: format!("there is no parameter {text}") }),
    }
}

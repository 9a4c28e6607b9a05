//! `ALTER`, `DROP`, `CANCEL RESCALE`, and which kind of object they are about.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::create::rate_limit;
use super::cursor::{Cursor, Literal};
use super::{roles, secrets, unsupported};
use crate::backfill::target::Target;
use crate::command::ast::{
    Alter, AlterAction, Command, Drop, Elsewhere, InvalidValue, ObjectKind, RateLimit, Rescale, no_schema,
};
use crate::error::{Error, Result};

const ALTER: &str = "ALTER {SOURCE | MATERIALIZED VIEW} name SET {PARALLELISM | BACKFILL_PARALLELISM} {TO | =} \
    {n | ADAPTIVE | DEFAULT | bounded(n) | ratio(r)} [DEFERRED], or SET {source_rate_limit | backfill_rate_limit} \
    {TO | =} {n | DEFAULT}";
const DROP: &str = "DROP {SOURCE | MATERIALIZED VIEW} [IF EXISTS] name, ... [CASCADE]";
const CANCEL: &str = "CANCEL RESCALE id";
const ACTIONS: [&str; 4] = ["PARALLELISM", "BACKFILL_PARALLELISM", "source_rate_limit", "backfill_rate_limit"];

fn object_kind(cursor: &mut Cursor<'_>, statement: &'static str, form: &'static str) -> Result<ObjectKind> {
    unsupported::check_object(cursor, statement)?;
    cursor.form = Some(form);
    match cursor.one_of(&["SOURCE", "MATERIALIZED"])? {
        "SOURCE" => Ok(ObjectKind::Source),
        _ => cursor.expect(&["VIEW"]).map(|()| ObjectKind::MaterializedView),
    }
}

/// `ALTER` of a source or view, with the word ALTER.
pub(super) fn statement(cursor: &mut Cursor<'_>) -> Result<Command> {
    let from = cursor.index();
    let subject = subject(cursor)?;
    if cursor.at(&["OWNER"]) {
        let action = AlterAction::Owner(roles::owner(cursor)?);
        let text = cursor.fragment.between(from, cursor.index()).to_owned();
        return Ok(Command::Alter(subject.altered(action, text)));
    }
    action(cursor, from, subject).map(Command::Alter)
}

/// The same, but only what EXPLAIN takes too. Takes all that is left.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Alter> {
    let from = cursor.index();
    let subject = subject(cursor)?;
    let alter = action(cursor, from, subject)?;
    match alter.action {
        AlterAction::Invalid(invalid @ (InvalidValue::Unsupported(..) | InvalidValue::Elsewhere(_))) => {
            Err(invalid.into())
        }
        action => Ok(Alter { action, ..alter }),
    }
}

/// What an ALTER is about.
struct Subject {
    kind: ObjectKind,
    /// As written, where no source or view can have it.
    name: String,
    elsewhere: Option<Elsewhere>,
}

impl Subject {
    /// The ALTER. One of a name that can't be is refused where it runs, so that the history has it too.
    fn altered(self, action: AlterAction, text: String) -> Alter {
        let action = match self.elsewhere {
            Some(elsewhere) => AlterAction::Invalid(InvalidValue::Elsewhere(elsewhere)),
            None => action,
        };
        Alter { kind: self.kind, name: self.name, action, text }
    }
}

fn subject(cursor: &mut Cursor<'_>) -> Result<Subject> {
    cursor.form = Some(ALTER);
    cursor.expect(&["ALTER"])?;
    let kind = object_kind(cursor, "ALTER", ALTER)?;
    let from = cursor.index();
    Ok(match cursor.relation_or(kind.as_str())? {
        Ok(name) => Subject { kind, name, elsewhere: None },
        Err(elsewhere) => {
            let name = cursor.fragment.between(from, cursor.index()).to_owned();
            Subject { kind, name, elsewhere: Some(elsewhere) }
        }
    })
}

fn action(cursor: &mut Cursor<'_>, from: usize, subject: Subject) -> Result<Alter> {
    let kind = subject.kind;
    let is_set = cursor.accept(&["SET"]);
    let other = if is_set { other_set(cursor, kind) } else { other_action(cursor, kind) };
    if let Some(unsupported) = other {
        // Unlike others it may have options with secrets.
        let text = secrets::hide_in(&cursor.fragment.skip(from));
        cursor.skip_rest();
        return Ok(subject.altered(AlterAction::Invalid(unsupported), text));
    }
    if !is_set {
        cursor.expect(&["SET"])?;
    }
    let what = cursor.one_of(&ACTIONS)?;
    if !cursor.accept_token(&Token::Eq) {
        cursor.expect(&["TO"])?;
    }
    let action = match what {
        "PARALLELISM" => rescale(cursor)?.map(AlterAction::Parallelism),
        "BACKFILL_PARALLELISM" => rescale(cursor)?.map(AlterAction::BackfillParallelism),
        "source_rate_limit" => new_limit(cursor, "source_rate_limit")?.map(AlterAction::SourceRateLimit),
        _ => new_limit(cursor, "backfill_rate_limit")?.map(AlterAction::BackfillRateLimit),
    };
    let action = action.unwrap_or_else(AlterAction::Invalid);
    cursor.expect_end()?;
    let text = cursor.fragment.between(from, cursor.index()).to_owned();
    Ok(subject.altered(action, text))
}

/// What was read, or a value that can't be had.
type Read<T> = Result<std::result::Result<T, InvalidValue>>;

fn new_limit(cursor: &mut Cursor<'_>, what: &'static str) -> Read<RateLimit> {
    match rate_limit(cursor, what) {
        Ok(limit) => Ok(Ok(limit)),
        Err(Error::InvalidValue { value, .. }) => Ok(Err(InvalidValue::RateLimit(what, value))),
        Err(error) => Err(error),
    }
}

fn rescale(cursor: &mut Cursor<'_>) -> Read<Rescale> {
    let read = target(cursor)?;
    let deferred = cursor.accept(&["DEFERRED"]);
    if !deferred && !cursor.at_end() {
        return Err(cursor.expected(&["DEFERRED"]));
    }
    Ok(read.map(|(target, target_text)| Rescale { target, target_text, deferred }))
}

/// `4`, `adaptive`, `bounded(4)`, or any of them in quotes. A `$n` gives the stand-in `adaptive`.
fn target(cursor: &mut Cursor<'_>) -> Read<(Target, String)> {
    let text = match cursor.accept_literal() {
        Some(Literal::Parameter) => return Ok(Ok((Target::Adaptive, String::new()))),
        Some(Literal::Number(text) | Literal::String(text)) => text,
        Some(Literal::Boolean(value)) => value.to_string(),
        Some(Literal::Null) => "NULL".into(),
        None if cursor.at(&["DEFERRED"]) => return Err(cursor.unexpected()),
        None => {
            let from = cursor.index();
            if cursor.accept(&["DEFAULT"]) {
                "DEFAULT".to_owned()
            } else {
                cursor.name()?;
                let word = cursor.fragment.between(from, cursor.index()).to_owned();
                match argument(cursor)? {
                    None => word,
                    Some(Literal::Parameter) => return Ok(Ok((Target::Adaptive, String::new()))),
                    Some(Literal::Number(text) | Literal::String(text)) => format!("{word}({text})"),
                    Some(_) => return Err(cursor.unexpected()),
                }
            }
        }
    };
    Ok(Target::parse(&text).map(|target| (target, text)).map_err(InvalidValue::Parallelism))
}

/// `(4)`, or nothing.
fn argument(cursor: &mut Cursor<'_>) -> Result<Option<Literal>> {
    if !cursor.accept_token(&Token::LParen) {
        return Ok(None);
    }
    let literal = cursor.literal()?;
    cursor.expect_token(&Token::RParen)?;
    Ok(Some(literal))
}

/// What other systems can do with such an object beside SET.
fn other_action(cursor: &Cursor<'_>, kind: ObjectKind) -> Option<InvalidValue> {
    let upper = kind.to_string().to_uppercase();
    let (words, hint) = match () {
        () if cursor.at(&["RENAME"]) => ("RENAME", "DROP it, then CREATE it under the new name."),
        () if cursor.at(&["ADD"]) => ("ADD", "DROP it, then CREATE it with the column."),
        () if cursor.at(&["DROP"]) => ("DROP", "DROP it, then CREATE it without the column."),
        () if cursor.at(&["ALTER"]) => ("ALTER", "DROP it, then CREATE it with the other column."),
        () if cursor.at(&["OWNER"]) => ("OWNER TO in EXPLAIN", "Run it without EXPLAIN: it moves nothing."),
        () if cursor.at(&["REFRESH"]) => ("REFRESH SCHEMA", "DROP it, then CREATE it with the new columns."),
        () if cursor.at(&["CONNECTOR"]) => ("CONNECTOR", "DROP it, then CREATE it with the new options."),
        () if cursor.at(&["FORMAT"]) => ("FORMAT", "FORMAT PLAIN ENCODE JSON is all there is."),
        () if cursor.at(&["SWAP"]) => ("SWAP WITH", "DROP both, then CREATE them under the other names."),
        () if cursor.at(&["RESET"]) => ("RESET", "To take a limit away, SET it to DEFAULT."),
        () => return None,
    };
    Some(InvalidValue::Unsupported(format!("ALTER {upper} ... {words}"), hint))
}

/// What other systems can SET of one.
fn other_set(cursor: &Cursor<'_>, kind: ObjectKind) -> Option<InvalidValue> {
    let upper = kind.to_string().to_uppercase();
    let (words, hint) = match () {
        () if cursor.at(&["SCHEMA"]) => ("SET SCHEMA", "Sources and materialized views live in schema public."),
        () if cursor.at(&["RESOURCE_GROUP"]) => ("SET RESOURCE_GROUP", "All actors run in one process."),
        () if cursor.at(&["dml_rate_limit"]) || cursor.at(&["sink_rate_limit"]) => {
            ("SET of that rate limit", "SET source_rate_limit or backfill_rate_limit.")
        }
        () => return None,
    };
    Some(InvalidValue::Unsupported(format!("ALTER {upper} ... {words}"), hint))
}

/// After the word DROP.
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Command> {
    let kind = object_kind(cursor, "DROP", DROP)?;
    let if_exists = cursor.accept(&["IF", "EXISTS"]);
    let (mut names, mut absent) = (Vec::new(), Vec::new());
    for name in cursor.list(|cursor| cursor.relation_or(kind.as_str()))? {
        match name {
            Ok(name) => names.push(name),
            Err(Elsewhere::Schema(schema)) if if_exists => absent.push(no_schema(&schema)),
            Err(elsewhere @ Elsewhere::Own { .. }) if if_exists => absent.push(Error::from(elsewhere).to_string()),
            Err(elsewhere) => return Err(elsewhere.into()),
        }
    }
    let cascade = cursor.accept_one_of(&["CASCADE", "RESTRICT"]) == Some("CASCADE");
    if !cursor.at_end() {
        return Err(cursor.expected(&["CASCADE", "RESTRICT"]));
    }
    Ok(Command::Drop(Drop { kind, names, if_exists, absent, cascade }))
}

/// After the word CANCEL.
pub(super) fn cancel(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.form = Some(CANCEL);
    if cursor.at(&["JOBS"]) || cursor.at(&["JOB"]) {
        return Err(unsupported::error("CANCEL JOBS", "DROP MATERIALIZED VIEW name stops its backfill too."));
    }
    cursor.expect(&["RESCALE"])?;
    let id =
        cursor.integer("the id of a rescale", "a whole number, as tidegate.pending_rescales.rescale_id gives it")?;
    cursor.expect_end()?;
    Ok(Command::CancelRescale(id))
}

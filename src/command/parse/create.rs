//! `CREATE SOURCE` and `CREATE MATERIALIZED VIEW`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Literal};
use super::{include, query, secrets, types, unsupported};
use crate::command::ast::{ColumnDef, Command, CreateSource, CreateView, RATE_LIMITS, RateLimit};
use crate::engine::MAX_RATE_LIMIT;
use crate::error::{Error, Result, nearest};
use crate::store::format::{Encode, MessageFormat};

const SOURCE: &str = "CREATE SOURCE [IF NOT EXISTS] name (column type, ...) [INCLUDE {KEY | PARTITION | OFFSET | \
    TIMESTAMP | HEADER ['name' [type]]} [AS column]]... WITH (connector = '...', ...) FORMAT PLAIN ENCODE {JSON | BYTES}";
const VIEW: &str = "CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [WITH (option = value, ...)] AS SELECT ...";
const VIEW_OPTIONS: [&str; 2] = ["backfill_order", "backfill_rate_limit"];

/// After the word CREATE.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Command> {
    if cursor.accept(&["SOURCE"]) {
        source(cursor).map(Command::CreateSource)
    } else if cursor.accept(&["MATERIALIZED", "VIEW"]) {
        view(cursor).map(Command::CreateView)
    } else if cursor.at(&["OR", "REPLACE"]) {
        Err(unsupported::error("CREATE OR REPLACE", "DROP it, then CREATE it again."))
    } else {
        unsupported::check_object(cursor, "CREATE")?;
        cursor.form = Some("CREATE {SOURCE | MATERIALIZED VIEW} name ...");
        Err(cursor.expected(&["SOURCE", "MATERIALIZED"]))
    }
}

fn source(cursor: &mut Cursor<'_>) -> Result<CreateSource> {
    cursor.form = Some(SOURCE);
    let if_not_exists = cursor.accept(&["IF", "NOT", "EXISTS"]);
    let name = cursor.new_relation()?;
    cursor.expect_token(&Token::LParen)?;
    let mut columns = columns(cursor)?;
    let include = include::includes(cursor, &mut columns)?;
    cursor.expect(&["WITH"])?;
    let options = options(cursor, |cursor, _| option_value(cursor))?;
    if cursor.at_end() {
        return Err(cursor.error_at(cursor.index(), "FORMAT PLAIN ENCODE JSON is missing".into()));
    }
    if cursor.at(&["INCLUDE"]) {
        return Err(cursor.error_at(cursor.index(), "INCLUDE stands between the columns and WITH".into()));
    }
    let encode = encode(cursor)?;
    cursor.expect_end()?;
    let definition = secrets::hide_in(&cursor.fragment);
    Ok(CreateSource { if_not_exists, name, columns, options, format: MessageFormat { encode, include }, definition })
}

/// Up to the closing bracket.
fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<ColumnDef>> {
    let mut columns: Vec<ColumnDef> = Vec::new();
    if cursor.accept_token(&Token::RParen) {
        return Ok(columns);
    }
    loop {
        refuse_table_element(cursor)?;
        let name = cursor.name()?;
        let data_type = types::column_type(cursor)?;
        refuse_column_constraint(cursor)?;
        add_column(&mut columns, ColumnDef { name, data_type })?;
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(columns)
}

/// No name may be there twice.
pub(super) fn add_column(columns: &mut Vec<ColumnDef>, column: ColumnDef) -> Result<()> {
    if columns.iter().any(|known| known.name == column.name) {
        let message = format!("column \"{}\" specified more than once", column.name);
        return Err(Error::Semantics { sqlstate: "42701", message });
    }
    columns.push(column);
    Ok(())
}

fn refuse_table_element(cursor: &Cursor<'_>) -> Result<()> {
    let watermark = cursor.at(&["WATERMARK", "FOR"]);
    if watermark || cursor.at(&["PRIMARY", "KEY"]) || cursor.at(&["CONSTRAINT"]) || cursor.peek(0) == Some(&Token::Mul)
    {
        return refuse_column_constraint(cursor);
    }
    Ok(())
}

/// What other systems allow in or behind a column's definition.
fn refuse_column_constraint(cursor: &Cursor<'_>) -> Result<()> {
    let refusals = [
        (
            &["PRIMARY", "KEY"][..],
            "PRIMARY KEY of a source",
            "A source only appends: every line is a row of its own, and (_split, _offset) is its key.",
        ),
        (&["WATERMARK"], "WATERMARK", "Filter on the time column in the materialized view: WHERE at > ..."),
        (&["NOT", "NULL"], "NOT NULL", "Filter in the materialized view: WHERE column IS NOT NULL."),
        (&["NULL"], "NULL", "Leave it away: every column may be null."),
        (&["DEFAULT"], "DEFAULT", "Use coalesce(column, value) in the materialized view."),
        (&["AS"], "a generated column", "Compute it in the materialized view: SELECT expression AS name."),
        (&["GENERATED"], "a generated column", "Compute it in the materialized view: SELECT expression AS name."),
        (&["CHECK"], "CHECK", "Filter in the materialized view: WHERE condition."),
        (&["CONSTRAINT"], "CONSTRAINT", "Leave it away: a source takes rows as they come."),
        (&["UNIQUE"], "UNIQUE", "Leave it away: a source takes rows as they come."),
        (&["REFERENCES"], "REFERENCES", "Leave it away: a source takes rows as they come."),
        (&["COLLATE"], "COLLATE", "Leave it away: text is compared by its bytes."),
    ];
    if cursor.peek(0) == Some(&Token::Mul) {
        return Err(unsupported::error(
            "taking the columns from a schema registry (*)",
            "Name each column with its type.",
        ));
    }
    match refusals.iter().find(|(words, ..)| cursor.at(words)) {
        Some((_, what, hint)) => Err(unsupported::error(what, hint)),
        None => Ok(()),
    }
}

/// `(name = value, ...)`; no name twice. `value` is told the name, and may say that there's none such.
fn options<T>(
    cursor: &mut Cursor<'_>,
    mut value: impl FnMut(&mut Cursor<'_>, &str) -> Result<T>,
) -> Result<Vec<(String, T)>> {
    cursor.expect_token(&Token::LParen)?;
    let mut options: Vec<(String, T)> = Vec::new();
    if cursor.accept_token(&Token::RParen) {
        return Ok(options);
    }
    loop {
        let place = cursor.index();
        let name = cursor.dotted()?;
        if options.iter().any(|(known, _)| *known == name) {
            return Err(cursor.error_at(place, format!("option \"{name}\" is given more than once")));
        }
        cursor.expect_token(&Token::Eq)?;
        let value = value(cursor, &name)?;
        options.push((name, value));
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(options)
}

/// A literal, as text.
fn option_value(cursor: &mut Cursor<'_>) -> Result<String> {
    let interval = cursor.accept(&["INTERVAL"]);
    if cursor.at(&["NULL"]) {
        return Err(cursor.unexpected());
    }
    let mut text = match cursor.literal()? {
        Literal::String(text) => text,
        Literal::Number(text) if !interval => text,
        Literal::Boolean(value) if !interval => value.to_string(),
        Literal::Parameter | Literal::Null => String::new(),
        Literal::Number(_) | Literal::Boolean(_) => return Err(cursor.unexpected()),
    };
    if interval && let Some(unit) = cursor.accept_one_of(&["DAY", "HOUR", "MINUTE", "SECOND"]) {
        text = format!("{text} {}", unit.to_lowercase());
    }
    Ok(text)
}

/// `FORMAT PLAIN ENCODE ...`
fn encode(cursor: &mut Cursor<'_>) -> Result<Encode> {
    const HINT: &str = "FORMAT PLAIN ENCODE JSON works: each message is one JSON object with the columns' names as \
        keys. So does ENCODE BYTES: each message goes into one bytea column as it is.";
    const FORMATS: [&str; 8] = ["PLAIN", "UPSERT", "DEBEZIUM", "DEBEZIUM_MONGO", "MAXWELL", "CANAL", "NATIVE", "NONE"];
    const ENCODES: [&str; 9] = ["JSON", "BYTES", "AVRO", "PROTOBUF", "CSV", "PARQUET", "TEXT", "NATIVE", "NONE"];
    if cursor.at(&["ROW", "FORMAT"]) {
        return Err(unsupported::error("ROW FORMAT", HINT));
    }
    cursor.expect(&["FORMAT"])?;
    let format = cursor.one_of(&FORMATS)?;
    if format != "PLAIN" {
        return Err(unsupported::error(&format!("FORMAT {format}"), HINT));
    }
    cursor.expect(&["ENCODE"])?;
    let word = cursor.one_of(&ENCODES)?;
    let encode = match word {
        "JSON" => Encode::Json,
        "BYTES" => Encode::Bytes,
        other => return Err(unsupported::error(&format!("ENCODE {other}"), HINT)),
    };
    if cursor.peek(0) == Some(&Token::LParen) {
        return Err(unsupported::error(&format!("an option of ENCODE {word}"), "Leave the brackets away."));
    }
    Ok(encode)
}

/// The value of an option of CREATE MATERIALIZED VIEW.
enum ViewOption {
    RateLimit(RateLimit),
    Order(Vec<(String, String)>),
}

fn view(cursor: &mut Cursor<'_>) -> Result<CreateView> {
    cursor.form = Some(VIEW);
    let if_not_exists = cursor.accept(&["IF", "NOT", "EXISTS"]);
    let name = cursor.new_relation()?;
    if cursor.peek(0) == Some(&Token::LParen) {
        return Err(unsupported::error(
            "a list of columns in CREATE MATERIALIZED VIEW",
            "Name them in the query: SELECT x AS a, y AS b.",
        ));
    }
    let options = if cursor.accept(&["WITH"]) { options(cursor, view_option)? } else { Vec::new() };
    cursor.expect(&["AS"])?;
    let from = cursor.index();
    let query = query::query(cursor)?;
    let query_text = cursor.fragment.between(from, cursor.index()).to_owned();
    refuse_after_query(cursor)?;
    let definition = cursor.fragment.as_written().to_owned();
    let mut view = CreateView {
        if_not_exists,
        name,
        backfill_rate_limit: None,
        backfill_order: Vec::new(),
        query,
        query_text,
        definition,
    };
    for (_, option) in options {
        match option {
            ViewOption::RateLimit(limit) => view.backfill_rate_limit = Some(limit),
            ViewOption::Order(order) => view.backfill_order = order,
        }
    }
    Ok(view)
}

fn refuse_after_query(cursor: &Cursor<'_>) -> Result<()> {
    // sqlparser may have taken EMIT for an alias.
    if cursor.at(&["EMIT"]) || cursor.at(&["ON", "WINDOW"]) {
        return Err(unsupported::error(
            "EMIT ON WINDOW CLOSE",
            "Leave it away: a view shows each row at its checkpoint.",
        ));
    }
    if cursor.at(&["WITH"]) {
        return Err(unsupported::error(
            "WITH [NO] DATA",
            "Leave it away: a view backfills by itself, WITH (backfill_rate_limit = 0) creates it paused.",
        ));
    }
    cursor.expect_end()
}

fn view_option(cursor: &mut Cursor<'_>, name: &str) -> Result<ViewOption> {
    match name {
        "backfill_rate_limit" => rate_limit(cursor, "option \"backfill_rate_limit\"").map(ViewOption::RateLimit),
        "backfill_order" => backfill_order(cursor).map(ViewOption::Order),
        _ => Err(Error::UnknownOption {
            name: name.into(),
            of: "materialized views".into(),
            nearest: nearest(name, VIEW_OPTIONS),
            known: VIEW_OPTIONS.to_vec(),
        }),
    }
}

/// A rate limit of `what`.
pub(super) fn rate_limit(cursor: &mut Cursor<'_>, what: &str) -> Result<RateLimit> {
    if cursor.accept(&["DEFAULT"]) {
        return Ok(RateLimit::Unlimited);
    }
    if let Some(Token::SingleQuotedString(text)) = cursor.peek(0)
        && text.trim().eq_ignore_ascii_case("default")
    {
        cursor.literal()?;
        return Ok(RateLimit::Unlimited);
    }
    let rows: u32 = cursor.integer(what, RATE_LIMITS)?;
    if rows > MAX_RATE_LIMIT {
        return Err(Error::InvalidValue { what: what.into(), value: rows.to_string(), allowed: RATE_LIMITS.into() });
    }
    Ok(RateLimit::RowsPerSecond(rows))
}

fn backfill_order(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>> {
    const HINT: &str = "Name it: backfill_order = FIXED(first -> then), or leave the option away for no order.";
    if let Some(word) = cursor.accept_one_of(&["AUTO", "NONE", "DEFAULT"]) {
        return Err(unsupported::error(&format!("backfill_order = {word}"), HINT));
    }
    cursor.form = Some("backfill_order = FIXED(first -> then, ...)");
    cursor.expect(&["FIXED"])?;
    cursor.expect_token(&Token::LParen)?;
    let order = cursor.list(|cursor| {
        let first = cursor.relation("relation")?;
        cursor.expect_token(&Token::Arrow)?;
        Ok((first, cursor.relation("relation")?))
    })?;
    cursor.expect_token(&Token::RParen)?;
    cursor.form = Some(VIEW);
    Ok(order)
}

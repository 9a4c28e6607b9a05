//! The `INCLUDE`s of `CREATE SOURCE`.
//!
//! Names and types of their columns are RisingWave's, with one exception: all headers together are `jsonb`, where
//! RisingWave has an array of structs, which few clients can read.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Literal};
use super::{create, types, unsupported};
use crate::command::ast::{ColumnDef, ColumnType};
use crate::error::{Error, Result};
use crate::store::format::Include;

const PARTS: [&str; 5] = ["KEY", "PARTITION", "OFFSET", "TIMESTAMP", "HEADER"];

/// What RisingWave can include and Tidegate can't.
const OTHERS: [&str; 8] =
    ["PAYLOAD", "SUBJECT", "FILE", "DATABASE_NAME", "SCHEMA_NAME", "TABLE_NAME", "COLLECTION_NAME", "HEADERS"];

/// `INCLUDE part [AS column]`, any number of them. Adds their columns.
pub(super) fn includes(cursor: &mut Cursor<'_>, columns: &mut Vec<ColumnDef>) -> Result<Vec<Include>> {
    let mut includes = Vec::new();
    while cursor.accept(&["INCLUDE"]) {
        if let Some(other) = cursor.accept_one_of(&OTHERS) {
            return Err(unsupported(other));
        }
        let word = cursor.one_of(&PARTS)?;
        let (include, mut name, data_type) = part(cursor, word)?;
        if cursor.accept(&["AS"]) {
            name = cursor.name()?;
        }
        create::add_column(columns, ColumnDef { name, data_type })?;
        includes.push(include);
    }
    Ok(includes)
}

/// What stands behind `INCLUDE`: the part, and its column's name without an `AS`, and type.
fn part(cursor: &mut Cursor<'_>, word: &str) -> Result<(Include, String, ColumnType)> {
    let default_name = format!("_rw_kafka_{}", word.to_lowercase());
    Ok(match word {
        "KEY" => (Include::Key, default_name, ColumnType::Bytea),
        "PARTITION" => (Include::Partition, default_name, ColumnType::Varchar),
        "OFFSET" => (Include::Offset, default_name, ColumnType::Varchar),
        "TIMESTAMP" => (Include::Timestamp, default_name, ColumnType::Timestamptz),
        _ => match cursor.accept_literal() {
            None => (Include::Headers, default_name, ColumnType::Jsonb),
            Some(Literal::String(header)) => {
                let (data_type, suffix) = header_type(cursor)?;
                let name = format!("{default_name}_{header}{suffix}");
                (Include::Header(header), name, data_type)
            }
            Some(Literal::Parameter) => (Include::Header(String::new()), default_name, header_type(cursor)?.0),
            Some(_) => {
                let message = "the name of a header is a string: INCLUDE HEADER 'name'".to_owned();
                return Err(cursor.error_at(cursor.index().saturating_sub(1), message));
            }
        },
    })
}

/// The type of one header's column, with what a type that is named adds to the column's name.
fn header_type(cursor: &mut Cursor<'_>) -> Result<(ColumnType, &'static str)> {
    let behind = cursor.peek_word(0).map(str::to_ascii_uppercase);
    if !matches!(cursor.peek(0), Some(Token::Word(_)))
        || behind.is_some_and(|word| ["AS", "INCLUDE", "WITH", "FORMAT"].contains(&word.as_str()))
    {
        return Ok((ColumnType::Bytea, ""));
    }
    match types::column_type(cursor)? {
        ColumnType::Bytea => Ok((ColumnType::Bytea, "_bytea")),
        ColumnType::Varchar => Ok((ColumnType::Varchar, "_varchar")),
        other => Err(unsupported::error(
            &format!("type {other} for a header"),
            "Use bytea or varchar, and cast it in the materialized view.",
        )),
    }
}

fn unsupported(word: &str) -> Error {
    let hint = match word {
        "PAYLOAD" => "Name the columns of the value, or use ENCODE BYTES to have the value as it is.",
        "HEADERS" => "INCLUDE HEADER gives all of them, INCLUDE HEADER 'name' one.",
        "FILE" => "The split of a row is there already: SELECT _split FROM the materialized view.",
        _ => "Kafka's messages have KEY, PARTITION, OFFSET, TIMESTAMP and HEADER.",
    };
    unsupported::error(&format!("INCLUDE {word}"), hint)
}

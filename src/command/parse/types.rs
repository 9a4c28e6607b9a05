//! The types of a source's columns, in all spellings of PostgreSQL and RisingWave.

use datafusion::sql::sqlparser::ast::{DataType, ExactNumberInfo, TimezoneInfo};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::unsupported;
use crate::command::ast::ColumnType;
use crate::error::{Error, Result};

const SUPPORTED: &str = "Supported types: boolean, smallint, integer, bigint, real, double precision, numeric, \
    varchar, date, timestamp, timestamptz, jsonb, bytea.";

/// Reads a type.
pub(super) fn column_type(cursor: &mut Cursor<'_>) -> Result<ColumnType> {
    let from = cursor.index();
    if !matches!(cursor.peek(0), Some(Token::Word(_))) {
        return Err(cursor.unexpected());
    }
    // sqlparser reads the nested types of other systems only in their dialects.
    if cursor.peek(1) == Some(&Token::Lt)
        && let Some(word) = cursor.peek_word(0)
    {
        return Err(unsupported_type(&format!("{}<...>", word.to_ascii_lowercase())));
    }
    let parsed = cursor.sqlparser(Parser::parse_data_type)?;
    let written = cursor.fragment.between(from, cursor.index());
    from_sql(&parsed, written)
}

fn from_sql(parsed: &DataType, written: &str) -> Result<ColumnType> {
    Ok(match parsed {
        DataType::Boolean | DataType::Bool => ColumnType::Boolean,
        DataType::SmallInt(None) | DataType::Int2(None) => ColumnType::SmallInt,
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => ColumnType::Integer,
        DataType::BigInt(None) | DataType::Int8(None) => ColumnType::BigInt,
        DataType::Real | DataType::Float4 => ColumnType::Real,
        DataType::DoublePrecision | DataType::Float8 => ColumnType::DoublePrecision,
        DataType::Double(ExactNumberInfo::None) | DataType::Float(ExactNumberInfo::None) => ColumnType::DoublePrecision,
        DataType::Float(ExactNumberInfo::Precision(1..=24)) => ColumnType::Real,
        DataType::Float(ExactNumberInfo::Precision(25..=53)) => ColumnType::DoublePrecision,
        DataType::Numeric(ExactNumberInfo::None)
        | DataType::Decimal(ExactNumberInfo::None)
        | DataType::Dec(ExactNumberInfo::None) => ColumnType::Numeric,
        DataType::Varchar(None)
        | DataType::CharacterVarying(None)
        | DataType::CharVarying(None)
        | DataType::Text
        | DataType::String(None) => ColumnType::Varchar,
        DataType::Date => ColumnType::Date,
        DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ColumnType::Timestamp,
        DataType::Timestamp(None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => ColumnType::Timestamptz,
        DataType::JSONB => ColumnType::Jsonb,
        DataType::Bytea => ColumnType::Bytea,
        DataType::Custom(name, modifiers) if modifiers.is_empty() => return Err(unknown(&name.to_string())),
        _ => return Err(modified(parsed).unwrap_or_else(|| unsupported_type(written))),
    })
}

/// The error for a supported type with a limit that would not be kept.
fn modified(parsed: &DataType) -> Option<Error> {
    let plain = match parsed {
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar",
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric",
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => "timestamp",
        DataType::Timestamp(..) => "timestamptz",
        _ => return None,
    };
    Some(unsupported::error(
        &format!("a length or precision of type {plain}"),
        &format!("Write {plain} alone, and cast to it in the materialized view."),
    ))
}

fn unsupported_type(written: &str) -> Error {
    unsupported::error(&format!("type {written} in a source"), SUPPORTED)
}

/// PostgreSQL has more types than sqlparser has names for.
fn unknown(name: &str) -> Error {
    const OTHERS: &str = "box cidr circle citext hstore inet int128 int256 int4range int8range line lseg macaddr \
        macaddr8 money name numrange oid path point polygon regtype rw_int256 tsrange tstzrange uint256 xml struct map";
    let lowered = name.to_ascii_lowercase();
    match lowered.strip_prefix("pg_catalog.").unwrap_or(&lowered) {
        known if OTHERS.split_ascii_whitespace().any(|other| other == known) => unsupported_type(name),
        _ => Error::UndefinedType { name: name.into(), supported: SUPPORTED },
    }
}

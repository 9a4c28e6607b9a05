//! Parameters: from the bytes of a Bind message to the values of a plan.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate};
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pgwire::api::Type;
use postgres_types::Kind;

use super::encode::{self, read_numeric};
use crate::catalog::types;
use crate::error::{Error, Result};

/// The value of a parameter; None is NULL.
#[derive(Debug, Clone)]
pub(super) struct Param(Option<Raw>);

#[derive(Debug, Clone)]
enum Raw {
    Text(String),
    Scalar(ScalarValue),
}

impl Param {
    /// From a Bind message. `number` is for its errors.
    pub fn new(bytes: Option<&[u8]>, format: i16, pg_type: &Type, number: usize) -> Result<Self> {
        let Some(bytes) = bytes else { return Ok(Self(None)) };
        if format == 0 {
            return Ok(Self(Some(Raw::Text(utf8(bytes)?.to_owned()))));
        }
        let raw = binary(bytes, pg_type)?.ok_or_else(|| Error::Data {
            sqlstate: "22P03",
            message: format!("incorrect binary data format in bind parameter {number}"),
        })?;
        Ok(Self(Some(raw)))
    }

    /// From text.
    pub fn text(text: Option<&str>) -> Self {
        Self(text.map(|text| Raw::Text(text.to_owned())))
    }

    /// As text.
    pub fn to_text(&self) -> Result<Option<String>> {
        match &self.0 {
            None => Ok(None),
            Some(Raw::Text(text)) => Ok(Some(text.clone())),
            Some(Raw::Scalar(scalar)) => encode::scalar_text(scalar).map(Some),
        }
    }

    fn value(&self, target: &DataType, time_zone: &str) -> Result<ScalarValue> {
        match &self.0 {
            None => ScalarValue::try_from(target).map_err(super::errors::from_datafusion),
            Some(Raw::Text(text)) => from_text(text, target, time_zone),
            Some(Raw::Scalar(scalar)) => scalar.cast_to(target).map_err(super::errors::from_datafusion),
        }
    }
}

/// The values of all parameters, as the types that the plan takes them as.
pub(super) fn values(params: &[Param], targets: &[Option<DataType>], time_zone: &str) -> Result<ParamValues> {
    let values = params.iter().zip(targets);
    let values = values.map(|(param, target)| param.value(target.as_ref().unwrap_or(&DataType::Utf8), time_zone));
    Ok(ParamValues::from(values.collect::<Result<Vec<ScalarValue>>>()?))
}

/// The type of an oid in a Parse message. None: the server is to find out.
pub(super) fn type_by_oid(oid: u32) -> Result<Option<Type>> {
    match oid {
        0 | 705 => Ok(None),
        oid => Type::from_oid(oid).map(Some).ok_or_else(|| Error::Semantics {
            sqlstate: "42704",
            message: format!("type with OID {oid} does not exist"),
        }),
    }
}

/// The type of a name in PREPARE. None: the server is to find out.
pub(super) fn type_by_name(name: &str) -> Result<Option<Type>> {
    let folded = name.to_lowercase();
    let folded = folded.trim().trim_start_matches("pg_catalog.");
    let (item, is_array) = match folded.split_once('[') {
        Some((item, _)) => (item.trim(), true),
        None => (folded, false),
    };
    // A length or precision doesn't bind a parameter.
    let bare = match (item.find('('), item.rfind(')')) {
        (Some(open), Some(close)) if open < close => format!("{}{}", item[..open].trim_end(), &item[close + 1..]),
        _ => item.to_owned(),
    };
    if bare == "unknown" {
        return Ok(None);
    }
    let bare = match &*bare {
        // A type that a keyword would hide.
        quoted if quoted.starts_with('"') => quoted.trim_matches('"'),
        "char" => "bpchar",
        "int" => "int4",
        "float" => "float8",
        "decimal" | "dec" => "numeric",
        "character" => "bpchar",
        other => NAMES
            .iter()
            .find(|(_, sql, shown)| sql.eq_ignore_ascii_case(other) || *shown == other)
            .map_or(other, |(known, ..)| known.name()),
    };
    let whole = if is_array { format!("{bare}[]") } else { bare.to_owned() };
    types::by_name(&whole)
        .and_then(|known| Type::from_oid(known.oid))
        .map(Some)
        .ok_or_else(|| Error::Semantics { sqlstate: "42704", message: format!("type \"{name}\" does not exist") })
}

/// Type, name in a cast, name in messages.
const NAMES: &[(Type, &str, &str)] = &[
    (Type::BOOL, "BOOLEAN", "boolean"),
    (Type::INT2, "SMALLINT", "smallint"),
    (Type::INT4, "INTEGER", "integer"),
    (Type::INT8, "BIGINT", "bigint"),
    (Type::FLOAT4, "REAL", "real"),
    (Type::FLOAT8, "DOUBLE PRECISION", "double precision"),
    (Type::NUMERIC, "NUMERIC", "numeric"),
    (Type::DATE, "DATE", "date"),
    (Type::TIME, "TIME", "time"),
    (Type::TIMESTAMP, "TIMESTAMP", "timestamp"),
    (Type::TIMESTAMPTZ, "TIMESTAMP WITH TIME ZONE", "timestamp with time zone"),
    (Type::INTERVAL, "INTERVAL", "interval"),
    (Type::BYTEA, "BYTEA", "bytea"),
    (Type::TEXT, "TEXT", "text"),
    (Type::VARCHAR, "VARCHAR", "character varying"),
];

/// A type as messages name it.
pub(super) fn type_name(pg_type: &Type) -> String {
    if let Kind::Array(item) = pg_type.kind() {
        return format!("{}[]", type_name(item));
    }
    NAMES.iter().find(|(known, ..)| known == pg_type).map_or(pg_type.name(), |(.., name)| name).to_owned()
}

/// The type to cast a parameter to that the client has declared so. None where the value is text, and fits by itself
/// what it is compared with.
pub(super) fn sql_type(pg_type: &Type) -> Option<ast::DataType> {
    let name = match pg_type.kind() {
        Kind::Array(item) => format!("{}[]", NAMES.iter().find(|(known, ..)| known == item)?.1),
        _ if matches!(*pg_type, Type::TEXT | Type::VARCHAR) => return None,
        _ => NAMES.iter().find(|(known, ..)| known == pg_type)?.1.to_owned(),
    };
    Parser::new(&PostgreSqlDialect {}).try_with_sql(&name).ok()?.parse_data_type().ok()
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
        Error::Data { sqlstate: "22021", message }
    })
}

/// Days, and microseconds, from 1970 to 2000, where PostgreSQL counts from.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// PostgreSQL has 24:00:00 too.
const DAY_MICROS: i64 = 86_400_000_000;

/// Reads the binary format. None when the bytes aren't a value of the type.
fn binary(bytes: &[u8], pg_type: &Type) -> Result<Option<Raw>> {
    use ScalarValue as S;
    let i64 = || bytes.try_into().ok().map(i64::from_be_bytes);
    let i32 = || bytes.try_into().ok().map(i32::from_be_bytes);
    let scalar = match *pg_type {
        Type::BOOL => (bytes.len() == 1).then(|| S::from(bytes[0] != 0)),
        Type::INT2 => bytes.try_into().ok().map(|bytes| S::from(i16::from_be_bytes(bytes))),
        Type::INT4 => i32().map(S::from),
        Type::INT8 => i64().map(S::from),
        Type::OID | Type::XID | Type::REGCLASS | Type::REGTYPE | Type::REGPROC => {
            i32().map(|oid| S::from(i64::from(oid as u32)))
        }
        Type::FLOAT4 => bytes.try_into().ok().map(|bytes| S::from(f32::from_be_bytes(bytes))),
        Type::FLOAT8 => bytes.try_into().ok().map(|bytes| S::from(f64::from_be_bytes(bytes))),
        Type::BYTEA => Some(S::Binary(Some(bytes.to_vec()))),
        Type::DATE => i32().map(date).transpose()?.map(|days| S::Date32(Some(days))),
        Type::TIME => i64().map(time).transpose()?.map(|micros| S::Time64Microsecond(Some(micros))),
        Type::TIMESTAMP => i64().map(timestamp).transpose()?.map(|micros| S::TimestampMicrosecond(Some(micros), None)),
        Type::TIMESTAMPTZ => {
            i64().map(timestamp).transpose()?.map(|micros| S::TimestampMicrosecond(Some(micros), Some("+00:00".into())))
        }
        Type::INTERVAL => interval(bytes),
        Type::NUMERIC => return Ok(read_numeric(bytes).map(Raw::Text)),
        Type::UUID => return Ok(uuid(bytes).map(Raw::Text)),
        Type::JSONB => return Ok(Some(Raw::Text(utf8(bytes.strip_prefix(&[1]).unwrap_or(bytes))?.to_owned()))),
        _ => match pg_type.kind() {
            Kind::Array(item) => return array(bytes, item).map(|text| text.map(Raw::Text)),
            _ => return Ok(Some(Raw::Text(utf8(bytes)?.to_owned()))),
        },
    };
    Ok(scalar.map(Raw::Scalar))
}

/// Days since 1970. Only those of a calendar that goes so far: what follows may count on them.
fn date(days: i32) -> Result<i32> {
    if matches!(days, i32::MIN | i32::MAX) {
        return Err(infinite("date", days < 0));
    }
    let days = days.checked_add(EPOCH_DAYS).filter(|days| NaiveDate::from_epoch_days(*days).is_some());
    days.ok_or_else(|| beyond("date"))
}

/// Microseconds since midnight.
fn time(micros: i64) -> Result<i64> {
    (0..=DAY_MICROS).contains(&micros).then_some(micros).ok_or_else(|| beyond("time"))
}

/// Microseconds since 1970, of the same calendar as dates.
fn timestamp(micros: i64) -> Result<i64> {
    if matches!(micros, i64::MIN | i64::MAX) {
        return Err(infinite("timestamp", micros < 0));
    }
    let micros = micros.checked_add(EPOCH_MICROS).filter(|micros| DateTime::from_timestamp_micros(*micros).is_some());
    micros.ok_or_else(|| beyond("timestamp"))
}

fn beyond(name: &str) -> Error {
    Error::Data { sqlstate: "22008", message: format!("{name} out of range") }
}

/// As its text form is refused.
fn infinite(name: &str, is_negative: bool) -> Error {
    let sign = if is_negative { "-" } else { "" };
    Error::FeatureNotSupported {
        what: format!("the {name} \"{sign}infinity\""),
        hint: "Use a date that is far enough away.".into(),
    }
}

fn interval(bytes: &[u8]) -> Option<ScalarValue> {
    let micros = i64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let days = i32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
    let months = i32::from_be_bytes(bytes.get(12..16)?.try_into().ok()?);
    Some(ScalarValue::new_interval_mdn(months, days, micros.checked_mul(1_000)?))
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [hex.get(..8)?, hex.get(8..12)?, hex.get(12..16)?, hex.get(16..20)?, hex.get(20..32)?];
    (bytes.len() == 16).then(|| parts.join("-"))
}

/// Reads an array of one dimension, into its text form.
fn array(bytes: &[u8], item: &Type) -> Result<Option<String>> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_be_bytes);
    let (Some(dimensions), Some(_), Some(_)) = (word(0), word(4), word(8)) else { return Ok(None) };
    if dimensions == 0 {
        return Ok(Some("{}".into()));
    }
    if dimensions != 1 {
        return Err(several_dimensions());
    }
    let Some(length) = word(12) else { return Ok(None) };
    let mut at = 20;
    let mut items = Vec::new();
    for _ in 0..length {
        let Some(size) = word(at) else { return Ok(None) };
        at += 4;
        let Ok(size) = usize::try_from(size) else {
            items.push("NULL".to_owned());
            continue;
        };
        let Some(value) = bytes.get(at..at + size) else { return Ok(None) };
        at += size;
        let Some(value) = binary(value, item)? else { return Ok(None) };
        let text = Param(Some(value)).to_text()?.unwrap_or_default();
        items.push(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    Ok(Some(format!("{{{}}}", items.join(","))))
}

/// Reads the text form of a type, as PostgreSQL's input functions do.
pub(super) fn from_text(text: &str, target: &DataType, time_zone: &str) -> Result<ScalarValue> {
    use ScalarValue as S;
    let trimmed = text.trim();
    match target {
        DataType::Utf8 | DataType::Null => Ok(S::Utf8(Some(text.to_owned()))),
        DataType::LargeUtf8 => Ok(S::LargeUtf8(Some(text.to_owned()))),
        DataType::Utf8View => Ok(S::Utf8View(Some(text.to_owned()))),
        DataType::Boolean => parse_bool(trimmed).map(S::from).ok_or_else(|| bad_input(text, target)),
        whole if whole.is_integer() => {
            let number: i128 = trimmed.parse().map_err(|_| bad_input(text, target))?;
            let number = i64::try_from(number).map_err(|_| out_of_range(text, target))?;
            S::from(number).cast_to(whole).map_err(|_| out_of_range(text, target))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = parse_bytea(trimmed).ok_or_else(|| bad_input(text, target))?;
            S::Binary(Some(bytes)).cast_to(target).map_err(super::errors::from_datafusion)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let nested = trimmed.strip_prefix('{').is_some_and(|inner| inner.trim_start().starts_with('{'));
            if nested && !matches!(item.data_type(), DataType::List(_)) {
                return Err(several_dimensions());
            }
            let items = parse_array(trimmed).ok_or_else(|| malformed_array(text))?;
            let items = items.iter().map(|value| match value {
                Some(value) => from_text(value, item.data_type(), time_zone),
                None => S::try_from(item.data_type()).map_err(super::errors::from_datafusion),
            });
            let list = S::List(S::new_list_nullable(&items.collect::<Result<Vec<_>>>()?, item.data_type()));
            list.cast_to(target).map_err(super::errors::from_datafusion)
        }
        DataType::Interval(_) => crate::catalog::interval(trimmed),
        // Without an offset, a time is one of the session's zone.
        DataType::Timestamp(_, Some(_)) => {
            let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(time_zone.into()));
            cast_text(trimmed, &zoned, target)?.cast_to(target).map_err(super::errors::from_datafusion)
        }
        other => cast_text(trimmed, other, target),
    }
}

fn cast_text(text: &str, to: &DataType, target: &DataType) -> Result<ScalarValue> {
    let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let array = cast_with_options(&array, to, &options).map_err(|_| bad_input(text, target))?;
    ScalarValue::try_from_array(&array, 0).map_err(super::errors::from_datafusion)
}

fn name_of(target: &DataType) -> String {
    encode::pg_type(&Arc::new(Field::new("", target.clone(), true)))
        .map_or_else(|_| target.to_string(), |pg_type| type_name(&pg_type))
}

/// What PostgreSQL says of a text that isn't a value of the type.
pub(super) fn bad_input(text: &str, target: &DataType) -> Error {
    let sqlstate = if target.is_temporal() { "22007" } else { "22P02" };
    Error::Data { sqlstate, message: format!("invalid input syntax for type {}: \"{text}\"", name_of(target)) }
}

fn out_of_range(text: &str, target: &DataType) -> Error {
    Error::Data { sqlstate: "22003", message: format!("value \"{text}\" is out of range for type {}", name_of(target)) }
}

fn several_dimensions() -> Error {
    Error::FeatureNotSupported {
        what: "a parameter that is an array of several dimensions".into(),
        hint: "Send its rows one by one.".into(),
    }
}

fn malformed_array(text: &str) -> Error {
    Error::Data { sqlstate: "22P02", message: format!("malformed array literal: \"{text}\"") }
}

fn parse_bool(text: &str) -> Option<bool> {
    super::setting_table::parse_bool(text)
}

fn parse_bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        return digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(pair).collect())?;
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'\\')) => {
                out.push(b'\\');
                at += 2;
            }
            (b'\\', _) => {
                let octal = text.get(at + 1..at + 4)?;
                out.push(u8::from_str_radix(octal, 8).ok()?);
                at += 4;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Some(out)
}

/// The elements of an array's text form; those of an inner array as its text. None if it isn't one.
fn parse_array(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Some(items);
    }
    loop {
        let (mut item, mut quoted, mut depth) = (String::new(), false, 0_usize);
        while let Some(c) = chars.peek().copied().filter(|c| *c != ',' || depth > 0) {
            chars.next();
            match c {
                '"' if depth == 0 => {
                    quoted = true;
                    loop {
                        match chars.next()? {
                            '"' => break,
                            '\\' => item.push(chars.next()?),
                            c => item.push(c),
                        }
                    }
                }
                '\\' => item.push(chars.next()?),
                c => {
                    match c {
                        '{' => depth += 1,
                        '}' => depth = depth.checked_sub(1)?,
                        _ => {}
                    }
                    item.push(c);
                }
            }
        }
        let plain = item.trim();
        items.push(match (quoted, plain) {
            (true, _) => Some(item),
            (false, "") => return None,
            (false, null) if null.eq_ignore_ascii_case("null") => None,
            (false, plain) => Some(plain.to_owned()),
        });
        if chars.next().is_none() {
            return Some(items);
        }
    }
}

#[cfg(test)]
mod tests;

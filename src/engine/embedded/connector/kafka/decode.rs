//! Messages to Arrow rows.
//!
//! The columns of the value come first: those of a JSON object (see [`json`]), or with `ENCODE BYTES` the one column that
//! takes it as it is. Behind them is one column for every `INCLUDE`:
//!
//! | `INCLUDE` | type | holds |
//! |---|---|---|
//! | `KEY` | bytea | the key; NULL without one |
//! | `PARTITION`, `OFFSET` | text | the number, in decimal, as in RisingWave |
//! | `TIMESTAMP` | timestamptz | when the message was made or appended, whichever its topic keeps; NULL if neither |
//! | `HEADER` | jsonb | `[{"key": "h", "value": "\\x00ff"}, ...]`, in order; a value in hexadecimal, or null |
//! | `HEADER 'h'` | bytea, text | the value of the first header of that name; NULL without one |
//!
//! A message without a value (a tombstone), or with an empty one, is a row whose value columns are all NULL, as in
//! RisingWave. One that has no key either says nothing at all: it is a position without a row.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryArray, StringArray, StringBuilder, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};

use crate::backfill::id::Offset;
use crate::engine::embedded::columns::{self, TIME_ZONE};
use crate::engine::embedded::connector::json::{self, Decoded};
use crate::error::{Error, Result};
use crate::store::format::{Encode, Include, MessageFormat};

/// One message of a partition.
#[derive(Debug, Clone, Default)]
pub struct Message<'a> {
    /// Its offset.
    pub offset: i64,
    /// Its partition.
    pub partition: i32,
    /// Its time in milliseconds since 1970 UTC, if it has one.
    pub timestamp_millis: Option<i64>,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub payload: Option<&'a [u8]>,
    /// Its headers, in order. May be left empty unless [`Decoder::wants_headers`].
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

/// Turns messages into rows of one source.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    value: Value,
    include: Vec<Include>,
}

/// Who reads a message's value.
#[derive(Debug)]
enum Value {
    Json(json::Decoder),
    Bytes,
}

impl Decoder {
    /// A decoder for the columns of a source: those of the value, then one for every `INCLUDE`.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when `ENCODE BYTES` doesn't have exactly one column, a bytea; [`Error::Internal`] when the
    /// columns aren't those of `format`.
    pub fn new(schema: SchemaRef, format: &MessageFormat) -> Result<Self> {
        let values = schema.fields().len().checked_sub(format.include.len());
        let (of_value, included) = values
            .and_then(|values| schema.fields().split_at_checked(values))
            .ok_or_else(|| Error::Internal("a source has more INCLUDEs than columns".into()))?;
        for (field, include) in included.iter().zip(&format.include) {
            if !matches(include, columns::pg_type(field)) {
                return Err(Error::Internal(format!("column {field} can't hold {include:?}")));
            }
        }
        let value = match format.encode {
            Encode::Json => Value::Json(json::Decoder::new(Arc::new(Schema::new(of_value.to_vec())))?),
            Encode::Bytes if matches!(of_value, [only] if *only.data_type() == DataType::Binary) => Value::Bytes,
            Encode::Bytes => {
                let found = of_value.iter().filter_map(|field| {
                    columns::pg_type(field).map(|pg| format!("{} {}", field.name(), columns::sql_name(pg)))
                });
                return Err(Error::InvalidValue {
                    what: "the columns of ENCODE BYTES".into(),
                    value: found.collect::<Vec<_>>().join(", "),
                    allowed: "exactly one column, of type bytea".into(),
                });
            }
        };
        Ok(Self { schema, value, include: format.include.clone() })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether a column needs [`Message::headers`].
    pub fn wants_headers(&self) -> bool {
        self.include.iter().any(|include| matches!(include, Include::Headers | Include::Header(_)))
    }

    /// Reads messages of one partition, in offset order. A message that is neither among the rows nor bad is a position
    /// without a row.
    pub fn decode(&self, messages: &[Message<'_>]) -> Decoded {
        let rows: Vec<&Message<'_>> =
            messages.iter().filter(|message| message.key.is_some() || message.payload.is_some()).collect();
        let payloads: Vec<(Offset, &[u8])> =
            rows.iter().map(|message| (Offset(message.offset), message.payload.unwrap_or_default())).collect();
        let (mut arrays, mut errors) = match &self.value {
            Value::Bytes => {
                let array: BinaryArray = rows.iter().map(|message| message.payload).collect();
                (vec![Arc::new(array) as ArrayRef], BTreeMap::new())
            }
            Value::Json(decoder) => {
                let lines: Vec<(Offset, &[u8])> =
                    payloads.iter().map(|(offset, payload)| (*offset, object(payload))).collect();
                decoder.arrays(&lines)
            }
        };
        let first = arrays.len();
        for (include, field) in self.include.iter().zip(&self.schema.fields()[first..]) {
            arrays.push(match include {
                Include::Header(name) if *field.data_type() == DataType::Utf8 => {
                    header_text(&rows, name, field.name(), &mut errors)
                }
                include => included(&rows, include),
            });
        }
        json::finish(&self.schema, arrays, errors, &payloads)
    }
}

/// Whether a column of a type can hold a part of a message.
fn matches(include: &Include, pg: Option<&str>) -> bool {
    let types: &[&str] = match include {
        Include::Key => &["bytea"],
        Include::Partition | Include::Offset => &["text"],
        Include::Timestamp => &["timestamptz"],
        Include::Headers => &["jsonb"],
        Include::Header(_) => &["bytea", "text"],
    };
    pg.is_some_and(|pg| types.contains(&pg))
}

/// The JSON of a value: nothing at all is an object without keys.
fn object(payload: &[u8]) -> &[u8] {
    if payload.is_empty() { b"{}" } else { payload }
}

fn included(rows: &[&Message<'_>], include: &Include) -> ArrayRef {
    match include {
        Include::Key => Arc::new(rows.iter().map(|row| row.key).collect::<BinaryArray>()),
        Include::Header(name) => Arc::new(rows.iter().map(|row| header(row, name)).collect::<BinaryArray>()),
        Include::Timestamp => {
            let micros = rows.iter().map(|row| row.timestamp_millis.and_then(|millis| millis.checked_mul(1_000)));
            Arc::new(micros.collect::<TimestampMicrosecondArray>().with_timezone(TIME_ZONE))
        }
        Include::Partition => texts(rows, |row, text| write!(text, "{}", row.partition)),
        Include::Offset => texts(rows, |row, text| write!(text, "{}", row.offset)),
        Include::Headers => texts(rows, headers),
    }
}

/// A text for every message.
fn texts(rows: &[&Message<'_>], write: impl Fn(&Message<'_>, &mut StringBuilder) -> std::fmt::Result) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(rows.len(), 8 * rows.len());
    for row in rows {
        write(row, &mut builder).expect("memory takes any text");
        builder.append_value("");
    }
    Arc::new(builder.finish())
}

fn headers(row: &Message<'_>, text: &mut StringBuilder) -> std::fmt::Result {
    text.write_char('[')?;
    for (nth, (key, value)) in row.headers.iter().enumerate() {
        let comma = if nth == 0 { "" } else { ", " };
        write!(text, "{comma}{{\"key\": {}, \"value\": ", serde_json::Value::from(*key))?;
        match value {
            None => text.write_str("null}")?,
            Some(value) => {
                text.write_str("\"\\\\x")?;
                value.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
                text.write_str("\"}")?;
            }
        }
    }
    text.write_char(']')
}

/// The value of the first header of a name.
fn header<'a>(row: &Message<'a>, name: &str) -> Option<&'a [u8]> {
    row.headers.iter().find(|(key, _)| *key == name).and_then(|(_, value)| *value)
}

/// The same as text. A value that isn't text makes the row a bad one.
fn header_text(rows: &[&Message<'_>], name: &str, column: &str, errors: &mut BTreeMap<usize, String>) -> ArrayRef {
    let values = rows.iter().enumerate().map(|(nth, row)| {
        let value = header(row, name)?;
        let why = match std::str::from_utf8(value) {
            Ok(text) if !text.contains('\0') => return Some(text),
            Ok(_) => "which has the character \\u0000".to_owned(),
            Err(error) => format!("which is not valid UTF-8 from byte {} on", error.valid_up_to()),
        };
        errors.entry(nth).or_insert_with(|| format!("column \"{column}\" (text): found header \"{name}\", {why}"));
        None
    });
    Arc::new(values.collect::<StringArray>())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;

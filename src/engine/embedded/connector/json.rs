//! JSON lines to Arrow rows.
//!
//! A line is one JSON object. Its keys are matched to columns exactly, or else without regard to case; keys without a
//! column are passed over, columns without a key are null. What a value may be:
//!
//! | column | JSON |
//! |---|---|
//! | bool | `true`, `false` |
//! | int2, int4, int8 | a number without a fraction in the type's range, or one as a string |
//! | float4, float8 | a number, or one as a string, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | numeric | a number or one as a string: exact, rounded to 10 digits after the point, at most 28 before it |
//! | text | a string; anything else as its JSON text |
//! | date | `"2013-01-01"` |
//! | timestamp, timestamptz | ISO 8601 with `T` or a space, with or without a zone (then UTC), or a whole number since 1970 UTC, whose size tells the unit: seconds below 10^11, milliseconds below 10^14, microseconds below 10^17, else nanoseconds |
//! | jsonb | anything, in the form that PostgreSQL gives it |
//! | bytea | a string: hexadecimal after `\x`, else its UTF-8 bytes |
//!
//! Anything else makes the line a [`BadRow`] that says which column and what was found.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanArray, BooleanBuilder, PrimitiveBuilder, RecordBatch,
    RecordBatchOptions, StringBuilder,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    TimestampMicrosecondType,
};
use serde::de::IgnoredAny;

use super::BadRow;
use crate::backfill::id::Offset;
use crate::engine::embedded::columns::{self, NUMERIC_PRECISION, NUMERIC_SCALE};
use crate::error::{Error, Result};
use crate::jsonb;

/// How much of a bad row's text is kept, in bytes.
pub const KEPT_TEXT: usize = 8 * 1024;

/// How much of a wrong value an error shows, in characters.
const SHOWN_VALUE: usize = 60;

/// Turns lines into rows of one schema.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    types: Vec<&'static str>,
    by_name: HashMap<String, usize>,
}

/// What some lines hold.
#[derive(Debug)]
pub struct Decoded {
    /// The offsets of the good rows.
    pub offsets: Vec<Offset>,
    /// The good rows.
    pub rows: RecordBatch,
    /// The others, in offset order.
    pub bad: Vec<BadRow>,
}

/// Why a value doesn't fit; the value itself is added by the caller.
type Misfit = &'static str;

impl Decoder {
    /// A decoder for the columns of a source.
    ///
    /// # Errors
    /// [`Error::Internal`] when a column has a type that [`columns::arrow_type`] doesn't give, or can't be null.
    pub fn new(schema: SchemaRef) -> Result<Self> {
        let types = schema.fields().iter().map(|field| {
            columns::pg_type(field)
                .filter(|pg| columns::arrow_type(pg).as_ref() == Some(field.data_type()) && field.is_nullable())
                .ok_or_else(|| Error::Internal(format!("column {field} can't be read from JSON")))
        });
        let types = types.collect::<Result<_>>()?;
        let by_name = schema.fields().iter().enumerate().map(|(index, field)| (field.name().clone(), index)).collect();
        Ok(Self { schema, types, by_name })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads lines, in offset order and without their line ends.
    pub fn decode(&self, lines: &[(Offset, &[u8])]) -> Decoded {
        let (arrays, errors) = self.arrays(lines);
        finish(&self.schema, arrays, errors, lines)
    }

    /// The columns of lines, and what is wrong with which of them (by their place). A wrong line has a value in every
    /// column all the same, of no meaning.
    pub(super) fn arrays(&self, lines: &[(Offset, &[u8])]) -> (Vec<ArrayRef>, BTreeMap<usize, String>) {
        let width = self.types.len();
        let mut cells: Vec<Option<&str>> = vec![None; lines.len() * width];
        let mut errors = BTreeMap::new();
        let mut order = Vec::new();
        for (row, (_, line)) in lines.iter().enumerate() {
            let cells = &mut cells[row * width..(row + 1) * width];
            if let Err(error) = self.split(line, cells, &mut order) {
                cells.fill(None);
                errors.insert(row, error);
            }
        }
        let arrays = (0..width).map(|index| {
            let mut cells = cells.iter().skip(index).step_by(width.max(1)).copied();
            self.column(index, &mut cells, lines.len(), &mut errors)
        });
        let arrays = arrays.collect();
        (arrays, errors)
    }

    /// Finds the text of each column's value. `order` remembers which column the keys of the line before had, as lines
    /// mostly have the same keys in the same order.
    fn split<'a>(
        &self,
        line: &'a [u8],
        cells: &mut [Option<&'a str>],
        order: &mut Vec<Option<usize>>,
    ) -> std::result::Result<(), String> {
        let line = std::str::from_utf8(line)
            .map_err(|error| format!("not valid UTF-8 from byte {} of the line on", error.valid_up_to()))?;
        let mut nth = 0;
        scan(line, |key, value| {
            let remembered = order.get(nth).copied().flatten();
            let index = match remembered {
                Some(index) if self.schema.field(index).name() == key => Some(index),
                _ => self.by_name.get(key).copied(),
            };
            if nth == order.len() {
                order.push(index);
            }
            if let Some(index) = index {
                cells[index] = Some(value);
            } else if let Some(index) =
                self.schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(key))
            {
                cells[index].get_or_insert(value);
            }
            nth += 1;
        })
        .map_err(|()| describe(line))
    }

    /// Builds a column; a row with a value that doesn't fit gets an error (unless it has one) and a null.
    fn column(
        &self,
        index: usize,
        cells: &mut dyn Iterator<Item = Option<&str>>,
        rows: usize,
        errors: &mut BTreeMap<usize, String>,
    ) -> ArrayRef {
        let field = self.schema.field(index);
        let pg = self.types[index];
        let mut misfit = |row: usize, value: &str, misfit: Misfit| {
            errors.entry(row).or_insert_with(|| {
                let cut: String = value.chars().take(SHOWN_VALUE).collect();
                let dots = if cut.len() < value.len() { "..." } else { "" };
                format!("column \"{}\" ({}): found {cut}{dots}{misfit}", field.name(), columns::sql_name(pg))
            });
        };
        let cells = cells.map(|cell| cell.filter(|value| *value != "null"));
        match pg {
            "bool" => {
                let mut builder = BooleanBuilder::with_capacity(rows);
                for (row, cell) in cells.enumerate() {
                    builder.append_option(convert(row, cell, boolean, &mut misfit));
                }
                Arc::new(builder.finish())
            }
            "int2" => primitive::<Int16Type>(field.data_type(), cells, rows, integer, &mut misfit),
            "int4" => primitive::<Int32Type>(field.data_type(), cells, rows, integer, &mut misfit),
            "int8" => primitive::<Int64Type>(field.data_type(), cells, rows, integer, &mut misfit),
            "float4" => primitive::<Float32Type>(field.data_type(), cells, rows, real, &mut misfit),
            "float8" => primitive::<Float64Type>(field.data_type(), cells, rows, double, &mut misfit),
            "numeric" => primitive::<Decimal128Type>(field.data_type(), cells, rows, numeric, &mut misfit),
            "date" => primitive::<Date32Type>(field.data_type(), cells, rows, date, &mut misfit),
            "timestamp" | "timestamptz" => {
                primitive::<TimestampMicrosecondType>(field.data_type(), cells, rows, timestamp, &mut misfit)
            }
            "bytea" => {
                let mut builder = BinaryBuilder::with_capacity(rows, 16 * rows);
                for (row, cell) in cells.enumerate() {
                    builder.append_option(convert(row, cell, bytes, &mut misfit));
                }
                Arc::new(builder.finish())
            }
            _ => {
                let parse = if pg == "jsonb" { json } else { text };
                let mut builder = StringBuilder::with_capacity(rows, 8 * rows);
                for (row, cell) in cells.enumerate() {
                    builder.append_option(convert(row, cell, parse, &mut misfit));
                }
                Arc::new(builder.finish())
            }
        }
    }
}

/// Rows of columns that were built for `schema`, without those that `errors` names.
pub(super) fn finish(
    schema: &SchemaRef,
    arrays: Vec<ArrayRef>,
    errors: BTreeMap<usize, String>,
    lines: &[(Offset, &[u8])],
) -> Decoded {
    let options = RecordBatchOptions::new().with_row_count(Some(lines.len()));
    let rows = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .expect("the arrays were built for this schema");
    if errors.is_empty() {
        return Decoded { offsets: lines.iter().map(|line| line.0).collect(), rows, bad: Vec::new() };
    }
    let good: Vec<bool> = (0..lines.len()).map(|row| !errors.contains_key(&row)).collect();
    Decoded {
        offsets: lines.iter().zip(&good).filter(|(_, good)| **good).map(|(line, _)| line.0).collect(),
        rows: filter_record_batch(&rows, &BooleanArray::from(good)).expect("the mask has a bit for every row"),
        bad: errors.into_iter().map(|(row, error)| bad_row(lines[row].0, error, lines[row].1)).collect(),
    }
}

/// A bad row, its text cut to what is kept.
pub fn bad_row(offset: Offset, error: String, line: &[u8]) -> BadRow {
    let mut text = String::from_utf8_lossy(&line[..line.len().min(KEPT_TEXT)]).into_owned();
    text.truncate(text.floor_char_boundary(KEPT_TEXT));
    BadRow { offset, error, text }
}

fn convert<'a, T>(
    row: usize,
    cell: Option<&'a str>,
    parse: impl Fn(&'a str) -> Result<T, Misfit>,
    misfit: &mut impl FnMut(usize, &str, Misfit),
) -> Option<T> {
    let value = cell?;
    parse(value).map_err(|why| misfit(row, value, why)).ok()
}

fn primitive<'a, T: ArrowPrimitiveType>(
    data_type: &DataType,
    cells: impl Iterator<Item = Option<&'a str>>,
    rows: usize,
    parse: impl Fn(&'a str) -> Result<T::Native, Misfit>,
    misfit: &mut impl FnMut(usize, &str, Misfit),
) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(rows).with_data_type(data_type.clone());
    for (row, cell) in cells.enumerate() {
        builder.append_option(convert(row, cell, &parse, misfit));
    }
    Arc::new(builder.finish())
}

const WRONG_TYPE: Misfit = "";
const OUT_OF_RANGE: Misfit = ", which is out of range";

/// The content of a JSON string, or the text of another scalar as it stands.
fn plain(value: &str) -> Result<Cow<'_, str>, Misfit> {
    match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => Ok(Cow::Borrowed(value)),
        Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str(value).map(Cow::Owned).map_err(|_| ", which has an invalid escape"),
    }
}

/// The content of a JSON string; `Err` for anything else.
fn string(value: &str) -> Result<Cow<'_, str>, Misfit> {
    if value.starts_with('"') { plain(value) } else { Err(WRONG_TYPE) }
}

fn boolean(value: &str) -> Result<bool, Misfit> {
    value.parse().map_err(|_| WRONG_TYPE)
}

fn integer<T: TryFrom<i64>>(value: &str) -> Result<T, Misfit> {
    let wide = match value.parse::<i64>() {
        Ok(wide) => wide,
        Err(_) => whole(plain(value)?.trim())?,
    };
    T::try_from(wide).map_err(|_| OUT_OF_RANGE)
}

/// A number without a fraction, however it is written: `1.0` and `1e3` are whole.
fn whole(text: &str) -> Result<i64, Misfit> {
    let (scaled, exact) = decimal(text)?;
    let unit = 10_i128.pow(NUMERIC_SCALE.unsigned_abs().into());
    if !exact || scaled % unit != 0 {
        return Err(WRONG_TYPE);
    }
    i64::try_from(scaled / unit).map_err(|_| OUT_OF_RANGE)
}

fn double(value: &str) -> Result<f64, Misfit> {
    if value.starts_with(['{', '[']) {
        return Err(WRONG_TYPE);
    }
    let text = plain(value)?;
    let number: f64 = text.trim().parse().map_err(|_| WRONG_TYPE)?;
    let named = text.to_ascii_lowercase().contains("inf");
    if number.is_infinite() && !named { Err(OUT_OF_RANGE) } else { Ok(number) }
}

fn real(value: &str) -> Result<f32, Misfit> {
    let wide = double(value)?;
    let number = wide as f32;
    if number.is_infinite() && wide.is_finite() { Err(OUT_OF_RANGE) } else { Ok(number) }
}

fn numeric(value: &str) -> Result<i128, Misfit> {
    Ok(decimal(plain(value)?.trim())?.0)
}

/// A number times 10^[`NUMERIC_SCALE`], rounded half away from zero, and whether nothing was lost by rounding.
fn decimal(text: &str) -> Result<(i128, bool), Misfit> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| WRONG_TYPE)?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (before, after) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = || before.bytes().chain(after.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return Err(WRONG_TYPE);
    }
    // How many of the digits stand before the point of the scaled number; the next one decides the rounding.
    let kept = before.len() as i64 + i64::from(exponent) + i64::from(NUMERIC_SCALE);
    let shift = |scaled: i128, digit: i128| scaled.checked_mul(10)?.checked_add(digit);
    let mut scaled: i128 = 0;
    let mut exact = true;
    for (place, digit) in (0_i64..).zip(digits().map(|digit| i128::from(digit - b'0'))) {
        if place < kept {
            scaled = shift(scaled, digit).ok_or(OUT_OF_RANGE)?;
        } else {
            exact &= digit == 0;
            scaled += i128::from(place == kept && digit >= 5);
        }
    }
    let zeros = kept - (before.len() + after.len()) as i64;
    // More than the first 38 zeros can't fit, and a zero needs none.
    for _ in 0..if scaled == 0 { 0 } else { zeros.min(39) } {
        scaled = shift(scaled, 0).ok_or(OUT_OF_RANGE)?;
    }
    if scaled >= 10_i128.pow(NUMERIC_PRECISION.into()) {
        return Err(OUT_OF_RANGE);
    }
    Ok((if mantissa.starts_with('-') { -scaled } else { scaled }, exact))
}

fn text(value: &str) -> Result<Cow<'_, str>, Misfit> {
    let text = plain(value)?;
    // PostgreSQL's text can't hold it, and its clients would cut the value there.
    if text.contains('\0') { Err(", which has the character \\u0000") } else { Ok(text) }
}

/// What has too many levels for a form stays as it is written.
fn json(value: &str) -> Result<Cow<'_, str>, Misfit> {
    Ok(jsonb::normal(value).map_or(Cow::Borrowed(value), Cow::Owned))
}

fn date(value: &str) -> Result<i32, Misfit> {
    Date32Type::parse(string(value)?.trim()).ok_or(WRONG_TYPE)
}

fn timestamp(value: &str) -> Result<i64, Misfit> {
    if let Ok(number) = value.parse::<i64>() {
        let micros = match number.unsigned_abs() {
            0..100_000_000_000 => number * 1_000_000,
            100_000_000_000..100_000_000_000_000 => number * 1_000,
            100_000_000_000_000..100_000_000_000_000_000 => number,
            _ => number.div_euclid(1_000),
        };
        return Ok(micros);
    }
    let instant: DateTime<Utc> = string_to_datetime(&Utc, string(value)?.trim()).map_err(|_| WRONG_TYPE)?;
    Ok(instant.timestamp_micros())
}

fn bytes(value: &str) -> Result<Vec<u8>, Misfit> {
    let text = string(value)?;
    let Some(hex) = text.strip_prefix("\\x") else { return Ok(text.into_owned().into_bytes()) };
    let digits: Option<Vec<u32>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => {
            Ok(digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap_or_default()).collect())
        }
        _ => Err(", which is not hexadecimal"),
    }
}

/// Calls `each` with every key of an object and the text of its value. `Err`: the line isn't an object.
///
/// Only the outermost object is taken apart here; what isn't plain is left to serde_json.
fn scan<'a>(line: &'a str, mut each: impl FnMut(&str, &'a str)) -> Result<(), ()> {
    let mut rest = blank(line).strip_prefix('{').ok_or(())?;
    rest = blank(rest);
    if let Some(end) = rest.strip_prefix('}') {
        return if blank(end).is_empty() { Ok(()) } else { Err(()) };
    }
    loop {
        if !rest.starts_with('"') {
            return Err(());
        }
        let key = token(rest)?;
        rest = blank(blank(&rest[key.len()..]).strip_prefix(':').ok_or(())?);
        let value = token(rest)?;
        each(&plain(key).map_err(|_| ())?, value);
        rest = blank(&rest[value.len()..]);
        match rest.as_bytes() {
            [b',', ..] => rest = blank(&rest[1..]),
            [b'}', ..] => return if blank(&rest[1..]).is_empty() { Ok(()) } else { Err(()) },
            _ => return Err(()),
        }
    }
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r', '\n'])
}

/// The JSON value that a text starts with.
fn token(text: &str) -> Result<&str, ()> {
    let bytes = text.as_bytes();
    let length = match bytes.first() {
        Some(b'"') => bytes[1..]
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
            .filter(|end| bytes[end + 1] == b'"')
            .map(|end| end + 2),
        Some(b'1'..=b'9') => {
            let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
            bytes.get(end).is_none_or(|next| !matches!(next, b'.' | b'e' | b'E')).then_some(end)
        }
        _ => None,
    };
    let length = match length {
        Some(length) => length,
        None => {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
            match values.next() {
                Some(Ok(_)) => values.byte_offset(),
                _ => return Err(()),
            }
        }
    };
    Ok(&text[..length])
}

/// What is wrong with a line that isn't an object.
fn describe(line: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(line) {
        Err(error) => {
            let error = error.to_string();
            let error = error.replacen(" at line 1 column ", " at character ", 1);
            format!("not valid JSON: {error}")
        }
        Ok(_) => "not a JSON object".to_owned(),
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;

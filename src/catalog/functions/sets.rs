//! Functions that give a set of rows, as functions that give an array: where they stand, the array is unnested.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, StructArray, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use serde_json::Value as Json;

use super::super::datetime::{self, Interval, Moment};
use super::super::types;
use super::datetime::Temporal;
use super::json::{as_text, jsonb_text, object_of, parse, values_of};
use super::{Call, Definition, Returns, Value, derived, invalid, like, no_such_function, patterns, pure};
use crate::error::{Error, Result};

/// The columns that a set has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetColumns {
    /// One, named like the function or its alias.
    One,
    /// One of that name.
    Named(&'static str),
    /// These.
    Many(&'static [&'static str]),
}

/// The functions: their names in SQL and here, and their columns.
pub const SETS: &[(&str, &str, SetColumns)] = &[
    ("generate_series", "series", SetColumns::One),
    ("generate_subscripts", "subscripts", SetColumns::One),
    ("regexp_matches", "all_matches", SetColumns::One),
    ("regexp_split_to_table", "regexp_split_to_array", SetColumns::One),
    ("string_to_table", "split_text", SetColumns::One),
    ("json_array_elements", "json_items", SetColumns::Named("value")),
    ("jsonb_array_elements", "jsonb_items", SetColumns::Named("value")),
    ("json_array_elements_text", "json_item_texts", SetColumns::Named("value")),
    ("jsonb_array_elements_text", "json_item_texts", SetColumns::Named("value")),
    ("json_object_keys", "json_keys", SetColumns::One),
    ("jsonb_object_keys", "jsonb_keys", SetColumns::One),
    ("json_each", "json_pairs", SetColumns::Many(&["key", "value"])),
    ("jsonb_each", "jsonb_pairs", SetColumns::Many(&["key", "value"])),
    ("json_each_text", "json_pair_texts", SetColumns::Many(&["key", "value"])),
    ("jsonb_each_text", "json_pair_texts", SetColumns::Many(&["key", "value"])),
    ("aclexplode", "acl_items", SetColumns::Many(&["grantor", "grantee", "privilege_type", "is_grantable"])),
    ("_pg_expandarray", "numbered", SetColumns::Many(&["x", "n"])),
];

pub const FUNCTIONS: &[Definition] = &[
    derived("series", 2..=3, Returns::By(series_type), series),
    pure("subscripts", 2..=3, "int4[]", |call| {
        let Some(items) = call.items(0) else { return Ok(ScalarValue::Null) };
        let count = if call.integer(1) == Some(1) { items.len() } else { 0 };
        let mut numbers: Vec<ScalarValue> = (1..=count).map(|n| ScalarValue::Int32(i32::try_from(n).ok())).collect();
        if call.boolean(2) == Some(true) {
            numbers.reverse();
        }
        Ok(list(&numbers, &DataType::Int32))
    }),
    derived("all_matches", 2..=3, Returns::By(|_| Ok(list_field(types_field("text[]")?))), |call| {
        let Some(matches) = patterns::matches(call)? else { return Ok(ScalarValue::Null) };
        Ok(list(&matches, types_field("text[]")?.data_type()))
    }),
    pure("split_text", 2..=3, "text[]", |call| {
        let Some(value) = call.text(0) else { return Ok(ScalarValue::Null) };
        let null = call.text(2);
        let mut work = call.work();
        let mut piece = |piece: &str| work.add(ITEM + piece.len()).map(|()| piece.to_owned());
        let pieces = match call.text(1) {
            None => value.split("").filter(|text| !text.is_empty()).map(piece).collect::<Result<Vec<_>>>()?,
            Some(separator) if separator.is_empty() => vec![value],
            Some(separator) => value.split(separator.as_str()).map(&mut piece).collect::<Result<Vec<_>>>()?,
        };
        Ok(texts(pieces.into_iter().map(|piece| Some(piece).filter(|piece| Some(piece) != null.as_ref()))))
    }),
    pure("json_items", 1..=1, "json[]", |call| items(call, |value| Some(value.to_string()))),
    pure("jsonb_items", 1..=1, "jsonb[]", |call| items(call, |value| Some(jsonb_text(&value)))),
    // An item that is unnested has lost its exact type.
    pure("as_json", 1..=1, "json", |call| Ok(call.args[0].clone())),
    pure("as_jsonb", 1..=1, "jsonb", |call| Ok(call.args[0].clone())),
    pure("json_item_texts", 1..=1, "text[]", |call| items(call, as_text)),
    pure("json_keys", 1..=1, "text[]", |call| keys(call, false)),
    pure("jsonb_keys", 1..=1, "text[]", |call| keys(call, true)),
    derived("json_pairs", 1..=1, Returns::By(|_| pairs_type("json")), |call| {
        pairs(call, "json", false, |value| Some(value.to_string()))
    }),
    derived("jsonb_pairs", 1..=1, Returns::By(|_| pairs_type("jsonb")), |call| {
        pairs(call, "jsonb", true, |value| Some(jsonb_text(&value)))
    }),
    derived("json_pair_texts", 1..=1, Returns::By(|_| pairs_type("text")), |call| pairs(call, "text", false, as_text)),
    derived("numbered", 1..=1, Returns::By(numbered_type), numbered),
];

/// An array of text.
pub fn texts(values: impl IntoIterator<Item = Option<String>>) -> ScalarValue {
    let values: Vec<ScalarValue> = values.into_iter().map(ScalarValue::Utf8).collect();
    list(&values, &DataType::Utf8)
}

fn list(values: &[ScalarValue], item: &DataType) -> ScalarValue {
    ScalarValue::List(ScalarValue::new_list_nullable(values, item))
}

fn types_field(name: &str) -> Result<Field> {
    types::by_name(name)
        .map(|pg_type| pg_type.field("item"))
        .ok_or_else(|| Error::Internal(format!("there is no type {name}")))
}

pub(super) fn list_field(item: Field) -> Field {
    Field::new("", DataType::List(Arc::new(item)), true)
}

/// int4, int8, numeric, or a time; dates become timestamps with a zone.
fn series_type(args: &[FieldRef]) -> Result<Field> {
    let wrong = || no_such_function("generate_series", args);
    let [from, to, ..] = args else { return Err(wrong()) };
    let untyped = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Null);
    let known = if untyped(from.data_type()) { to } else { from };
    let name = match (known.data_type(), to.data_type()) {
        (DataType::Int16 | DataType::Int32, DataType::Int64) | (DataType::Int64, _) => "int8",
        (DataType::Int16 | DataType::Int32, _) => "int4",
        (DataType::Decimal128(..), _) => return Ok(list_field(like("item", known))),
        (DataType::Timestamp(_, None), _) => "timestamp",
        (DataType::Timestamp(..) | DataType::Date32, _) => "timestamptz",
        (DataType::Float64, _) => "numeric",
        _ => return Err(wrong()),
    };
    Ok(list_field(types_field(name)?))
}

/// About what an item takes beside its text.
pub const ITEM: usize = 96;

/// The most elements of a series.
const MOST: usize = 10_000_000;

fn series(call: &Call<'_>) -> Value {
    if call.any_null() {
        return Ok(ScalarValue::Null);
    }
    let field = series_type(call.fields)?;
    let DataType::List(item) = field.data_type() else { return Ok(ScalarValue::Null) };
    let mut values: Vec<ScalarValue> = Vec::new();
    let mut work = call.work();
    let too_long = || Error::LimitReached {
        sqlstate: "54000",
        message: format!("a series has at most {MOST} elements here"),
        hint: "Ask for a shorter one.".into(),
    };
    let zero = || invalid("22023", "step size cannot equal zero".into());
    if item.data_type().is_numeric() {
        let scale = match item.data_type() {
            DataType::Decimal128(_, scale) => *scale,
            _ => 0,
        };
        let number = |index: usize| -> Result<i128> {
            let text = super::numbers::decimal_text(&call.args[index]).unwrap_or_default();
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let digits = format!("{whole}{fraction:0<width$}", width = usize::try_from(scale).unwrap_or(0));
            digits.parse().map_err(|_| no_such_function("generate_series", call.fields))
        };
        let (mut at, to) = (number(0)?, number(1)?);
        let step = if call.args.len() == 3 { number(2)? } else { 10_i128.pow(u32::try_from(scale).unwrap_or(0)) };
        if step == 0 {
            return Err(zero());
        }
        while (step > 0 && at <= to) || (step < 0 && at >= to) {
            values.push(match item.data_type() {
                DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(at), *precision, *scale),
                DataType::Int32 => ScalarValue::Int32(i32::try_from(at).ok()),
                _ => ScalarValue::Int64(i64::try_from(at).ok()),
            });
            if values.len() > MOST {
                return Err(too_long());
            }
            work.add(size_of::<ScalarValue>())?;
            at += step;
        }
        return Ok(list(&values, item.data_type()));
    }
    let zone = call.zone();
    let zoned = matches!(item.data_type(), DataType::Timestamp(_, Some(_)));
    let moment = Moment { now: call.scope.statement_at(), zone: &zone, day_first: call.scope.style().day_first() };
    let time = |index: usize| -> Result<i64> {
        match (&call.args[index], Temporal::of(&call.args[index])) {
            (ScalarValue::Utf8(Some(text)), _) if zoned => datetime::timestamptz(text, &moment),
            (ScalarValue::Utf8(Some(text)), _) => datetime::timestamp(text, &moment),
            (_, Some(Temporal::Date(days))) if zoned => datetime::to_utc(i64::from(days) * datetime::DAY, &zone),
            (_, Some(Temporal::Date(days))) => Ok(i64::from(days) * datetime::DAY),
            (_, Some(Temporal::Timestamp(at))) if zoned => datetime::to_utc(at, &zone),
            (_, Some(Temporal::Timestamp(at) | Temporal::TimestampTz(at))) => Ok(at),
            _ => Err(no_such_function("generate_series", call.fields)),
        }
    };
    let step = match (call.args.get(2), call.args.get(2).and_then(Temporal::of)) {
        (_, Some(Temporal::Interval(interval))) => interval,
        (Some(ScalarValue::Utf8(Some(text))), _) => Interval::read(text)?,
        _ => return Err(no_such_function("generate_series", call.fields)),
    };
    let (mut at, to, direction) = (time(0)?, time(1)?, step.key());
    if direction == 0 {
        return Err(zero());
    }
    while (direction > 0 && at <= to) || (direction < 0 && at >= to) {
        values.push(if zoned { Temporal::TimestampTz(at) } else { Temporal::Timestamp(at) }.into());
        if values.len() > MOST {
            return Err(too_long());
        }
        work.add(size_of::<ScalarValue>())?;
        at = if zoned { datetime::add_zoned(at, step, &zone)? } else { datetime::add(at, step)? };
    }
    Ok(list(&values, item.data_type()))
}

fn items(call: &Call<'_>, text: fn(Json) -> Option<String>) -> Value {
    let Some(value) = parse(call, 0)? else { return Ok(ScalarValue::Null) };
    Ok(texts(values_of(value)?.into_iter().map(text)))
}

fn keys(call: &Call<'_>, sorted: bool) -> Value {
    let Some(value) = parse(call, 0)? else { return Ok(ScalarValue::Null) };
    Ok(texts(object_of(value, sorted, "jsonb_object_keys")?.into_iter().map(|(key, _)| Some(key))))
}

fn pair_fields(name: &str) -> Result<Fields> {
    let named = |field: Field, name: &str| field.with_name(name.to_owned());
    Ok(Fields::from(vec![named(types_field("text")?, "key"), named(types_field(name)?, "value")]))
}

fn pairs_type(name: &str) -> Result<Field> {
    Ok(list_field(Field::new("item", DataType::Struct(pair_fields(name)?), true)))
}

fn pairs(call: &Call<'_>, name: &str, sorted: bool, text: fn(Json) -> Option<String>) -> Value {
    let Some(value) = parse(call, 0)? else { return Ok(ScalarValue::Null) };
    let pairs = object_of(value, sorted, "jsonb_each")?;
    let keys = pairs.iter().map(|(key, _)| ScalarValue::Utf8(Some(key.clone()))).collect();
    let values = pairs.into_iter().map(|(_, value)| ScalarValue::Utf8(text(value))).collect();
    records(pair_fields(name)?, vec![keys, values])
}

/// An array of records, from the values of each column.
pub(super) fn records(fields: Fields, columns: Vec<Vec<ScalarValue>>) -> Value {
    let arrays = fields.iter().zip(columns).map(|(field, values)| match values.is_empty() {
        true => Ok(new_empty_array(field.data_type())),
        false => ScalarValue::iter_to_array(values),
    });
    let arrays: Vec<ArrayRef> =
        arrays.collect::<datafusion::error::Result<_>>().map_err(crate::wire::errors::from_datafusion)?;
    let rows = arrays.first().map_or(0, |array| array.len());
    let items = StructArray::try_new_with_length(fields, arrays, None, rows)
        .map_err(|error| crate::wire::errors::from_datafusion(error.into()))?;
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([rows]);
    let list = datafusion::arrow::array::ListArray::try_new(item, offsets, Arc::new(items), None)
        .map_err(|error| crate::wire::errors::from_datafusion(error.into()))?;
    Ok(ScalarValue::List(Arc::new(list)))
}

fn numbered_fields(args: &[FieldRef]) -> Result<Fields> {
    let item = match args.first().map(|field| field.data_type()) {
        Some(DataType::List(item)) => like("x", item),
        Some(DataType::Null) => Field::new("x", DataType::Utf8, true),
        _ => return Err(no_such_function("_pg_expandarray", args)),
    };
    Ok(Fields::from(vec![item, Field::new("n", DataType::Int32, true)]))
}

fn numbered_type(args: &[FieldRef]) -> Result<Field> {
    Ok(list_field(Field::new("item", DataType::Struct(numbered_fields(args)?), true)))
}

fn numbered(call: &Call<'_>) -> Value {
    let Some(items) = call.items(0) else { return Ok(ScalarValue::Null) };
    let numbers = (1..=items.len()).map(|n| ScalarValue::Int32(i32::try_from(n).ok())).collect();
    records(numbered_fields(call.fields)?, vec![items, numbers])
}

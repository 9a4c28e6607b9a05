//! Functions of arrays, over the items of one row.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, ListArray, UInt64Array, make_comparator,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::ScalarValue;

use super::super::types;
use super::{Call, Definition, Returns, Value, derived, invalid, json_order, like, no_such_function, pure, text};
use crate::error::{Error, Result};

pub const FUNCTIONS: &[Definition] = &[
    pure("array_length", 2..=2, "int4", |call| {
        let Some(dimension) = call.integer(1) else { return Ok(ScalarValue::Null) };
        let lengths = lengths(call, "array_length")?;
        let length = usize::try_from(dimension - 1).ok().and_then(|index| lengths.get(index));
        Ok(ScalarValue::Int32(length.and_then(|length| i32::try_from(*length).ok())))
    }),
    // What an aggregate with DISTINCT has gathered: see `rewrite/aggregates.rs`.
    derived("sorted_items", 3..=3, Returns::Like(0), sorted),
    pure("array_ndims", 1..=1, "int4", |call| {
        let lengths = lengths(call, "array_ndims")?;
        Ok(ScalarValue::Int32((!lengths.is_empty()).then_some(lengths.len() as i32)))
    }),
    pure("array_dims", 1..=1, "text", |call| {
        let lengths = lengths(call, "array_dims")?;
        let dims: String = lengths.iter().map(|length| format!("[1:{length}]")).collect();
        Ok(text((!dims.is_empty()).then_some(dims)))
    }),
    pure("cardinality", 1..=1, "int4", |call| {
        if call.args[0].is_null() {
            return Ok(ScalarValue::Null);
        }
        let lengths = lengths(call, "cardinality")?;
        let all: usize = if lengths.is_empty() { 0 } else { lengths.iter().product() };
        Ok(ScalarValue::Int32(i32::try_from(all).ok()))
    }),
    pure("array_position", 2..=3, "int4", |call| {
        let Some(items) = call.items(0) else { return Ok(ScalarValue::Null) };
        let from = usize::try_from(call.integer(2).unwrap_or(1) - 1).unwrap_or(0);
        let at = items.iter().enumerate().skip(from).find(|(_, item)| same(item, &call.args[1]));
        Ok(ScalarValue::Int32(at.and_then(|(index, _)| i32::try_from(index + 1).ok())))
    }),
    pure("array_positions", 2..=2, "int4[]", |call| {
        let Some(items) = call.items(0) else { return Ok(ScalarValue::Null) };
        let found = items.iter().enumerate().filter(|(_, item)| same(item, &call.args[1]));
        let found: Vec<ScalarValue> =
            found.map(|(index, _)| ScalarValue::Int32(i32::try_from(index + 1).ok())).collect();
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&found, &DataType::Int32)))
    }),
    derived("array_fill", 2..=2, Returns::By(filled), |call| {
        let Some(lengths) = call.items(1) else { return Ok(ScalarValue::Null) };
        let [length] = lengths.as_slice() else {
            return Err(Error::FeatureNotSupported {
                what: "array_fill() of several dimensions".into(),
                hint: "Fill one dimension.".into(),
            });
        };
        let length: usize = length.to_string().parse().unwrap_or(0);
        if length > 1_000_000 {
            return Err(invalid("54000", "array size exceeds the maximum allowed (1000000)".into()));
        }
        let items = vec![call.args[0].clone(); length];
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, call.fields[0].data_type())))
    }),
    derived("trim_array", 2..=2, Returns::Like(0), |call| {
        let (Some(items), Some(count)) = (call.items(0), call.integer(1)) else { return Ok(ScalarValue::Null) };
        let keep = usize::try_from(count).ok().and_then(|count| items.len().checked_sub(count));
        let Some(keep) = keep else {
            let message = format!("number of elements to trim must be between 0 and {}", items.len());
            return Err(invalid("2202E", message));
        };
        let DataType::List(item) = call.fields[0].data_type() else { return Ok(ScalarValue::Null) };
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items[..keep], item.data_type())))
    }),
    pure("array_overlaps", 2..=2, "bool", |call| {
        let (Some(left), Some(right)) = (call.items(0), call.items(1)) else { return Ok(ScalarValue::Null) };
        let common = left.iter().any(|item| !item.is_null() && right.iter().any(|other| same(item, other)));
        Ok(ScalarValue::Boolean(Some(common)))
    }),
];

fn same(item: &ScalarValue, wanted: &ScalarValue) -> bool {
    item == wanted || wanted.cast_to(&item.data_type()).is_ok_and(|wanted| wanted == *item)
}

/// The length of each dimension; none of an empty array.
fn lengths(call: &Call<'_>, name: &str) -> Result<Vec<usize>> {
    if !call.fields[0].data_type().is_list() && !call.fields[0].data_type().is_null() {
        return Err(no_such_function(name, call.fields));
    }
    let mut lengths = Vec::new();
    let mut inner = call.args[0].clone();
    while let ScalarValue::List(list) = &inner {
        if list.is_null(0) || list.value(0).is_empty() {
            break;
        }
        let values = list.value(0);
        lengths.push(values.len());
        inner = ScalarValue::try_from_array(&values, 0).map_err(crate::wire::errors::from_datafusion)?;
    }
    Ok(lengths)
}

fn filled(args: &[FieldRef]) -> Result<Field> {
    let Some(item) = args.first() else { return Err(no_such_function("array_fill", args)) };
    Ok(Field::new("", DataType::new_list(like("item", item).data_type().clone(), true), true))
}

/// An array with its items in order: descending or not, NULLs first or not.
fn sorted(call: &Call<'_>) -> Value {
    let ScalarValue::List(list) = &call.args[0] else { return Ok(call.args[0].clone()) };
    let DataType::List(item) = list.data_type() else { return Ok(call.args[0].clone()) };
    if list.is_null(0) {
        return Ok(call.args[0].clone());
    }
    let failed = |error: ArrowError| Error::Internal(error.to_string());
    let items = list.value(0);
    let is_jsonb = types::marked(&call.fields[0]).is_some_and(|array| array.name == "jsonb[]");
    let keys = if is_jsonb { jsonb_keys(&items) } else { Arc::clone(&items) };
    let flag = |index| call.boolean(index).unwrap_or_default();
    let compare = make_comparator(&keys, &keys, SortOptions { descending: flag(1), nulls_first: flag(2) });
    let compare = compare.map_err(failed)?;
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let order = UInt64Array::from_iter_values(order.into_iter().map(|row| row as u64));
    let items = take(&items, &order, None).map_err(failed)?;
    let offsets = OffsetBuffer::from_lengths([items.len()]);
    let sorted = ListArray::try_new(Arc::clone(item), offsets, items, None).map_err(failed)?;
    Ok(ScalarValue::List(Arc::new(sorted)))
}

fn jsonb_keys(documents: &ArrayRef) -> ArrayRef {
    let key = |document: &str| serde_json::from_str(document).ok().map(|document| json_order::key_of(&document));
    match documents.as_string_opt::<i32>() {
        Some(texts) => Arc::new(texts.iter().map(|text| text.and_then(key)).collect::<BinaryArray>()),
        None => Arc::clone(documents),
    }
}

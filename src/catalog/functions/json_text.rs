//! Values of any type as the text of a JSON document: what is a document already stands in it as it is written, and a number
//! with all its digits.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;

use super::super::types;
use super::Call;
use super::json::quoted;
use crate::error::Result;
use crate::jsonb;

/// An argument as json; NULL is JSON's null.
pub fn json_text(call: &Call<'_>, index: usize) -> Result<String> {
    written(call, &call.args[index], call.fields.get(index).map(AsRef::as_ref))
}

/// The items of an array, each as json. `None`: it is NULL or no array.
pub fn item_texts(call: &Call<'_>, index: usize) -> Result<Option<Vec<String>>> {
    let Some(items) = call.items(index) else { return Ok(None) };
    let field = call.fields.get(index).map(AsRef::as_ref);
    let item = item_of(field, &call.args[index].data_type());
    items.iter().map(|value| written(call, value, item.as_ref())).collect::<Result<_>>().map(Some)
}

/// A document as jsonb.
pub fn normal(document: String) -> String {
    jsonb::normal(&document).unwrap_or(document)
}

/// An array of documents.
pub fn json_array(items: impl IntoIterator<Item = String>, separator: &str) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(separator))
}

fn written(call: &Call<'_>, value: &ScalarValue, field: Option<&Field>) -> Result<String> {
    if value.is_null() {
        return Ok("null".into());
    }
    let is_json = field.is_some_and(|field| matches!(types::name_of(field), "json" | "jsonb"));
    let shown = || {
        let field = field.map(|field| std::sync::Arc::new(field.clone()));
        crate::wire::value_text(value, field.as_ref(), &call.scope.style())
    };
    Ok(match value {
        ScalarValue::Utf8(Some(text)) if is_json => text.clone(),
        ScalarValue::Utf8(Some(text)) => quoted(text),
        ScalarValue::Boolean(Some(value)) => value.to_string(),
        ScalarValue::List(list) => {
            let items = list.value(0);
            let item = item_of(field, list.data_type());
            let items = (0..items.len()).map(|row| written(call, &at(&items, row)?, item.as_ref()));
            json_array(items.collect::<Result<Vec<_>>>()?, ",")
        }
        ScalarValue::Struct(record) => {
            // The fields that the value has itself may lack their marks.
            let fields = match field.map(Field::data_type) {
                Some(DataType::Struct(fields)) if fields.len() == record.fields().len() => fields,
                _ => record.fields(),
            };
            let pairs = fields.iter().zip(record.columns()).enumerate().map(|(index, (field, values))| {
                // A row that has no names.
                let unnamed = field.name() == &format!("c{index}");
                let name = if unnamed { format!("f{}", index + 1) } else { field.name().clone() };
                let value = written(call, &at(values, 0)?, Some(field))?;
                Ok(format!("{}:{value}", quoted(super::super::output_name(&name))))
            });
            format!("{{{}}}", pairs.collect::<Result<Vec<_>>>()?.join(","))
        }
        number if number.data_type().is_numeric() => {
            let number = shown()?;
            let is_finite = number.ends_with(|last: char| last.is_ascii_digit());
            if is_finite { number } else { quoted(&number) }
        }
        ScalarValue::TimestampMicrosecond(..) | ScalarValue::TimestampNanosecond(..) => quoted(&iso_8601(&shown()?)),
        _ => quoted(&shown()?),
    })
}

/// The items of an array. What marks documents is on the array, not on its items.
fn item_of(array: Option<&Field>, own: &DataType) -> Option<Field> {
    let marked = array.and_then(types::marked).and_then(|array| array.name.strip_suffix("[]"));
    if let Some(document) = marked.filter(|name| matches!(*name, "json" | "jsonb")).and_then(types::by_name) {
        return Some(document.field(""));
    }
    match array.map_or(own, Field::data_type) {
        DataType::List(item) => Some(item.as_ref().clone()),
        _ => None,
    }
}

fn at(values: &ArrayRef, row: usize) -> Result<ScalarValue> {
    ScalarValue::try_from_array(values, row).map_err(crate::wire::errors::from_datafusion)
}

/// A timestamp as JSON has it: a T between date and time, minutes in the offset.
fn iso_8601(text: &str) -> String {
    let text = text.replacen(' ', "T", 1);
    match text.rfind(['+', '-']).filter(|at| *at > 10) {
        Some(at) if !text[at..].contains(':') => format!("{text}:00"),
        _ => text,
    }
}

//! JSON: its functions, over json and jsonb columns and text that holds JSON.

use datafusion::common::ScalarValue;
use serde_json::{Map, Value as Json};

use super::json_order::{JSONB_KEY, key_of, same};
use super::json_text::{item_texts, json_array, json_text, normal};
use super::{Call, Definition, Value, invalid, pure, stable, text};
use crate::error::{Error, Result};
use crate::jsonb;

pub const FUNCTIONS: &[Definition] = &[
    pure("json_get", 2..=2, "json", |call| Ok(text(get(call)?.map(|value| value.to_string())))),
    pure("jsonb_get", 2..=2, "jsonb", |call| {
        // A jsonb that is one value counts as an array of it.
        let lone = || Ok::<_, Error>(parse(call, 0)?.filter(|value| !value.is_array() && !value.is_object()));
        let is_lone = call.args[1].data_type().is_integer() && matches!(call.integer(1), Some(0 | -1));
        let found = if is_lone { lone()? } else { None };
        Ok(text(found.map_or_else(|| get(call), |value| Ok(Some(value)))?.map(|value| jsonb_text(&value))))
    }),
    pure("json_get_text", 2..=2, "text", |call| Ok(text(get(call)?.and_then(as_text)))),
    pure("json_get_path", 2..=2, "json", |call| Ok(text(get_path(call)?.map(|value| value.to_string())))),
    pure("jsonb_get_path", 2..=2, "jsonb", |call| Ok(text(get_path(call)?.map(|value| jsonb_text(&value))))),
    pure("json_get_path_text", 2..=2, "text", |call| Ok(text(get_path(call)?.and_then(as_text)))),
    pure("json_extract_path", 1..=usize::MAX, "json", |call| Ok(text(walk(call)?.map(|value| value.to_string())))),
    pure("jsonb_extract_path", 1..=usize::MAX, "jsonb", |call| Ok(text(walk(call)?.map(|value| jsonb_text(&value))))),
    pure("json_extract_path_text", 1..=usize::MAX, "text", |call| Ok(text(walk(call)?.and_then(as_text)))),
    pure("jsonb_extract_path_text", 1..=usize::MAX, "text", |call| Ok(text(walk(call)?.and_then(as_text)))),
    pure("json_contains", 2..=2, "bool", |call| {
        let (whole, part) = (parse(call, 0)?, parse(call, 1)?);
        Ok(ScalarValue::Boolean(whole.zip(part).map(|(whole, part)| match &whole {
            // Only the outermost array may also hold a value that isn't in an array.
            Json::Array(items) if !part.is_array() && !part.is_object() => items.iter().any(|item| same(item, &part)),
            whole => contains(whole, &part),
        })))
    }),
    // What jsonb is compared by.
    pure(JSONB_KEY, 1..=1, "bytea", |call| Ok(ScalarValue::Binary(parse(call, 0)?.map(|value| key_of(&value))))),
    pure("json_has_key", 2..=2, "bool", |call| {
        let key = call.text(1);
        Ok(ScalarValue::Boolean(parse(call, 0)?.zip(key).map(|(value, key)| has_key(&value, &key))))
    }),
    pure("json_has_any", 2..=2, "bool", |call| {
        has_keys(call, |value, keys| keys.iter().any(|key| has_key(value, key)))
    }),
    pure("json_has_all", 2..=2, "bool", |call| {
        has_keys(call, |value, keys| keys.iter().all(|key| has_key(value, key)))
    }),
    pure("jsonb_array_length", 1..=1, "int4", array_length),
    pure("json_array_length", 1..=1, "int4", array_length),
    pure("jsonb_typeof", 1..=1, "text", type_of),
    pure("json_typeof", 1..=1, "text", type_of),
    stable("to_json", 1..=1, "json", |call| Ok(text(not_null(call)?))),
    stable("to_jsonb", 1..=1, "jsonb", |call| Ok(text(not_null(call)?.map(normal)))),
    stable("row_to_json", 1..=2, "json", |call| Ok(text(not_null(call)?))),
    stable("array_to_json", 1..=2, "json", |call| Ok(text(not_null(call)?))),
    stable("json_build_object", 0..=usize::MAX, "json", |call| {
        Ok(text(Some(format!("{{{}}}", json_pairs(&built_pairs(call)?)))))
    }),
    stable("jsonb_build_object", 0..=usize::MAX, "jsonb", |call| {
        Ok(text(Some(normal(format!("{{{}}}", json_pairs(&built_pairs(call)?))))))
    }),
    stable("json_build_array", 0..=usize::MAX, "json", |call| {
        let items = (0..call.args.len()).map(|index| json_text(call, index));
        Ok(text(Some(json_array(items.collect::<Result<Vec<_>>>()?, ", "))))
    }),
    stable("jsonb_build_array", 0..=usize::MAX, "jsonb", |call| {
        let items = (0..call.args.len()).map(|index| json_text(call, index));
        Ok(text(Some(normal(json_array(items.collect::<Result<Vec<_>>>()?, ", ")))))
    }),
    stable("json_object", 1..=2, "json", |call| {
        let pairs = text_pairs(call)?;
        Ok(text(pairs.map(|pairs| format!("{{{}}}", json_pairs(&pairs)))))
    }),
    stable("jsonb_object", 1..=2, "jsonb", |call| {
        let pairs = text_pairs(call)?;
        Ok(text(pairs.map(|pairs| normal(format!("{{{}}}", json_pairs(&pairs))))))
    }),
    // The aggregates, over the array that they gather.
    stable("json_of_items", 1..=1, "json", |call| {
        let Some(items) = item_texts(call, 0)? else { return Ok(ScalarValue::Null) };
        let is_nested = call.items(0).is_some_and(|items| items.iter().any(|item| item.data_type().is_nested()));
        let lines = items.into_iter().enumerate().map(|(index, item)| match is_nested && index > 0 && item != "null" {
            true => format!("\n {item}"),
            false => item,
        });
        Ok(text(Some(json_array(lines, ", "))))
    }),
    stable("jsonb_of_items", 1..=1, "jsonb", |call| {
        Ok(text(item_texts(call, 0)?.map(|items| normal(json_array(items, ", ")))))
    }),
    // The same, where each item is a document already: see `json_item`.
    stable("json_of_documents", 1..=1, "json", |call| {
        let Some(mut items) = documents(call, 0) else { return Ok(ScalarValue::Null) };
        if let Some(first) = items.first_mut().filter(|first| first.starts_with("\n ")) {
            first.drain(.."\n ".len());
        }
        Ok(text(Some(json_array(items, ", "))))
    }),
    stable("jsonb_of_documents", 1..=1, "jsonb", |call| {
        Ok(text(documents(call, 0).map(|items| normal(json_array(items, ", ")))))
    }),
    // An array or a record begins a line of what json_agg gives.
    stable("json_item", 1..=1, "json", |call| {
        let is_nested = matches!(call.args[0], ScalarValue::List(_) | ScalarValue::Struct(_));
        let line = if is_nested { "\n " } else { "" };
        Ok(text(not_null(call)?.map(|document| format!("{line}{document}"))))
    }),
    stable("json_of_pairs", 2..=2, "json", |call| {
        Ok(text(gathered_pairs(call)?.map(|pairs| format!("{{ {} }}", json_pairs(&pairs)))))
    }),
    stable("jsonb_of_pairs", 2..=2, "jsonb", |call| {
        Ok(text(gathered_pairs(call)?.map(|pairs| normal(format!("{{{}}}", json_pairs(&pairs))))))
    }),
    pure("json_in", 1..=1, "json", |call| {
        parse(call, 0)?;
        Ok(text(call.text(0)))
    }),
    pure("jsonb_in", 1..=1, "jsonb", |call| {
        parse(call, 0)?;
        Ok(text(call.text(0).map(normal)))
    }),
    // A cast of json or jsonb to text, to a number, or to a boolean: see `Session::plan`.
    stable("jsonb_out", 1..=1, "text", |call| Ok(text(call.text(0)))),
    pure("jsonb_scalar", 2..=2, "text", scalar_of),
];

/// A document, from text.
///
/// # Errors
/// 22P02: it is none.
pub fn parse(call: &Call<'_>, index: usize) -> Result<Option<Json>> {
    let Some(text) = call.text(index) else { return Ok(None) };
    // A document takes up to so many times its text: `[1,1,1]`.
    call.work().add(text.len().saturating_mul(16))?;
    read(&text).map(Some)
}

fn read(text: &str) -> Result<Json> {
    serde_json::from_str(text).map_err(|error| Error::Json {
        detail: match error.classify() {
            serde_json::error::Category::Eof => "The input string ended unexpectedly.".into(),
            _ => format!("Line {}, column {}: {}.", error.line(), error.column(), token(text, &error)),
        },
    })
}

/// What stands where reading has ended.
fn token(text: &str, error: &serde_json::Error) -> String {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let from = line.get(error.column().saturating_sub(1)..).unwrap_or_default();
    let word: String = from.chars().take_while(|c| c.is_alphanumeric()).collect();
    let word = if word.is_empty() { from.chars().take(1).collect() } else { word };
    format!("token \"{word}\" is invalid")
}

/// A jsonb document as PostgreSQL prints it: keys by length and then by bytes, a space behind each comma and colon.
pub fn jsonb_text(value: &Json) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

pub fn write(out: &mut String, value: &Json) {
    match value {
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(out, item);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (index, (key, item)) in sorted(map).into_iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&quoted(key));
                out.push_str(": ");
                write(out, item);
            }
            out.push('}');
        }
        Json::Number(number) => out.push_str(&jsonb::number(&number.to_string())),
        other => out.push_str(&other.to_string()),
    }
}

pub fn sorted(map: &Map<String, Json>) -> Vec<(&String, &Json)> {
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort_by_key(|(key, _)| (key.len(), key.as_bytes().to_vec()));
    pairs
}

pub fn quoted(text: &str) -> String {
    Json::String(text.to_owned()).to_string()
}

/// An argument as json. `None`: it is NULL.
fn not_null(call: &Call<'_>) -> Result<Option<String>> {
    if call.args[0].is_null() { Ok(None) } else { json_text(call, 0).map(Some) }
}

/// Keys and documents as those of an object.
fn json_pairs(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{} : {value}", quoted(key))).collect();
    pairs.join(", ")
}

fn built_pairs(call: &Call<'_>) -> Result<Vec<(String, String)>> {
    if call.args.len() % 2 == 1 {
        return Err(invalid("22023", "argument list must have even number of elements".into()));
    }
    (0..call.args.len())
        .step_by(2)
        .map(|index| {
            let key = call
                .text(index)
                .ok_or_else(|| invalid("22023", format!("argument {}: key must not be null", index + 1)))?;
            Ok((key, json_text(call, index + 1)?))
        })
        .collect()
}

/// Pairs of one array, or of an array of keys and one of values.
fn text_pairs(call: &Call<'_>) -> Result<Option<Vec<(String, String)>>> {
    let array =
        |index: usize| call.texts(index).or_else(|| path(call, index).map(|path| path.into_iter().map(Some).collect()));
    let Some(first) = array(0) else { return Ok(None) };
    let value = |value: Option<String>| value.map_or_else(|| "null".into(), |value| quoted(&value));
    let key = |key: Option<String>| key.ok_or_else(|| invalid("22004", "null value not allowed for object key".into()));
    if call.args.len() == 2 {
        let Some(second) = array(1) else { return Ok(None) };
        if first.len() != second.len() {
            return Err(invalid("2202E", "mismatched array dimensions".into()));
        }
        return first.into_iter().zip(second).map(|(k, v)| Ok((key(k)?, value(v)))).collect::<Result<_>>().map(Some);
    }
    if first.len() % 2 == 1 {
        return Err(invalid("2202E", "array must have even number of elements".into()));
    }
    first.chunks(2).map(|pair| Ok((key(pair[0].clone())?, value(pair[1].clone())))).collect::<Result<_>>().map(Some)
}

/// The items of an array whose items are documents.
fn documents(call: &Call<'_>, index: usize) -> Option<Vec<String>> {
    let items = call.texts(index)?.into_iter();
    Some(items.map(|item| item.unwrap_or_else(|| "null".into())).collect())
}

fn gathered_pairs(call: &Call<'_>) -> Result<Option<Vec<(String, String)>>> {
    let (Some(keys), Some(values)) = (item_texts(call, 0)?, documents(call, 1)) else { return Ok(None) };
    let key = |key: String| match key.as_str() {
        "null" => Err(invalid("22023", "field name must not be null".into())),
        text => Ok(serde_json::from_str::<String>(text).unwrap_or(key)),
    };
    keys.into_iter().zip(values).map(|(name, value)| Ok((key(name)?, value))).collect::<Result<_>>().map(Some)
}

fn get(call: &Call<'_>) -> Result<Option<Json>> {
    let Some(value) = parse(call, 0)? else { return Ok(None) };
    let by_index = call.args[1].data_type().is_integer();
    let key = if by_index { call.integer(1).map(|index| index.to_string()) } else { call.text(1) };
    Ok(key.and_then(|key| match (&value, by_index) {
        (Json::Object(_), true) | (Json::Array(_), false) => None,
        _ => step(value, &key),
    }))
}

fn step(value: Json, key: &str) -> Option<Json> {
    match value {
        Json::Object(mut map) => map.remove(key),
        Json::Array(mut items) => {
            let index = position(key, items.len())?;
            (index < items.len()).then(|| items.swap_remove(index))
        }
        _ => None,
    }
}

/// An index that may count from the end.
pub fn position(key: &str, len: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    usize::try_from(if index < 0 { i64::try_from(len).ok()? + index } else { index }).ok()
}

/// `'{a,b}'`, or an array.
pub fn path(call: &Call<'_>, index: usize) -> Option<Vec<String>> {
    if let Some(items) = call.texts(index) {
        return Some(items.into_iter().flatten().collect());
    }
    let text = call.text(index)?;
    let items = super::super::cast::array_items(&text)?;
    Some(items.into_iter().flatten().collect())
}

fn get_path(call: &Call<'_>) -> Result<Option<Json>> {
    let (Some(value), Some(path)) = (parse(call, 0)?, path(call, 1)) else { return Ok(None) };
    Ok(path.iter().try_fold(value, |value, key| step(value, key)))
}

fn walk(call: &Call<'_>) -> Result<Option<Json>> {
    let Some(value) = parse(call, 0)? else { return Ok(None) };
    let keys: Option<Vec<String>> = (1..call.args.len()).map(|index| call.text(index)).collect();
    Ok(keys.and_then(|keys| keys.iter().try_fold(value, |value, key| step(value, key))))
}

/// A value as `->>` gives it.
pub fn as_text(value: Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text),
        other => Some(jsonb_text(&other)),
    }
}

/// The items of an array.
///
/// # Errors
/// 22023: it is none.
pub fn values_of(value: Json) -> Result<Vec<Json>> {
    match value {
        Json::Array(items) => Ok(items),
        Json::Object(_) => Err(invalid("22023", "cannot extract elements from an object".into())),
        _ => Err(invalid("22023", "cannot extract elements from a scalar".into())),
    }
}

/// The pairs of an object.
///
/// # Errors
/// 22023: it is none.
pub fn object_of(value: Json, by_key: bool, function: &str) -> Result<Vec<(String, Json)>> {
    match value {
        Json::Object(map) if by_key => {
            Ok(sorted(&map).into_iter().map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        Json::Object(map) => Ok(map.into_iter().collect()),
        Json::Array(_) => Err(invalid("22023", format!("cannot call {function} on an array"))),
        _ => Err(invalid("22023", format!("cannot call {function} on a scalar"))),
    }
}

fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        (Json::Array(whole), Json::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part)))
        }
        (whole, part) => same(whole, part),
    }
}

fn has_key(value: &Json, key: &str) -> bool {
    match value {
        Json::Object(map) => map.contains_key(key),
        Json::Array(items) => items.iter().any(|item| item.as_str() == Some(key)),
        other => other.as_str() == Some(key),
    }
}

fn has_keys(call: &Call<'_>, test: fn(&Json, &[String]) -> bool) -> Value {
    Ok(ScalarValue::Boolean(parse(call, 0)?.zip(path(call, 1)).map(|(value, keys)| test(&value, &keys))))
}

fn array_length(call: &Call<'_>) -> Value {
    match parse(call, 0)? {
        None => Ok(ScalarValue::Int32(None)),
        Some(Json::Array(items)) => Ok(ScalarValue::Int32(i32::try_from(items.len()).ok())),
        Some(Json::Object(_)) => Err(invalid("22023", "cannot get array length of a non-array".into())),
        Some(_) => Err(invalid("22023", "cannot get array length of a scalar".into())),
    }
}

const fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn type_of(call: &Call<'_>) -> Value {
    Ok(text(parse(call, 0)?.map(|value| kind(&value))))
}

/// A number or truth value of a jsonb, as text, for a cast to the type that the second argument names.
fn scalar_of(call: &Call<'_>) -> Value {
    let Some(value) = parse(call, 0)? else { return Ok(ScalarValue::Null) };
    let target = call.text(1).unwrap_or_default();
    match (&value, target.as_str()) {
        (Json::Null, _) => Ok(ScalarValue::Null),
        (Json::Bool(value), "boolean") => Ok(text(Some(value.to_string()))),
        (Json::Number(number), target) if target != "boolean" => Ok(text(Some(number.to_string()))),
        (other, target) => {
            let kind = kind(other);
            let kind = if kind == "number" { "numeric" } else { kind };
            Err(invalid("22023", format!("cannot cast jsonb {kind} to type {target}")))
        }
    }
}

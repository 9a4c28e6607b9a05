//! Functions that change a jsonb document.

use datafusion::common::ScalarValue;
use serde_json::Value as Json;

use super::json::{jsonb_text, parse, path, position, quoted, sorted, write};
use super::{Call, Definition, Value, invalid, pure, text};

pub const FUNCTIONS: &[Definition] = &[
    pure("jsonb_concat", 2..=2, "jsonb", concat),
    pure("jsonb_delete", 2..=2, "jsonb", delete),
    pure("jsonb_delete_path", 2..=2, "jsonb", |call| {
        let (Some(mut value), Some(path)) = (parse(call, 0)?, path(call, 1)) else { return Ok(ScalarValue::Null) };
        remove_at(&mut value, &path);
        Ok(text(Some(jsonb_text(&value))))
    }),
    pure("jsonb_set", 3..=4, "jsonb", |call| {
        change(call, |value, path, new, create| {
            put(value, path, new, create, false);
        })
    }),
    pure("jsonb_insert", 3..=4, "jsonb", |call| {
        let after = call.boolean(3) == Some(true);
        let (Some(mut value), Some(path), Some(new)) = (parse(call, 0)?, path(call, 1), parse(call, 2)?) else {
            return Ok(ScalarValue::Null);
        };
        insert(&mut value, &path, new, after);
        Ok(text(Some(jsonb_text(&value))))
    }),
    pure("jsonb_strip_nulls", 1..=1, "jsonb", |call| {
        Ok(text(parse(call, 0)?.map(|value| jsonb_text(&without_nulls(value)))))
    }),
    pure("json_strip_nulls", 1..=1, "json", |call| {
        Ok(text(parse(call, 0)?.map(|value| without_nulls(value).to_string())))
    }),
    pure("jsonb_pretty", 1..=1, "text", |call| {
        let mut out = String::new();
        let Some(value) = parse(call, 0)? else { return Ok(ScalarValue::Null) };
        pretty(&mut out, &value, 0);
        Ok(text(Some(out)))
    }),
];

fn pretty(out: &mut String, value: &Json, depth: usize) {
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&" ".repeat(depth * 4));
    };
    match value {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                indent(out, depth + 1);
                pretty(out, item, depth + 1);
            }
            indent(out, depth);
            out.push(']');
        }
        Json::Object(map) if !map.is_empty() => {
            out.push('{');
            for (index, (key, item)) in sorted(map).into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                indent(out, depth + 1);
                out.push_str(&format!("{}: ", quoted(key)));
                pretty(out, item, depth + 1);
            }
            indent(out, depth);
            out.push('}');
        }
        other => write(out, other),
    }
}

fn concat(call: &Call<'_>) -> Value {
    let (Some(left), Some(right)) = (parse(call, 0)?, parse(call, 1)?) else { return Ok(ScalarValue::Null) };
    let array = |value: Json| match value {
        Json::Array(items) => items,
        other => vec![other],
    };
    let joined = match (left, right) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::Object(left)
        }
        (left, right) => {
            let mut items = array(left);
            items.extend(array(right));
            Json::Array(items)
        }
    };
    Ok(text(Some(jsonb_text(&joined))))
}

fn delete(call: &Call<'_>) -> Value {
    let Some(mut value) = parse(call, 0)? else { return Ok(ScalarValue::Null) };
    if call.args[1].is_null() {
        return Ok(ScalarValue::Null);
    }
    if call.args[1].data_type().is_integer() {
        match &mut value {
            Json::Array(_) => remove_at(&mut value, &[call.integer(1).unwrap_or(0).to_string()]),
            _ => return Err(invalid("22023", "cannot delete from object using integer index".into())),
        }
        return Ok(text(Some(jsonb_text(&value))));
    }
    let keys = call.texts(1).unwrap_or_else(|| vec![call.text(1)]);
    for key in keys.into_iter().flatten() {
        match &mut value {
            Json::Object(map) => {
                map.remove(&key);
            }
            Json::Array(items) => items.retain(|item| item.as_str() != Some(&key)),
            _ => return Err(invalid("22023", "cannot delete from scalar".into())),
        }
    }
    Ok(text(Some(jsonb_text(&value))))
}

fn remove_at(value: &mut Json, path: &[String]) {
    let [key, rest @ ..] = path else { return };
    match value {
        Json::Object(map) if rest.is_empty() => {
            map.remove(key);
        }
        Json::Object(map) => {
            if let Some(inner) = map.get_mut(key) {
                remove_at(inner, rest);
            }
        }
        Json::Array(items) => {
            let Some(index) = position(key, items.len()).filter(|index| *index < items.len()) else { return };
            if rest.is_empty() {
                items.remove(index);
            } else {
                remove_at(&mut items[index], rest);
            }
        }
        _ => {}
    }
}

fn change(call: &Call<'_>, by: fn(&mut Json, &[String], Json, bool)) -> Value {
    let (Some(mut value), Some(path), Some(new)) = (parse(call, 0)?, path(call, 1), parse(call, 2)?) else {
        return Ok(ScalarValue::Null);
    };
    by(&mut value, &path, new, call.boolean(3) != Some(false));
    Ok(text(Some(jsonb_text(&value))))
}

fn put(value: &mut Json, path: &[String], new: Json, create: bool, _: bool) {
    let [key, rest @ ..] = path else { return };
    match value {
        Json::Object(map) => match map.get_mut(key) {
            Some(slot) if rest.is_empty() => *slot = new,
            Some(slot) => put(slot, rest, new, create, false),
            None if rest.is_empty() && create => {
                map.insert(key.clone(), new);
            }
            None => {}
        },
        Json::Array(items) => match position(key, items.len()) {
            Some(index) if index < items.len() && rest.is_empty() => items[index] = new,
            Some(index) if index < items.len() => put(&mut items[index], rest, new, create, false),
            Some(_) if rest.is_empty() && create => items.push(new),
            None if rest.is_empty() && create && key.parse::<i64>().is_ok() => items.insert(0, new),
            _ => {}
        },
        _ => {}
    }
}

fn insert(value: &mut Json, path: &[String], new: Json, after: bool) {
    let [key, rest @ ..] = path else { return };
    match value {
        Json::Object(map) if rest.is_empty() => {
            map.entry(key.clone()).or_insert(new);
        }
        Json::Object(map) => {
            if let Some(inner) = map.get_mut(key) {
                insert(inner, rest, new, after);
            }
        }
        Json::Array(items) => {
            let index = position(key, items.len()).unwrap_or(0);
            if rest.is_empty() {
                items.insert((index + usize::from(after)).min(items.len()), new);
            } else if let Some(inner) = items.get_mut(index) {
                insert(inner, rest, new, after);
            }
        }
        _ => {}
    }
}

fn without_nulls(value: Json) -> Json {
    match value {
        Json::Object(map) => Json::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Json::Array(items) => Json::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

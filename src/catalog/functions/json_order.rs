//! The order of jsonb: null, texts, numbers, truth values, arrays and objects; arrays and objects first by how much they
//! hold. Whatever differs in the order of keys alone, or as 1 and 1.0 do, is equal.

use serde_json::{Number, Value as Json};

use super::json::sorted;

/// The name of the function that gives [`key_of`].
pub const JSONB_KEY: &str = "jsonb_key";

/// Bytes that are ordered as the documents are.
pub fn key_of(document: &Json) -> Vec<u8> {
    // An empty array comes before everything else, and one value before an array of one.
    let first = match document {
        Json::Array(items) if items.is_empty() => 0,
        Json::Array(_) => 2,
        Json::Object(_) => 3,
        _ => 1,
    };
    let mut key = vec![first];
    write(&mut key, document);
    key
}

/// Whether two documents are equal.
pub fn same(one: &Json, other: &Json) -> bool {
    key_of(one) == key_of(other)
}

fn write(key: &mut Vec<u8>, document: &Json) {
    match document {
        Json::Null => key.push(1),
        Json::String(text) => {
            key.push(2);
            write_text(key, text);
        }
        Json::Number(number) => {
            key.push(3);
            write_number(key, number);
        }
        Json::Bool(value) => key.extend([4, u8::from(*value)]),
        Json::Array(items) => {
            key.push(5);
            key.extend((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| write(key, item));
        }
        Json::Object(map) => {
            key.push(6);
            key.extend((map.len() as u64).to_be_bytes());
            for (name, value) in sorted(map) {
                write_text(key, name);
                write(key, value);
            }
        }
    }
}

/// With an end that is less than any other byte; a zero byte within is told from it.
fn write_text(key: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(1);
        }
    }
    key.extend([0, 0]);
}

/// The nearest float, and then what tells whole numbers with the same one from each other.
fn write_number(key: &mut Vec<u8>, number: &Number) {
    let float = number.as_f64().unwrap_or_default();
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    // Without the sign of zero.
    let bits = (float + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.extend(ordered.to_be_bytes());
    key.extend((whole.unwrap_or(float as i128) ^ i128::MIN).to_be_bytes());
}

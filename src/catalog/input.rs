//! PostgreSQL's input functions of types that Arrow doesn't have: from their text to a value.

use datafusion::common::ScalarValue;
use serde_json::Value as Json;

use crate::error::{Error, Result};

/// Bytes of a name.
const NAME_LENGTH: usize = 63;

fn wrong(name: &str, text: &str) -> Error {
    Error::Data { sqlstate: "22P02", message: format!("invalid input syntax for type {name}: \"{text}\"") }
}

/// A value of the type of that name in [`super::types::TYPES`]; `length` is that of varchar(n) and bpchar(n).
///
/// # Errors
/// 22P02: the text isn't one of such a value.
pub fn exact(name: &str, text: &str, length: Option<usize>) -> Result<ScalarValue> {
    let value = match name {
        "bytea" => return bytea(text).map(|bytes| ScalarValue::Binary(Some(bytes))).ok_or_else(|| wrong(name, text)),
        "uuid" => uuid(text).ok_or_else(|| wrong(name, text))?,
        "json" => parse_json(text).map(|_| text.to_owned())?,
        "jsonb" => jsonb(&parse_json(text)?),
        "xid" => text.trim().parse::<u32>().map_err(|_| wrong(name, text))?.to_string(),
        "name" => text[..text.floor_char_boundary(NAME_LENGTH)].to_owned(),
        "char" => text.chars().take(1).collect(),
        // An explicit cast cuts what is too long.
        "varchar" => text.chars().take(length.unwrap_or(usize::MAX)).collect(),
        "bpchar" => {
            let length = length.unwrap_or(0);
            let kept: String = text.chars().take(if length == 0 { usize::MAX } else { length }).collect();
            format!("{kept:length$}")
        }
        _ => text.to_owned(),
    };
    Ok(ScalarValue::Utf8(Some(value)))
}

/// An oid. It has no sign, but is held in an integer that has.
///
/// # Errors
/// 22P02: no number; 22003: none of 32 bits.
pub fn oid(text: &str) -> Result<ScalarValue> {
    let number: i128 = text.trim().parse().map_err(|_| wrong("oid", text))?;
    // PostgreSQL takes negative numbers, too.
    let oid = u32::try_from(number).ok().map(u32::cast_signed).or_else(|| i32::try_from(number).ok());
    let oid = oid.ok_or_else(|| Error::Data {
        sqlstate: "22003",
        message: format!("value \"{}\" is out of range for type oid", text.trim()),
    })?;
    Ok(ScalarValue::Int32(Some(oid)))
}

/// The usual form of a UUID: PostgreSQL reads others, too.
fn uuid(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix('{').map_or(Some(text), |text| text.strip_suffix('}'))?;
    let mut digits = String::with_capacity(32);
    let mut after_hyphen = true;
    for c in text.chars() {
        match c {
            // Hyphens part groups of four digits.
            '-' if !after_hyphen && digits.len().is_multiple_of(4) => after_hyphen = true,
            c if c.is_ascii_hexdigit() => {
                digits.push(c.to_ascii_lowercase());
                after_hyphen = false;
            }
            _ => return None,
        }
    }
    (digits.len() == 32 && !after_hyphen)
        .then(|| [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"))
}

fn parse_json(text: &str) -> Result<Json> {
    serde_json::from_str(text).map_err(|error| Error::Data {
        sqlstate: "22P02",
        message: format!("invalid input syntax for type json: {error}"),
    })
}

/// JSON as jsonb prints it: keys by their length, then their bytes, and a space behind each colon and comma.
fn jsonb(json: &Json) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match json {
        Json::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| (key.len(), key.as_bytes()));
            let entry = |(key, value): (&String, &Json)| format!("{}: {}", Json::from(key.as_str()), jsonb(value));
            format!("{{{}}}", list(entries.into_iter().map(entry).collect()))
        }
        Json::Array(items) => format!("[{}]", list(items.iter().map(jsonb).collect())),
        other => other.to_string(),
    }
}

/// The bytes of bytea's text form, `\x00ff` or with escapes.
pub fn bytea(text: &str) -> Option<Vec<u8>> {
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

/// The items of an array's text form.
///
/// # Errors
/// 22P02: the text isn't one.
pub fn array(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = || Error::Data { sqlstate: "22P02", message: format!("malformed array literal: \"{text}\"") };
    items(text.trim()).ok_or_else(malformed)
}

/// The elements of an array's text form; those of an inner array as its text. None if it isn't one.
fn items(text: &str) -> Option<Vec<Option<String>>> {
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
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_in_postgresql() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(items("{}").unwrap(), vec![]);
        assert_eq!(items("{1, 2 ,NULL}").unwrap(), vec![some("1"), some("2"), None]);
        assert_eq!(items(r#"{"a,b","x\"y","NULL",""}"#).unwrap(), [some("a,b"), some("x\"y"), some("NULL"), some("")]);
        assert_eq!(items("{{1,2},{3}}").unwrap(), vec![some("{1,2}"), some("{3}")]);
        assert_eq!(items("{1,,2}"), None);
        assert_eq!(items("1,2"), None);
    }

    #[test]
    fn text_is_read_as_in_postgresql() {
        let read = |name: &str, text: &str, length: Option<usize>| exact(name, text, length).unwrap().to_string();
        let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for form in [id, "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11"] {
            assert_eq!(read("uuid", form, None), id);
        }
        for wrong in ["", "a0eebc99", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-", "g0eebc999c0b4ef8bb6d6bb9bd380a11"] {
            assert!(exact("uuid", wrong, None).is_err(), "{wrong}");
        }
        assert_eq!(
            read("jsonb", r#"{"bb":1,"a":[true,null],"c":"x"}"#, None),
            r#"{"a": [true, null], "c": "x", "bb": 1}"#
        );
        assert_eq!(read("json", "{\"b\" : 1}", None), "{\"b\" : 1}");
        assert_eq!(read("varchar", "größe", Some(3)), "grö");
        assert_eq!(read("bpchar", "ab", Some(4)), "ab  ");
        assert_eq!(oid("4294967295").unwrap(), ScalarValue::Int32(Some(-1)));
        assert_eq!(oid("4294967296").unwrap_err().sqlstate(), "22003");
        assert_eq!(bytea("\\x00fF").unwrap(), [0, 255]);
        assert_eq!(bytea("a\\\\\\001").unwrap(), [b'a', b'\\', 1]);
    }
}

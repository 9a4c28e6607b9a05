//! Functions of text and bytes.

use datafusion::common::ScalarValue;

use super::{Call, Definition, Value, invalid, pure, stable, text, volatile};
use crate::error::{Error, Result};

pub const FUNCTIONS: &[Definition] = &[
    pure("chr", 1..=1, "text", |call| {
        let Some(number) = call.integer(0) else { return Ok(ScalarValue::Null) };
        match number {
            0 => Err(invalid("54000", "null character not permitted".into())),
            ..0 => Err(invalid("22023", "character number must be positive".into())),
            _ => match u32::try_from(number).ok().and_then(char::from_u32) {
                Some(c) => Ok(text(Some(c.to_string()))),
                None => Err(invalid("54000", format!("requested character too large for encoding: {number}"))),
            },
        }
    }),
    // `x::varchar(n)`, `x::char(n)`: cut to so many characters.
    pure("varchar_n", 2..=2, "varchar", |call| Ok(text(call.text(0).map(|value| cut(&value, call.integer(1)))))),
    pure("bpchar_n", 2..=2, "bpchar", |call| {
        let width = call.integer(1).and_then(|width| usize::try_from(width).ok()).unwrap_or(0);
        let padded = |value: String| format!("{:width$}", cut(value.trim_end_matches(' '), call.integer(1)));
        Ok(text(call.text(0).map(padded)))
    }),
    pure("unistr", 1..=1, "text", |call| match call.text(0) {
        None => Ok(ScalarValue::Null),
        Some(value) => unicode_escapes(&value, '\\').map(|value| text(Some(value))),
    }),
    pure("convert_from", 2..=2, "text", |call| match bytes(call, 0)? {
        None => Ok(ScalarValue::Null),
        Some(bytes) => String::from_utf8(bytes)
            .map(|value| text(Some(value)))
            .map_err(|_| invalid("22021", "invalid byte sequence for encoding \"UTF8\"".into())),
    }),
    pure("convert_to", 2..=2, "bytea", |call| Ok(ScalarValue::Binary(call.text(0).map(String::into_bytes)))),
    pure("get_byte", 2..=2, "int4", |call| {
        let (Some(bytes), Some(index)) = (bytes(call, 0)?, call.integer(1)) else { return Ok(ScalarValue::Null) };
        match usize::try_from(index).ok().and_then(|index| bytes.get(index)) {
            Some(byte) => Ok(ScalarValue::Int32(Some((*byte).into()))),
            None => {
                let last = bytes.len() as i64 - 1;
                Err(invalid("2202E", format!("index {index} out of valid range, 0..{last}")))
            }
        }
    }),
    pure("bytea_length", 1..=1, "int4", |call| {
        Ok(ScalarValue::Int32(bytes(call, 0)?.and_then(|bytes| i32::try_from(bytes.len()).ok())))
    }),
    pure("encode", 2..=2, "text", encode),
    pure("decode", 2..=2, "bytea", decode),
    pure("starts_with", 2..=2, "bool", |call| {
        let (Some(value), Some(start)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
        Ok(ScalarValue::Boolean(Some(value.starts_with(&start))))
    }),
    pure("pg_size_bytes", 1..=1, "int8", size_bytes),
    volatile("gen_random_uuid", 0..=0, "uuid", |_| {
        let mut bytes = [0_u8; 16];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut bytes).map_err(|_| Error::Internal("no random bytes".into()))?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(text(Some(uuid_text(&bytes))))
    }),
    pure("uuid_in", 1..=1, "uuid", |call| match call.text(0) {
        None => Ok(ScalarValue::Null),
        Some(value) => uuid(&value).map(|value| text(Some(value))),
    }),
    pure("inet_in", 1..=1, "inet", |call| match call.text(0) {
        None => Ok(ScalarValue::Null),
        Some(value) => {
            let address = value.trim().split('/').next().unwrap_or_default();
            let known = address.parse::<std::net::IpAddr>();
            known.map_err(|_| invalid("22P02", format!("invalid input syntax for type inet: \"{value}\"")))?;
            Ok(text(Some(value.trim())))
        }
    }),
    pure("name_in", 1..=1, "name", |call| Ok(text(call.text(0).map(|value| cut(&value, Some(63)))))),
    pure("varchar_in", 1..=1, "varchar", |call| Ok(text(call.text(0)))),
    // As text: without what it is filled up with.
    pure("bpchar_out", 1..=1, "text", |call| {
        Ok(text(call.text(0).map(|value| value.trim_end_matches(' ').to_owned())))
    }),
    pure("bpchar_in", 1..=1, "bpchar", |call| Ok(text(call.text(0)))),
    pure("char_in", 1..=1, "char", |call| Ok(text(call.text(0).map(|value| cut(&value, Some(1)))))),
    pure("xid_in", 1..=1, "xid", |call| Ok(text(call.text(0)))),
    // The exact type of text goes: text is all that it is.
    stable("text_in", 1..=1, "text", |call| Ok(text(call.text(0)))),
    pure("pg_typeof", 1..=1, "regtype", |call| {
        let name = super::super::types::sql_name(&call.fields[0]);
        let oid = super::super::types::TYPES.iter().find(|known| known.sql == name).map(|known| known.oid);
        // What has no type yet: a literal, or NULL.
        let oid = oid.or(if name == "record" { Some(2249) } else { Some(705) });
        Ok(ScalarValue::Int32(oid.and_then(|oid| i32::try_from(oid).ok())))
    }),
];

fn cut(value: &str, characters: Option<i64>) -> String {
    let characters = characters.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    value.chars().take(characters).collect()
}

/// Bytes, or text that stands for some.
fn bytes(call: &Call<'_>, index: usize) -> Result<Option<Vec<u8>>> {
    match call.args.get(index) {
        Some(ScalarValue::Binary(value) | ScalarValue::LargeBinary(value) | ScalarValue::BinaryView(value)) => {
            Ok(value.clone())
        }
        Some(ScalarValue::Utf8(Some(text))) => bytea(text).map(Some),
        _ => Ok(None),
    }
}

/// Bytes from their text form.
///
/// # Errors
/// 22P02, 22023: it is none.
pub fn bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return hex(digits);
    }
    let wrong = || invalid("22P02", "invalid input syntax for type bytea".into());
    let source = text.as_bytes();
    let mut out = Vec::with_capacity(source.len());
    let mut at = 0;
    while let Some(byte) = source.get(at) {
        match (byte, source.get(at + 1)) {
            (b'\\', Some(b'\\')) => {
                out.push(b'\\');
                at += 2;
            }
            (b'\\', _) => {
                let octal = text.get(at + 1..at + 4).ok_or_else(wrong)?;
                out.push(u8::from_str_radix(octal, 8).map_err(|_| wrong())?);
                at += 4;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    Ok(out)
}

fn hex(digits: &str) -> Result<Vec<u8>> {
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    if let Some(wrong) = digits.iter().find(|c| !c.is_ascii_hexdigit()) {
        return Err(invalid("22023", format!("invalid hexadecimal digit: \"{wrong}\"")));
    }
    if digits.len() % 2 == 1 {
        return Err(invalid("22023", "invalid hexadecimal data: odd number of digits".into()));
    }
    let value = |c: char| c.to_digit(16).unwrap_or(0) as u8;
    Ok(digits.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect())
}

fn encode(call: &Call<'_>) -> Value {
    use base64::Engine as _;
    let (Some(bytes), Some(format)) = (bytes(call, 0)?, call.text(1)) else { return Ok(ScalarValue::Null) };
    let encoded = match format.to_lowercase().as_str() {
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        "base64" => {
            let all = base64::engine::general_purpose::STANDARD.encode(bytes);
            // Lines of 76 characters.
            let lines: Vec<&str> = (0..all.len()).step_by(76).map(|at| &all[at..all.len().min(at + 76)]).collect();
            lines.join("\n")
        }
        "escape" => bytes
            .iter()
            .map(|byte| match byte {
                b'\\' => "\\\\".to_owned(),
                0 | 0x80.. => format!("\\{byte:03o}"),
                byte => char::from(*byte).to_string(),
            })
            .collect(),
        _ => return Err(invalid("22023", format!("unrecognized encoding: \"{format}\""))),
    };
    Ok(text(Some(encoded)))
}

fn decode(call: &Call<'_>) -> Value {
    use base64::Engine as _;
    let (Some(value), Some(format)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
    let bytes = match format.to_lowercase().as_str() {
        "hex" => hex(&value)?,
        "base64" => {
            let packed: String = value.chars().filter(|c| !c.is_whitespace()).collect();
            base64::engine::general_purpose::STANDARD
                .decode(packed)
                .map_err(|_| invalid("22023", "invalid base64 end sequence".into()))?
        }
        "escape" => bytea(&value)?,
        _ => return Err(invalid("22023", format!("unrecognized encoding: \"{format}\""))),
    };
    Ok(ScalarValue::Binary(Some(bytes)))
}

/// `\0061`, `\+000061` and `\\` for an escape character.
///
/// # Errors
/// 42601: an escape that is none.
pub fn unicode_escapes(value: &str, escape: char) -> Result<String> {
    let wrong = || invalid("42601", "invalid Unicode escape".into());
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != escape {
            out.push(c);
            continue;
        }
        if let Some(after) = rest.strip_prefix(escape) {
            out.push(escape);
            rest = after;
            continue;
        }
        let (digits, length) = match rest.strip_prefix(['+', 'U']) {
            Some(after) if rest.starts_with('+') => (after, 6),
            Some(after) => (after, 8),
            None => (rest.strip_prefix('u').unwrap_or(rest), 4),
        };
        let number = digits.get(..length).ok_or_else(wrong)?;
        let code = u32::from_str_radix(number, 16).map_err(|_| wrong())?;
        out.push(char::from_u32(code).ok_or_else(wrong)?);
        rest = &digits[length..];
    }
    Ok(out)
}

fn size_bytes(call: &Call<'_>) -> Value {
    let Some(value) = call.text(0) else { return Ok(ScalarValue::Null) };
    let trimmed = value.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let wrong = || invalid("22023", format!("invalid size: \"{value}\""));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let power = ["bytes", "kb", "mb", "gb", "tb", "pb"].iter().position(|known| *known == unit.trim().to_lowercase());
    let power = if unit.trim().is_empty() { 0 } else { power.ok_or_else(wrong)? };
    Ok(ScalarValue::Int64(Some((number * 1024_f64.powi(power as i32)).round() as i64)))
}

/// A uuid in its usual form.
///
/// # Errors
/// 22P02: it is none.
pub fn uuid(value: &str) -> Result<String> {
    let wrong = || invalid("22P02", format!("invalid input syntax for type uuid: \"{value}\""));
    let inner = value.trim().trim_start_matches('{').trim_end_matches('}');
    let digits: String = inner.chars().filter(|c| *c != '-').collect();
    let bytes = hex(&digits).map_err(|_| wrong())?;
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| wrong())?;
    Ok(uuid_text(&bytes))
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

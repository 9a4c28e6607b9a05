//! The one form that a jsonb document has in PostgreSQL: a space behind each comma and colon, an object's keys once each and
//! by their length, numbers without an exponent but with all their digits.
//!
//! It is made from the text. A number that was read as one has lost the digits that a float doesn't hold.

use std::borrow::Cow;

/// How many arrays and objects may stand within each other, and how many digits an exponent may stand for. What has more is
/// left as it is.
const LEVELS: usize = 128;
const DIGITS: i64 = 16_383;

/// The form of a document, which is JSON. `None`: it isn't, or has too many levels.
pub fn normal(document: &str) -> Option<String> {
    let mut out = String::with_capacity(document.len());
    let rest = value(document, &mut out, 0)?;
    blank(rest).is_empty().then_some(out)
}

/// Writes the value that a text starts with, and gives what is behind it.
fn value<'a>(text: &'a str, out: &mut String, level: usize) -> Option<&'a str> {
    let text = blank(text);
    match text.as_bytes().first()? {
        _ if level > LEVELS => None,
        b'{' => object(text, out, level),
        b'[' => array(text, out, level),
        b'"' => {
            let (written, rest) = string(text)?;
            out.push_str(&requoted(written)?);
            Some(rest)
        }
        b'-' | b'0'..=b'9' => {
            let is_end = |c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
            let (written, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
            out.push_str(&number(written));
            Some(rest)
        }
        _ => {
            let word = ["true", "false", "null"].into_iter().find(|word| text.starts_with(word))?;
            out.push_str(word);
            text.get(word.len()..)
        }
    }
}

fn array<'a>(text: &'a str, out: &mut String, level: usize) -> Option<&'a str> {
    let mut rest = blank(text.get(1..)?);
    out.push('[');
    while !rest.starts_with(']') {
        rest = blank(value(rest, out, level + 1)?);
        if let Some(next) = rest.strip_prefix(',') {
            out.push_str(", ");
            rest = next;
        } else if !rest.starts_with(']') {
            return None;
        }
    }
    out.push(']');
    rest.get(1..)
}

fn object<'a>(text: &'a str, out: &mut String, level: usize) -> Option<&'a str> {
    let mut rest = blank(text.get(1..)?);
    let mut pairs: Vec<(String, String)> = Vec::new();
    while !rest.starts_with('}') {
        let (key, behind) = string(rest)?;
        let mut written = String::new();
        rest = blank(value(blank(behind).strip_prefix(':')?, &mut written, level + 1)?);
        pairs.push((serde_json::from_str(key).ok()?, written));
        if let Some(next) = rest.strip_prefix(',') {
            rest = blank(next);
        } else if !rest.starts_with('}') {
            return None;
        }
    }
    pairs.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
    // Of a key that is there twice the last value stays: the sort has kept their order.
    let (mut last, mut separator) = (pairs.iter().skip(1), "");
    out.push('{');
    for (key, value) in &pairs {
        if last.next().is_some_and(|(next, _)| next == key) {
            continue;
        }
        out.push_str(separator);
        out.push_str(&serde_json::to_string(key).ok()?);
        out.push_str(": ");
        out.push_str(value);
        separator = ", ";
    }
    out.push('}');
    rest.get(1..)
}

/// The string that a text starts with, in its quotes, and what is behind it.
fn string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let inner = text.strip_prefix('"')?;
    let end = inner.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(text.split_at(end + 2))
}

/// A string with only the escapes that it needs.
fn requoted(written: &str) -> Option<Cow<'_, str>> {
    if !written.contains('\\') {
        return Some(Cow::Borrowed(written));
    }
    let read: String = serde_json::from_str(written).ok()?;
    serde_json::to_string(&read).ok().map(Cow::Owned)
}

/// A number as numeric shows it.
pub fn number(written: &str) -> Cow<'_, str> {
    let (mantissa, exponent) = match written.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()),
        None => (written, Some(0)),
    };
    let Some(exponent) = exponent.filter(|exponent| exponent.abs() <= DIGITS) else { return Cow::Borrowed(written) };
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    // There is one zero.
    let is_zero = digits.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    if exponent == 0 && mantissa.len() == written.len() && !(is_zero && sign == "-") {
        return Cow::Borrowed(written);
    }
    let sign = if is_zero { "" } else { sign };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = (fraction.len() as i64 - exponent).max(0) as usize;
    let mut all = format!("{whole}{fraction}");
    all.extend(std::iter::repeat_n('0', (exponent - fraction.len() as i64).max(0) as usize));
    let missing = (scale + 1).saturating_sub(all.len());
    all.insert_str(0, &"0".repeat(missing));
    let (whole, fraction) = all.split_at(all.len() - scale);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Cow::Owned(format!("{sign}{whole}{point}{fraction}"))
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_one_form() {
        for (written, expected) in [
            (r#"{"a":1}"#, r#"{"a": 1}"#),
            (r#" { "bb" : [ 1 ,2,{ } ,[]], "a":null, "c" : "x" } "#, r#"{"a": null, "c": "x", "bb": [1, 2, {}, []]}"#),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#),
            (r#"{"a":1,"\u0061":2}"#, r#"{"a": 2}"#),
            (r#""\u00e4\n\u001F\/""#, r#""ä\n\u001f/""#),
            (r#"["a\\","b\"c"]"#, r#"["a\\", "b\"c"]"#),
            ("1.50", "1.50"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("true", "true"),
        ] {
            assert_eq!(normal(written).as_deref(), Some(expected), "{written}");
        }
        for written in ["", "{", "[1", "[1 2]", "{\"a\"}", "tru", "1 2", "\"", &"[".repeat(100_000)] {
            assert_eq!(normal(written), None);
        }
    }

    #[test]
    fn a_number_keeps_its_digits() {
        for (written, expected) in [
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("1e2", "100"),
            ("1.50e1", "15.0"),
            ("-1.5E3", "-1500"),
            ("1e-3", "0.001"),
            ("12.5e-1", "1.25"),
            ("0e5", "0"),
            ("1e0", "1"),
            ("1e99999", "1e99999"),
        ] {
            assert_eq!(number(written), expected, "{written}");
        }
    }
}

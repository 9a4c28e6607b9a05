//! format(), quote_literal() and their like.

use super::names::quote;
use super::{Call, Definition, invalid, stable, text};
use crate::error::Result;

pub const FUNCTIONS: &[Definition] = &[
    stable("format", 1..=9, "text", |call| Ok(text(format(call)?))),
    stable("quote_literal", 1..=1, "text", |call| Ok(text(call.text(0).map(|value| literal(&value))))),
    stable("quote_nullable", 1..=1, "text", |call| {
        Ok(text(Some(call.text(0).map_or_else(|| "NULL".into(), |value| literal(&value)))))
    }),
];

fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn format(call: &Call<'_>) -> Result<Option<String>> {
    let Some(pattern) = call.text(0) else { return Ok(None) };
    let mut out = String::new();
    let mut next = 1;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse::<usize>().ok()
        };
        let mut width = number(&mut chars);
        let position = if chars.next_if_eq(&'$').is_some() { width.take() } else { None };
        let to_the_left = chars.next_if_eq(&'-').is_some();
        width = number(&mut chars).or(width);
        let kind = chars.next().ok_or_else(|| invalid("22023", "unterminated format() type specifier".into()))?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let index: usize = position.unwrap_or(next);
        next = index + 1;
        if index >= call.args.len() {
            return Err(invalid("22023", "too few arguments for format()".into()));
        }
        let shown = match (kind, call.text(index)) {
            ('s', value) => value.unwrap_or_default(),
            ('I', Some(value)) => quote(&value),
            ('I', None) => return Err(invalid("22004", "null values cannot be formatted as an SQL identifier".into())),
            ('L', value) => value.map_or_else(|| "NULL".into(), |value| literal(&value)),
            _ => return Err(invalid("22023", format!("unrecognized format() type specifier \"{kind}\""))),
        };
        let width = width.unwrap_or(0).min(10_000);
        out.push_str(&if to_the_left { format!("{shown:width$}") } else { format!("{shown:>width$}") });
    }
    Ok(Some(out))
}

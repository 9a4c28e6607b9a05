//! Numbers: the text of floats as PostgreSQL prints them, and the binary form of `numeric`.

use bytes::{BufMut, BytesMut};

/// Appends a float8 in PostgreSQL's text form.
pub(super) fn write_f64(out: &mut BytesMut, value: f64, extra_float_digits: i32) {
    match special(value) {
        Some(name) => out.put_slice(name),
        None if extra_float_digits > 0 => write_digits(out, &format!("{value:e}"), 15),
        None => write_rounded(out, value, 15 + extra_float_digits),
    }
}

/// Appends a float4 in PostgreSQL's text form.
pub(super) fn write_f32(out: &mut BytesMut, value: f32, extra_float_digits: i32) {
    match special(value.into()) {
        Some(name) => out.put_slice(name),
        None if extra_float_digits > 0 => write_digits(out, &format!("{value:e}"), 6),
        None => write_rounded(out, value.into(), 6 + extra_float_digits),
    }
}

fn special(value: f64) -> Option<&'static [u8]> {
    match value {
        value if value.is_nan() => Some(b"NaN"),
        f64::INFINITY => Some(b"Infinity"),
        f64::NEG_INFINITY => Some(b"-Infinity"),
        _ => None,
    }
}

/// As C's `%.*g`.
fn write_rounded(out: &mut BytesMut, value: f64, significant: i32) {
    let significant = significant.max(1);
    let scientific = format!("{value:.*e}", significant as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    write_digits(out, &format!("{digits}e{exponent}"), significant);
}

/// Writes `d.ddde±x`, in positional notation for exponents from -4 to below `limit`.
fn write_digits(out: &mut BytesMut, scientific: &str, limit: i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.put_slice(sign.as_bytes());
    if !(-4..limit).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.put_slice(format!("{mantissa}e{sign}{:02}", exponent.abs()).as_bytes());
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', (-exponent - 1) as usize);
        out.put_slice(digits.as_bytes());
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.put_slice(digits.as_bytes());
        out.put_bytes(b'0', whole - digits.len());
    } else {
        out.put_slice(&digits.as_bytes()[..whole]);
        out.put_u8(b'.');
        out.put_slice(&digits.as_bytes()[whole..]);
    }
}

/// Appends a decimal number in the binary form of `numeric`: digits to the base of 10,000.
pub(super) fn write_numeric(out: &mut BytesMut, text: &str) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    // Whole groups of four on both sides of the point.
    let padded = format!("{}{whole}{fraction}{}", zeros_to_group(whole.len()), zeros_to_group(fraction.len()));
    let groups: Vec<i16> = padded.as_bytes().chunks(4).map(group).collect();
    let mut weight = whole.len().div_ceil(4) as i16 - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups[leading..].iter().rev().take_while(|group| **group == 0).count();
    let digits = &groups[leading..groups.len() - trailing];
    weight -= leading as i16;
    out.put_i16(digits.len() as i16);
    out.put_i16(if digits.is_empty() { 0 } else { weight });
    out.put_u16(if negative && !digits.is_empty() { 0x4000 } else { 0 });
    out.put_i16(fraction.len() as i16);
    for digit in digits {
        out.put_i16(*digit);
    }
}

fn zeros_to_group(length: usize) -> &'static str {
    &"0000"[..(4 - length % 4) % 4]
}

fn group(digits: &[u8]) -> i16 {
    digits.iter().fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
}

/// The decimal text of the binary form of `numeric`; None when it isn't one.
pub(in crate::wire) fn read_numeric(bytes: &[u8]) -> Option<String> {
    let word = |index: usize| Some(i16::from_be_bytes(bytes.get(index * 2..index * 2 + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (word(0)?, i32::from(word(1)?), word(2)? as u16, word(3)?);
    match sign {
        0xC000 => return Some("NaN".into()),
        0xD000 => return Some("Infinity".into()),
        0xF000 => return Some("-Infinity".into()),
        _ => {}
    }
    let count = usize::try_from(count).ok()?;
    let digit = |position: i32| match usize::try_from(weight - position) {
        Ok(index) if index < count => word(4 + index),
        _ => Some(0),
    };
    let mut text = String::from(if sign == 0x4000 { "-" } else { "" });
    if weight < 0 {
        text.push('0');
    }
    for position in (0..=weight).rev() {
        let group = digit(position)?;
        text.push_str(&if position == weight { group.to_string() } else { format!("{group:04}") });
    }
    let scale = usize::try_from(scale).ok()?;
    if scale > 0 {
        let mut fraction = String::new();
        for position in 1..=scale.div_ceil(4) as i32 {
            fraction.push_str(&format!("{:04}", digit(-position)?));
        }
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float8(value: f64, digits: i32) -> String {
        let mut out = BytesMut::new();
        write_f64(&mut out, value, digits);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn float4(value: f32) -> String {
        let mut out = BytesMut::new();
        write_f32(&mut out, value, 1);
        String::from_utf8(out.to_vec()).unwrap()
    }

    /// The expected texts are what PostgreSQL 15 prints.
    #[test]
    fn floats_are_printed_as_postgresql_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (100.0, "100"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float8(value, 1), text);
        }
        assert_eq!(float8(1.0 / 3.0, 0), "0.333333333333333");
        assert_eq!(float8(1.0 / 3.0, -10), "0.33333");
        assert_eq!(float8(123_456.0, -12), "1.23e+05");
        assert_eq!(float8(100.0, 0), "100");
        assert_eq!(float4(0.1), "0.1");
        assert_eq!(float4(123_456.0), "123456");
        assert_eq!(float4(1_234_567.0), "1.234567e+06");
    }

    #[test]
    fn numeric_binary_form_round_trips() {
        for text in [
            "0",
            "1",
            "-1",
            "10000",
            "12345678.9",
            "0.0001",
            "0.00001000",
            "-99999999999999999999999999999.5",
            "1000000.000",
        ] {
            let mut out = BytesMut::new();
            write_numeric(&mut out, text);
            assert_eq!(read_numeric(&out).unwrap(), text);
        }
        let mut out = BytesMut::new();
        write_numeric(&mut out, "12345.67");
        assert_eq!(out.as_ref(), [0, 3, 0, 1, 0, 0, 0, 2, 0, 1, 9, 41, 26, 44]);
    }
}

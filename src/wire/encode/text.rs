//! The text format, as PostgreSQL's output functions print it.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::types::{Float16Type, Float32Type, Float64Type};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::array_value_to_string;
use pgwire::api::Type;
use postgres_types::Kind;

use super::style::{DateStyle, IntervalStyle, Style};
use super::{Moment, bytes_of, decimal, elements, integer, moment, numeric, string, unwritable};
use crate::error::{Error, Result};

/// Appends the value in the text format of its type, without length.
pub(super) fn write(out: &mut BytesMut, array: &dyn Array, row: usize, pg_type: &Type, style: &Style) -> Result<()> {
    if let Some(value) = string(array, row) {
        out.put_slice(value.as_bytes());
    } else if let Some(value) = integer(array, row) {
        // An oid has no sign.
        let value = if *pg_type == Type::OID { i64::from(value as u32) } else { value };
        put(out, format_args!("{value}"));
    } else if let Some(value) = moment(array, row) {
        write_moment(out, &value, style)?;
    } else if let Some(value) = decimal(array, row) {
        out.put_slice(value.as_bytes());
    } else if let Some(value) = bytes_of(array, row) {
        write_bytea(out, value, style.bytea_escape);
    } else if let Some(items) = elements(array, row) {
        write_list(out, &items, pg_type, style)?;
    } else {
        match array.data_type() {
            DataType::Boolean => out.put_u8(if array.as_boolean().value(row) { b't' } else { b'f' }),
            DataType::Float16 => {
                let value = array.as_primitive::<Float16Type>().value(row).to_f32();
                numeric::write_f32(out, value, style.extra_float_digits);
            }
            DataType::Float32 => {
                numeric::write_f32(out, array.as_primitive::<Float32Type>().value(row), style.extra_float_digits);
            }
            DataType::Float64 => {
                numeric::write_f64(out, array.as_primitive::<Float64Type>().value(row), style.extra_float_digits);
            }
            DataType::Struct(_) => write_record(out, array, row, style)?,
            _ if *pg_type == Type::TEXT => write_debug(out, array, row)?,
            _ => return Err(unwritable(array)),
        }
    }
    Ok(())
}

/// A value of a type that PostgreSQL doesn't have, as Arrow prints it.
pub(super) fn write_debug(out: &mut BytesMut, array: &dyn Array, row: usize) -> Result<()> {
    let text = array_value_to_string(array, row).map_err(|_| unwritable(array))?;
    out.put_slice(text.as_bytes());
    Ok(())
}

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    // A BytesMut grows, so that writing to it can't fail.
    let _ = out.write_fmt(text);
}

fn write_bytea(out: &mut BytesMut, value: &[u8], escape: bool) {
    if !escape {
        out.put_slice(b"\\x");
        for byte in value {
            put(out, format_args!("{byte:02x}"));
        }
        return;
    }
    for byte in value {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b' '..=b'~' => out.put_u8(*byte),
            _ => put(out, format_args!("\\{byte:03o}")),
        }
    }
}

fn write_list(out: &mut BytesMut, items: &dyn Array, pg_type: &Type, style: &Style) -> Result<()> {
    // int2vector and oidvector, the arrays of old, are just numbers with spaces between.
    let vector = matches!(*pg_type, Type::INT2_VECTOR | Type::OID_VECTOR);
    let (open, separator, close): (&[u8], u8, &[u8]) = if vector { (b"", b' ', b"") } else { (b"{", b',', b"}") };
    out.put_slice(open);
    let item_type = match pg_type.kind() {
        Kind::Array(item) => item,
        _ => pg_type,
    };
    let mut text = BytesMut::new();
    for row in 0..items.len() {
        if row > 0 {
            out.put_u8(separator);
        }
        if items.is_null(row) || items.data_type().is_null() {
            out.put_slice(b"NULL");
        } else if elements(items, row).is_some() {
            write(out, items, row, pg_type, style)?;
        } else {
            text.clear();
            write(&mut text, items, row, item_type, style)?;
            write_quoted(out, &text, needs_quotes_in_array(&text), b"\\\"");
        }
    }
    out.put_slice(close);
    Ok(())
}

fn needs_quotes_in_array(text: &[u8]) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case(b"null")
        || text.iter().any(|byte| matches!(byte, b'{' | b'}' | b'"' | b',' | b'\\') || is_space(*byte))
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// In quotes when `quote`; then a quote and a backslash are escaped, by a backslash in arrays, doubled in records.
fn write_quoted(out: &mut BytesMut, text: &[u8], quote: bool, escape: &[u8; 2]) {
    if !quote {
        out.put_slice(text);
        return;
    }
    out.put_u8(b'"');
    for byte in text {
        match byte {
            b'"' => out.put_slice(&[escape[0], b'"']),
            b'\\' => out.put_slice(b"\\\\"),
            _ => out.put_u8(*byte),
        }
    }
    out.put_u8(b'"');
}

fn write_record(out: &mut BytesMut, array: &dyn Array, row: usize, style: &Style) -> Result<()> {
    let record = array.as_struct();
    out.put_u8(b'(');
    let mut text = BytesMut::new();
    for (index, (field, values)) in record.fields().iter().zip(record.columns()).enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        if values.is_null(row) || values.data_type().is_null() {
            continue;
        }
        text.clear();
        write(&mut text, values, row, &super::pg_type(field)?, style)?;
        let special = |byte: &u8| matches!(byte, b'(' | b')' | b'"' | b',' | b'\\') || is_space(*byte);
        write_quoted(out, &text, text.is_empty() || text.iter().any(special), b"\"\"");
    }
    out.put_u8(b')');
    Ok(())
}

fn write_moment(out: &mut BytesMut, value: &Moment, style: &Style) -> Result<()> {
    match *value {
        Moment::Date(days) => {
            let date = i32::try_from(days).ok().and_then(NaiveDate::from_epoch_days).ok_or_else(beyond)?;
            write_date(out, date, style);
        }
        Moment::Time(micros) => write_time(out, micros),
        Moment::Timestamp(micros) => {
            let at = DateTime::from_timestamp_micros(micros).ok_or_else(beyond)?.naive_utc();
            write_timestamp(out, at, style);
        }
        Moment::TimestampTz(micros) => {
            let at = DateTime::from_timestamp_micros(micros).ok_or_else(beyond)?.naive_utc();
            let zoned = style.zone.from_utc_datetime(&at);
            write_timestamp(out, zoned.naive_local(), style);
            if style.date == DateStyle::Iso {
                write_offset(out, zoned.offset().fix().local_minus_utc());
            } else {
                write_zone(out, &zoned);
            }
        }
        Moment::Interval(months, days, micros) => {
            out.put_slice(interval(months, days, micros, style.interval).as_bytes());
        }
    }
    if era_is_bc(value) {
        out.put_slice(b" BC");
    }
    Ok(())
}

fn beyond() -> Error {
    Error::Data { sqlstate: "22008", message: "timestamp out of range".into() }
}

fn era_is_bc(value: &Moment) -> bool {
    const YEAR_1: i64 = -719_162;
    match *value {
        Moment::Date(days) => days < YEAR_1,
        Moment::Timestamp(micros) | Moment::TimestampTz(micros) => micros.div_euclid(86_400_000_000) < YEAR_1,
        _ => false,
    }
}

fn write_date(out: &mut BytesMut, date: NaiveDate, style: &Style) {
    let year = if date.year() > 0 { date.year() } else { 1 - date.year() };
    let (month, day) = (date.month(), date.day());
    match (style.date, style.day_first) {
        (DateStyle::Iso, _) => put(out, format_args!("{year:04}-{month:02}-{day:02}")),
        (DateStyle::Sql, true) => put(out, format_args!("{day:02}/{month:02}/{year:04}")),
        (DateStyle::Sql, false) => put(out, format_args!("{month:02}/{day:02}/{year:04}")),
        (DateStyle::German, _) => put(out, format_args!("{day:02}.{month:02}.{year:04}")),
        (DateStyle::Postgres, true) => put(out, format_args!("{day:02}-{month:02}-{year:04}")),
        (DateStyle::Postgres, false) => put(out, format_args!("{month:02}-{day:02}-{year:04}")),
    }
}

fn write_time(out: &mut BytesMut, micros: i64) {
    let seconds = micros / 1_000_000;
    put(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    out.put_slice(fraction(micros % 1_000_000).as_bytes());
}

/// `.5` for 500,000; nothing for 0.
fn fraction(micros: i64) -> String {
    if micros == 0 { String::new() } else { format!(".{micros:06}").trim_end_matches('0').to_owned() }
}

fn write_timestamp(out: &mut BytesMut, at: NaiveDateTime, style: &Style) {
    let micros = at.signed_duration_since(at.date().and_time(chrono::NaiveTime::MIN)).num_microseconds().unwrap_or(0);
    if style.date == DateStyle::Postgres {
        let order = if style.day_first { "%a %d %b " } else { "%a %b %d " };
        put(out, format_args!("{}", at.format(order)));
        write_time(out, micros);
        put(out, format_args!(" {:04}", if at.year() > 0 { at.year() } else { 1 - at.year() }));
    } else {
        write_date(out, at.date(), style);
        out.put_u8(b' ');
        write_time(out, micros);
    }
}

/// The zone's abbreviation at that time, or its offset if it has none.
fn write_zone(out: &mut BytesMut, at: &DateTime<Tz>) {
    out.put_u8(b' ');
    let name = at.format("%Z").to_string();
    match at.offset().fix().local_minus_utc() {
        0 if !name.starts_with(char::is_alphabetic) => out.put_slice(b"UTC"),
        offset if !name.starts_with(char::is_alphabetic) => write_offset(out, offset),
        _ => out.put_slice(name.as_bytes()),
    }
}

fn write_offset(out: &mut BytesMut, seconds: i32) {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.abs();
    put(out, format_args!("{sign}{:02}", seconds / 3600));
    if seconds % 3600 != 0 {
        put(out, format_args!(":{:02}", seconds / 60 % 60));
    }
    if seconds % 60 != 0 {
        put(out, format_args!(":{:02}", seconds % 60));
    }
}

/// An interval in one of PostgreSQL's four styles.
fn interval(months: i32, days: i32, micros: i64, style: IntervalStyle) -> String {
    let parts = Parts {
        years: (months / 12).into(),
        months: (months % 12).into(),
        days: days.into(),
        hours: micros / 3_600_000_000,
        minutes: micros / 60_000_000 % 60,
        seconds: micros / 1_000_000 % 60,
        micros: micros % 1_000_000,
    };
    match style {
        IntervalStyle::Postgres => parts.postgres(),
        IntervalStyle::Verbose => parts.verbose(),
        IntervalStyle::SqlStandard => parts.sql_standard(),
        IntervalStyle::Iso8601 => parts.iso_8601(),
    }
}

/// An interval's parts; each has a sign of its own, those of the time share one.
#[derive(Clone, Copy)]
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Parts {
    fn all(&self) -> [i64; 7] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.seconds, self.micros]
    }

    fn has_time(&self) -> bool {
        self.all()[3..].iter().any(|part| *part != 0)
    }

    fn time_is_negative(&self) -> bool {
        self.all()[3..].iter().any(|part| *part < 0)
    }

    fn seconds_text(&self) -> String {
        format!("{}{}", self.seconds.abs(), fraction(self.micros.abs()))
    }

    fn clock(&self) -> String {
        let seconds = self.seconds.abs();
        format!("{:02}:{seconds:02}{}", self.minutes.abs(), fraction(self.micros.abs()))
    }

    fn postgres(&self) -> String {
        let mut text = String::new();
        let mut after_negative = false;
        for (value, unit) in [(self.years, "year"), (self.months, "mon"), (self.days, "day")] {
            if value != 0 {
                let space = if text.is_empty() { "" } else { " " };
                let plus = if after_negative && value > 0 { "+" } else { "" };
                let plural = if value == 1 { "" } else { "s" };
                let _ = write!(text, "{space}{plus}{value} {unit}{plural}");
                after_negative = value < 0;
            }
        }
        if text.is_empty() || self.has_time() {
            let space = if text.is_empty() { "" } else { " " };
            let sign = match (self.time_is_negative(), after_negative) {
                (true, _) => "-",
                (false, true) => "+",
                (false, false) => "",
            };
            let _ = write!(text, "{space}{sign}{:02}:{}", self.hours.abs(), self.clock());
        }
        text
    }

    fn verbose(&self) -> String {
        let mut text = String::from("@");
        // The first part's sign becomes "ago"; the others are relative to it.
        let ago = self.all().into_iter().find(|part| *part != 0).is_some_and(|part| part < 0);
        let turned = |value: i64| if ago { -value } else { value };
        let units = [
            (self.years, "year"),
            (self.months, "mon"),
            (self.days, "day"),
            (self.hours, "hour"),
            (self.minutes, "min"),
        ];
        for (value, unit) in units.into_iter().filter(|(value, _)| *value != 0) {
            let value = turned(value);
            let _ = write!(text, " {value} {unit}{}", if value == 1 { "" } else { "s" });
        }
        if self.seconds != 0 || self.micros != 0 {
            let negative = turned(self.seconds) < 0 || turned(self.micros) < 0;
            let one = self.seconds.abs() == 1 && self.micros == 0;
            let (sign, plural) = (if negative { "-" } else { "" }, if one { "" } else { "s" });
            let _ = write!(text, " {sign}{} sec{plural}", self.seconds_text());
        }
        if text.len() == 1 {
            text.push_str(" 0");
        }
        text.push_str(if ago { " ago" } else { "" });
        text
    }

    fn iso_8601(&self) -> String {
        let mut text = String::from("P");
        let mut part = |value: i64, letter: char| {
            if value != 0 {
                let _ = write!(text, "{value}{letter}");
            }
        };
        part(self.years, 'Y');
        part(self.months, 'M');
        part(self.days, 'D');
        if self.has_time() {
            text.push('T');
            let mut part = |value: i64, letter: char| {
                if value != 0 {
                    let _ = write!(text, "{value}{letter}");
                }
            };
            part(self.hours, 'H');
            part(self.minutes, 'M');
            if self.seconds != 0 || self.micros != 0 {
                let sign = if self.seconds < 0 || self.micros < 0 { "-" } else { "" };
                let _ = write!(text, "{sign}{}S", self.seconds_text());
            }
        }
        if text.len() == 1 { "PT0S".to_owned() } else { text }
    }

    fn sql_standard(&self) -> String {
        let all = self.all();
        let (negative, positive) = (all.iter().any(|part| *part < 0), all.iter().any(|part| *part > 0));
        let (year_month, day_time) = (all[..2].iter().any(|part| *part != 0), all[2..].iter().any(|part| *part != 0));
        let sign = |negative: bool| if negative { '-' } else { '+' };
        if !negative && !positive {
            "0".to_owned()
        } else if (negative && positive) || (year_month && day_time) {
            format!(
                "{}{}-{} {}{} {}{}:{}",
                sign(self.years < 0 || self.months < 0),
                self.years.abs(),
                self.months.abs(),
                sign(self.days < 0),
                self.days.abs(),
                sign(self.time_is_negative()),
                self.hours.abs(),
                self.clock()
            )
        } else {
            let minus = if negative { "-" } else { "" };
            if year_month {
                format!("{minus}{}-{}", self.years.abs(), self.months.abs())
            } else if self.days != 0 {
                format!("{minus}{} {}:{}", self.days.abs(), self.hours.abs(), self.clock())
            } else {
                format!("{minus}{}:{}", self.hours.abs(), self.clock())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are what PostgreSQL 15 prints.
    #[test]
    fn intervals_in_all_styles() {
        let micros = |h: i64, m: i64, s: i64, us: i64| ((h * 60 + m) * 60 + s) * 1_000_000 + us;
        for (months, days, time, postgres, verbose, standard, iso) in [
            (0, 0, 0, "00:00:00", "@ 0", "0", "PT0S"),
            (
                14,
                3,
                micros(4, 5, 6, 789_000),
                "1 year 2 mons 3 days 04:05:06.789",
                "@ 1 year 2 mons 3 days 4 hours 5 mins 6.789 secs",
                "+1-2 +3 +4:05:06.789",
                "P1Y2M3DT4H5M6.789S",
            ),
            (
                0,
                -1,
                micros(2, 3, 0, 0),
                "-1 days +02:03:00",
                "@ 1 day -2 hours -3 mins ago",
                "+0-0 -1 +2:03:00",
                "P-1DT2H3M",
            ),
            (0, 0, -micros(0, 0, 1, 0), "-00:00:01", "@ 1 sec ago", "-0:00:01", "PT-1S"),
            (1, 0, 0, "1 mon", "@ 1 mon", "0-1", "P1M"),
            (0, 1, micros(100, 0, 0, 0), "1 day 100:00:00", "@ 1 day 100 hours", "1 100:00:00", "P1DT100H"),
        ] {
            assert_eq!(interval(months, days, time, IntervalStyle::Postgres), postgres);
            assert_eq!(interval(months, days, time, IntervalStyle::Verbose), verbose);
            assert_eq!(interval(months, days, time, IntervalStyle::SqlStandard), standard);
            assert_eq!(interval(months, days, time, IntervalStyle::Iso8601), iso);
        }
    }

    #[test]
    fn elements_of_arrays_are_quoted_where_needed() {
        for (text, quote) in
            [("a", false), ("", true), ("NULL", true), ("a b", true), ("a,b", true), ("{", true), ("é", false)]
        {
            assert_eq!(needs_quotes_in_array(text.as_bytes()), quote, "{text}");
        }
    }
}

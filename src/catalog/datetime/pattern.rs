//! `to_char` of times and intervals: PostgreSQL's template patterns.

use std::fmt::Write as _;

use chrono::{Datelike as _, NaiveDate};

use super::{DAY, Interval, SECOND, naive};
use crate::error::Result;

/// What a pattern prints.
#[derive(Debug, Clone)]
pub struct Facts {
    date: Option<NaiveDate>,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    micros: i64,
    /// The zone's abbreviation, and its seconds east of UTC.
    zone: Option<(String, i32)>,
}

impl Facts {
    /// Of a time as its zone shows it.
    ///
    /// # Errors
    /// 22008: it is out of range.
    pub fn of_timestamp(local: i64, zone: Option<(String, i32)>) -> Result<Self> {
        let date = naive(local)?.date();
        let time = local.rem_euclid(DAY);
        Ok(Self {
            date: Some(date),
            year: if date.year() > 0 { date.year() } else { date.year() - 1 }.into(),
            month: date.month().into(),
            day: date.day().into(),
            hour: time / (3600 * SECOND),
            micros: time % (3600 * SECOND),
            zone,
        })
    }

    /// Of an interval.
    pub fn of_interval(interval: Interval) -> Self {
        Self {
            date: None,
            year: (interval.months / 12).into(),
            month: (interval.months % 12).into(),
            day: interval.days.into(),
            hour: interval.micros / (3600 * SECOND),
            micros: interval.micros % (3600 * SECOND),
            zone: None,
        }
    }

    const fn minute(&self) -> i64 {
        self.micros / (60 * SECOND)
    }

    const fn second(&self) -> i64 {
        self.micros / SECOND % 60
    }

    /// The hour on a clock of twelve.
    const fn half_day_hour(&self) -> i64 {
        match self.hour % 12 {
            0 => 12,
            hour => hour,
        }
    }

    const fn is_afternoon(&self) -> bool {
        self.hour % 24 >= 12
    }
}

/// The patterns, longest first where one starts another, in upper case.
pub(super) const PATTERNS: &[&str] = &[
    "SSSSS", "SSSS", "Y,YYY", "MONTH", "YYYY", "IYYY", "HH24", "HH12", "A.D.", "B.C.", "A.M.", "P.M.", "IDDD", "YYY",
    "IYY", "MON", "DAY", "DDD", "TZH", "TZM", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "YY", "IY", "MM", "DD", "DY",
    "ID", "HH", "MI", "SS", "MS", "US", "AM", "PM", "AD", "BC", "WW", "IW", "CC", "RM", "TZ", "OF", "Y", "I", "D", "W",
    "Q", "J",
];

/// A piece of a template.
pub(super) enum Piece<'a> {
    /// As it is.
    Literal(char),
    /// A pattern, in upper case and as written; with FM; with TH.
    Pattern { name: &'static str, written: &'a str, fill: bool, ordinal: Option<bool> },
}

/// A template in pieces.
pub(super) fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let inner = &rest[1..];
            let end = inner.find('"').unwrap_or(inner.len());
            pieces.extend(inner[..end].chars().map(Piece::Literal));
            rest = inner.get(end + 1..).unwrap_or_default();
            continue;
        }
        if c == '\\' && rest[1..].starts_with('"') {
            pieces.push(Piece::Literal('"'));
            rest = &rest[2..];
            continue;
        }
        let upper = |text: &str, prefix: &str| text.get(..prefix.len()).is_some_and(|s| s.eq_ignore_ascii_case(prefix));
        let fill = !upper(rest, "FM");
        let plain = if fill { rest } else { &rest[2..] };
        let plain = if upper(plain, "FX") || upper(plain, "TM") { &plain[2..] } else { plain };
        let found = PATTERNS.iter().find(|name| upper(plain, name));
        let Some(name) = found else {
            if plain.len() < rest.len() {
                rest = plain;
                continue;
            }
            pieces.push(Piece::Literal(c));
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let (written, mut after) = plain.split_at(name.len());
        let mut ordinal = None;
        if upper(after, "TH") && !matches!(*name, "TZ" | "OF" | "MONTH" | "MON" | "DAY" | "DY") {
            ordinal = Some(after.starts_with('T'));
            after = &after[2..];
        }
        pieces.push(Piece::Pattern { name, written, fill, ordinal });
        rest = after;
    }
    pieces
}

/// See the module.
pub fn to_char(facts: &Facts, template: &str) -> String {
    let mut out = String::new();
    for piece in pieces(template) {
        match piece {
            Piece::Literal(c) => out.push(c),
            Piece::Pattern { name, written, fill, ordinal } => {
                let start = out.len();
                write_pattern(&mut out, facts, name, written, fill);
                if let Some(upper) = ordinal {
                    let suffix = ordinal_suffix(&out[start..]);
                    out.push_str(&if upper { suffix.to_uppercase() } else { suffix.to_owned() });
                }
            }
        }
    }
    out
}

/// `st`, `nd`, `rd` or `th`.
pub fn ordinal_suffix(number: &str) -> &'static str {
    let digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).collect();
    let teen = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    match digits.last() {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}

fn write_pattern(out: &mut String, facts: &Facts, name: &str, written: &str, fill: bool) {
    let number = |out: &mut String, value: i64, width: usize| {
        let width = if fill { width + usize::from(value < 0) } else { 0 };
        let _ = write!(out, "{value:0width$}");
    };
    let date = facts.date;
    let of_date = |value: fn(&NaiveDate) -> i64| date.as_ref().map_or(0, value);
    match name {
        "HH24" => number(out, facts.hour, 2),
        "HH12" | "HH" => number(out, facts.half_day_hour(), 2),
        "MI" => number(out, facts.minute(), 2),
        "SS" => number(out, facts.second(), 2),
        "MS" => number(out, facts.micros % SECOND / 1000, 3),
        "US" => number(out, facts.micros % SECOND, 6),
        "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
            let digits = usize::from(name.as_bytes()[2] - b'0');
            let _ = write!(out, "{}", &format!("{:06}", (facts.micros % SECOND).abs())[..digits]);
        }
        "SSSS" | "SSSSS" => {
            let _ = write!(out, "{}", facts.hour * 3600 + facts.micros / SECOND);
        }
        "AM" | "PM" => out.push_str(&like(if facts.is_afternoon() { "PM" } else { "AM" }, written)),
        "A.M." | "P.M." => out.push_str(&like(if facts.is_afternoon() { "P.M." } else { "A.M." }, written)),
        "AD" | "BC" => out.push_str(&like(if facts.year < 0 { "BC" } else { "AD" }, written)),
        "A.D." | "B.C." => out.push_str(&like(if facts.year < 0 { "B.C." } else { "A.D." }, written)),
        "Y,YYY" => {
            let year = facts.year.abs();
            let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
        }
        "YYYY" => number(out, facts.year.abs(), 4),
        "YYY" => number(out, facts.year.abs() % 1000, 3),
        "YY" => number(out, facts.year.abs() % 100, 2),
        "Y" => number(out, facts.year.abs() % 10, 1),
        "IYYY" => number(out, of_date(|date| date.iso_week().year().into()), 4),
        "IYY" => number(out, of_date(|date| i64::from(date.iso_week().year()) % 1000), 3),
        "IY" => number(out, of_date(|date| i64::from(date.iso_week().year()) % 100), 2),
        "I" => number(out, of_date(|date| i64::from(date.iso_week().year()) % 10), 1),
        "CC" => {
            let century = if facts.year > 0 { (facts.year + 99) / 100 } else { facts.year / 100 };
            number(out, century, 2);
        }
        "MONTH" => out.push_str(&word(month_name(facts.month), written, fill.then_some(9))),
        "MON" => out.push_str(&word(month_name(facts.month).get(..3).unwrap_or_default(), written, None)),
        "MM" => number(out, facts.month, 2),
        "RM" => {
            let roman = ROMAN.get(usize::try_from(facts.month - 1).unwrap_or(12)).copied().unwrap_or_default();
            let roman = like(roman, written);
            let width = if fill { 4 } else { 0 };
            let _ = write!(out, "{roman:width$}");
        }
        "DAY" => out.push_str(&word(&day_name(date, "%A"), written, fill.then_some(9))),
        "DY" => out.push_str(&word(&day_name(date, "%a"), written, None)),
        "DDD" => number(out, date.map_or(facts.day, |date| date.ordinal().into()), 3),
        "IDDD" => {
            let of_week = |date: &NaiveDate| {
                i64::from(date.iso_week().week() - 1) * 7 + i64::from(date.weekday().number_from_monday())
            };
            number(out, date.as_ref().map_or(0, of_week), 3);
        }
        "DD" => number(out, facts.day, 2),
        "D" => number(out, of_date(|date| date.weekday().number_from_sunday().into()), 1),
        "ID" => number(out, of_date(|date| date.weekday().number_from_monday().into()), 1),
        "WW" => number(out, of_date(|date| i64::from(date.ordinal0() / 7 + 1)), 2),
        "IW" => number(out, of_date(|date| date.iso_week().week().into()), 2),
        "W" => number(out, of_date(|date| i64::from((date.day() - 1) / 7 + 1)), 1),
        "Q" => number(out, if facts.month == 0 { 0 } else { (facts.month - 1) / 3 + 1 }, 1),
        "J" => number(out, of_date(|date| i64::from(date.to_epoch_days()) + 2_440_588), 1),
        "TZ" => {
            if let Some((name, _)) = &facts.zone {
                out.push_str(&if written.starts_with('t') { name.to_lowercase() } else { name.clone() });
            }
        }
        "TZH" | "TZM" | "OF" => write_offset(out, name, facts.zone.as_ref().map_or(0, |(_, seconds)| *seconds)),
        _ => {}
    }
}

fn write_offset(out: &mut String, name: &str, seconds: i32) {
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    let _ = match name {
        "TZH" => write!(out, "{sign}{hours:02}"),
        "TZM" => write!(out, "{minutes:02}"),
        _ if minutes == 0 => write!(out, "{sign}{hours:02}"),
        _ => write!(out, "{sign}{hours:02}:{minutes:02}"),
    };
}

const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn month_name(month: i64) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).copied().unwrap_or_default()
}

fn day_name(date: Option<NaiveDate>, format: &str) -> String {
    date.map(|date| date.format(format).to_string()).unwrap_or_default()
}

/// Upper or lower case, as the pattern is.
fn like(text: &str, written: &str) -> String {
    if written.starts_with(char::is_lowercase) { text.to_lowercase() } else { text.to_owned() }
}

/// A name as the pattern is written: MONTH, Month or month; filled up with spaces.
fn word(name: &str, written: &str, width: Option<usize>) -> String {
    let second_is_lower = written.chars().nth(1).is_some_and(char::is_lowercase);
    let name = match written.starts_with(char::is_lowercase) {
        true => name.to_lowercase(),
        false if second_is_lower => name.to_owned(),
        false => name.to_uppercase(),
    };
    let width = width.unwrap_or(0);
    format!("{name:width$}")
}

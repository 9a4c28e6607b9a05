//! `to_timestamp` and `to_date`: times from text by PostgreSQL's template patterns.

use chrono::{Datelike as _, NaiveDate, Weekday};

use super::pattern::{MONTHS, Piece, pieces};
use super::{SECOND, micros, zone};
use crate::error::{Error, Result};

/// Microseconds since 1970 as a template reads them, and the zone's seconds east of UTC, if the text has one.
///
/// # Errors
/// 22007: the text doesn't fit the template; 22008: there is no such time.
pub fn parse_pattern(text: &str, template: &str) -> Result<(i64, Option<i32>)> {
    let mut read = Read::default();
    let mut rest = text;
    let pieces = pieces(template);
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Literal(c) => {
                // Any separator stands for any other, and for none; other characters are passed over.
                let is_separator = |c: char| !c.is_alphanumeric();
                if !is_separator(*c) || rest.starts_with(is_separator) {
                    rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
                }
            }
            Piece::Pattern { name, written, .. } => {
                rest = rest
                    .trim_start_matches(|c: char| c.is_whitespace() || (c.is_ascii_punctuation() && !signed(name, c)));
                if rest.is_empty() {
                    break;
                }
                let next_is_number =
                    matches!(pieces.get(index + 1), Some(Piece::Pattern { name, .. }) if width(name).is_some());
                rest = read.pattern(name, written, rest, next_is_number)?;
            }
        }
    }
    read.finish(text)
}

/// A sign belongs to these.
fn signed(name: &str, c: char) -> bool {
    matches!(name, "TZH" | "OF" | "TZ" | "YYYY") && matches!(c, '+' | '-')
}

/// Digits of a pattern that is a number.
fn width(name: &str) -> Option<usize> {
    Some(match name {
        "HH24" | "HH12" | "HH" | "MI" | "SS" | "MM" | "DD" | "YY" | "IY" | "WW" | "IW" | "CC" | "TZM" => 2,
        "MS" | "YYY" | "IYY" | "DDD" | "IDDD" => 3,
        "US" | "FF6" => 6,
        "FF1" | "Y" | "I" | "D" | "ID" | "W" | "Q" => 1,
        "FF2" => 2,
        "FF3" => 3,
        "FF4" | "YYYY" | "IYYY" => 4,
        "FF5" | "SSSS" | "SSSSS" => 5,
        "J" => 7,
        _ => return None,
    })
}

#[derive(Default)]
struct Read {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    week_day: Option<i64>,
    julian: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    seconds_of_day: Option<i64>,
    afternoon: Option<bool>,
    twelve: bool,
    bc: bool,
    offset: Option<i32>,
}

impl Read {
    /// Takes one pattern off the front of the text.
    fn pattern<'t>(&mut self, name: &str, written: &str, text: &'t str, next_is_number: bool) -> Result<&'t str> {
        if let Some(width) = width(name) {
            let sign = usize::from(text.starts_with(['+', '-']));
            let digits = text[sign..].chars().take_while(char::is_ascii_digit).count();
            // A year may have more digits, where no number follows.
            let most =
                if matches!(name, "YYYY" | "IYYY" | "J" | "SSSS" | "SSSSS") && !next_is_number { 9 } else { width };
            let digits = digits.min(most);
            let (number, rest) = text.split_at(sign + digits);
            let value: i64 = number.parse().map_err(|_| wrong_number(text, written, width))?;
            self.number(name, value, digits);
            return Ok(rest);
        }
        let lower = text.to_lowercase();
        let starts = |word: &str| lower.starts_with(&word.to_lowercase());
        let wrong = || Error::Data {
            sqlstate: "22007",
            message: format!("invalid value \"{}\" for \"{written}\"", text.split_whitespace().next().unwrap_or(text)),
        };
        match name {
            "MONTH" | "MON" => {
                let length =
                    |month: &str| if starts(month) { Some(month.len()) } else { starts(&month[..3]).then_some(3) };
                let found = MONTHS.iter().enumerate().find_map(|(at, month)| Some((at, length(month)?)));
                let (month, length) = found.ok_or_else(wrong)?;
                self.month = i64::try_from(month + 1).ok();
                Ok(&text[length..])
            }
            "DAY" | "DY" => {
                let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
                text[..end].parse::<Weekday>().map_err(|_| wrong())?;
                Ok(&text[end..])
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let word = ["a.m.", "p.m.", "am", "pm"].into_iter().find(|word| starts(word)).ok_or_else(wrong)?;
                self.afternoon = Some(word.starts_with('p'));
                Ok(&text[word.len()..])
            }
            "AD" | "BC" | "A.D." | "B.C." => {
                let word = ["a.d.", "b.c.", "ad", "bc"].into_iter().find(|word| starts(word)).ok_or_else(wrong)?;
                self.bc = word.starts_with('b');
                Ok(&text[word.len()..])
            }
            "TZ" | "OF" | "TZH" => {
                let end = text.find(|c: char| c.is_whitespace()).unwrap_or(text.len());
                let zone = zone(&text[..end])?;
                self.offset = Some(super::offset_at(0, &zone)?);
                Ok(&text[end..])
            }
            _ => Err(Error::FeatureNotSupported {
                what: format!("the pattern \"{written}\" in a template that text is read by"),
                hint: "Leave it out.".into(),
            }),
        }
    }

    fn number(&mut self, name: &str, value: i64, digits: usize) {
        let micros = |value: i64, digits: usize| value * 10_i64.pow(6_u32.saturating_sub(digits as u32));
        match name {
            "HH24" => self.hour = value,
            "HH12" | "HH" => (self.hour, self.twelve) = (value, true),
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "MS" => self.micros = micros(value, digits),
            "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => self.micros = micros(value, digits),
            "SSSS" | "SSSSS" => self.seconds_of_day = Some(value),
            "YYYY" => self.year = Some(value),
            "YYY" => self.year = Some(value + 2000),
            "YY" => self.year = Some(if value < 70 { value + 2000 } else { value + 1900 }),
            "Y" => self.year = Some(value + 2020),
            "IYYY" => self.iso_year = Some(value),
            "IYY" | "IY" | "I" => self.iso_year = Some(value + 2000),
            "MM" => self.month = Some(value),
            "DD" => self.day = Some(value),
            "DDD" => self.day_of_year = Some(value),
            "IW" => self.iso_week = Some(value),
            "ID" => self.week_day = Some(value),
            "WW" => self.day_of_year = Some((value - 1) * 7 + 1),
            "J" => self.julian = Some(value),
            _ => {}
        }
    }

    fn finish(self, text: &str) -> Result<(i64, Option<i32>)> {
        let beyond =
            || Error::Data { sqlstate: "22008", message: format!("date/time field value out of range: \"{text}\"") };
        let mut hour = self.hour;
        if let Some(afternoon) = self.afternoon {
            if !(1..=12).contains(&hour) {
                return Err(Error::Data {
                    sqlstate: "22007",
                    message: format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                });
            }
            hour = hour % 12 + if afternoon { 12 } else { 0 };
        } else if self.twelve && hour == 12 {
            hour = 0;
        }
        if hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(beyond());
        }
        let date = self.date().ok_or_else(beyond)?;
        let seconds = self.seconds_of_day.unwrap_or(hour * 3600 + self.minute * 60 + self.second);
        Ok((micros(date.and_time(chrono::NaiveTime::MIN)) + seconds * SECOND + self.micros, self.offset))
    }

    fn date(&self) -> Option<NaiveDate> {
        if let Some(julian) = self.julian {
            return i32::try_from(julian - 2_440_588).ok().and_then(NaiveDate::from_epoch_days);
        }
        if let (Some(year), Some(week)) = (self.iso_year, self.iso_week) {
            let first = NaiveDate::from_isoywd_opt(i32::try_from(year).ok()?, u32::try_from(week).ok()?, Weekday::Mon)?;
            return first.checked_add_signed(chrono::TimeDelta::days(self.week_day.unwrap_or(1) - 1));
        }
        let year = self.year.unwrap_or(0);
        // Without a year it is the one before 1.
        let year = i32::try_from(if self.bc { 1 - year } else { year }).ok()?;
        if let Some(day) = self.day_of_year {
            return NaiveDate::from_yo_opt(year, u32::try_from(day).ok()?);
        }
        let part = |value: Option<i64>| u32::try_from(value.unwrap_or(1)).ok();
        NaiveDate::from_ymd_opt(year, part(self.month)?, part(self.day)?).filter(|date| date.year() == year)
    }
}

fn wrong_number(text: &str, written: &str, width: usize) -> Error {
    let shown: String = text.chars().take(width).collect();
    Error::Data { sqlstate: "22007", message: format!("invalid value \"{shown}\" for \"{written}\"") }
}

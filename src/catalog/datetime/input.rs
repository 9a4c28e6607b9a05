//! Dates and times from text, as PostgreSQL's input functions read them.

use chrono::{Datelike as _, NaiveDate};
use datafusion::arrow::array::timezone::Tz;

use super::zones::abbreviation;
use super::{DAY, SECOND, micros, to_local, to_utc, zone};
use crate::error::{Error, Result};

/// What the meaning of a text depends on.
#[derive(Debug)]
pub struct Moment<'a> {
    /// When the statement began, in microseconds since 1970, UTC.
    pub now: i64,
    /// The session's zone.
    pub zone: &'a Tz,
    /// `DateStyle` puts the day before the month.
    pub day_first: bool,
}

/// Days since 1970.
///
/// # Errors
/// 22007: the text is no date; 22008: there is no such day.
pub fn date(text: &str, moment: &Moment<'_>) -> Result<i32> {
    let read = read(text, "date", moment)?;
    let date = read.date.ok_or_else(|| invalid("date", text))?;
    Ok(date.to_epoch_days())
}

/// Microseconds of a day.
///
/// # Errors
/// As [`date`].
pub fn time(text: &str, moment: &Moment<'_>) -> Result<i64> {
    let read = read(text, "time", moment)?;
    read.time.ok_or_else(|| invalid("time", text))
}

/// Microseconds since 1970, in no zone.
///
/// # Errors
/// As [`date`].
pub fn timestamp(text: &str, moment: &Moment<'_>) -> Result<i64> {
    let read = read(text, "timestamp", moment)?;
    read.timestamp().ok_or_else(|| invalid("timestamp", text))
}

/// Microseconds since 1970, UTC.
///
/// # Errors
/// As [`date`].
pub fn timestamptz(text: &str, moment: &Moment<'_>) -> Result<i64> {
    let read = read(text, "timestamp with time zone", moment)?;
    let local = read.timestamp().ok_or_else(|| invalid("timestamp with time zone", text))?;
    match read.zone {
        Some(Zone::Fixed(seconds)) => Ok(local - i64::from(seconds) * SECOND),
        Some(Zone::Named(zone)) => to_utc(local, &zone),
        None => to_utc(local, moment.zone),
    }
}

fn invalid(name: &str, text: &str) -> Error {
    Error::Data { sqlstate: "22007", message: format!("invalid input syntax for type {name}: \"{text}\"") }
}

fn out_of_range(text: &str) -> Error {
    Error::Data { sqlstate: "22008", message: format!("date/time field value out of range: \"{text}\"") }
}

#[derive(Default)]
struct Read {
    date: Option<NaiveDate>,
    time: Option<i64>,
    zone: Option<Zone>,
}

impl Read {
    fn timestamp(&self) -> Option<i64> {
        Some(micros(self.date?.and_time(chrono::NaiveTime::MIN)) + self.time.unwrap_or(0))
    }
}

enum Zone {
    /// Seconds east of UTC.
    Fixed(i32),
    Named(Tz),
}

fn read(text: &str, name: &str, moment: &Moment<'_>) -> Result<Read> {
    let folded = text.trim().to_lowercase();
    if let Some(special) = special(&folded, moment)? {
        return Ok(special);
    }
    if matches!(folded.as_str(), "infinity" | "-infinity" | "+infinity") {
        return Err(Error::FeatureNotSupported {
            what: format!("the {name} \"{folded}\""),
            hint: "Use a date that is far enough away.".into(),
        });
    }
    let mut reader = Reader { day_first: moment.day_first, ..Reader::default() };
    for word in separated(&folded).split_whitespace() {
        reader.word(word.trim_end_matches(',')).ok_or_else(|| invalid(name, text))?;
    }
    reader.finish(name == "time").ok_or_else(|| invalid(name, text))?.ok_or_else(|| out_of_range(text))
}

/// `today` and its like.
fn special(word: &str, moment: &Moment<'_>) -> Result<Option<Read>> {
    let local = to_local(moment.now, moment.zone)?;
    let days = match word {
        "now" => {
            let (date, time) = (local.div_euclid(DAY), local.rem_euclid(DAY));
            let offset = super::offset_at(moment.now, moment.zone)?;
            let date = i32::try_from(date).ok().and_then(NaiveDate::from_epoch_days);
            return Ok(Some(Read { date, time: Some(time), zone: Some(Zone::Fixed(offset)) }));
        }
        "epoch" => {
            let date = NaiveDate::from_epoch_days(0);
            return Ok(Some(Read { date, time: Some(0), zone: Some(Zone::Fixed(0)) }));
        }
        "today" => 0,
        "tomorrow" => 1,
        "yesterday" => -1,
        _ => return Ok(None),
    };
    let date = i32::try_from(local.div_euclid(DAY) + days).ok().and_then(NaiveDate::from_epoch_days);
    Ok(Some(Read { date, time: Some(0), zone: None }))
}

/// The T between a date and a time as a space.
fn separated(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let digit = |at: Option<&char>| at.is_some_and(char::is_ascii_digit);
    let between = |at: usize| at > 0 && digit(chars.get(at - 1)) && digit(chars.get(at + 1));
    chars.iter().enumerate().map(|(at, c)| if *c == 't' && between(at) { ' ' } else { *c }).collect()
}

#[derive(Default)]
struct Reader {
    day_first: bool,
    /// Year, month, day, as far as they are known.
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    time: Option<i64>,
    afternoon: Option<bool>,
    bc: bool,
    zone: Option<Zone>,
    /// A part that is a number but can't be one of its kind.
    beyond: bool,
}

impl Reader {
    fn word(&mut self, word: &str) -> Option<()> {
        let first = word.chars().next()?;
        if word.contains(':') && !matches!(first, '+' | '-') {
            return self.clock(word);
        }
        match first {
            '0'..='9' => self.number(word),
            '+' | '-' if self.time.is_some() => self.set_zone(Zone::Fixed(offset(word)?)),
            _ if first.is_alphabetic() => self.name(word),
            _ => None,
        }
    }

    /// `h:m[:s[.f]]`, with an am or pm or a zone that may follow without a space.
    fn clock(&mut self, word: &str) -> Option<()> {
        let end = word.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.'))).unwrap_or(word.len());
        let (clock, rest) = word.split_at(end);
        let parts: Vec<&str> = clock.split(':').collect();
        if self.time.is_some() || !(2..=3).contains(&parts.len()) {
            return None;
        }
        let whole = |text: &str| text.parse::<i64>().ok();
        let (hour, minute) = (whole(parts[0])?, whole(parts[1])?);
        let (second, fraction) = match parts.get(2) {
            None => (0, 0),
            Some(seconds) => match seconds.split_once('.') {
                None => (whole(seconds)?, 0),
                Some((second, fraction)) => (whole(second)?, fraction_of(fraction)?),
            },
        };
        self.beyond |=
            hour > 24 || minute > 59 || second > 60 || (hour == 24 && (minute, second, fraction) != (0, 0, 0));
        self.time = Some((hour * 3600 + minute * 60 + second) * SECOND + fraction);
        match rest {
            "" => Some(()),
            zone if zone.starts_with(['+', '-']) => self.set_zone(Zone::Fixed(offset(zone)?)),
            name => self.name(name),
        }
    }

    /// A date in digits, or a part of one.
    fn number(&mut self, word: &str) -> Option<()> {
        let separator = word.find(['-', '/', '.']);
        if separator.is_none() {
            let value: i64 = word.parse().ok()?;
            return match word.len() {
                8 if self.year.is_none() && self.month.is_none() => {
                    self.set_date(value / 10_000, value / 100 % 100, value % 100)
                }
                6 if self.year.is_none() && self.month.is_none() => {
                    self.set_date(century(value / 10_000), value / 100 % 100, value % 100)
                }
                6 if self.time.is_none() => {
                    let (hour, minute, second) = (value / 10_000, value / 100 % 100, value % 100);
                    self.beyond |= hour > 24 || minute > 59 || second > 60;
                    self.time = Some((hour * 3600 + minute * 60 + second) * SECOND);
                    Some(())
                }
                1 | 2 if self.day.is_none() => {
                    self.day = Some(value);
                    Some(())
                }
                3.. if self.year.is_none() => {
                    self.year = Some(value);
                    Some(())
                }
                1 | 2 if self.year.is_none() => {
                    self.year = Some(century(value));
                    Some(())
                }
                _ => None,
            };
        }
        let parts: Vec<&str> = word.split(['-', '/', '.']).collect();
        let [first, second, third] = parts.as_slice() else { return None };
        let number = |text: &str| text.parse::<i64>().ok();
        if let Some(month) = month(second) {
            // 01-Jan-2024 or 2024-Jan-01
            let (year, day) = if first.len() > 2 { (first, third) } else { (third, first) };
            return self.set_date(year_of(year)?, month, number(day)?);
        }
        if first.len() > 2 {
            return self.set_date(number(first)?, number(second)?, number(third)?);
        }
        let (month, day) = if self.day_first { (second, first) } else { (first, second) };
        self.set_date(year_of(third)?, number(month)?, number(day)?)
    }

    fn set_date(&mut self, year: i64, month: i64, day: i64) -> Option<()> {
        if self.year.is_some() || self.month.is_some() || self.day.is_some() {
            return None;
        }
        (self.year, self.month, self.day) = (Some(year), Some(month), Some(day));
        Some(())
    }

    fn set_zone(&mut self, zone: Zone) -> Option<()> {
        if self.zone.is_some() {
            return None;
        }
        self.zone = Some(zone);
        Some(())
    }

    /// A month, a day of the week, am or pm, an era, or a zone.
    fn name(&mut self, word: &str) -> Option<()> {
        match word {
            "am" => self.afternoon = Some(false),
            "pm" => self.afternoon = Some(true),
            "bc" => self.bc = true,
            "ad" | "at" | "on" | "t" => {}
            "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu"
            | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => {}
            _ => {
                if let Some(month) = month(word) {
                    // The number before it was the day.
                    self.month.replace(month).map_or(Some(()), |_| None)?;
                } else if let Some(seconds) = abbreviation(word) {
                    self.set_zone(Zone::Fixed(seconds))?;
                } else {
                    self.set_zone(Zone::Named(zone(word).ok()?))?;
                }
            }
        }
        Some(())
    }

    /// The whole; `Some(None)`: some part is out of its range.
    fn finish(self, only_time: bool) -> Option<Option<Read>> {
        let mut beyond = self.beyond;
        let mut time = self.time;
        if let (Some(micros), Some(afternoon)) = (time, self.afternoon) {
            let hour = micros / 3600 / SECOND;
            beyond |= !(1..=12).contains(&hour);
            let hour_of_day = hour % 12 + if afternoon { 12 } else { 0 };
            time = Some(micros + (hour_of_day - hour) * 3600 * SECOND);
        }
        let date = match (self.year, self.month, self.day) {
            (None, None, None) if only_time => None,
            (Some(year), Some(month), Some(day)) => {
                let year = if self.bc { 1 - year } else { year };
                beyond |= year == 0 && !self.bc;
                let part = |value: i64| u32::try_from(value).ok();
                let parts = i32::try_from(year).ok().zip(part(month)).zip(part(day));
                let date = parts.and_then(|((year, month), day)| NaiveDate::from_ymd_opt(year, month, day));
                // As far as the smallest and the greatest timestamp.
                let date = date.filter(|date| (-4713..=294_276).contains(&date.year()));
                beyond |= date.is_none();
                date
            }
            _ => return None,
        };
        Some((!beyond).then_some(Read { date, time, zone: self.zone }))
    }
}

/// A year of two digits.
fn century(year: i64) -> i64 {
    if year < 70 { year + 2000 } else { year + 1900 }
}

fn year_of(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    Some(if text.len() <= 2 { century(year) } else { year })
}

fn month(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let index = MONTHS
        .iter()
        .position(|month| *month == name || *name == month[..3] || (name == "sept" && *month == "september"))?;
    i64::try_from(index + 1).ok()
}

/// Microseconds of the digits behind the point.
fn fraction_of(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    let fraction: f64 = format!("0.{digits}").parse().ok()?;
    Some((fraction * SECOND as f64).round() as i64)
}

/// Seconds of `+02`, `+0530`, `+05:30`, `-8`.
pub fn offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let number = |text: &str| text.parse::<i32>().ok().filter(|_| text.chars().all(|c| c.is_ascii_digit()));
    let (hours, minutes, seconds) = match digits.split(':').collect::<Vec<_>>().as_slice() {
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        [digits] if digits.len() <= 2 => (number(digits)?, 0, 0),
        [digits] if digits.len() <= 4 => (number(digits)? / 100, number(digits)? % 100, 0),
        _ => return None,
    };
    (hours < 16 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

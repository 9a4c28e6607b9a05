//! Intervals: months, days and microseconds, each with a sign of its own.

use super::{DAY, SECOND};
use crate::error::{Error, Result};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// Each part negated.
    pub fn negated(self) -> Self {
        Self { months: -self.months, days: -self.days, micros: -self.micros }
    }

    /// The sum of each part.
    ///
    /// # Errors
    /// 22008: it is out of range.
    pub fn plus(self, other: Self) -> Result<Self> {
        let sum = || {
            Some(Self {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    /// What it is ordered by, in microseconds: a month has 30 days, a day 24 hours.
    pub fn key(self) -> i64 {
        (i64::from(self.months) * 30 + i64::from(self.days)).saturating_mul(DAY).saturating_add(self.micros)
    }

    /// So many times as long. What is left of a month goes into days, and of a day into hours.
    ///
    /// # Errors
    /// 22008: it is out of range.
    pub fn times(self, factor: f64) -> Result<Self> {
        Self::of_parts(f64::from(self.months) * factor, f64::from(self.days) * factor, self.micros as f64 * factor)
    }

    /// From parts that needn't be whole.
    ///
    /// # Errors
    /// 22008: it is out of range.
    pub fn of_parts(months: f64, days: f64, micros: f64) -> Result<Self> {
        // As PostgreSQL does, against 0.1 that is a little less.
        let exact = |value: f64| (value * 1e6).round() / 1e6;
        let whole_months = months.trunc();
        let days = days.trunc() + exact((months - whole_months) * 30.0) + exact(days - days.trunc());
        let whole_days = days.trunc();
        let micros = (micros + exact(days - whole_days) * DAY as f64).round_ties_even();
        let limit = f64::from(i32::MAX);
        if whole_months.abs() > limit || whole_days.abs() > limit || micros.abs() >= i64::MAX as f64 {
            return Err(out_of_range());
        }
        Ok(Self { months: whole_months as i32, days: whole_days as i32, micros: micros as i64 })
    }

    /// Days for 24 hours each.
    pub fn justify_hours(self) -> Self {
        let mut this = Self { days: self.days + (self.micros / DAY) as i32, micros: self.micros % DAY, ..self };
        if this.days > 0 && this.micros < 0 {
            this = Self { days: this.days - 1, micros: this.micros + DAY, ..this };
        } else if this.days < 0 && this.micros > 0 {
            this = Self { days: this.days + 1, micros: this.micros - DAY, ..this };
        }
        this
    }

    /// Months for 30 days each.
    pub fn justify_days(self) -> Self {
        let mut this = Self { months: self.months + self.days / 30, days: self.days % 30, ..self };
        if this.months > 0 && this.days < 0 {
            this = Self { months: this.months - 1, days: this.days + 30, ..this };
        } else if this.months < 0 && this.days > 0 {
            this = Self { months: this.months + 1, days: this.days - 30, ..this };
        }
        this
    }

    /// Both, and one sign for all parts.
    pub fn justify(self) -> Self {
        let mut this = self.justify_hours().justify_days();
        let days_and_time = i64::from(this.days) * DAY + this.micros;
        if this.months > 0 && days_and_time < 0 {
            this = Self { months: this.months - 1, days: this.days + 30, ..this };
        } else if this.months < 0 && days_and_time > 0 {
            this = Self { months: this.months + 1, days: this.days - 30, ..this };
        }
        this.justify_hours()
    }

    /// From text: `1 day 02:03:04`, `1-2`, `P1Y2M`, `2 weeks ago`, ...
    ///
    /// # Errors
    /// 22007: it is none.
    pub fn read(text: &str) -> Result<Self> {
        let wrong = || Error::Data {
            sqlstate: "22007",
            message: format!("invalid input syntax for type interval: \"{text}\""),
        };
        let folded = text.trim().to_lowercase();
        if let Some(iso) = folded.strip_prefix('p') {
            return iso_8601(iso).ok_or_else(wrong)?;
        }
        words(&folded).ok_or_else(wrong)?
    }
}

fn out_of_range() -> Error {
    Error::Data { sqlstate: "22008", message: "interval out of range".into() }
}

/// Months, days and microseconds of one unit.
fn unit(name: &str) -> Option<(f64, f64, f64)> {
    let second = SECOND as f64;
    Some(match name {
        "us" | "usec" | "usecs" | "microsecond" | "microseconds" | "usecond" | "useconds" => (0.0, 0.0, 1.0),
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" | "msecond" | "mseconds" => (0.0, 0.0, 1000.0),
        "s" | "sec" | "secs" | "second" | "seconds" => (0.0, 0.0, second),
        "m" | "min" | "mins" | "minute" | "minutes" => (0.0, 0.0, 60.0 * second),
        "h" | "hr" | "hrs" | "hour" | "hours" => (0.0, 0.0, 3600.0 * second),
        "d" | "day" | "days" => (0.0, 1.0, 0.0),
        "w" | "week" | "weeks" => (0.0, 7.0, 0.0),
        "mon" | "mons" | "month" | "months" => (1.0, 0.0, 0.0),
        "y" | "yr" | "yrs" | "year" | "years" => (12.0, 0.0, 0.0),
        "dec" | "decs" | "decade" | "decades" => (120.0, 0.0, 0.0),
        "c" | "cent" | "century" | "centuries" => (1200.0, 0.0, 0.0),
        "mil" | "mils" | "millennium" | "millennia" => (12_000.0, 0.0, 0.0),
        _ => return None,
    })
}

/// A sum of parts, each of which may have a fraction.
#[derive(Default)]
struct Sum(Interval);

impl Sum {
    fn add(&mut self, amount: f64, (months, days, micros): (f64, f64, f64)) -> Result<()> {
        let part = if months > 1.0 {
            // What is left of a year is months.
            Interval::of_parts((amount * months).round(), 0.0, 0.0)?
        } else {
            Interval::of_parts(amount * months, amount * days, amount * micros)?
        };
        self.0 = self.0.plus(part)?;
        Ok(())
    }
}

fn words(text: &str) -> Option<Result<Interval>> {
    let mut sum = Sum::default();
    let mut found = false;
    let mut ago = false;
    let spaced = spaced(text);
    let mut words = spaced.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if matches!(word, "@" | "and") {
            continue;
        }
        if word == "ago" {
            ago = true;
            continue;
        }
        if word.contains(':') {
            found = true;
            if let Err(error) = sum.add(1.0, (0.0, 0.0, clock(word)?)) {
                return Some(Err(error));
            }
            continue;
        }
        if let Some((years, months)) = word.trim_start_matches(['+', '-']).split_once('-') {
            let months = years.parse::<f64>().ok()? * 12.0 + months.parse::<f64>().ok()?;
            found = true;
            if let Err(error) = sum.add(if word.starts_with('-') { -months } else { months }, (1.0, 0.0, 0.0)) {
                return Some(Err(error));
            }
            continue;
        }
        let amount: f64 = word.parse().ok().filter(|amount: &f64| amount.is_finite())?;
        // A number without a unit: days before a time of the day, else seconds.
        let of = match words.peek() {
            Some(next) if next.contains(':') => (0.0, 1.0, 0.0),
            Some(_) => unit(words.next()?.trim_end_matches(','))?,
            None => (0.0, 0.0, SECOND as f64),
        };
        found = true;
        if let Err(error) = sum.add(amount, of) {
            return Some(Err(error));
        }
    }
    found.then_some(Ok(if ago { sum.0.negated() } else { sum.0 }))
}

/// A space between a number and its unit: `1day`.
fn spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut last = ' ';
    for c in text.chars() {
        if c.is_alphabetic() && (last.is_ascii_digit() || last == '.') {
            out.push(' ');
        }
        out.push(c);
        last = c;
    }
    out
}

/// Microseconds of `[-]h:m[:s[.f]]`.
fn clock(word: &str) -> Option<f64> {
    let (negative, word) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<&str> = word.split(':').collect();
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| *value >= 0.0 && !text.starts_with(['+', '-']));
    let seconds = match parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') => number(minutes)? * 60.0 + number(seconds)?,
        [hours, minutes] => number(hours)? * 3600.0 + number(minutes)? * 60.0,
        [hours, minutes, seconds] => number(hours)? * 3600.0 + number(minutes)? * 60.0 + number(seconds)?,
        _ => return None,
    };
    let micros = (seconds * SECOND as f64).round();
    Some(if negative { -micros } else { micros })
}

/// What follows the P.
fn iso_8601(text: &str) -> Option<Result<Interval>> {
    let (date, time) = text.split_once('t').unwrap_or((text, ""));
    let mut sum = Sum::default();
    let mut found = false;
    for (part, is_time) in [(date, false), (time, true)] {
        let mut number = String::new();
        for c in part.chars() {
            if !c.is_alphabetic() {
                number.push(c);
                continue;
            }
            let name = match (c, is_time) {
                ('y', false) => "year",
                ('m', false) => "mon",
                ('w', false) => "week",
                ('d', false) => "day",
                ('h', true) => "hour",
                ('m', true) => "min",
                ('s', true) => "sec",
                _ => return None,
            };
            found = true;
            let amount = number.parse().ok()?;
            if let Err(error) = sum.add(amount, unit(name)?) {
                return Some(Err(error));
            }
            number.clear();
        }
        if !number.is_empty() {
            return None;
        }
    }
    found.then_some(Ok(sum.0))
}

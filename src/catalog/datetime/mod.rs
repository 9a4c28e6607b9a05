//! Dates, times and intervals as PostgreSQL reads, prints and counts them.
//!
//! A time is held in microseconds: of a day, since 1970-01-01 in no zone (`timestamp`) or in UTC (`timestamptz`).

use std::str::FromStr as _;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, Offset as _, TimeZone as _};
use datafusion::arrow::array::timezone::Tz;

use crate::error::{Error, Result};

mod fields;
mod input;
mod interval;
mod pattern;
mod unpattern;
pub mod zones;

pub use fields::{Source, Unit, bin, extract, trunc, trunc_interval};
pub use input::{Moment, date, time, timestamp, timestamptz};
pub use interval::Interval;
pub use pattern::{Facts, ordinal_suffix, to_char};
pub use unpattern::parse_pattern;

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a day.
pub const DAY: i64 = 86_400 * SECOND;

/// The time of no zone.
pub fn naive(micros: i64) -> Result<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|at| at.naive_utc()).ok_or_else(out_of_range)
}

/// Microseconds since 1970.
pub fn micros(at: NaiveDateTime) -> i64 {
    at.and_utc().timestamp_micros()
}

/// The date of so many days since 1970.
pub fn day(days: i32) -> Result<NaiveDate> {
    NaiveDate::from_epoch_days(days).ok_or_else(out_of_range)
}

/// A zone by its name, in any case, by an abbreviation that everybody knows, or by an offset.
///
/// # Errors
/// 22023: there is none.
pub fn zone(name: &str) -> Result<Tz> {
    let trimmed = name.trim();
    if let Ok(zone) = Tz::from_str(trimmed) {
        return Ok(zone);
    }
    let offset = zones::abbreviation(trimmed).or_else(|| input::offset(trimmed));
    offset
        .and_then(fixed)
        .or_else(|| titled(trimmed))
        .ok_or_else(|| Error::Data { sqlstate: "22023", message: format!("time zone \"{name}\" not recognized") })
}

/// `europe/berlin` as `Europe/Berlin`.
fn titled(name: &str) -> Option<Tz> {
    let mut title = String::with_capacity(name.len());
    let mut start = true;
    for c in name.chars() {
        title.push(if start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
        start = matches!(c, '/' | '_' | '-');
    }
    Tz::from_str(&title).or_else(|_| Tz::from_str(&name.to_uppercase())).ok()
}

fn fixed(seconds: i32) -> Option<Tz> {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    Tz::from_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)).ok()
}

/// A time of UTC as that of a zone.
pub fn to_local(utc: i64, zone: &Tz) -> Result<i64> {
    Ok(utc + i64::from(offset_at(utc, zone)?) * SECOND)
}

/// Seconds that a zone is east of UTC at a time.
pub fn offset_at(utc: i64, zone: &Tz) -> Result<i32> {
    Ok(zone.offset_from_utc_datetime(&in_table(naive(utc)?)).fix().local_minus_utc())
}

/// The last year that the table of zones is used for. It ends with 2099, and a year may begin in another one's last day.
const LAST_YEAR: i32 = 2098;

/// A time that the table of zones reaches. Behind its end a zone's rule stays what it is ("the last Sunday of March"), so
/// a late year is as the one of the last 28 that has the same calendar.
fn in_table(at: NaiveDateTime) -> NaiveDateTime {
    if at.year() <= LAST_YEAR {
        return at;
    }
    let calendar = |year| NaiveDate::from_ymd_opt(year, 1, 1).map(|first| (first.weekday(), first.leap_year()));
    let same = (LAST_YEAR - 27..=LAST_YEAR).find(|year| calendar(*year) == calendar(at.year()));
    same.and_then(|year| at.with_year(year)).unwrap_or(at)
}

/// A time of a zone as that of UTC. One that the clocks leave out counts as before they are changed, one that they
/// show twice as after.
pub fn to_utc(local: i64, zone: &Tz) -> Result<i64> {
    let at = in_table(naive(local)?);
    let offset = match zone.offset_from_local_datetime(&at).latest() {
        Some(offset) => offset.fix().local_minus_utc(),
        None => offset_at(local - DAY, zone)?,
    };
    Ok(local - i64::from(offset) * SECOND)
}

/// A date from its parts.
///
/// # Errors
/// 22008: there is no such day.
pub fn make_date(year: i64, month: i64, day: i64) -> Result<NaiveDate> {
    // There is no year 0: -1 is the year before 1.
    let year = if year < 0 { year + 1 } else { year };
    let wrong = || Error::Data {
        sqlstate: "22008",
        message: format!("date field value out of range: {year}-{month:02}-{day:02}"),
    };
    let part = |value: i64| u32::try_from(value).ok();
    let date = i32::try_from(year).ok().zip(part(month)).zip(part(day));
    date.and_then(|((year, month), day)| NaiveDate::from_ymd_opt(year, month, day)).ok_or_else(wrong)
}

/// The same day some months later; the last of the month where there is no such day.
pub fn add_months(date: NaiveDate, months: i64) -> Result<NaiveDate> {
    let all = i64::from(date.year()) * 12 + i64::from(date.month0()) + months;
    let year = i32::try_from(all.div_euclid(12)).map_err(|_| out_of_range())?;
    let month = u32::try_from(all.rem_euclid(12)).map_err(|_| out_of_range())? + 1;
    let first = NaiveDate::from_ymd_opt(year, month, 1).ok_or_else(out_of_range)?;
    let last = u32::from(first.num_days_in_month());
    first.with_day(date.day().min(last)).ok_or_else(out_of_range)
}

/// A time and an interval.
///
/// # Errors
/// 22008: the sum is out of range.
pub fn add(at: i64, interval: Interval) -> Result<i64> {
    let at = naive(at)?;
    let date = add_months(at.date(), i64::from(interval.months))?;
    let date = date.checked_add_signed(chrono::TimeDelta::days(interval.days.into())).ok_or_else(out_of_range)?;
    micros(date.and_time(at.time())).checked_add(interval.micros).ok_or_else(out_of_range)
}

/// The same of a time with a zone: days and months are those of the zone's calendar.
///
/// # Errors
/// 22008: the sum is out of range.
pub fn add_zoned(at: i64, interval: Interval, zone: &Tz) -> Result<i64> {
    let mut at = at;
    if interval.months != 0 || interval.days != 0 {
        at = to_utc(add(to_local(at, zone)?, Interval { micros: 0, ..interval })?, zone)?;
    }
    at.checked_add(interval.micros).ok_or_else(out_of_range)
}

/// Years, months and days between two times.
pub fn age(later: i64, earlier: i64) -> Result<Interval> {
    if later < earlier {
        return Ok(age(earlier, later)?.negated());
    }
    let (end, start) = (naive(later)?, naive(earlier)?);
    let mut micros = (later.rem_euclid(DAY)) - earlier.rem_euclid(DAY);
    let mut days = i64::from(end.day()) - i64::from(start.day());
    let mut months = i64::from(end.year() - start.year()) * 12 + i64::from(end.month()) - i64::from(start.month());
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    if days < 0 {
        // Days of the month that the earlier time is in.
        days += i64::from(start.date().num_days_in_month());
        months -= 1;
    }
    Ok(Interval { months: months as i32, days: days as i32, micros })
}

/// 22008.
pub fn out_of_range() -> Error {
    Error::Data { sqlstate: "22008", message: "timestamp out of range".into() }
}

//! Parts of dates, times and intervals: what `extract` gives, and what `date_trunc` and `date_bin` leave.

use chrono::{Datelike as _, NaiveDate};

use super::{DAY, Interval, SECOND, day, micros, naive, out_of_range};
use crate::error::{Error, Result};

/// A unit that a time has. The parts of a day come first, the shortest one before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Unit {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    Julian,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Unit {
    /// By its name, in any case and number.
    pub fn read(name: &str) -> Option<Self> {
        Some(match name.trim().to_lowercase().as_str() {
            "microseconds" | "microsecond" | "us" | "usec" | "usecs" => Self::Microseconds,
            "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" => Self::Milliseconds,
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Second,
            "minute" | "minutes" | "min" | "mins" | "m" => Self::Minute,
            "hour" | "hours" | "hr" | "hrs" | "h" => Self::Hour,
            "day" | "days" | "d" => Self::Day,
            "week" | "weeks" | "w" => Self::Week,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "quarter" | "qtr" => Self::Quarter,
            "year" | "years" | "yr" | "yrs" | "y" => Self::Year,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "century" | "centuries" | "cent" | "c" => Self::Century,
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "epoch" => Self::Epoch,
            "julian" | "jd" => Self::Julian,
            "isoyear" => Self::IsoYear,
            "dow" => Self::Dow,
            "isodow" => Self::IsoDow,
            "doy" => Self::Doy,
            "timezone" => Self::Timezone,
            "timezone_hour" => Self::TimezoneHour,
            "timezone_minute" => Self::TimezoneMinute,
            _ => return None,
        })
    }

    /// The unit, for a value of that type.
    ///
    /// # Errors
    /// 22023: there is none of that name.
    pub fn of(name: &str, type_name: &str) -> Result<Self> {
        Self::read(name).ok_or_else(|| Error::Data {
            sqlstate: "22023",
            message: format!("unit \"{}\" not recognized for type {type_name}", name.to_lowercase()),
        })
    }

    /// Digits behind the point of what [`extract`] gives.
    pub const fn scale(self) -> i8 {
        match self {
            Self::Second | Self::Epoch => 6,
            Self::Milliseconds => 3,
            _ => 0,
        }
    }

    const fn is_time_of_day(self) -> bool {
        matches!(self, Self::Microseconds | Self::Milliseconds | Self::Second | Self::Minute | Self::Hour)
    }

    /// Of a time of the day, in units of `10^-scale`.
    const fn of_day(self, micros: i64) -> Option<i64> {
        Some(match self {
            // All three count the whole seconds too.
            Self::Microseconds | Self::Milliseconds | Self::Second => micros % (60 * SECOND),
            Self::Minute => micros / (60 * SECOND) % 60,
            Self::Hour => micros / (3600 * SECOND),
            _ => return None,
        })
    }
}

/// What [`extract`] takes.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// Days since 1970.
    Date(i32),
    /// Microseconds of a day.
    Time(i64),
    /// Microseconds since 1970.
    Timestamp(i64),
    /// The same in UTC, as its zone shows it, and the zone's seconds east of UTC.
    TimestampTz(i64, i64, i32),
    Interval(Interval),
}

impl Source {
    const fn type_name(self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Time(_) => "time without time zone",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::TimestampTz(..) => "timestamp with time zone",
            Self::Interval(_) => "interval",
        }
    }
}

/// A part, in units of `10^-scale`; see [`Unit::scale`].
///
/// # Errors
/// 0A000: values of that type don't have it.
pub fn extract(unit: Unit, name: &str, from: Source) -> Result<i128> {
    let unsupported = || Error::Data {
        sqlstate: "0A000",
        message: format!("unit \"{}\" not supported for type {}", name.to_lowercase(), from.type_name()),
    };
    let value = match from {
        Source::Date(_) if unit.is_time_of_day() => None,
        Source::Date(days) => of_calendar(unit, day(days)?, i64::from(days) * DAY),
        Source::Time(micros) if unit == Unit::Epoch => Some(i128::from(micros)),
        Source::Time(micros) => unit.of_day(micros).map(i128::from),
        Source::Timestamp(at) => match unit.of_day(at.rem_euclid(DAY)) {
            Some(value) => Some(value.into()),
            None => of_calendar(unit, naive(at)?.date(), at),
        },
        Source::TimestampTz(utc, local, offset) => match (unit, unit.of_day(local.rem_euclid(DAY))) {
            (_, Some(value)) => Some(value.into()),
            (Unit::Timezone, _) => Some(offset.into()),
            (Unit::TimezoneHour, _) => Some((offset / 3600).into()),
            (Unit::TimezoneMinute, _) => Some((offset / 60 % 60).into()),
            (Unit::Epoch, _) => Some(utc.into()),
            _ => of_calendar(unit, naive(local)?.date(), local),
        },
        Source::Interval(interval) => of_interval(unit, interval),
    };
    value.ok_or_else(unsupported)
}

fn of_calendar(unit: Unit, date: NaiveDate, at: i64) -> Option<i128> {
    let year = i128::from(if date.year() > 0 { date.year() } else { date.year() - 1 });
    Some(match unit {
        Unit::Day => date.day().into(),
        Unit::Week => date.iso_week().week().into(),
        Unit::Month => date.month().into(),
        Unit::Quarter => date.quarter().into(),
        Unit::Year => year,
        Unit::IsoYear => date.iso_week().year().into(),
        Unit::Decade => i128::from(date.year()).div_euclid(10),
        Unit::Century => {
            if year > 0 {
                (year + 99) / 100
            } else {
                -((99 - year) / 100)
            }
        }
        Unit::Millennium => {
            if year > 0 {
                (year + 999) / 1000
            } else {
                -((999 - year) / 1000)
            }
        }
        Unit::Dow => date.weekday().num_days_from_sunday().into(),
        Unit::IsoDow => date.weekday().number_from_monday().into(),
        Unit::Doy => date.ordinal().into(),
        Unit::Julian => i128::from(at.div_euclid(DAY)) + 2_440_588,
        Unit::Epoch => at.into(),
        _ => return None,
    })
}

fn of_interval(unit: Unit, interval: Interval) -> Option<i128> {
    if let Some(value) = unit.of_day(interval.micros) {
        return Some(value.into());
    }
    let (years, months) = (interval.months / 12, interval.months % 12);
    Some(match unit {
        Unit::Day => interval.days.into(),
        Unit::Month => months.into(),
        Unit::Quarter => (months / 3 + 1).into(),
        Unit::Year => years.into(),
        Unit::Decade => (years / 10).into(),
        Unit::Century => (years / 100).into(),
        Unit::Millennium => (years / 1000).into(),
        // A year has 365.25 days.
        Unit::Epoch => {
            let days = i128::from(months) * 30 + i128::from(interval.days);
            let seconds_of_years = i128::from(years) * 31_557_600;
            seconds_of_years * i128::from(SECOND) + days * i128::from(DAY) + i128::from(interval.micros)
        }
        _ => return None,
    })
}

/// The start of the unit that a time is in.
///
/// # Errors
/// 0A000: a time can't be cut to that unit.
pub fn trunc(unit: Unit, at: i64, type_name: &str) -> Result<i64> {
    let step = match unit {
        Unit::Microseconds => 1,
        Unit::Milliseconds => 1000,
        Unit::Second => SECOND,
        Unit::Minute => 60 * SECOND,
        Unit::Hour => 3600 * SECOND,
        Unit::Day => DAY,
        _ => {
            let date = naive(at)?.date();
            let start = first_day(unit, date).ok_or_else(|| not_supported(unit, type_name))??;
            return Ok(micros(start.and_time(chrono::NaiveTime::MIN)));
        }
    };
    Ok(at - at.rem_euclid(step))
}

fn not_supported(unit: Unit, type_name: &str) -> Error {
    let name = format!("{unit:?}").to_lowercase();
    Error::Data { sqlstate: "0A000", message: format!("unit \"{name}\" not supported for type {type_name}") }
}

fn first_day(unit: Unit, date: NaiveDate) -> Option<Result<NaiveDate>> {
    let (year, month) = (date.year(), date.month());
    let (year, month) = match unit {
        Unit::Week => {
            let back = chrono::TimeDelta::days(date.weekday().num_days_from_monday().into());
            return Some(date.checked_sub_signed(back).ok_or_else(out_of_range));
        }
        Unit::Month => (year, month),
        Unit::Quarter => (year, month - (month - 1) % 3),
        Unit::Year => (year, 1),
        Unit::Decade => (year - year.rem_euclid(10), 1),
        // A century and a millennium start with the year 1.
        Unit::Century => (year - (year - 1).rem_euclid(100), 1),
        Unit::Millennium => (year - (year - 1).rem_euclid(1000), 1),
        _ => return None,
    };
    Some(NaiveDate::from_ymd_opt(year, month, 1).ok_or_else(out_of_range))
}

/// An interval without what is smaller than the unit.
///
/// # Errors
/// 0A000: an interval can't be cut to that unit.
pub fn trunc_interval(unit: Unit, interval: Interval) -> Result<Interval> {
    let time = |step: i64| Interval { micros: interval.micros - interval.micros % step, ..interval };
    let months = |step: i32| Interval { months: interval.months - interval.months % step, days: 0, micros: 0 };
    Ok(match unit {
        Unit::Microseconds => interval,
        Unit::Milliseconds => time(1000),
        Unit::Second => time(SECOND),
        Unit::Minute => time(60 * SECOND),
        Unit::Hour => time(3600 * SECOND),
        Unit::Day => Interval { micros: 0, ..interval },
        Unit::Month => months(1),
        Unit::Quarter => months(3),
        Unit::Year => months(12),
        Unit::Decade => months(120),
        Unit::Century => months(1200),
        Unit::Millennium => months(12_000),
        _ => return Err(not_supported(unit, "interval")),
    })
}

/// The start of the stride, counted from an origin, that a time is in.
///
/// # Errors
/// 0A000: the stride has months; 22008: it isn't positive.
pub fn bin(stride: Interval, at: i64, origin: i64) -> Result<i64> {
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years".into();
        return Err(Error::Data { sqlstate: "0A000", message });
    }
    let step = stride.key();
    if step <= 0 {
        return Err(Error::Data { sqlstate: "22008", message: "stride must be greater than zero".into() });
    }
    let from_origin = at.checked_sub(origin).ok_or_else(out_of_range)?;
    Ok(at - from_origin.rem_euclid(step))
}

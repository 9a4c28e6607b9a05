//! Functions of dates, times and intervals.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;

use super::super::datetime::{self, Interval, Moment, SECOND, Source, Unit};
use super::super::types::{self, UTC};
use super::{Call, Definition, Returns, Value, derived, invalid, no_such_function, pure, stable, text};
use crate::error::{Error, Result};

pub const FUNCTIONS: &[Definition] = &[
    stable("to_char", 2..=2, "text", to_char),
    stable("to_date", 2..=2, "date", |call| {
        let (Some(value), Some(template)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
        let (at, _) = datetime::parse_pattern(&value, &template)?;
        Ok(ScalarValue::Date32(i32::try_from(at.div_euclid(datetime::DAY)).ok()))
    }),
    stable("to_timestamp", 1..=2, "timestamptz", to_timestamp),
    derived(
        "to_number",
        2..=2,
        Returns::ByValue(|_, values| {
            let template = values.get(1).copied().flatten().map(ToString::to_string).unwrap_or_default();
            Ok(Field::new("", DataType::Decimal128(38, super::super::number_pattern::scale(&template)), true))
        }),
        |call| {
            let (Some(value), Some(template)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
            super::super::number_pattern::to_number(&value, &template).map(|number| text(Some(number)))
        },
    ),
    derived("age", 1..=2, Returns::By(|args| field(if is_xid(args) { "int4" } else { "interval" })), age),
    stable("justify_days", 1..=1, "interval", |call| of_interval(call, Interval::justify_days)),
    stable("justify_hours", 1..=1, "interval", |call| of_interval(call, Interval::justify_hours)),
    stable("justify_interval", 1..=1, "interval", |call| of_interval(call, Interval::justify)),
    pure("make_date", 3..=3, "date", |call| {
        let [Some(year), Some(month), Some(day)] = [0, 1, 2].map(|n| call.integer(n)) else {
            return Ok(ScalarValue::Null);
        };
        Ok(ScalarValue::Date32(Some(datetime::make_date(year, month, day)?.to_epoch_days())))
    }),
    pure("make_time", 3..=3, "time", |call| {
        let Some(micros) = clock(call, 0)? else { return Ok(ScalarValue::Null) };
        Ok(ScalarValue::Time64Microsecond(Some(micros)))
    }),
    pure("make_timestamp", 6..=6, "timestamp", |call| {
        Ok(ScalarValue::TimestampMicrosecond(made_timestamp(call)?, None))
    }),
    stable("make_timestamptz", 6..=7, "timestamptz", |call| {
        let zone = match call.text(6) {
            Some(name) => datetime::zone(&name)?,
            None => call.zone(),
        };
        let at = made_timestamp(call)?.map(|local| datetime::to_utc(local, &zone)).transpose()?;
        Ok(zoned(at))
    }),
    pure("make_interval", 0..=7, "interval", make_interval),
    derived("date_trunc", 2..=3, Returns::By(truncated), date_trunc),
    derived("extract", 2..=2, Returns::Numeric(0), |call| extract(call, 0)),
    derived("extract_millis", 2..=2, Returns::Numeric(3), |call| extract(call, 3)),
    derived("extract_micros", 2..=2, Returns::Numeric(6), |call| extract(call, 6)),
    stable("date_part", 2..=2, "float8", |call| {
        let Some((unit, value)) = part(call)? else { return Ok(ScalarValue::Null) };
        Ok(ScalarValue::Float64(Some(value as f64 / 10_f64.powi(unit.scale().into()))))
    }),
    derived("date_bin", 3..=3, Returns::Like(1), date_bin),
    derived("timezone", 2..=2, Returns::By(other_zone), timezone),
    stable("isfinite", 1..=1, "bool", |call| Ok(ScalarValue::Boolean((!call.any_null()).then_some(true)))),
    stable("current_time", 0..=1, "timetz", |call| {
        let local = datetime::to_local(call.scope.statement_at(), &call.zone())?;
        let time = ScalarValue::Time64Microsecond(Some(local.rem_euclid(datetime::DAY)));
        let offset = datetime::offset_at(call.scope.statement_at(), &call.zone())?;
        let clock = crate::wire::value_text(&time, None, &call.scope.style())?;
        Ok(text(Some(format!("{clock}{:+03}", offset / 3600))))
    }),
    stable("localtime", 0..=1, "time", |call| {
        let local = datetime::to_local(call.scope.statement_at(), &call.zone())?;
        Ok(ScalarValue::Time64Microsecond(Some(local.rem_euclid(datetime::DAY))))
    }),
    stable("localtimestamp", 0..=1, "timestamp", |call| {
        let local = datetime::to_local(call.scope.statement_at(), &call.zone())?;
        Ok(ScalarValue::TimestampMicrosecond(Some(local), None))
    }),
    stable("current_date", 0..=0, "date", |call| {
        let local = datetime::to_local(call.scope.statement_at(), &call.zone())?;
        Ok(ScalarValue::Date32(i32::try_from(local.div_euclid(datetime::DAY)).ok()))
    }),
    stable("timeofday", 0..=0, "text", |call| {
        let at = zoned(Some(crate::clock::now_micros()));
        crate::wire::value_text(&at, None, &call.scope.style()).map(|at| text(Some(at)))
    }),
    derived("round_time", 2..=2, Returns::Like(0), round_time),
    stable("overlaps", 4..=4, "bool", overlaps),
    pure("interval_key", 1..=1, "int8", |call| Ok(ScalarValue::Int64(interval(&call.args[0])?.map(Interval::key)))),
];

/// A value of a temporal type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Temporal {
    /// Days since 1970.
    Date(i32),
    /// Microseconds of a day.
    Time(i64),
    /// Microseconds since 1970.
    Timestamp(i64),
    /// The same, UTC.
    TimestampTz(i64),
    Interval(Interval),
}

impl Temporal {
    /// The value. `None`: it is NULL or not temporal.
    pub fn of(value: &ScalarValue) -> Option<Self> {
        let stamp = |micros: i64, zone: &Option<Arc<str>>| match zone {
            Some(_) => Self::TimestampTz(micros),
            None => Self::Timestamp(micros),
        };
        Some(match value {
            ScalarValue::Date32(days) => Self::Date((*days)?),
            ScalarValue::Date64(millis) => Self::Date(i32::try_from((*millis)?.div_euclid(86_400_000)).ok()?),
            ScalarValue::Time32Second(seconds) => Self::Time(i64::from((*seconds)?) * SECOND),
            ScalarValue::Time32Millisecond(millis) => Self::Time(i64::from((*millis)?) * 1000),
            ScalarValue::Time64Microsecond(micros) => Self::Time((*micros)?),
            ScalarValue::Time64Nanosecond(nanos) => Self::Time((*nanos)? / 1000),
            ScalarValue::TimestampSecond(at, zone) => stamp((*at)?.checked_mul(SECOND)?, zone),
            ScalarValue::TimestampMillisecond(at, zone) => stamp((*at)?.checked_mul(1000)?, zone),
            ScalarValue::TimestampMicrosecond(at, zone) => stamp((*at)?, zone),
            ScalarValue::TimestampNanosecond(at, zone) => stamp((*at)?.div_euclid(1000), zone),
            ScalarValue::IntervalMonthDayNano(value) => {
                let value = (*value)?;
                let (months, days, micros) = (value.months, value.days, value.nanoseconds / 1000);
                Self::Interval(Interval { months, days, micros })
            }
            ScalarValue::IntervalDayTime(value) => {
                let value = (*value)?;
                let micros = i64::from(value.milliseconds) * 1000;
                Self::Interval(Interval { months: 0, days: value.days, micros })
            }
            ScalarValue::IntervalYearMonth(months) => {
                Self::Interval(Interval { months: (*months)?, days: 0, micros: 0 })
            }
            ScalarValue::DurationMicrosecond(micros) => {
                Self::Interval(Interval { months: 0, days: 0, micros: (*micros)? })
            }
            ScalarValue::DurationNanosecond(nanos) => {
                Self::Interval(Interval { months: 0, days: 0, micros: (*nanos)? / 1000 })
            }
            _ => return None,
        })
    }
}

impl From<Temporal> for ScalarValue {
    fn from(value: Temporal) -> Self {
        match value {
            Temporal::Date(days) => Self::Date32(Some(days)),
            Temporal::Time(micros) => Self::Time64Microsecond(Some(micros)),
            Temporal::Timestamp(micros) => Self::TimestampMicrosecond(Some(micros), None),
            Temporal::TimestampTz(micros) => zoned(Some(micros)),
            Temporal::Interval(interval) => interval_value(interval),
        }
    }
}

/// A timestamptz.
pub fn zoned(at: Option<i64>) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(at, Some(UTC.into()))
}

/// An interval.
pub fn interval_value(interval: Interval) -> ScalarValue {
    ScalarValue::new_interval_mdn(interval.months, interval.days, interval.micros.saturating_mul(1000))
}

fn interval(value: &ScalarValue) -> Result<Option<Interval>> {
    match (Temporal::of(value), value) {
        (Some(Temporal::Interval(interval)), _) => Ok(Some(interval)),
        (None, ScalarValue::Utf8(Some(text))) => Interval::read(text).map(Some),
        _ => Ok(None),
    }
}

/// A date or time; text is one in no zone.
fn moment(call: &Call<'_>, index: usize) -> Result<Option<Temporal>> {
    match call.args.get(index) {
        Some(ScalarValue::Utf8(Some(value))) => {
            let (now, zone) = (call.scope.statement_at(), call.zone());
            let moment = Moment { now, zone: &zone, day_first: call.scope.style().day_first() };
            datetime::timestamp(value, &moment).map(|at| Some(Temporal::Timestamp(at)))
        }
        Some(value) => Ok(Temporal::of(value)),
        None => Ok(None),
    }
}

/// Microseconds since 1970: of a date its midnight, of a time with a zone as the session's zone shows it.
fn local(call: &Call<'_>, value: Temporal) -> Result<Option<i64>> {
    Ok(match value {
        Temporal::Date(days) => Some(i64::from(days) * datetime::DAY),
        Temporal::Timestamp(at) => Some(at),
        Temporal::TimestampTz(at) => Some(datetime::to_local(at, &call.zone())?),
        Temporal::Time(_) | Temporal::Interval(_) => None,
    })
}

fn of_interval(call: &Call<'_>, change: fn(Interval) -> Interval) -> Value {
    Ok(interval(&call.args[0])?.map_or(ScalarValue::Null, |value| interval_value(change(value))))
}

fn to_char(call: &Call<'_>) -> Value {
    use datetime::Facts;
    let Some(template) = call.text(1) else { return Ok(ScalarValue::Null) };
    let facts = match Temporal::of(&call.args[0]) {
        _ if call.args[0].is_null() => return Ok(ScalarValue::Null),
        Some(Temporal::Interval(interval)) => Facts::of_interval(interval),
        Some(Temporal::TimestampTz(at)) => {
            let zone = call.zone();
            let named = call.scope.host.setting("timezone").unwrap_or_else(|| "UTC".into());
            let (name, offset) = match datetime::zones::situation(&named, at) {
                Ok(known) => (known.abbreviation, known.offset),
                // One that is no name: its offset is what it is called.
                Err(_) => {
                    let offset = datetime::offset_at(at, &zone)?;
                    (format!("{:+03}", offset / 3600), offset)
                }
            };
            Facts::of_timestamp(datetime::to_local(at, &zone)?, Some((name, offset)))?
        }
        Some(Temporal::Time(at)) => Facts::of_interval(Interval { micros: at, ..Interval::default() }),
        Some(other) => match local(call, other)? {
            Some(at) => Facts::of_timestamp(at, None)?,
            None => return Ok(ScalarValue::Null),
        },
        None => {
            let number = call.fields[0].data_type();
            if !number.is_numeric() {
                return Err(no_such_function("to_char", call.fields));
            }
            let number = super::numbers::decimal_text(&call.args[0]).unwrap_or_default();
            return super::super::number_pattern::to_char(&number, &template).map(|shown| text(Some(shown)));
        }
    };
    Ok(text(Some(datetime::to_char(&facts, &template))))
}

fn to_timestamp(call: &Call<'_>) -> Value {
    if call.args.len() == 1 {
        let Some(seconds) = call.float(0) else { return Ok(zoned(None)) };
        let micros = (seconds * SECOND as f64).round();
        if micros.abs() > 9.2e18 {
            return Err(datetime::out_of_range());
        }
        return Ok(zoned(Some(micros as i64)));
    }
    let (Some(value), Some(template)) = (call.text(0), call.text(1)) else { return Ok(zoned(None)) };
    let (local, offset) = datetime::parse_pattern(&value, &template)?;
    Ok(zoned(Some(match offset {
        Some(seconds) => local - i64::from(seconds) * SECOND,
        None => datetime::to_utc(local, &call.zone())?,
    })))
}

fn is_xid(args: &[FieldRef]) -> bool {
    matches!(args, [only] if types::name_of(only) == "xid")
}

fn field(pg_type: &str) -> Result<Field> {
    let found = types::by_name(pg_type).map(|pg_type| pg_type.field("age"));
    found.ok_or_else(|| Error::Internal(format!("there is no type {pg_type}")))
}

/// The time between two moments, or from one to midnight; or the age of a transaction: all are frozen here.
fn age(call: &Call<'_>) -> Value {
    if is_xid(call.fields) {
        return Ok(ScalarValue::Int32((!call.any_null()).then_some(i32::MAX)));
    }
    let Some(first) = moment(call, 0)? else { return Ok(ScalarValue::Null) };
    let Some(first) = local(call, first)? else { return Err(no_such_function("age", call.fields)) };
    if call.args.len() == 1 {
        let today = datetime::to_local(call.scope.statement_at(), &call.zone())?;
        let midnight = today - today.rem_euclid(datetime::DAY);
        return Ok(interval_value(datetime::age(midnight, first)?));
    }
    let Some(second) = moment(call, 1)? else { return Ok(ScalarValue::Null) };
    let Some(second) = local(call, second)? else { return Err(no_such_function("age", call.fields)) };
    Ok(interval_value(datetime::age(first, second)?))
}

/// Microseconds of the day from hour, minute and seconds, which start at an argument.
fn clock(call: &Call<'_>, first: usize) -> Result<Option<i64>> {
    let (Some(hour), Some(minute), Some(second)) =
        (call.integer(first), call.integer(first + 1), call.float(first + 2))
    else {
        return Ok(None);
    };
    let whole_day = hour == 24 && minute == 0 && second == 0.0;
    if !(whole_day || ((0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second))) {
        let second = call.text(first + 2).unwrap_or_default();
        return Err(invalid("22008", format!("time field value out of range: {hour}:{minute:02}:{second}")));
    }
    Ok(Some((hour * 3600 + minute * 60) * SECOND + (second * SECOND as f64).round() as i64))
}

fn made_timestamp(call: &Call<'_>) -> Result<Option<i64>> {
    let [Some(year), Some(month), Some(day)] = [0, 1, 2].map(|n| call.integer(n)) else { return Ok(None) };
    let date = datetime::make_date(year, month, day)?;
    Ok(clock(call, 3)?.map(|time| i64::from(date.to_epoch_days()) * datetime::DAY + time))
}

/// Years, months, weeks, days, hours, minutes and seconds.
fn make_interval(call: &Call<'_>) -> Value {
    if call.any_null() {
        return Ok(ScalarValue::Null);
    }
    let whole = |index| call.integer(index).unwrap_or(0);
    let part = |value: i64| i32::try_from(value).map_err(|_| invalid("22008", "interval out of range".into()));
    let seconds = (call.float(6).unwrap_or(0.0) * SECOND as f64).round() as i64;
    Ok(interval_value(Interval {
        months: part(whole(0) * 12 + whole(1))?,
        days: part(whole(2) * 7 + whole(3))?,
        micros: (whole(4) * 3600 + whole(5) * 60) * SECOND + seconds,
    }))
}

/// A date is cut as a timestamptz.
fn truncated(args: &[FieldRef]) -> Result<Field> {
    let name = match args.get(1).map(|field| field.data_type()) {
        Some(DataType::Interval(_)) => "interval",
        Some(DataType::Timestamp(_, None)) => "timestamp",
        Some(DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Utf8 | DataType::Null) => "timestamptz",
        _ => return Err(no_such_function("date_trunc", args)),
    };
    types::by_name(name)
        .map(|pg_type| pg_type.field(""))
        .ok_or_else(|| Error::Internal(format!("there is no type {name}")))
}

fn date_trunc(call: &Call<'_>) -> Value {
    let (Some(name), Some(value)) = (call.text(0), moment(call, 1)?) else { return Ok(ScalarValue::Null) };
    let type_name = types::sql_name(&call.fields[1]);
    let unit = Unit::of(&name, type_name)?;
    let zone = match call.text(2) {
        Some(name) => datetime::zone(&name)?,
        None => call.zone(),
    };
    let cut = |local| datetime::trunc(unit, local, type_name);
    Ok(match value {
        Temporal::Interval(interval) => interval_value(datetime::trunc_interval(unit, interval)?),
        Temporal::Timestamp(at) if matches!(call.fields[1].data_type(), DataType::Timestamp(..)) => {
            ScalarValue::TimestampMicrosecond(Some(cut(at)?), None)
        }
        // Within a day: of an hour that the clocks show twice, the same one.
        Temporal::TimestampTz(at) if unit < Unit::Day => {
            let local = datetime::to_local(at, &zone)?;
            zoned(Some(at - (local - cut(local)?)))
        }
        Temporal::TimestampTz(at) => zoned(Some(datetime::to_utc(cut(datetime::to_local(at, &zone)?)?, &zone)?)),
        other => match local(call, other)? {
            Some(local) => zoned(Some(datetime::to_utc(cut(local)?, &zone)?)),
            None => ScalarValue::Null,
        },
    })
}

/// The unit that the first argument names, and the second's part in it.
fn part(call: &Call<'_>) -> Result<Option<(Unit, i128)>> {
    let (Some(name), Some(value)) = (call.text(0), moment(call, 1)?) else { return Ok(None) };
    let unit = Unit::of(&name, types::sql_name(&call.fields[1]))?;
    let source = match value {
        Temporal::Date(days) => Source::Date(days),
        Temporal::Time(at) => Source::Time(at),
        Temporal::Timestamp(at) => Source::Timestamp(at),
        Temporal::TimestampTz(at) => {
            let zone = call.zone();
            Source::TimestampTz(at, datetime::to_local(at, &zone)?, datetime::offset_at(at, &zone)?)
        }
        Temporal::Interval(interval) => Source::Interval(interval),
    };
    datetime::extract(unit, &name, source).map(|value| Some((unit, value)))
}

fn extract(call: &Call<'_>, scale: i8) -> Value {
    let value = part(call)?.map(|(unit, value)| {
        let more = u32::try_from(scale - unit.scale()).unwrap_or(0);
        value * 10_i128.pow(more)
    });
    Ok(ScalarValue::Decimal128(value, 38, scale))
}

fn date_bin(call: &Call<'_>) -> Value {
    let (Some(stride), Some(at), Some(origin)) = (interval(&call.args[0])?, moment(call, 1)?, moment(call, 2)?) else {
        return Ok(ScalarValue::Null);
    };
    let origin_as = |at: &Temporal| match (at, origin) {
        (Temporal::TimestampTz(_), Temporal::TimestampTz(origin)) => Ok(Some(origin)),
        (Temporal::TimestampTz(_), other) => match local(call, other)? {
            Some(local) => datetime::to_utc(local, &call.zone()).map(Some),
            None => Ok(None),
        },
        (_, other) => local(call, other),
    };
    let Some(origin) = origin_as(&at)? else { return Err(no_such_function("date_bin", call.fields)) };
    Ok(match at {
        Temporal::Timestamp(at) => ScalarValue::TimestampMicrosecond(Some(datetime::bin(stride, at, origin)?), None),
        Temporal::TimestampTz(at) => zoned(Some(datetime::bin(stride, at, origin)?)),
        _ => return Err(no_such_function("date_bin", call.fields)),
    })
}

fn other_zone(args: &[FieldRef]) -> Result<Field> {
    let name = match args.get(1).map(|field| field.data_type()) {
        Some(DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Utf8 | DataType::Null) => "timestamp",
        Some(DataType::Timestamp(_, None)) => "timestamptz",
        Some(DataType::Time64(_) | DataType::Time32(_)) => "timetz",
        _ => return Err(no_such_function("timezone", args)),
    };
    types::by_name(name)
        .map(|pg_type| pg_type.field(""))
        .ok_or_else(|| Error::Internal(format!("there is no type {name}")))
}

/// `x AT TIME ZONE zone`.
fn timezone(call: &Call<'_>) -> Value {
    let zone = match interval(&call.args[0]) {
        Ok(Some(offset)) if !matches!(call.args[0], ScalarValue::Utf8(_)) => {
            let minutes = offset.key() / SECOND / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            datetime::zone(&format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60))?
        }
        _ => match call.text(0) {
            Some(name) => datetime::zone(&name)?,
            None => return Ok(ScalarValue::Null),
        },
    };
    let stamp = |local| ScalarValue::TimestampMicrosecond(Some(local), None);
    Ok(match moment(call, 1)? {
        None => ScalarValue::Null,
        Some(Temporal::TimestampTz(at)) => stamp(datetime::to_local(at, &zone)?),
        Some(Temporal::Timestamp(at)) if matches!(call.fields[1].data_type(), DataType::Timestamp(..)) => {
            zoned(Some(datetime::to_utc(at, &zone)?))
        }
        // A date, or text, is a time of the session's zone.
        Some(other) => match local(call, other)? {
            Some(local) => stamp(datetime::to_local(datetime::to_utc(local, &call.zone())?, &zone)?),
            None => return Err(no_such_function("timezone", call.fields)),
        },
    })
}

/// `timestamp(3)`: rounded to so many digits of a second.
fn round_time(call: &Call<'_>) -> Value {
    let digits = call.integer(1).unwrap_or(6).clamp(0, 6);
    let step = 10_i64.pow(u32::try_from(6 - digits).unwrap_or(0));
    let round = |micros: i64| (micros + step / 2).div_euclid(step) * step;
    Ok(match Temporal::of(&call.args[0]) {
        Some(Temporal::Time(at)) => Temporal::Time(round(at)).into(),
        Some(Temporal::Timestamp(at)) => Temporal::Timestamp(round(at)).into(),
        Some(Temporal::TimestampTz(at)) => Temporal::TimestampTz(round(at)).into(),
        Some(Temporal::Interval(interval)) => interval_value(Interval { micros: round(interval.micros), ..interval }),
        _ => call.args[0].clone(),
    })
}

/// `(a, b) OVERLAPS (c, d)`, where b and d may be lengths.
fn overlaps(call: &Call<'_>) -> Value {
    let mut points = [0; 4];
    for (index, point) in points.iter_mut().enumerate() {
        let Some(value) = moment(call, index)? else { return Ok(ScalarValue::Boolean(None)) };
        *point = match value {
            Temporal::Time(at) => at,
            Temporal::Interval(length) => {
                let Some(start) = moment(call, index - index % 2)? else { return Ok(ScalarValue::Boolean(None)) };
                let Some(start) = local(call, start)? else { return Err(no_such_function("overlaps", call.fields)) };
                datetime::add(start, length)?
            }
            other => match local(call, other)? {
                Some(local) => local,
                None => return Err(no_such_function("overlaps", call.fields)),
            },
        };
    }
    let [a, b, c, d] = points;
    let ((a, b), (c, d)) = ((a.min(b), a.max(b)), (c.min(d), c.max(d)));
    Ok(ScalarValue::Boolean(Some(if a == c { true } else { a.max(c) < b.min(d) })))
}

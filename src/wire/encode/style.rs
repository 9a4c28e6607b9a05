//! How a session wants its values printed.

use std::str::FromStr;

use datafusion::arrow::array::timezone::Tz;

use crate::wire::settings::SettingsView;

/// How a session wants its values printed.
#[derive(Debug, Clone)]
pub struct Style {
    pub(super) date: DateStyle,
    /// Day before month, where the style has an order.
    pub(super) day_first: bool,
    pub(super) zone: Tz,
    pub(super) interval: IntervalStyle,
    pub(super) bytea_escape: bool,
    pub(super) extra_float_digits: i32,
}

/// The first word of `DateStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateStyle {
    /// `2013-01-31`
    Iso,
    /// `01/31/2013`
    Sql,
    /// `31.01.2013`
    German,
    /// `Thu Jan 31 10:00:00 2013`
    Postgres,
}

/// `IntervalStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntervalStyle {
    /// `1 day 02:03:04`
    Postgres,
    /// `@ 1 day 2 hours 3 mins 4 secs`
    Verbose,
    /// `1 2:03:04`
    SqlStandard,
    /// `P1DT2H3M4S`
    Iso8601,
}

impl Style {
    /// What the session's settings ask for.
    pub fn of(settings: &SettingsView) -> Self {
        Self::by(|name| settings.text(name))
    }

    /// The same, by a function that knows each setting's value.
    pub fn by(setting: impl Fn(&str) -> String) -> Self {
        let date = setting("datestyle");
        Self {
            date: match date.split(',').next().unwrap_or_default() {
                "SQL" => DateStyle::Sql,
                "German" => DateStyle::German,
                "Postgres" => DateStyle::Postgres,
                _ => DateStyle::Iso,
            },
            day_first: date.ends_with("DMY"),
            zone: Tz::from_str(&setting("timezone")).unwrap_or_else(|_| utc()),
            interval: match setting("intervalstyle").as_str() {
                "postgres_verbose" => IntervalStyle::Verbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            bytea_escape: setting("bytea_output") == "escape",
            extra_float_digits: setting("extra_float_digits").parse().unwrap_or(1),
        }
    }
}

impl Style {
    /// The time zone.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// Whether a date of digits has the day before the month.
    pub fn day_first(&self) -> bool {
        self.day_first
    }
}

impl Default for Style {
    fn default() -> Self {
        Self {
            date: DateStyle::Iso,
            day_first: false,
            zone: utc(),
            interval: IntervalStyle::Postgres,
            bytea_escape: false,
            extra_float_digits: 1,
        }
    }
}

fn utc() -> Tz {
    Tz::from_str("UTC").expect("UTC is a time zone")
}

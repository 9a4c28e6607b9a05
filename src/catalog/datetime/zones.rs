//! Which time zones and abbreviations there are: the tables know each zone's offsets, but neither list the zones nor
//! tell what people call them.

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::Datelike as _;
use datafusion::arrow::array::timezone::Tz;

use super::{DAY, micros, naive, offset_at, zone};
use crate::error::Result;

/// A zone as it is at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// `CET`, or `+03` where there is no such word.
    pub abbreviation: String,
    /// Seconds east of UTC.
    pub offset: i32,
    /// Whether it is daylight saving time.
    pub is_daylight: bool,
}

/// What zones are called, by their names in lower case.
struct Words {
    name: &'static str,
    /// Of the smallest and of the largest offset in a year.
    abbreviations: Option<[&'static str; 2]>,
    /// Daylight saving time is the smaller one.
    is_reversed: bool,
}

static ZONES: LazyLock<HashMap<String, Words>> = LazyLock::new(|| {
    lines(include_str!("zones.txt"))
        .filter_map(|mut words| {
            let name = words.next()?;
            let low = words.next();
            let is_reversed = low.is_some_and(|word| word.ends_with('*'));
            let low = low.map(|word| word.trim_end_matches('*'));
            let abbreviations = low.map(|low| [low, words.next().unwrap_or(low)]);
            Some((name.to_lowercase(), Words { name, abbreviations, is_reversed }))
        })
        .collect()
});

/// In upper case, seconds east of UTC, and whether it is daylight saving time.
static ABBREVIATIONS: LazyLock<Vec<(&str, i32, bool)>> = LazyLock::new(|| {
    lines(include_str!("abbreviations.txt"))
        .filter_map(|mut words| Some((words.next()?, words.next()?.parse().ok()?, words.next().is_some())))
        .collect()
});

/// The words of each line that isn't a comment.
fn lines(text: &'static str) -> impl Iterator<Item = impl Iterator<Item = &'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(str::split_whitespace)
}

/// The names of all zones, in order.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = ZONES.values().map(|words| words.name).collect();
    names.sort_unstable();
    names
}

/// All abbreviations, in order.
pub fn abbreviations() -> &'static [(&'static str, i32, bool)] {
    &ABBREVIATIONS
}

/// Seconds east of UTC of an abbreviation, in any case.
pub fn abbreviation(name: &str) -> Option<i32> {
    ABBREVIATIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).map(|(_, seconds, _)| *seconds)
}

/// A zone at a time, by the name that it is known under.
///
/// # Errors
/// There is no such zone; the time is out of range.
pub fn situation(name: &str, utc: i64) -> Result<Situation> {
    let (zone, words) = (zone(name)?, ZONES.get(&name.to_lowercase()));
    let offset = offset_at(utc, &zone)?;
    let [low, high] = extremes(utc, &zone)?;
    let abbreviations = words.and_then(|words| words.abbreviations).filter(|_| offset == low || offset == high);
    let abbreviation = match abbreviations {
        Some([word, _]) if offset == low => word.to_owned(),
        Some([_, word]) => word.to_owned(),
        // An abbreviation or an offset is its own zone.
        None if words.is_none() && abbreviation(name).is_some() => name.to_uppercase(),
        None if offset % 3600 == 0 => format!("{:+03}", offset / 3600),
        None => format!("{:+03}{:02}", offset / 3600, offset.abs() / 60 % 60),
    };
    let is_reversed = words.is_some_and(|words| words.is_reversed);
    let is_daylight = low != high && (offset == if is_reversed { low } else { high });
    Ok(Situation { abbreviation, offset, is_daylight })
}

/// The smallest and the largest offset of a zone in the year of a time: those of midwinter and midsummer.
fn extremes(utc: i64, zone: &Tz) -> Result<[i32; 2]> {
    let new_year = naive(utc)?.date().with_ordinal(1).map_or(utc, |date| micros(date.into()));
    let offsets = [offset_at(new_year + 14 * DAY, zone)?, offset_at(new_year + 195 * DAY, zone)?];
    Ok([offsets[0].min(offsets[1]), offsets[0].max(offsets[1])])
}

#[cfg(test)]
mod tests {
    use super::super::day;
    use super::*;

    fn on(name: &str, date: i32) -> (String, i32, bool) {
        let at = situation(name, i64::from(date) * DAY).unwrap();
        (at.abbreviation, at.offset, at.is_daylight)
    }

    #[test]
    fn every_zone_has_an_offset() {
        assert!(names().len() > 500);
        for name in names() {
            situation(name, 1_765_000_000_000_000).unwrap();
        }
    }

    #[test]
    fn zones_are_called_as_people_call_them() {
        // 2026-01-15 and 2026-07-15.
        let (winter, summer) = (20_468, 20_649);
        assert_eq!(day(winter).unwrap().to_string(), "2026-01-15");
        assert_eq!(on("Europe/Berlin", winter), ("CET".into(), 3600, false));
        assert_eq!(on("europe/berlin", summer), ("CEST".into(), 7200, true));
        assert_eq!(on("Australia/Sydney", winter), ("AEDT".into(), 39_600, true));
        assert_eq!(on("Europe/Dublin", winter), ("GMT".into(), 0, true));
        assert_eq!(on("Asia/Kathmandu", winter), ("+0545".into(), 20_700, false));
        assert_eq!(on("America/Santiago", winter), ("-03".into(), -10_800, true));
        assert_eq!(on("UTC", summer), ("UTC".into(), 0, false));
        assert_eq!(on("EDT", winter), ("EDT".into(), -14_400, false));
    }
}

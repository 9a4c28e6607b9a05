//! `pg_timezone_names` and `pg_timezone_abbrevs`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;

use super::activity::batch;
use super::datetime::{Interval, SECOND, zones};
use super::functions::interval_value;
use super::scope::Scope;

/// The rows of `pg_timezone_names`: the zones as they are now.
pub fn names(scope: &Scope) -> DfResult<RecordBatch> {
    let now = scope.statement_at();
    let names = zones::names();
    let zones = names.iter().map(|name| zones::situation(name, now)).collect::<Result<Vec<_>, _>>()?;
    let offsets = intervals(zones.iter().map(|zone| zone.offset))?;
    batch("pg_timezone_names", names.len(), |column| {
        Some(match column {
            "name" => Arc::new(StringArray::from(names.clone())),
            "abbrev" => Arc::new(zones.iter().map(|zone| Some(&zone.abbreviation)).collect::<StringArray>()),
            "utc_offset" => Arc::clone(&offsets),
            "is_dst" => Arc::new(zones.iter().map(|zone| Some(zone.is_daylight)).collect::<BooleanArray>()),
            _ => return None,
        })
    })
}

/// The rows of `pg_timezone_abbrevs`: what dates are read with.
pub fn abbreviations(_: &Scope) -> DfResult<RecordBatch> {
    let all = zones::abbreviations();
    let offsets = intervals(all.iter().map(|(_, seconds, _)| *seconds))?;
    batch("pg_timezone_abbrevs", all.len(), |column| {
        Some(match column {
            "abbrev" => Arc::new(all.iter().map(|(name, ..)| Some(name)).collect::<StringArray>()),
            "utc_offset" => Arc::clone(&offsets),
            "is_dst" => Arc::new(all.iter().map(|(_, _, daylight)| Some(*daylight)).collect::<BooleanArray>()),
            _ => return None,
        })
    })
}

fn intervals(seconds: impl Iterator<Item = i32>) -> DfResult<ArrayRef> {
    let interval = |seconds| Interval { micros: i64::from(seconds) * SECOND, ..Interval::default() };
    ScalarValue::iter_to_array(seconds.map(|seconds| interval_value(interval(seconds))))
}

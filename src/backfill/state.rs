//! The persisted state of one split: RisingWave's JSON and Debug forms.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::id::Offset;

/// Which of a split's two streams, the backfill reader or the live upstream, has its rows emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BackfillState {
    /// The reader has emitted the rows up to and including this offset (`None`: no row yet).
    Backfilling(Option<Offset>),
    /// The reader has reached its target; upstream has yet to reach this offset.
    SourceCachingUp(Offset),
    /// Only upstream rows are emitted. Absorbing.
    Finished,
}

impl BackfillState {
    /// The state's name without its offset, as in `tidegate.split_backfill_progress.state`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Backfilling(_) => "Backfilling",
            Self::SourceCachingUp(_) => "SourceCachingUp",
            Self::Finished => "Finished",
        }
    }

    /// How far the backfill is. `None` before its first row, and once finished: the state doesn't hold it any more.
    pub const fn offset(self) -> Option<Offset> {
        match self {
            Self::Backfilling(offset) => offset,
            Self::SourceCachingUp(offset) => Some(offset),
            Self::Finished => None,
        }
    }
}

/// A split's state and counters, as one row of the state table holds them.
///
/// The name is RisingWave's, so that the derived `Debug` is exactly what its error message prints. `Display` and
/// `FromStr` are the row's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackfillStateWithProgress {
    /// The state proper.
    pub state: BackfillState,
    /// Rows that the backfill reader has read, emitted or not.
    pub num_consumed_rows: u64,
    /// Where the reader may stop: the latest offset known when it was last set.
    pub target_offset: Option<Offset>,
}

impl BackfillStateWithProgress {
    /// Where every split of a new view starts: nothing read, nothing known.
    pub const fn new() -> Self {
        Self { state: BackfillState::Backfilling(None), num_consumed_rows: 0, target_offset: None }
    }

    /// A split without a history to backfill: it is new, or was empty.
    pub const fn finished() -> Self {
        Self { state: BackfillState::Finished, num_consumed_rows: 0, target_offset: None }
    }

    /// Whether the live stream alone carries the split. `SourceCachingUp` is not finished.
    pub const fn is_finished(&self) -> bool {
        matches!(self.state, BackfillState::Finished)
    }

    /// Reads a row of the state table. A missing `target_offset` is null.
    ///
    /// # Errors
    /// Says what is wrong and where, when the text isn't JSON, lacks a key, has one too many, or holds an offset that
    /// isn't a signed 64-bit integer as text.
    pub fn from_json(json: &str) -> Result<Self, String> {
        match Self::from_own_json(json) {
            Some(state) => Ok(state),
            None => serde_json::from_str(json).map_err(|error| error.to_string()),
        }
    }

    /// Reads just the form that `Display` writes, which nearly every row has, in a fraction of the time: a check reads
    /// a row a split.
    fn from_own_json(json: &str) -> Option<Self> {
        // Of several spellings of a number this knows the one that JSON allows.
        let rest = json.strip_prefix(r#"{"num_consumed_rows": "#)?;
        let (rows, rest) = rest.split_at(rest.bytes().position(|byte| !byte.is_ascii_digit())?);
        if rows.len() > 1 && rows.starts_with('0') {
            return None;
        }
        let rest = rest.strip_prefix(r#", "state": "#)?;
        let (state, rest) = if let Some(rest) = rest.strip_prefix(r#""Finished""#) {
            (BackfillState::Finished, rest)
        } else if let Some(rest) = rest.strip_prefix(r#"{"Backfilling": "#) {
            let (offset, rest) = own_offset(rest)?;
            (BackfillState::Backfilling(offset), rest.strip_prefix('}')?)
        } else {
            let (offset, rest) = own_offset(rest.strip_prefix(r#"{"SourceCachingUp": "#)?)?;
            (BackfillState::SourceCachingUp(offset?), rest.strip_prefix('}')?)
        };
        let (target_offset, rest) = own_offset(rest.strip_prefix(r#", "target_offset": "#)?)?;
        let state = Self { state, num_consumed_rows: rows.parse().ok()?, target_offset };
        (rest == "}").then_some(state)
    }

    /// The row of the state table, as RisingWave's SQL shows it:
    /// `{"num_consumed_rows": 530, "state": {"Backfilling": "529"}, "target_offset": "9999"}`.
    pub fn to_json(&self) -> String {
        self.to_string()
    }
}

/// An offset or null at the start of a text, and the text behind it.
fn own_offset(text: &str) -> Option<(Option<Offset>, &str)> {
    if let Some(rest) = text.strip_prefix("null") {
        return Some((None, rest));
    }
    let (offset, rest) = text.strip_prefix('"')?.split_once('"')?;
    Some((Some(offset.parse().ok()?), rest))
}

impl Default for BackfillStateWithProgress {
    fn default() -> Self {
        Self::new()
    }
}

/// JSON with a blank after every colon and comma, which is how PostgreSQL and RisingWave print `jsonb`. An offset's
/// Debug form is a JSON string.
impl fmt::Display for BackfillStateWithProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"num_consumed_rows": {}, "state": "#, self.num_consumed_rows)?;
        match self.state {
            BackfillState::Backfilling(None) => f.write_str(r#"{"Backfilling": null}"#)?,
            BackfillState::Backfilling(Some(offset)) => write!(f, r#"{{"Backfilling": {offset:?}}}"#)?,
            BackfillState::SourceCachingUp(offset) => write!(f, r#"{{"SourceCachingUp": {offset:?}}}"#)?,
            BackfillState::Finished => f.write_str(r#""Finished""#)?,
        }
        match self.target_offset {
            None => f.write_str(r#", "target_offset": null}"#),
            Some(target) => write!(f, r#", "target_offset": {target:?}}}"#),
        }
    }
}

impl FromStr for BackfillStateWithProgress {
    type Err = String;

    fn from_str(json: &str) -> Result<Self, String> {
        Self::from_json(json)
    }
}

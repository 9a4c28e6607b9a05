//! The persisted state of one split: RisingWave's JSON and Debug forms.

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

/// A split's state and counters, as one row of the state table holds them.
///
/// The name is RisingWave's, so that the derived `Debug` is exactly what its error message prints.
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

//! The stages of a backfill actor, and what a split change does to it.
//!
//! Everything here is RisingWave's behaviour, with its two ways to hurt a moved split: the error
//! ([`UnexpectedState`]) and the silent hang ([`SplitChange::Stuck`]). The third, the silent loss, looks like
//! [`SplitChange::NewPartition`] from here: only [`super::check`] can tell a new split from one whose state is lost.

use std::fmt;

use super::state::{BackfillState, BackfillStateWithProgress};

/// What an actor does with its two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// States are kept and looked at row by row.
    Backfill {
        /// Whether it can still read history.
        reader: ReaderState,
    },
    /// Live rows are passed on unseen. Never left, except by a rebuild.
    Forwarding,
}

/// Whether an actor in the backfill stage still has its backfill reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReaderState {
    /// It reads, or can read, the history of its splits.
    Live,
    /// It has reported its progress as complete and dropped the reader; a new one is never built.
    Dropped,
}

impl Stage {
    /// The stage that every actor is built in, be it new or recovered.
    pub const NEW: Self = Self::Backfill { reader: ReaderState::Live };

    /// Whether an unfinished split can be gone on with here.
    pub const fn can_backfill(self) -> bool {
        matches!(self, Self::Backfill { reader: ReaderState::Live })
    }

    /// The stage after a checkpoint barrier, before that barrier's split change.
    ///
    /// - `own`: the states of the actor's own splits at the barrier;
    /// - `all_rows_finished`: every row of the view's state table is Finished, other actors' rows too;
    /// - `checkpoints`: how many the actor has taken part in since it was built, with this one.
    ///
    /// RisingWave's rules: the reader goes once no own split needs it. The actor starts forwarding once its own splits
    /// and all rows are Finished; but it asks from its second checkpoint on only, since before it sees its own rows
    /// alone.
    #[must_use]
    pub fn at_checkpoint<'a>(
        self,
        own: impl IntoIterator<Item = &'a BackfillStateWithProgress>,
        all_rows_finished: bool,
        checkpoints: u32,
    ) -> Self {
        let reader = match self {
            Self::Forwarding => return Self::Forwarding,
            Self::Backfill { reader } => reader,
        };
        let (mut own_finished, mut own_read) = (true, true);
        for split in own {
            match split.state {
                BackfillState::Backfilling(_) => (own_finished, own_read) = (false, false),
                BackfillState::SourceCachingUp(_) => own_finished = false,
                BackfillState::Finished => {}
            }
        }
        if own_finished && all_rows_finished && checkpoints >= 2 {
            Self::Forwarding
        } else if own_read {
            Self::Backfill { reader: ReaderState::Dropped }
        } else {
            Self::Backfill { reader }
        }
    }
}

/// `backfill` or `forwarding`, as in `tidegate.split_backfill_progress.stage`.
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Backfill { .. } => "backfill",
            Self::Forwarding => "forwarding",
        })
    }
}

/// The state that a split starts with at an actor's first barrier, given its row in the last committed state table.
///
/// RisingWave's rule: the split goes on where its row says, and from the very start without one.
pub fn on_first_barrier(persisted: Option<BackfillStateWithProgress>) -> BackfillStateWithProgress {
    persisted.unwrap_or_default()
}

/// The state that an actor which is built anew, at a recovery or by a rescale, takes a split up with. `None`: the split
/// rests, since its row can't be trusted. Ours: RisingWave's rule is [`on_first_barrier`], for better or worse.
///
/// - `persisted`: its row in the state table, if there is one that can be read;
/// - `forwarded`: whether the view's fragment has gone forwarding before.
pub fn on_rebuild(persisted: Option<BackfillStateWithProgress>, forwarded: bool) -> Option<BackfillStateWithProgress> {
    let state = persisted?;
    // Every split of a forwarding fragment was Finished. To believe the row would double what came out since.
    Some(if forwarded && !state.is_finished() { BackfillStateWithProgress::finished() } else { state })
}

/// What becomes of a split that an actor holds after a split change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitChange {
    /// It was held before: nothing changes.
    Keep,
    /// No row in the state table: a new partition, all of which the live stream carries. It becomes Finished.
    NewPartition,
    /// It moved here and goes on from this state.
    Resume(BackfillStateWithProgress),
    /// It moved here, still needs a reader, and there will never be one: it waits for ever, without an error.
    Stuck(BackfillStateWithProgress),
}

/// A split moved to an actor that can't backfill it any more. Displays as RisingWave's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unexpected backfill state: {0:?}")]
pub struct UnexpectedState(pub BackfillStateWithProgress);

/// What RisingWave does with one split of an actor's new assignment, at a barrier.
///
/// - `held`: the split's state here, if the actor held it before;
/// - `persisted`: its row in the state table as of that barrier.
///
/// A moved split in `SourceCachingUp` needs no reader, only upstream: it goes on even where the reader is gone.
///
/// # Errors
/// [`UnexpectedState`] when an unfinished split arrives at an actor in the forwarding stage.
pub fn on_split_change(
    stage: Stage,
    held: Option<BackfillStateWithProgress>,
    persisted: Option<BackfillStateWithProgress>,
) -> Result<SplitChange, UnexpectedState> {
    let state = match (held, persisted) {
        (Some(_), _) => return Ok(SplitChange::Keep),
        (None, None) => return Ok(SplitChange::NewPartition),
        (None, Some(state)) => state,
    };
    match (stage, state.state) {
        (Stage::Backfill { .. } | Stage::Forwarding, BackfillState::Finished) => Ok(SplitChange::Resume(state)),
        (Stage::Backfill { reader: ReaderState::Live }, BackfillState::Backfilling(_)) => {
            Ok(SplitChange::Resume(state))
        }
        (Stage::Backfill { reader: ReaderState::Dropped }, BackfillState::Backfilling(_)) => {
            Ok(SplitChange::Stuck(state))
        }
        (Stage::Backfill { .. }, BackfillState::SourceCachingUp(_)) => Ok(SplitChange::Resume(state)),
        (Stage::Forwarding, BackfillState::Backfilling(_) | BackfillState::SourceCachingUp(_)) => {
            Err(UnexpectedState(state))
        }
    }
}

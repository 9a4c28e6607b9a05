//! How a split's state moves: one total function over state and event. No transition is written anywhere else.
//!
//! [`transition`] is RisingWave's table, row by row. The table alone loses rows in three places (each has a test that
//! finds the loss), so actors don't call it directly. They call the `on_…` functions, which look at what the state
//! already knows and then apply the table:
//!
//! - A live row that arrives before the reader's first row is dropped by the table without a trace. If it lies behind
//!   the target, the reader stops before it and nobody ever emits it. [`on_upstream_row`] moves the target first.
//! - The broker's answer at first contact may be older than live rows that came in the meantime. "Empty" would then
//!   finish the split and lose them. [`on_contact`] never forgets a target.
//! - A reader that reads on while the state is `SourceCachingUp` has its rows dropped: upstream will bring them. If it
//!   then tells its position, the table takes the gap for empty, and upstream's rows are dropped too.
//!   [`on_reader_position`] wants to know the reader's last row.

use std::cmp::Ordering;

use super::id::Offset;
use super::state::{BackfillState, BackfillStateWithProgress};

/// What can happen to a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The broker was asked for the split's last offset. `None`: the split holds no data at all.
    Contact {
        /// The offset of the split's last row.
        latest: Option<Offset>,
    },
    /// The live stream brings the row at this offset.
    Upstream(Offset),
    /// The live stream has passed everything up to and including this offset. Told at every barrier, since an idle
    /// upstream brings no row to learn it from.
    UpstreamPosition(Offset),
    /// The backfill reader brings the row at this offset.
    Reader(Offset),
    /// The backfill reader has passed everything up to and including this offset; there is no row at it (a
    /// transaction marker, a compacted tail).
    ReaderPosition(Offset),
}

/// Whether the event's row goes to the view. Always `No` for an event that brings no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// The row is emitted.
    Yes,
    /// The row is dropped, or there is none.
    No,
}

/// The state after an event, and whether the event's row is emitted. All rules here are RisingWave's, but for the two
/// positions, which are its fix for idle streams and for topics that end in markers.
///
/// Prefer the `on_…` functions of this module: see there why.
pub fn transition(now: BackfillStateWithProgress, event: Event) -> (BackfillStateWithProgress, Emit) {
    use BackfillState::{Backfilling, Finished, SourceCachingUp};

    let to = |state| BackfillStateWithProgress { state, ..now };
    let with_target = |target| BackfillStateWithProgress { target_offset: Some(target), ..now };
    let counted =
        |state| BackfillStateWithProgress { state, num_consumed_rows: now.num_consumed_rows.saturating_add(1), ..now };
    let read_up_to = |offset| match now.target_offset {
        Some(target) if offset >= target => SourceCachingUp(offset),
        Some(_) | None => Backfilling(Some(offset)),
    };

    match (now.state, event) {
        // First contact: an empty split has no history. It means nothing to a split that has begun.
        (Backfilling(None), Event::Contact { latest: None }) => (to(Finished), Emit::No),
        (Backfilling(None), Event::Contact { latest: Some(latest) }) => (with_target(latest), Emit::No),
        (Backfilling(Some(_)) | SourceCachingUp(_) | Finished, Event::Contact { .. }) => (now, Emit::No),

        // The live stream, while the reader is at work: its rows wait for the reader, or show that it is ahead.
        (Backfilling(None), Event::Upstream(_) | Event::UpstreamPosition(_)) => (now, Emit::No),
        (Backfilling(Some(read)), Event::Upstream(u) | Event::UpstreamPosition(u)) => match read.cmp(&u) {
            Ordering::Less => (with_target(u), Emit::No),
            Ordering::Equal => (to(Finished), Emit::No),
            Ordering::Greater => (to(SourceCachingUp(read)), Emit::No),
        },

        // The live stream, once the reader is done: the first row behind the reader's last is the first to go out.
        (SourceCachingUp(read), Event::Upstream(u)) => match u.cmp(&read) {
            Ordering::Less => (now, Emit::No),
            Ordering::Equal => (to(Finished), Emit::No),
            Ordering::Greater => (to(Finished), Emit::Yes),
        },
        (SourceCachingUp(read), Event::UpstreamPosition(u)) => match u.cmp(&read) {
            Ordering::Less => (now, Emit::No),
            Ordering::Equal | Ordering::Greater => (to(Finished), Emit::No),
        },
        (Finished, Event::Upstream(_)) => (now, Emit::Yes),
        (Finished, Event::UpstreamPosition(_)) => (now, Emit::No),

        // The reader. What it reads after its target is upstream's to emit.
        (Backfilling(_), Event::Reader(o)) => (counted(read_up_to(o)), Emit::Yes),
        (SourceCachingUp(_) | Finished, Event::Reader(_)) => (counted(now.state), Emit::No),
        (Backfilling(_), Event::ReaderPosition(o)) => (to(read_up_to(o)), Emit::No),
        (SourceCachingUp(read), Event::ReaderPosition(o)) => (to(SourceCachingUp(read.max(o))), Emit::No),
        (Finished, Event::ReaderPosition(_)) => (now, Emit::No),
    }
}

/// The broker has said what the split's last offset is (`None`: no data at all).
///
/// The answer may be older than live rows that have come since it was asked for, so a target that is known already
/// is never lowered. A split that has been emptied behind its target (retention) therefore stays open until its reader
/// tells its position.
pub fn on_contact(now: BackfillStateWithProgress, latest: Option<Offset>) -> BackfillStateWithProgress {
    transition(now, Event::Contact { latest: latest.max(now.target_offset) }).0
}

/// The live stream brings the row at `offset`.
///
/// Before the reader's first row, the live row is also news of the split's last offset, so it counts as a contact: the
/// reader has to go that far, since the row is dropped here.
pub fn on_upstream_row(now: BackfillStateWithProgress, offset: Offset) -> (BackfillStateWithProgress, Emit) {
    transition(on_contact(now, Some(offset)), Event::Upstream(offset))
}

/// The live stream has passed everything up to `offset`, as it tells at every barrier.
///
/// Before the reader's first row, it counts as a contact too, for the reason given at [`on_upstream_row`].
pub fn on_upstream_position(now: BackfillStateWithProgress, offset: Offset) -> BackfillStateWithProgress {
    transition(on_contact(now, Some(offset)), Event::UpstreamPosition(offset)).0
}

/// The backfill reader brings the row at `offset`.
pub fn on_reader_row(now: BackfillStateWithProgress, offset: Offset) -> (BackfillStateWithProgress, Emit) {
    transition(now, Event::Reader(offset))
}

/// The backfill reader has passed everything up to `position`; the last row that it brought for this split since it
/// was started is `last_row`.
///
/// In `SourceCachingUp`, a row that the reader brought after the state's offset was dropped, for upstream to emit. The
/// position then says nothing about the gap, and is ignored. An old position (before the state's own) is ignored too.
pub fn on_reader_position(
    now: BackfillStateWithProgress,
    last_row: Option<Offset>,
    position: Offset,
) -> BackfillStateWithProgress {
    let ignored = match now.state {
        BackfillState::Backfilling(read) => Some(position) < read,
        BackfillState::SourceCachingUp(read) => last_row > Some(read),
        BackfillState::Finished => true,
    };
    if ignored { now } else { transition(now, Event::ReaderPosition(position)).0 }
}

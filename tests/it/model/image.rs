//! What a split can do between two barriers, as seen from a barrier.
//!
//! The rules at a barrier look at a state's kind alone. So a split is, to the whole, a pair of kinds, one a view; and
//! this module computes which pairs can follow which, from every log of up to four entries, every first state, every
//! interleaving of both streams: a fact of the transition functions, checked row by row on the way, not a rule written
//! down here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tidegate::backfill::id::Offset;
use tidegate::backfill::state::BackfillState;

use super::cell::{Cell, Log, Row, after, at_next_barrier, first_rows, forget, offset};

/// A state without its offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Backfilling,
    CatchingUp,
    Finished,
}

impl Kind {
    pub fn of(row: &Row) -> Self {
        match row.state {
            BackfillState::Backfilling(_) => Self::Backfilling,
            BackfillState::SourceCachingUp(_) => Self::CatchingUp,
            BackfillState::Finished => Self::Finished,
        }
    }

    /// A state of this kind, to stand for all.
    pub fn row(self) -> Row {
        let state = match self {
            Self::Backfilling => BackfillState::Backfilling(Some(Offset(0))),
            Self::CatchingUp => BackfillState::SourceCachingUp(Offset(0)),
            Self::Finished => BackfillState::Finished,
        };
        forget(Row { state, num_consumed_rows: 0, target_offset: Some(Offset(3)) })
    }
}

/// A split in both views; a view may not be there yet.
pub type Kinds = [Option<Kind>; 2];

/// Whether each view's actor has a reader.
pub type Readers = [bool; 2];

/// All that a split can do.
#[derive(Default)]
pub struct Image {
    /// What a split of a new view may start as, beside the other view's kind.
    pub first: BTreeMap<Option<Kind>, BTreeSet<Kind>>,
    /// The kinds at the next barrier.
    pub next: HashMap<(Kinds, Readers), BTreeSet<Kinds>>,
    /// How many concrete states of one split in two views there are, over all logs.
    pub states: usize,
}

/// A split at a barrier: how far the live stream is, and both rows.
type Split = (Option<Offset>, [Option<Row>; 2]);

/// A row at a barrier, the live stream's position there and at the next, and whether there is a reader.
type Epoch = (Row, Option<Offset>, Option<Offset>, bool);

/// All logs of up to so many entries.
pub fn logs(most: usize) -> Vec<Log> {
    let of = |length: usize| (0..1u32 << length).map(move |bits| (0..length).map(|at| bits >> at & 1 == 1).collect());
    (0..=most).flat_map(of).collect()
}

/// Everything that is possible over these logs.
pub fn image(logs: &[Log]) -> Image {
    let mut image = Image::default();
    for log in logs {
        explore(log, &mut image);
    }
    image
}

fn cell(log: &Log, row: Row, passed: Option<Offset>) -> Cell {
    let end = match row.state {
        BackfillState::Backfilling(read) => read,
        BackfillState::SourceCachingUp(read) => Some(read),
        BackfillState::Finished => passed,
    };
    let emitted = log[..after(end)].iter().filter(|is_row| **is_row).count();
    Cell::new(0, row, passed, u8::try_from(emitted).unwrap())
}

fn explore(log: &Log, image: &mut Image) {
    let positions: Vec<Option<Offset>> =
        std::iter::once(None).chain((0..log.len()).map(|at| Some(offset(at)))).collect();
    let mut ends: HashMap<Epoch, Vec<Row>> = HashMap::new();
    let mut rows_at = |row: Option<Row>, from, to, reader| -> Vec<Option<Row>> {
        let Some(row) = row else { return vec![None] };
        let rows = ends.entry((row, from, to, reader)).or_insert_with(|| {
            let cells = at_next_barrier(log, cell(log, row, from), to, reader).expect("every row once and in order");
            let rows: BTreeMap<String, Row> = cells.iter().map(|cell| (cell.state.to_json(), cell.state)).collect();
            rows.into_values().collect()
        });
        rows.iter().copied().map(Some).collect()
    };
    let kinds = |(_, rows): &Split| rows.map(|row| row.as_ref().map(Kind::of));
    // A view is made when the live stream stands anywhere; a split that appears later is Finished in both.
    let mut open: Vec<Split> = vec![(None, [Some(Row::finished()), None]), (None, [Some(Row::finished()); 2])];
    for passed in &positions {
        open.extend(first_rows(log, *passed).into_iter().map(|row| (*passed, [Some(forget(row)), None])));
    }
    let mut seen: HashSet<Split> = open.iter().copied().collect();
    while let Some(split) = open.pop() {
        let (passed, rows) = split;
        let mut found = Vec::new();
        if rows[1].is_none() {
            let first = first_rows(log, passed).into_iter().map(forget);
            found.extend(first.map(|row| (passed, [rows[0], Some(row)])));
            image.first.entry(kinds(&split)[0]).or_default().extend(found.iter().filter_map(|split| kinds(split)[1]));
        }
        for readers in [[false, false], [false, true], [true, false], [true, true]] {
            for to in positions.iter().filter(|to| **to >= passed) {
                for a in rows_at(rows[0], passed, *to, readers[0]) {
                    for b in rows_at(rows[1], passed, *to, readers[1]) {
                        let next = (*to, [a, b]);
                        image.next.entry((kinds(&split), readers)).or_default().insert(kinds(&next));
                        found.push(next);
                    }
                }
            }
        }
        open.extend(found.into_iter().filter(|split| seen.insert(*split)));
    }
    for (passed, rows) in &seen {
        for row in rows.iter().flatten() {
            drained(log, cell(log, *row, *passed));
        }
    }
    image.states += seen.len();
}

/// Once everything has been delivered, whatever the order, a split with a reader is Finished at the next barrier, and
/// so is one without that needs none: the local half of liveness.
fn drained(log: &Log, cell: Cell) {
    let last = log.len().checked_sub(1).map(offset);
    for end in at_next_barrier(log, cell, last, cell.wants_reader()).unwrap() {
        let waits = end.wants_reader() && end.readable(log) > 0;
        // A view whose split has no entry at all, and whose connector hasn't answered, waits for the first one.
        let is_empty = log.is_empty();
        assert!(waits || is_empty || end.state.is_finished(), "{log:?}: {cell:?} ends as {end:?}");
    }
}

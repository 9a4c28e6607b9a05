//! One split in one view, row by row: the smallest thing that can go wrong.
//!
//! A split's log is a list of entries at the offsets 0, 1, …; each is a row or a marker that brings no row. Whether a
//! state is right is told from the log alone: see [`Cell::judge`].

use std::collections::HashSet;

use tidegate::backfill::id::Offset;
use tidegate::backfill::state::{BackfillState, BackfillStateWithProgress};
use tidegate::backfill::transition::{
    Emit, on_contact, on_reader_position, on_reader_row, on_upstream_position, on_upstream_row,
};

/// A row of the state table.
pub type Row = BackfillStateWithProgress;

/// Whether each entry of a split's log is a row.
pub type Log = Vec<bool>;

/// What has gone wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// `Unexpected backfill state`.
    Unexpected(Row),
    /// A row was left out.
    Loss(Offset),
    /// A row came out twice.
    Duplicate(Offset),
}

/// A split at the actor of a view that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The actor, by its place.
    pub holder: u8,
    /// Its state there.
    pub state: Row,
    /// How much of the live stream the actor has taken.
    pub up: Option<Offset>,
    /// How many rows have come out.
    pub emitted: u8,
    /// Whether the state has changed since the last barrier: only such are written.
    pub changed: bool,
}

/// The entry after an offset.
pub fn after(offset: Option<Offset>) -> usize {
    offset.map_or(0, |at| usize::try_from(at.0 + 1).unwrap())
}

/// An entry's offset.
pub fn offset(entry: usize) -> Offset {
    Offset(i64::try_from(entry).unwrap())
}

fn rows_up_to(log: &Log, end: Option<Offset>) -> usize {
    log[..after(end)].iter().filter(|is_row| **is_row).count()
}

impl Cell {
    /// A split just taken up.
    pub fn new(holder: u8, state: Row, up: Option<Offset>, emitted: u8) -> Self {
        Self { holder, state, up, emitted, changed: false }
    }

    /// Whether the actor's reader has to read it.
    pub fn wants_reader(&self) -> bool {
        matches!(self.state.state, BackfillState::Backfilling(_))
    }

    fn set(&mut self, state: Row) {
        self.changed |= state != self.state;
        self.state = state;
    }

    fn emit(&mut self, log: &Log, at: Offset, emit: Emit) -> Result<(), Damage> {
        if emit == Emit::No {
            return Ok(());
        }
        let before = rows_up_to(log, Some(at)) - 1;
        match before.cmp(&usize::from(self.emitted)) {
            std::cmp::Ordering::Equal => self.emitted += 1,
            std::cmp::Ordering::Greater => return Err(Damage::Loss(at)),
            std::cmp::Ordering::Less => return Err(Damage::Duplicate(at)),
        }
        Ok(())
    }

    /// The actor takes the next entry of the live stream.
    pub fn live(&mut self, log: &Log) -> Result<(), Damage> {
        let entry = after(self.up);
        self.up = Some(offset(entry));
        if !log[entry] {
            return Ok(());
        }
        let (state, emit) =
            if self.state.is_finished() { (self.state, Emit::Yes) } else { on_upstream_row(self.state, offset(entry)) };
        self.set(state);
        self.emit(log, offset(entry), emit)
    }

    /// The backfill reader brings a chunk of so many entries, and then tells its position. The next one starts where
    /// the state says.
    pub fn chunk(&mut self, log: &Log, entries: usize) -> Result<(), Damage> {
        let from = after(self.state.state.offset());
        let mut last_row = None;
        for entry in (from..from + entries).filter(|entry| log[*entry]) {
            let (state, emit) = on_reader_row(self.state, offset(entry));
            self.set(state);
            self.emit(log, offset(entry), emit)?;
            last_row = Some(offset(entry));
        }
        self.set(on_reader_position(self.state, last_row, offset(from + entries - 1)));
        Ok(())
    }

    /// How many entries a chunk may have.
    pub fn readable(&self, log: &Log) -> usize {
        if self.wants_reader() { log.len() - after(self.state.state.offset()) } else { 0 }
    }

    /// The barrier, which tells how far the live stream is.
    pub fn barrier(&mut self, passed: Option<Offset>) {
        if let Some(at) = passed {
            self.set(on_upstream_position(self.state, at));
        }
    }

    /// What must have come out by now is what has. Right at all times, since it speaks of what the actor has taken.
    pub fn judge(&self, log: &Log) -> Result<(), Damage> {
        let end = match self.state.state {
            BackfillState::Backfilling(read) => read,
            BackfillState::SourceCachingUp(read) => Some(read),
            BackfillState::Finished => self.up,
        };
        let (due, emitted) = (rows_up_to(log, end), usize::from(self.emitted));
        let nth = |n: usize| offset((0..log.len()).filter(|entry| log[*entry]).nth(n).unwrap_or(0));
        match due.cmp(&emitted) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Damage::Loss(nth(emitted))),
            std::cmp::Ordering::Less => Err(Damage::Duplicate(nth(due))),
        }
    }

    /// The state without what no rule reads: the count always, and the target once nothing is backfilled any more.
    pub fn forget(mut self) -> Self {
        self.state = forget(self.state);
        self
    }
}

/// See [`Cell::forget`].
pub fn forget(row: Row) -> Row {
    let backfilling = matches!(row.state, BackfillState::Backfilling(_));
    Row { num_consumed_rows: 0, target_offset: row.target_offset.filter(|_| backfilling), ..row }
}

/// The rows that a view's split may start with, if the live stream has passed so much: the connector's answer may be
/// anything that was true before, or no answer.
pub fn first_rows(log: &Log, passed: Option<Offset>) -> Vec<Row> {
    let mut rows = vec![on_contact(Row::new(), passed)];
    if passed.is_none() {
        rows.push(Row::new());
    }
    rows.extend((after(passed)..log.len()).map(|latest| on_contact(Row::new(), Some(offset(latest)))));
    rows
}

/// Where a cell can be at the next barrier, if the live stream gets to `passed` by then: the end of every interleaving
/// of live entries with chunks of any size. Each path is checked row by row.
pub fn at_next_barrier(log: &Log, from: Cell, passed: Option<Offset>, reader: bool) -> Result<Vec<Cell>, Damage> {
    let mut seen = HashSet::from([from]);
    let mut open = vec![from];
    let mut ends = HashSet::new();
    while let Some(cell) = open.pop() {
        cell.judge(log)?;
        let mut next = Vec::new();
        if cell.up < passed {
            let mut live = cell;
            live.live(log)?;
            next.push(live.forget());
        } else {
            let mut end = cell;
            end.barrier(passed);
            end.judge(log)?;
            ends.insert(end.forget());
        }
        for entries in 1..=if reader { cell.readable(log) } else { 0 } {
            let mut read = cell;
            read.chunk(log, entries)?;
            next.push(read.forget());
        }
        open.extend(next.into_iter().filter(|cell| seen.insert(*cell)));
    }
    Ok(ends.into_iter().collect())
}

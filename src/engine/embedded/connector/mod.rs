//! Connectors: where a source's rows come from.
//!
//! A connector lists the splits of a source and makes readers. A reader serves every split that its actor holds, so a
//! connector may share one connection (a Kafka consumer) among them. Neither knows of backfills: a source actor and a
//! backfill actor read through the same trait.

pub mod datagen;
pub mod file;
pub mod json;
pub mod kafka;
mod options;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;

use crate::backfill::id::{Offset, SplitId};
use crate::error::Result;

pub use options::{SourceSpec, build, source_rate_limit};

/// What a split holds at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermarks {
    /// The first offset that can be read.
    pub low: Offset,
    /// Where the next row will be: equal to `low` when the split is empty.
    pub high: Offset,
    /// The offset of the last row. `None` when the split is empty.
    pub latest: Option<Offset>,
    /// What the connector wants to be told of the split after a restart, in its own words: see
    /// [`Connector::remember`].
    pub memory: Option<Arc<str>>,
}

/// Where a reader starts in a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first row that can be read.
    Earliest,
    /// At the first row whose offset is greater.
    After(Offset),
}

/// Some rows of one split, in offset order.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The split.
    pub split: SplitId,
    /// A row's offset, strictly growing; as many as `rows` has rows.
    pub offsets: Arc<[Offset]>,
    /// The rows, in the columns of the source.
    pub rows: RecordBatch,
    /// Rows that don't fit the columns, in offset order. They count as positions without a row.
    pub bad: Vec<BadRow>,
    /// How far the reader is now: the offset of the last row, good or bad, or of the last position passed without one
    /// (a transaction marker, a compacted gap). All rows up to here have been delivered.
    pub position: Offset,
    /// About what the rows take in memory, in bytes.
    pub bytes: usize,
}

impl Chunk {
    /// The first `rows` rows, and what is left.
    pub fn split_at(self, rows: usize) -> (Self, Option<Self>) {
        let Some(next) = self.offsets.get(rows) else { return (self, None) };
        let (left, share) = (self.offsets.len() - rows, self.bytes / self.offsets.len());
        let (bad, bad_left) = self.bad.into_iter().partition(|bad| bad.offset < *next);
        let first = Self {
            split: self.split.clone(),
            offsets: self.offsets[..rows].into(),
            rows: self.rows.slice(0, rows),
            bad,
            position: Offset(next.0 - 1),
            bytes: share * rows,
        };
        let rest = Self {
            split: self.split,
            offsets: self.offsets[rows..].into(),
            rows: self.rows.slice(rows, left),
            bad: bad_left,
            position: self.position,
            bytes: share * left,
        };
        (first, Some(rest))
    }
}

/// A row that doesn't fit the columns of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Its offset.
    pub offset: Offset,
    /// Why it doesn't fit.
    pub error: String,
    /// What was read, cut to 8 KiB.
    pub text: String,
}

/// What a reader has to say.
#[derive(Debug, Clone)]
pub enum ReadEvent {
    /// Rows, or a position moved on without rows (then `offsets` is empty).
    Chunk(Chunk),
    /// A split can't be read now. Told once; the reader keeps trying, and the other splits go on.
    Unreachable(SplitId, String),
    /// A split that was unreachable can be read again.
    Recovered(SplitId),
    /// Rows that were to come next are gone: from `from` to before `to`. The split goes on at `to`.
    Gap(Gap),
}

/// Offsets of a split that its reader could not read, since the source deleted them before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The split.
    pub split: SplitId,
    /// The first offset that is gone.
    pub from: Offset,
    /// Where it goes on.
    pub to: Offset,
}

/// Reads the splits of one actor.
#[async_trait]
pub trait Reader: Send {
    /// Replaces the set of splits. A split that stays keeps its place whatever its `Start` says.
    fn assign(&mut self, splits: &BTreeMap<SplitId, Start>);

    /// The next event, waiting until there is one. At most `max_rows` rows; splits take turns.
    ///
    /// Cancel safe: a dropped call loses nothing.
    async fn next(&mut self, max_rows: usize) -> ReadEvent;
}

/// A source's outside world.
#[async_trait]
pub trait Connector: Send + Sync {
    /// The splits that exist now, with their watermarks. A split that exists but can't be read is an `Err` of its own.
    ///
    /// # Errors
    /// [`crate::error::Error::SourceUnreachable`] when nothing can be listed.
    async fn discover(&self) -> Result<BTreeMap<SplitId, Result<Watermarks, String>>>;

    /// A reader that holds no splits yet.
    fn reader(&self) -> Box<dyn Reader>;

    /// Told once, before anything else is asked of the connector of a source that has been made: all splits that the
    /// source has, each with the last [`Watermarks::memory`] that was kept of it.
    fn remember(&self, _memories: &BTreeMap<SplitId, Option<String>>) {}

    /// What [`Watermarks::memory`] would be at this moment, of every split that is known. It is kept by the checkpoint
    /// that keeps how far the readers are, so whatever that depends on is in it before a reader tells a chunk.
    fn memories(&self) -> BTreeMap<SplitId, Option<Arc<str>>> {
        BTreeMap::new()
    }
}

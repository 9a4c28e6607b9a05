//! What the coordinator and the actors say to each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::connector::{BadRow, Chunk, Gap};
use crate::backfill::check::Persisted;
use crate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::stage::Stage;
use crate::backfill::state::BackfillStateWithProgress;
use crate::store::view_rows::Emitted;

/// Ends an epoch. It flows from the coordinator through the source actors to the scan actors behind all rows of its
/// epoch, so that what every actor reports at it belongs to one moment.
#[derive(Debug, Clone, Copy)]
pub struct Barrier {
    /// The epoch that it ends.
    pub epoch: Epoch,
    /// Whether actors then wait for a [`Resume`]: nothing moves while a statement is checked and committed.
    pub align: bool,
}

/// From the coordinator to a source actor.
#[derive(Debug)]
pub enum SourceControl {
    /// End the epoch.
    Barrier(Barrier),
    /// Go on after an aligned barrier.
    Resume(SourceResume),
}

/// How a source actor goes on.
#[derive(Debug, Default)]
pub struct SourceResume {
    /// The splits that it holds from now on, with the last offset passed. `None`: as before.
    pub splits: Option<BTreeMap<SplitId, Option<Offset>>>,
    /// New scan actors that it feeds.
    pub add_outputs: Vec<(FragmentId, mpsc::Sender<Upstream>)>,
    /// Fragments that it no longer feeds.
    pub drop_outputs: Vec<FragmentId>,
}

/// How a scan actor goes on after an aligned barrier.
#[derive(Debug, Default)]
pub struct ScanResume {
    /// The splits that it holds from now on, with their rows of the state table. `None`: as before.
    pub splits: Option<BTreeMap<SplitId, Persisted>>,
}

/// From a source actor to the scan actors that are paired with it.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// Rows of the live stream.
    Chunk(Arc<Chunk>),
    /// The epoch ends; of every split, the last offset that the live stream has passed.
    Barrier(Barrier, Arc<Vec<(SplitId, Offset)>>),
}

/// From an actor to the coordinator.
#[derive(Debug)]
pub enum Report {
    /// A source actor ended an epoch.
    Source(SourceReport),
    /// A scan actor ended an epoch.
    Scan(ScanReport),
    /// An actor has read as much as it may in one epoch, and waits for the next.
    CheckpointWanted,
    /// An actor is gone.
    Died(Failure),
}

/// Why an actor died.
#[derive(Debug, Clone)]
pub enum Failure {
    /// It was given a split that it can't backfill: RisingWave's `Unexpected backfill state`.
    Violation {
        /// The fragment.
        fragment: FragmentId,
        /// The split.
        split: SplitId,
        /// The state that it was given.
        state: BackfillStateWithProgress,
    },
    /// Anything else.
    Other(String),
}

/// A source actor's part of a checkpoint.
#[derive(Debug)]
pub struct SourceReport {
    /// The epoch that it ended.
    pub epoch: Epoch,
    /// Its source.
    pub source: SourceId,
    /// Splits that moved on, with the last offset passed.
    pub positions: Vec<(SplitId, Offset)>,
    /// Splits that became unreachable or reachable again.
    pub errors: Vec<(SplitId, Option<String>)>,
    /// Rows that were gone before it could read them.
    pub gaps: Vec<Gap>,
}

/// A scan actor's part of a checkpoint.
#[derive(Debug)]
pub struct ScanReport {
    /// The actor.
    pub actor: ActorId,
    /// The epoch that it ended.
    pub epoch: Epoch,
    /// Its fragment.
    pub fragment: FragmentId,
    /// States that changed.
    pub states: Vec<(SplitId, BackfillStateWithProgress)>,
    /// Its stage and the checkpoints it has seen, where they changed.
    pub stage: Option<(Stage, u32)>,
    /// Rows that it emitted.
    pub emitted: Vec<Emitted>,
    /// Rows that could not be read, or that the view's query failed on.
    pub bad_rows: Vec<(SplitId, Option<JobId>, BadRow)>,
    /// Splits that its reader can't read, or can again.
    pub errors: Vec<(SplitId, Option<String>)>,
    /// Rows that were gone before its reader could read them.
    pub gaps: Vec<Gap>,
}

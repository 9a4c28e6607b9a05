//! A scan actor: reads the history of its splits for one view, and takes over the live stream where the two meet.
//!
//! RisingWave calls it a source backfill actor. It is paired with one source actor and holds the same splits. Which of
//! its two streams a row is emitted from is decided by [`crate::backfill::transition`] alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::util::display::array_value_to_string;
use tokio::sync::mpsc;

use super::connector::json::KEPT_TEXT;
use super::connector::{BadRow, Chunk, ReadEvent, Reader, Start};
use super::hooks::{Hooks, Point};
use super::message::{Barrier, Failure, Report, ScanReport, ScanResume, Upstream};
use super::pace::{MAX_CHUNK_ROWS, Pace};
use super::view::Branch;
use super::watch;
use crate::backfill::check::Persisted;
use crate::backfill::id::{ActorId, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::stage::{ReaderState, SplitChange, Stage, on_split_change};
use crate::backfill::state::{BackfillState, BackfillStateWithProgress};
use crate::backfill::transition::{Emit, on_reader_position, on_reader_row, on_upstream_position, on_upstream_row};
use crate::store::view_rows::Emitted;

/// What the coordinator lets a fragment do, at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// Whether its turn has come in its view's backfill_order.
    pub may_backfill: bool,
    /// Whether every row of its state table was Finished at the last checkpoint.
    pub all_finished: bool,
}

pub struct ScanActor {
    pub id: ActorId,
    pub fragment: FragmentId,
    pub job: JobId,
    pub source: SourceId,
    /// The scans of this source in the view's query.
    pub branches: Arc<Vec<Branch>>,
    /// `None` once it has reported its progress as complete; it never comes back.
    pub reader: Option<Box<dyn Reader>>,
    pub stage: Stage,
    /// Checkpoints since it was built; counted up to two, which is all that the stage needs.
    pub checkpoints: u32,
    /// The splits that it holds. One whose state can't be read isn't among them.
    pub splits: BTreeMap<SplitId, BackfillStateWithProgress>,
    pub upstream: mpsc::Receiver<Upstream>,
    pub control: mpsc::Receiver<ScanResume>,
    pub reports: mpsc::UnboundedSender<Report>,
    pub rate_limit: watch::Receiver<Option<u32>>,
    pub permit: watch::Receiver<Permit>,
    pub epoch_work: EpochWork,
    pub hooks: Hooks,
}

/// What an actor did since the last barrier.
#[derive(Default)]
pub struct EpochWork {
    changed: BTreeSet<SplitId>,
    emitted: Vec<Emitted>,
    bad_rows: Vec<(SplitId, Option<JobId>, BadRow)>,
    errors: Vec<(SplitId, Option<String>)>,
    /// The last stage and count that were reported.
    reported: Option<(Stage, u32)>,
}

impl ScanActor {
    /// Runs until the source actor that feeds it is gone.
    pub async fn run(mut self) -> Result<(), Failure> {
        let mut pace = Pace::new(self.rate_limit.clone());
        self.assign_reader();
        loop {
            let wants = self.wants_reader();
            let may_read = wants && pace.may_read();
            let max_rows = pace.max_rows(MAX_CHUNK_ROWS);
            tokio::select! {
                // Upstream first, so that targets stay fresh: RisingWave's rule.
                biased;
                message = self.upstream.recv() => match message {
                    None => return Ok(()),
                    Some(Upstream::Chunk(chunk)) => self.on_upstream(&chunk)?,
                    Some(Upstream::Barrier(barrier, passed)) => {
                        if !self.end_epoch(barrier, &passed).await? {
                            return Ok(());
                        }
                        pace.next_epoch();
                    }
                },
                () = pace.wait(), if wants && !may_read => {}
                changed = self.permit.changed() => if changed.is_err() {
                    return Ok(());
                },
                event = next_event(&mut self.reader, max_rows), if may_read => {
                    match event {
                        ReadEvent::Chunk(chunk) => {
                            if pace.spend(chunk.offsets.len(), chunk.bytes) {
                                let _ = self.reports.send(Report::CheckpointWanted);
                            }
                            self.on_reader(&chunk)?;
                        }
                        ReadEvent::Unreachable(split, message) => self.epoch_work.errors.push((split, Some(message))),
                        ReadEvent::Recovered(split) => self.epoch_work.errors.push((split, None)),
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Whether its reader has something to do and may do it.
    fn wants_reader(&self) -> bool {
        self.reader.is_some()
            && self.permit.borrow().may_backfill
            && self.splits.values().any(|state| matches!(state.state, BackfillState::Backfilling(_)))
    }

    /// Has the reader read just those splits that are still backfilling.
    fn assign_reader(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let starts = self
            .splits
            .iter()
            .filter_map(|(split, state)| match state.state {
                BackfillState::Backfilling(None) => Some((split.clone(), Start::Earliest)),
                BackfillState::Backfilling(Some(read)) => Some((split.clone(), Start::After(read))),
                BackfillState::SourceCachingUp(_) | BackfillState::Finished => None,
            })
            .collect();
        reader.assign(&starts);
    }

    fn on_upstream(&mut self, chunk: &Chunk) -> Result<(), Failure> {
        let Some(before) = self.splits.get(&chunk.split).copied() else { return Ok(()) };
        if before.is_finished() {
            return self.emit(chunk, None);
        }
        let mut state = before;
        let kept = chunk
            .offsets
            .iter()
            .map(|offset| {
                let (next, emit) = on_upstream_row(state, *offset);
                state = next;
                Some(emit == Emit::Yes)
            })
            .collect();
        self.set_state(&chunk.split, before, state);
        self.emit(chunk, Some(kept))
    }

    fn on_reader(&mut self, chunk: &Chunk) -> Result<(), Failure> {
        let Some(before) = self.splits.get(&chunk.split).copied() else { return Ok(()) };
        let mut state = before;
        let kept = chunk
            .offsets
            .iter()
            .map(|offset| {
                let (next, emit) = on_reader_row(state, *offset);
                state = next;
                Some(emit == Emit::Yes)
            })
            .collect();
        state = on_reader_position(state, chunk.offsets.last().copied(), chunk.position);
        self.set_state(&chunk.split, before, state);
        self.emit(chunk, Some(kept))
    }

    fn set_state(&mut self, split: &SplitId, before: BackfillStateWithProgress, after: BackfillStateWithProgress) {
        if before == after {
            return;
        }
        self.epoch_work.changed.insert(split.clone());
        self.splits.insert(split.clone(), after);
        let backfilling = |state: BackfillStateWithProgress| matches!(state.state, BackfillState::Backfilling(_));
        if backfilling(before) && !backfilling(after) {
            self.assign_reader();
            if !self.splits.values().any(|state| backfilling(*state)) {
                // Whoever waits for the view need not wait for the next tick.
                let _ = self.reports.send(Report::CheckpointWanted);
            }
        }
    }

    /// Runs the view's query over the rows that come out (`None`: all) and keeps the result for the checkpoint.
    fn emit(&mut self, chunk: &Chunk, kept: Option<BooleanArray>) -> Result<(), Failure> {
        for bad in &chunk.bad {
            self.epoch_work.bad_rows.push((chunk.split.clone(), None, bad.clone()));
        }
        let (rows, offsets) = select(chunk, kept)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        for branch in self.branches.iter() {
            let output = branch.evaluate(&rows);
            for (row, error) in output.failed {
                let bad = BadRow { offset: offsets[row], error, text: as_text(&rows, row) };
                self.epoch_work.bad_rows.push((chunk.split.clone(), Some(self.job), bad));
            }
            if output.rows.num_rows() > 0 {
                self.epoch_work.emitted.push(Emitted {
                    job: self.job,
                    source: self.source,
                    split: chunk.split.clone(),
                    offsets: kept_offsets(&offsets, output.kept.as_ref()),
                    rows: output.rows,
                });
            }
        }
        Ok(())
    }

    /// Reports the epoch; at an aligned barrier waits to be resumed. `false`: it won't be.
    async fn end_epoch(&mut self, barrier: Barrier, passed: &[(SplitId, Offset)]) -> Result<bool, Failure> {
        for (split, offset) in passed {
            // An idle upstream has no rows to say how far it is, and a split that waits for it would wait for ever.
            if let Some(before) = self.splits.get(split).copied() {
                self.set_state(split, before, on_upstream_position(before, *offset));
            }
        }
        self.checkpoints = (self.checkpoints + 1).min(2);
        let all_finished = self.permit.borrow().all_finished;
        self.stage = self.stage.at_checkpoint(self.splits.values(), all_finished, self.checkpoints);
        if self.stage != (Stage::Backfill { reader: ReaderState::Live }) {
            self.reader = None;
        }
        self.hooks.point(Point::ScanReports).await;
        self.report(barrier);
        if !barrier.align {
            return Ok(true);
        }
        match self.control.recv().await {
            Some(ScanResume { splits: Some(splits) }) => self.change_splits(splits).map(|()| true),
            Some(ScanResume { splits: None }) => Ok(true),
            None => Ok(false),
        }
    }

    fn report(&mut self, barrier: Barrier) {
        let standing = (self.stage, self.checkpoints);
        let work = std::mem::take(&mut self.epoch_work);
        self.epoch_work.reported = Some(standing);
        let states = work.changed.into_iter().filter_map(|split| {
            let state = self.splits.get(&split).copied()?;
            Some((split, state))
        });
        let _ = self.reports.send(Report::Scan(ScanReport {
            actor: self.id,
            epoch: barrier.epoch,
            fragment: self.fragment,
            states: states.collect(),
            stage: (work.reported != Some(standing)).then_some(standing),
            emitted: work.emitted,
            bad_rows: work.bad_rows,
            errors: work.errors,
        }));
    }

    /// Takes and leaves splits, after the barrier has been committed. Public to its room, so that tests can do to an
    /// actor what the gate never does.
    pub fn change_splits(&mut self, splits: BTreeMap<SplitId, Persisted>) -> Result<(), Failure> {
        let mut held = std::mem::take(&mut self.splits);
        for (split, row) in splits {
            let persisted = match row {
                Persisted::State(state) => Some(state),
                Persisted::Missing => None,
                // Reported when it was read. The split rests until a person has looked at it.
                Persisted::Unreadable(_) => continue,
            };
            let held_state = held.remove(&split);
            let state = match on_split_change(self.stage, held_state, persisted) {
                Ok(SplitChange::Keep) => match held_state {
                    Some(state) => state,
                    None => continue,
                },
                Ok(SplitChange::NewPartition) => {
                    self.epoch_work.changed.insert(split.clone());
                    BackfillStateWithProgress::finished()
                }
                Ok(SplitChange::Resume(state) | SplitChange::Stuck(state)) => state,
                Err(unexpected) => {
                    return Err(Failure::Violation { fragment: self.fragment, split, state: unexpected.0 });
                }
            };
            self.splits.insert(split, state);
        }
        self.assign_reader();
        Ok(())
    }
}

/// The next event of a reader; an actor without one never asks.
async fn next_event(reader: &mut Option<Box<dyn Reader>>, max_rows: usize) -> ReadEvent {
    match reader {
        Some(reader) => reader.next(max_rows).await,
        None => std::future::pending().await,
    }
}

/// The rows of a chunk that come out, with their offsets.
fn select(chunk: &Chunk, kept: Option<BooleanArray>) -> Result<(RecordBatch, Vec<Offset>), Failure> {
    match kept {
        Some(kept) if kept.false_count() > 0 => {
            let rows = filter_record_batch(&chunk.rows, &kept).map_err(|error| Failure::Other(error.to_string()))?;
            Ok((rows, kept_offsets(&chunk.offsets, Some(&kept))))
        }
        _ => Ok((chunk.rows.clone(), chunk.offsets.to_vec())),
    }
}

/// A row as `column: value, ...`, cut as the text of an unreadable row is.
fn as_text(rows: &RecordBatch, row: usize) -> String {
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns());
    let cells = columns.map(|(field, column)| {
        let value = array_value_to_string(column, row).unwrap_or_default();
        if column.is_null(row) { format!("{}: NULL", field.name()) } else { format!("{}: {value}", field.name()) }
    });
    cells.collect::<Vec<_>>().join(", ").chars().take(KEPT_TEXT).collect()
}

/// The offsets of the rows that are kept (`None`: all).
fn kept_offsets(offsets: &[Offset], kept: Option<&BooleanArray>) -> Vec<Offset> {
    match kept {
        None => offsets.to_vec(),
        Some(kept) => offsets.iter().zip(kept.values()).filter(|(_, kept)| *kept).map(|(at, _)| *at).collect(),
    }
}

//! A source actor: reads the live stream of its splits, once, for all views.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::connector::{Chunk, ReadEvent, Reader, Start};
use super::hooks::{Hooks, Point};
use super::message::{Barrier, Failure, Report, SourceControl, SourceReport, SourceResume, Upstream};
use super::pace::{MAX_CHUNK_ROWS, Pace};
use super::watch;
use crate::backfill::id::{FragmentId, Offset, SourceId, SplitId};

pub struct SourceActor {
    pub source: SourceId,
    pub reader: Box<dyn Reader>,
    /// The splits that it holds, with the last offset passed.
    pub splits: BTreeMap<SplitId, Option<Offset>>,
    pub outputs: BTreeMap<FragmentId, mpsc::Sender<Upstream>>,
    pub control: mpsc::Receiver<SourceControl>,
    pub reports: mpsc::UnboundedSender<Report>,
    /// Rows a second; `Some(0)`: paused.
    pub rate_limit: watch::Receiver<Option<u32>>,
    pub hooks: Hooks,
}

/// What happened since the last barrier.
#[derive(Default)]
struct Progress {
    moved: BTreeMap<SplitId, Offset>,
    errors: Vec<(SplitId, Option<String>)>,
}

impl SourceActor {
    /// Runs until the coordinator hangs up.
    pub async fn run(mut self) -> Result<(), Failure> {
        let mut progress = Progress::default();
        let mut pace = Pace::new(self.rate_limit.clone());
        self.assign();
        loop {
            // Without a view nothing is read: a view's own backfill brings what came before it.
            let may_read = !self.outputs.is_empty() && pace.may_read();
            let max_rows = pace.max_rows(MAX_CHUNK_ROWS);
            tokio::select! {
                biased;
                control = self.control.recv() => match control {
                    None => return Ok(()),
                    Some(SourceControl::Barrier(barrier)) => {
                        if !self.end_epoch(barrier, &mut progress).await? {
                            return Ok(());
                        }
                        pace.next_epoch();
                    }
                    Some(SourceControl::Resume(_)) => {
                        return Err(Failure::Other("a resume without an aligned barrier".into()));
                    }
                },
                () = pace.wait(), if !may_read && !self.outputs.is_empty() => {}
                event = self.reader.next(max_rows), if may_read => {
                    if let ReadEvent::Chunk(chunk) = event {
                        if pace.spend(chunk.offsets.len(), chunk.bytes) {
                            let _ = self.reports.send(Report::CheckpointWanted);
                        }
                        self.forward(chunk, &mut progress).await?;
                    } else if let ReadEvent::Unreachable(split, message) = event {
                        progress.errors.push((split, Some(message)));
                    } else if let ReadEvent::Recovered(split) = event {
                        progress.errors.push((split, None));
                    }
                    // A reader with much to read never waits, and other tasks want to run too.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn assign(&mut self) {
        let starts = self
            .splits
            .iter()
            .map(|(split, passed)| (split.clone(), passed.map_or(Start::Earliest, Start::After)))
            .collect();
        self.reader.assign(&starts);
    }

    async fn forward(&mut self, chunk: Chunk, progress: &mut Progress) -> Result<(), Failure> {
        progress.moved.insert(chunk.split.clone(), chunk.position);
        self.splits.insert(chunk.split.clone(), Some(chunk.position));
        self.send(Upstream::Chunk(Arc::new(chunk))).await
    }

    async fn send(&mut self, message: Upstream) -> Result<(), Failure> {
        for output in self.outputs.values() {
            output
                .send(message.clone())
                .await
                .map_err(|_| Failure::Other("a scan actor that it feeds is gone".into()))?;
        }
        Ok(())
    }

    /// Passes the barrier on and reports; at an aligned one waits to be resumed. `false`: it won't be.
    async fn end_epoch(&mut self, barrier: Barrier, progress: &mut Progress) -> Result<bool, Failure> {
        let passed = self.splits.iter().filter_map(|(split, passed)| passed.map(|at| (split.clone(), at))).collect();
        self.send(Upstream::Barrier(barrier, Arc::new(passed))).await?;
        self.hooks.point(Point::SourceReports).await;
        let Progress { moved, errors } = std::mem::take(progress);
        let _ = self.reports.send(Report::Source(SourceReport {
            epoch: barrier.epoch,
            source: self.source,
            positions: moved.into_iter().collect(),
            errors,
        }));
        if !barrier.align {
            return Ok(true);
        }
        match self.control.recv().await {
            Some(SourceControl::Resume(resume)) => {
                self.resume(resume);
                Ok(true)
            }
            Some(SourceControl::Barrier(_)) => Err(Failure::Other("a barrier before the last one was resumed".into())),
            None => Ok(false),
        }
    }

    fn resume(&mut self, resume: SourceResume) {
        for fragment in resume.drop_outputs {
            self.outputs.remove(&fragment);
        }
        self.outputs.extend(resume.add_outputs);
        if let Some(splits) = resume.splits {
            self.splits = splits;
            self.assign();
        }
    }
}

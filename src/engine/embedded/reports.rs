//! What the actors reported since the last checkpoint, on its way into the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::connector::{BadRow, Gap, Watermarks};
use super::message::{ScanReport, SourceReport};
use super::scan::UpstreamSide;
use super::statement::Discovered;
use super::topology::{RunningSource, Topology};
use crate::backfill::id::{ActorId, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::stage::Stage;
use crate::backfill::state::BackfillStateWithProgress;
use crate::store::checkpoint::Checkpoint;
use crate::store::view_rows::Emitted;

/// Reports, gathered until they are written.
#[derive(Default)]
pub struct Gathered {
    positions: BTreeMap<(SourceId, SplitId), Offset>,
    states: BTreeMap<FragmentId, BTreeMap<SplitId, BackfillStateWithProgress>>,
    stages: Vec<(ActorId, Stage, u32)>,
    emitted: Vec<Emitted>,
    bad_rows: Vec<(FragmentId, SplitId, Option<JobId>, BadRow)>,
    scan_errors: Vec<(FragmentId, SplitId, Option<String>)>,
    source_errors: Vec<(SourceId, SplitId, Option<String>)>,
    gaps: Vec<(Reading, Gap)>,
    discovered: BTreeMap<SourceId, Result<Discovered, String>>,
    /// What is known of the live streams and was already written. Lives on from checkpoint to checkpoint.
    upstream: BTreeMap<SourceId, UpstreamKnown>,
}

/// Who read.
#[derive(Clone, Copy)]
enum Reading {
    LiveStream(SourceId),
    Backfill(FragmentId),
}

#[derive(Default)]
struct UpstreamKnown {
    passed: BTreeMap<SplitId, Offset>,
    errors: BTreeMap<SplitId, (String, i64)>,
    marks: BTreeMap<SplitId, Watermarks>,
    memories: BTreeMap<SplitId, Option<Arc<str>>>,
    discovery_error: Option<String>,
}

impl Gathered {
    /// Takes in a source actor's report.
    pub fn source(&mut self, report: SourceReport) {
        for (split, offset) in report.positions {
            self.positions.insert((report.source, split), offset);
        }
        self.source_errors.extend(report.errors.into_iter().map(|(split, error)| (report.source, split, error)));
        self.gaps.extend(report.gaps.into_iter().map(|gap| (Reading::LiveStream(report.source), gap)));
    }

    /// Takes in a scan actor's report.
    pub fn scan(&mut self, report: ScanReport) {
        self.states.entry(report.fragment).or_default().extend(report.states);
        self.stages.extend(report.stage.map(|(stage, checkpoints)| (report.actor, stage, checkpoints)));
        self.emitted.extend(report.emitted);
        self.bad_rows.extend(report.bad_rows.into_iter().map(|(split, job, row)| (report.fragment, split, job, row)));
        self.scan_errors.extend(report.errors.into_iter().map(|(split, error)| (report.fragment, split, error)));
        self.gaps.extend(report.gaps.into_iter().map(|gap| (Reading::Backfill(report.fragment), gap)));
    }

    /// Takes in what a connector found.
    pub fn discovered(&mut self, source: SourceId, splits: Discovered) {
        self.discovered.insert(source, Ok(splits));
    }

    /// Takes in why a connector found nothing.
    pub fn not_discovered(&mut self, source: SourceId, error: String) {
        self.discovered.insert(source, Err(error));
    }

    /// Makes the next checkpoint of it.
    pub fn checkpoint(&mut self, topology: &mut Topology, now: i64) -> Checkpoint {
        let mut checkpoint = Checkpoint {
            stages: std::mem::take(&mut self.stages),
            emitted: std::mem::take(&mut self.emitted),
            ..Checkpoint::default()
        };
        self.add_discovered(&mut checkpoint, topology);
        self.add_memories(&mut checkpoint, topology);
        self.add_positions(&mut checkpoint, now);
        self.add_gaps(&mut checkpoint, topology);
        let scan_errors = std::mem::take(&mut self.scan_errors);
        let bad_rows = std::mem::take(&mut self.bad_rows);
        let states = std::mem::take(&mut self.states);
        for (id, source) in &mut topology.sources {
            let known = self.upstream.entry(*id).or_default();
            for (split, passed) in &source.row.splits {
                if let Some(passed) = passed {
                    known.passed.entry(split.clone()).or_insert(*passed);
                }
            }
            let bad = bad_rows.iter().filter(|(fragment, ..)| source.scans.contains_key(fragment));
            checkpoint.bad_rows.extend(bad.map(|(_, split, job, row)| (*id, split.clone(), *job, row.clone())));
            for (fragment, split, error) in &scan_errors {
                if let Some(scan) = source.scans.get_mut(fragment) {
                    scan.set_error(split, error.clone(), now);
                }
            }
        }
        self.add_progress(&mut checkpoint, topology, now, &states);
        for (fragment, splits) in states {
            checkpoint.states.extend(splits.into_iter().map(|(split, state)| (fragment, split, state)));
        }
        checkpoint
    }

    fn add_discovered(&mut self, checkpoint: &mut Checkpoint, topology: &Topology) {
        for (source, discovered) in std::mem::take(&mut self.discovered) {
            let known = self.upstream.entry(source).or_default();
            let (splits, error) = match discovered {
                Ok(splits) => (splits, None),
                Err(error) => (Discovered::new(), Some(error)),
            };
            if known.discovery_error != error {
                checkpoint.discovery_errors.push((source, error.clone()));
                known.discovery_error = error;
            }
            let Some(running) = topology.sources.get(&source) else { continue };
            for (split, marks) in splits {
                // What it remembers comes from `add_memories`, which knows it as of this barrier.
                let Ok(marks) = marks.map(|marks| Watermarks { memory: None, ..marks }) else { continue };
                if running.row.splits.contains_key(&split) && known.marks.get(&split) != Some(&marks) {
                    known.marks.insert(split.clone(), marks.clone());
                    checkpoint.watermarks.push((source, split, marks));
                }
            }
        }
    }

    /// What the connectors know now, which is at least what the positions and states of this checkpoint rest on.
    fn add_memories(&mut self, checkpoint: &mut Checkpoint, topology: &Topology) {
        for (source, running) in &topology.sources {
            let known = &mut self.upstream.entry(*source).or_default().memories;
            for (split, memory) in running.connector.memories() {
                if running.row.splits.contains_key(&split) && known.get(&split) != Some(&memory) {
                    known.insert(split.clone(), memory.clone());
                    checkpoint.memories.push((*source, split, memory));
                }
            }
        }
    }

    fn add_positions(&mut self, checkpoint: &mut Checkpoint, now: i64) {
        for ((source, split), offset) in std::mem::take(&mut self.positions) {
            self.upstream.entry(source).or_default().passed.insert(split.clone(), offset);
            checkpoint.positions.push((source, split, offset));
        }
        for (source, split, error) in std::mem::take(&mut self.source_errors) {
            let errors = &mut self.upstream.entry(source).or_default().errors;
            match &error {
                Some(message) => {
                    let since = errors.get(&split).map_or(now, |(_, since)| *since);
                    errors.insert(split.clone(), (message.clone(), since));
                }
                None => {
                    errors.remove(&split);
                }
            }
            checkpoint.split_errors.push((source, split, error));
        }
    }

    fn add_gaps(&mut self, checkpoint: &mut Checkpoint, topology: &Topology) {
        for (reading, gap) in std::mem::take(&mut self.gaps) {
            match reading {
                Reading::LiveStream(source) => checkpoint.gaps.push((source, None, gap)),
                Reading::Backfill(fragment) => {
                    let of = topology.sources.iter().find_map(|(id, source)| Some((*id, source.scans.get(&fragment)?)));
                    checkpoint.gaps.extend(of.map(|(source, scan)| (source, Some(scan.job), gap)));
                }
            }
        }
    }

    fn add_progress(
        &self,
        checkpoint: &mut Checkpoint,
        topology: &mut Topology,
        now: i64,
        states: &BTreeMap<FragmentId, BTreeMap<SplitId, BackfillStateWithProgress>>,
    ) {
        let none = BTreeMap::new();
        let orders = waiting_for(topology);
        for (id, source) in &mut topology.sources {
            let limit = *source.rate_limit.borrow();
            let Some(known) = self.upstream.get(id) else { continue };
            for (fragment, scan) in &mut source.scans {
                let side = |split: &SplitId| UpstreamSide {
                    passed: known.passed.get(split).copied(),
                    rate_limit: limit,
                    error: known.errors.get(split).map(|(message, since)| (message.as_str(), *since)),
                };
                let changed = states.get(fragment).unwrap_or(&none);
                let order = orders.get(fragment).map(String::as_str);
                checkpoint.progress.extend(scan.progress(*fragment, now, changed, side, order));
            }
        }
    }
}

/// Fragments whose turn in a backfill_order has not come, with the sources that come first.
fn waiting_for(topology: &Topology) -> BTreeMap<FragmentId, String> {
    let mut waiting = BTreeMap::new();
    for source in topology.sources.values() {
        for (fragment, scan) in &source.scans {
            if scan.after.is_empty() || scan.permit.borrow().may_backfill {
                continue;
            }
            let before: Vec<String> = scan
                .after
                .iter()
                .filter_map(|id| topology.sources.get(id))
                .filter(|before| !is_done(before, scan.job))
                .map(|before| format!("source \"{}\"", before.row.name))
                .collect();
            waiting.insert(*fragment, before.join(" and "));
        }
    }
    waiting
}

fn is_done(source: &RunningSource, job: JobId) -> bool {
    source.scans.values().filter(|scan| scan.job == job).all(super::scan::Scan::is_done)
}

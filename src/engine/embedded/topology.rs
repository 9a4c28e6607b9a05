//! The running actors, and how they are brought in line with what the store says.
//!
//! The store is the truth. After an aligned barrier, and at a start or recovery, [`Topology::reconcile`] compares what
//! runs with what was committed and starts, stops and feeds actors accordingly. There is no other way to change them.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connector::Connector;
use super::hooks::{self, Hooks};
use super::message::{Failure, Report, ScanResume, SourceControl, SourceResume, Upstream};
use super::scan::Scan;
use super::scan_actor::{EpochWork, Permit, ScanActor};
use super::source_actor::SourceActor;
use super::view::Branch;
use super::watch;
use crate::backfill::check::Persisted;
use crate::backfill::id::{ActorId, FragmentId, JobId, SourceId, SplitId};
use crate::backfill::stage::{Stage, on_rebuild};
use crate::backfill::state::BackfillStateWithProgress;
use crate::error::Result;
use crate::incident;
use crate::store::running::{ScanRow, SourceRow};

/// Messages between a source actor and a scan actor that is slower than it.
const UPSTREAM_QUEUE: usize = 8;

/// All running actors.
pub struct Topology {
    pub sources: BTreeMap<SourceId, RunningSource>,
    tasks: JoinSet<()>,
    reports: mpsc::UnboundedSender<Report>,
    hooks: Hooks,
}

/// A source with its actors.
pub struct RunningSource {
    pub row: SourceRow,
    pub connector: Arc<dyn Connector>,
    pub rate_limit: watch::Sender<Option<u32>>,
    pub actors: BTreeMap<ActorId, mpsc::Sender<SourceControl>>,
    pub scans: BTreeMap<FragmentId, Scan>,
}

/// The compiled queries of the views: for every scan fragment, its branches.
pub type Branches = BTreeMap<(JobId, SourceId), Arc<Vec<Branch>>>;

impl Topology {
    /// Nothing runs yet. Actors report to `reports`.
    pub fn new(reports: mpsc::UnboundedSender<Report>, hooks: Hooks) -> Self {
        Self { sources: BTreeMap::new(), tasks: JoinSet::new(), reports, hooks }
    }

    /// Ends all actors at once. What they did since the last checkpoint is lost, as in a crash.
    pub async fn abort(&mut self) {
        self.sources.clear();
        self.tasks.shutdown().await;
    }

    /// Forgets tasks that have ended.
    pub fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// How many actors will report at the next barrier.
    pub fn actor_count(&self) -> usize {
        let scans = |source: &RunningSource| source.scans.values().map(|scan| scan.actors.len()).sum::<usize>();
        self.sources.values().map(|source| source.actors.len() + scans(source)).sum()
    }

    /// The controls of all source actors: where barriers start.
    pub fn source_controls(&self) -> impl Iterator<Item = &mpsc::Sender<SourceControl>> {
        self.sources.values().flat_map(|source| source.actors.values())
    }

    /// Makes what runs equal to what was committed, and resumes every actor. `connector` makes a new source's.
    ///
    /// # Errors
    /// When a new source's connector can't be made.
    pub fn reconcile(
        &mut self,
        rows: Vec<SourceRow>,
        branches: &Branches,
        connector: impl Fn(&SourceRow) -> Result<Arc<dyn Connector>>,
    ) -> Result<()> {
        let mut old = std::mem::take(&mut self.sources);
        for row in rows {
            let running = match old.remove(&row.id) {
                Some(running) => running,
                None => RunningSource {
                    connector: connector(&row)?,
                    rate_limit: watch::Sender::new(row.rate_limit),
                    actors: BTreeMap::new(),
                    scans: BTreeMap::new(),
                    row: SourceRow { assignment: BTreeMap::new(), scans: Vec::new(), ..row.clone() },
                },
            };
            let reconciled = self.reconcile_source(running, row, branches);
            self.sources.insert(reconciled.row.id, reconciled);
        }
        // What is left in `old` was dropped: its actors end when their controls are dropped with it.
        self.update_permits();
        Ok(())
    }

    fn reconcile_source(&mut self, mut running: RunningSource, row: SourceRow, branches: &Branches) -> RunningSource {
        let dropped: Vec<FragmentId> =
            running.scans.keys().filter(|id| !row.scans.iter().any(|scan| scan.fragment == **id)).copied().collect();
        for fragment in &dropped {
            running.scans.remove(fragment);
        }
        let mut outputs: BTreeMap<ActorId, Vec<(FragmentId, mpsc::Sender<Upstream>)>> = BTreeMap::new();
        for scan_row in &row.scans {
            if let Some(branches) = branches.get(&(scan_row.job, row.id)) {
                self.reconcile_scan(&mut running, &row, scan_row, branches, &mut outputs);
            }
        }
        running.actors.retain(|actor, _| row.actors.contains(actor));
        for actor in &row.actors {
            let held = row.assignment.get(actor);
            let splits =
                held.into_iter().flatten().map(|split| (split.clone(), row.splits.get(split).copied().flatten()));
            let add_outputs = outputs.remove(actor).unwrap_or_default();
            if let Some(control) = running.actors.get(actor) {
                let changed = running.row.assignment.get(actor) != held;
                let resume = SourceResume {
                    splits: changed.then(|| splits.collect()),
                    add_outputs,
                    drop_outputs: dropped.clone(),
                };
                // An actor that is gone reports it itself.
                let _ = control.try_send(SourceControl::Resume(resume));
            } else {
                let (control, controlled) = mpsc::channel(2);
                let source_actor = SourceActor {
                    source: row.id,
                    reader: running.connector.reader(),
                    splits: splits.collect(),
                    outputs: add_outputs.into_iter().collect(),
                    control: controlled,
                    reports: self.reports.clone(),
                    rate_limit: running.rate_limit.subscribe(),
                    hooks: self.hooks.clone(),
                };
                self.spawn(source_actor.run());
                running.actors.insert(*actor, control);
            }
        }
        running.row = row;
        running
    }

    fn reconcile_scan(
        &mut self,
        running: &mut RunningSource,
        row: &SourceRow,
        scan_row: &ScanRow,
        branches: &Arc<Vec<Branch>>,
        outputs: &mut BTreeMap<ActorId, Vec<(FragmentId, mpsc::Sender<Upstream>)>>,
    ) {
        let is_new = !running.scans.contains_key(&scan_row.fragment);
        let scan = running.scans.entry(scan_row.fragment).or_insert_with(|| Scan::new(scan_row));
        let mut actors = BTreeMap::new();
        for (source_actor, actor) in row.actors.iter().zip(&scan_row.actors) {
            let held = row.assignment.get(source_actor);
            if let Some(control) = scan.actors.remove(actor) {
                let changed = running.row.assignment.get(source_actor) != held;
                let row_of = |split| scan_row.states.get(split).cloned().unwrap_or(Persisted::Missing);
                let splits = held.into_iter().flatten().map(|split| (split.clone(), row_of(split)));
                let _ = control.try_send(ScanResume { splits: changed.then(|| splits.collect()) });
                actors.insert(*actor, control);
                continue;
            }
            let (feed, upstream) = mpsc::channel(UPSTREAM_QUEUE);
            let (control, controlled) = mpsc::channel(1);
            let splits = held.into_iter().flatten();
            let scan_actor = ScanActor {
                id: *actor,
                fragment: scan_row.fragment,
                job: scan_row.job,
                source: row.id,
                branches: Arc::clone(branches),
                reader: Some(running.connector.reader()),
                stage: Stage::NEW,
                checkpoints: 0,
                splits: splits.filter_map(|split| Some((split.clone(), recovered(scan_row, split)?))).collect(),
                upstream,
                control: controlled,
                reports: self.reports.clone(),
                rate_limit: scan.rate_limit.subscribe(),
                permit: scan.permit.subscribe(),
                epoch_work: EpochWork::default(),
                hooks: self.hooks.clone(),
            };
            self.spawn(scan_actor.run());
            outputs.entry(*source_actor).or_default().push((scan_row.fragment, feed));
            actors.insert(*actor, control);
        }
        scan.actors = actors;
        if !is_new {
            scan.adopt_new_splits(scan_row);
        }
    }

    /// Takes in a committed state.
    pub fn committed(&mut self, fragment: FragmentId, split: &SplitId, state: BackfillStateWithProgress) {
        if let Some(scan) = self.sources.values_mut().find_map(|source| source.scans.get_mut(&fragment)) {
            scan.committed(split, state);
        }
    }

    /// Tells every fragment what it may do, as of the last checkpoint.
    pub fn update_permits(&self) {
        let scans = || self.sources.iter().flat_map(|(id, source)| source.scans.values().map(move |scan| (*id, scan)));
        for (_, scan) in scans() {
            let waits =
                scans().any(|(id, other)| other.job == scan.job && scan.after.contains(&id) && !other.is_done());
            let permit = Permit { may_backfill: !waits, all_finished: scan.all_finished() };
            scan.permit.send_if_modified(|now| std::mem::replace(now, permit) != permit);
        }
    }

    fn spawn(&mut self, run: impl Future<Output = Result<(), Failure>> + Send + 'static) {
        let reports = self.reports.clone();
        self.tasks.spawn(async move {
            let failure = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(failure)) => failure,
                Err(panic) => {
                    let incident = incident::note("an actor", panic.as_ref());
                    Failure::Other(format!("an actor panicked: incident {incident}"))
                }
            };
            let _ = reports.send(Report::Died(failure));
        });
    }
}

/// The state that a new actor takes a split up with. `None`: the split rests, since its row can't be trusted; the row
/// is in `tidegate.invariant_violations`.
fn recovered(scan: &ScanRow, split: &SplitId) -> Option<BackfillStateWithProgress> {
    let Some(row) = scan.states.get(split) else { return hooks::state_without_row() };
    on_rebuild(row.state(), scan.forwarding)
}

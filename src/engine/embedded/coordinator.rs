//! The coordinator: one task that sends barriers, gathers what every actor reports at them, and commits.
//!
//! Life of an epoch:
//! 1. A barrier goes to every source actor and flows through it to the scan actors, behind all rows of its epoch.
//! 2. Every actor reports: positions, changed states, emitted rows. At an *aligned* barrier it then waits.
//! 3. One transaction writes all reports. At an aligned barrier it then applies the waiting statements, each checked
//!    against exactly what was just written.
//! 4. At an aligned barrier the actors are brought in line with the store and resumed.
//!
//! Only barriers with statements are aligned; at all others actors read on while the store writes.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::FutureExt as _;
use metrics::{counter, histogram};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::Config;
use super::asked::{Asked, Waiting};
use super::claim::Claim;
use super::hooks::{Hooks, Point};
use super::message::{Barrier, Failure, Report, SourceControl};
use super::reports::Gathered;
use super::request::{RateChange, Request};
use super::statement::{self, Answer, Discovered, Moment, Statement};
use super::topology::{Branches, Topology};
use super::trouble::{self, Trouble};
use super::watch;
use super::{build_connector, compile_views, rescale};
use crate::backfill::id::{Epoch, RescaleId, SourceId};
use crate::clock;
use crate::error::{Error, Result};
use crate::failpoint::{self, FailPoint};
use crate::incident;
use crate::observe;
use crate::store::check_input::Surroundings;
use crate::store::running::SourceRow;
use crate::store::{Durability, Store, checkpoint, data_version, relations, running, violations};

/// Recoveries in a row, without a checkpoint between them, after which the coordinator takes longer and longer breaks.
const QUICK_RECOVERIES: u32 = 3;

/// What a checkpoint's transaction leads to.
struct Committed {
    answers: Vec<Option<Result<Answer>>>,
    /// All sources as committed, after an aligned barrier.
    rows: Option<Vec<SourceRow>>,
    ready: Vec<RescaleId>,
}

/// Runs the embedded engine.
pub struct Coordinator {
    store: Store,
    config: Config,
    epoch: Epoch,
    topology: Topology,
    reports: mpsc::UnboundedReceiver<Report>,
    requests: mpsc::Receiver<Request>,
    /// Who waits for the next barrier.
    waiting: Asked,
    /// Who waits for the present one.
    asked: Asked,
    /// The last committed epoch, for those who wait for a checkpoint.
    committed: watch::Sender<Epoch>,
    discoveries: JoinSet<(SourceId, Result<Discovered>)>,
    /// The sources that are being asked.
    discovering: BTreeSet<SourceId>,
    gathered: Gathered,
    /// The compiled queries of all views.
    branches: Branches,
    /// Whether an actor can go on only after a checkpoint.
    checkpoint_wanted: bool,
    /// SQLite's data_version when it was last looked at.
    seen_version: Arc<AtomicI64>,
    recoveries: u32,
    /// Why the last checkpoint or recovery could not be written; `None` after one that was.
    trouble: watch::Sender<Option<Trouble>>,
    ending: bool,
    hooks: Hooks,
}

impl Coordinator {
    /// A coordinator for a store, with no actors yet: [`Self::run`] builds them.
    pub fn new(
        store: Store,
        config: Config,
        requests: mpsc::Receiver<Request>,
        committed: watch::Sender<Epoch>,
        trouble: watch::Sender<Option<Trouble>>,
        hooks: Hooks,
    ) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        Self {
            store,
            config,
            epoch: Epoch(0),
            topology: Topology::new(sender, hooks.clone()),
            reports,
            requests,
            waiting: Asked::default(),
            asked: Asked::default(),
            committed,
            discoveries: JoinSet::new(),
            discovering: BTreeSet::new(),
            gathered: Gathered::default(),
            branches: Branches::new(),
            checkpoint_wanted: false,
            seen_version: Arc::default(),
            recoveries: 0,
            trouble,
            ending: false,
            hooks,
        }
    }

    /// Runs until it is asked to shut down, or everyone who could ask is gone. A panic costs no more than the death of
    /// an actor: the engine goes on from the last checkpoint.
    pub async fn run(mut self) {
        let mut reason = "the engine starts".to_owned();
        while let Err(panic) = AssertUnwindSafe(self.live(&reason)).catch_unwind().await {
            let incident = incident::note("the coordinator", panic.as_ref());
            reason = format!("the coordinator panicked: incident {incident}");
            self.asked.fail(|| Error::Panic { incident: incident.clone() });
        }
    }

    async fn live(&mut self, reason: &str) {
        self.recover_until_it_works(reason).await;
        if self.ending {
            return self.topology.abort().await;
        }
        let mut next_tick = clock::now();
        loop {
            tokio::select! {
                biased;
                Some(report) = self.reports.recv() => match report {
                    Report::CheckpointWanted => self.checkpoint_wanted = self.hooks.barriers_by_itself(),
                    Report::Died(failure) => self.on_failure(failure).await,
                    // Late reports of a barrier that was given up.
                    Report::Source(_) | Report::Scan(_) => {}
                },
                request = self.requests.recv() => match request {
                    None => return self.end().await,
                    Some(Request::Shutdown(done)) => {
                        self.end().await;
                        let _ = done.send(());
                        return;
                    }
                    Some(request) => self.on_request(request).await,
                },
                Some(Ok((source, discovered))) = self.discoveries.join_next() => self.on_discovery(source, discovered),
                () = clock::sleep_until(next_tick) => {
                    next_tick = clock::now() + self.config.barrier_interval;
                    self.tick().await;
                }
            }
            if self.ending {
                return self.end().await;
            }
            if self.checkpoint_wanted || self.waiting.is_urgent() {
                self.checkpoint().await;
                next_tick = clock::now() + self.config.barrier_interval;
            }
        }
    }

    async fn tick(&mut self) {
        for waiting in &mut self.waiting.statements {
            waiting.next_tick = false;
        }
        if self.hooks.barriers_by_itself() {
            self.checkpoint().await;
        }
        self.discover();
        self.topology.reap();
    }

    /// Asks every connector for its splits, each in a task of its own: one that hangs holds up nobody.
    fn discover(&mut self) {
        for (id, source) in &self.topology.sources {
            if !self.discovering.insert(*id) {
                continue;
            }
            let (id, connector) = (*id, Arc::clone(&source.connector));
            self.discoveries.spawn(async move {
                let discovered = incident::caught("a search for splits", connector.discover()).await;
                (id, discovered.flatten())
            });
        }
    }

    fn on_discovery(&mut self, source: SourceId, discovered: Result<Discovered>) {
        self.discovering.remove(&source);
        let Some(running) = self.topology.sources.get(&source) else { return };
        match discovered {
            Ok(splits) => {
                let known = &running.row.splits;
                let new: Discovered = splits
                    .iter()
                    .filter(|(split, _)| !known.contains_key(*split))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                self.gathered.discovered(source, splits);
                let pending =
                    |waiting: &Waiting| matches!(&waiting.statement, Statement::NewSplits(id, _) if *id == source);
                if !new.is_empty() && !self.waiting.statements.iter().any(pending) {
                    info!(source = %running.row.name, splits = new.len(), "found new splits");
                    self.wait_for_barrier(Statement::NewSplits(source, new));
                }
            }
            Err(error) => {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                self.gathered.not_discovered(source, detail);
            }
        }
    }

    fn wait_for_barrier(&mut self, statement: Statement) {
        failpoint::arm();
        let waiting = Waiting { statement, claim: Arc::default(), reply: None, next_tick: false };
        self.waiting.statements.push(waiting);
    }

    async fn on_request(&mut self, request: Request) {
        match request {
            Request::Statement { statement, claim, reply } => {
                failpoint::arm();
                self.hooks.requested(&self.store, &self.moment(self.epoch), &statement);
                self.waiting.statements.push(Waiting { statement, claim, reply: Some(reply), next_tick: false });
            }
            Request::Flush(reply) => self.waiting.flushes.push(reply),
            Request::Recover(reply) => {
                let _ = reply.send(self.recover("RECOVER was run").await);
            }
            Request::RateLimit(change, reply) => {
                let _ = reply.send(self.change_rate(change).await);
            }
            Request::Shutdown(_) => {}
        }
    }

    async fn change_rate(&mut self, change: RateChange) -> Result<()> {
        let written = change.clone();
        self.store.write(Durability::Full, move |tx| written.write(tx)).await?;
        change.apply(&self.topology);
        Ok(())
    }

    /// One barrier and its checkpoint.
    async fn checkpoint(&mut self) {
        self.checkpoint_wanted = false;
        // All that wait, in their order, also those for whose sake no barrier would have been made yet.
        self.asked = std::mem::take(&mut self.waiting);
        let barrier = Barrier { epoch: Epoch(self.epoch.0 + 1), align: !self.asked.statements.is_empty() };
        self.epoch = barrier.epoch;
        let started = clock::now();
        match self.gather(barrier).await {
            Ok(()) => self.commit(barrier, started).await,
            Err(failure) => {
                let detail = "An actor failed at the statement's barrier.";
                self.asked.fail(|| Error::Recovering { detail: detail.into() });
                self.on_failure(failure).await;
            }
        }
    }

    /// Sends the barrier and waits for every actor's report.
    async fn gather(&mut self, barrier: Barrier) -> Result<(), Failure> {
        for control in self.topology.source_controls() {
            control
                .try_send(SourceControl::Barrier(barrier))
                .map_err(|_| Failure::Other("a source actor takes no barrier".into()))?;
            failpoint::pass(FailPoint::BarrierSentToOne);
        }
        failpoint::pass(FailPoint::BarrierSent);
        self.hooks.point(Point::BarrierSent).await;
        let mut missing = self.topology.actor_count();
        while missing > 0 {
            match self.reports.recv().await {
                None => return Err(Failure::Other("the actors are gone".into())),
                Some(Report::CheckpointWanted) => {}
                Some(Report::Died(failure)) => return Err(failure),
                Some(Report::Source(report)) if report.epoch == barrier.epoch => {
                    missing -= 1;
                    self.gathered.source(report);
                }
                Some(Report::Scan(report)) if report.epoch == barrier.epoch => {
                    missing -= 1;
                    self.gathered.scan(report);
                }
                Some(Report::Source(_) | Report::Scan(_)) => {}
            }
            failpoint::pass(FailPoint::OneReport);
        }
        Ok(())
    }

    async fn commit(&mut self, barrier: Barrier, started: Instant) {
        failpoint::pass(FailPoint::AllReports);
        self.hooks.point(Point::BeforeCommit).await;
        let moment = self.moment(barrier.epoch);
        let now = moment.now;
        let checkpoint = self.gathered.checkpoint(&mut self.topology, now);
        let states = checkpoint.states.clone();
        let rows = checkpoint.emitted.iter().map(|emitted| emitted.offsets.len() as u64).sum();
        let statements = self.asked.statements.iter();
        let statements: Vec<(Statement, Arc<Claim>)> =
            statements.map(|waiting| (waiting.statement.clone(), Arc::clone(&waiting.claim))).collect();
        let seen_version = Arc::clone(&self.seen_version);
        let acknowledged = barrier.align || !self.asked.flushes.is_empty();
        let durability = if acknowledged { Durability::Full } else { Durability::Checkpoint };
        let written = self
            .store
            .write(durability, move |tx| {
                let early = moment.hooks.before_states(tx)?;
                checkpoint::write(tx, moment.epoch, now, &checkpoint)?;
                failpoint::pass(FailPoint::CheckpointWritten);
                let version = data_version(tx)?;
                if seen_version.swap(version, Ordering::Relaxed) != version {
                    // Somebody else has written to the file: a person with the sqlite3 shell.
                    violations::record(tx, now)?;
                }
                let answers = statements
                    .iter()
                    .map(|(statement, claim)| claim.take().then(|| statement::apply(tx, &moment, statement)))
                    .collect();
                let rows = barrier.align.then(|| running::sources(tx)).transpose()?;
                let rows = rows.map(|rows| moment.hooks.read_back(rows, early));
                let ready = rescale::ready(tx, &moment)?;
                Ok(Committed { answers, rows, ready })
            })
            .await;
        match written {
            Ok(committed) => {
                failpoint::pass(FailPoint::CommitKnown);
                self.hooks.point(Point::AfterCommit).await;
                self.recoveries = 0;
                self.trouble.send_if_modified(|trouble| trouble.take().is_some());
                histogram!(observe::CHECKPOINT_SECONDS).record(started.elapsed().as_secs_f64());
                counter!(observe::ROWS).increment(rows);
                for (fragment, split, state) in &states {
                    self.topology.committed(*fragment, split, *state);
                }
                self.topology.update_permits();
                self.after_commit(barrier, committed).await;
                self.committed.send_replace(barrier.epoch);
                for flush in self.asked.flushes.drain(..) {
                    let _ = flush.send(Ok(barrier.epoch));
                }
            }
            Err(failed) => {
                error!(error = %failed, detail = failed.detail(), "a checkpoint could not be written");
                let trouble = Trouble::from(&failed);
                self.asked.fail(|| trouble.to_error());
                self.trouble.send_replace(Some(trouble));
                self.recover_until_it_works("a checkpoint could not be written").await;
            }
        }
    }

    /// Brings the actors in line with what was committed, then answers.
    async fn after_commit(&mut self, barrier: Barrier, committed: Committed) {
        if let Some(rows) = committed.rows
            && let Err(error) = self.reconcile(rows)
        {
            error!(%error, detail = error.detail(), "the actors could not be changed after a commit");
            self.recover_until_it_works("its actors could not be changed").await;
        }
        failpoint::pass(FailPoint::ActorsChanged);
        self.hooks.point(Point::BeforeAnswers).await;
        for (mut waiting, answer) in self.asked.statements.drain(..).zip(committed.answers) {
            match answer {
                // Withdrawn before it was applied.
                None => {}
                Some(Ok(Answer::NotYet)) => {
                    waiting.claim.release();
                    waiting.next_tick = true;
                    self.waiting.statements.push(waiting);
                }
                Some(answer) => waiting.answer(answer),
            }
        }
        for id in committed.ready {
            let queued = |waiting: &Waiting| matches!(waiting.statement, Statement::Deferred(other) if other == id);
            if !self.waiting.statements.iter().any(queued) {
                self.wait_for_barrier(Statement::Deferred(id));
            }
        }
        debug!(epoch = %barrier.epoch, "checkpoint");
    }

    fn reconcile(&mut self, rows: Vec<SourceRow>) -> Result<()> {
        compile_views(&rows, &mut self.branches);
        let hooks = &self.hooks;
        self.topology.reconcile(rows, &self.branches, |row| build_connector(row, hooks))
    }

    fn moment(&self, epoch: Epoch) -> Moment {
        let now = clock::now_micros();
        let surroundings = Surroundings {
            available: self.config.available_parallelism,
            barrier_interval: i64::try_from(self.config.barrier_interval.as_micros()).unwrap_or(i64::MAX),
            now,
            asking: None,
        };
        Moment { epoch, now, surroundings, hooks: self.hooks.clone() }
    }

    async fn on_failure(&mut self, failure: Failure) {
        let (event, reason) = match &failure {
            Failure::Violation { fragment, split, state } => {
                let message = crate::error::Refusal::unexpected_state(state);
                let (fragment, split, json) = (*fragment, split.clone(), state.to_json());
                let (now, text) = (clock::now_micros(), message.clone());
                let recorded = self
                    .store
                    .write(Durability::Full, move |tx| {
                        violations::record_one(tx, now, fragment, split.as_str(), &text, &json)
                    })
                    .await;
                if let Err(error) = recorded {
                    error!(%error, "an invariant violation could not be recorded");
                }
                ("INVARIANT_VIOLATION", message)
            }
            Failure::Other(reason) => ("ACTOR_FAILED", reason.clone()),
        };
        warn!(event, reason, "an actor failed; recovering from the last checkpoint");
        self.recover_until_it_works(&reason).await;
    }

    /// Builds all actors anew from the last checkpoint, until that succeeds.
    async fn recover_until_it_works(&mut self, reason: &str) {
        while !self.ending {
            self.recoveries += 1;
            if self.recoveries > QUICK_RECOVERIES {
                // Whatever it is, it doesn't go away by itself at once; requests are still answered in between.
                self.pause(reason).await;
            }
            match self.recover(reason).await {
                Ok(()) => return,
                Err(error) => {
                    error!(%error, detail = error.detail(), "recovery failed; trying again");
                    self.trouble.send_replace(Some(Trouble::from(&error)));
                }
            }
        }
    }

    async fn pause(&mut self, reason: &str) {
        let seconds = 1 << (self.recoveries - QUICK_RECOVERIES).min(5);
        let end = clock::now() + std::time::Duration::from_secs(seconds);
        loop {
            tokio::select! {
                biased;
                () = clock::sleep_until(end) => return,
                request = self.requests.recv() => match request {
                    None => {
                        self.ending = true;
                        return;
                    }
                    Some(request) => {
                        self.ending |= matches!(request, Request::Shutdown(_));
                        request.refuse(trouble::not_now(self.trouble.borrow().as_ref(), reason, seconds));
                        if self.ending {
                            return;
                        }
                    }
                },
            }
        }
    }

    async fn recover(&mut self, reason: &str) -> Result<()> {
        self.topology.abort().await;
        self.gathered = Gathered::default();
        let (sender, reports) = mpsc::unbounded_channel();
        self.topology = Topology::new(sender, self.hooks.clone());
        self.reports = reports;
        let (now, why) = (clock::now_micros(), reason.to_owned());
        let hooks = self.hooks.clone();
        let (epoch, rows) = self
            .store
            .write(Durability::Full, move |tx| {
                hooks.before_recovery(tx)?;
                checkpoint::reset_actors(tx)?;
                violations::record(tx, now)?;
                relations::log_event(tx, now, "RECOVERY", &json!({"reason": why}))?;
                Ok((running::epoch(tx)?, hooks.read_back(running::sources(tx)?, None)))
            })
            .await?;
        counter!(observe::RECOVERIES).increment(1);
        info!(%epoch, sources = rows.len(), reason, "building actors from the last checkpoint");
        self.epoch = epoch;
        self.reconcile(rows)
    }

    /// A last checkpoint, and every statement that still waits is told.
    async fn end(&mut self) {
        self.ending = true;
        for waiting in self.waiting.statements.drain(..) {
            waiting.answer(Err(Error::ShuttingDown));
        }
        self.checkpoint().await;
        self.topology.abort().await;
    }
}

//! Where tests reach into the engine. Without the feature `hooks` all of it is empty and compiles to nothing.
//!
//! A test makes [`Hooks`], sets what it wants and starts the engine with `Embedded::start_with(store, config, hooks)`;
//! a clone of the hooks changes the engine while it runs.
//!
//! - *A connector of its own*: `hooks.connect("s", connector)` before `create_source` with `connector: "test"`. It is
//!   used for the source of that name whatever its options say, also after a restart with the same hooks.
//! - *Another gate*: `hooks.set_gate(Gate::Unseen)` commits as RisingWave does. `hooks.read_states_early(true)` gives
//!   moved splits to their new actors with the states from before the barrier.
//! - *A lost row*: `hooks.lose_row("mv", "3")` deletes it from the state table at the next recovery or start.
//! - *Barriers on demand*: `hooks.barriers_on_demand(true)`; only `Engine::flush` and statements make one then, and the
//!   engine's own statements (new splits, a deferred rescale whose time has come). Ticks only look for new splits.
//! - *Scheduler points*: `hooks.at_points(...)` is awaited wherever the engine says `hooks.point(...)`.

#[cfg(not(feature = "hooks"))]
pub use none::{Hooks, state_without_row};
#[cfg(feature = "hooks")]
pub use real::{Gate, Hooks, state_without_row};

/// Where the engine stands still for a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// Every source actor has been sent a barrier.
    BarrierSent,
    /// A source actor is about to report an epoch, after the barrier has been passed on.
    SourceReports,
    /// A scan actor is about to report an epoch.
    ScanReports,
    /// All have reported; nothing is written yet.
    BeforeCommit,
    /// The checkpoint is written; no actor has been resumed and nobody answered.
    AfterCommit,
    /// The actors have been resumed; nobody is answered yet.
    BeforeAnswers,
}

#[cfg(feature = "hooks")]
mod real {
    use std::collections::{BTreeMap, BTreeSet};
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use rusqlite::{Connection, params};

    use super::Point;
    use crate::backfill::check::Persisted;
    use crate::backfill::stage::on_first_barrier;
    use crate::backfill::state::BackfillStateWithProgress;
    use crate::engine::embedded::connector::Connector;
    use crate::engine::embedded::statement::{Moment, Statement};
    use crate::error::Result;
    use crate::store::running::SourceRow;
    use crate::store::{Context, Store};

    /// How a rescale is decided.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Gate {
        /// As the product does.
        #[default]
        On,
        /// Committed unseen, and a state row that is missing is nothing special: RisingWave's way.
        Unseen,
        /// Checked when it is asked for. One that passed then is committed at its barrier without another look.
        AtRequest,
    }

    /// A future of a scheduler point.
    pub type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// What a test has set. Clones share it.
    #[derive(Clone, Default)]
    pub struct Hooks(Arc<Mutex<Settings>>);

    #[derive(Default)]
    struct Settings {
        connectors: BTreeMap<String, Arc<dyn Connector>>,
        gate: Gate,
        read_states_early: bool,
        lost: Vec<(String, String)>,
        on_demand: bool,
        points: Option<Arc<dyn Fn(Point) -> Pause + Send + Sync>>,
        /// Sources whose waiting rescale has passed the check at its request.
        passed: BTreeSet<String>,
    }

    impl Hooks {
        fn settings(&self) -> MutexGuard<'_, Settings> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Reads the source of this name through `connector`.
        pub fn connect(&self, source: &str, connector: Arc<dyn Connector>) {
            self.settings().connectors.insert(source.to_owned(), connector);
        }

        /// Decides rescales in another way.
        pub fn set_gate(&self, gate: Gate) {
            self.settings().gate = gate;
        }

        /// Applies rescales to the actors as if the barrier's states were not written yet.
        pub fn read_states_early(&self, early: bool) {
            self.settings().read_states_early = early;
        }

        /// Loses a view's state row of a split at the next recovery or start.
        pub fn lose_row(&self, view: &str, split: &str) {
            self.settings().lost.push((view.to_owned(), split.to_owned()));
        }

        /// Makes no barrier that nobody has asked for.
        pub fn barriers_on_demand(&self, on_demand: bool) {
            self.settings().on_demand = on_demand;
        }

        /// Awaits what `pause` returns at every point.
        pub fn at_points(&self, pause: impl Fn(Point) -> Pause + Send + Sync + 'static) {
            self.settings().points = Some(Arc::new(pause));
        }

        pub(in crate::engine::embedded) fn connector(&self, source: &str) -> Option<Arc<dyn Connector>> {
            self.settings().connectors.get(source).cloned()
        }

        pub(in crate::engine::embedded) async fn point(&self, point: Point) {
            let pause = self.settings().points.clone();
            if let Some(pause) = pause {
                pause(point).await;
            }
        }

        pub(in crate::engine::embedded) fn barriers_by_itself(&self) -> bool {
            !self.settings().on_demand
        }

        /// A statement has come in.
        pub(in crate::engine::embedded) fn requested(&self, store: &Store, moment: &Moment, statement: &Statement) {
            let Statement::Rescale(request) = statement else { return };
            if self.settings().gate != Gate::AtRequest {
                return;
            }
            let passes = store
                .snapshot()
                .and_then(|snapshot| snapshot.with(|now| super::super::rescale::passes(now, moment, request)));
            if passes.is_ok_and(|passes| passes) {
                self.settings().passed.insert(request.source.clone());
            }
        }

        /// Whether a rescale is committed whatever the check says.
        pub(in crate::engine::embedded) fn commits_unchecked(&self, source: &str) -> bool {
            let mut settings = self.settings();
            match settings.gate {
                Gate::On => false,
                Gate::Unseen => true,
                Gate::AtRequest => settings.passed.remove(source),
            }
        }

        /// Before a barrier's states are written: what an early reader would see.
        pub(in crate::engine::embedded) fn before_states(&self, tx: &Connection) -> Result<Option<Vec<SourceRow>>> {
            let early = self.settings().read_states_early;
            early.then(|| crate::store::running::sources(tx)).transpose()
        }

        /// What is built from committed rows, with what a test wants to see go wrong.
        pub(in crate::engine::embedded) fn read_back(
            &self,
            mut rows: Vec<SourceRow>,
            early: Option<Vec<SourceRow>>,
        ) -> Vec<SourceRow> {
            let mut before = BTreeMap::new();
            for scan in early.into_iter().flatten().flat_map(|row| row.scans) {
                before.extend(scan.states.into_iter().map(|(split, state)| ((scan.fragment, split), state)));
            }
            let unseen = self.settings().gate == Gate::Unseen;
            for scan in rows.iter_mut().flat_map(|row| &mut row.scans) {
                for (split, state) in &mut scan.states {
                    if let Some(before) = before.remove(&(scan.fragment, split.clone())) {
                        *state = before;
                    }
                }
                if unseen {
                    scan.states.retain(|_, state| !matches!(state, Persisted::Missing));
                }
            }
            rows
        }

        /// Before a recovery reads the state table.
        pub(in crate::engine::embedded) fn before_recovery(&self, tx: &Connection) -> Result<()> {
            for (view, split) in std::mem::take(&mut self.settings().lost) {
                tx.execute(
                    "DELETE FROM backfill_states WHERE split_id = ?2 AND fragment_id IN
                       (SELECT f.id FROM fragments f JOIN relations r ON r.id = f.job_id WHERE r.name = ?1)",
                    params![view, split],
                )
                .context("losing a state row")?;
            }
            Ok(())
        }
    }

    /// The state of a split that a new actor holds and the state table doesn't know: RisingWave's rule.
    pub fn state_without_row() -> Option<BackfillStateWithProgress> {
        Some(on_first_barrier(None))
    }
}

#[cfg(not(feature = "hooks"))]
mod none {
    use std::sync::Arc;

    use rusqlite::Connection;

    use super::Point;
    use crate::backfill::state::BackfillStateWithProgress;
    use crate::engine::embedded::connector::Connector;
    use crate::engine::embedded::statement::{Moment, Statement};
    use crate::error::Result;
    use crate::store::Store;
    use crate::store::running::SourceRow;

    /// Nothing.
    #[derive(Clone, Default)]
    pub struct Hooks;

    impl Hooks {
        #[inline]
        pub fn connector(&self, _: &str) -> Option<Arc<dyn Connector>> {
            None
        }

        #[inline]
        pub fn point(&self, _: Point) -> std::future::Ready<()> {
            std::future::ready(())
        }

        #[inline]
        pub fn barriers_by_itself(&self) -> bool {
            true
        }

        #[inline]
        pub fn requested(&self, _: &Store, _: &Moment, _: &Statement) {}

        #[inline]
        pub fn commits_unchecked(&self, _: &str) -> bool {
            false
        }

        #[inline]
        pub fn before_states(&self, _: &Connection) -> Result<Option<Vec<SourceRow>>> {
            Ok(None)
        }

        #[inline]
        pub fn read_back(&self, rows: Vec<SourceRow>, _: Option<Vec<SourceRow>>) -> Vec<SourceRow> {
            rows
        }

        #[inline]
        pub fn before_recovery(&self, _: &Connection) -> Result<()> {
            Ok(())
        }
    }

    /// Every split has a row or a note that it is missing, so this is never asked.
    #[inline]
    pub fn state_without_row() -> Option<BackfillStateWithProgress> {
        None
    }
}

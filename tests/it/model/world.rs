//! A source, its views, their actors and the state file, between rows: barriers, statements, recovery.
//!
//! A barrier has the engine's steps, in its order, and a crash may come between any two of them:
//! [`World::collect`] (all actors have reported), [`World::commit`] (one transaction: states, then statements),
//! [`World::reconcile`] (the actors are brought in line). [`World::crash`] rebuilds from what was committed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate::backfill::assignment::{Assignment, reassign};
use tidegate::backfill::check::{Decision, Input, Job, JobActor, Persisted, Policy, check};
use tidegate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, RescaleId, SourceId, SplitId};
use tidegate::backfill::stage::{SplitChange, Stage, on_first_barrier, on_rebuild, on_split_change};
use tidegate::backfill::target::Target;

use super::cell::{Cell, Damage, Row};

/// What a model does otherwise than the product, to see the damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Switches {
    /// How a rescale is decided.
    pub gate: Gate,
    /// Actors get moved splits with the states from before the barrier.
    pub early: bool,
    /// A recovery may lose a state row.
    pub recovery_loses: bool,
    /// The state table may lose a row while all runs.
    pub table_loses: bool,
}

/// How a rescale is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gate {
    /// In the barrier's transaction, as the product does.
    #[default]
    On,
    /// Not at all, and a row that is missing is nothing special: RisingWave's rules.
    Off,
    /// When it is asked for, and not again at the barrier.
    AtRequest,
}

/// An ALTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alter {
    pub policy: Policy,
    pub to: u8,
    pub deferred: bool,
}

/// A deferred rescale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    pub alter: Alter,
    /// Whether its check has passed at a barrier, so that it is tried at the next.
    pub queued: bool,
}

/// What a barrier's transaction applies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    Alter(Alter),
    NewSplit,
    /// With the first rows of its splits.
    CreateView(Vec<Row>),
}

/// What became of an ALTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Committed,
    Deferred,
    Refused,
    Unchanged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Actor {
    pub stage: Stage,
    pub checkpoints: u8,
}

impl Actor {
    const NEW: Self = Self { stage: Stage::NEW, checkpoints: 0 };
}

/// Where a barrier is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No barrier is on its way.
    #[default]
    Running,
    /// All actors have reported and wait.
    Collected,
    /// The transaction is committed; the actors don't know yet.
    Committed,
}

/// A view with its fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// The state table, by split.
    pub rows: Vec<Option<Row>>,
    /// The same before the barrier that is being committed.
    pub rows_before: Vec<Option<Row>>,
    /// Rows that have come out, as committed, by split.
    pub emitted: Vec<u8>,
    /// Whether all actors have gone forwarding once.
    pub forwarded: bool,
    /// The running actors, by place.
    pub actors: Vec<Actor>,
    /// The splits at their actors. `None`: it rests.
    pub cells: Vec<Option<Cell>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    pub phase: Phase,
    /// Every split's source actor, by place, as committed.
    pub owners: Vec<u8>,
    /// How many source actors there are, as committed.
    pub actors: u8,
    /// Where the committed actors come from: their place before, or nowhere.
    pub came_from: Vec<Option<u8>>,
    /// The running owners, until they are brought in line.
    pub owners_before: Vec<u8>,
    /// The live stream's position, as committed.
    pub passed: Vec<Option<Offset>>,
    /// The live stream's position now.
    pub source: Vec<Option<Offset>>,
    pub views: Vec<View>,
    pub pending: Option<Pending>,
    /// The ALTER whose check has passed before its barrier.
    pub passed_check: Option<Alter>,
    pub damage: Option<Damage>,
    /// A row was lost, so that its split rests or starts again.
    pub lost: bool,
}

impl World {
    /// A source with so many actors, whose splits the live stream has passed so far, and no view.
    pub fn new(actors: u8, passed: Vec<Option<Offset>>) -> Self {
        let all: BTreeSet<SplitId> = (0..passed.len()).map(split_id).collect();
        let empty: Assignment = (0..actors).map(|slot| (source_actor(slot), BTreeSet::new())).collect();
        let assignment = reassign(&empty, &all).unwrap_or(empty);
        let mut world = Self { actors, source: passed.clone(), passed, ..Self::default() };
        world.take_over(&assignment);
        world.owners_before = world.owners.clone();
        world.came_from = (0..actors).map(Some).collect();
        world
    }

    /// Takes a committed assignment over: actors are numbered by their place from then on.
    fn take_over(&mut self, assignment: &Assignment) {
        let mut owners = vec![0; self.passed.len()];
        for (slot, splits) in assignment.values().enumerate() {
            for split in splits {
                owners[split.as_str().parse::<usize>().unwrap()] = u8::try_from(slot).unwrap();
            }
        }
        self.owners = owners;
        self.actors = u8::try_from(assignment.len()).unwrap();
    }

    pub fn assignment(&self) -> Assignment {
        let mut assignment: Assignment = (0..self.actors).map(|slot| (source_actor(slot), BTreeSet::new())).collect();
        for (split, owner) in self.owners.iter().enumerate() {
            assignment.get_mut(&source_actor(*owner)).unwrap().insert(split_id(split));
        }
        assignment
    }

    /// Whether the actor that holds it can read history.
    pub fn can_read(&self, view: usize, cell: &Cell) -> bool {
        self.views[view].actors[usize::from(cell.holder)].stage.can_backfill()
    }

    /// Of each view, whether every row of its state table is Finished: what the actors know until the next commit.
    pub fn finished_views(&self, switches: Switches) -> Vec<bool> {
        let finished = |row: &Option<Row>| row.map_or(switches.gate == Gate::Off, |row| row.is_finished());
        self.views.iter().map(|view| view.rows.iter().all(finished)).collect()
    }

    /// Every actor has taken all live rows, gets the barrier and moves its stage on.
    pub fn collect(&mut self, switches: Switches) {
        self.collect_knowing(&self.finished_views(switches));
    }

    /// The same, where the actors know of each view whether all is Finished.
    pub fn collect_knowing(&mut self, finished: &[bool]) {
        self.phase = Phase::Collected;
        for (view, &all_finished) in self.views.iter_mut().zip(finished) {
            for (cell, passed) in view.cells.iter_mut().zip(&self.source) {
                if let Some(cell) = cell {
                    cell.barrier(*passed);
                }
            }
            for (slot, actor) in view.actors.iter_mut().enumerate() {
                let own = view.cells.iter().flatten().filter(|cell| usize::from(cell.holder) == slot);
                actor.checkpoints = (actor.checkpoints + 1).min(2);
                actor.stage =
                    actor.stage.at_checkpoint(own.map(|cell| &cell.state), all_finished, u32::from(actor.checkpoints));
            }
        }
    }

    /// The barrier's transaction: what all have reported, and then the statement.
    pub fn commit(&mut self, statement: Option<&Statement>, switches: Switches) -> Option<Answer> {
        self.write();
        let queued = self.pending.filter(|pending| pending.queued);
        let mut answer = statement.map(|statement| self.apply(statement, switches));
        if let Some(pending) = queued {
            answer = Some(self.alter(pending.alter, true, switches)).filter(|answer| *answer == Answer::Committed);
        }
        if let Some(pending) = self.pending {
            let passes = self.ask(pending.alter, false).decision == Decision::Pass;
            self.pending = Some(Pending { queued: passes, ..pending });
        }
        self.passed_check = None;
        self.phase = Phase::Committed;
        answer
    }

    /// Writes what all have reported.
    pub fn write(&mut self) {
        self.passed.clone_from(&self.source);
        for view in &mut self.views {
            view.rows_before.clone_from(&view.rows);
            for (split, cell) in view.cells.iter_mut().enumerate() {
                let Some(cell) = cell else { continue };
                if std::mem::take(&mut cell.changed) {
                    view.rows[split] = Some(cell.state);
                }
                view.emitted[split] = cell.emitted;
            }
            view.forwarded |= view.actors.iter().all(|actor| actor.stage == Stage::Forwarding);
        }
    }

    pub fn apply(&mut self, statement: &Statement, switches: Switches) -> Answer {
        match statement {
            Statement::Alter(alter) => self.alter(*alter, false, switches),
            Statement::NewSplit => {
                self.new_split();
                Answer::Committed
            }
            Statement::CreateView(rows) => {
                self.create_view(rows);
                Answer::Committed
            }
        }
    }

    fn alter(&mut self, alter: Alter, is_pending: bool, switches: Switches) -> Answer {
        let verdict = self.ask(alter, !is_pending);
        if verdict.is_noop {
            if is_pending {
                self.pending = None;
            }
            return Answer::Unchanged;
        }
        let unseen = match switches.gate {
            Gate::On => false,
            Gate::Off => true,
            Gate::AtRequest => self.passed_check == Some(alter),
        };
        match verdict.decision {
            Decision::Pass => {}
            _ if unseen => {}
            Decision::Wait | Decision::Unknown if alter.deferred && self.pending.is_none() => {
                self.pending = Some(Pending { alter, queued: false });
                return Answer::Deferred;
            }
            Decision::Wait | Decision::Unknown | Decision::Fail => return Answer::Refused,
        }
        if is_pending {
            self.pending = None;
        }
        self.take_plan(&verdict.plan);
        Answer::Committed
    }

    fn take_plan(&mut self, plan: &Assignment) {
        let place = |actor: &ActorId| u8::try_from(actor.0 - 1).ok().filter(|slot| *slot < self.actors);
        let came_from: Vec<Option<u8>> = plan.keys().map(place).collect();
        self.came_from =
            came_from.iter().map(|place| place.and_then(|place| self.came_from[usize::from(place)])).collect();
        self.take_over(plan);
    }

    /// A split that appears at run time: every view has a row for it from its first moment.
    fn new_split(&mut self) {
        let assignment = self.assignment();
        let all = (0..=self.owners.len()).map(split_id).collect();
        self.passed.push(None);
        self.source.push(None);
        for view in &mut self.views {
            view.rows.push(Some(Row::finished()));
            view.emitted.push(0);
            view.cells.push(None);
        }
        self.take_over(&reassign(&assignment, &all).unwrap_or(assignment));
    }

    fn create_view(&mut self, rows: &[Row]) {
        self.views.push(View {
            rows: rows.iter().copied().map(Some).collect(),
            emitted: vec![0; rows.len()],
            cells: vec![None; rows.len()],
            ..View::default()
        });
    }

    /// Brings the actors in line with what is committed.
    pub fn reconcile(&mut self, switches: Switches) {
        self.phase = Phase::Running;
        let held = |owners: &[u8], slot: usize| -> BTreeSet<usize> {
            (0..owners.len()).filter(|split| usize::from(owners[*split]) == slot).collect()
        };
        for view in &mut self.views {
            let is_new = view.actors.is_empty();
            let mut actors = Vec::new();
            let mut cells = vec![None; self.owners.len()];
            for (slot, came_from) in self.came_from.iter().enumerate() {
                let splits = held(&self.owners, slot);
                let place = u8::try_from(slot).unwrap();
                let Some(from) = came_from.map(usize::from).filter(|_| !is_new) else {
                    for split in splits {
                        let row = view.row(split, switches);
                        cells[split] = rebuilt(row, view.forwarded, switches)
                            .map(|row| Cell::new(place, row, self.passed[split], view.emitted[split]));
                    }
                    actors.push(Actor::NEW);
                    continue;
                };
                let actor = view.actors[from];
                let changed = held(&self.owners_before, from) != splits;
                for split in splits {
                    let here = view.cells[split].filter(|cell| usize::from(cell.holder) == from);
                    let row = view.row(split, switches);
                    cells[split] = match on_split_change(actor.stage, here.map(|cell| cell.state), row) {
                        _ if !changed => here.map(|cell| Cell { holder: place, ..cell }),
                        Ok(SplitChange::Keep) => here.map(|cell| Cell { holder: place, ..cell }),
                        Ok(SplitChange::NewPartition) => Some(Cell {
                            changed: true,
                            ..Cell::new(place, Row::finished(), self.passed[split], view.emitted[split])
                        }),
                        Ok(SplitChange::Resume(row) | SplitChange::Stuck(row)) => {
                            Some(Cell::new(place, row, self.passed[split], view.emitted[split]))
                        }
                        Err(unexpected) => {
                            self.damage = Some(Damage::Unexpected(unexpected.0));
                            None
                        }
                    };
                }
                actors.push(actor);
            }
            (view.actors, view.cells) = (actors, cells);
            view.rows_before.clear();
        }
        self.came_from = (0..self.actors).map(Some).collect();
        self.owners_before.clone_from(&self.owners);
    }

    /// A row of the state table is gone.
    pub fn lose(&mut self, view: usize, split: usize) {
        self.views[view].rows[split] = None;
        self.lost = true;
    }

    /// Everything that isn't committed is gone, and perhaps a row of the state table with it.
    pub fn crash(&mut self, lost: Option<(usize, usize)>, switches: Switches) {
        self.phase = Phase::Running;
        if let Some((view, split)) = lost {
            self.lose(view, split);
        }
        self.source.clone_from(&self.passed);
        for view in &mut self.views {
            view.actors = vec![Actor::NEW; usize::from(self.actors)];
            view.rows_before.clear();
            view.cells = (0..self.owners.len())
                .map(|split| {
                    rebuilt(view.rows[split], view.forwarded, switches)
                        .map(|row| Cell::new(self.owners[split], row, self.passed[split], view.emitted[split]))
                })
                .collect();
        }
        self.came_from = (0..self.actors).map(Some).collect();
        self.owners_before.clone_from(&self.owners);
        self.pending = self.pending.map(|pending| Pending { queued: false, ..pending });
        self.passed_check = None;
    }

    /// Whether the check passes as things were committed last.
    pub fn passes(&self, alter: Alter) -> bool {
        self.ask(alter, true).decision == Decision::Pass
    }

    /// Asks the check. What it looks at is often the same, so answers are kept.
    fn ask(&self, alter: Alter, asks: bool) -> Verdict {
        let view = |view: &View| (view.rows.clone(), view.actors.clone(), view.forwarded);
        let from = (self.owners.clone(), self.actors, self.came_from.clone());
        let in_flight = asks && self.pending.is_some();
        let key = (from, self.views.iter().map(view).collect(), in_flight, alter.policy, alter.to);
        ANSWERS.with_borrow_mut(|answers| {
            let verdict = answers.entry(key).or_insert_with(|| {
                let report = check(&self.input(alter.to, asks), alter.policy);
                Verdict { decision: report.decision(), is_noop: report.is_noop(), plan: report.plan.new }
            });
            verdict.clone()
        })
    }

    /// What the check looks at. `asks`: it isn't the pending rescale itself that asks.
    pub fn input(&self, to: u8, asks: bool) -> Input {
        let job = |(at, view): (usize, &View)| {
            let from = |slot: usize| self.came_from[slot].map(usize::from).and_then(|slot| view.actors.get(slot));
            let job = i32::try_from(at).unwrap();
            Job {
                id: JobId(job),
                name: format!("mv{at}"),
                fragment_id: FragmentId(10 + job),
                created_at_micros: 0,
                forwarding: view.forwarded,
                actors: (0..usize::from(self.actors))
                    .map(|slot| {
                        let actor = from(slot).copied().unwrap_or(Actor::NEW);
                        let stage = if view.forwarded { Stage::Forwarding } else { actor.stage };
                        JobActor {
                            id: ActorId(100 * (job + 1) + 1 + i32::try_from(slot).unwrap()),
                            stage: Some(stage),
                            checkpoints: u32::from(actor.checkpoints),
                        }
                    })
                    .collect(),
                states: view
                    .rows
                    .iter()
                    .enumerate()
                    .map(|(split, row)| (split_id(split), row.map_or(Persisted::Missing, Persisted::State)))
                    .collect(),
                start_offsets: BTreeMap::new(),
                closing_per_second: BTreeMap::new(),
            }
        };
        Input {
            source_id: SourceId(1),
            source_name: "s".into(),
            is_shared: true,
            assignment: self.assignment(),
            seen_splits: BTreeMap::new(),
            jobs: self.views.iter().enumerate().map(job).collect(),
            rescale_in_flight: self.pending.filter(|_| asks).map(|_| RescaleId(1)),
            target: Target::parse(&to.to_string()).unwrap(),
            available: 4,
            next_actor_id: ActorId(1000),
            epoch: Epoch(1),
            now_micros: 1,
            checkpoint_at_micros: 1,
            barrier_interval_micros: 1,
            engine_reachable: Ok(()),
        }
    }
}

/// What the check says.
#[derive(Clone)]
struct Verdict {
    decision: Decision,
    is_noop: bool,
    plan: Assignment,
}

/// All that a question to the check is made of.
type Question = ((Vec<u8>, u8, Vec<Option<u8>>), Vec<(Vec<Option<Row>>, Vec<Actor>, bool)>, bool, Policy, u8);

thread_local! {
    static ANSWERS: RefCell<HashMap<Question, Verdict>> = RefCell::default();
}

impl View {
    /// The row that an actor is given.
    fn row(&self, split: usize, switches: Switches) -> Option<Row> {
        if switches.early { self.rows_before.get(split).copied().unwrap_or(self.rows[split]) } else { self.rows[split] }
    }
}

/// What an actor that is built anew starts from.
fn rebuilt(row: Option<Row>, forwarded: bool, switches: Switches) -> Option<Row> {
    match (switches.gate, row) {
        (Gate::Off, None) => Some(on_first_barrier(None)),
        (Gate::Off | Gate::On | Gate::AtRequest, row) => on_rebuild(row, forwarded),
    }
}

pub fn split_id(split: usize) -> SplitId {
    SplitId::from(split.to_string())
}

fn source_actor(slot: u8) -> ActorId {
    ActorId(1 + i32::from(slot))
}

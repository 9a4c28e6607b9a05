//! The model without any reduction: a step is a row, a barrier's phase, a statement or a crash.
//!
//! It is small, and searched breadth-first, so the schedules that it finds are the shortest. What it finds with a switch
//! turned is what `docs/why.md` tells and `replay` does to the running engine.

use stateright::{Checker as _, Model, Property};
use tidegate::backfill::check::Policy;

use super::cell::{self, Cell, Damage, Log, Row, after, offset};
use super::world::{Alter, Gate, Phase, Statement, Switches, World};

/// One step of a schedule. Splits, views and actors are numbered from 0, and offsets are those of the split.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The source's actor reads a split's next entry. If the model is eager the views take it at once.
    Source { split: usize, offset: i64 },
    /// A view's actor takes it.
    Live { view: usize, split: usize, offset: i64 },
    /// A backfill reader brings so many entries, the last of which is at this offset.
    Reader { view: usize, split: usize, entries: usize, offset: i64 },
    /// An ALTER is asked for, and its check passes (only where the check is made then).
    Ask(Alter),
    /// A barrier has reached every actor, behind all rows.
    Barrier,
    /// Its transaction is committed, with a statement.
    Commit(Option<Statement>),
    /// The actors are brought in line.
    Apply,
    /// Everything since the last commit is gone, and perhaps a view's row for a split.
    Crash { lost: Option<(usize, usize)> },
    /// A view's row for a split is lost from the state table.
    Lose { view: usize, split: usize },
    /// CANCEL RESCALE.
    Cancel,
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Unexpected,
    Hang,
    Loss,
    Any,
}

/// A configuration.
#[derive(Clone, Debug)]
pub struct Exact {
    pub switches: Switches,
    /// Every split's entries.
    pub logs: Vec<Log>,
    /// How many of them were there before the source, whose live stream starts behind them.
    pub history: usize,
    /// The first rows are those of a connector that answered just before, or any that could be.
    pub any_first_row: bool,
    pub actors: Vec<u8>,
    pub views: usize,
    pub targets: Vec<u8>,
    pub policies: Vec<Policy>,
    pub deferred: bool,
    pub crashes: bool,
    pub eager: bool,
    pub harm: Harm,
}

impl Exact {
    fn starts(&self, actors: u8) -> Vec<World> {
        let passed: Vec<_> = self.logs.iter().map(|_| self.history.checked_sub(1).map(offset)).collect();
        let mut rows: Vec<Vec<Row>> = vec![Vec::new()];
        for (log, passed) in self.logs.iter().zip(&passed) {
            let mut first = cell::first_rows(log, *passed);
            if !self.any_first_row {
                first.drain(..first.len() - 1);
            }
            rows =
                rows.into_iter().flat_map(|rows| first.iter().map(move |row| [&rows[..], &[*row]].concat())).collect();
        }
        let mut worlds = vec![World::new(actors, passed)];
        for _ in 0..self.views {
            worlds = worlds
                .into_iter()
                .flat_map(|world| {
                    rows.iter().map(move |rows| {
                        let mut world = world.clone();
                        world.apply(&Statement::CreateView(rows.clone()), Switches::default());
                        world
                    })
                })
                .collect();
        }
        for world in &mut worlds {
            world.reconcile(self.switches);
        }
        worlds
    }

    /// The world after a step, row counts and all. Public so that a schedule can be told and replayed.
    pub fn step(&self, world: &World, step: &Step) -> World {
        let mut world = world.clone();
        match step {
            Step::Source { split, .. } => {
                world.source[*split] = Some(offset(after(world.source[*split])));
                if self.eager {
                    for view in 0..world.views.len() {
                        self.live(&mut world, view, *split);
                    }
                }
            }
            Step::Live { view, split, .. } => self.live(&mut world, *view, *split),
            Step::Reader { view, split, entries, .. } => {
                let cell = world.views[*view].cells[*split].as_mut().unwrap();
                let result = cell.chunk(&self.logs[*split], *entries);
                world.damage = world.damage.or(result.err());
            }
            Step::Ask(alter) => world.passed_check = Some(*alter),
            Step::Barrier => {
                for view in 0..world.views.len() {
                    for split in 0..self.logs.len() {
                        while world.views[view].cells[split].is_some_and(|cell| cell.up < world.source[split]) {
                            self.live(&mut world, view, split);
                        }
                    }
                }
                world.collect(self.switches);
            }
            Step::Commit(statement) => {
                world.commit(statement.as_ref(), self.switches);
            }
            Step::Apply => world.reconcile(self.switches),
            Step::Crash { lost } => world.crash(*lost, self.switches),
            Step::Lose { view, split } => world.lose(*view, *split),
            Step::Cancel => world.pending = None,
        }
        let cells = world.views.iter().flat_map(|view| view.cells.iter().zip(&self.logs));
        let judged = cells.flat_map(|(cell, log)| cell.map(|cell| cell.judge(log)));
        world.damage = world.damage.or(judged.filter_map(Result::err).next());
        world
    }

    fn live(&self, world: &mut World, view: usize, split: usize) {
        if let Some(cell) = world.views[view].cells[split].as_mut() {
            let result = cell.live(&self.logs[split]);
            world.damage = world.damage.or(result.err());
        }
    }

    /// Whether the world never comes to rest, although everything is delivered and nothing happens any more.
    pub fn hangs(&self, world: &World) -> bool {
        let mut world = world.clone();
        for _ in 0..4 {
            for split in 0..self.logs.len() {
                while after(world.source[split]) < self.logs[split].len() {
                    world = self.step(&world, &Step::Source { split, offset: 0 });
                }
                for view in 0..world.views.len() {
                    while world.views[view].cells[split]
                        .is_some_and(|cell| world.can_read(view, &cell) && cell.readable(&self.logs[split]) > 0)
                    {
                        world = self.step(&world, &Step::Reader { view, split, entries: 1, offset: 0 });
                    }
                }
            }
            for step in [Step::Barrier, Step::Commit(None), Step::Apply] {
                world = self.step(&world, &step);
            }
        }
        let done = |cell: &Option<Cell>| cell.is_some_and(|cell| cell.state.is_finished());
        world.damage.is_none() && !world.views.iter().all(|view| view.cells.iter().all(done))
    }

    fn is_harmed(&self, world: &World) -> bool {
        let hangs = || world.phase == Phase::Running && self.hangs(world);
        match (self.harm, world.damage) {
            (Harm::Unexpected, damage) => matches!(damage, Some(Damage::Unexpected(_))),
            (Harm::Loss, damage) => matches!(damage, Some(Damage::Loss(_))),
            (Harm::Hang, None) => hangs(),
            (Harm::Hang, Some(_)) => false,
            (Harm::Any, damage) => damage.is_some() || hangs(),
        }
    }

    fn statements(&self, world: &World) -> Vec<Option<Statement>> {
        let mut statements = vec![None];
        for &to in &self.targets {
            for &policy in &self.policies {
                for deferred in if self.deferred { &[false, true][..] } else { &[false] } {
                    let alter = Alter { policy, to, deferred: *deferred };
                    // Where the check is made beforehand, only one that has passed it is of interest.
                    if self.switches.gate != Gate::AtRequest || world.passed_check == Some(alter) {
                        statements.push(Some(Statement::Alter(alter)));
                    }
                }
            }
        }
        statements
    }

    fn reads(&self, world: &World, steps: &mut Vec<Step>) {
        for (split, log) in self.logs.iter().enumerate() {
            let next = after(world.source[split]);
            if next < log.len() {
                steps.push(Step::Source { split, offset: offset(next).0 });
            }
            for (view, cells) in world.views.iter().map(|view| &view.cells).enumerate() {
                let Some(cell) = cells[split] else { continue };
                if cell.up < world.source[split] {
                    steps.push(Step::Live { view, split, offset: offset(after(cell.up)).0 });
                }
                let most = if world.can_read(view, &cell) { cell.readable(log) } else { 0 };
                let from = after(cell.state.state.offset());
                steps.extend((1..=most).map(|entries| Step::Reader {
                    view,
                    split,
                    entries,
                    offset: offset(from + entries - 1).0,
                }));
            }
        }
    }

    /// The shortest schedule to the harm, and how many states were looked at.
    pub fn shortest(self) -> (Option<Vec<Step>>, usize) {
        let checker = self.checker().threads(1).spawn_bfs().join();
        (checker.discovery("no harm").map(|path| path.into_actions()), checker.unique_state_count())
    }
}

impl Model for Exact {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        self.actors.iter().flat_map(|actors| self.starts(*actors)).collect()
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.damage.is_some() {
            return;
        }
        match world.phase {
            Phase::Running => {
                self.reads(world, steps);
                steps.push(Step::Barrier);
                if self.switches.gate == Gate::AtRequest && world.passed_check.is_none() {
                    for &to in &self.targets {
                        for &policy in &self.policies {
                            let alter = Alter { policy, to, deferred: false };
                            if usize::from(to) != usize::from(world.actors) && world.passes(alter) {
                                steps.push(Step::Ask(alter));
                            }
                        }
                    }
                }
                if world.pending.is_some() {
                    steps.push(Step::Cancel);
                }
            }
            Phase::Collected => steps.extend(self.statements(world).into_iter().map(Step::Commit)),
            Phase::Committed => steps.push(Step::Apply),
        }
        if self.crashes {
            steps.push(Step::Crash { lost: None });
        }
        for (view, split) in
            (0..world.views.len()).flat_map(|view| (0..self.logs.len()).map(move |split| (view, split)))
        {
            if self.switches.recovery_loses && !world.lost {
                steps.push(Step::Crash { lost: Some((view, split)) });
            }
            if self.switches.table_loses && !world.lost && world.phase == Phase::Running {
                steps.push(Step::Lose { view, split });
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = self.step(world, &step);
        for view in &mut next.views {
            view.rows.iter_mut().chain(&mut view.rows_before).for_each(|row| *row = row.map(cell::forget));
            view.cells.iter_mut().for_each(|cell| *cell = cell.map(Cell::forget));
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("no harm", |model, world| !model.is_harmed(world))]
    }
}

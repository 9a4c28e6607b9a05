//! The whole: splits, actors, views, barriers, statements and crashes, with splits as [`super::image`] shows them.

use std::sync::Arc;

use stateright::{Checker as _, Model, Property};
use tidegate::backfill::check::Policy;
use tidegate::backfill::stage::Stage;

use super::cell::Row;
use super::image::{Image, Kind, Kinds};
use super::world::{Alter, Statement, Switches, World};

/// How many barriers it takes at most, once everything is delivered, until all is at rest.
const BARRIERS_TO_REST: usize = 6;

#[derive(Clone)]
pub struct Whole {
    pub image: Arc<Image>,
    pub splits: usize,
    pub actors: u8,
    pub views: usize,
    /// The policies of the ALTERs.
    pub policies: Vec<Policy>,
    pub switches: Switches,
}

/// A world on its way to the next barrier: so many splits have got there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub world: World,
    /// These stand in the state table already, to which nobody looks before the barrier is committed.
    pub arrived: u8,
    /// What the table said of each view before the first of them did.
    pub finished: Vec<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The next split's rows up to the barrier.
    Rows(Kinds),
    /// The barrier, its transaction, and the actors brought in line with it; or, in between, a crash.
    Barrier {
        statement: Option<Statement>,
        crash: bool,
    },
    Crash,
    Cancel,
}

impl Whole {
    fn kinds(world: &World, split: usize) -> Kinds {
        let kind = |view: usize| {
            let cell = world.views.get(view).and_then(|view| view.cells[split]);
            cell.map(|cell| Kind::of(&cell.state))
        };
        [kind(0), kind(1)]
    }

    fn next_kinds(&self, world: &World, split: usize) -> impl Iterator<Item = Kinds> + '_ {
        let reads = |view: usize| {
            let cell = world.views.get(view).and_then(|view| view.cells[split]);
            cell.is_some_and(|cell| world.can_read(view, &cell))
        };
        self.image.next.get(&(Self::kinds(world, split), [reads(0), reads(1)])).into_iter().flatten().copied()
    }

    /// All first rows of a new view.
    fn first_rows(&self, world: &World) -> Vec<Vec<Row>> {
        let mut all: Vec<Vec<Row>> = vec![Vec::new()];
        for split in 0..world.owners.len() {
            let beside = world.views.first().map_or_else(
                || [Kind::Backfilling, Kind::Finished].into(),
                |view| self.image.first[&view.rows[split].as_ref().map(Kind::of)].clone(),
            );
            all = all
                .into_iter()
                .flat_map(|rows| beside.iter().map(move |kind| [&rows[..], &[kind.row()]].concat()))
                .collect();
        }
        all
    }

    fn statements(&self, world: &World) -> Vec<Option<Statement>> {
        let mut statements = vec![None];
        for to in (1..=self.actors).filter(|to| *to != world.actors) {
            for &policy in &self.policies {
                for deferred in [false, true] {
                    statements.push(Some(Statement::Alter(Alter { policy, to, deferred })));
                }
            }
        }
        if world.owners.len() < self.splits {
            statements.push(Some(Statement::NewSplit));
        }
        if world.views.len() < self.views {
            statements.extend(self.first_rows(world).into_iter().map(|rows| Some(Statement::CreateView(rows))));
        }
        statements
    }

    /// Everything is delivered, and then there are only barriers: does all come to rest, with the rescale committed?
    fn comes_to_rest(&self, state: &State) -> bool {
        let mut world = state.world.clone();
        if world.damage.is_some() {
            return false;
        }
        if state.arrived > 0 {
            return true;
        }
        let owners = world.owners.clone();
        let had_pending = world.pending;
        for _ in 0..BARRIERS_TO_REST {
            for view in 0..world.views.len() {
                for split in 0..world.owners.len() {
                    let Some(cell) = world.views[view].cells[split] else { return false };
                    if cell.wants_reader() && !world.can_read(view, &cell) {
                        return false;
                    }
                    let changed = !cell.state.is_finished();
                    let cell = world.views[view].cells[split].as_mut().unwrap();
                    (cell.state, cell.changed) = (Kind::Finished.row(), changed);
                }
            }
            world.collect(self.switches);
            world.commit(None, self.switches);
            world.reconcile(self.switches);
        }
        let forwards = |view: &super::world::View| view.actors.iter().all(|actor| actor.stage == Stage::Forwarding);
        let as_asked = match had_pending {
            Some(pending) => world.actors == pending.alter.to,
            None => world.owners == owners,
        };
        world.pending.is_none() && as_asked && world.views.iter().all(forwards)
    }

    /// What runs is what is committed.
    fn runs_as_committed(state: &State) -> bool {
        let world = &state.world;
        world.views.iter().all(|view| {
            view.actors.len() == usize::from(world.actors)
                && view.cells.iter().zip(&world.owners).all(|(cell, owner)| cell.is_some_and(|c| c.holder == *owner))
        })
    }

    pub fn run(self, threads: usize) -> impl stateright::Checker<Self> {
        self.checker().threads(threads).spawn_bfs().join()
    }
}

/// The views are interchangeable: which comes first has no meaning to any rule.
pub fn in_order(mut state: State) -> State {
    let key = |view: &super::world::View| {
        let kinds = |row: &Option<Row>| row.as_ref().map(Kind::of);
        let rows: Vec<_> = view.rows.iter().map(kinds).collect();
        let cells: Vec<_> = view.cells.iter().map(|cell| cell.map(|cell| Kind::of(&cell.state))).collect();
        let actors: Vec<_> =
            view.actors.iter().map(|a| (a.stage == Stage::Forwarding, a.stage.can_backfill(), a.checkpoints)).collect();
        (rows, cells, actors, view.forwarded)
    };
    state.world.views.sort_by_key(key);
    state
}

impl Model for Whole {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut states = Vec::new();
        for actors in 1..=self.actors {
            for splits in 1..=self.splits {
                let world = World::new(actors, vec![None; splits]);
                for rows in self.first_rows(&world) {
                    let mut world = world.clone();
                    world.apply(&Statement::CreateView(rows), self.switches);
                    world.reconcile(self.switches);
                    states.push(State { world, arrived: 0, finished: Vec::new() });
                }
            }
        }
        states
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let world = &state.world;
        if world.damage.is_some() {
            return;
        }
        if state.arrived == 0 {
            actions.push(Action::Crash);
            if world.pending.is_some() {
                actions.push(Action::Cancel);
            }
        }
        if usize::from(state.arrived) == world.owners.len() {
            for statement in self.statements(world) {
                actions.push(Action::Barrier { statement: statement.clone(), crash: true });
                actions.push(Action::Barrier { statement, crash: false });
            }
        } else {
            actions.extend(self.next_kinds(world, usize::from(state.arrived)).map(Action::Rows));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Rows(kinds) => {
                let split = usize::from(next.arrived);
                if split == 0 {
                    next.finished = next.world.finished_views(self.switches);
                }
                for (view, kind) in next.world.views.iter_mut().zip(kinds) {
                    let row = kind?.row();
                    view.cells[split].as_mut()?.state = row;
                    view.rows[split] = Some(row);
                }
                next.arrived += 1;
                return Some(next);
            }
            Action::Barrier { statement, crash } => {
                next.world.collect_knowing(&std::mem::take(&mut next.finished));
                next.world.commit(statement.as_ref(), self.switches);
                if crash {
                    next.world.crash(None, self.switches);
                } else {
                    next.world.reconcile(self.switches);
                }
                next.arrived = 0;
            }
            Action::Crash => next.world.crash(None, self.switches),
            Action::Cancel => next.world.pending = None,
        }
        let next = in_order(next);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no unexpected state", |_, state: &State| state.world.damage.is_none()),
            Property::always("comes to rest", Self::comes_to_rest),
            Property::always("runs as committed", |_, state: &State| Self::runs_as_committed(state)),
            Property::sometimes("commits a rescale", |_, state: &State| {
                // Only so does an actor come to others that have seen their barriers.
                let new = |view: &super::world::View| view.actors.iter().any(|actor| actor.checkpoints == 0);
                let old = |view: &super::world::View| view.actors.iter().any(|actor| actor.checkpoints == 2);
                state.world.views.iter().any(|view| new(view) && old(view))
            }),
            Property::sometimes("defers one", |_, state: &State| {
                state.world.pending.is_some_and(|pending| pending.queued)
            }),
        ]
    }
}

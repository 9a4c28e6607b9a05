//! A small model of a source, one view on it, barriers, checkpoints, crashes and split changes. It has no rule of its
//! own: every decision is one of the product's functions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::backfill::assignment::{Assignment, plan, reassign};
use crate::backfill::check::{Decision, Input, Job, JobActor, Persisted, Policy, SplitSeen, check};
use crate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::stage::{SplitChange, Stage, on_first_barrier, on_split_change};
use crate::backfill::state::{BackfillState, BackfillStateWithProgress};
use crate::backfill::target::Target;
use crate::backfill::transition::{
    Emit, Event, on_contact, on_reader_position, on_reader_row, on_upstream_position, on_upstream_row, transition,
};

/// One step of a schedule. Numbers pick an actor or split, modulo how many there are.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A source actor reads some entries of one of its splits.
    Source(u8, u8, u8),
    /// A backfill actor takes some messages of the live stream.
    Upstream(u8, u8),
    /// A backfill reader reads some entries of one of its splits; the last number's lowest bit: and tells its position.
    Reader(u8, u8, u8),
    /// The broker is asked for a split's last offset, or its answer arrives.
    Contact(u8, u8),
    /// A split grows by rows and markers, as the bits say.
    Append(u8, u8),
    NewSplit,
    Barrier,
    /// Everything since the last checkpoint is gone.
    Crash,
    /// A rescale to 1 to 4 actors is asked for.
    Rescale(u8),
    /// The rate limit of the source, or of a reader, becomes 0, or is lifted.
    Pause(bool, bool),
    /// The next checkpoint doesn't hold a split's state row.
    LoseRow(u8),
}

/// What has gone wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// `Unexpected backfill state`.
    Violation,
    /// A split never ends.
    Hang,
    /// Rows were not emitted, or not in their order.
    Loss,
    /// A row was emitted twice.
    Duplicate,
}

/// Which of the careful functions are left out, for the table alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Careless {
    pub upstream: bool,
    pub contact: bool,
    pub position: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    offset: Offset,
    is_row: bool,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Row(usize, Offset),
    Position(usize, Offset),
    Barrier,
}

#[derive(Clone, Copy, Debug)]
enum Contact {
    NotAsked,
    Asked(Option<Offset>),
    Done,
}

/// A split at a backfill actor.
#[derive(Clone, Debug)]
struct Held {
    state: BackfillStateWithProgress,
    contact: Contact,
    read: Option<Offset>,
    last_row: Option<Offset>,
}

impl Held {
    fn new(state: BackfillStateWithProgress) -> Self {
        let fresh = state.state == BackfillState::Backfilling(None);
        let contact = if fresh { Contact::NotAsked } else { Contact::Done };
        Self { state, contact, read: state.state.offset(), last_row: None }
    }
}

#[derive(Clone, Debug)]
struct Actor {
    id: ActorId,
    stage: Stage,
    checkpoints: u32,
    queue: VecDeque<Message>,
    splits: BTreeMap<SplitId, Held>,
    at_barrier: bool,
}

impl Actor {
    fn new(id: ActorId) -> Self {
        Self {
            id,
            stage: Stage::NEW,
            checkpoints: 0,
            queue: VecDeque::new(),
            splits: BTreeMap::new(),
            at_barrier: false,
        }
    }
}

/// What one transaction writes.
#[derive(Clone, Debug, Default)]
struct Committed {
    assignment: Assignment,
    positions: BTreeMap<SplitId, Offset>,
    states: BTreeMap<SplitId, BackfillStateWithProgress>,
    had_state: BTreeSet<SplitId>,
    emitted: BTreeMap<SplitId, usize>,
}

pub struct World {
    pub damage: Option<Damage>,
    pub committed_rescales: usize,
    /// `None`: rescales are committed unseen.
    policy: Option<Policy>,
    careless: Careless,
    names: Vec<SplitId>,
    log: Vec<Vec<Entry>>,
    seen: BTreeMap<SplitId, SplitSeen>,
    clock: i64,
    next_actor_id: ActorId,
    job_forwarding: bool,
    positions: BTreeMap<SplitId, Offset>,
    emitted: BTreeMap<SplitId, usize>,
    actors: Vec<Actor>,
    committed: Committed,
    barrier: bool,
    rescale: Option<u32>,
    lose: BTreeSet<SplitId>,
    source_paused: bool,
    reader_paused: bool,
}

const JOB_CREATED_AT: i64 = 1000;

impl World {
    /// A source of so many actors whose splits hold `rows` each, the first `passed` of which went by before the view
    /// was made.
    pub fn new(actors: u32, splits: &[(u8, u8)], policy: Option<Policy>, careless: Careless) -> Self {
        let mut world = Self {
            damage: None,
            committed_rescales: 0,
            policy,
            careless,
            names: Vec::new(),
            log: Vec::new(),
            seen: BTreeMap::new(),
            clock: 1,
            next_actor_id: ActorId(1),
            job_forwarding: false,
            positions: BTreeMap::new(),
            emitted: BTreeMap::new(),
            actors: Vec::new(),
            committed: Committed::default(),
            barrier: false,
            rescale: None,
            lose: BTreeSet::new(),
            source_paused: false,
            reader_paused: false,
        };
        for (rows, passed) in splits {
            world.new_split(false);
            let split = world.log.len() - 1;
            world.append(split, *rows);
            if let Some(entry) = usize::from(*passed).checked_sub(1).and_then(|at| world.log[split].get(at)) {
                world.positions.insert(world.names[split].clone(), entry.offset);
            }
        }
        let sources = (0..actors).map(|_| (world.take_id(), BTreeSet::new())).collect();
        let names = world.names.iter().cloned().collect();
        world.committed.assignment = reassign(&sources, &names).unwrap_or(sources);
        world.committed.positions = world.positions.clone();
        world.clock = JOB_CREATED_AT + 1;
        world.actors = (0..actors).map(|_| Actor::new(world.take_id())).collect();
        world.rebuild();
        world
    }

    fn take_id(&mut self) -> ActorId {
        let id = self.next_actor_id;
        self.next_actor_id = ActorId(id.0 + 1);
        id
    }

    pub fn step(&mut self, step: Step) {
        if self.damage.is_some() {
            return;
        }
        self.clock += 1;
        match step {
            Step::Source(actor, split, n) if !self.source_paused => self.source(usize::from(actor), split, n),
            Step::Upstream(actor, n) => {
                let actor = usize::from(actor) % self.actors.len();
                (0..n).for_each(|_| self.upstream(actor));
            }
            Step::Reader(actor, split, n) if !self.reader_paused => self.reader(actor, split, n >> 1, n & 1 == 1),
            Step::Source(..) | Step::Reader(..) => {}
            Step::Contact(actor, split) => self.contact(actor, split),
            Step::Append(split, bits) => self.append(usize::from(split) % self.log.len(), bits),
            Step::NewSplit if self.names.len() < 6 => self.new_split(true),
            Step::NewSplit => {}
            Step::Barrier => self.inject_barrier(),
            Step::Crash => self.crash(),
            Step::Rescale(to) => self.rescale = Some(1 + u32::from(to % 4)),
            Step::Pause(source, paused) if source => self.source_paused = paused,
            Step::Pause(_, paused) => self.reader_paused = paused,
            Step::LoseRow(split) => {
                self.lose.insert(self.names[usize::from(split) % self.names.len()].clone());
            }
        }
        self.complete_barrier();
    }

    /// Lets everything go on until nothing is left to do, then judges the whole.
    pub fn settle(&mut self) {
        (self.source_paused, self.reader_paused) = (false, false);
        let splits = u8::try_from(self.names.len()).unwrap();
        for _ in 0..12 {
            for actor in 0..u8::try_from(self.actors.len()).unwrap() {
                for split in 0..splits {
                    self.step(Step::Source(actor, split, 255));
                    self.step(Step::Contact(actor, split));
                    self.step(Step::Contact(actor, split));
                    self.step(Step::Reader(actor, split, 255));
                }
                self.step(Step::Upstream(actor, 255));
            }
            self.step(Step::Barrier);
            for actor in 0..u8::try_from(self.actors.len()).unwrap() {
                self.step(Step::Upstream(actor, 255));
            }
        }
        if self.damage.is_none() {
            let finished = self.actors.iter().flat_map(|actor| actor.splits.values()).all(|h| h.state.is_finished());
            let complete = (0..self.log.len())
                .all(|split| self.emitted.get(&self.names[split]).copied().unwrap_or(0) == self.rows(split).count());
            self.damage = match (finished, complete) {
                (true, true) => None,
                (true, false) => Some(Damage::Loss),
                (false, _) => Some(Damage::Hang),
            };
        }
    }

    /// Whether the settled world is in the forwarding stage, with no rescale left.
    pub fn is_at_rest(&self) -> bool {
        self.rescale.is_none() && self.actors.iter().all(|actor| actor.stage == Stage::Forwarding)
    }

    fn rows(&self, split: usize) -> impl Iterator<Item = Offset> {
        self.log[split].iter().filter(|entry| entry.is_row).map(|entry| entry.offset)
    }

    fn new_split(&mut self, found_at_run_time: bool) {
        let name = SplitId::from(self.names.len().to_string());
        self.seen.insert(name.clone(), SplitSeen { found_at_run_time, first_seen_at_micros: self.clock });
        self.names.push(name);
        self.log.push(Vec::new());
    }

    /// Adds entries: the low three bits say how many, the others which of them are rows and where the gaps are.
    fn append(&mut self, split: usize, bits: u8) {
        for nth in 0..bits & 7 {
            let last = self.log[split].last().map_or(-1, |entry| entry.offset.0);
            let gap = i64::from(bits >> 6 & 1) * i64::from(nth & 1);
            let is_row = bits >> 3 >> (nth & 3) & 1 == 0;
            self.log[split].push(Entry { offset: Offset(last + 1 + gap), is_row });
        }
    }

    fn source(&mut self, actor: usize, split: u8, n: u8) {
        if self.barrier {
            return;
        }
        let actor = actor % self.actors.len();
        let Some(splits) = self.committed.assignment.values().nth(actor).filter(|splits| !splits.is_empty()) else {
            return;
        };
        let split = splits.iter().nth(usize::from(split) % splits.len()).unwrap().clone();
        let index = self.names.iter().position(|name| *name == split).unwrap();
        for _ in 0..n {
            let position = self.positions.get(&split).copied();
            let Some(entry) = self.log[index].iter().find(|entry| Some(entry.offset) > position) else { return };
            self.positions.insert(split.clone(), entry.offset);
            if entry.is_row {
                self.actors[actor].queue.push_back(Message::Row(index, entry.offset));
            }
        }
    }

    fn emit(&mut self, split: usize, offset: Offset, emit: Emit) {
        if emit == Emit::No {
            return;
        }
        let at = self.emitted.get(&self.names[split]).copied().unwrap_or(0);
        let expected = self.rows(split).nth(at);
        match expected {
            Some(expected) if expected == offset => {
                self.emitted.insert(self.names[split].clone(), at + 1);
            }
            Some(expected) if expected < offset => self.damage = Some(Damage::Loss),
            Some(_) | None => self.damage = Some(Damage::Duplicate),
        }
    }

    fn upstream(&mut self, actor: usize) {
        let careless = self.careless.upstream;
        let this = &mut self.actors[actor];
        if this.at_barrier {
            return;
        }
        let Some(message) = this.queue.pop_front() else { return };
        match message {
            Message::Barrier => this.at_barrier = true,
            Message::Row(split, offset) => {
                let held = this.splits.get_mut(&self.names[split]).unwrap();
                let (state, emit) = match this.stage {
                    Stage::Forwarding => (held.state, Emit::Yes),
                    Stage::Backfill { .. } if careless => transition(held.state, Event::Upstream(offset)),
                    Stage::Backfill { .. } => on_upstream_row(held.state, offset),
                };
                held.state = state;
                self.emit(split, offset, emit);
            }
            Message::Position(split, offset) => {
                let held = this.splits.get_mut(&self.names[split]).unwrap();
                held.state = match this.stage {
                    Stage::Forwarding => held.state,
                    Stage::Backfill { .. } if careless => transition(held.state, Event::UpstreamPosition(offset)).0,
                    Stage::Backfill { .. } => on_upstream_position(held.state, offset),
                };
            }
        }
    }

    fn pick(&mut self, actor: u8, split: u8) -> Option<(usize, usize)> {
        let actor = usize::from(actor) % self.actors.len();
        let this = &self.actors[actor];
        if this.at_barrier || this.splits.is_empty() {
            return None;
        }
        let name = this.splits.keys().nth(usize::from(split) % this.splits.len()).unwrap();
        Some((actor, self.names.iter().position(|n| n == name).unwrap()))
    }

    fn reader(&mut self, actor: u8, split: u8, n: u8, tells_position: bool) {
        let Some((actor, split)) = self.pick(actor, split) else { return };
        let name = self.names[split].clone();
        for _ in 0..n {
            let this = &mut self.actors[actor];
            let held = this.splits.get_mut(&name).unwrap();
            if !this.stage.can_backfill() || held.state.is_finished() || !matches!(held.contact, Contact::Done) {
                return;
            }
            let Some(entry) = self.log[split].iter().find(|entry| Some(entry.offset) > held.read).cloned() else {
                return;
            };
            held.read = Some(entry.offset);
            let mut emit = Emit::No;
            if entry.is_row {
                (held.state, emit) = on_reader_row(held.state, entry.offset);
                held.last_row = Some(entry.offset);
            }
            if tells_position || !entry.is_row {
                held.state = if self.careless.position {
                    transition(held.state, Event::ReaderPosition(entry.offset)).0
                } else {
                    on_reader_position(held.state, held.last_row, entry.offset)
                };
            }
            self.emit(split, entry.offset, emit);
        }
    }

    fn contact(&mut self, actor: u8, split: u8) {
        let Some((actor, split)) = self.pick(actor, split) else { return };
        let latest = self.log[split].last().map(|entry| entry.offset);
        let held = self.actors[actor].splits.get_mut(&self.names[split]).unwrap();
        held.contact = match held.contact {
            Contact::NotAsked => Contact::Asked(latest),
            Contact::Asked(latest) => {
                held.state = if self.careless.contact {
                    transition(held.state, Event::Contact { latest }).0
                } else {
                    on_contact(held.state, latest)
                };
                Contact::Done
            }
            Contact::Done => Contact::Done,
        };
    }

    fn inject_barrier(&mut self) {
        if self.barrier {
            return;
        }
        self.barrier = true;
        for (actor, splits) in self.actors.iter_mut().zip(self.committed.assignment.values()) {
            for split in splits {
                if let Some(position) = self.positions.get(split) {
                    let split = self.names.iter().position(|name| name == split).unwrap();
                    actor.queue.push_back(Message::Position(split, *position));
                }
            }
            actor.queue.push_back(Message::Barrier);
        }
    }

    /// Once every actor is at the barrier: commit, move stages on, and only then change splits.
    fn complete_barrier(&mut self) {
        if self.damage.is_some() || !self.barrier || !self.actors.iter().all(|actor| actor.at_barrier) {
            return;
        }
        let lost = std::mem::take(&mut self.lose);
        for (split, held) in self.actors.iter().flat_map(|actor| &actor.splits) {
            let before = self.committed.states.insert(split.clone(), held.state);
            assert!(!before.is_some_and(|s| s.is_finished()) || held.state.is_finished(), "Finished is absorbing");
            self.committed.had_state.insert(split.clone());
        }
        self.committed.states.retain(|split, _| !lost.contains(split));
        self.committed.positions = self.positions.clone();
        self.committed.emitted = self.emitted.clone();
        let all_finished = self.committed.states.values().all(BackfillStateWithProgress::is_finished);
        for actor in &mut self.actors {
            actor.checkpoints += 1;
            let own = actor.splits.values().map(|held| &held.state);
            actor.stage = actor.stage.at_checkpoint(own, all_finished, actor.checkpoints);
            self.job_forwarding |= actor.stage == Stage::Forwarding;
            actor.at_barrier = false;
        }
        self.barrier = false;
        self.decide_rescale();
        let splits = self.names.iter().cloned().collect();
        if let Some(next) = reassign(&self.committed.assignment, &splits) {
            self.committed.assignment = next;
        }
        self.change_splits();
    }

    fn decide_rescale(&mut self) {
        let Some(to) = self.rescale else { return };
        let next = match self.policy {
            Some(policy) => {
                let report = check(&self.input(to), policy);
                if report.decision() != Decision::Pass {
                    return;
                }
                let fragment = &report.plan.fragments[0];
                let mut old: BTreeMap<ActorId, Actor> = self.actors.drain(..).map(|actor| (actor.id, actor)).collect();
                self.actors =
                    fragment.actors.iter().map(|id| old.remove(id).unwrap_or_else(|| Actor::new(*id))).collect();
                self.next_actor_id = report.plan.next_actor_id;
                report.plan.new
            }
            None => {
                let old = std::mem::take(&mut self.committed.assignment);
                let next = plan(&old, to, self.next_actor_id, &|_| true);
                let mut paired: BTreeMap<ActorId, Actor> = old.into_keys().zip(self.actors.drain(..)).collect();
                self.next_actor_id = ActorId(self.next_actor_id.0 + 100);
                let actor = |id| paired.remove(id).unwrap_or_else(|| Actor::new(ActorId(id.0 + 50)));
                self.actors = next.keys().map(actor).collect();
                next
            }
        };
        self.committed.assignment = next;
        self.committed_rescales += 1;
        self.rescale = None;
    }

    fn change_splits(&mut self) {
        for (actor, splits) in self.actors.iter_mut().zip(self.committed.assignment.values()) {
            let mut before = std::mem::take(&mut actor.splits);
            for split in splits {
                let held = before.remove(split);
                let persisted = self.committed.states.get(split).copied();
                let held = if actor.checkpoints == 0 {
                    Held::new(on_first_barrier(persisted))
                } else {
                    match (on_split_change(actor.stage, held.as_ref().map(|held| held.state), persisted), held) {
                        (Ok(SplitChange::Keep), Some(held)) => held,
                        (Ok(SplitChange::Keep), None) => unreachable!("nothing to keep"),
                        (Ok(SplitChange::NewPartition), _) => Held::new(BackfillStateWithProgress::finished()),
                        (Ok(SplitChange::Resume(state) | SplitChange::Stuck(state)), _) => Held::new(state),
                        (Err(_), _) => {
                            self.damage = Some(Damage::Violation);
                            return;
                        }
                    }
                };
                actor.splits.insert(split.clone(), held);
            }
        }
    }

    fn crash(&mut self) {
        self.barrier = false;
        self.positions = self.committed.positions.clone();
        self.emitted = self.committed.emitted.clone();
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.job_forwarding = false;
        for (actor, splits) in self.actors.iter_mut().zip(self.committed.assignment.values()) {
            *actor = Actor::new(actor.id);
            for split in splits {
                let state = on_first_barrier(self.committed.states.get(split).copied());
                actor.splits.insert(split.clone(), Held::new(state));
            }
        }
    }

    fn input(&self, to: u32) -> Input {
        let committed = &self.committed;
        let persisted =
            |split: &SplitId| committed.states.get(split).map_or(Persisted::Missing, |s| Persisted::State(*s));
        let job = Job {
            id: JobId(1),
            name: "mv".into(),
            fragment_id: FragmentId(2),
            created_at_micros: JOB_CREATED_AT,
            forwarding: self.job_forwarding,
            actors: self
                .actors
                .iter()
                .map(|actor| JobActor { id: actor.id, stage: Some(actor.stage), checkpoints: actor.checkpoints })
                .collect(),
            states: committed.had_state.iter().map(|split| (split.clone(), persisted(split))).collect(),
            start_offsets: BTreeMap::new(),
            closing_per_second: BTreeMap::new(),
        };
        Input {
            source_id: SourceId(1),
            source_name: "s".into(),
            is_shared: true,
            assignment: committed.assignment.clone(),
            seen_splits: self.seen.clone(),
            jobs: vec![job],
            rescale_in_flight: None,
            target: Target::parse(&to.to_string()).unwrap(),
            available: 4,
            next_actor_id: self.next_actor_id,
            epoch: Epoch(self.clock),
            now_micros: self.clock,
            checkpoint_at_micros: self.clock,
            barrier_interval_micros: 1,
            engine_reachable: Ok(()),
        }
    }
}

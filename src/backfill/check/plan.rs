//! What a rescale would change.

use super::super::assignment::{Assignment, Held, Move, Planned, Slots};
use super::super::id::{ActorId, FragmentId, JobId};
use super::super::stage::Stage;
use super::{Input, Job};

/// What a rescale would change. The assignment as it is now is in the input.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many actors the source has now.
    pub from_parallelism: u32,
    /// How many it will have.
    pub to_parallelism: u32,
    /// The splits of the source's actors afterwards.
    pub new: Assignment,
    /// The splits that change actors, in order of split id. The ids are of the source's actors.
    pub moves: Vec<Move>,
    /// The source's actors that don't exist yet.
    pub new_actors: Vec<ActorId>,
    /// The same for the jobs' fragments, in the order of the input's jobs.
    pub fragments: Vec<FragmentPlan>,
    /// The id for the next new actor afterwards.
    pub next_actor_id: ActorId,
}

/// What a rescale would change in one job's fragment. Its splits follow from the pairing.
#[derive(Clone, Debug)]
pub struct FragmentPlan {
    /// The job.
    pub job_id: JobId,
    /// Its fragment on the source.
    pub fragment_id: FragmentId,
    /// The fragment's actors afterwards, by position: paired with the keys of the plan's `new`.
    pub actors: Vec<ActorId>,
    /// Those of them that don't exist yet.
    pub new_actors: Vec<ActorId>,
    /// The actor that is paired with every slot of the source.
    pub(super) pairs: Vec<Paired>,
}

/// The actor of a job that is paired with one of the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paired {
    pub(super) actor: ActorId,
    pub(super) kind: PairedKind,
}

/// What is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairedKind {
    /// It exists, in this stage if that is known.
    Existing(Option<Stage>),
    /// The rescale makes it. It starts with a live reader.
    New,
    /// The job has no such actor, which must not be; the source's own id stands in for it.
    Missing,
}

impl Paired {
    /// Its stage now, if that is known.
    pub(super) fn stage(&self) -> Option<Stage> {
        match self.kind {
            PairedKind::Existing(stage) => stage,
            PairedKind::New => Some(Stage::NEW),
            PairedKind::Missing => None,
        }
    }
}

impl Plan {
    /// Whether nothing would change: the source has that many actors already.
    pub fn is_noop(&self) -> bool {
        self.from_parallelism == self.to_parallelism
    }

    pub(super) fn new(input: &Input, held: &Held<'_>, planned: &Planned) -> Self {
        let existing = input.assignment.len();
        let added = planned.stays.len() - existing;
        // Ids of new actors: the source's come first, then every job's, in order of fragment id.
        let slots = Slots::new(input.assignment.keys().copied(), input.next_actor_id);
        let block = |nth: usize| input.next_actor_id.0.saturating_add(i32::try_from(nth * added).unwrap_or(i32::MAX));
        let mut order: Vec<usize> = (0..input.jobs.len()).collect();
        order.sort_by_key(|job| input.jobs[*job].fragment_id);
        let mut first_new = vec![input.next_actor_id; input.jobs.len()];
        for (nth, job) in order.into_iter().enumerate() {
            first_new[job] = ActorId(block(1 + nth));
        }
        let fragments = input.jobs.iter().zip(first_new);
        Self {
            from_parallelism: count(existing),
            to_parallelism: count(planned.stays.iter().filter(|stays| **stays).count()),
            new: planned.assignment(held, &slots),
            moves: planned.moves(held, &slots),
            new_actors: (existing..existing + added).map(|slot| slots.actor(slot)).collect(),
            fragments: fragments.map(|(job, first_new)| FragmentPlan::new(job, first_new, planned, &slots)).collect(),
            next_actor_id: ActorId(block(1 + input.jobs.len())),
        }
    }
}

impl FragmentPlan {
    fn new(job: &Job, first_new: ActorId, planned: &Planned, source: &Slots) -> Self {
        let existing = source.existing();
        let new = Slots::new(std::iter::repeat_n(first_new, existing), first_new);
        let pair = |slot: usize| match job.actors.get(slot) {
            Some(actor) if slot < existing => Paired { actor: actor.id, kind: PairedKind::Existing(actor.stage) },
            None if slot < existing => Paired { actor: source.actor(slot), kind: PairedKind::Missing },
            Some(_) | None => Paired { actor: new.actor(slot), kind: PairedKind::New },
        };
        let pairs: Vec<Paired> = (0..planned.stays.len()).map(pair).collect();
        let staying = pairs.iter().zip(&planned.stays).filter(|(_, stays)| **stays);
        Self {
            job_id: job.id,
            fragment_id: job.fragment_id,
            actors: staying.map(|(pair, _)| pair.actor).collect(),
            new_actors: pairs[existing..].iter().map(|pair| pair.actor).collect(),
            pairs,
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

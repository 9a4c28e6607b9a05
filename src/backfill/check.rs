//! The forwarding-stage check: may this source be rescaled now, and if not, what stands in the way?
//!
//! The input is what is known at one barrier: every split's persisted state in every job, who holds the split, and in
//! which stage each actor is. The output is a plan, a verdict for every job and split, and a decision for every named
//! condition. The check is sound for the barrier whose states it was given: an engine has to run it after that
//! barrier's states were written and its stages were moved on ([`super::stage::Stage::at_checkpoint`]), and to commit
//! the plan in the same transaction.
//!
//! Under the policies `forwarding` and `all_finished` a check that passed stays true, since Finished is absorbing.
//! Under `stage_aware` it is true at its barrier only: a reader that is live now may be dropped at the next.
//!
//! State rows of splits that no actor holds are left aside: a split that vanished can't move.
//!
//! Time goes with the number of jobs times splits: everything is sorted by split id, and is read side by side. Words
//! are made only when somebody asks for them.

mod conditions;
mod plan;
mod report;
mod split;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use conditions::Condition;
pub use plan::{FragmentPlan, Plan};
pub use report::Report;
pub use split::{SplitVerdict, identifier};

use super::assignment::{Assignment, Held, Planned, Planner};
use super::id::{ActorId, Epoch, FragmentId, JobId, Offset, RescaleId, SourceId, SplitId};
use super::stage::Stage;
use super::state::BackfillStateWithProgress;
use super::target::Target;
use plan::PairedKind;
use split::{Circumstances, Known};

/// What must hold of the splits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Every split that changes actors is Finished, or new to the job. For assignments that we choose ourselves.
    #[default]
    Forwarding,
    /// Every split of every job is Finished, or new to the job. For assignments that somebody else chooses.
    AllFinished,
    /// As `Forwarding`, but an unfinished split may move to an actor that has a live backfill reader at that barrier,
    /// or to a new actor, which starts with one.
    StageAware,
}

/// The policies with their names, as in `SET rescale_policy`.
const POLICIES: [(Policy, &str); 3] =
    [(Policy::Forwarding, "forwarding"), (Policy::AllFinished, "all_finished"), (Policy::StageAware, "stage_aware")];

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forwarding => "forwarding",
            Self::AllFinished => "all_finished",
            Self::StageAware => "stage_aware",
        })
    }
}

impl FromStr for Policy {
    type Err = String;

    /// Reads a policy's name, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = POLICIES.iter().find(|(_, name)| text.trim().eq_ignore_ascii_case(name));
        known.map(|(policy, _)| *policy).ok_or_else(|| "forwarding, all_finished or stage_aware".to_owned())
    }
}

/// What is to be done about a condition or split. Ordered from good to bad: the worst one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// It doesn't stand in the way.
    Pass,
    /// It does now, and will stop by itself.
    Wait,
    /// It can't be told. Not a yes.
    Unknown,
    /// It does, until a person acts.
    Fail,
}

/// `pass`, `wait`, `unknown` or `fail`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Wait => "wait",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        })
    }
}

/// What a rescale does to one split of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It stays on its actor.
    Kept,
    /// It moves, and is Finished.
    MigratedFinished,
    /// It has no state, and came after the job: the live stream carries all of it.
    NewSplit,
    /// It moves, and is not Finished, or not known to be.
    MigratedUnfinished,
}

/// `kept`, `migrated_finished`, `new_split` or `migrated_unfinished`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "kept",
            Self::MigratedFinished => "migrated_finished",
            Self::NewSplit => "new_split",
            Self::MigratedUnfinished => "migrated_unfinished",
        })
    }
}

/// All that the check looks at. Times are microseconds since 1970 UTC.
#[derive(Clone, Debug)]
pub struct Input {
    /// The source to rescale.
    pub source_id: SourceId,
    /// Its name.
    pub source_name: String,
    /// Whether the source has actors of its own, which jobs share.
    pub is_shared: bool,
    /// The splits of the source's actors, now.
    pub assignment: Assignment,
    /// Every split that the source ever had. One that is missing here counts as seen before every job.
    pub seen_splits: BTreeMap<SplitId, SplitSeen>,
    /// The jobs on the source, in the order of the report.
    pub jobs: Vec<Job>,
    /// Another rescale of the source that is not decided yet and comes first.
    pub rescale_in_flight: Option<RescaleId>,
    /// The parallelism asked for.
    pub target: Target,
    /// How many actors there is room for: what adaptive targets resolve to.
    pub available: u32,
    /// The id for the next new actor.
    pub next_actor_id: ActorId,
    /// The checkpoint that all of this is as of.
    pub epoch: Epoch,
    /// The time now.
    pub now_micros: i64,
    /// When that checkpoint was committed.
    pub checkpoint_at_micros: i64,
    /// The time between two barriers.
    pub barrier_interval_micros: i64,
    /// Why the engine can't be reached, if it can't.
    pub engine_reachable: Result<(), String>,
}

/// What is remembered of a split beside its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitSeen {
    /// Whether it appeared after the source was made.
    pub found_at_run_time: bool,
    /// When it was first seen.
    pub first_seen_at_micros: i64,
}

/// A job's fragment on the source.
#[derive(Clone, Debug)]
pub struct Job {
    /// The materialized view.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its fragment that backfills from the source.
    pub fragment_id: FragmentId,
    /// When it was made. A split that was found at run time after that is new to it.
    pub created_at_micros: i64,
    /// Whether the fragment has gone forwarding since it was last built. Looked at only where an actor's own stage isn't
    /// known: an unfinished split there can't be finished any more.
    pub forwarding: bool,
    /// The fragment's actors, by position: paired with the source's actors in ascending order of id.
    pub actors: Vec<JobActor>,
    /// The state table.
    pub states: BTreeMap<SplitId, Persisted>,
    /// The first offset that there was to read, where it is known.
    pub start_offsets: BTreeMap<SplitId, Offset>,
    /// How fast the reader closes in on its target, in offsets a second, where it is known. Below 0 it falls behind.
    pub closing_per_second: BTreeMap<SplitId, f64>,
}

/// A row of the state table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persisted {
    /// A state.
    State(BackfillStateWithProgress),
    /// A row that isn't a state, with its full content.
    Unreadable(String),
    /// No row, although the job is known to have had the split before: the row is lost, however new the split is. (A
    /// split that the job never had has no entry at all.)
    Missing,
}

impl Persisted {
    /// The state, of a row that is one.
    pub const fn state(&self) -> Option<BackfillStateWithProgress> {
        match self {
            Self::State(state) => Some(*state),
            Self::Unreadable(_) | Self::Missing => None,
        }
    }
}

/// An actor of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobActor {
    /// Its id.
    pub id: ActorId,
    /// Its stage after the checkpoint that the input is as of. `None`: the engine doesn't tell.
    pub stage: Option<Stage>,
    /// How many checkpoints it has taken part in since it was built.
    pub checkpoints: u32,
}

impl JobActor {
    /// Whether it is known to be able to go on with an unfinished split.
    fn can_backfill(&self) -> bool {
        self.stage.is_some_and(Stage::can_backfill)
    }
}

/// Whether the source may be rescaled to the target at this barrier, under a policy.
pub fn check(input: &Input, policy: Policy) -> Report {
    let held = Held::of(&input.assignment);
    let known: Vec<Vec<Known<'_>>> = input.jobs.iter().map(|job| known(input, job, &held)).collect();
    let to = input.target.resolve(input.available);
    let noop = usize::try_from(to) == Ok(input.assignment.len());
    let planned = if noop {
        Planned::unchanged(&held, input.assignment.len())
    } else {
        propose(input, policy, to, &held, &known)
    };
    let plan = Plan::new(input, &held, &planned);

    let mut splits = Vec::with_capacity(held.splits.len() * input.jobs.len());
    for (job, (known, fragment)) in input.jobs.iter().zip(known.iter().zip(&plan.fragments)) {
        splits.extend(verdicts(job, fragment, (policy, noop), &held, &planned, known));
    }
    let conditions = conditions::all(input, &plan, &splits);
    Report { source_name: input.source_name.clone(), policy, plan, conditions, splits }
}

/// The plan for another parallelism. A split counts as finished if it may move in every job.
fn propose(input: &Input, policy: Policy, to: u32, held: &Held<'_>, known: &[Vec<Known<'_>>]) -> Planned {
    let may_move = |split: usize| known.iter().all(|job| job[split].may_move());
    let finished: Vec<bool> = (0..held.splits.len()).map(may_move).collect();
    let can_backfill = |slot: usize| match policy {
        Policy::Forwarding | Policy::AllFinished => false,
        Policy::StageAware => input.jobs.iter().all(|job| job.actors.get(slot).is_some_and(JobActor::can_backfill)),
    };
    let can_backfill: Vec<bool> = (0..input.assignment.len()).map(can_backfill).collect();
    Planner { owners: &held.owners, finished: &finished, can_backfill: &can_backfill }.plan(to)
}

/// What is known of every held split in a job.
fn known<'a>(input: &'a Input, job: &'a Job, held: &Held<'_>) -> Vec<Known<'a>> {
    let states = side_by_side(&held.splits, &job.states);
    let seen = side_by_side(&held.splits, &input.seen_splits);
    let rows = states.zip(seen).zip(&held.owners);
    rows.map(|((state, seen), slot)| {
        let is_new = seen.is_some_and(|s| s.found_at_run_time && s.first_seen_at_micros > job.created_at_micros);
        let unwritten = job.actors.get(*slot).is_some_and(|actor| actor.checkpoints == 0);
        match state {
            Some(Persisted::State(state)) => Known::State(state),
            Some(Persisted::Unreadable(content)) => Known::Unreadable(content),
            Some(Persisted::Missing) => Known::Lost,
            None if is_new => Known::New,
            None if unwritten => Known::Unwritten,
            None => Known::Lost,
        }
    })
    .collect()
}

/// A map's value for every split, both being in order of split id: one walk instead of a search a split.
fn side_by_side<'a, V>(splits: &[&SplitId], map: &'a BTreeMap<SplitId, V>) -> impl Iterator<Item = Option<&'a V>> {
    let mut entries = map.iter().peekable();
    splits.iter().map(move |split| {
        loop {
            // Nearly always it is the next one, and asking for equality is cheaper than for order.
            match entries.peek() {
                Some((key, value)) if *key == *split => {
                    let value = *value;
                    entries.next();
                    return Some(value);
                }
                Some((key, _)) if *key < *split => drop(entries.next()),
                Some(_) | None => return None,
            }
        }
    })
}

/// The verdicts of one job.
fn verdicts(
    job: &Job,
    fragment: &FragmentPlan,
    (policy, noop): (Policy, bool),
    held: &Held<'_>,
    planned: &Planned,
    known: &[Known<'_>],
) -> impl Iterator<Item = SplitVerdict> {
    let name: Arc<str> = job.name.as_str().into();
    let starts = side_by_side(&held.splits, &job.start_offsets);
    let speeds = side_by_side(&held.splits, &job.closing_per_second);
    let ends = held.owners.iter().zip(&planned.owners);
    let rows = held.splits.iter().zip(ends).zip(known).zip(starts.zip(speeds));
    rows.map(move |(((split, (&from, &to)), &known), (start, closing))| {
        let (holder, receiver) = (&fragment.pairs[from], &fragment.pairs[to]);
        let circumstances = Circumstances {
            policy,
            noop,
            moves: from != to,
            holder: holder.stage().or_else(|| job.forwarding.then_some(Stage::Forwarding)),
            receiver: receiver.kind,
        };
        let (verdict, decision, why) = circumstances.judge(known);
        SplitVerdict {
            job_id: job.id,
            job_name: name.clone(),
            split: (*split).clone(),
            from_actor: (holder.kind != PairedKind::Missing).then_some(holder.actor),
            to_actor: receiver.actor,
            verdict,
            decision,
            state: None,
            raw_state: None,
            remaining: None,
            percent_left: None,
            eta: None,
            why,
        }
        .with(known, start, closing)
    })
}

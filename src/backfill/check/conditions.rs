//! The named conditions: what must hold beside the splits. All are always reported, in this order.

use std::collections::BTreeSet;

use super::split::{SplitVerdict, Why, duration, identifier};
use super::{Decision, Input, Plan};

/// One named condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name, as in `tidegate.check_rescale.check_name`.
    pub name: &'static str,
    /// Whether it stands in the way.
    pub decision: Decision,
    /// Why: a sentence.
    pub reason: String,
    /// What to do about it, in SQL where SQL helps. `None`: nothing needs doing.
    pub remedy: Option<String>,
}

impl Condition {
    fn pass(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, decision: Decision::Pass, reason: reason.into(), remedy: None }
    }

    fn not(name: &'static str, decision: Decision, reason: String, remedy: String) -> Self {
        Self { name, decision, reason, remedy: Some(remedy) }
    }

    /// A rescale that changes nothing passes: what was found is still said.
    fn unless(self, noop: bool) -> Self {
        if noop && self.decision != Decision::Pass {
            Self { decision: Decision::Pass, reason: format!("Nothing would move. {}", self.reason), ..self }
        } else {
            self
        }
    }
}

pub(super) fn all(input: &Input, plan: &Plan, splits: &[SplitVerdict]) -> Vec<Condition> {
    let noop = plan.is_noop();
    vec![
        source_is_shared(input, plan),
        engine_reachable(input),
        same_parallelism(input, plan),
        no_rescale_in_flight(input),
        every_split_has_a_known_state(splits).unless(noop),
        state_is_fresh(input),
        second_checkpoint_seen(input).unless(noop),
        parallelism_within_splits(input, plan),
    ]
}

fn source_is_shared(input: &Input, plan: &Plan) -> Condition {
    const NAME: &str = "source_is_shared";
    let name = &input.source_name;
    if input.is_shared {
        return Condition::pass(NAME, format!("Source \"{name}\" is shared."));
    }
    Condition::not(
        NAME,
        Decision::Fail,
        format!("Source \"{name}\" is not shared: it has no actors of its own, since every view reads it by itself."),
        format!("ALTER MATERIALIZED VIEW ... SET PARALLELISM = {}; for each view on it.", plan.to_parallelism),
    )
}

fn engine_reachable(input: &Input) -> Condition {
    const NAME: &str = "engine_reachable";
    match &input.engine_reachable {
        Ok(()) => Condition::pass(NAME, "The engine answers."),
        Err(error) => Condition::not(
            NAME,
            Decision::Unknown,
            format!("The engine can't be reached, so its states are not known: {error}"),
            "Check again once it can be reached.".into(),
        ),
    }
}

fn same_parallelism(input: &Input, plan: &Plan) -> Condition {
    const NAME: &str = "same_parallelism";
    let actors = |n: u32| count(usize::try_from(n).unwrap_or(usize::MAX), "actor");
    let (from, to) = (plan.from_parallelism, plan.to_parallelism);
    Condition::pass(
        NAME,
        if plan.is_noop() {
            format!("Source \"{}\" has {} already: nothing would change.", input.source_name, actors(from))
        } else {
            format!(
                "From {} to {to}: {} of {} would move.",
                actors(from),
                plan.moves.len(),
                count(input.assignment.values().map(BTreeSet::len).sum(), "split")
            )
        },
    )
}

fn no_rescale_in_flight(input: &Input) -> Condition {
    const NAME: &str = "no_rescale_in_flight";
    match input.rescale_in_flight {
        None => Condition::pass(NAME, "No other rescale of the source is pending."),
        Some(id) => Condition::not(
            NAME,
            Decision::Wait,
            format!("Rescale {id} of source \"{}\" is not decided yet.", input.source_name),
            format!("Wait for it (tidegate.pending_rescales), or CANCEL RESCALE {id};"),
        ),
    }
}

/// A split that was seen before and has no state isn't new: its state is lost, and nobody can say what was read.
fn every_split_has_a_known_state(splits: &[SplitVerdict]) -> Condition {
    const NAME: &str = "every_split_has_a_known_state";
    const SHOWN: usize = 3;
    let missing = |split: &SplitVerdict| match split.why {
        Why::Unwritten => Some((Decision::Wait, "not written yet")),
        Why::Lost => Some((Decision::Unknown, "lost")),
        Why::Unreadable => Some((Decision::Unknown, "can't be read")),
        Why::Finished { .. }
        | Why::New
        | Why::Stays
        | Why::Received { .. }
        | Why::Unfinished
        | Why::NotAllFinished { .. }
        | Why::NotReceived(_)
        | Why::Damaged { .. } => None,
    };
    let found = splits.iter().filter_map(|split| missing(split).map(|(decision, what)| (decision, split, what)));
    // Those that need a person first.
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(decision, ..)| std::cmp::Reverse(*decision));
    let Some((decision, worst, _)) = found.first() else {
        return Condition::pass(NAME, "Every split has a state, or is new.");
    };
    let mut names: Vec<String> = found
        .iter()
        .take(SHOWN)
        .map(|(_, split, what)| {
            format!("split \"{}\" of materialized view \"{}\" ({what})", split.split, split.job_name)
        })
        .collect();
    if found.len() > SHOWN {
        names.push(format!("{} more", found.len() - SHOWN));
    }
    let reason = format!("{} of {} no known state: {}.", found.len(), have(splits.len(), "split"), names.join(", "));
    Condition::not(NAME, *decision, reason, worst.what_to_do())
}

/// A state that is older than a few barriers says nothing about now, and neither does a catalog read half-way.
fn state_is_fresh(input: &Input) -> Condition {
    const NAME: &str = "state_is_fresh";
    const BARRIERS: i64 = 5;
    const GRACE_MICROS: i64 = 5_000_000;
    let limit = input.barrier_interval_micros.max(0).saturating_mul(BARRIERS).saturating_add(GRACE_MICROS);
    let age = input.now_micros.saturating_sub(input.checkpoint_at_micros);
    let (age_text, limit_text) = (duration(age.max(0) as f64 / 1e6), duration(limit as f64 / 1e6));
    if age < -limit {
        return Condition::not(
            NAME,
            Decision::Unknown,
            format!(
                "The last checkpoint (epoch {}) is {} in the future: the clock was set back since, so nobody knows its age.",
                input.epoch,
                duration(age.unsigned_abs() as f64 / 1e6)
            ),
            "FLUSH; takes a checkpoint now. If it doesn't return, the engine is stuck or down.".into(),
        );
    }
    if age > limit {
        return Condition::not(
            NAME,
            Decision::Unknown,
            format!("The last checkpoint (epoch {}) is {age_text} old, which is more than {limit_text}.", input.epoch),
            "FLUSH; takes a checkpoint now. If it doesn't return, the engine is stuck or down.".into(),
        );
    }
    let sources = input.assignment.len();
    if let Some(job) = input.jobs.iter().find(|job| job.actors.len() != sources) {
        return Condition::not(
            NAME,
            Decision::Unknown,
            format!(
                "Materialized view \"{}\" has {} and source \"{}\" has {sources}: they are changing right now.",
                job.name,
                count(job.actors.len(), "actor"),
                input.source_name
            ),
            "Check again in a moment. If it stays: RECOVER;".into(),
        );
    }
    Condition::pass(NAME, format!("The last checkpoint (epoch {}) is {age_text} old.", input.epoch))
}

/// An actor sees the other actors' states from its second checkpoint on. Before, its stage says little.
fn second_checkpoint_seen(input: &Input) -> Condition {
    const NAME: &str = "second_checkpoint_seen";
    let young = |actors: &[super::JobActor]| actors.iter().filter(|actor| actor.checkpoints < 2).count();
    let waiting: usize = input.jobs.iter().map(|job| young(&job.actors)).sum();
    let all: usize = input.jobs.iter().map(|job| job.actors.len()).sum();
    let Some(job) = input.jobs.iter().find(|job| young(&job.actors) > 0) else {
        return Condition::pass(NAME, "Every actor has taken part in two checkpoints.");
    };
    let reason = format!(
        "{waiting} of {} not taken part in two checkpoints yet, the first of them in materialized view \"{}\".",
        have(all, "actor"),
        job.name
    );
    Condition::not(NAME, Decision::Wait, reason, "FLUSH; FLUSH; takes two checkpoints now.".into())
}

/// More actors than splits are allowed, but some do nothing: a warning.
fn parallelism_within_splits(input: &Input, plan: &Plan) -> Condition {
    const NAME: &str = "parallelism_within_splits";
    let splits: usize = input.assignment.values().map(BTreeSet::len).sum();
    let to = usize::try_from(plan.to_parallelism).unwrap_or(usize::MAX);
    let name = identifier(&input.source_name);
    if to <= splits {
        return Condition::pass(NAME, format!("{} for {}.", count(splits, "split"), count(to, "actor")));
    }
    let mut condition = Condition::pass(
        NAME,
        format!("Warning: {} would be idle, since {} for {to}.", count(to - splits, "actor"), there_are(splits)),
    );
    if splits > 0 {
        condition.remedy = Some(format!("ALTER SOURCE {name} SET PARALLELISM = {splits}; gives every actor one."));
    }
    condition
}

fn there_are(splits: usize) -> String {
    format!("there {} only {}", if splits == 1 { "is" } else { "are" }, count(splits, "split"))
}

/// `1 split`, `2 splits`.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `1 split has`, `2 splits have`.
fn have(n: usize, noun: &str) -> String {
    format!("{} {}", count(n, noun), if n == 1 { "has" } else { "have" })
}

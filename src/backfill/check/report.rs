//! The check's answer as a whole.

use super::split::{SplitVerdict, WAIT};
use super::{Condition, Decision, Plan, Policy};
use crate::error::Refusal;

/// How many offending splits a refusal names.
const SHOWN: usize = 3;

/// How many reasons a waiting rescale shows.
const SHOWN_WAITING: usize = 20;

/// The check's answer: what would change, and what stands in the way.
#[derive(Clone, Debug)]
pub struct Report {
    /// The source.
    pub source_name: String,
    /// The policy that it was checked under.
    pub policy: Policy,
    /// What would change.
    pub plan: Plan,
    /// All named conditions, always in the same order.
    pub conditions: Vec<Condition>,
    /// Every held split of every job: by job in the order of the input, then by split id.
    pub splits: Vec<SplitVerdict>,
}

impl Report {
    /// The worst decision of all conditions and splits. The rescale is safe if, and only if, it is `Pass`.
    pub fn decision(&self) -> Decision {
        let conditions = self.conditions.iter().map(|condition| condition.decision);
        let splits = self.splits.iter().map(|split| split.decision);
        conditions.chain(splits).max().unwrap_or(Decision::Pass)
    }

    /// Whether the source has that parallelism already. Then nothing would move, and no split stands in the way.
    pub fn is_noop(&self) -> bool {
        self.plan.is_noop()
    }

    /// The splits that stand in the way, unfinished ones first.
    pub fn offending(&self) -> impl Iterator<Item = &SplitVerdict> {
        let offending = |has_state: bool| {
            self.splits.iter().filter(move |split| split.offends() && split.state.is_some() == has_state)
        };
        offending(true).chain(offending(false))
    }

    /// The error of an `ALTER` that is refused. `None` when the rescale is safe.
    ///
    /// If an unfinished split stands in the way, the message is the one that RisingWave would have died with.
    pub fn refusal(&self) -> Option<Refusal> {
        let decision = self.decision();
        if decision == Decision::Pass {
            return None;
        }
        let lines = || {
            let mut lines = self.offending_lines(SHOWN);
            // That one only counts the splits.
            let others = self.unmet().filter(|condition| condition.name != "every_split_has_a_known_state");
            lines.extend(others.map(line));
            lines.join("\n")
        };
        let unfinished = self.offending().find_map(|split| split.state);
        let unreadable = self.offending().find(|split| split.raw_state.is_some());
        let condition = self.conditions.iter().find(|condition| condition.decision == decision);
        Some(match (unfinished, unreadable, condition) {
            (Some(state), _, _) => Refusal {
                message: Refusal::unexpected_state(&state),
                detail: lines(),
                hint: format!("{WAIT} If it stays: RECOVER, then recreate the materialized view."),
            },
            (None, Some(split), _) => Refusal {
                message: format!(
                    "state of split \"{}\" of materialized view \"{}\" cannot be read: {}",
                    split.split,
                    split.job_name,
                    split.raw_state.as_deref().unwrap_or_default()
                ),
                detail: lines(),
                hint: split.what_to_do(),
            },
            (None, None, Some(condition)) => self.refused_by(condition),
            (None, None, None) => Refusal {
                message: format!("cannot rescale source \"{}\"", self.source_name),
                detail: lines(),
                hint: self.offending().next().map(SplitVerdict::what_to_do).unwrap_or_default(),
            },
        })
    }

    fn refused_by(&self, condition: &Condition) -> Refusal {
        let how = match condition.decision {
            Decision::Pass => "is met",
            Decision::Wait => "is not met yet",
            Decision::Unknown => "cannot be told",
            Decision::Fail => "is not met",
        };
        Refusal {
            message: format!("cannot rescale source \"{}\": condition {} {how}", self.source_name, condition.name),
            detail: condition.reason.clone(),
            hint: condition.remedy.clone().unwrap_or_default(),
        }
    }

    /// What a deferred rescale waits for, in words: conditions, then splits. Empty when the rescale is safe.
    pub fn waiting_for(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self.unmet().map(line).collect();
        reasons.extend(self.offending_lines(SHOWN_WAITING));
        reasons
    }

    /// The conditions that don't hold.
    fn unmet(&self) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().filter(|condition| condition.decision != Decision::Pass)
    }

    /// A line for each of the first few offending splits, then how many more there are.
    fn offending_lines(&self, shown: usize) -> Vec<String> {
        let mut offending = self.offending();
        let mut lines: Vec<String> = offending.by_ref().take(shown).map(SplitVerdict::line).collect();
        match offending.count() {
            0 => {}
            rest => lines.push(format!("{rest} more ...")),
        }
        lines
    }
}

fn line(condition: &Condition) -> String {
    format!("{}: {}", condition.name, condition.reason)
}

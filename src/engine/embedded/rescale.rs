//! The gate: check and commit of a rescale, in the transaction of a barrier whose states are already written.
//!
//! There is no instant between the check and the commit in which a state could change: actors wait at the barrier, and
//! the transaction holds the write lock.

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::statement::{Answer, Moment, change_actors};
use crate::backfill::check::{Decision, Input, Policy, Report, check};
use crate::backfill::id::{ActorId, FragmentId, RescaleId, SourceId};
use crate::backfill::target::Target;
use crate::engine::{Rescale, Rescaled};
use crate::error::{Error, Result};
use crate::failpoint::{self, FailPoint};
use crate::store::check_input::{Surroundings, check_input};
use crate::store::relations::RelationKind;
use crate::store::rescales::{self, Asked, Decided, Outcome, RescaleRow};
use crate::store::{Context, relations, violations};

/// A check with what it looked at.
struct Checked {
    input: Input,
    report: Report,
}

/// What one check leads to.
enum Next {
    Commit,
    /// The only thing missing is a barrier or two.
    NotYet,
    Wait,
    Refuse,
}

/// Checks an ALTER and commits, defers or refuses it.
///
/// # Errors
/// When there is no such source, and for what the store refuses. A refusal by the check is an answer, not an error:
/// its line in the history has to be committed.
pub fn apply(tx: &Connection, moment: &Moment, request: &Rescale) -> Result<Answer> {
    let checked = run_check(tx, moment, &request.source, request.target, request.policy, None)?;
    let report = &checked.report;
    if report.is_noop() {
        // As many actors, but perhaps for another reason: 4 and ADAPTIVE may be the same today.
        set_target(tx, checked.input.source_id, &request.target.to_string())?;
        let parallelism = report.plan.from_parallelism;
        let asked = Asked {
            statement: request.statement.clone(),
            policy: request.policy.to_string(),
            requested_by: request.requested_by.clone(),
            application_name: request.application_name.clone(),
        };
        let relation = relations::get(tx, RelationKind::Source, &request.source)?;
        asked.note(tx, Some(relation.id), &relation.name, Outcome::Committed, None)?;
        let pending = checked.input.rescale_in_flight;
        return Ok(Answer::Rescaled(Rescaled::Unchanged { parallelism, pending }));
    }
    let unchecked = moment.hooks.commits_unchecked(&request.source);
    let next = if unchecked { Next::Commit } else { next(report, request.deferred) };
    if matches!(next, Next::NotYet) {
        return Ok(Answer::NotYet);
    }
    let row = RescaleRow {
        source_id: checked.input.source_id,
        source_name: request.source.clone(),
        statement: request.statement.clone(),
        policy: request.policy.to_string(),
        target: request.target.to_string(),
        from_parallelism: report.plan.from_parallelism,
        to_parallelism: report.plan.to_parallelism,
        requested_by: request.requested_by.clone(),
        application_name: request.application_name.clone(),
        requested_at: moment.now,
    };
    let id = rescales::insert(tx, &row)?;
    failpoint::pass(FailPoint::RescaleRecorded);
    match next {
        Next::Commit => commit(tx, moment, id, &checked),
        Next::Wait | Next::NotYet => {
            let waiting_for = report.waiting_for();
            rescales::set_waiting(tx, id, &waiting_for, &offending(report))?;
            Ok(Answer::Rescaled(Rescaled::Deferred { id, waiting_for }))
        }
        Next::Refuse => refuse(tx, moment, id, &checked),
    }
}

/// Checks a pending rescale again and commits it if its time has come.
///
/// # Errors
/// As [`apply`].
pub fn apply_deferred(tx: &Connection, moment: &Moment, id: RescaleId) -> Result<Answer> {
    let Some((_, row)) = rescales::pending(tx)?.into_iter().find(|(pending, _)| *pending == id) else {
        // Cancelled since it was found to be ready.
        return Ok(Answer::Done);
    };
    let checked = check_pending(tx, moment, id, &row)?;
    if checked.report.decision() == Decision::Pass {
        return commit(tx, moment, id, &checked);
    }
    Ok(Answer::Done)
}

/// Looks at all pending rescales, notes what they wait for, and returns those whose check passes.
///
/// # Errors
/// [`Error::Store`].
pub fn ready(tx: &Connection, moment: &Moment) -> Result<Vec<RescaleId>> {
    let mut ready = Vec::new();
    for (id, row) in rescales::pending(tx)? {
        let report = check_pending(tx, moment, id, &row)?.report;
        if report.decision() == Decision::Pass {
            ready.push(id);
        } else {
            rescales::set_waiting(tx, id, &report.waiting_for(), &offending(&report))?;
        }
    }
    Ok(ready)
}

/// What the check says outside a barrier.
///
/// # Errors
/// As [`apply`].
#[cfg(feature = "hooks")]
pub fn passes(connection: &Connection, moment: &Moment, request: &Rescale) -> Result<bool> {
    let checked = run_check(connection, moment, &request.source, request.target, request.policy, None)?;
    Ok(checked.report.decision() == Decision::Pass)
}

fn check_pending(tx: &Connection, moment: &Moment, id: RescaleId, row: &RescaleRow) -> Result<Checked> {
    let unreadable = |what: String| Error::Internal(format!("pending rescale {id} can't be read: {what}"));
    let target = Target::parse(&row.target).map_err(unreadable)?;
    let policy = row.policy.parse::<Policy>().map_err(unreadable)?;
    run_check(tx, moment, &row.source_name, target, policy, Some(id))
}

fn run_check(
    tx: &Connection,
    moment: &Moment,
    source: &str,
    target: Target,
    policy: Policy,
    asking: Option<RescaleId>,
) -> Result<Checked> {
    let surroundings = Surroundings { asking, ..moment.surroundings };
    let input = check_input(tx, source, target, &surroundings)?;
    let report = check(&input, policy);
    Ok(Checked { input, report })
}

fn next(report: &Report, deferred: bool) -> Next {
    let decision = report.decision();
    let splits_pass = report.splits.iter().all(|split| split.decision == Decision::Pass);
    let only_barriers = report
        .conditions
        .iter()
        .all(|condition| condition.decision == Decision::Pass || condition.name == "second_checkpoint_seen");
    match decision {
        Decision::Pass => Next::Commit,
        Decision::Wait if splits_pass && only_barriers => Next::NotYet,
        Decision::Wait | Decision::Unknown if deferred => Next::Wait,
        Decision::Wait | Decision::Unknown | Decision::Fail => Next::Refuse,
    }
}

fn refuse(tx: &Connection, moment: &Moment, id: RescaleId, checked: &Checked) -> Result<Answer> {
    let refusal =
        checked.report.refusal().ok_or_else(|| Error::Internal("a rescale was refused for no reason".into()))?;
    violations::record(tx, moment.now)?;
    let decided = Decided {
        moved: 0,
        offending: offending(&checked.report),
        sqlstate: Some("55000"),
        previous: Some(checked.input.assignment.clone()),
    };
    rescales::decide(tx, id, Outcome::Refused, &decided, moment.epoch, moment.now)?;
    Ok(Answer::Refused(Box::new(refusal)))
}

fn commit(tx: &Connection, moment: &Moment, id: RescaleId, Checked { input, report }: &Checked) -> Result<Answer> {
    let plan = &report.plan;
    write_actors(tx, input, report)?;
    failpoint::pass(FailPoint::ActorsWritten);
    write_assignment(tx, moment, id, input, report)?;
    failpoint::pass(FailPoint::AssignmentWritten);
    set_target(tx, input.source_id, &input.target.to_string())?;
    let decided = Decided { moved: plan.moves.len(), previous: Some(input.assignment.clone()), ..Decided::default() };
    rescales::decide(tx, id, Outcome::Committed, &decided, moment.epoch, moment.now)?;
    let info = json!({
        "rescale_id": id.0, "source": input.source_name, "from": plan.from_parallelism, "to": plan.to_parallelism,
        "moved_splits": plan.moves.len(),
    });
    relations::log_event(tx, moment.now, "RESCALE", &info)?;
    let warnings = report
        .conditions
        .iter()
        .filter(|condition| condition.name == "parallelism_within_splits" && condition.remedy.is_some())
        .map(|condition| condition.reason.clone())
        .collect();
    Ok(Answer::Rescaled(Rescaled::Committed { id, moved: plan.moves.len(), warnings }))
}

fn set_target(tx: &Connection, source: SourceId, target: &str) -> Result<()> {
    tx.execute("UPDATE sources SET parallelism = ?2 WHERE id = ?1", params![source.0, target])
        .context("writing the parallelism of a source")?;
    Ok(())
}

/// The source's actors and those paired with them come and go together, so that the pairing by position stays.
fn write_actors(tx: &Connection, input: &Input, report: &Report) -> Result<()> {
    let plan = &report.plan;
    let source_fragment: i32 = tx
        .query_row("SELECT id FROM fragments WHERE job_id = ?1", [input.source_id.0], |row| row.get(0))
        .context("reading a source")?;
    let actors: Vec<ActorId> = plan.new.keys().copied().collect();
    change_actors(tx, FragmentId(source_fragment), "source", &actors)?;
    for fragment in &plan.fragments {
        change_actors(tx, fragment.fragment_id, "source scan", &fragment.actors)?;
    }
    tx.execute("UPDATE meta SET next_actor_id = ?1", [plan.next_actor_id.0]).context("taking actor ids")?;
    Ok(())
}

fn write_assignment(tx: &Connection, moment: &Moment, id: RescaleId, input: &Input, report: &Report) -> Result<()> {
    let (plan, source) = (&report.plan, input.source_id);
    for moved in &plan.moves {
        tx.execute(
            "INSERT INTO split_assignment_history
               (source_id, source_name, split_id, actor_id, assigned_at, assigned_by, ended_at, ended_by)
             SELECT source_id, ?3, split_id, actor_id, assigned_at, assigned_by, ?4, ?5
             FROM split_assignments WHERE source_id = ?1 AND split_id = ?2",
            params![source.0, moved.split.as_str(), input.source_name, moment.now, id.0],
        )
        .context("keeping the history of an assignment")?;
        tx.execute(
            "INSERT INTO split_assignments (source_id, split_id, actor_id, assigned_at, assigned_by)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET actor_id = excluded.actor_id, assigned_at = excluded.assigned_at,
                                       assigned_by = excluded.assigned_by",
            params![source.0, moved.split.as_str(), moved.to.0, moment.now, id.0],
        )
        .context("writing an assignment")?;
    }
    Ok(())
}

/// The splits that stand in the way, for the history.
fn offending(report: &Report) -> Vec<Value> {
    report
        .offending()
        .map(|split| {
            json!({
                "job_name": &*split.job_name, "split_id": split.split.as_str(),
                "from_actor": split.from_actor.map(|actor| actor.0), "to_actor": split.to_actor.0,
                "verdict": split.verdict.to_string(), "decision": split.decision.to_string(),
                "state": split.state, "raw_state": split.raw_state, "remaining": split.remaining,
            })
        })
        .collect()
}

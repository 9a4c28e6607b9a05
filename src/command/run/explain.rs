//! `EXPLAIN ALTER SOURCE ... SET PARALLELISM`: the plan and every verdict, without doing anything.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::{Value, json};

use crate::backfill::check::{Decision, Policy, Report, check};
use crate::backfill::id::ActorId;
use crate::command::ast::{Alter, AlterAction, ObjectKind};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::check_input::{Surroundings, check_input};

/// One column, named as PostgreSQL's EXPLAIN names it.
pub fn schema(_json: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("QUERY PLAN", DataType::Utf8, false)]))
}

/// The dry run: the same check as the statement's, against the last committed checkpoint.
///
/// # Errors
/// When there is no such source, or the ALTER is of another kind.
pub fn explain(
    store: &Store,
    surroundings: &Surroundings,
    policy: Policy,
    json: bool,
    alter: &Alter,
) -> Result<RecordBatch> {
    if let AlterAction::Invalid(invalid) = &alter.action {
        return Err(invalid.clone().into());
    }
    let (ObjectKind::Source, AlterAction::Parallelism(rescale)) = (alter.kind, &alter.action) else {
        return Err(Error::FeatureNotSupported {
            what: "EXPLAIN of this ALTER".into(),
            hint: "It moves no splits. EXPLAIN ALTER SOURCE s SET PARALLELISM = n shows what a rescale would do."
                .into(),
        });
    };
    let input =
        store.snapshot()?.with(|connection| check_input(connection, &alter.name, rescale.target, surroundings))?;
    let report = check(&input, policy);
    let lines = if json {
        let text = serde_json::to_string_pretty(&[as_json(&report)])
            .map_err(|error| Error::Internal(format!("a report can't be written as JSON: {error}")))?;
        vec![text]
    } else {
        as_text(&report).lines().map(str::to_owned).collect()
    };
    RecordBatch::try_new(schema(json), vec![Arc::new(StringArray::from(lines))])
        .map_err(|error| Error::Internal(error.to_string()))
}

/// What the statement would do now.
fn outcome(report: &Report) -> &'static str {
    match report.decision() {
        _ if report.is_noop() => "nothing to do",
        Decision::Pass => "safe now",
        Decision::Wait => "not safe yet; DEFERRED would wait",
        Decision::Unknown => "cannot be told; DEFERRED would wait",
        Decision::Fail => "not safe; a person must act",
    }
}

fn as_text(report: &Report) -> String {
    let mut text = String::new();
    let plan = &report.plan;
    // Writing to a String can't fail.
    let _ = writeln!(
        text,
        "Rescale of source \"{}\" from {} to {} actors, policy {}: {}",
        report.source_name,
        plan.from_parallelism,
        plan.to_parallelism,
        report.policy,
        outcome(report)
    );
    let _ = writeln!(text, "  Moves of the source's actors: {}", plan.moves.len());
    for moved in &plan.moves {
        let _ = writeln!(text, "    split \"{}\": actor {} -> actor {}", moved.split, actor(moved.from), moved.to);
    }
    let _ = writeln!(text, "  Conditions:");
    for condition in &report.conditions {
        let _ = writeln!(text, "    {}: {} - {}", condition.name, condition.decision, condition.reason);
    }
    let mut job = None;
    for split in &report.splits {
        if job != Some(split.job_id) {
            let _ = writeln!(text, "  Splits of materialized view \"{}\" (its own actors):", split.job_name);
            job = Some(split.job_id);
        }
        let _ =
            writeln!(text, "    split \"{}\": {}, {} - {}", split.split, split.verdict, split.decision, split.reason());
    }
    text
}

fn actor(id: Option<ActorId>) -> String {
    id.map_or_else(|| "none".to_owned(), |id| id.to_string())
}

/// The report as one JSON object; `tidegate check --json` prints the same.
pub fn as_json(report: &Report) -> Value {
    let plan = &report.plan;
    json!({
        "source": report.source_name,
        "policy": report.policy.to_string(),
        "decision": report.decision().to_string(),
        "safe": report.decision() == Decision::Pass,
        "from_parallelism": plan.from_parallelism,
        "to_parallelism": plan.to_parallelism,
        "moves": plan.moves.iter().map(|moved| json!({
            "split_id": moved.split.as_str(), "from_actor": moved.from.map(|id| id.0), "to_actor": moved.to.0,
        })).collect::<Vec<_>>(),
        "conditions": report.conditions.iter().map(|condition| json!({
            "check_name": condition.name, "decision": condition.decision.to_string(),
            "reason": condition.reason, "remedy": condition.remedy,
        })).collect::<Vec<_>>(),
        "splits": report.splits.iter().map(|split| json!({
            "job_name": &*split.job_name, "split_id": split.split.as_str(),
            "from_actor": split.from_actor.map(|id| id.0), "to_actor": split.to_actor.0,
            "verdict": split.verdict.to_string(), "decision": split.decision.to_string(),
            "state": split.state, "remaining": split.remaining,
            "reason": split.reason(), "remedy": split.remedy(),
        })).collect::<Vec<_>>(),
    })
}

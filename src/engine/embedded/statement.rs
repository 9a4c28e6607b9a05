//! Statements that change what runs: applied inside the transaction of an aligned barrier, after that barrier's states.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use serde_json::json;

use super::connector::Watermarks;
use super::hooks::Hooks;
use super::rescale;
use crate::backfill::assignment::{Assignment, reassign};
use crate::backfill::id::{ActorId, Epoch, FragmentId, JobId, Offset, RescaleId, SourceId, SplitId};
use crate::backfill::state::BackfillStateWithProgress;
use crate::backfill::transition::on_contact;
use crate::engine::{CreateSource, CreateView, Rescale, Rescaled};
use crate::error::{Error, Result};
use crate::store::check_input::Surroundings;
use crate::store::relations::{self, NewRelation, RelationKind};
use crate::store::{Context, checkpoint, running, view_rows};

/// The splits that a connector found, with their watermarks or why they can't be read.
pub type Discovered = BTreeMap<SplitId, Result<Watermarks, String>>;

/// A statement with all that had to be found out before the barrier.
#[derive(Debug, Clone)]
pub enum Statement {
    /// CREATE SOURCE.
    CreateSource(CreateSource, Discovered),
    /// CREATE MATERIALIZED VIEW: its columns, and the sources that it reads with their splits.
    CreateView(CreateView, Vec<(String, String)>, BTreeMap<String, Discovered>),
    /// DROP.
    Drop(RelationKind, Vec<String>, bool),
    /// Splits that appeared at run time.
    NewSplits(SourceId, Discovered),
    /// ALTER SOURCE ... SET PARALLELISM.
    Rescale(Rescale),
    /// A deferred one whose time may have come.
    Deferred(RescaleId),
}

/// What came of a statement.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It is done.
    Done,
    /// The view's id.
    View(JobId),
    /// What became of a rescale.
    Rescaled(Rescaled),
    /// It is refused, and that is recorded.
    Refused(Box<crate::error::Refusal>),
    /// It can only be told at the next barrier.
    NotYet,
}

/// The moment at which statements are applied.
#[derive(Clone)]
pub struct Moment {
    /// The barrier's epoch.
    pub epoch: Epoch,
    /// In microseconds since 1970.
    pub now: i64,
    /// What the check needs to know of the engine.
    pub surroundings: Surroundings,
    /// A test's.
    pub hooks: Hooks,
}

/// Applies one statement; on an error the transaction is as it was before it.
///
/// # Errors
/// The statement's own, as its user sees it.
pub fn apply(tx: &Connection, moment: &Moment, statement: &Statement) -> Result<Answer> {
    tx.execute_batch("SAVEPOINT statement").context("starting a statement")?;
    let answer = match statement {
        Statement::CreateSource(request, splits) => create_source(tx, moment, request, splits),
        Statement::CreateView(request, columns, sources) => create_view(tx, moment, request, columns, sources),
        Statement::Drop(kind, names, cascade) => drop_relations(tx, moment, *kind, names, *cascade),
        Statement::NewSplits(source, splits) => new_splits(tx, moment, *source, splits),
        Statement::Rescale(request) => rescale::apply(tx, moment, request),
        Statement::Deferred(id) => rescale::apply_deferred(tx, moment, *id),
    };
    let end = if answer.is_ok() { "RELEASE statement" } else { "ROLLBACK TO statement; RELEASE statement" };
    tx.execute_batch(end).context("ending a statement")?;
    answer
}

fn create_source(tx: &Connection, moment: &Moment, request: &CreateSource, splits: &Discovered) -> Result<Answer> {
    let relation = NewRelation {
        name: request.name.clone(),
        kind: RelationKind::Source,
        owner: request.owner.clone(),
        definition: request.definition.clone(),
        columns: request.columns.clone(),
    };
    let id = relations::insert(tx, &relation, moment.now)?;
    tx.execute(
        "INSERT INTO sources (id, connector, options_json, parallelism, rate_limit) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            id,
            request.connector,
            json!(request.options).to_string(),
            request.parallelism.to_string(),
            request.rate_limit
        ],
    )
    .context("adding a source")?;
    let source = SourceId(id);
    let parallelism = request.parallelism.resolve(moment.surroundings.available);
    let actors = usize::try_from(parallelism).unwrap_or(usize::MAX);
    let (_, actors) = relations::insert_fragment(tx, id, source, "source", actors)?;
    for (split, marks) in splits {
        add_split(tx, moment, source, split, marks, false)?;
    }
    let empty: Assignment = actors.iter().map(|actor| (*actor, Default::default())).collect();
    assign_new(tx, moment, source, &empty, splits)?;
    relations::log_event(
        tx,
        moment.now,
        "CREATE_SOURCE",
        &json!({"name": request.name, "id": id, "splits": splits.len(), "parallelism": parallelism}),
    )?;
    Ok(Answer::Done)
}

/// Adds a split. The live stream of one that was there before its source starts behind its last row, as RisingWave's
/// does; of one that appeared later it carries every row.
fn add_split(
    tx: &Connection,
    moment: &Moment,
    source: SourceId,
    split: &SplitId,
    marks: &Result<Watermarks, String>,
    at_run_time: bool,
) -> Result<()> {
    let (marks, error) = match marks {
        Ok(marks) => (Some(marks), None),
        Err(error) => (None, Some(error)),
    };
    let latest = marks.and_then(|marks| marks.latest).map(|offset| offset.0);
    tx.execute(
        "INSERT INTO splits (source_id, split_id, upstream_offset, low_watermark, high_watermark, latest_offset,
                             first_seen_at, found_at_run_time, error, error_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, iif(?9 IS NULL, NULL, ?7))",
        params![
            source.0,
            split.as_str(),
            latest.filter(|_| !at_run_time),
            marks.map(|marks| marks.low.0),
            marks.map(|marks| marks.high.0),
            latest,
            moment.now,
            at_run_time,
            error,
        ],
    )
    .context("adding a split")?;
    Ok(())
}

/// Gives splits that nobody holds to the actors with the fewest.
fn assign_new(
    tx: &Connection,
    moment: &Moment,
    source: SourceId,
    current: &Assignment,
    new: &Discovered,
) -> Result<()> {
    let all = current.values().flatten().cloned().chain(new.keys().cloned()).collect();
    let Some(next) = reassign(current, &all) else { return Ok(()) };
    for (actor, splits) in &next {
        for split in splits.iter().filter(|split| new.contains_key(*split)) {
            tx.execute(
                "INSERT INTO split_assignments (source_id, split_id, actor_id, assigned_at) VALUES (?1, ?2, ?3, ?4)",
                params![source.0, split.as_str(), actor.0, moment.now],
            )
            .context("assigning a new split")?;
        }
    }
    Ok(())
}

fn new_splits(tx: &Connection, moment: &Moment, source: SourceId, splits: &Discovered) -> Result<Answer> {
    let known: bool = tx
        .query_row("SELECT EXISTS (SELECT 1 FROM sources WHERE id = ?1)", [source.0], |row| row.get(0))
        .context("looking up a source")?;
    if !known {
        // Dropped since they were found.
        return Ok(Answer::Done);
    }
    let row = running::source(tx, source)?;
    let new: Discovered = splits
        .iter()
        .filter(|(split, _)| !row.splits.contains_key(*split))
        .map(|(split, marks)| (split.clone(), marks.clone()))
        .collect();
    for (split, marks) in &new {
        add_split(tx, moment, source, split, marks, true)?;
        for scan in &row.scans {
            // A new partition: the live stream carries all of it. Its row is there from its first moment on, so that
            // a row that is missing can only be one that was lost.
            checkpoint::put_state(tx, moment.epoch, scan.fragment, split, &BackfillStateWithProgress::finished())?;
            checkpoint::start_progress(tx, moment.now, scan.fragment, split, None)?;
        }
    }
    assign_new(tx, moment, source, &row.assignment, &new)?;
    if !new.is_empty() {
        let names: Vec<&str> = new.keys().map(SplitId::as_str).collect();
        relations::log_event(tx, moment.now, "NEW_SPLITS", &json!({"source": row.name, "splits": names}))?;
    }
    Ok(Answer::Done)
}

fn create_view(
    tx: &Connection,
    moment: &Moment,
    request: &CreateView,
    columns: &[(String, String)],
    sources: &BTreeMap<String, Discovered>,
) -> Result<Answer> {
    let relation = NewRelation {
        name: request.name.clone(),
        kind: RelationKind::MaterializedView,
        owner: request.owner.clone(),
        definition: request.definition.clone(),
        columns: columns.to_vec(),
    };
    let id = relations::insert(tx, &relation, moment.now)?;
    let job = JobId(id);
    let mut ids = BTreeMap::new();
    for name in sources.keys() {
        ids.insert(name.clone(), SourceId(relations::get(tx, RelationKind::Source, name)?.id));
    }
    let order: Vec<(i32, i32)> =
        request.order.iter().filter_map(|(a, b)| Some((ids.get(a)?.0, ids.get(b)?.0))).collect();
    tx.execute(
        "INSERT INTO jobs (id, query, status, background, parallelism, rate_limit, order_json, started_at)
         VALUES (?1, ?2, 'creating', ?3, 'adaptive', ?4, ?5, ?6)",
        params![id, request.query, request.background, request.rate_limit, json!(order).to_string(), moment.now],
    )
    .context("adding a view")?;
    view_rows::create_table(tx, job, columns)?;
    for (name, discovered) in sources {
        add_scan(tx, moment, job, ids[name], discovered)?;
    }
    relations::log_event(tx, moment.now, "CREATE_MATERIALIZED_VIEW", &json!({"name": request.name, "id": id}))?;
    Ok(Answer::View(job))
}

/// Adds the fragment of a view that reads a source, with every split's first state.
fn add_scan(tx: &Connection, moment: &Moment, job: JobId, source: SourceId, discovered: &Discovered) -> Result<()> {
    let row = running::source(tx, source)?;
    let (fragment, _) = relations::insert_fragment(tx, job.0, source, "source scan", row.actors.len())?;
    for (split, passed) in &row.splits {
        let marks = discovered.get(split).and_then(|marks| marks.as_ref().ok());
        let state = first_state(marks, *passed);
        checkpoint::put_state(tx, moment.epoch, fragment, split, &state)?;
        checkpoint::start_progress(tx, moment.now, fragment, split, marks.map(|marks| marks.low))?;
    }
    Ok(())
}

/// First contact with a split. What the live stream has passed by this barrier counts as seen, whenever the connector
/// was asked: those rows won't come again, so the backfill has to bring them.
fn first_state(marks: Option<&Watermarks>, passed: Option<Offset>) -> BackfillStateWithProgress {
    let new = BackfillStateWithProgress::new();
    match (marks, passed) {
        // It can't be reached now. Its target comes with the first thing that upstream says of it.
        (None, None) => new,
        (None, Some(passed)) => on_contact(new, Some(passed)),
        (Some(marks), passed) => on_contact(new, marks.latest.max(passed)),
    }
}

fn drop_relations(
    tx: &Connection,
    moment: &Moment,
    kind: RelationKind,
    names: &[String],
    cascade: bool,
) -> Result<Answer> {
    for name in names {
        let relation = relations::get(tx, kind, name)?;
        if kind == RelationKind::Source {
            let views = relations::views_of(tx, SourceId(relation.id))?;
            if !views.is_empty() && !cascade {
                return Err(Error::DependentObjects {
                    object: format!("source \"{name}\""),
                    dependents: views
                        .iter()
                        .map(|view| format!("materialized view \"{view}\" depends on source \"{name}\""))
                        .collect(),
                });
            }
            drop_relations(tx, moment, RelationKind::MaterializedView, &views, false)?;
        }
        relations::drop_relation(tx, &relation, moment.now)?;
        let event = format!("DROP_{}", kind.as_str().replace(' ', "_").to_uppercase());
        relations::log_event(tx, moment.now, &event, &json!({"name": name, "id": relation.id}))?;
    }
    Ok(Answer::Done)
}

/// Makes a fragment's actors those given, in order. Positions stay dense, so that they pair by themselves.
///
/// # Errors
/// [`Error::Store`].
pub fn change_actors(tx: &Connection, fragment: FragmentId, kind: &str, actors: &[ActorId]) -> Result<()> {
    let before = running::actors(tx, fragment)?;
    for actor in before.iter().filter(|actor| !actors.contains(actor)) {
        tx.execute("DELETE FROM actors WHERE id = ?1", [actor.0]).context("removing an actor")?;
    }
    for (position, actor) in actors.iter().enumerate() {
        if before.contains(actor) {
            // Ascending, so the position is free: whoever had it has moved down already.
            tx.execute("UPDATE actors SET position = ?2 WHERE id = ?1", params![actor.0, position])
                .context("moving an actor")?;
        } else {
            relations::insert_actor(tx, *actor, fragment, position, kind)?;
        }
    }
    Ok(())
}

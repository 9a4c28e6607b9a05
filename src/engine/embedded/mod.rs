//! The embedded engine: a small shared-source engine in this process.
//!
//! - `coordinator`: sends barriers, commits checkpoints and statements; `statement` and `rescale` are what it runs
//!   inside a commit's transaction.
//! - `source_actor` reads the live stream of a source's splits; `scan_actor` reads their history for one view and takes
//!   the stream over. `topology` starts and stops them as the store says.
//! - `connector`: where rows come from. `view`: what becomes of them.
//! - `reports`, `scan`: what was reported since the last checkpoint, and what is known of every split.

mod asked;
mod claim;
pub mod columns;
pub mod connector;
mod coordinator;
#[cfg(feature = "hooks")]
pub mod hooks;
#[cfg(not(feature = "hooks"))]
mod hooks;
mod message;
mod pace;
mod reports;
mod request;
mod rescale;
mod scan;
mod scan_actor;
mod source_actor;
mod statement;
mod topology;
mod trouble;
pub mod view;
#[cfg(feature = "hooks")]
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement};
#[cfg(not(feature = "hooks"))]
use tokio::sync::watch;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::backfill::id::{Epoch, JobId, RescaleId};
use crate::backfill::target::Target;
use crate::clock;
use crate::command;
use crate::engine::{CreateSource, CreateView, Engine, RateLimit, Rescale, Rescaled};
use crate::error::{Error, Result, nearest};
use crate::store::relations::RelationKind;
use crate::store::rescales::{Asked, Outcome};
use crate::store::running::{self, ScanRow, SourceRow};
use crate::store::{Context, Durability, Store, checkpoint, relations, rescales};
use claim::Claim;
use connector::Connector;
use coordinator::Coordinator;
use hooks::Hooks;
use request::{RateChange, Request};
use statement::{Answer, Discovered, Statement};
use topology::Branches;
use trouble::Trouble;

/// What [`claim`] is made of. The tests compile it with another.
mod sync {
    pub use std::sync::atomic::{AtomicU8, Ordering};
}

/// How long the last checkpoint may take. An actor or a disk that never comes back must not keep the process.
const LAST_CHECKPOINT: Duration = Duration::from_secs(5);

/// How the engine runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Time between two barriers.
    pub barrier_interval: Duration,
    /// Actors that an adaptive parallelism resolves to.
    pub available_parallelism: u32,
}

/// A running embedded engine. Dropping it ends the engine as a crash would; [`Engine::shutdown`] ends it in order.
pub struct Embedded {
    store: Store,
    requests: mpsc::Sender<Request>,
    coordinator: AbortHandle,
    committed: watch::Receiver<Epoch>,
    trouble: watch::Receiver<Option<Trouble>>,
    hooks: Hooks,
}

impl Embedded {
    /// Starts the engine on a store: what was committed there runs on.
    pub fn start(store: Store, config: Config) -> Self {
        Self::with_hooks(store, config, Hooks::default())
    }

    /// Starts it with a test's hooks.
    #[cfg(feature = "hooks")]
    pub fn start_with(store: Store, config: Config, hooks: Hooks) -> Self {
        Self::with_hooks(store, config, hooks)
    }

    fn with_hooks(store: Store, config: Config, hooks: Hooks) -> Self {
        let (requests, queue) = mpsc::channel(64);
        let (committed, watched) = watch::channel(Epoch(0));
        let (troubled, trouble) = watch::channel(None);
        let coordinator = Coordinator::new(store.clone(), config, queue, committed, troubled, hooks.clone());
        let coordinator = tokio::spawn(coordinator.run()).abort_handle();
        Self { store, requests, coordinator, committed: watched, trouble, hooks }
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| Error::ShuttingDown)?;
        answer.await.map_err(|_| self.unanswered())
    }

    /// Why no answer comes: the engine has ended, or has failed in the middle of it.
    fn unanswered(&self) -> Error {
        if self.requests.is_closed() {
            return Error::ShuttingDown;
        }
        let detail = "The engine failed over the statement, which may be done or not.";
        Error::Recovering { detail: detail.into() }
    }

    /// Has a statement applied at the next barrier, unless it is cancelled before.
    async fn run(&self, statement: Statement, cancel: &CancellationToken) -> Result<Answer> {
        let claim = Arc::new(Claim::default());
        let (reply, mut answer) = oneshot::channel();
        let request = Request::Statement { statement, claim: Arc::clone(&claim), reply };
        self.requests.send(request).await.map_err(|_| Error::ShuttingDown)?;
        let cancelled = tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|_| self.unanswered())?,
            () = cancel.cancelled() => claim.withdraw(),
        };
        if cancelled {
            return Err(Error::Canceled);
        }
        // It is being committed at this moment: what became of it must be told.
        answer.await.map_err(|_| self.unanswered())?
    }

    /// Waits until `done` holds at a checkpoint.
    async fn until(
        &self,
        cancel: &CancellationToken,
        done: impl Fn(&rusqlite::Connection) -> Result<bool>,
    ) -> Result<()> {
        let mut committed = self.committed.clone();
        loop {
            committed.borrow_and_update();
            if self.store.snapshot()?.with(&done)? {
                return Ok(());
            }
            tokio::select! {
                biased;
                changed = committed.changed() => changed.map_err(|_| Error::ShuttingDown)?,
                () = cancel.cancelled() => return Err(Error::Canceled),
            }
        }
    }

    /// A relation that isn't a source may be a view, which is another mistake.
    fn name_view(&self, error: Error) -> Error {
        let Error::UndefinedRelation { name, .. } = &error else { return error };
        match self.store.snapshot().and_then(|snapshot| snapshot.with(|connection| relations::find(connection, name))) {
            Ok(Some(relation)) if relation.kind == RelationKind::MaterializedView => Error::WrongObjectType {
                name: relation.name,
                expected: "source",
                hint: "A materialized view can't read another one: select from its sources.".into(),
            },
            _ => error,
        }
    }

    /// Plans a view's query and asks the connectors of its sources for their splits.
    async fn prepare_view(&self, request: &CreateView) -> Result<Statement> {
        let rows = self.store.snapshot()?.with(running::sources)?;
        let planned = view::plan(&parse_query(&request.query)?, &schemas(&rows));
        let plan = planned.map_err(|error| self.name_view(error))?;
        // Not where views are read back at a start: one that was made once is kept.
        plan.refuse_hopeless()?;
        for (name, _) in &plan.columns {
            if crate::store::view_rows::RESERVED.contains(&name.to_lowercase().as_str()) {
                return Err(Error::Semantics {
                    sqlstate: "42939",
                    message: format!("column name \"{name}\" is reserved"),
                });
            }
            let alike = |(other, _): &&(String, String)| other.eq_ignore_ascii_case(name);
            if plan.columns.iter().filter(alike).count() > 1 {
                // SQLite, which holds the rows, folds case.
                return Err(Error::Semantics {
                    sqlstate: "42701",
                    message: format!("column \"{name}\" is specified more than once, case aside"),
                });
            }
        }
        let mut sources = BTreeMap::new();
        for branch in &plan.branches {
            let Some(row) = rows.iter().find(|row| row.name == branch.source) else { continue };
            if !sources.contains_key(&row.name) {
                let discovered = build_connector(row, &self.hooks)?.discover().await?;
                sources.insert(row.name.clone(), discovered);
            }
        }
        check_order(request, &sources)?;
        Ok(Statement::CreateView(request.clone(), plan.columns, sources))
    }
}

#[async_trait]
impl Engine for Embedded {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn trouble(&self) -> Option<String> {
        if self.trouble.has_changed().is_err() {
            return Some("the engine has ended".into());
        }
        self.trouble.borrow().as_ref().map(|trouble| trouble.detail.clone())
    }

    async fn create_source(&self, mut request: CreateSource, cancel: &CancellationToken) -> Result<()> {
        let now = clock::now_micros();
        let connector = match self.hooks.connector(&request.name) {
            Some(connector) => connector,
            None => connector::build(&connector::SourceSpec {
                connector: &request.connector,
                options: &request.options,
                schema: columns::schema(&request.columns)?,
                format: &request.format,
                name: &request.name,
                created_at_micros: now,
            })?,
        };
        if let Some(limit) = connector::source_rate_limit(&request.options)? {
            request.rate_limit = Some(limit);
        }
        let splits = tokio::select! {
            biased;
            splits = connector.discover() => splits?,
            () = cancel.cancelled() => return Err(Error::Canceled),
        };
        self.run(Statement::CreateSource(request, splits), cancel).await.map(|_| ())
    }

    async fn create_view(&self, request: CreateView, cancel: &CancellationToken) -> Result<()> {
        let statement = tokio::select! {
            biased;
            statement = self.prepare_view(&request) => statement?,
            () = cancel.cancelled() => return Err(Error::Canceled),
        };
        let Answer::View(job) = self.run(statement, cancel).await? else {
            return Err(Error::Internal("a view was made without an id".into()));
        };
        if request.background {
            return Ok(());
        }
        let name = request.name;
        let created = self.until(cancel, |connection| Ok(!checkpoint::creating(connection, Some(job))?)).await;
        if let Err(Error::Canceled) = created {
            // As in RisingWave: who cancels a CREATE in the foreground doesn't want the view.
            let drop = Statement::Drop(RelationKind::MaterializedView, vec![name.clone()], false);
            self.run(drop, &CancellationToken::new()).await?;
        }
        created?;
        match self.store.snapshot()?.with(|connection| relations::find(connection, &name))? {
            Some(relation) if relation.id == job.0 => Ok(()),
            _ => Err(Error::Semantics {
                sqlstate: "42P01",
                message: format!("materialized view \"{name}\" was dropped while it was being created"),
            }),
        }
    }

    async fn drop_relations(
        &self,
        kind: RelationKind,
        names: Vec<String>,
        cascade: bool,
        cancel: &CancellationToken,
    ) -> Result<()> {
        self.run(Statement::Drop(kind, names, cascade), cancel).await.map(|_| ())
    }

    async fn rescale(&self, request: Rescale, cancel: &CancellationToken) -> Result<Rescaled> {
        match self.run(Statement::Rescale(request), cancel).await? {
            Answer::Rescaled(rescaled) => Ok(rescaled),
            Answer::Refused(refusal) => Err(Error::UnsafeRescale(refusal)),
            other => Err(Error::Internal(format!("a rescale was answered with {other:?}"))),
        }
    }

    async fn cancel_rescale(&self, id: RescaleId, user: &str) -> Result<()> {
        crate::failpoint::arm();
        let user = user.to_owned();
        self.store.write(Durability::Full, move |tx| rescales::cancel(tx, id, &user, clock::now_micros())).await
    }

    async fn set_view_parallelism(&self, view: &str, target: Target, asked: Asked) -> Result<()> {
        crate::failpoint::arm();
        let view = view.to_owned();
        self.store.write(Durability::Full, move |tx| set_view_parallelism(tx, &view, target, asked)).await
    }

    async fn set_rate_limit(
        &self,
        kind: RelationKind,
        name: &str,
        which: RateLimit,
        limit: Option<u32>,
        asked: Asked,
    ) -> Result<()> {
        crate::failpoint::arm();
        let change = RateChange { kind, name: name.to_owned(), which, limit, asked };
        self.ask(|reply| Request::RateLimit(change, reply)).await?
    }

    async fn flush(&self, cancel: &CancellationToken) -> Result<Epoch> {
        tokio::select! {
            biased;
            epoch = self.ask(Request::Flush) => epoch?,
            () = cancel.cancelled() => Err(Error::Canceled),
        }
    }

    async fn wait(&self, cancel: &CancellationToken) -> Result<()> {
        self.until(cancel, |connection| Ok(!checkpoint::creating(connection, None)?)).await
    }

    async fn recover(&self) -> Result<()> {
        self.ask(Request::Recover).await?
    }

    async fn shutdown(&self) {
        tokio::select! {
            biased;
            _ = self.ask(Request::Shutdown) => {}
            () = clock::sleep_until(clock::now() + LAST_CHECKPOINT) => {
                warn!("the last checkpoint is not done in time; the next start goes on from the one before");
                self.coordinator.abort();
            }
        }
    }
}

fn set_view_parallelism(tx: &rusqlite::Connection, view: &str, target: Target, asked: Asked) -> Result<()> {
    let relation = relations::get(tx, RelationKind::MaterializedView, view)?;
    let in_foreground: bool = tx
        .query_row("SELECT status = 'creating' AND NOT background FROM jobs WHERE id = ?1", [relation.id], |row| {
            row.get(0)
        })
        .context("reading a view")?;
    if in_foreground {
        return Err(Error::ObjectInUse {
            object: format!("materialized view \"{view}\""),
            doing: "being created in the foreground",
            since: clock::display(relation.created_at),
        });
    }
    tx.execute("UPDATE jobs SET parallelism = ?2 WHERE id = ?1", rusqlite::params![relation.id, target.to_string()])
        .context("writing the parallelism of a view")?;
    asked.note(tx, Some(relation.id), &relation.name, Outcome::Committed, None)
}

/// The SELECT of a view, from its text.
fn parse_query(text: &str) -> Result<Query> {
    match command::parse(text)?.into_iter().next().map(|parsed| parsed.statement) {
        Some(command::ast::Statement::Query(query)) => match *query {
            SqlStatement::Query(query) => Ok(*query),
            _ => Err(Error::Internal(format!("a view's query is no SELECT: {text}"))),
        },
        _ => Err(Error::Internal(format!("a view's query is no query: {text}"))),
    }
}

/// The Arrow schemas of sources, by name.
fn schemas(rows: &[SourceRow]) -> BTreeMap<String, datafusion::arrow::datatypes::SchemaRef> {
    rows.iter().filter_map(|row| Some((row.name.clone(), columns::schema(&row.columns).ok()?))).collect()
}

fn build_connector(row: &SourceRow, hooks: &Hooks) -> Result<Arc<dyn Connector>> {
    if let Some(connector) = hooks.connector(&row.name) {
        return Ok(connector);
    }
    let connector = connector::build(&connector::SourceSpec {
        connector: &row.connector,
        options: &row.options,
        schema: columns::schema(&row.columns)?,
        format: &row.format,
        name: &row.name,
        created_at_micros: row.created_at,
    })?;
    connector.remember(&row.memories);
    Ok(connector)
}

/// Compiles the queries of views that aren't yet, and forgets those of views that are gone.
fn compile_views(rows: &[SourceRow], branches: &mut Branches) {
    let scans: Vec<(&SourceRow, &ScanRow)> =
        rows.iter().flat_map(|row| row.scans.iter().map(move |scan| (row, scan))).collect();
    branches.retain(|(job, source), _| scans.iter().any(|(row, scan)| scan.job == *job && row.id == *source));
    let schemas = schemas(rows);
    for (row, scan) in scans {
        if branches.contains_key(&(scan.job, row.id)) {
            continue;
        }
        match parse_query(&scan.query).and_then(|query| view::plan(&query, &schemas)) {
            Ok(plan) => add_branches(rows, scan.job, plan, branches),
            Err(error) => error!(view = scan.job_name, %error, "a view's query can't be planned; the view rests"),
        }
    }
}

fn add_branches(rows: &[SourceRow], job: JobId, plan: view::ViewPlan, branches: &mut Branches) {
    let mut by_source: BTreeMap<String, Vec<view::Branch>> = BTreeMap::new();
    for branch in plan.branches {
        by_source.entry(branch.source.clone()).or_default().push(branch);
    }
    for row in rows {
        if let Some(own) = by_source.remove(&row.name) {
            branches.insert((job, row.id), Arc::new(own));
        }
    }
}

/// A backfill_order names only sources of the view, and has no cycle.
fn check_order(request: &CreateView, sources: &BTreeMap<String, Discovered>) -> Result<()> {
    for name in request.order.iter().flat_map(|(before, after)| [before, after]) {
        if !sources.contains_key(name) {
            let near = nearest(name, sources.keys().map(String::as_str));
            let hint = near.map_or_else(
                || format!("It reads: {}.", sources.keys().cloned().collect::<Vec<_>>().join(", ")),
                |near| format!("Perhaps you meant \"{near}\"."),
            );
            let message =
                format!("backfill_order names \"{name}\", which materialized view \"{}\" does not read", request.name);
            return Err(Error::BackfillOrder { message, hint });
        }
    }
    match cycle(&request.order) {
        None => Ok(()),
        Some(cycle) => Err(Error::BackfillOrder {
            message: format!("backfill_order has a cycle: {}", cycle.join(" -> ")),
            hint: "Leave out one of its arrows.".into(),
        }),
    }
}

/// A cycle among pairs of names, first name again at its end.
fn cycle(order: &[(String, String)]) -> Option<Vec<String>> {
    fn walk(order: &[(String, String)], path: &mut Vec<String>, done: &mut Vec<String>) -> Option<Vec<String>> {
        let here = path.last()?.clone();
        for (_, next) in order.iter().filter(|(before, _)| *before == here) {
            if let Some(start) = path.iter().position(|name| name == next) {
                let mut cycle = path[start..].to_vec();
                cycle.push(next.clone());
                return Some(cycle);
            }
            if !done.contains(next) {
                path.push(next.clone());
                if let Some(cycle) = walk(order, path, done) {
                    return Some(cycle);
                }
                path.pop();
            }
        }
        done.push(here);
        None
    }
    let mut done = Vec::new();
    order.iter().find_map(|(start, _)| walk(order, &mut vec![start.clone()], &mut done))
}

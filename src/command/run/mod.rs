//! Running the statements that are ours: from their syntax to the [`Engine`], and back to what a client is told.

mod allowed;
pub mod explain;
mod grants;
mod history;
mod roles;
mod show;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use tokio::time::timeout;

use super::ast::{self, Alter, AlterAction, Command, ObjectKind};
use crate::backfill::check::Policy;
use crate::backfill::id::{RescaleId, SourceId};
use crate::backfill::target::Target;
use crate::catalog;
use crate::engine::{CreateSource, CreateView, Engine, RateLimit, Rescale, Rescaled};
use crate::error::{Error, Result};
use crate::secret::Options;
use crate::store::Store;
use crate::store::check_input::Surroundings;
use crate::store::relations::{self, RelationKind};
use crate::wire::{Caller, CommandRunner, Notice, Outcome, Registry};

/// Runs commands on an engine.
pub struct Runner {
    engine: Arc<dyn Engine>,
    store: Store,
    surroundings: Arc<dyn Fn() -> Surroundings + Send + Sync>,
    /// Counts what was made and dropped: plans made before are of no use after.
    version: Arc<AtomicU64>,
    /// The sessions: those of a user that is dropped end.
    sessions: Arc<Registry>,
    /// Others than this machine can connect.
    beyond_loopback: bool,
}

impl Runner {
    /// A runner. `surroundings` tells what a dry run needs to know of the engine; `version` is counted up whenever a
    /// relation is made or dropped, or somebody may do something else than before; `beyond_loopback` tells whether
    /// everybody needs a password.
    pub fn new(
        engine: Arc<dyn Engine>,
        store: Store,
        surroundings: Arc<dyn Fn() -> Surroundings + Send + Sync>,
        version: Arc<AtomicU64>,
        sessions: Arc<Registry>,
        beyond_loopback: bool,
    ) -> Self {
        Self { engine, store, surroundings, version, sessions, beyond_loopback }
    }

    fn exists(&self, kind: RelationKind, name: &str) -> Result<bool> {
        match self.store.snapshot()?.with(|connection| relations::find(connection, name))? {
            Some(relation) if relation.kind == kind => Ok(true),
            Some(relation) => Err(Error::DuplicateRelation { kind: relation.kind.as_str(), name: name.to_owned() }),
            None => Ok(false),
        }
    }

    async fn create_source(&self, caller: &Caller, source: ast::CreateSource) -> Result<Outcome> {
        refuse_own_name(&source.name)?;
        if source.if_not_exists && self.exists(RelationKind::Source, &source.name)? {
            return Ok(skipped("CREATE SOURCE", &source.name));
        }
        let mut options: BTreeMap<String, String> = source.options.into_iter().collect();
        let Some(connector) = options.remove("connector") else {
            return Err(Error::MissingOption { name: "connector", of: "CREATE SOURCE".into() });
        };
        let request = CreateSource {
            name: source.name,
            owner: caller.user.clone(),
            definition: source.definition,
            connector,
            options: Options(options),
            format: source.format,
            columns: source
                .columns
                .into_iter()
                .map(|column| (column.name, short_name(column.data_type).into()))
                .collect(),
            parallelism: caller
                .settings
                .streaming_parallelism()
                .and_then(NonZeroU32::new)
                .map_or(Target::Adaptive, Target::Fixed),
            rate_limit: caller.settings.source_rate_limit(),
        };
        let name = request.name.clone();
        let created = self.engine.create_source(request, &caller.cancel).await;
        self.changed();
        match created {
            // Somebody was quicker.
            Err(Error::DuplicateRelation { .. })
                if source.if_not_exists && self.exists(RelationKind::Source, &name)? =>
            {
                Ok(skipped("CREATE SOURCE", &name))
            }
            created => created.map(|()| done("CREATE SOURCE")),
        }
    }

    async fn create_view(&self, caller: &Caller, view: ast::CreateView) -> Result<Outcome> {
        refuse_own_name(&view.name)?;
        if view.if_not_exists && self.exists(RelationKind::MaterializedView, &view.name)? {
            return Ok(skipped("CREATE MATERIALIZED VIEW", &view.name));
        }
        let rate_limit = match view.backfill_rate_limit {
            Some(limit) => rows_per_second(limit),
            None => caller.settings.backfill_rate_limit(),
        };
        let request = CreateView {
            name: view.name,
            owner: caller.user.clone(),
            definition: view.definition,
            query: view.query_text,
            rate_limit,
            order: view.backfill_order,
            background: caller.settings.background_ddl(),
        };
        let name = request.name.clone();
        let created = self.engine.create_view(request, &caller.cancel).await;
        self.changed();
        match created {
            Err(Error::DuplicateRelation { .. })
                if view.if_not_exists && self.exists(RelationKind::MaterializedView, &name)? =>
            {
                Ok(skipped("CREATE MATERIALIZED VIEW", &name))
            }
            created => created.map(|()| done("CREATE MATERIALIZED VIEW")),
        }
    }

    async fn drop(&self, caller: &Caller, drop: ast::Drop) -> Result<Outcome> {
        let kind = relation_kind(drop.kind);
        let skipping = |what: String| Notice::notice(format!("{what}, skipping"));
        let mut notices: Vec<Notice> = drop.absent.into_iter().map(skipping).collect();
        let mut names = Vec::new();
        for name in drop.names {
            if drop.if_exists && self.store.snapshot()?.with(|connection| relations::find(connection, &name))?.is_none()
            {
                notices.push(skipping(format!("{} \"{name}\" does not exist", drop.kind)));
            } else {
                names.push(name);
            }
        }
        if drop.cascade && kind == RelationKind::Source {
            notices.extend(self.cascades(&names)?);
        }
        if !names.is_empty() {
            self.engine.drop_relations(kind, names, drop.cascade, &caller.cancel).await?;
            self.changed();
        }
        let tag = format!("DROP {}", kind.as_str().to_uppercase());
        Ok(Outcome::Done { tag, notices })
    }

    /// What goes with the sources that are dropped.
    fn cascades(&self, names: &[String]) -> Result<Vec<Notice>> {
        let snapshot = self.store.snapshot()?;
        let mut notices = Vec::new();
        for name in names {
            let views = snapshot.with(|connection| {
                let source = relations::get(connection, RelationKind::Source, name)?;
                relations::views_of(connection, SourceId(source.id))
            })?;
            let cascade = |view| Notice::notice(format!("drop cascades to materialized view {view}"));
            notices.extend(views.into_iter().map(cascade));
        }
        Ok(notices)
    }

    /// What becomes of an ALTER is in the history, by whoever decided it.
    async fn alter(&self, caller: &Caller, alter: Alter) -> Result<Outcome> {
        let tag = format!("ALTER {}", relation_kind(alter.kind).as_str().to_uppercase());
        match self.change(caller, &alter).await {
            Ok(notices) => Ok(Outcome::Done { tag, notices }),
            Err(error) => {
                if !matches!(error, Error::UnsafeRescale(_)) {
                    self.record(caller, &alter, &error).await;
                }
                Err(error)
            }
        }
    }

    /// The notices, and whether the engine has written the history's line.
    async fn change(&self, caller: &Caller, alter: &Alter) -> Result<Vec<Notice>> {
        let (kind, asked) = (relation_kind(alter.kind), history::asked(caller, alter));
        let notices = match &alter.action {
            AlterAction::Parallelism(rescale) if alter.kind == ObjectKind::Source => {
                return self.rescale(caller, alter, rescale).await;
            }
            AlterAction::Parallelism(rescale) => {
                self.engine.set_view_parallelism(&alter.name, rescale.target, asked).await?;
                vec![paired_notice(&alter.name)]
            }
            AlterAction::BackfillParallelism(_) => return Err(self.no_backfill_parallelism(alter)),
            AlterAction::SourceRateLimit(limit) => {
                self.engine
                    .set_rate_limit(kind, &alter.name, RateLimit::Source, rows_per_second(*limit), asked)
                    .await?;
                Vec::new()
            }
            AlterAction::BackfillRateLimit(limit) => {
                self.engine
                    .set_rate_limit(kind, &alter.name, RateLimit::Backfill, rows_per_second(*limit), asked)
                    .await?;
                Vec::new()
            }
            AlterAction::Owner(to) => {
                self.give(&caller.user, kind, &alter.name, to, asked).await?;
                Vec::new()
            }
            AlterAction::Invalid(invalid) => return Err(invalid.clone().into()),
        };
        Ok(notices)
    }

    /// No object of the embedded engine has a backfill parallelism of its own.
    fn no_backfill_parallelism(&self, alter: &Alter) -> Error {
        let found = self.store.snapshot().and_then(|snapshot| {
            snapshot.with(|connection| relations::get(connection, relation_kind(alter.kind), &alter.name))
        });
        match found {
            Err(error) => error,
            Ok(_) => Error::WrongObjectType {
                name: alter.name.clone(),
                expected: "job with a backfill parallelism of its own",
                hint: "Backfill actors are paired one to one with the actors of their source: use ALTER SOURCE s SET \
                       PARALLELISM."
                    .into(),
            },
        }
    }

    async fn rescale(&self, caller: &Caller, alter: &Alter, rescale: &ast::Rescale) -> Result<Vec<Notice>> {
        let limit = caller.settings.rescale_timeout();
        let request = Rescale {
            source: alter.name.clone(),
            target: rescale.target,
            policy: policy(caller)?,
            deferred: rescale.deferred,
            statement: alter.text.clone(),
            requested_by: caller.user.clone(),
            application_name: caller.application_name.clone(),
        };
        let withdraw = caller.cancel.child_token();
        let mut running = pin!(self.engine.rescale(request, &withdraw));
        // 0 is no limit, as in PostgreSQL's timeouts.
        let limit = if limit.is_zero() { Duration::MAX } else { limit };
        let rescaled = match timeout(limit, &mut running).await {
            Ok(rescaled) => rescaled,
            Err(_) => {
                withdraw.cancel();
                // If it is being committed at this moment, that is the answer.
                running.await.map_err(|error| match error {
                    Error::Canceled => Error::BarrierTimeout {
                        setting: "rescale_timeout",
                        limit: format!("{limit:?}"),
                        waiting_for: "The statement's barrier did not complete in time; nothing was changed.".into(),
                    },
                    other => other,
                })
            }
        }?;
        Ok(told(&alter.name, rescaled))
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

/// The session's policy.
fn policy(caller: &Caller) -> Result<Policy> {
    let name = caller.settings.rescale_policy();
    name.parse().map_err(|allowed| Error::InvalidValue {
        what: "parameter \"rescale_policy\"".into(),
        value: name.clone(),
        allowed,
    })
}

/// What a client is told of a rescale.
fn told(source: &str, rescaled: Rescaled) -> Vec<Notice> {
    match rescaled {
        Rescaled::Unchanged { parallelism, pending } => vec![Notice {
            detail: pending.map(|id| format!("Rescale {id} of it is still to come.")),
            hint: pending.map(|id| format!("CANCEL RESCALE {id} withdraws that.")),
            ..Notice::notice(format!(
                "source \"{source}\" has {parallelism} {} already, nothing was moved",
                if parallelism == 1 { "actor" } else { "actors" }
            ))
        }],
        Rescaled::Committed { id, moved, warnings } => {
            let mut notices: Vec<Notice> = warnings
                .into_iter()
                .map(|warning| Notice::warning("01000", warning.trim_start_matches("Warning: ")))
                .collect();
            notices.push(Notice {
                detail: Some(format!(
                    "{moved} {} moved; tidegate.rescale_history has the line {id}.",
                    if moved == 1 { "split" } else { "splits" }
                )),
                ..Notice::notice(format!("rescale {id} of source \"{source}\" is committed"))
            });
            notices
        }
        Rescaled::Deferred { id, waiting_for } => vec![Notice {
            detail: Some(waiting_for.join("\n")),
            hint: Some(format!(
                "SELECT * FROM tidegate.pending_rescales shows what it waits for; CANCEL RESCALE {id} withdraws it."
            )),
            ..Notice::notice(format!("rescale {id} of source \"{source}\" is deferred until it is safe"))
        }],
    }
}

/// Who makes a source or view could else have others read it in place of what they mean.
fn refuse_own_name(name: &str) -> Result<()> {
    let Some(schema) = catalog::schema_of_own(name) else { return Ok(()) };
    Err(Error::Privilege {
        message: format!("permission denied to create \"{name}\""),
        detail: format!("The server's own {schema}.{name} would no longer be found by its name alone."),
        hint: "Choose another name.".into(),
    })
}

fn paired_notice(view: &str) -> Notice {
    Notice {
        hint: Some("ALTER SOURCE s SET PARALLELISM moves a source's actors and those paired with them.".into()),
        ..Notice::notice(format!(
            "the source scans of materialized view \"{view}\" stay paired with the actors of their sources"
        ))
    }
}

fn done(tag: &str) -> Outcome {
    Outcome::Done { tag: tag.into(), notices: Vec::new() }
}

fn skipped(tag: &str, name: &str) -> Outcome {
    let notice =
        Notice { sqlstate: "42P07", ..Notice::notice(format!("relation \"{name}\" already exists, skipping")) };
    Outcome::Done { tag: tag.into(), notices: vec![notice] }
}

fn relation_kind(kind: ObjectKind) -> RelationKind {
    match kind {
        ObjectKind::Source => RelationKind::Source,
        ObjectKind::MaterializedView => RelationKind::MaterializedView,
    }
}

fn rows_per_second(limit: ast::RateLimit) -> Option<u32> {
    match limit {
        ast::RateLimit::Unlimited => None,
        ast::RateLimit::RowsPerSecond(rows) => Some(rows),
    }
}

/// PostgreSQL's short name of a column's type, as the store holds it.
fn short_name(column: ast::ColumnType) -> &'static str {
    match column {
        ast::ColumnType::Boolean => "bool",
        ast::ColumnType::SmallInt => "int2",
        ast::ColumnType::Integer => "int4",
        ast::ColumnType::BigInt => "int8",
        ast::ColumnType::Real => "float4",
        ast::ColumnType::DoublePrecision => "float8",
        ast::ColumnType::Numeric => "numeric",
        ast::ColumnType::Varchar => "text",
        ast::ColumnType::Date => "date",
        ast::ColumnType::Timestamp => "timestamp",
        ast::ColumnType::Timestamptz => "timestamptz",
        ast::ColumnType::Jsonb => "jsonb",
        ast::ColumnType::Bytea => "bytea",
    }
}

#[async_trait]
impl CommandRunner for Runner {
    fn describe(&self, command: &Command) -> Option<SchemaRef> {
        match command {
            Command::Explain { json, .. } => Some(explain::schema(*json)),
            Command::Show(what) => Some(show::schema(what)),
            Command::CreateSource(_)
            | Command::CreateView(_)
            | Command::Drop(_)
            | Command::Alter(_)
            | Command::CancelRescale(_)
            | Command::Wait
            | Command::Flush
            | Command::Recover
            | Command::Role(_) => None,
        }
    }

    async fn refused(&self, caller: &Caller, command: &Command, error: &Error) {
        if let Command::Alter(alter) = command {
            self.record(caller, alter, error).await;
        }
    }

    async fn run(&self, caller: &Caller, _text: &str, command: Command) -> Result<Outcome> {
        if let Err(refused) = allowed::check(&self.store, &caller.user, &command) {
            self.refused(caller, &command, &refused).await;
            return Err(refused);
        }
        match command {
            Command::CreateSource(source) => self.create_source(caller, source).await,
            Command::CreateView(view) => self.create_view(caller, view).await,
            Command::Drop(drop) => self.drop(caller, drop).await,
            Command::Alter(alter) => self.alter(caller, alter).await,
            Command::Role(role) => self.role(caller, role).await,
            Command::Explain { json, alter } => {
                let policy = policy(caller)?;
                let rows = explain::explain(&self.store, &(self.surroundings)(), policy, json, &alter)?;
                let notices = allowed::only_looking(&self.store, &caller.user, &alter)?.into_iter().collect();
                Ok(Outcome::Rows { rows, tag: "EXPLAIN".into(), notices })
            }
            Command::CancelRescale(id) => {
                self.engine.cancel_rescale(RescaleId(id), &caller.user).await?;
                Ok(done("CANCEL RESCALE"))
            }
            Command::Wait => self.engine.wait(&caller.cancel).await.map(|()| done("WAIT")),
            Command::Flush => self.engine.flush(&caller.cancel).await.map(|_| done("FLUSH")),
            Command::Recover => self.engine.recover().await.map(|()| done("RECOVER")),
            Command::Show(what) => {
                let rows = show::rows(&self.store, &what)?;
                Ok(Outcome::Rows { rows, tag: "SHOW".into(), notices: Vec::new() })
            }
        }
    }
}

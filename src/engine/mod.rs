//! Engines: what runs sources and views and commits their rescales.
//!
//! [`Engine`] is the seam between the two: nothing outside this module knows which one runs. Reading is not part of it:
//! whatever an engine knows it writes to the [`Store`](crate::store::Store), where the catalog and the check find it.

pub mod embedded;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::backfill::check::Policy;
use crate::backfill::id::{Epoch, RescaleId};
use crate::backfill::target::Target;
use crate::error::Result;
use crate::secret::Options;
use crate::store::format::MessageFormat;
use crate::store::relations::RelationKind;
use crate::store::rescales::Asked;

/// The highest rate limit: `rw_rate_limit.rate_limit` is an int, as in RisingWave.
pub const MAX_RATE_LIMIT: u32 = i32::MAX.unsigned_abs();

/// A source to make.
#[derive(Debug, Clone)]
pub struct CreateSource {
    /// Its name.
    pub name: String,
    /// Who makes it.
    pub owner: String,
    /// The statement as written, without its secrets.
    pub definition: String,
    /// The connector's name.
    pub connector: String,
    /// The other options of WITH.
    pub options: Options,
    /// Names and PostgreSQL types of its columns.
    pub columns: Vec<(String, String)>,
    /// How its messages become rows.
    pub format: MessageFormat,
    /// How many actors.
    pub parallelism: Target,
    /// The session's source_rate_limit, where WITH doesn't name one.
    pub rate_limit: Option<u32>,
}

/// A materialized view to make.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// Its name.
    pub name: String,
    /// Who makes it.
    pub owner: String,
    /// The statement, as written.
    pub definition: String,
    /// The SELECT.
    pub query: String,
    /// Backfill rows a second and actor; 0: paused.
    pub rate_limit: Option<u32>,
    /// `backfill_order`: pairs of source names, the first before the second.
    pub order: Vec<(String, String)>,
    /// Return at once rather than when it is created.
    pub background: bool,
}

/// A change of a source's parallelism.
#[derive(Debug, Clone)]
pub struct Rescale {
    /// The source's name.
    pub source: String,
    /// What is asked for.
    pub target: Target,
    /// What must hold.
    pub policy: Policy,
    /// Wait until it is safe rather than fail.
    pub deferred: bool,
    /// The statement, as written.
    pub statement: String,
    /// The user.
    pub requested_by: String,
    /// The client's `application_name`.
    pub application_name: String,
}

/// What became of a rescale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rescaled {
    /// The new assignment is in force.
    Committed {
        /// Its line of the history.
        id: RescaleId,
        /// Splits that moved.
        moved: usize,
        /// Things to know that don't stand in the way.
        warnings: Vec<String>,
    },
    /// The source has that parallelism already; nothing was done.
    Unchanged {
        /// How many actors it has.
        parallelism: u32,
        /// A rescale of it that is still to come.
        pending: Option<RescaleId>,
    },
    /// It will be committed by itself.
    Deferred {
        /// Its line of `tidegate.pending_rescales`.
        id: RescaleId,
        /// What it waits for.
        waiting_for: Vec<String>,
    },
}

/// Which rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// Of the live stream.
    Source,
    /// Of the backfill readers.
    Backfill,
}

/// Runs sources and views.
///
/// Each method returns once what it did is durable, or an error after which nothing has changed. `cancel` ends the
/// wait: the statement is then withdrawn, unless it is being committed at that moment.
#[async_trait]
pub trait Engine: Send + Sync {
    /// `embedded` or `risingwave`.
    fn name(&self) -> &'static str;

    /// What keeps it from making checkpoints; `None` while nothing does.
    fn trouble(&self) -> Option<String>;

    /// Makes a source.
    ///
    /// # Errors
    /// For options or names that can't be, and when its splits can't be listed.
    async fn create_source(&self, request: CreateSource, cancel: &CancellationToken) -> Result<()>;

    /// Makes a materialized view; in the foreground it waits until the view is created, and drops it when cancelled.
    ///
    /// # Errors
    /// For queries, options or names that can't be.
    async fn create_view(&self, request: CreateView, cancel: &CancellationToken) -> Result<()>;

    /// Drops relations of one kind, all of them or none; with `cascade` also what reads them.
    ///
    /// # Errors
    /// When one doesn't exist, or others depend on it.
    async fn drop_relations(
        &self,
        kind: RelationKind,
        names: Vec<String>,
        cascade: bool,
        cancel: &CancellationToken,
    ) -> Result<()>;

    /// Runs the forwarding-stage check and commits the rescale at a barrier, defers it or refuses it.
    ///
    /// # Errors
    /// [`UnsafeRescale`](crate::error::Error::UnsafeRescale) when the check doesn't pass.
    async fn rescale(&self, request: Rescale, cancel: &CancellationToken) -> Result<Rescaled>;

    /// Withdraws a pending rescale, and notes in the history whose doing that was.
    ///
    /// # Errors
    /// When none of that id is pending.
    async fn cancel_rescale(&self, id: RescaleId, user: &str) -> Result<()>;

    /// Notes the parallelism of a view, and in the history who asked. Its scans stay paired with their sources' actors.
    ///
    /// # Errors
    /// When there is no such view or it can't be altered now.
    async fn set_view_parallelism(&self, view: &str, target: Target, asked: Asked) -> Result<()>;

    /// Changes a rate in rows a second and actor; 0 pauses, `None` lifts the limit. The history has who asked.
    ///
    /// # Errors
    /// When there is no such relation.
    async fn set_rate_limit(
        &self,
        kind: RelationKind,
        name: &str,
        which: RateLimit,
        limit: Option<u32>,
        asked: Asked,
    ) -> Result<()>;

    /// Waits for a checkpoint that holds everything which was read before the call.
    ///
    /// # Errors
    /// When the engine can't make one.
    async fn flush(&self, cancel: &CancellationToken) -> Result<Epoch>;

    /// Waits until no view is being created.
    ///
    /// # Errors
    /// When cancelled.
    async fn wait(&self, cancel: &CancellationToken) -> Result<()>;

    /// Builds all actors anew from the last checkpoint.
    ///
    /// # Errors
    /// When they can't be built.
    async fn recover(&self) -> Result<()>;

    /// Ends: a last checkpoint, then no more.
    async fn shutdown(&self);
}

//! PostgreSQL's wire protocol: everything between a client's socket and the statements that it sends.
//!
//! ```text
//! server      accepts connections, up to a limit, and ends them at shutdown
//! └ startup       encryption, protocol version, user, database, settings; cancel requests
//!   ├ login           who it is: SCRAM
//!   └ connection      one message after the other; what an error does to those that follow
//!     ├ simple            a text with any number of statements
//!     └ extended          Parse, Bind, Describe, Execute, Close
//!       └ exec                one statement: plan, run, stream its rows
//!         ├ session               BEGIN, SET, SHOW, DECLARE, ...: what concerns the connection alone
//!         ├ a [`CommandRunner`]   CREATE SOURCE, ALTER ... SET PARALLELISM, ...
//!         └ a [`Planner`]         SELECT
//! ```
//!
//! What sessions share of each other, to be counted, cancelled and ended, is in `registry`, over the locks in `roster`.
//!
//! Each session has a thread of its own, as each has a process in PostgreSQL: planning and reading block, and a blocked
//! thread of the runtime would hold up its timers and sockets, the next cancel request among them.
//!
//! The messages themselves are encoded and decoded by the pgwire crate. Its server loop isn't used: it can't interrupt
//! a statement whose rows are flowing, nor end a session at shutdown.

mod catalog;
mod codec;
mod connection;
mod copy;
mod cursor;
mod encode;
pub mod errors;
mod exec;
mod extended;
mod limits;
mod login;
mod params;
mod prepared;
mod registry;
mod roster;
mod rows;
mod server;
mod session;
mod setting_table;
pub mod settings;
mod simple;
mod startup;
#[cfg(test)]
mod tests;
mod tls;
mod transaction;

/// What [`roster`] is made of. The tests compile it with another.
mod sync {
    pub use std::sync::{Mutex, MutexGuard, PoisonError};
}

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::catalog::CatalogPlanner;
pub use self::encode::{PG_TYPE_KEY, Style, value_text};
pub use self::limits::message_room;
pub use self::login::Door;
pub use self::registry::{Activity, Registry, State};
pub use self::server::{Server, serve};
pub use self::setting_table::SERVER_VERSION;
pub use self::settings::SettingsView;
pub use self::tls::{Tls, end_point};
use crate::catalog::Origin;
use crate::catalog::held::Held;
use crate::command::ast::Command;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// The one database.
pub const DATABASE: &str = "dev";

/// What all sessions share.
pub struct Shared {
    /// Runs the statements that are ours.
    pub commands: Arc<dyn CommandRunner>,
    /// Plans and runs queries.
    pub planner: Arc<dyn Planner>,
    /// The server's own values of settings, by name; the rest have their defaults.
    pub settings: BTreeMap<String, String>,
    /// Who may come in.
    pub door: Door,
    /// What clients can make the server hold or do.
    pub limits: Limits,
    /// See [`message_room`].
    pub message_room: Arc<Semaphore>,
    /// The sessions that there are.
    pub sessions: Arc<Registry>,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Runs the statements that are ours. It may block: the session has a thread of its own.
#[async_trait]
pub trait CommandRunner: Send + Sync {
    /// The columns of the rows that the command gives; None if it gives none.
    fn describe(&self, command: &Command) -> Option<SchemaRef>;

    /// Runs the command. `text` is the statement as written. When `caller.cancel` fires it must end soon: undone, or done
    /// if it was being committed at that moment. It is never dropped on the way, so its answer is always true.
    async fn run(&self, caller: &Caller, text: &str, command: Command) -> Result<Outcome>;

    /// Takes note of a command that can't run in the present transaction.
    async fn refused(&self, caller: &Caller, command: &Command, error: &Error);
}

/// On whose behalf a command runs.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user.
    pub user: String,
    /// The name that the client gave itself.
    pub application_name: String,
    /// The session's settings.
    pub settings: SettingsView,
    /// Fires when the user cancels, the statement times out or the server goes down.
    pub cancel: CancellationToken,
}

/// What a command gives.
#[derive(Debug)]
pub enum Outcome {
    /// No rows.
    Done {
        /// The command's tag: `CREATE SOURCE`.
        tag: String,
        /// What is worth telling.
        notices: Vec<Notice>,
    },
    /// Rows, with the schema that [`CommandRunner::describe`] tells.
    Rows {
        /// The rows.
        rows: RecordBatch,
        /// The command's tag: `EXPLAIN`.
        tag: String,
        /// What is worth telling.
        notices: Vec<Notice>,
    },
}

/// What a client is told beside the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How grave.
    pub severity: Severity,
    /// The SQLSTATE; `00000` for a mere notice.
    pub sqlstate: &'static str,
    /// What happened.
    pub message: String,
    /// The facts.
    pub detail: Option<String>,
    /// The next step.
    pub hint: Option<String>,
}

impl Notice {
    /// A notice with nothing but a message.
    #[expect(clippy::self_named_constructors, reason = "it is the severity's name")]
    pub fn notice(message: impl Into<String>) -> Self {
        Self { severity: Severity::Notice, sqlstate: "00000", message: message.into(), detail: None, hint: None }
    }

    /// A warning with nothing but a message.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, sqlstate, message: message.into(), detail: None, hint: None }
    }
}

/// How grave a notice is. `client_min_messages` keeps back those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Of interest when looking for a fault.
    Debug,
    /// Of interest to an operator.
    Log,
    /// Asked for: sent whatever `client_min_messages` says.
    Info,
    /// Helpful.
    Notice,
    /// Something may be wrong.
    Warning,
}

/// Plans and runs queries.
pub trait Planner: Send + Sync {
    /// What a new session plans with.
    fn session(&self, info: SessionInfo) -> Box<dyn PlanSession>;

    /// A number that changes whenever an object is created, dropped or altered: plans made before are of no use.
    fn version(&self) -> u64;
}

/// Plans and runs the queries of one session. Planning and reading see the snapshot that was begun last. All of it may
/// block: the session has a thread of its own.
#[async_trait]
pub trait PlanSession: Send + Sync {
    /// A statement begins: what runs from now on ends soon after the token fires.
    fn begin_statement(&self, _cancel: &CancellationToken) {}

    /// Takes a snapshot of all data, which planning and the streams from now on see.
    fn begin_snapshot(&self) -> Result<SnapshotHandle>;

    /// Gives the snapshot back. Streams that still read it keep it.
    fn end_snapshot(&self);

    /// Lets go of the locks that last as long as a transaction.
    fn end_transaction(&self) {}

    /// Lets go of the locks that last longer.
    fn unlock_all(&self) {}

    /// The [`Planner::version`] that the snapshot is of; the present one without a snapshot.
    fn version(&self) -> u64;

    /// The plan of a query as the parser gave it, with its `$n` in place.
    fn plan(&self, statement: ast::Statement) -> Result<LogicalPlan>;

    /// The same plan, made faster.
    fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan>;

    /// How to run an optimized plan. It may be kept, and run again on a later snapshot.
    async fn physical_plan(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>>;

    /// The relation's column that each column of a plan shows; None where it is computed.
    fn origins(&self, plan: &LogicalPlan) -> Vec<Option<Origin>> {
        vec![None; plan.schema().fields().len()]
    }

    /// The name that a column of a plan is shown under.
    fn output_name<'a>(&self, name: &'a str) -> &'a str {
        name
    }

    /// Runs.
    fn execute(&self, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream>;
}

/// A snapshot that is in use.
pub type SnapshotHandle = Arc<dyn Snapshot>;

/// A snapshot that is in use.
pub trait Snapshot: Send + Sync {
    /// Makes a read that is going on fail soon; called from another thread. Nothing if none is.
    fn interrupt(&self);
}

/// Who a session is, for whoever plans for it.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// The user.
    pub user: String,
    /// The session's number, as `pg_backend_pid` gives it.
    pub pid: i32,
    /// The session's settings.
    pub settings: SettingsView,
    /// What the session holds on to: `pg_prepared_statements` and `pg_cursors`.
    pub held: Held,
    /// All sessions: `pg_stat_activity`, `pg_cancel_backend`, `pg_terminate_backend`.
    pub sessions: Arc<Registry>,
}

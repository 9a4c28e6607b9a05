//! The catalog as the [`Planner`] of the sessions, and a session as what the catalog's functions ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast;
use tokio_util::sync::CancellationToken;

use super::errors::from_datafusion;
use super::{PlanSession, Planner, SessionInfo, Snapshot, SnapshotHandle};
use crate::catalog::held::Held;
use crate::catalog::{self, Activity, Catalog, Host, Setting};
use crate::error::Result;
use crate::store::{self, Store};

/// Plans on the catalog, over the store.
pub struct CatalogPlanner {
    catalog: Arc<Catalog>,
    store: Store,
    version: Arc<AtomicU64>,
}

impl CatalogPlanner {
    /// A planner. `version` is counted up by whoever makes and drops relations.
    pub fn new(catalog: Arc<Catalog>, store: Store, version: Arc<AtomicU64>) -> Self {
        Self { catalog, store, version }
    }
}

impl Planner for CatalogPlanner {
    fn session(&self, info: SessionInfo) -> Box<dyn PlanSession> {
        let (user, pid) = (info.user.clone(), info.pid);
        let age = Arc::new(Age { version: Arc::clone(&self.version), of_snapshot: AtomicU64::new(u64::MAX) });
        let host = SessionHost { info, store: self.store.clone(), age: Arc::clone(&age) };
        let session = self.catalog.session(user, pid, Arc::new(host));
        Box::new(CatalogSession { session, store: self.store.clone(), age })
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

struct CatalogSession {
    session: catalog::Session,
    store: Store,
    age: Arc<Age>,
}

/// Whether a session's snapshot still tells who may do what.
#[derive(Debug)]
struct Age {
    /// Counted up when that may have changed.
    version: Arc<AtomicU64>,
    /// What it was before the snapshot was taken; `u64::MAX` where there is none.
    of_snapshot: AtomicU64,
}

#[async_trait]
impl PlanSession for CatalogSession {
    fn begin_statement(&self, cancel: &CancellationToken) {
        self.session.begin_statement(cancel);
    }

    fn begin_snapshot(&self) -> Result<SnapshotHandle> {
        let version = self.age.version.load(Ordering::SeqCst);
        let snapshot = Arc::new(self.store.snapshot()?);
        self.age.of_snapshot.store(version, Ordering::SeqCst);
        self.session.set_snapshot(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    fn end_snapshot(&self) {
        self.age.of_snapshot.store(u64::MAX, Ordering::SeqCst);
        self.session.clear_snapshot();
    }

    fn end_transaction(&self) {
        self.session.end_transaction();
    }

    fn unlock_all(&self) {
        self.session.unlock_all();
    }

    fn version(&self) -> u64 {
        match self.age.of_snapshot.load(Ordering::SeqCst) {
            u64::MAX => self.age.version.load(Ordering::SeqCst),
            of_snapshot => of_snapshot,
        }
    }

    fn plan(&self, statement: ast::Statement) -> Result<LogicalPlan> {
        self.session.plan(statement).map_err(from_datafusion)
    }

    fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        self.session.optimize(plan).map_err(from_datafusion)
    }

    async fn physical_plan(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        self.session.physical_plan(plan).await.map_err(from_datafusion)
    }

    fn origins(&self, plan: &LogicalPlan) -> Vec<Option<catalog::Origin>> {
        catalog::origins(plan)
    }

    fn output_name<'a>(&self, name: &'a str) -> &'a str {
        catalog::output_name(name)
    }

    fn execute(&self, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
        self.session.execute(plan).map_err(from_datafusion)
    }
}

impl Snapshot for store::Snapshot {
    fn interrupt(&self) {
        store::Snapshot::interrupt(self);
    }
}

struct SessionHost {
    info: SessionInfo,
    store: Store,
    age: Arc<Age>,
}

impl std::fmt::Debug for SessionHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionHost").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Host for SessionHost {
    fn setting(&self, name: &str) -> Option<String> {
        self.info.settings.get(name).ok()
    }

    fn settings(&self) -> Vec<Setting> {
        let rows = self.info.settings.read(super::settings::Settings::all);
        rows.into_iter()
            .map(|row| Setting {
                name: row.name,
                value: row.value,
                unit: row.unit.map(str::to_owned),
                short_desc: row.description.to_owned(),
                context: row.context,
                vartype: row.vartype,
                source: row.source,
                reset_value: row.reset_value,
            })
            .collect()
    }

    fn set(&self, name: &str, value: &str, local: bool) -> Result<String> {
        self.info.settings.write(|settings| settings.set(name, value, local))?;
        self.info.settings.get(name)
    }

    fn activity(&self) -> Vec<Activity> {
        let sessions = self.info.sessions.activity();
        sessions
            .into_iter()
            .map(|session| Activity {
                pid: session.pid,
                user: session.user,
                application_name: session.application_name,
                client_addr: Some(session.client.ip().to_string()),
                client_port: Some(i32::from(session.client.port())),
                encryption: session.encryption,
                backend_start: micros(session.started_at),
                query_start: session.query_started_at.map(micros),
                state: session.state.as_str().to_owned(),
                query: session.query,
            })
            .collect()
    }

    fn held(&self) -> Held {
        self.info.held.clone()
    }

    fn cancel(&self, pid: i32) -> bool {
        self.info.sessions.cancel(pid)
    }

    fn terminate(&self, pid: i32) -> bool {
        self.info.sessions.terminate(pid)
    }

    fn authority(&self) -> Result<Option<Arc<store::Snapshot>>> {
        let version = self.age.version.load(Ordering::SeqCst);
        if self.age.of_snapshot.load(Ordering::SeqCst) == version {
            return Ok(None);
        }
        self.store.snapshot().map(|now| Some(Arc::new(now)))
    }
}

fn micros(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

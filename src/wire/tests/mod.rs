//! A whole server in this process, over tables in memory, and real clients: tokio-postgres, and bytes by hand.

mod cursors;
mod errors;
mod extended;
mod lifecycle;
mod limits;
mod noise;
mod raw;
mod simple;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, Volatility, create_udf};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Caller, CommandRunner, Door, Notice, Outcome, PlanSession, Planner, Registry, Server, SessionInfo, Shared,
    Snapshot, SnapshotHandle, message_room,
};
use crate::auth::throttle::Throttle;
use crate::command::ast::Command;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::store::users::{ROOT, User};

/// The one user of these tests, without a password.
fn root() -> User {
    User {
        id: ROOT,
        name: "root".into(),
        superuser: true,
        can_login: true,
        verifier: None,
        connection_limit: -1,
        valid_until: None,
    }
}

/// A server that runs until it is dropped.
struct TestServer {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    planner: Arc<MemoryPlanner>,
    shutdown: CancellationToken,
    served: AbortOnDropHandle<()>,
}

impl TestServer {
    async fn start() -> Self {
        Self::with_limits(Limits { max_connections: 20, ..Limits::default() }).await
    }

    async fn with_limits(limits: Limits) -> Self {
        let planner = Arc::new_cyclic(|me| MemoryPlanner { me: me.clone(), ..MemoryPlanner::default() });
        let shared = Arc::new(Shared {
            commands: Arc::new(FakeRunner),
            planner: Arc::<MemoryPlanner>::clone(&planner),
            settings: BTreeMap::new(),
            door: Door {
                find: Box::new(|name| Ok((name == "root").then(root))),
                secret: Vec::new(),
                tls: None,
                tls_required: false,
                throttle: Throttle::default(),
            },
            message_room: message_room(&limits),
            limits,
            sessions: Arc::new(Registry::default()),
        });
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(server.serve(Arc::clone(&shared), shutdown.clone(), Duration::from_secs(4)));
        Self { address, shared, planner, shutdown, served: AbortOnDropHandle::new(served) }
    }

    fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("root").dbname("dev");
        config
    }

    async fn client(&self) -> Client {
        self.client_with_notices().await.0
    }

    /// A client, and what it is told beside its results.
    async fn client_with_notices(&self) -> (Client, mpsc::UnboundedReceiver<String>) {
        let (client, mut connection) = self.config().connect(NoTls).await.unwrap();
        let (told, notices) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message {
                    let _ = told.send(format!("{} {}: {}", notice.severity(), notice.code().code(), notice.message()));
                }
            }
        });
        (client, notices)
    }
}

/// The first column of the first row, as text.
async fn one(client: &Client, sql: &str) -> String {
    let rows = text_rows(client, sql).await;
    rows.first().unwrap_or_else(|| panic!("no row: {sql}"))[0].clone()
}

/// All rows as text, NULL as `NULL`.
async fn text_rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", told(&error)));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_owned()).collect())
        }
        _ => None,
    });
    rows.collect()
}

/// SQLSTATE, message, detail and hint.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            let mut text = format!("{} {}", error.code().code(), error.message());
            for more in [error.detail(), error.hint()].into_iter().flatten() {
                text.push_str(" | ");
                text.push_str(more);
            }
            text
        }
        None => format!("no database error: {error}"),
    }
}

/// The error of a statement.
async fn error(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(rows) => panic!("{sql}: {rows:?}"),
        Err(error) => told(&error),
    }
}

/// Tables in memory: `numbers (id int8, name text, amount float8)` with ids 1 to 5.
#[derive(Default)]
struct MemoryPlanner {
    me: std::sync::Weak<Self>,
    version: AtomicU64,
    /// How many logical and physical plans were made.
    planned: AtomicU64,
    physical: AtomicU64,
    snapshots: AtomicU64,
}

impl Planner for MemoryPlanner {
    fn session(&self, _: SessionInfo) -> Box<dyn PlanSession> {
        Box::new(MemorySession::new(self.me.upgrade().unwrap()))
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

struct MemorySession {
    planner: Arc<MemoryPlanner>,
    context: SessionContext,
    interrupted: Arc<Interrupted>,
}

#[derive(Default)]
struct Interrupted(AtomicBool);

impl Snapshot for Interrupted {
    fn interrupt(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl MemorySession {
    fn new(planner: Arc<MemoryPlanner>) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(1).with_batch_size(100);
        config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        config.options_mut().execution.time_zone = Some("+00:00".into());
        let context = SessionContext::new_with_config(config);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name", DataType::Utf8, true),
            Field::new("amount", DataType::Float64, true),
        ]));
        let batch = RecordBatch::try_new(
            schema,
            vec![
                Arc::new(Int64Array::from_iter_values(1..=5)),
                Arc::new(StringArray::from(vec![Some("one"), Some("two"), Some("three"), None, Some("five")])),
                Arc::new(Float64Array::from(vec![1.5, 2.0, 3.25, 4.0, 1e20])),
            ],
        )
        .unwrap();
        context.register_batch("numbers", batch).unwrap();
        let interrupted = Arc::new(Interrupted::default());
        context.register_udf(pg_sleep(Arc::clone(&interrupted)));
        context.register_udf(create_udf(
            "panics",
            vec![DataType::Int64],
            DataType::Int64,
            Volatility::Volatile,
            Arc::new(|_: &[ColumnarValue]| panic!("as asked")),
        ));
        Self { planner, context, interrupted }
    }
}

/// Sleeps in the thread, as a read in SQLite does, and ends only when interrupted.
fn pg_sleep(interrupted: Arc<Interrupted>) -> datafusion::logical_expr::ScalarUDF {
    create_udf(
        "pg_sleep",
        vec![DataType::Float64],
        DataType::Utf8,
        Volatility::Volatile,
        Arc::new(move |args: &[ColumnarValue]| {
            let seconds = match &args[0] {
                ColumnarValue::Scalar(datafusion::common::ScalarValue::Float64(Some(seconds))) => *seconds,
                _ => 0.0,
            };
            let end = std::time::Instant::now() + Duration::from_secs_f64(seconds);
            while std::time::Instant::now() < end {
                if interrupted.0.swap(false, Ordering::SeqCst) {
                    return Err(datafusion::error::DataFusionError::External(Box::new(Error::Internal("read".into()))));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::Utf8(Some(String::new()))))
        }),
    )
}

#[async_trait]
impl PlanSession for MemorySession {
    fn begin_snapshot(&self) -> Result<SnapshotHandle> {
        self.planner.snapshots.fetch_add(1, Ordering::SeqCst);
        self.interrupted.0.store(false, Ordering::SeqCst);
        Ok(Arc::<Interrupted>::clone(&self.interrupted))
    }

    fn end_snapshot(&self) {}

    fn version(&self) -> u64 {
        self.planner.version()
    }

    fn plan(&self, statement: ast::Statement) -> Result<LogicalPlan> {
        self.planner.planned.fetch_add(1, Ordering::SeqCst);
        let state = self.context.state();
        let plan = state.statement_to_plan(Statement::Statement(Box::new(statement)));
        futures::executor::block_on(plan).map_err(super::errors::from_datafusion)
    }

    fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        self.context.state().optimize(plan).map_err(super::errors::from_datafusion)
    }

    async fn physical_plan(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        self.planner.physical.fetch_add(1, Ordering::SeqCst);
        let state = self.context.state();
        state.query_planner().create_physical_plan(plan, &state).await.map_err(super::errors::from_datafusion)
    }

    fn execute(&self, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
        execute_stream(plan, self.context.task_ctx()).map_err(super::errors::from_datafusion)
    }
}

/// Answers `SHOW JOBS` with a row, sleeps for `WAIT`, gives notice of `FLUSH`, and does the rest at once.
struct FakeRunner;

fn jobs() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("statement", DataType::Utf8, false),
    ]))
}

#[async_trait]
impl CommandRunner for FakeRunner {
    fn describe(&self, command: &Command) -> Option<SchemaRef> {
        matches!(command, Command::Show(_) | Command::Explain { .. }).then(jobs)
    }

    async fn refused(&self, _: &Caller, _: &Command, _: &Error) {}

    async fn run(&self, caller: &Caller, text: &str, command: Command) -> Result<Outcome> {
        let done = |tag: &str| Ok(Outcome::Done { tag: tag.into(), notices: vec![] });
        match command {
            Command::Show(_) | Command::Explain { .. } => {
                let text = format!("{text}, {command:?}, {}", caller.application_name);
                let columns: Vec<datafusion::arrow::array::ArrayRef> =
                    vec![Arc::new(Int64Array::from(vec![7])), Arc::new(StringArray::from(vec![text]))];
                let rows = RecordBatch::try_new(jobs(), columns).unwrap();
                Ok(Outcome::Rows { rows, tag: "SHOW".into(), notices: vec![] })
            }
            Command::Wait => {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => done("WAIT"),
                    () = caller.cancel.cancelled() => Err(Error::Canceled),
                }
            }
            Command::Flush => Ok(Outcome::Done {
                tag: "FLUSH".into(),
                notices: vec![Notice { detail: Some("d".into()), ..Notice::notice("flushed") }],
            }),
            Command::CancelRescale(id) => Err(Error::NoSuchRescale { id, state: None }),
            Command::CreateSource(_) => done("CREATE SOURCE"),
            _ => done("OK"),
        }
    }
}

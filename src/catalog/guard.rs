//! What holds a running query: it ends when its statement is to end, and uses no more memory than it may.
//!
//! DataFusion's operators run until they have a batch to give; a join whose condition is never true runs for hours
//! without giving any. So the last step of planning puts a check between them, and into the conditions of joins.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, replace_children_if_necessary};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::scope::Scope;
use crate::error::{Error, Result};
use crate::limits::{Limits, show_bytes};

/// The memory and the disk space that all queries share.
#[derive(Debug)]
pub struct Memory {
    all: Arc<dyn MemoryPool>,
    /// What that has room for, in bytes.
    room: usize,
    runtime: Arc<RuntimeEnv>,
    view_cache: usize,
}

impl Memory {
    /// Room as the limits say; what doesn't fit goes to files in `spill`, which is emptied. Without: nowhere.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn new(limits: &Limits, spill: Option<&Path>) -> Result<Self> {
        let failed = |error: String| Error::Config {
            message: format!("the directory for temporary files cannot be used: {error}"),
            hint: "It is `spill` in the data directory: it must be possible to make it and to write there.".into(),
        };
        let mode = match spill {
            Some(path) => {
                // What a server that was killed has left.
                if path.exists() {
                    std::fs::remove_dir_all(path).map_err(|error| failed(error.to_string()))?;
                }
                std::fs::create_dir_all(path).map_err(|error| failed(error.to_string()))?;
                DiskManagerMode::Directories(vec![path.to_owned()])
            }
            None => DiskManagerMode::Disabled,
        };
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limits.query_memory));
        let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(limits.temp_files);
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&all)).with_disk_manager_builder(disk);
        let runtime = runtime.build_arc().map_err(|error| failed(error.to_string()))?;
        Ok(Self { all, room: limits.query_memory, runtime, view_cache: limits.view_cache })
    }

    /// Bytes of views' rows that are kept in memory.
    pub fn view_cache(&self) -> usize {
        self.view_cache
    }

    /// Without anything that tests would leave behind.
    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self::new(&Limits::default(), None).expect("no directory is made")
    }

    /// What the queries of a new session are held by.
    pub fn session(&self) -> Guard {
        let pool = Arc::new(SessionPool {
            all: Arc::clone(&self.all),
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(Limits::default().statement_memory),
        });
        let runtime = RuntimeEnv {
            memory_pool: Arc::<SessionPool>::clone(&pool),
            disk_manager: Arc::clone(&self.runtime.disk_manager),
            cache_manager: Arc::clone(&self.runtime.cache_manager),
            object_store_registry: Arc::clone(&self.runtime.object_store_registry),
        };
        Guard { cancel: RwLock::new(CancellationToken::new()), all: self.room, pool, runtime: Arc::new(runtime) }
    }
}

/// What the queries of one session are held by.
#[derive(Debug)]
pub struct Guard {
    cancel: RwLock<CancellationToken>,
    /// What all sessions may use together, in bytes.
    all: usize,
    pool: Arc<SessionPool>,
    runtime: Arc<RuntimeEnv>,
}

impl Guard {
    /// A statement begins: what runs from now on ends when the token fires, and has so much memory, in bytes.
    pub fn begin(&self, cancel: &CancellationToken, memory: usize) {
        *self.cancel.write().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
        self.pool.limit.store(memory, Ordering::Relaxed);
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Error::Canceled`].
    pub fn check(&self) -> DfResult<()> {
        if self.cancel.read().unwrap_or_else(PoisonError::into_inner).is_cancelled() {
            return Err(Error::Canceled.into());
        }
        Ok(())
    }

    /// Where queries run.
    pub fn runtime(&self) -> Arc<RuntimeEnv> {
        Arc::clone(&self.runtime)
    }

    /// The most bytes that a statement may use: never more than all of them together.
    pub fn memory(&self) -> usize {
        self.pool.limit.load(Ordering::Relaxed).min(self.all)
    }

    /// Room for what is kept outside of DataFusion's operators; nothing yet.
    pub fn reserve(&self, name: &str) -> MemoryReservation {
        MemoryConsumer::new(name).register(&self.runtime.memory_pool)
    }
}

/// The memory of one session's statements: a part of all, with a limit of its own.
#[derive(Debug)]
struct SessionPool {
    all: Arc<dyn MemoryPool>,
    used: AtomicUsize,
    limit: AtomicUsize,
}

impl fmt::Display for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for SessionPool {
    fn name(&self) -> &'static str {
        "statement_memory"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.used.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.used.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(additional).filter(|used| *used <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|used| {
            exhausted("statement_memory", limit, used, additional, in_sql(reservation.consumer().name()))
        })?;
        self.all.try_grow(reservation, additional).map_err(|_| {
            self.used.fetch_sub(additional, Ordering::Relaxed);
            let limit = match self.all.memory_limit() {
                MemoryLimit::Finite(limit) => limit,
                _ => 0,
            };
            exhausted("query_memory", limit, self.all.reserved(), additional, in_sql(reservation.consumer().name()))
        })
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit.load(Ordering::Relaxed))
    }
}

/// This kind of error tells an operator to go on with files, if it can.
fn exhausted(setting: &str, limit: usize, used: usize, more: usize, what: &str) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "{setting} is {}: {} are in use, and {what} needs {} more",
        show_bytes(limit as u64),
        rounded(used),
        rounded(more)
    ))
}

/// What an operator is in SQL.
fn in_sql(operator: &str) -> &str {
    const KNOWN: [(&str, &str); 10] = [
        ("TopK", "ORDER BY with LIMIT"),
        ("ExternalSort", "ORDER BY"),
        ("SortPreservingMerge", "ORDER BY"),
        ("GroupedHashAggregate", "GROUP BY"),
        ("GroupedTopK", "GROUP BY"),
        ("AggregateStream", "an aggregate"),
        ("HashJoin", "a join"),
        ("NestedLoopJoin", "a join"),
        ("CrossJoin", "a join"),
        ("RepartitionExec", "GROUP BY or a join"),
    ];
    KNOWN.into_iter().find(|(start, _)| operator.starts_with(start)).map_or(operator, |(_, sql)| sql)
}

fn rounded(bytes: usize) -> String {
    match bytes {
        0..4096 => format!("{bytes} bytes"),
        4096..0x40_0000 => format!("{} kB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}

/// The rule that puts the checks into a plan; the last one.
#[derive(Debug)]
pub struct GuardPlan;

/// What gives a batch for each that it takes, or only a few: a check below or above it is enough.
const PASS: [&str; 14] = [
    "AnalyzeExec",
    "Append",
    "KeepOrder",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "DataSourceExec",
    "EmptyExec",
    "ExplainExec",
    "FilterExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "SqliteScan",
    "UnionExec",
];

impl PhysicalOptimizerRule for GuardPlan {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let guard = Arc::clone(&Scope::of(config)?.guard);
        plan.transform_up(|plan| {
            let plan = with_checked_condition(plan, &guard)?;
            // It keeps all its rows, and counts none of them.
            if plan.name() == "WindowAggExec" {
                let input = Arc::clone(plan.children()[0]);
                let input: Arc<dyn ExecutionPlan> = Arc::new(Guarded { input, keeps: true });
                return Ok(Transformed::yes(Arc::new(Guarded {
                    input: replace_children_if_necessary(plan, vec![input])?,
                    keeps: false,
                })));
            }
            if PASS.contains(&plan.name()) {
                return Ok(Transformed::no(plan));
            }
            Ok(Transformed::yes(Arc::new(Guarded { input: plan, keeps: false }) as _))
        })
        .data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join with a condition that checks, too, whether to go on.
fn with_checked_condition(plan: Arc<dyn ExecutionPlan>, guard: &Arc<Guard>) -> DfResult<Arc<dyn ExecutionPlan>> {
    let checked = |filter: &JoinFilter| {
        let expr = Checked { inner: Arc::clone(filter.expression()), guard: Arc::clone(guard) };
        JoinFilter::new(Arc::new(expr), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    };
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let builder = datafusion::physical_plan::joins::NestedLoopJoinExecBuilder::from(join);
        return Ok(Arc::new(builder.with_filter(Some(checked(filter))).build()?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(join.builder().with_filter(Some(checked(filter))).build()?));
    }
    Ok(plan)
}

/// Between an operator and the one that takes its batches.
#[derive(Debug)]
struct Guarded {
    input: Arc<dyn ExecutionPlan>,
    /// Whether who takes the batches keeps them.
    keeps: bool,
}

impl DisplayAs for Guarded {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guarded")
    }
}

/// The input of a node that has one.
///
/// # Errors
/// [`Error::Internal`]: it is given none, or more.
pub fn only_input(mut children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
    match (children.pop(), children.is_empty()) {
        (Some(input), true) => Ok(input),
        _ => Err(Error::Internal("a node of a plan has one input".into()).into()),
    }
}

impl ExecutionPlan for Guarded {
    fn name(&self) -> &'static str {
        "Guarded"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: only_input(children)?, keeps: self.keeps }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: only_input(children)?, keeps: self.keeps }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let guard = Arc::clone(&Scope::of(context.session_config().options())?.guard);
        let kept = self.keeps.then(|| guard.reserve("a window"));
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let rows = rows.map(move |batch| {
            guard.check()?;
            if let (Some(kept), Ok(batch)) = (&kept, &batch) {
                kept.try_grow(batch.get_array_memory_size())?;
            }
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// A condition that checks, too, whether to go on.
struct Checked {
    inner: Arc<dyn PhysicalExpr>,
    guard: Arc<Guard>,
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Checked {
    fn return_field(&self, schema: &Schema) -> DfResult<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        self.guard.check()?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(inner) => Ok(Arc::new(Self { inner, guard: Arc::clone(&self.guard) })),
            None => Err(Error::Internal("a condition has an expression".into()).into()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

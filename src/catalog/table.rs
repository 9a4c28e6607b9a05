//! A relation of SQLite as a DataFusion table: columns, conditions and LIMIT are part of the SQL that it runs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use futures::stream;
use rusqlite::types::Value;

use super::batch::BatchBuilder;
use super::filter::{self, Condition};
use super::pages::{End, Pages};
use super::scope::Scope;
use super::store_error;
use super::view::Column;
use crate::error::Result;
use crate::store::Snapshot;
use crate::store::view_rows::quote;

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 8192;

/// A view or table of SQLite.
#[derive(Debug, Clone)]
pub struct SqliteTable {
    relation: Arc<str>,
    schema: SchemaRef,
    paging: Paging,
    pages: Option<Arc<Pages>>,
    table_type: TableType,
}

/// The one name of the rowid that a user's column can't have.
const ROWID: &str = "_rowid_";

/// How a relation is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paging {
    /// In one go: a catalog view, small and all of one moment.
    None,
    /// By rowid, a batch at a time.
    ByRowid,
}

impl SqliteTable {
    /// A catalog view. `relation` is SQL: a quoted name, or a subquery in parentheses.
    pub fn view(relation: String, columns: &[Column]) -> Self {
        let fields: Vec<_> = columns.iter().map(|column| column.pg_type.field(&column.name)).collect();
        Self {
            relation: relation.into(),
            schema: Arc::new(Schema::new(fields)),
            paging: Paging::None,
            pages: None,
            table_type: TableType::View,
        }
    }

    /// A table with a rowid, which may have any number of rows and only ever gets more of them, behind those that it has.
    /// Full pages are kept in `pages`.
    pub fn rows(relation: String, schema: Schema, pages: Arc<Pages>) -> Self {
        Self {
            relation: relation.into(),
            schema: Arc::new(schema),
            paging: Paging::ByRowid,
            pages: Some(pages),
            table_type: TableType::Base,
        }
    }
}

#[async_trait]
impl TableProvider for SqliteTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.table_type
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match filter::to_sqlite(filter, &self.schema) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let mut condition = Condition::default();
        for filter in filters {
            let known = filter::to_sqlite(filter, &self.schema).filter(|_| !has_parameter(filter));
            let part = known.ok_or_else(|| {
                DataFusionError::Internal(format!("the filter {filter} was taken but can't be applied"))
            })?;
            if !condition.sql.is_empty() {
                condition.sql.push_str(" AND ");
            }
            condition.sql.push_str(&part.sql);
            condition.parameters.extend(part.parameters);
        }
        Ok(Arc::new(SqliteScan::new(self, schema, condition, limit)))
    }
}

/// One scan of such a table.
#[derive(Debug)]
pub struct SqliteScan {
    query: Arc<Query>,
    properties: Arc<PlanProperties>,
}

#[derive(Debug)]
struct Query {
    relation: Arc<str>,
    schema: SchemaRef,
    paging: Paging,
    pages: Option<Arc<Pages>>,
    condition: Condition,
    limit: Option<usize>,
}

impl SqliteScan {
    fn new(table: &SqliteTable, schema: SchemaRef, condition: Condition, limit: Option<usize>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        // A page of what meets a condition is another one for every condition, and where few rows are wanted, none is full.
        let pages = table.pages.clone().filter(|_| condition.sql.is_empty() && limit.is_none());
        let relation = Arc::clone(&table.relation);
        let query = Query { relation, schema, paging: table.paging, pages, condition, limit };
        Self { query: Arc::new(query), properties: Arc::new(properties) }
    }

    /// The SQL that is run, of the first page.
    pub fn sql(&self) -> String {
        self.query.sql(false, self.query.page_size(0))
    }

    /// The parameters of [`Self::sql`].
    pub fn parameters(&self) -> &[Value] {
        &self.query.condition.parameters
    }
}

impl DisplayAs for SqliteScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteScan: {}", self.sql())
    }
}

impl ExecutionPlan for SqliteScan {
    fn name(&self) -> &'static str {
        "SqliteScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let scope = Scope::of(context.session_config().options())?;
        let (snapshot, guard) = (scope.snapshot()?, Arc::clone(&scope.guard));
        let schema = Arc::clone(&self.query.schema);
        let query = Arc::clone(&self.query);
        let pages = match query.paging {
            Paging::None => {
                // One read, which gives all batches: a later one might wait for a lock and see another moment.
                let batches = stream::once(async move { query.read_all(&snapshot) });
                RecordBatchStreamAdapter::new(schema, Box::pin(flatten(batches)) as BatchStream)
            }
            Paging::ByRowid => {
                let pages = stream::try_unfold(Some(Page::default()), move |page| {
                    let (query, snapshot, guard) = (Arc::clone(&query), Arc::clone(&snapshot), Arc::clone(&guard));
                    async move {
                        let Some(page) = page else { return Ok(None) };
                        guard.check()?;
                        let (batch, next) = query.read_page(&snapshot, page)?;
                        Ok(Some((batch, next)))
                    }
                });
                RecordBatchStreamAdapter::new(schema, Box::pin(pages) as BatchStream)
            }
        };
        Ok(Box::pin(pages))
    }
}

fn has_parameter(filter: &Expr) -> bool {
    filter.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true)
}

type BatchStream = std::pin::Pin<Box<dyn futures::Stream<Item = DfResult<RecordBatch>> + Send>>;

fn flatten(
    batches: impl futures::Stream<Item = Result<Vec<RecordBatch>>> + Send,
) -> impl futures::Stream<Item = DfResult<RecordBatch>> + Send {
    use futures::StreamExt as _;
    batches.flat_map(|batches| {
        stream::iter(match batches {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(DataFusionError::from(error))],
        })
    })
}

/// Where the next page starts.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    after: Option<i64>,
    rows_before: usize,
}

impl Query {
    /// Rows of the next page when `rows_before` have been read. `None`: all there are.
    fn page_size(&self, rows_before: usize) -> Option<usize> {
        match self.paging {
            Paging::None => self.limit,
            Paging::ByRowid => Some(self.limit.map_or(BATCH_ROWS, |limit| (limit - rows_before).min(BATCH_ROWS))),
        }
    }

    fn sql(&self, after: bool, page_size: Option<usize>) -> String {
        let mut columns: Vec<String> = self.schema.fields().iter().map(|field| quote(field.name())).collect();
        if self.paging == Paging::ByRowid {
            columns.insert(0, ROWID.into());
        } else if columns.is_empty() {
            columns.push("1".into());
        }
        let mut sql = format!("SELECT {} FROM {}", columns.join(", "), self.relation);
        let mut conditions = Vec::new();
        if !self.condition.sql.is_empty() {
            conditions.push(self.condition.sql.as_str());
        }
        if after {
            conditions.push("_rowid_ > ?");
        }
        if !conditions.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&conditions.join(" AND "));
        }
        if self.paging == Paging::ByRowid {
            sql.push_str(" ORDER BY _rowid_");
        }
        if let Some(size) = page_size {
            sql.push_str(&format!(" LIMIT {size}"));
        }
        sql
    }

    fn read_all(&self, snapshot: &Snapshot) -> Result<Vec<RecordBatch>> {
        let sql = self.sql(false, self.page_size(0));
        snapshot.with(|connection| {
            let failed = |source| store_error("read the catalog", source);
            let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
            let mut rows = statement.query(rusqlite::params_from_iter(&self.condition.parameters)).map_err(failed)?;
            let mut batches = Vec::new();
            let mut builder = BatchBuilder::new(Arc::clone(&self.schema))?;
            while let Some(row) = rows.next().map_err(failed)? {
                builder.push(row, 0)?;
                if builder.len() == BATCH_ROWS {
                    let full = std::mem::replace(&mut builder, BatchBuilder::new(Arc::clone(&self.schema))?);
                    batches.push(full.finish()?);
                }
            }
            batches.push(builder.finish()?);
            Ok(batches)
        })
    }

    /// A page from those that are kept, if it is and this moment sees all of it.
    fn kept_page(&self, snapshot: &Snapshot, page: Page) -> Result<Option<(RecordBatch, Option<Page>)>> {
        let kept = self.pages.as_ref().and_then(|pages| pages.get(&self.relation, page.after, &self.schema));
        let Some((batch, end)) = kept else { return Ok(None) };
        let newest: Option<i64> = snapshot.with(|connection| {
            let failed = |source| store_error("read a materialized view", source);
            let sql = format!("SELECT max(_rowid_) FROM {}", self.relation);
            let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
            statement.query_row([], |row| row.get(0)).map_err(failed)
        })?;
        if !newest.is_some_and(|newest| end.is_seen_by(newest)) {
            return Ok(None);
        }
        let rows_before = page.rows_before + batch.num_rows();
        Ok(Some((batch, end.is_full.then_some(Page { after: Some(end.last), rows_before }))))
    }

    fn read_page(&self, snapshot: &Snapshot, page: Page) -> Result<(RecordBatch, Option<Page>)> {
        if let Some(kept) = self.kept_page(snapshot, page)? {
            return Ok(kept);
        }
        let size = self.page_size(page.rows_before);
        let sql = self.sql(page.after.is_some(), size);
        let mut parameters = self.condition.parameters.clone();
        parameters.extend(page.after.map(Value::Integer));
        snapshot.with(|connection| {
            let failed = |source| store_error("read a materialized view", source);
            let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
            let mut rows = statement.query(rusqlite::params_from_iter(&parameters)).map_err(failed)?;
            let mut builder = BatchBuilder::new(Arc::clone(&self.schema))?;
            let mut after = page.after;
            while let Some(row) = rows.next().map_err(failed)? {
                after = Some(row.get(0).map_err(failed)?);
                builder.push(row, 1)?;
            }
            let read = builder.len();
            let rows_before = page.rows_before + read;
            let more = Some(read) == size && self.limit.is_none_or(|limit| rows_before < limit);
            let batch = builder.finish()?;
            if let (Some(pages), Some(last), 1..) = (&self.pages, after, read) {
                let end = End { last, is_full: read == BATCH_ROWS };
                pages.put(&self.relation, page.after, &batch, end);
            }
            Ok((batch, more.then_some(Page { after, rows_before })))
        })
    }
}

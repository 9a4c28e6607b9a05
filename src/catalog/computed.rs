//! Tables whose rows Rust computes when they are read.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;

use super::scope::Scope;

/// Such a table's only partition.
#[derive(Debug)]
pub struct Computed<F> {
    schema: SchemaRef,
    rows: F,
}

/// What computes the rows.
pub trait Rows: Fn(&Scope) -> DfResult<RecordBatch> + Send + Sync + 'static {}

impl<F: Fn(&Scope) -> DfResult<RecordBatch> + Send + Sync + 'static> Rows for F {}

impl<F: Rows + Clone> Computed<F> {
    /// The table.
    pub fn table(schema: SchemaRef, rows: F) -> DfResult<Arc<dyn TableProvider>> {
        let partition = Self { schema: Arc::clone(&schema), rows };
        Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(Opaque(partition))])?))
    }
}

/// Closures have no Debug.
struct Opaque<F>(Computed<F>);

impl<F> std::fmt::Debug for Opaque<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Computed")
    }
}

impl<F: Rows + Clone> PartitionStream for Opaque<F> {
    fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.0.rows.clone();
        let batch = async move { rows(&*Scope::of(context.session_config().options())?) };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0.schema), stream::once(batch)))
    }
}

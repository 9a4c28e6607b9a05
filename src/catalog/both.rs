//! A table with the rows of two.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;

use super::append::Append;

/// Two tables of the same columns, one behind the other.
#[derive(Debug)]
pub struct Both(Arc<dyn TableProvider>, Arc<dyn TableProvider>);

impl Both {
    /// The rows of `first`, then those of `second`.
    pub fn new(first: Arc<dyn TableProvider>, second: Arc<dyn TableProvider>) -> Self {
        Self(first, second)
    }
}

#[async_trait]
impl TableProvider for Both {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let first = self.0.scan(state, projection, filters, limit).await?;
        let second = self.1.scan(state, projection, filters, limit).await?;
        Ok(Arc::new(Append::new(UnionExec::try_new(vec![first, second])?)))
    }
}

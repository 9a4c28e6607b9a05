//! The rows of several queries one after another, as PostgreSQL gives them. DataFusion runs the parts of a UNION at the
//! same time, and their rows come as they come: `SELECT 1 UNION ALL SELECT 2` gave 2 first now and then.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::guard::only_input;

/// The rule that puts an [`Append`] above each union. It comes first: the rules behind it may sort each part of what
/// has several.
#[derive(Debug)]
pub struct AppendUnions;

impl PhysicalOptimizerRule for AppendUnions {
    fn name(&self) -> &'static str {
        "append_unions"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<UnionExec>() {
                Some(_) => Transformed::yes(Arc::new(Append::new(plan)) as _),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The parts of its input, the next one begun when the one before has ended.
#[derive(Debug)]
pub struct Append {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Append {
    /// The parts of `input`, of which there is one at least.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let of_input = input.properties();
        let mut equivalences = of_input.eq_properties.clone();
        equivalences.clear_orderings();
        equivalences.clear_per_partition_constants();
        let one = Partitioning::UnknownPartitioning(1);
        let properties = PlanProperties::new(equivalences, one, of_input.emission_type, of_input.boundedness)
            .with_scheduling_type(of_input.scheduling_type);
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for Append {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Append")
    }
}

impl ExecutionPlan for Append {
    fn name(&self) -> &'static str {
        "Append"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        Ok(Arc::new(Self::new(only_input(children)?)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(only_input(children)?)))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = Arc::clone(&self.input);
        let parts = stream::iter(0..input.properties().partitioning.partition_count());
        let rows = parts.map(move |part| input.execute(part, Arc::clone(&context))).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

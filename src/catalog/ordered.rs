//! The order of a query within another one, which PostgreSQL keeps where nothing else changes it: tools wrap what they are
//! given in `SELECT * FROM (...) LIMIT 100`, and people feed aggregates so. DataFusion drops a sort that nobody above it asks
//! for.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::guard::only_input;

/// The rule that puts a [`KeepOrder`] above each sort that the statement asks for, and each OFFSET and LIMIT. It comes
/// before those that drop some.
#[derive(Debug)]
pub struct KeepSorts;

impl PhysicalOptimizerRule for KeepSorts {
    fn name(&self) -> &'static str {
        "keep_sorts"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let keep = |plan: Arc<dyn ExecutionPlan>| {
            // There is no telling such rows apart, and DataFusion fails to sort what has no columns.
            if let Some(sort) = plan.downcast_ref::<SortExec>()
                && plan.schema().fields().is_empty()
            {
                let input = Arc::clone(sort.input());
                let fetch = sort.fetch();
                return Ok(Transformed::yes(match fetch {
                    Some(_) => Arc::new(GlobalLimitExec::new(input, 0, fetch)),
                    None => input,
                }));
            }
            Ok(if plan.is::<GlobalLimitExec>() || plan.is::<SortExec>() {
                let order = plan.properties().output_ordering().cloned();
                Transformed::yes(Arc::new(KeepOrder { input: plan, order }) as _)
            } else {
                Transformed::no(plan)
            })
        };
        // The outermost stays by itself.
        plan.map_children(|child| child.transform_up(keep)).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Its input, which has to be in the order that it is in, if any.
#[derive(Debug)]
pub struct KeepOrder {
    input: Arc<dyn ExecutionPlan>,
    order: Option<LexOrdering>,
}

impl DisplayAs for KeepOrder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeepOrder")
    }
}

impl ExecutionPlan for KeepOrder {
    fn name(&self) -> &'static str {
        "KeepOrder"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    // It does; but then an order that is asked for above it would be asked for below it instead, where an OFFSET or a
    // LIMIT in between takes other rows.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
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
        Ok(Arc::new(Self { input: only_input(children)?, order: self.order.clone() }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: only_input(children)?, order: self.order.clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

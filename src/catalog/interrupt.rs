//! Planning that ends when its statement is to end. DataFusion's rules look at nothing but their plan, and the plan of a
//! long chain of operators or of many joins can keep them busy for minutes: so a check stands before each of them.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::scope::Scope;

/// A rule that changes nothing, and fails once the statement is cancelled.
#[derive(Debug)]
pub struct Check;

/// The rules, each with a check before it.
pub fn before_each<R: ?Sized>(check: &Arc<R>, rules: impl IntoIterator<Item = Arc<R>>) -> Vec<Arc<R>> {
    rules.into_iter().flat_map(|rule| [Arc::clone(check), rule]).collect()
}

fn check(options: &ConfigOptions) -> DfResult<()> {
    Scope::of(options)?.guard.check()
}

impl AnalyzerRule for Check {
    fn name(&self) -> &'static str {
        "check"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> DfResult<LogicalPlan> {
        check(options)?;
        Ok(plan)
    }
}

impl OptimizerRule for Check {
    fn name(&self) -> &'static str {
        "check"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        check(&config.options())?;
        Ok(Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for Check {
    fn name(&self) -> &'static str {
        "check"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        check(options)?;
        Ok(plan)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

//! The columns of the queries around it that a subquery uses.

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::lateral::lateral_part;
use super::subquery_of;

/// What a plan uses of the queries around it. DataFusion's own list lacks what is used in UNNEST or by a subquery within
/// alone, and has what a LATERAL part uses of its neighbours.
#[derive(Debug, Default)]
pub(super) struct Outer {
    /// The columns.
    pub columns: Vec<Column>,
    /// Whether a subquery within uses one of them.
    pub further_in: bool,
}

impl Outer {
    /// Of a plan.
    pub fn of(plan: &LogicalPlan) -> DfResult<Self> {
        let mut outer = Self::default();
        outer.gather(plan)?;
        Ok(outer)
    }

    fn gather(&mut self, plan: &LogicalPlan) -> DfResult<()> {
        plan.apply_expressions(|expr| expr.apply(|expr| self.gather_expr(expr, plan)))?;
        if let LogicalPlan::Join(join) = plan {
            self.gather(&join.left)?;
            let mut right = Self::of(&join.right)?;
            if lateral_part(&join.right).is_some() {
                right.columns.retain(|column| !join.left.schema().has_column(column));
            }
            self.add(right);
            return Ok(());
        }
        plan.inputs().into_iter().try_for_each(|input| self.gather(input))
    }

    fn gather_expr(&mut self, expr: &Expr, plan: &LogicalPlan) -> DfResult<TreeNodeRecursion> {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && !self.columns.contains(column)
        {
            self.columns.push(column.clone());
        }
        if let Some(subquery) = subquery_of(expr) {
            let mut within = Self::of(&subquery.subquery)?;
            let nearer = merge_schema(&plan.inputs());
            within.columns.retain(|column| !nearer.has_column(column));
            within.further_in = !within.columns.is_empty();
            self.add(within);
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn add(&mut self, other: Self) {
        self.further_in |= other.further_in && !other.columns.is_empty();
        for column in other.columns {
            if !self.columns.contains(&column) {
                self.columns.push(column);
            }
        }
    }
}

/// The columns of the outer query that a subquery uses.
pub(super) fn outer_columns(subquery: &Subquery) -> Vec<Column> {
    Outer::of(&subquery.subquery).map(|outer| outer.columns).unwrap_or_default()
}

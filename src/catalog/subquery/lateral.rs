//! LATERAL: a subquery whose rows are wanted, and the condition that joins them.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, ScalarValue, Spans, UnnestOptions};
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::SessionState;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery, SubqueryAlias};

use super::function::Kind;
use super::outer::Outer;
use super::{Which, by_row_call, counts_rows};
use crate::error::Error;

/// The column that holds the rows of a LATERAL part.
const ROWS: &str = "lateral\u{1}";

/// Marks what is LATERAL and isn't marked so: DataFusion doesn't see that a subquery within refers to what stands beside
/// it, nor that a part of a join in brackets does. Of the outermost query alone, where nothing else can be meant.
pub(super) fn marked(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let marked = plan.transform_up(|plan| {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let outer = Outer::of(&join.right)?;
        let known = outer.columns.iter().all(|column| join.left.schema().has_column(column));
        let is_needed = outer.further_in || needs_rows(&join.right)?;
        if lateral_part(&join.right).is_some() || outer.columns.is_empty() || !known || !is_needed {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let part = |subquery: Arc<LogicalPlan>| {
            let outer_ref_columns = subquery.all_out_ref_exprs();
            LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, spans: Spans::new() })
        };
        join.right = Arc::new(match join.right.as_ref() {
            LogicalPlan::SubqueryAlias(named) => LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(
                Arc::new(part(Arc::clone(&named.input))),
                named.alias.clone(),
            )?),
            _ => part(join.right),
        });
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    })?;
    Ok(marked.data)
}

/// Refuses a LATERAL part that would become a join which says something else.
///
/// # Errors
/// 0A000.
pub(super) fn check(plan: &LogicalPlan) -> DfResult<()> {
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Join(join) = plan
            && let Some(subquery) = lateral_part(&join.right)
        {
            let outer = Outer::of(&subquery.subquery)?;
            if !outer.columns.is_empty() && (outer.further_in || counts_rows(&subquery.subquery, false)?) {
                return Err(Error::FeatureNotSupported {
                    what: "a LATERAL subquery of this form".into(),
                    hint: "Let it refer to the relations of its own join alone, and join it with [INNER] or LEFT JOIN."
                        .into(),
                }
                .into());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether a LATERAL part's rows depend on how many there are. DataFusion groups all outer rows' together.
fn needs_rows(plan: &LogicalPlan) -> DfResult<bool> {
    let groups = plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Distinct(_) | LogicalPlan::Aggregate(_))))?;
    Ok(groups || counts_rows(plan, false)?)
}

/// A join with a LATERAL part: the part's rows as an array, unnested. The join's condition chooses among the part's rows.
pub(super) fn lateral(join: Join, state: &Arc<SessionState>, which: Which) -> DfResult<Transformed<LogicalPlan>> {
    let is_left = join.join_type == JoinType::Left;
    let Some(subquery) = lateral_part(&join.right) else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let outer = Outer::of(&subquery.subquery)?;
    if which == Which::Misread && !outer.further_in && !needs_rows(&subquery.subquery)? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let known = outer.columns.iter().all(|column| join.left.schema().has_column(column));
    if outer.columns.is_empty() || !known || !(is_left || join.join_type == JoinType::Inner) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let plan = chosen(&join, subquery)?;
    let columns = Outer::of(&plan)?.columns;
    let fields = plan.schema().fields().iter().enumerate().map(|(index, field)| {
        let unnamed = Field::new(format!("f{index}"), field.data_type().clone(), true);
        unnamed.with_metadata(field.metadata().clone())
    });
    let kind = Kind::Rows { fields: fields.collect(), at_least_one: is_left };
    let rows = by_row_call(&plan, kind, columns, Vec::new(), state).alias(ROWS);
    let left: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let right = join.right.schema().iter().enumerate().map(|(index, (relation, field))| {
        let part = get_field(Expr::Column(Column::from_name(ROWS)), format!("f{index}"));
        part.alias_qualified(relation.cloned(), field.name())
    });
    let all: Vec<Expr> = left.iter().cloned().chain(right).collect();
    let options = UnnestOptions::new().with_preserve_nulls(false);
    let unnested = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left))
        .project(left.into_iter().chain([rows]))?
        .unnest_columns_with_options(vec![Column::from_name(ROWS)], options)?
        .project(all)?;
    Ok(Transformed::yes(unnested.build()?))
}

/// The rows of a LATERAL part that the join's condition lets through; in it, the left side's columns are outer ones.
fn chosen(join: &Join, subquery: &Subquery) -> DfResult<Arc<LogicalPlan>> {
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let is_true = |on: &Expr| matches!(on, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let filter = join.filter.clone().filter(|on| !is_true(on));
    let Some(condition) = equal.chain(filter).reduce(Expr::and) else { return Ok(Arc::clone(&subquery.subquery)) };
    let (left, right) = (join.left.schema(), join.right.schema());
    let condition = condition.transform(|expr| match expr {
        Expr::Column(column) if left.has_column(&column) && !right.has_column(&column) => {
            let (relation, field) = left.qualified_field_from_column(&column)?;
            let qualified = Column::new(relation.cloned(), field.name());
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), qualified)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Arc::new(LogicalPlanBuilder::from(unmarked(&join.right)?).filter(condition.data)?.build()?))
}

/// What is marked as LATERAL, or something that is named after it.
pub(super) fn lateral_part(plan: &LogicalPlan) -> Option<&Subquery> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral_part(&alias.input),
        _ => None,
    }
}

/// A LATERAL part without its mark.
fn unmarked(plan: &LogicalPlan) -> DfResult<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Subquery(subquery) => subquery.subquery.as_ref().clone(),
        LogicalPlan::SubqueryAlias(named) => {
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(unmarked(&named.input)?), named.alias.clone())?)
        }
        other => other.clone(),
    })
}

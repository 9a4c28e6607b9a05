//! The exact type of what a query gives, where DataFusion forgets it: [`types::TYPE_KEY`] marks a column, and the value
//! of an expression over it is to be marked too.
//!
//! PostgreSQL: `CASE WHEN x THEN oid END`, `coalesce(oid, 0)`, `min(oid)` and `array_agg(oid)` are oids. DataFusion: they
//! are of the type of Arrow that holds them. Blocked by: it gives no way to say it for CASE, nor for functions of its own,
//! and its scalar subqueries lose it when they run. Remove when: it has one.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::functions::OF_ONE_TYPE;
use super::types::{self, PgType};

/// Marks what the plan gives.
pub fn marked(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut changed = false;
    plan.transform_up_with_subqueries(|plan| {
        let plan = mark(plan)?;
        // Also where only an input has changed: its fields are other ones now.
        changed |= plan.transformed;
        if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })
    .map(|plan| plan.data)
}

/// The plan with marks in the columns of a projection, and in what functions are called with.
fn mark(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let input = input.clone();
    let is_projection = matches!(plan, LogicalPlan::Projection(_));
    let preserver = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = preserver.save(&expr);
        let marked = expr.transform_up(|expr| Ok(arguments(expr, &input)))?;
        let marked = marked.transform_data(|expr| {
            let found = if is_projection { unmarked(&expr, &input) } else { None };
            Ok(match found {
                Some(exact) => Transformed::yes(Mark::of(exact).call(vec![expr.unalias()])),
                None => Transformed::no(expr),
            })
        })?;
        Ok(if marked.transformed { marked.update_data(|expr| name.restore(expr)) } else { marked })
    })
}

/// The exact type of an expression whose own field doesn't say it.
fn unmarked(expr: &Expr, input: &LogicalPlan) -> Option<&'static PgType> {
    let (_, field) = expr.to_field(input.schema().as_ref()).ok()?;
    if let Some(exact) = types::marked(&field) {
        // These become a CASE when the plan is optimized.
        return is_of_one_type(expr).then_some(exact);
    }
    exact(expr, input).filter(|exact| exact.arrow().equals_datatype(field.data_type()))
}

/// A function call whose arguments are marked. A subquery's field says its type, but only until it runs.
fn arguments(expr: Expr, input: &LogicalPlan) -> Transformed<Expr> {
    let wrap = |args: &mut Vec<Expr>| {
        let mut changed = false;
        for arg in args {
            let found = match &*arg {
                Expr::ScalarSubquery(query) => types::marked(query.subquery.schema().field(0)),
                other => unmarked(other, input),
            };
            if let Some(exact) = found {
                let inner = std::mem::take(arg);
                *arg = Mark::of(exact).call(vec![inner]);
                changed = true;
            }
        }
        changed
    };
    let mut expr = expr;
    let changed = match &mut expr {
        Expr::ScalarFunction(call) if call.func.name() != Mark::NAME => wrap(&mut call.args),
        Expr::AggregateFunction(call) => wrap(&mut call.params.args),
        Expr::WindowFunction(call) => wrap(&mut call.params.args),
        _ => false,
    };
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// The exact type of an expression's values, where that is another than its own field says.
fn exact(expr: &Expr, input: &LogicalPlan) -> Option<&'static PgType> {
    let of = |expr: &Expr, schema: &DFSchema| expr.to_field(schema).ok().and_then(|(_, field)| types::marked(&field));
    let here = |expr: &Expr| of(expr, input.schema()).or_else(|| exact(expr, input));
    match expr {
        Expr::Alias(alias) => exact(&alias.expr, input),
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let mut values = when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(else_expr.as_deref());
            values.find_map(here)
        }
        Expr::ScalarFunction(call) if is_of_one_type(expr) => call.args.iter().find_map(here),
        Expr::Column(column) => aggregated(column, input).or_else(|| unnested(column, input)),
        _ => None,
    }
}

/// Whether it is a call that gives one of its arguments.
fn is_of_one_type(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_of_one_type(&alias.expr),
        Expr::ScalarFunction(call) => OF_ONE_TYPE.contains(&call.func.name()),
        _ => false,
    }
}

/// The exact type of an aggregate function's values, from that of its argument.
fn aggregated(column: &Column, input: &LogicalPlan) -> Option<&'static PgType> {
    match input {
        LogicalPlan::Filter(filter) => aggregated(column, &filter.input),
        LogicalPlan::Sort(sort) => aggregated(column, &sort.input),
        LogicalPlan::Aggregate(aggregate) => {
            let at = aggregate.schema.maybe_index_of_column(column)?.checked_sub(aggregate.group_expr.len())?;
            let Expr::AggregateFunction(call) = aggregate.aggr_expr.get(at)?.clone().unalias() else { return None };
            let (_, field) = call.params.args.first()?.to_field(aggregate.input.schema().as_ref()).ok()?;
            let argument = types::marked(&field)?;
            match call.func.name() {
                "min" | "max" => Some(argument),
                "array_agg" => types::by_name(&format!("{}[]", argument.name)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The exact type of an array's items, from that of the array.
fn unnested(column: &Column, input: &LogicalPlan) -> Option<&'static PgType> {
    let LogicalPlan::Unnest(unnest) = input else { return None };
    let (at, _) = unnest.list_type_columns.iter().find(|(_, list)| list.output_column.name == column.name)?;
    let array = types::marked(unnest.input.schema().fields().get(*at)?)?;
    array.name.strip_suffix("[]").and_then(types::by_name)
}

/// Gives its argument as it is, marked as of an exact type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    exact: &'static PgType,
    signature: Signature,
}

impl Mark {
    const NAME: &str = "mark";

    fn of(exact: &'static PgType) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self { exact, signature: Signature::any(1, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone().with_nullable(true);
        Ok(Arc::new(field.with_metadata(self.exact.metadata())))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(call.args[0].clone())
    }
}

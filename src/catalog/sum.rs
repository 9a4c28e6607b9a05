//! PostgreSQL: the sum of bigints is a numeric. DataFusion: it is a bigint, which wraps around. Blocked by: its `sum` has
//! one type for integers of all sizes. Remove when: the sum of bigints fails where it overflows.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, WindowFunctionDefinition};

/// Any bigint fits.
const BIGINT: DataType = DataType::Decimal128(19, 0);

/// The plan with the operands of such sums cast, before DataFusion widens those of other integers to bigints.
pub fn as_numeric(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let preserver = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let expr = expr.transform_up(|expr| cast_operand(expr, &schema))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        // Also where only an input has changed: its fields are other ones now.
        changed |= plan.transformed;
        if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })?;
    Ok(plan.data)
}

fn cast_operand(mut expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let args = match &mut expr {
        Expr::AggregateFunction(call) if call.func.name() == "sum" => &mut call.params.args,
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) if function.name() == "sum" => &mut call.params.args,
            _ => return Ok(Transformed::no(expr)),
        },
        _ => return Ok(Transformed::no(expr)),
    };
    match args.as_mut_slice() {
        [operand] if is_bigint(operand, schema)? => {
            let field = Arc::new(Field::new("", BIGINT, true));
            *operand = Expr::Cast(Cast { expr: Box::new(std::mem::take(operand)), field });
            Ok(Transformed::yes(expr))
        }
        _ => Ok(Transformed::no(expr)),
    }
}

/// PostgreSQL: a number such as 1 is an integer. DataFusion: it is a bigint, and `sum(CASE WHEN a THEN 1 ELSE 0 END)`
/// would become a numeric.
fn is_bigint(expr: &Expr, schema: &DFSchema) -> DfResult<bool> {
    Ok(match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => i32::try_from(*number).is_err(),
        Expr::Literal(ScalarValue::Int64(None), _) => false,
        Expr::Alias(alias) => is_bigint(&alias.expr, schema)?,
        Expr::Negative(inner) => is_bigint(inner, schema)?,
        Expr::BinaryExpr(BinaryExpr { left, right, op }) if op.is_numerical_operators() => {
            expr.get_type(schema)? == DataType::Int64 && (is_bigint(left, schema)? || is_bigint(right, schema)?)
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            results.map(|result| is_bigint(result, schema)).collect::<DfResult<Vec<_>>>()?.contains(&true)
        }
        other => other.get_type(schema)? == DataType::Int64,
    })
}

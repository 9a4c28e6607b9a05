//! PostgreSQL's exact types on a plan that DataFusion has made: what `sum` and `avg` give, what a cast of json gives, and
//! what goes out to the client.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Cast, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition};

use super::{cast, functions, types};

/// Gives the plan's expressions their exact types.
pub fn exact(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut changed = false;
    plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let preserver = NamePreserver::new(&plan);
        // In a condition a cast may be left to SQLite.
        let is_shown = !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        let plan = plan.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let expr = expr.transform_up(|expr| exact_expression(expr, &schema, is_shown))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        // Also where only an input has changed: its fields are other ones now.
        changed |= plan.transformed;
        if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })
    .map(|plan| plan.data)
}

fn exact_expression(expr: Expr, schema: &DFSchema, is_shown: bool) -> DfResult<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr, field }) => exact_cast(*expr, field, schema, is_shown),
        Expr::AggregateFunction(mut call) => {
            let changed = widen(call.func.name(), &mut call.params.args, schema);
            Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
        }
        Expr::WindowFunction(mut call) => {
            let WindowFunction { fun, params } = call.as_mut();
            let changed = match fun {
                WindowFunctionDefinition::AggregateUDF(function) => widen(function.name(), &mut params.args, schema),
                WindowFunctionDefinition::WindowUDF(_) => false,
            };
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// `sum` of bigint and `avg` of whole and exact numbers are exact.
fn widen(function: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    let Ok(data_type) = arg.get_type(schema) else { return false };
    let exact = match (function, &data_type) {
        ("sum", DataType::Int64) => DataType::Decimal128(28, 0),
        ("avg", whole) if whole.is_integer() => DataType::Decimal128(34, 12),
        // An average has four digits more.
        ("avg", DataType::Decimal128(_, scale)) if *scale < 12 => DataType::Decimal128(34, 12),
        _ => return false,
    };
    let inner = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
    *arg = Expr::Cast(Cast::new(Box::new(inner), exact));
    true
}

/// A cast of a value whose exact type Arrow doesn't know. DataFusion would leave it away, or carry the exact type over.
fn exact_cast(expr: Expr, field: FieldRef, schema: &DFSchema, is_shown: bool) -> DfResult<Transformed<Expr>> {
    let unchanged = |expr: Expr, field: FieldRef| Transformed::no(Expr::Cast(Cast { expr: Box::new(expr), field }));
    let Ok((_, from)) = expr.to_field(schema) else { return Ok(unchanged(expr, field)) };
    let Some(marked) = types::marked(&from) else { return Ok(unchanged(expr, field)) };
    let target = field.data_type().clone();
    let is_json = matches!(marked.name, "json" | "jsonb");
    if is_json && target == DataType::Utf8 {
        return Ok(called("jsonb_out", vec![expr.clone()]).unwrap_or_else(|| unchanged(expr, field)));
    }
    if is_json && (target.is_numeric() || target == DataType::Boolean) {
        let name = Expr::Literal(ScalarValue::Utf8(Some(types::sql_name(&field).into())), None);
        return Ok(match called("jsonb_scalar", vec![expr.clone(), name]) {
            Some(scalar) => Transformed::yes(Expr::Cast(Cast { expr: Box::new(scalar.data), field })),
            None => unchanged(expr, field),
        });
    }
    if target == DataType::Utf8 && functions::REG_TYPES.contains(&marked.name) {
        let function = functions::text_function(marked.name);
        return Ok(called(&function, vec![expr.clone()]).unwrap_or_else(|| unchanged(expr, field)));
    }
    if is_shown && !from.data_type().is_list() {
        return Ok(Transformed::yes(cast::call(expr, from, Arc::new(Field::new("", target, true)))));
    }
    Ok(unchanged(expr, field))
}

fn called(name: &str, args: Vec<Expr>) -> Option<Transformed<Expr>> {
    functions::find(name).map(|definition| Transformed::yes(definition.call(args)))
}

/// The last step: oids that are shown as names, and whole numbers without a sign, which PostgreSQL doesn't have.
pub fn shown(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let reg_type = |field: &FieldRef| {
        let marked = types::marked(field).filter(|_| field.data_type() == &DataType::Int32);
        marked.map(|pg_type| pg_type.name).filter(|name| functions::REG_TYPES.contains(name))
    };
    let signed = |field: &FieldRef| match field.data_type() {
        DataType::UInt8 | DataType::UInt16 | DataType::Int8 => Some(DataType::Int16),
        DataType::UInt32 | DataType::UInt64 => Some(DataType::Int64),
        _ => None,
    };
    let needed = |field: &FieldRef| reg_type(field).is_some() || signed(field).is_some();
    if matches!(plan, LogicalPlan::Explain(_)) || !plan.schema().fields().iter().any(needed) {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let expressions: Vec<Expr> = columns
        .into_iter()
        .zip(plan.schema().fields())
        .map(|(column, field)| {
            let name = column.name.clone();
            let column = Expr::Column(column);
            if let Some(data_type) = signed(field) {
                return Expr::Cast(Cast::new(Box::new(column), data_type)).alias(name);
            }
            match reg_type(field).and_then(|name| functions::find(&functions::text_function(name))) {
                Some(function) => function.call(vec![column]).alias(name),
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(expressions)?.build()
}

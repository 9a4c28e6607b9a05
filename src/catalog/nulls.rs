//! NULL where DataFusion sees a value, or knows too soon that there is one.
//!
//! PostgreSQL: a record is NULL when all its items are; a subquery without a row is NULL, whatever it selects; `x = ANY (a)`
//! is NULL where x is none of the items and one of them is NULL. DataFusion: tests the record itself; takes `count(*)` of no
//! group for a value, since no row that there is has a NULL; passes over NULLs in arrays. Blocked by: its expressions.
//! Remove when: they say the same.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator};

use super::functions::{self, nulls};

/// What an expression becomes.
pub fn exact(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::IsNull(record) if is_record(&record, schema) => called(nulls::IS_NULL, vec![*record]),
        Expr::IsNotNull(record) if is_record(&record, schema) => called(nulls::IS_NOT_NULL, vec![*record]),
        Expr::ScalarSubquery(subquery)
            if !subquery.subquery.schema().field(0).is_nullable() && may_be_empty(&subquery.subquery) =>
        {
            called(nulls::OR_NULL, vec![Expr::ScalarSubquery(subquery)])
        }
        other => match array_of_any(&other) {
            Some(array) => called(nulls::AMONG_NULLS, vec![other, array]),
            None => Transformed::no(other),
        },
    }
}

/// A condition, to which NULL is as good as false: of ANY it needs no more than DataFusion says, which it may turn into
/// something faster.
pub fn in_condition(condition: Expr) -> Expr {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (Box::new(in_condition(*left)), Box::new(in_condition(*right)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::ScalarFunction(mut call) if call.func.name() == nulls::AMONG_NULLS => call.args.swap_remove(0),
        other => other,
    }
}

fn called(name: &str, mut args: Vec<Expr>) -> Transformed<Expr> {
    match functions::find(name) {
        Some(function) => Transformed::yes(function.call(args)),
        None => Transformed::no(args.swap_remove(0)),
    }
}

fn is_record(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Struct(_)))
}

fn may_be_empty(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => may_be_empty(&projection.input),
        LogicalPlan::SubqueryAlias(named) => may_be_empty(&named.input),
        LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(relation) => !relation.produce_one_row,
        _ => true,
    }
}

/// The array of what DataFusion makes of `x op ANY (array)`.
fn array_of_any(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "array_has" => args.first().cloned(),
        Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(_) }) => match when_then_expr.as_slice() {
            [(bound, _), (is_there, _)] => match (bound.as_ref(), is_there.as_ref()) {
                (Expr::IsNotNull(bound), Expr::IsNotNull(array)) if is_bound(bound, array) => {
                    Some(array.as_ref().clone())
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression is the least or the greatest item of an array.
fn is_bound(expr: &Expr, array: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            matches!(func.name(), "array_min" | "array_max") && args.as_slice() == [array.clone()]
        }
        _ => false,
    }
}

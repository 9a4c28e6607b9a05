//! A string literal has no type of its own: it takes that of what it is compared with.
//!
//! PostgreSQL: `oid = '1259'` compares oids. DataFusion: the oid would be compared as text, which is slow, hides the
//! comparison from SQLite and finds nothing for `'01259'`. Blocked by: DataFusion types every literal when it is
//! parsed. Remove when: it has a type for literals that are not typed yet.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Case, Cast, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::exact::reg_type;
use super::functions;

/// See the module.
#[derive(Debug)]
pub struct TypeLiterals;

impl AnalyzerRule for TypeLiterals {
    fn name(&self) -> &'static str {
        "type_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&scan.projected_schema);
            }
            let preserver = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = expr.transform_up(|expr| type_literals(expr, &schema))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })
        .map(|plan| plan.data)
    }
}

fn type_literals(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right) = match (untyped(&left), untyped(&right)) {
                (false, true) => {
                    let right = typed(*right, &left, schema)?;
                    (left, Box::new(right))
                }
                (true, false) => (Box::new(typed(*left, &right, schema)?), right),
                _ => (left, right),
            };
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.into_iter().map(|item| typed(item, &expr, schema)).collect::<DfResult<_>>()?;
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let low = Box::new(typed(*low, &expr, schema)?);
            let high = Box::new(typed(*high, &expr, schema)?);
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        // `CASE x WHEN 't' THEN ...` compares x.
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr }) => {
            let arms = when_then_expr.into_iter();
            let arms = arms.map(|(when, then)| Ok((Box::new(typed(*when, &operand, schema)?), then)));
            let when_then_expr = arms.collect::<DfResult<_>>()?;
            Transformed::yes(Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr }))
        }
        other => Transformed::no(other),
    })
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom | Operator::NotEq)
}

fn untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// A literal as a value of the other side's type. Whatever isn't a string literal stays as it is.
fn typed(literal: Expr, other: &Expr, schema: &DFSchema) -> DfResult<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = literal else { return Ok(literal) };
    // A column of an outer query, or something that isn't well typed: the planner has its say later.
    let Ok(data_type) = other.get_type(schema) else {
        return Ok(Expr::Literal(ScalarValue::Utf8(Some(text)), metadata));
    };
    if let Some(name) = other.to_field(schema).ok().and_then(|(_, field)| reg_type(&field))
        && text.parse::<u32>().is_err()
        && let Some(function) = functions::find(&functions::oid_function(name))
    {
        return Ok(function.call(vec![Expr::Literal(ScalarValue::Utf8(Some(text)), metadata)]));
    }
    let value = match &data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => ScalarValue::Utf8(Some(text)),
        // Read as any other cast of text, which may ask the session.
        _ => {
            let literal = Expr::Literal(ScalarValue::Utf8(Some(text)), metadata);
            return Ok(Expr::Cast(Cast::new(Box::new(literal), data_type)));
        }
    };
    Ok(Expr::Literal(value, metadata))
}

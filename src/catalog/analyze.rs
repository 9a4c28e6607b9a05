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
use super::types;

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
                _ => comparable(left, right, schema),
            };
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated }) if types::is_of(&expr, "bpchar", schema) => {
            let (expr, list) =
                (Box::new(functions::unpadded(*expr)), list.into_iter().map(functions::unpadded).collect());
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let expr = Box::new(widened(*expr, &list, schema));
            let list = list.into_iter().map(|item| typed(item, &expr, schema)).collect::<DfResult<_>>()?;
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let expr = Box::new(widened(*expr, [low.as_ref(), high.as_ref()], schema));
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

/// The operands of a comparison as PostgreSQL makes two types one. DataFusion makes an exact number of a float, which is
/// not the same number, and a time in nanoseconds of a date, which ends in 2262.
fn comparable(left: Box<Expr>, right: Box<Expr>, schema: &DFSchema) -> (Box<Expr>, Box<Expr>) {
    let (Ok(of_left), Ok(of_right)) = (left.get_type(schema), right.get_type(schema)) else { return (left, right) };
    let cast = |expr: Box<Expr>, target| Box::new(Expr::Cast(Cast::new(expr, target)));
    if let Some(target) = target(&of_right, &of_left) {
        return (left, cast(right, target));
    }
    match target(&of_left, &of_right) {
        Some(target) => (cast(left, target), right),
        None => (left, right),
    }
}

/// What is compared with several values, as [`comparable`] makes it.
fn widened<'a>(expr: Expr, others: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Expr {
    let Ok(own) = expr.get_type(schema) else { return expr };
    let target = others.into_iter().find_map(|other| target(&own, &other.get_type(schema).ok()?));
    match target {
        Some(target) => Expr::Cast(Cast::new(Box::new(expr), target)),
        None => expr,
    }
}

/// The type that a value is compared as with one of another type, if it isn't its own.
fn target(own: &DataType, other: &DataType) -> Option<DataType> {
    match (own, other) {
        (number, DataType::Float32 | DataType::Float64)
            if number.is_numeric() && number != other && *number != DataType::Float64 =>
        {
            Some(DataType::Float64)
        }
        (DataType::Date32, DataType::Timestamp(..)) => Some(other.clone()),
        (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(_))) => Some(other.clone()),
        _ => None,
    }
}

/// Whether an expression is a literal in quotes, which has no type of its own.
pub(super) fn untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// A literal as a value of the other side's type. Whatever isn't a string literal keeps its type, but for [`target`].
pub(super) fn typed(literal: Expr, other: &Expr, schema: &DFSchema) -> DfResult<Expr> {
    let (text, metadata) = match literal {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => (text, metadata),
        value => return Ok(*comparable(Box::new(other.clone()), Box::new(value), schema).1),
    };
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
    // Documents are compared in the one form that jsonb has.
    if types::is_of(other, "jsonb", schema)
        && let Some(input) = functions::find("jsonb_in")
    {
        return Ok(input.call(vec![Expr::Literal(ScalarValue::Utf8(Some(text)), metadata)]));
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

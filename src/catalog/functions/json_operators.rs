//! The operators of JSON.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::ExprSchemable as _;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;

use super::super::types;
use super::find;
use super::json_order::JSONB_KEY;

const fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// Plans comparisons of jsonb, and `->`, `->>`, `#>`, `#>>`, `@>`, `<@`, `?`, `?|`, `?&`, `||`, `-` and `#-` over json, jsonb and text.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::Null);
        // The operators of arrays look the same.
        let Ok((_, left)) = expr.left.to_field(schema) else { return Ok(PlannerResult::Original(expr)) };
        if !is_text(left.data_type()) {
            return Ok(PlannerResult::Original(expr));
        }
        if is_comparison(&expr.op)
            && let Some(key) = find(JSONB_KEY)
            && (types::name_of(&left) == "jsonb"
                || expr.right.to_field(schema).is_ok_and(|(_, field)| types::name_of(&field) == "jsonb"))
        {
            let RawBinaryExpr { op, left, right } = expr;
            let (left, right) = (key.call(vec![left]), key.call(vec![right]));
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let is_jsonb = types::name_of(&left) != "json";
        let right_is_jsonb = || expr.right.to_field(schema).is_ok_and(|(_, field)| types::name_of(&field) == "jsonb");
        let pick = |json: &'static str, jsonb: &'static str| if is_jsonb { jsonb } else { json };
        let (name, swap) = match &expr.op {
            BinaryOperator::Arrow => (pick("json_get", "jsonb_get"), false),
            BinaryOperator::LongArrow => ("json_get_text", false),
            BinaryOperator::HashArrow => (pick("json_get_path", "jsonb_get_path"), false),
            BinaryOperator::HashLongArrow => ("json_get_path_text", false),
            BinaryOperator::AtArrow => ("json_contains", false),
            BinaryOperator::ArrowAt => ("json_contains", true),
            BinaryOperator::Question => ("json_has_key", false),
            BinaryOperator::QuestionPipe => ("json_has_any", false),
            BinaryOperator::QuestionAnd => ("json_has_all", false),
            BinaryOperator::HashMinus => ("jsonb_delete_path", false),
            BinaryOperator::StringConcat if types::name_of(&left) == "jsonb" || right_is_jsonb() => {
                ("jsonb_concat", false)
            }
            BinaryOperator::Minus if types::name_of(&left) == "jsonb" => ("jsonb_delete", false),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let Some(definition) = find(name) else { return Ok(PlannerResult::Original(expr)) };
        let args = if swap { vec![expr.right, expr.left] } else { vec![expr.left, expr.right] };
        Ok(PlannerResult::Planned(definition.call(args)))
    }
}

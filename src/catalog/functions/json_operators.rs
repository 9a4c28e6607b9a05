//! The operators of JSON.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;

use super::super::types;
use super::find;
use super::json_order::JSONB_KEY;
use super::operators::{by_key, is_comparison};

/// Plans comparisons of jsonb, and `->`, `->>`, `#>`, `#>>`, `@>`, `<@`, `?`, `?|`, `?&`, `||`, `-` and `#-` over json,
/// jsonb and text.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::Null);
        // The operators of arrays look the same.
        let Ok(left) = types::field_of(&expr.left, schema) else { return Ok(PlannerResult::Original(expr)) };
        if !is_text(left.data_type()) {
            return Ok(PlannerResult::Original(expr));
        }
        if is_comparison(&expr.op)
            && let Some(key) = find(JSONB_KEY)
            && (types::name_of(&left) == "jsonb" || types::is_of(&expr.right, "jsonb", schema))
        {
            return Ok(PlannerResult::Original(by_key(key, expr)));
        }
        let is_jsonb = types::name_of(&left) != "json";
        let right_is_jsonb = || types::is_of(&expr.right, "jsonb", schema);
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

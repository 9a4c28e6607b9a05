//! The JSON operators, over jsonb columns and text that holds JSON.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;
use datafusion::logical_expr::{Expr, ExprSchemable as _, ScalarUDF};
use serde_json::Value as Json;

use super::{Call, Definition, RowFunction, Value, invalid, stable, text};
use crate::error::Result;

pub const FUNCTIONS: &[Definition] = &[
    stable("json_get", 2..=2, "jsonb", |call| Ok(text(get(call)?.map(|value| value.to_string())))),
    stable("json_get_text", 2..=2, "text", |call| Ok(text(get(call)?.and_then(as_text)))),
    stable("json_get_path", 2..=2, "jsonb", |call| Ok(text(get_path(call)?.map(|value| value.to_string())))),
    stable("json_get_path_text", 2..=2, "text", |call| Ok(text(get_path(call)?.and_then(as_text)))),
    stable("json_contains", 2..=2, "bool", |call| {
        let (whole, part) = (parse(call, 0)?, parse(call, 1)?);
        Ok(ScalarValue::Boolean(whole.zip(part).map(|(whole, part)| contains(&whole, &part))))
    }),
    stable("json_has_key", 2..=2, "bool", |call| {
        let key = call.text(1);
        Ok(ScalarValue::Boolean(parse(call, 0)?.zip(key).map(|(value, key)| match value {
            Json::Object(map) => map.contains_key(&key),
            Json::Array(items) => items.iter().any(|item| item.as_str() == Some(&key)),
            other => other.as_str() == Some(&key),
        })))
    }),
    stable("jsonb_array_length", 1..=1, "int4", array_length),
    stable("json_array_length", 1..=1, "int4", array_length),
    stable("jsonb_typeof", 1..=1, "text", type_of),
    stable("json_typeof", 1..=1, "text", type_of),
];

fn parse(call: &Call<'_>, index: usize) -> Result<Option<Json>> {
    call.text(index)
        .map(|text| {
            serde_json::from_str(&text)
                .map_err(|error| invalid("22P02", format!("invalid input syntax for type json: {error}")))
        })
        .transpose()
}

fn get(call: &Call<'_>) -> Result<Option<Json>> {
    let Some(value) = parse(call, 0)? else { return Ok(None) };
    let by_index = matches!(call.args[1], ScalarValue::Int64(_) | ScalarValue::Int32(_) | ScalarValue::Int16(_));
    let key = if by_index { call.integer(1).map(|index| index.to_string()) } else { call.text(1) };
    Ok(key.and_then(|key| step(value, &key)))
}

fn step(value: Json, key: &str) -> Option<Json> {
    match value {
        Json::Object(mut map) => map.remove(key),
        Json::Array(mut items) => {
            let index: i64 = key.parse().ok()?;
            let len = i64::try_from(items.len()).ok()?;
            let index = usize::try_from(if index < 0 { len + index } else { index }).ok()?;
            (index < items.len()).then(|| items.swap_remove(index))
        }
        _ => None,
    }
}

fn get_path(call: &Call<'_>) -> Result<Option<Json>> {
    let Some(mut value) = parse(call, 0)? else { return Ok(None) };
    // '{a,b}' or an array, which prints as [a, b].
    let Some(path) = call.text(1) else { return Ok(None) };
    let path = path.trim_matches(|c| matches!(c, '{' | '}' | '[' | ']'));
    for key in path.split(',').map(|key| key.trim().trim_matches('"')).filter(|key| !key.is_empty()) {
        match step(value, key) {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn as_text(value: Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        (Json::Array(whole), Json::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part)))
        }
        (Json::Array(whole), part) => whole.contains(part),
        (whole, part) => whole == part,
    }
}

fn array_length(call: &Call<'_>) -> Value {
    match parse(call, 0)? {
        None => Ok(ScalarValue::Int32(None)),
        Some(Json::Array(items)) => Ok(ScalarValue::Int32(i32::try_from(items.len()).ok())),
        Some(_) => Err(invalid("22023", "cannot get array length of a non-array".into())),
    }
}

fn type_of(call: &Call<'_>) -> Value {
    Ok(text(parse(call, 0)?.map(|value| match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    })))
}

/// Plans `->`, `->>`, `#>`, `#>>`, `@>`, `<@` and `?` over text.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let (name, swap) = match expr.op {
            BinaryOperator::Arrow => ("json_get", false),
            BinaryOperator::LongArrow => ("json_get_text", false),
            BinaryOperator::HashArrow => ("json_get_path", false),
            BinaryOperator::HashLongArrow => ("json_get_path_text", false),
            BinaryOperator::AtArrow => ("json_contains", false),
            BinaryOperator::ArrowAt => ("json_contains", true),
            BinaryOperator::Question => ("json_has_key", false),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        // The operators of arrays look the same.
        if !matches!(expr.left.get_type(schema)?, DataType::Utf8 | DataType::Utf8View | DataType::Null) {
            return Ok(PlannerResult::Original(expr));
        }
        let Some(definition) = FUNCTIONS.iter().find(|definition| definition.name == name) else {
            return Ok(PlannerResult::Original(expr));
        };
        let function = std::sync::Arc::new(ScalarUDF::new_from_impl(RowFunction::new(definition)));
        let args = if swap { vec![expr.right, expr.left] } else { vec![expr.left, expr.right] };
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    }
}

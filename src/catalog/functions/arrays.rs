//! Functions over arrays of any type.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::functions::unicode::expr_fn::substring;
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, GetFieldAccess, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::lit;
use datafusion_pg_catalog::pg_catalog::{array_bounds_udf, quote_ident_udf};

use super::super::types;

/// All of them.
pub fn all() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::new_from_impl(ArrayOrEmpty { signature: Signature::any(1, Volatility::Immutable) }),
        array_bounds_udf::create_array_upper_udf(),
        array_bounds_udf::create_array_lower_udf(),
        quote_ident_udf::create_quote_ident_udf(),
        quote_ident_udf::create_parse_ident_udf(),
    ]
}

/// `int2vector` and `oidvector` count from 0, all other arrays from 1. So do names, whose items are their letters. An
/// item of an aggregate's array is taken from it: DataFusion makes an nth_value of it, which takes no order and no column
/// as its place.
#[derive(Debug)]
pub struct Vectors;

impl ExprPlanner for Vectors {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> DfResult<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { field_access, expr } = access;
        let field_access = match field_access {
            GetFieldAccess::ListIndex { key }
                if expr.to_field(schema).is_ok_and(|(_, field)| is_vector(types::name_of(&field))) =>
            {
                GetFieldAccess::ListIndex { key: Box::new(*key + lit(1_i64)) }
            }
            GetFieldAccess::ListIndex { key }
                if expr.to_field(schema).is_ok_and(|(_, field)| types::name_of(&field) == "name")
                    && let Some(char_in) = super::find("char_in") =>
            {
                let letter = substring(expr, key.cast_to(&DataType::Int64, schema)? + lit(1_i64), lit(1_i64));
                return Ok(PlannerResult::Planned(char_in.call(vec![letter])));
            }
            GetFieldAccess::ListIndex { key } if matches!(expr, Expr::AggregateFunction(_)) => {
                return Ok(PlannerResult::Planned(array_element(expr, *key)));
            }
            other => other,
        };
        Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }))
    }
}

fn is_vector(type_name: &str) -> bool {
    matches!(type_name, "int2vector" | "oidvector")
}

/// An empty array for NULL: `array(SELECT ...)` of no rows, where array_agg gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayOrEmpty {
    signature: Signature,
}

impl ScalarUDFImpl for ArrayOrEmpty {
    fn name(&self) -> &'static str {
        "array_or_empty"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let array = call.args[0].to_array(call.number_rows)?;
        let Some(list) = array.as_list_opt::<i32>().filter(|list| list.null_count() > 0) else {
            return Ok(ColumnarValue::Array(array));
        };
        // The same values, with no items where there is no array.
        let lengths = (0..list.len()).map(|row| if list.is_null(row) { 0 } else { list.value(row).len() });
        let parts: Vec<ArrayRef> =
            (0..list.len()).filter(|row| !list.is_null(*row)).map(|row| list.value(row)).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let values = if parts.is_empty() {
            datafusion::arrow::array::new_empty_array(&list.value_type())
        } else {
            datafusion::arrow::compute::concat(&parts)?
        };
        let DataType::List(field) = list.data_type() else { return Ok(ColumnarValue::Array(array)) };
        let list = ListArray::try_new(Arc::clone(field), OffsetBuffer::from_lengths(lengths), values, None)?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}

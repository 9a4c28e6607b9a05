//! Functions over arrays of any type.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_pg_catalog::pg_catalog::{array_bounds_udf, quote_ident_udf};

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

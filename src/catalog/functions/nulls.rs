//! What is NULL in PostgreSQL's eyes, where DataFusion looks only at whether there is a value; and how NULLs within arrays and
//! records are ordered. `catalog/nulls.rs` puts calls of these into plans.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, Int32Array, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{Call, Definition, Returns, Value, derived, pure};

/// The names of `r IS NULL` and `r IS NOT NULL` of a record.
pub const IS_NULL: &str = "record_is_null";
pub const IS_NOT_NULL: &str = "record_is_not_null";

/// The name of the function that gives its argument, which DataFusion doesn't take for one that is never NULL.
pub const OR_NULL: &str = "or_null";

/// The name of the function that gives what `x op ANY (array)` is, from what it is without the NULLs of the array.
pub const AMONG_NULLS: &str = "among_nulls";

pub const FUNCTIONS: &[Definition] = &[
    pure(IS_NULL, 1..=1, "bool", |call| every_item(call, true)),
    pure(IS_NOT_NULL, 1..=1, "bool", |call| every_item(call, false)),
    derived(OR_NULL, 1..=1, Returns::Like(0), |call| Ok(call.args[0].clone())),
    pure(AMONG_NULLS, 2..=2, "bool", |call| {
        let ScalarValue::List(array) = &call.args[1] else { return Ok(call.args[0].clone()) };
        let items = if array.is_null(0) { None } else { Some(array.value(0)) };
        Ok(match (&call.args[0], items) {
            (ScalarValue::Boolean(Some(true)), _) => ScalarValue::Boolean(Some(true)),
            (_, Some(items)) if items.is_empty() => ScalarValue::Boolean(Some(false)),
            (without, Some(items)) if items.logical_null_count() == 0 => without.clone(),
            _ => ScalarValue::Boolean(None),
        })
    }),
];

/// Whether all items of a record are NULL, or none is. A record that there isn't counts as one of NULLs. An item that is a
/// record is a value, whatever it holds.
fn every_item(call: &Call<'_>, null: bool) -> Value {
    let all = match &call.args[0] {
        ScalarValue::Struct(record) if !record.is_null(0) => {
            record.columns().iter().all(|item| (item.logical_null_count() > 0) == null)
        }
        value => value.is_null() == null,
    };
    Ok(ScalarValue::Boolean(Some(all)))
}

/// Less than, equal to or greater than zero as an array or a record comes before another one, is its equal or comes behind
/// it: item by item, NULL behind all else.
pub fn nested_order(left: Expr, right: Expr) -> Expr {
    let function = NestedOrder { signature: Signature::any(2, Volatility::Immutable) };
    ScalarUDF::new_from_impl(function).call(vec![left, right])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedOrder {
    signature: Signature,
}

impl ScalarUDFImpl for NestedOrder {
    fn name(&self) -> &'static str {
        "nested_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&call.args)?;
        let (left, right) = (&arrays[0], &arrays[1]);
        let compare = make_comparator(left, right, SortOptions { descending: false, nulls_first: false })?;
        let order = (0..left.len()).map(|row| {
            (!left.is_null(row) && !right.is_null(row)).then(|| match compare(row, row) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            })
        });
        Ok(ColumnarValue::Array(Arc::new(order.collect::<Int32Array>())))
    }
}

//! The aggregate of a subquery that is used as a value: its only row's value.

use std::hash::Hash;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::error::Error;

/// Its name.
pub const SINGLE_VALUE: &str = "single_value";

/// See the module.
pub fn single_value() -> AggregateUDF {
    AggregateUDF::new_from_impl(SingleValue { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        SINGLE_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(args[0].clone())
    }

    fn return_field(&self, args: &[FieldRef]) -> DfResult<FieldRef> {
        Ok(super::like(self.name(), &args[0]).into())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Only { value, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let value = Field::new("value", args.return_field.data_type().clone(), true);
        Ok(vec![value.into(), Field::new("rows", DataType::Int64, false).into()])
    }
}

#[derive(Debug)]
struct Only {
    value: ScalarValue,
    rows: i64,
}

impl Only {
    fn add(&mut self, values: &ArrayRef, row: usize, rows: i64) -> DfResult<()> {
        self.rows += rows;
        if self.rows > 1 {
            let message = "more than one row returned by a subquery used as an expression".into();
            return Err(Error::Data { sqlstate: "21000", message }.into());
        }
        if rows == 1 {
            self.value = ScalarValue::try_from_array(values, row)?;
        }
        Ok(())
    }
}

impl Accumulator for Only {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        (0..values[0].len()).try_for_each(|row| self.add(&values[0], row, 1))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let rows = states[1].as_primitive::<Int64Type>();
        (0..rows.len()).try_for_each(|row| self.add(&states[0], row, rows.value(row)))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(self.rows))])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}

//! The aggregate of a subquery that is used as a value: its only row's value.
//!
//! A subquery that depends on the outer row becomes a join with groups, and not just with those that the outer rows
//! have. So its aggregate, [`single_or_several`], says no more than whether there were several rows, and [`ONLY_VALUE`], which
//! sees joined rows alone, fails.

use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::{Definition, Returns};
use crate::error::Error;

/// Its name.
pub const SINGLE_VALUE: &str = "single_value";

/// The name of the function that takes the value out of what [`single_or_several`] gives.
pub const ONLY_VALUE: &str = "only_value";

// Volatile: not to be moved below the join.
pub const FUNCTIONS: &[Definition] = &[Definition {
    name: ONLY_VALUE,
    arity: 1..=1,
    returns: Returns::By(|args| match args {
        [whole] if let DataType::Struct(parts) = whole.data_type() => Ok(super::like("", &parts[0])),
        _ => Err(Error::Internal("only_value takes what single_or_several gives".into())),
    }),
    volatility: Volatility::Volatile,
    body: |call| match &call.args[0] {
        ScalarValue::Struct(whole) if whole.is_valid(0) => {
            if whole.column(1).as_boolean().value(0) {
                return Err(several());
            }
            ScalarValue::try_from_array(whole.column(0), 0).map_err(|error| Error::Internal(error.to_string()))
        }
        _ => Ok(ScalarValue::Null),
    },
}];

/// PostgreSQL's error for a subquery with more than one row.
pub fn several() -> Error {
    Error::Data { sqlstate: "21000", message: "more than one row returned by a subquery used as an expression".into() }
}

/// See the module.
pub fn single_value() -> AggregateUDF {
    AggregateUDF::new_from_impl(SingleValue { fails: true, signature: Signature::any(1, Volatility::Immutable) })
}

/// The value of one row, and whether there are more.
pub fn single_or_several() -> AggregateUDF {
    AggregateUDF::new_from_impl(SingleValue { fails: false, signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    /// Whether more than one row are an error at once.
    fails: bool,
    signature: Signature,
}

/// The parts of what [`single_or_several`] gives.
fn parts(value: Field) -> Fields {
    Fields::from(vec![value.with_name("value"), Field::new("several", DataType::Boolean, false)])
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        if self.fails { SINGLE_VALUE } else { "single_or_several" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        let value = args[0].clone();
        Ok(if self.fails { value } else { DataType::Struct(parts(Field::new("", value, true))) })
    }

    fn return_field(&self, args: &[FieldRef]) -> DfResult<FieldRef> {
        let value = super::like(self.name(), &args[0]);
        Ok(match self.fails {
            true => value,
            false => Field::new(self.name(), DataType::Struct(parts(value)), true),
        }
        .into())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let (whole, value) = match args.return_field.data_type() {
            DataType::Struct(parts) if !self.fails => (Some(parts.clone()), parts[0].data_type()),
            value => (None, value),
        };
        Ok(Box::new(Only { value: ScalarValue::try_from(value)?, whole, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let value = match args.return_field.data_type() {
            DataType::Struct(parts) if !self.fails => parts[0].data_type(),
            value => value,
        };
        let value = Field::new("value", value.clone(), true);
        Ok(vec![value.into(), Field::new("rows", DataType::Int64, false).into()])
    }
}

#[derive(Debug)]
struct Only {
    value: ScalarValue,
    /// The parts of what it gives. `None`: the value alone, of one row.
    whole: Option<Fields>,
    rows: i64,
}

impl Only {
    fn add(&mut self, values: &ArrayRef, row: usize, rows: i64) -> DfResult<()> {
        self.rows += rows;
        if self.rows > 1 && self.whole.is_none() {
            return Err(several().into());
        }
        if rows > 0 {
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
        let Some(parts) = &self.whole else { return Ok(self.value.clone()) };
        if self.rows == 0 {
            return ScalarValue::try_from(DataType::Struct(parts.clone()));
        }
        let columns: Vec<ArrayRef> = vec![self.value.to_array()?, Arc::new(BooleanArray::from(vec![self.rows > 1]))];
        Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(parts.clone(), columns, None)?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}

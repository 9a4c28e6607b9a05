//! A function that doesn't exist, so that the error can tell the types of its arguments.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::no_such_function;

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Unknown {
    name: String,
    signature: Signature,
}

impl Unknown {
    /// A function of that name.
    pub fn new(name: &str) -> Self {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        Self { name: name.to_owned(), signature: Signature::one_of(any, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Unknown {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Err(no_such_function(&self.name, &[]).into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        // A literal has no type yet.
        let untyped = |index: usize| matches!(args.scalar_arguments.get(index), Some(Some(value)) if value.data_type().is_string());
        let fields: Vec<FieldRef> = args
            .arg_fields
            .iter()
            .enumerate()
            .map(
                |(index, field)| {
                    if untyped(index) { Field::new("", DataType::Null, true).into() } else { field.clone() }
                },
            )
            .collect();
        Err(no_such_function(&self.name, &fields).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(no_such_function(&self.name, &[]).into())
    }
}

//! `struct` and `named_struct`, whose parts keep their exact types.
//!
//! PostgreSQL: a document in a row is still one in `row_to_json`. DataFusion: the parts of a record are of the types of
//! Arrow that hold them. Blocked by: its functions leave out what marks a field. Remove when: they keep it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::functions::core;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The functions.
pub fn all() -> impl Iterator<Item = ScalarUDF> {
    let named = Record { inner: core::named_struct(), named: true };
    let unnamed = Record { inner: core::r#struct(), named: false };
    [named, unnamed].into_iter().map(ScalarUDF::new_from_impl)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Record {
    inner: Arc<ScalarUDF>,
    /// A name stands before each value.
    named: bool,
}

impl ScalarUDFImpl for Record {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let (first, each) = if self.named { (1, 2) } else { (0, 1) };
        let values = args.arg_fields.iter().skip(first).step_by(each);
        let marks: Vec<_> = values.map(|field| field.metadata().clone()).collect();
        let field = self.inner.return_field_from_args(args)?;
        let DataType::Struct(parts) = field.data_type() else { return Ok(field) };
        let parts = parts.iter().zip(marks).map(|(part, mark)| Arc::new(part.as_ref().clone().with_metadata(mark)));
        Ok(Arc::new(Field::new(field.name(), DataType::Struct(parts.collect()), true)))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        self.inner.invoke_with_args(call)
    }
}

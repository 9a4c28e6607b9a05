//! `coalesce`, whose string literals are of the type of its other arguments.
//!
//! PostgreSQL: in `coalesce(names, '{}')` the literal is an array. DataFusion: it is text, and there is no function of an
//! array and text. Blocked by: DataFusion types every literal when it is parsed. Remove when: it has a type for literals
//! that are not typed yet.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The function.
pub fn coalesce() -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce { inner: CoalesceFunc::new() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    inner: CoalesceFunc,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &'static str {
        "coalesce"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        self.inner.invoke_with_args(call)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        let list = args.iter().find(|arg| matches!(arg, DataType::List(_)));
        match list {
            Some(list) if args.iter().all(|arg| arg == list || arg.is_string() || arg.is_null()) => {
                Ok(vec![list.clone(); args.len()])
            }
            _ => self.inner.coerce_types(args),
        }
    }
}

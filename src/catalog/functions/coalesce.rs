//! `coalesce`, `greatest`, `least` and `nullif`, whose string literals are of the type of the other arguments.
//!
//! PostgreSQL: in `coalesce(at, '2020-01-01')` the literal is a time. DataFusion: it is text, and there is no function of
//! a time and text. Blocked by: DataFusion types every literal when it is parsed. Remove when: it has a type for literals
//! that are not typed yet.
//!
//! Text that isn't a literal is let through here too, and refused when the plan gets its exact types.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::functions::core;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::try_type_union_resolution;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::super::types;

/// The functions' names.
pub const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// The functions.
pub fn all() -> impl Iterator<Item = ScalarUDF> {
    [core::coalesce(), core::greatest(), core::least(), core::nullif()].into_iter().map(|inner| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(OfOneType { inner, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfOneType {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for OfOneType {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let literal = |index: usize| args.scalar_arguments.get(index).is_some_and(Option::is_some);
        // A literal with a mark was cast.
        let has_type = |index: usize, field: &FieldRef| !literal(index) || types::marked(field).is_some();
        let typed = args.arg_fields.iter().enumerate().find(|(index, field)| has_type(*index, field));
        let exact = typed.and_then(|(_, field)| types::marked(field));
        let field = self.inner.return_field_from_args(args)?;
        Ok(match exact.filter(|exact| exact.arrow().equals_datatype(field.data_type())) {
            Some(exact) => Arc::new(field.as_ref().clone().with_metadata(exact.metadata())),
            None => field,
        })
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
        let of_others = |arg: &DataType| if arg.is_string() { DataType::Null } else { arg.clone() };
        let others: Vec<DataType> = args.iter().map(of_others).collect();
        let args = if others.iter().all(DataType::is_null) { args } else { &others };
        if self.name() == "nullif" {
            if args.len() != 2 {
                return Err(super::no_such_function("nullif", &[]).into());
            }
            // Both are compared, and a comparison with a float is one of double precision.
            return match types::widest_float(args) {
                Some(float) if args.iter().any(|arg| !arg.is_null() && *arg != float) => Ok(vec![DataType::Float64; 2]),
                _ => try_type_union_resolution(args),
            };
        }
        if let Some(float) = types::widest_float(args) {
            return Ok(vec![float; args.len()]);
        }
        self.inner.inner().coerce_types(args)
    }
}

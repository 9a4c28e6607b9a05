//! Casts to arrays of types that Arrow doesn't have, `$1::uuid[]`, and which type a cast's function gives.
//!
//! PostgreSQL: a cast gives a value of exactly that type. DataFusion: these are text to it. So such a cast is a call of a
//! function, named like PostgreSQL's input function (`uuid_in`), which gives a value marked with its exact type
//! ([`types::TYPE_KEY`]). Blocked by: DataFusion's casts don't keep such a mark up to the end. Remove when: they do.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, new_empty_array};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::functions_nested::make_array::make_array;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::analyze::{typed, untyped};
use super::cast::from_text;
use super::functions::{self, Call};
use super::scope::Scope;
use super::types::{self, PgType};

/// What the name of a cast's function ends with.
const SUFFIX: &str = "_in";

/// The function that casts to an array of that name, if its items have a function of their own.
pub fn array_function(array: &str) -> Option<String> {
    let to = types::by_name(array)?;
    item_function(to)?;
    Some(format!("{}{SUFFIX}", to.name))
}

fn item_function(array: &PgType) -> Option<&'static functions::Definition> {
    functions::find(&format!("{}{SUFFIX}", array.name.strip_suffix("[]")?))
}

/// The type that a cast's function gives, if it is one.
pub fn target(function: &str) -> Option<&'static PgType> {
    // With a length, these two have another name.
    let name = function.strip_suffix(SUFFIX).or_else(|| function.strip_suffix("_n"))?;
    let to = types::by_name(name)?;
    (functions::find(function).is_some() || item_function(to).is_some()).then_some(to)
}

/// The type that a function takes an argument as, where that is the same for all functions of that name.
pub fn argument(function: &str, count: usize, index: usize) -> Option<&'static PgType> {
    let oid = functions::procedures::FUNCTIONS.argument(function, count, index)?;
    types::TYPES.iter().find(|known| i64::from(known.oid) == oid)
}

/// The functions that cast to arrays.
pub fn all() -> Vec<ScalarUDF> {
    let arrays = types::TYPES.iter().filter(|to| item_function(to).is_some());
    arrays.map(|to| ScalarUDF::new_from_impl(ArrayInput::new(to))).collect()
}

/// The function of a cast to an array.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayInput {
    name: String,
    to: &'static PgType,
    signature: Signature,
}

impl ArrayInput {
    fn new(to: &'static PgType) -> Self {
        let signature = Signature::any(1, Volatility::Immutable);
        Self { name: format!("{}{SUFFIX}", to.name), to, signature }
    }

    /// An array, or the text form of one, as an array of this type.
    fn convert(&self, value: ScalarValue, from: &FieldRef, scope: &Scope) -> DfResult<ScalarValue> {
        let arrow = self.to.arrow();
        let (DataType::List(item), Some(function)) = (&arrow, item_function(self.to)) else { return Ok(value) };
        if value.is_null() {
            return ScalarValue::try_from(&arrow);
        }
        let (list, field) = match value {
            list @ ScalarValue::List(_) => (list, Arc::clone(from)),
            text => {
                let texts = DataType::new_list(DataType::Utf8, true);
                (from_text(text.try_as_str().flatten().unwrap_or_default(), &texts, scope)?, Arc::clone(from))
            }
        };
        let list = [list];
        let items = Call { scope, args: &list, fields: &[field] }.items(0).unwrap_or_default();
        let item_field = [Arc::clone(item)];
        let items = items.into_iter().map(|value| {
            if value.is_null() {
                return ScalarValue::try_from(item.data_type());
            }
            let item = [value];
            let fields = if item[0].data_type() == *item_field[0].data_type() { &item_field[..] } else { &[] };
            Ok((function.body)(&Call { scope, args: &item, fields })?)
        });
        let items = items.collect::<DfResult<Vec<_>>>()?;
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, item.data_type())))
    }
}

impl ScalarUDFImpl for ArrayInput {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(self.to.field(&self.name)))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scope = Scope::of(&call.config_options)?;
        let convert = |value| self.convert(value, &call.arg_fields[0], &scope);
        Ok(match &call.args[0] {
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(convert(value.clone())?),
            ColumnarValue::Array(array) if array.is_empty() => ColumnarValue::Array(new_empty_array(&self.to.arrow())),
            ColumnarValue::Array(array) => {
                let rows = (0..array.len()).map(|row| convert(ScalarValue::try_from_array(array, row)?));
                ColumnarValue::Array(ScalarValue::iter_to_array(rows.collect::<DfResult<Vec<_>>>()?)?)
            }
        })
    }
}

/// The items of an array, with literals in quotes as values of the type that the others have.
fn with_typed_literals(items: Vec<Expr>, schema: &DFSchema) -> DfResult<Vec<Expr>> {
    let has_type = |item: &&Expr| !untyped(item) && item.get_type(schema).is_ok_and(|of| !of.is_null());
    let Some(other) = items.iter().find(has_type).cloned() else { return Ok(items) };
    items.into_iter().map(|item| if untyped(&item) { typed(item, &other, schema) } else { Ok(item) }).collect()
}

/// Plans `array[...]`: a bare NULL and a literal in quotes are of the others' type, and the array is of the exact type
/// that its items are of.
#[derive(Debug)]
pub struct Arrays;

impl ExprPlanner for Arrays {
    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> DfResult<PlannerResult<Vec<Expr>>> {
        let mut exprs = with_typed_literals(exprs, schema)?;
        let types = exprs.iter().map(|expr| expr.get_type(schema)).collect::<DfResult<Vec<DataType>>>()?;
        if let Some(float) = types::widest_float(&types) {
            exprs = exprs.into_iter().map(|expr| expr.cast_to(&float, schema)).collect::<DfResult<_>>()?;
        }
        let fields = exprs.iter().map(|expr| Ok(expr.to_field(schema)?.1)).collect::<DfResult<Vec<FieldRef>>>()?;
        let Some(first) = fields.iter().find(|field| !field.data_type().is_null()) else {
            return Ok(PlannerResult::Original(exprs));
        };
        let items = exprs.into_iter().zip(&fields).map(|(expr, field)| {
            if field.data_type().is_null() { expr.cast_to(first.data_type(), schema) } else { Ok(expr) }
        });
        let array = make_array(items.collect::<DfResult<_>>()?);
        let marked = types::marked(first).and_then(|item| types::by_name(&format!("{}[]", item.name)));
        Ok(PlannerResult::Planned(match marked.filter(|to| item_function(to).is_some()) {
            Some(to) => ScalarUDF::new_from_impl(ArrayInput::new(to)).call(vec![array]),
            None => array,
        }))
    }
}

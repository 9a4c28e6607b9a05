//! Casts to types that Arrow doesn't have, and to arrays: `'...'::uuid`, `$1::jsonb[]`.
//!
//! PostgreSQL: a cast gives a value of exactly that type, and reads text as the type's input function does. DataFusion:
//! all of these are text to it, so that it would leave the cast away; bytes and arrays it reads otherwise. Such a cast
//! becomes the call of a function, named like PostgreSQL's (`uuid_in`), which gives a column marked with its exact type
//! ([`types::TYPE_KEY`]). Blocked by: DataFusion's casts don't keep such a mark up to the end. Remove when: they do.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::functions_nested::make_array::make_array;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::functions::{REG_TYPES, invalid};
use super::input;
use super::types::{self, PgType};

/// Types whose values are text to Arrow, and bytea.
const EXACT: &[&str] = &["bpchar", "bytea", "char", "json", "jsonb", "name", "oid", "uuid", "varchar", "xid"];

/// What the name of a cast's function ends with.
const SUFFIX: &str = "_in";

/// The function that casts to this type, if it is one of those whose casts are functions; [`REG_TYPES`] have their own.
pub fn function(name: &str) -> Option<String> {
    (EXACT.contains(&name) || name.ends_with("[]")).then_some(())?;
    types::by_name(name).map(|to| format!("{}{SUFFIX}", to.name))
}

/// The type that a function casts to, if it is such a function.
pub fn target(function: &str) -> Option<&'static PgType> {
    let name = function.strip_suffix(SUFFIX)?;
    (EXACT.contains(&name) || REG_TYPES.contains(&name) || name.ends_with("[]")).then_some(())?;
    types::by_name(name)
}

/// The functions of all such casts.
pub fn all() -> Vec<ScalarUDF> {
    types::TYPES
        .iter()
        .filter(|to| function(to.name).is_some())
        .map(|to| ScalarUDF::new_from_impl(Input::new(to)))
        .collect()
}

/// The function of one cast: of a value, and for those with a length, that.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Input {
    name: String,
    to: &'static PgType,
    signature: Signature,
}

impl Input {
    fn new(to: &'static PgType) -> Self {
        let arities = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
        let signature = Signature::one_of(arities, Volatility::Immutable);
        Self { name: format!("{}{SUFFIX}", to.name), to, signature }
    }
}

impl ScalarUDFImpl for Input {
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
        let length = match call.args.get(1) {
            Some(ColumnarValue::Scalar(ScalarValue::Int64(length))) => length.and_then(|n| usize::try_from(n).ok()),
            _ => None,
        };
        let array = match &call.args[0] {
            ColumnarValue::Scalar(value) => {
                return Ok(ColumnarValue::Scalar(convert(self.to, value.clone(), length)?));
            }
            ColumnarValue::Array(array) if array.is_empty() => new_empty_array(&self.to.arrow()),
            ColumnarValue::Array(array) => {
                let row = |row| convert(self.to, ScalarValue::try_from_array(array, row)?, length);
                let rows: ArrayRef =
                    ScalarValue::iter_to_array((0..array.len()).map(row).collect::<DfResult<Vec<_>>>()?)?;
                rows
            }
        };
        Ok(ColumnarValue::Array(array))
    }
}

/// A value as one of the type.
fn convert(to: &'static PgType, value: ScalarValue, length: Option<usize>) -> DfResult<ScalarValue> {
    let arrow = to.arrow();
    if value.is_null() {
        return ScalarValue::try_from(&arrow);
    }
    if let (Some(item), DataType::List(field)) = (to.name.strip_suffix("[]").and_then(types::by_name), &arrow) {
        let items: Vec<ScalarValue> = match &value {
            ScalarValue::List(list) => {
                let values = list.value(0);
                let item_at = |row| ScalarValue::try_from_array(&values, row);
                (0..values.len()).map(item_at).collect::<DfResult<_>>()?
            }
            _ => input::array(&as_text(&value)?)?.into_iter().map(ScalarValue::Utf8).collect(),
        };
        let items = items.into_iter().map(|value| convert(item, value, None)).collect::<DfResult<Vec<_>>>()?;
        return Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, field.data_type())));
    }
    match (to.name, value) {
        ("bytea", value @ (ScalarValue::Binary(_) | ScalarValue::LargeBinary(_) | ScalarValue::BinaryView(_))) => {
            value.cast_to(&arrow)
        }
        ("oid", value) => Ok(input::oid(&as_text(&value)?)?),
        (name, value) if EXACT.contains(&name) => Ok(input::exact(name, &as_text(&value)?, length)?),
        (_, value) if value.data_type() == arrow => Ok(value),
        (_, ScalarValue::Utf8(Some(text))) => {
            let trimmed = if arrow == DataType::Utf8 { text.clone() } else { text.trim().to_owned() };
            let wrong = |_| invalid("22P02", format!("invalid input syntax for type {}: \"{text}\"", to.sql));
            Ok(ScalarValue::Utf8(Some(trimmed)).cast_to(&arrow).map_err(wrong)?)
        }
        (_, value) => value.cast_to(&arrow),
    }
}

fn as_text(value: &ScalarValue) -> DfResult<String> {
    match value.cast_to(&DataType::Utf8)? {
        ScalarValue::Utf8(Some(text)) => Ok(text),
        _ => Ok(String::new()),
    }
}

/// Plans `array[...]`: a bare NULL is of the others' type, and the array is of the exact type that its items are of.
#[derive(Debug)]
pub struct Arrays;

impl ExprPlanner for Arrays {
    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> DfResult<PlannerResult<Vec<Expr>>> {
        let fields = exprs.iter().map(|expr| Ok(expr.to_field(schema)?.1)).collect::<DfResult<Vec<FieldRef>>>()?;
        let Some(first) = fields.iter().find(|field| !field.data_type().is_null()) else {
            return Ok(PlannerResult::Original(exprs));
        };
        let items = exprs.into_iter().zip(&fields).map(|(expr, field)| {
            if field.data_type().is_null() { expr.cast_to(first.data_type(), schema) } else { Ok(expr) }
        });
        let array = make_array(items.collect::<DfResult<_>>()?);
        let marked = types::marked(first).and_then(|item| types::by_name(&format!("{}[]", item.name)));
        Ok(PlannerResult::Planned(match marked {
            Some(to) => ScalarUDF::new_from_impl(Input::new(to)).call(vec![array]),
            None => array,
        }))
    }
}

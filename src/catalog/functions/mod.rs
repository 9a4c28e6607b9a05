//! PostgreSQL's functions that DataFusion lacks or answers otherwise.
//!
//! Each is a Rust function over the values of one row, which sees the session ([`Scope`]) and through it the
//! snapshot. That is slow for millions of rows and plenty for catalogs.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::scope::Scope;
use super::types::{self, PgType};
use crate::error::{Error, Result};

mod arrays;
mod coalesce;
mod describe;
mod format;
mod json;
mod names;
mod privileges;
mod session;
mod signatures;
mod sizes;
mod sleep;

pub use json::JsonOperators;
pub use names::{REG_TYPES, oid_function, text_function};

/// All of them.
pub fn all() -> Vec<ScalarUDF> {
    [
        session::FUNCTIONS,
        describe::FUNCTIONS,
        names::FUNCTIONS,
        privileges::FUNCTIONS,
        sizes::FUNCTIONS,
        format::FUNCTIONS,
        signatures::FUNCTIONS,
        json::FUNCTIONS,
        super::rescale::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
    .map(|definition| ScalarUDF::new_from_impl(RowFunction::new(definition)))
    .chain(arrays::all())
    .chain(super::casts::all())
    .chain([coalesce::coalesce(), sleep::pg_sleep()])
    .collect()
}

/// One of them, by name.
pub fn scalar(name: &str) -> Option<ScalarUDF> {
    names::FUNCTIONS
        .iter()
        .find(|definition| definition.name == name)
        .map(|definition| ScalarUDF::new_from_impl(RowFunction::new(definition)))
}

/// One call: the session, and the arguments of one row.
pub struct Call<'a> {
    /// The session.
    pub scope: &'a Scope,
    /// The arguments.
    pub args: &'a [ScalarValue],
}

impl Call<'_> {
    /// An argument as text. `None`: it is NULL or absent.
    pub fn text(&self, index: usize) -> Option<String> {
        match self.args.get(index)? {
            value if value.is_null() => None,
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
                Some(text.clone())
            }
            other => Some(other.to_string()),
        }
    }

    /// An argument as an integer, also from text. `None`: it is NULL, absent or no integer.
    pub fn integer(&self, index: usize) -> Option<i64> {
        match self.args.get(index)? {
            ScalarValue::Int8(value) => value.map(i64::from),
            ScalarValue::Int16(value) => value.map(i64::from),
            ScalarValue::Int32(value) => value.map(i64::from),
            ScalarValue::Int64(value) => *value,
            ScalarValue::UInt32(value) => value.map(i64::from),
            ScalarValue::UInt64(value) => value.and_then(|value| i64::try_from(value).ok()),
            _ => self.text(index)?.trim().parse().ok(),
        }
    }

    /// An argument as a truth value. `None`: it is NULL, absent or none.
    pub fn boolean(&self, index: usize) -> Option<bool> {
        match self.args.get(index)? {
            ScalarValue::Boolean(value) => *value,
            _ => match self.text(index)?.as_str() {
                "t" | "true" | "on" | "1" | "yes" => Some(true),
                "f" | "false" | "off" | "0" | "no" => Some(false),
                _ => None,
            },
        }
    }

    /// Some argument is NULL.
    pub fn any_null(&self) -> bool {
        self.args.iter().any(ScalarValue::is_null)
    }
}

/// What a function gives for one row; its Arrow type is that of [`Definition::returns`].
pub type Value = Result<ScalarValue>;

/// Text, or NULL.
pub fn text(value: Option<impl Into<String>>) -> ScalarValue {
    ScalarValue::Utf8(value.map(Into::into))
}

/// A function.
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// How many arguments it takes.
    pub arity: RangeInclusive<usize>,
    /// The type that it gives, by its name in [`types::TYPES`].
    pub returns: &'static str,
    /// Stable: the same within a statement. Volatile: never computed ahead.
    pub volatility: Volatility,
    /// What it does.
    pub body: fn(&Call<'_>) -> Value,
}

/// A stable function.
pub const fn stable(
    name: &'static str,
    arity: RangeInclusive<usize>,
    returns: &'static str,
    body: fn(&Call<'_>) -> Value,
) -> Definition {
    Definition { name, arity, returns, volatility: Volatility::Stable, body }
}

/// A function with an effect, or with a value of the moment.
pub const fn volatile(
    name: &'static str,
    arity: RangeInclusive<usize>,
    returns: &'static str,
    body: fn(&Call<'_>) -> Value,
) -> Definition {
    Definition { name, arity, returns, volatility: Volatility::Volatile, body }
}

/// A definition as DataFusion wants it.
struct RowFunction {
    definition: &'static Definition,
    signature: Signature,
    returns: &'static PgType,
}

impl RowFunction {
    fn new(definition: &'static Definition) -> Self {
        let arities =
            definition.arity.clone().map(|n| if n == 0 { TypeSignature::Nullary } else { TypeSignature::Any(n) });
        let returns = types::by_name(definition.returns).unwrap_or(&types::TYPES[0]);
        Self { definition, signature: Signature::one_of(arities.collect(), definition.volatility), returns }
    }
}

impl std::fmt::Debug for RowFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.definition.name)
    }
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.definition, other.definition)
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(self.returns.field(self.definition.name)))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scope = Scope::of(&call.config_options)?;
        let one_row = |row: usize| -> DfResult<ScalarValue> {
            let args = call
                .args
                .iter()
                .map(|arg| match arg {
                    ColumnarValue::Scalar(value) => Ok(value.clone()),
                    ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row),
                })
                .collect::<DfResult<Vec<_>>>()?;
            let value = (self.definition.body)(&Call { scope: &scope, args: &args })?;
            Ok(value)
        };
        let constant = call.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if constant && self.definition.volatility != Volatility::Volatile {
            return Ok(ColumnarValue::Scalar(one_row(0)?));
        }
        if call.number_rows == 0 {
            return Ok(ColumnarValue::Array(datafusion::arrow::array::new_empty_array(&self.returns.arrow())));
        }
        let rows = (0..call.number_rows).map(one_row).collect::<DfResult<Vec<_>>>()?;
        let array: ArrayRef = ScalarValue::iter_to_array(rows)?;
        Ok(ColumnarValue::Array(array))
    }
}

/// A value that isn't what a function takes.
pub fn invalid(sqlstate: &'static str, message: String) -> Error {
    Error::Data { sqlstate, message }
}

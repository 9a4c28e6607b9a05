//! PostgreSQL's functions that DataFusion lacks or answers otherwise.
//!
//! Each is a Rust function over the values of one row, which sees the session ([`Scope`]) and through it the
//! snapshot. That is slow for millions of rows and plenty for catalogs.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::scope::Scope;
use super::types;
use crate::error::{Error, Result};

mod acl;
mod advisory;
mod arrays;
mod coalesce;
mod datetime;
mod describe;
mod format;
mod json;
mod json_edit;
mod json_operators;
mod json_order;
mod json_text;
mod lists;
mod names;
pub mod nulls;
mod numbers;
mod operators;
mod patterns;
mod privileges;
pub mod procedures;
mod record;
mod session;
mod sets;
mod signatures;
mod single;
mod sizes;
mod sleep;
mod strings;
mod unknown;
mod work;

pub use arrays::Vectors;
pub use coalesce::OF_ONE_TYPE;
pub use datetime::{Temporal, interval_value};
pub use json_operators::JsonOperators;
pub use json_order::JSONB_KEY;
pub use names::{REG_TYPES, oid_function, text_function};
pub use operators::Operators;
pub use patterns::PATTERN_FOR;
pub use sets::{SETS, SetColumns};
pub use single::{ONLY_VALUE, SINGLE_VALUE, several, single_or_several, single_value};
pub use strings::bytea;
pub use unknown::Unknown;

/// One of them, by name.
pub fn find(name: &str) -> Option<&'static Definition> {
    definitions().find(|definition| definition.name == name)
}

/// A character(n) as text: without the spaces that it is filled up with.
pub fn unpadded(value: Expr) -> Expr {
    match find("bpchar_out") {
        Some(trim) => trim.call(vec![value]),
        None => value,
    }
}

/// All of them.
pub fn all() -> Vec<ScalarUDF> {
    definitions()
        .map(|definition| ScalarUDF::new_from_impl(RowFunction::new(definition)))
        .chain(arrays::all())
        .chain(super::casts::all())
        .chain(coalesce::all())
        .chain(record::all())
        .chain([sleep::pg_sleep()])
        .chain(advisory::waiting())
        .collect()
}

fn definitions() -> impl Iterator<Item = &'static Definition> {
    [
        session::FUNCTIONS,
        describe::FUNCTIONS,
        names::FUNCTIONS,
        acl::FUNCTIONS,
        advisory::FUNCTIONS,
        privileges::FUNCTIONS,
        sizes::FUNCTIONS,
        format::FUNCTIONS,
        signatures::FUNCTIONS,
        procedures::DEFINITIONS,
        json::FUNCTIONS,
        json_edit::FUNCTIONS,
        datetime::FUNCTIONS,
        lists::FUNCTIONS,
        nulls::FUNCTIONS,
        numbers::FUNCTIONS,
        operators::FUNCTIONS,
        patterns::FUNCTIONS,
        sets::FUNCTIONS,
        single::FUNCTIONS,
        strings::FUNCTIONS,
        super::rescale::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// One call: the session, and the arguments of one row.
pub struct Call<'a> {
    /// The session.
    pub scope: &'a Scope,
    /// The arguments.
    pub args: &'a [ScalarValue],
    /// Their exact types.
    pub fields: &'a [FieldRef],
}

impl Call<'_> {
    /// An argument as text. `None`: it is NULL or absent.
    pub fn text(&self, index: usize) -> Option<String> {
        match self.args.get(index)? {
            value if value.is_null() => None,
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
                Some(text.clone())
            }
            other => crate::wire::value_text(other, self.fields.get(index), &self.scope.style()).ok(),
        }
    }

    /// The session's time zone.
    pub fn zone(&self) -> Tz {
        self.scope.zone()
    }

    /// An argument as a number. `None`: it is NULL, absent or none.
    pub fn float(&self, index: usize) -> Option<f64> {
        match self.args.get(index)? {
            ScalarValue::Float64(value) => *value,
            ScalarValue::Float32(value) => value.map(f64::from),
            _ => self.text(index)?.trim().parse().ok(),
        }
    }

    /// The items of an array. `None`: it is NULL, absent or no array.
    pub fn items(&self, index: usize) -> Option<Vec<ScalarValue>> {
        let ScalarValue::List(list) = self.args.get(index)? else { return None };
        if list.is_null(0) {
            return None;
        }
        let values = list.value(0);
        (0..values.len()).map(|row| ScalarValue::try_from_array(&values, row).ok()).collect()
    }

    /// The items of an array as text.
    pub fn texts(&self, index: usize) -> Option<Vec<Option<String>>> {
        let item = match self.fields.get(index).map(|field| field.data_type()) {
            Some(DataType::List(item)) => Some(item),
            _ => None,
        };
        let style = self.scope.style();
        let text = |value: &ScalarValue| match value {
            value if value.is_null() => None,
            value => crate::wire::value_text(value, item, &style).ok(),
        };
        Some(self.items(index)?.iter().map(text).collect())
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

/// The type that a function gives.
#[derive(Clone, Copy)]
pub enum Returns {
    /// A name in [`types::TYPES`].
    Named(&'static str),
    /// A numeric with so many digits behind the point.
    Numeric(i8),
    /// That of an argument.
    Like(usize),
    /// Worked out from the arguments.
    By(fn(&[FieldRef]) -> Result<Field>),
    /// The same, with the values of those that are constant.
    ByValue(fn(&[FieldRef], &[Option<&ScalarValue>]) -> Result<Field>),
}

/// A function.
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// How many arguments it takes.
    pub arity: RangeInclusive<usize>,
    /// The type that it gives.
    pub returns: Returns,
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
    Definition { name, arity, returns: Returns::Named(returns), volatility: Volatility::Stable, body }
}

/// A function of its arguments alone.
pub const fn pure(
    name: &'static str,
    arity: RangeInclusive<usize>,
    returns: &'static str,
    body: fn(&Call<'_>) -> Value,
) -> Definition {
    Definition { name, arity, returns: Returns::Named(returns), volatility: Volatility::Immutable, body }
}

/// A stable function whose type is not always the same.
pub const fn derived(
    name: &'static str,
    arity: RangeInclusive<usize>,
    returns: Returns,
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
    Definition { name, arity, returns: Returns::Named(returns), volatility: Volatility::Volatile, body }
}

/// A definition as DataFusion wants it.
struct RowFunction {
    definition: &'static Definition,
    signature: Signature,
}

impl RowFunction {
    fn new(definition: &'static Definition) -> Self {
        let arities =
            definition.arity.clone().map(|n| if n == 0 { TypeSignature::Nullary } else { TypeSignature::Any(n) });
        let signature = match definition.arity.end() {
            // Any number of them.
            &usize::MAX => Signature::variadic_any(definition.volatility),
            _ => Signature::one_of(arities.collect(), definition.volatility),
        };
        Self { definition, signature }
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

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        let fields: Vec<FieldRef> =
            args.iter().map(|data_type| Arc::new(Field::new("", data_type.clone(), true))).collect();
        Ok(self.definition.field(&fields, &[])?.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(self.definition.field(args.arg_fields, args.scalar_arguments)?))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scope = Scope::of(&call.config_options)?;
        let returns = call.return_field.data_type();
        let one_row = |row: usize| -> DfResult<ScalarValue> {
            scope.guard.check()?;
            let args = call
                .args
                .iter()
                .map(|arg| match arg {
                    ColumnarValue::Scalar(value) => Ok(value.clone()),
                    ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row),
                })
                .collect::<DfResult<Vec<_>>>()?;
            let value = (self.definition.body)(&Call { scope: &scope, args: &args, fields: &call.arg_fields })?;
            match &value {
                value if value.is_null() => ScalarValue::try_from(returns),
                same if same.data_type() == *returns => Ok(value),
                other => other.cast_to(returns),
            }
        };
        let constant = call.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if constant && self.definition.volatility != Volatility::Volatile {
            return Ok(ColumnarValue::Scalar(one_row(0)?));
        }
        if call.number_rows == 0 {
            return Ok(ColumnarValue::Array(datafusion::arrow::array::new_empty_array(returns)));
        }
        let rows = (0..call.number_rows).map(one_row).collect::<DfResult<Vec<_>>>()?;
        let array: ArrayRef = ScalarValue::iter_to_array(rows)?;
        Ok(ColumnarValue::Array(array))
    }
}

impl Definition {
    /// The field that a call gives.
    fn field(&self, args: &[FieldRef], values: &[Option<&ScalarValue>]) -> Result<Field> {
        let named = |name| types::by_name(name).map(|pg_type| pg_type.field(self.name));
        match self.returns {
            Returns::Named(name) => named(name),
            Returns::Numeric(scale) => Some(Field::new(self.name, DataType::Decimal128(38, scale), true)),
            Returns::Like(index) => args.get(index).map(|field| like(self.name, field)),
            Returns::By(field) => return field(args).map(|field| field.with_name(self.name)),
            Returns::ByValue(field) => return field(args, values).map(|field| field.with_name(self.name)),
        }
        .ok_or_else(|| Error::Internal(format!("the function {} gives a type that is not known", self.name)))
    }

    /// A call of the function.
    pub fn call(&'static self, args: Vec<Expr>) -> Expr {
        ScalarUDF::new_from_impl(RowFunction::new(self)).call(args)
    }
}

/// A field of the same type.
pub fn like(name: &str, field: &Field) -> Field {
    Field::new(name, field.data_type().clone(), true).with_metadata(field.metadata().clone())
}

/// PostgreSQL's error for a function that doesn't take such arguments.
pub fn no_such_function(name: &str, args: &[FieldRef]) -> Error {
    let types: Vec<&str> = args.iter().map(|field| types::sql_name(field)).collect();
    Error::UndefinedFunction { call: format!("{name}({})", types.join(", ")) }
}

/// A value that isn't what a function takes.
pub fn invalid(sqlstate: &'static str, message: String) -> Error {
    Error::Data { sqlstate, message }
}

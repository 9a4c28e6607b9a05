//! Casts that PostgreSQL makes otherwise than Arrow: from text and to text, between times with and without a zone, and
//! from numbers with a fraction to whole ones.
//!
//! DataFusion adds casts of its own when it makes two types one; so this is done behind its type coercion. Blocked by: a
//! cast of DataFusion is Arrow's, which knows neither a session's time zone nor PostgreSQL's forms. Remove when: a
//! session can bring its own casts.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::datetime::{self, Interval, Moment};
use super::functions::{self, Temporal, interval_value};
use super::scope::Scope;
use super::types;
use crate::error::{Error, Result};

/// What the name of a cast's function begins with.
pub const CAST: &str = "cast_to_";

/// See the module.
#[derive(Debug)]
pub struct PgCasts;

impl AnalyzerRule for PgCasts {
    fn name(&self) -> &'static str {
        "pg_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&scan.projected_schema);
            }
            let preserver = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = expr.transform_up(|expr| pg_cast(expr, &schema))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })
        .map(|plan| plan.data)
    }
}

fn pg_cast(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let Expr::Cast(Cast { expr, field }) = expr else { return Ok(Transformed::no(expr)) };
    let Ok(from) = types::field_of(&expr, schema) else {
        return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
    };
    match kind(from.data_type(), field.data_type()) {
        Kind::Arrow => Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
        Kind::Refused => {
            Err(Error::CannotCast { from: types::sql_name(&from).into(), to: types::sql_name(&field).into() }.into())
        }
        Kind::Ours => Ok(Transformed::yes(call(*expr, from, field))),
    }
}

/// A cast as a function's call. Unlike DataFusion's it gives just the type that it says.
pub fn call(expr: Expr, from: FieldRef, to: FieldRef) -> Expr {
    // Two casts of one value are told from each other by name.
    let name = format!("{CAST}{}", to.data_type());
    let function = PgCast { name, from, to, signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

/// Who makes a cast.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Arrow,
    Ours,
    /// There is none.
    Refused,
}

fn kind(from: &DataType, to: &DataType) -> Kind {
    use DataType as D;
    let is_time = |data_type: &D| data_type.is_temporal() && !matches!(data_type, D::Interval(_) | D::Duration(_));
    match (from, to) {
        (same, other) if same == other => Kind::Arrow,
        (D::Null, _) | (_, D::Null) => Kind::Arrow,
        (D::List(from), D::List(to)) if kind(from.data_type(), to.data_type()) == Kind::Ours => Kind::Ours,
        (D::Dictionary(..), _) | (_, D::Dictionary(..)) => Kind::Arrow,
        (from, to) if from.is_string() && to.is_string() => Kind::Arrow,
        (from, _) if from.is_string() => Kind::Ours,
        (_, to) if to.is_string() => Kind::Ours,
        (D::Timestamp(_, Some(_)), D::Timestamp(_, Some(_))) | (D::Timestamp(_, None), D::Timestamp(_, None)) => {
            Kind::Arrow
        }
        (D::Timestamp(..), D::Timestamp(..) | D::Date32 | D::Time64(_)) => Kind::Ours,
        (D::Date32, D::Timestamp(_, Some(_))) => Kind::Ours,
        (D::Float32 | D::Float64 | D::Decimal128(..), to) if to.is_integer() => Kind::Ours,
        // Arrow rounds more than once.
        (D::Decimal128(..) | D::Decimal256(..), D::Float32 | D::Float64) => Kind::Ours,
        (D::Interval(_), to) if is_time(to) && !matches!(to, D::Time64(_)) => Kind::Refused,
        (from, D::Interval(_)) if is_time(from) && !matches!(from, D::Time64(_)) => Kind::Refused,
        (D::Boolean, to) if to.is_temporal() || to.is_floating() || to.is_decimal() => Kind::Refused,
        (from, D::Boolean) if from.is_temporal() || from.is_floating() || from.is_decimal() => Kind::Refused,
        (from, to) if from.is_numeric() && to.is_temporal() => Kind::Refused,
        (from, to) if from.is_temporal() && to.is_numeric() => Kind::Refused,
        (from, to) if from.is_list() != to.is_list() => Kind::Refused,
        (D::Binary, to) if to.is_numeric() || to.is_temporal() => Kind::Refused,
        _ => Kind::Arrow,
    }
}

/// A cast as a function.
#[derive(Debug)]
struct PgCast {
    name: String,
    from: FieldRef,
    to: FieldRef,
    signature: Signature,
}

impl PartialEq for PgCast {
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from && self.to == other.to
    }
}

impl Eq for PgCast {}

impl Hash for PgCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to.data_type().hash(state);
    }
}

impl ScalarUDFImpl for PgCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::clone(&self.to))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scope = Scope::of(&call.config_options)?;
        let to = self.to.data_type();
        let convert = |value: &ScalarValue| -> DfResult<ScalarValue> {
            if value.is_null() {
                return ScalarValue::try_from(to);
            }
            let value = convert(value, &self.from, to, &scope)?;
            if value.data_type() == *to { Ok(value) } else { value.cast_to(to) }
        };
        match &call.args[0] {
            ColumnarValue::Scalar(value) => convert(value).map(ColumnarValue::Scalar),
            ColumnarValue::Array(array) => {
                if array.is_empty() {
                    return Ok(ColumnarValue::Array(datafusion::arrow::array::new_empty_array(to)));
                }
                let values = (0..array.len()).map(|row| convert(&ScalarValue::try_from_array(array, row)?));
                let array: ArrayRef = ScalarValue::iter_to_array(values.collect::<DfResult<Vec<_>>>()?)?;
                Ok(ColumnarValue::Array(array))
            }
        }
    }
}

fn convert(value: &ScalarValue, from: &FieldRef, to: &DataType, scope: &Scope) -> DfResult<ScalarValue> {
    if let Some(Some(text)) = value.try_as_str() {
        return Ok(from_text(text, to, scope)?);
    }
    if let (ScalarValue::List(list), DataType::List(from), DataType::List(to)) = (value, from.data_type(), to) {
        let (values, to) = (list.value(0), to.data_type());
        let item = |row| {
            let value = ScalarValue::try_from_array(&values, row)?;
            let value = if value.is_null() { value } else { convert(&value, from, to, scope)? };
            value.cast_to(to)
        };
        let items = (0..values.len()).map(item).collect::<DfResult<Vec<_>>>()?;
        return Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, to)));
    }
    if to.is_string() {
        let text = match value {
            ScalarValue::Boolean(Some(value)) => value.to_string(),
            other => crate::wire::value_text(other, Some(from), &scope.style())?,
        };
        return ScalarValue::Utf8(Some(text)).cast_to(to);
    }
    if value.data_type().is_decimal() && to.is_floating() {
        return Ok(from_text(&crate::wire::value_text(value, Some(from), &scope.style())?, to, scope)?);
    }
    if let Some(whole) = whole(value) {
        return Ok(in_range(whole, to)?);
    }
    let Some(time) = Temporal::of(value) else { return value.cast_to(to) };
    let local = |at: i64| -> Result<ScalarValue> {
        Ok(match to {
            DataType::Date32 => ScalarValue::Date32(i32::try_from(at.div_euclid(datetime::DAY)).ok()),
            DataType::Time64(_) => ScalarValue::Time64Microsecond(Some(at.rem_euclid(datetime::DAY))),
            _ => ScalarValue::TimestampMicrosecond(Some(at), None),
        })
    };
    Ok(match (time, to) {
        (Temporal::TimestampTz(at), _) => local(datetime::to_local(at, &scope.zone())?)?,
        (Temporal::Timestamp(at), DataType::Timestamp(_, Some(_))) => {
            Temporal::TimestampTz(datetime::to_utc(at, &scope.zone())?).into()
        }
        (Temporal::Date(days), DataType::Timestamp(_, Some(_))) => {
            Temporal::TimestampTz(datetime::to_utc(i64::from(days) * datetime::DAY, &scope.zone())?).into()
        }
        (Temporal::Timestamp(at), _) => local(at)?,
        _ => return value.cast_to(to),
    })
}

/// A number rounded to a whole one: a float to the even one of two that are as near, an exact one away from zero.
fn whole(value: &ScalarValue) -> Option<f64> {
    Some(match value {
        ScalarValue::Float32(Some(value)) => f64::from(*value).round_ties_even(),
        ScalarValue::Float64(Some(value)) => value.round_ties_even(),
        ScalarValue::Decimal128(Some(value), _, scale) => {
            let step = 10_i128.pow(u32::try_from(*scale).unwrap_or(0));
            let half = if *value < 0 { -step / 2 } else { step / 2 };
            ((value + half) / step) as f64
        }
        _ => return None,
    })
}

fn in_range(whole: f64, to: &DataType) -> Result<ScalarValue> {
    let (low, high, name) = match to {
        DataType::Int16 => (f64::from(i16::MIN), f64::from(i16::MAX), "smallint"),
        DataType::Int32 => (f64::from(i32::MIN), f64::from(i32::MAX), "integer"),
        _ => (i64::MIN as f64, i64::MAX as f64, "bigint"),
    };
    if !(whole >= low && whole <= high) {
        return Err(Error::Data { sqlstate: "22003", message: format!("{name} out of range") });
    }
    Ok(ScalarValue::Int64(Some(whole as i64)))
}

/// A value from its text form, as PostgreSQL's input functions read it.
///
/// # Errors
/// 22P02, 22007, 22008 and 22003: the text isn't one.
pub fn from_text(text: &str, to: &DataType, scope: &Scope) -> Result<ScalarValue> {
    let invalid = || Error::Data {
        sqlstate: "22P02",
        message: format!("invalid input syntax for type {}: \"{text}\"", name_of(to)),
    };
    let trimmed = text.trim();
    let zone = scope.zone();
    let moment = Moment { now: scope.statement_at(), zone: &zone, day_first: false };
    let moment = || Moment { day_first: scope.style().day_first(), ..moment };
    Ok(match to {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => {
            ScalarValue::Utf8(Some(text.into()))
        }
        DataType::Boolean => ScalarValue::Boolean(Some(boolean(trimmed).ok_or_else(invalid)?)),
        whole if whole.is_integer() => {
            let number: i128 = trimmed.parse().map_err(|_| invalid())?;
            let value = i64::try_from(number).ok().map(|number| ScalarValue::Int64(Some(number)).cast_to(whole));
            value.and_then(std::result::Result::ok).ok_or_else(|| Error::Data {
                sqlstate: "22003",
                message: format!("value \"{trimmed}\" is out of range for type {}", name_of(to)),
            })?
        }
        DataType::Float32 | DataType::Float64 => {
            let value: f64 = float(trimmed).ok_or_else(invalid)?;
            let infinite = value.is_infinite() && !trimmed.to_lowercase().contains("inf");
            let narrow = *to == DataType::Float32 && value.is_finite() && (value as f32).is_infinite();
            if infinite || narrow {
                let name = name_of(to);
                let message = format!("\"{trimmed}\" is out of range for type {name}");
                return Err(Error::Data { sqlstate: "22003", message });
            }
            if *to == DataType::Float32 {
                ScalarValue::Float32(Some(value as f32))
            } else {
                ScalarValue::Float64(Some(value))
            }
        }
        DataType::Decimal128(precision, scale) => numeric(trimmed, *precision, *scale, &invalid)?,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            ScalarValue::Binary(Some(functions::bytea(text)?))
        }
        DataType::Date32 => ScalarValue::Date32(Some(datetime::date(text, &moment())?)),
        DataType::Time64(_) | DataType::Time32(_) => {
            ScalarValue::Time64Microsecond(Some(datetime::time(text, &moment())?))
        }
        DataType::Timestamp(_, None) => {
            ScalarValue::TimestampMicrosecond(Some(datetime::timestamp(text, &moment())?), None)
        }
        DataType::Timestamp(_, Some(_)) => Temporal::TimestampTz(datetime::timestamptz(text, &moment())?).into(),
        DataType::Interval(_) => interval_value(Interval::read(text)?),
        DataType::List(item) => {
            let items = array_items(trimmed).ok_or_else(|| Error::Data {
                sqlstate: "22P02",
                message: format!("malformed array literal: \"{text}\""),
            })?;
            let nested = |item: &Option<String>| item.as_ref().is_some_and(|item| item.starts_with('{'));
            if !item.data_type().is_string() && items.iter().any(nested) {
                return Err(Error::FeatureNotSupported {
                    what: "an array literal of several dimensions".into(),
                    hint: "Write ARRAY[[1, 2], [3, 4]].".into(),
                });
            }
            let items = items.into_iter().map(|value| match value {
                Some(value) => {
                    let value = from_text(&value, item.data_type(), scope)?;
                    value.cast_to(item.data_type()).map_err(crate::wire::errors::from_datafusion)
                }
                None => ScalarValue::try_from(item.data_type()).map_err(crate::wire::errors::from_datafusion),
            });
            let items = items.collect::<Result<Vec<_>>>()?;
            ScalarValue::List(ScalarValue::new_list_nullable(&items, item.data_type()))
        }
        _ => return Err(Error::CannotCast { from: "text".into(), to: name_of(to).into() }),
    })
}

/// An interval from its text form.
///
/// # Errors
/// 22007 and 22008: the text isn't one.
pub fn interval(text: &str) -> Result<ScalarValue> {
    Ok(interval_value(Interval::read(text)?))
}

fn name_of(data_type: &DataType) -> &'static str {
    let field = datafusion::arrow::datatypes::Field::new("", data_type.clone(), true);
    match types::sql_name(&field) {
        // PostgreSQL names these two short here.
        "timestamp without time zone" => "timestamp",
        "time without time zone" => "time",
        name => name,
    }
}

fn boolean(text: &str) -> Option<bool> {
    let lower = text.to_lowercase();
    let starts = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    match () {
        () if lower.is_empty() => None,
        () if starts("true", 1) || starts("yes", 1) || lower == "on" || lower == "1" => Some(true),
        () if starts("false", 1) || starts("no", 1) || starts("off", 2) || lower == "0" => Some(false),
        () => None,
    }
}

fn float(text: &str) -> Option<f64> {
    match text.to_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "+inf" | "infinity" | "+infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        // Rust reads these words otherwise.
        word if word.contains(|c: char| c.is_alphabetic() && c != 'e') => None,
        _ => text.parse().ok(),
    }
}

/// An exact number, rounded to the scale.
fn numeric(text: &str, precision: u8, scale: i8, invalid: &dyn Fn() -> Error) -> Result<ScalarValue> {
    if matches!(text.to_lowercase().as_str(), "nan" | "infinity" | "-infinity" | "inf" | "-inf") {
        return Err(Error::FeatureNotSupported {
            what: format!("the numeric value {text}"),
            hint: "double precision has it.".into(),
        });
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid())?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    // Digits of the value in units of 10^-scale.
    let keep = whole.len() as i32 + exponent + i32::from(scale);
    let overflow = || Error::Data { sqlstate: "22003", message: "numeric field overflow".into() };
    if keep > 80 && all.bytes().any(|byte| byte != b'0') {
        return Err(overflow());
    }
    let keep = usize::try_from(keep).unwrap_or(0);
    let padded = format!("{all:0<keep$}");
    let up = padded.as_bytes().get(keep).is_some_and(|digit| *digit >= b'5') && keep <= all.len();
    let trimmed = padded[..keep].trim_start_matches('0');
    let value: i128 = if trimmed.is_empty() { 0 } else { trimmed.parse().map_err(|_| overflow())? };
    let value = value + i128::from(up && (keep > 0 || whole.len() as i32 + exponent + i32::from(scale) == 0));
    if value >= 10_i128.pow(u32::from(precision.min(38))) {
        return Err(overflow());
    }
    Ok(ScalarValue::Decimal128(Some(if negative { -value } else { value }), precision, scale))
}

/// The items of an array's text form; those of an inner array as its text. `None`: it is none.
pub fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Some(items);
    }
    loop {
        let (mut item, mut quoted, mut depth) = (String::new(), false, 0_usize);
        while let Some(c) = chars.next_if(|c| *c != ',' || depth > 0) {
            match c {
                '"' if depth == 0 => {
                    quoted = true;
                    item.clear();
                    loop {
                        match chars.next()? {
                            '"' => break,
                            '\\' => item.push(chars.next()?),
                            c => item.push(c),
                        }
                    }
                }
                '\\' if depth == 0 => item.push(chars.next()?),
                _ if quoted && depth == 0 => {
                    if !c.is_whitespace() {
                        return None;
                    }
                }
                c => {
                    match c {
                        '{' => depth += 1,
                        '}' => depth = depth.checked_sub(1)?,
                        _ => {}
                    }
                    item.push(c);
                }
            }
        }
        if depth > 0 {
            return None;
        }
        let plain = item.trim();
        items.push(match (quoted, plain) {
            (true, _) => Some(item),
            (false, "") => return None,
            (false, null) if null.eq_ignore_ascii_case("null") => None,
            (false, plain) => Some(plain.to_owned()),
        });
        if chars.next().is_none() {
            return Some(items);
        }
    }
}

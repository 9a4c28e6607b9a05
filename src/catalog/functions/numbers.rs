//! Functions of numbers.

use std::cmp::Ordering;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, i256};
use datafusion::common::ScalarValue;

use super::{Call, Definition, Returns, Value, derived, invalid, like, no_such_function, pure, stable};
use crate::error::{Error, Result};
use crate::wire::Style;

/// Digits behind the point that a quotient has at least.
pub const QUOTIENT_SCALE: i8 = 16;

pub const FUNCTIONS: &[Definition] = &[
    derived("round", 1..=2, Returns::ByValue(rounded), |call| rescale(call, Mode::Round)),
    derived("trunc", 1..=2, Returns::ByValue(rounded), |call| rescale(call, Mode::Trunc)),
    derived("ceil", 1..=1, Returns::ByValue(rounded), |call| rescale(call, Mode::Ceil)),
    derived("ceiling", 1..=1, Returns::ByValue(rounded), |call| rescale(call, Mode::Ceil)),
    derived("floor", 1..=1, Returns::ByValue(rounded), |call| rescale(call, Mode::Floor)),
    derived("sign", 1..=1, Returns::ByValue(rounded), sign),
    derived("numeric_divide", 2..=2, Returns::By(quotient), divide),
    derived("div", 2..=2, Returns::Numeric(0), |call| {
        let (Some((a, s)), Some((b, t))) = (decimal(&call.args[0]), decimal(&call.args[1])) else {
            return Ok(ScalarValue::Null);
        };
        let (a, b) = aligned((a, s), (b, t));
        if b == i256::ZERO {
            return Err(division_by_zero());
        }
        narrow(a / b, 0)
    }),
    derived("mod", 2..=2, Returns::By(|args| common("mod", args)), modulo),
    pure("width_bucket", 4..=4, "int4", width_bucket),
    pure("scale", 1..=1, "int4", |call| Ok(ScalarValue::Int32(decimal(&call.args[0]).map(|(_, scale)| scale.into())))),
    pure("min_scale", 1..=1, "int4", |call| {
        Ok(ScalarValue::Int32(
            decimal_text(&call.args[0]).map(|text| {
                text.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len() as i32)
            }),
        ))
    }),
    derived("trim_scale", 1..=1, Returns::Like(0), |call| Ok(call.args[0].clone())),
    pure("sind", 1..=1, "float8", |call| degrees(call, f64::sin)),
    pure("cosd", 1..=1, "float8", |call| degrees(call, f64::cos)),
    pure("tand", 1..=1, "float8", |call| degrees(call, f64::tan)),
    pure("num_nulls", 1..=usize::MAX, "int4", |call| count_nulls(call, true)),
    pure("num_nonnulls", 1..=usize::MAX, "int4", |call| count_nulls(call, false)),
    derived("bit_not", 1..=1, Returns::Like(0), |call| {
        let value = call.integer(0).map(|value| !value);
        ScalarValue::Int64(value).cast_to(call.fields[0].data_type()).map_err(crate::wire::errors::from_datafusion)
    }),
    stable("setseed", 1..=1, "text", |_| Ok(super::text(Some("")))),
    derived("gcd", 2..=2, Returns::By(|args| common("gcd", args)), |call| {
        whole(call, |a, b| Some(greatest_divisor(a, b)))
    }),
    derived("lcm", 2..=2, Returns::By(|args| common("lcm", args)), |call| {
        whole(call, |a, b| match greatest_divisor(a, b) {
            0 => Some(0),
            divisor => (a / divisor).checked_mul(b).map(i64::abs),
        })
    }),
    derived("factorial", 1..=1, Returns::Numeric(0), |call| {
        let Some(n) = call.integer(0) else { return Ok(ScalarValue::Null) };
        if n < 0 {
            return Err(invalid("22003", "factorial of a negative number is undefined".into()));
        }
        let product = (1..=i128::from(n).min(40)).try_fold(1_i128, i128::checked_mul).filter(|_| n <= 33);
        let product = product.ok_or_else(overflow)?;
        Ok(ScalarValue::Decimal128(Some(product), 38, 0))
    }),
];

/// A number in decimal text, as PostgreSQL prints it. `None`: it is NULL.
pub fn decimal_text(value: &ScalarValue) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match value {
        // No exponent.
        ScalarValue::Float64(Some(number)) if number.is_finite() => Some(format!("{number}")),
        ScalarValue::Float32(Some(number)) if number.is_finite() => Some(format!("{number}")),
        other => crate::wire::value_text(other, None, &Style::default()).ok(),
    }
}

/// An exact number and its scale.
fn decimal(value: &ScalarValue) -> Option<(i256, i8)> {
    Some(match value {
        ScalarValue::Decimal128(value, _, scale) => (i256::from_i128((*value)?), *scale),
        ScalarValue::Decimal256(value, _, scale) => ((*value)?, *scale),
        ScalarValue::Int8(value) => (i256::from_i128((*value)?.into()), 0),
        ScalarValue::Int16(value) => (i256::from_i128((*value)?.into()), 0),
        ScalarValue::Int32(value) => (i256::from_i128((*value)?.into()), 0),
        ScalarValue::Int64(value) => (i256::from_i128((*value)?.into()), 0),
        ScalarValue::UInt32(value) => (i256::from_i128((*value)?.into()), 0),
        ScalarValue::UInt64(value) => (i256::from_i128((*value)?.into()), 0),
        other => {
            let text = decimal_text(other)?;
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let scale = fraction.len().min(30);
            let number = i256::from_string(&format!("{whole}{}", &fraction[..scale]))?;
            (number, i8::try_from(scale).ok()?)
        }
    })
}

fn power_of_ten(exponent: i8) -> i256 {
    i256::from_i128(10).wrapping_pow(u32::try_from(exponent).unwrap_or(0))
}

/// Two numbers with one scale.
fn aligned((a, s): (i256, i8), (b, t): (i256, i8)) -> (i256, i256) {
    let scale = s.max(t);
    (a.wrapping_mul(power_of_ten(scale - s)), b.wrapping_mul(power_of_ten(scale - t)))
}

fn narrow(value: i256, scale: i8) -> Value {
    let value = value.to_i128().filter(|value| value.unsigned_abs() < 10_u128.pow(38)).ok_or_else(overflow)?;
    Ok(ScalarValue::Decimal128(Some(value), 38, scale))
}

fn overflow() -> Error {
    invalid("22003", "value overflows numeric format".into())
}

fn division_by_zero() -> Error {
    invalid("22012", "division by zero".into())
}

/// A quotient, halves rounded away from zero.
fn quotient_of(a: i256, b: i256) -> i256 {
    let (quotient, rest) = (a / b, a % b);
    let twice = rest.wrapping_abs().wrapping_mul(i256::from_i128(2));
    if twice.cmp(&b.wrapping_abs()) == Ordering::Less {
        return quotient;
    }
    let up = i256::from_i128(if (a < i256::ZERO) == (b < i256::ZERO) { 1 } else { -1 });
    quotient.wrapping_add(up)
}

fn quotient(args: &[FieldRef]) -> Result<Field> {
    let scale = |field: &FieldRef| match field.data_type() {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    let scale = args.iter().map(scale).max().unwrap_or(0).max(QUOTIENT_SCALE);
    Ok(Field::new("", DataType::Decimal128(38, scale), true))
}

fn divide(call: &Call<'_>) -> Value {
    let (Some((a, s)), Some((b, t))) = (decimal(&call.args[0]), decimal(&call.args[1])) else {
        return Ok(ScalarValue::Null);
    };
    if b == i256::ZERO {
        return Err(division_by_zero());
    }
    let scale = s.max(t).max(QUOTIENT_SCALE);
    let a = a.wrapping_mul(power_of_ten(scale + t - s));
    narrow(quotient_of(a, b), scale)
}

#[derive(Clone, Copy)]
enum Mode {
    Round,
    Trunc,
    Ceil,
    Floor,
}

/// Exact numbers keep so many digits as are asked for; whole ones become floats, as in PostgreSQL.
fn rounded(args: &[FieldRef], values: &[Option<&ScalarValue>]) -> Result<Field> {
    let Some(first) = args.first() else { return Err(no_such_function("round", args)) };
    let scale = match (args.len(), values.get(1).copied().flatten()) {
        (1, _) => Some(0),
        (_, Some(digits)) => digits.to_string().parse::<i8>().ok().map(|digits| digits.clamp(0, 30)),
        _ => None,
    };
    // PostgreSQL has no round(double precision, integer); here percentages are of that type.
    let whole_with_digits = args.len() == 2 && (first.data_type().is_integer() || first.data_type().is_floating());
    Ok(match first.data_type() {
        DataType::Decimal128(_, own) | DataType::Decimal256(_, own) => {
            Field::new("", DataType::Decimal128(38, scale.unwrap_or(*own)), true)
        }
        _ if whole_with_digits => Field::new("", DataType::Decimal128(38, scale.unwrap_or(0)), true),
        data_type if (data_type.is_numeric() || data_type.is_null() || data_type.is_string()) && args.len() == 1 => {
            Field::new("", DataType::Float64, true)
        }
        _ => {
            let name = if args.len() == 2 { "round" } else { "ceil" };
            return Err(no_such_function(name, args));
        }
    })
}

fn rescale(call: &Call<'_>, mode: Mode) -> Value {
    if call.any_null() {
        return Ok(ScalarValue::Null);
    }
    let exact = call.args.len() == 2
        || matches!(call.fields[0].data_type(), DataType::Decimal128(..) | DataType::Decimal256(..));
    if !exact {
        let Some(value) = call.float(0) else {
            let text = call.text(0).unwrap_or_default();
            return Err(invalid("22P02", format!("invalid input syntax for type double precision: \"{text}\"")));
        };
        return Ok(ScalarValue::Float64(Some(match mode {
            Mode::Round => value.round_ties_even(),
            Mode::Trunc => value.trunc(),
            Mode::Ceil => value.ceil(),
            Mode::Floor => value.floor(),
        })));
    }
    let Some((value, scale)) = decimal(&call.args[0]) else { return Ok(ScalarValue::Null) };
    let digits = call.integer(1).unwrap_or(0).clamp(-38, 38) as i8;
    if digits >= scale {
        return narrow(value.wrapping_mul(power_of_ten(digits.min(30) - scale)), digits.min(30));
    }
    let step = power_of_ten(scale - digits);
    let (quotient, rest) = (value / step, value % step);
    let one = |condition: bool, step: i128| if condition { i256::from_i128(step) } else { i256::ZERO };
    let kept = match mode {
        Mode::Round => quotient_of(value, step),
        Mode::Trunc => quotient,
        Mode::Ceil => quotient.wrapping_add(one(rest > i256::ZERO, 1)),
        Mode::Floor => quotient.wrapping_add(one(rest < i256::ZERO, -1)),
    };
    if digits < 0 { narrow(kept.wrapping_mul(power_of_ten(-digits)), 0) } else { narrow(kept, digits) }
}

fn sign(call: &Call<'_>) -> Value {
    let exact = matches!(call.fields[0].data_type(), DataType::Decimal128(..) | DataType::Decimal256(..));
    Ok(match call.float(0) {
        None => ScalarValue::Null,
        Some(value) => {
            let sign = if value == 0.0 { 0.0 } else { value.signum() };
            if exact { ScalarValue::Decimal128(Some(sign as i128), 38, 0) } else { ScalarValue::Float64(Some(sign)) }
        }
    })
}

/// The type that both arguments fit.
fn common(name: &str, args: &[FieldRef]) -> Result<Field> {
    let [left, right] = args else { return Err(no_such_function(name, args)) };
    let rank = |field: &FieldRef| match field.data_type() {
        DataType::Null | DataType::Utf8 => Some(0),
        DataType::Int16 => Some(1),
        DataType::Int32 => Some(2),
        DataType::Int64 => Some(3),
        DataType::Decimal128(..) => Some(4),
        _ => None,
    };
    match (rank(left), rank(right)) {
        (Some(4), Some(_)) | (Some(_), Some(4)) => {
            let scale = |field: &FieldRef| match field.data_type() {
                DataType::Decimal128(_, scale) => *scale,
                _ => 0,
            };
            Ok(Field::new("", DataType::Decimal128(38, scale(left).max(scale(right))), true))
        }
        (Some(a), Some(b)) => Ok(like("", if a >= b { left } else { right })),
        _ => Err(no_such_function(name, args)),
    }
}

fn modulo(call: &Call<'_>) -> Value {
    let (Some(a), Some(b)) = (decimal(&call.args[0]), decimal(&call.args[1])) else { return Ok(ScalarValue::Null) };
    let scale = a.1.max(b.1);
    let (a, b) = aligned(a, b);
    if b == i256::ZERO {
        return Err(division_by_zero());
    }
    if scale > 0 {
        return narrow(a % b, scale);
    }
    let rest = (a % b).to_i128().and_then(|rest| i64::try_from(rest).ok()).ok_or_else(overflow)?;
    Ok(ScalarValue::Int64(Some(rest)))
}

fn whole(call: &Call<'_>, of: fn(i64, i64) -> Option<i64>) -> Value {
    let (Some(a), Some(b)) = (call.integer(0), call.integer(1)) else { return Ok(ScalarValue::Null) };
    of(a, b).map(|value| ScalarValue::Int64(Some(value))).ok_or_else(|| invalid("22003", "bigint out of range".into()))
}

fn greatest_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.wrapping_abs()
}

fn width_bucket(call: &Call<'_>) -> Value {
    let [Some(value), Some(low), Some(high)] = [0, 1, 2].map(|index| call.float(index)) else {
        return Ok(ScalarValue::Null);
    };
    let Some(count) = call.integer(3) else { return Ok(ScalarValue::Null) };
    if count <= 0 {
        return Err(invalid("2201G", "count must be greater than zero".into()));
    }
    if low == high {
        return Err(invalid("2201G", "lower bound cannot equal upper bound".into()));
    }
    let share = (value - low) / (high - low);
    let bucket = match share {
        share if share < 0.0 => 0,
        share if share >= 1.0 => count + 1,
        share => (share * count as f64).floor() as i64 + 1,
    };
    Ok(ScalarValue::Int32(i32::try_from(bucket).ok()))
}

fn degrees(call: &Call<'_>, of: fn(f64) -> f64) -> Value {
    // Exact where the result is.
    Ok(ScalarValue::Float64(call.float(0).map(|angle| (of(angle.to_radians()) * 1e15).round() / 1e15)))
}

fn count_nulls(call: &Call<'_>, nulls: bool) -> Value {
    let count = call.args.iter().filter(|arg| arg.is_null() == nulls).count();
    Ok(ScalarValue::Int32(i32::try_from(count).ok()))
}

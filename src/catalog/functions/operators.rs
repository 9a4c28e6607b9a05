//! Operators that DataFusion lacks or plans otherwise: arithmetic of times, `||/`, `^@`, ...

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;
use datafusion::logical_expr::{Expr, ExprSchemable as _};

use super::super::analyze::untyped;
use super::super::datetime::{self, Interval, Moment};
use super::super::types;
use super::datetime::{Temporal, interval_value};
use super::{Call, Definition, Returns, Value, derived, find, patterns, unpadded};
use crate::error::{Error, Result};

pub const FUNCTIONS: &[Definition] = &[
    derived("time_plus", 2..=2, Returns::By(|args| field("+", args)), |call| compute(call, "+")),
    derived("time_minus", 2..=2, Returns::By(|args| field("-", args)), |call| compute(call, "-")),
    derived("time_times", 2..=2, Returns::By(|args| field("*", args)), |call| compute(call, "*")),
    derived("time_divide", 2..=2, Returns::By(|args| field("/", args)), |call| compute(call, "/")),
];

/// Plans them.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let (left, right) = match (expr.left.get_type(schema), expr.right.get_type(schema)) {
            (Ok(left), Ok(right)) => (left, right),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let arithmetic = match expr.op {
            BinaryOperator::Plus => Some("time_plus"),
            BinaryOperator::Minus => Some("time_minus"),
            BinaryOperator::Multiply => Some("time_times"),
            BinaryOperator::Divide => Some("time_divide"),
            _ => None,
        };
        if let Some(definition) = arithmetic.and_then(find)
            && (left.is_temporal() || right.is_temporal())
        {
            let call = definition.call(with_types(expr, &left, &right)?);
            // A type that doesn't go with the other is told here.
            call.get_type(schema)?;
            return Ok(PlannerResult::Planned(call));
        }
        let is_arithmetic = arithmetic.is_some() || expr.op == BinaryOperator::Modulo;
        let expr = if is_arithmetic { with_number(expr, &left, &right) } else { expr };
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let expr = if is_arithmetic { with_doubles(expr, &left, &right) } else { expr };
        // A quotient of exact numbers has more digits than DataFusion gives it.
        let exact = |data_type: &DataType| data_type.is_decimal() || data_type.is_integer();
        if expr.op == BinaryOperator::Divide
            && (left.is_decimal() || right.is_decimal())
            && exact(&left)
            && exact(&right)
            && let Some(divide) = find("numeric_divide")
        {
            return Ok(PlannerResult::Planned(divide.call(vec![expr.left, expr.right])));
        }
        let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
        let ordered = is_comparison(&expr.op);
        if ordered {
            comparable(&expr, schema)?;
        }
        if ordered
            && is_interval(&left)
            && is_interval(&right)
            && let Some(key) = find("interval_key")
        {
            return Ok(PlannerResult::Original(by_key(key, expr)));
        }
        if let Some(trimmed) = trimmed(&expr, schema).filter(|_| ordered || expr.op == BinaryOperator::StringConcat) {
            return Ok(PlannerResult::Original(trimmed));
        }
        let is_regex = matches!(
            expr.op,
            BinaryOperator::PGRegexMatch
                | BinaryOperator::PGRegexIMatch
                | BinaryOperator::PGRegexNotMatch
                | BinaryOperator::PGRegexNotIMatch
        );
        if is_regex {
            let pattern = pattern(expr.right, &right)?;
            return Ok(PlannerResult::Original(RawBinaryExpr { op: expr.op, left: expr.left, right: pattern }));
        }
        let function = match expr.op {
            BinaryOperator::PGStartsWith => "starts_with",
            BinaryOperator::PGOverlap => "array_overlaps",
            BinaryOperator::PGExp if !left.is_decimal() && !right.is_decimal() => "power",
            _ => return Ok(PlannerResult::Original(expr)),
        };
        match find(function) {
            Some(definition) => Ok(PlannerResult::Planned(definition.call(vec![expr.left, expr.right]))),
            None => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// Whether the operator compares two values.
pub(super) const fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// A comparison by what a function gives for each operand.
pub(super) fn by_key(key: &'static Definition, expr: RawBinaryExpr) -> RawBinaryExpr {
    let RawBinaryExpr { op, left, right } = expr;
    RawBinaryExpr { op, left: key.call(vec![left]), right: key.call(vec![right]) }
}

/// Operands without the spaces that a character(n) is filled up with, if one is of that type. A literal is of the same.
fn trimmed(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<RawBinaryExpr> {
    let is_padded = |operand: &Expr| types::is_of(operand, "bpchar", schema);
    let compares = expr.op != BinaryOperator::StringConcat;
    let (left, right) = (is_padded(&expr.left), is_padded(&expr.right));
    let side = |operand: &Expr, padded: bool| {
        let literal = compares && matches!(operand, Expr::Literal(..));
        if padded || literal { unpadded(operand.clone()) } else { operand.clone() }
    };
    let RawBinaryExpr { op, .. } = expr;
    (left || right).then(|| RawBinaryExpr {
        op: op.clone(),
        left: side(&expr.left, left),
        right: side(&expr.right, right),
    })
}

/// The pattern of a regular expression's operator as DataFusion writes it.
fn pattern(pattern: Expr, data_type: &DataType) -> DfResult<Expr> {
    match pattern {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            Ok(Expr::Literal(ScalarValue::Utf8(Some(patterns::of_operator(&text)?)), metadata))
        }
        other => match find(patterns::OPERATOR_PATTERN).filter(|_| data_type.is_string()) {
            Some(translate) => Ok(translate.call(vec![other])),
            None => Ok(other),
        },
    }
}

/// A number with a literal in quotes, which takes its type: `1 + '2'`.
fn with_number(expr: RawBinaryExpr, left: &DataType, right: &DataType) -> RawBinaryExpr {
    let cast = |operand: Expr, other: &DataType| {
        // An exact number of as many digits as it has.
        let target = if other.is_decimal() { DataType::Decimal128(38, 10) } else { other.clone() };
        Expr::Cast(Cast::new(Box::new(operand), target))
    };
    let RawBinaryExpr { op, left: one, right: other } = expr;
    match (untyped(&one), untyped(&other)) {
        (true, false) if right.is_numeric() => RawBinaryExpr { op, left: cast(one, right), right: other },
        (false, true) if left.is_numeric() => RawBinaryExpr { op, left: one, right: cast(other, left) },
        _ => RawBinaryExpr { op, left: one, right: other },
    }
}

/// A float with a number of another type: PostgreSQL counts in double precision, which it prefers.
fn with_doubles(expr: RawBinaryExpr, left: &DataType, right: &DataType) -> RawBinaryExpr {
    if left == right || types::widest_float([left, right]).is_none() || left.is_null() || right.is_null() {
        return expr;
    }
    let cast = |operand: Expr, own: &DataType| {
        let is_double = *own == DataType::Float64;
        if is_double { operand } else { Expr::Cast(Cast::new(Box::new(operand), DataType::Float64)) }
    };
    let RawBinaryExpr { op, left: one, right: other } = expr;
    RawBinaryExpr { op, left: cast(one, left), right: cast(other, right) }
}

/// The operands of an operator one of which is a time. What has no type yet, a literal or a parameter, gets the one that
/// PostgreSQL gives it.
fn with_types(expr: RawBinaryExpr, left: &DataType, right: &DataType) -> Result<Vec<Expr>> {
    let untyped = |operand: &Expr, data_type: &DataType| match operand {
        Expr::Literal(value, _) => value.data_type().is_string() || value.is_null() && data_type.is_null(),
        Expr::Placeholder(_) => data_type.is_null(),
        _ => false,
    };
    let typed = |operand: Expr, other: &DataType, is_left: bool| -> Result<Expr> {
        let name = match (&expr.op, kind(other)) {
            (BinaryOperator::Plus, "date") => {
                let call = if is_left { "unknown + date" } else { "date + unknown" };
                let message = format!("operator is not unique: {call}");
                return Err(Error::Semantics { sqlstate: "42725", message });
            }
            (BinaryOperator::Plus, _) => "interval",
            (BinaryOperator::Minus, same) => same,
            (BinaryOperator::Multiply, "interval") => "float8",
            (BinaryOperator::Divide, "interval") if !is_left => "float8",
            _ => return Ok(operand),
        };
        Ok(match types::by_name(name) {
            Some(known) => Expr::Cast(Cast::new(Box::new(operand), known.arrow())),
            None => operand,
        })
    };
    Ok(match (untyped(&expr.left, left), untyped(&expr.right, right)) {
        (true, false) => vec![typed(expr.left, right, true)?, expr.right],
        (false, true) => vec![expr.left, typed(expr.right, left, false)?],
        _ => vec![expr.left, expr.right],
    })
}

/// Text is compared with text: PostgreSQL doesn't make a number of it, but for a literal.
fn comparable(expr: &RawBinaryExpr, schema: &DFSchema) -> Result<()> {
    let (Ok(left), Ok(right)) = (types::field_of(&expr.left, schema), types::field_of(&expr.right, schema)) else {
        return Ok(());
    };
    let is_text = |operand: &Expr, field: &Field| {
        let written = matches!(operand, Expr::Literal(..));
        !written && field.data_type().is_string() && matches!(types::name_of(field), "text" | "name" | "varchar")
    };
    let is_other = |field: &Field| {
        let data_type = field.data_type();
        data_type.is_numeric() || data_type.is_temporal() || data_type == &DataType::Boolean
    };
    if (is_text(&expr.left, &left) && is_other(&right)) || (is_other(&left) && is_text(&expr.right, &right)) {
        let call = format!("{} {} {}", types::sql_name(&left), expr.op, types::sql_name(&right));
        return Err(Error::UndefinedOperator { call });
    }
    Ok(())
}

/// The types that the operator takes and gives.
fn field(op: &str, args: &[FieldRef]) -> Result<Field> {
    let [left, right] = args else { return Err(Error::Internal("an operator has two operands".into())) };
    let (a, b) = (kind(left.data_type()), kind(right.data_type()));
    // A literal takes the other side's type.
    let (a, b) = match (a, b) {
        ("text", b @ ("date" | "time" | "timestamp" | "timestamptz")) if op == "+" => ("interval", b),
        (a @ ("date" | "time" | "timestamp" | "timestamptz"), "text") if op == "+" => (a, "interval"),
        ("text", b) => (b, b),
        (a, "text") => (a, a),
        same => same,
    };
    let result = match (op, a, b) {
        ("+" | "-", "date", "integer") | ("+", "integer", "date") => "date",
        ("-", "date", "date") => "int4",
        ("+" | "-", "date", "interval") | ("+", "interval", "date") => "timestamp",
        ("+", "date", "time") | ("+", "time", "date") => "timestamp",
        ("+" | "-", at @ ("timestamp" | "timestamptz" | "time"), "interval") => at,
        ("+", "interval", at @ ("timestamp" | "timestamptz" | "time")) => at,
        ("-", "timestamp" | "timestamptz" | "date", "timestamp" | "timestamptz" | "date") => "interval",
        ("-", "time", "time") | ("+" | "-", "interval", "interval") => "interval",
        ("*", "interval", "integer" | "number") | ("*", "integer" | "number", "interval") => "interval",
        ("/", "interval", "integer" | "number") => "interval",
        _ => {
            let (left, right) = (types::sql_name(left), types::sql_name(right));
            return Err(Error::UndefinedOperator { call: format!("{left} {op} {right}") });
        }
    };
    types::by_name(result)
        .map(|pg_type| pg_type.field(""))
        .ok_or_else(|| Error::Internal(format!("there is no type {result}")))
}

fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Utf8 | DataType::Null => "text",
        whole if whole.is_integer() => "integer",
        number if number.is_numeric() => "number",
        _ => "other",
    }
}

fn compute(call: &Call<'_>, op: &str) -> Value {
    if call.any_null() {
        return Ok(ScalarValue::Null);
    }
    let number = |index: usize| call.fields[index].data_type().is_numeric().then(|| call.float(index)).flatten();
    let (left, right) = (operand(call, 0, op)?, operand(call, 1, op)?);
    if let (Some(Temporal::Interval(interval)), Some(factor)) = (left, number(1)) {
        if op == "/" && factor == 0.0 {
            return Err(Error::Data { sqlstate: "22012", message: "division by zero".into() });
        }
        return Ok(interval_value(interval.times(if op == "/" { 1.0 / factor } else { factor })?));
    }
    if let (Some(factor), Some(Temporal::Interval(interval))) = (number(0), right) {
        return Ok(interval_value(interval.times(factor)?));
    }
    let days = |date: i32, index: usize| -> Result<ScalarValue> {
        let days = call.integer(index).unwrap_or(0);
        let date = i64::from(date) + if op == "-" { -days } else { days };
        let date = i32::try_from(date).map_err(|_| datetime::out_of_range())?;
        Ok(ScalarValue::Date32(Some(date)))
    };
    match (left, right) {
        (Some(Temporal::Date(date)), None) => days(date, 1),
        (None, Some(Temporal::Date(date))) => days(date, 0),
        (Some(left), Some(right)) if op == "-" => minus(call, left, right),
        (Some(left), Some(right)) => plus(call, left, right),
        _ => Ok(ScalarValue::Null),
    }
}

/// An operand; a text as a value of the other one's type, or as an interval.
fn operand(call: &Call<'_>, index: usize, op: &str) -> Result<Option<Temporal>> {
    let ScalarValue::Utf8(Some(text)) = &call.args[index] else { return Ok(Temporal::of(&call.args[index])) };
    let zone = call.zone();
    let moment = Moment { now: call.scope.statement_at(), zone: &zone, day_first: call.scope.style().day_first() };
    Ok(Some(match (Temporal::of(&call.args[1 - index]), op) {
        (Some(Temporal::Date(_)), "-") => Temporal::Date(datetime::date(text, &moment)?),
        (Some(Temporal::Time(_)), "-") => Temporal::Time(datetime::time(text, &moment)?),
        (Some(Temporal::Timestamp(_)), "-") => Temporal::Timestamp(datetime::timestamp(text, &moment)?),
        (Some(Temporal::TimestampTz(_)), "-") => Temporal::TimestampTz(datetime::timestamptz(text, &moment)?),
        _ => Temporal::Interval(Interval::read(text)?),
    }))
}

fn plus(call: &Call<'_>, left: Temporal, right: Temporal) -> Value {
    let at = |at: Temporal, interval: Interval| -> Value {
        Ok(match at {
            Temporal::Date(days) => Temporal::Timestamp(datetime::add(i64::from(days) * datetime::DAY, interval)?),
            Temporal::Time(time) => Temporal::Time((time + interval.micros).rem_euclid(datetime::DAY)),
            Temporal::Timestamp(at) => Temporal::Timestamp(datetime::add(at, interval)?),
            Temporal::TimestampTz(at) => Temporal::TimestampTz(datetime::add_zoned(at, interval, &call.zone())?),
            Temporal::Interval(other) => Temporal::Interval(other.plus(interval)?),
        }
        .into())
    };
    match (left, right) {
        (Temporal::Date(days), Temporal::Time(time)) | (Temporal::Time(time), Temporal::Date(days)) => {
            Ok(Temporal::Timestamp(i64::from(days) * datetime::DAY + time).into())
        }
        (other, Temporal::Interval(interval)) => at(other, interval),
        (Temporal::Interval(interval), other) => at(other, interval),
        _ => Ok(ScalarValue::Null),
    }
}

fn minus(call: &Call<'_>, left: Temporal, right: Temporal) -> Value {
    if let Temporal::Interval(interval) = right {
        return plus(call, left, Temporal::Interval(interval.negated()));
    }
    let span = |micros: i64| {
        let interval = Interval { months: 0, days: (micros / datetime::DAY) as i32, micros: micros % datetime::DAY };
        interval_value(interval)
    };
    // Of two times one of which has a zone, the other is one of the session's.
    let utc = |value: Temporal| match value {
        Temporal::Date(days) => datetime::to_utc(i64::from(days) * datetime::DAY, &call.zone()),
        Temporal::Timestamp(at) => datetime::to_utc(at, &call.zone()),
        Temporal::TimestampTz(at) | Temporal::Time(at) => Ok(at),
        Temporal::Interval(interval) => Ok(interval.key()),
    };
    Ok(match (left, right) {
        (Temporal::Date(left), Temporal::Date(right)) => ScalarValue::Int32(Some(left - right)),
        (Temporal::Time(left), Temporal::Time(right)) => {
            interval_value(Interval { months: 0, days: 0, micros: left - right })
        }
        (Temporal::TimestampTz(_), _) | (_, Temporal::TimestampTz(_)) => span(utc(left)? - utc(right)?),
        (left, right) => {
            let local = |value: Temporal| match value {
                Temporal::Date(days) => i64::from(days) * datetime::DAY,
                Temporal::Timestamp(at) | Temporal::Time(at) | Temporal::TimestampTz(at) => at,
                Temporal::Interval(interval) => interval.key(),
            };
            span(local(left) - local(right))
        }
    })
}

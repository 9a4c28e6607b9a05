//! Arithmetic that fails as PostgreSQL's does, and functions whose result has a bound.
//!
//! PostgreSQL: an integer that overflows, a division by zero and the logarithm of zero are errors. DataFusion: integers
//! wrap around, floats become infinite or NaN. Blocked by: its planner gives no way to ask for checked operators, and
//! constants are computed before there is a physical plan. Remove when: it has one.
//!
//! `repeat('x', 2000000000)` and its like would use any memory that there is; so the size of a result is worked out
//! first.

mod guarded;
mod patterns;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, Schema,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable as _, Like, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, binary_expr,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{self, Column, Literal};
use datafusion::prelude::lit;

pub use self::guarded::MergedFilters;
use self::patterns::{for_text, is_match, is_short};
use super::functions::nulls::nested_order;
use super::scope::Scope;
use crate::error::Error;
use crate::limits::{Limits, show_bytes};

/// The most bytes of one value.
const VALUE: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub struct Strict;

impl AnalyzerRule for Strict {
    fn name(&self) -> &'static str {
        "strict"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&scan.projected_schema);
            }
            let preserver = NamePreserver::new(&plan);
            let is_filter = matches!(plan, LogicalPlan::Filter(_));
            let plan = plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = if is_filter { conjuncts(expr, &schema)? } else { checks(expr, &schema)? };
                Ok(expr.update_data(|expr| name.restore(expr)))
            })?;
            let plan = plan.transform_data(|plan| match plan {
                LogicalPlan::Filter(mut filter) => {
                    let condition = guarded::condition(filter.predicate, &schema)?;
                    filter.predicate = condition.data;
                    Ok(Transformed::new(
                        LogicalPlan::Filter(filter),
                        condition.transformed,
                        TreeNodeRecursion::Continue,
                    ))
                }
                other => Ok(Transformed::no(other)),
            })?;
            if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
        })?;
        Ok(plan.data)
    }
}

fn checks(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    expr.transform_up(|expr| strict(expr, schema))
}

/// The condition of a WHERE, whose ANDs [`guarded::condition`] sees to.
fn conjuncts(condition: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let (left, right) = (conjuncts(*left, schema)?, conjuncts(*right, schema)?);
            let changed = left.transformed || right.transformed;
            Ok(Transformed::new_transformed(left.data.and(right.data), changed))
        }
        other => checks(other, schema),
    }
}

fn strict(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            guarded::operands(*left, op, *right, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if is_match(op) && !is_short(&right) {
                let right = Box::new(for_text(&left, *right, schema)?);
                return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            if is_order(op) && is_nested(&left, schema) && is_nested(&right, schema) {
                return Ok(Transformed::yes(binary_expr(nested_order(*left, *right), op, lit(0))));
            }
            let known = match op {
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo => {
                    let is_checked = |data_type: &DataType| data_type.is_signed_integer() || data_type.is_floating();
                    operands(&left, &right, schema, is_checked)
                        .filter(|(left, right)| left.data_type() == right.data_type())
                }
                Operator::StringConcat => operands(&left, &right, schema, DataType::is_string),
                _ => None,
            };
            let Some((left_field, right_field)) = known else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            let data_type = match op {
                Operator::StringConcat => {
                    Expr::BinaryExpr(BinaryExpr { left: left.clone(), op, right: right.clone() }).get_type(schema)?
                }
                _ => left_field.data_type().clone(),
            };
            let field = Field::new("", data_type, left_field.is_nullable() || right_field.is_nullable());
            let mut args = chained(*left, op, field.data_type());
            args.push(*right);
            Ok(Transformed::yes(call(Inner::Operator(op), Arc::new(field), Volatility::Immutable, args)))
        }
        Expr::Between(between) if is_nested(&between.expr, schema) => {
            let (low, high) = match between.negated {
                false => (Operator::GtEq, Operator::LtEq),
                true => (Operator::Lt, Operator::Gt),
            };
            let low = binary_expr(nested_order(*between.expr.clone(), *between.low), low, lit(0));
            let high = binary_expr(nested_order(*between.expr, *between.high), high, lit(0));
            Ok(Transformed::yes(if between.negated { low.or(high) } else { low.and(high) }))
        }
        Expr::Case(case) => guarded::case(case, schema),
        Expr::Like(like) if !is_short(&like.pattern) => {
            let pattern = for_text(&like.expr, *like.pattern, schema)?;
            Ok(Transformed::yes(Expr::Like(Like { pattern: Box::new(pattern), ..like })))
        }
        Expr::Negative(inner) => match inner.get_type(schema) {
            Ok(data_type) if data_type.is_signed_integer() && !matches!(*inner, Expr::Literal(..)) => {
                let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
                let field = inner.to_field(schema)?.1;
                Ok(Transformed::yes(call(
                    Inner::Operator(Operator::Minus),
                    field,
                    Volatility::Immutable,
                    vec![zero, *inner],
                )))
            }
            _ => Ok(Transformed::no(Expr::Negative(inner))),
        },
        Expr::ScalarFunction(function) if kind(function.func.name()).is_some() => {
            let field = Expr::ScalarFunction(function.clone()).to_field(schema)?.1;
            let volatility = function.func.signature().volatility;
            Ok(Transformed::yes(call(Inner::Function(function.func), field, volatility, function.args)))
        }
        other => Ok(Transformed::no(other)),
    }
}

const fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Whether an operand is an array or a record, in which NULL is the largest item: to DataFusion it is the smallest.
fn is_nested(operand: &Expr, schema: &DFSchema) -> bool {
    operand.get_type(schema).is_ok_and(|data_type| data_type.is_list() || matches!(data_type, DataType::Struct(_)))
}

/// The fields of two operands, if both are of such types. Of what is checked already it is known, and not worked out from
/// all that is below, as `to_field` does: else a chain of a few hundred operators would be planned for minutes.
fn operands(left: &Expr, right: &Expr, schema: &DFSchema, fits: fn(&DataType) -> bool) -> Option<(FieldRef, FieldRef)> {
    let field = |expr: &Expr| match checked(expr) {
        Some(checked) => Some(Arc::clone(&checked.field)).filter(|field| fits(field.data_type())),
        None if fits(&expr.get_type(schema).ok()?) => Some(expr.to_field(schema).ok()?.1),
        None => None,
    };
    Some((field(left)?, field(right)?))
}

fn checked(expr: &Expr) -> Option<&Checked> {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref(),
        _ => None,
    }
}

/// The operands of `a + b` in `a + b + c`, so that a chain is one call and not a tree as deep as it is long.
fn chained(left: Expr, op: Operator, data_type: &DataType) -> Vec<Expr> {
    let same = checked(&left).is_some_and(|checked| {
        matches!(checked.inner, Inner::Operator(other) if other == op) && checked.field.data_type() == data_type
    });
    match left {
        Expr::ScalarFunction(call) if same => call.args,
        left => vec![left],
    }
}

fn call(inner: Inner, field: FieldRef, volatility: Volatility, args: Vec<Expr>) -> Expr {
    let function = Checked { inner, field, signature: Signature::variadic_any(volatility) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), args))
}

/// What is to be checked of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Numbers: a result that isn't finite.
    Math,
    /// The result is as long as all arguments together.
    Joined,
    /// The first argument, so many times as the second says.
    Repeated,
    /// So many characters as the second argument says.
    Padded,
    /// Each piece of the first argument may become the last one.
    Replaced,
    /// From the first to the second argument, by the third.
    Series,
    /// So many elements as the second argument says.
    Resized,
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "acos" | "acosh" | "asin" | "atanh" | "cosh" | "cot" | "exp" | "ln" | "log" | "log10" | "log2" | "pow"
        | "power" | "sinh" | "sqrt" => Kind::Math,
        "concat" | "concat_ws" | "array_append" | "array_cat" | "array_concat" | "array_prepend" | "list_append"
        | "list_cat" | "list_concat" | "list_prepend" | "make_array" | "overlay" => Kind::Joined,
        "repeat" | "array_repeat" | "list_repeat" => Kind::Repeated,
        "lpad" | "rpad" => Kind::Padded,
        "replace" | "regexp_replace" | "array_to_string" | "array_join" | "list_to_string" | "list_join" => {
            Kind::Replaced
        }
        "range" | "generate_series" => Kind::Series,
        "array_resize" | "list_resize" => Kind::Resized,
        _ => return None,
    })
}

#[derive(Debug, Clone)]
enum Inner {
    Operator(Operator),
    Function(Arc<ScalarUDF>),
}

/// An operator or a function, with checks around it.
#[derive(Debug)]
struct Checked {
    inner: Inner,
    field: FieldRef,
    signature: Signature,
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.inner, &other.inner) {
            (Inner::Operator(one), Inner::Operator(other)) => one == other,
            (Inner::Function(one), Inner::Function(other)) => one == other,
            _ => false,
        };
        same && self.field == other.field
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        self.field.data_type().hash(state);
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match &self.inner {
            Inner::Operator(Operator::Plus) => "add",
            Inner::Operator(Operator::Minus) => "subtract",
            Inner::Operator(Operator::Multiply) => "multiply",
            Inner::Operator(Operator::Divide) => "divide",
            Inner::Operator(Operator::Modulo) => "modulo",
            Inner::Operator(_) => "textcat",
            Inner::Function(function) => function.name(),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        match &self.inner {
            Inner::Operator(Operator::StringConcat) => self.bounded(call, Kind::Joined),
            Inner::Operator(op) => in_turn(call.args, |args| arithmetic(*op, args)),
            Inner::Function(function) => match kind(function.name()) {
                Some(Kind::Math) => {
                    let (args, rows) = (call.args.clone(), call.number_rows);
                    let result = function.invoke_with_args(call)?;
                    check_finite(function.name(), &args, &result, rows)?;
                    Ok(result)
                }
                Some(kind) => self.bounded(call, kind),
                None => function.invoke_with_args(call),
            },
        }
    }
}

impl Checked {
    fn invoke(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        match &self.inner {
            Inner::Operator(op) => in_turn(call.args, |args| operator(*op, args)),
            Inner::Function(function) => function.invoke_with_args(call),
        }
    }

    /// Works the size of the result out first. Where it may be too large for one batch, goes row by row.
    fn bounded(&self, call: ScalarFunctionArgs, kind: Kind) -> DfResult<ColumnarValue> {
        let memory = match Scope::of(&call.config_options) {
            Ok(scope) => scope.guard.memory(),
            Err(_) => Limits::default().statement_memory,
        };
        let constant = call.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { call.number_rows };
        let size = |row| estimate(kind, &call.args, row);
        let mut all: u64 = 0;
        let mut largest: u64 = 0;
        for row in 0..rows {
            let size = size(row)?;
            largest = largest.max(size);
            all = all.saturating_add(size);
        }
        if largest > VALUE {
            return Err(Error::LimitReached {
                sqlstate: "54000",
                message: format!("the result of {}() may be longer than {}", self.name(), show_bytes(VALUE)),
                hint: "That is the most that one value may have: ask for less.".into(),
            }
            .into());
        }
        if all <= memory as u64 / 4 {
            return self.invoke(call);
        }
        self.by_row(&call, rows, memory)
    }

    fn by_row(&self, call: &ScalarFunctionArgs, rows: usize, memory: usize) -> DfResult<ColumnarValue> {
        let mut parts: Vec<ArrayRef> = Vec::with_capacity(rows);
        let mut used = 0;
        for row in 0..rows {
            let args = call.args.iter().map(|arg| match arg {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(row, 1)),
                scalar => scalar.clone(),
            });
            let part = self.invoke(ScalarFunctionArgs {
                args: args.collect(),
                arg_fields: call.arg_fields.clone(),
                number_rows: 1,
                return_field: Arc::clone(&call.return_field),
                config_options: Arc::clone(&call.config_options),
            })?;
            let part = part.into_array(1)?;
            used += part.get_array_memory_size();
            if used > memory {
                return Err(Error::LimitReached {
                    sqlstate: "53200",
                    message: format!(
                        "out of memory: the results of {}() need more than {}",
                        self.name(),
                        show_bytes(memory as u64)
                    ),
                    hint: "Raise statement_memory, or ask for less at a time.".into(),
                }
                .into());
            }
            parts.push(part);
        }
        let parts: Vec<&dyn datafusion::arrow::array::Array> = parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(ColumnarValue::Array(datafusion::arrow::array::new_empty_array(self.field.data_type())));
        }
        Ok(ColumnarValue::Array(concat(&parts)?))
    }
}

/// A chain, from left to right.
fn in_turn(
    args: Vec<ColumnarValue>,
    apply: impl Fn(&[ColumnarValue]) -> DfResult<ColumnarValue>,
) -> DfResult<ColumnarValue> {
    let chained = args.into_iter().map(Ok).reduce(|left, right| apply(&[left?, right?]));
    chained.ok_or_else(|| Error::Internal("an operator has operands".into()))?
}

/// The operator as DataFusion has it, but for overflow, which is one of the operands' type.
fn operator(op: Operator, args: &[ColumnarValue]) -> DfResult<ColumnarValue> {
    let name = match args.first().map(ColumnarValue::data_type) {
        Some(DataType::Int16) => "smallint",
        Some(DataType::Int32) => "integer",
        Some(DataType::Int64) => "bigint",
        _ => return evaluate(op, args),
    };
    evaluate(op, args).map_err(|error| match error.find_root() {
        DataFusionError::ArrowError(arrow, _) if matches!(**arrow, ArrowError::ArithmeticOverflow(_)) => {
            Error::Data { sqlstate: "22003", message: format!("{name} out of range") }.into()
        }
        _ => error,
    })
}

fn evaluate(op: Operator, args: &[ColumnarValue]) -> DfResult<ColumnarValue> {
    let rows = args.iter().find_map(|arg| match arg {
        ColumnarValue::Array(array) => Some(array.len()),
        ColumnarValue::Scalar(_) => None,
    });
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut exprs = args.iter().map(|arg| -> Arc<dyn PhysicalExpr> {
        match arg {
            ColumnarValue::Array(array) => {
                columns.push(Arc::clone(array));
                Arc::new(Column::new("", columns.len() - 1))
            }
            ColumnarValue::Scalar(value) => Arc::new(Literal::new(value.clone())),
        }
    });
    let (Some(left), Some(right)) = (exprs.next(), exprs.next()) else {
        return Err(Error::Internal("an operator has two operands".into()).into());
    };
    drop(exprs);
    let fields: Vec<Field> = columns.iter().map(|column| Field::new("", column.data_type().clone(), true)).collect();
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.unwrap_or(1)));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    expressions::BinaryExpr::new(left, op, right).with_fail_on_overflow(true).evaluate(&batch)
}

fn arithmetic(op: Operator, args: &[ColumnarValue]) -> DfResult<ColumnarValue> {
    let result = operator(op, args)?;
    if result.data_type().is_floating() {
        let rows = match &result {
            ColumnarValue::Array(array) => array.len(),
            ColumnarValue::Scalar(_) => 1,
        };
        let name = if matches!(op, Operator::Divide | Operator::Modulo) { "/" } else { "" };
        check_finite(name, args, &result, rows)?;
    }
    Ok(result)
}

/// Of finite numbers comes a finite number, or an error.
fn check_finite(name: &str, args: &[ColumnarValue], result: &ColumnarValue, rows: usize) -> DfResult<()> {
    if !result.data_type().is_floating() {
        return Ok(());
    }
    let rows = if matches!(result, ColumnarValue::Scalar(_)) { 1 } else { rows };
    let values = floats(result, rows)?;
    let values = values.as_primitive::<Float64Type>();
    // A division by zero is an error also of what isn't finite.
    let divides = name == "/";
    if !divides && values.values().iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let args = args.iter().map(|arg| floats(arg, rows)).collect::<DfResult<Vec<_>>>()?;
    let args: Vec<_> = args.iter().map(|arg| arg.as_primitive::<Float64Type>()).collect();
    for row in (0..rows).filter(|row| !values.is_null(*row)) {
        let operands: Vec<f64> = args.iter().map(|arg| arg.value(row)).collect();
        if divides && operands.get(1) == Some(&0.0) {
            return Err(Error::Data { sqlstate: "22012", message: "division by zero".into() }.into());
        }
        if !values.value(row).is_finite() && operands.iter().all(|operand| operand.is_finite()) {
            return Err(out_of_range(name, &operands).into());
        }
    }
    Ok(())
}

fn floats(value: &ColumnarValue, rows: usize) -> DfResult<ArrayRef> {
    let array = value.to_array(rows)?;
    Ok(match array.data_type() {
        DataType::Float64 => array,
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from)),
        _ => cast(&array, &DataType::Float64)?,
    })
}

/// In PostgreSQL's words.
fn out_of_range(name: &str, operands: &[f64]) -> Error {
    let (sqlstate, message) = match (name, operands) {
        ("ln" | "log" | "log10" | "log2", operands) if operands.contains(&0.0) => {
            ("2201E", "cannot take logarithm of zero")
        }
        ("ln" | "log" | "log10" | "log2", operands) if operands.iter().any(|operand| *operand < 0.0) => {
            ("2201E", "cannot take logarithm of a negative number")
        }
        // The logarithm to the base 1.
        ("log", _) => ("22012", "division by zero"),
        ("sqrt", _) => ("2201F", "cannot take square root of a negative number"),
        ("pow" | "power", [0.0, power]) if *power < 0.0 => ("2201F", "zero raised to a negative power is undefined"),
        ("pow" | "power", [base, power]) if *base < 0.0 && power.fract() != 0.0 => {
            ("2201F", "a negative number raised to a non-integer power yields a complex result")
        }
        ("acos" | "acosh" | "asin" | "atanh", _) => ("22003", "input is out of range"),
        _ => ("22003", "value out of range: overflow"),
    };
    Error::Data { sqlstate, message: message.into() }
}

/// Bytes of the result for one row, at most.
fn estimate(kind: Kind, args: &[ColumnarValue], row: usize) -> DfResult<u64> {
    let bytes = |index: usize| args.get(index).map_or(0, |arg| size_of(arg, row));
    let number = |index: usize| args.get(index).map_or(Ok(0), |arg| integer(arg, row));
    let times = |count: i64, bytes: u64| u64::try_from(count).unwrap_or(0).saturating_mul(bytes);
    Ok(match kind {
        Kind::Math => 8,
        Kind::Joined => (0..args.len()).map(bytes).fold(0, u64::saturating_add),
        // `array_repeat` of an empty text has elements too.
        Kind::Repeated => times(number(1)?, bytes(0)),
        Kind::Padded => times(number(1)?, 4),
        Kind::Replaced => {
            let last = args.len().saturating_sub(1).max(1);
            let with = bytes(2.min(last)).max(bytes(1));
            bytes(0).saturating_add(bytes(0).saturating_add(1).saturating_mul(with))
        }
        Kind::Series => return series(args, row),
        Kind::Resized => times(number(1)?, bytes(2).max(8)),
    })
}

/// The bytes of a value, or a little more.
fn size_of(value: &ColumnarValue, row: usize) -> u64 {
    let size = match value {
        ColumnarValue::Scalar(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text)) => {
            text.as_ref().map_or(0, String::len)
        }
        ColumnarValue::Scalar(value) => value.size(),
        ColumnarValue::Array(array) if array.is_null(row) => 0,
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value(row).len(),
            DataType::LargeUtf8 => array.as_string::<i64>().value(row).len(),
            DataType::Utf8View => array.as_string_view().value(row).len(),
            DataType::Binary => array.as_binary::<i32>().value(row).len(),
            DataType::List(_) => {
                let items = array.as_list::<i32>();
                let all = items.values().get_array_memory_size();
                let share = items.value_length(row) as usize;
                // What an element has in the mean.
                all / items.values().len().max(1) * share + share
            }
            _ => 16,
        },
    };
    size as u64
}

fn integer(value: &ColumnarValue, row: usize) -> DfResult<i64> {
    let array = match value {
        ColumnarValue::Scalar(value) => value.to_array()?,
        ColumnarValue::Array(array) => array.slice(row, 1),
    };
    if array.data_type().is_integer() {
        let array = cast(&array, &DataType::Int64)?;
        let array = array.as_primitive::<Int64Type>();
        return Ok(if array.is_null(0) { 0 } else { array.value(0) });
    }
    Ok(0)
}

/// The bytes of an array from one number or day to another.
fn series(args: &[ColumnarValue], row: usize) -> DfResult<u64> {
    let at = |index: usize| -> DfResult<Option<ArrayRef>> {
        args.get(index)
            .map(|arg| match arg {
                ColumnarValue::Scalar(value) => value.to_array(),
                ColumnarValue::Array(array) => Ok(array.slice(row, 1)),
            })
            .transpose()
    };
    let (Some(first), last, step) = (at(0)?, at(1)?, at(2)?) else { return Ok(0) };
    let nanos_per_day = 86_400_000_000_000_i128;
    let scale = match first.data_type() {
        DataType::Date32 => nanos_per_day,
        DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, _) => 1000,
        DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Second, _) => 1_000_000_000,
        _ => 1,
    };
    let point = |array: &ArrayRef| -> DfResult<Option<i128>> {
        if !(array.data_type().is_integer() || array.data_type().is_temporal()) || array.is_null(0) {
            return Ok(None);
        }
        let narrow =
            if array.data_type() == &DataType::Date32 { cast(array, &DataType::Int32)? } else { Arc::clone(array) };
        let whole = cast(&narrow, &DataType::Int64)?;
        Ok(Some(i128::from(whole.as_primitive::<Int64Type>().value(0)) * scale))
    };
    let first = point(&first)?;
    let last = last.map(|last| point(&last)).transpose()?.flatten();
    let step = match &step {
        Some(step) if step.data_type().is_integer() => point(step)?,
        Some(step) if matches!(step.data_type(), DataType::Interval(_)) => {
            let month_day_nano = DataType::Interval(datafusion::arrow::datatypes::IntervalUnit::MonthDayNano);
            let step = cast(step, &month_day_nano)?;
            let step = step.as_primitive::<IntervalMonthDayNanoType>().value(0);
            let days = i128::from(step.days) + 28 * i128::from(step.months);
            Some(days * nanos_per_day + i128::from(step.nanoseconds))
        }
        _ => Some(scale),
    };
    // `range(n)` starts at zero.
    let span = match (first, last) {
        (Some(first), Some(last)) => last - first,
        (Some(only), None) if args.len() == 1 => only,
        _ => return Ok(0),
    };
    let step = step.unwrap_or(1).unsigned_abs().max(1);
    Ok(u64::try_from(span.unsigned_abs() / step).unwrap_or(u64::MAX).saturating_mul(8))
}

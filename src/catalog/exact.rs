//! PostgreSQL's exact types on a plan that DataFusion has made: what `sum` and `avg` give, what a cast of json gives, and
//! what goes out to the client.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::functions::core::named_struct;
use datafusion::logical_expr::expr::{Case, Cast, FieldMetadata, ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, Subquery, Union, WindowFunctionDefinition,
};
use datafusion::prelude::lit;

use super::analyze::{typed, untyped};
use super::{cast, functions, nulls, types};
use crate::error::Error;

/// Gives the plan's expressions their exact types.
pub fn exact(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut changed = false;
    plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let preserver = NamePreserver::new(&plan);
        // In a condition a cast may be left to SQLite.
        let is_shown = !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        if let LogicalPlan::Union(union) = plan {
            changed = true;
            return one_type_a_column(union).map(Transformed::yes);
        }
        let plan = if let LogicalPlan::Sort(mut sort) = plan {
            for by in &mut sort.expr {
                order_documents(&mut by.expr, &schema);
            }
            LogicalPlan::Sort(sort)
        } else {
            plan
        };
        let plan = plan.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let expr = expr.transform_up(|expr| {
                let exact = exact_expression(expr, &schema, is_shown)?;
                if exact.transformed { Ok(exact) } else { Ok(nulls::exact(exact.data, &schema)) }
            })?;
            let expr = if is_shown { expr } else { expr.update_data(nulls::in_condition) };
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        // Also where only an input has changed: its fields are other ones now.
        changed |= plan.transformed;
        if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })
    .map(|plan| plan.data)
}

/// Jsonb is ordered by what it says.
fn order_documents(by: &mut Expr, schema: &DFSchema) {
    let is_jsonb = types::is_of(by, "jsonb", schema);
    if let Some(key) = functions::find(functions::JSONB_KEY).filter(|_| is_jsonb) {
        let document = std::mem::replace(by, Expr::Literal(ScalarValue::Null, None));
        *by = key.call(vec![document.unalias()]);
    }
}

fn exact_expression(expr: Expr, schema: &DFSchema, is_shown: bool) -> DfResult<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr, field }) => exact_cast(*expr, field, schema, is_shown),
        Expr::AggregateFunction(mut call) => {
            let changed = widen(call.func.name(), &mut call.params.args, schema);
            Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
        }
        Expr::WindowFunction(mut call) => {
            let WindowFunction { fun, params } = call.as_mut();
            let changed = match fun {
                WindowFunctionDefinition::AggregateUDF(function) => widen(function.name(), &mut params.args, schema),
                WindowFunctionDefinition::WindowUDF(_) => false,
            };
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
        }
        Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => of_outer_row(subquery),
        Expr::InSubquery(within) => {
            comparable(&within.expr, "=", &within.subquery, schema)?;
            Ok(Transformed::no(Expr::InSubquery(within)))
        }
        Expr::SetComparison(compared) => {
            comparable(&compared.expr, &compared.op.to_string(), &compared.subquery, schema)?;
            Ok(Transformed::no(Expr::SetComparison(compared)))
        }
        Expr::Case(case) => exact_case(case, schema),
        Expr::ScalarFunction(call) if functions::OF_ONE_TYPE.contains(&call.func.name()) => of_one_type(call, schema),
        Expr::ScalarFunction(call) if call.func.name() == "character_length" => {
            let is_bytes = call.args.first().is_some_and(|arg| {
                arg.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Binary | DataType::BinaryView))
            });
            match called("bytea_length", call.args.clone()) {
                Some(length) if is_bytes => Ok(length),
                _ => of_text(call, schema),
            }
        }
        Expr::ScalarFunction(call) if TEXT_FUNCTIONS.contains(&call.func.name()) => of_text(call, schema),
        other => Ok(Transformed::no(other)),
    }
}

/// Refuses to compare a value with a subquery's that are of another kind. DataFusion would cast the one to the other.
fn comparable(value: &Expr, op: &str, subquery: &Subquery, schema: &DFSchema) -> DfResult<()> {
    let Some(left) = known_type(value, schema) else { return Ok(()) };
    let right = subquery.subquery.schema().field(0);
    if right.data_type().is_null() || category(&left) == category(right.data_type()) {
        return Ok(());
    }
    let name = |data_type: &DataType| types::sql_name(&Field::new("", data_type.clone(), true));
    let left = value.to_field(schema).map_or_else(|_| name(&left), |(_, field)| types::sql_name(&field));
    let call = format!("{left} {op} {}", types::sql_name(right));
    Err(Error::UndefinedOperator { call }.into())
}

/// Functions that take a character(n) as text, which has no spaces at its end.
const TEXT_FUNCTIONS: [&str; 10] =
    ["btrim", "initcap", "left", "lower", "lpad", "replace", "reverse", "right", "rpad", "upper"];

fn of_text(mut call: ScalarFunction, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let mut changed = false;
    for arg in &mut call.args {
        if types::is_of(arg, "bpchar", schema) {
            *arg = functions::unpadded(std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None)));
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
}

/// A subquery that depends on the outer row: see [`functions::single_or_several`].
fn of_outer_row(mut subquery: Subquery) -> DfResult<Transformed<Expr>> {
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let mut found = false;
    let plan = plan.transform_up(|plan| {
        let plan = plan.map_expressions(|expr| {
            expr.transform_down(|expr| match expr {
                Expr::AggregateFunction(mut call) if call.func.name() == functions::SINGLE_VALUE => {
                    let name = Expr::AggregateFunction(call.clone()).schema_name().to_string();
                    call.func = Arc::new(functions::single_or_several());
                    found = true;
                    Ok(Transformed::yes(Expr::AggregateFunction(call).alias(name)))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        // Its type is another one now, also above it.
        if found { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })?;
    subquery.subquery = Arc::new(plan.data);
    let subquery = Expr::ScalarSubquery(subquery);
    match functions::find(functions::ONLY_VALUE).filter(|_| found) {
        Some(only) => Ok(Transformed::yes(only.call(vec![subquery]))),
        None => Ok(Transformed::no(subquery)),
    }
}

/// A function whose literals take the type of its other arguments.
fn of_one_type(mut call: ScalarFunction, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let types: Vec<Option<DataType>> = call.args.iter().map(|arg| known_type(arg, schema)).collect();
    let changed = match common(&types, &call.func.name().to_uppercase())? {
        Some(common) => typed_as(call.args.iter_mut().collect(), &common, schema)?,
        None => false,
    };
    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
}

/// Gives literals the type that values beside them have, which is held as `common`. Whether there is one.
fn typed_as(values: Vec<&mut Expr>, common: &DataType, schema: &DFSchema) -> DfResult<bool> {
    let other = values.iter().find(|value| known_type(value, schema).as_ref() == Some(common));
    let other = other.map(|value| (**value).clone());
    let mut changed = false;
    for value in values {
        if !untyped(value) {
            continue;
        }
        let literal = std::mem::replace(value, Expr::Literal(ScalarValue::Null, None));
        *value = match &other {
            Some(other) => typed(literal, other, schema)?,
            None => Expr::Cast(Cast::new(Box::new(literal), common.clone())),
        };
        changed = true;
    }
    Ok(changed)
}

/// All results of a CASE have one type. DataFusion tells the first one's.
fn exact_case(mut case: Case, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    if case.expr.is_none() {
        for (when, _) in &case.when_then_expr {
            if let Some(other) = known_type(when, schema).filter(|data_type| *data_type != DataType::Boolean) {
                let name = types::sql_name(&Field::new("", other, true));
                let message = format!("argument of CASE/WHEN must be type boolean, not type {name}");
                return Err(Error::Semantics { sqlstate: "42804", message }.into());
            }
        }
    }
    let mut results: Vec<&mut Box<Expr>> = case.when_then_expr.iter_mut().map(|(_, then)| then).collect();
    results.extend(case.else_expr.as_mut());
    let types: Vec<Option<DataType>> = results.iter().map(|result| known_type(result, schema)).collect();
    let Some(common) = common(&types, "CASE")? else { return Ok(Transformed::no(Expr::Case(case))) };
    let mut changed = typed_as(results.iter_mut().map(|result| result.as_mut()).collect(), &common, schema)?;
    for result in results {
        if result.get_type(schema).is_ok_and(|data_type| data_type != common) {
            let inner = std::mem::replace(result.as_mut(), Expr::Literal(ScalarValue::Null, None));
            **result = Expr::Cast(Cast::new(Box::new(inner), common.clone()));
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(Expr::Case(case), changed))
}

/// The type of an expression. `None`: it is a literal, which has none yet.
fn known_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr {
        Expr::Alias(alias) => known_type(&alias.expr, schema),
        Expr::Literal(value, _) if value.data_type().is_string() => None,
        other => other.get_type(schema).ok().filter(|data_type| !data_type.is_null()),
    }
}

/// The one type for several. `None`: all are text, or unknown, or one can't be told.
fn common(types: &[Option<DataType>], what: &str) -> DfResult<Option<DataType>> {
    let known: Vec<DataType> = types.iter().flatten().cloned().collect();
    let [first, rest @ ..] = known.as_slice() else { return Ok(None) };
    if rest.iter().all(|other| other == first) {
        return Ok(Some(first.clone()));
    }
    let name = |data_type: &DataType| types::sql_name(&Field::new("", data_type.clone(), true));
    if let Some(other) = rest.iter().find(|other| category(other) != category(first)) {
        let message = format!("{what} types {} and {} cannot be matched", name(first), name(other));
        return Err(Error::Semantics { sqlstate: "42804", message }.into());
    }
    Ok(types::widest_float(&known).or_else(|| type_union_resolution(&known)))
}

/// Types of one category may become one.
fn category(data_type: &DataType) -> u8 {
    match data_type {
        number if number.is_numeric() => 0,
        text if text.is_string() => 1,
        DataType::Boolean => 2,
        DataType::Interval(_) | DataType::Duration(_) => 3,
        DataType::Time32(_) | DataType::Time64(_) => 4,
        time if time.is_temporal() => 5,
        list if list.is_list() => 6,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => 7,
        _ => 8,
    }
}

/// The inputs of a UNION with one type a column, which literals take.
fn one_type_a_column(union: Union) -> DfResult<LogicalPlan> {
    let columns = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns) {
        return Ok(LogicalPlan::Union(union));
    }
    let untyped = |input: &LogicalPlan, column: usize| match input {
        LogicalPlan::Projection(projection) => {
            known_type(&projection.expr[column], projection.input.schema()).is_none()
        }
        _ => false,
    };
    let mut targets = Vec::with_capacity(columns);
    for column in 0..columns {
        let types: Vec<Option<DataType>> = union
            .inputs
            .iter()
            .map(|input| {
                let data_type = input.schema().field(column).data_type();
                (!data_type.is_null() && !untyped(input, column)).then(|| data_type.clone())
            })
            .collect();
        targets.push(common(&types, "UNION")?.unwrap_or(DataType::Utf8));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let fields = input.schema().fields();
        if fields.iter().zip(&targets).all(|(field, target)| field.data_type() == target) {
            return Ok(input);
        }
        let expressions = input.schema().iter().zip(&targets).map(|((relation, field), target)| {
            let column = Expr::Column(datafusion::common::Column::new(relation.cloned(), field.name()));
            if field.data_type() == target {
                return column;
            }
            Expr::Cast(Cast::new(Box::new(column), target.clone())).alias(field.name())
        });
        let expressions: Vec<Expr> = expressions.collect();
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(expressions)?.build().map(Arc::new)
    });
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs.collect::<DfResult<Vec<_>>>()?)?))
}

/// `sum` of bigint and `avg` of whole and exact numbers are exact.
fn widen(function: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    let Ok(data_type) = arg.get_type(schema) else { return false };
    let exact = match (function, &data_type) {
        ("sum", DataType::Int64) => DataType::Decimal128(28, 0),
        ("avg", whole) if whole.is_integer() => DataType::Decimal128(34, 12),
        // An average has four digits more.
        ("avg", DataType::Decimal128(_, scale)) if *scale < 12 => DataType::Decimal128(34, 12),
        _ => return false,
    };
    let inner = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
    *arg = Expr::Cast(Cast::new(Box::new(inner), exact));
    true
}

/// A cast of a value whose exact type Arrow doesn't know. DataFusion would leave it away, or carry the exact type over.
fn exact_cast(expr: Expr, field: FieldRef, schema: &DFSchema, is_shown: bool) -> DfResult<Transformed<Expr>> {
    let unchanged = |expr: Expr, field: FieldRef| Transformed::no(Expr::Cast(Cast { expr: Box::new(expr), field }));
    let Ok(from) = types::field_of(&expr, schema) else { return Ok(unchanged(expr, field)) };
    let target = field.data_type().clone();
    // `numeric` alone keeps all digits.
    if target == DataType::Decimal128(38, 10) {
        match (from.data_type(), &expr) {
            (DataType::Decimal128(..), _) => return Ok(Transformed::yes(expr)),
            (whole, _) if whole.is_integer() => {
                return Ok(Transformed::yes(Expr::Cast(Cast::new(Box::new(expr), DataType::Decimal128(38, 0)))));
            }
            (_, Expr::Literal(ScalarValue::Utf8(Some(text)), _)) if !text.contains(['e', 'E']) => {
                let digits = text.trim().split_once('.').map_or(0, |(_, fraction)| fraction.len());
                let scale = i8::try_from(digits.min(30)).unwrap_or(10);
                let exact = DataType::Decimal128(38, scale);
                return Ok(Transformed::yes(Expr::Cast(Cast::new(Box::new(expr), exact))));
            }
            _ => {}
        }
    }
    let Some(marked) = types::marked(&from) else { return Ok(unchanged(expr, field)) };
    let is_json = matches!(marked.name, "json" | "jsonb");
    if is_json && target == DataType::Utf8 {
        return Ok(called("jsonb_out", vec![expr.clone()]).unwrap_or_else(|| unchanged(expr, field)));
    }
    if is_json && (target.is_numeric() || target == DataType::Boolean) {
        let name = Expr::Literal(ScalarValue::Utf8(Some(types::sql_name(&field).into())), None);
        return Ok(match called("jsonb_scalar", vec![expr.clone(), name]) {
            Some(scalar) => Transformed::yes(Expr::Cast(Cast { expr: Box::new(scalar.data), field })),
            None => unchanged(expr, field),
        });
    }
    if target == DataType::Utf8 && marked.name == "bpchar" {
        return Ok(Transformed::yes(functions::unpadded(expr)));
    }
    if target == DataType::Utf8 && functions::REG_TYPES.contains(&marked.name) {
        let function = functions::text_function(marked.name);
        return Ok(called(&function, vec![expr.clone()]).unwrap_or_else(|| unchanged(expr, field)));
    }
    if is_shown && !from.data_type().is_list() {
        return Ok(Transformed::yes(cast::call(expr, from, Arc::new(Field::new("", target, true)))));
    }
    Ok(unchanged(expr, field))
}

fn called(name: &str, args: Vec<Expr>) -> Option<Transformed<Expr>> {
    functions::find(name).map(|definition| Transformed::yes(definition.call(args)))
}

/// The type of oids that are shown as names.
pub fn reg_type(field: &FieldRef) -> Option<&'static str> {
    let marked = types::marked(field).filter(|_| field.data_type() == &DataType::Int32);
    marked.map(|pg_type| pg_type.name).filter(|name| functions::REG_TYPES.contains(name))
}

/// The last step: oids that are shown as names, and whole numbers without a sign, which PostgreSQL doesn't have.
pub fn shown(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let signed = |field: &FieldRef| match field.data_type() {
        DataType::UInt8 | DataType::UInt16 | DataType::Int8 => Some(DataType::Int16),
        DataType::UInt32 | DataType::UInt64 => Some(DataType::Int64),
        _ => None,
    };
    let needed = |field: &FieldRef| reg_type(field).is_some() || signed(field).is_some();
    if matches!(plan, LogicalPlan::Explain(_)) || !plan.schema().fields().iter().any(needed) {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let expressions: Vec<Expr> = columns
        .into_iter()
        .zip(plan.schema().fields())
        .map(|(column, field)| {
            let name = column.name.clone();
            let column = Expr::Column(column);
            if let Some(data_type) = signed(field) {
                return Expr::Cast(Cast::new(Box::new(column), data_type)).alias(name);
            }
            match reg_type(field).and_then(|name| functions::find(&functions::text_function(name))) {
                Some(function) => {
                    // Clients are told the type, and ask for the name or for the oid.
                    let both = vec![lit("oid"), column.clone(), lit("name"), function.call(vec![column])];
                    let metadata = FieldMetadata::from(field.metadata().clone());
                    named_struct().call(both).alias_with_metadata(name, Some(metadata))
                }
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(expressions)?.build()
}

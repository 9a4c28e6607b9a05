//! Aggregates and window functions that DataFusion has under other names, or that are made of its `array_agg`.

use datafusion::logical_expr::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    Ident, ObjectName, OrderByOptions, Value,
};

use super::expressions::{cast_to, string};
use super::{call, is_named, take};

/// What an aggregate becomes, if it is of these.
pub fn replacement(function: &mut Function) -> Option<Expr> {
    if let Some(sorted) = distinct(function) {
        return Some(sorted);
    }
    for (name, to_document) in [("json_agg", "json_item"), ("jsonb_agg", "to_jsonb")] {
        if is_named(&function.name, name) {
            return Some(call(of(name, "documents"), vec![gathered(function, None, Some(to_document))]));
        }
    }
    for (name, of_pairs) in [("json_object_agg", "json_of_pairs"), ("jsonb_object_agg", "jsonb_of_pairs")] {
        if is_named(&function.name, name) {
            let values = gathered(function, Some(1), Some("to_json"));
            return Some(call(of_pairs, vec![gathered(function, Some(0), None), values]));
        }
    }
    function.over.is_some().then(|| in_window(function))?
}

/// The function that makes a document of what an aggregate has gathered.
fn of(aggregate: &str, parts: &str) -> &'static str {
    match (aggregate, parts) {
        ("json_agg", "items") => "json_of_items",
        ("json_agg", _) => "json_of_documents",
        (_, "items") => "jsonb_of_items",
        _ => "jsonb_of_documents",
    }
}

/// PostgreSQL sorts to tell what is DISTINCT, and aggregates in that order. DataFusion doesn't, and where an order is asked
/// for, takes an input that is in the reverse one for as good. So the array is sorted once it is there.
fn distinct(function: &mut Function) -> Option<Expr> {
    let names = ["array_agg", "string_agg", "json_agg", "jsonb_agg"];
    let name = names.into_iter().find(|name| is_named(&function.name, name))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment.is_none() || function.over.is_some() {
        return None;
    }
    let args: Option<Vec<&Expr>> = list.args.iter().map(argument).collect();
    let (value, between) = match (name, args?.as_slice()) {
        ("string_agg", [value, between]) if string(between).is_some() => ((*value).clone(), Some((*between).clone())),
        ("array_agg" | "json_agg" | "jsonb_agg", [value]) => ((*value).clone(), None),
        _ => return None,
    };
    let is_order = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    let options = match list.clauses.iter().find(|clause| is_order(clause)) {
        None => OrderByOptions { asc: None, nulls_first: None },
        Some(FunctionArgumentClause::OrderBy(keys)) if matches!(keys.as_slice(), [key] if key.expr == value) => {
            keys.first()?.options
        }
        Some(_) => return None,
    };
    let mut array = function.clone();
    array.name = ObjectName::from(vec![Ident::new("array_agg")]);
    if let FunctionArguments::List(list) = &mut array.args {
        list.clauses.retain(|clause| !is_order(clause));
        list.args.truncate(1);
    }
    if between.is_some() {
        without_nulls(&mut array, value);
    }
    let descending = options.asc == Some(false);
    let flag = |set: bool| Expr::Value(Value::Boolean(set).into());
    let nulls_first = options.nulls_first.unwrap_or(descending);
    let sorted = call("sorted_items", vec![Expr::Function(array), flag(descending), flag(nulls_first)]);
    Some(match (name, between) {
        (_, Some(between)) => call("array_to_string", vec![sorted, between]),
        ("array_agg", None) => sorted,
        (name, None) => call(of(name, "items"), vec![sorted]),
    })
}

/// Aggregates whose window may move on from a row, which DataFusion can't take out of them again, by those that know how
/// to; and numbers that it counts as wide as row numbers.
fn in_window(function: &mut Function) -> Option<Expr> {
    for (name, known) in [("bool_and", "min"), ("bool_or", "max")] {
        if is_named(&function.name, name) {
            function.name = ObjectName::from(vec![Ident::new(known)]);
        }
    }
    if is_named(&function.name, "ntile") {
        return Some(cast_to(Expr::Function(function.clone()), DataType::Integer(None)));
    }
    if !is_named(&function.name, "string_agg") {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let [value, between] = list.args.as_slice() else { return None };
    let (value, between) = (argument(value)?.clone(), argument(between)?.clone());
    string(&between)?;
    list.args.truncate(1);
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    without_nulls(function, value);
    Some(call("array_to_string", vec![Expr::Function(function.clone()), between]))
}

/// Leaves NULLs out, so that of nothing else there is no array.
fn without_nulls(function: &mut Function, value: Expr) {
    let there = Expr::IsNotNull(Box::new(value));
    function.filter = Some(Box::new(match function.filter.take() {
        Some(left) => {
            Expr::BinaryOp { left: Box::new(Expr::Nested(left)), op: BinaryOperator::And, right: Box::new(there) }
        }
        None => there,
    }));
}

fn argument(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    }
}

/// `array_agg` of an aggregate's argument, or of one of them; as documents, where what was in an array could no longer be
/// told from text.
fn gathered(function: &Function, argument: Option<usize>, to_document: Option<&str>) -> Expr {
    let mut function = function.clone();
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    if let (FunctionArguments::List(list), Some(index)) = (&mut function.args, argument)
        && index < list.args.len()
    {
        list.args = vec![list.args.swap_remove(index)];
    }
    if let (FunctionArguments::List(list), Some(to_document)) = (&mut function.args, to_document) {
        for arg in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg {
                *value = call(to_document, vec![take(value)]);
            }
        }
    }
    Expr::Function(function)
}

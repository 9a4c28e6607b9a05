//! Expressions that PostgreSQL has a syntax for and DataFusion a function, or none.

use datafusion::logical_expr::sqlparser::ast::{
    self, AccessExpr, BinaryOperator, CastKind, CeilFloorKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Subscript, TimezoneInfo, UnaryOperator, Value,
};
use datafusion::logical_expr::sqlparser::parser::Parser;

use super::super::datetime::Unit;
use super::{aggregates, call, is_named, take};

pub fn text(value: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).into())
}

pub fn number(value: impl ToString) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

pub fn cast_to(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Types whose names are also functions that cast to them, where the grammar lets them be called.
const CASTING: [&str; 16] = [
    "bool",
    "bpchar",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "name",
    "numeric",
    "oid",
    "text",
    "timestamp",
    "timestamptz",
    "timetz",
    "varchar",
];

/// `date(x)`: a type's name with one argument is a cast.
pub fn type_call(function: &mut Function) -> Option<Expr> {
    let name = *CASTING.iter().find(|name| is_named(&function.name, name))?;
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))] = list.args.as_mut_slice() else { return None };
    let dialect = datafusion::logical_expr::sqlparser::dialect::PostgreSqlDialect {};
    let data_type = Parser::new(&dialect).try_with_sql(name).ok()?.parse_data_type().ok()?;
    let mut cast = cast_to(take(operand), data_type);
    Some(super::replacement(&mut cast).unwrap_or(cast))
}

fn not(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) } } else { expr }
}

/// A string as it is written.
pub fn string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => string(inner),
        _ => None,
    }
}

/// What an expression becomes, if it is of these.
pub fn replacement(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::Extract { field, expr, .. } => {
            let field = field.to_string();
            let name = field.trim_matches(['\'', '"']);
            let function = match Unit::read(name).map_or(0, Unit::scale) {
                6 => "extract_micros",
                3 => "extract_millis",
                _ => "extract",
            };
            Some(call(function, vec![text(name), take(expr)]))
        }
        Expr::AtTimeZone { timestamp, time_zone } => Some(call("timezone", vec![take(time_zone), take(timestamp)])),
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let mut args = vec![take(expr), take(pattern)];
            args.extend(escape_char.take().map(Expr::Value));
            Some(not(*negated, call("similar_to", args)))
        }
        Expr::Like { pattern, escape_char: escape @ Some(_), .. }
        | Expr::ILike { pattern, escape_char: escape @ Some(_), .. } => {
            let mut args = vec![take(pattern)];
            args.extend(escape.take().map(Expr::Value));
            **pattern = call("like_escape", args);
            None
        }
        Expr::Substring { expr, substring_from: Some(from), substring_for: None, .. } if string(from).is_some() => {
            Some(call("substring_regex", vec![take(expr), take(from)]))
        }
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::PGSquareRoot => Some(call("sqrt", vec![cast_to(take(expr), DataType::DoublePrecision)])),
            UnaryOperator::PGCubeRoot => Some(call("cbrt", vec![cast_to(take(expr), DataType::DoublePrecision)])),
            UnaryOperator::PGAbs => Some(call("abs", vec![take(expr)])),
            UnaryOperator::BitwiseNot => Some(call("bit_not", vec![take(expr)])),
            _ => None,
        },
        Expr::BinaryOp { op: BinaryOperator::Overlaps, left, right } => {
            let args: Vec<Expr> = row(left)?.into_iter().chain(row(right)?).collect();
            (args.len() == 4).then(|| call("overlaps", args))
        }
        Expr::Value(value) => match &value.value {
            Value::UnicodeStringLiteral(read) => Some(text(read.clone())),
            _ => None,
        },
        Expr::Tuple(items) => Some(call("struct", std::mem::take(items))),
        Expr::CompoundFieldAccess { root, access_chain } => access(root, access_chain),
        Expr::Like { any: true, negated, expr, pattern, .. } => Some(not(*negated, like_any(expr, pattern, false))),
        Expr::ILike { any: true, negated, expr, pattern, .. } => Some(not(*negated, like_any(expr, pattern, true))),
        Expr::Interval(interval) => {
            let value = string(&interval.value)?.trim().to_owned();
            let unit = match (&interval.leading_field, value.parse::<f64>()) {
                (Some(field), Ok(_)) => field.to_string(),
                _ => String::new(),
            };
            Some(cast_to(text(format!("{value} {unit}").trim()), DataType::Interval { fields: None, precision: None }))
        }
        Expr::TypedString(typed) => {
            let value = Expr::Value(typed.value.clone());
            let mut cast = cast_to(value, typed.data_type.clone());
            Some(super::replacement(&mut cast).unwrap_or(cast))
        }
        Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            Some(call("ceil", vec![take(expr)]))
        }
        Expr::Floor { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            Some(call("floor", vec![take(expr)]))
        }
        _ => None,
    }
}

/// The items of a row that [`replacement`] has made.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let items = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    is_named(&function.name, "struct").then(|| items.collect())?
}

fn like_any(expr: &mut Expr, patterns: &mut Expr, insensitive: bool) -> Expr {
    let insensitive = Expr::Value(Value::Boolean(insensitive).into());
    call("like_any", vec![take(expr), take(patterns), insensitive])
}

/// `(row).column`, and slices of arrays with a side left open.
fn access(root: &mut Expr, chain: &mut Vec<AccessExpr>) -> Option<Expr> {
    let is_field = |part: &AccessExpr| matches!(part, AccessExpr::Dot(Expr::Identifier(_)));
    if matches!(root, Expr::Nested(_) | Expr::Function(_)) && chain.iter().all(is_field) {
        return chain.drain(..).try_fold(take(root), |row, part| match part {
            AccessExpr::Dot(Expr::Identifier(name)) => Some(call("get_field", vec![row, text(super::fold(&name))])),
            _ => None,
        });
    }
    for part in chain {
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = part {
            lower_bound.get_or_insert_with(|| number(1));
            upper_bound.get_or_insert_with(|| number(i32::MAX));
        }
    }
    None
}

/// PostgreSQL's functions under the names that DataFusion has them by, and those that are made of others.
pub fn function(function: &mut Function) -> Option<Expr> {
    let renamed = [
        ("variance", "var_samp"),
        ("every", "bool_and"),
        ("array_remove", "array_remove_all"),
        ("array_replace", "array_replace_all"),
    ];
    for (name, known) in renamed {
        if is_named(&function.name, name) {
            function.name = ast::ObjectName::from(vec![ast::Ident::new(known)]);
        }
    }
    if let Some(aggregate) = aggregates::replacement(function) {
        return Some(aggregate);
    }
    if is_named(&function.name, "make_interval") {
        in_order(function, &["years", "months", "weeks", "days", "hours", "mins", "secs"]);
    }
    if is_named(&function.name, "substring")
        && let FunctionArguments::List(list) = &function.args
        && let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))] = list.args.as_slice()
        && string(pattern).is_some()
    {
        function.name = ast::ObjectName::from(vec![ast::Ident::new("substring_regex")]);
    }
    None
}

/// Arguments by name as arguments by position; those that are left out are zero.
fn in_order(function: &mut Function, names: &[&str]) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if !list.args.iter().any(|arg| matches!(arg, FunctionArg::Named { .. })) {
        return;
    }
    let mut args: Vec<FunctionArg> =
        names.iter().map(|_| FunctionArg::Unnamed(FunctionArgExpr::Expr(number(0)))).collect();
    for (index, given) in list.args.drain(..).enumerate() {
        let (at, value) = match given {
            FunctionArg::Named { name, arg, .. } => (names.iter().position(|known| *known == name.value), arg),
            FunctionArg::Unnamed(arg) => (Some(index), arg),
            FunctionArg::ExprNamed { .. } => (None, FunctionArgExpr::Wildcard),
        };
        if let Some(slot) = at.and_then(|at| args.get_mut(at)) {
            *slot = FunctionArg::Unnamed(value);
        }
    }
    list.args = args;
}

/// A cast whose type has a length or a precision that DataFusion doesn't take.
pub fn sized_cast(operand: &mut Expr, data_type: &DataType) -> Option<Expr> {
    let length = |length: &Option<ast::CharacterLength>| match length {
        Some(ast::CharacterLength::IntegerLength { length, .. }) => Some(*length),
        _ => None,
    };
    match data_type {
        DataType::Array(_) if matches!(operand, Expr::Array(array) if array.elem.is_empty()) => {
            *operand = text("{}");
            None
        }
        // From its digits, not by way of an exact number.
        DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) | DataType::Real | DataType::Float4 => {
            if let Expr::Value(value) = operand
                && let Value::Number(digits, _) = &value.value
            {
                *operand = text(digits.clone());
            }
            None
        }
        DataType::Varchar(n) | DataType::CharacterVarying(n) | DataType::CharVarying(n) => Some(match length(n) {
            Some(n) => call("varchar_n", vec![cast_to(take(operand), DataType::Text), number(n)]),
            None => call("varchar_in", vec![cast_to(take(operand), DataType::Text)]),
        }),
        DataType::Char(n) | DataType::Character(n) => {
            let n = length(n).unwrap_or(1);
            Some(call("bpchar_n", vec![cast_to(take(operand), DataType::Text), number(n)]))
        }
        DataType::Timestamp(Some(digits), zone) => {
            Some(call("round_time", vec![cast_to(take(operand), DataType::Timestamp(None, *zone)), number(digits)]))
        }
        DataType::Time(Some(digits), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            let time = DataType::Time(None, TimezoneInfo::None);
            Some(call("round_time", vec![cast_to(take(operand), time), number(digits)]))
        }
        DataType::Uuid => Some(call("uuid_in", vec![cast_to(take(operand), DataType::Text)])),
        _ => None,
    }
}

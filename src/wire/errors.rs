//! Errors as clients see them: DataFusion's in our words, and ours as the fields of an ErrorResponse.
//!
//! Whatever DataFusion, Arrow or the parser say passes through [`from_datafusion`]: a text that is known becomes what
//! PostgreSQL says, by the table in `errors/known.rs`; one that isn't stays if it is plain words, and else goes to the
//! log under a number.

mod known;
mod types;

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

pub(crate) use self::types::in_sql;
use super::params::bad_input;
use super::{Notice, Severity, limits};
use crate::error::{Error, nearest};

/// The fields of an ErrorResponse. `text` is what was sent, with the place where the failed statement starts in it (as
/// a character index from 1).
pub(super) fn fields(severity: &str, error: &Error, text: Option<(&str, usize)>) -> Vec<(u8, String)> {
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.sqlstate().to_owned()),
        (b'M', error.to_string()),
    ];
    let position = error.position().or_else(|| text.and_then(|(text, start)| locate(error, text, start)));
    fields.extend(error.detail().map(|detail| (b'D', detail)));
    fields.extend(error.hint().map(|hint| (b'H', hint)));
    fields.extend(position.map(|position| (b'P', position.to_string())));
    fields
}

/// The fields of a NoticeResponse.
pub(super) fn notice_fields(notice: &Notice) -> Vec<(u8, String)> {
    let severity = match notice.severity {
        Severity::Debug => "DEBUG",
        Severity::Log => "LOG",
        Severity::Info => "INFO",
        Severity::Notice => "NOTICE",
        Severity::Warning => "WARNING",
    };
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', notice.sqlstate.to_owned()),
        (b'M', notice.message.clone()),
    ];
    fields.extend(notice.detail.clone().map(|detail| (b'D', detail)));
    fields.extend(notice.hint.clone().map(|hint| (b'H', hint)));
    fields
}

/// Where that is which the error speaks of: a name, an operator or a literal.
fn locate(error: &Error, text: &str, start: usize) -> Option<usize> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
    let find = |is: &dyn Fn(&Token) -> bool| {
        let found = tokens.iter().filter(|token| is(&token.token));
        found.filter_map(|token| index_of(text, token.span.start)).find(|position| *position >= start)
    };
    let word = |name: &str| {
        let name = name.trim_matches('"').to_owned();
        find(&|token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(&name)))
    };
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    match error {
        Error::UndefinedRelation { name, .. } | Error::UndefinedColumn { name, .. } => word(&first(name)),
        Error::UndefinedFunction { call } => word(&first(call.split('(').next()?)),
        Error::UndefinedOperator { call } => {
            let operator = call.split(' ').find(|part| !part.is_empty() && !part.contains(char::is_alphanumeric))?;
            find(&|token| token.to_string() == operator)
        }
        Error::Semantics { sqlstate, message } => {
            let name = message.split('"').nth(1)?;
            // Of a column that isn't grouped the name, where it is the only one; of others the qualifier.
            word(&if *sqlstate == "42803" { name.rsplit('.').next()?.to_owned() } else { first(name) })
        }
        Error::Data { message, .. } => {
            let value = message.split_once('"')?.1.rsplit_once('"')?.0;
            find(&|token| matches!(token, Token::SingleQuotedString(text) if text == value))
        }
        Error::Json { .. } => None,
        _ => None,
    }
}

/// A line and column as a character index from 1.
fn index_of(text: &str, location: Location) -> Option<usize> {
    let before = usize::try_from(location.line.checked_sub(1)?).ok()?;
    let lines: usize = text.split_inclusive('\n').take(before).map(|line| line.chars().count()).sum();
    Some(lines + usize::try_from(location.column).ok()?)
}

/// What PostgreSQL says where DataFusion says this, if that is known.
pub(crate) fn known(text: &str) -> Option<Error> {
    known::error(&types::in_sql(text))
}

/// An error of DataFusion in PostgreSQL's words. One that our own tables and functions raised comes out as it went in.
pub fn from_datafusion(error: DataFusionError) -> Error {
    use DataFusionError as D;
    match error {
        D::Context(_, inner) | D::Diagnostic(_, inner) => from_datafusion(*inner),
        D::Collection(errors) => match errors.into_iter().next() {
            Some(first) => from_datafusion(first),
            None => Error::Internal("an error without a cause".into()),
        },
        D::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
            Ok(inner) => from_datafusion(inner),
            Err(shared) => from_shared(&shared),
        },
        D::External(inner) => from_external(inner),
        D::ArrowError(inner, _) => from_arrow(*inner),
        D::SchemaError(inner, _) => from_schema(*inner),
        D::SQL(..) => Error::Syntax { message: "syntax error".into(), position: None, hint: None },
        D::Plan(text) => from_plan(text),
        D::Execution(text) => from_execution(text),
        D::NotImplemented(text) => unsupported(&text),
        // Of its type coercion, for one.
        D::Internal(text) if text.contains("coerce types") => from_plan(text),
        D::ResourcesExhausted(detail) => exhausted(detail),
        D::IoError(error) => limits::temporary_file(&error),
        D::Configuration(text) => told("22023", "a setting has a wrong value", &text),
        D::ExecutionJoin(inner) if inner.is_cancelled() => Error::Canceled,
        other => failed(other.strip_backtrace()),
    }
}

/// The same for an error that others hold too.
fn from_shared(error: &DataFusionError) -> Error {
    use DataFusionError as D;
    match error {
        D::Context(_, inner) | D::Diagnostic(_, inner) => from_shared(inner),
        D::Shared(inner) => from_shared(inner),
        D::Plan(text) => from_plan(text.clone()),
        D::Execution(text) => from_execution(text.clone()),
        D::ResourcesExhausted(detail) => exhausted(detail.clone()),
        D::IoError(error) => limits::temporary_file(error),
        D::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => Error::Data { sqlstate: ours.sqlstate(), message: ours.to_string() },
            None => failed(inner.to_string()),
        },
        D::ArrowError(inner, _) => match &**inner {
            ArrowError::DivideByZero => from_arrow(ArrowError::DivideByZero),
            ArrowError::CastError(text) => from_arrow(ArrowError::CastError(text.clone())),
            ArrowError::ParseError(text) => from_arrow(ArrowError::ParseError(text.clone())),
            ArrowError::ArithmeticOverflow(text) => from_arrow(ArrowError::ArithmeticOverflow(text.clone())),
            ArrowError::IoError(_, error) => limits::temporary_file(error),
            other => failed(other.to_string()),
        },
        other => failed(other.to_string()),
    }
}

/// No more memory, or no more space for temporary files.
fn exhausted(detail: String) -> Error {
    let detail = detail.lines().next().unwrap_or_default();
    // An operator may put its own words before those of the memory.
    let at = ["statement_memory is", "query_memory is"].into_iter().find_map(|start| detail.find(start));
    let (sqlstate, message, hint) = match at {
        Some(at) => (
            "53200",
            format!("out of memory: {}", &detail[at..]),
            "Ask for fewer rows or groups at a time, or raise that setting.",
        ),
        None if detail.contains("disk space") || detail.contains("spill") => (
            "53400",
            format!("no room for temporary files: {detail}"),
            "Ask for fewer rows or groups at a time, or raise temp_file_limit.",
        ),
        None => ("53200", format!("out of memory: {detail}"), "Ask for fewer rows or groups at a time."),
    };
    Error::LimitReached { sqlstate, message, hint: hint.into() }
}

/// A failure whose kind is not known, unless its text tells it.
fn failed(text: String) -> Error {
    known::error(&types::in_sql(&text)).unwrap_or_else(|| told("XX000", "the query failed", &text))
}

fn unsupported(text: &str) -> Error {
    let text = types::in_sql(text);
    match known::error(&text) {
        // Nothing that isn't supported is wrong.
        Some(error) if error.sqlstate() != "42883" => error,
        _ => told("0A000", "the query asks for something that is not supported", &text),
    }
}

/// An error with a library's text as its DETAIL, if that is in words that a user knows. If not, the log has it.
fn told(sqlstate: &'static str, message: &'static str, text: &str) -> Error {
    let text = types::in_sql(text.lines().next().unwrap_or_default());
    let text = text.replace(['\u{1}'], "");
    if !is_internal(&text) {
        return Error::Query { sqlstate, message, detail: text };
    }
    let incident = crate::incident::number();
    tracing::warn!(incident, sqlstate, text, "a query failed with a text that is not for users");
    Error::Query { sqlstate, message, detail: format!("Incident {incident}: the server's log has more.") }
}

/// Words that mean nothing to who writes SQL.
const INTERNAL: [&str; 38] = [
    "DataFusion",
    "datafusion",
    "Arrow",
    "arrow",
    "Plan(",
    "Plan:",
    "SchemaError",
    "nternal error",
    "LogicalPlan",
    "sqlparser",
    "sql parser",
    "Utf8",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Float32",
    "Float64",
    "Decimal128",
    "Timestamp(",
    "List(",
    "Struct(",
    "Date32",
    "Boolean",
    "MonthDayNano",
    "Execution error",
    "planning",
    "::",
    "Expr",
    "UDF",
    "Signature",
    "coerc",
    "ysical",
    "Field {",
    "Column {",
    "Some(",
    "{",
    "schema",
];

/// Whether a text is a library's talk to itself.
pub(super) fn is_internal(text: &str) -> bool {
    INTERNAL.iter().any(|word| text.contains(word))
}

fn from_external(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(error) => error,
    };
    let error = match error.downcast::<DataFusionError>() {
        Ok(inner) => return from_datafusion(*inner),
        Err(error) => error,
    };
    match error.downcast::<ArrowError>() {
        Ok(inner) => from_arrow(*inner),
        Err(error) => failed(error.to_string()),
    }
}

fn from_schema(error: SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            if let Some(table) = &field.relation
                && !valid_fields.iter().any(|known| known.relation.as_ref().is_some_and(|r| r.table() == table.table()))
            {
                let message = format!("missing FROM-clause entry for table \"{}\"", table.table());
                return Error::Semantics { sqlstate: "42P01", message };
            }
            let nearest = nearest(&field.name, valid_fields.iter().map(|known| known.name.as_str()));
            let name = match &field.relation {
                Some(table) => format!("{}.{}", table.table(), field.name),
                None => field.name.clone(),
            };
            Error::UndefinedColumn { name, nearest }
        }
        SchemaError::AmbiguousReference { field } => ambiguous(&field.name),
        SchemaError::DuplicateUnqualifiedField { name } | SchemaError::DuplicateQualifiedField { name, .. } => {
            ambiguous(&name)
        }
    }
}

fn ambiguous(name: &str) -> Error {
    Error::Semantics { sqlstate: "42702", message: format!("column reference \"{name}\" is ambiguous") }
}

fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(text) => overflow(&text),
        ArrowError::CastError(text) | ArrowError::ParseError(text) | ArrowError::InvalidArgumentError(text) => {
            from_cast(&text).unwrap_or_else(|| failed(text))
        }
        ArrowError::ComputeError(text) => from_execution(text),
        ArrowError::ExternalError(inner) => from_external(inner),
        ArrowError::IoError(_, error) => limits::temporary_file(&error),
        ArrowError::MemoryError(detail) => exhausted(detail),
        ArrowError::OffsetOverflowError(_) => exhausted("the values of a column are too long together".into()),
        ArrowError::NotYetImplemented(text) => unsupported(&text),
        other => failed(other.to_string()),
    }
}

fn division_by_zero() -> Error {
    Error::Data { sqlstate: "22012", message: "division by zero".into() }
}

fn overflow(text: &str) -> Error {
    let message = match text {
        text if text.contains("ecimal") => "numeric field overflow",
        text if text.contains("Int32") => "integer out of range",
        text if text.contains("Int16") => "smallint out of range",
        _ => "bigint out of range",
    };
    Error::Data { sqlstate: "22003", message: message.into() }
}

/// What Arrow says of a cast that has failed.
fn from_cast(text: &str) -> Option<Error> {
    let value = text.split('\'').nth(1);
    if let (Some(value), Some(rest)) = (value, text.split("to value of ").nth(1)) {
        let name = rest.trim_end_matches(" type");
        return Some(bad_input(value, &data_type(name)));
    }
    if let (Some(value), true) = (value, text.starts_with("Error parsing timestamp")) {
        let message = format!("invalid input syntax for type timestamp: \"{value}\"");
        return Some(Error::Data { sqlstate: "22007", message });
    }
    if text.starts_with("Invalid input syntax for type interval") {
        let message = text.replacen("Invalid", "invalid", 1);
        return Some(Error::Data { sqlstate: "22007", message: message.lines().next()?.to_owned() });
    }
    if let Some(rest) = text.strip_prefix("Can't cast value ") {
        let name = rest.split(" to type ").nth(1)?;
        return Some(overflow(name));
    }
    if text.contains("verflow") || text.contains("too large to store") || text.contains("out of range") {
        return Some(overflow(text));
    }
    None
}

/// The type of an Arrow type's printed name, as far as casts from text fail on it.
fn data_type(name: &str) -> DataType {
    name.trim().parse().unwrap_or(DataType::Utf8)
}

fn from_execution(text: String) -> Error {
    let sql = types::in_sql(&text);
    from_cast(&text).or_else(|| known::error(&sql)).unwrap_or_else(|| told("22000", "the query failed", &sql))
}

fn from_plan(text: String) -> Error {
    let text = types::in_sql(&text);
    let quoted = |text: &str| text.split('\'').nth(1).map(str::to_owned);
    let first = text.lines().next().unwrap_or_default();
    if let Some(name) = quoted(first) {
        if first.starts_with("table function") || first.starts_with("Invalid function") {
            return undefined_function(&name);
        }
        if first.starts_with("table") && first.ends_with("not found") {
            let name = name.trim_start_matches("datafusion.").trim_start_matches("public.").to_owned();
            return Error::UndefinedRelation { kind: "relation", name, nearest: None };
        }
        if text.contains("No function matches") {
            let call = text.split("No function matches").nth(1).and_then(quoted).unwrap_or(name);
            return expression(&call).unwrap_or(Error::UndefinedFunction { call });
        }
        if first.contains("failed to match any signature") || first.contains("does not support") {
            return Error::UndefinedFunction { call: format!("{name}()") };
        }
    }
    if let Some(rest) = text.split("Cannot infer common argument type for ").nth(1) {
        let operands = rest.splitn(3, ' ').nth(2).unwrap_or(rest).lines().next().unwrap_or_default();
        return operator(operands.trim_start_matches("operation "));
    }
    if let Some(rest) = text.split("Cannot coerce arithmetic expression ").nth(1) {
        return operator(rest.split(" to valid types").next().unwrap_or(rest));
    }
    for start in ["string concat operation ", "bitwise operation ", "arithmetic operation ", "temporal operation "] {
        if let Some(rest) = first.split(start).nth(1) {
            return operator(&rest.split(':').next().unwrap_or(rest).replace("BIT_XOR", "#"));
        }
    }
    for (word, sign) in [(" in LIKE expression", "~~"), (" in BETWEEN expression", ">=")] {
        let types =
            first.strip_suffix(word).or_else(|| first.split(word).next().filter(|rest| rest.len() < first.len()));
        if let Some((left, right)) = types.and_then(|types| types.split_once(" and ")) {
            let left = left.rsplit("coerce types ").next().unwrap_or(left);
            let left = left.rsplit("to coerce ").next().unwrap_or(left);
            return operator(&format!("{left} {sign} {right}"));
        }
    }
    if text.contains("must appear in the GROUP BY clause")
        && let Some(column) = text.split('"').nth(1)
    {
        let message =
            format!("column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function");
        return Error::Semantics { sqlstate: "42803", message };
    }
    from_cast(&text)
        .or_else(|| known::plan_error(&text))
        .unwrap_or_else(|| told("42000", "the query has no meaning", &text))
}

/// What DataFusion has as a function and PostgreSQL as an expression of its own.
fn expression(call: &str) -> Option<Error> {
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let types: Vec<&str> = types.split(", ").filter(|name| !name.is_empty()).collect();
    let (sqlstate, message) = match (name, types.as_slice()) {
        ("make_array", []) => ("42P18", "cannot determine type of empty array".to_owned()),
        ("coalesce" | "greatest" | "least" | "make_array", [one, ..]) => {
            let other = types.iter().find(|other| *other != one && **other != "unknown")?;
            let name = if name == "make_array" { "ARRAY".to_owned() } else { name.to_uppercase() };
            ("42804", format!("{name} types {one} and {other} cannot be matched"))
        }
        ("array_element" | "array_slice", [one, ..]) => {
            ("42804", format!("cannot subscript type {one} because it does not support subscripting"))
        }
        ("array_min" | "array_max" | "array_has", _) => {
            ("42809", "op ANY/ALL (array) requires array on right side".to_owned())
        }
        _ => return None,
    };
    Some(Error::Semantics { sqlstate, message })
}

fn undefined_function(name: &str) -> Error {
    const WINDOW: [&str; 11] = [
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "nth_value",
    ];
    if WINDOW.contains(&name) {
        let message = format!("window function {name} requires an OVER clause");
        return Error::Semantics { sqlstate: "42809", message };
    }
    Error::UndefinedFunction { call: format!("{name}()") }
}

/// No operator for these operands, which stand around it.
fn operator(operands: &str) -> Error {
    for logical in ["AND", "OR"] {
        if let Some((left, right)) = operands.split_once(&format!(" {logical} ")) {
            let wrong = if left == "boolean" { right } else { left };
            let message = format!("argument of {logical} must be type boolean, not type {wrong}");
            return Error::Semantics { sqlstate: "42804", message };
        }
    }
    Error::UndefinedOperator { call: operands.to_owned() }
}

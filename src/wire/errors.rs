//! Errors as clients see them: DataFusion's in our words, and ours as the fields of an ErrorResponse.

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

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

/// Where the name is that the error speaks of.
fn locate(error: &Error, text: &str, start: usize) -> Option<usize> {
    let name = match error {
        Error::UndefinedRelation { name, .. } | Error::UndefinedColumn { name, .. } => name.as_str(),
        Error::UndefinedFunction { call } => call.split('(').next().unwrap_or(call),
        Error::Semantics { sqlstate: "42702" | "42803", message } => message.split('"').nth(1)?,
        _ => return None,
    };
    let first = name.split('.').next().unwrap_or(name).trim_matches('"');
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
    let words = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) if word.value.eq_ignore_ascii_case(first) => index_of(text, token.span.start),
        _ => None,
    });
    words.into_iter().find(|position| *position >= start)
}

/// A line and column as a character index from 1.
fn index_of(text: &str, location: Location) -> Option<usize> {
    let before = usize::try_from(location.line.checked_sub(1)?).ok()?;
    let lines: usize = text.split_inclusive('\n').take(before).map(|line| line.chars().count()).sum();
    Some(lines + usize::try_from(location.column).ok()?)
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
        D::SQL(inner, _) => {
            Error::Syntax { message: "syntax error".into(), position: None, hint: Some(inner.to_string()) }
        }
        D::Plan(text) => from_plan(text),
        D::Execution(text) => from_execution(text),
        D::NotImplemented(detail) => {
            Error::Query { sqlstate: "0A000", message: "the query asks for something that is not supported", detail }
        }
        D::ResourcesExhausted(detail) => exhausted(detail),
        D::IoError(error) => limits::temporary_file(&error),
        D::Configuration(detail) => Error::Query { sqlstate: "22023", message: "a setting has a wrong value", detail },
        D::ExecutionJoin(inner) if inner.is_cancelled() => Error::Canceled,
        other => Error::Query { sqlstate: "XX000", message: "the query failed", detail: other.to_string() },
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

fn failed(detail: String) -> Error {
    Error::Query { sqlstate: "XX000", message: "the query failed", detail }
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
            Error::UndefinedColumn { name: field.name.clone(), nearest }
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
        ArrowError::NotYetImplemented(detail) => {
            Error::Query { sqlstate: "0A000", message: "the query asks for something that is not supported", detail }
        }
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
    if text.contains("ivide by zero") || text.contains("ivision by zero") {
        return division_by_zero();
    }
    for (start, sqlstate) in [("cannot take square root", "2201F"), ("cannot take logarithm", "2201E")] {
        if let Some(at) = text.find(start) {
            return Error::Data { sqlstate, message: text[at..].to_owned() };
        }
    }
    from_cast(&text).unwrap_or(Error::Query { sqlstate: "22000", message: "the query failed", detail: text })
}

fn from_plan(text: String) -> Error {
    let quoted = |text: &str| text.split('\'').nth(1).map(str::to_owned);
    let first = text.lines().next().unwrap_or_default();
    if let Some(name) = quoted(first) {
        if first.starts_with("table function") || first.starts_with("Invalid function") {
            return Error::UndefinedFunction { call: name };
        }
        if first.starts_with("table") && first.ends_with("not found") {
            let name = name.trim_start_matches("datafusion.").trim_start_matches("public.").to_owned();
            return Error::UndefinedRelation { kind: "relation", name, nearest: None };
        }
        if first.contains("No function matches") || text.contains("No function matches") {
            let call = text.split("No function matches").nth(1).and_then(quoted).unwrap_or(name);
            return Error::UndefinedFunction { call: sql_names(&call) };
        }
        if first.contains("failed to match any signature") || first.contains("does not support") {
            return Error::UndefinedFunction { call: name };
        }
    }
    if let Some(rest) = text.split("Cannot infer common argument type for ").nth(1) {
        let operands = rest.splitn(3, ' ').nth(2).unwrap_or(rest).lines().next().unwrap_or_default();
        let message = format!("operator does not exist: {}", sql_names(operands.trim_start_matches("operation ")));
        return Error::Semantics { sqlstate: "42883", message };
    }
    if let Some(rest) = text.split("Cannot coerce arithmetic expression ").nth(1) {
        let operands = rest.split(" to valid types").next().unwrap_or(rest);
        let message = format!("operator does not exist: {}", sql_names(operands));
        return Error::Semantics { sqlstate: "42883", message };
    }
    if text.contains("must appear in the GROUP BY clause") {
        let column = text.split('"').nth(1).unwrap_or("?");
        let message =
            format!("column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function");
        return Error::Semantics { sqlstate: "42803", message };
    }
    if first.contains("UNION") && first.contains("number of columns") {
        let message = "each UNION query must have the same number of columns".into();
        return Error::Semantics { sqlstate: "42601", message };
    }
    if text.contains("ivide by zero") {
        return division_by_zero();
    }
    from_cast(&text).unwrap_or(Error::Query { sqlstate: "42000", message: "the query has no meaning", detail: text })
}

/// Arrow's names of types in a text as SQL's.
fn sql_names(text: &str) -> String {
    const NAMES: [(&str, &str); 12] = [
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("UInt64", "bigint"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Boolean", "boolean"),
        ("Utf8View", "text"),
        ("LargeUtf8", "text"),
        ("Utf8", "text"),
        ("Date32", "date"),
        ("Null", "unknown"),
    ];
    NAMES.iter().fold(text.to_owned(), |text, (arrow, sql)| text.replace(arrow, sql))
}

//! What DataFusion, Arrow and the parser say when a query has no meaning or fails, and what PostgreSQL says then.

use crate::error::Error;

/// One kind of failure.
pub struct Known {
    /// A part of DataFusion's text, with SQL's names for types.
    pub found: &'static str,
    /// The SQLSTATE.
    pub sqlstate: &'static str,
    /// PostgreSQL's message, from the text that stands behind what was found.
    message: Message,
}

enum Message {
    /// Always the same.
    Is(&'static str),
    /// Made of the text behind.
    Of(fn(&str) -> String),
}

use Message::{Is, Of};

const fn known(found: &'static str, sqlstate: &'static str, message: Message) -> Known {
    Known { found, sqlstate, message }
}

/// The table. The first that is found is it.
#[rustfmt::skip]
pub const KNOWN: &[Known] = &[
    known("Too many columns! The subquery should only return one column", "42601", Is("subquery must return only one column")),
    known("more than one row", "21000", Is("more than one row returned by a subquery used as an expression")),
    known("Cannot create filter with non-boolean predicate ", "42804", Of(|rest| format!("argument of WHERE must be type boolean, not type {}", behind(rest, " returning ")))),
    known("Unary operator 'NOT' requires a boolean expression, got ", "42804", Of(|rest| format!("argument of NOT must be type boolean, not type {}", word(rest)))),
    known("Unary operator '-' only supports", "42883", Is("operator does not exist: -")),
    known("Unary operator '+' only supports", "42883", Is("operator does not exist: +")),
    known("Failed to coerce case (", "42883", Of(|rest| format!("operator does not exist: {} = {}", until(rest, ")"), until(behind(rest, "and when ("), ")")))),
    known("Failed to coerce then (", "42804", Of(|rest| format!("CASE types {} cannot be matched", until(rest, " to common").replace([')', '('], "").replace("and else", "and")))),
    known("Failed to coerce when", "42804", Is("argument of CASE/WHEN must be type boolean")),
    known("Incompatible inputs for Union: Previous inputs were of type ", "42804", Of(|rest| format!("UNION types {} and {} cannot be matched", until(rest, ", but"), until(behind(rest, "incompatible type "), " on column")))),
    known("Incompatible inputs for ", "42804", Is("the types of the columns of the queries cannot be matched")),
    known("UNION queries have different number of columns", "42601", Is("each UNION query must have the same number of columns")),
    known("queries have different number of columns", "42601", Is("each query must have the same number of columns")),
    known("must have the same number of columns", "42601", Is("each UNION query must have the same number of columns")),
    known("Inconsistent data length across values list", "42601", Is("VALUES lists must all be the same length")),
    known("Aggregate functions are not allowed in the WHERE", "42803", Is("aggregate functions are not allowed in WHERE")),
    known("Aggregate function calls cannot be nested", "42803", Is("aggregate function calls cannot be nested")),
    known("ggregate functions are not allowed in GROUP BY", "42803", Is("aggregate functions are not allowed in GROUP BY")),
    known("Window functions are not allowed in", "42P20", Is("window functions are not allowed here")),
    known("logical expression WindowFunction", "42P20", Is("window functions are not allowed here")),
    known("logical expression AggregateFunction", "42803", Is("aggregate functions are not allowed here")),
    known("logical expression Unnest", "0A000", Is("set-returning functions are not allowed here")),
    known("logical expression Wildcard", "42601", Is("* is not allowed here")),
    known("logical expression Placeholder", "42P02", Is("there is no such parameter")),
    known("logical expression", "0A000", Is("a subquery is not supported in this place")),
    known("Cannot find column with position ", "42P10", Of(|rest| format!("GROUP BY position {} is not in select list", word(rest)))),
    known("Order by column out of bounds, specified: ", "42P10", Of(|rest| format!("ORDER BY position {} is not in select list", word(rest)))),
    known("Order by index starts at 1", "42P10", Is("ORDER BY position 0 is not in select list")),
    known("For SELECT DISTINCT, ORDER BY expressions", "42P10", Is("for SELECT DISTINCT, ORDER BY expressions must appear in select list")),
    known("SELECT DISTINCT ON expressions must match initial ORDER BY expressions", "42P10", Is("SELECT DISTINCT ON expressions must match initial ORDER BY expressions")),
    known("Source table contains ", "42P10", Of(|rest| format!("table has {} columns available but {} columns specified", word(rest), word(behind(rest, "but only "))))),
    known("WITH query name ", "42712", Of(|rest| format!("WITH query name {} specified more than once", word(rest)))),
    known("LIMIT must be >= 0", "2201W", Is("LIMIT must not be negative")),
    known("OFFSET must be >=0", "2201X", Is("OFFSET must not be negative")),
    known("Expected LIMIT to be an integer", "42804", Of(|rest| format!("argument of LIMIT must be type bigint, not type {}", behind(rest, "got ")))),
    known("Expected OFFSET to be an integer", "42804", Of(|rest| format!("argument of OFFSET must be type bigint, not type {}", behind(rest, "got ")))),
    known("Unsupported SQL type ", "42704", Of(|rest| format!("type \"{}\" does not exist", until(rest, "\n").to_lowercase()))),
    known("Unsupported CAST from ", "42846", Of(|rest| format!("cannot cast type {}", until(rest, "\n")))),
    known("Invalid timezone ", "22023", Of(|rest| format!("time zone {} not recognized", until(rest, ":")))),
    known("regex parse error", "2201B", Is("invalid regular expression")),
    known("Regular expression did not compile", "2201B", Is("invalid regular expression")),
    known("LIKE does not support escape_char", "0A000", Is("an escape character other than the backslash is not supported here")),
    known("Step cannot be zero", "22023", Is("step size cannot equal zero")),
    known("unnest() can only be applied to array", "42883", Is("function unnest() takes an array")),
    known("unnest() requires exactly one argument", "42883", Is("function unnest() takes one argument here")),
    known("There is no built-in encoding named ", "22023", Of(|rest| format!("unrecognized encoding: {}", until(rest, ",").replace('\'', "\"")))),
    known("Percentile value must be between", "22003", Is("percentile value is not between 0 and 1")),
    known("Slice subscript requires an upper bound", "0A000", Is("an array slice without an upper bound is not supported")),
    known("negative count not allowed", "22011", Is("negative substring length not allowed")),
    known("negative substring length not allowed", "22011", Is("negative substring length not allowed")),
    known("field position must not be zero", "22023", Is("field position must not be zero")),
    known("factorial of a negative number", "22003", Is("factorial of a negative number is undefined")),
    known("Cannot access field at argument", "42809", Is("column notation is applied to a value that is not of a composite type")),
    known("Dot access not supported", "42809", Is("column notation is applied to a value that is not of a composite type")),
    known("UNNEST with ordinality is not supported", "0A000", Is("WITH ORDINALITY is not supported here")),
    known("Only identifiers and literals are supported in tuples", "0A000", Is("rows of expressions are not supported here")),
    known("Unsupported SQL unary operator", "0A000", Is("this operator is not supported")),
    known("Unsupported binary operator", "0A000", Is("this operator is not supported")),
    known("Operator ", "0A000", Of(|rest| format!("operator {} is not supported", word(rest)))),
    known("RecursiveQuery", "42P19", Is("this form of WITH RECURSIVE is not supported")),
    known("recursive", "42P19", Is("this form of WITH RECURSIVE is not supported")),
    known("FETCH clause is not supported", "0A000", Is("FETCH FIRST with WITH TIES or PERCENT is not supported")),
    known("must appear in the GROUP BY clause", "42803", Is("a column must appear in the GROUP BY clause or be used in an aggregate function")),
    known("USING clause", "42703", Is("a column that USING names does not exist on both sides")),
    known("Unsupported compound identifier '", "42601", Of(|rest| format!("improper qualified name (too many dotted names): {}", until(rest, "'")))),
    known("Duplicate", "42702", Is("a name is used more than once")),
    known("ivide by zero", "22012", Is("division by zero")),
    known("ivision by zero", "22012", Is("division by zero")),
    known("cannot take square root", "2201F", Is("cannot take square root of a negative number")),
    known("cannot take logarithm of zero", "2201E", Is("cannot take logarithm of zero")),
    known("cannot take logarithm", "2201E", Is("cannot take logarithm of a negative number")),
    known("Decimal(precision", "22023", Is("NUMERIC precision and scale are beyond what is supported, 38 digits")),
    known("should satisfy `0 < precision", "22023", Is("NUMERIC precision and scale are beyond what is supported, 38 digits")),
    known("Invalid string/binary operation: ", "42883", Of(|rest| format!("operator does not exist: {}", until(rest, "\n").replace(" LIKE ", " ~~ ")))),
    known("Can not find compatible types to compare ", "42883", Of(|rest| format!("operator does not exist: {}", until(rest, "\n").replace(" with [", " = ").replace(']', "")))),
    known("Invalid comparison operation", "42883", Is("operator does not exist for these types")),
    known("requires an even number of arguments", "42883", Is("a function takes an even number of arguments")),
    known("Unsupported LIMIT expression", "0A000", Is("a LIMIT that is not a number is not supported")),
    known("Unsupported OFFSET expression", "0A000", Is("an OFFSET that is not a number is not supported")),
    known("to grouping function is not in grouping columns", "42803", Is("arguments to GROUPING must be grouping expressions of the associated query level")),
    known("is not supported in the physical expr", "42883", Is("operator does not exist for these types")),
    known("Cannot automatically convert", "42883", Is("a function does not take such arguments")),
];

/// What functions say of their arguments when a query is planned. When it runs, these words may mean anything.
const OF_ARGUMENTS: [&str; 4] = ["expects", "xpected", "should be", "must be"];

/// The error for the text of a query that can't be planned, if it is of a known kind.
pub fn plan_error(text: &str) -> Option<Error> {
    let of_arguments = OF_ARGUMENTS
        .iter()
        .any(|words| text.contains(words))
        .then(|| Error::Semantics { sqlstate: "42883", message: "a function does not take such arguments".into() });
    error(text).or(of_arguments)
}

/// The error for a text, if it is of a known kind.
pub fn error(text: &str) -> Option<Error> {
    KNOWN.iter().find_map(|known| {
        let at = text.find(known.found)?;
        let message = match known.message {
            Is(message) => message.to_owned(),
            Of(of) => of(&text[at + known.found.len()..]),
        };
        Some(Error::Semantics { sqlstate: known.sqlstate, message })
    })
}

/// The first word, without what ends it.
fn word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default().trim_end_matches([',', '.', ';', ':'])
}

fn until<'a>(text: &'a str, end: &str) -> &'a str {
    text.split(end).next().unwrap_or(text).lines().next().unwrap_or_default()
}

fn behind<'a>(text: &'a str, start: &str) -> &'a str {
    text.split_once(start).map_or(text, |(_, rest)| rest).lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry that another one hides would never be used.
    #[test]
    fn every_entry_can_be_found() {
        for (index, entry) in KNOWN.iter().enumerate() {
            let first = KNOWN.iter().position(|known| entry.found.contains(known.found)).unwrap();
            assert_eq!(first, index, "{} is hidden by {}", entry.found, KNOWN[first].found);
            let error = error(entry.found).unwrap();
            assert_eq!(error.sqlstate(), entry.sqlstate);
            assert!(!super::super::is_internal(&error.to_string()), "{error}");
        }
    }
}

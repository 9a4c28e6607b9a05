//! Queries that have no meaning, or fail: each has PostgreSQL's SQLSTATE, and none tells of the libraries below.

use super::session;
use crate::command::ast::Statement;
use crate::error::Error;
use crate::wire::errors::from_datafusion;

/// Words that mean nothing to who writes SQL.
const INTERNAL: &[&str] = &[
    "DataFusion",
    "datafusion",
    "Arrow",
    "arrow",
    "Plan(",
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
    "UDF",
    "Signature",
    "coerc",
    "Field {",
    "Column {",
    "Some(",
    "None",
    "\u{1}",
    "backtrace",
];

async fn refusal(session: &super::TestSession, sql: &str) -> Option<Error> {
    let parsed = match crate::command::parse(sql) {
        Ok(mut parsed) => parsed.remove(0),
        Err(error) => return Some(error),
    };
    let Statement::Query(query) = parsed.statement else { return None };
    match session.query(*query).await {
        Err(error) => Some(from_datafusion(error)),
        Ok(stream) => futures::TryStreamExt::try_collect::<Vec<_>>(stream).await.err().map(from_datafusion),
    }
}

fn check(sql: &str, error: &Error) {
    let told =
        [Some(error.to_string()), error.detail(), error.hint()].into_iter().flatten().collect::<Vec<_>>().join("\n");
    // What the query says itself may be said of it.
    let word = INTERNAL.iter().find(|word| told.contains(**word) && !sql.contains(**word));
    assert!(word.is_none(), "{sql}: {word:?} in {told}");
    assert!(error.sqlstate() != "XX000" || told.contains("Incident"), "{sql}: {told}");
}

#[tokio::test]
async fn wrong_queries_have_postgresqls_sqlstates() {
    let session = session();
    for line in include_str!("wrong.txt").lines().filter(|line| !line.starts_with('#')) {
        let (sqlstate, sql) = line.split_once(' ').unwrap();
        let error = refusal(&session, sql).await.unwrap_or_else(|| panic!("{sql} is accepted"));
        check(sql, &error);
        assert_eq!(error.sqlstate(), sqlstate, "{sql}: {error}");
    }
}

/// Every function with every kind of argument, and every operator with every two: a great many queries without meaning.
#[tokio::test]
async fn no_failure_tells_of_the_libraries() {
    const VALUES: [&str; 13] = [
        "1",
        "'a'",
        "1.5",
        "true",
        "NULL",
        "now()",
        "ARRAY[1]",
        "'{}'::jsonb",
        "date '2024-01-01'",
        "interval '1 day'",
        "'x'::bytea",
        "(1, 2)",
        "(SELECT 1)",
    ];
    const OPERATORS: [&str; 22] = [
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "||",
        "=",
        "<",
        "AND",
        "~",
        "LIKE",
        "@>",
        "->",
        "->>",
        "#>",
        "?",
        "&&",
        "&",
        "<<",
        "IS DISTINCT FROM",
        "SIMILAR TO",
    ];
    let session = session();
    let names = super::rows(&session, "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 11 ORDER BY 1").await;
    let mut queries = Vec::new();
    // Each name with a few of the values: another few for each.
    for (index, name) in names.iter().filter(|name| !name.starts_with("pg_terminate")).enumerate() {
        let value = |step: usize| VALUES[(index * step + step) % VALUES.len()];
        queries.push(format!("SELECT {name}({})", value(1)));
        if index % 4 == 0 {
            queries.push(format!("SELECT {name}({}, {})", value(3), value(5)));
        }
    }
    for (index, operator) in OPERATORS.iter().enumerate() {
        for (left, value) in VALUES.iter().enumerate() {
            queries.push(format!("SELECT {value} {operator} {}", VALUES[(left + index) % VALUES.len()]));
        }
    }
    for clause in ["WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN pg_namespace ON"] {
        queries.extend(VALUES.iter().map(|value| format!("SELECT oid FROM pg_class {clause} {value}")));
    }
    for sql in queries {
        if let Some(error) = refusal(&session, &sql).await {
            check(&sql, &error);
        }
    }
}

//! What a query may not do: go on when it is to end, use more memory than there is, give a wrong number.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{TestSession, error, rows, session};

fn with_memory(memory: &str) -> TestSession {
    let session = session();
    session.scope_for_tests().host.set("statement_memory", memory, false).unwrap();
    session.begin_statement(&CancellationToken::new());
    session
}

/// Each of these would run for hours, and never leaves DataFusion.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_runs_ends_when_it_is_to() {
    let session = session();
    session.scope_for_tests().host.set("statement_memory", "64GB", false).unwrap();
    for sql in [
        "SELECT count(*) FROM generate_series(1, 1000000000000) a(x)",
        "SELECT count(*) FROM generate_series(1, 200000) a(x), generate_series(1, 200000) b(y), generate_series(1, 200000) c(z)",
        "SELECT count(*) FROM generate_series(1, 300000) a(x) JOIN generate_series(1, 300000) b(y) ON a.x * 2 < b.y - 1000000",
        "SELECT count(*) FROM generate_series(1, 300000) a(x) JOIN generate_series(1, 300000) b(y) ON a.x % 2 = b.y % 2 AND a.x + b.y < 0",
        "SELECT count(*) FROM pg_proc a, pg_proc b, pg_proc c, pg_proc d WHERE a.oid + b.oid + c.oid < d.oid",
        "WITH RECURSIVE t(n) AS (SELECT 1::bigint UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT count(*) FROM generate_series(1, 100000000) a(x) WHERE EXISTS (SELECT 1 FROM mv WHERE mv.id <> a.x)",
        "SELECT count(*) FROM generate_series(1, 1000000000000) a(x) WHERE x < 0 UNION ALL SELECT 1",
    ] {
        let token = CancellationToken::new();
        session.begin_statement(&token);
        let firing = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel();
            Instant::now()
        });
        assert_eq!(error(&session, sql).await, "57014 canceling statement due to user request", "{sql}");
        let took = firing.await.unwrap().elapsed();
        // What is promised is much less; this is what it may take beside other tests, without optimisation.
        assert!(took < Duration::from_secs(3), "{took:?}: {sql}");
    }
    session.begin_statement(&CancellationToken::new());
    assert_eq!(rows(&session, "SELECT 1").await, ["1"]);
}

#[tokio::test]
async fn memory_has_an_end() {
    let session = with_memory("8MB");
    for sql in [
        "SELECT array_agg(x) FROM generate_series(1, 100000000) a(x)",
        "SELECT string_agg(x::text, ',') FROM generate_series(1, 100000000) a(x)",
        "SELECT count(*) FROM generate_series(1, 100000000) a(x) JOIN generate_series(1, 100000000) b(x) USING (x)",
        "SELECT a.x FROM generate_series(1, 100000000) a(x), generate_series(1, 100000000) b(y)",
        "SELECT sum(x) OVER () FROM generate_series(1, 100000000) a(x)",
    ] {
        let told = error(&session, sql).await;
        assert!(told.starts_with("53200 out of memory") || told.contains("statement_memory is 8MB"), "{told}: {sql}");
    }
    assert_eq!(rows(&session, "SELECT count(*) FROM generate_series(1, 1000000) a(x)").await, ["1000000"]);
}

#[tokio::test]
async fn a_value_has_an_end() {
    let session = with_memory("256MB");
    for sql in [
        "SELECT repeat('x', 2000000000)",
        "SELECT lpad('x', 2000000000)",
        "SELECT rpad('x', 2000000000, 'yz')",
        "SELECT repeat(repeat('x', 60000000), 60000000)",
        "SELECT replace(repeat('x', 1000000), 'x', repeat('y', 1000000))",
        "SELECT regexp_replace(repeat('x', 1000000), 'x', repeat('y', 1000000), 'g')",
        "SELECT repeat('x', 60000000) || repeat('x', 60000000)",
        "SELECT concat(repeat('x', 60000000), repeat('x', 60000000))",
        "SELECT array_repeat(1, 2000000000)",
        "SELECT range(1, 1000000000000)",
        "SELECT array_resize(ARRAY[1], 2000000000, 1)",
        "SELECT length(lpad('x', x::int)) FROM generate_series(100000000, 100000001) a(x)",
    ] {
        let told = error(&session, sql).await;
        assert!(told.starts_with("54000 the result of "), "{told}: {sql}");
    }
    let session = with_memory("8MB");
    let told = error(&session, "SELECT repeat('x', x::int) FROM generate_series(20000, 21000) a(x)").await;
    assert!(told.starts_with("53200 out of memory: the results of repeat() need more than 8MB"), "{told}");
    for (sql, expected) in [
        ("SELECT length(repeat('ab', 3000000))", "6000000"),
        ("SELECT 'a' || 'b' || NULL", ""),
        ("SELECT lpad('7', 3, '0') || rpad('7', 3)", "0077  "),
        ("SELECT length(replace(repeat('x', 10000), 'x', 'yy'))", "20000"),
        ("SELECT count(r) FROM (SELECT repeat('x', 1500) AS r FROM generate_series(1, 3000) a(x)) y", "3000"),
    ] {
        assert_eq!(rows(&session, sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn a_call_on_a_long_value_has_an_end() {
    let session = with_memory("64MB");
    for sql in [
        "SELECT count(*) FROM string_to_table(repeat('a,', 1500000), ',')",
        "SELECT count(*) FROM regexp_split_to_table(repeat('a,', 1500000), ',')",
        "SELECT count(*) FROM regexp_matches(repeat('a,', 1500000), '(a)', 'g')",
        "SELECT cardinality(regexp_split_to_array(repeat('a,', 1500000), ','))",
        "SELECT count(*) FROM jsonb_array_elements(('[' || repeat('1,', 4000000) || '1]')::jsonb)",
        "SELECT generate_series(1, 5000000)",
    ] {
        assert!(error(&session, sql).await.starts_with("53200 "), "{sql}");
    }
    for sql in [
        "SELECT repeat('a', 3000000) LIKE '%' || repeat('a%', 5000) || 'b'",
        "SELECT repeat('a', 3000000) NOT ILIKE '%' || repeat('a%', 5000) || 'b'",
        "SELECT repeat('a', 3000000) ~ repeat('a?', 1000)",
        "SELECT regexp_count(repeat('a', 3000000), repeat('a?', 1000))",
        "SELECT repeat('a', 3000000) SIMILAR TO repeat('a?', 1000)",
        "SELECT repeat('a', 3000000) LIKE ANY (ARRAY[repeat('%a', 1000)])",
        "SELECT repeat('a', 3000000) LIKE '%' || repeat('a%', 5000) || 'b' ESCAPE '!'",
    ] {
        assert!(error(&session, sql).await.starts_with("54000 a pattern of "), "{sql}");
    }
    for (sql, expected) in [
        ("SELECT cardinality(string_to_array(repeat('a,', 1000), ','))", "1001"),
        (
            "SELECT regexp_replace('abcabc', '(b)(c)', '[\\2\\1]', 'g') || regexp_replace('aXbX', 'X', '<\\&>')",
            "a[cb]a[cb]a<X>bX",
        ),
        (
            "SELECT x FROM (VALUES ('a1'), ('b2')) t(x) WHERE x LIKE left(x, 1) || repeat('_', 1) AND x ~ '^' || 'a'",
            "a1",
        ),
        ("SELECT count(*) FROM pg_class WHERE relname LIKE relname || repeat('%', 100) AND relname = 'pg_class'", "1"),
    ] {
        assert_eq!(rows(&session, sql).await, [expected], "{sql}");
    }
}

/// Each names the one before twice.
fn doubling(levels: usize) -> String {
    let chain: String =
        (1..=levels).map(|n| format!(", a{n} AS (SELECT x.* FROM a{} x, a{} y)", n - 1, n - 1)).collect();
    format!("WITH a0 AS (SELECT * FROM (VALUES (1)) v(x)){chain} SELECT count(*) FROM a{levels}")
}

#[tokio::test]
async fn queries_that_double_have_an_end() {
    let session = session();
    assert_eq!(rows(&session, &doubling(4)).await, ["1"]);
    for levels in [15, 25, 60] {
        assert!(error(&session, &doubling(levels)).await.starts_with("54001 "), "{levels}");
        assert!(error(&session, &format!("SELECT * FROM ({}) q", doubling(levels))).await.starts_with("54001 "));
    }
    // A name that is a relation's, and a query within.
    let inner = "WITH mv AS (SELECT 1 AS x) SELECT (WITH n AS (SELECT 2 AS y) SELECT y FROM n) + x FROM mv";
    assert_eq!(rows(&session, inner).await, ["3"]);
}

#[tokio::test]
async fn numbers_fail_as_in_postgresql() {
    let session = session();
    for (sql, expected) in [
        ("SELECT 9223372036854775807 + 1", "22003"),
        ("SELECT 2147483647::int + 1::int", "22003"),
        ("SELECT (-9223372036854775808)::bigint - 1::bigint", "22003"),
        ("SELECT x * 9223372036854775807 FROM generate_series(2, 3) a(x)", "22003"),
        ("SELECT sum(x + 9223372036854775807) FROM generate_series(1, 3) a(x)", "22003"),
        ("SELECT 1 FROM generate_series(1, 3) a(x) WHERE x + 9223372036854775807 > 0", "22003"),
        ("SELECT 1.0 / 0", "22012"),
        ("SELECT 0.0 / 0", "22012"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT 1 % 0", "22012"),
        ("SELECT x / (x - x) FROM generate_series(1, 3) a(x)", "22012"),
        ("SELECT x::float8 / (x - x) FROM generate_series(1, 3) a(x)", "22012"),
        ("SELECT 1e308::float8 * 10", "22003 value out of range: overflow"),
    ] {
        let told = crate::wire::errors::from_datafusion(super::batches(&session, sql).await.expect_err(sql));
        let told = format!("{} {told}", told.sqlstate());
        assert!(told.starts_with(expected), "{told}: {sql}");
    }
    for (sql, expected) in [
        ("SELECT 9223372036854775806 + 1", "9223372036854775807"),
        ("SELECT 7 / 2", "3"),
        ("SELECT -7 % 3", "-1"),
        ("SELECT 1.5 * 2", "3.0"),
        ("SELECT x + 1 FROM generate_series(1, 1) a(x) GROUP BY x + 1", "2"),
        ("SELECT sum(x * 2) FROM generate_series(1, 3) a(x)", "12"),
        ("SELECT 'Infinity'::float8 + 1", "inf"),
        ("SELECT 1 LIMIT 1 + 1", "1"),
        ("SELECT -x FROM generate_series(1, 1) a(x)", "-1"),
        ("SELECT id + 1 FROM mv WHERE id + 1 = 11", "11"),
        ("SELECT id FROM mv WHERE id IN (10, NULL)", "10"),
        ("SELECT id FROM mv WHERE id = ANY (ARRAY[10, NULL])", "10"),
        ("SELECT count(*) FROM mv WHERE id IN (NULL)", "0"),
        ("SELECT max(g) FROM generate_series(1, 20000) g", "20000"),
        ("SELECT count(DISTINCT g) FROM generate_series(1::bigint, 100000) g", "100000"),
    ] {
        assert_eq!(rows(&session, sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn functions_of_numbers_fail_as_in_postgresql() {
    let session = session();
    if session.query(statement("SELECT ln(1)")).await.is_err() {
        return;
    }
    for (sql, expected) in [
        ("SELECT ln(0)", "2201E cannot take logarithm of zero"),
        ("SELECT ln(-1)", "2201E cannot take logarithm of a negative number"),
        ("SELECT sqrt(-1)", "2201F cannot take square root of a negative number"),
        ("SELECT acos(2)", "22003 input is out of range"),
        ("SELECT exp(1000)", "22003 value out of range: overflow"),
        ("SELECT ln(x - x) FROM generate_series(1, 3) a(x)", "2201E cannot take logarithm of zero"),
    ] {
        let told = crate::wire::errors::from_datafusion(super::batches(&session, sql).await.expect_err(sql));
        assert_eq!(format!("{} {told}", told.sqlstate()), expected, "{sql}");
    }
    assert_eq!(rows(&session, "SELECT sqrt(4), ln(1)").await, ["2.0|0.0"]);
}

fn statement(sql: &str) -> datafusion::logical_expr::sqlparser::ast::Statement {
    let dialect = datafusion::logical_expr::sqlparser::dialect::PostgreSqlDialect {};
    datafusion::logical_expr::sqlparser::parser::Parser::parse_sql(&dialect, sql).unwrap().remove(0)
}

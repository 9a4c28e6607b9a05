//! The bounded dialect reads what PostgreSQL's reads, and makes the same of it.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::one;
use crate::command::Statement;

#[test]
fn reads_as_the_dialect_that_it_bounds() {
    for sql in [
        // What psql asks for \d, \du, \df.
        "SELECT n.nspname as \"Schema\", c.relname as \"Name\", CASE c.relkind WHEN 'r' THEN 'table' WHEN 'm' THEN 'x' END \
         as \"Type\", pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\" FROM pg_catalog.pg_class c LEFT JOIN \
         pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','p','') AND n.nspname !~ '^pg_toast' \
         AND c.relname OPERATOR(pg_catalog.~) '^(s)$' COLLATE pg_catalog.default ORDER BY 1,2",
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, \
         d.adrelid, true) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND a.atthasdef), a.attnotnull \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = '16384' AND a.attnum > 0 AND NOT a.attisdropped",
        "SELECT r.rolname, ARRAY(SELECT b.rolname FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles b ON \
         (m.roleid = b.oid) WHERE m.member = r.oid) as memberof FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_'",
        "SELECT c.oid::pg_catalog.regclass, 'a'::\"char\", x[1:2], (r).f, ARRAY[1,2] || 3 FROM t c",
        "SELECT substring(a from 2 for 3), overlay(a placing 'x' from 1), trim(both 'x' from a), trim(a), extract(epoch from at), \
         position('a' in b), left(a, 1), right(a, 1), coalesce(a, nullif(b, '')), greatest(1, 2) FROM t",
        "SELECT count(*) FILTER (WHERE a > 1), sum(DISTINCT b), string_agg(c, ',' ORDER BY d), \
         row_number() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t GROUP BY 1",
        "SELECT date '2020-01-01', timestamp with time zone '2020-01-01', interval '1 day', now() AT TIME ZONE 'UTC'",
        "SELECT j -> 'a' ->> 'b', j #> '{a}', j @> '{}', j ? 'a', a = ANY (ARRAY[1]), a = ANY ($1), a NOT IN (1), a ~* 'x'",
        "SELECT CURRENT_USER, current_schema(), current_database(), session_user, user, NOT a, -a, +b, @ c, a % b FROM t",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT * FROM x, LATERAL f(n) AS y(z) LIMIT 1",
        "SELECT DISTINCT ON (a) a, b.* FROM t AS b CROSS JOIN generate_series(1, 2) g OFFSET 1 LIMIT ALL",
        "SELECT * FROM ((a JOIN b ON a.x = b.x) JOIN c USING (x)) FULL OUTER JOIN (VALUES (1, 'a')) AS v(i, s) ON true",
        "SELECT * FROM f(1), t TABLESAMPLE BERNOULLI (1) ORDER BY a DESC NULLS LAST FETCH FIRST 1 ROW ONLY",
        "SELECT FROM t",
        "SELECT a IS DISTINCT FROM b, a IS NOT NULL, a IS TRUE, (a, b) = (1, 2), EXISTS (SELECT 1), a BETWEEN 1 AND 2",
    ] {
        let stock = Parser::parse_sql(&PostgreSqlDialect {}, sql);
        match (stock, one(sql).statement) {
            (Ok(stock), Statement::Query(ours)) => assert_eq!(stock, [*ours], "{sql}"),
            (stock, ours) => panic!("{sql}: {stock:?} {ours:?}"),
        }
    }
}

#[test]
fn an_argument_may_have_a_name() {
    let sql = "SELECT f(a => 1, b => g(c => 2))";
    assert!(matches!(one(sql).statement, Statement::Query(query) if query.to_string() == sql));
}

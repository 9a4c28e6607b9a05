//! PostgreSQL's SQL where DataFusion's differs.

use datafusion::logical_expr::sqlparser::dialect::PostgreSqlDialect;
use datafusion::logical_expr::sqlparser::parser::Parser;

use super::super::{output_name, types};
use super::{error, rows, session};

/// The columns of a query: name and type.
fn columns(sql: &str) -> Vec<String> {
    let session = session();
    let statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    let plan = session.plan(statement).unwrap();
    let fields = plan.schema().fields();
    fields.iter().map(|field| format!("{} {}", output_name(field.name()), types::wire_type(field).name())).collect()
}

#[test]
fn columns_have_postgresqls_names() {
    for (sql, names) in [
        ("SELECT 1, 'a', NULL, 2", vec!["?column? int4", "?column? text", "?column? unknown", "?column? int4"]),
        ("SELECT count(*), max(id), id::text FROM mv GROUP BY id", vec!["count int8", "max int8", "id text"]),
        (
            "SELECT id + 1, CASE WHEN true THEN 1 END, CASE WHEN true THEN 1 ELSE id END FROM mv",
            vec!["?column? int8", "case int4", "id int8"],
        ),
        ("SELECT id, * FROM mv", vec!["id int8", "id int8", "note text"]),
        ("SELECT m.id, m.* FROM mv m", vec!["id int8", "id int8", "note text"]),
        ("SELECT a.id, b.id FROM mv a, mv b", vec!["id int8", "id int8"]),
        ("SELECT * FROM (SELECT a.*, b.id FROM mv a, mv b) s ORDER BY note", vec!["id int8", "note text", "id int8"]),
        ("SELECT * FROM (SELECT s.* FROM (SELECT a.id, b.id FROM mv a, mv b) s) t", vec!["id int8", "id int8"]),
        ("SELECT * FROM (SELECT a.id, b.id AS \"id:1\" FROM mv a, mv b) s", vec!["id int8", "id:1 int8"]),
        (
            "SELECT '1'::int, true, version(), current_user",
            vec!["int4 int4", "bool bool", "version text", "current_user name"],
        ),
        ("SELECT ARRAY[1], EXISTS (SELECT 1)", vec!["array _int4", "exists bool"]),
        (
            "SELECT oid, relname, relkind, relacl, reltuples FROM pg_class",
            vec!["oid oid", "relname name", "relkind char", "relacl _text", "reltuples float4"],
        ),
        (
            "SELECT raw, eta, first_seen_at FROM split_backfill_progress",
            vec!["raw jsonb", "eta interval", "first_seen_at timestamptz"],
        ),
        (
            "SELECT raw::text, x || '' AS y, x FROM (SELECT raw, raw::varchar AS x FROM split_backfill_progress) AS s",
            vec!["raw text", "y text", "x varchar"],
        ),
        ("SELECT now(), current_schemas(true)", vec!["now timestamptz", "current_schemas _name"]),
    ] {
        assert_eq!(columns(sql), names, "{sql}");
    }
}

#[tokio::test]
async fn oids_and_names_turn_into_each_other() {
    let session = session();
    for (sql, row) in [
        ("SELECT 'mv'::regclass", "mv"),
        ("SELECT 'public.mv'::regclass::oid", "16386"),
        ("SELECT 1259::regclass, '1259'::regclass, 'pg_class'::regclass::oid", "pg_class|pg_class|1259"),
        (
            "SELECT oid::regclass::text FROM pg_class WHERE relname = 'columns' AND relnamespace = 'information_schema'::regnamespace",
            "information_schema.columns",
        ),
        ("SELECT 'integer'::regtype, 1009::regtype, 'int4[]'::regtype::oid", "integer|text[]|1007"),
        ("SELECT 'public'::regnamespace, 'root'::regrole, to_regclass('nope')", "public|root|"),
        ("SELECT count(*) FROM pg_class c WHERE oid = '16386' AND 'pg_class'::regclass = c.tableoid", "1"),
        ("SELECT relname FROM pg_class WHERE oid = ANY ('{16386}'::oid[])", "mv"),
        (
            "SELECT obj_description('tidegate.settings'::regclass), obj_description('tidegate.settings'::regclass, 'pg_class') IS NOT NULL",
            "The server's settings as they are in force.|true",
        ),
        (
            "SELECT pg_get_viewdef('mv'::regclass), pg_get_viewdef('mv', true), pg_get_userbyid(10)",
            "SELECT * FROM s|SELECT * FROM s|root",
        ),
        ("SELECT format('%I.%I', 'public', 'mv')::regclass::oid", "16386"),
    ] {
        assert_eq!(rows(&session, sql).await, [row], "{sql}");
    }
    assert_eq!(error(&session, "SELECT 'nope'::regclass").await, "42P01 relation \"nope\" does not exist");
    assert_eq!(error(&session, "SELECT 'nope'::regtype").await, "42704 type \"nope\" does not exist");
}

#[tokio::test]
async fn literals_take_the_type_of_what_they_are_compared_with() {
    let session = session();
    assert_eq!(rows(&session, "SELECT count(*) FROM mv WHERE id = '011' OR id IN ('12', ' 10 ')").await, ["3"]);
    assert_eq!(
        rows(
            &session,
            "SELECT count(*) FROM split_backfill_progress WHERE first_seen_at > '1970-01-01' AND is_estimate = 't'"
        )
        .await,
        ["1"]
    );
    assert_eq!(
        error(&session, "SELECT * FROM mv WHERE id = 'x'").await,
        "22P02 invalid input syntax for type bigint: \"x\""
    );
    assert!(
        error(&session, "SELECT * FROM split_backfill_progress WHERE first_seen_at > 'soon'")
            .await
            .starts_with("22007")
    );
}

#[tokio::test]
async fn subqueries_may_depend_on_the_outer_row_in_any_way() {
    let session = session();
    assert_eq!(
        rows(&session, "SELECT id, (SELECT min(n.id) FROM mv n WHERE n.id > m.id) FROM mv m ORDER BY id").await,
        ["10|11", "11|12", "12|"]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT id FROM mv m WHERE EXISTS (SELECT 1 FROM mv n WHERE n.id > m.id AND n.note <> 'x') ORDER BY 1"
        )
        .await,
        ["10", "11"]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT array(SELECT n.id FROM mv n WHERE n.id >= m.id ORDER BY 1 DESC) FROM mv m WHERE id > 10 ORDER BY id"
        )
        .await,
        ["[12, 11]", "[12]"]
    );
    assert_eq!(rows(&session, "SELECT array(SELECT id FROM mv WHERE id > 99), array_to_string(array(SELECT note FROM mv WHERE id > 99), ',')").await, ["[]|"]);
    assert_eq!(
        rows(&session, "SELECT id FROM mv m WHERE id = 10 OR (SELECT n.note = 'c' FROM mv n WHERE n.id = m.id)").await,
        ["10", "12"]
    );
    assert_eq!(
        rows(&session, "SELECT x FROM unnest(ARRAY[3, 4]) AS t(x) UNION ALL SELECT i FROM generate_series(1, 2) i")
            .await
            .len(),
        4
    );
}

#[tokio::test]
async fn operators_and_functions() {
    let session = session();
    for (sql, row) in [
        ("SELECT 'abc' OPERATOR(pg_catalog.~) '^(abc)$' COLLATE pg_catalog.default", "true"),
        ("SELECT 'r' = ANY (ARRAY['r', 'p']), 'd' = ANY ('{d,e}'), 1 <> ALL (ARRAY[2, 3])", "true|true|true"),
        (
            "SELECT '{\"a\": {\"b\": [1, 2]}}'::jsonb #>> '{a,b,1}', '{\"a\": 1}'::jsonb @> '{}'::jsonb, '{\"a\": 1}'::jsonb ? 'a'",
            "2|true|true",
        ),
        (
            "SELECT current_schema(), current_database(), current_setting('server_version'), current_setting('x.y', true)",
            "public|dev|15.0|",
        ),
        ("SELECT has_table_privilege('mv', 'SELECT'), has_schema_privilege('public', 'USAGE')", "true|true"),
        (
            "SELECT pg_size_pretty(10240::bigint), pg_encoding_to_char(6), pg_is_in_recovery(), pg_backend_pid()",
            "10 kB|UTF8|false|7",
        ),
        (
            "SELECT format_type(1043, 14), format_type(23, NULL), quote_ident('A b'), quote_literal('it''s')",
            "character varying(10)|integer|\"A b\"|'it''s'",
        ),
        (
            "SELECT (current_schemas(false))[1], array_length(current_schemas(true), 1), array_upper(ARRAY[1, 2], 1)",
            "public|4|2",
        ),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n", "15"),
        ("SELECT note, row_number() OVER (ORDER BY id DESC) FROM mv ORDER BY note NULLS LAST LIMIT 1", "a|3"),
        (
            "SELECT now() = transaction_timestamp(), clock_timestamp() >= now(), current_date = now()::date",
            "true|true|true",
        ),
        ("SELECT txid_current(), pg_typeof_name(1), split_part('a.b', '.', 2)", "5|integer|b"),
        ("SELECT setting FROM pg_settings WHERE name = 'server_version'", "15.0"),
        ("SELECT pid, usename, datname FROM pg_stat_activity", "7|root|dev"),
        (
            "SELECT table_schema, table_type FROM information_schema.tables WHERE table_name = 'mv'",
            "public|MATERIALIZED VIEW",
        ),
        (
            "SELECT data_type, udt_name, is_nullable FROM information_schema.columns WHERE table_name = 'mv' AND column_name = 'id'",
            "bigint|int8|YES",
        ),
    ] {
        assert_eq!(rows(&session, sql).await, [row], "{sql}");
    }
    assert!(rows(&session, "SELECT version()").await[0].starts_with("PostgreSQL 15.0 (Tidegate 0.1.0)"));
    assert_eq!(
        error(&session, "SELECT current_setting('x.y')").await,
        "42704 unrecognized configuration parameter \"x.y\""
    );
}

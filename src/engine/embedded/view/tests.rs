use datafusion::arrow::array::{Int32Array, StringArray};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::*;

const COLUMNS: [(&str, &str); 10] = [
    ("a", "int4"),
    ("b", "int4"),
    ("t", "text"),
    ("f", "float8"),
    ("n", "numeric"),
    ("at", "timestamptz"),
    ("d", "date"),
    ("ok", "bool"),
    ("j", "jsonb"),
    ("by", "bytea"),
];

fn source(columns: &[(&str, &str)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, pg)| columns::field(name, pg).unwrap()).collect::<Vec<_>>()))
}

fn parse(sql: &str) -> Query {
    match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0) {
        Statement::Query(query) => *query,
        other => panic!("{other}"),
    }
}

fn planned(sql: &str) -> Result<ViewPlan> {
    let sources = BTreeMap::from([
        ("s".to_owned(), source(&COLUMNS)),
        ("flights".to_owned(), source(&[("a", "int8"), ("Big", "text"), ("j", "jsonb")])),
    ]);
    plan(&parse(sql), &sources)
}

/// `name type` of each column.
fn columns_of(sql: &str) -> String {
    let plan = planned(sql).unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.detail()));
    plan.columns.iter().map(|(name, pg)| format!("{name} {pg}")).collect::<Vec<_>>().join(", ")
}

fn rows(a: &[Option<i32>], t: &[Option<&str>]) -> RecordBatch {
    let schema = source(&COLUMNS);
    let mut arrays: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| datafusion::arrow::array::new_null_array(field.data_type(), a.len()))
        .collect();
    arrays[0] = Arc::new(Int32Array::from(a.to_vec()));
    arrays[1] = Arc::new(Int32Array::from_iter_values(0..a.len() as i32));
    arrays[2] = Arc::new(StringArray::from(t.to_vec()));
    RecordBatch::try_new(schema, arrays).unwrap()
}

/// Rows as text, and which input rows came out, and what failed.
fn evaluated(sql: &str, input: &RecordBatch) -> (Vec<String>, Option<String>, Vec<(usize, String)>) {
    let plan = planned(sql).unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.detail()));
    let evaluated = plan.branches[0].evaluate(input);
    let shown = (0..evaluated.rows.num_rows()).map(|row| {
        let values = evaluated.rows.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        values.collect::<Vec<_>>().join("|")
    });
    let kept = evaluated.kept.map(|kept| kept.iter().map(|bit| if bit == Some(true) { '1' } else { '0' }).collect());
    (shown.collect(), kept, evaluated.failed)
}

#[test]
fn columns_have_postgresqls_names_and_types() {
    for (sql, want) in [
        (
            "SELECT * FROM s",
            "a int4, b int4, t text, f float8, n numeric, at timestamptz, d date, ok bool, j jsonb, by bytea",
        ),
        ("SELECT \"Big\", j AS J2 FROM public.flights AS f", "Big text, j2 jsonb"),
        ("SELECT f.\"Big\" FROM flights f", "Big text"),
        ("SELECT a + 1 FROM s", "?column? int4"),
        ("SELECT a + b AS sum FROM s", "sum int4"),
        ("SELECT lower(t), abs(a) FROM s", "lower text, abs int4"),
        ("SELECT a::bigint, '1'::int, lower(t)::varchar FROM s", "a int8, int4 int4, lower text"),
        ("SELECT CASE WHEN ok THEN 1 ELSE 2 END FROM s", "case int4"),
        ("SELECT CASE WHEN ok THEN b ELSE a END FROM s", "a int4"),
        ("SELECT coalesce(t, 'x'), nullif(a, 1), greatest(a, b) FROM s", "coalesce text, nullif int4, greatest int4"),
        ("SELECT extract(year FROM at), date_trunc('hour', at) FROM s", "extract int4, date_trunc timestamptz"),
        (
            "SELECT trim(t), substring(t from 1 for 2), position('a' in t) FROM s",
            "btrim text, substring text, position int4",
        ),
        ("SELECT true, NULL AS nothing, 1.5 AS n, 1.5 * f AS f FROM s", "bool bool, nothing text, n numeric, f float8"),
        ("SELECT t || 'x' FROM s", "?column? text"),
        ("SELECT 3000000000 AS big, -7 AS small, a + 3000000000 AS sum FROM s", "big int8, small int4, sum int8"),
        (
            "SELECT repeat(t, 2) AS r, lpad(t, 5, 'x') AS l, left(t, 3) AS e, split_part(t, ',', 1) AS s FROM s",
            "r text, l text, e text, s text",
        ),
        (
            "SELECT round(f, 2) AS r, power(f, 2) AS p, substr(t, 2) AS s, a % 3 AS m FROM s",
            "r float8, p float8, s text, m int4",
        ),
        ("SELECT a FROM s WHERE t LIKE 'a%' AND a IN (1, 2, 3) AND a BETWEEN 1 AND 10 AND at > '2013-01-01'", "a int4"),
        ("SELECT to_timestamp(a) AS x, at + interval '1 day' AS z FROM s", "x timestamptz, z timestamptz"),
        (
            "SELECT md5(t), regexp_replace(t, 'a', 'b'), f > 1 AS gt, encode(by, 'hex') AS hex FROM s",
            "md5 text, regexp_replace text, gt bool, hex text",
        ),
        ("SELECT '2300-01-01'::timestamptz AS late, d::timestamp FROM s", "late timestamptz, d timestamp"),
        ("SELECT j, j::text AS t, coalesce(j, j) AS c FROM s", "j jsonb, t text, c text"),
        (
            "SELECT x.lower, \"case\" FROM (SELECT lower(t), CASE WHEN ok THEN 1 END FROM s) AS x",
            "lower text, case int4",
        ),
        ("SELECT x.y FROM (SELECT a AS y FROM s) AS x WHERE x.y > 1", "y int4"),
        ("WITH w AS (SELECT a FROM s WHERE ok) SELECT w.a FROM w", "a int4"),
        ("SELECT a FROM s UNION ALL SELECT a FROM flights", "a int8"),
        (
            "SELECT a AS x, t FROM s UNION ALL (SELECT a, \"Big\" FROM flights UNION ALL SELECT b, t FROM s)",
            "x int8, t text",
        ),
        ("SELECT a, b FROM s UNION ALL SELECT a, a FROM s", "a int4, b int4"),
        ("SELECT j FROM s UNION ALL SELECT j FROM flights", "j jsonb"),
        ("SELECT j FROM s UNION ALL SELECT \"Big\" FROM flights", "j text"),
    ] {
        assert_eq!(columns_of(sql), want, "{sql}");
    }
}

#[test]
fn a_branch_is_one_select() {
    let plan =
        planned("SELECT a FROM s UNION ALL SELECT a FROM flights WHERE a > 1 UNION ALL SELECT b FROM s").unwrap();
    assert_eq!(plan.branches.iter().map(|branch| branch.source.as_str()).collect::<Vec<_>>(), ["s", "flights", "s"]);
    let input = rows(&[Some(5), None], &[None, None]);
    let values = |branch: &Branch| format!("{:?}", branch.evaluate(&input).rows.column(0));
    assert!(values(&plan.branches[0]).contains("Int64"), "coerced to the type of the union");
    assert_eq!(plan.branches[0].schema(), plan.branches[1].schema());
}

#[test]
fn rows_are_projected_and_filtered() {
    let input = rows(&[Some(1), None, Some(3), Some(-4)], &[Some("x"), Some("y"), None, Some("z")]);
    let all = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
    assert_eq!(evaluated("SELECT a, t FROM s", &input), (all(&["1|x", "|y", "3|", "-4|z"]), None, vec![]));
    assert_eq!(
        evaluated("SELECT upper(t), a * 2 FROM s WHERE a > 0", &input),
        (all(&["X|2", "|6"]), Some("1010".into()), vec![])
    );
    assert_eq!(
        evaluated("SELECT y FROM (SELECT a + 1 AS y, b FROM s WHERE a IS NOT NULL) x WHERE y > 0 AND b > 0", &input),
        (all(&["4"]), Some("0010".into()), vec![])
    );
    assert_eq!(evaluated("SELECT a FROM s WHERE false", &input), (vec![], Some("0000".into()), vec![]));
    assert_eq!(evaluated("SELECT 7 AS seven FROM s WHERE t = 'x'", &input).0, ["7"]);
    assert_eq!(evaluated("SELECT coalesce(t, 'none') FROM s WHERE a = 3", &input).0, ["none"]);
    let none = rows(&[], &[]);
    assert_eq!(evaluated("SELECT a / 0 AS x FROM s WHERE a = 1", &none).0, [""; 0]);
    assert_eq!(evaluated("SELECT 1 / 0 AS x FROM s", &none), (vec![], Some(String::new()), vec![]));
}

#[test]
fn a_row_that_fails_stops_no_other() {
    let input =
        rows(&[Some(1), Some(0), Some(i32::MAX), None, Some(0)], &[Some("1"), Some("x"), None, Some("4"), Some("5")]);
    let (rows, kept, failed) = evaluated("SELECT 10 / a AS x FROM s", &input);
    assert_eq!((rows.join(","), kept.as_deref()), ("10,0,".to_owned(), Some("10110")));
    assert_eq!(failed, [(1, "division by zero".to_owned()), (4, "division by zero".to_owned())]);

    let (rows, kept, failed) = evaluated("SELECT b, t::int AS x FROM s WHERE b <> 3", &input);
    assert_eq!((rows.join(","), kept.as_deref()), ("0|1,2|,4|5".to_owned(), Some("10101")));
    assert_eq!(failed, [(1, "Cannot cast string 'x' to value of Int32 type".to_owned())]);

    let (rows, _, failed) = evaluated("SELECT a + a AS x FROM s WHERE a > 0", &input);
    assert_eq!(rows, ["2"]);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].0 == 2 && failed[0].1.starts_with("value out of range"), "{failed:?}");

    let (rows, _, failed) = evaluated("SELECT 10 / a AS x FROM s WHERE a <> 0", &input);
    assert_eq!((rows.len(), failed.len()), (2, 0), "the filter comes first");
}

#[test]
fn every_failing_row_is_told() {
    let zeros = rows(&[Some(0); 100], &[None; 100]);
    let (rows, kept, failed) = evaluated("SELECT 1 / a AS x FROM s", &zeros);
    assert_eq!((rows.len(), kept, failed.len()), (0, Some("0".repeat(100)), 100));
    assert!(failed.is_sorted());
}

/// Message, then hint or detail.
fn refusal(sql: &str) -> String {
    let error = planned(sql).err().unwrap_or_else(|| panic!("{sql} was planned"));
    format!("{} {error}", error.sqlstate())
}

#[test]
fn what_needs_memory_is_refused_with_its_name() {
    for (sql, want) in [
        ("SELECT count(*) FROM s", "0A000 aggregate functions are not supported in a materialized view: count()"),
        ("SELECT a, sum(b) FROM s", "0A000 aggregate functions are not supported in a materialized view: sum()"),
        (
            "SELECT a FROM s WHERE max(a) > 1",
            "0A000 aggregate functions are not supported in a materialized view: max()",
        ),
        ("SELECT a FROM s GROUP BY a", "0A000 GROUP BY is not supported in a materialized view"),
        ("SELECT a FROM s HAVING a > 1", "0A000 HAVING is not supported in a materialized view"),
        ("SELECT DISTINCT a FROM s", "0A000 DISTINCT is not supported in a materialized view"),
        (
            "SELECT row_number() OVER () FROM s",
            "0A000 window functions are not supported in a materialized view: row_number()",
        ),
        ("SELECT sum(a) OVER () FROM s", "0A000 window functions are not supported in a materialized view: sum()"),
        ("SELECT a FROM s ORDER BY a", "0A000 ORDER BY is not supported in a materialized view"),
        ("SELECT a FROM s LIMIT 1", "0A000 LIMIT is not supported in a materialized view"),
        ("SELECT a FROM s OFFSET 1", "0A000 LIMIT is not supported in a materialized view"),
        ("SELECT a FROM s FETCH FIRST 1 ROW ONLY", "0A000 FETCH FIRST is not supported in a materialized view"),
        ("SELECT a FROM s FOR UPDATE", "0A000 FOR, SETTINGS and FORMAT are not supported in a materialized view"),
        ("SELECT x.a FROM s x JOIN s y ON x.a = y.a", "0A000 joins are not supported in a materialized view"),
        ("SELECT x.a FROM s x, s y", "0A000 joins are not supported in a materialized view"),
        ("SELECT a FROM s UNION SELECT a FROM s", "0A000 UNION without ALL is not supported in a materialized view"),
        ("SELECT a FROM s EXCEPT SELECT a FROM s", "0A000 EXCEPT is not supported in a materialized view"),
        ("SELECT 1 AS x", "0A000 a materialized view must read a source"),
        ("VALUES (1)", "0A000 a materialized view must be a SELECT from a source"),
        ("SELECT (SELECT 1) AS x FROM s", "0A000 subqueries in expressions are not supported in a materialized view"),
        (
            "SELECT a FROM s WHERE a IN (SELECT b FROM s)",
            "0A000 subqueries in expressions are not supported in a materialized view",
        ),
        (
            "SELECT a FROM s WHERE EXISTS (SELECT 1)",
            "0A000 subqueries in expressions are not supported in a materialized view",
        ),
        ("SELECT x.a FROM (SELECT a FROM s LIMIT 1) x", "0A000 LIMIT is not supported in a materialized view"),
        (
            "WITH RECURSIVE w AS (SELECT a FROM s) SELECT a FROM w",
            "0A000 WITH RECURSIVE is not supported in a materialized view",
        ),
        (
            "SELECT * FROM generate_series(1, 2)",
            "0A000 generate_series(1, 2) is not supported in the FROM clause of a materialized view",
        ),
        (
            "SELECT now() FROM s",
            "0A000 function now() is not supported in a materialized view: its result differs with every statement",
        ),
        (
            "SELECT a FROM s WHERE at < current_timestamp",
            "0A000 function now() is not supported in a materialized view: its result differs with every statement",
        ),
        (
            "SELECT random() AS r FROM s",
            "0A000 function random() is not supported in a materialized view: its result differs with every call",
        ),
        (
            "SELECT a FROM s WHERE a = $1",
            "42P02 there is no parameter $1: a materialized view keeps its query as it is written",
        ),
        (
            "SELECT at - at AS age FROM s",
            "0A000 column \"age\" has a type that a materialized view can't keep: Duration(µs)",
        ),
    ] {
        assert_eq!(refusal(sql), want, "{sql}");
    }
}

#[test]
fn what_has_no_meaning_is_refused_in_postgresqls_words() {
    for (sql, want) in [
        ("SELECT a, b AS a FROM s", "42701 column \"a\" specified more than once"),
        ("SELECT a, a FROM s", "42701 column \"a\" specified more than once"),
        ("SELECT *, a FROM s", "42701 column \"a\" specified more than once"),
        ("SELECT a + 1, b + 1 FROM s", "42701 column \"?column?\" specified more than once"),
        ("SELECT a AS _offset FROM s", "42701 column name \"_offset\" conflicts with a system column name"),
        ("SELECT nope FROM s", "42703 column \"nope\" does not exist"),
        ("SELECT s.nope FROM s", "42703 column s.nope does not exist"),
        ("SELECT a FROM s WHERE aa > 1", "42703 column \"aa\" does not exist"),
        ("SELECT a FROM nowhere", "42P01 source \"nowhere\" does not exist"),
        ("SELECT a FROM rw_catalog.s", "42P01 source \"rw_catalog.s\" does not exist"),
        ("SELECT nope(a, 1) FROM s", "42883 function nope(a, 1) does not exist"),
        ("SELECT j->'a' FROM s", "0A000 the query of the materialized view cannot be planned"),
        ("SELECT a FROM s WHERE t", "42804 argument of WHERE must be type boolean, not type text"),
        ("SELECT a FROM s UNION ALL SELECT a, b FROM s", "42601 each UNION query must have the same number of columns"),
    ] {
        assert_eq!(refusal(sql), want, "{sql}");
    }
    let hint = |sql| planned(sql).unwrap_err().hint();
    assert_eq!(hint("SELECT a FROM flight").as_deref(), Some("Perhaps you meant \"flights\"."));
    assert_eq!(
        hint("SELECT bigg FROM (SELECT a AS bigger FROM s) x").as_deref(),
        Some("Perhaps you meant \"bigger\".")
    );
    assert!(planned("SELECT j->'a' FROM s").unwrap_err().detail().is_some());
}

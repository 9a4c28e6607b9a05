use super::error;
use crate::error::Error;

/// Message and position of a syntax error.
fn syntax(sql: &str) -> (String, usize) {
    let error = error(sql);
    assert_eq!(error.sqlstate(), "42601", "{sql}: {error:?}");
    (error.to_string(), error.position().unwrap())
}

fn near(sql: &str, token: &str, position: usize) {
    assert_eq!(syntax(sql), (format!("syntax error at or near \"{token}\""), position), "{sql}");
}

fn at_end(sql: &str) {
    assert_eq!(syntax(sql), ("syntax error at end of input".into(), sql.chars().count() + 1), "{sql}");
}

fn hint(sql: &str) -> String {
    error(sql).hint().unwrap_or_default()
}

#[test]
fn places() {
    near("SELEC 1", "SELEC", 1);
    near("ALTER SOURCE s SET PARALELISM = 4", "PARALELISM", 20);
    near("ALTER SOURCE s SET PARALLELISM 4", "4", 32);
    near("ALTER SOURCE s SET PARALLELISM = 4 DEFERED", "DEFERED", 36);
    near("ALTER SOURCE s SET PARALLELISM = ;", ";", 34);
    near("ALTER SOURCE s SET PARALLELISM = DEFERRED", "DEFERRED", 34);
    near("ALTER SOURCE select SET PARALLELISM = 4", "select", 14);
    near("ALTER SOURCE $1 SET PARALLELISM = 4", "$1", 14);
    near("ALTER SOURCE 's' SET PARALLELISM = 4", "'s'", 14);
    at_end("ALTER SOURCE s SET PARALLELISM =");
    at_end("ALTER");
    at_end("EXPLAIN");
    near("EXPLAIN foo", "foo", 9);
    near("EXPLAIN (FORMAT JSON ALTER SOURCE s SET PARALLELISM = 4", "ALTER", 22);
    near("CREATE SOURCE s id int", "id", 17);
    near("CREATE SOURCE s (id int,) WITH ()", ")", 25);
    at_end("CREATE SOURCE s (id int");
    near("CREATE SOURCE s (id int) WITH (a 'x')", "'x'", 34);
    near("CREATE SOURCE s (id int) WITH (a = NULL)", "NULL", 36);
    near("CREATE SOURCE s (id int) WITH () FORMAT PLAIN ENCOD JSON", "ENCOD", 47);
    near("CREATE MATERIALIZED VIEW v AS DELETE FROM s", "DELETE", 31);
    near("CREATE MATERIALIZED VIEW v WITH (backfill_order = FIXED(a, b)) AS SELECT 1", ",", 58);
    near("CREATE MATERIALIZED VIEW v WITH (backfill_order = FIXED()) AS SELECT 1", ")", 57);
    near("DROP SOURCE s CASCAD", "CASCAD", 15);
    near("CANCEL RESCAL 1", "RESCAL", 8);
    near("SHOW JOBS LIKE 'x'", "LIKE", 11);
    near("WAIT 5", "5", 6);
    near("SET x 1", "1", 7);
    near("SET x = NULL", "NULL", 9);
    near("SET x = 1 + 2", "+", 11);
    at_end("SET TRANSACTION");
    at_end("BEGIN READ ONLY,");
    near("PREPARE p AS PREPARE q AS SELECT 1", "PREPARE", 14);
    near("PREPARE p AS BEGIN", "BEGIN", 14);
    near("DECLARE c CURSOR FOR FLUSH", "FLUSH", 22);
    near("FETCH 1 2 c", "2", 9);
    assert_eq!(syntax("DROP SOURCE \"\"").0, "zero-length delimited identifier at or near \"\"\"\"");
}

#[test]
fn places_in_queries() {
    at_end("SELECT 1 FROM");
    at_end("SELECT (1");
    near("SELECT a, FROM t", "FROM", 11);
    near("SELECT * FROM t WHERE AND a", "AND", 23);
    at_end("VALUES (1),");
    near("SELECT 1 FROM;", ";", 14);
    near("SELECT FROM WHERE GROUP", "GROUP", 19);
    near("SELECT 1 1", "1", 10);
    near("SELECT * FROM t WHERE a = = 1", "=", 27);
    near("SELECT (1))", ")", 11);
    near("CREATE MATERIALIZED VIEW v AS SELECT a FROM s WHERE )", ")", 53);
    near("CREATE MATERIALIZED VIEW v AS SELECT a FROM s 5", "5", 47);
}

#[test]
fn places_count_characters_of_the_whole_string() {
    near("SELECT 'äöü';\n-- é\n ALTER SOURCE 日本 SET PARALELISM = 4", "PARALELISM", 41);
    near("SELECT 'ä\r\nö' FROM;", ";", 19);
    near("SELECT 1;\nSELECT 'ä', 1 +;", ";", 26);
    near("SELECT '😀', FROM t", "FROM", 13);
    assert_eq!(syntax("FLUSH; SELECT 'é', 'x"), ("unterminated quoted string at or near \"'x\"".into(), 20));
    assert_eq!(syntax("SELECT é /* x"), ("unterminated /* comment at or near \"/* x\"".into(), 10));
    assert_eq!(syntax("SELECT \"é x"), ("unterminated quoted identifier at or near \"\"é x\"".into(), 8));
    assert_eq!(syntax("SELECT é $a$ x"), ("unterminated dollar-quoted string at or near \"$a$ x\"".into(), 10));
    assert_eq!(syntax("SELECT $$ x"), ("unterminated dollar-quoted string at or near \"$$ x\"".into(), 8));
    assert_eq!(syntax("SELECT E'x"), ("unterminated quoted string at or near \"E'x\"".into(), 8));
}

#[test]
fn what_was_meant() {
    assert!(
        hint("ALTER SOURCE s SET PARALELISM = 4").starts_with("Perhaps you meant \"PARALLELISM\". Form: ALTER {SOURCE")
    );
    assert!(hint("ALTER SOURCE s SET source_rate_limi = 4").starts_with("Perhaps you meant \"source_rate_limit\"."));
    assert_eq!(hint("SELEC 1"), "Perhaps you meant \"SELECT\".");
    assert!(hint("ATLER SOURCE s SET PARALLELISM = 4").contains("\"ALTER\""));
    assert!(hint("DROP SOURC s").contains("\"SOURCE\""));
    assert!(hint("CREATE MATERIALISED VIEW v AS SELECT 1").contains("\"MATERIALIZED\""));
    assert!(hint("EXPLAIN ALTR SOURCE s SET PARALLELISM = 4").contains("\"ALTER\""));
    assert!(hint("CREATE SOURCE s (id int) WITH () FORMAT PLAIN ENCODE JSN").contains("\"JSON\""));
    assert!(hint("CANCEL RESCAL 1").contains("Form: CANCEL RESCALE id"));
    assert_eq!(
        error("CREATE MATERIALIZED VIEW v WITH (backfil_order = 1) AS SELECT 1").hint().unwrap(),
        "Perhaps you meant \"backfill_order\"."
    );
}

#[test]
fn bad_values() {
    for (target, shown) in [
        ("-1", "-1"),
        ("foo", "foo"),
        ("1.5", "1.5"),
        ("bounded(0)", "bounded(0)"),
        ("ratio(2)", "ratio(2)"),
        ("''", ""),
        ("NULL", "NULL"),
    ] {
        let error = error(&format!("ALTER SOURCE s SET PARALLELISM = {target}"));
        assert_eq!(error.sqlstate(), "22023");
        let message = "target parallelism must be a valid number, adaptive, bounded(n), or ratio(r): ";
        assert!(error.to_string().starts_with(message) && error.to_string().contains(shown), "{error}");
    }
    for sql in [
        "ALTER SOURCE s SET source_rate_limit = -1",
        "ALTER SOURCE s SET source_rate_limit = 1.5",
        "ALTER SOURCE s SET source_rate_limit = 2147483648",
        "ALTER SOURCE s SET source_rate_limit = 'x'",
        "CREATE MATERIALIZED VIEW v WITH (backfill_rate_limit = true) AS SELECT 1",
        "CANCEL RESCALE 99999999999999999999",
        "EXPLAIN (FORMAT XML) ALTER SOURCE s SET PARALLELISM = 4",
    ] {
        let error = error(sql);
        assert_eq!(error.sqlstate(), "22023", "{sql}");
        assert!(error.detail().unwrap().starts_with("Allowed: "));
    }
    let twice = error("CREATE SOURCE s (a int, A int) WITH () FORMAT PLAIN ENCODE JSON");
    assert_eq!((twice.sqlstate(), twice.to_string().as_str()), ("42701", "column \"a\" specified more than once"));
    let twice = syntax("CREATE SOURCE s (a int) WITH (x.y = 1, X.Y = 2) FORMAT PLAIN ENCODE JSON");
    assert_eq!(twice, ("option \"x.y\" is given more than once".into(), 40));
    assert!(matches!(
        error("CREATE MATERIALIZED VIEW v WITH (x = 1) AS SELECT 1"),
        Error::UnknownOption { name, .. } if name == "x"
    ));
    let missing = syntax("CREATE SOURCE s (a int) WITH (x = 1)");
    assert_eq!(missing, ("FORMAT PLAIN ENCODE JSON is missing".into(), 37));
}

#[test]
fn refused_with_a_way_out() {
    for (sql, what, hint) in [
        ("INSERT INTO s VALUES (1)", "INSERT", "Append lines"),
        ("update s set a = 1", "UPDATE", "Append lines"),
        ("DELETE FROM s", "DELETE", "recreate"),
        ("TRUNCATE s", "TRUNCATE", "recreate"),
        ("COPY s FROM STDIN", "COPY FROM", "Append lines"),
        ("COPY (SELECT 1) TO '/tmp/x'", "COPY TO a file or a program of the server", "\\copy"),
        ("CREATE TABLE t (a int)", "CREATE TABLE", "CREATE SOURCE and CREATE MATERIALIZED VIEW"),
        ("CREATE LOCAL TEMPORARY TABLE t (a int)", "CREATE LOCAL TEMPORARY TABLE", "CREATE SOURCE"),
        ("CREATE TEMP VIEW v AS SELECT 1", "CREATE TEMP", "CREATE SOURCE"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW", "CREATE MATERIALIZED VIEW"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE OR REPLACE", "DROP"),
        ("CREATE SINK k FROM v", "CREATE SINK", "cursor"),
        ("CREATE INDEX i ON v (a)", "CREATE INDEX", "Leave it away"),
        ("CREATE GROUP u", "CREATE GROUP", "CREATE USER"),
        ("DROP TABLE t", "DROP TABLE", "DROP SOURCE name drops a source, DROP MATERIALIZED VIEW name a view."),
        ("DROP VIEW v", "DROP VIEW", "DROP MATERIALIZED VIEW name a view."),
        ("ALTER TABLE t SET PARALLELISM = 4", "ALTER TABLE", "CREATE SOURCE"),
        ("ALTER FRAGMENT 3 SET PARALLELISM = 4", "ALTER FRAGMENT", "ALTER SOURCE s SET PARALLELISM"),
        ("ALTER SYSTEM SET x = 1", "ALTER SYSTEM", "SET"),
        ("ALTER SOURCE s RENAME TO t", "ALTER SOURCE ... RENAME", "CREATE"),
        ("ALTER SOURCE s ADD COLUMN a int", "ALTER SOURCE ... ADD", "CREATE"),
        ("EXPLAIN ALTER SOURCE s OWNER TO u", "ALTER SOURCE ... OWNER TO in EXPLAIN", "Run it"),
        ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO u", "ALTER DEFAULT PRIVILEGES", "GRANT"),
        ("ALTER SOURCE s SET SCHEMA x", "ALTER SOURCE ... SET SCHEMA", "public"),
        ("GRANT INSERT ON v TO u", "GRANT INSERT", "grant SELECT"),
        ("VACUUM", "VACUUM", "leave it away"),
        ("REFRESH MATERIALIZED VIEW v", "REFRESH", "always up to date"),
        ("CANCEL JOBS 1", "CANCEL JOBS", "DROP MATERIALIZED VIEW"),
        ("SHOW TABLES", "SHOW TABLES", "information_schema"),
        ("SHOW INTERNAL TABLES", "SHOW INTERNAL TABLES", "rw_internal_tables"),
        ("SET ROLE x", "SET ROLE", "Members"),
        ("COMMIT AND CHAIN", "AND CHAIN", "BEGIN"),
        ("PREPARE TRANSACTION 'x'", "two-phase commit", "COMMIT"),
        ("EXPLAIN INSERT INTO s VALUES (1)", "EXPLAIN INSERT", "Append"),
        ("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1", "EXPLAIN CREATE", "ALTER"),
        (
            "EXPLAIN ANALYZE ALTER SOURCE s SET PARALLELISM = 4",
            "EXPLAIN (ANALYZE) or (VERBOSE) of ALTER",
            "changes nothing",
        ),
        ("EXPLAIN (MEMORY) SELECT 1", "EXPLAIN (MEMORY)", "FORMAT"),
        ("SELECT 1 INTO t", "SELECT INTO", "CREATE MATERIALIZED VIEW"),
        ("SELECT * FROM (SELECT a FROM t FOR UPDATE) x", "FOR UPDATE or FOR SHARE", "snapshot"),
        (
            "WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x",
            "a statement within a query that changes rows",
            "sources",
        ),
        (
            "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
            "a statement within a query that changes rows",
            "sources",
        ),
        (
            "CREATE MATERIALIZED VIEW v (a) AS SELECT 1",
            "a list of columns in CREATE MATERIALIZED VIEW",
            "SELECT x AS a",
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 EMIT ON WINDOW CLOSE", "EMIT ON WINDOW CLOSE", "Leave it away"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 WITH NO DATA", "WITH [NO] DATA", "backfill_rate_limit"),
        ("CREATE MATERIALIZED VIEW v WITH (backfill_order = AUTO) AS SELECT 1", "backfill_order = AUTO", "FIXED"),
        ("CREATE SOURCE s (a int PRIMARY KEY) WITH () FORMAT PLAIN ENCODE JSON", "PRIMARY KEY of a source", "_split"),
        (
            "CREATE SOURCE s (a int, PRIMARY KEY (a)) WITH () FORMAT PLAIN ENCODE JSON",
            "PRIMARY KEY of a source",
            "_split",
        ),
        ("CREATE SOURCE s (a int, WATERMARK FOR a AS a) WITH () FORMAT PLAIN ENCODE JSON", "WATERMARK", "WHERE"),
        ("CREATE SOURCE s (a int NOT NULL) WITH () FORMAT PLAIN ENCODE JSON", "NOT NULL", "WHERE"),
        ("CREATE SOURCE s (a int AS b + 1) WITH () FORMAT PLAIN ENCODE JSON", "a generated column", "SELECT"),
        (
            "CREATE SOURCE s (*) WITH () FORMAT PLAIN ENCODE JSON",
            "taking the columns from a schema registry (*)",
            "each column",
        ),
        ("CREATE SOURCE s (a int) INCLUDE payload WITH () FORMAT PLAIN ENCODE JSON", "INCLUDE PAYLOAD", "BYTES"),
        (
            "CREATE SOURCE s (a int) INCLUDE headers WITH () FORMAT PLAIN ENCODE JSON",
            "INCLUDE HEADERS",
            "HEADER 'name'",
        ),
        ("CREATE SOURCE s (a int) INCLUDE HEADER 'h' int WITH ()", "type integer for a header", "bytea or varchar"),
        ("CREATE SOURCE s (a int) WITH () FORMAT PLAIN ENCODE AVRO", "ENCODE AVRO", "FORMAT PLAIN ENCODE JSON works"),
        ("CREATE SOURCE s (a int) WITH () FORMAT PLAIN ENCODE BYTES (x = 1)", "an option of ENCODE BYTES", "brackets"),
        (
            "CREATE SOURCE s (a int) WITH () FORMAT UPSERT ENCODE JSON",
            "FORMAT UPSERT",
            "FORMAT PLAIN ENCODE JSON works",
        ),
        ("CREATE SOURCE s (a int) WITH () FORMAT PLAIN ENCODE JSON (x = 1)", "an option of ENCODE JSON", "brackets"),
    ] {
        let error = error(sql);
        assert_eq!(error.sqlstate(), "0A000", "{sql}: {error:?}");
        assert_eq!(error.to_string(), format!("{what} is not supported"), "{sql}");
        assert!(error.hint().unwrap().contains(hint), "{sql}: {:?}", error.hint());
    }
}

#[test]
fn names_of_other_places() {
    let told = |sql: &str| {
        let error = error(sql);
        format!("{} {error}", error.sqlstate())
    };
    let cross = |name: &str| format!("0A000 cross-database references are not implemented: \"{name}\"");
    for sql in ["DROP SOURCE", "DROP SOURCE IF EXISTS", "SHOW CREATE SOURCE", "GRANT SELECT ON SOURCE"] {
        let rest = if sql.starts_with("GRANT") { " TO a" } else { "" };
        assert_eq!(told(&format!("{sql} Other.public.s{rest}")), cross("other.public.s"), "{sql}");
    }
    assert_eq!(told("DROP SOURCE other.s"), "3F000 schema \"other\" does not exist");
    assert_eq!(told("DROP SOURCE s, pg_catalog.s"), "42P01 source \"pg_catalog.s\" does not exist");
    let create = |name: &str| told(&format!("CREATE MATERIALIZED VIEW {name} AS SELECT 1 FROM s"));
    assert_eq!(create("other.public.s"), cross("other.public.s"));
    assert_eq!(create("nosuch.s"), "3F000 schema \"nosuch\" does not exist");
    assert_eq!(create("tidegate.s"), "42501 permission denied to create \"tidegate.s\"");
    let (message, position) = syntax("ALTER SOURCE a.b.c.d SET PARALLELISM = 1");
    assert_eq!((message.as_str(), position), ("improper qualified name (too many dotted names): a.b.c.d", 14));
}

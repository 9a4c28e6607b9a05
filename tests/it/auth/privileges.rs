//! has_table_privilege and its kin tell what happens.

use super::connect;
use crate::server::{Server, Session};

const DATAGEN: &str = "WITH (connector = 'datagen', splits = 1, rows_per_split = 3) FORMAT PLAIN ENCODE JSON";

/// A small generator, so that a failure comes again.
struct Random(u64);

impl Random {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from[usize::try_from(self.0 >> 33).unwrap() % from.len()]
    }
}

async fn is_allowed(session: &Session, sql: &str) -> &'static str {
    match session.0.simple_query(sql).await {
        Err(error) if error.code().is_some_and(|code| code.code() == "42501") => "f",
        _ => "t",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_agree_with_what_is_enforced_after_any_grants() {
    let server = Server::start();
    let root = server.connect().await;
    root.run(&format!("CREATE SOURCE s (id BIGINT) {DATAGEN}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    root.run("CREATE USER a; CREATE USER b; CREATE ROLE r; CREATE ROLE q").await;
    let sessions =
        [("a", connect(&server, "a", None).await.unwrap()), ("b", connect(&server, "b", None).await.unwrap())];
    let mut random = Random(6);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..60 {
        let (word, to) = if random.pick(&["g", "g", "r"]) == "g" { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
        let whom = random.pick(&["a", "b", "r", "q", "PUBLIC"]);
        let sql = match random.pick(&["relation", "relation", "schema", "role"]) {
            "relation" => {
                let privilege = random.pick(&["SELECT", "ALTER", "ALL"]);
                format!("{word} {privilege} ON {} {to} {whom}", random.pick(&["mv", "SOURCE s", "tidegate.settings"]))
            }
            "schema" => {
                let privilege = random.pick(&["SELECT", "ALTER", "CREATE"]);
                format!("{word} {privilege} ON SCHEMA {} {to} {whom}", random.pick(&["public", "tidegate"]))
            }
            _ => {
                let role = random.pick(&["r", "q", "tidegate_viewer", "tidegate_operator"]);
                format!("{word} {role} {to} {}", random.pick(&["a", "b"]))
            }
        };
        root.run(&sql).await;
        for (user, session) in &sessions {
            for (function, does) in [
                ("has_table_privilege('mv', 'SELECT')", "SELECT * FROM mv"),
                ("has_any_column_privilege('mv', 'SELECT')", "SELECT id FROM mv"),
                ("has_column_privilege('mv', 'id', 'SELECT')", "SELECT id FROM mv"),
                ("has_table_privilege('tidegate.settings', 'SELECT')", "SELECT * FROM tidegate.settings"),
                ("has_table_privilege('mv', 'ALTER')", "ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = 1000"),
                ("has_table_privilege('s', 'ALTER')", "ALTER SOURCE s SET source_rate_limit = 1000"),
                ("has_table_privilege('s', 'SELECT, ALTER')", "SELECT tidegate.can_rescale('s', '1')"),
                ("has_table_privilege('pg_authid', 'SELECT')", "SELECT * FROM pg_authid"),
                ("has_table_privilege('mv', 'SELECT WITH GRANT OPTION')", "GRANT SELECT ON mv TO root"),
                (
                    "has_schema_privilege('public', 'CREATE')",
                    "CREATE SOURCE z (id BIGINT) WITH (connector = 'none') FORMAT PLAIN ENCODE JSON",
                ),
                ("pg_has_role('tidegate_operator', 'MEMBER')", "FLUSH"),
                ("pg_has_role('r', 'MEMBER WITH ADMIN OPTION')", "GRANT r TO root"),
            ] {
                let told = session.value(&format!("SELECT {function}")).await;
                let from_outside = function.replacen('(', &format!("('{user}', "), 1);
                assert_eq!(root.value(&format!("SELECT {from_outside}")).await, told, "{from_outside}");
                assert_eq!(told, is_allowed(session, does).await, "round {round}, after {sql}: {user}: {function}");
                seen.insert((function, told));
            }
        }
    }
    // It has seen both answers wherever both can be.
    assert_eq!(seen.len(), 12 + 9, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_the_arguments() {
    let server = Server::start();
    let root = server.connect().await;
    root.run(&format!("CREATE SOURCE s (id BIGINT) {DATAGEN}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    root.run("CREATE USER u; CREATE ROLE team; GRANT team TO u; GRANT SELECT ON mv TO team").await;
    for (sql, want) in [
        ("has_table_privilege('u', 'mv', 'SELECT')", "t"),
        ("has_table_privilege('u'::regrole::oid, 'mv'::regclass, 'select')", "t"),
        ("has_table_privilege('u', 'public.mv', 'ALTER, SELECT')", "t"),
        ("has_table_privilege('u', 'mv', 'ALTER')", "f"),
        ("has_table_privilege('public', 'mv', 'SELECT')", "f"),
        ("has_table_privilege(999999::oid, 'SELECT')", "NULL"),
        ("has_table_privilege('u', 'mv', 'SELECT WITH GRANT OPTION')", "f"),
        ("has_table_privilege('mv', 'SELECT WITH GRANT OPTION')", "t"),
        ("has_column_privilege('u', 'mv', 1::int2, 'SELECT')", "t"),
        ("has_column_privilege('u', 'mv', 99::int2, 'SELECT')", "NULL"),
        ("has_schema_privilege('u', 'public', 'USAGE')", "t"),
        ("has_schema_privilege('u', 'public', 'CREATE')", "f"),
        ("has_database_privilege('u', 'dev', 'CONNECT')", "t"),
        ("has_database_privilege('u', 'dev', 'CREATE')", "f"),
        ("has_function_privilege('u', 'lower(text)', 'EXECUTE')", "t"),
        ("pg_has_role('u', 'team', 'USAGE')", "t"),
        ("pg_has_role('u', 'root', 'MEMBER')", "f"),
        ("pg_has_role('u', 'team', 'MEMBER WITH ADMIN OPTION')", "f"),
    ] {
        assert_eq!(root.value(&format!("SELECT {sql}")).await, want, "{sql}");
    }
    for (sql, sqlstate) in [
        ("has_table_privilege('nobody', 'mv', 'SELECT')", "42704"),
        ("has_table_privilege('none', 'SELECT')", "42P01"),
        ("has_table_privilege('mv', 'FLY')", "22023"),
        ("has_table_privilege('mv', 'SELECT, FLY')", "22023"),
        ("has_column_privilege('mv', 'none', 'SELECT')", "42703"),
        ("has_schema_privilege('none', 'USAGE')", "3F000"),
        ("has_database_privilege('none', 'CONNECT')", "3D000"),
        ("pg_has_role('nobody', 'MEMBER')", "42704"),
    ] {
        assert_eq!(root.error(&format!("SELECT {sql}")).await.sqlstate, sqlstate, "{sql}");
    }
}

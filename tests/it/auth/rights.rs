//! Who may do what.

use super::{connect, err, out, psql, refused};
use crate::server::{Server, Session};

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_goes_takes_its_sessions_along_and_limits_hold() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u CONNECTION LIMIT 1").await;
    let first = connect(&server, "u", None).await.unwrap();
    assert_eq!(refused(&server, "u", None).await, "53300 too many connections for role \"u\"");
    assert_eq!(first.value("SELECT 1").await, "1");
    root.run("DROP USER u").await;
    let ended = first.0.simple_query("SELECT 1").await.unwrap_err();
    assert!(ended.is_closed() || ended.code().is_some_and(|code| code.code() == "57P01"), "{ended}");
    assert!(refused(&server, "u", Some("x")).await.starts_with("28P01"));
}

/// Every statement of ours, by whoever may look, act, own, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_matrix_of_who_may_do_what() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER owner_; CREATE USER viewer; CREATE USER operator; CREATE USER nobody").await;
    root.run(
        "GRANT CREATE ON SCHEMA public TO owner_; GRANT tidegate_viewer TO viewer; GRANT tidegate_operator TO operator",
    )
    .await;
    let owner = connect(&server, "owner_", None).await.unwrap();
    let options = "WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON";
    owner.run(&format!("CREATE SOURCE s (id BIGINT) {options}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    root.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state = 'Finished'", "2").await;
    root.wait_for("SELECT tidegate.can_rescale('s', '2')", "t").await;
    let viewer = connect(&server, "viewer", None).await.unwrap();
    let operator = connect(&server, "operator", None).await.unwrap();
    let nobody = connect(&server, "nobody", None).await.unwrap();
    // Who may: n nobody, v viewer, o operator, w owner. What all may end up refused for is another reason than 42501.
    let matrix: &[(&str, &str)] = &[
        ("SELECT * FROM mv", "vow"),
        ("SELECT * FROM tidegate.split_backfill_progress", "vo"),
        ("SELECT * FROM rw_catalog.rw_sources", "vo"),
        ("SELECT * FROM internal_source_backfill_progress()", "vo"),
        ("SELECT relname FROM pg_class", "nvow"),
        ("SELECT table_name FROM information_schema.tables", "nvow"),
        ("SELECT * FROM pg_authid", ""),
        ("SELECT * FROM pg_shadow", ""),
        ("SELECT * FROM tidegate.check_rescale('s', '2')", "vow"),
        ("SELECT tidegate.can_rescale('s', '2')", "vow"),
        ("EXPLAIN ALTER SOURCE s SET PARALLELISM = 2", "vow"),
        ("ALTER SOURCE s SET PARALLELISM = 2", "ow"),
        ("ALTER SOURCE s SET source_rate_limit = 1000", "ow"),
        ("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = 1000", "ow"),
        ("ALTER MATERIALIZED VIEW mv SET PARALLELISM = 2", "ow"),
        ("ALTER MATERIALIZED VIEW mv SET BACKFILL_PARALLELISM = 2", "ow"),
        ("CANCEL RESCALE 1", "ow"),
        ("RECOVER", "o"),
        ("FLUSH", "o"),
        ("WAIT", "nvow"),
        ("SHOW SOURCES", "nvow"),
        ("SHOW MATERIALIZED VIEWS", "nvow"),
        ("SHOW JOBS", "vo"),
        ("SHOW PARAMETERS", "vo"),
        ("SHOW CREATE SOURCE s", "vow"),
        ("SHOW CREATE MATERIALIZED VIEW mv", "vow"),
        ("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', splits = 1) FORMAT PLAIN ENCODE JSON", "w"),
        ("CREATE MATERIALIZED VIEW mv AS SELECT id FROM s", "w"),
        ("GRANT SELECT ON mv TO nobody", "w"),
        ("REVOKE SELECT ON mv FROM nobody", "w"),
        ("GRANT SELECT ON SCHEMA public TO nobody", ""),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO nobody", ""),
        ("GRANT tidegate_viewer TO nobody", ""),
        ("REVOKE tidegate_viewer FROM viewer", ""),
        ("CREATE USER x", ""),
        ("ALTER USER viewer NOLOGIN", ""),
        ("ALTER USER CURRENT_USER SUPERUSER", ""),
        ("ALTER USER viewer RENAME TO x", ""),
        ("DROP USER x", ""),
        ("DROP MATERIALIZED VIEW mv", "w"),
        ("DROP SOURCE s", "w"),
    ];
    for (sql, allowed) in matrix {
        // The owner last: it drops.
        for (letter, session) in [('n', &nobody), ('v', &viewer), ('o', &operator), ('w', &owner)] {
            let code = match session.0.simple_query(sql).await {
                Ok(_) => "00000".to_owned(),
                Err(error) => error.code().unwrap_or_else(|| panic!("{sql}: {error}")).code().to_owned(),
            };
            assert_eq!(code != "42501", allowed.contains(letter), "{sql} by {letter}: {code}");
        }
    }
    let history = root
        .rows(
            "SELECT DISTINCT requested_by, decision, sqlstate FROM tidegate.rescale_history
             WHERE statement = 'ALTER SOURCE s SET source_rate_limit = 1000' ORDER BY requested_by",
        )
        .await;
    assert_eq!(
        history,
        [
            ["nobody", "refused", "42501"],
            ["operator", "committed", "NULL"],
            ["owner_", "committed", "NULL"],
            ["viewer", "refused", "42501"],
        ]
    );
    let asked = "SELECT count(DISTINCT requested_by) FROM tidegate.rescale_history WHERE statement = ";
    assert_eq!(root.value(&format!("{asked}'ALTER SOURCE s SET PARALLELISM = 2'")).await, "4");
}

/// Whether a rescale is safe is one question, and who may do it another.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_who_may_only_look() {
    let server = Server::start();
    let root = server.connect().await;
    let options = "WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON";
    root.run(&format!("CREATE SOURCE s (id BIGINT) {options}; CREATE USER u; GRANT SELECT ON SOURCE s TO u")).await;
    let explain = || psql(&server, "u", None, "", "EXPLAIN ALTER SOURCE s SET PARALLELISM = 2");
    let looked = explain();
    assert!(out(&looked).contains("policy forwarding"), "{}", out(&looked));
    assert_eq!(err(&looked), "NOTICE:  the ALTER itself would be refused: permission denied for source s\n");
    root.run("GRANT ALTER ON SOURCE s TO u").await;
    assert_eq!(err(&explain()), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_statements_are_hidden_and_their_sessions_safe() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u; CREATE USER op; GRANT tidegate_operator TO op").await;
    let user = connect(&server, "u", None).await.unwrap();
    let operator = connect(&server, "op", None).await.unwrap();
    let others = "SELECT DISTINCT query FROM pg_stat_activity WHERE usename <> current_user";
    assert_eq!(user.rows(others).await, [["<insufficient privilege>"]]);
    assert!(
        operator
            .rows(others)
            .await
            .concat()
            .iter()
            .any(|query| query.contains("insufficient") == query.contains("DISTINCT"))
    );
    let pid = async |session: &Session| session.value("SELECT pg_backend_pid()").await;
    let (root_pid, user_pid) = (pid(&root).await, pid(&user).await);
    assert_eq!(user.error(&format!("SELECT pg_terminate_backend({root_pid})")).await.sqlstate, "42501");
    assert_eq!(operator.error(&format!("SELECT pg_terminate_backend({root_pid})")).await.sqlstate, "42501");
    assert_eq!(operator.value(&format!("SELECT pg_cancel_backend({user_pid})")).await, "t");
    let again = connect(&server, "u", None).await.unwrap();
    assert_eq!(again.value(&format!("SELECT pg_cancel_backend({user_pid})")).await, "t");
}

/// A plan that is kept must not outlive what allowed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_holds_for_statements_that_are_prepared() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u; GRANT SELECT ON tidegate.settings TO u").await;
    let user = connect(&server, "u", None).await.unwrap();
    let prepared = user.0.prepare("SELECT name FROM tidegate.settings").await.unwrap();
    for _ in 0..2 {
        user.0.query(&prepared, &[]).await.unwrap();
        user.run("SELECT name FROM tidegate.settings").await;
    }
    root.run("REVOKE SELECT ON tidegate.settings FROM u").await;
    assert_eq!(user.0.query(&prepared, &[]).await.unwrap_err().code().unwrap().code(), "42501");
    assert_eq!(user.error("SELECT name FROM tidegate.settings").await.sqlstate, "42501");
}

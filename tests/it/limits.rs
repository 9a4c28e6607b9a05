//! What a client can make the server hold or do, over a real connection.

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn limits_come_from_flags_and_are_shown() {
    let flags = ["--statement-memory", "32MB", "--max-prepared-statements", "2", "--statement-timeout", "90s"];
    let server = Server::start_with(&flags);
    let session = server.connect().await;
    assert_eq!(session.value("SHOW statement_memory").await, "32MB");
    assert_eq!(session.value("SHOW max_prepared_statements").await, "2");
    assert_eq!(session.value("SHOW statement_timeout").await, "90s");
    assert_eq!(session.value("SELECT setting FROM pg_settings WHERE name = 'statement_memory'").await, "32MB");
    let shown = "SELECT value || ' ' || source FROM tidegate.settings WHERE name = 'max_prepared_statements'";
    assert_eq!(session.value(shown).await, "2 command line");
    session.run("PREPARE a AS SELECT 1; PREPARE b AS SELECT 1").await;
    let told = session.error("PREPARE c AS SELECT 1").await;
    assert_eq!((told.sqlstate.as_str(), told.message.as_str()), ("53400", "there are 2 prepared statements already"));
    assert_eq!(told.hint, "DEALLOCATE those that are no longer used, or raise max_prepared_statements.");
    assert_eq!(session.error("SET max_connections = 7").await.sqlstate, "55P02");
}

/// Each of these wants more memory than there is; many at once don't bring the server down.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_shared_and_has_an_end() {
    let server = Server::start_with(&["--statement-memory", "32MB", "--query-memory", "64MB"]);
    let greedy = [
        "SELECT array_agg(x) FROM generate_series(1, 1000000000000) a(x)",
        "SELECT string_agg(x::text, ',') FROM generate_series(1, 1000000000000) a(x)",
        "SELECT a.x FROM generate_series(1, 1000000000000) a(x), generate_series(1, 1000000000000) b(y)",
        "SELECT sum(x) OVER () FROM generate_series(1, 1000000000000) a(x)",
        "SELECT repeat('x', 2000000000)",
        "SELECT lpad('x', 2000000000)",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM generate_series(1, 1000000000000) a(x)",
    ];
    let running = (0..3).flat_map(|_| greedy).map(|sql| {
        let server = &server;
        async move {
            let session = server.connect().await;
            let told = session.error(sql).await;
            assert!(["53200", "54000"].contains(&told.sqlstate.as_str()), "{told:?}: {sql}");
            assert!(!told.hint.is_empty());
            assert_eq!(session.value("SELECT 1").await, "1");
        }
    });
    futures::future::join_all(running).await;
    assert!(server.peak_memory() < 1 << 30, "{} bytes", server.peak_memory());
}

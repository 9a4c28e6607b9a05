//! SIGTERM and restarts while something waits.

use super::oracle::{Rows, assert_all, assert_books};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the ALTER does not wait as it is written"]
async fn sigterm_while_an_alter_waits_answers_it_and_ends_in_order() {
    let rows = Rows::create(4, 50);
    // The first barrier after the start is the last for ten minutes, and an ALTER waits for the second one of its actors.
    let mut server = Server::start_with(&["--barrier-interval-ms", "600000"]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true; SET rescale_timeout = 0").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n FROM s").await;
    let watcher = server.connect().await;
    let waiting = tokio::spawn(async move { session.error("ALTER SOURCE s SET PARALLELISM = 4").await });
    let alters = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'ALTER SOURCE s%'";
    watcher.wait_for(alters, "1").await;
    let status = server.terminate();
    assert_eq!(status.code(), Some(0));
    assert_eq!(waiting.await.unwrap().sqlstate, "57P01");
    assert_books(server.data_dir());
    let mut server = Server::start_on(server.data_dir(), &[], &[]);
    let session = server.connect().await;
    assert_eq!(session.value("SELECT count(*) FROM tidegate.rescale_history").await, "0");
    assert_eq!(session.value("SELECT count(DISTINCT actor_id) FROM tidegate.split_assignments").await, "2");
    assert_all(&server, &session, &rows).await;
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_rescale_outlives_restarts_and_then_commits() {
    let rows = Rows::create(4, 50);
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 0) AS SELECT n FROM s").await;
    session.run("FLUSH; FLUSH; FLUSH").await;
    session.run("ALTER SOURCE s SET PARALLELISM = 4 DEFERRED").await;
    let pending = "SELECT rescale_id, from_parallelism, to_parallelism FROM tidegate.pending_rescales";
    let before = session.rows(pending).await;
    assert_eq!(before, [["1", "2", "4"]]);
    for killed in [true, false, true] {
        if killed {
            server.kill();
        } else {
            assert_eq!(server.terminate().code(), Some(0));
        }
        server.restart();
        let session = server.connect().await;
        session.run("FLUSH; FLUSH; FLUSH").await;
        assert_eq!(session.rows(pending).await, before);
        assert_eq!(session.value("SELECT count(DISTINCT actor_id) FROM tidegate.split_assignments").await, "2");
    }
    let session = server.connect().await;
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    session
        .wait_for("SELECT count(*) FROM tidegate.rescale_history WHERE rescale_id = 1 AND decision = 'committed'", "1")
        .await;
    assert_eq!(session.value("SELECT count(DISTINCT actor_id) FROM tidegate.split_assignments").await, "4");
    assert_all(&server, &session, &rows).await;
}

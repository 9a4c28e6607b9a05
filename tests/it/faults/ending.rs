//! SIGTERM and restarts while something waits.

use tempfile::{TempDir, tempdir};

use super::oracle::{Rows, assert_all, assert_books};
use crate::server::Server;

/// A data directory with a source of two actors and a finished view.
async fn two_actors(rows: &Rows) -> TempDir {
    let dir = tempdir().unwrap();
    let mut server = Server::start_on(dir.path(), &[], &[]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n FROM s").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    assert!(server.terminate().success());
    dir
}

/// Ends a server while an ALTER waits in it: the ALTER is told, nothing of it is done, and the next start goes on.
async fn ends_while_an_alter_waits(rows: &Rows, mut server: Server) {
    let (session, watcher) = (server.connect().await, server.connect().await);
    session.run("SET rescale_timeout = '10min'; RECOVER").await;
    let alter = "ALTER SOURCE s SET PARALLELISM = 4";
    let waiting = tokio::spawn(async move { session.error(alter).await });
    let alters = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'ALTER SOURCE s%'";
    watcher.wait_for(alters, "1").await;
    let status = server.terminate();
    assert_eq!(waiting.await.unwrap().sqlstate, "57P01");
    assert_eq!(status.code(), Some(0));
    assert_books(server.data_dir());
    let mut server = Server::start_on(server.data_dir(), &[], &[]);
    let session = server.connect().await;
    let history = "SELECT statement, decision FROM tidegate.rescale_history";
    assert_eq!(session.rows(history).await, [[alter, "cancelled"]]);
    assert_eq!(session.value("SELECT count(DISTINCT actor_id) FROM tidegate.split_assignments").await, "2");
    assert_all(&server, &session, rows).await;
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_while_an_alter_waits_for_an_actor_at_its_barrier() {
    let rows = Rows::create(4, 50);
    let dir = two_actors(&rows).await;
    // A source actor that never reports: the barrier is never complete, nor is the last one of the engine.
    let stuck = [("TIDEGATE_FAILPOINT", "source-reports:pause")];
    ends_while_an_alter_waits(&rows, Server::start_on(dir.path(), &[], &stuck)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_while_an_alter_waits_for_a_second_checkpoint() {
    let rows = Rows::create(4, 50);
    let dir = two_actors(&rows).await;
    // After a recovery an ALTER waits for the second checkpoint of the actors, and the tick that makes it is far away.
    let flags = ["--barrier-interval-ms", "600000"];
    ends_while_an_alter_waits(&rows, Server::start_on(dir.path(), &flags, &[])).await;
}

/// The commit itself doesn't come back: there is no telling, and still the process ends.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_while_the_coordinator_is_stuck_behind_a_commit() {
    let rows = Rows::create(4, 50);
    let dir = two_actors(&rows).await;
    let mut server = Server::start_on(dir.path(), &[], &[("TIDEGATE_FAILPOINT", "commit-known:pause")]);
    let session = server.connect().await;
    let watcher = server.connect().await;
    let waiting = tokio::spawn(async move { session.0.simple_query("ALTER SOURCE s SET PARALLELISM = 4").await.err() });
    let committed = "SELECT count(*) FROM tidegate.rescale_history WHERE decision = 'committed'";
    watcher.wait_for(committed, "1").await;
    assert_eq!(server.terminate().code(), Some(0));
    // It was committed, so it must not be called cancelled.
    let told = waiting.await.unwrap().expect("nobody could know that it was done");
    assert!(told.as_db_error().is_none_or(|error| error.code().code() == "57P01"), "{told:?}");
    assert_books(dir.path());
    let server = Server::start_on(dir.path(), &[], &[]);
    let session = server.connect().await;
    assert_eq!(session.value(committed).await, "1");
    assert_eq!(session.value("SELECT count(*) FROM tidegate.rescale_history").await, "1");
    assert_all(&server, &session, &rows).await;
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

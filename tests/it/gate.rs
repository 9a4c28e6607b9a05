//! The gate: what it refuses, what it waits for, and what it does when the state table itself is damaged.

use rusqlite::Connection;

use crate::server::{Server, Session};

const UNFINISHED: &str = r#"{"num_consumed_rows": 530, "state": {"Backfilling": "529"}, "target_offset": "9999"}"#;
const SAID: &str = "Unexpected backfill state: BackfillStateWithProgress { state: Backfilling(Some(\"529\")), num_consumed_rows: 530, target_offset: Some(\"9999\") }";

/// A source of four splits on two actors, and a view that is held back (rate limit 0) or not.
async fn source_and_view(session: &Session, limit: &str) {
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session
        .run(
            "CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION)
             WITH (connector = 'datagen', splits = 4, rows_per_split = 1000) FORMAT PLAIN ENCODE JSON",
        )
        .await;
    session
        .run(&format!("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = {limit}) AS SELECT id, amount FROM s"))
        .await;
}

async fn wait_until_forwarding(session: &Session) {
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE stage = 'forwarding'", "4").await;
}

/// Overwrites a row of the state table, as a partly persisted recovery would leave it.
fn overwrite(server: &Server, state: Option<&str>) {
    let file = Connection::open(server.data_dir().join("tidegate.db")).unwrap();
    file.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let changed = match state {
        Some(state) => file.execute("UPDATE backfill_states SET state = ?1 WHERE split_id = '3'", [state]),
        None => file.execute("DELETE FROM backfill_states WHERE split_id = '3'", []),
    };
    assert_eq!(changed.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_overwritten_by_hand_is_refused_listed_and_survived() {
    let mut server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "DEFAULT").await;
    wait_until_forwarding(&session).await;
    overwrite(&server, Some(UNFINISHED));

    let listed = "SELECT count(*) FROM tidegate.invariant_violations WHERE job_name = 'mv' AND split_id = '3'";
    session.wait_for(listed, "1").await;
    let told = session.error("ALTER SOURCE s SET PARALLELISM = 4").await;
    assert_eq!((told.sqlstate.as_str(), told.message.as_str()), ("55000", SAID));
    assert!(told.detail.contains("split \"3\" of materialized view \"mv\""), "{told:?}");
    // A person has to act, so waiting is no way either.
    let told = session.error("ALTER SOURCE s SET PARALLELISM = 4 DEFERRED").await;
    assert_eq!(told.message, SAID);
    assert_eq!(session.value(listed).await, "1", "reported once");
    assert_eq!(session.value("SELECT state ->> 'num_consumed_rows' FROM tidegate.invariant_violations").await, "530");

    // The server serves on, and a restart doubles nothing.
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "4000");
    server.kill_and_restart();
    let session = server.connect().await;
    session.run("FLUSH").await;
    session.run("RECOVER").await;
    session.run("FLUSH").await;
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "4000");
    assert_eq!(session.error("ALTER SOURCE s SET PARALLELISM = 4").await.message, SAID);
    // Recreating the view heals it.
    session.run("DROP MATERIALIZED VIEW mv").await;
    session.run("SET background_ddl = false; CREATE MATERIALIZED VIEW mv AS SELECT id, amount FROM s").await;
    session.wait_for("SELECT tidegate.can_rescale('s', '4')", "t").await;
    session.run("ALTER SOURCE s SET PARALLELISM = 4").await;
    assert_eq!(session.value("SELECT count(DISTINCT id) FROM mv").await, "4000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_no_state_is_reported_and_blocks() {
    let server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "DEFAULT").await;
    wait_until_forwarding(&session).await;
    overwrite(&server, Some("{\"state\": \"Half"));
    session.wait_for("SELECT count(*) FROM tidegate.invariant_violations WHERE split_id = '3'", "1").await;
    let told = session.error("ALTER SOURCE s SET PARALLELISM = 4").await;
    assert_eq!(told.sqlstate, "55000");
    assert!(told.message.contains("{\"state\": \"Half"), "the content is shown: {told:?}");
    assert_eq!(session.value("SELECT count(*) FROM tidegate.split_backfill_progress").await, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_state_row_is_not_a_new_split() {
    let server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "DEFAULT").await;
    wait_until_forwarding(&session).await;
    overwrite(&server, None);
    let decision =
        "SELECT decision FROM tidegate.check_rescale('s', '4') WHERE check_name = 'every_split_has_a_known_state'";
    session.wait_for(decision, "unknown").await;
    assert_eq!(session.error("ALTER SOURCE s SET PARALLELISM = 4").await.sqlstate, "55000");
    session.wait_for("SELECT count(*) FROM tidegate.invariant_violations WHERE split_id = '3'", "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_rescale_survives_a_kill_and_commits_once_it_is_safe() {
    let mut server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "0").await;
    session.run("ALTER SOURCE s SET PARALLELISM = 4 DEFERRED").await;
    let pending = "SELECT count(*) FROM tidegate.pending_rescales WHERE to_parallelism = 4";
    assert_eq!(session.value(pending).await, "1");
    server.kill_and_restart();
    let session = server.connect().await;
    assert_eq!(session.value(pending).await, "1");
    assert_eq!(session.value("SELECT parallelism FROM rw_catalog.rw_fragments WHERE table_id = (SELECT id FROM rw_catalog.rw_sources)").await, "2");
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    session
        .wait_for(
            "SELECT count(*) FROM tidegate.rescale_history WHERE decision = 'committed' AND to_parallelism = 4",
            "1",
        )
        .await;
    session.wait_for("SELECT count(*) FROM mv", "4000").await;
    assert_eq!(session.value("SELECT count(DISTINCT actor_id) FROM tidegate.split_assignments").await, "4");
    assert_eq!(session.value("SELECT count(DISTINCT id) FROM mv").await, "4000");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill() {
    let mut server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "DEFAULT").await;
    session.run("WAIT").await;
    session.wait_for("SELECT tidegate.can_rescale('s', '3')", "t").await;
    session.run("ALTER SOURCE s SET PARALLELISM = 3").await;
    server.kill_and_restart();
    let session = server.connect().await;
    assert_eq!(session.value("SELECT count(*) FROM rw_catalog.rw_actors a JOIN rw_catalog.rw_sources s ON true JOIN rw_catalog.rw_fragments f ON f.table_id = s.id AND f.fragment_id = a.fragment_id").await, "3");
    assert_eq!(session.value("SELECT decision FROM tidegate.rescale_history").await, "committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_but_tells_the_same() {
    let server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "0").await;
    let verdicts = "SELECT split_id, verdict, decision FROM tidegate.check_rescale('s', '4') WHERE split_id IS NOT NULL ORDER BY 1";
    let before = session.rows(verdicts).await;
    let plan = session.rows("EXPLAIN ALTER SOURCE s SET PARALLELISM = 4").await;
    for row in &before {
        let line = format!("split \"{}\": {}, {}", row[0], row[1], row[2]);
        assert!(plan.iter().any(|planned| planned[0].contains(&line)), "{line} is not in {plan:?}");
    }
    let json = session.value("EXPLAIN (FORMAT JSON) ALTER SOURCE s SET PARALLELISM = 4").await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["safe"], false);
    assert_eq!(session.value("SELECT count(*) FROM tidegate.rescale_history").await, "0");
    assert_eq!(session.rows(verdicts).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_alters_at_once_run_one_after_the_other() {
    let server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "DEFAULT").await;
    session.run("WAIT").await;
    session.wait_for("SELECT tidegate.can_rescale('s', '4')", "t").await;
    let (one, two) = (server.connect().await, server.connect().await);
    tokio::join!(one.run("ALTER SOURCE s SET PARALLELISM = 3"), two.run("ALTER SOURCE s SET PARALLELISM = 4"));
    let history = session
        .rows("SELECT from_parallelism, to_parallelism FROM tidegate.rescale_history WHERE decision = 'committed' ORDER BY rescale_id")
        .await;
    assert_eq!(history.len(), 2);
    assert_eq!(history[0][0], "2");
    assert_eq!(history[1][0], history[0][1], "each starts from what the other left: {history:?}");
}

/// Over the extended protocol, where it fails before it is run.
#[tokio::test(flavor = "multi_thread")]
async fn an_alter_in_a_failed_block_is_in_the_history() {
    let server = Server::start();
    let session = server.connect().await;
    source_and_view(&session, "DEFAULT").await;
    let before = session.0.prepare("ALTER SOURCE s SET PARALLELISM = 3").await.unwrap();
    session.run("BEGIN").await;
    session.error("SELECT nope").await;
    let told = session.0.execute(&before, &[]).await.unwrap_err();
    assert_eq!(told.code().unwrap().code(), "25P02");
    let told = session.0.execute("ALTER SOURCE s SET source_rate_limit = 7", &[]).await.unwrap_err();
    assert_eq!(told.code().unwrap().code(), "25P02");
    session.run("ROLLBACK").await;
    assert_eq!(
        session.rows("SELECT statement, decision, sqlstate FROM tidegate.rescale_history ORDER BY rescale_id").await,
        [
            ["ALTER SOURCE s SET PARALLELISM = 3", "refused", "25P02"],
            ["ALTER SOURCE s SET source_rate_limit = 7", "refused", "25P02"],
        ]
    );
}

//! Statements by the simple protocol, and the session's own statements.

use super::{TestServer, error, one, text_rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_select() {
    let server = TestServer::start().await;
    let client = server.client().await;
    assert_eq!(one(&client, "SELECT 1").await, "1");
    assert_eq!(
        text_rows(&client, "SELECT id, name FROM numbers WHERE id > 2 ORDER BY id").await,
        [["3", "three"], ["4", "NULL"], ["5", "five"],]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_statements_stop_at_the_first_error() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let rows = text_rows(&client, "SELECT 1; SELECT 2;; SHOW rescale_policy").await;
    assert_eq!(rows, [["1"], ["2"], ["forwarding"]]);
    assert!(error(&client, "SET rescale_policy = all_finished; SELECT nope; SELECT 1").await.starts_with("42703"));
    // The SET before the error is undone with it.
    assert_eq!(one(&client, "SHOW rescale_policy").await, "forwarding");
    // A syntax error keeps all of the text from running.
    assert!(error(&client, "SET rescale_policy = all_finished; SELEC 1").await.starts_with("42601"));
    assert_eq!(one(&client, "SHOW rescale_policy").await, "forwarding");
    client.batch_execute("SET rescale_policy = all_finished; SELECT 1").await.unwrap();
    assert_eq!(one(&client, "SHOW rescale_policy").await, "all_finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_follow_the_transaction() {
    let server = TestServer::start().await;
    let (client, mut notices) = server.client_with_notices().await;
    client.batch_execute("BEGIN; SET rescale_timeout = '5s'").await.unwrap();
    assert_eq!(one(&client, "SHOW rescale_timeout").await, "5s");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(one(&client, "SHOW rescale_timeout").await, "30s");
    client.batch_execute("BEGIN; SET LOCAL rescale_timeout = '5s'; COMMIT").await.unwrap();
    assert_eq!(one(&client, "SHOW rescale_timeout").await, "30s");
    client.batch_execute("BEGIN; SAVEPOINT a; SET rescale_timeout = 7; ROLLBACK TO a; COMMIT").await.unwrap();
    assert_eq!(one(&client, "SHOW rescale_timeout").await, "30s");
    client.batch_execute("SET LOCAL rescale_timeout = '5s'").await.unwrap();
    assert_eq!(notices.recv().await.unwrap(), "WARNING 25P01: SET LOCAL can only be used in transaction blocks");
    assert_eq!(one(&client, "SHOW rescale_timeout").await, "30s");
    client.batch_execute("SET client_min_messages = error; SET LOCAL rescale_timeout = '5s'").await.unwrap();
    client.batch_execute("RESET client_min_messages; COMMIT").await.unwrap();
    assert_eq!(notices.recv().await.unwrap(), "WARNING 25P01: there is no transaction in progress");
    client.batch_execute("SET TIME ZONE 'Europe/Berlin'; SET search_path = a, \"B\"").await.unwrap();
    assert_eq!(one(&client, "SHOW timezone").await, "Europe/Berlin");
    assert_eq!(one(&client, "SHOW search_path").await, "a, \"B\"");
    client.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(one(&client, "SHOW TIME ZONE").await, "UTC");
    assert!(text_rows(&client, "SHOW ALL").await.len() > 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_block_waits_for_its_end() {
    let server = TestServer::start().await;
    let client = server.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    assert!(error(&client, "SELECT nope").await.starts_with("42703"));
    let aborted = "25P02 current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(error(&client, "SELECT 1").await, aborted);
    assert_eq!(error(&client, "SHOW timezone").await, aborted);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(one(&client, "SELECT 1").await, "1");
    client.batch_execute("BEGIN; SAVEPOINT s").await.unwrap();
    assert!(error(&client, "SELECT nope").await.starts_with("42703"));
    client.batch_execute("ROLLBACK TO s").await.unwrap();
    assert_eq!(one(&client, "SELECT 1").await, "1");
    assert!(error(&client, "RELEASE nosuch").await.starts_with("3B001"));
    client.batch_execute("ROLLBACK").await.unwrap();
    assert!(error(&client, "SAVEPOINT s").await.starts_with("25P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn our_commands() {
    let server = TestServer::start().await;
    let (client, mut notices) = server.client_with_notices().await;
    client.batch_execute("SET application_name = 'me'").await.unwrap();
    let rows = text_rows(&client, "SHOW JOBS").await;
    assert_eq!(rows[0][..2], ["7".to_owned(), "SHOW JOBS, Show(Jobs), me".to_owned()]);
    client.batch_execute("FLUSH").await.unwrap();
    assert_eq!(notices.recv().await.unwrap(), "NOTICE 00000: flushed");
    assert!(error(&client, "CANCEL RESCALE 9").await.starts_with("42704 rescale 9 is not pending"));
    client.batch_execute("BEGIN").await.unwrap();
    let refused = "25001 ALTER SOURCE ... SET PARALLELISM cannot run inside a transaction block | Run it outside BEGIN ... COMMIT. Many drivers begin a block by themselves: then turn autocommit on.";
    assert_eq!(error(&client, "ALTER SOURCE s SET PARALLELISM = 4").await, refused);
    client
        .batch_execute("ROLLBACK; BEGIN; EXPLAIN ALTER SOURCE s SET PARALLELISM = 4; SHOW JOBS; COMMIT")
        .await
        .unwrap();
    client.batch_execute("SET default_transaction_read_only = on").await.unwrap();
    let refused = "25006 cannot execute ALTER SOURCE ... SET PARALLELISM in a read-only transaction";
    assert_eq!(error(&client, "ALTER SOURCE s SET PARALLELISM = 4").await, refused);
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepare_and_execute_as_statements() {
    let server = TestServer::start().await;
    let client = server.client().await;
    client.batch_execute("PREPARE p (bigint) AS SELECT name FROM numbers WHERE id = $1").await.unwrap();
    assert_eq!(one(&client, "EXECUTE p (2)").await, "two");
    assert!(error(&client, "PREPARE p AS SELECT 1").await.starts_with("42P05"));
    assert!(error(&client, "EXECUTE p").await.starts_with("42601"));
    assert!(error(&client, "EXECUTE p ('x')").await.starts_with("22P02 invalid input syntax for type bigint"));
    client.batch_execute("DEALLOCATE p").await.unwrap();
    assert!(error(&client, "EXECUTE p (2)").await.starts_with("26000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_reads_one_snapshot() {
    use std::sync::atomic::Ordering;
    let server = TestServer::start().await;
    let client = server.client().await;
    let taken = || server.planner.snapshots.load(Ordering::SeqCst);
    client.batch_execute("SELECT 1; SELECT 2").await.unwrap();
    assert_eq!(taken(), 2);
    client.batch_execute("BEGIN; SELECT 1; SELECT 2; SELECT 3; COMMIT; SELECT 1").await.unwrap();
    assert_eq!(taken(), 4);
}

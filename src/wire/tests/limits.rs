//! Each limit, hit: the code and the words, and that the server goes on.

use std::time::Duration;

use bytes::BufMut as _;
use tokio::io::AsyncWriteExt as _;

use super::raw::{Raw, code, parse, query};
use super::{TestServer, error, one};
use crate::limits::Limits;

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_its_session_and_no_other() {
    let server = TestServer::start().await;
    let (other, client) = (server.client().await, server.client().await);
    let told = error(&client, "SELECT panics(id) FROM numbers").await;
    assert!(
        told.starts_with("XX000 internal error: the server met a condition that it doesn't expect | Incident "),
        "{told}"
    );
    assert!(client.simple_query("SELECT 1").await.is_err());
    assert_eq!(one(&other, "SELECT 1").await, "1");
    assert_eq!(one(&server.client().await, "SELECT 1").await, "1");
    assert!(server.client().await.query("SELECT panics(id) FROM numbers", &[]).await.is_err());
    assert_eq!(one(&other, "SELECT 2").await, "2");
    while server.shared.sessions.len() > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_too_long() {
    let server = TestServer::with_limits(Limits { statement_length: 1000, ..Limits::default() }).await;
    let client = server.client().await;
    let long = format!("SELECT '{}'", "x".repeat(1000));
    let expected = "54000 a statement of 1009 bytes is longer than 1000B | Send less at a time, give long lists as \
                    parameters, or raise max_statement_length.";
    assert_eq!(error(&client, &long).await, expected);
    assert_eq!(super::told(&client.prepare(&long).await.unwrap_err()), expected);
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_long() {
    let server = TestServer::with_limits(Limits { message_size: 100_000, ..Limits::default() }).await;
    let mut raw = Raw::connect(&server).await;
    // Only its head: the rest isn't waited for.
    let mut head = vec![b'Q'];
    head.put_i32(2_000_000_000);
    raw.socket.write_all(&head).await.unwrap();
    assert_eq!(code(&raw.message().await.unwrap().1), "54000");
    assert!(raw.message().await.is_none());
    for length in [0, 3, -1, i32::MIN] {
        let mut raw = Raw::connect(&server).await;
        let mut head = vec![b'B'];
        head.put_i32(length);
        raw.socket.write_all(&head).await.unwrap();
        assert_eq!(code(&raw.message().await.unwrap().1), "08P01", "{length}");
        assert!(raw.message().await.is_none());
    }
    // Before there is a session, much less is enough.
    let mut raw = Raw::open(&server).await;
    let mut head = Vec::new();
    head.put_i32(20_000);
    head.put_i32(196_608);
    raw.socket.write_all(&head).await.unwrap();
    assert_eq!(code(&raw.message().await.unwrap().1), "08P01");
    assert!(raw.message().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_messages_that_are_never_sent_to_their_end() {
    let server = TestServer::with_limits(Limits { query_memory: 4 << 20, ..Limits::default() }).await;
    let half = |length: usize| {
        let mut half = vec![b'Q'];
        half.put_i32(30_000_000);
        half.resize(length, b'x');
        half
    };
    let mut first = Raw::connect(&server).await;
    first.socket.write_all(&half(3 << 20)).await.unwrap();
    while server.shared.message_room.available_permits() > 1100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut second = Raw::connect(&server).await;
    second.socket.write_all(&half(2 << 20)).await.unwrap();
    assert_eq!(code(&second.message().await.unwrap().1), "53200");
    // Short ones have room, and so has a long one when the first is gone.
    assert_eq!(one(&server.client().await, "SELECT 1").await, "1");
    drop(first);
    while server.shared.message_room.available_permits() < 4096 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let long = format!("SELECT 1 {}", " ".repeat(900_000));
    let client = server.client().await;
    for _ in 0..10 {
        assert_eq!(one(&client, &long).await, "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_says_who_it_is() {
    let limits = Limits { authentication_timeout: Duration::from_millis(30), ..Limits::default() };
    let server = TestServer::with_limits(limits).await;
    let mut raw = Raw::open(&server).await;
    assert_eq!(code(&raw.message().await.unwrap().1), "08006");
    assert!(raw.message().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_idles() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&[query("SET idle_session_timeout = 30")]).await;
    raw.until_ready().await;
    assert_eq!(code(&raw.message().await.unwrap().1), "57P05");
    let mut raw = Raw::connect(&server).await;
    raw.send(&[query("SET idle_session_timeout = 30; SET idle_in_transaction_session_timeout = 40; BEGIN")]).await;
    raw.until_ready().await;
    assert_eq!(code(&raw.message().await.unwrap().1), "25P03");
    assert!(raw.message().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_of_something_in_a_session() {
    let limits = Limits { prepared_statements: 3, cursors: 2, ..Limits::default() };
    let server = TestServer::with_limits(limits).await;
    let client = server.client().await;
    client.batch_execute("PREPARE a AS SELECT 1; PREPARE b AS SELECT 1; PREPARE c AS SELECT 1").await.unwrap();
    assert!(error(&client, "PREPARE d AS SELECT 1").await.starts_with("53400 there are 3 prepared statements already"));
    client.batch_execute("DEALLOCATE a; PREPARE d AS SELECT 1").await.unwrap();
    client.batch_execute("BEGIN; DECLARE a CURSOR FOR SELECT 1; DECLARE b CURSOR FOR SELECT 1").await.unwrap();
    assert!(error(&client, "DECLARE c CURSOR FOR SELECT 1").await.starts_with("53400 there are 2 cursors already"));
    client.batch_execute("ROLLBACK").await.unwrap();
    // In the extended protocol too.
    let mut raw = Raw::connect(&server).await;
    raw.send(&[parse("a", "SELECT 1"), parse("b", "SELECT 1"), parse("c", "SELECT 1"), parse("d", "SELECT 1")]).await;
    raw.send(&[(b'S', bytes::Bytes::new())]).await;
    assert_eq!(raw.until_ready().await, "1 1 1 E(53400) ZI");
    let bind = |portal| super::raw::bind(portal, "a", &[]);
    raw.send(&[bind("a"), bind("b"), bind("c"), (b'S', bytes::Bytes::new())]).await;
    assert_eq!(raw.until_ready().await, "2 2 E(53400) ZI");
    let savepoints: String = (0..1001).map(|n| format!("SAVEPOINT s{n};")).collect();
    assert!(error(&client, &format!("BEGIN; {savepoints}")).await.starts_with("53400 there are 1000 savepoints"));
    client.batch_execute("ROLLBACK").await.unwrap();
    let settings: String = (0..1100).map(|n| format!("SET my.x{n} = 1;")).collect();
    assert!(error(&client, &settings).await.starts_with("53400 there are 1000 settings"));
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_cursor_keeps() {
    let server = TestServer::start().await;
    let client = server.client().await;
    client.batch_execute("SET statement_memory = '64kB'").await.unwrap();
    let declare = "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM generate_series(1, 1000000000000)";
    assert!(error(&client, declare).await.starts_with("53200 out of memory: the rows of a cursor need more than 64kB"));
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 1000000000000)").await.unwrap();
    assert!(error(&client, "FETCH ALL FROM c").await.starts_with("53200"));
}

/// However deep, in both protocols: an error, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn deep_nesting_in_both_protocols() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let nested = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(5000), close.repeat(5000));
    for sql in [
        format!("SELECT {}", nested("(", "1", ")")),
        format!("SELECT {}", nested("ARRAY[", "1", "]")),
        format!("SELECT {}", nested("(SELECT ", "1", ")")),
        format!("SELECT 1{}", " + 1".repeat(5000)),
        format!("SELECT {}1", "- ".repeat(5000)),
        format!("EXPLAIN SELECT {}", nested("(", "1", ")")),
        format!("PREPARE p AS SELECT {}", nested("(", "1", ")")),
        format!("EXECUTE p ({})", nested("(", "1", ")")),
        format!("DECLARE c CURSOR FOR SELECT {}", nested("(", "1", ")")),
        format!("CREATE MATERIALIZED VIEW v AS SELECT {} FROM s", nested("(", "1", ")")),
        format!(
            "CREATE SOURCE s (a {}) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON",
            nested("struct<a ", "int", ">")
        ),
        format!("ALTER SOURCE s SET PARALLELISM = {}", nested("(", "1", ")")),
        format!("SET my.x = {}", nested("(", "1", ")")),
        format!("SHOW {}", nested("(", "1", ")")),
        format!("FETCH {} FROM c", nested("(", "1", ")")),
    ] {
        let simple = error(&client, &sql).await;
        assert!(["54001", "42601", "0A000"].contains(&&simple[..5]), "{simple}: {}", &sql[..40]);
        let extended = super::told(&client.prepare(&sql).await.unwrap_err());
        assert_eq!(simple[..5], extended[..5], "{}", &sql[..40]);
    }
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

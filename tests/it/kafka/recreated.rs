//! A topic that was deleted and made anew is another one, whose offsets mean nothing.

use super::broker::Broker;
use super::topic::Topic;
use super::{blocked, finished, view};
use crate::server::{Server, Session};

/// A source of 100 rows that are all in the view, and beside it one that must go on whatever happens.
async fn read_all(server: &Server, topic: &Topic) -> Session {
    topic.send(0, 0..100);
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run(&view(topic, "")).await;
    finished(&session, 1).await;
    session.wait_for("SELECT count(*) FROM mv", "100").await;
    session
        .run(
            "CREATE SOURCE other (id BIGINT) WITH (connector = 'datagen', splits = 1, rows_per_second = 100)
             FORMAT PLAIN ENCODE JSON",
        )
        .await;
    session.run("SET background_ddl = true").await;
    session.run("CREATE MATERIALIZED VIEW others AS SELECT id FROM other").await;
    session
}

/// Says so, reads nothing, and holds up nobody else.
async fn is_told_and_not_read(session: &Session) {
    blocked(session, "made anew").await;
    let others: i64 = session.value("SELECT count(*) FROM others").await.parse().unwrap();
    session.wait_for(&format!("SELECT count(*) > {} FROM others", others + 100), "t").await;
    assert_eq!(session.rows("SELECT count(*), max(n) FROM mv").await, [["100", "99"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_fewer_rows() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "anew_fewer", 1).await;
    let server = Server::start();
    let session = read_all(&server, &topic).await;
    topic.delete().await;
    blocked(&session, "does not exist").await;
    topic.make().await;
    topic.send(0, 1000..1010);
    is_told_and_not_read(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_more_rows() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "anew_more", 1).await;
    let server = Server::start();
    let session = read_all(&server, &topic).await;
    topic.delete().await;
    topic.make().await;
    topic.send(0, 1000..1500);
    is_told_and_not_read(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_server_is_down() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "anew_down", 1).await;
    let mut server = Server::start();
    let session = read_all(&server, &topic).await;
    drop(session);
    server.kill();
    topic.delete().await;
    topic.make().await;
    topic.send(0, 1000..1500);
    server.restart();
    let session = server.connect().await;
    is_told_and_not_read(&session).await;
    // What it tells to do helps.
    session.run(&format!("DROP SOURCE {} CASCADE", topic.name)).await;
    session.run(&topic.source("")).await;
    session.run(&view(&topic, "")).await;
    session.wait_for("SELECT count(*) FROM mv", "500").await;
}

//! Where partitions start, and partitions that come later.

use rdkafka::Offset;
use rdkafka::producer::{BaseRecord, Producer as _};

use super::broker::Broker;
use super::topic::Topic;
use super::{finished, view};
use crate::server::{PATIENCE, Server};

#[tokio::test(flavor = "multi_thread")]
async fn empty_partitions_are_finished_at_once() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "empty_partitions", 4).await;
    topic.send(1, 0..100);
    // Not empty once, but now.
    topic.send(2, 100..200);
    topic.delete_before(2, Offset::End).await;
    let server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run("SET background_ddl = true").await;
    session.run(&view(&topic, "WITH (backfill_rate_limit = 0)")).await;
    let states = "SELECT split_id, state FROM tidegate.split_backfill_progress WHERE split_id <> '1' ORDER BY 1";
    session.wait_for(&format!("SELECT count(*) FROM ({states}) AS s WHERE state = 'Finished'"), "3").await;
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    finished(&session, 4).await;
    topic.send(2, 200..210);
    session.wait_for("SELECT count(*) FROM mv", "110").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_needs_no_backfill() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "latest", 2).await;
    topic.send(0, 0..100);
    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source(", scan.startup.mode = 'latest'")).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 2).await;
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "0");
    topic.send(0, 100..110);
    topic.send(1, 110..115);
    session.wait_for("SELECT count(*) FROM mv", "15").await;
    server.kill_and_restart();
    let session = server.connect().await;
    topic.send(1, 115..120);
    session.wait_for("SELECT count(*) FROM mv", "20").await;
    assert_eq!(session.value("SELECT min(n) FROM mv").await, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timestamp_says_where_to_start() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "timestamps", 2).await;
    let producer = topic.producer(&[]);
    for number in 0..100_i64 {
        let value = format!(r#"{{"n": {number}}}"#);
        let record = BaseRecord::<str, str>::to(&topic.name).partition(0).payload(&value);
        super::topic::put(&producer, record.timestamp(1_700_000_000_000 + number * 1000));
    }
    producer.flush(PATIENCE).unwrap();
    let server = Server::start();
    let session = server.connect().await;
    let at = ", scan.startup.mode = 'timestamp', scan.startup.timestamp.millis = '1700000060000'";
    session.run(&topic.source(at)).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 2).await;
    assert_eq!(session.rows("SELECT count(*), min(n) FROM mv").await, [["40", "60"]]);
    assert_eq!(
        session.value("SELECT max(num_consumed_rows) FROM tidegate.split_backfill_progress").await,
        "40",
        "what is older is not read at all"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn new_partitions_need_no_backfill() {
    let Some(broker) = Broker::shared() else { return };
    let mut topic = Topic::create(broker, "growing", 3).await;
    (0..3).for_each(|partition| topic.send(partition, i64::from(partition) * 1000..i64::from(partition) * 1000 + 1000));
    let server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2").await;
    session.run(&topic.source("")).await;
    session.run("SET background_ddl = true").await;
    // One grows while it is backfilled.
    session.run(&view(&topic, "WITH (backfill_rate_limit = 0)")).await;
    topic.grow(4).await;
    topic.send(3, 3000..3100);
    let new = "SELECT count(*) FROM tidegate.split_backfill_progress WHERE split_id = '3' AND state = 'Finished'";
    session.wait_for(new, "1").await;
    session.wait_for("SELECT count(*) FROM mv", "100").await;
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    finished(&session, 4).await;
    // And one when all is done.
    topic.grow(6).await;
    topic.send(4, 3100..3200);
    topic.send(5, 3200..3300);
    finished(&session, 6).await;
    session.wait_for("SELECT count(*) FROM mv", "3300").await;
    assert_eq!(session.value("SELECT count(DISTINCT n) FROM mv").await, "3300");
    let loads = "SELECT count(*) FROM tidegate.split_assignments GROUP BY actor_id ORDER BY 1";
    assert_eq!(session.rows(loads).await, [["3"], ["3"]]);
    let read = "SELECT sum(num_consumed_rows) FROM tidegate.split_backfill_progress WHERE split_id >= '3'";
    assert_eq!(session.value(read).await, "0");
}

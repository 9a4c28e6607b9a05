//! Offsets without rows: transactions, compaction, retention.

use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::producer::{BaseRecord, Producer as _};

use super::broker::Broker;
use super::topic::{Topic, put};
use super::{finished, view};
use crate::server::{PATIENCE, Server};

#[tokio::test(flavor = "multi_thread")]
async fn committed_and_aborted_transactions() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "transactions", 3).await;
    // Ends in an aborted transaction, that is in rows that nobody may see and a control record.
    topic.transaction(0, 0..100, true);
    topic.transaction(0, 1000..1050, false);
    topic.transaction(0, 100..200, true);
    topic.transaction(0, 1050..1080, false);
    // Nothing but an aborted one.
    topic.transaction(1, 1080..1090, false);
    // Two at a time, of which one is aborted.
    let kept = topic.open_transaction("kept", 2, 200..250);
    let lost = topic.open_transaction("lost", 2, 1090..1120);
    topic.send_by(&kept, 2, 250..300);
    topic.send_by(&lost, 2, 1120..1150);
    kept.flush(PATIENCE).unwrap();
    lost.flush(PATIENCE).unwrap();
    kept.commit_transaction(PATIENCE).unwrap();
    lost.abort_transaction(PATIENCE).unwrap();

    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 3).await;
    assert_eq!(session.rows("SELECT count(*), min(n), max(n) FROM mv").await, [["300", "0", "299"]]);
    assert_eq!(session.value("SELECT min(progress_percent) FROM tidegate.split_backfill_progress").await, "100");
    topic.transaction(0, 1150..1160, false);
    topic.transaction(0, 300..310, true);
    session.wait_for("SELECT count(*) FROM mv", "310").await;
    server.kill_and_restart();
    let session = server.connect().await;
    topic.transaction(2, 310..320, true);
    session.wait_for("SELECT count(*) FROM mv", "320").await;
    assert_eq!(session.value("SELECT count(DISTINCT n) FROM mv").await, "320");
}

/// The backfill ends where rows may be read to; what is behind that comes when the transaction ends.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_holds_up_only_what_is_behind_it() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "open_transaction", 1).await;
    topic.transaction(0, 0..50, true);
    let open = topic.open_transaction("open", 0, 50..70);
    topic.send(0, 70..100);
    let server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 1).await;
    session.run("FLUSH").await;
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "50");
    open.commit_transaction(PATIENCE).unwrap();
    session.wait_for("SELECT count(*) FROM mv", "100").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_uncommitted_shows_what_was_aborted() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "uncommitted", 1).await;
    topic.transaction(0, 0..50, true);
    topic.transaction(0, 50..70, false);
    let server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source(", properties.isolation.level = 'read_uncommitted'")).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 1).await;
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "70");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_topic_with_gaps_and_tombstones() {
    let Some(broker) = Broker::shared() else { return };
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "300"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "0"),
    ];
    let topic = Topic::create_with(broker, "compacted", 1, &settings).await;
    let producer = topic.producer(&[]);
    let keyed = |key: i64, value: Option<&str>| {
        let key = key.to_string();
        let record = BaseRecord::to(&topic.name).partition(0).key(key.as_str());
        put(
            &producer,
            value.map_or(record, |value| BaseRecord::to(&topic.name).partition(0).key(key.as_str()).payload(value)),
        );
    };
    for round in 0..20 {
        for key in 0..100 {
            keyed(key, Some(&format!(r#"{{"n": {key}, "text": "{round}"}}"#)));
        }
    }
    (50..100).for_each(|key| keyed(key, None));
    producer.flush(PATIENCE).unwrap();
    // What comes after some time closes the segment before it, which may then be compacted. The last rows are
    // tombstones, and behind them is the control record of a transaction.
    tokio::time::sleep(Duration::from_millis(400)).await;
    topic.transaction(0, 1000..1001, true);
    let since = Instant::now();
    while topic.messages(0).len() > 150 {
        assert!(since.elapsed() < PATIENCE, "the broker does not compact");
        // Each closes a segment in its turn.
        keyed(99, None);
        producer.flush(PATIENCE).unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 1).await;
    assert_eq!(
        session.rows("SELECT count(DISTINCT n), min(n), max(text) FROM mv WHERE n < 50").await,
        [["50", "0", "19"]]
    );
    assert_eq!(session.value("SELECT count(*) FROM mv WHERE n = 1000").await, "1");
    // A plain consumer that starts now may meet fewer of them.
    let there = topic.messages(0).iter().filter(|(_, value)| value.is_some()).count();
    let counted: usize = session.value("SELECT count(n) FROM mv").await.parse().unwrap();
    assert!(counted >= there && counted <= 151, "{counted} rows, {there} messages");
    assert_eq!(session.value("SELECT count(*) FROM tidegate.bad_rows").await, "0");
}

/// What was deleted while a slow backfill ran is skipped, told, and counted.
#[tokio::test(flavor = "multi_thread")]
async fn retention_that_deletes_the_start_of_a_backfill() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "retention", 1).await;
    topic.send(0, 0..20_000);
    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run("SET background_ddl = true").await;
    session.run(&view(&topic, "WITH (backfill_rate_limit = 200)")).await;
    session.wait_for("SELECT count(*) > 100 FROM mv", "t").await;
    session.run("FLUSH").await;
    // A process that has fetched nothing ahead.
    server.kill();
    topic.delete_before(0, Offset::Offset(15_000)).await;
    server.restart();
    let session = server.connect().await;
    session.wait_for("SELECT count(*) > 0 FROM mv WHERE n >= 15000", "t").await;
    session.wait_for("SELECT low_watermark FROM tidegate.split_backfill_progress", "15000").await;
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    finished(&session, 1).await;
    assert_eq!(session.rows("SELECT count(*), max(n) FROM mv WHERE n >= 15000").await, [["5000", "19999"]]);
    let before: i64 = session.value("SELECT count(*) FROM mv WHERE n < 15000").await.parse().unwrap();
    assert_eq!(session.value("SELECT max(n) FROM mv WHERE n < 15000").await, (before - 1).to_string());
    let gaps =
        "SELECT split_id, job_name, from_offset, to_offset, offsets FROM tidegate.split_gaps WHERE job_name = 'mv'";
    let gap = (15_000 - before).to_string();
    assert_eq!(session.rows(gaps).await, [["0", "mv", &before.to_string(), "15000", &gap]]);
    let events = "SELECT count(*) > 0 FROM rw_catalog.rw_event_logs WHERE event_type <> 'RECOVERY'";
    assert_eq!(session.value(events).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_whose_rows_are_all_deleted_finishes() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "all_deleted", 1).await;
    topic.send(0, 0..5_000);
    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run("SET background_ddl = true").await;
    session.run(&view(&topic, "WITH (backfill_rate_limit = 100)")).await;
    session.wait_for("SELECT count(*) > 10 FROM mv", "t").await;
    server.kill();
    topic.delete_before(0, Offset::End).await;
    server.restart();
    let session = server.connect().await;
    finished(&session, 1).await;
    topic.send(0, 5_000..5_010);
    session.wait_for("SELECT count(*) FROM mv WHERE n >= 5000", "10").await;
}

//! What becomes of a message: INCLUDE, ENCODE BYTES, codecs, tombstones, rubbish.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};

use super::broker::Broker;
use super::topic::{Topic, put};
use super::{finished, view};
use crate::server::{PATIENCE, Server};

#[tokio::test(flavor = "multi_thread")]
async fn every_part_of_a_message_can_be_included() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "parts", 2).await;
    let producer = topic.producer(&[]);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "trace", value: Some("abc") })
        .insert(Header { key: "none", value: None::<&str> });
    let record = BaseRecord::to("parts").partition(1).timestamp(1_700_000_000_123).headers(headers);
    put(&producer, record.key("k1").payload(r#"{"n": 1, "text": "one"}"#));
    put(&producer, BaseRecord::to("parts").partition(1).key("k2").timestamp(1_700_000_001_000));
    put(&producer, BaseRecord::to("parts").partition(0).key("k3").payload("rubbish"));
    producer.flush(PATIENCE).unwrap();
    let server = Server::start();
    let session = server.connect().await;
    session
        .run(&topic.source("").replace(
            ") WITH",
            ") INCLUDE KEY AS k INCLUDE PARTITION AS p INCLUDE OFFSET AS o INCLUDE TIMESTAMP AS t
             INCLUDE HEADER AS h INCLUDE HEADER 'trace' AS trace WITH",
        ))
        .await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n, text, k, p, o, t, h, trace FROM parts").await;
    finished(&session, 2).await;
    let rows = session.rows("SELECT n, text, k, p, o, t, h, trace FROM mv ORDER BY o").await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0][..5], ["1", "one", "\\x6b31", "1", "0"]);
    assert_eq!(rows[0][5], "2023-11-14 22:13:20.123+00");
    assert!(rows[0][6].contains("trace") && rows[0][6].contains("616263"), "{rows:?}");
    assert_eq!(rows[0][7], "\\x616263");
    assert_eq!(rows[1][..5], ["NULL", "NULL", "\\x6b32", "1", "1"], "a tombstone");
    assert_eq!(session.rows("SELECT split_id, text FROM tidegate.bad_rows").await, [["0", "rubbish"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_come_as_they_are() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "raw_bytes", 1).await;
    let producer = topic.producer(&[]);
    put(&producer, BaseRecord::to("raw_bytes").key("k").payload("\u{1}any\u{7f}"));
    producer.flush(PATIENCE).unwrap();
    let server = Server::start();
    let session = server.connect().await;
    let source = topic.source("").replace("(n BIGINT, text VARCHAR)", "(raw BYTEA)");
    session.run(&source.replace("ENCODE JSON", "ENCODE BYTES")).await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT raw FROM raw_bytes").await;
    finished(&session, 1).await;
    assert_eq!(session.rows("SELECT raw FROM mv").await, [["\\x01616e797f"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_codec_is_read() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "codecs", 1).await;
    for (nth, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let producer = topic.producer(&[("compression.type", codec)]);
        let first = i64::try_from(nth).unwrap() * 1000;
        topic.send_by(&producer, 0, first..first + 1000);
        producer.flush(PATIENCE).unwrap();
    }
    let server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 1).await;
    assert_eq!(session.rows("SELECT count(*), sum(n) FROM mv").await, [["5000", "12497500"]]);
}

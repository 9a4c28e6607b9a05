//! A broker that is down, a topic that isn't there.

use super::broker::Broker;
use super::topic::Topic;
use super::{blocked, finished, view};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_and_comes_back() {
    let Some(mut broker) = Broker::start() else { return };
    let topic = Topic::create(&broker, "down", 2).await;
    topic.send(0, 0..5_000);
    topic.send(1, 5_000..10_000);
    let server = Server::start();
    let session = server.connect().await;
    session.run(&topic.source("")).await;
    session.run("SET background_ddl = true").await;
    session.run(&view(&topic, "WITH (backfill_rate_limit = 500)")).await;
    session.wait_for("SELECT count(*) > 100 FROM mv", "t").await;
    broker.stop();
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    let other = "CREATE SOURCE other (id BIGINT)
                 WITH (connector = 'datagen', splits = 1, rows_per_split = 100) FORMAT PLAIN ENCODE JSON";
    session.run(other).await;
    session.run("CREATE MATERIALIZED VIEW others AS SELECT id FROM other").await;
    session.wait_for("SELECT count(*) FROM others", "100").await;
    blocked(&session, "can't be reached").await;
    let error = session.error(&topic.source("").replace("SOURCE down", "SOURCE again")).await;
    assert!(error.message.contains("again") && error.detail.contains("can't be reached"), "{error:?}");
    broker.start_again();
    finished(&session, 2).await;
    topic.send(1, 10_000..10_010);
    session.wait_for("SELECT count(*) FROM mv", "10010").await;
    assert_eq!(session.value("SELECT count(DISTINCT n) FROM mv").await, "10010");
    assert_eq!(session.rows("SELECT message FROM tidegate.invariant_violations").await, Vec::<Vec<String>>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_missing() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "there", 1).await;
    let server = Server::start();
    let session = server.connect().await;
    let error = session.error(&topic.source("").replace("topic = 'there'", "topic = 'not_there'")).await;
    assert!(error.detail.contains("topic \"not_there\" does not exist"), "{error:?}");
    assert_eq!(session.value("SELECT count(*) FROM rw_catalog.rw_sources").await, "0");
    session.run(&topic.source("")).await;
}

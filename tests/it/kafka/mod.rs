//! Kafka's topics as sources: against librdkafka's mock cluster (`mock`), and against a real Apache Kafka broker, which
//! `tests/clients/kafka/fetch.sh` fetches.
//!
//! Without its jars (or without Java) each test of the latter says that it was skipped, and passes.

mod broker;
mod failures;
mod flights;
mod mock;
mod partitions;
mod positions;
mod recreated;
mod rows;
mod security;
mod topic;

use std::time::Instant;

use crate::server::{PATIENCE, Session};
use topic::Topic;

/// A view `mv` of all rows of a topic's source.
fn view(topic: &Topic, with: &str) -> String {
    format!("CREATE MATERIALIZED VIEW mv {with} AS SELECT n, text FROM {}", topic.name)
}

/// Waits until so many splits are there and Finished.
async fn finished(session: &Session, splits: usize) {
    let states = "SELECT count(*) FILTER (WHERE state = 'Finished') || ' of ' || count(*)
                  FROM tidegate.split_backfill_progress WHERE job_name <> 'others'";
    session.wait_for(states, &format!("{splits} of {splits}")).await;
}

/// Waits until a split says that this is what holds it.
async fn blocked(session: &Session, by: &str) {
    let since = Instant::now();
    loop {
        let told = session.rows("SELECT blocked_by FROM tidegate.split_backfill_progress").await;
        if told.iter().any(|told| told[0].to_lowercase().contains(by)) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "no split is blocked by {by:?} but: {told:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

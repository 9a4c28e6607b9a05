//! Messages from librdkafka's queue.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::Message as _;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;

use super::super::client::{self, Client};
use crate::engine::embedded::pace::MAX_CHUNK_ROWS;

/// Bytes of messages that are decoded at once, but for one that is larger.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// What was polled at once.
#[derive(Default)]
pub struct Batch<'c> {
    /// The messages of every partition, in offset order.
    pub messages: BTreeMap<i32, Vec<BorrowedMessage<'c>>>,
    /// Partitions that were read to their end, with the next offset there.
    pub ends: BTreeMap<i32, i64>,
    /// Partitions that were read to their end.
    pub heard: Vec<i32>,
    /// What went wrong, behind all of these.
    pub error: Option<KafkaError>,
    /// Whether there may be more at once.
    pub more: bool,
}

impl<'c> Batch<'c> {
    /// Takes what has been fetched, without waiting.
    pub fn poll(client: &'c Client) -> Self {
        let mut batch = Self::default();
        let (mut rows, mut bytes) = (0, 0);
        while rows < MAX_CHUNK_ROWS && bytes < MAX_CHUNK_BYTES {
            match client.poll(Duration::ZERO) {
                None => return batch,
                Some(Ok(message)) => {
                    rows += 1;
                    bytes += message.payload_len() + message.key_len();
                    batch.messages.entry(message.partition()).or_default().push(message);
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    batch.heard.push(partition);
                    if let Some(end) = client.context().take_end() {
                        batch.ends.insert(partition, end);
                    }
                }
                Some(Err(error)) if client::concerns_group(&error) || client::is_transport(&error) => {}
                Some(Err(error)) => {
                    batch.error = Some(error);
                    break;
                }
            }
        }
        batch.more = true;
        batch
    }
}

//! Kafka: a topic is a source, a partition a split, and offsets are Kafka's own.
//!
//! - `lookout`: how far the partitions are, and whether they are those that were read before.
//! - `reader`: their messages, one consumer an actor, on a thread of its own.
//! - `state`: what both know together. `client`: librdkafka's consumers. `decode`: messages to rows.
//!
//! Nothing is committed to Kafka and no group is joined: which actor reads which partition, and from where, is the
//! engine's to say.

mod client;
pub mod decode;
mod lookout;
pub mod options;
mod properties;
mod reader;
mod state;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{Connector, Reader, Watermarks};
use crate::backfill::id::{Offset, SplitId};
use crate::error::{Error, Result};
use decode::Decoder;
use lookout::Seen;
use options::Settings;
use state::{Known, Memory, Partition, lock};

/// A topic.
pub struct Kafka {
    shared: Arc<Shared>,
    /// Asks the look-out, which starts when it is first asked.
    lookout: Mutex<Option<Sender<oneshot::Sender<Seen>>>>,
}

/// What the look-out and the readers of a source have in common.
struct Shared {
    settings: Settings,
    source: String,
    decoder: Decoder,
    known: Known,
    /// Whether the source has been made, so that what it remembers is all that it had.
    made: AtomicBool,
}

impl Shared {
    fn is_made(&self) -> bool {
        self.made.load(Ordering::Relaxed)
    }
}

impl Kafka {
    /// A connector for a topic. Nothing is connected yet.
    pub fn new(settings: Settings, source_name: &str, decoder: Decoder) -> Self {
        let shared = Shared {
            settings,
            source: source_name.to_owned(),
            decoder,
            known: Known::default(),
            made: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), lookout: Mutex::default() }
    }

    fn unreachable(&self, detail: String) -> Error {
        Error::SourceUnreachable { source_name: self.shared.source.clone(), detail }
    }

    fn ask(&self) -> std::io::Result<oneshot::Receiver<Seen>> {
        let mut lookout = lock(&self.lookout);
        let asked = match lookout.take() {
            Some(asked) => asked,
            None => lookout::start(Arc::clone(&self.shared))?,
        };
        let (reply, answer) = oneshot::channel();
        // One that has died is told by its answer that doesn't come.
        if asked.send(reply).is_ok() {
            *lookout = Some(asked);
        }
        Ok(answer)
    }
}

#[async_trait]
impl Connector for Kafka {
    async fn discover(&self) -> Result<BTreeMap<SplitId, Result<Watermarks, String>>> {
        let answer = self.ask().map_err(|error| self.unreachable(error.to_string()))?;
        let seen = answer.await.map_err(|_| Error::Internal("a source's look-out has ended".into()))?;
        let seen = seen.map_err(|error| self.unreachable(error))?;
        Ok(seen
            .into_iter()
            .map(|(partition, seen)| (split_of(partition), seen.map(|seen| watermarks(&seen))))
            .collect())
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(reader::KafkaReader::new(Arc::clone(&self.shared)))
    }

    fn remember(&self, memories: &BTreeMap<SplitId, Option<String>>) {
        let mut known = self.shared.known.lock();
        for (split, memory) in memories {
            let Some(partition) = partition_of(split) else { continue };
            // What can't be read is as good as none: it was written by hand.
            let memory = memory.as_deref().and_then(|memory| serde_json::from_str(memory).ok());
            known.insert(partition, Partition::new(memory.unwrap_or_default()));
        }
        self.shared.made.store(true, Ordering::Relaxed);
    }

    fn memories(&self) -> BTreeMap<SplitId, Option<Arc<str>>> {
        let known = self.shared.known.lock();
        known.iter().map(|(partition, known)| (split_of(*partition), text_of(&known.memory))).collect()
    }
}

fn split_of(partition: i32) -> SplitId {
    SplitId::from(partition.to_string())
}

fn partition_of(split: &SplitId) -> Option<i32> {
    split.as_str().parse().ok()
}

/// What the source has of a partition: nothing before its start.
fn watermarks(seen: &Partition) -> Watermarks {
    let (low, high) = seen.marks.unwrap_or_default();
    let low = low.max(seen.memory.start.unwrap_or(low));
    let high = high.max(low);
    Watermarks {
        low: Offset(low),
        high: Offset(high),
        latest: (high > low).then(|| Offset(high - 1)),
        memory: text_of(&seen.memory),
    }
}

/// A memory as it is kept; `None`: there is nothing to be known.
fn text_of(memory: &Memory) -> Option<Arc<str>> {
    if *memory == Memory::default() { None } else { serde_json::to_string(memory).map(Arc::from).ok() }
}

#[cfg(test)]
mod tests;

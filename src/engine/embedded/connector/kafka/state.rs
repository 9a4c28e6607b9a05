//! What a source's readers and its look-out know of its partitions, together.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::Message as _;
use rdkafka::message::BorrowedMessage;
use serde::{Deserialize, Serialize};

/// A lock that a panic elsewhere doesn't poison: what it holds is right after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has to be known of a partition after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The first offset that belongs to the source; `None`: all that the broker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// A message that has been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
}

/// What tells a message from any other at its offset. Kafka's own id of a topic can't be asked for through this
/// library, so this is how a topic is known again that was deleted and made anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its offset.
    pub offset: i64,
    /// Its time in milliseconds since 1970 UTC, or -1.
    pub time: i64,
    /// A hash of its key and value.
    pub hash: u64,
}

impl Mark {
    /// The mark of a message.
    pub fn of(message: &BorrowedMessage<'_>) -> Self {
        let time = message.timestamp().to_millis().unwrap_or(-1);
        Self { offset: message.offset(), time, hash: hash(message.key(), message.payload()) }
    }
}

/// The same in every version: the hash is kept in the state file. FNV-1a, over lengths too.
fn hash(key: Option<&[u8]>, payload: Option<&[u8]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for part in [key, payload] {
        part.map_or(-1, |part| part.len() as i64).to_le_bytes().into_iter().for_each(&mut add);
        part.unwrap_or_default().iter().copied().for_each(&mut add);
    }
    hash
}

/// Whether a partition is the one that was read before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Not known at this moment: nothing is read until it is.
    Doubtful,
    /// It is, or nothing of it was read that could tell.
    Same,
    /// It isn't; why, and what to do.
    Other(String),
}

/// What is known of a partition.
#[derive(Debug, Clone)]
pub struct Partition {
    /// What is kept.
    pub memory: Memory,
    /// Its first and its end offset, once it was asked.
    pub marks: Option<(i64, i64)>,
    /// Whether it is the one that was read before.
    pub identity: Identity,
    /// Why it can't be asked now.
    pub trouble: Option<String>,
}

impl Partition {
    /// One that was never asked.
    pub fn new(memory: Memory) -> Self {
        Self { memory, marks: None, identity: Identity::Doubtful, trouble: None }
    }

    /// The first offset that can be read and belongs to the source.
    pub fn first(&self) -> Option<i64> {
        self.marks.map(|(low, _)| low.max(self.memory.start.unwrap_or(0)))
    }
}

/// The partitions of a source.
#[derive(Default)]
pub struct Known {
    partitions: Mutex<BTreeMap<i32, Partition>>,
}

impl Known {
    /// All partitions, to look at and to change. Not to be held while anything is waited for.
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Partition>> {
        lock(&self.partitions)
    }

    /// Whether what was fetched of a partition may be told. Keeps the mark of its last message first: whoever is told
    /// how far the reader is finds the mark that goes with it.
    pub fn may_tell(&self, partition: i32, last: Option<Mark>) -> bool {
        let mut known = self.lock();
        let Some(known) = known.get_mut(&partition).filter(|known| known.identity == Identity::Same) else {
            return false;
        };
        if let Some(mark) = last
            && known.memory.mark.as_ref().is_none_or(|before| before.offset < mark.offset)
        {
            known.memory.mark = Some(mark);
        }
        true
    }

    /// Has partitions looked at again before anything more is read of them.
    pub fn doubt(&self, partitions: impl IntoIterator<Item = i32>) {
        let mut known = self.lock();
        for partition in partitions {
            if let Some(known) = known.get_mut(&partition)
                && known.identity == Identity::Same
            {
                known.identity = Identity::Doubtful;
            }
        }
    }
}

//! The connector of a replay: it hands out just what it is told to, to the reader that it is told.
//!
//! All runs on one thread, so an actor that takes a chunk has worked on it before anyone else gets a turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use tidegate::backfill::id::{Offset, SplitId};
use tidegate::engine::embedded::connector::{Chunk, Connector, ReadEvent, Reader, Start, Watermarks};
use tidegate::error::Result;
use tokio::sync::Notify;

use super::cell::{Log, after, offset};
use super::world::split_id;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A source's actor.
    Live,
    /// A view's backfill reader.
    Scan,
}

/// A split's entries up to `last`, for the first reader of that role which holds the split.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub role: Role,
    pub split: usize,
    pub last: usize,
}

#[derive(Default)]
struct Outside {
    logs: Vec<Log>,
    /// How many entries of each split exist.
    there: usize,
    offer: Option<Offer>,
    /// The roles of the readers that will be made next: the engine makes them in a fixed order.
    roles: VecDeque<Role>,
    /// What every reader holds, and the last entry that it has read.
    readers: BTreeMap<usize, (Role, BTreeMap<SplitId, Option<Offset>>)>,
    made: usize,
}

/// The source, the connector that reads it, and the hand that deals out its rows.
#[derive(Clone, Default)]
pub struct Hand(Arc<(Mutex<Outside>, Notify, Notify)>);

impl Hand {
    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.0.0.lock().unwrap()
    }

    /// A source whose splits have these entries, of which so many exist.
    pub fn new(logs: &[Log], there: usize) -> Self {
        let hand = Self::default();
        hand.outside().logs = logs.to_vec();
        hand.exist(there);
        hand
    }

    /// So many entries of every split exist from now on.
    pub fn exist(&self, there: usize) {
        self.outside().there = there;
    }

    /// The next readers that the engine makes have this role.
    pub fn expect(&self, role: Role, readers: u8) {
        self.outside().roles.extend(std::iter::repeat_n(role, readers.into()));
    }

    /// Offers entries, and waits until they are taken.
    pub async fn deal(&self, offer: Offer) {
        self.outside().offer = Some(offer);
        let (_, offered, taken) = &*self.0;
        offered.notify_waiters();
        taken.notified().await;
    }

    /// Splits that a reader holds and has not read to the end.
    pub fn unread(&self) -> Vec<(Role, usize)> {
        let outside = self.outside();
        let mut unread = Vec::new();
        for (role, held) in outside.readers.values() {
            for (split, read) in held {
                let split = split.as_str().parse::<usize>().unwrap();
                if after(*read) < outside.logs[split].len() {
                    unread.push((*role, split));
                }
            }
        }
        unread
    }
}

#[async_trait]
impl Connector for Hand {
    async fn discover(&self) -> Result<BTreeMap<SplitId, Result<Watermarks, String>>> {
        let outside = self.outside();
        let high = offset(outside.there);
        let latest = outside.there.checked_sub(1).map(offset);
        let marks = Watermarks { low: Offset(0), high, latest, memory: None };
        Ok((0..outside.logs.len()).map(|split| (split_id(split), Ok(marks.clone()))).collect())
    }

    fn reader(&self) -> Box<dyn Reader> {
        let mut outside = self.outside();
        let role = outside.roles.pop_front().expect("no reader was to be made now");
        let id = outside.made;
        outside.made += 1;
        outside.readers.insert(id, (role, BTreeMap::new()));
        Box::new(HandReader { id, role, hand: self.clone() })
    }
}

struct HandReader {
    id: usize,
    role: Role,
    hand: Hand,
}

#[async_trait]
impl Reader for HandReader {
    fn assign(&mut self, splits: &BTreeMap<SplitId, Start>) {
        let mut outside = self.hand.outside();
        let (_, held) = outside.readers.get_mut(&self.id).unwrap();
        held.retain(|split, _| splits.contains_key(split));
        for (split, start) in splits {
            let read = match start {
                Start::Earliest => None,
                Start::After(offset) => Some(*offset),
            };
            held.entry(split.clone()).or_insert(read);
        }
    }

    async fn next(&mut self, _: usize) -> ReadEvent {
        loop {
            let (_, offered, taken) = &*self.hand.0;
            let again = offered.notified();
            if let Some(chunk) = self.take() {
                taken.notify_one();
                return ReadEvent::Chunk(chunk);
            }
            again.await;
        }
    }
}

impl HandReader {
    fn take(&self) -> Option<Chunk> {
        let mut outside = self.hand.outside();
        let Offer { split, last, .. } = outside.offer.filter(|offer| offer.role == self.role)?;
        let id = split_id(split);
        let read = outside.readers.get_mut(&self.id)?.1.get_mut(&id)?;
        let entries = after(*read)..=last;
        *read = Some(offset(last));
        outside.offer = None;
        let rows: Vec<i64> = entries.filter(|entry| outside.logs[split][*entry]).map(|entry| offset(entry).0).collect();
        Some(Chunk {
            split: id,
            bytes: 64 * rows.len(),
            rows: batch(rows.clone()),
            offsets: rows.into_iter().map(Offset).collect(),
            bad: Vec::new(),
            position: offset(last),
        })
    }
}

impl Drop for HandReader {
    fn drop(&mut self) {
        self.hand.outside().readers.remove(&self.id);
    }
}

fn batch(rows: Vec<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("v", DataType::Int64, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(rows))]).unwrap()
}

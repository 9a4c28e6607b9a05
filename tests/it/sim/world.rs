//! The outside world: sources whose splits grow, get gaps and markers, vanish for a while and come back, and a
//! connector that takes its time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use tidegate::backfill::id::{Offset, SplitId};
use tidegate::clock;
use tidegate::engine::embedded::connector::{Chunk, Connector, ReadEvent, Reader, Start, Watermarks};
use tidegate::error::{Error, Result};

/// One position of a split: a row, or a marker that has none.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub offset: i64,
    pub is_row: bool,
}

#[derive(Default)]
struct Split {
    entries: Vec<Entry>,
    unreachable: bool,
}

/// One source's splits, and the dice of all who read it.
pub struct Outside {
    splits: BTreeMap<SplitId, Split>,
    discover_fails: bool,
    /// The longest that an answer takes.
    slowness: Duration,
    rng: fastrand::Rng,
    /// The splits of every reader that exists.
    readers: BTreeMap<u64, String>,
    next_reader: u64,
}

/// The value of the only column: it says where the row belongs.
pub fn value(split: &SplitId, offset: i64) -> i64 {
    split.as_str().parse::<i64>().unwrap() * 1_000_000 + offset
}

/// A source that tests change and connectors read.
#[derive(Clone)]
pub struct Source(Arc<Mutex<Outside>>);

impl Source {
    pub fn new(rng: &mut fastrand::Rng) -> Self {
        let mut outside = Outside {
            splits: BTreeMap::new(),
            discover_fails: false,
            slowness: Duration::from_millis(rng.u64(1..60)),
            rng: rng.fork(),
            readers: BTreeMap::new(),
            next_reader: 0,
        };
        for _ in 0..rng.usize(2..=6) {
            outside.add_split(rng);
        }
        Self(Arc::new(Mutex::new(outside)))
    }

    fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap()
    }

    /// One change, told in words.
    pub fn change(&self, rng: &mut fastrand::Rng) -> String {
        let mut outside = self.lock();
        let nth = rng.usize(..outside.splits.len());
        let id = outside.splits.keys().nth(nth).unwrap().clone();
        match rng.u32(..20) {
            0 if outside.splits.len() < 7 => {
                outside.add_split(rng);
                "a new split".into()
            }
            1..=2 => {
                outside.discover_fails = !outside.discover_fails;
                format!("discovery fails: {}", outside.discover_fails)
            }
            3..=5 => {
                let split = outside.splits.get_mut(&id).unwrap();
                split.unreachable = !split.unreachable;
                format!("split {id} unreachable: {}", split.unreachable)
            }
            _ => {
                outside.splits.get_mut(&id).unwrap().grow(rng, 5);
                format!("split {id} grows")
            }
        }
    }

    /// Everything can be read from now on. A split that was empty gets a row: one that could not be reached when a view
    /// was made, and is empty, is only known to be so once it isn't.
    pub fn heal(&self, rng: &mut fastrand::Rng) {
        let mut outside = self.lock();
        outside.discover_fails = false;
        for split in outside.splits.values_mut() {
            split.unreachable = false;
            while split.entries.is_empty() {
                split.grow(rng, 3);
            }
        }
    }

    /// Every split gets a row or some more.
    pub fn grow_all(&self, rng: &mut fastrand::Rng) {
        for split in self.lock().splits.values_mut() {
            split.grow(rng, 3);
        }
    }

    /// The splits of every reader that exists, as `0,2`.
    pub fn held(&self) -> Vec<String> {
        self.lock().readers.values().cloned().collect()
    }

    /// Every row that there is: split, offset.
    pub fn rows(&self) -> Vec<(SplitId, i64)> {
        let outside = self.lock();
        let rows = |(id, split): (&SplitId, &Split)| {
            let rows = split.entries.iter().filter(|entry| entry.is_row);
            rows.map(|entry| (id.clone(), entry.offset)).collect::<Vec<_>>()
        };
        outside.splits.iter().flat_map(rows).collect()
    }
}

impl Outside {
    fn add_split(&mut self, rng: &mut fastrand::Rng) {
        let mut split = Split::default();
        // Some much longer than others: those who have read theirs are whom an unfinished one must not come to.
        let most = if rng.bool() { 2 } else { 40 };
        split.grow(rng, most);
        self.splits.insert(SplitId::from(self.splits.len().to_string()), split);
    }

    fn delay(&mut self) -> Duration {
        // Mostly at once: a reader that always waits is never ahead of anybody.
        if self.rng.bool() {
            Duration::ZERO
        } else {
            Duration::from_micros(self.rng.u64(..=self.slowness.as_micros() as u64))
        }
    }
}

impl Split {
    fn grow(&mut self, rng: &mut fastrand::Rng, most: usize) {
        for _ in 0..rng.usize(..=most) {
            let next = self.entries.last().map_or_else(|| rng.i64(0..3), |entry| entry.offset + 1);
            let gap = if rng.u32(..6) == 0 { rng.i64(1..4) } else { 0 };
            self.entries.push(Entry { offset: next + gap, is_row: rng.u32(..5) > 0 });
        }
    }
}

#[async_trait]
impl Connector for Source {
    async fn discover(&self) -> Result<BTreeMap<SplitId, Result<Watermarks, String>>> {
        let delay = self.lock().delay();
        clock::sleep_until(clock::now() + delay).await;
        let outside = self.lock();
        if outside.discover_fails {
            return Err(Error::SourceUnreachable { source_name: "s".into(), detail: "out of order".into() });
        }
        let marks = |split: &Split| {
            if split.unreachable {
                return Err("out of reach".to_owned());
            }
            let low = split.entries.first().map_or(0, |entry| entry.offset);
            let latest = split.entries.last().map(|entry| Offset(entry.offset));
            let high = latest.map_or(low, |latest| latest.0 + 1);
            Ok(Watermarks { low: Offset(low), high: Offset(high), latest })
        };
        Ok(outside.splits.iter().map(|(id, split)| (id.clone(), marks(split))).collect())
    }

    fn reader(&self) -> Box<dyn Reader> {
        let mut outside = self.lock();
        let id = outside.next_reader;
        outside.next_reader += 1;
        outside.readers.insert(id, String::new());
        Box::new(SourceReader { id, source: self.clone(), splits: BTreeMap::new() })
    }
}

struct SourceReader {
    id: u64,
    source: Source,
    splits: BTreeMap<SplitId, Held>,
}

struct Held {
    position: Option<i64>,
    told_unreachable: bool,
}

#[async_trait]
impl Reader for SourceReader {
    fn assign(&mut self, splits: &BTreeMap<SplitId, Start>) {
        self.splits.retain(|split, _| splits.contains_key(split));
        for (split, start) in splits {
            let position = match start {
                Start::Earliest => None,
                Start::After(offset) => Some(offset.0),
            };
            self.splits.entry(split.clone()).or_insert(Held { position, told_unreachable: false });
        }
        let held: Vec<&str> = self.splits.keys().map(SplitId::as_str).collect();
        self.source.lock().readers.insert(self.id, held.join(","));
    }

    async fn next(&mut self, max_rows: usize) -> ReadEvent {
        loop {
            let delay = self.source.lock().delay();
            clock::sleep_until(clock::now() + delay).await;
            if let Some(event) = self.read(max_rows) {
                return event;
            }
            clock::sleep_until(clock::now() + Duration::from_millis(50)).await;
        }
    }
}

impl Drop for SourceReader {
    fn drop(&mut self) {
        self.source.lock().readers.remove(&self.id);
    }
}

impl SourceReader {
    fn read(&mut self, max_rows: usize) -> Option<ReadEvent> {
        let mut outside = self.source.lock();
        let (first, most) = (outside.rng.usize(..=self.splits.len()), outside.rng.usize(1..=6).min(max_rows));
        let count = self.splits.len();
        for nth in 0..count {
            let (id, held) = self.splits.iter_mut().nth((first + nth) % count)?;
            let split = &outside.splits[id];
            if split.unreachable != held.told_unreachable {
                held.told_unreachable = split.unreachable;
                let event = if split.unreachable {
                    ReadEvent::Unreachable(id.clone(), "out of reach".into())
                } else {
                    ReadEvent::Recovered(id.clone())
                };
                return Some(event);
            }
            let news = split.entries.iter().filter(|entry| held.position.is_none_or(|at| entry.offset > at));
            let entries: Vec<Entry> = news.take(most).copied().collect();
            if let (Some(last), false) = (entries.last(), split.unreachable) {
                held.position = Some(last.offset);
                return Some(ReadEvent::Chunk(chunk(id, &entries, last.offset)));
            }
        }
        None
    }
}

fn chunk(split: &SplitId, entries: &[Entry], position: i64) -> Chunk {
    let offsets: Vec<i64> = entries.iter().filter(|entry| entry.is_row).map(|entry| entry.offset).collect();
    let values: Int64Array = offsets.iter().map(|offset| value(split, *offset)).collect();
    let schema = Schema::new(vec![Field::new("v", DataType::Int64, true)]);
    Chunk {
        split: split.clone(),
        rows: RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values)]).unwrap(),
        offsets: offsets.into_iter().map(Offset).collect(),
        bad: Vec::new(),
        position: Offset(position),
        bytes: 64 * entries.len(),
    }
}

//! The `datagen` connector: rows that are the same on every run.
//!
//! Row i of a split exists from i / rate seconds after the source's creation on, or from the start when there is no
//! rate. Its values depend on the seed, the split, i and the column only: a column `id` of an integer type counts over
//! all splits without a double (as far as the type reaches), times are the row's own, the rest is drawn.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StringBuilder,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    TimestampMicrosecondType,
};

use super::{Chunk, Connector, ReadEvent, Reader, Start, Watermarks};
use crate::backfill::id::{Offset, SplitId};
use crate::engine::embedded::columns::{self, NUMERIC_SCALE};
use crate::error::{Error, Result};

const MICROS: f64 = 1e6;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Rows are given out in lots at most this often, so that a fast split doesn't come row by row.
const LOT: Duration = Duration::from_millis(10);

/// How long to sleep at most: the clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

const WORDS: [&str; 16] = [
    "anchor", "beacon", "channel", "delta", "estuary", "fathom", "gate", "harbor", "inlet", "jetty", "keel", "lock",
    "mooring", "pier", "sluice", "tide",
];

/// What rows there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many splits; their ids are `0`, `1`, ...
    pub splits: i64,
    /// How many rows a split has in the end; `None`: there is no end.
    pub rows_per_split: Option<i64>,
    /// Rows a second of a split; `None`: all are there from the start.
    pub rows_per_second: Option<f64>,
    /// Other seeds give other values.
    pub seed: u64,
    /// When the source was created, in microseconds since 1970 UTC.
    pub created_at_micros: i64,
}

impl Settings {
    /// The offset that the next row of every split has at a time.
    fn high(&self, now_micros: i64) -> i64 {
        let rows = self.rows_per_split.unwrap_or(i64::MAX);
        match self.rows_per_second {
            None => rows,
            Some(_) if now_micros < self.created_at_micros => 0,
            Some(rate) => {
                let elapsed = (now_micros - self.created_at_micros) as f64 / MICROS;
                // The cast saturates.
                ((elapsed * rate) as i64).saturating_add(1).min(rows)
            }
        }
    }

    /// When a row exists, or its time when all exist from the start: one a second then.
    fn time_of(&self, offset: i64) -> i64 {
        let rate = self.rows_per_second.unwrap_or(1.0);
        self.created_at_micros.saturating_add((offset as f64 * (MICROS / rate)) as i64)
    }
}

/// Tells the time, in microseconds since 1970 UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A source of drawn rows.
#[derive(Clone)]
pub struct Datagen {
    settings: Settings,
    schema: SchemaRef,
    columns: Arc<[Column]>,
    clock: Clock,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    pg: &'static str,
    is_id: bool,
}

impl Datagen {
    /// A connector on the system's clock.
    ///
    /// # Errors
    /// [`Error::Internal`] when a column has a type that [`columns::arrow_type`] doesn't give.
    pub fn new(settings: Settings, schema: SchemaRef) -> Result<Self> {
        Self::with_clock(settings, schema, Arc::new(|| chrono::Utc::now().timestamp_micros()))
    }

    /// A connector on another clock.
    ///
    /// # Errors
    /// As [`Datagen::new`].
    pub fn with_clock(settings: Settings, schema: SchemaRef, clock: Clock) -> Result<Self> {
        let columns = schema.fields().iter().map(|field| {
            let pg = columns::pg_type(field)
                .filter(|pg| columns::arrow_type(pg).as_ref() == Some(field.data_type()))
                .ok_or_else(|| Error::Internal(format!("no values can be drawn for column {field}")))?;
            Ok(Column { pg, is_id: field.name() == "id" })
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { settings, schema, columns, clock })
    }

    /// Rows `from..to` of a split.
    fn rows(&self, split: i64, from: i64, to: i64) -> RecordBatch {
        let arrays = self.columns.iter().enumerate().map(|(index, column)| {
            let key = mix(mix(mix(self.settings.seed) ^ split as u64) ^ index as u64);
            self.column(*column, split, from..to, move |offset| mix(key.wrapping_add(offset as u64)))
        });
        let arrays = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some((to - from) as usize));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .expect("the arrays were built for this schema")
    }

    fn column(&self, column: Column, split: i64, rows: std::ops::Range<i64>, draw: impl Fn(i64) -> u64) -> ArrayRef {
        let settings = &self.settings;
        let integer = |offset: i64| {
            if column.is_id {
                offset.wrapping_mul(settings.splits).wrapping_add(split)
            } else {
                (draw(offset) % 1000) as i64 + 1
            }
        };
        let cents = |offset: i64| (draw(offset) % 100_000) as i64;
        match column.pg {
            "bool" => Arc::new(BooleanArray::from_iter(rows.map(|row| Some(draw(row) & 1 == 1)))),
            "int2" => primitive::<Int16Type>("int2", rows.map(|row| (integer(row) & i64::from(i16::MAX)) as i16)),
            "int4" => primitive::<Int32Type>("int4", rows.map(|row| (integer(row) & i64::from(i32::MAX)) as i32)),
            "int8" => primitive::<Int64Type>("int8", rows.map(integer)),
            "float4" => primitive::<Float32Type>("float4", rows.map(|row| cents(row) as f32 / 100.0)),
            "float8" => primitive::<Float64Type>("float8", rows.map(|row| cents(row) as f64 / 100.0)),
            "numeric" => {
                let cent = 10_i128.pow(u32::from(NUMERIC_SCALE.unsigned_abs()) - 2);
                primitive::<Decimal128Type>("numeric", rows.map(|row| i128::from(cents(row)) * cent))
            }
            "date" => {
                primitive::<Date32Type>("date", rows.map(|row| settings.time_of(row).div_euclid(MICROS_PER_DAY) as i32))
            }
            "timestamp" | "timestamptz" => {
                primitive::<TimestampMicrosecondType>(column.pg, rows.map(|row| settings.time_of(row)))
            }
            "bytea" => Arc::new(BinaryArray::from_iter_values(rows.map(|row| draw(row).to_be_bytes()))),
            pg => {
                let mut builder = StringBuilder::with_capacity((rows.end - rows.start) as usize, 0);
                for drawn in rows.map(draw) {
                    let word = WORDS[(drawn % WORDS.len() as u64) as usize];
                    if pg == "jsonb" {
                        // Writing to a builder can't fail.
                        let _ = write!(builder, "{{\"word\": \"{word}\", \"value\": {}}}", drawn / 16 % 1000);
                        builder.append_value("");
                    } else {
                        builder.append_value(word);
                    }
                }
                Arc::new(builder.finish())
            }
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(pg: &str, values: impl Iterator<Item = T::Native>) -> ArrayRef {
    let array = PrimitiveArray::<T>::from_iter_values(values);
    match columns::arrow_type(pg) {
        Some(data_type @ (DataType::Decimal128(..) | DataType::Timestamp(..))) => {
            Arc::new(array.with_data_type(data_type))
        }
        _ => Arc::new(array),
    }
}

/// A number that looks drawn, from one that is counted (the finalizer of SplitMix64).
fn mix(counted: u64) -> u64 {
    let mut drawn = counted.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    drawn ^ (drawn >> 31)
}

#[async_trait]
impl Connector for Datagen {
    async fn discover(&self) -> Result<BTreeMap<SplitId, Result<Watermarks, String>>> {
        let high = self.settings.high((self.clock)());
        let latest = (high > 0).then(|| Offset(high - 1));
        let watermarks = Watermarks { low: Offset(0), high: Offset(high), latest, memory: None };
        Ok((0..self.settings.splits).map(|split| (SplitId::from(split.to_string()), Ok(watermarks.clone()))).collect())
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(DatagenReader { source: self.clone(), next_rows: BTreeMap::new(), last_served: None })
    }
}

/// A split's number; one that isn't ours is beyond all.
fn number(split: &SplitId) -> i64 {
    split.as_str().parse().unwrap_or(i64::MAX)
}

/// Draws the rows of some splits in turns.
struct DatagenReader {
    source: Datagen,
    /// The offset of each split's next row.
    next_rows: BTreeMap<SplitId, i64>,
    /// Whose turn was last; the next one's is next.
    last_served: Option<SplitId>,
}

#[async_trait]
impl Reader for DatagenReader {
    fn assign(&mut self, splits: &BTreeMap<SplitId, Start>) {
        self.next_rows.retain(|split, _| splits.contains_key(split));
        for (split, start) in splits.iter().filter(|(split, _)| number(split) < self.source.settings.splits) {
            self.next_rows.entry(split.clone()).or_insert(match start {
                Start::Earliest => 0,
                Start::After(offset) => offset.0.saturating_add(1).max(0),
            });
        }
    }

    async fn next(&mut self, max_rows: usize) -> ReadEvent {
        loop {
            let now = (self.source.clock)();
            if let Some(chunk) = self.draw(self.source.settings.high(now), max_rows.max(1)) {
                return ReadEvent::Chunk(chunk);
            }
            match self.next_time() {
                None => std::future::pending().await,
                Some(time) => {
                    let wait = Duration::from_micros(u64::try_from(time.saturating_sub(now)).unwrap_or(0));
                    tokio::time::sleep(wait.clamp(LOT, LONGEST_SLEEP)).await;
                }
            }
        }
    }
}

impl DatagenReader {
    /// Rows of the next split, in turn, that has some below `high`.
    fn draw(&mut self, high: i64, max_rows: usize) -> Option<Chunk> {
        let after = |split: &SplitId| self.last_served.as_ref().is_none_or(|last| split > last);
        let due = |(_, next): &(&SplitId, &i64)| **next < high;
        let splits = || self.next_rows.iter().filter(due);
        let (split, from) = splits().find(|(split, _)| after(split)).or_else(|| splits().next())?;
        let (split, from) = (split.clone(), *from);
        let to = high.min(from.saturating_add(i64::try_from(max_rows).unwrap_or(i64::MAX)));
        let rows = self.source.rows(number(&split), from, to);
        self.next_rows.insert(split.clone(), to);
        self.last_served = Some(split.clone());
        Some(Chunk {
            split,
            offsets: (from..to).map(Offset).collect(),
            bytes: rows.get_array_memory_size(),
            rows,
            bad: Vec::new(),
            position: Offset(to - 1),
        })
    }

    /// When the first of the next rows exists; `None` when there is none to come.
    fn next_time(&self) -> Option<i64> {
        let settings = &self.source.settings;
        let end = settings.rows_per_split.unwrap_or(i64::MAX);
        self.next_rows.values().filter(|next| **next < end).min().map(|next| settings.time_of(*next))
    }
}

#[cfg(test)]
#[path = "datagen_tests.rs"]
mod tests;

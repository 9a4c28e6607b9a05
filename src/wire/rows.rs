//! The rows of a result on their way to the client, a few at a time.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::{Array as _, ArrayRef, RecordBatch};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::connection::{Failure, Link};
use super::copy::Copy;
use super::encode::{self, Column, Style};
use super::registry::Entered;
use super::{errors, limits};
use crate::error::{Error, Result};

/// So many bytes are gathered before they're sent.
const FLUSH_BYTES: usize = 32 * 1024;

/// What a statement gives.
pub(super) enum Reply {
    /// It was no statement.
    Empty,
    /// No rows, and this tag.
    Done(String),
    /// Rows.
    Rows(Rows),
    /// Rows for a file.
    Copy(Box<Copy>),
}

impl Reply {
    pub fn done(tag: &str) -> Self {
        Self::Done(tag.to_owned())
    }
}

/// The rows of a result, of which some may have been taken.
pub(super) struct Rows {
    pub columns: Arc<[Column]>,
    tag: Tag,
    style: Style,
    source: Source,
    /// The batch that is being taken, and the next row in it.
    batch: Vec<ArrayRef>,
    next: usize,
    length: usize,
}

/// How the tag of the finished statement reads.
#[derive(Clone)]
pub(super) enum Tag {
    /// This word and the number of rows: `SELECT 3`.
    Counted(&'static str),
    /// Just this.
    Fixed(String),
}

enum Source {
    Stream(SendableRecordBatchStream),
    Batches(std::vec::IntoIter<RecordBatch>),
}

impl Rows {
    pub fn from_stream(columns: Arc<[Column]>, stream: SendableRecordBatchStream, tag: Tag, style: Style) -> Self {
        Self { columns, tag, style, source: Source::Stream(stream), batch: Vec::new(), next: 0, length: 0 }
    }

    pub fn from_batches(columns: Arc<[Column]>, batches: Vec<RecordBatch>, tag: Tag, style: Style) -> Self {
        let source = Source::Batches(batches.into_iter());
        Self { columns, tag, style, source, batch: Vec::new(), next: 0, length: 0 }
    }

    /// The same rows in the formats that a Bind message asks for.
    pub fn with_formats(mut self, codes: &[i16]) -> Result<Self> {
        self.columns = encode::with_formats(&self.columns, codes)?;
        Ok(self)
    }

    /// The command's tag, after so many rows.
    pub fn tag(&self, count: u64) -> String {
        match &self.tag {
            Tag::Counted(word) => format!("{word} {count}"),
            Tag::Fixed(tag) => tag.clone(),
        }
    }

    /// Takes up to `limit` rows out, as they are, which may have so many bytes of memory.
    pub async fn take(&mut self, limit: usize, memory: usize, interrupt: &Interrupt<'_>) -> Result<Vec<RecordBatch>> {
        let mut used = 0;
        let mut taken = Vec::new();
        let mut left = limit;
        while left > 0 && self.fill(interrupt).await? {
            let count = left.min(self.length - self.next);
            // A slice keeps all of its batch.
            used += self.batch.iter().map(|array| array.get_array_memory_size()).sum::<usize>();
            if used > memory {
                return Err(limits::memory(memory as u64));
            }
            let arrays: Vec<ArrayRef> = self.batch.iter().map(|array| array.slice(self.next, count)).collect();
            taken.push(encode::batch_of(&self.columns, arrays, count)?);
            self.next += count;
            left -= count;
        }
        Ok(taken)
    }

    /// Sends up to `limit` rows. Answers how many those were, and whether there may be more.
    pub async fn send(
        &mut self,
        link: &mut Link,
        limit: Option<u64>,
        interrupt: &Interrupt<'_>,
    ) -> Result<(u64, bool), Failure> {
        self.send_as(link, limit, interrupt, encode::write_row).await
    }

    /// The same, with each row written in another way.
    pub async fn send_as(
        &mut self,
        link: &mut Link,
        limit: Option<u64>,
        interrupt: &Interrupt<'_>,
        mut write: impl FnMut(&mut BytesMut, &[Column], &[ArrayRef], usize, &Style) -> Result<()>,
    ) -> Result<(u64, bool), Failure> {
        let mut sent = 0;
        while limit.is_none_or(|limit| sent < limit) {
            if !self.fill(interrupt).await? {
                return Ok((sent, false));
            }
            write(link.buffer(), &self.columns, &self.batch, self.next, &self.style)?;
            self.next += 1;
            sent += 1;
            if link.buffer().len() >= FLUSH_BYTES {
                // The client's pace is ours: the next row isn't made before this one is taken.
                interrupt.or(link.flush()).await??;
            }
        }
        Ok((sent, true))
    }

    /// Makes sure that there is a row to take. False when all are.
    async fn fill(&mut self, interrupt: &Interrupt<'_>) -> Result<bool> {
        while self.next >= self.length {
            let batch = match &mut self.source {
                Source::Batches(batches) => batches.next(),
                Source::Stream(stream) => {
                    let batch = interrupt.or(stream.next()).await?.transpose();
                    batch.map_err(|error| interrupt.explain(errors::from_datafusion(error)))?
                }
            };
            let Some(batch) = batch else { return Ok(false) };
            self.batch = encode::plain(&batch, &self.columns)?;
            self.next = 0;
            self.length = batch.num_rows();
        }
        Ok(true)
    }
}

/// What interrupts a statement.
pub(super) struct Interrupt<'a> {
    pub token: &'a CancellationToken,
    pub entry: &'a Entered,
}

impl Interrupt<'_> {
    /// The future's result, or why the statement was interrupted before it.
    pub async fn or<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(self.explain(Error::Canceled)),
            result = future => Ok(result),
        }
    }

    /// An interrupted read fails in its own words: these are the right ones.
    pub fn explain(&self, error: Error) -> Error {
        self.entry.interrupted().map_or(error, Error::from)
    }
}

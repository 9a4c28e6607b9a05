//! How fast an actor may read: its rate limit, and how much it may hold until the next checkpoint.

use std::time::Duration;

use tokio::time::Instant;

use super::watch;
use crate::clock;

/// Rows that a reader is asked for at once.
pub const MAX_CHUNK_ROWS: usize = 4096;

/// Bytes that an actor reads in one epoch. What it reads stays in memory until the checkpoint is written, so this
/// bounds memory however far behind an actor is; a full actor asks for a checkpoint at once. Small enough, too, that a
/// backfill has many epochs, of which one is read while another is written.
const EPOCH_BYTES: usize = 4 << 20;

/// A rate-limited reader takes its rows in about this many bites a second, so that a low limit is smooth.
const BITES_PER_SECOND: u32 = 10;

/// One reader's pace.
pub struct Pace {
    rate_limit: watch::Receiver<Option<u32>>,
    /// When the rate limit allows the next read.
    next_read: Instant,
    epoch_bytes: usize,
}

impl Pace {
    /// A reader that has read nothing yet. The limit is in rows a second; `Some(0)` pauses.
    pub fn new(rate_limit: watch::Receiver<Option<u32>>) -> Self {
        Self { rate_limit, next_read: clock::now(), epoch_bytes: 0 }
    }

    fn limit(&self) -> Option<u32> {
        *self.rate_limit.borrow()
    }

    /// Whether a read may start now.
    pub fn may_read(&self) -> bool {
        self.epoch_bytes < EPOCH_BYTES
            && match self.limit() {
                None => true,
                Some(0) => false,
                Some(_) => self.next_read <= clock::now(),
            }
    }

    /// How many rows the next read may bring, at most `chunk`.
    pub fn max_rows(&self, chunk: usize) -> usize {
        match self.limit() {
            None | Some(0) => chunk,
            Some(limit) => chunk.min(usize::try_from(limit.div_ceil(BITES_PER_SECOND)).unwrap_or(chunk)),
        }
    }

    /// Counts what was read. `true`: that was the last of this epoch.
    pub fn spend(&mut self, rows: usize, bytes: usize) -> bool {
        if let Some(limit @ 1..) = self.limit() {
            // Not from the time that was due: what a slow reader didn't use is not saved up for a burst.
            self.next_read = clock::now() + Duration::from_secs_f64(rows as f64 / f64::from(limit));
        }
        let before = self.epoch_bytes;
        self.epoch_bytes += bytes;
        before < EPOCH_BYTES && self.epoch_bytes >= EPOCH_BYTES
    }

    /// A checkpoint has taken what was held.
    pub fn next_epoch(&mut self) {
        self.epoch_bytes = 0;
    }

    /// Waits until [`Self::may_read`] may have changed, but for a new epoch.
    pub async fn wait(&mut self) {
        let due = match self.limit() {
            Some(1..) if self.epoch_bytes < EPOCH_BYTES => Some(self.next_read),
            _ => None,
        };
        let timer = async {
            match due {
                Some(due) => clock::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = timer => {}
            changed = self.rate_limit.changed() => if changed.is_err() {
                // The coordinator is gone; the actor learns it from its control channel.
                std::future::pending::<()>().await;
            }
        }
    }
}

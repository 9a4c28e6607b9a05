//! What one call may take: a value can be as long as 64 MB, and a function can make many more bytes of it, or go through
//! it for a long time.

use datafusion::execution::memory_pool::MemoryReservation;

use super::Call;
use crate::catalog::guard::Guard;
use crate::error::{Error, Result};

/// Bytes that are made between two looks at the limits.
const LOOK: usize = 1 << 18;

/// A text and a pattern may be so long that their lengths' product is this: some ten seconds of work.
const MATCHING: usize = 1 << 32;

/// One call's share of the statement's memory and time. What it has taken is given back when it is dropped.
pub struct Work<'a> {
    guard: &'a Guard,
    room: MemoryReservation,
    since: usize,
}

impl Call<'_> {
    /// The beginning of a call that may take much.
    pub fn work(&self) -> Work<'_> {
        let guard = &self.scope.guard;
        Work { guard, room: guard.reserve("a function"), since: 0 }
    }
}

impl Work<'_> {
    /// So many bytes more are made, or looked at.
    ///
    /// # Errors
    /// The statement is to end, or has no memory left.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        self.since = self.since.saturating_add(bytes);
        if self.since < LOOK {
            return Ok(());
        }
        let (taken, failed) = (std::mem::take(&mut self.since), crate::wire::errors::from_datafusion);
        self.guard.check().and_then(|()| self.room.try_grow(taken)).map_err(failed)
    }
}

/// Refuses a text and a pattern that are too long together: what takes so long can't be interrupted.
///
/// # Errors
/// [`Error::LimitReached`], with 54000.
pub fn check_matching(text: &str, pattern: &str) -> Result<()> {
    match text.len().checked_mul(pattern.len()) {
        Some(product) if product <= MATCHING => Ok(()),
        _ => Err(Error::LimitReached {
            sqlstate: "54000",
            message: format!("a pattern of {} bytes is too long for a text of {} bytes", pattern.len(), text.len()),
            hint: "Match a part of the text, or with a shorter pattern.".into(),
        }),
    }
}

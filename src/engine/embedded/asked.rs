//! Who waits for a barrier, and is answered once its checkpoint is written or has failed.

use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::warn;

use super::claim::Claim;
use super::statement::{Answer, Statement};
use crate::backfill::id::Epoch;
use crate::error::{Error, Result};

/// A statement that waits for its barrier.
pub struct Waiting {
    pub statement: Statement,
    pub claim: Arc<Claim>,
    /// `None`: it is the engine's own.
    pub reply: Option<oneshot::Sender<Result<Answer>>>,
    /// It couldn't be told at the last barrier, and no barrier is made earlier for its sake.
    pub next_tick: bool,
}

impl Waiting {
    pub fn answer(self, answer: Result<Answer>) {
        if let Some(reply) = self.reply {
            let _ = reply.send(answer);
        } else if let Err(error) = answer {
            warn!(%error, detail = error.detail(), statement = ?self.statement, "a statement of the engine's own failed");
        }
    }
}

/// All that wait for a barrier.
#[derive(Default)]
pub struct Asked {
    pub statements: Vec<Waiting>,
    pub flushes: Vec<oneshot::Sender<Result<Epoch>>>,
}

impl Asked {
    /// Whether a barrier is to be made at once.
    pub fn is_urgent(&self) -> bool {
        !self.flushes.is_empty() || self.statements.iter().any(|waiting| !waiting.next_tick)
    }

    /// Tells all that nothing came of it.
    pub fn fail(&mut self, error: impl Fn() -> Error) {
        for waiting in self.statements.drain(..) {
            waiting.answer(Err(error()));
        }
        for flush in self.flushes.drain(..) {
            let _ = flush.send(Err(error()));
        }
    }
}

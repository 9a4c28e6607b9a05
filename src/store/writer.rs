//! The one writer: a thread that owns the writing connection and runs transactions in the order they were sent.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::queue::Queue;
use super::{Context, Durability, mark};
use crate::error::{Error, Result};
use crate::failpoint::{self, FailPoint};
use crate::incident;

pub(super) enum Writer {
    Thread(Queue<Connection>),
    /// Without a thread: every transaction is done when it is sent.
    #[cfg(feature = "hooks")]
    Inline(Box<std::sync::Mutex<Connection>>),
}

impl Writer {
    pub(super) fn start(connection: Connection) -> std::io::Result<Self> {
        let end = |connection: Connection| {
            // Folds the log into the file, so that the next start has nothing to redo.
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        };
        Queue::start("store-writer", connection, end).map(Self::Thread)
    }

    pub(super) async fn run<T, F>(&self, durability: Durability, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let queue = match self {
            Self::Thread(queue) => queue,
            #[cfg(feature = "hooks")]
            Self::Inline(connection) => {
                let mut connection = connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                return transaction(&mut connection, durability, work);
            }
        };
        let (answer, answered) = oneshot::channel();
        queue.send(move |connection| {
            // A panic undoes its transaction. The next one goes on.
            let done = std::panic::AssertUnwindSafe(|| transaction(connection, durability, work));
            let done = std::panic::catch_unwind(done).unwrap_or_else(|panic| {
                Err(Error::Panic { incident: incident::note("a transaction", panic.as_ref()) })
            });
            // A caller that has gone away does not undo its transaction.
            let _ = answer.send(done);
        });
        // Where the thread is gone, so is the answer.
        answered.await.map_err(|_| Error::Internal("the store's writer has ended".into()))?
    }
}

fn transaction<T>(
    connection: &mut Connection,
    durability: Durability,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Checkpoint => "NORMAL",
    };
    // Can't be changed inside a transaction.
    connection.pragma_update(None, "synchronous", synchronous).context("setting the durability of a transaction")?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).context("starting a transaction")?;
    failpoint::pass(FailPoint::TransactionBegun);
    let done = work(&tx)?;
    failpoint::pass(FailPoint::BeforeCommit);
    tx.commit().context("committing a transaction")?;
    if durability == Durability::Full {
        mark::set(connection);
    }
    failpoint::pass(FailPoint::Committed);
    Ok(done)
}

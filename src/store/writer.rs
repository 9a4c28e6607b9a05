//! The one writer: a thread that owns the writing connection and runs transactions in the order they were sent.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::place::Place;
use super::queue::Queue;
use super::{Context, Durability, mark};
use crate::error::{Error, Result};
use crate::failpoint::{self, FailPoint};
use crate::incident;

/// What the writer owns.
pub(super) struct Owned {
    pub connection: Connection,
    pub place: Place,
}

pub(super) enum Writer {
    Thread(Queue<Owned>),
    /// Without a thread: every transaction is done when it is sent.
    #[cfg(feature = "hooks")]
    Inline(Box<std::sync::Mutex<Owned>>),
}

impl Writer {
    pub(super) fn start(owned: Owned) -> std::io::Result<Self> {
        let end = |owned: Owned| {
            if owned.place.has_hole() {
                // What stands in place of the log would be folded into the file.
                let _ = owned.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
                return;
            }
            // Folds the log into the file, so that the next start has nothing to redo.
            let _ = owned.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        };
        Queue::start("store-writer", owned, end).map(Self::Thread)
    }

    pub(super) async fn run<T, F>(&self, durability: Durability, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let queue = match self {
            Self::Thread(queue) => queue,
            #[cfg(feature = "hooks")]
            Self::Inline(owned) => {
                let mut owned = owned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                return transaction(&mut owned, durability, work);
            }
        };
        let (answer, answered) = oneshot::channel();
        queue.send(move |owned| {
            // A panic undoes its transaction. The next one goes on.
            let done = std::panic::AssertUnwindSafe(|| transaction(owned, durability, work));
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
    owned: &mut Owned,
    durability: Durability,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let Owned { connection, place } = owned;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Checkpoint => "NORMAL",
    };
    place.check(connection)?;
    // Can't be changed inside a transaction.
    connection.pragma_update(None, "synchronous", synchronous).context("setting the durability of a transaction")?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).context("starting a transaction")?;
    failpoint::pass(FailPoint::TransactionBegun);
    let done = work(&tx)?;
    let marked = match durability {
        Durability::Full => Some(mark::count(&tx)?),
        Durability::Checkpoint => None,
    };
    failpoint::pass(FailPoint::BeforeCommit);
    tx.commit().context("committing a transaction")?;
    // What nobody finds again is not acknowledged.
    place.check_commit(connection)?;
    if let Some(mark) = marked {
        mark::set(place.path(), mark);
    }
    failpoint::pass(FailPoint::Committed);
    Ok(done)
}

//! The one writer: a thread that owns the writing connection and runs transactions in the order they were sent.

use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::{Context, Durability};
use crate::error::{Error, Result};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = thread::Builder::new().name("store-writer".into()).spawn(move || {
            for job in queue {
                // A panic undoes its transaction, and its caller is told that there is no answer. The next one goes on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(&mut connection)));
            }
            // Folds the log into the file, so that the next start has nothing to redo.
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) async fn run<T, F>(&self, durability: Durability, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // A caller that has gone away does not undo its transaction.
            let _ = answer.send(transaction(connection, durability, work));
        });
        let gone = || Error::Internal("the store's writer has ended".into());
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
    let done = work(&tx)?;
    tx.commit().context("committing a transaction")?;
    Ok(done)
}

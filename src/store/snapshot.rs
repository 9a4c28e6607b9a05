//! Read transactions, on pooled connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle, OpenFlags};

use super::pool::{Pool, Taken};
use super::{Context, STATEMENT_CACHE};
use crate::error::Result;

/// Run once on every new reader.
pub type ReaderSetup = Arc<dyn Fn(&Connection) -> rusqlite::Result<()> + Send + Sync>;

/// Idle readers that are kept; more are opened when queries ask for them, and closed after.
const IDLE_READERS: usize = 16;

pub(super) struct Readers {
    path: PathBuf,
    pool: Pool<ReaderSetup, Connection>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, pool: Pool::new(IDLE_READERS) }
    }

    pub(super) fn set_setup(&self, setup: ReaderSetup) {
        self.pool.set_setup(setup);
    }

    /// A reader, and what to give it back with.
    fn take(&self) -> rusqlite::Result<(Connection, u64)> {
        let (setup, generation) = match self.pool.take() {
            (Taken::Idle(connection), generation) => return Ok((connection, generation)),
            (Taken::New(setup), generation) => (setup, generation),
        };
        // A snapshot's lock keeps threads apart, so that SQLite needn't at every value.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.pragma_update(None, "temp_store", "memory")?;
        if let Some(setup) = setup {
            setup(&connection)?;
        }
        connection.pragma_update(None, "query_only", true)?;
        Ok((connection, generation))
    }
}

/// One moment of the state file: a read transaction. Its connection goes back to the pool when it is dropped.
pub struct Snapshot {
    readers: Arc<Readers>,
    /// `None` only while it is dropped.
    connection: Mutex<Option<Connection>>,
    generation: u64,
    interrupt: InterruptHandle,
}

impl Snapshot {
    pub(super) fn begin(readers: Arc<Readers>) -> Result<Self> {
        let (connection, generation) = readers.take().context("opening a reader")?;
        // BEGIN alone doesn't fix the moment: the first read does.
        run(&connection, "BEGIN").context("starting a snapshot")?;
        connection
            .prepare_cached("SELECT epoch FROM meta")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
            .context("starting a snapshot")?;
        let interrupt = connection.get_interrupt_handle();
        Ok(Self { readers, connection: Mutex::new(Some(connection)), generation, interrupt })
    }

    /// Reads. One reader of a snapshot at a time: keep `read` short, and page through what is long.
    pub fn with<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        let guard = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        read(guard.as_ref().expect("a snapshot has its connection until it is dropped"))
    }

    /// Makes a read that is running now fail with SQLite's `interrupted`, from any thread.
    pub fn interrupt(&self) {
        self.interrupt.interrupt();
    }
}

/// Runs a statement that comes again and again.
fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection
            && run(&connection, "ROLLBACK").is_ok()
        {
            self.readers.pool.give_back(connection, self.generation);
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Snapshot")
    }
}

//! The state file: one SQLite database, one writer, as many readers as there are queries.
//!
//! This is the only module that knows SQLite's pragmas, locks and migrations. What the tables hold is written in
//! `sql/migrations`; the submodules here read and write them as typed rows, each inside a transaction of its caller.
//!
//! Guarantees, and what makes them:
//! - *Readers never wait for the writer, nor it for them*: WAL mode, and a connection each.
//! - *A query sees one moment*: a [`Snapshot`] is a read transaction.
//! - *An acknowledged statement survives power loss*: [`Durability::Full`] syncs the log before it answers.
//! - *A checkpoint is lost only whole*: it is one transaction; [`Durability::Checkpoint`] leaves the sync to the next
//!   full one, so after a power loss the last few may be gone and are redone.
//! - *One process*: a lock on `tidegate.lock`, held by the operating system, so it can't go stale.

pub mod check_input;
pub mod checkpoint;
mod pool;
mod queue;
pub mod relations;
pub mod rescales;
pub mod running;
mod snapshot;
pub mod view_rows;
pub mod violations;
mod writer;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags, Transaction};
use rusqlite_migration::{M, Migrations};

use crate::error::{Error, Result};
use snapshot::Readers;
pub use snapshot::{ReaderSetup, Snapshot};
use writer::Writer;

/// What [`pool`] and [`queue`] are made of. The tests compile them with another.
mod sync {
    pub use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
    pub use std::thread;
}

/// The name of the state file in its data directory.
pub const FILE_NAME: &str = "tidegate.db";

/// The name of the file whose lock says that a process has the directory.
const LOCK_NAME: &str = "tidegate.lock";

/// In order, forwards only; a file that has seen more of them is of a newer version.
const STEPS: &[M<'static>] = &[M::up(include_str!("../../sql/migrations/0001_initial.sql"))];
const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// Statements that a connection keeps prepared.
const STATEMENT_CACHE: usize = 256;

/// What a committed transaction survives. Both survive the death of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Power loss too: the log is synced before the answer.
    Full,
    /// Power loss may take it, whole, together with what was committed after it.
    Checkpoint,
}

/// The open state file.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    readers: Arc<Readers>,
    /// `None` where the file is open for reading only.
    writer: Option<Writer>,
    /// Held, never read: dropping it frees the data directory.
    _lock: Option<File>,
    /// Whether a process had the directory locked when it was opened.
    served: bool,
}

impl Store {
    /// Opens the state file of a data directory, making both where they don't exist.
    ///
    /// # Errors
    /// [`Error::DataDirectory`] when another process has it open, when it was written by a newer version, or when it
    /// isn't a readable database; [`Error::Store`] for what else SQLite refuses.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_with(dir, Writer::start)
    }

    /// Opens it without the writer's thread: each transaction runs where it is asked for, so that a test on one thread
    /// is the same every time.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(feature = "hooks")]
    pub fn open_inline(dir: &Path) -> Result<Self> {
        Self::open_with(dir, |connection| Ok(Writer::Inline(Box::new(connection.into()))))
    }

    fn open_with(dir: &Path, writer: impl FnOnce(Connection) -> std::io::Result<Writer>) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|error| unusable(dir, "cannot be made", &error))?;
        let lock = lock(dir)?;
        let path = dir.join(FILE_NAME);
        let mut connection = Connection::open(&path).map_err(|error| unreadable(&path, &error))?;
        configure(&connection).map_err(|error| unreadable(&path, &error))?;
        migrate(&mut connection, &path)?;
        let readers = Arc::new(Readers::new(path.clone()));
        let writer = Some(writer(connection).map_err(|error| unusable(dir, "cannot start its writer", &error))?);
        Ok(Self { shared: Arc::new(Shared { path, readers, writer, _lock: Some(lock), served: true }) })
    }

    /// Opens a data directory for reading only, whether or not a server has it open.
    ///
    /// # Errors
    /// [`Error::DataDirectory`] when there is no state file or it can't be read by this version.
    pub fn open_read_only(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| unreadable(&path, &error))?;
        let found: usize = connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| unreadable(&path, &error))?;
        if found != STEPS.len() {
            return Err(other_version(&path, found));
        }
        let readers = Arc::new(Readers::new(path.clone()));
        Ok(Self { shared: Arc::new(Shared { path, readers, writer: None, _lock: None, served: is_locked(dir) }) })
    }

    /// Whether a server had the directory when it was opened: this process, or for a read-only store another one.
    pub fn is_served(&self) -> bool {
        self.shared.served
    }

    /// The state file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What is run once on every new reader, to give it the temporary views of the catalog.
    pub fn set_reader_setup(&self, setup: ReaderSetup) {
        self.shared.readers.set_setup(setup);
    }

    /// A view of this moment, for one query.
    ///
    /// # Errors
    /// [`Error::Store`] when no connection can be opened.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::begin(Arc::clone(&self.shared.readers))
    }

    /// Runs `work` in a transaction of its own, after those before it; commits it if it returns `Ok`.
    ///
    /// # Errors
    /// What `work` returns, and [`Error::Store`] when the commit fails; then nothing has changed.
    pub async fn write<T, F>(&self, durability: Durability, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        match &self.shared.writer {
            Some(writer) => writer.run(durability, work).await,
            None => Err(Error::Internal("a write to a state file that is open for reading only".into())),
        }
    }
}

/// What every connection, reader or writer, is set to.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -64 * 1024) // KiB
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    MIGRATIONS.to_latest(connection).map_err(|error| match error {
        rusqlite_migration::Error::MigrationDefinition(
            rusqlite_migration::MigrationDefinitionError::DatabaseTooFarAhead,
        ) => {
            let found = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap_or_default();
            other_version(path, found)
        }
        other => Error::DataDirectory {
            message: format!("state file {} cannot be brought to this version", path.display()),
            detail: other.to_string(),
            hint: "Nothing was changed. Start the version that wrote it, or restore a backup.".into(),
        },
    })
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK_NAME);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| unusable(dir, "cannot be written to", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::DataDirectory {
            message: format!("data directory {} is in use by another process", dir.display()),
            detail: format!("{} is locked.", path.display()),
            hint: "Stop that process, or give this one a directory of its own with --data-dir.".into(),
        }),
        Err(TryLockError::Error(error)) => Err(unusable(dir, "cannot be locked", &error)),
    }
}

/// Whether a process holds the lock, without taking it for longer than the question.
fn is_locked(dir: &Path) -> bool {
    File::open(dir.join(LOCK_NAME)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn unusable(dir: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::DataDirectory {
        message: format!("data directory {} {what}", dir.display()),
        detail: error.to_string(),
        hint: "Check its permissions and the space on its disk.".into(),
    }
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> Error {
    Error::DataDirectory {
        message: format!("state file {} cannot be opened", path.display()),
        detail: error.to_string(),
        hint: "Check that the file exists, is a Tidegate state file and can be read and written.".into(),
    }
}

fn other_version(path: &Path, found: usize) -> Error {
    Error::DataDirectory {
        message: format!("state file {} was written by another version of Tidegate", path.display()),
        detail: format!("Its schema is of version {found}; this program knows version {}.", STEPS.len()),
        hint: "Start `tidegate serve` of that version, or of a newer one.".into(),
    }
}

/// A number that changes when another connection has written to the file.
///
/// # Errors
/// [`Error::Store`].
pub fn data_version(connection: &Connection) -> Result<i64> {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0)).context("looking for changes from outside")
}

/// Adds what was being done to an error of SQLite.
pub(crate) trait Context<T> {
    fn context(self, context: &'static str) -> Result<T>;
}

impl<T> Context<T> for rusqlite::Result<T> {
    fn context(self, context: &'static str) -> Result<T> {
        self.map_err(|source| Error::Store { context, source })
    }
}

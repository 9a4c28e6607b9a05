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
//! - *A lost log is noticed*: `mark` has the number of the last acknowledged commit.
//! - *A lost file too*, and one that is cut short: `place` looks at it after every commit.
//! - *Only its owner reads it*: it holds the secrets of sources, so its permissions are 0600.
//! - *One process*: a lock on `tidegate.lock`, held by the operating system, so it can't go stale.

pub mod backup;
pub mod check_input;
pub mod checkpoint;
pub mod format;
mod integrity;
mod log;
mod mark;
mod place;
mod pool;
mod queue;
pub mod relations;
pub mod rescales;
pub mod running;
mod snapshot;
pub mod users;
pub mod view_rows;
pub mod violations;
mod writer;

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags, Transaction};
use rusqlite_migration::{M, Migrations};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use place::Place;
use snapshot::Readers;
pub use snapshot::{ReaderSetup, Snapshot};
use writer::{Owned, Writer};

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
const STEPS: &[M<'static>] = &[
    M::up(include_str!("../../sql/migrations/0001_initial.sql")),
    M::up(include_str!("../../sql/migrations/0002_kafka.sql")),
    M::up(include_str!("../../sql/migrations/0003_split_memory_and_gaps.sql")),
    M::up(include_str!("../../sql/migrations/0004_users.sql")),
    M::up(include_str!("../../sql/migrations/0005_commits.sql")),
    M::up(include_str!("../../sql/migrations/0006_cancelled_by.sql")),
    M::up(include_str!("../../sql/migrations/0007_closing_speed.sql")),
];
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
    /// Fires when the file was removed, replaced or cut short.
    lost: CancellationToken,
}

impl Store {
    /// Opens the state file of a data directory, making both where they don't exist.
    ///
    /// # Errors
    /// [`Error::DataDirectory`] when another process has it open, when it was written by a newer version, or when it
    /// can't be written; [`Error::DamagedFile`] when it isn't whole; [`Error::Store`] for what else SQLite refuses.
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
        Self::open_with(dir, |owned| Ok(Writer::Inline(Box::new(owned.into()))))
    }

    fn open_with(dir: &Path, writer: impl FnOnce(Owned) -> std::io::Result<Writer>) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|error| unusable(dir, "cannot be made", &error))?;
        let lock = lock(dir)?;
        let path = dir.join(FILE_NAME);
        not_truncated(&path)?;
        if !path.exists() {
            create(&path)?;
        }
        close_to_others(&path).map_err(|error| unusable(dir, "cannot be closed to other users", &error))?;
        let mut connection = Connection::open(&path).map_err(|error| unreadable(&path, error))?;
        configure(&connection).map_err(|error| unreadable(&path, error))?;
        if connection.is_readonly("main").map_err(|error| unreadable(&path, error))? {
            return Err(read_only(&path));
        }
        integrity::quick(&connection, &path)?;
        mark::check(&connection, &path)?;
        migrate(&mut connection, &path)?;
        let readers = Arc::new(Readers::new(path.clone()));
        let lost = CancellationToken::new();
        let owned = Owned { connection, place: Place::of(&path, lost.clone()) };
        let writer = Some(writer(owned).map_err(|error| unusable(dir, "cannot start its writer", &error))?);
        Ok(Self { shared: Arc::new(Shared { path, readers, writer, _lock: Some(lock), served: true, lost }) })
    }

    /// Opens a data directory for reading only, whether or not a server has it open.
    ///
    /// # Errors
    /// [`Error::DataDirectory`] when there is no state file or it can't be read by this version; [`Error::DamagedFile`] when
    /// it is behind its mark.
    pub fn open_read_only(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| unreadable(&path, error))?;
        let found: usize = connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| unreadable(&path, error))?;
        if found != STEPS.len() {
            return Err(other_version(&path, found));
        }
        mark::check(&connection, &path)?;
        let readers = Arc::new(Readers::new(path.clone()));
        let (served, lost) = (is_locked(dir), CancellationToken::new());
        Ok(Self { shared: Arc::new(Shared { path, readers, writer: None, _lock: None, served, lost }) })
    }

    /// Whether a server had the directory when it was opened: this process, or for a read-only store another one.
    pub fn is_served(&self) -> bool {
        self.shared.served
    }

    /// Fires when the state file was removed, replaced or cut short while it was open: nothing is kept any more.
    pub fn lost(&self) -> CancellationToken {
        self.shared.lost.clone()
    }

    /// What is to be said then.
    pub fn lost_error(&self) -> Error {
        place::lost(&self.shared.path)
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

/// Only its owner may read the state file, as sources' secrets are in it: at every start, so also one that was made by
/// an older version or copied. SQLite gives its log the permissions of the file.
fn close_to_others(path: &Path) -> std::io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        for suffix in ["", "-wal", "-shm"] {
            match std::fs::set_permissions(backup::with_suffix(path, suffix), Permissions::from_mode(mode & 0o700)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Makes an empty file that only its owner may read, before anything is in it. SQLite gives what it lays beside it the
/// same permissions.
fn create_closed(path: &Path) -> Result<()> {
    let made = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    made.map(drop).map_err(|error| backup::unwritable(path, &error))
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

/// Makes a state file. It gets its name once it is whole, so that an empty one is always one that lost its content.
fn create(path: &Path) -> Result<()> {
    let new = backup::with_suffix(path, ".new");
    backup::discard(&new);
    create_closed(&new)?;
    let mut connection = Connection::open(&new).map_err(|error| unreadable(path, error))?;
    configure(&connection).map_err(|error| unreadable(path, error))?;
    migrate(&mut connection, path)?;
    // Closing folds the log into the file.
    connection.close().map_err(|(_, error)| unreadable(path, error))?;
    backup::rename(&new, path)
}

/// A state file that is empty, or gone while its log is still there, would be taken for a new one.
fn not_truncated(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() == 0 => Err(integrity::damaged(path, "It is empty.")),
        Ok(_) => Ok(()),
        Err(_) if backup::with_suffix(path, "-wal").exists() => {
            Err(integrity::damaged(path, "It is gone, and only its log (-wal) is left."))
        }
        Err(_) if backup::with_suffix(path, mark::SUFFIX).exists() => Err(integrity::damaged(
            path,
            format!("It is gone. If you mean to begin anew, remove {}{} first.", path.display(), mark::SUFFIX),
        )),
        Err(_) => Ok(()),
    }
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

fn read_only(path: &Path) -> Error {
    Error::DataDirectory {
        message: format!("state file {} is read-only", path.display()),
        detail: "SQLite could open it for reading only.".into(),
        hint: "Check its owner, its permissions and whether its disk is mounted read-only.".into(),
    }
}

fn unreadable(path: &Path, error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode;
    if let Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::DiskFull | ErrorCode::DatabaseBusy) =
        error.sqlite_error_code()
    {
        return integrity::damaged_or(path, error);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_owner_may_read_the_state_file() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        let store = Store::open(dir.path()).unwrap();
        store.write(Durability::Full, |tx| tx.execute("DELETE FROM events", []).context("a write")).await.unwrap();
        assert_eq!((mode(FILE_NAME), mode("tidegate.db-wal"), mode("tidegate.db-shm")), (0o600, 0o600, 0o600));
        drop(store);
        std::fs::set_permissions(dir.path().join(FILE_NAME), Permissions::from_mode(0o644)).unwrap();
        drop(Store::open(dir.path()).unwrap());
        assert_eq!(mode(FILE_NAME), 0o600);
    }
}

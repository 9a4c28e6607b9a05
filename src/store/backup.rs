//! Copies of the state file: made while a server writes to it, put back, and put in the place of a damaged one.
//!
//! A copy is made by SQLite's own backup in one read transaction: it is one moment of the file, keeps every rowid, and
//! holds up nobody, since readers and the writer don't wait for each other. A copy appears under its name only when it
//! is whole, checked and synced. Nothing is ever deleted: what stands in the way is moved aside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{Context, FILE_NAME, LOCK_NAME, STEPS, integrity, lock, mark, other_version, unreadable, unusable};
use crate::clock;
use crate::error::{Error, Result};

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its last checkpoint.
    pub epoch: i64,
    /// When that was committed, in microseconds since 1970.
    pub checkpoint_at: i64,
    /// How many sources.
    pub sources: i64,
    /// How many materialized views.
    pub views: i64,
    /// Its size in bytes.
    pub bytes: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { epoch, checkpoint_at, sources, views, bytes } = self;
        let at = clock::display(*checkpoint_at);
        write!(f, "epoch {epoch} of {at}, sources: {sources}, materialized views: {views}, {bytes} bytes")
    }
}

/// Copies the state file of a data directory, whether or not a server runs on it.
///
/// # Errors
/// [`Error::Config`] when `to` exists and `force` isn't set; [`Error::DamagedFile`] when the copy isn't whole, which it
/// can't be if the file isn't; [`Error::DataDirectory`] when there is none, or `to` can't be written.
pub fn back_up(dir: &Path, to: &Path, force: bool) -> Result<Summary> {
    if !force && to.exists() {
        return Err(Error::Config {
            message: format!("{} exists", to.display()),
            hint: "Give another name, or --force to replace it.".into(),
        });
    }
    let partial = beside(to, &format!("partial-{}", std::process::id()));
    let made = copy(&dir.join(FILE_NAME), &partial);
    if made.is_err() {
        discard(&partial);
    }
    let summary = made?;
    rename(&partial, to)?;
    Ok(summary)
}

/// Makes a backup the state file of a data directory that no process has open. Whatever state file was there is moved
/// aside and returned.
///
/// # Errors
/// [`Error::DataDirectory`] when the directory is in use, or isn't empty and `force` isn't set, or when the backup is of a
/// newer version; [`Error::DamagedBackup`] when it isn't whole. Then nothing has changed.
pub fn restore(backup: &Path, dir: &Path, force: bool) -> Result<(Summary, Option<PathBuf>)> {
    fs::create_dir_all(dir).map_err(|error| unusable(dir, "cannot be made", &error))?;
    let _lock = lock(dir)?;
    if !force && let Some(name) = first_entry(dir)? {
        return Err(Error::DataDirectory {
            message: format!("data directory {} is not empty", dir.display()),
            detail: format!("It holds {name}."),
            hint: "Give another directory, or --force: a state file that is there is then moved aside.".into(),
        });
    }
    replace(backup, &dir.join(FILE_NAME), "replaced")
}

/// Looks at every page and index of the state file of a data directory that no process has open.
///
/// # Errors
/// [`Error::DamagedFile`] with what is wrong; [`Error::DataDirectory`] when the directory is in use or holds none.
pub fn inspect(dir: &Path) -> Result<Summary> {
    let _lock = lock(dir)?;
    look(&dir.join(FILE_NAME))
}

/// Puts a backup in the place of a damaged state file, which is moved aside and returned.
///
/// # Errors
/// As [`restore`]; and [`Error::Config`] when the state file isn't damaged: then it is newer than any backup.
pub fn repair(backup: &Path, dir: &Path) -> Result<(Summary, Option<PathBuf>)> {
    let _lock = lock(dir)?;
    let path = dir.join(FILE_NAME);
    match look(&path) {
        Err(Error::DamagedFile { .. }) => replace(backup, &path, "damaged"),
        Ok(summary) => Err(Error::Config {
            message: format!("state file {} is not damaged ({summary})", path.display()),
            hint: "To go back to the backup all the same: tidegate restore FILE --data-dir DIR --force.".into(),
        }),
        Err(other) => Err(other),
    }
}

fn replace(backup: &Path, path: &Path, why: &str) -> Result<(Summary, Option<PathBuf>)> {
    let new = beside(path, "restored");
    discard(&new);
    let made = look(backup).and_then(|_| copy(backup, &new));
    if made.is_err() {
        discard(&new);
    }
    let summary = made.map_err(|error| match error {
        Error::DamagedFile { detail, .. } => Error::DamagedBackup { file: backup.display().to_string(), detail },
        other => other,
    })?;
    let aside = set_aside(path, why)?;
    rename(&new, path)?;
    Ok((summary, aside))
}

/// Opens a state file, looks at all of it, and tells what it holds.
fn look(path: &Path) -> Result<Summary> {
    super::not_truncated(path)?;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| unreadable(path, error))?;
    let version: usize =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(|error| unreadable(path, error))?;
    if version > STEPS.len() {
        return Err(other_version(path, version));
    }
    integrity::full(&connection, path)?;
    mark::check(&connection, path)?;
    summary(&connection, path)
}

fn summary(connection: &Connection, path: &Path) -> Result<Summary> {
    let count = |kind| format!("(SELECT count(*) FROM relations WHERE kind = '{kind}')");
    let sql = format!("SELECT epoch, checkpoint_at, {}, {} FROM meta", count("source"), count("materialized view"));
    connection
        .query_row(&sql, [], |row| {
            Ok(Summary {
                epoch: row.get(0)?,
                checkpoint_at: row.get(1)?,
                sources: row.get(2)?,
                views: row.get(3)?,
                bytes: fs::metadata(path).map_or(0, |metadata| metadata.len()),
            })
        })
        .map_err(|error| unreadable(path, error))
}

/// One moment of `from`, as one file without a log beside it; checked and synced.
fn copy(from: &Path, to: &Path) -> Result<Summary> {
    super::not_truncated(from)?;
    let source =
        Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| unreadable(from, error))?;
    // It holds the secrets of sources and the verifiers of passwords.
    super::create_closed(to)?;
    let mut target = Connection::open(to).map_err(|error| unreadable(to, error))?;
    mark::check(&source, from)?;
    let context = "copying the state file";
    source.busy_timeout(std::time::Duration::from_secs(10)).context(context)?;
    // Synced as a whole below.
    target.pragma_update(None, "synchronous", false).context(context)?;
    {
        let backup = Backup::new(&source, &mut target).context(context)?;
        // All pages in one step: were it several, every write in between would begin it anew.
        while backup.step(-1).map_err(|error| damaged_source(from, error))? != StepResult::Done {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    target.pragma_update(None, "journal_mode", "delete").map_err(|error| integrity::damaged_or(to, error))?;
    integrity::full(&target, to)?;
    let summary = summary(&target, to)?;
    target.close().map_err(|(_, source)| Error::Store { context, source })?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|error| unwritable(to, &error))?;
    Ok(summary)
}

fn damaged_source(path: &Path, error: rusqlite::Error) -> Error {
    match integrity::damaged_or(path, error) {
        Error::Store { source, .. } => Error::Store { context: "copying the state file", source },
        damaged => damaged,
    }
}

/// Moves a state file and its log aside, under a name that says when and why.
fn set_aside(path: &Path, why: &str) -> Result<Option<PathBuf>> {
    let log = with_suffix(path, "-wal");
    // A mark alone would refuse whatever is put in the file's place.
    if !path.exists() && !log.exists() && !with_suffix(path, mark::SUFFIX).exists() {
        return Ok(None);
    }
    let aside = beside(path, &format!("{why}-{}", clock::now_micros()));
    // The log first: without it the file might be taken for whole.
    for suffix in ["-wal", "-shm", "", mark::SUFFIX] {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&aside, suffix));
        if from.exists() {
            fs::rename(&from, &to).map_err(|error| unwritable(&to, &error))?;
        }
    }
    Ok(Some(aside))
}

fn first_entry(dir: &Path) -> Result<Option<String>> {
    let entries = fs::read_dir(dir).map_err(|error| unusable(dir, "cannot be read", &error))?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    Ok(names.filter(|name| name != LOCK_NAME).min())
}

/// `dir/name.suffix` beside `dir/name`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    with_suffix(path, &format!(".{suffix}"))
}

/// The path with this at its end: SQLite's own names for its log.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes a file that was begun and is of no use, with what SQLite may have laid beside it.
pub(super) fn discard(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(with_suffix(path, suffix));
    }
}

/// Gives a whole file its name, and syncs the directory so that it keeps it.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::rename(from, to).and_then(|()| File::open(parent)?.sync_all()).map_err(|error| unwritable(to, &error))
}

pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::DataDirectory {
        message: format!("{} cannot be written", path.display()),
        detail: error.to_string(),
        hint: "Check the permissions of its directory and the space on its disk.".into(),
    }
}

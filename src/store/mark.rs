//! How far a state file had come when a statement was last acknowledged, in a small file beside it.
//!
//! SQLite takes a file whose log was removed or cut short for a whole one: what was only in the log is gone without a
//! word. So is what came after a copy that someone puts in its place. The mark is written after the log is synced, so a
//! crash or a power loss leaves one that is behind the file at most, never ahead of it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::Connection;

use super::{backup, integrity};
use crate::error::Result;

/// What is added to the state file's name.
pub const SUFFIX: &str = "-mark";

/// Notes the file's epoch. What can't be noted isn't looked for later: no reason to fail.
pub fn set(connection: &Connection) {
    let Some((path, epoch)) = connection.path().zip(epoch(connection)) else { return };
    let path = backup::with_suffix(Path::new(path), SUFFIX);
    // Always as long as before, so that no end of an older one is left.
    let noted = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| writeln!(file, "{epoch:020}"));
    if let Err(error) = noted {
        tracing::debug!(%error, "the state file's mark could not be written");
    }
}

/// Refuses a file that is behind its mark.
///
/// # Errors
/// [`Error::DamagedFile`](crate::error::Error::DamagedFile).
pub fn check(connection: &Connection, path: &Path) -> Result<()> {
    let mark = fs::read_to_string(backup::with_suffix(path, SUFFIX)).ok().and_then(|text| text.trim().parse().ok());
    match epoch(connection).zip(mark) {
        Some((epoch, mark)) if epoch < mark => Err(integrity::damaged(
            path,
            format!(
                "It is of epoch {epoch}, but {mark} had been written: its log (-wal) was removed or cut short, or an older \
                 copy was put in its place. If you mean to go on from it, remove {}{SUFFIX} first.",
                path.display()
            ),
        )),
        _ => Ok(()),
    }
}

fn epoch(connection: &Connection) -> Option<i64> {
    connection.query_row("SELECT epoch FROM main.meta", [], |row| row.get(0)).ok()
}

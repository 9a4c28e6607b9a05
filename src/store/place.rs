//! Whether the state file is still where it was opened, and as long.
//!
//! A file that is removed or replaced while it is open can be written to as before, and nobody finds it again. Where one is
//! cut short, SQLite goes on behind the hole. So before every transaction, and after its commit, before anyone is
//! answered, the file and its log are looked for under their names, and what the commit wrote is read again. What is
//! shorter than before is asked for: another program may have folded the log into the file, or vacuumed it, which takes
//! nothing away.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tokio_util::sync::CancellationToken;

use super::log::{self, Log};
use super::{backup, integrity};
use crate::error::{Error, Result};

/// Where a state file was opened.
pub struct Place {
    path: PathBuf,
    file: Option<Known>,
    log: Option<Known>,
    written: Log,
    has_hole: bool,
    /// Fires when one of them is gone.
    lost: CancellationToken,
}

/// What is known of a file.
struct Known {
    name: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// How long it was when it was last looked at.
    length: u64,
}

impl Known {
    fn look(name: PathBuf) -> std::io::Result<Self> {
        fs::metadata(&name).map(|found| Self { name, identity: (found.dev(), found.ino()), length: found.len() })
    }

    /// What has become of it. `is_enough` tells whether what SQLite has put there is all in so many bytes.
    fn look_again(&mut self, is_enough: impl FnOnce(u64) -> bool) -> Fate {
        match Self::look(self.name.clone()) {
            Ok(now) if now.identity != self.identity => Fate::Gone,
            Ok(now) if now.length < self.length && !is_enough(now.length) => Fate::Cut,
            Ok(now) => {
                self.length = now.length;
                Fate::There
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Fate::Gone,
            // What can't be looked at now may still be there.
            Err(_) => Fate::There,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Fate {
    There,
    Gone,
    Cut,
}

impl Place {
    /// Notes where a file is that is open. `lost` fires when it no longer is.
    pub fn of(path: &Path, lost: CancellationToken) -> Self {
        let file = Known::look(path.to_owned()).ok();
        let log = backup::with_suffix(path, "-wal");
        let written = Log::new(log.clone());
        Self { path: path.to_owned(), file, log: Known::look(log).ok(), written, has_hole: false, lost }
    }

    /// The state file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file or its log was cut short: what SQLite wrote behind the hole must not come into the file.
    pub fn has_hole(&self) -> bool {
        self.has_hole
    }

    /// Refuses to go on without the file that `connection` opened, which is in no transaction.
    ///
    /// # Errors
    /// [`Error::DamagedFile`].
    pub fn check(&mut self, connection: &Connection) -> Result<()> {
        let fates = [
            self.file.as_mut().map(|file| file.look_again(|_| has_all_pages(&self.path))),
            self.log.as_mut().map(|known| {
                known.look_again(|bytes| {
                    let needed = frames(connection).and_then(|(frames, page)| log::length(frames, page));
                    needed.is_some_and(|needed| needed <= bytes)
                })
            }),
        ];
        self.has_hole |= fates.contains(&Some(Fate::Cut));
        if fates.iter().flatten().all(|fate| *fate == Fate::There) { Ok(()) } else { Err(self.lose()) }
    }

    /// The same, after a commit: what it wrote into the log is there, unless that was cut short meanwhile.
    ///
    /// # Errors
    /// [`Error::DamagedFile`].
    pub fn check_commit(&mut self, connection: &Connection) -> Result<()> {
        self.check(connection)?;
        // Another program that begins the log anew meanwhile is soon done with it.
        let is_whole = (0..3).any(|_| {
            let Some((frames, page)) = frames(connection) else { return true };
            self.written.is_whole(frames, page).unwrap_or(true)
        });
        if is_whole {
            return Ok(());
        }
        self.has_hole = true;
        Err(self.lose())
    }

    fn lose(&self) -> Error {
        let error = lost(&self.path);
        if !self.lost.is_cancelled() {
            tracing::error!(%error, detail = error.detail(), "nothing can be kept any more: the server stops");
            self.lost.cancel();
        }
        error
    }
}

/// Whether all pages are there, in the file or in its log. How long the file has to be nobody knows: what was added since it
/// got shorter may be in the log alone. Nor does a connection that has pages in memory look for them.
fn has_all_pages(path: &Path) -> bool {
    let found = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .and_then(|connection| connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)));
    found.is_ok_and(|found| found == "ok")
}

/// How many frames the log has, if they can be counted, and the bytes of a page.
fn frames(connection: &Connection) -> Option<(u64, u64)> {
    let page = connection.pragma_query_value(None, "page_size", |row| row.get(0)).ok()?;
    let frames = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get("log")).ok()?;
    Some((frames, page))
}

/// The error of a file that is no longer where it was opened.
pub fn lost(path: &Path) -> Error {
    integrity::damaged(
        path,
        "It, or its log (-wal), was removed, replaced or cut short while the server ran, which stops.",
    )
}

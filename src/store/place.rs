//! Whether the state file is still where it was opened.
//!
//! A file that is removed or replaced while it is open can be written to as before, and nobody finds it again. So after
//! every commit, before anyone is answered, the file and its log are looked for under their names.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{backup, integrity};
use crate::error::{Error, Result};

/// Where a state file was opened.
pub struct Place {
    path: PathBuf,
    /// The file and its log, with device and inode.
    files: Vec<(PathBuf, (u64, u64))>,
    /// Fires when one of them is gone.
    lost: CancellationToken,
}

impl Place {
    /// Notes where a file is that is open. `lost` fires when it no longer is.
    pub fn of(path: &Path, lost: CancellationToken) -> Self {
        let names = ["", "-wal"].map(|suffix| backup::with_suffix(path, suffix));
        let files = names.into_iter().filter_map(|name| identity(&name).ok().map(|identity| (name, identity)));
        Self { path: path.to_owned(), files: files.collect(), lost }
    }

    /// The state file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses to go on without the file that was opened.
    ///
    /// # Errors
    /// [`Error::DamagedFile`].
    pub fn check(&self) -> Result<()> {
        let is_there = |(name, then): &(PathBuf, (u64, u64))| match identity(name) {
            Ok(now) => now == *then,
            // What can't be looked at now may still be there.
            Err(error) => error.kind() != ErrorKind::NotFound,
        };
        if self.files.iter().all(is_there) {
            return Ok(());
        }
        let error = lost(&self.path);
        if !self.lost.is_cancelled() {
            tracing::error!(%error, detail = error.detail(), "nothing can be kept any more: the server stops");
            self.lost.cancel();
        }
        Err(error)
    }
}

/// The error of a file that is no longer where it was opened.
pub fn lost(path: &Path) -> Error {
    integrity::damaged(path, "It, or its log (-wal), was removed or replaced while the server ran, which stops.")
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

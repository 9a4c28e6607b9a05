//! `tidegate backup`, `restore` and `repair`: copies of the state file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::client::{DEFAULT_URL, connect, failed};
use crate::error::{Error, Result};
use crate::store::backup::{self, Summary};

/// Copies the state file while the server runs.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Where to: one file, which appears once it is whole and checked.
    file: PathBuf,
    /// The server on this machine whose state to copy, after a checkpoint [default: postgres://root@127.0.0.1:4567/dev].
    #[arg(long, env = "TIDEGATE_URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// Copy from a data directory, whether or not a server runs on it.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Replace a file of that name.
    #[arg(long)]
    force: bool,
}

/// Makes a backup the state of a data directory.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The backup.
    file: PathBuf,
    /// Where to; no server may run on it.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Also into a directory that isn't empty: a state file that is there is moved aside, not deleted.
    #[arg(long)]
    force: bool,
}

/// Looks at a whole state file, and puts a backup in the place of a damaged one.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// The data directory; no server may run on it.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The backup to put in its place; without it, it is only told whether the state file is damaged.
    #[arg(long, value_name = "FILE")]
    from_backup: Option<PathBuf>,
}

/// Makes a backup.
///
/// # Errors
/// When the file exists, the server or its directory can't be reached, or the copy can't be made.
pub async fn back_up(args: BackupArgs) -> Result<()> {
    let dir = match args.data_dir {
        Some(dir) => dir,
        None => directory_of(args.url.as_deref().unwrap_or(DEFAULT_URL)).await?,
    };
    let summary = backup::back_up(&dir, &args.file, args.force)?;
    tell(&format!("backed up to {}: {summary}", args.file.display()));
    Ok(())
}

/// Restores a backup.
///
/// # Errors
/// When the backup isn't whole, or the directory is in use or not empty.
pub fn restore(args: RestoreArgs) -> Result<()> {
    let (summary, aside) = backup::restore(&args.file, &args.data_dir, args.force)?;
    tell_restored(&args.data_dir, &summary, aside.as_deref());
    Ok(())
}

/// Inspects a state file or replaces a damaged one.
///
/// # Errors
/// [`Error::DamagedFile`] for a damaged one that no backup was given for, and what [`backup::repair`] says.
pub fn repair(args: RepairArgs) -> Result<()> {
    let Some(file) = args.from_backup else {
        let summary = backup::inspect(&args.data_dir)?;
        tell(&format!("the state file is whole: {summary}"));
        return Ok(());
    };
    let (summary, aside) = backup::repair(&file, &args.data_dir)?;
    tell_restored(&args.data_dir, &summary, aside.as_deref());
    Ok(())
}

/// The data directory of a server on this machine, after a checkpoint.
async fn directory_of(url: &str) -> Result<PathBuf> {
    let (client, _) = connect(url, "tidegate backup").await?;
    client.batch_execute("FLUSH").await.map_err(failed)?;
    let sql = "SELECT value FROM tidegate.settings WHERE name = 'data_dir'";
    let dir: String = client.query_one(sql, &[]).await.map_err(failed)?.get(0);
    if Path::new(&dir).is_dir() {
        return Ok(dir.into());
    }
    Err(Error::Config {
        message: format!("the server's data directory {dir} is not on this machine"),
        hint: "Run `tidegate backup` where the server runs.".into(),
    })
}

fn tell_restored(dir: &Path, summary: &Summary, aside: Option<&Path>) {
    tell(&format!("restored to {}: {summary}", dir.display()));
    if let Some(aside) = aside {
        tell(&format!("the state file that was there is now {}", aside.display()));
    }
}

fn tell(line: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
}

//! How far a state file had come when a statement was last acknowledged, in a small file beside it.
//!
//! SQLite takes a file whose log was removed or cut short for a whole one: what was only in the log is gone without a
//! word. So is what came after a copy that someone puts in its place. Therefore each [`Durability::Full`] transaction
//! counts itself in `meta.commits`, and the mark notes that number once it is committed. A file with fewer is behind its
//! mark: something that was acknowledged isn't in it. The epoch is noted for the message.
//!
//! That no file is behind by an accident that loses nothing:
//! - *The process dies, or power fails, between the commit and the mark*: the log is synced before the mark is written, so
//!   the file is ahead of its mark. So it is when the mark, which isn't synced, is lost.
//! - *While the mark is made*: it gets its name once it is whole and synced. *While it is written*: it is always as long
//!   as before and within one sector, written at once and in place, so it is the old one or the new one. Hence one that
//!   is empty or can't be read is damage too. Who reads while a server writes may see half of each, but not twice.
//! - *A commit that isn't Full* isn't counted. Power loss may take it, but no counted one before it.
//! - *A backup* is one moment of the file with its count. The mark is read first and the count second, so a server that
//!   commits in between makes the file look ahead.
//! - *`restore` and `repair --from-backup`* move the mark aside with the file that it belongs to. The next Full commit
//!   makes a new one.
//! - *An older program's file* has no count, which is read as 0; its mark has an epoch alone.
//!
//! [`Durability::Full`]: super::Durability::Full

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::{Context as _, backup, integrity};
use crate::error::Result;

/// What is added to the state file's name.
pub const SUFFIX: &str = "-mark";

/// Digits of a number in it.
const DIGITS: usize = 20;

/// How far a state file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// How many Full transactions it has seen.
    commits: i64,
    epoch: i64,
}

/// Counts the transaction.
///
/// # Errors
/// [`Error::Store`](crate::error::Error::Store).
pub fn count(tx: &Connection) -> Result<Mark> {
    tx.prepare_cached("UPDATE main.meta SET commits = commits + 1 RETURNING commits, epoch")
        .and_then(|mut statement| statement.query_row([], |row| Ok(Mark { commits: row.get(0)?, epoch: row.get(1)? })))
        .context("counting a commit")
}

/// Notes what was committed and synced. What can't be noted isn't looked for later: no reason to fail.
pub fn set(file: &Path, mark: Mark) {
    let path = backup::with_suffix(file, SUFFIX);
    let text = format!("{:0DIGITS$} {:0DIGITS$}\n", mark.commits, mark.epoch);
    let is_as_long = fs::metadata(&path).is_ok_and(|metadata| metadata.len() == text.len() as u64);
    let noted = if is_as_long { overwrite(&path, &text) } else { create(&path, &text) };
    if let Err(error) = noted {
        tracing::debug!(%error, "the state file's mark could not be written");
    }
}

fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let new = backup::with_suffix(path, ".new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Refuses a file that is behind its mark, or whose mark can't be read.
///
/// # Errors
/// [`Error::DamagedFile`](crate::error::Error::DamagedFile); [`Error::Store`](crate::error::Error::Store) when SQLite can't
/// read the file now.
pub fn check(connection: &Connection, file: &Path) -> Result<()> {
    let behind = || -> Result<Option<(Mark, Mark)>> {
        let Some(mark) = read(file)? else { return Ok(None) };
        let found = reached(connection, file)?;
        Ok((found.commits < mark.commits || found.epoch < mark.epoch).then_some((found, mark)))
    };
    if behind()?.is_none() {
        return Ok(());
    }
    // A server may have been writing it.
    let Some((found, mark)) = behind()? else { return Ok(()) };
    Err(integrity::damaged(
        file,
        format!(
            "It holds {} acknowledged commits up to epoch {}, but {} up to epoch {} had been written: its log (-wal) was \
             removed or cut short, or an older copy was put in its place. If you mean to go on from it, remove \
             {}{SUFFIX} first.",
            found.commits,
            found.epoch,
            mark.commits,
            mark.epoch,
            file.display()
        ),
    ))
}

/// The mark of a file, if it has one.
fn read(file: &Path) -> Result<Option<Mark>> {
    let text = fs::read(backup::with_suffix(file, SUFFIX));
    let why = match text {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(text) => match parse(&text) {
            Some(mark) => return Ok(Some(mark)),
            None if text.is_empty() => "is empty".to_owned(),
            None => "holds something else".to_owned(),
        },
        Err(error) => format!("can't be read: {error}"),
    };
    Err(integrity::damaged(
        file,
        format!(
            "{0}{SUFFIX}, which tells how far it had come, {why}. So it can't be told whether anything is missing. If you \
             mean to go on from it, remove {0}{SUFFIX} first.",
            file.display()
        ),
    ))
}

fn parse(text: &[u8]) -> Option<Mark> {
    let line = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
    let number = |word: &str| if word.len() == DIGITS { word.parse().ok() } else { None };
    match line.split(' ').map(number).collect::<Option<Vec<i64>>>()?[..] {
        [commits, epoch] => Some(Mark { commits, epoch }),
        // An older program's.
        [epoch] => Some(Mark { commits: 0, epoch }),
        _ => None,
    }
}

/// How far a file has come.
fn reached(connection: &Connection, file: &Path) -> Result<Mark> {
    let read = connection.query_row("SELECT * FROM main.meta", [], |row| {
        let commits = match row.get("commits") {
            Err(rusqlite::Error::InvalidColumnName(_)) => 0,
            read => read?,
        };
        Ok(Mark { commits, epoch: row.get("epoch")? })
    });
    read.map_err(|error| match error.sqlite_error_code() {
        // There is no such table, or nothing in it.
        None | Some(ErrorCode::Unknown) => integrity::damaged(file, error.to_string()),
        Some(_) => integrity::damaged_or(file, error),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::error::Error;
    use crate::store::{Durability, FILE_NAME, Store};

    /// The files of a data directory as a process leaves them that is killed at this moment.
    fn killed(of: &Path, suffixes: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE_NAME);
        for suffix in suffixes {
            fs::copy(backup::with_suffix(&of.join(FILE_NAME), suffix), backup::with_suffix(&file, suffix)).unwrap();
        }
        (dir, file)
    }

    async fn write(store: &Store, durability: Durability) {
        let work = |tx: &rusqlite::Transaction<'_>| {
            tx.execute("INSERT INTO events (at, event_type, info_json) VALUES (0, 'x', '{}')", []).context("a write")
        };
        store.write(durability, work).await.unwrap();
    }

    fn refusal(dir: &Path) -> String {
        match Store::open(dir) {
            Err(Error::DamagedFile { detail, .. }) => detail,
            Err(other) => panic!("{other}"),
            Ok(_) => String::new(),
        }
    }

    #[tokio::test]
    async fn a_statement_of_the_last_epoch_that_is_cut_off_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        write(&store, Durability::Full).await;
        let (early, file) = killed(dir.path(), &["", "-wal", SUFFIX]);
        write(&store, Durability::Full).await;
        let mark = fs::read(backup::with_suffix(&dir.path().join(FILE_NAME), SUFFIX)).unwrap();
        // All of it, and the file that is ahead of its mark.
        let (whole, _) = killed(dir.path(), &["", "-wal", SUFFIX]);
        assert_eq!(refusal(whole.path()), "");
        let (ahead, ahead_file) = killed(dir.path(), &["", "-wal"]);
        fs::copy(backup::with_suffix(&file, SUFFIX), backup::with_suffix(&ahead_file, SUFFIX)).unwrap();
        assert_eq!(refusal(ahead.path()), "");
        // Without the second statement.
        fs::write(backup::with_suffix(&file, SUFFIX), mark).unwrap();
        let said = refusal(early.path());
        assert!(said.starts_with("It holds 1 acknowledged commits up to epoch 0, but 2 up to"), "{said}");
        assert!(matches!(Store::open_read_only(early.path()), Err(Error::DamagedFile { .. })));
        fs::remove_file(backup::with_suffix(&file, SUFFIX)).unwrap();
        assert_eq!(refusal(early.path()), "");
    }

    #[tokio::test]
    async fn only_what_is_synced_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let path = backup::with_suffix(&dir.path().join(FILE_NAME), SUFFIX);
        write(&store, Durability::Checkpoint).await;
        assert!(!path.exists());
        write(&store, Durability::Full).await;
        write(&store, Durability::Full).await;
        let mark = fs::read(&path).unwrap();
        assert_eq!(parse(&mark), Some(Mark { commits: 2, epoch: 0 }));
        let (early, file) = killed(dir.path(), &["", "-wal"]);
        write(&store, Durability::Checkpoint).await;
        assert_eq!(fs::read(&path).unwrap(), mark);
        // Power loss may take what is only a checkpoint.
        fs::write(backup::with_suffix(&file, SUFFIX), mark).unwrap();
        assert_eq!(refusal(early.path()), "");
    }

    #[tokio::test]
    async fn a_mark_that_can_not_be_read_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        write(&store, Durability::Full).await;
        drop(store);
        let path = backup::with_suffix(&dir.path().join(FILE_NAME), SUFFIX);
        let whole = fs::read(&path).unwrap();
        for (bad, why) in [
            (&b""[..], "is empty"),
            (b"0", "holds something else"),
            (b"\xff\xfe", "holds something else"),
            (&whole[..30], "holds something else"),
            (&whole[..21], "holds something else"),
        ] {
            fs::write(&path, bad).unwrap();
            let said = refusal(dir.path());
            assert!(said.contains(why) && said.contains(&format!("remove {} first", path.display())), "{said}");
            assert!(matches!(Store::open_read_only(dir.path()), Err(Error::DamagedFile { .. })));
            assert!(matches!(backup::inspect(dir.path()), Err(Error::DamagedFile { .. })));
        }
        // An older program's is made a new one by the next statement.
        fs::write(&path, format!("{:020}\n", 0)).unwrap();
        let store = Store::open(dir.path()).unwrap();
        write(&store, Durability::Full).await;
        assert_eq!(parse(&fs::read(&path).unwrap()), Some(Mark { commits: 2, epoch: 0 }));
    }

    #[tokio::test]
    async fn an_older_file_is_behind_a_newer_mark() {
        let dir = tempfile::tempdir().unwrap();
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade/0004.db");
        let file = dir.path().join(FILE_NAME);
        fs::copy(&old, &file).unwrap();
        let epoch: i64 =
            Connection::open(&file).unwrap().query_row("SELECT epoch FROM meta", [], |row| row.get(0)).unwrap();
        for (text, is_refused) in [
            (format!("{:020} {epoch:020}\n", 1), true),
            (format!("{:020}\n", epoch + 1), true),
            (format!("{epoch:020}\n"), false),
        ] {
            fs::write(backup::with_suffix(&file, SUFFIX), &text).unwrap();
            assert_eq!(refusal(dir.path()).contains("had been written"), is_refused, "{text}");
        }
    }
}

//! What SQLite wrote into its log (`-wal`) is read again before anybody is told that it is kept.
//!
//! A log that another program cuts short while it is written to is written on behind the hole, and has its full length again.
//! Only its frames tell: the checksum of each goes on from that of the one before.
//! <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The bytes of a log of so many frames.
pub fn length(frames: u64, page: u64) -> Option<u64> {
    let frame = page.checked_add(FRAME_HEADER as u64)?;
    if frames == 0 { Some(0) } else { frames.checked_mul(frame)?.checked_add(HEADER as u64) }
}

/// A log, and how far it was read.
pub struct Log {
    path: PathBuf,
    last: Option<Last>,
}

/// The last frame that was read. It is read again with those behind it.
struct Last {
    /// What tells the frames of this round from those of earlier ones.
    salt: [u8; 8],
    /// Counted from 1.
    number: u64,
    /// The checksum before it.
    before: Sum,
}

impl Log {
    pub fn new(path: PathBuf) -> Self {
        Self { path, last: None }
    }

    /// Whether all of so many frames, of pages of so many bytes, are as they were written; but for those that were read
    /// before.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn is_whole(&mut self, frames: u64, page: u64) -> io::Result<bool> {
        match self.read(frames, page) {
            Ok(last) => {
                self.last = last;
                Ok(frames == 0 || self.last.is_some())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The last frame. `None`: there is none, or one of them isn't as it was written.
    fn read(&self, frames: u64, page: u64) -> io::Result<Option<Last>> {
        if frames == 0 {
            return Ok(None);
        }
        let file = File::open(&self.path)?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let is_big = match u32::from_be_bytes(word(&header, 0)) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return Ok(None),
        };
        let salt = [word(&header, 16), word(&header, 20)].concat().try_into().unwrap_or_default();
        let known = self.last.as_ref().filter(|last| last.salt == salt && last.number <= frames);
        let (mut number, mut sum) = known.map_or((1, Sum::read(&header, 24)), |last| (last.number, last.before));
        let mut frame = vec![0; FRAME_HEADER + usize::try_from(page).unwrap_or_default()];
        loop {
            let Some(offset) = length(number, page).map(|end| end - frame.len() as u64) else { return Ok(None) };
            file.read_exact_at(&mut frame, offset)?;
            let before = sum;
            sum = sum.over(&frame[..8], is_big).over(&frame[FRAME_HEADER..], is_big);
            if frame[8..16] != salt || sum != Sum::read(&frame, 16) {
                return Ok(None);
            }
            if number == frames {
                return Ok(Some(Last { salt, number, before }));
            }
            number += 1;
        }
    }
}

/// SQLite's checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(u32::from_be_bytes(word(bytes, at)), u32::from_be_bytes(word(bytes, at + 4)))
    }

    fn over(self, bytes: &[u8], is_big: bool) -> Self {
        let read = if is_big { u32::from_be_bytes } else { u32::from_le_bytes };
        bytes.chunks_exact(8).fold(self, |Self(first, second), pair| {
            let first = first.wrapping_add(read(word(pair, 0))).wrapping_add(second);
            Self(first, second.wrapping_add(read(word(pair, 4))).wrapping_add(first))
        })
    }
}

fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_hole_is_found_wherever_it_is_and_a_new_round_is_none() {
        let dir = tempdir().unwrap();
        let connection = Connection::open(dir.path().join("a.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let path = dir.path().join("a.db-wal");
        let mut log = Log::new(path.clone());
        let frames =
            || connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get::<_, u64>("log")).unwrap();
        let add = || connection.execute("INSERT INTO t VALUES (randomblob(9000))", []).unwrap();
        for round in 0..3 {
            for _ in 0..5 {
                add();
                assert!(log.is_whole(frames(), 4096).unwrap(), "round {round}");
            }
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            assert!(log.is_whole(frames(), 4096).unwrap());
        }
        add();
        assert!(log.is_whole(frames(), 4096).unwrap());
        let file = File::options().write(true).open(&path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in [1, 100, 4096, 4120, 4121, 9000, whole.len() as u64 - 40, whole.len() as u64] {
            file.set_len(whole.len() as u64 - cut).unwrap();
            file.set_len(whole.len() as u64).unwrap();
            assert!(!log.is_whole(frames(), 4096).unwrap(), "cut {cut} short");
            file.write_all_at(&whole, 0).unwrap();
            assert!(log.is_whole(frames(), 4096).unwrap(), "mended");
        }
        file.set_len(whole.len() as u64 - 1).unwrap();
        assert!(!log.is_whole(frames(), 4096).unwrap(), "too short");
    }
}

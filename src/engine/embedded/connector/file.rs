//! The `file` connector: a directory of append-only JSON-lines files, each a split.
//!
//! A split's id is the file's name without `.jsonl`, and a row's offset is the byte at which its line starts. A line
//! counts once its line end is written; until then it waits. An empty line is a position without a row.
//!
//! Files may only grow. Before each read the file must still reach to where its reader is, and that place must still be
//! the start of a line. If not, it was cut or written anew: its rows can't be told from those that came out before, so
//! the split is reported as unreachable until the file is as it was. Nothing is ever read again in silence.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::json::{Decoder, bad_row};
use super::{BadRow, Chunk, Connector, ReadEvent, Reader, Start, Watermarks};
use crate::backfill::id::{Offset, SplitId};
use crate::error::{Error, Result};

/// What the name of a split's file ends with.
const EXTENSION: &str = ".jsonl";

/// Bytes read at a time.
const BLOCK: usize = 256 * 1024;

/// The longest line, in bytes without its line end. A longer one is a bad row and is never held in memory.
const MAX_LINE: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A directory of JSON-lines files.
#[derive(Debug)]
pub struct FileConnector {
    directory: PathBuf,
    poll_interval: Duration,
    source_name: String,
    decoder: Arc<Decoder>,
}

impl FileConnector {
    /// A connector for the files of a directory, which need not exist yet. Readers look for new lines every
    /// `poll_interval`.
    pub fn new(directory: PathBuf, poll_interval: Duration, source_name: &str, decoder: Decoder) -> Self {
        Self { directory, poll_interval, source_name: source_name.to_owned(), decoder: Arc::new(decoder) }
    }

    fn unreachable(&self, error: &io::Error) -> Error {
        Error::SourceUnreachable {
            source_name: self.source_name.clone(),
            detail: format!("directory {}: {error}", self.directory.display()),
        }
    }
}

#[async_trait]
impl Connector for FileConnector {
    async fn discover(&self) -> Result<BTreeMap<SplitId, Result<Watermarks, String>>> {
        let mut splits = BTreeMap::new();
        for entry in std::fs::read_dir(&self.directory).map_err(|error| self.unreachable(&error))? {
            let entry = entry.map_err(|error| self.unreachable(&error))?;
            let Some(split) = split_of(&entry.file_name()) else { continue };
            let path = entry.path();
            // Follows a link, as opening the file does.
            match std::fs::metadata(&path) {
                Ok(metadata) if !metadata.is_file() => {}
                Ok(_) => {
                    let found = watermarks(&path).map_err(|error| format!("file {}: {error}", path.display()));
                    splits.insert(split, found);
                }
                Err(error) => {
                    splits.insert(split, Err(format!("file {}: {error}", path.display())));
                }
            }
        }
        Ok(splits)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(FileReader {
            directory: self.directory.clone(),
            poll_interval: self.poll_interval,
            decoder: Arc::clone(&self.decoder),
            splits: BTreeMap::new(),
            last_served: None,
        })
    }
}

/// The split of a file, `None` when the file is not one of ours.
fn split_of(file_name: &OsStr) -> Option<SplitId> {
    let id = file_name.to_str()?.strip_suffix(EXTENSION)?;
    (!id.is_empty() && !id.starts_with('.')).then(|| SplitId::from(id))
}

/// Reads a file backwards until the last complete line is found.
fn watermarks(path: &Path) -> io::Result<Watermarks> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK.min(64 * 1024)];
    let mut end = file.metadata()?.len();
    let mut high = None;
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        for at in
            part.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| start + index as u64)
        {
            match high {
                None => high = Some(at + 1),
                Some(high) => return Ok(marks(high, at + 1)),
            }
        }
        end = start;
    }
    Ok(high.map_or(Watermarks { low: Offset(0), high: Offset(0), latest: None, memory: None }, |high| marks(high, 0)))
}

fn marks(high: u64, latest: u64) -> Watermarks {
    Watermarks { low: Offset(0), high: offset(high), latest: Some(offset(latest)), memory: None }
}

fn offset(position: u64) -> Offset {
    Offset(position as i64)
}

/// Reads the files of some splits in turns.
struct FileReader {
    directory: PathBuf,
    poll_interval: Duration,
    decoder: Arc<Decoder>,
    splits: BTreeMap<SplitId, Tail>,
    /// Whose turn was last; the next one's is next.
    last_served: Option<SplitId>,
}

#[async_trait]
impl Reader for FileReader {
    fn assign(&mut self, splits: &BTreeMap<SplitId, Start>) {
        self.splits.retain(|split, _| splits.contains_key(split));
        for (split, start) in splits {
            if !self.splits.contains_key(split) {
                let path = self.directory.join(format!("{split}{EXTENSION}"));
                self.splits.insert(split.clone(), Tail::new(split.clone(), path, *start));
            }
        }
    }

    async fn next(&mut self, max_rows: usize) -> ReadEvent {
        loop {
            // Nothing is lost when this is dropped at an await: whatever was read is in the tails.
            match self.turn(max_rows) {
                Turn::Event(event) => return event,
                Turn::Busy => tokio::task::yield_now().await,
                Turn::Idle(Some(until)) => tokio::time::sleep_until(until).await,
                Turn::Idle(None) => std::future::pending().await,
            }
        }
    }
}

enum Turn {
    Event(ReadEvent),
    /// There is more to do, with nothing to tell yet.
    Busy,
    /// Nothing to do before then (or ever).
    Idle(Option<Instant>),
}

impl FileReader {
    /// One turn for every split, from the one after the last served on, until one has something to tell.
    fn turn(&mut self, max_rows: usize) -> Turn {
        let now = Instant::now();
        let mut busy = false;
        let (done, due): (Vec<_>, Vec<_>) = self
            .splits
            .values_mut()
            .partition(|tail| self.last_served.as_ref().is_some_and(|last| tail.split <= *last));
        for tail in due.into_iter().chain(done) {
            if tail.wait_until.is_some_and(|until| now < until) {
                continue;
            }
            tail.wait_until = None;
            match tail.next(&self.decoder, max_rows.max(1)) {
                Some(Step::Event(event)) => {
                    self.last_served = Some(tail.split.clone());
                    return Turn::Event(event);
                }
                Some(Step::Busy) => busy = true,
                None => tail.wait_until = Some(now + self.poll_interval),
            }
        }
        if busy { Turn::Busy } else { Turn::Idle(self.splits.values().filter_map(|tail| tail.wait_until).min()) }
    }
}

enum Step {
    Event(ReadEvent),
    /// A long line was searched in part.
    Busy,
}

/// Where a reader is in one file.
struct Tail {
    split: SplitId,
    path: PathBuf,
    /// The next line to come out starts here.
    position: u64,
    /// The line at `position` came out before: it is passed over.
    passing: bool,
    /// Complete lines, the first of them (from `taken` on) at `position`.
    unread: Vec<u8>,
    taken: usize,
    /// The end and the first bytes of the line at `position`, when it is too long.
    long_line: Option<(u64, Vec<u8>)>,
    /// All complete lines before this place have been found; after `unread`, no line ends before it.
    searched: u64,
    /// Which file was read, as the file system numbers it: another one of the same name is not gone on with.
    identity: Option<(u64, u64)>,
    /// The split was reported as unreachable.
    reported: bool,
    /// At the end of the file: not to be looked at before.
    wait_until: Option<Instant>,
}

/// What a look at the file gave.
enum Found {
    /// Lines, that are in the [`Tail`] now.
    Lines,
    /// No line end yet, and there is more to search.
    Nothing,
    /// No complete line in all of the file's rest.
    End,
}

impl Tail {
    fn new(split: SplitId, path: PathBuf, start: Start) -> Self {
        let passed = match start {
            Start::Earliest => None,
            Start::After(offset) => u64::try_from(offset.0).ok(),
        };
        Self {
            split,
            path,
            position: passed.unwrap_or(0),
            passing: passed.is_some(),
            unread: Vec::new(),
            taken: 0,
            long_line: None,
            searched: passed.unwrap_or(0),
            identity: None,
            reported: false,
            wait_until: None,
        }
    }

    /// The next thing to tell of this split; `None` at the end of the file.
    fn next(&mut self, decoder: &Decoder, max_rows: usize) -> Option<Step> {
        loop {
            if let Some(chunk) = self.take(decoder, max_rows) {
                return Some(Step::Event(ReadEvent::Chunk(chunk)));
            }
            match self.fill() {
                Err(message) => {
                    let known = std::mem::replace(&mut self.reported, true);
                    return (!known).then(|| Step::Event(ReadEvent::Unreachable(self.split.clone(), message)));
                }
                Ok(_) if self.reported => {
                    self.reported = false;
                    return Some(Step::Event(ReadEvent::Recovered(self.split.clone())));
                }
                Ok(Found::Lines) => {}
                Ok(Found::Nothing) => return Some(Step::Busy),
                Ok(Found::End) => return None,
            }
        }
    }

    /// Rows of the lines that have been read.
    fn take(&mut self, decoder: &Decoder, max_rows: usize) -> Option<Chunk> {
        let mut lines = Vec::new();
        let mut bad = Vec::new();
        let mut last = None;
        if let Some((end, head)) = self.long_line.take() {
            if !self.passing {
                bad.push(too_long(self.position, end - self.position, &head));
                last = Some(self.position);
            }
            (self.position, self.passing) = (end, false);
        }
        while let Some(length) = line_length(&self.unread[self.taken..])
            && lines.len() < max_rows
        {
            let at = self.position;
            let line = content(at, &self.unread[self.taken..self.taken + length]);
            self.taken += length;
            self.position += length as u64;
            if std::mem::take(&mut self.passing) {
                continue;
            }
            last = Some(at);
            if line.len() > MAX_LINE {
                bad.push(too_long(at, line.len() as u64, line));
            } else if !line.trim_ascii().is_empty() {
                lines.push((offset(at), line));
            }
        }
        let decoded = last.map(|last| (last, decoder.decode(&lines)));
        if self.taken == self.unread.len() {
            // A split at its end holds no memory: there may be thousands.
            (self.unread, self.taken) = (Vec::new(), 0);
        }
        let (last, decoded) = decoded?;
        bad.extend(decoded.bad);
        bad.sort_by_key(|row| row.offset);
        Some(Chunk {
            split: self.split.clone(),
            offsets: decoded.offsets.into(),
            bytes: decoded.rows.get_array_memory_size(),
            rows: decoded.rows,
            bad,
            position: offset(last),
        })
    }

    /// Reads on. Called when all that was read has been taken.
    fn fill(&mut self) -> Result<Found, String> {
        let (mut file, length, identity) = self.open()?;
        self.identity = Some(identity);
        self.searched = self.searched.max(self.position);
        if length < self.searched {
            // A half-written line was cut back. It never came out.
            self.searched = self.position;
        }
        let failed = |error: io::Error| format!("file {}: {error}", self.path.display());
        let found = if length == self.searched {
            Found::End
        } else if self.searched - self.position > MAX_LINE as u64 {
            let (found, searched) = self.search_long_line(&mut file).map_err(failed)?;
            self.searched = searched;
            if let Found::Lines = found {
                let mut head = vec![0; 2 * super::json::KEPT_TEXT];
                file.seek(SeekFrom::Start(self.position)).and_then(|_| file.read_exact(&mut head)).map_err(failed)?;
                self.long_line = Some((searched, head));
            }
            found
        } else {
            let (found, lines, searched) = self.read_lines(&mut file).map_err(failed)?;
            (self.unread, self.taken, self.searched) = (lines, 0, searched);
            found
        };
        match found {
            Found::End if self.passing => Err(format!(
                "file {} has {length} bytes and no line end after byte {}, where a line has been read: it was cut or \
                 written anew",
                self.path.display(),
                self.position
            )),
            found => Ok(found),
        }
    }

    /// The file, at `position`, and its length. `Err` when this is not the file any more that was read up to there.
    fn open(&self) -> Result<(File, u64, (u64, u64)), String> {
        let position = self.position;
        let path = self.path.display();
        let failed = |error: io::Error| format!("file {path}, read up to byte {position}: {error}");
        let mut file = File::open(&self.path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let length = metadata.len();
        if !metadata.is_file() {
            return Err(format!("{path} is not a file any more"));
        }
        let identity = (metadata.dev(), metadata.ino());
        if position > 0 && self.identity.is_some_and(|before| before != identity) {
            return Err(format!("file {path} is not the one that was read up to byte {position}: it was replaced"));
        }
        if length < position {
            return Err(format!("file {path} has {length} bytes, but was read up to byte {position}: it was cut"));
        }
        if position > 0 {
            let mut before = [0];
            file.seek(SeekFrom::Start(position - 1)).and_then(|_| file.read_exact(&mut before)).map_err(failed)?;
            if before != *b"\n" {
                return Err(format!(
                    "file {path} ({length} bytes) was read up to byte {position}, where no line starts any more: it was \
                     written anew"
                ));
            }
        }
        Ok((file, length, identity))
    }

    /// Reads blocks until there is a complete line. Gives the complete lines, and up to where was searched.
    fn read_lines(&self, file: &mut File) -> io::Result<(Found, Vec<u8>, u64)> {
        let mut lines = Vec::with_capacity(BLOCK);
        loop {
            let before = lines.len();
            file.take(BLOCK as u64).read_to_end(&mut lines)?;
            let searched = self.position + lines.len() as u64;
            if let Some(end) = lines[before..].iter().rposition(|byte| *byte == b'\n') {
                lines.truncate(before + end + 1);
                let searched = self.position + lines.len() as u64;
                return Ok((Found::Lines, lines, searched));
            }
            if lines.len() == before {
                return Ok((Found::End, Vec::new(), searched));
            }
            if lines.len() > MAX_LINE {
                return Ok((Found::Nothing, Vec::new(), searched));
            }
        }
    }

    /// Searches the end of a line that is too long, without keeping it. Gives up after [`MAX_LINE`] bytes, so that other
    /// splits have their turn.
    fn search_long_line(&self, file: &mut File) -> io::Result<(Found, u64)> {
        let mut searched = self.searched;
        let mut block = Vec::with_capacity(BLOCK);
        file.seek(SeekFrom::Start(searched))?;
        while searched - self.searched < MAX_LINE as u64 {
            block.clear();
            file.take(BLOCK as u64).read_to_end(&mut block)?;
            if let Some(length) = line_length(&block) {
                return Ok((Found::Lines, searched + length as u64));
            }
            if block.is_empty() {
                return Ok((Found::End, searched));
            }
            searched += block.len() as u64;
        }
        Ok((Found::Nothing, searched))
    }
}

/// The length of the first line, with its line end.
fn line_length(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let length = rest.skip_until(b'\n').unwrap_or_default();
    (length > 0 && bytes[length - 1] == b'\n').then_some(length)
}

/// A line without its line end and without the byte order mark that the first one may have.
fn content(at: u64, line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if at == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }
}

fn too_long(at: u64, length: u64, head: &[u8]) -> BadRow {
    bad_row(offset(at), format!("the line has {length} bytes, more than {MAX_LINE}"), head)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;

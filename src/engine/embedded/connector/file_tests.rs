use std::fs;
use std::io::Write;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, Schema};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::engine::embedded::columns;

/// Long enough to search a line of some hundred megabytes.
const LONG: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(2);

fn connector(directory: &Path) -> FileConnector {
    let schema = Schema::new(vec![columns::field("a", "int8").unwrap()]);
    FileConnector::new(directory.to_owned(), POLL, "s", Decoder::new(Arc::new(schema)).unwrap())
}

fn append(directory: &Path, name: &str, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(directory.join(name)).unwrap();
    file.write_all(bytes).unwrap();
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn reader(connector: &FileConnector, splits: &[(&str, Start)]) -> Box<dyn Reader> {
    let mut reader = connector.reader();
    reader.assign(&splits.iter().map(|(split, start)| (SplitId::from(split), *start)).collect());
    reader
}

/// All that a reader tells until it has nothing more to tell.
async fn drain(reader: &mut dyn Reader, max_rows: usize) -> Vec<ReadEvent> {
    drain_until(reader, max_rows, POLL * 3).await
}

/// Silence twice in a row: in a call that the machine held up, a file may not have been looked at. The next call looks
/// at once, since every file has been due for long.
async fn drain_until(reader: &mut dyn Reader, max_rows: usize, silence: Duration) -> Vec<ReadEvent> {
    let (mut events, mut silences) = (Vec::new(), 0);
    while silences < 2 {
        match tokio::time::timeout(silence, reader.next(max_rows)).await {
            Ok(event) => {
                events.push(event);
                silences = 0;
            }
            Err(_) => silences += 1,
        }
    }
    events
}

/// Events in short: `A 0=1 8=2 bad 16 @16`.
fn short(events: &[ReadEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            ReadEvent::Chunk(chunk) => {
                let values = chunk.rows.column(0).as_primitive::<Int64Type>();
                let mut text = chunk.split.to_string();
                for (offset, value) in chunk.offsets.iter().zip(values.iter()) {
                    text += &format!(" {offset}={}", value.map_or("null".into(), |value| value.to_string()));
                }
                for bad in &chunk.bad {
                    text += &format!(" bad {}", bad.offset);
                }
                format!("{text} @{}", chunk.position)
            }
            ReadEvent::Unreachable(split, message) => format!("{split} unreachable: {message}"),
            ReadEvent::Gap(gap) => format!("{gap:?}"),
            ReadEvent::Recovered(split) => format!("{split} recovered"),
        })
        .collect()
}

fn read_all(directory: &Path, split: &str, start: Start, max_rows: usize) -> Vec<String> {
    block_on(async { short(&drain(&mut *reader(&connector(directory), &[(split, start)]), max_rows).await) })
}

fn watermarks_of(bytes: &[u8]) -> Watermarks {
    let directory = TempDir::new().unwrap();
    append(directory.path(), "A.jsonl", bytes);
    watermarks(&directory.path().join("A.jsonl")).unwrap()
}

#[test]
fn watermarks_are_those_of_complete_lines() {
    let want = |high, latest: Option<i64>| Watermarks {
        low: Offset(0),
        high: Offset(high),
        latest: latest.map(Offset),
        memory: None,
    };
    assert_eq!(watermarks_of(b""), want(0, None));
    assert_eq!(watermarks_of(b"{\"a\":1"), want(0, None));
    assert_eq!(watermarks_of(b"{}\n"), want(3, Some(0)));
    assert_eq!(watermarks_of(b"{}\n{\"a\":1}\n{"), want(11, Some(3)));
    assert_eq!(watermarks_of(b"\n\n"), want(2, Some(1)));
    let long = [b"{}\n", &vec![b' '; 200_000][..], b"\n", &vec![b'x'; 70_000][..]].concat();
    assert_eq!(watermarks_of(&long), want(200_004, Some(3)));
}

#[test]
fn only_jsonl_files_are_splits() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    for name in ["B.jsonl", "A.jsonl", ".hidden.jsonl", ".jsonl", "C.json", "ä.jsonl"] {
        append(path, name, b"{}\n");
    }
    fs::create_dir(path.join("D.jsonl")).unwrap();
    std::os::unix::fs::symlink(path.join("nowhere"), path.join("E.jsonl")).unwrap();
    std::os::unix::fs::symlink(path.join("A.jsonl"), path.join("F.jsonl")).unwrap();
    {
        use std::os::unix::ffi::OsStrExt;
        let _ = fs::write(path.join(OsStr::from_bytes(b"\xff.jsonl")), b"{}\n");
    }
    let splits = block_on(connector(path).discover()).unwrap();
    let names: Vec<_> = splits.keys().map(SplitId::as_str).collect();
    assert_eq!(names, ["A", "B", "E", "F", "ä"]);
    assert!(splits[&SplitId::from("E")].as_ref().unwrap_err().contains("E.jsonl: No such file"));
    assert_eq!(splits[&SplitId::from("F")].as_ref().unwrap().high, Offset(3));
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let error = block_on(connector(Path::new("/nowhere/at/all")).discover()).unwrap_err();
    assert_eq!(error.to_string(), "source \"s\" cannot be reached");
    assert!(error.detail().unwrap().starts_with("directory /nowhere/at/all: No such file"));
}

#[test]
fn line_forms() {
    let directory = TempDir::new().unwrap();
    let lines: &[u8] = b"\xef\xbb\xbf{\"a\":1}\r\n\r\n{\"a\":\"x\"}\n  \n{\"a\":2}\n\xff\n{\"a\":3}\n\n{\"a\":";
    append(directory.path(), "A.jsonl", lines);
    assert_eq!(read_all(directory.path(), "A", Start::Earliest, 100), ["A 0=1 27=2 37=3 bad 14 bad 35 @45"]);
    append(directory.path(), "B.jsonl", b"\n\n");
    assert_eq!(read_all(directory.path(), "B", Start::Earliest, 100), ["B @1"]);
}

#[test]
fn a_half_written_line_waits_even_if_it_is_written_anew() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    append(path, "A.jsonl", b"{\"a\":1}\n{\"a\":77");
    block_on(async {
        let mut reader = reader(&connector(path), &[("A", Start::Earliest)]);
        assert_eq!(short(&drain(&mut *reader, 10).await), ["A 0=1 @0"]);
        fs::write(path.join("A.jsonl"), b"{\"a\":1}\n{\"a").unwrap();
        assert_eq!(short(&drain(&mut *reader, 10).await), [""; 0]);
        append(path, "A.jsonl", b"\":2}\n");
        assert_eq!(short(&drain(&mut *reader, 10).await), ["A 8=2 @8"]);
    });
}

#[test]
fn a_file_that_was_cut_or_written_anew_is_told_and_never_read_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let file = path.join("A.jsonl");
    let shown = file.display();
    let good = b"{\"a\":1}\n{\"a\":2}\n";
    append(path, "A.jsonl", good);
    append(path, "B.jsonl", b"");
    block_on(async {
        let mut reader = reader(&connector(path), &[("A", Start::Earliest), ("B", Start::Earliest)]);
        assert_eq!(short(&drain(&mut *reader, 10).await), ["A 0=1 8=2 @8"]);
        let cases: [(&[u8], String); 2] = [
            (b"{\"a\":9}\n", format!("file {shown} has 8 bytes, but was read up to byte 16: it was cut")),
            (
                b"{\"a\":9}, {\"a\":8}\n{\"a\":7}\n",
                format!(
                    "file {shown} (25 bytes) was read up to byte 16, where no line starts any more: it was written anew"
                ),
            ),
        ];
        for (bytes, message) in cases {
            fs::write(&file, bytes).unwrap();
            assert_eq!(short(&drain(&mut *reader, 10).await), [format!("A unreachable: {message}")]);
            append(path, "B.jsonl", b"{}\n");
            assert_eq!(drain(&mut *reader, 10).await.len(), 1, "the other split goes on");
            fs::write(&file, good).unwrap();
            assert_eq!(short(&drain(&mut *reader, 10).await), ["A recovered"]);
        }
        // Moved, not made anew: another file is another one, unless it happens to get the old one's number.
        let aside = path.join("aside");
        fs::rename(&file, &aside).unwrap();
        let events = short(&drain(&mut *reader, 10).await);
        assert_eq!(events.len(), 1);
        assert!(events[0].contains("A unreachable: file") && events[0].contains("read up to byte 16: No such file"));
        append(path, "aside", b"{\"a\":3}\n");
        fs::rename(&aside, &file).unwrap();
        assert_eq!(short(&drain(&mut *reader, 10).await), ["A recovered", "A 16=3 @16"]);
    });
}

#[test]
fn a_start_after_a_line_that_is_gone_is_told() {
    let directory = TempDir::new().unwrap();
    append(directory.path(), "A.jsonl", b"{\"a\":1}\n{\"a\":2}\n{\"a\"");
    let path = directory.path();
    let after = |offset| read_all(path, "A", Start::After(Offset(offset)), 10);
    assert_eq!(after(-1), ["A 0=1 8=2 @8"]);
    assert_eq!(after(0), ["A 8=2 @8"]);
    assert_eq!(after(8), [""; 0]);
    assert!(after(3)[0].contains("where no line starts any more"));
    assert!(after(16)[0].contains("has 20 bytes and no line end after byte 16"));
    assert!(after(100)[0].contains("it was cut"));
}

#[test]
fn lines_may_be_longer_than_a_block_but_not_without_end() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let fits = format!("{{\"a\":1{}}}\n", " ".repeat(MAX_LINE - 7));
    let long = format!("{{\"a\":2{}}}\n", " ".repeat(3 * MAX_LINE));
    append(path, "A.jsonl", fits.as_bytes());
    append(path, "A.jsonl", long.as_bytes());
    append(path, "A.jsonl", b"{\"a\":3}\n");
    let (second, third) = (fits.len(), fits.len() + long.len());
    block_on(async {
        let events = drain_until(&mut *reader(&connector(path), &[("A", Start::Earliest)]), 10, LONG).await;
        assert_eq!(
            short(&events),
            ["A 0=1 @0".to_owned(), format!("A bad {second} @{second}"), format!("A {third}=3 @{third}")]
        );
        let ReadEvent::Chunk(chunk) = &events[1] else { panic!() };
        assert_eq!(chunk.bad[0].error, format!("the line has {} bytes, more than {MAX_LINE}", long.len()));
        assert_eq!(chunk.bad[0].text.len(), super::super::json::KEPT_TEXT);
    });
    let after = block_on(async {
        let start = Start::After(offset(second as u64));
        drain_until(&mut *reader(&connector(path), &[("A", start)]), 10, LONG).await
    });
    assert_eq!(short(&after), [format!("A {third}=3 @{third}")]);
    let high = offset((third + 8) as u64);
    assert_eq!(
        watermarks(&path.join("A.jsonl")).unwrap(),
        Watermarks { low: Offset(0), high, latest: Some(offset(third as u64)), memory: None }
    );
}

#[test]
fn a_long_line_that_is_still_written_waits() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    append(path, "A.jsonl", &vec![b' '; MAX_LINE + 2 * BLOCK]);
    block_on(async {
        let mut reader = reader(&connector(path), &[("A", Start::Earliest)]);
        assert_eq!(short(&drain_until(&mut *reader, 10, LONG).await), [""; 0]);
        append(path, "A.jsonl", b"more");
        assert_eq!(short(&drain_until(&mut *reader, 10, LONG).await), [""; 0]);
        append(path, "A.jsonl", b"\n{\"a\":1}\n");
        let end = MAX_LINE + 2 * BLOCK + 5;
        assert_eq!(
            short(&drain_until(&mut *reader, 10, LONG).await),
            ["A bad 0 @0".to_owned(), format!("A {end}=1 @{end}")]
        );
    });
}

#[test]
fn splits_take_turns_and_keep_their_place_when_assigned_anew() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    for name in ["A.jsonl", "B.jsonl", "C.jsonl"] {
        append(path, name, b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
    }
    block_on(async {
        let mut reader = reader(&connector(path), &[("A", Start::Earliest), ("B", Start::Earliest)]);
        let mut events = Vec::new();
        for _ in 0..3 {
            events.push(reader.next(1).await);
        }
        assert_eq!(short(&events), ["A 0=1 @0", "B 0=1 @0", "A 8=2 @8"]);
        let splits = [("A", Start::Earliest), ("C", Start::After(Offset(8)))];
        reader.assign(&splits.iter().map(|(split, start)| (SplitId::from(split), *start)).collect());
        assert_eq!(short(&drain(&mut *reader, 1).await), ["C 16=3 @16", "A 16=3 @16"]);
    });
}

#[test]
fn a_dropped_call_loses_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    block_on(async {
        append(path, "A.jsonl", b"{\"a\":1}\n");
        let slow = FileConnector { poll_interval: Duration::from_millis(60), ..connector(path) };
        let mut reader = reader(&slow, &[("A", Start::Earliest)]);
        assert_eq!(short(&[reader.next(1).await]), ["A 0=1 @0"]);
        assert!(tokio::time::timeout(POLL, reader.next(1)).await.is_err());
        append(path, "A.jsonl", b"{\"a\":2}\n");
        let mut dropped = 0;
        let event = loop {
            match tokio::time::timeout(POLL, reader.next(1)).await {
                Ok(event) => break event,
                Err(_) => dropped += 1,
            }
        };
        assert_eq!(short(&[event]), ["A 8=2 @8"]);
        assert!((1..100).contains(&dropped), "a dropped call neither looks at once nor puts off the look: {dropped}");
    });
}

#[test]
fn a_reader_without_splits_waits() {
    let directory = TempDir::new().unwrap();
    block_on(async {
        assert!(tokio::time::timeout(POLL * 9, reader(&connector(directory.path()), &[]).next(1)).await.is_err());
    });
}

/// Lines with and without values, line ends of both kinds, long ones.
fn a_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..1000_i64).prop_map(|value| format!("{{\"a\":{value}}}\n").into_bytes()),
        1 => (0..1000_i64).prop_map(|value| format!("{{\"a\":{value}}}\r\n").into_bytes()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"no\n".to_vec()),
        1 => (1..400_000_usize).prop_map(|spaces| format!("{{{}\"a\":1}}\n", " ".repeat(spaces)).into_bytes()),
    ]
}

/// Where the lines start, good and bad; an empty one has no row.
fn starts(lines: &[Vec<u8>]) -> Vec<(i64, Option<bool>)> {
    let mut at = 0;
    lines
        .iter()
        .map(|line| {
            let start = at;
            at += line.len() as i64;
            (start, (line != b"\n").then(|| line != b"no\n"))
        })
        .collect()
}

fn rows(events: &[ReadEvent]) -> Vec<(i64, bool)> {
    let mut rows = Vec::new();
    for event in events {
        let ReadEvent::Chunk(chunk) = event else { panic!("{event:?}") };
        let mut some: Vec<_> = chunk.offsets.iter().map(|offset| (offset.0, true)).collect();
        some.extend(chunk.bad.iter().map(|bad| (bad.offset.0, false)));
        some.sort_unstable();
        assert!(some.last().is_none_or(|last| last.0 <= chunk.position.0));
        rows.extend(some);
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_complete_line_comes_out_once_and_in_order(
        lines in proptest::collection::vec(a_line(), 0..40),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        max_rows in 1..20_usize,
    ) {
        let directory = TempDir::new().unwrap();
        let bytes = lines.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        append(directory.path(), "A.jsonl", b"");
        block_on(async {
            let mut reader = reader(&connector(directory.path()), &[("A", Start::Earliest)]);
            let (mut events, mut written) = (Vec::new(), 0);
            for cut in cuts {
                append(directory.path(), "A.jsonl", &bytes[written..cut]);
                written = cut;
                events.extend(drain(&mut *reader, max_rows).await);
            }
            let want: Vec<_> = starts(&lines).into_iter().filter_map(|(at, good)| Some((at, good?))).collect();
            assert_eq!(rows(&events), want);
            let last = events.iter().rev().find_map(|event| match event {
                ReadEvent::Chunk(chunk) => Some(chunk.position.0),
                _ => None,
            });
            assert_eq!(last, starts(&lines).last().map(|line| line.0));
        });
    }

    #[test]
    fn a_start_after_any_line_gives_what_a_start_before_it_gives_later(
        lines in proptest::collection::vec(a_line(), 1..12),
        max_rows in 1..20_usize,
    ) {
        let directory = TempDir::new().unwrap();
        append(directory.path(), "A.jsonl", &lines.concat());
        let marks = watermarks(&directory.path().join("A.jsonl")).unwrap();
        prop_assert_eq!(marks.high.0, lines.concat().len() as i64);
        prop_assert_eq!(marks.latest.map(|latest| latest.0), starts(&lines).last().map(|line| line.0));
        block_on(async {
            let all = rows(&drain(&mut *reader(&connector(directory.path()), &[("A", Start::Earliest)]), max_rows).await);
            for (at, _) in starts(&lines) {
                let start = Start::After(Offset(at));
                let after = drain(&mut *reader(&connector(directory.path()), &[("A", start)]), max_rows).await;
                let want: Vec<_> = all.iter().copied().filter(|row| row.0 > at).collect();
                assert_eq!(rows(&after), want);
            }
        });
    }
}

//! The state file of every earlier schema is opened by this program, and all that was in it is there.
//!
//! `tests/upgrade/NNNN.db` is what the program of schema NNNN left after `tests/upgrade/make.sql`.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::tempdir;

use crate::faults::oracle::assert_books;
use crate::server::{Server, program};

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade");
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "db")).collect();
    files.sort();
    files
}

/// The splits that the files' source was made over.
fn write_splits(dir: &Path, rows: usize) {
    for split in ["a", "b", "c"] {
        let lines: String = (0..rows).map(|n| format!("{{\"n\": {n}, \"word\": \"{split}{n}\"}}\n")).collect();
        fs::write(dir.join(format!("{split}.jsonl")), lines).unwrap();
    }
}

#[test]
fn there_is_a_file_of_every_released_schema_but_the_newest() {
    let migrations = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/migrations")).unwrap();
    let newest = migrations.map(|entry| entry.unwrap().file_name().to_string_lossy()[..4].to_owned()).max().unwrap();
    let kept: Vec<String> =
        files().iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    // 0002 was never released: it came together with 0003.
    let released = ["0001", "0003", "0004", "0005", "0006", "0007"];
    assert_eq!(released.last().copied(), Some(newest.as_str()), "is the file of the last release kept?");
    assert_eq!(kept, released[..released.len() - 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_earlier_file_is_opened_with_all_that_is_in_it() {
    for file in files() {
        let place = tempdir().unwrap();
        let data = place.path().join("data");
        // SQLite leaves a log beside what it reads.
        let backup = place.path().join("backup.db");
        fs::copy(&file, &backup).unwrap();
        // As an operator would: the old file is a backup.
        let restored = program().arg("restore").arg(&backup).arg("--data-dir").arg(&data).output().unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        write_splits(place.path(), 20);
        Connection::open(data.join("tidegate.db"))
            .unwrap()
            .execute(
                "UPDATE sources SET options_json = json_set(options_json, '$.path', ?1) WHERE connector = 'file'",
                [place.path().display().to_string()],
            )
            .unwrap();
        let server = Server::start_on(&data, &[], &[]);
        let session = server.connect().await;
        assert_eq!(session.rows("SELECT count(*), sum(n) FROM words").await, [["30", "135"]]);
        assert_eq!(
            session.rows("SELECT count(*), sum(id), round(sum(amount), 2) FROM amounts").await,
            [["60", "1770", "33575.20"]]
        );
        assert_eq!(
            session
                .rows("SELECT decision, from_parallelism, to_parallelism, moved_splits FROM tidegate.rescale_history ORDER BY rescale_id")
                .await,
            [["committed", "2", "3", "1"], ["refused", "3", "1", "0"]]
        );
        let pending = "SELECT rescale_id, to_parallelism FROM tidegate.pending_rescales";
        assert_eq!(session.rows(pending).await, [["3", "2"]]);
        assert_eq!(
            session.rows("SELECT count(*), count(DISTINCT actor_id) FROM tidegate.split_assignments WHERE source_name = 'upgraded'").await,
            [["3", "3"]]
        );
        assert_eq!(session.value("SELECT count(*) FROM held").await, "0");
        // And it goes on: what was held is made, the rescale commits, new rows come.
        session.run("ALTER MATERIALIZED VIEW held SET backfill_rate_limit = DEFAULT").await;
        session
            .wait_for(
                "SELECT count(*) FROM tidegate.rescale_history WHERE rescale_id = 3 AND decision = 'committed'",
                "1",
            )
            .await;
        write_splits(place.path(), 25);
        session.wait_for("SELECT count(*) FROM held", "75").await;
        session.run("FLUSH; FLUSH").await;
        assert_eq!(session.value("SELECT count(*) FROM (SELECT DISTINCT _split, n FROM held) AS d").await, "75");
        assert_eq!(session.rows("SELECT count(*), sum(n) FROM words").await, [["30", "135"]]);
        assert_books(&data);
    }
}

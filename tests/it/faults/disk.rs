//! A full disk, and room on it again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::tempdir;

use super::Mount;
use super::oracle::assert_books;
use crate::server::{PATIENCE, Server, Session, program};

/// A file that takes all the room that there is but so much.
struct Balloon(PathBuf);

impl Balloon {
    fn blow_up(at: &Path) -> Self {
        let path = at.join("balloon");
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        Self(path)
    }
}

impl Drop for Balloon {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Tries a statement again until the disk stands in its way. What small statements fit in is not for a test to say.
async fn until_full(session: &Session, statement: &str) {
    let since = std::time::Instant::now();
    while since.elapsed() < PATIENCE {
        match session.0.simple_query(statement).await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            Err(error) => {
                let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
                assert_eq!(error.code().code(), "53100", "{statement}: {error:?}");
                assert!(error.hint().is_some_and(|hint| hint.contains("Make room")), "{statement}: {error:?}");
                return;
            }
        }
    }
    panic!("{statement} never met the full disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_outlived() {
    let place = tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(place.path(), "96m") else { return };
    let data = place.path().join("data");
    let mut server = Server::start_on(&data, &[], &[]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session
        .run(
            "CREATE SOURCE s (id BIGINT, word TEXT) WITH (connector = 'datagen', splits = 4, rows_per_second = 2000)
             FORMAT PLAIN ENCODE JSON",
        )
        .await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT id, word FROM s").await;
    session
        .run("CREATE SOURCE idle (id BIGINT) WITH (connector = 'datagen', splits = 2) FORMAT PLAIN ENCODE JSON")
        .await;
    session.run("CREATE MATERIALIZED VIEW held WITH (backfill_rate_limit = 0) AS SELECT id FROM idle").await;
    session.run("FLUSH; FLUSH; FLUSH").await;

    let balloon = Balloon::blow_up(place.path());
    let said = server.wait_for_health(503).await;
    assert!(said.contains("database or disk is full"), "{said}");
    // Each kind of write: a checkpoint, a statement that makes, one that refuses and keeps that, one that waits.
    until_full(&session, "FLUSH").await;
    until_full(
        &session,
        "CREATE SOURCE IF NOT EXISTS t (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON",
    )
    .await;
    until_full(&session, "CREATE MATERIALIZED VIEW IF NOT EXISTS more AS SELECT id FROM s").await;
    until_full(&session, "ALTER SOURCE s SET PARALLELISM = 2").await;
    until_full(&session, "DROP MATERIALIZED VIEW IF EXISTS nothing").await;
    // Reading goes on.
    assert_ne!(session.value("SELECT count(*) FROM mv").await, "0");
    let copy = place.path().join("copy.db");
    let backup = program().arg("backup").arg(&copy).arg("--data-dir").arg(&data).output().unwrap();
    assert!(!backup.status.success() && !copy.exists());
    let left = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 2, "a backup that failed leaves nothing beside the data and the balloon");

    drop(balloon);
    server.wait_for_health(200).await;
    session.run("ALTER SOURCE s SET source_rate_limit = 0").await;
    session.run("FLUSH").await;
    assert_nothing_lost(&session).await;
    assert_books(&data);

    // It ends in the middle of it, and can't start until there is room.
    session.run("ALTER SOURCE s SET source_rate_limit = DEFAULT").await;
    let balloon = Balloon::blow_up(place.path());
    server.wait_for_health(503).await;
    server.kill();
    drop(balloon);
    server.restart();
    let session = server.connect().await;
    session.run("ALTER SOURCE s SET source_rate_limit = 0").await;
    session.run("FLUSH; FLUSH").await;
    assert_nothing_lost(&session).await;
    assert_books(&data);
}

/// Datagen's offsets have no gaps, so neither has a view of all rows.
async fn assert_nothing_lost(session: &Session) {
    let gaps = "SELECT _split FROM mv GROUP BY _split
                HAVING count(*) <> max(_offset) + 1 OR count(DISTINCT _offset) <> count(*)";
    assert_eq!(session.rows(gaps).await, Vec::<Vec<String>>::new());
    assert_eq!(session.value("SELECT count(DISTINCT _split) FROM mv").await, "4");
}

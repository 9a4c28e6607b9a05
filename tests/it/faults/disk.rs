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

/// Tries a statement again until the disk stands in its way. What small writes fit in is not for a test to say: then it
/// succeeds, or is refused with `55000`.
async fn until_full(session: &Session, statement: &str) {
    let since = std::time::Instant::now();
    while since.elapsed() < PATIENCE {
        match session.0.simple_query(statement).await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            Err(error) => {
                let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
                if error.code().code() == "55000" {
                    continue;
                }
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
    let Some(_mount) = Mount::tmpfs(place.path(), "48m") else { return };
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
    session.run("CREATE USER joe PASSWORD 'secret'; FLUSH; FLUSH; FLUSH").await;

    let balloon = Balloon::blow_up(place.path());
    let said = server.wait_for_health(503).await;
    assert!(said.contains("database or disk is full"), "{said}");
    // Each kind of write: a checkpoint, a statement that makes, one that is refused and keeps that, one that waits, one
    // that only sets something, one about a user, and a sort that needs files.
    for statement in [
        "FLUSH",
        "CREATE SOURCE IF NOT EXISTS t (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS more AS SELECT id FROM s",
        "ALTER SOURCE idle SET PARALLELISM = 1",
        "ALTER SOURCE idle SET PARALLELISM = 1 DEFERRED",
        "ALTER MATERIALIZED VIEW held SET backfill_rate_limit = 0",
        "ALTER ROLE joe PASSWORD 'secret'",
        "SET statement_memory = '2MB'; SELECT x FROM generate_series(1, 2000000) g(x) ORDER BY -x",
    ] {
        until_full(&session, statement).await;
    }
    session.run("RESET statement_memory").await;
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
    // What was kept from being written works now, in the same process.
    session.run("SET statement_memory = '2MB'").await;
    let last = "SELECT x FROM generate_series(1, 2000000) g(x) ORDER BY -x OFFSET 1999999";
    assert_eq!(session.value(last).await, "1");
    session.run("ALTER ROLE joe PASSWORD 'other'; DROP MATERIALIZED VIEW held").await;

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

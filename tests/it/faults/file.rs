//! The state file itself: read-only, locked, cut short, overwritten.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::Connection;
use tempfile::tempdir;

use super::Mount;
use super::oracle::{Rows, assert_all};
use crate::server::{Server, program};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn serve(dir: &Path) -> Command {
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"]).arg(dir);
    command
}

fn repair(dir: &Path, backup: Option<&Path>) -> Output {
    let mut command = program();
    command.arg("repair").arg("--data-dir").arg(dir);
    if let Some(backup) = backup {
        command.arg("--from-backup").arg(backup);
    }
    command.output().unwrap()
}

/// Bytes that look drawn.
fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n as u32).wrapping_mul(2_654_435_761).rotate_left(9) as u8 | 1).collect()
}

/// Where the first page of a table or index is.
fn page_of(file: &Path, name: &str) -> u64 {
    let connection = Connection::open(file).unwrap();
    let page: u64 = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name GLOB ?1 LIMIT 1", [name], |row| row.get(0))
        .unwrap();
    let size: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    (page - 1) * size
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

type Damage = fn(&Path);

/// Ways to damage a state file, each of which has to be noticed before anything is built on it.
const DAMAGES: &[(&str, Damage)] = &[
    ("cut to nothing", |file| fs::write(file, b"").unwrap()),
    ("cut in half", |file| {
        let length = fs::metadata(file).unwrap().len();
        fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length / 2).unwrap();
    }),
    ("its header", |file| overwrite(file, 0, &noise(100))),
    ("a page of the schema", |file| overwrite(file, 100, &noise(3996))),
    ("a page of states", |file| overwrite(file, page_of(file, "backfill_states"), &noise(4096))),
    ("a page of assignments", |file| overwrite(file, page_of(file, "split_assignments"), &noise(4096))),
    ("a page of a view's rows", |file| overwrite(file, page_of(file, "mv_[0-9]*"), &noise(4096))),
    ("another kind of file", |file| fs::write(file, noise(40_000)).unwrap()),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_refused_and_replaced_by_a_backup() {
    let rows = Rows::create(4, 300);
    let place = tempdir().unwrap();
    let data = place.path().join("data");
    let backup = place.path().join("backup.db");
    let mut server = Server::start_on(&data, &[], &[]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 40) AS SELECT n FROM s").await;
    session.wait_for("SELECT count(*) > 10 FROM mv", "t").await;
    let made = program().arg("backup").arg(&backup).arg("--data-dir").arg(&data).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    assert!(server.terminate().success());
    let whole = fs::read(data.join("tidegate.db")).unwrap();
    let said = text(&repair(&data, None));
    assert!(said.starts_with("the state file is whole: epoch "), "{said}");
    let refused = repair(&data, Some(&backup));
    assert!(!refused.status.success() && text(&refused).contains("is not damaged"), "{}", text(&refused));
    for (what, damage) in DAMAGES {
        let dir = place.path().join(what.replace(' ', "-"));
        fs::create_dir(&dir).unwrap();
        let file = dir.join("tidegate.db");
        fs::write(&file, &whole).unwrap();
        damage(&file);
        let damaged = fs::read(&file).unwrap();
        let refused = serve(&dir).output().unwrap();
        let said = text(&refused);
        assert!(!refused.status.success(), "{what}: {said}");
        assert!(said.contains("ERROR:  XX001: state file") && said.contains("is damaged"), "{what}: {said}");
        assert!(said.contains("tidegate repair --data-dir DIR --from-backup FILE"), "{what}: {said}");
        assert_eq!(fs::read(&file).unwrap(), damaged, "{what}: refusing changes nothing");
        let told = repair(&dir, None);
        assert!(!told.status.success() && text(&told).contains("XX001"), "{what}: {}", text(&told));
        let repaired = repair(&dir, Some(&backup));
        assert!(repaired.status.success(), "{what}: {}", text(&repaired));
        assert_eq!(fs::read(aside(&dir, "damaged")).unwrap(), damaged, "{what}: the damaged file is kept");
        assert!(repair(&dir, None).status.success(), "{what}");
    }
    // From the backup's moment on, each row comes once.
    let last = place.path().join("another-kind-of-file");
    let server = Server::start_on(&last, &[], &[]);
    let session = server.connect().await;
    assert_all(&server, &session, &rows).await;
}

fn cut_to(file: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length).unwrap();
}

/// The state file that was moved aside.
fn aside(dir: &Path, why: &str) -> PathBuf {
    let prefix = format!("tidegate.db.{why}-");
    let found = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&prefix);
    found.filter(named).min().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_its_file_is_no_new_beginning() {
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON").await;
    server.kill();
    let file = server.data_dir().join("tidegate.db");
    fs::rename(&file, server.data_dir().join("elsewhere")).unwrap();
    let said = text(&serve(server.data_dir()).output().unwrap());
    assert!(said.contains("XX001") && said.contains("only its log"), "{said}");
    fs::rename(server.data_dir().join("elsewhere"), &file).unwrap();
    server.restart();
    assert_eq!(server.connect().await.value("SELECT count(*) FROM rw_catalog.rw_sources").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_lost_its_log_is_no_new_beginning() {
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("WAIT; FLUSH").await;
    session.run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON").await;
    session.run("FLUSH; CREATE USER u PASSWORD 'x'").await;
    server.kill();
    let beside = |suffix: &str| server.data_dir().join(format!("tidegate.db{suffix}"));
    let log = fs::read(beside("-wal")).unwrap();
    let file = fs::read(beside("")).unwrap();
    let refused = || {
        let output = serve(server.data_dir()).output().unwrap();
        assert!(!output.status.success());
        let said = text(&output);
        assert!(said.contains("XX001") && said.contains("had been written: its log"), "{said}");
        let backup = program().arg("backup").arg(beside(".copy")).arg("--data-dir").arg(server.data_dir()).output();
        assert!(text(&backup.unwrap()).contains("XX001"));
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(suffix));
        }
        fs::write(beside(""), &file).unwrap();
    };
    fs::remove_file(beside("-wal")).unwrap();
    refused();
    fs::write(beside("-wal"), &log[..log.len() / 8]).unwrap();
    refused();
    fs::write(beside("-wal"), b"").unwrap();
    refused();
    // Neither is a directory that lost both. Whoever means to begin anew can.
    fs::remove_file(beside("")).unwrap();
    let said = text(&serve(server.data_dir()).output().unwrap());
    assert!(said.contains("XX001") && said.contains("It is gone.") && !beside("").exists(), "{said}");
    // A backup can take its place.
    let other = tempdir().unwrap();
    fs::write(other.path().join("backup"), &file).unwrap();
    fs::write(other.path().join("tidegate.db-mark"), fs::read(beside("-mark")).unwrap()).unwrap();
    let repaired = repair(other.path(), Some(&other.path().join("backup")));
    assert!(repaired.status.success(), "{}", text(&repaired));
    assert!(!other.path().join("tidegate.db-mark").exists());
    assert!(repair(other.path(), None).status.success());
    fs::remove_file(beside("-mark")).unwrap();
    server.restart();
    assert_eq!(server.connect().await.value("SELECT count(*) FROM rw_catalog.rw_sources").await, "0");
    server.kill();
    // With its log it is whole.
    for suffix in ["-wal", "-shm", "-mark"] {
        let _ = fs::remove_file(server.data_dir().join(format!("tidegate.db{suffix}")));
    }
    fs::write(server.data_dir().join("tidegate.db"), &file).unwrap();
    fs::write(server.data_dir().join("tidegate.db-wal"), &log).unwrap();
    server.restart();
    assert_eq!(server.connect().await.value("SELECT count(*) FROM rw_catalog.rw_sources").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_the_last_epoch_that_is_cut_off_the_log_is_missed() {
    // No checkpoint comes by itself.
    let mut server = Server::start_with(&["--barrier-interval-ms", "600000"]);
    let session = server.connect().await;
    session.run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON").await;
    session.run("CREATE USER first").await;
    let log = server.data_dir().join("tidegate.db-wal");
    let before = fs::metadata(&log).unwrap().len();
    session.run("CREATE USER second").await;
    server.kill();
    let whole = fs::read(&log).unwrap();
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(before).unwrap();
    let said = text(&serve(server.data_dir()).output().unwrap());
    assert!(said.contains("XX001") && said.contains("had been written: its log"), "{said}");
    let check = program().args(["check", "s", "2", "--data-dir"]).arg(server.data_dir()).output().unwrap();
    assert!(check.status.code() == Some(2) && text(&check).contains("XX001"), "{}", text(&check));
    // With all of its log it is whole.
    let _ = fs::remove_file(server.data_dir().join("tidegate.db-shm"));
    fs::write(&log, whole).unwrap();
    server.restart();
    let users = "SELECT count(*) FROM pg_roles WHERE rolname IN ('first', 'second')";
    assert_eq!(server.connect().await.value(users).await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_taken_away_is_not_written_to_any_more() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 6] = [
        ("removed", |file| fs::remove_file(file).unwrap()),
        ("replaced", |file| {
            fs::copy(file, file.with_extension("copy")).unwrap();
            fs::rename(file.with_extension("copy"), file).unwrap();
        }),
        ("its log", |file| fs::remove_file(file.with_extension("db-wal")).unwrap()),
        ("cut to nothing", |file| cut_to(file, 0)),
        ("its log cut to nothing", |file| cut_to(&file.with_extension("db-wal"), 0)),
        ("its log cut short", |file| {
            let log = file.with_extension("db-wal");
            let length = fs::metadata(&log).unwrap().len();
            cut_to(&log, length - 4096);
        }),
    ];
    for (what, harm) in harms {
        // Where it can't even be read, a statement is refused before it writes: the next checkpoint notices.
        let is_readable = !what.contains("cut");
        let interval = if is_readable { "600000" } else { "1000" };
        let mut server = Server::start_with(&["--barrier-interval-ms", interval]);
        let session = server.connect().await;
        session.run("CREATE USER u").await;
        let file = server.data_dir().join("tidegate.db");
        let before = fs::read(&file).unwrap();
        harm(&file);
        if is_readable {
            let told = session.error("CREATE USER v").await;
            assert_eq!(told.sqlstate, "XX001", "{what}: {told:?}");
            let why = "was removed, replaced or cut short while the server ran";
            assert!(told.detail.contains(why), "{what}: {told:?}");
        }
        server.wait_for_log(&["ERROR", "nothing can be kept any more"]).await;
        let since = std::time::Instant::now();
        let status = loop {
            if let Some(status) = server.ended() {
                break status;
            }
            assert!(since.elapsed() < crate::server::PATIENCE, "{what}: the server goes on");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        assert_eq!(status.code(), Some(1), "{what}");
        server.wait_for_log(&["ERROR:  XX001: state file"]).await;
        if what.starts_with("its log cut") {
            assert_eq!(fs::read(&file).unwrap(), before, "{what}: nothing of a log with holes comes into the file");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_program_folds_or_vacuums_is_whole() {
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', splits = 1, rows_per_split = 20000) FORMAT PLAIN ENCODE JSON").await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT id FROM s").await;
    session.wait_for("SELECT count(*) FROM mv", "20000").await;
    session.run("DROP SOURCE s CASCADE; FLUSH").await;
    let file = server.data_dir().join("tidegate.db");
    let length = |file: &Path| fs::metadata(file).unwrap().len();
    let other = Connection::open(&file).unwrap();
    other.busy_timeout(crate::server::PATIENCE).unwrap();
    let before = length(&file);
    for (user, sql) in [("a", ""), ("b", "VACUUM;"), ("c", "")] {
        other.execute_batch(sql).unwrap();
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap();
        session.run(&format!("CREATE USER {user}")).await;
    }
    assert!(length(&file) < before, "vacuumed");
    // The file gets shorter, and what comes after is in the log alone.
    other
        .execute_batch("CREATE TABLE other AS SELECT zeroblob(400000) AS x; PRAGMA wal_checkpoint(TRUNCATE);")
        .unwrap();
    session.run("CREATE USER d").await;
    other.execute_batch("DROP TABLE other; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    other.execute_batch("CREATE TABLE other AS SELECT zeroblob(200000) AS x").unwrap();
    session.run("CREATE USER e").await;
    other.execute_batch("DROP TABLE other").unwrap();
    drop(other);
    server.kill();
    server.restart();
    let users = "SELECT count(*) FROM pg_roles WHERE rolname IN ('a', 'b', 'c', 'd', 'e')";
    assert_eq!(server.connect().await.value(users).await, "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_file_is_refused() {
    let mut server = Server::start();
    assert!(server.terminate().success());
    let file = server.data_dir().join("tidegate.db");
    let Some(mount) = Mount::read_only(&file) else { return };
    let refused = serve(server.data_dir()).output().unwrap();
    let said = text(&refused);
    assert!(!refused.status.success() && said.contains("is read-only") && said.contains("HINT:"), "{said}");
    drop(mount);
    server.restart();
    server.connect().await.run("FLUSH").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_program_locks_is_waited_for_told_and_taken_again() {
    let rows = Rows::create(3, 50);
    let server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n FROM s").await;
    let other = Connection::open(server.data_dir().join("tidegate.db")).unwrap();
    other.busy_timeout(crate::server::PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    session.run("SET rescale_timeout = 0").await;
    let error = session.error("ALTER SOURCE s SET PARALLELISM = 3").await;
    assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("55P03", "the checkpoint could not be written"));
    assert!(error.detail.contains("database is locked") && error.hint.contains("Another program"), "{error:?}");
    let said = server.wait_for_health(503).await;
    assert!(said.contains("database is locked"), "{said}");
    assert!(session.value("SELECT count(*) FROM mv").await.parse::<u64>().is_ok(), "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    server.wait_for_health(200).await;
    assert_eq!(session.value("SELECT count(*) FROM tidegate.rescale_history").await, "0");
    assert_all(&server, &session, &rows).await;
}

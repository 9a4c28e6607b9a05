//! Backups made while the server writes, and what may be done with them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use rusqlite::Connection;
use tempfile::tempdir;

use crate::faults::oracle::{Rows, assert_all, assert_books};
use crate::server::{Server, program};

fn run(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    program().args(args.iter().map(|arg| arg.as_ref())).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_one_moment_and_every_row_comes_once_after_it() {
    let rows = Rows::create(6, 400);
    let place = tempdir().unwrap();
    let server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 200) AS SELECT n FROM s").await;
    session.run("FLUSH; FLUSH; FLUSH").await;
    session.run("ALTER SOURCE s SET PARALLELISM = 3 DEFERRED").await;
    session.wait_for("SELECT count(*) > 20 FROM mv", "t").await;
    let mut epochs = Vec::new();
    for round in 0..3 {
        let file = place.path().join(format!("{round}.db"));
        // By URL and by directory.
        let (flag, from) =
            if round == 0 { ("--url", server.url()) } else { ("--data-dir", server.data_dir().display().to_string()) };
        let output = run(&[&"backup", &file, &flag, &from]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("sources: 1, materialized views: 1"), "{}", said(&output));
        rows.append_to_all();
        session.run("FLUSH").await;
        let copy = Connection::open(&file).unwrap();
        epochs.push(copy.query_row("SELECT epoch FROM meta", [], |row| row.get::<_, i64>(0)).unwrap());
        let mode: String = copy.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete", "a backup is one file");
        let permissions = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(permissions, 0o600, "secrets are in it");
    }
    assert!(epochs.is_sorted() && epochs[0] < epochs[2], "the server goes on meanwhile: {epochs:?}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3, "nothing is left beside them");
    assert_all(&server, &session, &rows).await;
    for round in 0..3 {
        let dir = place.path().join(format!("restored-{round}"));
        let output = run(&[&"restore", &place.path().join(format!("{round}.db")), &"--data-dir", &dir]);
        assert!(output.status.success(), "{}", said(&output));
        let restored = Server::start_on(&dir, &[], &[]);
        let session = restored.connect().await;
        assert_all(&restored, &session, &rows).await;
        let rescaled = "SELECT count(*) FROM tidegate.rescale_history WHERE decision = 'committed' AND to_parallelism <> from_parallelism";
        session.wait_for(rescaled, "1").await;
        assert_books(&dir);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_overwritten_unasked_and_nothing_is_ever_deleted() {
    let place = tempdir().unwrap();
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("CREATE SOURCE before (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON").await;
    let file = place.path().join("backup.db");
    let back_up = |more: &[&str]| {
        program().arg("backup").arg(&file).arg("--data-dir").arg(server.data_dir()).args(more).output().unwrap()
    };
    assert!(back_up(&[]).status.success());
    let first = fs::read(&file).unwrap();
    session.run("CREATE SOURCE after (id BIGINT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON").await;
    let refused = back_up(&[]);
    assert!(!refused.status.success() && said(&refused).contains("exists"), "{}", said(&refused));
    assert_eq!(fs::read(&file).unwrap(), first);
    let newer = place.path().join("newer.db");
    fs::copy(&file, &newer).unwrap();
    assert!(back_up(&["--force"]).status.success());
    assert_ne!(fs::read(&file).unwrap(), first);
    fs::write(&file, &first).unwrap();

    let restore = |file: &Path, dir: &Path, more: &[&str]| {
        program().arg("restore").arg(file).arg("--data-dir").arg(dir).args(more).output().unwrap()
    };
    let data = server.data_dir().to_path_buf();
    let in_use = restore(&file, &data, &["--force"]);
    assert!(!in_use.status.success() && said(&in_use).contains("is in use"), "{}", said(&in_use));
    assert!(server.terminate().success());
    let not_empty = restore(&file, &data, &[]);
    assert!(!not_empty.status.success() && said(&not_empty).contains("is not empty"), "{}", said(&not_empty));
    // A backup that is damaged, or of a newer program, replaces nothing.
    let now = fs::read(data.join("tidegate.db")).unwrap();
    fs::write(&newer, &first[..first.len() / 2]).unwrap();
    let damaged = restore(&newer, &data, &["--force"]);
    assert!(!damaged.status.success() && said(&damaged).contains("XX001"), "{}", said(&damaged));
    assert!(said(&damaged).contains("HINT:  Nothing was changed. Give another backup."), "{}", said(&damaged));
    fs::write(&newer, &first).unwrap();
    Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let too_new = restore(&newer, &data, &["--force"]);
    assert!(!too_new.status.success() && said(&too_new).contains("another version"), "{}", said(&too_new));
    assert_eq!(fs::read(data.join("tidegate.db")).unwrap(), now);
    let restored = restore(&file, &data, &["--force"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let aside: Vec<_> = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("tidegate.db.replaced-"))
        .filter(|path| !path.to_string_lossy().ends_with("-mark"))
        .collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read(&aside[0]).unwrap(), now);
    server.restart();
    let session = server.connect().await;
    assert_eq!(session.rows("SELECT name FROM rw_catalog.rw_sources").await, [["before"]]);
}

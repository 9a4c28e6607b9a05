//! Files, splits, processes: what comes and goes around a running engine.

use std::fs;
use std::io::Write as _;
use std::process::Output;

use rusqlite::Connection;
use tempfile::tempdir;

use crate::server::{Server, Session, program};

async fn file_source(session: &Session, dir: &std::path::Path) {
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session
        .run(&format!(
            "CREATE SOURCE s (n BIGINT) WITH (connector = 'file', path = '{}', poll_interval = '20ms') FORMAT PLAIN ENCODE JSON",
            dir.display()
        ))
        .await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n FROM s").await;
}

fn append(dir: &std::path::Path, split: &str, lines: std::ops::Range<i64>) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(dir.join(format!("{split}.jsonl"))).unwrap();
    for n in lines {
        writeln!(file, "{{\"n\": {n}}}").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_upstream_does_not_hold_a_split_for_ever() {
    // RisingWave issue 18299: all there is has been read, and nothing new ever comes.
    let files = tempdir().unwrap();
    append(files.path(), "a", 0..100);
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    session.wait_for("SELECT state FROM tidegate.split_backfill_progress", "Finished").await;
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "100");
    assert_eq!(session.value("SELECT progress_percent FROM tidegate.split_backfill_progress").await, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_split_is_finished_at_once() {
    let files = tempdir().unwrap();
    append(files.path(), "empty", 0..0);
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    assert_eq!(session.value("SELECT state FROM tidegate.split_backfill_progress").await, "Finished");
    append(files.path(), "empty", 0..3);
    session.wait_for("SELECT count(*) FROM mv", "3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_a_new_split_without_a_backfill_on_the_emptiest_actor() {
    let files = tempdir().unwrap();
    for split in ["a", "b", "c"] {
        append(files.path(), split, 0..10);
    }
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    session.wait_for("SELECT count(*) FROM mv", "30").await;
    append(files.path(), "d", 0..50);
    session.wait_for("SELECT count(*) FROM mv", "80").await;
    let of_d = "SELECT state, num_consumed_rows FROM tidegate.split_backfill_progress WHERE split_id = 'd'";
    assert_eq!(session.rows(of_d).await, [["Finished", "0"]]);
    let loads = "SELECT count(*) FROM tidegate.split_assignments GROUP BY actor_id ORDER BY 1";
    assert_eq!(session.rows(loads).await, [["2"], ["2"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_shrank_or_vanished_is_told_and_never_read_again_silently() {
    let files = tempdir().unwrap();
    append(files.path(), "a", 0..1000);
    append(files.path(), "b", 0..10);
    let server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 1; SET background_ddl = true").await;
    session
        .run(&format!(
            "CREATE SOURCE s (n BIGINT) WITH (connector = 'file', path = '{}', poll_interval = '20ms') FORMAT PLAIN ENCODE JSON",
            files.path().display()
        ))
        .await;
    session.run("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 100) AS SELECT n FROM s").await;
    session
        .wait_for("SELECT num_consumed_rows > 20 FROM tidegate.split_backfill_progress WHERE split_id = 'a'", "t")
        .await;
    fs::write(files.path().join("a.jsonl"), "{\"n\": 7}\n").unwrap();
    session
        .wait_for("SELECT blocked_by LIKE 'source unreachable since %' FROM tidegate.split_backfill_progress WHERE split_id = 'a'", "t")
        .await;
    // The other split goes on.
    append(files.path(), "b", 10..20);
    session.wait_for("SELECT count(*) FROM mv WHERE _split = 'b'", "20").await;
    assert_eq!(
        session.value("SELECT count(*) FROM (SELECT DISTINCT _offset FROM mv WHERE _split = 'a') AS d").await,
        session.value("SELECT count(*) FROM mv WHERE _split = 'a'").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_does_not_parse_is_kept_and_stops_nothing() {
    let files = tempdir().unwrap();
    fs::write(files.path().join("a.jsonl"), "{\"n\": 1}\n{\"n\": \"one\"}\nnonsense\n{\"n\": 4}\n{\"n\": \n").unwrap();
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    session.wait_for("SELECT state FROM tidegate.split_backfill_progress", "Finished").await;
    assert_eq!(session.rows("SELECT n FROM mv ORDER BY n").await, [["1"], ["4"]]);
    let bad = session.rows(r#"SELECT split_id, "offset", text FROM tidegate.bad_rows ORDER BY 2"#).await;
    assert_eq!(bad, [["a", "9", "{\"n\": \"one\"}"], ["a", "22", "nonsense"], ["a", "40", "{\"n\": "]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_in_order_and_nothing_is_lost() {
    let files = tempdir().unwrap();
    append(files.path(), "a", 0..5000);
    let mut server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    assert!(server.terminate().success());
    server.restart();
    let session = server.connect().await;
    session.wait_for("SELECT count(*) FROM mv", "5000").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_a_directory_and_no_newer_file() {
    let mut server = Server::start();
    let second = |dir: &std::path::Path| -> Output {
        program()
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"])
            .arg(dir)
            .output()
            .unwrap()
    };
    let told = String::from_utf8(second(server.data_dir()).stderr).unwrap();
    assert!(told.contains("is in use by another process"), "{told}");
    server.terminate();
    let file = Connection::open(server.data_dir().join("tidegate.db")).unwrap();
    file.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(file);
    let output = second(server.data_dir());
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("was written by another version of Tidegate"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_answers_with_its_exit_code() {
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session
        .run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', splits = 4, rows_per_split = 100) FORMAT PLAIN ENCODE JSON")
        .await;
    session.run("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 0) AS SELECT id FROM s").await;
    session.run("FLUSH").await;
    session.run("FLUSH").await;
    let check = |place: [String; 2], more: &[&str]| program().arg("check").args(place).args(more).output().unwrap();
    let online = || ["--url".to_owned(), server.url()];
    let offline = || ["--data-dir".to_owned(), server.data_dir().display().to_string()];
    for place in [online(), offline()] {
        let output = check(place, &["s", "4"]);
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.starts_with("not safe yet: source \"s\" from 2 to 4 actors"), "{told}");
        assert!(told.contains("split \"2\""), "{told}");
    }
    let output = check(online(), &["--json", "s", "4"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["safe"].clone(), output.status.code()), (false.into(), Some(1)));
    let watch = program().args(["watch", "--once", "--url", &server.url()]).output().unwrap();
    let told = String::from_utf8(watch.stdout).unwrap();
    assert!(watch.status.success() && told.contains("0 of 4 splits finished"), "{told}");
    // As `| head` does: nobody reads on.
    let mut watch = program();
    watch.args(["watch", "--interval", "0.1", "--url", &server.url()]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(watch.stdout.take());
    let ended = watch.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(told.contains("backfill_rate_limit is 0"), "{told}");
    session.run("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
    session.wait_for("SELECT tidegate.can_rescale('s', '4')", "t").await;
    assert_eq!(check(online(), &["s", "4"]).status.code(), Some(0));
    let idle = check(online(), &["s", "9"]);
    let told = String::from_utf8(idle.stdout).unwrap();
    assert!(told.starts_with("safe: ") && told.contains("Warning: 5 actors would be idle"), "{told}");
    assert_eq!(check(online(), &["nowhere", "4"]).status.code(), Some(2));
    let failed = check(online(), &["--json", "nowhere", "4"]);
    let report: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((&report["decision"], &report["error"]["sqlstate"]), (&"unknown".into(), &"42P01".into()), "{report}");
    assert_eq!(check(["--url".into(), "postgres://root@127.0.0.1:1/dev".into()], &["s", "4"]).status.code(), Some(2));
    let there = offline();
    server.terminate();
    assert_eq!(check(there.clone(), &["s", "4"]).status.code(), Some(0), "without a server, its last word counts");
    assert_eq!(check(there, &["s", "many"]).status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outside_can_see_without_sql() {
    let server = Server::start();
    let session = server.connect().await;
    session.run("FLUSH").await;
    assert_eq!(server.http("/healthz").await.0, 200);
    assert!(server.http("/metrics").await.1.contains("tidegate_epoch"));
    assert!(server.http("/").await.1.contains("<h1>Tidegate</h1>"));
    // Another site's name that leads here gets nothing.
    let asked = [
        (None, 200),
        (Some("127.0.0.1:4568"), 200),
        (Some("[::1]"), 200),
        (Some("LocalHost:1"), 200),
        (Some("rebound.example"), 421),
        (Some(""), 421),
    ];
    for (host, code) in asked {
        assert_eq!(server.http_of(host, "/metrics").await.0, code, "{host:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_create_in_the_foreground_leaves_nothing() {
    let server = Server::start();
    let session = server.connect().await;
    session
        .run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', rows_per_split = 1000) FORMAT PLAIN ENCODE JSON")
        .await;
    let cancel = session.0.cancel_token();
    let creating = tokio::spawn(async move {
        session.error("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 0) AS SELECT id FROM s").await
    });
    let other = server.connect().await;
    other.wait_for("SELECT count(*) FROM rw_catalog.rw_materialized_views", "1").await;
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    assert_eq!(creating.await.unwrap().sqlstate, "57014");
    assert_eq!(other.value("SELECT count(*) FROM rw_catalog.rw_materialized_views").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_view_tells_of_the_rows_that_it_fails_on() {
    let files = tempdir().unwrap();
    append(files.path(), "a", 0..4);
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    session.run("CREATE MATERIALIZED VIEW one AS SELECT 10 / n AS x FROM s").await;
    session.run("CREATE MATERIALIZED VIEW two AS SELECT 10 / (n * (n - 1)) AS x FROM s").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state = 'Finished'", "3").await;
    let bad = session.rows("SELECT job_name, text FROM tidegate.bad_rows ORDER BY job_name, text").await;
    assert_eq!(bad, [["one", "n: 0"], ["two", "n: 0"], ["two", "n: 1"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_replaced_is_not_gone_on_with() {
    let files = tempdir().unwrap();
    append(files.path(), "a", 0..1);
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    session.wait_for("SELECT count(*) FROM mv", "1").await;
    append(files.path(), "a", 1..2);
    session.wait_for("SELECT count(*) FROM mv", "2").await;
    // Kept beside it, so that its number is not given to the new file.
    fs::rename(files.path().join("a.jsonl"), files.path().join("a.old")).unwrap();
    append(files.path(), "a", 0..5);
    session.wait_for("SELECT blocked_by LIKE '%it was replaced%' FROM tidegate.split_backfill_progress", "t").await;
    assert_eq!(session.value("SELECT count(*) FROM mv").await, "2");
    fs::rename(files.path().join("a.old"), files.path().join("a.jsonl")).unwrap();
    session.wait_for("SELECT blocked_by IS NULL FROM tidegate.split_backfill_progress", "t").await;
    append(files.path(), "a", 2..3);
    session.wait_for("SELECT count(*) FROM mv", "3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_sent_again_sees_what_has_changed_since() {
    let server = Server::start();
    let session = server.connect().await;
    let count = "SELECT count(*) FROM rw_catalog.rw_sources";
    let of_s = "SELECT count(*) FROM s_rows";
    assert_eq!(session.value(count).await, "0");
    session
        .run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
        .await;
    assert_eq!(session.value(count).await, "1");
    for (condition, rows) in [("true", "10"), ("id < 4", "4")] {
        session.run(&format!("CREATE MATERIALIZED VIEW s_rows AS SELECT id FROM s WHERE {condition}")).await;
        session.wait_for(of_s, rows).await;
        session.run("BEGIN").await;
        assert_eq!(session.error("SELECT 1 FROM nowhere").await.sqlstate, "42P01");
        assert_eq!(session.error(of_s).await.sqlstate, "25P02");
        session.run("ROLLBACK").await;
        session.run("DROP MATERIALIZED VIEW s_rows").await;
        assert_eq!(session.error(of_s).await.sqlstate, "42P01");
    }
    let times = [session.value("SELECT now()").await, session.value("SELECT now()").await];
    assert_ne!(times[0], times[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_sees_no_page_that_was_filled_after_it_began() {
    let files = tempdir().unwrap();
    append(files.path(), "a", 0..9000);
    let server = Server::start();
    let session = server.connect().await;
    file_source(&session, files.path()).await;
    session.wait_for("SELECT count(*) FROM mv", "9000").await;
    let both = "SELECT count(*), sum(n) FROM mv";
    let block = server.connect().await;
    block.run("BEGIN").await;
    let before = block.rows(both).await;
    assert_eq!(before, [["9000", "40495500"]]);
    append(files.path(), "a", 9000..30_000);
    session.wait_for("SELECT count(*) FROM mv", "30000").await;
    // Read twice: the second time from the pages that the first has kept.
    for _ in 0..2 {
        assert_eq!(session.rows(both).await, [["30000", "449985000"]]);
    }
    assert_eq!(block.rows(both).await, before);
    block.run("COMMIT").await;
    assert_eq!(block.rows(both).await, [["30000", "449985000"]]);
}

/// A barrier must not wait behind queries, however many there are.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn sessions_stand_back_behind_the_engine() {
    let server = Server::start();
    let sessions = [server.connect().await, server.connect().await];
    for session in &sessions {
        session.run("SELECT 1").await;
    }
    assert_eq!(server.nice_values("session "), [9, 9]);
    for engine in ["tokio-rt", "store-writer"] {
        let values = server.nice_values(engine);
        assert!(!values.is_empty() && values.iter().all(|nice| *nice == 0), "{engine}: {values:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_an_older_snapshot_is_not_used_after_its_block() {
    let server = Server::start();
    let (session, other) = (server.connect().await, server.connect().await);
    let make = "CREATE MATERIALIZED VIEW zz AS SELECT id FROM s";
    other
        .run("CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', splits = 1, rows_per_split = 3) FORMAT PLAIN ENCODE JSON")
        .await;
    other.run(make).await;
    let count = "SELECT count(*) FROM zz";
    other.wait_for(count, "3").await;
    session.run("BEGIN").await;
    assert_eq!(session.value("SELECT 1").await, "1");
    other.run("DROP MATERIALIZED VIEW zz").await;
    assert_eq!(session.value(count).await, "3", "the block sees what was there when it began");
    session.run("COMMIT").await;
    assert_eq!(session.error(count).await.sqlstate, "42P01");
    other.run(make).await;
    session.wait_for(count, "3").await;
}

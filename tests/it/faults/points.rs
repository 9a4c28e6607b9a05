//! The process ends at every labelled point between a barrier and the acknowledgement of the statement at it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use tempfile::{TempDir, tempdir};
use tidegate::failpoint::FailPoint::{
    self, ActorsWritten, AssignmentWritten, BeforeAcknowledged, BeforeCommit, Committed, RescaleRecorded,
    TransactionBegun,
};

use super::oracle::{Rows, assert_all, assert_books};
use crate::server::{PATIENCE, Server};

/// What meets its end.
enum Act {
    /// A statement, and what is true once it is done.
    Statement(&'static str, &'static str),
    /// The engine's own statement for a split that appears.
    NewSplit,
    /// The engine's own statement for a deferred rescale, once its view may go on.
    Deferred,
}

struct Case {
    /// What is done before, beside making source `s`.
    setup: &'static [&'static str],
    act: Act,
    /// Whether it passes a point.
    passes: fn(FailPoint) -> bool,
}

const VIEW: &str = "CREATE MATERIALIZED VIEW mv AS SELECT n FROM s";
const HELD: &str = "CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 0) AS SELECT n FROM s";
const COMMITTED: &str = "SELECT count(*) = 1 FROM tidegate.rescale_history WHERE decision = 'committed'";
const REFUSED: &str = "SELECT count(*) = 1 FROM tidegate.rescale_history WHERE decision = 'refused'";

fn no_rescale(point: FailPoint) -> bool {
    !matches!(point, RescaleRecorded | ActorsWritten | AssignmentWritten)
}

fn no_commit(point: FailPoint) -> bool {
    !matches!(point, ActorsWritten | AssignmentWritten)
}

async fn walk(case: Case) {
    let rows = Rows::create(5, 40);
    let template = template(&case, &rows).await;
    for (index, point) in FailPoint::ALL.iter().copied().enumerate() {
        // Nobody waits for a deferred rescale; the ALTER that lifts the limit is acknowledged before it or after it.
        if matches!(case.act, Act::Deferred) && point == BeforeAcknowledged {
            continue;
        }
        let dir = tempdir().unwrap();
        fs::copy(template.path().join("tidegate.db"), dir.path().join("tidegate.db")).unwrap();
        let died = die_at(&case, &rows, dir.path(), point).await;
        assert_eq!(died, (case.passes)(point), "whether {} is passed", point.label());
        let before_commit = index < FailPoint::ALL.iter().position(|point| *point == Committed).unwrap();
        assert_books(dir.path());
        let server = Server::start_on(dir.path(), &[], &[]);
        let session = server.connect().await;
        if let Act::Statement(text, done) = case.act {
            let done = session.value(done).await;
            assert_eq!(done == "t", !died || !before_commit, "{text} is done after the end at {}", point.label());
        }
        assert_all(&server, &session, &rows).await;
        match case.act {
            Act::Statement(..) => {}
            Act::NewSplit => rows.remove("new"),
            Act::Deferred => session.wait_for("SELECT count(*) FROM tidegate.pending_rescales", "0").await,
        }
    }
}

/// A data directory with all that comes before.
async fn template(case: &Case, rows: &Rows) -> TempDir {
    let dir = tempdir().unwrap();
    let mut server = Server::start_on(dir.path(), &[], &[]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    for statement in case.setup {
        session.run("FLUSH; FLUSH; FLUSH").await;
        session.run(statement).await;
    }
    if case.setup.contains(&VIEW) {
        session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    }
    assert!(server.terminate().success());
    dir
}

/// Whether the process ended at the point.
async fn die_at(case: &Case, rows: &Rows, dir: &Path, point: FailPoint) -> bool {
    // Barriers come only with statements, so that none but the statement's own meets the point.
    let flags = match case.act {
        Act::Statement(..) => &["--barrier-interval-ms", "600000"][..],
        Act::NewSplit | Act::Deferred => &[],
    };
    let mut server = Server::start_on(dir, flags, &[("TIDEGATE_FAILPOINT", point.label())]);
    let session = server.connect().await;
    session.run("FLUSH; FLUSH; FLUSH; SET background_ddl = true").await;
    let done = match case.act {
        Act::Statement(statement, _) => {
            // A refusal is an answer too.
            let answered = match session.0.simple_query(statement).await {
                Ok(_) => true,
                Err(error) => error.as_db_error().is_some(),
            };
            return !answered && is_killed(&mut server);
        }
        Act::NewSplit => {
            rows.append("new", 7);
            "SELECT count(*) > 0 FROM tidegate.split_assignments WHERE split_id = 'new'"
        }
        Act::Deferred => {
            let lifted = session.0.simple_query("ALTER MATERIALIZED VIEW mv SET backfill_rate_limit = DEFAULT").await;
            if let Err(error) = lifted {
                // The rescale that it makes safe may come, and the end with it, before the answer.
                assert!(error.as_db_error().is_none(), "{error:?}");
                return is_killed(&mut server);
            }
            "SELECT count(*) > 0 FROM tidegate.rescale_history WHERE rescale_id = 1 AND decision = 'committed'"
        }
    };
    let since = std::time::Instant::now();
    while since.elapsed() < PATIENCE {
        match session.try_rows(done).await {
            // It may be seen before the point that comes after it is passed.
            Ok(seen) if seen == [["t"]] && !(case.passes)(point) => return false,
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            Err(_) => return is_killed(&mut server),
        }
    }
    panic!("neither the end at {} nor the statement came", point.label());
}

fn is_killed(server: &mut Server) -> bool {
    let since = std::time::Instant::now();
    while since.elapsed() < PATIENCE {
        if let Some(status) = server.ended() {
            assert_eq!(status.signal(), Some(6), "it ended itself at once, and not in order");
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the connection broke, but the server lives");
}

macro_rules! walks {
    ($($name:ident: $setup:expr, $act:expr, $passes:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            walk(Case { setup: $setup, act: $act, passes: $passes }).await;
        })*
    };
}

walks! {
    create_source: &[],
        Act::Statement(
            "CREATE SOURCE other (id BIGINT) WITH (connector = 'datagen', splits = 3) FORMAT PLAIN ENCODE JSON",
            "SELECT count(*) = 1 FROM rw_catalog.rw_sources WHERE name = 'other'"),
        |point| no_rescale(point) && point != FailPoint::ScanReports;
    create_view: &[VIEW],
        Act::Statement(
            "CREATE MATERIALIZED VIEW other AS SELECT n FROM s",
            "SELECT count(*) = 1 FROM rw_catalog.rw_materialized_views WHERE name = 'other'"),
        no_rescale;
    alter_at_once: &[VIEW],
        Act::Statement("ALTER SOURCE s SET PARALLELISM = 4", COMMITTED),
        |_| true;
    alter_refused: &[HELD],
        Act::Statement("ALTER SOURCE s SET PARALLELISM = 4", REFUSED),
        no_commit;
    alter_deferred: &[HELD],
        Act::Statement(
            "ALTER SOURCE s SET PARALLELISM = 4 DEFERRED",
            "SELECT count(*) = 1 FROM tidegate.pending_rescales"),
        no_commit;
    drop_with_views: &[VIEW],
        Act::Statement("DROP SOURCE s CASCADE", "SELECT count(*) = 0 FROM rw_catalog.rw_sources"),
        no_rescale;
    cancel: &[HELD, "ALTER SOURCE s SET PARALLELISM = 4 DEFERRED"],
        Act::Statement("CANCEL RESCALE 1", "SELECT count(*) = 0 FROM tidegate.pending_rescales"),
        |point| matches!(point, TransactionBegun | BeforeCommit | Committed | BeforeAcknowledged);
    a_new_split: &[VIEW],
        Act::NewSplit,
        |point| no_rescale(point) && point != BeforeAcknowledged;
    a_deferred_rescale_whose_time_has_come: &[HELD, "ALTER SOURCE s SET PARALLELISM = 4 DEFERRED"],
        Act::Deferred,
        |point| point != RescaleRecorded;
}

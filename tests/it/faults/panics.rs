//! A panic at every labelled point: what it interrupts is told, and the server goes on.

use tempfile::tempdir;
use tidegate::failpoint::FailPoint;

use super::oracle::{Rows, assert_all, assert_books};
use crate::server::Server;

/// Where the engine isn't what panics, but the session.
fn is_of_session(point: FailPoint) -> bool {
    point == FailPoint::BeforeAcknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_anywhere_costs_what_it_interrupts_and_no_more() {
    let rows = Rows::create(5, 40);
    let template = tempdir().unwrap();
    let mut server = Server::start_on(template.path(), &[], &[]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n FROM s").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    assert!(server.terminate().success());
    for point in FailPoint::ALL.iter().copied() {
        let dir = tempdir().unwrap();
        std::fs::copy(template.path().join("tidegate.db"), dir.path().join("tidegate.db")).unwrap();
        goes_on_after_a_panic(&rows, &dir, point).await;
    }
}

async fn goes_on_after_a_panic(rows: &Rows, dir: &tempfile::TempDir, point: FailPoint) {
    let label = point.label();
    let server = Server::start_on(dir.path(), &[], &[("TIDEGATE_FAILPOINT", &format!("{label}:panic"))]);
    let session = server.connect().await;
    session.run("FLUSH; FLUSH; FLUSH").await;
    let told = session.error("ALTER SOURCE s SET PARALLELISM = 4").await;
    // Those whose actor died are told to try again; all others met a defect.
    let expected = match point {
        FailPoint::SourceReports | FailPoint::ScanReports => "57P03",
        _ => "XX000",
    };
    assert_eq!(told.sqlstate, expected, "{label}: {told:?}");
    assert!(expected == "57P03" || told.detail.contains("ncident "), "{label}: {told:?}");
    assert_eq!(session.try_rows("SELECT 1").await.is_err(), is_of_session(point), "{label}: whether the session ended");
    // The same process goes on.
    let session = server.connect().await;
    if !is_of_session(point) {
        let recovered = "SELECT count(*) > 0 FROM rw_catalog.rw_event_logs
                         WHERE event_type = 'RECOVERY' AND info->>'reason' <> 'the engine starts'";
        session.wait_for(recovered, "t").await;
    }
    if matches!(point, FailPoint::BarrierSent | FailPoint::SourceReports | FailPoint::CommitKnown) {
        let reason = "SELECT count(*) FROM rw_catalog.rw_event_logs WHERE info->>'reason' LIKE '%panicked: incident %'";
        assert_eq!(session.value(reason).await, "1", "{label}");
    }
    session.run("FLUSH; FLUSH; FLUSH; ALTER SOURCE s SET PARALLELISM = 4; ALTER SOURCE s SET PARALLELISM = 3").await;
    assert_eq!(session.value("SELECT count(DISTINCT actor_id) FROM tidegate.split_assignments").await, "3");
    assert_all(&server, &session, rows).await;
    assert_books(dir.path());
}

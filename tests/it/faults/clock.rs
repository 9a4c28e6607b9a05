//! A clock that jumps: by a day forwards and back, while rows come in and sources are rescaled.

use tempfile::tempdir;

use super::oracle::{Rows, assert_all};
use crate::server::Server;

const DAY: i64 = 86_400_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_loses_nothing_and_stalls_nothing() {
    let place = tempdir().unwrap();
    let ahead = place.path().join("ahead");
    let rows = Rows::create(4, 60);
    let data = place.path().join("data");
    let server = Server::start_on(&data, &[], &[("TIDEGATE_CLOCK_JUMP", ahead.to_str().unwrap())]);
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 20) AS SELECT n FROM s").await;
    session.run(
        "CREATE SOURCE made (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_second = 100, rows_per_split = 9000)
         FORMAT PLAIN ENCODE JSON",
    ).await;
    let jumped =
        |ahead: i64| format!("SELECT extract(epoch FROM now()) > {}", seconds_now() + ahead / 1_000_000 - 3600);
    for (micros, parallelism) in [(DAY, 3), (-DAY, 1), (400 * DAY, 4), (0, 2)] {
        std::fs::write(&ahead, micros.to_string()).unwrap();
        assert_eq!(session.value(&jumped(micros)).await, "t", "the server's clock has jumped");
        rows.append_to_all();
        session.run("FLUSH; FLUSH").await;
        server.wait_for_health(200).await;
        session.run(&format!("ALTER SOURCE s SET PARALLELISM = {parallelism} DEFERRED")).await;
        let states = "SELECT decision FROM tidegate.check_rescale('s', '5') WHERE check_name = 'state_is_fresh'";
        session.wait_for(states, "pass").await;
        let pending = session.rows("SELECT rescale_id FROM tidegate.pending_rescales").await;
        for id in pending.into_iter().flatten() {
            session.run(&format!("CANCEL RESCALE {id}")).await;
        }
    }
    session.run("DROP SOURCE made").await;
    assert_all(&server, &session, &rows).await;
}

fn seconds_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

//! Every row of every split comes out once and in order, whatever is done to the server meanwhile.

use std::time::Duration;

use rusqlite::Connection;
use tempfile::tempdir;

use crate::files::Flights;
use crate::server::{Server, Session};

/// The source over a directory of flights.
pub fn create_flights(dir: &std::path::Path) -> String {
    format!(
        "CREATE SOURCE flights (carrier TEXT, flight BIGINT, distance BIGINT, dep_delay BIGINT, time_hour TIMESTAMPTZ)
         WITH (connector = 'file', path = '{}', poll_interval = '50ms') FORMAT PLAIN ENCODE JSON",
        dir.display()
    )
}

/// Figures of a seed that is printed, so that a run can be looked at again.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        let seed = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::try_from(since.as_micros()).unwrap()
        });
        println!("TIDEGATE_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

/// Asks for a parallelism; what isn't safe yet is deferred. Answers what became of it.
async fn rescale(session: &Session, to: u64) -> String {
    let alter = format!("ALTER SOURCE flights SET PARALLELISM = {to}");
    match session.0.simple_query(&alter).await {
        Ok(_) => "committed".into(),
        Err(error) => match error.as_db_error() {
            Some(refused) => {
                assert_eq!(refused.code().code(), "55000", "{refused:?}");
                let deferred = session.0.simple_query(&format!("{alter} DEFERRED")).await;
                if deferred.is_ok() { "deferred".into() } else { "cut off".into() }
            }
            None => "cut off".into(),
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn through_kills_rescales_and_appends() {
    let files = tempdir().unwrap();
    let mut flights = Flights::create(files.path());
    let mut random = Random::new();
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 4").await;
    session.run(&create_flights(files.path())).await;
    session.run("SET background_ddl = true").await;
    let limit = flights.rows / 60;
    session
        .run(&format!(
            "CREATE MATERIALIZED VIEW all_flights WITH (backfill_rate_limit = {limit}) AS
             SELECT carrier, flight, distance, dep_delay, time_hour FROM flights"
        ))
        .await;
    for (round, to) in [7, 2, 4, 7, 2, 4, 7, 2, 4, 7, 2, 4].into_iter().enumerate() {
        let session = server.connect().await;
        tokio::time::sleep(Duration::from_millis(random.below(400))).await;
        // The kill may meet the statement anywhere between its barrier and its answer.
        let asked = tokio::spawn(async move { rescale(&session, to).await });
        flights.append(1 + usize::try_from(flights.rows / 2000).unwrap());
        tokio::time::sleep(Duration::from_millis(random.below(150))).await;
        server.kill_and_restart();
        println!("kill {round}: a rescale to {to} was {}", asked.await.unwrap());
    }
    while flights.append(500) {}
    let session = server.connect().await;
    session.run("ALTER MATERIALIZED VIEW all_flights SET backfill_rate_limit = DEFAULT").await;
    session.wait_for("SELECT count(*) FROM all_flights", &flights.rows.to_string()).await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    assert_oracle(&server, &session, &flights).await;
}

/// Nothing lost, nothing doubled, in order; and the books are in order too.
async fn assert_oracle(server: &Server, session: &Session, flights: &Flights) {
    // A row that comes twice may come late.
    session.run("FLUSH").await;
    session.run("FLUSH").await;
    let figures = session.rows("SELECT count(*), sum(distance), count(dep_delay) FROM all_flights").await;
    let expected = [flights.rows, flights.distance, flights.delays].map(|figure| figure.to_string());
    assert_eq!(figures, [expected]);
    assert_eq!(
        session.value("SELECT count(*) FROM (SELECT DISTINCT _split, _offset FROM all_flights) AS d").await,
        flights.rows.to_string()
    );
    assert_eq!(session.rows("SELECT message FROM tidegate.invariant_violations").await, Vec::<Vec<String>>::new());
    assert_eq!(session.value("SELECT count(*) FROM tidegate.bad_rows").await, "0");
    // Every split is held by one actor that exists.
    assert_eq!(
        session
            .value(
                "SELECT count(*) FROM tidegate.split_assignments a JOIN rw_catalog.rw_actors r ON r.actor_id = a.actor_id"
            )
            .await,
        "16"
    );
    let file = Connection::open(server.data_dir().join("tidegate.db")).unwrap();
    let view: i64 =
        file.query_row("SELECT id FROM relations WHERE name = 'all_flights'", [], |row| row.get(0)).unwrap();
    let out_of_order: i64 = file
        .query_row(
            &format!(
                "SELECT count(*) FROM (SELECT _offset, lag(_offset) OVER (PARTITION BY _split ORDER BY rowid) AS before
                 FROM mv_{view}) WHERE before >= _offset"
            ),
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(out_of_order, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn through_alters_from_many_sessions() {
    let files = tempdir().unwrap();
    let mut flights = Flights::create(files.path());
    let server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 3").await;
    session.run(&create_flights(files.path())).await;
    session.run("SET background_ddl = true").await;
    let limit = (flights.rows / 90).max(1);
    session
        .run(&format!(
            "CREATE MATERIALIZED VIEW all_flights WITH (backfill_rate_limit = {limit}) AS
             SELECT carrier, flight, distance, dep_delay FROM flights"
        ))
        .await;
    let mut sessions = Vec::new();
    let end = std::time::Instant::now() + Duration::from_secs(30);
    for number in 0..4_u64 {
        let session = server.connect().await;
        sessions.push(tokio::spawn(async move {
            let policies = ["forwarding", "all_finished", "stage_aware"];
            let mut random = Random(number);
            let mut committed = 0;
            while std::time::Instant::now() < end {
                let policy = policies[usize::try_from(random.below(3)).unwrap()];
                session.run(&format!("SET rescale_policy = {policy}")).await;
                let deferred = if random.below(4) == 0 { "DEFERRED" } else { "" };
                let alter = format!("ALTER SOURCE flights SET PARALLELISM = {} {deferred}", 1 + random.below(8));
                match session.0.simple_query(&alter).await {
                    Ok(_) => committed += 1,
                    Err(error) => assert_eq!(error.as_db_error().unwrap().code().code(), "55000", "{error:?}"),
                }
                if random.below(3) == 0 {
                    for id in session.rows("SELECT rescale_id FROM tidegate.pending_rescales").await {
                        // Somebody else may have been quicker.
                        let _ = session.0.simple_query(&format!("CANCEL RESCALE {}", id[0])).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(random.below(60))).await;
            }
            committed
        }));
    }
    while std::time::Instant::now() < end {
        flights.append(usize::try_from(flights.rows / 4000 + 1).unwrap());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    while flights.append(500) {}
    let mut committed = 0;
    for session in sessions {
        committed += session.await.unwrap();
    }
    assert!(committed > 0, "no ALTER was ever accepted");
    session.run("ALTER MATERIALIZED VIEW all_flights SET backfill_rate_limit = DEFAULT").await;
    session.wait_for("SELECT count(*) FROM all_flights", &flights.rows.to_string()).await;
    assert_oracle(&server, &session, &flights).await;
    let recoveries = "SELECT count(*) FROM rw_catalog.rw_event_logs WHERE event_type = 'RECOVERY'";
    assert_eq!(session.value(recoveries).await, "1", "only the start recovers");
}

//! The flights, keyed by carrier: each row once and in order, through kills of the server, restarts of the broker, and
//! rescales.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rusqlite::Connection;
use tempfile::tempdir;

use super::broker::Broker;
use super::topic::{Topic, put};
use crate::exactly_once::Random;
use crate::files::Flights;
use crate::server::{PATIENCE, Server, Session};

/// The lines of every carrier that aren't in the topic yet.
struct Carriers(Vec<(String, std::vec::IntoIter<String>)>);

impl Carriers {
    /// What `flights` wrote into `dir`.
    fn read(dir: &std::path::Path) -> Self {
        let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let of = |path: &std::path::PathBuf| {
            let lines: Vec<String> = std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), lines.into_iter())
        };
        Self(files.iter().map(of).collect())
    }

    /// Sends up to so many rows of each carrier. Answers whether there are more.
    fn send(&mut self, producer: &BaseProducer, topic: &Topic, rows: usize) -> bool {
        for (carrier, lines) in &mut self.0 {
            for line in lines.take(rows) {
                put(producer, BaseRecord::to(&topic.name).key(carrier.as_str()).payload(&line));
            }
        }
        producer.flush(PATIENCE).unwrap();
        self.0.iter().any(|(_, lines)| lines.len() > 0)
    }
}

async fn rescale(session: &Session, to: u64) -> &'static str {
    let alter = format!("ALTER SOURCE flights_topic SET PARALLELISM = {to}");
    match session.0.simple_query(&alter).await {
        Ok(_) => "committed",
        Err(error) => match error.as_db_error() {
            Some(refused) => {
                assert_eq!(refused.code().code(), "55000", "{refused:?}");
                let _ = session.0.simple_query(&format!("{alter} DEFERRED")).await;
                "deferred"
            }
            None => "cut off",
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn through_kills_broker_restarts_and_rescales() {
    let Some(mut broker) = Broker::start() else { return };
    let files = tempdir().unwrap();
    let mut flights = Flights::create(files.path());
    while flights.append(usize::MAX) {}
    let mut carriers = Carriers::read(files.path());
    let topic = Topic::create(&broker, "flights_topic", 8).await;
    let producer = topic.producer(&[("enable.idempotence", "true")]);
    let part = usize::try_from(flights.rows / 16).unwrap();
    carriers.send(&producer, &topic, part);
    let mut random = Random::new();
    let mut server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 4").await;
    let columns = "(carrier TEXT, flight BIGINT, distance BIGINT, dep_delay BIGINT, time_hour TIMESTAMPTZ)";
    session.run(&topic.source("").replace("(n BIGINT, text VARCHAR)", columns)).await;
    session.run("SET background_ddl = true").await;
    session
        .run(&format!(
            "CREATE MATERIALIZED VIEW all_flights WITH (backfill_rate_limit = {}) AS
             SELECT carrier, flight, distance, dep_delay, time_hour FROM flights_topic",
            flights.rows / 60
        ))
        .await;
    for (round, to) in [7, 2, 4, 7, 2, 4].into_iter().enumerate() {
        let session = server.connect().await;
        let asked = tokio::spawn(async move { rescale(&session, to).await });
        carriers.send(&producer, &topic, part / 8);
        tokio::time::sleep(Duration::from_millis(200 + random.below(400))).await;
        if round % 3 == 1 {
            broker.stop();
            broker.start_again();
        }
        server.kill_and_restart();
        println!("kill {round}: a rescale to {to} was {}", asked.await.unwrap());
    }
    let session = server.connect().await;
    session.run("ALTER MATERIALIZED VIEW all_flights SET backfill_rate_limit = DEFAULT").await;
    while carriers.send(&producer, &topic, part / 2) {}
    session.wait_for("SELECT count(*) FROM all_flights", &flights.rows.to_string()).await;
    super::finished(&session, 8).await;
    assert_oracle(&server, &session, &flights).await;
    // One that is deferred commits now, and another is refused until it has.
    session.wait_for("SELECT count(*) FROM tidegate.pending_rescales", "0").await;
    session.run("ALTER SOURCE flights_topic SET PARALLELISM = 5").await;
    assert_oracle(&server, &session, &flights).await;
}

/// Nothing lost, nothing doubled, in order; and the books are in order too.
async fn assert_oracle(server: &Server, session: &Session, flights: &Flights) {
    // A row that comes twice may come late.
    session.run("FLUSH").await;
    session.run("FLUSH").await;
    let figures = session.rows("SELECT count(*), count(dep_delay), sum(distance) FROM all_flights").await;
    assert_eq!(figures, [[flights.rows, flights.delays, flights.distance].map(|figure| figure.to_string())]);
    let different = "SELECT count(*) FROM (SELECT DISTINCT _split, _offset FROM all_flights) AS d";
    assert_eq!(session.value(different).await, flights.rows.to_string());
    assert_eq!(session.rows("SELECT message FROM tidegate.invariant_violations").await, Vec::<Vec<String>>::new());
    assert_eq!(session.value("SELECT count(*) FROM tidegate.bad_rows").await, "0");
    let held = "SELECT count(*) FROM tidegate.split_assignments a
                JOIN rw_catalog.rw_actors r ON r.actor_id = a.actor_id";
    assert_eq!(session.value(held).await, "8");
    let file = Connection::open(server.data_dir().join("tidegate.db")).unwrap();
    let view: i64 =
        file.query_row("SELECT id FROM relations WHERE name = 'all_flights'", [], |row| row.get(0)).unwrap();
    let out_of_order = format!(
        "SELECT count(*) FROM (SELECT _offset, lag(_offset) OVER (PARTITION BY _split ORDER BY rowid) AS before
         FROM mv_{view}) WHERE before >= _offset"
    );
    assert_eq!(file.query_row(&out_of_order, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

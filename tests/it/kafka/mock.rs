//! Against librdkafka's mock cluster: it lives in the test's process, and the server reaches it over the loopback.
//!
//! It has no transactions' markers, compaction or retention: those need a real broker.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::bindings::rd_kafka_resp_err_t;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::types::RDKafkaApiKey;
use rusqlite::Connection;

use crate::server::{PATIENCE, Server, Session};

/// A cluster with one topic, `rows`.
struct Cluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
    /// Rows added to every partition so far.
    added: Vec<i64>,
}

impl Cluster {
    fn new(brokers: i32, partitions: i32) -> Self {
        let mock = MockCluster::new(brokers).unwrap();
        mock.create_topic("rows", partitions, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", mock.bootstrap_servers()).set("linger.ms", "20");
        let producer = config.create().unwrap();
        Self { mock, producer, added: vec![0; usize::try_from(partitions).unwrap()] }
    }

    /// Adds rows to a partition: `{"id": offset, "part": partition}`.
    fn add(&mut self, partition: usize, rows: i64) {
        for id in self.added[partition]..self.added[partition] + rows {
            let row = format!("{{\"id\": {id}, \"part\": {partition}}}");
            let target = i32::try_from(partition).unwrap();
            self.producer.send(BaseRecord::<(), _>::to("rows").partition(target).payload(&row)).unwrap();
        }
        self.producer.flush(PATIENCE).unwrap();
        self.added[partition] += rows;
    }

    fn add_to_all(&mut self, rows: i64) {
        for partition in 0..self.added.len() {
            self.add(partition, rows);
        }
    }

    fn total(&self) -> i64 {
        self.added.iter().sum()
    }

    fn create_source(&self, options: &str) -> String {
        format!(
            "CREATE SOURCE rows (id BIGINT, part BIGINT) WITH (connector = 'kafka', topic = 'rows',
             properties.bootstrap.server = '{}' {options}) FORMAT PLAIN ENCODE JSON",
            self.mock.bootstrap_servers()
        )
    }
}

/// Every row of every partition, once and in order.
async fn assert_exactly_once(server: &Server, session: &Session, cluster: &Cluster, view: &str) {
    session.wait_for(&format!("SELECT count(*) FROM {view}"), &cluster.total().to_string()).await;
    // A row that comes twice may come late.
    session.run("FLUSH").await;
    session.run("FLUSH").await;
    for (partition, rows) in cluster.added.iter().enumerate() {
        let figures = session
            .rows(&format!(
                "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {view} WHERE part = {partition}"
            ))
            .await;
        if *rows > 0 {
            assert_eq!(figures, [[rows.to_string(), rows.to_string(), "0".into(), (rows - 1).to_string()]]);
        }
    }
    let wrong = format!("SELECT count(*) FROM {view} WHERE _split <> CAST(part AS TEXT) OR _offset <> id");
    assert_eq!(session.value(&wrong).await, "0");
    assert_eq!(session.rows("SELECT message FROM tidegate.invariant_violations").await, Vec::<Vec<String>>::new());
    assert_eq!(session.value("SELECT count(*) FROM tidegate.bad_rows").await, "0");
    let file = Connection::open(server.data_dir().join("tidegate.db")).unwrap();
    let of = |name: &str| {
        file.query_row("SELECT id FROM relations WHERE name = ?1", [name], |row| row.get::<_, i64>(0)).unwrap()
    };
    let out_of_order: i64 = file
        .query_row(
            &format!(
                "SELECT count(*) FROM (SELECT _offset, lag(_offset) OVER (PARTITION BY _split ORDER BY rowid) AS before
                 FROM mv_{}) WHERE before >= _offset",
                of(view)
            ),
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(out_of_order, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn through_kills_and_rescales() {
    let mut cluster = Cluster::new(2, 6);
    for partition in 0..5 {
        cluster.add(partition, 400 * i64::try_from(partition + 1).unwrap());
    }
    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&cluster.create_source("")).await;
    session.run("SET background_ddl = true").await;
    session
        .run("CREATE MATERIALIZED VIEW all_rows WITH (backfill_rate_limit = 400) AS SELECT id, part FROM rows")
        .await;
    // The empty partition has nothing to backfill.
    session.wait_for("SELECT state FROM tidegate.split_backfill_progress WHERE split_id = '5'", "Finished").await;
    for to in [3, 2, 1, 3] {
        let session = server.connect().await;
        let _ = session.0.simple_query(&format!("ALTER SOURCE rows SET PARALLELISM = {to} DEFERRED")).await;
        cluster.add_to_all(20);
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.kill_and_restart();
    }
    let session = server.connect().await;
    session.run("ALTER MATERIALIZED VIEW all_rows SET backfill_rate_limit = DEFAULT").await;
    cluster.add_to_all(20);
    assert_exactly_once(&server, &session, &cluster, "all_rows").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    session.wait_for("SELECT count(*) FROM tidegate.pending_rescales", "0").await;
    // Rescales without a backfill, with rows that come all the time.
    for to in [1, 3, 2] {
        cluster.add_to_all(10);
        session.run(&format!("ALTER SOURCE rows SET PARALLELISM = {to}")).await;
        cluster.add_to_all(10);
    }
    assert_exactly_once(&server, &session, &cluster, "all_rows").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_backfills_nothing_that_came_before() {
    let mut cluster = Cluster::new(1, 2);
    cluster.add_to_all(50);
    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&cluster.create_source(", scan.startup.mode = 'latest'")).await;
    session.run("CREATE MATERIALIZED VIEW at_once AS SELECT id, part FROM rows").await;
    let states = "SELECT state, num_consumed_rows, low_watermark FROM tidegate.split_backfill_progress
                  WHERE job_name = 'at_once' ORDER BY split_id";
    assert_eq!(session.rows(states).await, [["Finished", "0", "50"], ["Finished", "0", "50"]]);
    server.kill_and_restart();
    let session = server.connect().await;
    cluster.add_to_all(5);
    session.wait_for("SELECT count(*) FROM at_once", "10").await;
    // One that is made later has what came since the source was made.
    session.run("CREATE MATERIALIZED VIEW later AS SELECT id, part FROM rows").await;
    session.wait_for("SELECT count(*) FROM later", "10").await;
    cluster.add_to_all(1);
    for view in ["at_once", "later"] {
        session.wait_for(&format!("SELECT count(*) FROM {view}"), "12").await;
        assert_eq!(session.value(&format!("SELECT min(id) FROM {view}")).await, "50");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_be_reached_is_named() {
    let server = Server::start();
    let session = server.connect().await;
    let error = session
        .error(
            "CREATE SOURCE s (id BIGINT) WITH (connector = 'kafka', topic = 't',
             properties.bootstrap.server = '127.0.0.1:1') FORMAT PLAIN ENCODE JSON",
        )
        .await;
    assert_eq!(error.sqlstate, "58000");
    assert!(error.detail.contains("Kafka at 127.0.0.1:1 can't be reached"), "{error:?}");
    let cluster = Cluster::new(1, 1);
    let missing = cluster.create_source("").replace("topic = 'rows'", "topic = 'rosw'");
    let error = session.error(&missing).await;
    assert_eq!(error.sqlstate, "58000");
    assert!(error.detail.contains("topic \"rosw\" does not exist"), "{error:?}");
    assert_eq!(session.rows("SHOW SOURCES").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_down_holds_up_its_own_splits_alone() {
    let mut cluster = Cluster::new(2, 2);
    cluster.mock.partition_leader("rows", 0, Some(1)).unwrap();
    cluster.mock.partition_leader("rows", 1, Some(2)).unwrap();
    cluster.add_to_all(30);
    let mut server = Server::start();
    let session = server.connect().await;
    session.run(&cluster.create_source("")).await;
    session.run("CREATE MATERIALIZED VIEW all_rows AS SELECT id, part FROM rows").await;
    session.wait_for("SELECT count(*) FROM all_rows", "60").await;
    cluster.mock.broker_down(2).unwrap();
    let blocked = |split| {
        format!(
            "SELECT coalesce(blocked_by LIKE 'source unreachable since%', false)
             FROM tidegate.split_backfill_progress WHERE split_id = '{split}'"
        )
    };
    session.wait_for(&blocked(1), "t").await;
    cluster.add(0, 10);
    session.wait_for("SELECT count(*) FROM all_rows", "70").await;
    session.wait_for(&blocked(0), "f").await;
    // A server that starts meanwhile knows its splits, and what holds them up.
    cluster.mock.broker_down(1).unwrap();
    server.kill_and_restart();
    let session = server.connect().await;
    assert_eq!(session.value("SELECT count(*) FROM tidegate.split_backfill_progress").await, "2");
    session.wait_for(&blocked(0), "t").await;
    session.wait_for(&blocked(1), "t").await;
    cluster.mock.broker_up(-1).unwrap();
    session.wait_for(&blocked(0), "f").await;
    session.wait_for(&blocked(1), "f").await;
    cluster.add_to_all(10);
    assert_exactly_once(&server, &session, &cluster, "all_rows").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorisation_that_is_lost_is_told_until_it_is_back() {
    let mut cluster = Cluster::new(1, 1);
    cluster.add(0, 30);
    let server = Server::start();
    let session = server.connect().await;
    session.run(&cluster.create_source("")).await;
    session.run("CREATE MATERIALIZED VIEW all_rows AS SELECT id, part FROM rows").await;
    session.wait_for("SELECT count(*) FROM all_rows", "30").await;
    let refused = rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.mock.request_errors(RDKafkaApiKey::Fetch, &[refused; 10_000]);
    let blocked = "SELECT blocked_by FROM tidegate.split_backfill_progress
                   WHERE blocked_by LIKE '%not authorised to read topic \"rows\"%'";
    let since = std::time::Instant::now();
    while session.rows(blocked).await.is_empty() {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.mock.clear_request_errors(RDKafkaApiKey::Fetch);
    cluster.add(0, 10);
    assert_exactly_once(&server, &session, &cluster, "all_rows").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE blocked_by IS NULL", "1").await;
}

/// A panic on a thread of Kafka's costs a recovery, or a look at the partitions, and no row.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_panics_loses_nothing() {
    for (harm, thread) in [("kafka-reads:3:panic", "kafka-rows"), ("kafka-looks:2:panic", "kafka-lookout")] {
        let mut cluster = Cluster::new(1, 2);
        cluster.add_to_all(50);
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_on(dir.path(), &[], &[("TIDEGATE_FAILPOINT", harm)]);
        let session = server.connect().await;
        session.run(&cluster.create_source("")).await;
        session.run("SET background_ddl = true; CREATE MATERIALIZED VIEW mv AS SELECT id, part FROM rows").await;
        server.wait_for_log(&[&format!("thread {thread} panicked"), "incident"]).await;
        cluster.add_to_all(50);
        assert_exactly_once(&server, &session, &cluster, "mv").await;
        session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    }
}

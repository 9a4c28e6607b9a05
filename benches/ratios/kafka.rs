//! A backfill from a real Apache Kafka broker against bare consumers of the same topic.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use rusqlite::Connection;
use serde::Deserialize;

use crate::broker::Broker;
use crate::{Result, Rounds, Row, Server, bare_table, insert_part};

const ROUNDS: usize = 3;
const ROWS: usize = 1_000_000;
const ROW_BYTES: usize = 200;
const PARTITIONS: i32 = 4;
const TOPIC: &str = "rows";
const PATIENCE: Duration = Duration::from_secs(60);

/// Rows that a view takes from Kafka in a second, against a consumer that only counts them, and one that inserts them
/// into SQLite in as many transactions.
pub async fn consuming(table: &mut String, metrics: &PrometheusHandle) -> Result<()> {
    let Some(broker) = Broker::start() else { return Ok(()) };
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", broker.address());
    fill(&client).await?;
    let (mut ours, mut counting, mut inserting) = (Rounds::default(), Rounds::default(), Rounds::default());
    let (mut of_counting, mut of_inserting) = (Rounds::default(), Rounds::default());
    let mut transactions = Rounds::default();
    let speed = |time: Duration| ROWS as f64 / time.as_secs_f64() / 1e3;
    for _ in 0..ROUNDS {
        let count = consume(&client, usize::MAX, |_| Ok(()))?;
        let (backfill, epochs) = backfill(&broker, metrics).await?;
        let dir = tempfile::tempdir()?;
        let insert = insert(&client, &dir.path().join("bare.db"), ROWS.div_ceil(epochs))?;
        ours.add(speed(backfill));
        counting.add(speed(count));
        inserting.add(speed(insert));
        of_counting.add(count.as_secs_f64() / backfill.as_secs_f64());
        of_inserting.add(insert.as_secs_f64() / backfill.as_secs_f64());
        transactions.add(epochs as f64);
    }
    let ours = ours.show(0, " thousand rows/s");
    for (name, bare, ratio) in [
        ("a consumer that only counts", &counting, &of_counting),
        ("one that inserts into SQLite in as many transactions", &inserting, &of_inserting),
    ] {
        writeln!(
            table,
            "| backfill of {ROWS} rows of {ROW_BYTES} bytes from Kafka (checkpoints: {}) | {ours} | {name}: {} | {} of its speed | |",
            transactions.show(0, ""),
            bare.show(0, " thousand rows/s"),
            ratio.show(2, "")
        )?;
    }
    Ok(())
}

/// A topic of rows, evenly over its partitions.
async fn fill(client: &ClientConfig) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client.create()?;
    let new = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    for made in admin.create_topics([&new], &AdminOptions::new()).await? {
        made.map_err(|(topic, error)| format!("{topic}: {error}"))?;
    }
    let producer: BaseProducer = client.clone().set("linger.ms", "50").create()?;
    for number in 0..ROWS {
        let start = format!(r#"{{"id": {number}, "amount": {}.5, "name": ""#, number % 1000);
        let value = format!("{start}{:x<1$}\"}}", "", ROW_BYTES - 2 - start.len());
        let partition = i32::try_from(number)? % PARTITIONS;
        let mut record = BaseRecord::<(), str>::to(TOPIC).partition(partition).payload(&value);
        while let Err((error, back)) = producer.send(record) {
            if !matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) {
                return Err(error.into());
            }
            record = back;
            producer.poll(Duration::from_millis(50));
        }
    }
    Ok(producer.flush(PATIENCE)?)
}

/// How long a view takes to have all rows, and in how many checkpoints.
async fn backfill(broker: &Broker, metrics: &PrometheusHandle) -> Result<(Duration, usize)> {
    let server = Server::start(metrics).await?;
    let client = server.connect().await?;
    client
        .batch_execute(&format!(
            "SET streaming_parallelism = 2;
             CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION, name VARCHAR)
               WITH (connector = 'kafka', topic = '{TOPIC}', properties.bootstrap.server = '{}') FORMAT PLAIN ENCODE JSON",
            broker.address()
        ))
        .await?;
    let sqlite = Connection::open(server.file())?;
    let epoch = || sqlite.query_row("SELECT epoch FROM meta", [], |row| row.get::<_, usize>(0));
    let before = epoch()?;
    let start = Instant::now();
    client.batch_execute("CREATE MATERIALIZED VIEW mv AS SELECT id, amount, name FROM s").await?;
    let backfill = start.elapsed();
    let epochs = epoch()? - before;
    let rows: i64 = client.query_one("SELECT count(*) FROM mv", &[]).await?.get(0);
    assert_eq!(usize::try_from(rows)?, ROWS);
    drop((sqlite, client));
    server.stop().await?;
    Ok((backfill, epochs))
}

/// A row's value.
#[derive(Deserialize)]
struct Value {
    id: i64,
    amount: f64,
    name: String,
}

/// Inserts all rows into a table like a view's.
fn insert(client: &ClientConfig, path: &Path, rows_per_transaction: usize) -> Result<Duration> {
    let mut connection = bare_table(path)?;
    consume(client, rows_per_transaction, |rows| insert_part(&mut connection, rows))
}

/// Reads all rows with one consumer. With a `part` less than all, they are parsed and handed on in parts.
fn consume(client: &ClientConfig, part: usize, mut take: impl FnMut(&[Row]) -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    let consumer: BaseConsumer = client.clone().set("group.id", "bare").create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(TOPIC, partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let mut rows = Vec::new();
    for _ in 0..ROWS {
        // An event of the client's own gives no message either.
        let message = loop {
            match consumer.poll(PATIENCE) {
                Some(message) => break message?,
                None if start.elapsed() > PATIENCE => return Err("no row came".into()),
                None => {}
            }
        };
        if part < ROWS {
            let value: Value = serde_json::from_slice(message.payload().unwrap_or_default())?;
            rows.push((1, message.partition().to_string(), message.offset(), value.id, value.amount, value.name));
            if rows.len() == part {
                take(&rows)?;
                rows.clear();
            }
        }
    }
    take(&rows)?;
    Ok(start.elapsed())
}

//! Against librdkafka's mock cluster, which lives in this process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::datatypes::Int64Type;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};

use super::options::Startup;
use super::*;
use crate::engine::embedded::columns;
use crate::engine::embedded::connector::{Gap, ReadEvent, Start};
use crate::store::format::MessageFormat;

const TOPIC: &str = "rows";

/// Only bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of one broker with one topic.
struct Cluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
}

impl Cluster {
    fn new(partitions: i32) -> Self {
        let mock = MockCluster::new(1).unwrap();
        mock.create_topic(TOPIC, partitions, 1).unwrap();
        let producer = ClientConfig::new().set("bootstrap.servers", mock.bootstrap_servers()).create().unwrap();
        Self { mock, producer }
    }

    /// Adds `{"id": n}` to a partition, one for each number.
    fn add(&self, partition: i32, numbers: std::ops::Range<i64>) {
        for number in numbers {
            let row = format!("{{\"id\": {number}}}");
            let record = BaseRecord::<(), _>::to(TOPIC).partition(partition).payload(&row);
            self.producer.send(record).unwrap();
        }
        self.producer.flush(PATIENCE).unwrap();
    }

    fn settings(&self, startup: Startup) -> Settings {
        Settings {
            topic: TOPIC.into(),
            bootstrap: self.mock.bootstrap_servers(),
            startup,
            group_id_prefix: "tests".into(),
            client: vec![("fetch.wait.max.ms".into(), "20".into()), ("queued.max.messages.kbytes".into(), "64".into())],
        }
    }

    /// A source that is being made.
    fn new_source(&self, startup: Startup) -> Kafka {
        let schema = columns::schema(&[("id".into(), "int8".into())]).unwrap();
        Kafka::new(self.settings(startup), "s", Decoder::new(schema, &MessageFormat::default()).unwrap())
    }

    /// A source that was made before, with what it remembers of its partitions.
    async fn made_source(&self, memories: &[(i32, Option<&str>)]) -> Arc<Kafka> {
        let source = Arc::new(self.new_source(Startup::Earliest));
        source.remember(&memories.iter().map(|(at, memory)| (split_of(*at), memory.map(str::to_owned))).collect());
        // As the coordinator does, for as long as there is somebody who reads.
        let looked = Arc::downgrade(&source);
        tokio::spawn(async move {
            while let Some(source) = looked.upgrade() {
                let _ = source.discover().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        source
    }
}

fn starts(splits: &[(i32, Start)]) -> BTreeMap<SplitId, Start> {
    splits.iter().map(|(partition, start)| (split_of(*partition), *start)).collect()
}

async fn next(reader: &mut dyn Reader, max_rows: usize) -> ReadEvent {
    tokio::time::timeout(PATIENCE, reader.next(max_rows)).await.expect("the reader has nothing to say")
}

/// Reads until every split's position has come to an offset; the rows of each.
async fn read_to(reader: &mut dyn Reader, ends: &[(i32, i64)]) -> BTreeMap<i32, Vec<(i64, i64)>> {
    let mut rows: BTreeMap<i32, Vec<(i64, i64)>> = BTreeMap::new();
    let mut missing: BTreeMap<i32, i64> = ends.iter().copied().collect();
    while !missing.is_empty() {
        let ReadEvent::Chunk(chunk) = next(reader, 7).await else { continue };
        assert!(chunk.offsets.len() <= 7 && chunk.offsets.len() == chunk.rows.num_rows());
        let partition = partition_of(&chunk.split).unwrap();
        let ids = chunk.rows.column(0).as_primitive::<Int64Type>();
        let read = chunk.offsets.iter().map(|offset| offset.0).zip(ids.values().iter().copied());
        rows.entry(partition).or_default().extend(read);
        assert!(chunk.offsets.iter().all(|offset| *offset <= chunk.position));
        if missing.get(&partition).is_some_and(|end| chunk.position.0 >= *end) {
            missing.remove(&partition);
        }
    }
    rows
}

/// Waits until a split is told to be unreachable.
async fn unreachable(reader: &mut dyn Reader) -> (SplitId, String) {
    loop {
        match next(reader, 100).await {
            ReadEvent::Unreachable(split, why) => return (split, why),
            ReadEvent::Recovered(_) => {}
            ReadEvent::Chunk(chunk) => assert_eq!(chunk.offsets.len(), 0, "rows of a partition that isn't well"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn partitions_are_read_from_where_they_start() {
    let cluster = Cluster::new(3);
    cluster.add(0, 0..100);
    cluster.add(1, 0..10);
    let source = cluster.made_source(&[(0, None), (1, None), (2, None)]).await;
    let seen = source.discover().await.unwrap();
    let of = |partition| seen[&split_of(partition)].clone().unwrap();
    assert_eq!((of(0).low, of(0).high, of(0).latest), (Offset(0), Offset(100), Some(Offset(99))));
    assert_eq!((of(2).high, of(2).latest), (Offset(0), None));
    let mut reader = source.reader();
    reader.assign(&starts(&[(0, Start::Earliest), (1, Start::After(Offset(6))), (2, Start::Earliest)]));
    let rows = read_to(&mut *reader, &[(0, 99), (1, 9)]).await;
    assert_eq!(rows[&0], (0..100).map(|at| (at, at)).collect::<Vec<_>>());
    assert_eq!(rows[&1], [(7, 7), (8, 8), (9, 9)]);
    // One leaves, one stays where it is, and one comes.
    reader.assign(&starts(&[(0, Start::Earliest), (2, Start::Earliest)]));
    cluster.add(0, 100..103);
    cluster.add(1, 10..20);
    cluster.add(2, 0..2);
    let rows = read_to(&mut *reader, &[(0, 102), (2, 1)]).await;
    assert_eq!(rows, BTreeMap::from([(0, vec![(100, 100), (101, 101), (102, 102)]), (2, vec![(0, 0), (1, 1)])]));
    reader.assign(&starts(&[(1, Start::After(Offset(9)))]));
    assert_eq!(read_to(&mut *reader, &[(1, 19)]).await[&1].len(), 10);
}

#[tokio::test]
async fn latest_starts_where_the_topic_ends() {
    let cluster = Cluster::new(2);
    cluster.add(0, 0..10);
    let making = cluster.new_source(Startup::Latest);
    let seen = making.discover().await.unwrap();
    let first = seen[&split_of(0)].clone().unwrap();
    assert_eq!((first.low, first.high, first.latest), (Offset(10), Offset(10), None));
    let memory = first.memory.unwrap();
    assert_eq!(&*memory, "{\"start\":10}");
    cluster.add(0, 10..13);
    let source = cluster.made_source(&[(0, Some(&memory)), (1, Some("{\"start\":0}"))]).await;
    let seen = source.discover().await.unwrap();
    let later = seen[&split_of(0)].clone().unwrap();
    assert_eq!((later.low, later.high, later.latest), (Offset(10), Offset(13), Some(Offset(12))));
    let mut reader = source.reader();
    reader.assign(&starts(&[(0, Start::Earliest)]));
    assert_eq!(read_to(&mut *reader, &[(0, 12)]).await[&0], [(10, 10), (11, 11), (12, 12)]);
}

#[tokio::test]
async fn a_partition_is_known_again_by_its_messages() {
    let cluster = Cluster::new(1);
    cluster.add(0, 0..10);
    let source = cluster.made_source(&[(0, None)]).await;
    let mut reader = source.reader();
    reader.assign(&starts(&[(0, Start::Earliest)]));
    read_to(&mut *reader, &[(0, 9)]).await;
    let seen = source.discover().await.unwrap();
    let memory = seen[&split_of(0)].clone().unwrap().memory.unwrap();
    let mark = serde_json::from_str::<Memory>(&memory).unwrap().mark.unwrap();
    assert_eq!(mark.offset, 9);

    cluster.add(0, 10..12);
    let again = cluster.made_source(&[(0, Some(&memory))]).await;
    let mut reader = again.reader();
    reader.assign(&starts(&[(0, Start::After(Offset(9)))]));
    assert_eq!(read_to(&mut *reader, &[(0, 11)]).await[&0], [(10, 10), (11, 11)]);
}

#[tokio::test]
async fn a_topic_that_was_made_anew_is_not_read_on() {
    let cluster = Cluster::new(1);
    cluster.add(0, 0..10);
    // Another message was read there; or more than there is.
    for (memory, passed, why) in [
        (Some("{\"mark\":{\"offset\":4,\"time\":5,\"hash\":6}}"), 4, "the message at offset 4 is another one"),
        (
            Some("{\"mark\":{\"offset\":14,\"time\":5,\"hash\":6}}"),
            14,
            "ends at offset 10, and offset 14 has been read",
        ),
        (None, 14, "ends at offset 10, and offset 14 has been read"),
    ] {
        let source = cluster.made_source(&[(0, memory)]).await;
        let mut reader = source.reader();
        reader.assign(&starts(&[(0, Start::After(Offset(passed)))]));
        loop {
            let (split, told) = unreachable(&mut *reader).await;
            assert_eq!(split, split_of(0));
            if told.contains(why) {
                assert!(told.contains("(needs a person: "), "{told}");
                break;
            }
        }
    }
}

/// Reads until a gap is told: it, and the last position before it.
async fn gap(reader: &mut dyn Reader) -> (Gap, Option<i64>) {
    let mut position = None;
    loop {
        match next(reader, 100).await {
            ReadEvent::Gap(gap) => return (gap, position),
            ReadEvent::Chunk(chunk) => position = Some(chunk.position.0),
            ReadEvent::Recovered(_) => {}
            ReadEvent::Unreachable(_, why) => panic!("{why}"),
        }
    }
}

#[tokio::test]
async fn rows_that_retention_took_are_told() {
    // The mock cluster keeps 5 MiB of a partition.
    let cluster = Cluster::new(1);
    let add = |numbers: std::ops::Range<i64>| {
        for number in numbers {
            let row = format!("{{\"id\": {number}, \"more\": \"{}\"}}", "x".repeat(10_000));
            cluster.producer.send(BaseRecord::<(), _>::to(TOPIC).partition(0).payload(&row)).unwrap();
            if number % 10 == 9 {
                cluster.producer.flush(PATIENCE).unwrap();
            }
        }
    };
    add(0..1000);
    let source = cluster.made_source(&[(0, None)]).await;
    let low = source.discover().await.unwrap()[&split_of(0)].clone().unwrap().low;
    assert!(low.0 > 100);
    let mut reader = source.reader();
    reader.assign(&starts(&[(0, Start::After(Offset(99)))]));
    assert_eq!(gap(&mut *reader).await, (Gap { split: split_of(0), from: Offset(100), to: low }, None));
    let ReadEvent::Chunk(passed) = next(&mut *reader, 100).await else { panic!() };
    assert_eq!((passed.offsets.len(), passed.position), (0, Offset(low.0 - 1)));
    // It waits with what it has fetched, and what comes behind that goes.
    let ReadEvent::Chunk(first) = next(&mut *reader, 1).await else { panic!() };
    assert_eq!((first.offsets.as_ref(), first.rows.num_rows()), (&[low][..], 1));
    add(1000..3000);
    let (gap, position) = gap(&mut *reader).await;
    assert_eq!(gap.from.0, position.unwrap() + 1);
    assert!(gap.to > Offset(1000));
    let ReadEvent::Chunk(passed) = next(&mut *reader, 100).await else { panic!() };
    assert_eq!((passed.offsets.len(), passed.position), (0, Offset(gap.to.0 - 1)));
    let rows = read_to(&mut *reader, &[(0, 2999)]).await;
    assert_eq!(rows[&0], (gap.to.0..3000).map(|at| (at, at)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_broker_that_is_down_holds_its_splits_up_until_it_is_up() {
    let cluster = Cluster::new(1);
    cluster.add(0, 0..5);
    let source = cluster.made_source(&[(0, None)]).await;
    let mut reader = source.reader();
    reader.assign(&starts(&[(0, Start::Earliest)]));
    read_to(&mut *reader, &[(0, 4)]).await;
    cluster.mock.broker_down(-1).unwrap();
    while !unreachable(&mut *reader).await.1.contains(&cluster.mock.bootstrap_servers()) {}
    let asked = Instant::now();
    let error = source.discover().await.unwrap_err();
    assert!(matches!(error, Error::SourceUnreachable { .. }), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(20));
    cluster.mock.broker_up(-1).unwrap();
    loop {
        match next(&mut *reader, 100).await {
            ReadEvent::Recovered(_) => break,
            ReadEvent::Unreachable(..) => {}
            ReadEvent::Chunk(chunk) => assert_eq!(chunk.offsets.len(), 0),
            ReadEvent::Gap(gap) => panic!("{gap:?}"),
        }
    }
    cluster.add(0, 5..7);
    assert_eq!(read_to(&mut *reader, &[(0, 6)]).await[&0], [(5, 5), (6, 6)]);
}

#[tokio::test]
async fn a_reader_ends_at_once_for_its_actor() {
    let settings = Settings { bootstrap: "127.0.0.1:1".into(), ..Cluster::new(1).settings(Startup::Earliest) };
    let schema = columns::schema(&[("id".into(), "int8".into())]).unwrap();
    let source = Kafka::new(settings, "s", Decoder::new(schema, &MessageFormat::default()).unwrap());
    source.remember(&BTreeMap::from([(split_of(0), None)]));
    let mut reader = source.reader();
    reader.assign(&starts(&[(0, Start::Earliest)]));
    let (_, why) = unreachable(&mut *reader).await;
    assert_eq!(why, "waiting for an answer of the broker");
    let worker = Arc::downgrade(&source.shared);
    drop(reader);
    drop(source);
    // Its thread ends too.
    let since = Instant::now();
    while worker.strong_count() > 0 {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

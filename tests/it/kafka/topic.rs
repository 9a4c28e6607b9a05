//! A topic of a test: made, filled, cut, grown, deleted.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::broker::Broker;
use crate::server::PATIENCE;

/// A topic, whose name is that of its source too.
pub struct Topic {
    address: String,
    /// Its name.
    pub name: String,
    partitions: i32,
    settings: Vec<(&'static str, &'static str)>,
}

impl Topic {
    /// A new topic.
    pub async fn create(broker: &Broker, name: &str, partitions: i32) -> Self {
        Self::create_with(broker, name, partitions, &[]).await
    }

    /// A new topic with settings of its own.
    pub async fn create_with(
        broker: &Broker,
        name: &str,
        partitions: i32,
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        let topic = Self { address: broker.address(), name: name.to_owned(), partitions, settings: settings.to_vec() };
        topic.make().await;
        topic
    }

    /// Makes the topic, which isn't there, and waits until it can be written to.
    pub async fn make(&self) {
        loop {
            let mut new = NewTopic::new(&self.name, self.partitions, TopicReplication::Fixed(1));
            for (key, value) in &self.settings {
                new = new.set(key, value);
            }
            match self.admin().create_topics([&new], &AdminOptions::new()).await.unwrap().remove(0) {
                Ok(_) => break,
                // The one before is still being deleted.
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        for partition in 0..self.partitions {
            self.watermarks(partition);
        }
    }

    /// Deletes it.
    pub async fn delete(&self) {
        let deleted = self.admin().delete_topics(&[&self.name], &AdminOptions::new()).await.unwrap();
        assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    }

    /// Gives it more partitions.
    pub async fn grow(&mut self, partitions: i32) {
        let new = NewPartitions::new(&self.name, usize::try_from(partitions).unwrap());
        let grown = self.admin().create_partitions([&new], &AdminOptions::new()).await.unwrap();
        assert!(grown.iter().all(Result::is_ok), "{grown:?}");
        self.partitions = partitions;
        for partition in 0..partitions {
            self.watermarks(partition);
        }
    }

    /// Deletes the messages of a partition before an offset, as retention does.
    pub async fn delete_before(&self, partition: i32, offset: Offset) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, offset).unwrap();
        self.admin().delete_records(&list, &AdminOptions::new()).await.unwrap();
    }

    /// The first offset of a partition, and the one behind its last.
    pub fn watermarks(&self, partition: i32) -> (i64, i64) {
        let consumer = self.consumer();
        let since = std::time::Instant::now();
        loop {
            match consumer.fetch_watermarks(&self.name, partition, Duration::from_secs(5)) {
                Ok(marks) => return marks,
                Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Offsets and values of all committed messages of a partition, as a plain consumer reads them.
    pub fn messages(&self, partition: i32) -> Vec<(i64, Option<String>)> {
        let consumer = self.consumer();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Beginning).unwrap();
        consumer.assign(&list).unwrap();
        let mut messages = Vec::new();
        loop {
            match consumer.poll(PATIENCE).expect("the end of the partition") {
                Ok(message) => {
                    let value = message.payload().map(|value| String::from_utf8_lossy(value).into_owned());
                    messages.push((message.offset(), value));
                }
                Err(KafkaError::PartitionEOF(_)) => return messages,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Appends rows `{"n": number, "text": ...}` to a partition.
    pub fn send(&self, partition: i32, numbers: std::ops::Range<i64>) {
        let producer = self.producer(&[]);
        self.send_by(&producer, partition, numbers);
        producer.flush(PATIENCE).unwrap();
    }

    /// The same by a producer that is there already. Nothing is flushed.
    pub fn send_by(&self, producer: &BaseProducer, partition: i32, numbers: std::ops::Range<i64>) {
        for number in numbers {
            let (key, value) = (number.to_string(), row(number));
            put(producer, BaseRecord::to(&self.name).partition(partition).key(key.as_str()).payload(value.as_str()));
        }
    }

    /// Appends rows in a transaction that ends as it is told.
    pub fn transaction(&self, partition: i32, numbers: std::ops::Range<i64>, commit: bool) {
        let producer = self.open_transaction("short", partition, numbers);
        if commit {
            producer.commit_transaction(PATIENCE).unwrap()
        } else {
            producer.abort_transaction(PATIENCE).unwrap()
        }
    }

    /// Appends rows in a transaction that stays open.
    pub fn open_transaction(&self, id: &str, partition: i32, numbers: std::ops::Range<i64>) -> BaseProducer {
        let id = format!("{}-{id}", self.name);
        let producer = self.producer(&[("transactional.id", &id)]);
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        self.send_by(&producer, partition, numbers);
        producer.flush(PATIENCE).unwrap();
        producer
    }

    /// A producer.
    pub fn producer(&self, settings: &[(&str, &str)]) -> BaseProducer {
        let mut config = self.config();
        for (key, value) in settings {
            config.set(*key, *value);
        }
        config.set("linger.ms", "5").create().unwrap()
    }

    /// A source of the topic's rows, with further options that each begin with a comma.
    pub fn source(&self, options: &str) -> String {
        format!(
            "CREATE SOURCE {name} (n BIGINT, text VARCHAR) WITH (connector = 'kafka', topic = '{name}',
             properties.bootstrap.server = '{address}'{options}) FORMAT PLAIN ENCODE JSON",
            name = self.name,
            address = self.address
        )
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    fn consumer(&self) -> BaseConsumer {
        self.config().set("group.id", "tests").set("enable.partition.eof", "true").create().unwrap()
    }
}

/// A row of some hundred bytes.
fn row(number: i64) -> String {
    format!(r#"{{"n": {number}, "text": "{number:0>80}"}}"#)
}

/// Hands a message to a producer, waiting while its queue is full.
pub fn put(producer: &BaseProducer, record: BaseRecord<'_, str, str>) {
    let mut record = record;
    loop {
        match producer.send(record) {
            Ok(()) => return,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                producer.poll(Duration::from_millis(20));
            }
            Err((error, _)) => panic!("{error}"),
        }
    }
}

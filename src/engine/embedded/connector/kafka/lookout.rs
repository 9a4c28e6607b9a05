//! The look-out of a source: one consumer, on a thread of its own, that asks how far the partitions are, and whether
//! they are still those that were read before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::Shared;
use super::client::{self, Client, Task};
use super::options::Startup;
use super::state::{Identity, Mark, Memory, Partition};
use crate::failpoint::{self, FailPoint};
use crate::incident;

/// How long the brokers may take to list a topic's partitions.
const METADATA_TIMEOUT: Duration = Duration::from_secs(6);

/// How long a message that was read before may take to come again.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(3);

/// What was seen is taken for the present this long.
const FRESH: Duration = Duration::from_millis(200);

/// A partition that isn't the one that was read before is looked at again this often.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What was seen: all partitions, or why there are none.
pub type Seen = Result<BTreeMap<i32, Result<Partition, String>>, String>;

/// Starts a look-out. It ends, and with it its thread, once nobody can ask it any more.
///
/// # Errors
/// When there can be no further thread.
pub fn start(shared: Arc<Shared>) -> std::io::Result<Sender<oneshot::Sender<Seen>>> {
    let (asked, asks) = channel();
    let lookout = LookOut { shared, client: None, seen_at: None, looked: BTreeMap::new() };
    incident::thread("kafka-lookout".into(), move || lookout.run(&asks))?;
    Ok(asked)
}

struct LookOut {
    shared: Arc<Shared>,
    client: Option<Client>,
    /// When all partitions were last seen to be well.
    seen_at: Option<Instant>,
    /// When partitions that aren't the same were last looked at.
    looked: BTreeMap<i32, Instant>,
}

impl LookOut {
    fn run(mut self, asks: &Receiver<oneshot::Sender<Seen>>) {
        for reply in asks {
            // Nobody may wait for it any more; what was learnt is in the shared state.
            let _ = reply.send(self.look());
        }
    }

    fn look(&mut self) -> Seen {
        failpoint::pass(FailPoint::KafkaLooks);
        let doubts = self.shared.known.lock().values().any(|known| known.identity == Identity::Doubtful);
        if doubts || self.seen_at.is_none_or(|at| at.elapsed() > FRESH) {
            self.seen_at = None;
            if let Err(error) = self.look_anew() {
                for known in self.shared.known.lock().values_mut() {
                    known.trouble = Some(error.clone());
                    doubt(known);
                }
                return Err(error);
            }
            self.seen_at = Some(Instant::now());
        }
        let known = self.shared.known.lock();
        let seen = known.iter().map(|(partition, known)| {
            let seen = known.trouble.clone().map_or_else(|| Ok(known.clone()), Err);
            (*partition, seen)
        });
        Ok(seen.collect())
    }

    fn look_anew(&mut self) -> Result<(), String> {
        let client = match self.client.take() {
            Some(client) => client,
            None => client::connect(&self.shared.settings, &self.shared.source, Task::LookOut)?,
        };
        let client = self.client.insert(client);
        let found = partitions(client, &self.shared);
        // Has the callbacks called.
        client::hear(client);
        let mut found = found.map_err(|error| client::words(client, &self.shared.settings, &error))?;
        for partition in self.shared.known.lock().keys() {
            found.entry(*partition).or_insert_with(|| {
                let topic = &self.shared.settings.topic;
                Err(format!("topic \"{topic}\" has no partition {partition} any more"))
            });
        }
        self.shared.take_in(client, found)?;
        self.compare();
        Ok(())
    }

    /// Looks whether doubtful partitions are those that were read before.
    fn compare(&mut self) {
        let Some(client) = &self.client else { return };
        let mut marks = BTreeMap::new();
        for (partition, known) in self.shared.known.lock().iter_mut() {
            let Some((low, high)) = known.marks.filter(|_| known.trouble.is_none()) else { continue };
            match (&known.identity, &known.memory.mark) {
                (Identity::Same, _) => {}
                (_, None) => known.identity = Identity::Same,
                (_, Some(mark)) if mark.offset >= high => {
                    let what = format!("it ends at offset {high}, and offset {} has been read", mark.offset);
                    known.identity = Identity::Other(self.shared.made_anew(*partition, &what));
                }
                (_, Some(mark)) if mark.offset < low => {
                    // Retention took the message, so nothing can be told.
                    known.memory.mark = None;
                    known.identity = Identity::Same;
                }
                (Identity::Other(_), Some(_))
                    if self.looked.get(partition).is_some_and(|at| at.elapsed() < LOOK_AGAIN) => {}
                (_, Some(mark)) => {
                    self.looked.insert(*partition, Instant::now());
                    marks.insert(*partition, mark.clone());
                }
            }
        }
        if !marks.is_empty() {
            let trouble = read_again(client, &self.shared, &mut marks).err();
            // Has the callbacks called, and forgets what else was fetched.
            client::hear(client);
            let trouble = trouble.map_or_else(
                || "its messages could not be compared with what was read before: no answer in time".to_owned(),
                |error| client::words(client, &self.shared.settings, &error),
            );
            let mut known = self.shared.known.lock();
            for partition in marks.keys() {
                if let Some(known) = known.get_mut(partition) {
                    known.trouble = Some(trouble.clone());
                }
            }
        }
    }
}

/// A partition that has been read is the same only once that was looked at.
fn doubt(known: &mut Partition) {
    if known.identity == Identity::Same && known.memory.mark.is_some() {
        known.identity = Identity::Doubtful;
    }
}

type Found = BTreeMap<i32, Result<(i64, i64), String>>;

/// The partitions of the topic, each with its first and its end offset.
fn partitions(client: &Client, shared: &Shared) -> Result<Found, KafkaError> {
    let topic = &shared.settings.topic;
    let metadata = client.fetch_metadata(Some(topic), METADATA_TIMEOUT)?;
    let listed = metadata.topics().iter().find(|listed| listed.name() == topic);
    let listed = match listed.map(|listed| (listed, listed.error())) {
        Some((listed, None)) => listed,
        Some((_, Some(error))) => return Err(KafkaError::MetadataFetch(error.into())),
        None => return Err(KafkaError::MetadataFetch(Code::UnknownTopicOrPartition)),
    };
    let mut found = Found::new();
    let mut leaders: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for partition in listed.partitions() {
        // A partition with a leader may have an error all the same: a replica that is down.
        if partition.leader() < 0 {
            let why = partition.error().map_or_else(String::new, |error| format!(": {}", Code::from(error)));
            let known = format!("partition {} of topic \"{topic}\" has no leader{why}", partition.id());
            found.insert(partition.id(), Err(known));
        } else {
            leaders.entry(partition.leader()).or_default().push(partition.id());
        }
    }
    for (leader, held) in leaders {
        // A leader at a time: one that doesn't answer says nothing of the others.
        match client::watermarks(client, topic, &held) {
            Ok(marks) => found.extend(marks.into_iter().map(|(partition, marks)| {
                (partition, marks.map_err(|error| client::words(client, &shared.settings, &error)))
            })),
            Err(error) => {
                client::hear(client);
                let why = client::words(client, &shared.settings, &error);
                let broker = metadata.brokers().iter().find(|broker| broker.id() == leader);
                let broker =
                    broker.map_or_else(String::new, |broker| format!(" at {}:{}", broker.host(), broker.port()));
                let why = format!("the partition's leader, broker {leader}{broker}, doesn't answer: {why}");
                found.extend(held.into_iter().map(|partition| (partition, Err(why.clone()))));
            }
        }
    }
    Ok(found)
}

/// Reads the messages of `marks` again; those that could not be read stay in it.
fn read_again(client: &Client, shared: &Shared, marks: &mut BTreeMap<i32, Mark>) -> Result<(), KafkaError> {
    let topic = &shared.settings.topic;
    let mut list = TopicPartitionList::new();
    for (partition, mark) in marks.iter() {
        list.add_partition_offset(topic, *partition, Offset::Offset(mark.offset))?;
    }
    client.assign(&list)?;
    let until = Instant::now() + COMPARE_TIMEOUT;
    let mut result = Ok(());
    while !marks.is_empty() && Instant::now() < until {
        match client.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                if let Some(mark) = marks.remove(&message.partition()) {
                    shared.compared(message.partition(), &mark, &Mark::of(&message));
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                // Compaction took the message and all behind it, so nothing can be told.
                if let Some(mark) = marks.remove(&partition) {
                    shared.compared(partition, &mark, &Mark { offset: i64::MAX, ..mark.clone() });
                }
            }
            Some(Err(error)) if client::concerns_group(&error) || client::is_transport(&error) => {}
            Some(Err(error)) => {
                result = Err(error);
                break;
            }
        }
    }
    client.unassign()?;
    result
}

impl Shared {
    /// Takes in what was found of the partitions.
    ///
    /// # Errors
    /// When a new source can't be told where its partitions start.
    fn take_in(&self, client: &Client, found: Found) -> Result<(), String> {
        let starts = self.starts(client, &found)?;
        let mut known = self.known.lock();
        for (partition, found) in found {
            let start = starts.get(&partition).copied();
            let known = known.entry(partition).or_insert_with(|| Partition::new(Memory { start, mark: None }));
            match found {
                Ok((low, high)) => {
                    if known.marks.is_some_and(|(low_before, high_before)| low < low_before || high < high_before) {
                        doubt(known);
                    }
                    known.marks = Some((low, high));
                    known.trouble = None;
                }
                Err(trouble) => {
                    known.trouble = Some(trouble);
                    doubt(known);
                }
            }
        }
        Ok(())
    }

    /// Where the partitions of a source that is being made start. Those that appear later are read from their first
    /// message on: all of them came after the source.
    fn starts(&self, client: &Client, found: &Found) -> Result<BTreeMap<i32, i64>, String> {
        if self.is_made() || self.settings.startup == Startup::Earliest || !self.known.lock().is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut starts = BTreeMap::new();
        for (partition, found) in found {
            let (_, high) = found.clone()?;
            let start = match self.settings.startup {
                Startup::Timestamp(millis) => {
                    let at = client::at_time(client, &self.settings.topic, &[*partition], millis);
                    let at = at.and_then(|mut at| at.remove(0));
                    at.map_err(|error| client::words(client, &self.settings, &error))?
                }
                Startup::Earliest | Startup::Latest => high,
            };
            starts.insert(*partition, start);
        }
        Ok(starts)
    }

    /// Takes in what is at the place of a message that was read before, or behind it.
    fn compared(&self, partition: i32, mark: &Mark, now: &Mark) {
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(&partition) else { return };
        known.identity = if now.offset > mark.offset || now == mark {
            Identity::Same
        } else {
            let what = format!("the message at offset {} is another one than was read there", mark.offset);
            Identity::Other(self.made_anew(partition, &what))
        };
    }

    /// Says that a partition isn't the one that was read, and what to do.
    pub fn made_anew(&self, partition: i32, what: &str) -> String {
        format!(
            "topic \"{}\" was deleted and made anew, or cut: of partition {partition}, {what} (needs a person: nothing \
             is read until the source is dropped and created again)",
            self.settings.topic
        )
    }
}

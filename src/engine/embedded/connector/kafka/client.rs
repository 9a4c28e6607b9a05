//! librdkafka's consumers: how they are set up, and what their errors mean in words.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};
use tracing::debug;

use super::options::Settings;
use super::state::lock;
use crate::secret;

/// KiB that a consumer fetches ahead of its reader, over all its partitions. It may exceed this by one fetch a broker.
const AHEAD_KIB: &str = "8192";

/// Bytes of one fetch over all its partitions, but for a message that is larger.
const FETCH_BYTES: &str = "8388608";

/// How long the broker may take for the offsets of its partitions.
pub const OFFSETS_TIMEOUT: Duration = Duration::from_secs(3);

/// A client that says nothing for so long has said all.
const QUIET: Duration = Duration::from_millis(5);

/// The longest that a client is listened to at once.
const HEAR_TIMEOUT: Duration = Duration::from_secs(1);

/// A consumer with its notes.
pub type Client = BaseConsumer<Notes>;

/// What a consumer's callbacks leave for whoever polled it.
#[derive(Default)]
pub struct Notes {
    /// What librdkafka last said was wrong: its code, and why.
    reason: Mutex<Option<(Code, String)>>,
    /// Where the partition ends whose end was told last.
    end: Mutex<Option<i64>>,
    secrets: Vec<String>,
}

impl Notes {
    /// The end of the partition whose end was told last: the offset that is to be read next.
    pub fn take_end(&self) -> Option<i64> {
        lock(&self.end).take()
    }

    fn reason(&self) -> Option<(Code, String)> {
        lock(&self.reason).clone()
    }

    fn without_secrets(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, secret::HIDDEN))
    }
}

impl ClientContext for Notes {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        debug!(target: "librdkafka", facility, "{}", self.without_secrets(message));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(Code::PartitionEOF) {
            // The binding tells the partition, and only this text tells the offset.
            *lock(&self.end) = end_in(reason);
        } else {
            let reason = self.without_secrets(reason);
            debug!(target: "librdkafka", "{error}: {reason}");
            // That all brokers are down is told after the reason of each, and explains nothing.
            if let Some(code) = error.rdkafka_error_code().filter(|code| *code != Code::AllBrokersDown) {
                *lock(&self.reason) = Some((code, reason));
            }
        }
    }
}

impl ConsumerContext for Notes {}

/// The offset in `... reached end of partition at offset 12 (HighwaterMark 14)`.
fn end_in(reason: &str) -> Option<i64> {
    let (_, rest) = reason.split_once("end of partition at offset ")?;
    rest.split(' ').next()?.parse().ok()
}

/// What a consumer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// To read partitions, fast.
    Read,
    /// To look how far they are.
    LookOut,
}

/// Makes a consumer. It connects by itself, in the background.
///
/// # Errors
/// In words, when a property doesn't work on this machine: a certificate that isn't there.
pub fn connect(settings: &Settings, source: &str, task: Task) -> Result<Client, String> {
    let mut config = ClientConfig::new();
    if task == Task::LookOut {
        // It wants one message of a partition, and no more.
        config.set("queued.min.messages", "1").set("fetch.message.max.bytes", "65536");
    }
    // What a user may set differently comes first.
    for (name, value) in [
        ("isolation.level", "read_committed"),
        ("queued.max.messages.kbytes", AHEAD_KIB),
        ("fetch.max.bytes", FETCH_BYTES),
        // A full queue is emptied within milliseconds, and librdkafka would look again only after a second.
        ("fetch.queue.backoff.ms", "10"),
        ("reconnect.backoff.max.ms", "2000"),
        ("socket.connection.setup.timeout.ms", "5000"),
    ] {
        config.set(name, value);
    }
    for (name, value) in &settings.client {
        config.set(name, value);
    }
    for (name, value) in [
        // Offsets are kept in the state file alone; the group is a name that librdkafka wants.
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("allow.auto.create.topics", "false"),
        ("enable.partition.eof", "true"),
        ("auto.offset.reset", "error"),
        ("statistics.interval.ms", "0"),
    ] {
        config.set(name, value);
    }
    config.set("bootstrap.servers", &settings.bootstrap);
    config.set("group.id", format!("{}-{source}", settings.group_id_prefix));
    let secrets = secrets(settings);
    let notes = Notes { secrets: secrets.clone(), ..Notes::default() };
    let created = config.create_with_context(notes);
    created.map_err(|error: KafkaError| Notes { secrets, ..Notes::default() }.without_secrets(&error.to_string()))
}

/// The values that no text may show.
fn secrets(settings: &Settings) -> Vec<String> {
    let found = settings.client.iter().filter(|(name, value)| secret::is_secret(name) && !value.is_empty());
    found.map(|(_, value)| value.clone()).collect()
}

/// What an error means, in words, with the last thing that librdkafka said of it.
pub fn words(client: &Client, settings: &Settings, error: &KafkaError) -> String {
    let Settings { topic, bootstrap, .. } = settings;
    let notes = client.context();
    match error.rdkafka_error_code() {
        Some(Code::AllBrokersDown | Code::BrokerTransportFailure | Code::OperationTimedOut | Code::Resolve) => {
            let (code, reason) = notes.reason().unwrap_or((Code::BrokerTransportFailure, "no answer".to_owned()));
            unreachable(bootstrap, code, &reason)
        }
        Some(code @ (Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL)) => {
            unreachable(bootstrap, code, &notes.reason().map_or_else(|| code.to_string(), |(_, reason)| reason))
        }
        Some(Code::TopicAuthorizationFailed) => format!("not authorised to read topic \"{topic}\" of {bootstrap}"),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId | Code::UnknownPartition) => {
            format!("topic \"{topic}\" does not exist at {bootstrap}")
        }
        Some(Code::LeaderNotAvailable | Code::NotLeaderForPartition) => "the partition has no leader".to_owned(),
        Some(code) => format!("topic \"{topic}\" at {bootstrap}: {code}"),
        None => notes.without_secrets(&format!("topic \"{topic}\" at {bootstrap}: {error}")),
    }
}

fn unreachable(bootstrap: &str, code: Code, reason: &str) -> String {
    let what = match code {
        Code::Authentication | Code::SaslAuthenticationFailed => "refuses the login",
        Code::SSL => "can't be reached safely",
        _ => "can't be reached",
    };
    format!("Kafka at {bootstrap} {what}: {}", plain(reason))
}

/// Has the callbacks called for all that waits, and forgets what was fetched.
pub fn hear(client: &Client) {
    // A poll that a callback has used up gives nothing, as an empty queue does, but it doesn't wait for more.
    let until = Instant::now() + HEAR_TIMEOUT;
    let mut asked = Instant::now();
    while client.poll(QUIET).is_some() || asked.elapsed() < QUIET {
        asked = Instant::now();
        if asked >= until {
            return;
        }
    }
}

/// Whether an error is about the group that librdkafka wants named. Nobody joins it.
pub fn concerns_group(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::GroupAuthorizationFailed
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::CoordinatorLoadInProgress
                | Code::WaitingForCoordinator
        )
    )
}

/// Whether an error is about one connection. librdkafka makes another one; whether that matters is for the look-out
/// to find.
pub fn is_transport(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(Code::BrokerTransportFailure | Code::OperationTimedOut | Code::Resolve))
}

/// A reason without the name of the thread that gives it, and without how long it took.
fn plain(reason: &str) -> &str {
    let reason = reason.split_once(" (after ").map_or(reason, |(reason, _)| reason);
    reason.split_once("/bootstrap: ").map_or(reason, |(_, reason)| reason)
}

/// The first and the end offset of partitions of one broker: where `read_committed` may read to.
///
/// # Errors
/// When the broker doesn't answer in time.
pub fn watermarks(client: &Client, topic: &str, partitions: &[i32]) -> KafkaResult<Vec<Marked>> {
    let low = offsets(client, topic, partitions, Offset::Beginning)?;
    let high = offsets(client, topic, partitions, Offset::End)?;
    let both = partitions.iter().zip(low).zip(high);
    Ok(both.map(|((partition, low), high)| (*partition, low.and_then(|low| Ok((low, high?))))).collect())
}

/// A partition with its first and its end offset.
pub type Marked = (i32, KafkaResult<(i64, i64)>);

/// The first offset of every partition that has a time of `millis` or later; its end when there is none.
///
/// # Errors
/// When a broker doesn't answer in time.
pub fn at_time(client: &Client, topic: &str, partitions: &[i32], millis: i64) -> KafkaResult<Vec<KafkaResult<i64>>> {
    let found = offsets(client, topic, partitions, Offset::Offset(millis.max(0)))?;
    if found.iter().all(|offset| !matches!(offset, Ok(i64::MIN..0))) {
        return Ok(found);
    }
    let ends = offsets(client, topic, partitions, Offset::End)?;
    Ok(found
        .into_iter()
        .zip(ends)
        .map(|(found, end)| if matches!(found, Ok(i64::MIN..0)) { end } else { found })
        .collect())
}

/// One request to a broker for all its partitions. -1: there is no such offset.
fn offsets(client: &Client, topic: &str, partitions: &[i32], which: Offset) -> KafkaResult<Vec<KafkaResult<i64>>> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition_offset(topic, *partition, which)?;
    }
    let found = client.offsets_for_times(list, OFFSETS_TIMEOUT)?;
    let of = |partition: &i32| match found.find_partition(topic, *partition) {
        Some(found) => found.error().map(|()| match found.offset() {
            Offset::Offset(offset) => offset,
            _ => -1,
        }),
        None => Err(KafkaError::OffsetFetch(Code::UnknownPartition)),
    };
    Ok(partitions.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_from_the_text() {
        assert_eq!(end_in("Fetch from broker 1 reached end of partition at offset 12 (HighwaterMark 14)"), Some(12));
        assert_eq!(end_in("Fetch from broker 1 failed"), None);
    }

    #[test]
    fn reasons_are_told_plainly() {
        let reason = "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)";
        assert_eq!(plain(reason), "Connect to ipv4#127.0.0.1:1 failed: Connection refused");
    }
}

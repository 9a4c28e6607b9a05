//! The thread of a reader.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as CommandSender, TryRecvError};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::{Message as _, Offset as KafkaOffset, TopicPartitionList};
use tokio::sync::mpsc::Sender;
use tracing::debug;

use super::super::Shared;
use super::super::client::{self, Client, Task};
use super::super::decode::Message;
use super::super::state::{Identity, Mark, Partition};
use super::batch::Batch;
use crate::backfill::id::{Offset, SplitId};
use crate::engine::embedded::connector::{Chunk, Gap, ReadEvent, Start};
use crate::failpoint::{self, FailPoint};

/// How long a split may be held up before that is told.
const GRACE: Duration = Duration::from_secs(2);

/// When a split that can't be read is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How long to wait for messages before looking at everything else again.
const IDLE: Duration = Duration::from_millis(250);

/// The same while a split is held up.
const HELD_UP: Duration = Duration::from_millis(50);

/// To the thread.
pub enum Command {
    /// Read these partitions from now on.
    Assign(BTreeMap<i32, (SplitId, (u64, Start))>),
    /// There is something to poll.
    Wake,
    /// End.
    Stop,
}

/// From the thread.
pub struct Told {
    pub split: SplitId,
    /// The assignment that brought the split.
    pub assignment: u64,
    pub event: ReadEvent,
}

/// The actor is gone.
struct Gone;

/// A partition that is held.
struct Held {
    split: SplitId,
    assignment: u64,
    start: Start,
    /// The next offset to read; known once it was first fetched.
    next: Option<i64>,
    /// Whether the consumer fetches it.
    fetched: bool,
    /// When messages or the end of it last came, or it was last fetched anew.
    heard_at: Instant,
    /// Whether they came at all.
    heard: bool,
    /// Why it isn't read.
    fault: Option<Fault>,
    /// When it is tried again.
    retry_at: Instant,
}

struct Fault {
    why: String,
    since: Instant,
    told: bool,
}

pub struct Worker {
    shared: Arc<Shared>,
    commands: CommandSender<Command>,
    events: Sender<Told>,
    held: BTreeMap<i32, Held>,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, commands: CommandSender<Command>, events: Sender<Told>) -> Self {
        Self { shared, commands, events, held: BTreeMap::new() }
    }

    /// Runs until the reader is dropped.
    pub fn run(mut self, commands: &Receiver<Command>) {
        let mut client = None;
        loop {
            if !self.obey(client.as_ref(), commands) {
                return;
            }
            failpoint::pass(FailPoint::KafkaReads);
            let turn = match &client {
                Some(client) => self.turn(client),
                None => self.connect().map(|connected| {
                    client = connected;
                    client.is_some()
                }),
            };
            let busy = match turn {
                Ok(busy) => busy,
                Err(Gone) => return,
            };
            if !busy && !self.wait(client.as_ref(), commands) {
                return;
            }
        }
    }

    /// Waits for a command or a message. `false`: end.
    fn wait(&mut self, client: Option<&Client>, commands: &Receiver<Command>) -> bool {
        let held_up = self.held.values().any(|held| !held.fetched || held.fault.is_some());
        match commands.recv_timeout(if held_up { HELD_UP } else { IDLE }) {
            Ok(command) => self.take(client, command),
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    /// Takes the commands that wait. `false`: end.
    fn obey(&mut self, client: Option<&Client>, commands: &Receiver<Command>) -> bool {
        loop {
            match commands.try_recv() {
                Ok(command) => {
                    if !self.take(client, command) {
                        return false;
                    }
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, client: Option<&Client>, command: Command) -> bool {
        match command {
            Command::Stop => return false,
            Command::Wake => {}
            Command::Assign(splits) => self.assign(client, splits),
        }
        true
    }

    fn assign(&mut self, client: Option<&Client>, splits: BTreeMap<i32, (SplitId, (u64, Start))>) {
        let mut before = mem::take(&mut self.held);
        for (partition, (split, (assignment, start))) in splits {
            let held = match before.remove(&partition) {
                Some(held) if held.assignment == assignment => held,
                stale => {
                    if let Some(stale) = stale {
                        before.insert(partition, stale);
                    }
                    Held::new(split, assignment, start)
                }
            };
            self.held.insert(partition, held);
        }
        let left: Vec<i32> = before.iter().filter(|(_, held)| held.fetched).map(|(partition, _)| *partition).collect();
        if let Some(client) = client {
            self.unassign(client, &left);
        }
    }

    /// Makes the consumer. One that can't be made is tried again.
    fn connect(&mut self) -> Result<Option<Client>, Gone> {
        if self.held.is_empty() || self.held.values().any(|held| Instant::now() < held.retry_at) {
            return Ok(None);
        }
        match client::connect(&self.shared.settings, &self.shared.source, Task::Read) {
            Ok(mut client) => {
                let commands = self.commands.clone();
                client.set_nonempty_callback(move || {
                    let _ = commands.send(Command::Wake);
                });
                Ok(Some(client))
            }
            Err(error) => {
                for held in self.held.values_mut() {
                    held.fail(error.clone());
                }
                self.tell_faults().map(|()| None)
            }
        }
    }

    /// One look at everything. `true`: there may be more at once.
    fn turn(&mut self, client: &Client) -> Result<bool, Gone> {
        self.settle(client)?;
        self.tell_faults()?;
        let mut batch = Batch::poll(client);
        let more = batch.more;
        let error = batch.error.take();
        self.deliver(client, batch)?;
        match error {
            None => {}
            Some(error) if error.rdkafka_error_code() == Some(Code::AutoOffsetReset) => self.find_out_of_range(client),
            Some(error) => self.failed(client, &error),
        }
        Ok(more)
    }

    /// Has the consumer fetch what can be read, and stop fetching what can't.
    fn settle(&mut self, client: &Client) -> Result<(), Gone> {
        let now = Instant::now();
        let mut leave = Vec::new();
        let mut gaps = Vec::new();
        let mut fetch = TopicPartitionList::new();
        {
            let known = self.shared.known.lock();
            for (partition, held) in &mut self.held {
                let state = known.get(partition);
                if let Some(why) = held.obstacle(state) {
                    if mem::take(&mut held.fetched) {
                        leave.push(*partition);
                    }
                    held.fail(why);
                    held.retry_at = now;
                    continue;
                }
                if held.fetched || now < held.retry_at {
                    continue;
                }
                let Some((state, (low, _))) = state.and_then(|state| Some((state, state.marks?))) else { continue };
                let next = held.next.unwrap_or_else(|| match held.start {
                    Start::Earliest => state.first().unwrap_or(low),
                    Start::After(offset) => offset.0.saturating_add(1),
                });
                // Behind the end: watermarks may be older than what was read, and the broker itself will say.
                let first = next.max(low);
                if held.next.is_none() && matches!(held.start, Start::After(_)) && state.memory.mark.is_none() {
                    // Nothing was read but markers and gaps, or retention took what was.
                    debug!(
                        source = self.shared.source,
                        partition,
                        offset = next,
                        "read on without a message that tells whether it is the same topic"
                    );
                }
                held.next = Some(first);
                if first > next {
                    gaps.push((*partition, next, first));
                }
                let at = KafkaOffset::Offset(first);
                if fetch.add_partition_offset(&self.shared.settings.topic, *partition, at).is_ok() {
                    held.fetched = true;
                    held.heard_at = now;
                }
            }
        }
        self.unassign(client, &leave);
        for (partition, from, to) in gaps {
            self.tell_gap(partition, from, to)?;
        }
        if fetch.count() > 0 && client.incremental_assign(&fetch).is_err() {
            // Never expected. All are given back, and tried again.
            let _ = client.unassign();
            for held in self.held.values_mut() {
                held.fetched = false;
                held.retry_at = now + RETRY;
            }
        }
        Ok(())
    }

    fn unassign(&self, client: &Client, partitions: &[i32]) {
        if partitions.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.shared.settings.topic, *partition);
        }
        let _ = client.incremental_unassign(&list);
    }

    fn tell_faults(&mut self) -> Result<(), Gone> {
        let mut due = Vec::new();
        for (partition, held) in &mut self.held {
            if let Some(fault) = &mut held.fault
                && !fault.told
                && fault.since.elapsed() >= GRACE
            {
                fault.told = true;
                due.push((*partition, fault.why.clone()));
            }
        }
        due.into_iter()
            .try_for_each(|(partition, why)| self.tell(partition, |split| ReadEvent::Unreachable(split, why)))
    }

    fn tell(&self, partition: i32, event: impl FnOnce(SplitId) -> ReadEvent) -> Result<(), Gone> {
        let Some(held) = self.held.get(&partition) else { return Ok(()) };
        let told = Told { split: held.split.clone(), assignment: held.assignment, event: event(held.split.clone()) };
        self.events.blocking_send(told).map_err(|_| Gone)
    }

    /// Tells that retention took what comes next, and goes on behind it.
    fn tell_gap(&mut self, partition: i32, from: i64, to: i64) -> Result<(), Gone> {
        self.tell(partition, |split| ReadEvent::Gap(Gap { split, from: Offset(from), to: Offset(to) }))?;
        self.tell(partition, |split| ReadEvent::Chunk(self.position(split, to - 1)))
    }

    /// A chunk without rows.
    fn position(&self, split: SplitId, at: i64) -> Chunk {
        let rows = RecordBatch::new_empty(Arc::clone(self.shared.decoder.schema()));
        Chunk { split, offsets: Arc::default(), rows, bad: Vec::new(), position: Offset(at), bytes: 0 }
    }

    /// Tells what was polled.
    fn deliver(&mut self, client: &Client, batch: Batch<'_>) -> Result<(), Gone> {
        let mut passed = batch.ends;
        // Of markers and aborted messages nothing is polled, but the consumer's position is behind them.
        for at in client.position().iter().flat_map(TopicPartitionList::elements) {
            if let KafkaOffset::Offset(next) = at.offset() {
                let known = passed.entry(at.partition()).or_insert(next);
                *known = next.max(*known);
            }
        }
        for (partition, messages) in &batch.messages {
            passed.entry(*partition).or_insert(messages.last().map_or(0, |last| last.offset() + 1));
        }
        let heard: Vec<i32> = batch.messages.keys().copied().chain(batch.heard).collect();
        for (partition, to) in passed {
            let messages = batch.messages.get(&partition).map_or(&[][..], Vec::as_slice);
            self.pass(client, partition, messages, to)?;
        }
        for partition in heard {
            let Some(held) = self.held.get_mut(&partition).filter(|held| held.fetched) else { continue };
            held.heard_at = Instant::now();
            // An actor may have left an error behind when it ended, so the first word of a split is told too.
            let first = !mem::replace(&mut held.heard, true);
            if held.fault.take().is_some_and(|fault| fault.told) || first {
                self.tell(partition, ReadEvent::Recovered)?;
            }
        }
        Ok(())
    }

    /// Tells messages of one partition, of which everything before `to` has been polled.
    fn pass(&mut self, client: &Client, partition: i32, messages: &[BorrowedMessage<'_>], to: i64) -> Result<(), Gone> {
        let Some(held) = self.held.get_mut(&partition).filter(|held| held.fetched) else { return Ok(()) };
        let Some(next) = held.next else { return Ok(()) };
        let messages: Vec<&BorrowedMessage<'_>> = messages.iter().filter(|message| message.offset() >= next).collect();
        if !self.shared.known.may_tell(partition, messages.last().map(|last| Mark::of(last))) {
            // A doubt has come up since they were fetched. They are fetched again once it is settled.
            held.fetched = false;
            self.unassign(client, &[partition]);
            return Ok(());
        }
        let to = messages.last().map_or(to, |last| to.max(last.offset() + 1));
        if to <= next {
            return Ok(());
        }
        held.next = Some(to);
        let chunk = self.decode(partition, &messages, to - 1);
        self.tell(partition, |_| ReadEvent::Chunk(chunk))
    }

    fn decode(&self, partition: i32, messages: &[&BorrowedMessage<'_>], position: i64) -> Chunk {
        let split = super::super::split_of(partition);
        if messages.is_empty() {
            return self.position(split, position);
        }
        let decoder = &self.shared.decoder;
        let parts: Vec<Message<'_>> = messages
            .iter()
            .map(|message| Message {
                offset: message.offset(),
                partition,
                timestamp_millis: message.timestamp().to_millis(),
                key: message.key(),
                payload: message.payload(),
                headers: message
                    .headers()
                    .filter(|_| decoder.wants_headers())
                    .map(|headers| headers.iter().map(|header| (header.key, header.value)).collect())
                    .unwrap_or_default(),
            })
            .collect();
        let decoded = decoder.decode(&parts);
        Chunk {
            split,
            offsets: decoded.offsets.into(),
            bytes: decoded.rows.get_array_memory_size(),
            rows: decoded.rows,
            bad: decoded.bad,
            position: Offset(position),
        }
    }

    /// Something can't be read. librdkafka's binding doesn't tell of which partition, so all are looked at and fetched
    /// anew, each from where it was: those that are well go on at once.
    fn failed(&mut self, client: &Client, error: &KafkaError) {
        let why = client::words(client, &self.shared.settings, error);
        let stopped = self.stop(client);
        for partition in &stopped {
            if let Some(held) = self.held.get_mut(partition) {
                held.fail(why.clone());
            }
        }
        self.shared.known.doubt(stopped);
    }

    /// Some partition has nothing at its next offset. Its watermarks say why.
    fn find_out_of_range(&mut self, client: &Client) {
        let stopped = self.stop(client);
        for partition in stopped {
            // One by one: a leader that doesn't answer says nothing of the others.
            let found = client::watermarks(client, &self.shared.settings.topic, &[partition]);
            let Ok((low, high)) = found.and_then(|mut found| found.remove(0).1) else { continue };
            let next = self.held.get(&partition).and_then(|held| held.next);
            let mut known = self.shared.known.lock();
            let Some(known) = known.get_mut(&partition) else { continue };
            known.marks = Some((low, high));
            if let Some(next) = next.filter(|next| *next > high) {
                let what = format!("it ends at offset {high}, and offset {} has been read", next - 1);
                known.identity = Identity::Other(self.shared.made_anew(partition, &what));
            }
        }
    }

    /// Has nothing fetched any more; it is again once it is settled.
    fn stop(&mut self, client: &Client) -> Vec<i32> {
        let mut stopped = Vec::new();
        for (partition, held) in &mut self.held {
            if mem::take(&mut held.fetched) {
                stopped.push(*partition);
                held.retry_at = Instant::now() + HELD_UP;
            }
        }
        self.unassign(client, &stopped);
        stopped
    }
}

impl Held {
    fn new(split: SplitId, assignment: u64, start: Start) -> Self {
        let now = Instant::now();
        Self {
            split,
            assignment,
            start,
            next: None,
            fetched: false,
            heard_at: now,
            heard: false,
            fault: None,
            retry_at: now,
        }
    }

    /// Why it must not be read now.
    fn obstacle(&self, state: Option<&Partition>) -> Option<String> {
        let Some(state) = state else { return Some("waiting for the broker to name the partition".to_owned()) };
        match (&state.identity, &state.trouble) {
            (Identity::Other(why), _) | (Identity::Doubtful, Some(why)) => Some(why.clone()),
            (Identity::Doubtful, None) => Some(
                self.fault
                    .as_ref()
                    .map_or_else(|| "waiting for an answer of the broker".to_owned(), |at| at.why.clone()),
            ),
            // What is being read may well go on.
            (Identity::Same, Some(why)) if !self.fetched || self.heard_at.elapsed() > GRACE => Some(why.clone()),
            (Identity::Same, _) => None,
        }
    }

    fn fail(&mut self, why: String) {
        self.retry_at = Instant::now() + RETRY;
        match &mut self.fault {
            Some(fault) if fault.why == why => {}
            Some(fault) => *fault = Fault { why, since: fault.since, told: false },
            None => self.fault = Some(Fault { why, since: Instant::now(), told: false }),
        }
    }
}

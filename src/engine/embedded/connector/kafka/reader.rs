//! Reads the partitions of one actor.
//!
//! librdkafka is polled on a thread of the reader's own, so that nothing of it ever holds up the engine: neither a
//! broker that doesn't answer nor the end of a consumer, which can take seconds. The thread decodes one chunk ahead.
//!
//! What is in memory, for every reader: what its consumer fetched ahead, at most 8 MiB and one fetch a broker (8 MiB,
//! or one message that is larger), and up to three chunks of at most 4096 rows made of at most 1 MiB, or of one message.

mod batch;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use async_trait::async_trait;
use tokio::sync::mpsc::Receiver;

use super::{Shared, partition_of};
use crate::backfill::id::SplitId;
use crate::engine::embedded::connector::{Chunk, ReadEvent, Reader, Start};
use crate::incident;
use worker::{Command, Told, Worker};

/// Events that wait for the actor.
const AHEAD: usize = 1;

/// The actor's side of a reader.
pub struct KafkaReader {
    shared: Arc<Shared>,
    /// The splits, each with the number of the assignment that brought it: what was read under an older one is stale.
    splits: BTreeMap<SplitId, (u64, Start)>,
    assignments: u64,
    /// The rest of a chunk that was larger than was asked for.
    rest: Option<Chunk>,
    /// The thread. It starts when something is first asked for.
    worker: Option<(Sender<Command>, Receiver<Told>)>,
}

impl KafkaReader {
    /// A reader that holds no splits yet.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, splits: BTreeMap::new(), assignments: 0, rest: None, worker: None }
    }

    fn command(&self) -> Command {
        let splits = self.splits.iter().filter_map(|(split, at)| Some((partition_of(split)?, (split.clone(), *at))));
        Command::Assign(splits.collect())
    }

    /// The thread's events. `None`: there can be no thread, and why.
    fn events(&mut self) -> Result<&mut Receiver<Told>, String> {
        if self.worker.is_none() {
            let (commands, commanded) = mpsc::channel();
            let (events, told) = tokio::sync::mpsc::channel(AHEAD);
            let worker = Worker::new(Arc::clone(&self.shared), commands.clone(), events);
            incident::thread(format!("kafka-{}", self.shared.source), move || worker.run(&commanded))
                .map_err(|error| error.to_string())?;
            let _ = commands.send(self.command());
            self.worker = Some((commands, told));
        }
        self.worker.as_mut().map(|(_, told)| told).ok_or_else(String::new)
    }
}

#[async_trait]
impl Reader for KafkaReader {
    fn assign(&mut self, splits: &BTreeMap<SplitId, Start>) {
        self.assignments += 1;
        self.splits.retain(|split, _| splits.contains_key(split));
        for (split, start) in splits {
            self.splits.entry(split.clone()).or_insert((self.assignments, *start));
        }
        self.rest = self.rest.take().filter(|rest| self.splits.contains_key(&rest.split));
        if let Some((commands, _)) = &self.worker {
            // One that has died is told by its events, which end.
            let _ = commands.send(self.command());
        }
    }

    async fn next(&mut self, max_rows: usize) -> ReadEvent {
        loop {
            if let Some(chunk) = self.rest.take() {
                let (first, rest) = chunk.split_at(max_rows.max(1));
                self.rest = rest;
                return ReadEvent::Chunk(first);
            }
            let told = match self.events() {
                Ok(events) => events.recv().await,
                Err(error) => panic!("a reader's thread can't be started: {error}"),
            };
            let told = told.expect("a reader's thread lives as long as its reader");
            if self.splits.get(&told.split).is_none_or(|(assignment, _)| *assignment != told.assignment) {
                continue;
            }
            match told.event {
                ReadEvent::Chunk(chunk) => self.rest = Some(chunk),
                event => return event,
            }
        }
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        if let Some((commands, _)) = &self.worker {
            let _ = commands.send(Command::Stop);
        }
    }
}

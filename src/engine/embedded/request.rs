//! What sessions ask of the coordinator.

use std::sync::Arc;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::claim::Claim;
use super::statement::{Answer, Statement};
use super::topology::Topology;
use crate::backfill::id::Epoch;
use crate::engine::RateLimit;
use crate::error::{Error, Result};
use crate::store::Context;
use crate::store::relations::{self, RelationKind};
use crate::store::rescales::{Asked, Outcome};

/// A request with the way to answer it.
pub enum Request {
    /// Apply a statement at the next barrier.
    Statement {
        /// What.
        statement: Statement,
        /// Whose turn it is: the session's to withdraw it, or the coordinator's to apply it.
        claim: Arc<Claim>,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Answer>>,
    },
    /// Make a checkpoint.
    Flush(oneshot::Sender<Result<Epoch>>),
    /// Build all actors anew.
    Recover(oneshot::Sender<Result<()>>),
    /// Change a rate at once: it changes no state, so it needs no barrier.
    RateLimit(RateChange, oneshot::Sender<Result<()>>),
    /// End.
    Shutdown(oneshot::Sender<()>),
}

impl Request {
    /// Answers with an error.
    pub fn refuse(self, error: Error) {
        match self {
            Self::Statement { reply, .. } => drop(reply.send(Err(error))),
            Self::Flush(reply) => drop(reply.send(Err(error))),
            Self::Recover(reply) | Self::RateLimit(_, reply) => drop(reply.send(Err(error))),
            Self::Shutdown(reply) => drop(reply.send(())),
        }
    }
}

/// A change of a rate limit.
#[derive(Debug, Clone)]
pub struct RateChange {
    /// Of a source or a view.
    pub kind: RelationKind,
    /// Its name.
    pub name: String,
    /// Which of its rates.
    pub which: RateLimit,
    /// Rows a second and actor; 0 pauses.
    pub limit: Option<u32>,
    /// For the history.
    pub asked: Asked,
}

impl RateChange {
    /// Writes it.
    ///
    /// # Errors
    /// When there is no such relation, or it has no such rate.
    pub fn write(&self, tx: &Connection) -> Result<()> {
        let relation = relations::get(tx, self.kind, &self.name)?;
        let sql = match (self.kind, self.which) {
            (RelationKind::Source, RateLimit::Source) => "UPDATE sources SET rate_limit = ?2 WHERE id = ?1",
            (RelationKind::MaterializedView, RateLimit::Backfill) => "UPDATE jobs SET rate_limit = ?2 WHERE id = ?1",
            (RelationKind::Source, RateLimit::Backfill) => {
                return Err(self.wrong("materialized view", "ALTER MATERIALIZED VIEW mv SET backfill_rate_limit"));
            }
            (RelationKind::MaterializedView, RateLimit::Source) => {
                return Err(self.wrong("source", "ALTER SOURCE s SET source_rate_limit"));
            }
        };
        tx.execute(sql, params![relation.id, self.limit]).context("writing a rate limit")?;
        self.asked.clone().note(tx, Some(relation.id), &relation.name, Outcome::Committed, None)
    }

    fn wrong(&self, expected: &'static str, instead: &str) -> Error {
        Error::WrongObjectType {
            name: self.name.clone(),
            expected,
            hint: format!("Only a {expected} has that rate: use {instead}."),
        }
    }

    /// Tells the running actors.
    pub fn apply(&self, topology: &Topology) {
        for source in topology.sources.values() {
            match self.kind {
                RelationKind::Source if source.row.name == self.name => {
                    source.rate_limit.send_replace(self.limit);
                }
                RelationKind::Source => {}
                RelationKind::MaterializedView => {
                    for scan in source.scans.values().filter(|scan| scan.job_name == self.name) {
                        scan.rate_limit.send_replace(self.limit);
                    }
                }
            }
        }
    }
}

//! The transaction that a session is in.

use pgwire::messages::response::TransactionStatus;

use super::registry::State;
use crate::error::{Error, Result};

/// The transaction that a session is in.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub status: Status,
    /// Statements outside a block form a transaction too, up to the end of the text or the next Sync: an error undoes
    /// the SETs among them.
    pub implicit: bool,
    savepoints: Vec<Savepoint>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Status {
    /// Outside a block.
    #[default]
    Idle,
    /// Between BEGIN and COMMIT.
    Block,
    /// The same, after an error.
    Failed,
}

#[derive(Debug)]
struct Savepoint {
    name: String,
    /// As the settings know it.
    depth: usize,
}

impl Status {
    /// As ReadyForQuery tells it.
    pub const fn wire(self) -> TransactionStatus {
        match self {
            Self::Idle => TransactionStatus::Idle,
            Self::Block => TransactionStatus::Transaction,
            Self::Failed => TransactionStatus::Error,
        }
    }

    /// As `pg_stat_activity` tells it.
    pub const fn state(self) -> State {
        match self {
            Self::Idle => State::Idle,
            Self::Block => State::IdleInTransaction,
            Self::Failed => State::IdleInFailedTransaction,
        }
    }
}

impl Transaction {
    /// The block is over.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// An error: in a block, nothing works any more but its end.
    pub fn fail(&mut self) {
        if self.status == Status::Block {
            self.status = Status::Failed;
        }
    }

    /// An error unless in a block, for statements that have no meaning outside one.
    pub fn require_block(&self, statement: &str) -> Result<()> {
        match self.status {
            Status::Idle => Err(Error::Session {
                sqlstate: "25P01",
                message: format!("{statement} can only be used in transaction blocks"),
            }),
            _ => Ok(()),
        }
    }

    /// How many savepoints are open.
    pub fn savepoints(&self) -> usize {
        self.savepoints.len()
    }

    pub fn add_savepoint(&mut self, name: String, depth: usize) {
        self.savepoints.push(Savepoint { name, depth });
    }

    /// Comes back to the innermost savepoint of that name, which stays. Answers its depth.
    pub fn roll_back_to(&mut self, name: &str) -> Result<usize> {
        let index = self.find(name)?;
        self.savepoints.truncate(index + 1);
        self.status = Status::Block;
        Ok(self.savepoints[index].depth)
    }

    /// Forgets the innermost savepoint of that name and those within it. Answers its depth.
    pub fn release(&mut self, name: &str) -> Result<usize> {
        let index = self.find(name)?;
        let depth = self.savepoints[index].depth;
        self.savepoints.truncate(index);
        Ok(depth)
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| Error::Session {
            sqlstate: "3B001",
            message: format!("savepoint \"{name}\" does not exist"),
        })
    }
}

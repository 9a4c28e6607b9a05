//! The sessions that there are, and how one interrupts another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use pgwire::api::{ClientInfo as _, DefaultClient, PidSecretKeyGenerator as _, RandomPidSecretKeyGenerator};
use pgwire::messages::ProtocolVersion;
use pgwire::messages::startup::SecretKey;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::roster::{Interruptible, Member, Reason, Roster, Seat, Statements};
use super::{SettingsView, SnapshotHandle};
use crate::catalog::Encryption;
use crate::command;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// The sessions that there are.
#[derive(Debug, Default)]
pub struct Registry {
    sessions: Arc<Roster<Entry>>,
    keys: RandomPidSecretKeyGenerator,
}

/// What others may know of a session.
#[derive(Debug, Clone)]
pub struct Activity {
    /// The session's number.
    pub pid: i32,
    /// The user.
    pub user: String,
    /// What the client calls itself.
    pub application_name: String,
    /// From where it has connected.
    pub client: SocketAddr,
    /// How it is encrypted. `None`: it isn't.
    pub encryption: Option<Encryption>,
    /// When it has connected.
    pub started_at: SystemTime,
    /// When its present transaction block began.
    pub transaction_started_at: Option<SystemTime>,
    /// When its last statement began.
    pub query_started_at: Option<SystemTime>,
    /// What it does.
    pub state: State,
    /// When that began.
    pub state_changed_at: SystemTime,
    /// The statement that it runs, or ran last.
    pub query: String,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Runs a statement.
    Active,
    /// Waits for a statement.
    Idle,
    /// Waits for a statement, in a transaction block.
    IdleInTransaction,
    /// The same, in one that has failed.
    IdleInFailedTransaction,
}

impl State {
    /// As `pg_stat_activity` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::User => Self::Canceled,
            Reason::Timeout => Self::StatementTimeout,
            Reason::Terminated => Self::ShuttingDown,
        }
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub address: SocketAddr,
    pub encryption: Option<Encryption>,
}

/// A session, as others reach it.
#[derive(Debug)]
pub(super) struct Entry {
    pub pid: i32,
    pub secret: SecretKey,
    user: String,
    client: Peer,
    settings: SettingsView,
    started_at: SystemTime,
    /// Asks the session to end as soon as its present statement has.
    pub terminated: CancellationToken,
    statements: Statements<Running>,
}

struct Running {
    /// Fires to interrupt the present statement.
    token: CancellationToken,
    /// Ends with what it is for.
    timeout: Option<AbortOnDropHandle<()>>,
    snapshot: Option<SnapshotHandle>,
    transaction_started_at: Option<SystemTime>,
    query_started_at: Option<SystemTime>,
    /// What the session does when it runs nothing.
    idle: State,
    state_changed_at: SystemTime,
    query: String,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("query", &self.query).finish_non_exhaustive()
    }
}

impl Interruptible for Running {
    fn interrupt(&self) {
        self.token.cancel();
        if let Some(snapshot) = &self.snapshot {
            snapshot.interrupt();
        }
    }
}

impl Member for Entry {
    /// The timeout's task would keep the entry, and with it the snapshot, until its time is up.
    fn gone(&self) {
        self.statements.end(|running| {
            running.timeout = None;
            running.snapshot = None;
        });
    }
}

impl Registry {
    /// Enters a new session, unless there are too many already; it leaves when the answer is dropped.
    ///
    /// # Errors
    /// [`Error::LimitReached`] with 53300; [`Error::ShuttingDown`] when the server goes down.
    #[expect(clippy::too_many_arguments, reason = "they are what a session is")]
    pub(super) fn enter(
        self: &Arc<Self>,
        version: ProtocolVersion,
        user: &str,
        client: Peer,
        settings: SettingsView,
        parent: &CancellationToken,
        superuser: bool,
        limits: &Limits,
    ) -> Result<Entered> {
        let now = SystemTime::now();
        let mut identity = DefaultClient::<()>::new(client.address, false);
        identity.set_protocol_version(version);
        let (pid, secret) = self.keys.generate(&identity);
        let entry = Entry {
            pid,
            secret,
            user: user.to_owned(),
            client,
            settings,
            started_at: now,
            terminated: parent.child_token(),
            statements: Statements::new(Running {
                token: CancellationToken::new(),
                timeout: None,
                snapshot: None,
                transaction_started_at: None,
                query_started_at: None,
                idle: State::Idle,
                state_changed_at: now,
                query: String::new(),
            }),
        };
        let seat = self.sessions.enter(pid, entry, |there| {
            let of_user = there.values().filter(|entry| entry.user == user).count();
            check_room(there.len(), of_user, user, superuser, limits)
        })?;
        seat.map(|seat| Entered { seat }).ok_or(Error::ShuttingDown)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each session does, by its number.
    pub fn activity(&self) -> Vec<Activity> {
        self.sessions.all().iter().map(|entry| entry.activity()).collect()
    }

    /// Cancels the statement that a session runs (`pg_cancel_backend`). False if there is no such session.
    pub fn cancel(&self, pid: i32) -> bool {
        self.with(pid, |entry| entry.statements.cancel())
    }

    /// Ends a session (`pg_terminate_backend`). False if there is none of that number.
    pub fn terminate(&self, pid: i32) -> bool {
        self.with(pid, Entry::terminate)
    }

    /// How many sessions a user has.
    pub fn count(&self, user: &str) -> usize {
        self.sessions.all().iter().filter(|entry| entry.user == user).count()
    }

    /// Ends all sessions of a user.
    pub fn terminate_user(&self, user: &str) {
        self.sessions.all().iter().filter(|entry| entry.user == user).for_each(|entry| entry.terminate());
    }

    /// A cancel request: the secret must be right.
    pub(super) fn cancel_with(&self, pid: i32, secret: &SecretKey) {
        if let Some(entry) = self.sessions.find(pid, |entry| entry.secret.eq_value(secret)) {
            entry.statements.cancel();
        }
    }

    /// Interrupts every statement that runs or is yet to begin, and lets no session enter: the server goes down.
    pub(super) fn interrupt_all(&self) {
        self.sessions.close().iter().for_each(|entry| entry.terminate());
    }

    fn with(&self, pid: i32, act: impl FnOnce(&Entry)) -> bool {
        let entry = self.sessions.find(pid, |_| true);
        if let Some(entry) = &entry {
            act(entry);
        }
        entry.is_some()
    }
}

/// A session in the registry.
#[derive(Debug)]
pub(super) struct Entered {
    seat: Seat<Entry>,
}

impl std::ops::Deref for Entered {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.seat.member()
    }
}

impl Entered {
    /// A statement begins. It is cancelled after `statement_timeout`, if one is set. The token fires when it is to end.
    pub fn begin_statement(&self, query: &str) -> CancellationToken {
        let now = SystemTime::now();
        let token = CancellationToken::new();
        let limit = self.settings.statement_timeout();
        self.statements.begin(|running, number| {
            running.token = token.clone();
            running.timeout = limit.map(|limit| {
                let entry = Arc::clone(self.seat.member());
                AbortOnDropHandle::new(tokio::spawn(async move {
                    tokio::time::sleep(limit).await;
                    entry.statements.time_out(number);
                }))
            });
            running.query_started_at = Some(now);
            running.transaction_started_at.get_or_insert(now);
            running.state_changed_at = now;
            running.query = command::without_secrets(query).into_owned();
        });
        token
    }

    /// The statement has ended, and left the session in this state.
    pub fn end_statement(&self, state: State) {
        self.statements.end(|running| {
            running.timeout = None;
            if state == State::Idle {
                running.snapshot = None;
                running.transaction_started_at = None;
            }
            running.idle = state;
            running.state_changed_at = SystemTime::now();
        });
    }

    /// What an interrupt is to stop reading.
    pub fn set_snapshot(&self, snapshot: Option<SnapshotHandle>) {
        self.statements.with(|running, _| running.snapshot = snapshot);
    }

    /// Why the present statement is to end, if it is.
    pub fn interrupted(&self) -> Option<Reason> {
        self.statements.reason()
    }
}

impl Entry {
    fn terminate(&self) {
        self.terminated.cancel();
        self.statements.terminate();
    }

    fn activity(&self) -> Activity {
        self.statements.with(|running, active| Activity {
            pid: self.pid,
            user: self.user.clone(),
            application_name: self.settings.text("application_name"),
            client: self.client.address,
            encryption: self.client.encryption.clone(),
            started_at: self.started_at,
            transaction_started_at: running.transaction_started_at,
            query_started_at: running.query_started_at,
            state: if active { State::Active } else { running.idle },
            state_changed_at: running.state_changed_at,
            query: running.query.clone(),
        })
    }
}

/// Whether one more session fits.
fn check_room(all: usize, of_user: usize, user: &str, superuser: bool, limits: &Limits) -> Result<()> {
    let refused =
        |message, limit: &str| Err(Error::LimitReached { sqlstate: "53300", message, hint: limit.to_owned() });
    if all >= limits.max_connections {
        let hint = format!("max_connections is {}: end a connection, or raise it.", limits.max_connections);
        return refused("sorry, too many clients already".to_owned(), &hint);
    }
    if superuser {
        return Ok(());
    }
    let reserved = limits.reserved_connections;
    if all + reserved >= limits.max_connections {
        let message = "remaining connection slots are reserved for superusers".to_owned();
        let hint = format!(
            "superuser_reserved_connections is {reserved} of max_connections {}: end a connection, or change them.",
            limits.max_connections
        );
        return refused(message, &hint);
    }
    if of_user >= limits.user_connections {
        let hint = format!("max_user_connections is {}: end a connection, or raise it.", limits.user_connections);
        return refused(format!("too many connections for role \"{user}\""), &hint);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_connections_are_the_superusers() {
        let limits = Limits { max_connections: 10, reserved_connections: 2, user_connections: 4, ..Limits::default() };
        let told = |all, of_user, superuser| match check_room(all, of_user, "joe", superuser, &limits) {
            Ok(()) => "room".to_owned(),
            Err(error) => format!("{} {error}", error.sqlstate()),
        };
        assert_eq!(told(7, 3, false), "room");
        assert_eq!(told(7, 4, false), "53300 too many connections for role \"joe\"");
        assert_eq!(told(8, 0, false), "53300 remaining connection slots are reserved for superusers");
        assert_eq!(told(9, 9, true), "room");
        assert_eq!(told(10, 0, true), "53300 sorry, too many clients already");
    }
}

//! What a client connection's queries share: who asks, its settings, and the snapshot that the statement reads.
//!
//! It travels in DataFusion's configuration, the one thing that scans and functions both get to see. The snapshot is
//! behind a lock, so that a plan made once can be run again on a later snapshot.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use datafusion::arrow::array::timezone::Tz;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use rusqlite::Connection;

use super::guard::Guard;
use super::held::Held;
use super::locks::Locks;
use crate::clock::now_micros;
use crate::error::{Error, Result};
use crate::store::Snapshot;
use crate::wire::Style;

/// What SQL functions and a few tables ask the connection that a statement came in on.
pub trait Host: Send + Sync + fmt::Debug {
    /// The value of a setting as SHOW prints it. `None`: there is no such setting.
    fn setting(&self, name: &str) -> Option<String>;

    /// Every setting: `pg_settings`.
    fn settings(&self) -> Vec<Setting>;

    /// Changes a setting for the session, as SET does, or for the transaction, as SET LOCAL does; gives the value that it
    /// has then.
    ///
    /// # Errors
    /// Those of SET.
    fn set(&self, name: &str, value: &str, local: bool) -> Result<String>;

    /// Every client connection: `pg_stat_activity`.
    fn activity(&self) -> Vec<Activity>;

    /// What the session holds on to: `pg_prepared_statements` and `pg_cursors`.
    fn held(&self) -> Held {
        Held::default()
    }

    /// Cancels what the connection runs. False: there is no such connection.
    fn cancel(&self, pid: i32) -> bool;

    /// Ends the connection. False: there is no such connection.
    fn terminate(&self, pid: i32) -> bool;

    /// Where privileges are looked up, when they may have changed since the statement's snapshot was taken. `None`: the
    /// snapshot tells them.
    ///
    /// # Errors
    /// Those of the store.
    fn authority(&self) -> Result<Option<Arc<Snapshot>>> {
        Ok(None)
    }
}

/// A row of `pg_settings`.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The value's unit.
    pub unit: Option<String>,
    /// What it does.
    pub short_desc: String,
    /// `user`: SET changes it; `internal`: nothing does.
    pub context: &'static str,
    /// `bool`, `string`, `integer`, `real` or `enum`.
    pub vartype: &'static str,
    /// `default` or `session`.
    pub source: &'static str,
    /// The value after RESET.
    pub reset_value: String,
}

/// How a connection is encrypted: `pg_stat_ssl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: String,
    /// The cipher suite, as the standards name it.
    pub cipher: String,
    /// The length of its key.
    pub bits: i32,
}

/// A row of `pg_stat_activity`.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// The connection's number.
    pub pid: i32,
    /// Its user.
    pub user: String,
    /// The program that it named.
    pub application_name: String,
    /// Where it comes from.
    pub client_addr: Option<String>,
    /// How it is encrypted. `None`: it isn't.
    pub encryption: Option<Encryption>,
    /// And from which port.
    pub client_port: Option<i32>,
    /// When it was made, in microseconds since 1970.
    pub backend_start: i64,
    /// When its statement began, in microseconds since 1970.
    pub query_start: Option<i64>,
    /// `active`, `idle` or `idle in transaction`.
    pub state: String,
    /// Its statement, or the last one.
    pub query: String,
}

/// What the check of a rescale has to know of the server.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    /// Actors that there is room for: what adaptive targets resolve to.
    pub available: u32,
    /// Microseconds between two barriers.
    pub barrier_interval: i64,
}

/// The oids of relations, each with whether its name alone finds it.
pub type Visibility = HashMap<i64, bool>;

/// See the module.
pub struct Scope {
    /// The user.
    pub user: String,
    /// The connection's number.
    pub pid: i32,
    /// The connection's settings.
    pub host: Arc<dyn Host>,
    /// The server.
    pub server: Server,
    /// The advisory locks of all sessions.
    pub locks: Arc<Locks>,
    /// What the session's queries are held by.
    pub guard: Arc<Guard>,
    snapshot: RwLock<Option<Arc<Snapshot>>>,
    /// What of the snapshot is found by its name alone, under which search path; once somebody asks.
    visibility: Mutex<Option<(Vec<String>, Visibility)>>,
    /// When the snapshot was set: now() for the statement that reads it. Microseconds since 1970.
    statement_at: AtomicI64,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("user", &self.user).field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Scope {
    /// A scope that has no snapshot yet.
    pub fn new(user: String, pid: i32, host: Arc<dyn Host>, server: Server, locks: Arc<Locks>, guard: Guard) -> Self {
        let statement_at = AtomicI64::new(now_micros());
        let (guard, snapshot, visibility) = (Arc::new(guard), RwLock::new(None), Mutex::new(None));
        Self { user, pid, host, server, locks, guard, snapshot, visibility, statement_at }
    }

    /// The scope of a query, from its configuration.
    ///
    /// # Errors
    /// [`Error::Internal`]: the query was planned without one.
    pub fn of(options: &ConfigOptions) -> Result<Arc<Self>> {
        options
            .extensions
            .get::<ScopeExtension>()
            .map(|extension| Arc::clone(&extension.0))
            .ok_or_else(|| Error::Internal("a query without a session".into()))
    }

    /// When the statement began, in microseconds since 1970.
    pub fn statement_at(&self) -> i64 {
        self.statement_at.load(Ordering::Relaxed)
    }

    /// Replaces the snapshot that scans and functions read from now on. Views that depend on who asks learn it here.
    pub fn set_snapshot(&self, snapshot: Option<Arc<Snapshot>>) {
        if let Some(snapshot) = &snapshot {
            let told = snapshot.with(|connection| {
                let sql = "SELECT set_session_user_id((SELECT id FROM main.users WHERE name = ?1))";
                connection.prepare_cached(sql)?.query_row([&self.user], |_| Ok(()))
            });
            if let Err(error) = told {
                // Then it is nobody's: what depends on it shows less.
                tracing::error!(%error, "a snapshot doesn't know whose it is");
            }
        }
        *self.visibility.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        self.statement_at.store(now_micros(), Ordering::Relaxed);
    }

    /// The snapshot.
    ///
    /// # Errors
    /// [`Error::Internal`]: there is none.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.clone().ok_or_else(|| Error::Internal("a query without a snapshot".into()))
    }

    /// Reads from the snapshot.
    ///
    /// # Errors
    /// Those of `read`, and that there is no snapshot.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.snapshot()?.with(read)
    }

    /// The session's time zone.
    pub fn zone(&self) -> Tz {
        let name = self.host.setting("timezone").unwrap_or_else(|| "UTC".into());
        super::datetime::zone(&name).unwrap_or_else(|_| self.style().zone())
    }

    /// How the session wants its values printed.
    pub fn style(&self) -> Style {
        Style::by(|name| self.host.setting(name).unwrap_or_default())
    }

    /// Reads what somebody may do. A transaction block keeps its snapshot, but not what was allowed when it began.
    ///
    /// # Errors
    /// Those of `read`, and that there is no snapshot.
    pub fn read_privileges<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        match self.host.authority()? {
            Some(authority) => authority.with(read),
            None => self.read(read),
        }
    }

    /// Whether a relation's name alone finds it, as `read` tells of all that the snapshot has. `None`: there is no such
    /// relation.
    ///
    /// # Errors
    /// Those of `read`, and that there is no snapshot.
    pub fn is_visible(
        &self,
        oid: i64,
        read: impl FnOnce(&Connection, &[String]) -> Result<Visibility>,
    ) -> Result<Option<bool>> {
        let path = self.search_path();
        let mut known = self.visibility.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, visibility)) if *of == path => Ok(visibility.get(&oid).copied()),
            _ => {
                let visibility = self.read(|connection| read(connection, &path))?;
                let found = visibility.get(&oid).copied();
                *known = Some((path, visibility));
                Ok(found)
            }
        }
    }

    /// The schemas that an unqualified name is looked for in, in order.
    pub fn search_path(&self) -> Vec<String> {
        let default = || super::SEARCH_PATH.iter().map(|schema| (*schema).to_owned()).collect();
        let Some(setting) = self.host.setting("search_path") else { return default() };
        let mut path: Vec<String> = setting
            .split(',')
            .map(|name| name.trim().trim_matches('"').to_owned())
            .filter(|name| !name.is_empty() && name != "$user")
            .collect();
        // Always searched, as in PostgreSQL.
        if !path.iter().any(|name| name == "pg_catalog") {
            path.push("pg_catalog".into());
        }
        path
    }
}

/// The scope in DataFusion's configuration.
#[derive(Debug, Clone)]
pub struct ScopeExtension(pub Arc<Scope>);

impl ConfigExtension for ScopeExtension {
    const PREFIX: &'static str = "tidegate";
}

impl ExtensionOptions for ScopeExtension {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> datafusion::error::Result<()> {
        datafusion::common::config_err!("tidegate.{key} is no option of DataFusion")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

//! The settings of a session: SET, SHOW and RESET, with PostgreSQL's rules for transactions.
//!
//! A value is looked up in this order: what `SET LOCAL` gave in the present transaction, what `SET` gave, what the
//! client asked for when it connected, what the server was configured with, and the default of the
//! table in `setting_table`.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use super::setting_table::{self as table, Access, Setting};
use crate::error::{Error, Result, nearest};
use crate::limits::parse_bytes;

/// How many settings a session may have whose names only it knows.
const CUSTOM_SETTINGS: usize = 1000;

/// Values by lower-case name.
type Values = BTreeMap<String, String>;

/// The settings of one session.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    server: Arc<Values>,
    connect: Values,
    session: Values,
    local: Values,
    /// The state at BEGIN and at each open savepoint, outermost first.
    saved: Vec<(Values, Values)>,
    /// Counted up when a value may have changed.
    version: u64,
}

/// A row of `SHOW ALL` and of `pg_settings`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRow {
    /// Name, as SHOW spells it.
    pub name: String,
    /// Present value, as SHOW prints it.
    pub value: String,
    /// The unit that a number without one has, if any.
    pub unit: Option<&'static str>,
    /// What it does.
    pub description: &'static str,
    /// Where the value comes from: `session`, `client`, `configuration file` or `default`.
    pub source: &'static str,
    /// `user` and `superuser`: can be set. Others: can't.
    pub context: &'static str,
    /// `bool`, `integer`, `enum` or `string`.
    pub vartype: &'static str,
    /// The value that RESET goes back to.
    pub reset_value: String,
}

impl Settings {
    /// Settings of a new session. `server` holds what the server was configured with, by name; wrong values in it are
    /// an error.
    pub fn new(server: &BTreeMap<String, String>) -> Result<Self> {
        let mut checked = Values::new();
        for (name, value) in server {
            checked.insert(name.to_lowercase(), check(name, value)?);
        }
        Ok(Self { server: Arc::new(checked), ..Self::default() })
    }

    /// Sets what the client asks for in its startup packet; RESET comes back to it.
    pub fn set_at_connect(&mut self, name: &str, value: &str) -> Result<()> {
        self.version += 1;
        let value = self.check_settable(name, value)?;
        self.connect.insert(name.to_lowercase(), value);
        Ok(())
    }

    /// Sets a value that the server itself decides, such as `session_authorization`.
    pub fn set_by_server(&mut self, name: &str, value: &str) {
        self.version += 1;
        self.connect.insert(name.to_lowercase(), value.to_owned());
    }

    /// `SET name = value`, or `SET LOCAL` when `local`. Outside a transaction block `SET LOCAL` lasts until the
    /// statement ends.
    pub fn set(&mut self, name: &str, value: &str, local: bool) -> Result<()> {
        self.version += 1;
        let value = self.check_settable(name, value)?;
        let name = name.to_lowercase();
        // Names of the user's own are never too many but here.
        let own = self.session.keys().chain(self.local.keys()).filter(|name| name.contains('.'));
        if name.contains('.') && !self.session.contains_key(&name) && own.count() >= CUSTOM_SETTINGS {
            return Err(Error::LimitReached {
                sqlstate: "53400",
                message: format!("there are {CUSTOM_SETTINGS} settings with names of their own already"),
                hint: "RESET ALL, or DISCARD ALL, takes them away.".into(),
            });
        }
        if local {
            self.local.insert(name, value);
        } else {
            self.local.remove(&name);
            self.session.insert(name, value);
        }
        Ok(())
    }

    /// `SET name = DEFAULT` and `RESET name`. With `local` the default holds until the transaction ends.
    pub fn reset(&mut self, name: &str, local: bool) -> Result<()> {
        self.version += 1;
        let name = name.to_lowercase();
        if let Some(setting) = table::find(&name) {
            if !setting.access.is_settable() {
                return Err(Error::ReadOnlySetting { name: setting.name.to_owned() });
            }
        } else if self.lookup(&name).is_none() {
            return Err(unknown(&name));
        }
        if local {
            if let Some(value) = self.reset_value(&name) {
                self.local.insert(name, value);
            }
        } else {
            self.local.remove(&name);
            self.session.remove(&name);
        }
        Ok(())
    }

    /// `RESET ALL`.
    pub fn reset_all(&mut self) {
        self.version += 1;
        self.session.clear();
        self.local.clear();
    }

    /// The value that SHOW prints.
    pub fn get(&self, name: &str) -> Result<String> {
        let name = name.to_lowercase();
        self.lookup(&name).map(|(value, _)| value).ok_or_else(|| unknown(&name))
    }

    /// The name as SHOW spells it as its column: `TimeZone` for `timezone`.
    pub fn display_name(name: &str) -> String {
        table::find(&name.to_lowercase()).map_or_else(|| name.to_lowercase(), |setting| setting.name.to_owned())
    }

    /// Every setting, by name.
    pub fn all(&self) -> Vec<SettingRow> {
        let mut rows: Vec<SettingRow> = table::all()
            .map(|setting| {
                let (value, source) = self.lookup(&setting.name.to_lowercase()).unwrap_or_default();
                SettingRow {
                    name: setting.name.to_owned(),
                    value,
                    unit: setting.kind.unit(),
                    description: setting.description,
                    source,
                    context: setting.access.context(),
                    vartype: setting.kind.vartype(),
                    reset_value: self.reset_value(&setting.name.to_lowercase()).unwrap_or_default(),
                }
            })
            .collect();
        rows.sort_by_key(|row| row.name.to_lowercase());
        rows
    }

    /// Name and value of each setting that a client is told of (ParameterStatus).
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        table::all()
            .filter(|setting| setting.reported)
            .filter_map(|setting| Some((setting.name, self.lookup(&setting.name.to_lowercase())?.0)))
    }

    /// A transaction starts: remembers the state that a rollback comes back to.
    pub fn begin(&mut self) {
        self.saved = vec![(self.session.clone(), self.local.clone())];
    }

    /// The transaction ends well: `SET` stays, `SET LOCAL` goes.
    pub fn commit(&mut self) {
        self.saved.clear();
        if !self.local.is_empty() {
            self.version += 1;
            self.local.clear();
        }
    }

    /// Another number than before when a value may have changed.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The transaction is undone, with every SET in it.
    pub fn roll_back(&mut self) {
        self.version += 1;
        if let Some((session, _)) = self.saved.drain(..).next() {
            self.session = session;
        }
        self.local.clear();
    }

    /// A savepoint: the state that the next [`Settings::roll_back_to`] comes back to. Answers its depth.
    pub fn savepoint(&mut self) -> usize {
        self.saved.push((self.session.clone(), self.local.clone()));
        self.saved.len() - 1
    }

    /// Back to the savepoint of that depth, which stays open.
    pub fn roll_back_to(&mut self, depth: usize) {
        self.version += 1;
        if let Some((session, local)) = self.saved.get(depth) {
            self.session = session.clone();
            self.local = local.clone();
            self.saved.truncate(depth + 1);
        }
    }

    /// Forgets the savepoint of that depth and those within it.
    pub fn release(&mut self, depth: usize) {
        self.saved.truncate(depth.max(1));
    }

    fn lookup(&self, name: &str) -> Option<(String, &'static str)> {
        if let Some(value) = self.local.get(name).or_else(|| self.session.get(name)) {
            return Some((value.clone(), "session"));
        }
        // The characteristics of a transaction start as the session's defaults for them.
        if let Some(default) = table::default_of_transaction(name) {
            return self.lookup(default);
        }
        self.lookup_reset(name)
    }

    fn lookup_reset(&self, name: &str) -> Option<(String, &'static str)> {
        if let Some(value) = self.connect.get(name) {
            return Some((value.clone(), "client"));
        }
        if let Some(value) = self.server.get(name) {
            return Some((value.clone(), "configuration file"));
        }
        table::find(name).map(|setting| (setting.default.to_owned(), "default"))
    }

    fn check_settable(&self, name: &str, value: &str) -> Result<String> {
        let checked = check(name, value)?;
        match table::find(&name.to_lowercase()) {
            Some(setting) if !setting.access.is_settable() => {
                Err(Error::ReadOnlySetting { name: setting.name.to_owned() })
            }
            Some(setting) if setting.access == Access::Bounded => self.check_bound(setting, checked),
            Some(setting) if setting.access == Access::Superuser && !self.is_superuser() => Err(Error::Privilege {
                message: format!("permission denied to set parameter \"{}\"", setting.name),
                detail: "Only superusers may set it.".into(),
                hint: "Ask a superuser.".into(),
            }),
            _ => Ok(checked),
        }
    }

    /// A size that only superusers may raise.
    fn check_bound(&self, setting: &Setting, value: String) -> Result<String> {
        let bound = self.server.get(setting.name).map_or(setting.default, String::as_str);
        if self.is_superuser() || parse_bytes(&value) <= parse_bytes(bound) {
            return Ok(value);
        }
        Err(Error::Privilege {
            message: format!("permission denied to raise parameter \"{}\"", setting.name),
            detail: format!("The server's is {bound}; {value} was asked for."),
            hint: "Lower it, or ask a superuser.".into(),
        })
    }

    fn is_superuser(&self) -> bool {
        self.lookup("is_superuser").is_some_and(|(value, _)| value == "on")
    }

    fn reset_value(&self, name: &str) -> Option<String> {
        self.lookup_reset(name).map(|(value, _)| value)
    }
}

fn unknown(name: &str) -> Error {
    Error::UnknownSetting { name: name.to_owned(), nearest: nearest(name, table::all().map(|setting| setting.name)) }
}

/// The checked value as SHOW prints it.
fn check(name: &str, value: &str) -> Result<String> {
    match table::find(&name.to_lowercase()) {
        Some(setting) => check_value(setting, value),
        None if is_custom(name) => Ok(value.to_owned()),
        None => Err(unknown(name)),
    }
}

fn check_value(setting: &Setting, value: &str) -> Result<String> {
    setting.kind.check(value).ok_or_else(|| Error::InvalidValue {
        what: format!("parameter \"{}\"", setting.name),
        value: value.to_owned(),
        allowed: setting.kind.allowed(),
    })
}

/// As in PostgreSQL, any `class.name` of two or more identifiers may be set and shown.
fn is_custom(name: &str) -> bool {
    let identifier = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
    };
    name.contains('.') && name.split('.').all(identifier)
}

/// The settings of a session as statements and functions see them; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct SettingsView(Arc<RwLock<Settings>>);

impl SettingsView {
    /// Shares `settings`.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// Reads.
    pub fn read<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        read(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Changes, as SET or `set_config` does.
    pub fn write<T>(&self, write: impl FnOnce(&mut Settings) -> T) -> T {
        write(&mut self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// A setting's value as SHOW prints it; an error when there is none of that name.
    pub fn get(&self, name: &str) -> Result<String> {
        self.read(|settings| settings.get(name))
    }

    /// `rescale_policy`: `forwarding`, `all_finished` or `stage_aware`.
    pub fn rescale_policy(&self) -> String {
        self.text("rescale_policy")
    }

    /// `rescale_timeout`: how long a foreground ALTER waits for its barrier.
    pub fn rescale_timeout(&self) -> Duration {
        self.duration("rescale_timeout").unwrap_or_default()
    }

    /// `background_ddl`: whether CREATE MATERIALIZED VIEW returns before its backfill has ended.
    pub fn background_ddl(&self) -> bool {
        self.text("background_ddl") == "on"
    }

    /// `streaming_parallelism`: the parallelism of new objects. None: adaptive.
    pub fn streaming_parallelism(&self) -> Option<u32> {
        self.text("streaming_parallelism").parse().ok()
    }

    /// `backfill_rate_limit` in rows per second and actor, 0 pauses. None: no limit.
    pub fn backfill_rate_limit(&self) -> Option<u32> {
        self.text("backfill_rate_limit").parse().ok()
    }

    /// `source_rate_limit` in rows per second and actor, 0 pauses. None: no limit.
    pub fn source_rate_limit(&self) -> Option<u32> {
        self.text("source_rate_limit").parse().ok()
    }

    /// `statement_timeout`. None: no limit.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.duration("statement_timeout")
    }

    /// `idle_in_transaction_session_timeout`. None: no limit.
    pub fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.duration("idle_in_transaction_session_timeout")
    }

    /// `idle_session_timeout`. None: no limit.
    pub fn idle_session_timeout(&self) -> Option<Duration> {
        self.duration("idle_session_timeout")
    }

    /// `transaction_read_only`: whether statements that change something are refused.
    pub fn transaction_read_only(&self) -> bool {
        self.text("transaction_read_only") == "on"
    }

    /// `search_path`, as the names in it.
    pub fn search_path(&self) -> Vec<String> {
        table::split_list(&self.text("search_path"))
    }

    /// A setting that the table has.
    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        crate::limits::parse_milliseconds(&self.text(name)).filter(|millis| *millis > 0).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(&BTreeMap::new()).unwrap()
    }

    #[test]
    fn values_come_from_the_nearest_level() {
        let mut settings = Settings::new(&BTreeMap::from([("rescale_timeout".into(), "60s".into())])).unwrap();
        assert_eq!(settings.get("rescale_timeout").unwrap(), "1min");
        settings.set_at_connect("rescale_timeout", "1500").unwrap();
        assert_eq!(settings.get("RESCALE_TIMEOUT").unwrap(), "1500ms");
        settings.set("rescale_timeout", "2 h", false).unwrap();
        settings.set("rescale_timeout", "0", true).unwrap();
        assert_eq!(settings.get("rescale_timeout").unwrap(), "0");
        settings.commit();
        assert_eq!(settings.get("rescale_timeout").unwrap(), "2h");
        settings.reset("rescale_timeout", false).unwrap();
        assert_eq!(settings.get("rescale_timeout").unwrap(), "1500ms");
    }

    #[test]
    fn a_rollback_undoes_every_set_since_its_start() {
        let mut settings = settings();
        settings.set("rescale_policy", "all_finished", false).unwrap();
        settings.begin();
        settings.set("rescale_policy", "stage_aware", false).unwrap();
        let depth = settings.savepoint();
        settings.set("rescale_policy", "forwarding", false).unwrap();
        settings.roll_back_to(depth);
        assert_eq!(settings.get("rescale_policy").unwrap(), "stage_aware");
        settings.roll_back();
        assert_eq!(settings.get("rescale_policy").unwrap(), "all_finished");
    }

    #[test]
    fn wrong_names_and_values_say_what_is_right() {
        let mut settings = settings();
        let error = settings.set("rescale_polcy", "forwarding", false).unwrap_err();
        assert_eq!(error.sqlstate(), "42704");
        assert_eq!(error.hint().unwrap(), "Perhaps you meant \"rescale_policy\".");
        let error = settings.set("rescale_policy", "never", false).unwrap_err();
        assert_eq!(error.to_string(), "invalid value for parameter \"rescale_policy\": \"never\"");
        assert_eq!(error.detail().unwrap(), "Allowed: forwarding, all_finished, stage_aware.");
        assert_eq!(settings.set("server_version", "9", false).unwrap_err().sqlstate(), "55P02");
        assert_eq!(settings.set("nosuch", "9", false).unwrap_err().sqlstate(), "42704");
        settings.set("my.thing", "9", false).unwrap();
        assert_eq!(settings.get("my.thing").unwrap(), "9");
    }

    #[test]
    fn typed_getters() {
        let view = SettingsView::new(settings());
        assert_eq!(view.rescale_policy(), "forwarding");
        assert_eq!(view.rescale_timeout(), Duration::from_secs(30));
        assert!(!view.background_ddl());
        assert_eq!(view.streaming_parallelism(), None);
        assert_eq!(view.statement_timeout(), None);
        view.write(|s| s.set("streaming_parallelism", "4", false)).unwrap();
        view.write(|s| s.set("source_rate_limit", "0", false)).unwrap();
        view.write(|s| s.set("default_transaction_read_only", "true", false)).unwrap();
        assert_eq!(view.streaming_parallelism(), Some(4));
        assert_eq!(view.source_rate_limit(), Some(0));
        assert!(view.transaction_read_only());
        assert_eq!(view.search_path(), ["$user", "public", "tidegate", "rw_catalog"]);
    }
}

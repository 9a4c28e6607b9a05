//! One session's state, and the statements that concern it alone: BEGIN, SET, SHOW, PREPARE, DISCARD, ...

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cursor::Cursor;
use super::encode::{self, Column, Style};
use super::extended::Portal;
use super::prepared::{Prepared, ends_block, text_columns};
use super::registry::Entered;
use super::rows::{Interrupt, Reply, Rows, Tag};
use super::settings::Settings;
use super::transaction::{Status, Transaction};
use super::{Caller, Notice, PlanSession, SettingsView, Severity, Shared, limits};
use crate::catalog::held::Held;
use crate::command::Parsed;
use crate::command::ast::{Discard, Session as Statement, SetValue, Statement as Sent, TransactionModes};
use crate::error::{Error, Result};

/// One session's state.
pub(super) struct Session {
    pub shared: Arc<Shared>,
    pub entry: Entered,
    pub user: String,
    pub settings: SettingsView,
    pub plans: Box<dyn PlanSession>,
    pub transaction: Transaction,
    /// Whether a snapshot is held that statements read.
    pub has_snapshot: bool,
    /// Prepared statements by name; the unnamed one's is empty.
    pub statements: HashMap<String, Arc<Prepared>>,
    /// Queries of the simple protocol whose plans are kept, the last used at the end.
    pub recent: Vec<(String, Arc<Prepared>)>,
    pub portals: HashMap<String, Portal>,
    pub cursors: HashMap<String, Cursor>,
    /// Where queries read of the statements and cursors.
    pub held: Held,
    /// The text that is being answered.
    pub text: String,
    /// Where in it the present statement starts, as a character index from 1.
    pub start: usize,
    notices: Vec<Notice>,
    /// The settings that the client was told last, and the version of all that they are of.
    told: BTreeMap<&'static str, String>,
    told_version: u64,
}

impl Session {
    pub fn new(
        shared: &Arc<Shared>,
        entry: Entered,
        user: &str,
        settings: SettingsView,
        plans: Box<dyn PlanSession>,
        held: Held,
    ) -> Self {
        let (told, told_version) = settings.read(|settings| (settings.reported().collect(), settings.version()));
        Self {
            shared: Arc::clone(shared),
            entry,
            user: user.to_owned(),
            settings,
            plans,
            transaction: Transaction::default(),
            has_snapshot: false,
            statements: HashMap::new(),
            recent: Vec::new(),
            portals: HashMap::new(),
            cursors: HashMap::new(),
            held,
            text: String::new(),
            start: 1,
            notices: Vec::new(),
            told,
            told_version,
        }
    }

    pub fn pid(&self) -> i32 {
        self.entry.pid
    }

    /// On whose behalf a command runs.
    pub fn caller(&self, cancel: &CancellationToken) -> Caller {
        Caller {
            user: self.user.clone(),
            application_name: self.settings.text("application_name"),
            settings: self.settings.clone(),
            cancel: cancel.clone(),
        }
    }

    pub fn interrupt<'a>(&'a self, token: &'a CancellationToken) -> Interrupt<'a> {
        Interrupt { token, entry: &self.entry }
    }

    /// A statement begins.
    pub fn begin_statement(&mut self, text: &str) -> CancellationToken {
        if self.transaction.status == Status::Idle && !self.transaction.implicit {
            self.transaction.implicit = true;
            self.settings.write(Settings::begin);
        }
        let token = self.entry.begin_statement(text);
        self.plans.begin_statement(&token);
        token
    }

    /// The statement has ended well. Outside a block the next one reads a snapshot of its own.
    pub fn end_statement(&mut self) {
        if self.transaction.status == Status::Idle {
            self.release_snapshot();
        }
        self.entry.end_statement(self.transaction.status.state());
    }

    /// All statements of a text, or of a pipeline, have ended well.
    pub fn end_implicit(&mut self) {
        if self.transaction.status == Status::Idle {
            self.settings.write(Settings::commit);
            self.end_block();
        }
    }

    /// A statement has failed: undoes the SETs of the implicit transaction, or spoils the block.
    pub fn fail(&mut self) {
        if self.transaction.status == Status::Idle {
            self.settings.write(Settings::roll_back);
            self.end_block();
        } else if self.transaction.savepoints() == 0 {
            // There is nothing that the block could come back to.
            self.plans.end_transaction();
        }
        self.transaction.fail();
        self.idle();
    }

    /// Nothing runs until the next message.
    pub fn idle(&self) {
        self.entry.end_statement(self.transaction.status.state());
    }

    fn end_block(&mut self) {
        self.transaction.end();
        self.plans.end_transaction();
        self.portals.clear();
        self.cursors.retain(|_, cursor| cursor.held.hold);
        self.release_snapshot();
    }

    /// Makes sure that there is a snapshot to plan on and to read.
    pub fn take_snapshot(&mut self) -> Result<()> {
        if !self.has_snapshot {
            let snapshot = self.plans.begin_snapshot()?;
            self.entry.set_snapshot(Some(snapshot));
            self.has_snapshot = true;
        }
        Ok(())
    }

    pub fn release_snapshot(&mut self) {
        if self.has_snapshot {
            self.entry.set_snapshot(None);
            self.plans.end_snapshot();
            self.has_snapshot = false;
        }
    }

    /// A simple query replaces the unnamed statement and portal.
    pub fn forget_unnamed(&mut self) {
        self.statements.remove("");
        self.portals.remove("");
    }

    /// Notes what the client is to be told, if it wants to know.
    pub fn notice(&mut self, notice: Notice) {
        let least = match self.settings.text("client_min_messages").as_str() {
            "notice" => Severity::Notice,
            "warning" => Severity::Warning,
            "log" => Severity::Log,
            "error" => return,
            _ => Severity::Debug,
        };
        if notice.severity >= least || notice.severity == Severity::Info {
            self.notices.push(notice);
        }
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Name and value of the settings that have changed since the client was told last.
    pub fn take_changed_settings(&mut self) -> Vec<(&'static str, String)> {
        let version = self.settings.read(Settings::version);
        if version == self.told_version {
            return Vec::new();
        }
        self.told_version = version;
        let now: BTreeMap<_, _> = self.settings.read(|settings| settings.reported().collect());
        let changed = now.iter().filter(|(name, value)| self.told.get(*name) != Some(*value));
        let changed = changed.map(|(name, value)| (*name, value.clone())).collect();
        self.told = now;
        changed
    }

    /// In a failed block, only its end works.
    pub fn check_not_failed(&self, ends: bool) -> Result<()> {
        match self.transaction.status {
            Status::Failed if !ends => Err(Error::TransactionAborted),
            _ => Ok(()),
        }
    }

    /// The same for a statement that a client sends. Whoever keeps account of commands is told.
    pub async fn admit(&self, statement: &Parsed) -> Result<()> {
        let refusal = match self.check_not_failed(ends_block(&statement.statement)) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        let statement = match &statement.statement {
            Sent::Unbound(statement) => statement,
            statement => statement,
        };
        if let Sent::Command(command) = statement {
            let caller = self.caller(&CancellationToken::new());
            self.shared.commands.refused(&caller, command, &refusal).await;
        }
        Err(refusal)
    }

    /// Runs a statement of the session's own.
    pub async fn run_own(&mut self, statement: &Statement, token: &CancellationToken) -> Result<Reply> {
        Ok(match statement {
            Statement::Begin(modes) | Statement::StartTransaction(modes) => {
                if self.transaction.status == Status::Idle {
                    self.transaction.status = Status::Block;
                } else {
                    self.notice(Notice::warning("25001", "there is already a transaction in progress"));
                }
                self.set_modes(*modes, "transaction", true)?;
                Reply::done(if matches!(statement, Statement::Begin(_)) { "BEGIN" } else { "START TRANSACTION" })
            }
            Statement::Commit | Statement::Rollback => {
                let commit = *statement == Statement::Commit && self.transaction.status != Status::Failed;
                if self.transaction.status == Status::Idle {
                    self.notice(Notice::warning("25P01", "there is no transaction in progress"));
                }
                self.settings.write(if commit { Settings::commit } else { Settings::roll_back });
                self.end_block();
                Reply::done(if commit { "COMMIT" } else { "ROLLBACK" })
            }
            Statement::Savepoint(name) => {
                self.transaction.require_block("SAVEPOINT")?;
                limits::check_savepoints(self.transaction.savepoints())?;
                let depth = self.settings.write(Settings::savepoint);
                self.transaction.add_savepoint(name.clone(), depth);
                Reply::done("SAVEPOINT")
            }
            Statement::Release(name) => {
                self.transaction.require_block("RELEASE SAVEPOINT")?;
                let depth = self.transaction.release(name)?;
                let open = self.transaction.savepoints();
                self.cursors.values_mut().for_each(|cursor| cursor.depth = cursor.depth.min(open));
                self.settings.write(|settings| settings.release(depth));
                Reply::done("RELEASE")
            }
            Statement::RollbackTo(name) => {
                self.transaction.require_block("ROLLBACK TO SAVEPOINT")?;
                let depth = self.transaction.roll_back_to(name)?;
                let open = self.transaction.savepoints();
                self.cursors.retain(|_, cursor| cursor.depth < open);
                self.settings.write(|settings| settings.roll_back_to(depth));
                Reply::done("ROLLBACK")
            }
            Statement::SetTransaction(modes) => {
                if self.transaction.status == Status::Idle {
                    self.notice(Notice::warning("25P01", "SET TRANSACTION can only be used in transaction blocks"));
                }
                self.set_modes(*modes, "transaction", true)?;
                Reply::done("SET")
            }
            Statement::SetSessionCharacteristics(modes) => {
                self.set_modes(*modes, "default_transaction", false)?;
                Reply::done("SET")
            }
            Statement::Set { name, value, local } => {
                self.set(name, value, *local)?;
                Reply::done("SET")
            }
            Statement::Reset(name) => {
                self.settings.write(|settings| settings.reset(name, false))?;
                Reply::done("RESET")
            }
            Statement::ResetAll => {
                self.settings.write(Settings::reset_all);
                Reply::done("RESET")
            }
            Statement::Show(name) => {
                let value = self.settings.get(name)?;
                self.text_rows(&[&Settings::display_name(name)], &[vec![value]])?
            }
            Statement::ShowAll => {
                let rows = self.settings.read(Settings::all);
                let rows: Vec<_> =
                    rows.into_iter().map(|row| vec![row.name, row.value, row.description.to_owned()]).collect();
                self.text_rows(&["name", "setting", "description"], &rows)?
            }
            Statement::Discard(what) => {
                self.discard(*what)?;
                Reply::Done(discard_tag(*what).to_owned())
            }
            Statement::CopyTo { .. } => self.copy(statement, token).await?,
            Statement::DeclareCursor { .. } => self.declare(statement, token).await?,
            Statement::Fetch { cursor, direction, move_only } => {
                self.fetch(cursor, *direction, *move_only, token).await?
            }
            Statement::Close(name) => {
                self.cursors.remove(name).ok_or_else(|| super::cursor::missing(name))?;
                Reply::done("CLOSE CURSOR")
            }
            Statement::CloseAll => {
                self.cursors.clear();
                Reply::done("CLOSE CURSOR ALL")
            }
            Statement::Prepare { name, types, statement } => {
                if self.statements.contains_key(name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(Error::Session { sqlstate: "42P05", message });
                }
                limits::check_prepared(&self.shared, &self.statements, &statement.text)?;
                let types = types.iter().map(|name| super::params::type_by_name(name)).collect::<Result<Vec<_>>>()?;
                let mut prepared = self.prepare(statement.as_ref().clone(), &types)?;
                prepared.from_sql = true;
                self.statements.insert(name.clone(), Arc::new(prepared));
                Reply::done("PREPARE")
            }
            Statement::Execute { name, params } => {
                let prepared = Arc::clone(self.statement(name)?);
                if params.len() != prepared.types.len() {
                    let (needed, given) = (prepared.types.len(), params.len());
                    let message = format!(
                        "wrong number of parameters for prepared statement \"{name}\": {given} instead of {needed}"
                    );
                    return Err(Error::Semantics { sqlstate: "42601", message });
                }
                let params: Vec<_> = params.iter().map(|text| super::params::Param::text(text.as_deref())).collect();
                Box::pin(self.execute(&prepared, &params, token)).await?
            }
            Statement::Deallocate(name) => {
                self.statement(name)?;
                self.statements.remove(name);
                Reply::done("DEALLOCATE")
            }
            Statement::DeallocateAll => {
                self.statements.clear();
                self.recent.clear();
                Reply::done("DEALLOCATE ALL")
            }
            // Nothing notifies yet, so that there is nothing to keep.
            Statement::Listen(_) => {
                return Err(Error::FeatureNotSupported {
                    what: "LISTEN".into(),
                    hint: "Nothing notifies here: ask tidegate.job_backfill_progress, or wait with WAIT.".into(),
                });
            }
            Statement::Unlisten(_) | Statement::UnlistenAll => Reply::done("UNLISTEN"),
            Statement::OwnRole(tag) => Reply::done(tag),
        })
    }

    /// A prepared statement.
    pub fn statement(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.statements.get(name).ok_or_else(|| Error::Session {
            sqlstate: "26000",
            message: if name.is_empty() {
                "unnamed prepared statement does not exist".into()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            },
        })
    }

    /// The columns that a statement of the session's own gives.
    pub fn columns_of(&self, statement: &Statement) -> Option<Arc<[Column]>> {
        match statement {
            Statement::Show(name) => Some(text_columns(&[&Settings::display_name(name)])),
            Statement::ShowAll => Some(text_columns(&["name", "setting", "description"])),
            Statement::Fetch { cursor, move_only: false, .. } => {
                self.cursors.get(cursor).map(|cursor| Arc::clone(&cursor.columns))
            }
            Statement::Execute { name, .. } => self.statements.get(name).and_then(|prepared| prepared.columns.clone()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: &SetValue, local: bool) -> Result<()> {
        if local && self.transaction.status == Status::Idle {
            self.notice(Notice::warning("25P01", "SET LOCAL can only be used in transaction blocks"));
        }
        match value {
            SetValue::Default => self.settings.write(|settings| settings.reset(name, local)),
            SetValue::Values(values) => {
                let value = match values.as_slice() {
                    names if name == "search_path" => {
                        names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
                    }
                    [value] => value.clone(),
                    words if name == "datestyle" => words.join(", "),
                    _ => {
                        let message = format!("SET {name} takes only one argument");
                        return Err(Error::Data { sqlstate: "22023", message });
                    }
                };
                self.settings.write(|settings| settings.set(name, &value, local))
            }
        }
    }

    fn set_modes(&mut self, modes: TransactionModes, prefix: &str, local: bool) -> Result<()> {
        let on = |value: bool| if value { "on" } else { "off" };
        let values = [
            ("isolation", modes.isolation),
            ("read_only", modes.read_only.map(on)),
            ("deferrable", modes.deferrable.map(on)),
        ];
        self.settings.write(|settings| {
            for (mode, value) in values {
                if let Some(value) = value {
                    settings.set(&format!("{prefix}_{mode}"), value, local)?;
                }
            }
            Ok(())
        })
    }

    fn discard(&mut self, what: Discard) -> Result<()> {
        match what {
            Discard::All => {
                if self.transaction.status != Status::Idle {
                    return Err(Error::InTransactionBlock { statement: "DISCARD ALL".into() });
                }
                self.statements.clear();
                self.portals.clear();
                self.cursors.clear();
                self.plans.unlock_all();
                self.settings.write(Settings::reset_all);
            }
            Discard::Plans => {
                self.recent.clear();
                self.statements.values().for_each(|prepared| prepared.forget_plan());
            }
            Discard::Sequences | Discard::Temp => {}
        }
        Ok(())
    }

    /// Rows of text that the session makes up itself.
    fn text_rows(&self, names: &[&str], rows: &[Vec<String>]) -> Result<Reply> {
        let columns = text_columns(names);
        let batch = encode::text_batch(names, rows)?;
        let rows = Rows::from_batches(columns, vec![batch], Tag::Fixed("SHOW".into()), Style::of(&self.settings));
        Ok(Reply::Rows(rows))
    }
}

const fn discard_tag(what: Discard) -> &'static str {
    match what {
        Discard::All => "DISCARD ALL",
        Discard::Plans => "DISCARD PLANS",
        Discard::Sequences => "DISCARD SEQUENCES",
        Discard::Temp => "DISCARD TEMP",
    }
}

/// A name as it must be written in a list of names.
fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

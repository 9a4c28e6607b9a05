//! The one error type, and the one table that maps it to SQLSTATE, DETAIL and HINT.
//!
//! A message says what happened, its DETAIL gives the facts and its HINT the next step. Text of a library below
//! (SQLite, DataFusion, a connector) appears only as a DETAIL, never as the message.

use thiserror::Error;

use crate::backfill::state::BackfillStateWithProgress;

#[cfg(test)]
mod tests;

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// All that can go wrong, as its user sees it.
#[derive(Debug, Error)]
pub enum Error {
    /// The text is not SQL, or not a statement of ours.
    #[error("{message}")]
    Syntax {
        /// What was found, in PostgreSQL's words: `syntax error at or near "x"`.
        message: String,
        /// Where, as a character index from 1.
        position: Option<usize>,
        /// What would be right.
        hint: Option<String>,
    },
    /// The text nests too deep, or strings too many operators together.
    #[error("statement is too complex")]
    StatementTooComplex {
        /// Where it gets too deep, as a character index from 1.
        position: usize,
    },
    /// A statement that other systems have and Tidegate doesn't.
    #[error("{what} is not supported")]
    FeatureNotSupported {
        /// The feature.
        what: String,
        /// What to use instead.
        hint: String,
    },
    /// No relation of that name and kind.
    #[error("{kind} \"{name}\" does not exist")]
    UndefinedRelation {
        /// `source`, `materialized view` or `relation`.
        kind: &'static str,
        /// The name as written.
        name: String,
        /// The nearest known name, if one is near.
        nearest: Option<String>,
    },
    /// No column of that name.
    #[error("column {} does not exist", if name.contains('.') { name.clone() } else { format!("\"{name}\"") })]
    UndefinedColumn {
        /// The name as written, with the relation's if it has that.
        name: String,
        /// The nearest known name, if one is near.
        nearest: Option<String>,
    },
    /// No function of that name and those arguments.
    #[error("function {call} does not exist")]
    UndefinedFunction {
        /// The call, `name(types)`.
        call: String,
    },
    /// No operator for those operands.
    #[error("operator does not exist: {call}")]
    UndefinedOperator {
        /// `type operator type`.
        call: String,
    },
    /// No cast from one type to the other.
    #[error("cannot cast type {from} to {to}")]
    CannotCast {
        /// The operand's type.
        from: String,
        /// The type that it can't have.
        to: String,
    },
    /// A text that isn't JSON.
    #[error("invalid input syntax for type json")]
    Json {
        /// Where, and what stands there.
        detail: String,
    },
    /// No type of that name.
    #[error("type \"{name}\" does not exist")]
    UndefinedType {
        /// The name as written.
        name: String,
        /// A sentence that names those that exist.
        supported: &'static str,
    },
    /// The name is taken.
    #[error("{kind} \"{name}\" already exists")]
    DuplicateRelation {
        /// The kind of what holds the name.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The statement names an object of another kind.
    #[error("\"{name}\" is not a {expected}")]
    WrongObjectType {
        /// The name.
        name: String,
        /// The kind that the statement works on.
        expected: &'static str,
        /// The statement for the kind that it is.
        hint: String,
    },
    /// An option, setting or argument whose value can't be used.
    #[error("invalid value for {what}: \"{value}\"")]
    InvalidValue {
        /// `option "splits"`, `parameter "rescale_policy"`, ...
        what: String,
        /// The value as written.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// An option of WITH that the connector doesn't have.
    #[error("unknown option \"{name}\" for {of}")]
    UnknownOption {
        /// The option as written.
        name: String,
        /// `connector 'file'`, `materialized views`, ...
        of: String,
        /// The nearest known one.
        nearest: Option<String>,
        /// All that are known.
        known: Vec<&'static str>,
    },
    /// An option that the connector can't do without.
    #[error("option \"{name}\" is required for {of}")]
    MissingOption {
        /// The option.
        name: &'static str,
        /// `connector 'file'`, ...
        of: String,
    },
    /// A setting that doesn't exist.
    #[error("unrecognized configuration parameter \"{name}\"")]
    UnknownSetting {
        /// The name as written.
        name: String,
        /// The nearest known one.
        nearest: Option<String>,
    },
    /// A setting that can't be set, or not now.
    #[error("parameter \"{name}\" cannot be changed")]
    ReadOnlySetting {
        /// The name.
        name: String,
    },
    /// `backfill_order` has a cycle, or names what the view doesn't read.
    #[error("{message}")]
    BackfillOrder {
        /// `backfill order has a cycle: a -> b -> a`.
        message: String,
        /// What to change.
        hint: String,
    },
    /// A view's query that can't be maintained.
    #[error("{message}")]
    UnsupportedView {
        /// What in the query.
        message: String,
        /// What is possible instead.
        hint: String,
    },
    /// A query that failed for a reason that has no words of ours.
    #[error("{message}")]
    Query {
        /// The SQLSTATE.
        sqlstate: &'static str,
        /// What happened, in general.
        message: &'static str,
        /// What happened exactly, in the words of the library below.
        detail: String,
    },
    /// A view's query that can't be planned, for a reason that only DataFusion knows.
    #[error("the query of the materialized view cannot be planned")]
    InvalidQuery {
        /// The SQLSTATE: 0A000 for what DataFusion doesn't have, else 42000.
        sqlstate: &'static str,
        /// DataFusion's words.
        detail: String,
    },
    /// Other objects rest on this one.
    #[error("cannot drop {object} because other objects depend on it")]
    DependentObjects {
        /// `source "s"`.
        object: String,
        /// One line a dependent.
        dependents: Vec<String>,
    },
    /// The user may not do that.
    #[error("{message}")]
    Privilege {
        /// In PostgreSQL's words.
        message: String,
        /// What is missing.
        detail: String,
        /// Who can give it.
        hint: String,
    },
    /// A role that owns something can't be dropped.
    #[error("role \"{name}\" cannot be dropped because some objects depend on it")]
    OwnsObjects {
        /// The role.
        name: String,
        /// One line an object.
        dependents: Vec<String>,
    },
    /// A client that may not log in as it tries to.
    #[error("{message}")]
    Login {
        /// Why.
        message: String,
        /// The next step.
        hint: String,
    },
    /// A user would be open to everybody.
    #[error("{message}")]
    NoPassword {
        /// Which.
        message: String,
        /// Why that matters.
        detail: String,
        /// The next step.
        hint: String,
    },
    /// The object is being created, dropped or recovered.
    #[error("{object} is {doing} and cannot be altered now")]
    ObjectInUse {
        /// `materialized view "mv"`.
        object: String,
        /// `being created in the foreground`, ...
        doing: &'static str,
        /// Since when, as text with a time zone.
        since: String,
    },
    /// A rescale that is not safe. The message is the one that RisingWave would have died with.
    #[error("{}", .0.message)]
    UnsafeRescale(Box<Refusal>),
    /// No rescale of that id is pending.
    #[error("rescale {id} is not pending")]
    NoSuchRescale {
        /// The id.
        id: i64,
        /// What became of it, if it ever was.
        state: Option<String>,
    },
    /// The barrier of a foreground statement did not complete in time.
    #[error("canceling statement due to {setting}")]
    BarrierTimeout {
        /// The setting that holds the limit.
        setting: &'static str,
        /// The limit, with unit.
        limit: String,
        /// What is known of the wait.
        waiting_for: String,
    },
    /// The user asked to stop.
    #[error("canceling statement due to user request")]
    Canceled,
    /// A statement that changes something, inside a transaction block.
    #[error("{statement} cannot run inside a transaction block")]
    InTransactionBlock {
        /// The statement's name.
        statement: String,
    },
    /// A statement after one that failed, in a transaction block.
    #[error("current transaction is aborted, commands ignored until end of transaction block")]
    TransactionAborted,
    /// What the session, its transaction or the protocol doesn't allow now: no such cursor, too many connections, ...
    #[error("{message}")]
    Session {
        /// The SQLSTATE.
        sqlstate: &'static str,
        /// In PostgreSQL's words.
        message: String,
    },
    /// A limit of the server or of the session.
    #[error("{message}")]
    LimitReached {
        /// The SQLSTATE, of class 53, 54 or 57.
        sqlstate: &'static str,
        /// What there would be too much of, with the limit.
        message: String,
        /// Which setting it is, and what to do.
        hint: String,
    },
    /// A panic: a defect of Tidegate.
    #[error("internal error: the server met a condition that it doesn't expect")]
    Panic {
        /// The same number stands in the log, with what happened.
        incident: String,
    },
    /// A statement ran longer than `statement_timeout`.
    #[error("canceling statement due to statement timeout")]
    StatementTimeout,
    /// The server is going down.
    #[error("terminating connection due to administrator command")]
    ShuttingDown,
    /// A source's outside world (directory, broker) is not as it should be.
    #[error("source \"{source_name}\" cannot be reached")]
    SourceUnreachable {
        /// The source.
        source_name: String,
        /// The connector's words.
        detail: String,
    },
    /// A value of a query that can't be used: a cast, a division by zero, an overflow.
    #[error("{message}")]
    Data {
        /// The SQLSTATE, of class 22.
        sqlstate: &'static str,
        /// In PostgreSQL's words.
        message: String,
    },
    /// A query that is well-formed but has no meaning: an unknown type, an ambiguous name, ...
    #[error("{message}")]
    Semantics {
        /// The SQLSTATE, of class 42.
        sqlstate: &'static str,
        /// In PostgreSQL's words.
        message: String,
    },
    /// The data directory is in use, of a newer version, unreadable or damaged.
    #[error("{message}")]
    DataDirectory {
        /// What is wrong with which file.
        message: String,
        /// The facts.
        detail: String,
        /// The next step.
        hint: String,
    },
    /// The state file is not what SQLite and Tidegate wrote.
    #[error("state file {file} is damaged")]
    DamagedFile {
        /// The file.
        file: String,
        /// What is wrong in it.
        detail: String,
    },
    /// A backup is not what SQLite and Tidegate wrote.
    #[error("backup {file} is damaged")]
    DamagedBackup {
        /// The file.
        file: String,
        /// What is wrong in it.
        detail: String,
    },
    /// A barrier's checkpoint could not be committed, so nothing of it was.
    #[error("the checkpoint could not be written")]
    CheckpointFailed {
        /// The SQLSTATE of the cause: 53100 for a full disk.
        sqlstate: &'static str,
        /// The cause.
        detail: String,
    },
    /// SQLite failed.
    #[error("the state store failed: {context}")]
    Store {
        /// What was being done.
        context: &'static str,
        /// SQLite's error.
        #[source]
        source: rusqlite::Error,
    },
    /// A command line, file or environment that doesn't make a configuration.
    #[error("{message}")]
    Config {
        /// What is wrong.
        message: String,
        /// The next step.
        hint: String,
    },
    /// A server can't be reached, or the connection broke.
    #[error("{message}")]
    Connection {
        /// What happened.
        message: String,
        /// The next step.
        hint: String,
    },
    /// What a server said to the command line.
    #[error("{message}")]
    Server {
        /// Its code.
        sqlstate: &'static str,
        /// Its message.
        message: String,
        /// Its facts.
        detail: Option<String>,
        /// Its next step.
        hint: Option<String>,
    },
    /// The engine lost an actor and is rebuilding from its last checkpoint, or can't.
    #[error("the engine is recovering")]
    Recovering {
        /// Why.
        detail: String,
    },
    /// A defect of Tidegate.
    #[error("internal error: {0}")]
    Internal(String),
}

/// A refused rescale: see the forwarding-stage check in [`crate::backfill`].
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The first offending split in RisingWave's words, or the first condition that failed.
    pub message: String,
    /// One line an offending split, the first few; then how many more.
    pub detail: String,
    /// The next step.
    pub hint: String,
}

impl Refusal {
    /// The first line that RisingWave's executor would have died with.
    pub fn unexpected_state(state: &BackfillStateWithProgress) -> String {
        format!("Unexpected backfill state: {state:?}")
    }
}

impl Error {
    /// The five-character code of PostgreSQL's error table.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "42601",
            Self::StatementTooComplex { .. } => "54001",
            Self::FeatureNotSupported { .. } | Self::UnsupportedView { .. } => "0A000",
            Self::UndefinedRelation { .. } => "42P01",
            Self::UndefinedColumn { .. } => "42703",
            Self::UndefinedFunction { .. } | Self::UndefinedOperator { .. } => "42883",
            Self::CannotCast { .. } => "42846",
            Self::Json { .. } => "22P02",
            Self::DuplicateRelation { .. } => "42P07",
            Self::WrongObjectType { .. } => "42809",
            Self::InvalidValue { .. } | Self::BackfillOrder { .. } | Self::NoPassword { .. } => "22023",
            Self::UnknownOption { .. } | Self::MissingOption { .. } => "42601",
            Self::UnknownSetting { .. } | Self::NoSuchRescale { .. } | Self::UndefinedType { .. } => "42704",
            Self::ReadOnlySetting { .. } => "55P02",
            Self::DependentObjects { .. } | Self::OwnsObjects { .. } => "2BP01",
            Self::Privilege { .. } => "42501",
            Self::ObjectInUse { .. } => "55006",
            Self::UnsafeRescale(_) => "55000",
            Self::BarrierTimeout { .. } | Self::Canceled | Self::StatementTimeout => "57014",
            Self::InTransactionBlock { .. } => "25001",
            Self::TransactionAborted => "25P02",
            Self::Login { .. } => "28000",
            Self::ShuttingDown => "57P01",
            Self::SourceUnreachable { .. } => "58000",
            Self::Data { sqlstate, .. }
            | Self::Semantics { sqlstate, .. }
            | Self::InvalidQuery { sqlstate, .. }
            | Self::Session { sqlstate, .. }
            | Self::CheckpointFailed { sqlstate, .. }
            | Self::LimitReached { sqlstate, .. }
            | Self::Query { sqlstate, .. } => sqlstate,
            Self::DataDirectory { .. } | Self::Config { .. } => "F0000",
            Self::Store { source, .. } => store_sqlstate(source),
            Self::DamagedFile { .. } | Self::DamagedBackup { .. } => "XX001",
            Self::Connection { .. } => "08001",
            Self::Server { sqlstate, .. } => sqlstate,
            Self::Recovering { .. } => "57P03",
            Self::Internal(_) | Self::Panic { .. } => "XX000",
        }
    }

    /// The facts behind the message.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Panic { incident } => Some(format!("Incident {incident}.")),
            Self::InvalidValue { allowed, .. } => Some(format!("Allowed: {allowed}.")),
            Self::DependentObjects { dependents, .. } | Self::OwnsObjects { dependents, .. } => {
                Some(dependents.join("\n"))
            }
            Self::Privilege { detail, .. } | Self::NoPassword { detail, .. } => Some(detail.clone()),
            Self::ObjectInUse { since, .. } => Some(format!("Since {since}.")),
            Self::UnsafeRescale(refusal) => Some(refusal.detail.clone()),
            Self::NoSuchRescale { state, .. } => state.clone(),
            Self::Server { detail, .. } => detail.clone(),
            Self::BarrierTimeout { limit, waiting_for, .. } => Some(format!("The limit is {limit}. {waiting_for}")),
            Self::Json { detail }
            | Self::SourceUnreachable { detail, .. }
            | Self::Recovering { detail }
            | Self::InvalidQuery { detail, .. }
            | Self::Query { detail, .. }
            | Self::DamagedFile { detail, .. }
            | Self::DamagedBackup { detail, .. }
            | Self::CheckpointFailed { detail, .. }
            | Self::DataDirectory { detail, .. } => Some(detail.clone()),
            Self::Store { source, .. } => Some(source.to_string()),
            Self::UnknownOption { known, .. } => Some(format!("Known: {}.", known.join(", "))),
            _ => None,
        }
    }

    /// The next step.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Syntax { hint, .. } => hint.clone(),
            Self::StatementTooComplex { .. } => {
                Some("Nest fewer brackets, or write IN (...) or = ANY (...) for a long chain of OR.".into())
            }
            Self::InvalidQuery { .. } => Some(
                "Views have DataFusion's scalar functions and operators: keep the column, and do this in the query that \
                 reads the view."
                    .into(),
            ),
            Self::FeatureNotSupported { hint, .. }
            | Self::LimitReached { hint, .. }
            | Self::WrongObjectType { hint, .. }
            | Self::BackfillOrder { hint, .. }
            | Self::UnsupportedView { hint, .. }
            | Self::DataDirectory { hint, .. }
            | Self::Connection { hint, .. }
            | Self::Login { hint, .. }
            | Self::Config { hint, .. } => Some(hint.clone()),
            Self::Privilege { hint, .. } | Self::NoPassword { hint, .. } => Some(hint.clone()),
            Self::OwnsObjects { .. } => {
                Some("Drop these first, or as a superuser keep the role and take its LOGIN away.".into())
            }
            Self::Server { hint, .. } => hint.clone(),
            Self::UndefinedRelation { nearest, .. }
            | Self::UndefinedColumn { nearest, .. }
            | Self::UnknownOption { nearest, .. }
            | Self::UnknownSetting { nearest, .. } => {
                nearest.as_ref().map(|name| format!("Perhaps you meant \"{name}\"."))
            }
            Self::UndefinedFunction { .. } => Some(
                "No function matches the given name and argument types. You might need to add explicit type casts."
                    .into(),
            ),
            Self::UndefinedOperator { .. } => Some(
                "No operator matches the given name and argument types. You might need to add explicit type casts."
                    .into(),
            ),
            Self::DependentObjects { .. } => Some("Use DROP ... CASCADE to drop the dependent objects too.".into()),
            Self::ObjectInUse { .. } => Some("Try again when SHOW JOBS no longer lists it.".into()),
            Self::UnsafeRescale(refusal) => Some(refusal.hint.clone()),
            Self::NoSuchRescale { .. } => Some("SELECT * FROM tidegate.pending_rescales lists what is pending.".into()),
            Self::BarrierTimeout { setting, .. } => Some(format!(
                "Raise it with SET {setting} = '60s', or look at tidegate.job_backfill_progress.blocked_by."
            )),
            Self::InTransactionBlock { .. } => Some(
                "Run it outside BEGIN ... COMMIT. Many drivers begin a block by themselves: then turn autocommit on."
                    .into(),
            ),
            Self::SourceUnreachable { .. } => Some("Nothing was changed. Try again once it can be reached.".into()),
            Self::UndefinedType { supported, .. } => Some((*supported).into()),
            Self::Recovering { .. } => Some("Try again in a moment.".into()),
            Self::DamagedBackup { .. } => Some("Nothing was changed. Give another backup.".into()),
            Self::DamagedFile { .. } | Self::Store { .. } | Self::CheckpointFailed { .. } => {
                store_hint(self.sqlstate()).map(str::to_owned)
            }
            Self::Internal(_) | Self::Panic { .. } => Some("Please report this, with the server's log.".into()),
            _ => None,
        }
    }

    /// Where in the statement, as a character index from 1.
    pub fn position(&self) -> Option<usize> {
        match self {
            Self::Syntax { position, .. } => *position,
            Self::StatementTooComplex { position } => Some(*position),
            _ => None,
        }
    }
}

fn store_sqlstate(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "53100",
        Some(ErrorCode::OutOfMemory) => "53200",
        Some(ErrorCode::OperationInterrupted) => "57014",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "XX001",
        Some(ErrorCode::ReadOnly) => "25006",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "55P03",
        Some(_) => "58030",
        None => "XX000",
    }
}

/// What to do about the state file, by SQLSTATE.
fn store_hint(sqlstate: &str) -> Option<&'static str> {
    match sqlstate {
        "53100" => Some("Make room on the disk of the data directory. Tidegate tries again by itself."),
        "XX001" => Some(
            "Stop the server and run `tidegate repair --data-dir DIR --from-backup FILE`: it keeps the damaged file beside the new one.",
        ),
        "55P03" => Some("Another program has locked the state file: end it. Tidegate tries again by itself."),
        "25006" | "58030" => {
            Some("Check the disk of the data directory and that it can be written to. Tidegate tries again by itself.")
        }
        _ => None,
    }
}

/// The nearest of `known` to `name`, if one is near enough to be what was meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lowered = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lowered, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

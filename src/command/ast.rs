//! Tidegate's statements as types: what [`parse`](super::parse()) makes of a text.
//!
//! Names are folded as PostgreSQL does (unquoted ones in lower case) and rid of the schema, which can only be `public`.
//! Nothing here has been looked up: whether a source exists, or an option's value fits its connector, is the business
//! of whoever runs the statement.

mod names;
mod roles;

use std::fmt;

use datafusion::sql::sqlparser::ast as sql;

pub use self::names::Elsewhere;
pub(in crate::command) use self::names::no_schema;
pub use self::roles::{GrantObject, Privilege, READS_ALL, RoleCommand, RoleName, RoleOptions, Secret};
use super::Parsed;
use crate::backfill::target::Target;
use crate::error::Error;
use crate::store::format::MessageFormat;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// One that reads or changes sources, materialized views and rescales.
    Command(Command),
    /// One that concerns the connection alone.
    Session(Session),
    /// `SELECT`, `WITH`, `VALUES`, `TABLE`, or `EXPLAIN` of one: for DataFusion, which binds its `$n` too.
    Query(Box<sql::Statement>),
    /// A command or session statement with `$n` in it. Where a `$n` stands, the statement within holds a stand-in: it
    /// tells the kind and the result columns, and must never run. [`bind`](super::bind()) makes the one that may.
    Unbound(Box<Statement>),
    /// Nothing but white space, comments and semicolons.
    Empty,
}

/// A statement on sources, materialized views and rescales.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `CREATE SOURCE`
    CreateSource(CreateSource),
    /// `CREATE MATERIALIZED VIEW`
    CreateView(CreateView),
    /// `DROP SOURCE`, `DROP MATERIALIZED VIEW`
    Drop(Drop),
    /// `ALTER SOURCE`, `ALTER MATERIALIZED VIEW`
    Alter(Alter),
    /// `EXPLAIN [(FORMAT JSON)] ALTER ...`: a dry run.
    Explain {
        /// Whether the plan is wanted as JSON rather than as text.
        json: bool,
        /// What is not done.
        alter: Alter,
    },
    /// `CANCEL RESCALE id`
    CancelRescale(i64),
    /// `WAIT`: until no view is being created.
    Wait,
    /// `FLUSH`: until a checkpoint that began after it is committed.
    Flush,
    /// `RECOVER`: rebuild all actors from the last checkpoint.
    Recover,
    /// `SHOW` of something that is not a setting.
    Show(Show),
    /// A statement on users, roles and what they may do.
    Role(RoleCommand),
}

/// `CREATE SOURCE [IF NOT EXISTS] name (columns) [INCLUDE part [AS column]]... WITH (options) FORMAT PLAIN ENCODE encode`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSource {
    /// Leave an existing one of that name as it is.
    pub if_not_exists: bool,
    /// The source.
    pub name: String,
    /// Its columns, in order, those of INCLUDE last; no name twice. May be empty.
    pub columns: Vec<ColumnDef>,
    /// The options of WITH, in order; no name twice. A number, boolean or interval is given as its text.
    pub options: Vec<(String, String)>,
    /// ENCODE, and what the last columns are. FORMAT is always PLAIN.
    pub format: MessageFormat,
    /// The whole statement as written, parameters filled in and secrets [hidden](crate::secret::HIDDEN).
    pub definition: String,
}

/// A column of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: ColumnType,
}

/// What a column of a source may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// `boolean`
    Boolean,
    /// `smallint`
    SmallInt,
    /// `integer`
    Integer,
    /// `bigint`
    BigInt,
    /// `real`
    Real,
    /// `double precision`
    DoublePrecision,
    /// `numeric`, of any precision and scale
    Numeric,
    /// `character varying`, without a limit
    Varchar,
    /// `date`
    Date,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// `jsonb`
    Jsonb,
    /// `bytea`
    Bytea,
}

/// PostgreSQL's own name of the type, as `format_type` gives it.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::SmallInt => "smallint",
            Self::Integer => "integer",
            Self::BigInt => "bigint",
            Self::Real => "real",
            Self::DoublePrecision => "double precision",
            Self::Numeric => "numeric",
            Self::Varchar => "character varying",
            Self::Date => "date",
            Self::Timestamp => "timestamp without time zone",
            Self::Timestamptz => "timestamp with time zone",
            Self::Jsonb => "jsonb",
            Self::Bytea => "bytea",
        })
    }
}

/// `CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [WITH (options)] AS query`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Leave an existing one of that name as it is.
    pub if_not_exists: bool,
    /// The view.
    pub name: String,
    /// `backfill_rate_limit`; `None` where it isn't given, and the session's setting counts.
    pub backfill_rate_limit: Option<RateLimit>,
    /// The arrows of `backfill_order = FIXED(a -> b)`, each `(first, then)`; may hold cycles. Empty without the option.
    pub backfill_order: Vec<(String, String)>,
    /// The query.
    pub query: Box<sql::Query>,
    /// The query as written.
    pub query_text: String,
    /// The whole statement as written, parameters filled in.
    pub definition: String,
}

/// How many rows a second an actor reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimit {
    /// As many as it can: `DEFAULT`.
    Unlimited,
    /// So many. 0 pauses.
    RowsPerSecond(u32),
}

/// Which kind of object a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A source.
    Source,
    /// A materialized view.
    MaterializedView,
}

/// As errors name it: `source`, `materialized view`.
impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ObjectKind {
    /// The kind in SQL's words, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::MaterializedView => "materialized view",
        }
    }
}

/// `DROP {SOURCE | MATERIALIZED VIEW} [IF EXISTS] name, ... [CASCADE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// What kind.
    pub kind: ObjectKind,
    /// Which; at least one.
    pub names: Vec<String>,
    /// Whether a missing one is no error.
    pub if_exists: bool,
    /// With `IF EXISTS`, what was named and can't exist, in words.
    pub absent: Vec<String>,
    /// Whether what rests on them goes too.
    pub cascade: bool,
}

/// `ALTER {SOURCE | MATERIALIZED VIEW} name SET ...`
#[derive(Clone, Debug, PartialEq)]
pub struct Alter {
    /// What kind.
    pub kind: ObjectKind,
    /// Which.
    pub name: String,
    /// What to do.
    pub action: AlterAction,
    /// The ALTER as written (without EXPLAIN before it), parameters filled in: for the history.
    pub text: String,
}

/// What an ALTER does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// `SET PARALLELISM`
    Parallelism(Rescale),
    /// `SET BACKFILL_PARALLELISM`
    BackfillParallelism(Rescale),
    /// `SET source_rate_limit`
    SourceRateLimit(RateLimit),
    /// `SET backfill_rate_limit`
    BackfillRateLimit(RateLimit),
    /// `OWNER TO`
    Owner(RoleName),
    /// Any of them with a value that can't be had, or another that Tidegate doesn't have. It is refused where it runs, so
    /// that the history has it too.
    Invalid(InvalidValue),
}

/// What a rate limit can be, in words.
pub const RATE_LIMITS: &str = "a number of rows a second from 0 to 2147483647, or DEFAULT";

/// What is wrong with an ALTER that says what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidValue {
    /// A parallelism, with what is wrong with it.
    Parallelism(String),
    /// A rate limit: its name, and the value as written.
    RateLimit(&'static str, String),
    /// An ALTER of a source or view that other systems have: what it is, and what to use instead.
    Unsupported(String, &'static str),
    /// The name is none that a source or view can have.
    Elsewhere(Elsewhere),
}

impl From<InvalidValue> for Error {
    fn from(invalid: InvalidValue) -> Self {
        match invalid {
            InvalidValue::Parallelism(message) => Self::Data { sqlstate: "22023", message },
            InvalidValue::RateLimit(what, value) => {
                Self::InvalidValue { what: what.into(), value, allowed: RATE_LIMITS.into() }
            }
            InvalidValue::Unsupported(what, hint) => Self::FeatureNotSupported { what, hint: hint.into() },
            InvalidValue::Elsewhere(elsewhere) => elsewhere.into(),
        }
    }
}

/// How many actors, and whether to wait until they can be had safely.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescale {
    /// How many.
    pub target: Target,
    /// The target as written, without quotes.
    pub target_text: String,
    /// Whether to commit later, once it is safe, what isn't safe now.
    pub deferred: bool,
}

/// `SHOW` of something that is not a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    /// `SHOW JOBS`: views that are being created.
    Jobs,
    /// `SHOW SOURCES`
    Sources,
    /// `SHOW MATERIALIZED VIEWS`
    MaterializedViews,
    /// `SHOW CREATE SOURCE name`
    CreateSource(String),
    /// `SHOW CREATE MATERIALIZED VIEW name`
    CreateMaterializedView(String),
    /// `SHOW PARAMETERS`: the server's settings.
    Parameters,
}

/// A statement that concerns the connection alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Session {
    /// `BEGIN`
    Begin(TransactionModes),
    /// `START TRANSACTION`: the same, under its own name.
    StartTransaction(TransactionModes),
    /// `COMMIT`, `END`
    Commit,
    /// `ROLLBACK`, `ABORT`
    Rollback,
    /// `SAVEPOINT name`
    Savepoint(String),
    /// `RELEASE [SAVEPOINT] name`
    Release(String),
    /// `ROLLBACK TO [SAVEPOINT] name`
    RollbackTo(String),
    /// `SET TRANSACTION modes`: of the present transaction.
    SetTransaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION modes`: of the transactions to come.
    SetSessionCharacteristics(TransactionModes),
    /// `SET [SESSION | LOCAL] name {TO | =} value`, and the forms of it without a name (`SET TIME ZONE` is `timezone`,
    /// `SET NAMES` is `client_encoding`, `SET SCHEMA` is `search_path`).
    Set {
        /// The setting, in lower case, with the dots that it has.
        name: String,
        /// Its value.
        value: SetValue,
        /// Until the end of the transaction only.
        local: bool,
    },
    /// `RESET name`
    Reset(String),
    /// `RESET ALL`
    ResetAll,
    /// `SHOW name`, in lower case, with the dots that it has.
    Show(String),
    /// `SHOW ALL`
    ShowAll,
    /// `DISCARD`
    Discard(Discard),
    /// `DECLARE name CURSOR FOR query`
    DeclareCursor {
        /// The cursor.
        name: String,
        /// `SCROLL`, `NO SCROLL`, or neither.
        scroll: Option<bool>,
        /// Whether it outlives the transaction.
        hold: bool,
        /// `BINARY`: its rows come in binary format.
        binary: bool,
        /// Its query, always [`sql::Statement::Query`].
        query: Box<sql::Statement>,
        /// Its query as written.
        query_text: String,
    },
    /// `COPY {table | (query)} TO STDOUT`
    CopyTo {
        /// The query, always [`sql::Statement::Query`].
        query: Box<sql::Statement>,
        /// The query as written; of a table, the one that it stands for.
        query_text: String,
        /// How its rows are written.
        options: CopyOptions,
    },
    /// `FETCH`, `MOVE`
    Fetch {
        /// The cursor.
        cursor: String,
        /// Which rows.
        direction: Direction,
        /// `MOVE`: pass the rows, return none.
        move_only: bool,
    },
    /// `CLOSE name`
    Close(String),
    /// `CLOSE ALL`
    CloseAll,
    /// `PREPARE name [(types)] AS statement`
    Prepare {
        /// The prepared statement.
        name: String,
        /// The types of `$1`, `$2`, ... as written.
        types: Vec<String>,
        /// A query or a command, perhaps with `$n`.
        statement: Box<Parsed>,
    },
    /// `EXECUTE name [(values)]`
    Execute {
        /// The prepared statement.
        name: String,
        /// The values as text, as the wire protocol would give them.
        params: Vec<Option<String>>,
    },
    /// `DEALLOCATE name`
    Deallocate(String),
    /// `DEALLOCATE ALL`
    DeallocateAll,
    /// `LISTEN channel`
    Listen(String),
    /// `UNLISTEN channel`
    Unlisten(String),
    /// `UNLISTEN *`
    UnlistenAll,
    /// `RESET ROLE`, `SET ROLE NONE`, `SET SESSION AUTHORIZATION DEFAULT`, with the word that it begins with: back to
    /// the user that has connected. Nobody ever acts as another one.
    OwnRole(&'static str),
}

/// How `COPY` writes rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// `FORMAT`
    pub format: CopyFormat,
    /// `DELIMITER`: between two values.
    pub delimiter: u8,
    /// `NULL`: what stands for it.
    pub null: String,
    /// `HEADER`: whether the first line has the columns' names.
    pub header: bool,
    /// `QUOTE`, of CSV.
    pub quote: u8,
    /// `ESCAPE`: what comes before a quote within quotes.
    pub escape: u8,
    /// `FORCE_QUOTE`
    pub force_quote: ForceQuote,
}

/// `FORMAT` of `COPY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines, with backslashes before what would be taken for something else.
    Text,
    /// Comma-separated values.
    Csv,
    /// PostgreSQL's own.
    Binary,
}

/// The columns whose values are quoted even where they needn't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForceQuote {
    /// These.
    Columns(Vec<String>),
    /// `*`
    All,
}

/// The value of a `SET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// `DEFAULT`
    Default,
    /// One or more, as text: words in lower case unless quoted, strings without their quotes.
    Values(Vec<String>),
}

/// The modes of a transaction; `None` where none is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `ISOLATION LEVEL`, as PostgreSQL shows it: `serializable`, `repeatable read`, ...
    pub isolation: Option<&'static str>,
    /// `READ ONLY` or `READ WRITE`
    pub read_only: Option<bool>,
    /// `DEFERRABLE` or `NOT DEFERRABLE`
    pub deferrable: Option<bool>,
}

/// What `DISCARD` throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Everything of the session.
    All,
    /// Cached plans.
    Plans,
    /// The state of sequences, of which there are none.
    Sequences,
    /// Temporary tables, of which there are none.
    Temp,
}

/// Which rows `FETCH` gives, from where the cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The next so many; 0 is the present one again, a negative number goes back.
    Forward(i64),
    /// All that are left.
    ForwardAll,
    /// All before, nearest first.
    BackwardAll,
    /// The one at this place from 1, or from the end if negative.
    Absolute(i64),
    /// The one so many rows on.
    Relative(i64),
}

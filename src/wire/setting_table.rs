//! The table of settings: name, default, what it does, and how a value is checked.

mod idle;
mod of_server;
mod tls;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::LazyLock;

use datafusion::arrow::array::timezone::Tz;

use crate::limits::{parse_bytes, parse_milliseconds, show_bytes, show_milliseconds};

/// The version of PostgreSQL that clients are told.
pub const SERVER_VERSION: &str = concat!("15.0 (Tidegate ", env!("CARGO_PKG_VERSION"), ")");

/// A setting.
pub(super) struct Setting {
    /// As SHOW spells it.
    pub name: &'static str,
    /// As SHOW prints it.
    pub default: &'static str,
    /// How a value is checked.
    pub kind: Kind,
    /// Who may set it.
    pub access: Access,
    /// Whether clients are told of a change.
    pub reported: bool,
    /// One line.
    pub description: &'static str,
}

/// Who may set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Everyone.
    User,
    /// Everyone, up to what the server was started with; superusers beyond it too.
    Bounded,
    /// Superusers.
    Superuser,
    /// Nobody: it tells what the server is.
    Internal,
    /// Nobody; in PostgreSQL, whoever restarts the server.
    Restart,
    /// Nobody; in PostgreSQL, whoever lets the server read its configuration again.
    Reload,
    /// Nobody; in PostgreSQL, whoever begins a session.
    Start,
    /// Nobody; in PostgreSQL, a superuser who begins a session.
    SuperuserStart,
}

impl Access {
    /// The word that `pg_settings` has for it.
    pub const fn context(self) -> &'static str {
        match self {
            Self::User | Self::Bounded => "user",
            Self::Superuser => "superuser",
            Self::Internal => "internal",
            Self::Restart => "postmaster",
            Self::Reload => "sighup",
            Self::Start => "backend",
            Self::SuperuserStart => "superuser-backend",
        }
    }

    /// Whether somebody may set it.
    pub const fn is_settable(self) -> bool {
        matches!(self, Self::User | Self::Bounded | Self::Superuser)
    }
}

/// How a value is checked.
pub(super) enum Kind {
    /// `on` or `off`, in all of PostgreSQL's spellings.
    Bool,
    /// A whole number in a range, both ends included.
    Int(i64, i64),
    /// A number in a range, both ends included.
    Real(f64, f64),
    /// A size, from the one to the other number of bytes; a number without unit is in kB.
    Bytes(u64, u64),
    /// A duration, from 0 to 2147483647 ms; a number without unit is in ms.
    Milliseconds,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Any text; what isn't a printable character of ASCII becomes `?`, as in PostgreSQL.
    Printable,
    /// A list of schemas.
    Names,
    /// A display style and an order of day, month and year.
    DateStyle,
    /// A time zone's name or offset.
    TimeZone,
    /// An encoding whose bytes are UTF-8's.
    Encoding,
    /// A number of actors, or `adaptive`.
    Parallelism,
    /// Rows per second, or `default` for no limit.
    RateLimit,
}

/// The largest parallelism that can be asked for.
const MAX_PARALLELISM: u32 = 1024;

const ISOLATION: Kind = Kind::Choice(&["serializable", "repeatable read", "read committed", "read uncommitted"]);
const LEVELS: Kind =
    Kind::Choice(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"]);

const fn user(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Setting {
    Setting { name, default, kind, access: Access::User, reported: false, description }
}

const fn internal(name: &'static str, default: &'static str, description: &'static str) -> Setting {
    Setting { name, default, kind: Kind::Text, access: Access::Internal, reported: false, description }
}

const fn reported(setting: Setting) -> Setting {
    Setting { reported: true, ..setting }
}

/// The settings that do something, or tell something.
const SETTINGS: &[Setting] = &[
    // Ours, and RisingWave's by its names.
    user("background_ddl", "off", Kind::Bool, "Lets CREATE MATERIALIZED VIEW return before its backfill has ended."),
    user(
        "backfill_rate_limit",
        "default",
        Kind::RateLimit,
        "Rows per second that each backfill actor of a new materialized view reads at most; 0 pauses it, default is no limit.",
    ),
    user(
        "source_rate_limit",
        "default",
        Kind::RateLimit,
        "Rows per second that each actor of a new source reads at most; 0 pauses it, default is no limit.",
    ),
    user(
        "streaming_parallelism",
        "adaptive",
        Kind::Parallelism,
        "Number of actors of new sources and materialized views; adaptive follows the number of workers' cores.",
    ),
    user(
        "rescale_policy",
        "forwarding",
        Kind::Choice(&["forwarding", "all_finished", "stage_aware"]),
        "What must hold of the splits before ALTER ... SET PARALLELISM may move them.",
    ),
    user(
        "rescale_timeout",
        "30s",
        Kind::Milliseconds,
        "How long a foreground ALTER waits for its barrier; 0 is no limit.",
    ),
    // PostgreSQL's, as far as they have a meaning here.
    reported(user(
        "application_name",
        "",
        Kind::Printable,
        "Name of the client's application, as kept in tidegate.rescale_history.",
    )),
    user("bytea_output", "hex", Kind::Choice(&["hex", "escape"]), "Output format of bytea."),
    reported(user("client_encoding", "UTF8", Kind::Encoding, "The client's character set; only UTF8 is spoken.")),
    user("client_min_messages", "notice", LEVELS, "The least severe messages that are sent to the client."),
    reported(user(
        "DateStyle",
        "ISO, MDY",
        Kind::DateStyle,
        "Output format of dates and times, and the order of day and month in ambiguous input.",
    )),
    user("default_transaction_deferrable", "off", Kind::Bool, "Has no effect: a transaction's snapshot never waits."),
    user(
        "default_transaction_isolation",
        "read committed",
        ISOLATION,
        "Isolation level of new transactions; a block reads one snapshot at every level.",
    ),
    user("default_table_access_method", "heap", Kind::Text, "Has no effect: there is one way to keep a table."),
    user("default_tablespace", "", Kind::Text, "Has no effect: there is one place to keep tables."),
    reported(user(
        "default_transaction_read_only",
        "off",
        Kind::Bool,
        "Whether new transactions refuse statements that change something.",
    )),
    user(
        "extra_float_digits",
        "1",
        Kind::Int(-15, 3),
        "Digits of floating-point output; above 0 prints the shortest text that reads back exactly.",
    ),
    user(
        "idle_in_transaction_session_timeout",
        "0",
        Kind::Milliseconds,
        "Ends a session that idles in a transaction block longer than this; 0 is no limit.",
    ),
    user(
        "idle_session_timeout",
        "0",
        Kind::Milliseconds,
        "Ends a session that idles outside a transaction block longer than this; 0 is no limit.",
    ),
    reported(user(
        "IntervalStyle",
        "postgres",
        Kind::Choice(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "Output format of intervals.",
    )),
    user("jit", "off", Kind::Bool, "Has no effect: queries are never compiled."),
    user(
        "lock_timeout",
        "0",
        Kind::Milliseconds,
        "Cancels a statement that waits longer than this for an advisory lock; 0 is no limit.",
    ),
    user("row_security", "on", Kind::Bool, "Has no effect: there are no row policies."),
    user(
        "search_path",
        "\"$user\", public, tidegate, rw_catalog",
        Kind::Names,
        "Schemas in which a name without one is looked up, in this order.",
    ),
    reported(user(
        "standard_conforming_strings",
        "on",
        Kind::Choice(&["on"]),
        "Whether a backslash in '...' is an ordinary character; always on.",
    )),
    Setting {
        access: Access::Bounded,
        ..user(
            "statement_memory",
            "256MB",
            Kind::Bytes(64 << 10, 64 << 30),
            "Memory that the statements of the session may use; beyond it sorts and groupings go to disk, and the rest fails.",
        )
    },
    user(
        "statement_timeout",
        "0",
        Kind::Milliseconds,
        "Cancels a statement that runs longer than this; 0 is no limit.",
    ),
    reported(user("TimeZone", "UTC", Kind::TimeZone, "Time zone in which timestamps are shown and read.")),
    user("transaction_deferrable", "off", Kind::Bool, "Has no effect: a transaction's snapshot never waits."),
    user(
        "transaction_isolation",
        "read committed",
        ISOLATION,
        "Isolation level of this transaction; a block reads one snapshot at every level.",
    ),
    user(
        "transaction_read_only",
        "off",
        Kind::Bool,
        "Whether this transaction refuses statements that change something.",
    ),
    // What the server is.
    internal("authentication_timeout", "1min", "How long a client may take to log in."),
    internal("block_size", "8192", "Size of a disk block, in bytes."),
    reported(internal("in_hot_standby", "off", "Whether the server is a standby; never.")),
    reported(internal("integer_datetimes", "on", "Whether times are whole microseconds; always.")),
    internal("role", "none", "The role that the user acts as: none but its own."),
    reported(internal("is_superuser", "on", "Whether the user may do everything.")),
    internal("lc_collate", "C", "Order of text."),
    internal("lc_ctype", "C.UTF-8", "Classes of characters."),
    internal("lc_messages", "C", "Language of messages."),
    internal("max_connections", "500", "Most connections at a time."),
    internal("max_cursors", "1000", "Most cursors of a session, and most portals."),
    internal("max_identifier_length", "63", "Longest name, in bytes."),
    internal("max_index_keys", "32", "Most columns of an index."),
    internal("max_message_size", "64MB", "Longest message from a client."),
    internal("max_prepared_statements", "1000", "Most prepared statements of a session."),
    internal("max_statement_length", "1MB", "Longest text of statements."),
    internal("max_user_connections", "200", "Most connections at a time of a user who isn't a superuser."),
    internal("password_encryption", "scram-sha-256", "How passwords are hashed."),
    internal("query_memory", "1GB", "Memory that all statements may use together."),
    reported(internal("server_encoding", "UTF8", "Character set of all text.")),
    reported(internal("server_version", SERVER_VERSION, "The version of PostgreSQL that Tidegate speaks like.")),
    internal("server_version_num", "150000", "The same as a number."),
    reported(internal("session_authorization", "root", "The user who connected.")),
    internal("superuser_reserved_connections", "3", "Connections, of max_connections, that only a superuser may use."),
    internal(
        "temp_file_limit",
        "4GB",
        "Disk space that sorts and groupings of all sessions may use for what doesn't fit in memory.",
    ),
    internal("view_cache_memory", "64MB", "Memory for rows of views that have been read and may be read again."),
];

/// All settings.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(idle::SETTINGS).chain(tls::SETTINGS).chain(of_server::SETTINGS)
}

/// A setting by its lower-case name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    // Every statement looks some up.
    static BY_NAME: LazyLock<HashMap<String, &Setting>> =
        LazyLock::new(|| all().map(|setting| (setting.name.to_lowercase(), setting)).collect());
    // `SET TIME ZONE` and old drivers spell it so.
    let name = if name == "time zone" { "timezone" } else { name };
    BY_NAME.get(name).copied()
}

/// For a characteristic of the transaction, the setting that holds its default.
pub(super) fn default_of_transaction(name: &str) -> Option<&'static str> {
    match name {
        "transaction_isolation" => Some("default_transaction_isolation"),
        "transaction_read_only" => Some("default_transaction_read_only"),
        "transaction_deferrable" => Some("default_transaction_deferrable"),
        _ => None,
    }
}

impl Kind {
    /// The unit of a number without one.
    pub const fn unit(&self) -> Option<&'static str> {
        match self {
            Self::Milliseconds => Some("ms"),
            Self::Bytes(..) => Some("kB"),
            _ => None,
        }
    }

    /// As `pg_settings` names it.
    pub const fn vartype(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int(..) | Self::Milliseconds | Self::Bytes(..) => "integer",
            Self::Real(..) => "real",
            Self::Choice(_) | Self::Encoding => "enum",
            _ => "string",
        }
    }

    /// What is allowed, in words.
    pub fn allowed(&self) -> String {
        match self {
            Self::Bool => "on, off".into(),
            Self::Int(min, max) => format!("a whole number from {min} to {max}"),
            Self::Real(min, max) => format!("a number from {min} to {max}"),
            Self::Milliseconds => "a duration from 0 to 2147483647 ms, with unit us, ms, s, min, h or d".into(),
            Self::Bytes(least, most) => format!("a size from {} to {}", show_bytes(*least), show_bytes(*most)),
            Self::Choice(words) => words.join(", "),
            Self::Text | Self::Printable => "any text".into(),
            Self::Names => "a list of schemas".into(),
            Self::DateStyle => "ISO, SQL, Postgres or German, and MDY, DMY or YMD".into(),
            Self::TimeZone => "a name such as Europe/Berlin, or an offset such as +02:00".into(),
            Self::Encoding => "UTF8".into(),
            Self::Parallelism => format!("adaptive, or a whole number from 1 to {MAX_PARALLELISM}"),
            Self::RateLimit => format!("default, or a whole number from 0 to {}", i32::MAX),
        }
    }

    /// The value as SHOW prints it, or None when it isn't allowed.
    pub fn check(&self, value: &str) -> Option<String> {
        let value = value.trim();
        match self {
            Self::Bool => parse_bool(value).map(|on| if on { "on" } else { "off" }.to_owned()),
            Self::Int(min, max) => {
                let number: i64 = value.parse().ok()?;
                (*min..=*max).contains(&number).then(|| number.to_string())
            }
            Self::Real(min, max) => {
                let number: f64 = value.parse().ok()?;
                (*min..=*max).contains(&number).then(|| number.to_string())
            }
            Self::Milliseconds => parse_milliseconds(value).map(show_milliseconds),
            Self::Bytes(least, most) => {
                parse_bytes(value).filter(|bytes| (least..=most).contains(&bytes)).map(show_bytes)
            }
            Self::Choice(words) => {
                let spelled = match parse_bool(value) {
                    Some(true) if words.contains(&"on") => "on",
                    _ => value,
                };
                words.iter().find(|word| word.eq_ignore_ascii_case(spelled)).map(|word| (*word).to_owned())
            }
            Self::Text | Self::Names => Some(value.to_owned()),
            // It is shown on terminals, where control characters could pass for what it isn't.
            Self::Printable => Some(value.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect()),
            Self::DateStyle => check_date_style(value),
            Self::TimeZone => check_time_zone(value),
            Self::Encoding => {
                let plain: String = value.to_uppercase().chars().filter(|c| c.is_alphanumeric()).collect();
                match plain.as_str() {
                    "UTF8" | "UNICODE" => Some("UTF8".to_owned()),
                    "SQLASCII" => Some("SQL_ASCII".to_owned()),
                    _ => None,
                }
            }
            Self::Parallelism => match value.to_lowercase().as_str() {
                "adaptive" | "default" | "0" => Some("adaptive".to_owned()),
                number => number.parse().ok().filter(|n| (1..=MAX_PARALLELISM).contains(n)).map(|n| n.to_string()),
            },
            Self::RateLimit => match value.to_lowercase().as_str() {
                "default" => Some("default".to_owned()),
                number => number.parse().ok().filter(|n: &i32| *n >= 0).map(|n| n.to_string()),
            },
        }
    }
}

/// `on`, `t`, `fal`, `1`: PostgreSQL takes any unambiguous beginning, in any case.
pub(super) fn parse_bool(value: &str) -> Option<bool> {
    let value = value.to_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        Some(true)
    } else if value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

fn check_date_style(value: &str) -> Option<String> {
    let (mut style, mut order) = ("ISO", "MDY");
    for word in value.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()) {
        match word.to_lowercase().as_str() {
            "iso" => style = "ISO",
            "sql" => style = "SQL",
            "german" => (style, order) = ("German", "DMY"),
            word if word.starts_with("postgres") => style = "Postgres",
            "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("{style}, {order}"))
}

fn check_time_zone(value: &str) -> Option<String> {
    if ["utc", "gmt", "z", "zulu", "etc/utc"].contains(&value.to_lowercase().as_str()) {
        return Some(if value.eq_ignore_ascii_case("gmt") { "GMT" } else { "UTC" }.to_owned());
    }
    if let Ok(hours) = value.parse::<i32>() {
        return (-15..=15).contains(&hours).then(|| format!("{hours:+03}:00"));
    }
    if Tz::from_str(value).is_ok() {
        return Some(value.to_owned());
    }
    // Names of zones are known in any case: `europe/berlin`.
    let titled = title(value);
    Tz::from_str(&titled).is_ok().then_some(titled)
}

fn title(name: &str) -> String {
    let mut start = true;
    name.chars()
        .map(|c| {
            let out = if start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            start = !c.is_alphanumeric();
            out
        })
        .collect()
}

/// The names of a list as in `search_path`: separated by commas, quoted where needed.
pub(super) fn split_list(list: &str) -> Vec<String> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_allowed_and_shown_as_written() {
        for setting in all() {
            assert_eq!(setting.kind.check(setting.default).as_deref(), Some(setting.default), "{}", setting.name);
            assert!(setting.description.ends_with('.'), "{}", setting.name);
        }
    }

    #[test]
    fn values_are_checked_as_in_postgresql() {
        let check = |name: &str, value: &str| find(name).unwrap().kind.check(value);
        assert_eq!(check("jit", "TRUE").unwrap(), "on");
        assert_eq!(check("jit", "fal").unwrap(), "off");
        assert_eq!(check("jit", "o"), None);
        assert_eq!(check("standard_conforming_strings", "true").unwrap(), "on");
        assert_eq!(check("standard_conforming_strings", "off"), None);
        assert_eq!(check("extra_float_digits", "4"), None);
        assert_eq!(check("work_mem", "64MB").unwrap(), "64MB");
        assert_eq!(check("work_mem", "1kB"), None);
        assert_eq!(check("random_page_cost", "1.1").unwrap(), "1.1");
        assert_eq!(check("random_page_cost", "NaN"), None);
        assert_eq!(check("transform_null_equals", "on"), None);
        assert_eq!(check("statement_timeout", "1.5s").unwrap(), "1500ms");
        assert_eq!(check("statement_timeout", "-1"), None);
        assert_eq!(check("statement_timeout", "3 fortnights"), None);
        assert_eq!(check("datestyle", "german").unwrap(), "German, DMY");
        assert_eq!(check("datestyle", "sql, dmy").unwrap(), "SQL, DMY");
        assert_eq!(check("timezone", "europe/berlin").unwrap(), "Europe/Berlin");
        assert_eq!(check("timezone", "-8").unwrap(), "-08:00");
        assert_eq!(check("timezone", "Mars/Base"), None);
        assert_eq!(check("client_encoding", "utf-8").unwrap(), "UTF8");
        assert_eq!(check("client_encoding", "latin1"), None);
        assert_eq!(check("streaming_parallelism", "ADAPTIVE").unwrap(), "adaptive");
        assert_eq!(check("streaming_parallelism", "1025"), None);
        assert_eq!(check("source_rate_limit", "-1"), None);
        assert_eq!(check("source_rate_limit", "DEFAULT").unwrap(), "default");
    }
}

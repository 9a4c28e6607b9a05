//! The server's limits: what a client can make it hold or do. Each is a flag, a variable of the environment, a name in
//! the section `[limits]` of the file, and a row of `tidegate.settings` and `pg_settings`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::error::{Error, Result};

/// The flags of the limits. Sizes are a whole number of kB, or one with the unit kB, MB or GB.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitFlags {
    /// Connections that only a superuser may use, of --max-connections, from 0 to 100 [default: 3].
    #[arg(long, value_name = "N", env = "TIDEGATE_SUPERUSER_RESERVED_CONNECTIONS")]
    pub superuser_reserved_connections: Option<usize>,
    /// Most connections of one user who isn't a superuser, from 1 to 10000 [default: 200].
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_USER_CONNECTIONS")]
    pub max_user_connections: Option<usize>,
    /// How long a client may take to log in, from 1 to 600 s [default: 60].
    #[arg(long, value_name = "S", env = "TIDEGATE_AUTHENTICATION_TIMEOUT")]
    pub authentication_timeout: Option<u64>,
    /// Longest message from a client, from 64kB to 1GB [default: 64MB].
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_MAX_MESSAGE_SIZE")]
    pub max_message_size: Option<String>,
    /// Longest text of statements, from 1kB to 64MB [default: 1MB].
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_MAX_STATEMENT_LENGTH")]
    pub max_statement_length: Option<String>,
    /// Most prepared statements of a session, from 1 to 100000 [default: 1000].
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_PREPARED_STATEMENTS")]
    pub max_prepared_statements: Option<usize>,
    /// Most cursors and portals of a session, from 1 to 100000 [default: 1000].
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_CURSORS")]
    pub max_cursors: Option<usize>,
    /// Memory that the statements of one session may use, from 1MB to 64GB [default: 256MB].
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_STATEMENT_MEMORY")]
    pub statement_memory: Option<String>,
    /// Memory that all statements may use together, from 1MB to 1024GB [default: 1GB].
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_QUERY_MEMORY")]
    pub query_memory: Option<String>,
    /// Memory for views' rows that have been read and may be read again, from 0 to 64GB [default: 64MB].
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_VIEW_CACHE_MEMORY")]
    pub view_cache_memory: Option<String>,
    /// Disk space that sorts and groupings may use for what doesn't fit in memory, from 0 to 1024GB [default: 4GB].
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_TEMP_FILE_LIMIT")]
    pub temp_file_limit: Option<String>,
    /// Default of the session setting statement_timeout: a duration, 0 for none [default: 0].
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_STATEMENT_TIMEOUT")]
    pub statement_timeout: Option<String>,
    /// Default of the session setting idle_session_timeout: a duration, 0 for none [default: 0].
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_IDLE_SESSION_TIMEOUT")]
    pub idle_session_timeout: Option<String>,
    /// Default of idle_in_transaction_session_timeout: a duration, 0 for none [default: 0].
    #[arg(long, value_name = "DURATION", env = "TIDEGATE_IDLE_IN_TRANSACTION_SESSION_TIMEOUT")]
    pub idle_in_transaction_session_timeout: Option<String>,
}

/// The checked limits. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub max_connections: usize,
    /// Of these, how many only a superuser may use.
    pub reserved_connections: usize,
    /// Connections at a time of a user who isn't a superuser.
    pub user_connections: usize,
    /// From connecting to being logged in.
    pub authentication_timeout: Duration,
    /// A message from a client.
    pub message_size: usize,
    /// A text of statements.
    pub statement_length: usize,
    /// Prepared statements of a session.
    pub prepared_statements: usize,
    /// Cursors of a session, and as many portals.
    pub cursors: usize,
    /// Memory that the statements of a session use.
    pub statement_memory: usize,
    /// Memory that all statements use together.
    pub query_memory: usize,
    /// Memory for views' rows that have been read.
    pub view_cache: usize,
    /// Disk space of all statements' temporary files.
    pub temp_files: u64,
    /// Defaults of session settings, as written.
    pub(crate) timeouts: [(&'static str, String); 3],
}

impl Default for Limits {
    fn default() -> Self {
        let none = || "0".to_owned();
        Self {
            max_connections: 500,
            reserved_connections: 3,
            user_connections: 200,
            authentication_timeout: Duration::from_secs(60),
            message_size: 64 << 20,
            statement_length: 1 << 20,
            prepared_statements: 1000,
            cursors: 1000,
            statement_memory: 256 << 20,
            query_memory: 1 << 30,
            view_cache: 64 << 20,
            temp_files: 4 << 30,
            timeouts: [
                ("statement_timeout", none()),
                ("idle_session_timeout", none()),
                ("idle_in_transaction_session_timeout", none()),
            ],
        }
    }
}

/// A row of `tidegate.settings`: name, value, unit, what it is.
pub type Row = (&'static str, String, Option<&'static str>, &'static str);

impl Limits {
    /// Checks what flags and file give; `sources` says which of the two a value came from.
    ///
    /// # Errors
    /// [`Error::Config`] for a value out of its range.
    pub fn load(
        max_connections: usize,
        flags: LimitFlags,
        file: LimitFlags,
        sources: &mut BTreeMap<&'static str, &'static str>,
    ) -> Result<Self> {
        let mut limits = Self { max_connections, ..Self::default() };
        let mut given = Given(sources);
        let counts: [(&mut usize, _, _, _, _, _); 4] = [
            (
                &mut limits.reserved_connections,
                "superuser_reserved_connections",
                flags.superuser_reserved_connections,
                file.superuser_reserved_connections,
                0,
                100,
            ),
            (
                &mut limits.user_connections,
                "max_user_connections",
                flags.max_user_connections,
                file.max_user_connections,
                1,
                10_000,
            ),
            (
                &mut limits.prepared_statements,
                "max_prepared_statements",
                flags.max_prepared_statements,
                file.max_prepared_statements,
                1,
                100_000,
            ),
            (&mut limits.cursors, "max_cursors", flags.max_cursors, file.max_cursors, 1, 100_000),
        ];
        for (limit, name, flag, file, least, most) in counts {
            if let Some(value) = given.pick(name, flag, file) {
                *limit = within(name, value, least, most)?;
            }
        }
        if let Some(seconds) =
            given.pick("authentication_timeout", flags.authentication_timeout, file.authentication_timeout)
        {
            limits.authentication_timeout = Duration::from_secs(within("authentication_timeout", seconds, 1, 600)?);
        }
        let sizes: [(&mut usize, _, _, _, _, _); 5] = [
            (
                &mut limits.message_size,
                "max_message_size",
                flags.max_message_size,
                file.max_message_size,
                64 << 10,
                1 << 30,
            ),
            (
                &mut limits.statement_length,
                "max_statement_length",
                flags.max_statement_length,
                file.max_statement_length,
                1 << 10,
                64 << 20,
            ),
            (
                &mut limits.statement_memory,
                "statement_memory",
                flags.statement_memory,
                file.statement_memory,
                1 << 20,
                64 << 30,
            ),
            (&mut limits.query_memory, "query_memory", flags.query_memory, file.query_memory, 1 << 20, 1 << 40),
            (&mut limits.view_cache, "view_cache_memory", flags.view_cache_memory, file.view_cache_memory, 0, 64 << 30),
        ];
        for (limit, name, flag, file, least, most) in sizes {
            if let Some(text) = given.pick(name, flag, file) {
                *limit = size(name, &text, least, most)? as usize;
            }
        }
        if let Some(text) = given.pick("temp_file_limit", flags.temp_file_limit, file.temp_file_limit) {
            limits.temp_files = size("temp_file_limit", &text, 0, 1 << 40)?;
        }
        let timeouts = [
            (flags.statement_timeout, file.statement_timeout),
            (flags.idle_session_timeout, file.idle_session_timeout),
            (flags.idle_in_transaction_session_timeout, file.idle_in_transaction_session_timeout),
        ];
        for ((name, value), (flag, file)) in limits.timeouts.iter_mut().zip(timeouts) {
            if let Some(text) = given.pick(name, flag, file) {
                let millis = parse_milliseconds(&text)
                    .ok_or_else(|| wrong(name, &text, "a duration, with unit ms, s, min, h or d; 0 is none"))?;
                *value = show_milliseconds(millis);
            }
        }
        Ok(limits)
    }

    /// The rows of `tidegate.settings`.
    pub fn rows(&self) -> Vec<Row> {
        let [statement, idle, idle_in_transaction] = &self.timeouts;
        vec![
            (
                "superuser_reserved_connections",
                self.reserved_connections.to_string(),
                None,
                "Connections, of max_connections, that only a superuser may use.",
            ),
            (
                "max_user_connections",
                self.user_connections.to_string(),
                None,
                "Most connections at a time of a user who isn't a superuser.",
            ),
            (
                "authentication_timeout",
                show_milliseconds(self.authentication_timeout.as_millis() as u64),
                None,
                "How long a client may take to log in.",
            ),
            ("max_message_size", show_bytes(self.message_size as u64), None, "Longest message from a client."),
            ("max_statement_length", show_bytes(self.statement_length as u64), None, "Longest text of statements."),
            (
                "max_prepared_statements",
                self.prepared_statements.to_string(),
                None,
                "Most prepared statements of a session.",
            ),
            ("max_cursors", self.cursors.to_string(), None, "Most cursors of a session, and most portals."),
            (
                "statement_memory",
                show_bytes(self.statement_memory as u64),
                None,
                "Memory that the statements of one session may use: default of the session setting.",
            ),
            (
                "query_memory",
                show_bytes(self.query_memory as u64),
                None,
                "Memory that all statements may use together.",
            ),
            (
                "view_cache_memory",
                show_bytes(self.view_cache as u64),
                None,
                "Memory for rows of views that have been read and may be read again.",
            ),
            (
                "temp_file_limit",
                show_bytes(self.temp_files),
                None,
                "Disk space that sorts and groupings may use for what doesn't fit in memory.",
            ),
            (statement.0, statement.1.clone(), None, "Default of the session setting statement_timeout; 0 is none."),
            (idle.0, idle.1.clone(), None, "Default of the session setting idle_session_timeout; 0 is none."),
            (
                idle_in_transaction.0,
                idle_in_transaction.1.clone(),
                None,
                "Default of the session setting idle_in_transaction_session_timeout; 0 is none.",
            ),
        ]
    }

    /// Values for the session settings of the same names, as far as they aren't the defaults.
    pub fn settings(&self) -> impl Iterator<Item = (String, String)> {
        let all = |limits: &Self| {
            let connections = ("max_connections", limits.max_connections.to_string(), None, "");
            limits.rows().into_iter().chain([connections])
        };
        let defaults = all(&Self::default());
        let changed = all(self).zip(defaults).filter(|(row, default)| row != default);
        changed.map(|((name, value, ..), _)| (name.to_owned(), value)).collect::<Vec<_>>().into_iter()
    }
}

/// Notes where a value comes from.
struct Given<'a>(&'a mut BTreeMap<&'static str, &'static str>);

impl Given<'_> {
    fn pick<T>(&mut self, name: &'static str, flag: Option<T>, file: Option<T>) -> Option<T> {
        let source = match (&flag, &file) {
            (Some(_), _) => "command line",
            (None, Some(_)) => "file",
            (None, None) => return None,
        };
        self.0.insert(name, source);
        flag.or(file)
    }
}

fn within<T: PartialOrd + std::fmt::Display>(name: &str, value: T, least: T, most: T) -> Result<T> {
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(wrong(name, &value.to_string(), &format!("a number from {least} to {most}")))
}

fn size(name: &str, text: &str, least: u64, most: u64) -> Result<u64> {
    parse_bytes(text)
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| wrong(name, text, &format!("a size from {} to {}", show_bytes(least), show_bytes(most))))
}

fn wrong(name: &str, value: &str, allowed: &str) -> Error {
    Error::Config { message: format!("{name} can't be {value}"), hint: format!("Allowed: {allowed}.") }
}

/// A size such as `64MB` in bytes; a number without a unit is in kB, as in PostgreSQL.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim() {
        "B" => 1,
        "" | "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// In the largest unit that it is a whole number of.
pub fn show_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None if bytes == 0 => "0".to_owned(),
        None => format!("{bytes}B"),
    }
}

/// A duration such as `30s`, `1.5 h` or `100` (ms) in whole milliseconds.
pub fn parse_milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let end = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let factor = match value[end..].trim() {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1e3,
        "min" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        _ => return None,
    };
    let millis = (number * factor).round();
    (0.0..=f64::from(i32::MAX)).contains(&millis).then_some(millis as u64)
}

/// In the largest unit that it is a whole number of, as PostgreSQL shows it.
pub fn show_milliseconds(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None if millis == 0 => "0".to_owned(),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_shown() {
        for (text, bytes) in [("0", 0), ("64MB", 64 << 20), ("1025kB", 1025 << 10), ("3GB", 3 << 30)] {
            assert_eq!(parse_bytes(text), Some(bytes));
            assert_eq!(show_bytes(bytes), text);
        }
        assert_eq!(parse_bytes("8"), Some(8 << 10));
        for text in ["", "MB", "-1", "1.5MB", "1mb", "99999999999999999999", "99999999999999999TB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_limit_out_of_range_is_named_with_what_is_allowed() {
        let load = |flags| Limits::load(10, flags, LimitFlags::default(), &mut BTreeMap::new());
        let error = load(LimitFlags { statement_memory: Some("1kB".into()), ..LimitFlags::default() }).unwrap_err();
        assert_eq!(error.to_string(), "statement_memory can't be 1kB");
        assert_eq!(error.hint().unwrap(), "Allowed: a size from 1MB to 64GB.");
        let error = load(LimitFlags { max_cursors: Some(0), ..LimitFlags::default() }).unwrap_err();
        assert_eq!(error.hint().unwrap(), "Allowed: a number from 1 to 100000.");
        let error = load(LimitFlags { statement_timeout: Some("soon".into()), ..LimitFlags::default() }).unwrap_err();
        assert_eq!(error.to_string(), "statement_timeout can't be soon");
    }

    #[test]
    fn flags_come_before_the_file() {
        let mut sources = BTreeMap::new();
        let flags = LimitFlags { max_cursors: Some(5), ..LimitFlags::default() };
        let file = LimitFlags { max_cursors: Some(6), statement_timeout: Some("5000".into()), ..LimitFlags::default() };
        let limits = Limits::load(10, flags, file, &mut sources).unwrap();
        assert_eq!((limits.cursors, sources["max_cursors"], sources["statement_timeout"]), (5, "command line", "file"));
        let settings: BTreeMap<_, _> = limits.settings().collect();
        assert_eq!(settings["statement_timeout"], "5s");
    }
}

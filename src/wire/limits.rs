//! What a client may not have more of, and what it is told then.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::Shared;
use super::prepared::Prepared;
use crate::error::{Error, Result};
use crate::limits::{Limits, show_bytes};

/// How many savepoints may be open at once: each keeps the settings as they were.
const SAVEPOINTS: usize = 1000;

fn reached(sqlstate: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::LimitReached { sqlstate, message: message.into(), hint: hint.into() }
}

/// `authentication_timeout`.
pub(super) fn authentication() -> Error {
    reached("08006", "canceling authentication due to timeout", "authentication_timeout says how long a client has.")
}

/// `idle_session_timeout`.
pub(super) fn idle_session() -> Error {
    reached(
        "57P05",
        "terminating connection due to idle-session timeout",
        "Connect again, or raise idle_session_timeout.",
    )
}

/// `idle_in_transaction_session_timeout`.
pub(super) fn idle_in_transaction() -> Error {
    reached(
        "25P03",
        "terminating connection due to idle-in-transaction timeout",
        "Connect again, or raise idle_in_transaction_session_timeout.",
    )
}

/// `max_message_size`.
pub(super) fn message_size(limit: usize, length: usize) -> Error {
    reached(
        "54000",
        format!("a message of {length} bytes is longer than {}", show_bytes(limit as u64)),
        "max_message_size says how long a message may be. The connection is closed.",
    )
}

/// Room for the messages of all sessions, in kB.
pub fn message_room(limits: &Limits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((limits.query_memory >> 10).min(Semaphore::MAX_PERMITS)))
}

/// There is none left.
pub(super) fn message_memory() -> Error {
    reached(
        "53200",
        "out of memory: the messages that all clients are sending have no more room",
        "They may take as much as query_memory. The connection is closed; try again when others have sent theirs.",
    )
}

/// `max_connections`, before a client has said who it is.
pub(super) fn connections(shared: &Shared) -> Error {
    let hint = format!("max_connections is {}: end a connection, or raise it.", shared.limits.max_connections);
    reached("53300", "sorry, too many clients already", hint)
}

/// `max_statement_length`.
pub(super) fn check_length(shared: &Shared, text: &str) -> Result<()> {
    let limit = shared.limits.statement_length;
    if text.len() <= limit {
        return Ok(());
    }
    Err(reached(
        "54000",
        format!("a statement of {} bytes is longer than {}", text.len(), show_bytes(limit as u64)),
        "Send less at a time, give long lists as parameters, or raise max_statement_length.",
    ))
}

/// `max_prepared_statements`, and that all of them together aren't longer than sixteen of the longest.
pub(super) fn check_prepared(shared: &Shared, statements: &HashMap<String, Arc<Prepared>>, text: &str) -> Result<()> {
    let limit = shared.limits.prepared_statements;
    let hint = "DEALLOCATE those that are no longer used, or raise max_prepared_statements.";
    if statements.len() >= limit {
        return Err(reached("53400", format!("there are {limit} prepared statements already"), hint));
    }
    let all = statements.values().map(|prepared| prepared.text.len()).sum::<usize>() + text.len();
    let limit = shared.limits.statement_length * 16;
    if all > limit {
        let message = format!("the prepared statements are longer than {} together", show_bytes(limit as u64));
        return Err(reached(
            "53400",
            message,
            "DEALLOCATE those that are no longer used, or raise max_statement_length.",
        ));
    }
    Ok(())
}

/// `max_cursors`.
pub(super) fn check_cursors(shared: &Shared, what: &str, count: usize) -> Result<()> {
    let limit = shared.limits.cursors;
    if count < limit {
        return Ok(());
    }
    Err(reached("53400", format!("there are {limit} {what} already"), "Close some, or raise max_cursors."))
}

/// Savepoints.
pub(super) fn check_savepoints(count: usize) -> Result<()> {
    if count < SAVEPOINTS {
        return Ok(());
    }
    let message = format!("there are {SAVEPOINTS} savepoints already");
    Err(reached("53400", message, "RELEASE those that are no longer used."))
}

/// The disk doesn't take what a sort or grouping can't keep in memory, or give it back.
pub(super) fn temporary_file(error: &std::io::Error) -> Error {
    use std::io::{Error as IoError, ErrorKind};
    // The file's writer gives DataFusion's own limit as an error of the disk.
    if error.to_string().contains("max_temp_directory_size") {
        let hint = "Ask for fewer rows or groups at a time, or raise temp_file_limit.";
        return reached("53400", "no room for temporary files: they are as large as they may be", hint);
    }
    // It may come wrapped in others.
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    let full = causes.any(|cause| {
        let kind = cause.downcast_ref().map(IoError::kind);
        matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    });
    let (sqlstate, hint) = match full {
        true => ("53100", "Make room on the disk of the data directory, or raise statement_memory."),
        false => ("58030", "Look after the disk of the data directory: `spill` in it holds temporary files."),
    };
    reached(sqlstate, format!("could not use a temporary file: {error}"), hint)
}

/// What a statement keeps in memory beyond `statement_memory`, in bytes.
pub(super) fn memory(limit: u64) -> Error {
    reached(
        "53200",
        format!("out of memory: the rows of a cursor need more than {}", show_bytes(limit)),
        "Fetch fewer rows at a time, declare it NO SCROLL and WITHOUT HOLD, or raise statement_memory.",
    )
}

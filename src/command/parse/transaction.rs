//! `BEGIN`, `COMMIT`, `ROLLBACK`, savepoints and transaction modes.

use super::cursor::Cursor;
use super::unsupported;
use crate::command::ast::{Session, TransactionModes};
use crate::error::Result;
use datafusion::sql::sqlparser::tokenizer::Token;

const MODES: &str = "ISOLATION LEVEL {SERIALIZABLE | REPEATABLE READ | READ COMMITTED | READ UNCOMMITTED}, \
    READ {ONLY | WRITE}, [NOT] DEFERRABLE";

/// After the word BEGIN.
pub(super) fn begin(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("BEGIN [WORK | TRANSACTION] [READ {ONLY | WRITE}] [ISOLATION LEVEL ...]");
    cursor.accept_one_of(&["WORK", "TRANSACTION"]);
    modes(cursor).map(Session::Begin)
}

/// After the word START.
pub(super) fn start(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("START TRANSACTION [READ {ONLY | WRITE}] [ISOLATION LEVEL ...]");
    cursor.expect(&["TRANSACTION"])?;
    modes(cursor).map(Session::StartTransaction)
}

/// After the word COMMIT or END.
pub(super) fn commit(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("COMMIT [WORK | TRANSACTION]");
    if cursor.at(&["PREPARED"]) {
        return Err(two_phase());
    }
    cursor.accept_one_of(&["WORK", "TRANSACTION"]);
    no_chain(cursor)?;
    Ok(Session::Commit)
}

/// After the word ROLLBACK or ABORT.
pub(super) fn rollback(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("ROLLBACK [WORK | TRANSACTION] [TO [SAVEPOINT] name]");
    if cursor.at(&["PREPARED"]) {
        return Err(two_phase());
    }
    cursor.accept_one_of(&["WORK", "TRANSACTION"]);
    if cursor.accept(&["TO"]) {
        cursor.accept(&["SAVEPOINT"]);
        return cursor.name().map(Session::RollbackTo);
    }
    no_chain(cursor)?;
    Ok(Session::Rollback)
}

/// After the word RELEASE.
pub(super) fn release(cursor: &mut Cursor<'_>) -> Result<Session> {
    cursor.form = Some("RELEASE [SAVEPOINT] name");
    cursor.accept(&["SAVEPOINT"]);
    cursor.name().map(Session::Release)
}

fn no_chain(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.accept(&["AND", "NO", "CHAIN"]) || !cursor.at(&["AND", "CHAIN"]) {
        return Ok(());
    }
    Err(unsupported::error("AND CHAIN", "BEGIN the next transaction by itself."))
}

/// The error for a transaction that outlives its session.
pub(super) fn two_phase() -> crate::error::Error {
    unsupported::error("two-phase commit", "COMMIT: a transaction only reads, there is nothing to prepare.")
}

/// `READ ONLY, ISOLATION LEVEL ...`, with or without commas; perhaps none at all.
pub(super) fn modes(cursor: &mut Cursor<'_>) -> Result<TransactionModes> {
    cursor.form = Some(MODES);
    let mut modes = TransactionModes::default();
    let mut comma = false;
    loop {
        if cursor.accept(&["ISOLATION"]) {
            cursor.expect(&["LEVEL"])?;
            modes.isolation = Some(match cursor.one_of(&["SERIALIZABLE", "REPEATABLE", "READ"])? {
                "SERIALIZABLE" => "serializable",
                "REPEATABLE" => cursor.expect(&["READ"]).map(|()| "repeatable read")?,
                _ => match cursor.one_of(&["COMMITTED", "UNCOMMITTED"])? {
                    "COMMITTED" => "read committed",
                    _ => "read uncommitted",
                },
            });
        } else if cursor.accept(&["READ"]) {
            modes.read_only = Some(cursor.one_of(&["ONLY", "WRITE"])? == "ONLY");
        } else if cursor.accept(&["NOT"]) {
            cursor.expect(&["DEFERRABLE"])?;
            modes.deferrable = Some(false);
        } else if cursor.accept(&["DEFERRABLE"]) {
            modes.deferrable = Some(true);
        } else if comma || !cursor.at_end() {
            return Err(cursor.expected(&["ISOLATION", "READ", "NOT", "DEFERRABLE"]));
        } else {
            return Ok(modes);
        }
        comma = cursor.accept_token(&Token::Comma);
    }
}

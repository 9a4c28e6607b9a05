//! What other systems have, and what to use instead. Nothing is accepted in silence.

use super::cursor::Cursor;
use crate::error::{Error, Result};

/// The error for a feature.
pub(super) fn error(what: &str, hint: &str) -> Error {
    Error::FeatureNotSupported { what: what.into(), hint: hint.into() }
}

const APPEND: &str = "Append lines to the source's files: a source only grows.";
const GONE: &str = "Drop and recreate the source and its views: what a source has delivered stays delivered.";
const NO_RIGHTS: &str = "CREATE USER, and GRANT on sources, views and schemas, say who may do what.";
const NO_CARE: &str = "Nothing of this kind needs care: leave it away.";
const NO_CODE: &str = "Write it as a query.";

/// Statements, by their first words.
const STATEMENTS: &[(&[&str], &str)] = &[
    (&["INSERT"], APPEND),
    (&["UPDATE"], APPEND),
    (&["DELETE"], GONE),
    (&["TRUNCATE"], GONE),
    (&["MERGE"], APPEND),
    (&["REPLACE"], APPEND),
    (&["UPSERT"], APPEND),
    (&["LOAD"], APPEND),
    (&["IMPORT"], "CREATE SOURCE s (...) WITH (connector = 'file', path = '...') FORMAT PLAIN ENCODE JSON."),
    (&["UNLOAD"], "SELECT the rows (psql --csv)."),
    (&["SECURITY"], NO_RIGHTS),
    (&["VACUUM"], NO_CARE),
    (&["ANALYZE"], NO_CARE),
    (&["ANALYSE"], NO_CARE),
    (&["REINDEX"], NO_CARE),
    (&["CLUSTER"], NO_CARE),
    (&["OPTIMIZE"], NO_CARE),
    (&["CHECKPOINT"], "FLUSH waits for a checkpoint."),
    (&["REFRESH"], "A materialized view is always up to date: SELECT from it. FLUSH waits for what is under way."),
    (&["COMMENT"], "Keep it in the statement: SHOW CREATE SOURCE gives it back with its comments."),
    (&["CALL"], NO_CODE),
    (&["DO"], NO_CODE),
    (&["LOCK"], "Leave it away: every query sees one snapshot, and every change is made alone."),
    (&["NOTIFY"], "Poll tidegate.rescale_history or tidegate.job_backfill_progress."),
    (&["USE"], "There is one database."),
    (&["KILL"], "SELECT pg_cancel_backend(pid) stops a query; CANCEL RESCALE id a rescale."),
    (&["DESCRIBE"], "Use \\d name in psql, or SELECT from information_schema.columns."),
    (&["DESC"], "Use \\d name in psql, or SELECT from information_schema.columns."),
    (&["RENAME"], "DROP it, then CREATE it under the new name."),
    (&["PRAGMA"], "SHOW ALL lists the session's settings, SHOW PARAMETERS the server's."),
    (&["ATTACH"], "There is one database."),
    (&["DETACH"], "There is one database."),
];

const TABLE: &str = "CREATE SOURCE and CREATE MATERIALIZED VIEW: rows come from a source, and a view keeps them.";
const VIEW: &str = "CREATE MATERIALIZED VIEW name AS SELECT ...";
const ONE_SCHEMA: &str = "Sources and materialized views live in schema public of the one database.";
const FRAGMENT: &str = "ALTER SOURCE s SET PARALLELISM = n moves the source's fragment and its scans.";

/// Objects that `CREATE`, `ALTER` and `DROP` know elsewhere, by the words that name their kind.
const OBJECTS: &[(&[&str], &str)] = &[
    (&["TABLE"], TABLE),
    (&["LOCAL", "TEMPORARY", "TABLE"], TABLE),
    (&["LOCAL", "TEMP", "TABLE"], TABLE),
    (&["TEMPORARY", "TABLE"], TABLE),
    (&["TEMP", "TABLE"], TABLE),
    (&["TEMP"], TABLE),
    (&["TEMPORARY"], TABLE),
    (&["LOCAL"], TABLE),
    (&["GLOBAL"], TABLE),
    (&["UNLOGGED"], TABLE),
    (&["FOREIGN"], TABLE),
    (&["EXTERNAL"], TABLE),
    (&["VIEW"], VIEW),
    (&["RECURSIVE"], VIEW),
    (&["SINK"], "SELECT from the materialized view, or declare a cursor over it."),
    (&["SUBSCRIPTION"], "SELECT from the materialized view, or declare a cursor over it."),
    (&["INDEX"], "Leave it away: a materialized view is read in the order of its rows."),
    (&["UNIQUE"], "Leave it away: a source only appends, and (_split, _offset) is the key of its rows."),
    (&["FRAGMENT"], FRAGMENT),
    (&["SCHEMA"], ONE_SCHEMA),
    (&["DATABASE"], ONE_SCHEMA),
    (&["TABLESPACE"], ONE_SCHEMA),
    (&["CONNECTION"], "Give the connector's options in CREATE SOURCE ... WITH (...)."),
    (&["SECRET"], "Give the connector's options in CREATE SOURCE ... WITH (...)."),
    (&["GROUP"], NO_RIGHTS),
    (&["POLICY"], NO_RIGHTS),
    (&["DEFAULT", "PRIVILEGES"], "GRANT ... ON SCHEMA public holds for all that is in it, also what comes later."),
    (&["SYSTEM"], "SET changes a setting for the session; the server's configuration for all."),
    (&["FUNCTION"], NO_CODE),
    (&["AGGREGATE"], NO_CODE),
    (&["PROCEDURE"], NO_CODE),
    (&["TRIGGER"], NO_CODE),
    (&["RULE"], NO_CODE),
    (&["OPERATOR"], NO_CODE),
    (&["CAST"], NO_CODE),
    (&["LANGUAGE"], NO_CODE),
    (&["TYPE"], "Use the types that there are; jsonb holds the rest."),
    (&["DOMAIN"], "Use the types that there are; jsonb holds the rest."),
    (&["COLLATION"], "Leave it away: text is compared by its bytes."),
    (&["SEQUENCE"], "(_split, _offset) numbers the rows."),
    (&["EXTENSION"], "Leave it away: what there is, is built in."),
    (&["SERVER"], "CREATE SOURCE with the connector that reads from there."),
    (&["PUBLICATION"], "SELECT from the materialized view, or declare a cursor over it."),
    (&["STATISTICS"], NO_CARE),
];

const DROP: &str = "DROP SOURCE name drops a source, DROP MATERIALIZED VIEW name a view.";

/// What sources and views may be taken for when they are dropped.
const DROPPED: &[(&[&str], &str)] = &[(&["TABLE"], DROP), (&["FOREIGN", "TABLE"], DROP), (&["VIEW"], DROP)];

fn refuse(cursor: &Cursor<'_>, before: &str, known: &[(&[&str], &str)]) -> Result<()> {
    match known.iter().find(|(words, _)| cursor.at(words)) {
        Some((words, hint)) => Err(error(&format!("{before}{}", words.join(" ")), hint)),
        None => Ok(()),
    }
}

/// Refuses a statement of other systems, which may follow on other words.
pub(super) fn check_statement(cursor: &Cursor<'_>, before: &str) -> Result<()> {
    if before.starts_with("EXPLAIN") && (cursor.at(&["CREATE"]) || cursor.at(&["DROP"])) {
        let hint = "EXPLAIN works on SELECT, and on ALTER ... SET PARALLELISM.";
        return Err(error(&format!("EXPLAIN {}", if cursor.at(&["DROP"]) { "DROP" } else { "CREATE" }), hint));
    }
    refuse(cursor, before, STATEMENTS)
}

/// Refuses an object of other systems behind CREATE, ALTER or DROP.
pub(super) fn check_object(cursor: &Cursor<'_>, statement: &'static str) -> Result<()> {
    if statement == "DROP" {
        refuse(cursor, "DROP ", DROPPED)?;
    }
    refuse(cursor, &format!("{statement} "), OBJECTS)
}

/// The first words of all statements that are known and refused.
pub(super) fn first_words() -> impl Iterator<Item = &'static str> {
    STATEMENTS.iter().map(|(words, _)| words[0])
}

//! `SHOW`.

use super::cursor::Cursor;
use super::unsupported;
use crate::command::ast::{Command, Session, Show, Statement};
use crate::error::Result;

const FORM: &str = "SHOW {JOBS | SOURCES | MATERIALIZED VIEWS | CREATE SOURCE name | CREATE MATERIALIZED VIEW name | \
    PARAMETERS | ALL | setting}";
const LIST: &str = "SHOW {JOBS | SOURCES | MATERIALIZED VIEWS | PARAMETERS}, or SELECT from rw_catalog to filter";

/// What RisingWave shows and Tidegate has as a table.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["TABLES"], "SHOW MATERIALIZED VIEWS, or SELECT from information_schema.tables."),
    (&["VIEWS"], "SHOW MATERIALIZED VIEWS, or SELECT from information_schema.tables."),
    (&["INTERNAL", "TABLES"], "SELECT * FROM rw_catalog.rw_internal_tables."),
    (&["COLUMNS"], "SELECT from information_schema.columns."),
    (&["SCHEMAS"], "SELECT * FROM rw_catalog.rw_schemas."),
    (&["DATABASES"], "SELECT * FROM rw_catalog.rw_databases."),
    (&["USERS"], "SELECT * FROM rw_catalog.rw_users."),
    (&["CLUSTER"], "SELECT * FROM rw_catalog.rw_worker_nodes."),
    (&["FRAGMENTS"], "SELECT * FROM rw_catalog.rw_fragments."),
    (&["SINKS"], "There are none."),
    (&["INDEXES"], "There are none."),
    (&["FUNCTIONS"], "SELECT from pg_catalog.pg_proc."),
    (&["CONNECTIONS"], "There are none."),
    (&["SUBSCRIPTIONS"], "There are none."),
    (&["SECRETS"], "There are none."),
    (&["PROCESSLIST"], "SELECT from pg_catalog.pg_stat_activity."),
    (&["CREATE", "TABLE"], "SHOW CREATE SOURCE name, or SHOW CREATE MATERIALIZED VIEW name."),
    (&["CREATE", "VIEW"], "SHOW CREATE MATERIALIZED VIEW name."),
    (&["CREATE", "SINK"], "There are none."),
    (&["CREATE", "INDEX"], "There are none."),
];

/// After the word SHOW.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.form = Some(FORM);
    if let Some((words, hint)) = ELSEWHERE.iter().find(|(words, _)| cursor.at(words)) {
        return Err(unsupported::error(&format!("SHOW {}", words.join(" ")), hint));
    }
    let statement = if let Some(show) = object(cursor)? {
        Statement::Command(Command::Show(show))
    } else {
        Statement::Session(match setting(cursor)? {
            Some(name) => Session::Show(name),
            None => Session::ShowAll,
        })
    };
    cursor.expect_end()?;
    Ok(statement)
}

fn object(cursor: &mut Cursor<'_>) -> Result<Option<Show>> {
    let show = match cursor.accept_one_of(&["JOBS", "SOURCES", "MATERIALIZED", "PARAMETERS", "CREATE"]) {
        Some("JOBS") => Show::Jobs,
        Some("SOURCES") => Show::Sources,
        Some("PARAMETERS") => Show::Parameters,
        Some("MATERIALIZED") => cursor.expect(&["VIEWS"]).map(|()| Show::MaterializedViews)?,
        Some(_) => match cursor.one_of(&["SOURCE", "MATERIALIZED"])? {
            "SOURCE" => Show::CreateSource(cursor.relation("source")?),
            _ => {
                cursor.expect(&["VIEW"])?;
                Show::CreateMaterializedView(cursor.relation("materialized view")?)
            }
        },
        None => return Ok(None),
    };
    if !matches!(show, Show::CreateSource(_) | Show::CreateMaterializedView(_)) {
        cursor.form = Some(LIST);
    }
    Ok(Some(show))
}

/// The name of a setting, for SHOW and RESET; `None` for ALL.
pub(super) fn setting(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if cursor.accept(&["ALL"]) {
        Ok(None)
    } else if cursor.accept(&["TIME", "ZONE"]) {
        Ok(Some("timezone".into()))
    } else if cursor.accept(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        Ok(Some("transaction_isolation".into()))
    } else if cursor.accept(&["SESSION", "AUTHORIZATION"]) {
        Ok(Some("session_authorization".into()))
    } else {
        cursor.dotted().map(|name| Some(name.to_ascii_lowercase()))
    }
}

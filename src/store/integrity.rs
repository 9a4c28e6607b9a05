//! Whether a state file is whole, as far as SQLite can tell: its pages carry no checksums, so a value that was changed
//! in place, within its page's rules, isn't found.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::error::{Error, Result};

/// A file of up to so many bytes is looked at in full at every start, which takes a second at most once it is cached.
/// Of a larger one the rows of views are left out: everything that the engine decides by is still looked at.
const FULL_LOOK: u64 = 256 << 20;

/// Findings that are told.
const TOLD: usize = 5;

/// A look at a file that is being opened: pages and rows, not whether indexes agree with their tables.
///
/// # Errors
/// [`Error::DamagedFile`] with what was found.
pub fn quick(connection: &Connection, path: &Path) -> Result<()> {
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size <= FULL_LOOK {
        return verdict(findings(connection, "PRAGMA quick_check"), path);
    }
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'mv_[0-9]*' ORDER BY name")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(|error| damaged_or(path, error))?;
    for table in tables {
        verdict(findings(connection, &format!("PRAGMA quick_check({})", super::view_rows::quote(&table))), path)?;
    }
    Ok(())
}

/// A look at everything, indexes too. It takes as long as reading the file several times.
///
/// # Errors
/// [`Error::DamagedFile`] with what was found.
pub fn full(connection: &Connection, path: &Path) -> Result<()> {
    verdict(findings(connection, "PRAGMA integrity_check"), path)
}

fn findings(connection: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(pragma)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(row.get(0)?);
    }
    Ok(found)
}

fn verdict(found: rusqlite::Result<Vec<String>>, path: &Path) -> Result<()> {
    let found = found.map_err(|error| damaged_or(path, error))?;
    if found == ["ok"] {
        return Ok(());
    }
    let mut detail = found.iter().take(TOLD).cloned().collect::<Vec<_>>().join("\n");
    if found.len() > TOLD {
        detail.push_str(&format!("\n{} more ...", found.len() - TOLD));
    }
    Err(damaged(path, detail))
}

/// The error of a file with this wrong in it.
pub fn damaged(path: &Path, detail: impl Into<String>) -> Error {
    Error::DamagedFile { file: path.display().to_string(), detail: detail.into() }
}

/// SQLite's error, or that of a damaged file if that is what it says.
pub fn damaged_or(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(path, error.to_string()),
        _ => Error::Store { context: "looking at the state file", source: error },
    }
}

//! A page for people: every view with how far it is, and the last rescales.

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::clock;
use crate::error::Result;
use crate::store::Context;

/// The page. It reloads itself every two seconds.
pub fn page(connection: &Connection) -> Result<String> {
    let (epoch, at) = super::last_checkpoint(connection)?;
    let views = table(
        connection,
        "SELECT job_name, source_name, finished || ' of ' || splits, coalesce(round(progress_percent, 1) || ' %', ''),
                coalesce(blocked_by, '') FROM \"tidegate.job_backfill_progress\" ORDER BY job_name",
        &["view", "source", "splits finished", "progress", "blocked by"],
    )?;
    let rescales = table(
        connection,
        "SELECT id, source_name, target, decision, datetime(requested_at / 1000000, 'unixepoch'), requested_by
         FROM rescales WHERE target <> '' ORDER BY id DESC LIMIT 20",
        &["rescale", "source", "target", "decision", "requested at (UTC)", "by"],
    )?;
    Ok(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2><title>Tidegate</title>\
         <style>body{{font:15px system-ui;margin:2em}}td,th{{text-align:left;padding:.2em 1em .2em 0}}</style>\
         <h1>Tidegate</h1><p>Epoch {epoch}, committed {}.</p><h2>Backfills</h2>{views}<h2>Rescales</h2>{rescales}</html>",
        clock::display(at)
    ))
}

fn table(connection: &Connection, sql: &str, columns: &[&str]) -> Result<String> {
    let mut statement = connection.prepare_cached(sql).context("reading the status")?;
    let rows = statement
        .query_map([], |row| (0..columns.len()).map(|index| row.get(index).map(text)).collect::<Result<Vec<_>, _>>())
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .context("reading the status")?;
    let cells = |tag: &str, row: &[String]| -> String {
        row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let head: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>", cells("td", row))).collect();
    Ok(format!("<table><tr>{}</tr>{body}</table>", cells("th", &head)))
}

fn text(value: Value) -> String {
    match value {
        Value::Null | Value::Blob(_) => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(value) => value,
    }
}

/// Names of views are whatever users choose.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

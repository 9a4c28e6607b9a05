//! What must be true: at every start of the process, and at the end of a run.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};
use tidegate::backfill::id::SplitId;

use super::client::{Known, Ledger, Told, results};
use super::world::{Source, value};

type Judged = Result<(), String>;

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Judged {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Rows of one or more text columns.
fn texts(file: &Connection, sql: &str) -> Vec<String> {
    let mut statement = file.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let cells = (0..columns).map(|at| row.get::<_, Option<String>>(at).map(Option::unwrap_or_default));
        Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join(" | "))
    };
    statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

/// What holds at every moment.
pub fn always(file: &Connection, ledger: &Ledger) -> Judged {
    let violations = texts(file, "SELECT job_name, split_id, message FROM invariant_violations");
    ensure(violations.is_empty(), || format!("invariant violations: {violations:?}"))?;
    what_was_told(file, ledger)?;
    no_duplicates(file)?;
    parallelism(file)
}

fn what_was_told(file: &Connection, ledger: &Ledger) -> Judged {
    for (statement, told) in &ledger.alters {
        let found: Option<(i64, String)> = file
            .query_row("SELECT id, decision FROM rescales WHERE statement = ?1", [statement], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .unwrap();
        let decided = |id: i64, allowed: &[&str]| {
            found.as_ref().is_some_and(|(found, decision)| *found == id && allowed.contains(&decision.as_str()))
        };
        let holds = match told {
            Told::Nothing => true,
            Told::NotDone => found.is_none(),
            Told::Unchanged => found.as_ref().is_some_and(|(_, decision)| decision == "committed"),
            Told::Refused => found.as_ref().is_some_and(|(_, decision)| decision == "refused"),
            Told::Committed(id) => decided(id.0, &["committed"]),
            Told::Deferred(id) => match ledger.cancels.get(id) {
                None => decided(id.0, &["pending", "committed"]),
                Some(false) => decided(id.0, &["pending", "committed", "cancelled"]),
                Some(true) => decided(id.0, &["cancelled"]),
            },
        };
        ensure(holds, || format!("{statement}: told {told:?}, but the history says {found:?}"))?;
    }
    for (view, known) in &ledger.views {
        let exists: bool = file
            .query_row("SELECT EXISTS (SELECT 1 FROM relations WHERE name = ?1)", [view], |row| row.get(0))
            .unwrap();
        let holds = match known {
            Known::Unknown => true,
            Known::Exists => exists,
            Known::Gone => !exists,
        };
        ensure(holds, || format!("view {view}: told {known:?}, but it exists: {exists}"))?;
    }
    Ok(())
}

fn views(file: &Connection) -> Vec<(i32, String, usize)> {
    let mut statement = file
        .prepare("SELECT j.id, r.name, r.definition FROM jobs j JOIN relations r ON r.id = j.id ORDER BY j.id")
        .unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?.parse().unwrap()));
    statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

fn no_duplicates(file: &Connection) -> Judged {
    for (job, view, _) in views(file) {
        let twice = texts(
            file,
            &format!(
                "SELECT _split || ' ' || _offset || ' ' || v FROM mv_{job} GROUP BY _source_id, _split, _offset, v HAVING count(*) > 1"
            ),
        );
        // Zero is its own negative, and one query emits both.
        let twice: Vec<&String> = twice.iter().filter(|row| !row.ends_with(" 0")).collect();
        ensure(twice.is_empty(), || format!("view {view} holds rows twice: {twice:?}"))?;
    }
    Ok(())
}

/// The actors are those of the last committed rescale.
fn parallelism(file: &Connection) -> Judged {
    let wrong = texts(
        file,
        "SELECT r.name, (SELECT count(*) FROM actors a WHERE a.fragment_id = f.id), group_concat(x.to_parallelism)
         FROM sources s JOIN relations r ON r.id = s.id JOIN fragments f ON f.source_id = s.id
         JOIN rescales x ON x.source_id = s.id AND x.decision = 'committed'
         WHERE x.epoch = (SELECT max(epoch) FROM rescales y WHERE y.source_id = s.id AND y.decision = 'committed')
         GROUP BY f.id
         HAVING NOT max(x.to_parallelism = (SELECT count(*) FROM actors a WHERE a.fragment_id = f.id))",
    );
    ensure(wrong.is_empty(), || format!("actors, and the last committed rescale: {wrong:?}"))
}

/// Whether nothing is left to do.
pub fn is_drained(file: &Connection, sources: &BTreeMap<String, Source>) -> Judged {
    let pending = texts(file, "SELECT statement, waiting_json FROM rescales WHERE decision = 'pending'");
    ensure(pending.is_empty(), || format!("rescales are still pending: {pending:?}"))?;
    let unfinished = texts(
        file,
        "SELECT r.name, s.split_id, s.state FROM backfill_states s JOIN fragments f ON f.id = s.fragment_id
         JOIN relations r ON r.id = f.job_id WHERE s.state ->> '$.state' != 'Finished'",
    );
    ensure(unfinished.is_empty(), || format!("splits are not finished: {unfinished:?}"))?;
    let creating = texts(file, "SELECT r.name FROM jobs j JOIN relations r ON r.id = j.id WHERE status = 'creating'");
    ensure(creating.is_empty(), || format!("views are still being created: {creating:?}"))?;
    exactly_once(file, sources)
}

/// Every view holds each row of its sources once, with the right value.
fn exactly_once(file: &Connection, sources: &BTreeMap<String, Source>) -> Judged {
    for (job, view, query) in views(file) {
        let mut expected: Vec<(String, SplitId, i64, i64)> = Vec::new();
        for (name, source) in sources {
            for (split, offset) in source.rows() {
                let values = results(query, name, value(&split, offset));
                expected.extend(values.into_iter().map(|v| (name.clone(), split.clone(), offset, v)));
            }
        }
        let mut statement = file
            .prepare(&format!(
                "SELECT r.name, _split, _offset, v FROM mv_{job} JOIN relations r ON r.id = _source_id ORDER BY 1, 2, 3, 4"
            ))
            .unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, SplitId::from(row.get::<_, String>(1)?), row.get(2)?, row.get(3)?))
        };
        let found: Vec<(String, SplitId, i64, i64)> =
            statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap();
        expected.sort();
        let missing: Vec<_> = expected.iter().filter(|row| !found.contains(row)).take(5).collect();
        let surplus: Vec<_> = found.iter().filter(|row| !expected.contains(row)).take(5).collect();
        ensure(found == expected, || {
            format!(
                "view {view} holds {} rows of {}; missing: {missing:?}; wrong: {surplus:?}",
                found.len(),
                expected.len()
            )
        })?;
    }
    Ok(())
}

/// Every source's live readers hold what is committed. Readers without a split say nothing: a new scan actor has one
/// until its first checkpoint.
pub fn assignment(file: &Connection, sources: &BTreeMap<String, Source>) -> Judged {
    for (name, source) in sources {
        let mut committed: Vec<String> = texts(
            file,
            &format!(
                "SELECT coalesce((SELECT group_concat(split_id ORDER BY split_id) FROM split_assignments sa WHERE sa.actor_id = a.id), '')
                 FROM actors a JOIN fragments f ON f.id = a.fragment_id JOIN relations r ON r.id = f.job_id
                 WHERE r.name = '{name}'"
            ),
        );
        let mut running = source.held();
        running.retain(|splits| !splits.is_empty());
        committed.retain(|splits| !splits.is_empty());
        committed.sort();
        running.sort();
        ensure(committed == running, || format!("source {name}: committed {committed:?}, running {running:?}"))?;
    }
    Ok(())
}

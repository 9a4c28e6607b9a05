//! Cursors: DECLARE, FETCH and MOVE over queries.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::sql::sqlparser::ast;
use tokio_util::sync::CancellationToken;

use super::encode::{Column, Style};
use super::rows::{Reply, Rows, Tag};
use super::session::Session;
use super::{encode, errors, limits};
use crate::catalog::held;
use crate::clock::now_micros;
use crate::command::Parsed;
use crate::command::ast::{Direction, Session as Ast, Statement};
use crate::error::{Error, Result};

/// A cursor.
pub(super) struct Cursor {
    pub columns: Arc<[Column]>,
    /// How many savepoints were open when it was declared: going back behind the last of them undoes it.
    pub depth: usize,
    /// Its row of `pg_cursors`.
    pub held: held::Cursor,
    content: Content,
}

enum Content {
    /// Rows as they come, only forwards, and how many of them have been passed.
    Stream { rows: Box<Rows>, at: u64 },
    /// All rows, and where the cursor stands: on row `at`, counted from 1; 0 is before the first.
    All { rows: RecordBatch, at: usize },
}

/// No such cursor.
pub(super) fn missing(name: &str) -> Error {
    Error::Session { sqlstate: "34000", message: format!("cursor \"{name}\" does not exist") }
}

impl Session {
    /// `DECLARE name CURSOR FOR query`.
    pub(super) async fn declare(&mut self, statement: &Ast, token: &CancellationToken) -> Result<Reply> {
        let Ast::DeclareCursor { name, scroll, hold, binary, query, query_text } = statement else {
            return Err(Error::Internal("not a DECLARE".into()));
        };
        if !hold {
            self.transaction.require_block("DECLARE CURSOR")?;
        }
        if self.cursors.contains_key(name) || self.portals.contains_key(name) {
            return Err(Error::Session { sqlstate: "42P03", message: format!("cursor \"{name}\" already exists") });
        }
        limits::check_cursors(&self.shared, "cursors", self.cursors.len())?;
        let mut rows = self.open(query, query_text, token).await?;
        if *binary {
            rows = rows.with_formats(&[1])?;
        }
        let columns = Arc::clone(&rows.columns);
        let content = if *hold || *scroll == Some(true) {
            let batches = rows.take(usize::MAX, self.statement_memory(), &self.interrupt(token)).await?;
            Content::All { rows: concatenate(&columns, &batches)?, at: 0 }
        } else {
            Content::Stream { rows: Box::new(rows), at: 0 }
        };
        let depth = self.transaction.savepoints();
        let held = held::Cursor {
            name: name.clone(),
            text: self.text.clone(),
            hold: *hold,
            binary: *binary,
            scroll: scroll.unwrap_or(matches!(content, Content::All { .. })),
            declared_at: now_micros(),
        };
        self.cursors.insert(name.clone(), Cursor { columns, depth, held, content });
        Ok(Reply::done("DECLARE CURSOR"))
    }

    /// Runs a query that is part of another statement.
    pub(super) async fn open(&mut self, query: &ast::Statement, text: &str, token: &CancellationToken) -> Result<Rows> {
        let statement = Statement::Query(Box::new(query.clone()));
        let parsed = Parsed { text: text.to_owned(), statement, params: 0, position: 1 };
        let prepared = self.prepare(parsed, &[])?;
        match Box::pin(self.execute(&prepared, &[], token)).await? {
            Reply::Rows(rows) => Ok(rows),
            _ => Err(Error::Internal("a query gave no rows".into())),
        }
    }

    /// The bytes that rows to keep may have: those of all cursors that keep theirs count.
    fn statement_memory(&self) -> usize {
        let kept = self.cursors.values().map(|cursor| match &cursor.content {
            Content::All { rows, .. } => rows.get_array_memory_size(),
            Content::Stream { .. } => 0,
        });
        let limit = crate::limits::parse_bytes(&self.settings.text("statement_memory")).unwrap_or(u64::MAX);
        usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(kept.sum())
    }

    /// `FETCH` and `MOVE`.
    pub(super) async fn fetch(
        &mut self,
        name: &str,
        direction: Direction,
        move_only: bool,
        token: &CancellationToken,
    ) -> Result<Reply> {
        let mut cursor = match self.cursors.remove(name) {
            Some(cursor) => cursor,
            None => self.begun_portal(name).ok_or_else(|| missing(name))?,
        };
        let batches = match &mut cursor.content {
            Content::Stream { rows, at } => {
                let (limit, only_last) = match direction {
                    Direction::ForwardAll => (Some(u64::MAX), false),
                    Direction::Forward(count) => (u64::try_from(count).ok(), false),
                    Direction::Relative(count) => (u64::try_from(count).ok(), true),
                    Direction::Absolute(row) => (u64::try_from(row).ok().and_then(|row| row.checked_sub(*at)), true),
                    Direction::BackwardAll => (None, false),
                };
                match limit.filter(|limit| *limit > 0) {
                    Some(limit) => {
                        let count = usize::try_from(limit).unwrap_or(usize::MAX);
                        let taken = rows.take(count, self.statement_memory(), &self.interrupt(token)).await;
                        taken.map(|batches| {
                            let passed = batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
                            // Behind the last row is a place too.
                            *at = at.saturating_add(if passed < limit { passed + 1 } else { passed });
                            match only_last {
                                true if passed < limit => Vec::new(),
                                true => last_row(batches),
                                false => batches,
                            }
                        })
                    }
                    None => Err(only_forwards()),
                }
            }
            Content::All { rows, at } => Ok(seek(rows, at, direction)),
        };
        let columns = Arc::clone(&cursor.columns);
        match (self.portals.get_mut(name), cursor.content) {
            (Some(portal), Content::Stream { rows, .. }) => portal.go_on(rows),
            (_, content) => {
                self.cursors.insert(name.to_owned(), Cursor { content, ..cursor });
            }
        }
        let batches = batches?;
        if move_only {
            let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
            return Ok(Reply::Done(format!("MOVE {count}")));
        }
        let style = Style::of(&self.settings);
        Ok(Reply::Rows(Rows::from_batches(columns, batches, Tag::Counted("FETCH"), style)))
    }
}

fn only_forwards() -> Error {
    Error::Session { sqlstate: "55000", message: "cursor can only scan forward; declare it with SCROLL".into() }
}

impl Session {
    /// A portal of the extended protocol that has begun, as a cursor that only goes on. Its place isn't counted.
    fn begun_portal(&mut self, name: &str) -> Option<Cursor> {
        let portal = self.portals.get_mut(name)?;
        let rows = portal.begun()?;
        let (columns, held) = (Arc::clone(&rows.columns), portal.held(name));
        Some(Cursor { columns, depth: 0, held, content: Content::Stream { rows, at: u64::MAX } })
    }
}

/// All that `RELATIVE n` passes over but the last.
fn last_row(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    batches.last().map(|batch| batch.slice(batch.num_rows() - 1, 1)).into_iter().collect()
}

/// Moves the cursor and gives the rows that it passes, in the order in which it does.
fn seek(rows: &RecordBatch, at: &mut usize, direction: Direction) -> Vec<RecordBatch> {
    let (count, here) = (rows.num_rows() as i64, *at as i64);
    let clamp = |position: i64| position.clamp(0, count + 1);
    let one = |position: i64| if (1..=count).contains(&position) { vec![position] } else { vec![] };
    let (passed, end): (Vec<i64>, i64) = match direction {
        Direction::Forward(0) | Direction::Relative(0) => (one(here), here),
        Direction::Forward(n) if n > 0 => {
            let end = clamp(here.saturating_add(n));
            ((here + 1..=end.min(count)).collect(), end)
        }
        Direction::Forward(n) => {
            let end = clamp(here.saturating_add(n));
            ((end.max(1)..here).rev().collect(), end)
        }
        Direction::ForwardAll => ((here + 1..=count).collect(), count + 1),
        Direction::BackwardAll => ((1..here).rev().collect(), 0),
        Direction::Absolute(n) => {
            let end = clamp(if n < 0 { count + 1 + n } else { n });
            (one(end), end)
        }
        Direction::Relative(n) => {
            let end = clamp(here.saturating_add(n));
            (one(end), end)
        }
    };
    *at = end as usize;
    if passed.windows(2).all(|pair| pair[0] < pair[1]) {
        return passed.first().map(|first| rows.slice(*first as usize - 1, passed.len())).into_iter().collect();
    }
    passed.into_iter().map(|position| rows.slice(position as usize - 1, 1)).collect()
}

fn concatenate(columns: &Arc<[Column]>, batches: &[RecordBatch]) -> Result<RecordBatch> {
    match batches.first() {
        Some(first) => concat_batches(&first.schema(), batches).map_err(|error| errors::from_datafusion(error.into())),
        None => {
            let fields: Vec<FieldRef> = columns.iter().map(|column| Arc::clone(&column.field)).collect();
            let empty = RecordBatch::new_empty(Arc::new(Schema::new(fields)));
            encode::batch_of(columns, empty.columns().to_vec(), 0)
        }
    }
}

//! How many relations a query has once its WITH queries stand where they are named. Each that names the one before twice
//! doubles it, and a plan of what a short text says could take all memory.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{ObjectNamePart, Query, Statement, TableFactor, Visit as _, Visitor};

use super::rewrite::fold;
use crate::error::{Error, Result};

/// The most relations. A plan of so many takes about half a second.
const MOST: u64 = 4096;

/// Refuses a statement that has too many.
///
/// # Errors
/// [`Error::LimitReached`], with 54001.
pub fn check(statement: &Statement) -> Result<()> {
    let mut sizes = Sizes { open: vec![Open::default()] };
    if statement.visit(&mut sizes).is_continue() {
        return Ok(());
    }
    Err(Error::LimitReached {
        sqlstate: "54001",
        message: format!(
            "the statement names more than {MOST} relations, each WITH query counted wherever it is named"
        ),
        hint: "Name each WITH query fewer times.".into(),
    })
}

/// The queries around the place that is visited, the outermost first.
struct Sizes {
    open: Vec<Open>,
}

#[derive(Default)]
struct Open {
    /// Its WITH queries that are still to come. They come before all else of it.
    coming: VecDeque<String>,
    /// The sizes of those that have come.
    with: HashMap<String, u64>,
    size: u64,
}

impl Sizes {
    fn add(&mut self, size: u64) -> ControlFlow<()> {
        let Some(open) = self.open.last_mut() else { return ControlFlow::Continue(()) };
        open.size = open.size.saturating_add(size);
        if open.size > MOST { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Sizes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        let coming = with.map(|cte| fold(&cte.alias.name)).collect();
        self.open.push(Open { coming, ..Open::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let size = self.open.pop().map_or(0, |open| open.size);
        match self.open.last_mut().and_then(|open| Some((open.coming.pop_front()?, open))) {
            Some((name, open)) => {
                open.with.insert(name, size);
                ControlFlow::Continue(())
            }
            None => self.add(size),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name: parts, .. } = factor else { return ControlFlow::Continue(()) };
        let known = match parts.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => {
                let name = fold(ident);
                self.open.iter().rev().find_map(|open| open.with.get(&name)).copied()
            }
            _ => None,
        };
        self.add(known.map_or(1, |size| size.max(1)))
    }
}

//! WITH queries that have the name of one further out.
//!
//! PostgreSQL: the inner one is meant where both are known. DataFusion refuses it. Blocked by: its planner keeps the
//! names of all levels in one list. Remove when: `WITH t AS (SELECT 1) SELECT * FROM (WITH t AS (SELECT 2) SELECT * FROM t)`
//! is planned without this module.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Statement, TableAlias, TableFactor, VisitMut as _, VisitorMut,
};

use super::{UNIQUE, fold};

/// Gives those that stand further in names of their own.
pub fn part(statement: &mut Statement) {
    let _ = statement.visit(&mut Names { open: Vec::new(), count: 0 });
}

/// The queries around the place that is visited, the outermost first.
struct Names {
    open: Vec<Open>,
    count: usize,
}

/// The WITH queries of a query: their names, and those that they have now.
#[derive(Default)]
struct Open {
    /// Those that are still to come.
    coming: VecDeque<(String, Ident)>,
    known: HashMap<String, Ident>,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut open = Open::default();
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let name = fold(&cte.alias.name);
            // Two of one query are an error, in which they are to be named.
            let is_second = open.coming.iter().any(|(other, _)| *other == name);
            if !is_second && self.open.iter().any(|open| open.known.contains_key(&name)) {
                self.count += 1;
                cte.alias.name = Ident::with_quote('"', format!("{name}{UNIQUE}{}", self.count));
            }
            if recursive {
                open.known.insert(name.clone(), cte.alias.name.clone());
            }
            open.coming.push_back((name, cte.alias.name.clone()));
        }
        self.open.push(open);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.open.pop();
        if let Some(open) = self.open.last_mut()
            && let Some((name, new)) = open.coming.pop_front()
        {
            open.known.insert(name, new);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let [ObjectNamePart::Identifier(own)] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let own = own.clone();
        let known = self.open.iter().rev().find_map(|open| open.known.get(&fold(&own)));
        if let Some(new) = known.filter(|new| fold(new) != fold(&own)) {
            *name = ObjectName::from(vec![new.clone()]);
            alias.get_or_insert_with(|| TableAlias { explicit: true, name: own, columns: Vec::new(), at: None });
        }
        ControlFlow::Continue(())
    }
}

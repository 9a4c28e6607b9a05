//! A relation's name used as a value: the row as a record. DataFusion has no such thing; it is written out, as far as the
//! statement tells the relation's columns.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, Select, SelectItem, SetExpr, TableAliasColumnDef, TableFactor, VisitMut as _,
    VisitorMut,
};

use super::expressions::text;
use super::{call, fold};

/// Gives the columns of VALUES that have no name theirs: an alias may name fewer than there are.
pub fn name_all(factor: &mut TableFactor) {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return };
    let SetExpr::Values(values) = subquery.body.as_ref() else { return };
    let width = values.rows.first().map_or(0, |row| row.content.len());
    if alias.columns.is_empty() {
        return;
    }
    for n in alias.columns.len()..width {
        alias.columns.push(TableAliasColumnDef { name: Ident::new(format!("column{}", n + 1)), data_type: None });
    }
}

/// Writes the rows in the list of a SELECT out.
pub fn write_out(select: &mut Select) {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let relations: Vec<(Ident, Vec<Ident>)> = factors.filter_map(relation).collect();
    if relations.is_empty() {
        return;
    }
    struct Rows(Vec<(Ident, Vec<Ident>)>);
    impl VisitorMut for Rows {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundFieldAccess { root, access_chain } = expr {
                qualify(root, access_chain);
            }
            let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
            let is_column =
                |name: &Ident| self.0.iter().any(|(_, columns)| columns.iter().any(|c| fold(c) == fold(name)));
            if let Some((relation, columns)) = self.0.iter().find(|(relation, _)| fold(relation) == fold(name))
                && !is_column(name)
            {
                let parts = columns.iter().flat_map(|column| {
                    [text(fold(column)), Expr::CompoundIdentifier(vec![relation.clone(), column.clone()])]
                });
                *expr = call("named_struct", parts.collect());
            }
            ControlFlow::Continue(())
        }
    }
    let mut rows = Rows(relations);
    for item in &mut select.projection {
        let _ = item.visit(&mut rows);
    }
}

/// `t.a[1]` is an item of the column t.a, not of a row t.
fn qualify(root: &mut Expr, chain: &mut Vec<AccessExpr>) {
    if let (Expr::Identifier(relation), [AccessExpr::Dot(Expr::Identifier(column)), AccessExpr::Subscript(_), ..]) =
        (&*root, chain.as_slice())
    {
        *root = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
        chain.remove(0);
    }
}

/// A derived table's name and columns, if the statement tells them all.
fn relation(factor: &TableFactor) -> Option<(Ident, Vec<Ident>)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    let columns = columns(subquery)?;
    let named = alias.columns.iter().map(|column| column.name.clone());
    let rest = columns.into_iter().skip(alias.columns.len());
    Some((alias.name.clone(), named.chain(rest).collect()))
}

fn columns(query: &Query) -> Option<Vec<Ident>> {
    match query.body.as_ref() {
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            Some((1..=width).map(|n| Ident::new(format!("column{n}"))).collect())
        }
        SetExpr::Select(select) => select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
                SelectItem::UnnamedExpr(expr) => {
                    super::columns::column_name(expr).map(|name| Ident::with_quote('"', name))
                }
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

//! The columns of relations, as far as the statement and the catalog tell them.

use datafusion::logical_expr::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::records::is_items;
use super::{Relations, fold};

/// What a statement and the catalog tell of the columns of relations.
pub struct Known<'a> {
    relations: &'a dyn Relations,
    /// The WITH queries of each query around, with their columns.
    with: Vec<Vec<(String, Option<Vec<Ident>>)>>,
}

impl<'a> Known<'a> {
    pub fn new(relations: &'a dyn Relations) -> Self {
        Self { relations, with: Vec::new() }
    }

    /// Goes into a query. Where WITH names some of the columns of one of its queries, it names all then.
    pub fn open(&mut self, query: &mut Query) {
        self.with.push(Vec::new());
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let columns = self.of_query(&cte.query).map(|columns| renamed(Some(&cte.alias), columns));
            if let Some(columns) = columns.clone().filter(|_| !cte.alias.columns.is_empty()) {
                fill(&mut cte.alias, columns);
            }
            if let Some(known) = self.with.last_mut() {
                known.push((fold(&cte.alias.name), columns));
            }
        }
    }

    /// Leaves it.
    pub fn close(&mut self) {
        self.with.pop();
    }

    /// The columns of a relation in FROM, if they are known.
    pub fn of_factor(&self, factor: &TableFactor) -> Option<Vec<Ident>> {
        match factor {
            TableFactor::Derived { subquery, alias, .. } => {
                self.of_query(subquery).map(|columns| renamed(alias.as_ref(), columns))
            }
            TableFactor::Table { name, alias, args: None, .. } => {
                let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
                let (table, qualifier) = parts.split_last()?;
                let (table, schema) = (fold(table), qualifier.last().map(|schema| fold(schema)));
                let of_with =
                    |(name, columns): &(String, Option<Vec<Ident>>)| (*name == table).then(|| columns.clone());
                let columns = match self.with.iter().rev().flatten().find_map(of_with) {
                    Some(columns) if schema.is_none() => columns?,
                    _ => {
                        let names = self.relations.columns(schema.as_deref(), &table)?;
                        names.into_iter().map(|name| Ident::with_quote('"', name)).collect()
                    }
                };
                Some(renamed(alias.as_ref(), columns))
            }
            _ => None,
        }
    }

    fn of_query(&self, query: &Query) -> Option<Vec<Ident>> {
        self.of_body(&query.body)
    }

    fn of_body(&self, body: &SetExpr) -> Option<Vec<Ident>> {
        match body {
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                Some((1..=width).map(|n| Ident::new(format!("column{n}"))).collect())
            }
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Select(select) => {
                let items = select.projection.iter().map(|item| self.of_item(select, item));
                items.collect::<Option<Vec<_>>>().map(|items| items.concat())
            }
            _ => None,
        }
    }

    fn of_item(&self, select: &Select, item: &SelectItem) -> Option<Vec<Ident>> {
        let one = |name: &Ident| Some(vec![name.clone()]);
        match item {
            SelectItem::ExprWithAlias { alias, .. } => one(alias),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => one(name),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => one(parts.last()?),
            SelectItem::UnnamedExpr(expr) => {
                let name = super::columns::column_name(expr).unwrap_or_else(|| "?column?".into());
                Some(vec![Ident::with_quote('"', name)])
            }
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                let mut all = Vec::new();
                for from in &select.from {
                    all.extend(self.of_factor(&from.relation)?);
                    for join in &from.joins {
                        if !keeps_columns(&join.join_operator) {
                            return None;
                        }
                        all.extend(self.of_factor(&join.relation)?);
                    }
                }
                Some(all)
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if *options == WildcardAdditionalOptions::default() =>
            {
                let name = name.0.last()?.as_ident()?;
                let mut factors = select.from.iter().flat_map(factors);
                self.of_factor(factors.find(|factor| name_of(factor).is_some_and(|own| fold(&own) == fold(name)))?)
            }
            _ => None,
        }
    }
}

/// An alias may name the first of the columns.
fn renamed(alias: Option<&TableAlias>, columns: Vec<Ident>) -> Vec<Ident> {
    let named = alias.map_or(&[][..], |alias| alias.columns.as_slice());
    let rest = columns.into_iter().skip(named.len());
    named.iter().map(|column| column.name.clone()).chain(rest).collect()
}

/// Whether the columns of a join are those of its sides: USING and NATURAL make one of two.
fn keeps_columns(join: &JoinOperator) -> bool {
    match join {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => matches!(constraint, JoinConstraint::On(_) | JoinConstraint::None),
        _ => false,
    }
}

/// Gives the columns that an alias doesn't name theirs: it may name fewer than there are.
pub fn name_all(factor: &mut TableFactor, known: &Known<'_>) {
    let names_some = |alias: &Option<TableAlias>| alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
    if !matches!(factor, TableFactor::Derived { alias, .. } | TableFactor::Table { alias, .. } if names_some(alias)) {
        return;
    }
    let Some(columns) = known.of_factor(factor) else { return };
    if let TableFactor::Derived { alias: Some(alias), .. } | TableFactor::Table { alias: Some(alias), .. } = factor {
        fill(alias, columns);
    }
}

fn fill(alias: &mut TableAlias, columns: Vec<Ident>) {
    let unnamed = columns.into_iter().skip(alias.columns.len());
    alias.columns.extend(unnamed.map(|name| TableAliasColumnDef { name, data_type: None }));
}

/// What stands in a part of a FROM.
pub fn factors(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
}

/// The name that a relation goes by in its query.
pub fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), args: Some(_), .. } if is_items(factor) => Some(alias.name.clone()),
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
        TableFactor::Table { name, alias, args: None, .. } => match alias {
            Some(alias) => Some(alias.name.clone()),
            None => name.0.last()?.as_ident().cloned(),
        },
        _ => None,
    }
}

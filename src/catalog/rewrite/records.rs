//! A relation's name used as a value: the row as a record. DataFusion has no such thing; it is written out, as far as the
//! statement and the catalog tell the relation's columns.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::logical_expr::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    Value, VisitMut as _, VisitorMut, WildcardAdditionalOptions,
};

use super::expressions::text;
use super::{Relations, call, fold};

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

/// Writes the rows in a SELECT out: in its list, its conditions and what it groups by.
pub fn write_out(select: &mut Select, known: &Known<'_>) {
    let Select { from, projection, selection, having, group_by, .. } = select;
    let factors: Vec<(Ident, &TableFactor)> =
        from.iter().flat_map(factors).filter_map(|factor| Some((name_of(factor)?, factor))).collect();
    if factors.is_empty() {
        return;
    }
    let is_outer = from.iter().flat_map(|from| &from.joins).any(|join| {
        !matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
    });
    let mut rows = Rows { factors, known, columns: OnceCell::new(), is_outer, elsewhere: Vec::new() };
    for item in projection {
        let name = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        };
        let _ = item.visit(&mut rows);
        if let (SelectItem::UnnamedExpr(expr @ (Expr::Function(_) | Expr::Case { .. })), Some(alias)) =
            (&mut *item, name)
        {
            let expr = super::take(expr);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let _ = selection.visit(&mut rows);
    let _ = having.visit(&mut rows);
    let _ = group_by.visit(&mut rows);
}

/// Writes the rows of the relations of a FROM out.
struct Rows<'a> {
    factors: Vec<(Ident, &'a TableFactor)>,
    known: &'a Known<'a>,
    /// The columns of each, as far as they are known; once somebody asks.
    columns: OnceCell<Vec<Option<Vec<Ident>>>>,
    /// A row may be missing, and is NULL then.
    is_outer: bool,
    /// Of each query further in, whether names mean its own relations there.
    elsewhere: Vec<bool>,
}

impl VisitorMut for Rows<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.elsewhere.push(!matches!(query.body.as_ref(), SetExpr::Select(select) if select.from.is_empty()));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.elsewhere.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundFieldAccess { root, access_chain } = expr {
            qualify(root, access_chain);
        }
        if let Expr::Identifier(name) = &*expr
            && !self.elsewhere.contains(&true)
            && let Some(row) = self.row(name)
        {
            *expr = row;
        }
        ControlFlow::Continue(())
    }
}

impl Rows<'_> {
    /// The row of the relation of that name, unless it is a column's too.
    fn row(&self, name: &Ident) -> Option<Expr> {
        let place = self.factors.iter().position(|(relation, _)| fold(relation) == fold(name))?;
        let all =
            self.columns.get_or_init(|| self.factors.iter().map(|(_, factor)| self.known.of_factor(factor)).collect());
        if all.iter().flatten().flatten().any(|column| fold(column) == fold(name)) {
            return None;
        }
        let (relation, factor) = self.factors.get(place)?;
        if is_items(factor) {
            return Some(Expr::CompoundIdentifier(vec![relation.clone(), Ident::new("value")]));
        }
        let columns = all.get(place)?.as_ref()?;
        let value = |column: &Ident| Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
        let row = call("named_struct", columns.iter().flat_map(|c| [text(fold(c)), value(c)]).collect());
        if !self.is_outer {
            return Some(row);
        }
        let is_null = |column: &Ident| Expr::IsNull(Box::new(value(column)));
        let missing = columns.iter().map(is_null).reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        })?;
        Some(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition: missing, result: Expr::Value(Value::Null.into()) }],
            else_result: Some(Box::new(row)),
        })
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

/// What stands in a part of a FROM.
fn factors(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
}

/// The items of a document: the row of such a function is its only column's value.
fn is_items(factor: &TableFactor) -> bool {
    let TableFactor::Table { name, alias: Some(alias), args: Some(_), .. } = factor else { return false };
    let name = name.0.last().and_then(ObjectNamePart::as_ident).map(fold).unwrap_or_default();
    let items =
        ["json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text"];
    alias.columns.is_empty() && items.contains(&name.as_str())
}

/// The name that a relation goes by in its query.
fn name_of(factor: &TableFactor) -> Option<Ident> {
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
    fn of_factor(&self, factor: &TableFactor) -> Option<Vec<Ident>> {
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

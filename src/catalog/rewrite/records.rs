//! A relation's name used as a value: the row as a record. DataFusion has no such thing; it is written out, as far as the
//! statement and the catalog tell the relation's columns.

use std::cell::{OnceCell, RefCell};
use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::logical_expr::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, JoinOperator, NamedWindowDefinition, NamedWindowExpr, ObjectName,
    ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableAlias, TableFactor, TableWithJoins, Value, VisitMut as _, VisitorMut, WindowType,
};

use super::expressions::text;
use super::known::{Known, factors, name_of};
use super::{UNIQUE, call, fold};

/// Writes the rows in a SELECT out: in its list, its conditions, what it groups by and what its query orders by. `marks`: a
/// relation may get a column that tells whether its row is missing.
pub fn write_out(select: &mut Select, order: Option<&mut OrderBy>, known: &Known<'_>, marks: bool) {
    let Select { from, projection, selection, having, group_by, named_window, distinct, .. } = select;
    let factors: Vec<(Ident, &TableFactor)> =
        from.iter().flat_map(factors).filter_map(|factor| Some((name_of(factor)?, factor))).collect();
    if factors.is_empty() {
        return;
    }
    let missing = from.iter().flat_map(left_out).filter_map(|factor| Some(fold(&name_of(factor)?))).collect();
    let (columns, marked) = (OnceCell::new(), marks.then(RefCell::default));
    let mut rows = Rows { factors, known, columns, missing, marked, elsewhere: Vec::new() };
    if let (Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }), None) = (order, distinct) {
        let of_list = |key: &OrderByExpr| projection.iter().any(|item| is_named(item, &key.expr));
        rows.order(keys, of_list);
        keys.iter_mut().filter(|key| !of_list(key)).for_each(|key| {
            let _ = key.visit(&mut rows);
        });
    }
    for item in projection.iter_mut() {
        let name = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        };
        let _ = item.visit(&mut rows);
        if let (SelectItem::UnnamedExpr(expr), Some(alias)) = (&mut *item, name)
            && !matches!(expr, Expr::Identifier(_))
        {
            let expr = super::take(expr);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let _ = selection.visit(&mut rows);
    let _ = having.visit(&mut rows);
    let _ = group_by.visit(&mut rows);
    for NamedWindowDefinition(_, window) in named_window {
        if let NamedWindowExpr::WindowSpec(window) = window {
            rows.order(&mut window.order_by, |_| false);
        }
        let _ = window.visit(&mut rows);
    }
    for name in rows.marked.map(RefCell::into_inner).unwrap_or_default() {
        mark(from, projection, &name);
    }
}

/// Whether an item of a SELECT's list has the name that a key of ORDER BY says: then that is meant.
fn is_named(item: &SelectItem, key: &Expr) -> bool {
    let Expr::Identifier(key) = key else { return false };
    match item {
        SelectItem::ExprWithAlias { alias, .. } => fold(alias) == fold(key),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().is_some_and(|last| fold(last) == fold(key))
        }
        _ => false,
    }
}

/// Writes the rows of the relations of a FROM out.
struct Rows<'a> {
    factors: Vec<(Ident, &'a TableFactor)>,
    known: &'a Known<'a>,
    /// The columns of each, as far as they are known; once somebody asks.
    columns: OnceCell<Vec<Option<Vec<Ident>>>>,
    /// The relations of which a row may be missing: then it is NULL.
    missing: Vec<String>,
    /// Those of them that get a [`marker`].
    marked: Option<RefCell<Vec<Ident>>>,
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
            // What stands behind the dot is no relation.
            for part in access_chain {
                if let AccessExpr::Dot(part) = part
                    && let Expr::Identifier(name) = part
                {
                    *part = Expr::CompoundIdentifier(vec![name.clone()]);
                }
            }
        }
        if self.elsewhere.contains(&true) {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Function(function) => {
                self.write_out_arguments(&mut function.args);
                if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                    self.order(&mut window.order_by, |_| false);
                }
            }
            Expr::Identifier(name) => {
                if let Some(row) = self.row_or_column(name) {
                    *expr = row;
                }
            }
            Expr::QualifiedWildcard(name, _) => {
                if let Some(row) = self.row_of(name) {
                    *expr = row;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            for part in access_chain {
                if let AccessExpr::Dot(part) = part
                    && let Expr::CompoundIdentifier(name) = part
                    && let [name] = name.as_slice()
                {
                    *part = Expr::Identifier(name.clone());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Rows<'_> {
    /// `count(t.*)`
    fn write_out_arguments(&self, args: &mut FunctionArguments) {
        let FunctionArguments::List(list) = args else { return };
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(keys) = clause {
                self.order(keys, |_| false);
            }
        }
        for arg in &mut list.args {
            if let FunctionArg::Unnamed(arg) = arg
                && let FunctionArgExpr::QualifiedWildcard(name) = arg
                && let Some(row) = self.row_of(name)
            {
                *arg = FunctionArgExpr::Expr(row);
            }
        }
    }

    /// Orders by each column of a row in turn, as rows are compared.
    fn order(&self, keys: &mut Vec<OrderByExpr>, is_other: impl Fn(&OrderByExpr) -> bool) {
        for key in std::mem::take(keys) {
            let name = match &key.expr {
                Expr::Identifier(name) if !is_other(&key) => Some(name.clone()),
                _ => None,
            };
            let columns =
                name.filter(|name| self.row_or_column(name).is_some()).and_then(|name| self.row_columns(&name));
            match columns {
                Some(columns) => keys.extend(columns.into_iter().map(|expr| OrderByExpr { expr, ..key.clone() })),
                None => keys.push(key),
            }
        }
    }

    fn row_columns(&self, name: &Ident) -> Option<Vec<Expr>> {
        let place = self.factors.iter().position(|(relation, _)| fold(relation) == fold(name))?;
        let columns = self.columns().get(place)?.as_ref()?;
        Some(columns.iter().map(|column| Expr::CompoundIdentifier(vec![name.clone(), column.clone()])).collect())
    }

    /// `t.*`, used as a value.
    fn row_of(&self, name: &ObjectName) -> Option<Expr> {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
        self.row(name)
    }

    /// The row of the relation of that name, unless it is a column's too.
    fn row_or_column(&self, name: &Ident) -> Option<Expr> {
        self.factors.iter().find(|(relation, _)| fold(relation) == fold(name))?;
        let is_column = self.columns().iter().flatten().flatten().any(|column| fold(column) == fold(name));
        if is_column { None } else { self.row(name) }
    }

    fn columns(&self) -> &[Option<Vec<Ident>>] {
        self.columns.get_or_init(|| self.factors.iter().map(|(_, factor)| self.known.of_factor(factor)).collect())
    }

    /// The row of the relation of that name.
    fn row(&self, name: &Ident) -> Option<Expr> {
        let place = self.factors.iter().position(|(relation, _)| fold(relation) == fold(name))?;
        let (relation, factor) = self.factors.get(place)?;
        if is_items(factor) {
            return Some(Expr::CompoundIdentifier(vec![relation.clone(), Ident::new("value")]));
        }
        let columns = self.columns().get(place)?.as_ref()?;
        let value = |column: &Ident| Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
        let row = call("named_struct", columns.iter().flat_map(|c| [text(fold(c)), value(c)]).collect());
        if !self.missing.contains(&fold(name)) {
            return Some(row);
        }
        let is_null = |column: &Ident| Expr::IsNull(Box::new(value(column)));
        let missing = match self.marked.as_ref().filter(|_| can_be_marked(factor)) {
            Some(marked) => {
                let mut marked = marked.borrow_mut();
                if !marked.contains(relation) {
                    marked.push(relation.clone());
                }
                is_null(&marker(relation))
            }
            // As well as can be told.
            None => columns.iter().map(is_null).reduce(|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::And,
                right: Box::new(right),
            })?,
        };
        Some(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition: missing, result: Expr::Value(Value::Null.into()) }],
            else_result: Some(Box::new(row)),
        })
    }
}

/// The column that is NULL where the row of that relation is missing.
fn marker(relation: &Ident) -> Ident {
    Ident::with_quote('"', format!("row{UNIQUE}{}", fold(relation)))
}

/// Whether a relation can be made a subquery: then its name says no schema, and it doesn't refer to what stands beside it.
fn can_be_marked(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Derived { lateral, .. } => !lateral,
        TableFactor::Table { name, alias, args: None, .. } => alias.is_some() || name.0.len() == 1,
        _ => false,
    }
}

/// Gives a relation its [`marker`], which `*` doesn't show.
fn mark(from: &mut [TableWithJoins], list: &mut [SelectItem], relation: &Ident) {
    let marker = marker(relation);
    let Some(mut subquery) = super::parse_query(&format!("SELECT *, true AS {marker} FROM t")) else { return };
    let SetExpr::Select(select) = subquery.body.as_mut() else { return };
    let Some(inner) = select.from.first_mut() else { return };
    let mut factors = from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation))
    });
    let is_it = |factor: &&mut TableFactor| name_of(factor).is_some_and(|name| fold(&name) == fold(relation));
    let Some(factor) = factors.find(is_it) else { return };
    std::mem::swap(&mut inner.relation, factor);
    let alias = TableAlias { explicit: true, name: relation.clone(), columns: Vec::new(), at: None };
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    for item in list {
        let options = match item {
            SelectItem::Wildcard(options) => options,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|own| fold(own) == fold(relation)) =>
            {
                options
            }
            _ => continue,
        };
        let name = ObjectName::from(vec![marker.clone()]);
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Multiple(names)) => names.push(name),
            exclude => *exclude = Some(ExcludeSelectItem::Multiple(vec![name])),
        }
    }
}

/// The relations that an outer join leaves out where it finds nothing.
fn left_out(from: &TableWithJoins) -> Vec<&TableFactor> {
    let (mut before, mut missing) = (vec![&from.relation], Vec::new());
    for join in &from.joins {
        let (left, right) = match join.join_operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
            JoinOperator::FullOuter(_) => (true, true),
            _ => (false, false),
        };
        if left {
            missing.extend(&before);
        }
        if right {
            missing.push(&join.relation);
        }
        before.push(&join.relation);
    }
    missing
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

/// The items of a document: the row of such a function is its only column's value.
pub fn is_items(factor: &TableFactor) -> bool {
    let TableFactor::Table { name, alias: Some(alias), args: Some(_), .. } = factor else { return false };
    let name = name.0.last().and_then(ObjectNamePart::as_ident).map(fold).unwrap_or_default();
    let items =
        ["json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text"];
    alias.columns.is_empty() && items.contains(&name.as_str())
}

//! A relation's name used as a value: the row as a record. DataFusion has no such thing; it is written out, as far as the
//! statement and the catalog tell the relation's columns.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::logical_expr::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Value, VisitMut as _,
    VisitorMut,
};

use super::expressions::text;
use super::known::{Known, factors, name_of};
use super::{call, fold};

/// Writes the rows in a SELECT out: in its list, its conditions and what it groups by.
pub fn write_out(select: &mut Select, known: &Known<'_>) {
    let Select { from, projection, selection, having, group_by, .. } = select;
    let factors: Vec<(Ident, &TableFactor)> =
        from.iter().flat_map(factors).filter_map(|factor| Some((name_of(factor)?, factor))).collect();
    if factors.is_empty() {
        return;
    }
    let missing = from.iter().flat_map(left_out).filter_map(|factor| Some(fold(&name_of(factor)?))).collect();
    let mut rows = Rows { factors, known, columns: OnceCell::new(), missing, elsewhere: Vec::new() };
    for item in projection {
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
}

/// Writes the rows of the relations of a FROM out.
struct Rows<'a> {
    factors: Vec<(Ident, &'a TableFactor)>,
    known: &'a Known<'a>,
    /// The columns of each, as far as they are known; once somebody asks.
    columns: OnceCell<Vec<Option<Vec<Ident>>>>,
    /// The relations of which a row may be missing: then it is NULL.
    missing: Vec<String>,
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
            Expr::Function(function) => self.write_out_arguments(&mut function.args),
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
        for arg in &mut list.args {
            if let FunctionArg::Unnamed(arg) = arg
                && let FunctionArgExpr::QualifiedWildcard(name) = arg
                && let Some(row) = self.row_of(name)
            {
                *arg = FunctionArgExpr::Expr(row);
            }
        }
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

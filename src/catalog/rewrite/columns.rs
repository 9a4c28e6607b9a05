//! The columns of a SELECT: their names, system columns and hidden ones.

use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, DataType, ExactNumberInfo, ExcludeSelectItem, Expr, Ident,
    ObjectName, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, TimezoneInfo, TrimWhereField, Value,
    VisitMut as _, VisitorMut, WildcardAdditionalOptions,
};

use super::super::functions::oid_function;

use super::{HIDDEN, Relations, UNIQUE, call, fold, type_name};

/// Keeps hidden columns out of `*`.
pub fn hide(select: &mut Select, relations: &dyn Relations) {
    let relations: Vec<(Ident, bool)> = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
        .filter_map(|factor| relation(factor, relations))
        .collect();
    if !relations.iter().any(|(_, hidden)| *hidden) {
        return;
    }
    let exclude = || WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(
            HIDDEN.iter().map(|(name, _)| ObjectName::from(vec![Ident::new(*name)])).collect(),
        )),
        ..WildcardAdditionalOptions::default()
    };
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(_) if relations.len() == 1 => projection.push(SelectItem::Wildcard(exclude())),
            // One relation at a time: the names to leave out would be ambiguous.
            SelectItem::Wildcard(_) => projection.extend(relations.iter().map(|(name, hidden)| {
                let options = if *hidden { exclude() } else { WildcardAdditionalOptions::default() };
                let name = ObjectName::from(vec![name.clone()]);
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
            })),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let alias = name.0.last().and_then(|part| part.as_ident()).cloned();
                let hidden = relations.iter().any(|(known, hidden)| *hidden && Some(known) == alias.as_ref());
                let options = if hidden { exclude() } else { options };
                projection
                    .push(SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options));
            }
            other => projection.push(other),
        }
    }
    select.projection = projection;
}

/// Writes `pg_am.*` as `pg_catalog.pg_am.*` where FROM names the relation so: DataFusion doesn't know it otherwise.
pub fn qualify_wildcards(select: &mut Select) {
    let mut relations: Vec<ObjectName> = Vec::new();
    for from in &select.from {
        qualified_relations(from, &mut relations);
    }
    for item in &mut select.projection {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
            continue;
        };
        let [ObjectNamePart::Identifier(own)] = name.0.as_slice() else { continue };
        let is_own = |known: &&ObjectName| {
            known.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|last| fold(last) == fold(own))
        };
        if let Some(known) = relations.iter().find(is_own) {
            *name = known.clone();
        }
    }
}

/// The relations that are named with their schema and have no alias.
fn qualified_relations(from: &TableWithJoins, found: &mut Vec<ObjectName>) {
    for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => found.push(name.clone()),
            TableFactor::NestedJoin { table_with_joins, .. } => qualified_relations(table_with_joins, found),
            _ => {}
        }
    }
}

/// The name that a relation goes by in its query, and whether it has hidden columns.
fn relation(factor: &TableFactor, relations: &dyn Relations) -> Option<(Ident, bool)> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
            let (table, qualifier) = parts.split_last()?;
            let schema = qualifier.last().map(|ident| ident.value.to_lowercase());
            let hidden = relations.has_hidden(schema.as_deref(), &fold(table));
            Some((alias.as_ref().map_or_else(|| (*table).clone(), |alias| alias.name.clone()), hidden))
        }
        TableFactor::Table { name, alias, .. } => {
            let own = name.0.last().and_then(|part| part.as_ident()).cloned();
            alias.as_ref().map(|alias| alias.name.clone()).or(own).map(|name| (name, false))
        }
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| (alias.name.clone(), false)),
        _ => None,
    }
}

/// Parts the aliases of the outermost SELECT from columns in its ORDER BY that have the same name and say whose they are:
/// DataFusion would find two of that name.
pub fn part_from_order(query: &mut Query) {
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let is_other = |by: &OrderByExpr| match &by.expr {
            Expr::CompoundIdentifier(parts) => {
                parts.last().is_some_and(|last| fold(last) == fold(alias)) && by.expr != *expr
            }
            _ => false,
        };
        if !order.iter().any(is_other) {
            continue;
        }
        let parted = Ident::with_quote('"', format!("{}{UNIQUE}", fold(alias)));
        for by in order.iter_mut() {
            if matches!(&by.expr, Expr::Identifier(name) if fold(name) == fold(alias)) {
                by.expr = Expr::Identifier(parted.clone());
            }
        }
        *alias = parted;
    }
}

/// System columns that tell which transaction wrote a row of the catalog: all were there from the start.
const FROZEN: [&str; 2] = ["xmin", "xmax"];

/// Whether it is a table of PostgreSQL's catalog that has system columns. What shows replication slots has its own xmin.
fn is_catalog_table(name: &str) -> bool {
    let bare = name.strip_prefix("pg_catalog.").unwrap_or(name);
    bare.starts_with("pg_") && bare != "pg_replication_slots"
}

/// The system columns `tableoid`, the oid of the relation that a row is of, and those of [`FROZEN`].
pub fn system_columns(select: &mut Select) {
    let relations: Vec<(String, String)> = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
        .filter_map(|factor| match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let own = name.0.last().and_then(|part| part.as_ident())?;
                Some((fold(alias.as_ref().map_or(own, |alias| &alias.name)), name.to_string()))
            }
            _ => None,
        })
        .collect();
    struct SystemColumns(Vec<(String, String)>);
    impl VisitorMut for SystemColumns {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            // Of one relation alone, the name needs no other before it.
            if let (Expr::Identifier(column), [(alias, name)]) = (&*expr, self.0.as_slice())
                && (column.value == "tableoid" || is_catalog_table(name) && FROZEN.contains(&column.value.as_str()))
            {
                *expr = Expr::CompoundIdentifier(vec![Ident::with_quote('"', alias), column.clone()]);
            }
            let Expr::CompoundIdentifier(parts) = &*expr else { return ControlFlow::Continue(()) };
            if let [relation, column] = parts.as_slice()
                && FROZEN.contains(&column.value.as_str())
                && self.0.iter().any(|(alias, name)| *alias == fold(relation) && is_catalog_table(name))
            {
                let frozen = Expr::Value(Value::SingleQuotedString("1".into()).into());
                *expr = call(&oid_function("xid"), vec![frozen]);
                return ControlFlow::Continue(());
            }
            if let [relation, column] = parts.as_slice()
                && column.value == "tableoid"
                && let Some((_, name)) = self.0.iter().find(|(alias, _)| *alias == fold(relation))
            {
                let name = Expr::Value(Value::SingleQuotedString(name.clone()).into());
                *expr = call(&oid_function("oid"), vec![call(&oid_function("regclass"), vec![name])]);
            }
            ControlFlow::Continue(())
        }
    }
    let mut system_columns = SystemColumns(relations);
    for item in &mut select.projection {
        let unnamed = match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => Some(column.clone()),
            _ => None,
        };
        let _ = item.visit(&mut system_columns);
        if let SelectItem::UnnamedExpr(Expr::Function(_)) = item
            && let Some(alias) = unnamed
            && let SelectItem::UnnamedExpr(expr) = item
        {
            let expr = super::take(expr);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let _ = select.from.visit(&mut system_columns);
    let _ = select.selection.visit(&mut system_columns);
}

/// Gives every computed column PostgreSQL's name for it, made unique where it must be: DataFusion would use the
/// expression's text, and refuses two columns of one name.
///
/// Whether a wildcard gives a column a second time isn't known here. Of the outermost SELECT any may, since nobody asks for
/// it by its name; of another one only a column that a wildcard gives for certain.
pub fn name_columns(select: &mut Select, outermost: bool) {
    let wildcards = Wildcards::of(select);
    let mut taken: Vec<String> = Vec::new();
    for item in &mut select.projection {
        // `x ISNULL`, which the parser takes for a name.
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && alias.quote_style.is_none()
            && alias.value.eq_ignore_ascii_case("isnull")
        {
            *item = SelectItem::UnnamedExpr(Expr::IsNull(Box::new(super::take(expr))));
        }
        let mut again = false;
        let (name, is_column, aliased) = match item {
            SelectItem::ExprWithAlias { alias, .. } => (fold(alias), false, true),
            SelectItem::UnnamedExpr(expr) => {
                let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                again = is_column && if outermost { wildcards.any } else { wildcards.give(expr) };
                (column_name(expr).unwrap_or_else(|| "?column?".into()), is_column, false)
            }
            _ => continue,
        };
        let unique =
            if taken.contains(&name) || again { format!("{name}{UNIQUE}{}", taken.len()) } else { name.clone() };
        // A column keeps its qualifier, unless its name is needed twice.
        let alias = if is_column && unique == name { None } else { Some(Ident::with_quote('"', &unique)) };
        taken.push(name);
        match (item, alias) {
            (SelectItem::ExprWithAlias { alias, .. }, Some(new)) if aliased && alias.value != new.value => *alias = new,
            (item @ SelectItem::UnnamedExpr(_), Some(alias)) => {
                if let SelectItem::UnnamedExpr(expr) = item {
                    let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            _ => {}
        }
    }
}

/// The wildcards of a SELECT.
struct Wildcards {
    any: bool,
    /// Whether there is one of all relations.
    all: bool,
    /// The relations that have one of their own.
    of: Vec<String>,
}

impl Wildcards {
    fn of(select: &Select) -> Self {
        let all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        let of: Vec<String> = select
            .projection
            .iter()
            .filter_map(|item| match item {
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    name.0.last().and_then(ObjectNamePart::as_ident).map(fold)
                }
                _ => None,
            })
            .collect();
        Self { any: all || !of.is_empty(), all, of }
    }

    /// Whether one of them gives this column.
    fn give(&self, column: &Expr) -> bool {
        match column {
            Expr::CompoundIdentifier(parts) if !self.all => {
                let relation = parts.len().checked_sub(2).map(|at| fold(&parts[at]));
                relation.is_some_and(|relation| self.of.contains(&relation))
            }
            _ => self.all,
        }
    }
}

/// PostgreSQL's name for a column that isn't given one.
pub fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(AccessExpr::Dot(field)) => column_name(field),
            _ => column_name(root),
        },
        Expr::Function(function) => function.name.0.last().and_then(|part| part.as_ident()).map(fold),
        // By the name of what is cast, if that is more than the name of a type.
        Expr::Cast { expr, data_type, .. } => {
            let own = if has_own_name(expr) { column_name(expr) } else { None };
            own.or_else(|| Some(cast_name(data_type)))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => column_name(inner),
        // Named by its ELSE, if that is a column or a call.
        Expr::Case { else_result, .. } => {
            let named = else_result
                .as_deref()
                .filter(|value| matches!(value, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_)));
            Some(named.and_then(column_name).unwrap_or_else(|| "case".into()))
        }
        Expr::Exists { negated: false, .. } => Some("exists".into()),
        Expr::Array(_) => Some("array".into()),
        Expr::Extract { .. } => Some("extract".into()),
        Expr::AtTimeZone { .. } => Some("timezone".into()),
        Expr::Interval(_) => Some("interval".into()),
        Expr::TypedString(typed) => Some(cast_name(&typed.data_type)),
        Expr::Tuple(_) => Some("row".into()),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => Some("overlaps".into()),
        Expr::Substring { shorthand, .. } => Some(if *shorthand { "substr" } else { "substring" }.into()),
        Expr::Trim { trim_where: Some(TrimWhereField::Leading), .. } => Some("ltrim".into()),
        Expr::Trim { trim_where: Some(TrimWhereField::Trailing), .. } => Some("rtrim".into()),
        Expr::Trim { .. } => Some("btrim".into()),
        Expr::Overlay { .. } => Some("overlay".into()),
        Expr::Position { .. } => Some("position".into()),
        Expr::Ceil { .. } => Some("ceil".into()),
        Expr::Floor { .. } => Some("floor".into()),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::ExprWithAlias { alias, .. }) => Some(fold(alias)),
                Some(SelectItem::UnnamedExpr(expr)) => column_name(expr),
                _ => None,
            },
            _ => None,
        },
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some("bool".into()),
        _ => None,
    }
}

/// Whether a name is a column's or a function's, not just that of a type.
fn has_own_name(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } | Expr::Cast { expr: inner, .. } => has_own_name(inner),
        Expr::Case { else_result, .. } => else_result.as_deref().is_some_and(has_own_name),
        Expr::TypedString(_) | Expr::Interval(_) | Expr::Value(_) => false,
        other => column_name(other).is_some(),
    }
}

/// PostgreSQL's short name of a type.
fn cast_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".into(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".into(),
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".into(),
        DataType::Boolean | DataType::Bool => "bool".into(),
        DataType::Real | DataType::Float4 | DataType::Float(ExactNumberInfo::Precision(..=24)) => "float4".into(),
        DataType::DoublePrecision | DataType::Float8 => "float8".into(),
        DataType::Varchar(_) | DataType::CharacterVarying(_) => "varchar".into(),
        DataType::Char(_) | DataType::Character(_) => "bpchar".into(),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric".into(),
        DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => "timestamptz".into(),
        DataType::Timestamp(..) => "timestamp".into(),
        DataType::Time(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => "timetz".into(),
        DataType::Time(..) => "time".into(),
        DataType::Interval { .. } => "interval".into(),
        DataType::Float(_) => "float8".into(),
        // An array is named like its items.
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) => {
            cast_name(item)
        }
        other => type_name(other).unwrap_or_else(|| other.to_string().to_lowercase()),
    }
}

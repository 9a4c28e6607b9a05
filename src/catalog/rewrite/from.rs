//! What FROM may not have.

use datafusion::logical_expr::sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, ObjectNamePart, Select, TableFactor, TableWithJoins,
};

use super::fold;
use crate::error::{Error, Result};

/// Refuses two relations of one name, and a full join that would show one side's column alone.
pub fn check(select: &Select) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for from in &select.from {
        relations(from, &mut |factor| {
            let Some(name) = name(factor) else { return Ok(()) };
            if names.contains(&name) {
                let message = format!("table name \"{name}\" specified more than once");
                return Err(Error::Semantics { sqlstate: "42712", message });
            }
            names.push(name);
            Ok(())
        })?;
        for join in &from.joins {
            if let JoinOperator::FullOuter(JoinConstraint::Using(_) | JoinConstraint::Natural) = &join.join_operator {
                return Err(Error::FeatureNotSupported {
                    what: "FULL JOIN with USING or NATURAL".into(),
                    hint: "Write ON a.x = b.x, and coalesce(a.x, b.x) in the list of the SELECT.".into(),
                });
            }
        }
    }
    Ok(())
}

fn relations(from: &TableWithJoins, visit: &mut dyn FnMut(&TableFactor) -> Result<()>) -> Result<()> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    for factor in factors {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => relations(table_with_joins, visit)?,
            factor => visit(factor)?,
        }
    }
    Ok(())
}

/// The name that a relation goes by; with its schema where it is written so.
fn name(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(fold(&alias.name))
        }
        TableFactor::Table { name, args: None, .. } => {
            let parts: Option<Vec<String>> =
                name.0.iter().map(ObjectNamePart::as_ident).map(|part: Option<&Ident>| part.map(fold)).collect();
            parts.map(|parts| parts.join("."))
        }
        _ => None,
    }
}

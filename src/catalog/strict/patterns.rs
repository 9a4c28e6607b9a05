//! Patterns that are matched by DataFusion, which can't be interrupted on the way.

use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, ExprSchemable as _, Operator};

use crate::catalog::functions::{self, PATTERN_FOR};

/// Whether an operator compares a text with a pattern.
pub const fn is_match(op: Operator) -> bool {
    matches!(
        op,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
    )
}

/// A pattern that no text is too long for: a short one, or one that has been looked at.
pub fn is_short(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten().is_none_or(|pattern| pattern.len() <= 64),
        Expr::Cast(cast) => is_short(&cast.expr),
        Expr::ScalarFunction(function) => function.name() == PATTERN_FOR,
        _ => false,
    }
}

/// The pattern, which is refused where it is too long for the text.
pub fn for_text(text: &Expr, pattern: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let data_type = pattern.get_type(schema)?;
    let Some(function) = functions::find(PATTERN_FOR).filter(|_| data_type.is_string()) else { return Ok(pattern) };
    function.call(vec![text.clone(), pattern]).cast_to(&data_type, schema)
}

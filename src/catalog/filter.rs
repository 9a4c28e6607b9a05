//! DataFusion's filters as SQLite conditions, where both mean exactly the same.

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};
use rusqlite::types::Value;

use super::types;

use crate::store::view_rows::quote;

/// A condition with its parameters, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Condition {
    /// SQL, with a `?` for each parameter.
    pub sql: String,
    /// The parameters.
    pub parameters: Vec<Value>,
}

/// What values compare alike in SQLite and DataFusion. Floats are left out: SQLite has no NaN, and compares them
/// with integers in another way; so are jsonb, numeric and intervals, whose stored form has another order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bool,
    Integer,
    Text,
    /// Microseconds since 1970.
    Instant,
    /// Days since 1970.
    Date,
}

/// The condition that means the same as `filter` over columns of `schema`. `None`: there is none.
pub fn to_sqlite(filter: &Expr, schema: &Schema) -> Option<Condition> {
    let mut condition = Condition::default();
    write(filter, schema, &mut condition)?;
    Some(condition)
}

fn write(filter: &Expr, schema: &Schema, out: &mut Condition) -> Option<()> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            out.sql.push('(');
            write(left, schema, out)?;
            out.sql.push_str(if *op == Operator::And { " AND " } else { " OR " });
            write(right, schema, out)?;
            out.sql.push(')');
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let op = comparison(*op)?;
            let class = class_of_pair(left, right, schema)?;
            operand(left, class, schema, out)?;
            out.sql.push_str(op);
            operand(right, class, schema, out)?;
        }
        Expr::Not(inner) => {
            out.sql.push_str("NOT (");
            write(inner, schema, out)?;
            out.sql.push(')');
        }
        Expr::IsNull(inner) => {
            column(inner, schema, out)?;
            out.sql.push_str(" IS NULL");
        }
        Expr::IsNotNull(inner) => {
            column(inner, schema, out)?;
            out.sql.push_str(" IS NOT NULL");
        }
        Expr::InList(InList { expr, list, negated }) => {
            let class = column(expr, schema, out)?;
            out.sql.push_str(if *negated { " NOT IN (" } else { " IN (" });
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.sql.push(',');
                }
                operand(item, class?, schema, out)?;
            }
            out.sql.push(')');
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let class = column(expr, schema, out)?;
            out.sql.push_str(if *negated { " NOT BETWEEN " } else { " BETWEEN " });
            operand(low, class?, schema, out)?;
            out.sql.push_str(" AND ");
            operand(high, class?, schema, out)?;
        }
        Expr::Like(Like { negated, expr, pattern, escape_char, case_insensitive: false }) => {
            if column(expr, schema, out)? != Some(Class::Text) {
                return None;
            }
            let Expr::Literal(ScalarValue::Utf8(Some(pattern)), _) = pattern.as_ref() else { return None };
            out.sql.push_str(if *negated { " NOT GLOB ?" } else { " GLOB ?" });
            out.parameters.push(Value::Text(glob(pattern, escape_char.unwrap_or('\\'))?));
        }
        // What is left of `x IN (1, NULL)` and the like, once it is simplified.
        Expr::Literal(ScalarValue::Boolean(None) | ScalarValue::Null, _) => out.sql.push_str("NULL"),
        Expr::Literal(ScalarValue::Boolean(Some(known)), _) => out.sql.push_str(if *known { "1" } else { "0" }),
        Expr::Column(_) => {
            if column(filter, schema, out)? != Some(Class::Bool) {
                return None;
            }
        }
        _ => return None,
    }
    Some(())
}

fn comparison(op: Operator) -> Option<&'static str> {
    Some(match op {
        Operator::Eq => " = ",
        Operator::NotEq => " <> ",
        Operator::Lt => " < ",
        Operator::LtEq => " <= ",
        Operator::Gt => " > ",
        Operator::GtEq => " >= ",
        Operator::IsDistinctFrom => " IS NOT ",
        Operator::IsNotDistinctFrom => " IS ",
        _ => return None,
    })
}

/// Writes a column; the class is `None` where it may only be tested for NULL.
fn column(expr: &Expr, schema: &Schema, out: &mut Condition) -> Option<Option<Class>> {
    let Expr::Column(column) = expr else { return None };
    out.sql.push_str(&quote(&column.name));
    Some(class_of(expr, schema))
}

fn class_of(expr: &Expr, schema: &Schema) -> Option<Class> {
    let Expr::Column(column) = expr else { return None };
    class_of_field(schema.field_with_name(&column.name).ok()?)
}

fn class_of_field(field: &Field) -> Option<Class> {
    match field.data_type() {
        DataType::Boolean => Some(Class::Bool),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(Class::Integer),
        DataType::Utf8 if !matches!(types::name_of(field), "jsonb" | "json") => Some(Class::Text),
        DataType::Timestamp(..) => Some(Class::Instant),
        DataType::Date32 => Some(Class::Date),
        _ => None,
    }
}

fn class_of_pair(left: &Expr, right: &Expr, schema: &Schema) -> Option<Class> {
    match (class_of(left, schema), class_of(right, schema)) {
        (Some(left), Some(right)) => (left == right).then_some(left),
        (left, right) => left.or(right),
    }
}

fn operand(expr: &Expr, class: Class, schema: &Schema, out: &mut Condition) -> Option<()> {
    match expr {
        Expr::Column(_) => (column(expr, schema, out)? == Some(class)).then_some(()),
        Expr::Literal(literal, _) => {
            out.parameters.push(parameter(literal, class)?);
            out.sql.push('?');
            Some(())
        }
        // Has its value when it comes to a scan.
        Expr::Placeholder(Placeholder { field: Some(field), .. }) if class_of_field(field) == Some(class) => {
            out.parameters.push(Value::Null);
            out.sql.push('?');
            Some(())
        }
        _ => None,
    }
}

fn parameter(literal: &ScalarValue, class: Class) -> Option<Value> {
    if literal.is_null() {
        return Some(Value::Null);
    }
    Some(match (class, literal) {
        (Class::Bool, ScalarValue::Boolean(Some(value))) => Value::Integer(i64::from(*value)),
        (Class::Integer, ScalarValue::Int16(Some(value))) => Value::Integer(i64::from(*value)),
        (Class::Integer, ScalarValue::Int32(Some(value))) => Value::Integer(i64::from(*value)),
        (Class::Integer, ScalarValue::Int64(Some(value))) => Value::Integer(*value),
        (Class::Text, ScalarValue::Utf8(Some(value)) | ScalarValue::Utf8View(Some(value))) => {
            Value::Text(value.clone())
        }
        (Class::Instant, ScalarValue::TimestampMicrosecond(Some(value), _)) => Value::Integer(*value),
        (Class::Date, ScalarValue::Date32(Some(value))) => Value::Integer(i64::from(*value)),
        _ => return None,
    })
}

/// A LIKE pattern as a GLOB pattern: SQLite's LIKE takes no heed of case, its GLOB does.
fn glob(pattern: &str, escape: char) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let (c, literal) = if c == escape { (chars.next()?, true) } else { (c, false) };
        match c {
            '%' if !literal => out.push('*'),
            '_' if !literal => out.push('?'),
            '*' | '?' | '[' => {
                out.push('[');
                out.push(c);
                out.push(']');
            }
            _ => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn schema() -> Schema {
        let column = |name: &str, pg_type| types::by_name(pg_type).unwrap().field(name);
        Schema::new(vec![column("i", "int4"), column("t", "text"), column("f", "float8"), column("j", "jsonb")])
    }

    #[test]
    fn comparisons_become_conditions_with_parameters() {
        let filter = col("i").eq(lit(3)).and(col("t").in_list(vec![lit("a"), lit("b")], false).or(col("t").is_null()));
        let condition = to_sqlite(&filter, &schema()).unwrap();
        assert_eq!(condition.sql, r#"("i" = ? AND ("t" IN (?,?) OR "t" IS NULL))"#);
        assert_eq!(condition.parameters, [Value::Integer(3), Value::Text("a".into()), Value::Text("b".into())]);
    }

    #[test]
    fn like_becomes_glob_and_keeps_its_meaning() {
        let condition = to_sqlite(&col("t").like(lit(r"a*_%\%")), &schema()).unwrap();
        assert_eq!(condition.sql, r#""t" GLOB ?"#);
        assert_eq!(condition.parameters, [Value::Text("a[*]?*%".into())]);
    }

    #[test]
    fn what_sqlite_would_judge_differently_stays_with_datafusion() {
        for filter in [col("f").gt(lit(1.0)), col("j").eq(lit("{}")), col("t").eq(col("i")), col("i").eq(lit("1"))] {
            assert_eq!(to_sqlite(&filter, &schema()), None, "{filter}");
        }
    }
}

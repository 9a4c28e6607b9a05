//! The types of the columns of VALUES: a literal without one takes that of a cast in another row. DataFusion takes a
//! string for text, and a column of several types for an error.

use datafusion::logical_expr::sqlparser::ast::{CastKind, DataType, Expr, UnaryOperator, Value, Values};

/// Gives the literals of each column the type that another row gives its own.
pub fn unify(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..width {
        let cells = || values.rows.iter().filter_map(|row| row.content.get(column));
        let Some(data_type) = cells().find_map(cast_type) else { continue };
        for row in &mut values.rows {
            if let Some(cell) = row.content.get_mut(column)
                && takes(&data_type, cell)
            {
                let operand = Box::new(super::take(cell));
                let data_type = data_type.clone();
                *cell =
                    Expr::Cast { kind: CastKind::DoubleColon, expr: operand, data_type, array: false, format: None };
            }
        }
    }
}

fn cast_type(cell: &Expr) -> Option<DataType> {
    match cell {
        Expr::Cast { data_type, .. } => Some(data_type.clone()),
        Expr::TypedString(typed) => Some(typed.data_type.clone()),
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        Expr::Nested(cell) => cast_type(cell),
        _ => None,
    }
}

/// Whether a cell is a literal that such a type is for: a string and NULL have none, and a number is a float among floats.
fn takes(data_type: &DataType, cell: &Expr) -> bool {
    let is_float = matches!(
        data_type,
        DataType::Double(_)
            | DataType::DoublePrecision
            | DataType::Real
            | DataType::Float(_)
            | DataType::Float4
            | DataType::Float8
    );
    match cell {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) => true,
            Value::Number(..) => is_float,
            Value::Null => true,
            _ => false,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_float && takes(data_type, expr),
        Expr::Nested(cell) => takes(data_type, cell),
        _ => false,
    }
}

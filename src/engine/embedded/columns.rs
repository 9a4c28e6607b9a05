//! Column types: PostgreSQL's names on one side, Arrow's types on the other.
//!
//! Names are PostgreSQL's short ones (`int8`, not `bigint`), as `pg_type.typname` has them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::error::{Error, Result};

/// Key of the field metadata that tells apart the types that Arrow doesn't: `jsonb` is `Utf8` marked with it.
pub const PG_TYPE_KEY: &str = "pg.type";

/// The zone that a `timestamptz` carries in Arrow. Values are instants; a session shows them in its own zone.
pub const TIME_ZONE: &str = "UTC";

/// Digits of a `numeric`, all in all. DataFusion's choice for a NUMERIC without a precision, so that casts agree.
pub const NUMERIC_PRECISION: u8 = 38;

/// Digits of a `numeric` after the point.
pub const NUMERIC_SCALE: i8 = 10;

/// Types that a column of a source or of a view can have: the short name, the SQL name.
const TYPES: [(&str, &str); 13] = [
    ("bool", "boolean"),
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("float4", "real"),
    ("float8", "double precision"),
    ("numeric", "numeric"),
    ("text", "text"),
    ("date", "date"),
    ("timestamp", "timestamp without time zone"),
    ("timestamptz", "timestamp with time zone"),
    ("jsonb", "jsonb"),
    ("bytea", "bytea"),
];

/// The types that a column can have, by their short names.
pub fn known_types() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(short, _)| *short)
}

/// The Arrow type that holds a PostgreSQL type. `None`: a column can't have this type.
pub fn arrow_type(pg: &str) -> Option<DataType> {
    Some(match pg {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "numeric" => DataType::Decimal128(NUMERIC_PRECISION, NUMERIC_SCALE),
        "text" | "jsonb" => DataType::Utf8,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into())),
        "bytea" => DataType::Binary,
        _ => return None,
    })
}

/// A nullable column of a PostgreSQL type. `None`: a column can't have this type.
pub fn field(name: &str, pg: &str) -> Option<Field> {
    let field = Field::new(name, arrow_type(pg)?, true);
    Some(match pg {
        "jsonb" => field.with_metadata(HashMap::from([(PG_TYPE_KEY.to_owned(), pg.to_owned())])),
        _ => field,
    })
}

/// The PostgreSQL type that holds every value of a field: also for types that DataFusion's functions yield and that no
/// column of a source has. `None`: there is none that a column can have.
pub fn pg_type(field: &Field) -> Option<&'static str> {
    Some(match field.data_type() {
        DataType::Boolean => "bool",
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "int2",
        DataType::UInt16 | DataType::Int32 => "int4",
        DataType::UInt32 | DataType::Int64 | DataType::UInt64 => "int8",
        DataType::Float16 | DataType::Float32 => "float4",
        DataType::Float64 => "float8",
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            "numeric"
        }
        DataType::Utf8 if field.metadata().get(PG_TYPE_KEY).is_some_and(|pg| pg == "jsonb") => "jsonb",
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Dictionary(_, value) => return pg_type(&Field::new("", value.as_ref().clone(), true)),
        _ => return None,
    })
}

/// A type as SQL spells it: `bigint` for `int8`. A name that isn't known is its own.
pub fn sql_name(pg: &str) -> &str {
    TYPES.iter().find(|(short, _)| *short == pg).map_or(pg, |(_, long)| long)
}

/// The schema of columns given as names and PostgreSQL types.
///
/// # Errors
/// [`Error::Internal`] for a type that a column can't have: the parser lets none through.
pub fn schema(columns: &[(String, String)]) -> Result<SchemaRef> {
    let fields = columns
        .iter()
        .map(|(name, pg)| field(name, pg).ok_or_else(|| Error::Internal(format!("column \"{name}\" is of type {pg}"))));
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back_as_itself() {
        for pg in known_types() {
            assert_eq!(pg_type(&field("c", pg).unwrap()), Some(pg));
        }
    }

    #[test]
    fn types_without_a_column_are_told() {
        assert_eq!(arrow_type("money"), None);
        assert_eq!(field("c", "int4[]"), None);
        assert_eq!(pg_type(&Field::new("c", DataType::Duration(TimeUnit::Second), true)), None);
        assert_eq!(sql_name("timestamptz"), "timestamp with time zone");
        assert_eq!(sql_name("money"), "money");
    }
}

//! PostgreSQL's types: how each is stored in SQLite, held in Arrow and named on the wire.
//!
//! Arrow has fewer types than PostgreSQL, so a field carries the exact one in its metadata under [`TYPE_KEY`]. The
//! keys of `arrow_pg` are written too where it has one, since its encoder and `datafusion-pg-catalog` look at them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, ExprSchemable as _};
use postgres_types::Type;

/// Metadata key of a field's exact type: a name of this module's table, such as `jsonb` or `name`.
pub const TYPE_KEY: &str = "pg.type";

/// The time zone of every timestamptz column.
pub const UTC: &str = "+00:00";

/// One type, with the facts that `pg_attribute` repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PgType {
    /// The name in headers of view files and in `main.columns`: `int8`, `text[]`.
    pub name: &'static str,
    /// `pg_type.typname`: `int8`, `_text`.
    pub typname: &'static str,
    /// `pg_type.oid`.
    pub oid: u32,
    /// Length in bytes; -1: varies.
    pub len: i16,
    /// Passed by value.
    pub byval: bool,
    /// `pg_type.typalign`.
    pub align: &'static str,
    /// `pg_type.typstorage`.
    pub storage: &'static str,
    /// `pg_type.typcollation`.
    pub collation: u32,
    /// The name in SQL's words: `bigint`.
    pub sql: &'static str,
}

impl PgType {
    /// An array.
    pub fn is_array(&self) -> bool {
        self.name.ends_with("[]")
    }

    /// The Arrow type that holds its values.
    pub fn arrow(&self) -> DataType {
        if let Some(element) = self.name.strip_suffix("[]").and_then(by_name) {
            return DataType::List(Arc::new(Field::new_list_field(element.arrow(), true)));
        }
        match self.name {
            "bool" => DataType::Boolean,
            "int2" => DataType::Int16,
            "int4" | "oid" => DataType::Int32,
            reg if reg.starts_with("reg") => DataType::Int32,
            "int8" => DataType::Int64,
            "float4" => DataType::Float32,
            "float8" => DataType::Float64,
            "date" => DataType::Date32,
            "time" => DataType::Time64(TimeUnit::Microsecond),
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
            "numeric" => DataType::Decimal128(38, 10),
            "bytea" => DataType::Binary,
            "int2vector" => DataType::List(Arc::new(Field::new_list_field(DataType::Int16, true))),
            "oidvector" => DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
            _ => DataType::Utf8,
        }
    }

    /// A nullable column of this type.
    pub fn field(&self, name: &str) -> Field {
        Field::new(name, self.arrow(), true).with_metadata(self.metadata())
    }

    /// What marks a field as exactly this type. Empty where Arrow's own type says it all.
    pub fn metadata(&self) -> HashMap<String, String> {
        let mut metadata = HashMap::new();
        match self.name {
            "bool" | "int2" | "int4" | "int8" | "float4" | "float8" | "text" | "date" | "time" | "timestamp"
            | "timestamptz" | "interval" | "numeric" | "bytea" | "text[]" | "int4[]" => return metadata,
            oid if oid == "oid" || oid.starts_with("reg") => {
                metadata.insert(arrow_pg::datatypes::PG_OID_ALIAS_KEY.into(), self.name.into());
            }
            "char" => {
                metadata.insert(arrow_pg::datatypes::PG_CHAR_KEY.into(), "char".into());
            }
            _ => {}
        }
        metadata.insert(TYPE_KEY.into(), self.name.into());
        metadata
    }
}

macro_rules! types {
    ($($name:literal $typname:literal $oid:literal $len:literal $byval:literal $align:literal $storage:literal $collation:literal $sql:literal;)*) => {
        &[$(PgType { name: $name, typname: $typname, oid: $oid, len: $len, byval: $byval, align: $align,
            storage: $storage, collation: $collation, sql: $sql }),*]
    };
}

/// Every type that a column here may have.
#[rustfmt::skip]
pub const TYPES: &[PgType] = types![
    "bool"         "bool"         16   1  true  "c" "p" 0   "boolean";
    "bytea"        "bytea"        17   -1 false "i" "x" 0   "bytea";
    "char"         "char"         18   1  true  "c" "p" 0   "\"char\"";
    "name"         "name"         19   64 false "c" "p" 950 "name";
    "int8"         "int8"         20   8  true  "d" "p" 0   "bigint";
    "int2"         "int2"         21   2  true  "s" "p" 0   "smallint";
    "int2vector"   "int2vector"   22   -1 false "i" "p" 0   "int2vector";
    "int4"         "int4"         23   4  true  "i" "p" 0   "integer";
    "regproc"      "regproc"      24   4  true  "i" "p" 0   "regproc";
    "text"         "text"         25   -1 false "i" "x" 100 "text";
    "oid"          "oid"          26   4  true  "i" "p" 0   "oid";
    "xid"          "xid"          28   4  true  "i" "p" 0   "xid";
    "oidvector"    "oidvector"    30   -1 false "i" "p" 0   "oidvector";
    "json"         "json"         114  -1 false "i" "x" 0   "json";
    "pg_node_tree" "pg_node_tree" 194  -1 false "i" "x" 100 "pg_node_tree";
    "float4"       "float4"       700  4  true  "i" "p" 0   "real";
    "float8"       "float8"       701  8  true  "d" "p" 0   "double precision";
    "inet"         "inet"         869  -1 false "i" "m" 0   "inet";
    "varchar"      "varchar"      1043 -1 false "i" "x" 100 "character varying";
    "date"         "date"         1082 4  true  "i" "p" 0   "date";
    "time"         "time"         1083 8  true  "d" "p" 0   "time without time zone";
    "timestamp"    "timestamp"    1114 8  true  "d" "p" 0   "timestamp without time zone";
    "timestamptz"  "timestamptz"  1184 8  true  "d" "p" 0   "timestamp with time zone";
    "interval"     "interval"     1186 16 false "d" "p" 0   "interval";
    "numeric"      "numeric"      1700 -1 false "i" "m" 0   "numeric";
    "regprocedure" "regprocedure" 2202 4  true  "i" "p" 0   "regprocedure";
    "regoper"      "regoper"      2203 4  true  "i" "p" 0   "regoper";
    "regoperator"  "regoperator"  2204 4  true  "i" "p" 0   "regoperator";
    "regclass"     "regclass"     2205 4  true  "i" "p" 0   "regclass";
    "regtype"      "regtype"      2206 4  true  "i" "p" 0   "regtype";
    "regnamespace" "regnamespace" 4089 4  true  "i" "p" 0   "regnamespace";
    "regrole"      "regrole"      4096 4  true  "i" "p" 0   "regrole";
    "uuid"         "uuid"         2950 16 false "c" "p" 0   "uuid";
    "jsonb"        "jsonb"        3802 -1 false "i" "x" 0   "jsonb";
    "bpchar"       "bpchar"       1042 -1 false "i" "x" 100 "character";
    "timetz"       "timetz"       1266 12 false "d" "p" 0   "time with time zone";
    "json[]"       "_json"        199  -1 false "i" "x" 0   "json[]";
    "jsonb[]"      "_jsonb"       3807 -1 false "i" "x" 0   "jsonb[]";
    "numeric[]"    "_numeric"     1231 -1 false "i" "x" 0   "numeric[]";
    "date[]"       "_date"        1182 -1 false "i" "x" 0   "date[]";
    "timestamp[]"  "_timestamp"   1115 -1 false "d" "x" 0   "timestamp without time zone[]";
    "timestamptz[]" "_timestamptz" 1185 -1 false "d" "x" 0  "timestamp with time zone[]";
    "interval[]"   "_interval"    1187 -1 false "d" "x" 0   "interval[]";
    "uuid[]"       "_uuid"        2951 -1 false "i" "x" 0   "uuid[]";
    "bytea[]"      "_bytea"       1001 -1 false "i" "x" 0   "bytea[]";
    "varchar[]"    "_varchar"     1015 -1 false "i" "x" 100 "character varying[]";
    "time[]"       "_time"        1183 -1 false "d" "x" 0   "time without time zone[]";
    "bool[]"       "_bool"        1000 -1 false "i" "x" 0   "boolean[]";
    "char[]"       "_char"        1002 -1 false "i" "x" 0   "\"char\"[]";
    "name[]"       "_name"        1003 -1 false "i" "x" 950 "name[]";
    "int2[]"       "_int2"        1005 -1 false "i" "x" 0   "smallint[]";
    "int4[]"       "_int4"        1007 -1 false "i" "x" 0   "integer[]";
    "text[]"       "_text"        1009 -1 false "i" "x" 100 "text[]";
    "int8[]"       "_int8"        1016 -1 false "d" "x" 0   "bigint[]";
    "float4[]"     "_float4"      1021 -1 false "i" "x" 0   "real[]";
    "float8[]"     "_float8"      1022 -1 false "d" "x" 0   "double precision[]";
    "oid[]"        "_oid"         1028 -1 false "i" "x" 0   "oid[]";
    "xid[]"        "_xid"         1011 -1 false "i" "x" 0   "xid[]";
    "bpchar[]"     "_bpchar"      1014 -1 false "i" "x" 100 "character[]";
];

/// The type of that name, as headers of view files and `main.columns` have it.
pub fn by_name(name: &str) -> Option<&'static PgType> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static PgType>> =
        LazyLock::new(|| TYPES.iter().map(|pg_type| (pg_type.name, pg_type)).collect());
    BY_NAME.get(name).copied()
}

/// The type that a field is marked as, if it is.
pub fn marked(field: &Field) -> Option<&'static PgType> {
    let metadata = field.metadata();
    metadata
        .get(TYPE_KEY)
        .or_else(|| metadata.get(arrow_pg::datatypes::PG_OID_ALIAS_KEY))
        .map(String::as_str)
        .or_else(|| metadata.contains_key(arrow_pg::datatypes::PG_CHAR_KEY).then_some("char"))
        .and_then(by_name)
}

/// The type that a field has on the wire.
pub fn wire_type(field: &Field) -> Type {
    marked(field)
        .and_then(|pg_type| Type::from_oid(pg_type.oid))
        .unwrap_or_else(|| arrow_pg::datatypes::field_into_pg_type(&Arc::new(field.clone())).unwrap_or(Type::TEXT))
}

/// The name, as in [`TYPES`], of the type that an Arrow field is closest to.
pub fn name_of(field: &Field) -> &'static str {
    if let Some(pg_type) = marked(field) {
        return pg_type.name;
    }
    // PostgreSQL has no numbers without a sign.
    if matches!(field.data_type(), DataType::UInt32 | DataType::UInt64) {
        return "int8";
    }
    let oid = wire_type(field).oid();
    TYPES.iter().find(|pg_type| pg_type.oid == oid).map_or("text", |pg_type| pg_type.name)
}

/// The type of an expression, as a field that may have another name.
///
/// # Errors
/// Its operands don't go together.
pub fn field_of(expr: &Expr, schema: &DFSchema) -> DfResult<FieldRef> {
    match expr {
        // `to_field` writes out what is below at each level, for its name: in a chain of 900 operators that takes a minute.
        Expr::BinaryExpr(_) => Ok(Arc::new(Field::new("", expr.get_type(schema)?, true))),
        other => other.to_field(schema).map(|(_, field)| field),
    }
}

/// Whether an expression is of the type of that name.
pub fn is_of(expr: &Expr, name: &str, schema: &DFSchema) -> bool {
    field_of(expr, schema).is_ok_and(|field| name_of(&field) == name)
}

/// The type that numbers of these types become, if one of them is a float: every float is wider than an exact number.
/// DataFusion takes an exact number for the wider one, which holds neither 1e300 nor 1e-300.
pub fn widest_float<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    let known: Vec<&DataType> = types.into_iter().filter(|data_type| !data_type.is_null()).collect();
    if !known.iter().all(|data_type| data_type.is_numeric()) {
        return None;
    }
    [DataType::Float64, DataType::Float32].into_iter().find(|float| known.contains(&float))
}

/// The type of a field in SQL's words, as messages name it: `timestamp with time zone`, `bigint[]`.
pub fn sql_name(field: &Field) -> &'static str {
    match field.data_type() {
        DataType::Null => "unknown",
        DataType::Struct(_) => "record",
        _ => by_name(name_of(field)).map_or("text", |pg_type| pg_type.sql),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_there_once() {
        let names: std::collections::BTreeSet<&str> = TYPES.iter().map(|pg_type| pg_type.name).collect();
        assert_eq!(names.len(), TYPES.len());
    }

    #[test]
    fn a_field_keeps_its_exact_type_up_to_the_wire() {
        for pg_type in TYPES {
            assert_eq!(wire_type(&pg_type.field("c")).oid(), pg_type.oid, "{}", pg_type.name);
        }
    }
}

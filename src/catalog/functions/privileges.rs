//! The has_..._privilege family. Every user that can connect may read everything, so what exists may be read.

use datafusion::common::ScalarValue;

use super::{Call, Definition, Value, stable};

pub const FUNCTIONS: &[Definition] = &[
    stable("has_table_privilege", 2..=3, "bool", allowed),
    stable("has_any_column_privilege", 2..=3, "bool", allowed),
    stable("has_column_privilege", 3..=4, "bool", allowed),
    stable("has_schema_privilege", 2..=3, "bool", allowed),
    stable("has_database_privilege", 2..=3, "bool", allowed),
    stable("has_function_privilege", 2..=3, "bool", allowed),
    stable("has_language_privilege", 2..=3, "bool", allowed),
    stable("has_sequence_privilege", 2..=3, "bool", allowed),
    stable("has_server_privilege", 2..=3, "bool", allowed),
    stable("has_tablespace_privilege", 2..=3, "bool", allowed),
    stable("has_type_privilege", 2..=3, "bool", allowed),
    stable("has_foreign_data_wrapper_privilege", 2..=3, "bool", allowed),
    stable("has_parameter_privilege", 2..=3, "bool", allowed),
    stable("pg_has_role", 2..=3, "bool", allowed),
    stable("row_security_active", 1..=1, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
];

fn allowed(call: &Call<'_>) -> Value {
    Ok(ScalarValue::Boolean((!call.any_null()).then_some(true)))
}

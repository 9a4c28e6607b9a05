//! The rows of a materialized view: one SQLite table a view.
//!
//! `mv_<job id>` holds three hidden columns, which say which row of the source a row came from, and then the view's
//! own. Nothing makes them unique: that each row is there once is what the engine guarantees, and what the hidden
//! columns let anyone check.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};

use super::Context;
use crate::backfill::id::{JobId, Offset, SourceId, SplitId};
use crate::error::{Error, Result};

/// Names that a view's column can't have, since SQLite or the engine uses them.
pub const RESERVED: [&str; 4] = ["_rowid_", "_source_id", "_split", "_offset"];

/// The table of a view.
pub fn table_name(job: JobId) -> String {
    format!("mv_{job}")
}

/// Makes the table of a view. `columns` are names and PostgreSQL types.
///
/// # Errors
/// [`Error::Store`].
pub fn create_table(tx: &Connection, job: JobId, columns: &[(String, String)]) -> Result<()> {
    let own: String =
        columns.iter().map(|(name, type_name)| format!(", {} {}", quote(name), storage_class(type_name))).collect();
    tx.execute_batch(&format!(
        "CREATE TABLE {} (_source_id INTEGER NOT NULL, _split TEXT NOT NULL, _offset INTEGER NOT NULL{own}) STRICT",
        table_name(job)
    ))
    .context("making the table of a view")
}

/// Drops the table of a view.
///
/// # Errors
/// [`Error::Store`].
pub fn drop_table(tx: &Connection, job: JobId) -> Result<()> {
    tx.execute_batch(&format!("DROP TABLE IF EXISTS {}", table_name(job))).context("dropping the table of a view")
}

/// An identifier as SQL text.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn storage_class(type_name: &str) -> &'static str {
    match type_name {
        "bool" | "int2" | "int4" | "int8" | "timestamp" | "timestamptz" | "date" => "INTEGER",
        // As it is: a REAL would lose the sign of zero, and has no NaN.
        "float4" | "float8" => "ANY",
        "bytea" => "BLOB",
        _ => "TEXT",
    }
}

/// Rows that one actor emitted from one split.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// The view.
    pub job: JobId,
    /// The source that the rows came from.
    pub source: SourceId,
    /// The split that they came from.
    pub split: SplitId,
    /// A row's offset in the split.
    pub offsets: Vec<Offset>,
    /// The rows, in the view's columns.
    pub rows: RecordBatch,
}

/// Appends rows to their view's table.
///
/// # Errors
/// [`Error::Store`], and [`Error::Internal`] for a column type that views can't have.
pub fn append(tx: &Connection, emitted: &Emitted) -> Result<()> {
    let columns = emitted.rows.columns().iter().map(Column::new).collect::<Result<Vec<_>>>()?;
    let holes = ", ?".repeat(columns.len());
    let sql = format!("INSERT INTO {} VALUES (?, ?, ?{holes})", table_name(emitted.job));
    let mut statement = tx.prepare_cached(&sql).context("preparing to append view rows")?;
    let anything = if columns.iter().any(Column::has_nan) {
        takes_anything(tx, emitted.job).context("preparing to append view rows")?
    } else {
        Vec::new()
    };
    let mut insert = || -> rusqlite::Result<()> {
        statement.raw_bind_parameter(1, emitted.source.0)?;
        statement.raw_bind_parameter(2, emitted.split.as_str())?;
        for (row, offset) in emitted.offsets.iter().enumerate() {
            statement.raw_bind_parameter(3, offset.0)?;
            for (index, column) in columns.iter().enumerate() {
                statement.raw_bind_parameter(index + 4, column.value(row, anything.get(index) == Some(&true)))?;
            }
            statement.raw_execute()?;
        }
        Ok(())
    };
    insert().context("appending view rows")
}

/// The text that a NaN is stored as: SQLite has none.
pub const NAN: &str = "NaN";

/// Which of a view's own columns take values of any kind. Of a view that is older than that, none.
fn takes_anything(tx: &Connection, job: JobId) -> rusqlite::Result<Vec<bool>> {
    tx.prepare_cached("SELECT type = 'ANY' FROM pragma_table_info(?1) WHERE cid > 2 ORDER BY cid")?
        .query_map([table_name(job)], |row| row.get(0))?
        .collect()
}

fn float(value: f64, any: bool) -> ToSqlOutput<'static> {
    if value.is_nan() && any {
        return ToSqlOutput::Borrowed(ValueRef::Text(NAN.as_bytes()));
    }
    ToSqlOutput::Owned(Value::Real(value))
}

/// A column whose type has been looked at once, not once a row.
enum Column<'a> {
    Bool(&'a datafusion::arrow::array::BooleanArray),
    Int16(&'a datafusion::arrow::array::Int16Array),
    Int32(&'a datafusion::arrow::array::Int32Array),
    Int64(&'a datafusion::arrow::array::Int64Array),
    Float32(&'a datafusion::arrow::array::Float32Array),
    Float64(&'a datafusion::arrow::array::Float64Array),
    Text(&'a datafusion::arrow::array::StringArray),
    Binary(&'a datafusion::arrow::array::BinaryArray),
    Date(&'a datafusion::arrow::array::Date32Array),
    Timestamp(&'a datafusion::arrow::array::TimestampMicrosecondArray),
    Decimal(&'a datafusion::arrow::array::Decimal128Array),
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Boolean => Self::Bool(array.as_boolean()),
            DataType::Int16 => Self::Int16(array.as_primitive::<Int16Type>()),
            DataType::Int32 => Self::Int32(array.as_primitive::<Int32Type>()),
            DataType::Int64 => Self::Int64(array.as_primitive::<Int64Type>()),
            DataType::Float32 => Self::Float32(array.as_primitive::<Float32Type>()),
            DataType::Float64 => Self::Float64(array.as_primitive::<Float64Type>()),
            DataType::Utf8 => Self::Text(array.as_string::<i32>()),
            DataType::Binary => Self::Binary(array.as_binary::<i32>()),
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Timestamp(array.as_primitive::<TimestampMicrosecondType>())
            }
            DataType::Decimal128(_, _) => Self::Decimal(array.as_primitive::<Decimal128Type>()),
            other => return Err(Error::Internal(format!("a view column of type {other}"))),
        })
    }

    fn has_nan(&self) -> bool {
        match self {
            Self::Float32(array) => array.iter().flatten().any(f32::is_nan),
            Self::Float64(array) => array.iter().flatten().any(f64::is_nan),
            _ => false,
        }
    }

    /// `any`: the column of the table takes values of any kind.
    fn value(&self, row: usize, any: bool) -> ToSqlOutput<'a> {
        let owned = |value: Value| ToSqlOutput::Owned(value);
        match self {
            Self::Bool(array) if array.is_valid(row) => owned(Value::Integer(i64::from(array.value(row)))),
            Self::Int16(array) if array.is_valid(row) => owned(Value::Integer(i64::from(array.value(row)))),
            Self::Int32(array) if array.is_valid(row) => owned(Value::Integer(i64::from(array.value(row)))),
            Self::Int64(array) if array.is_valid(row) => owned(Value::Integer(array.value(row))),
            Self::Float32(array) if array.is_valid(row) => float(f64::from(array.value(row)), any),
            Self::Float64(array) if array.is_valid(row) => float(array.value(row), any),
            Self::Text(array) if array.is_valid(row) => {
                ToSqlOutput::Borrowed(ValueRef::Text(array.value(row).as_bytes()))
            }
            Self::Binary(array) if array.is_valid(row) => ToSqlOutput::Borrowed(ValueRef::Blob(array.value(row))),
            Self::Date(array) if array.is_valid(row) => owned(Value::Integer(i64::from(array.value(row)))),
            Self::Timestamp(array) if array.is_valid(row) => owned(Value::Integer(array.value(row))),
            Self::Decimal(array) if array.is_valid(row) => owned(Value::Text(array.value_as_string(row))),
            _ => owned(Value::Null),
        }
    }
}

//! Arrow to the wire: a row of a record batch as a DataRow message, in the text and binary formats of PostgreSQL.
//!
//! arrow-pg knows which PostgreSQL type an Arrow field is. The values are written here, straight into the
//! connection's buffer: arrow-pg's own encoder prints floats, times, intervals and long decimals in another way than
//! PostgreSQL does, and NULL intervals as zero.

mod binary;
mod copy;
mod numeric;
mod style;
mod text;

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;
use pgwire::messages::data::{FieldDescription, RowDescription};
use postgres_types::Kind;

pub use self::copy::CopyWriter;
pub(super) use self::numeric::read_numeric;
pub use self::style::Style;
use crate::catalog::Origin;
use crate::error::{Error, Result};

/// Key of an Arrow field's metadata that names its PostgreSQL type where the Arrow type alone doesn't tell it: `jsonb`,
/// `name`, `oid[]`, ...
pub const PG_TYPE_KEY: &str = "pg.type";

/// A column of a result.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its Arrow field.
    pub field: FieldRef,
    /// Its PostgreSQL type.
    pub pg_type: Type,
    /// How its values are sent.
    pub format: FieldFormat,
    /// The relation's column that it shows, unless it is computed.
    pub origin: Option<Origin>,
}

/// The columns of a result with this schema, in text format. `output_name` makes a field's name the one to show.
pub fn columns<'a>(schema: &'a Schema, output_name: impl Fn(&'a str) -> &'a str) -> Result<Arc<[Column]>> {
    schema
        .fields()
        .iter()
        .map(|field| {
            let name = output_name(field.name()).to_owned();
            // What counts rows is unsigned to DataFusion: row_number() and its like.
            let field = match field.data_type() {
                DataType::UInt64 => Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)),
                _ => Arc::clone(field),
            };
            let pg_type = pg_type(&field)?;
            Ok(Column { name, field, pg_type, format: FieldFormat::Text, origin: None })
        })
        .collect()
}

/// The same columns in the formats of a Bind message: none means text, one is for all.
pub fn with_formats(columns: &Arc<[Column]>, codes: &[i16]) -> Result<Arc<[Column]>> {
    let code_of = |index: usize| match codes {
        [] => 0,
        [one] => *one,
        many => many[index],
    };
    if codes.len() > 1 && codes.len() != columns.len() {
        return Err(Error::Session {
            sqlstate: "08P01",
            message: format!("bind message has {} result formats but query has {} columns", codes.len(), columns.len()),
        });
    }
    if let Some(code) = codes.iter().find(|code| !matches!(code, 0 | 1)) {
        return Err(Error::Session { sqlstate: "22023", message: format!("unsupported format code: {code}") });
    }
    if codes.iter().all(|code| *code == 0) {
        return Ok(Arc::clone(columns));
    }
    Ok(columns
        .iter()
        .enumerate()
        .map(|(index, column)| Column { format: FieldFormat::from(code_of(index)), ..column.clone() })
        .collect())
}

/// The RowDescription message of these columns.
pub fn row_description(columns: &[Column]) -> RowDescription {
    let fields = columns
        .iter()
        .map(|column| {
            let origin = column.origin.unwrap_or_default();
            FieldDescription::new(
                column.name.clone(),
                origin.relation as i32,
                origin.column,
                column.pg_type.oid(),
                type_size(&column.pg_type),
                -1,
                column.format.value(),
            )
        })
        .collect();
    RowDescription::new(fields)
}

/// The PostgreSQL type of an Arrow field.
pub fn pg_type(field: &FieldRef) -> Result<Type> {
    if let Some(named) = field.metadata().get(PG_TYPE_KEY).and_then(|name| named_type(name)) {
        // A name of a relation, type or function that is carried as text can't be sent as its number.
        let as_text = is_alias(&named) && is_text(field.data_type());
        return Ok(if as_text { Type::TEXT } else { named });
    }
    match field.data_type() {
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal256(..) => Ok(Type::NUMERIC),
        // DataFusion's NULL literal: PostgreSQL says text.
        DataType::Null => Ok(Type::TEXT),
        DataType::Dictionary(_, value) => pg_type(&Arc::new(Field::new(field.name(), value.as_ref().clone(), true))),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let item = pg_type(item)?;
            // An array of arrays is an array of more dimensions, of the same type.
            Ok(if matches!(item.kind(), Kind::Array(_)) { item } else { array_of(&item) })
        }
        DataType::Map(..) | DataType::Union(..) | DataType::RunEndEncoded(..) => Ok(Type::TEXT),
        _ => match arrow_pg::datatypes::field_into_pg_type(field) {
            Ok(alias) if is_alias(&alias) && is_text(field.data_type()) => Ok(Type::TEXT),
            Ok(pg_type) => Ok(pg_type),
            Err(_) => Err(Error::FeatureNotSupported {
                what: format!("column \"{}\" of type {}", field.name(), field.data_type()),
                hint: "Cast it to text.".into(),
            }),
        },
    }
}

fn named_type(name: &str) -> Option<Type> {
    if let Some(item) = name.strip_suffix("[]") {
        return named_type(item).map(|item| array_of(&item));
    }
    Some(match name {
        "bool" => Type::BOOL,
        "int2" => Type::INT2,
        "int4" => Type::INT4,
        "int8" => Type::INT8,
        "float4" => Type::FLOAT4,
        "float8" => Type::FLOAT8,
        "numeric" => Type::NUMERIC,
        "text" => Type::TEXT,
        "bytea" => Type::BYTEA,
        "date" => Type::DATE,
        "time" => Type::TIME,
        "timestamp" => Type::TIMESTAMP,
        "timestamptz" => Type::TIMESTAMPTZ,
        "interval" => Type::INTERVAL,
        "jsonb" => Type::JSONB,
        "json" => Type::JSON,
        "name" => Type::NAME,
        "uuid" => Type::UUID,
        "varchar" => Type::VARCHAR,
        "bpchar" => Type::BPCHAR,
        "inet" => Type::INET,
        "xid" => Type::XID,
        "oid" => Type::OID,
        "char" => Type::CHAR,
        "int2vector" => Type::INT2_VECTOR,
        "oidvector" => Type::OID_VECTOR,
        "pg_node_tree" => Type::PG_NODE_TREE,
        _ => return arrow_pg::datatypes::pg_type_for_alias_kind(name),
    })
}

fn array_of(item: &Type) -> Type {
    match *item {
        Type::BOOL => Type::BOOL_ARRAY,
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::FLOAT4 => Type::FLOAT4_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::NUMERIC => Type::NUMERIC_ARRAY,
        Type::NAME => Type::NAME_ARRAY,
        Type::OID => Type::OID_ARRAY,
        Type::CHAR => Type::CHAR_ARRAY,
        Type::VARCHAR => Type::VARCHAR_ARRAY,
        Type::BYTEA => Type::BYTEA_ARRAY,
        Type::DATE => Type::DATE_ARRAY,
        Type::TIME => Type::TIME_ARRAY,
        Type::TIMESTAMP => Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        Type::INTERVAL => Type::INTERVAL_ARRAY,
        Type::JSON => Type::JSON_ARRAY,
        Type::JSONB => Type::JSONB_ARRAY,
        Type::UUID => Type::UUID_ARRAY,
        Type::BPCHAR => Type::BPCHAR_ARRAY,
        Type::XID => Type::XID_ARRAY,
        _ if matches!(item.kind(), Kind::Composite(_)) => Type::RECORD_ARRAY,
        _ => Type::TEXT_ARRAY,
    }
}

fn is_alias(pg_type: &Type) -> bool {
    matches!(
        *pg_type,
        Type::REGCLASS
            | Type::REGTYPE
            | Type::REGPROC
            | Type::REGPROCEDURE
            | Type::REGOPER
            | Type::REGOPERATOR
            | Type::REGNAMESPACE
            | Type::REGROLE
            | Type::REGCONFIG
            | Type::REGDICTIONARY
            | Type::REGCOLLATION
    )
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// `pg_type.typlen`: bytes of a value of fixed size, else -1.
fn type_size(pg_type: &Type) -> i16 {
    match *pg_type {
        Type::BOOL | Type::CHAR => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID | Type::XID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL | Type::UUID => 16,
        Type::NAME => 64,
        ref alias if is_alias(alias) => 4,
        _ => -1,
    }
}

/// Makes the arrays of a batch ready for [`write_row`]: dictionaries and runs become plain arrays, a type that turned out
/// otherwise than it was described becomes what it was described as, and of an oid with its name the one that is sent
/// stays.
pub fn plain(batch: &RecordBatch, columns: &[Column]) -> Result<Vec<ArrayRef>> {
    let arrays = batch.columns().iter().zip(columns).map(|(array, column)| match array.data_type() {
        // An oid and its name.
        DataType::Struct(_) if is_alias(&column.pg_type) => {
            let parts = array.as_struct();
            Ok(Arc::clone(parts.column(if column.format == FieldFormat::Text { 1 } else { 0 })))
        }
        _ if is_alias(&column.pg_type) => Ok(Arc::clone(array)),
        DataType::Dictionary(_, value) => cast(array, value),
        DataType::RunEndEncoded(_, value) => cast(array, value.data_type()),
        same if same == column.field.data_type() => Ok(Arc::clone(array)),
        other if is_text(other) && is_text(column.field.data_type()) => Ok(Arc::clone(array)),
        // A value that doesn't fit is an error, not NULL.
        _ => {
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, column.field.data_type(), &strict)
        }
    });
    arrays
        .collect::<Result<_, datafusion::arrow::error::ArrowError>>()
        .map_err(|error| super::errors::from_datafusion(error.into()))
}

/// A batch of arrays that [`plain`] has made.
pub fn batch_of(columns: &[Column], arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let fields = columns.iter().zip(&arrays).map(|(column, array)| {
        Field::new(column.field.name(), array.data_type().clone(), true).with_metadata(column.field.metadata().clone())
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options)
        .map_err(|error| super::errors::from_datafusion(error.into()))
}

/// Rows of text.
pub fn text_batch(names: &[&str], rows: &[Vec<String>]) -> Result<RecordBatch> {
    let columns = (0..names.len()).map(|column| {
        let values = rows.iter().map(|row| row.get(column));
        Arc::new(values.collect::<StringArray>()) as ArrayRef
    });
    RecordBatch::try_from_iter(names.iter().copied().zip(columns))
        .map_err(|error| super::errors::from_datafusion(error.into()))
}

/// A value in text format.
pub fn scalar_text(scalar: &ScalarValue) -> Result<String> {
    let array = scalar.to_array().map_err(super::errors::from_datafusion)?;
    let field = Arc::new(Field::new("", array.data_type().clone(), true));
    let mut out = BytesMut::new();
    text::write(&mut out, &array, 0, &pg_type(&field)?, &Style::default())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// A value that isn't NULL in text format. `field` tells its exact type, where the value alone doesn't.
pub fn value_text(value: &ScalarValue, field: Option<&FieldRef>, style: &Style) -> Result<String> {
    let array = value.to_array().map_err(super::errors::from_datafusion)?;
    let of_value = Arc::new(Field::new("", array.data_type().clone(), true));
    let field = field.filter(|field| field.data_type() == array.data_type()).unwrap_or(&of_value);
    let mut out = BytesMut::new();
    text::write(&mut out, &array, 0, &pg_type(field)?, style)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Appends a DataRow message with the values of one row.
pub fn write_row(out: &mut BytesMut, columns: &[Column], arrays: &[ArrayRef], row: usize, style: &Style) -> Result<()> {
    out.put_u8(b'D');
    let start = out.len();
    out.put_i32(0);
    out.put_i16(columns.len() as i16);
    for (column, array) in columns.iter().zip(arrays) {
        write_value(out, column, array, row, style)?;
    }
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_value(out: &mut BytesMut, column: &Column, array: &dyn Array, row: usize, style: &Style) -> Result<()> {
    sized(out, |out| {
        if array.is_null(row) || array.data_type() == &DataType::Null {
            return Ok(false);
        }
        match column.format {
            FieldFormat::Text => text::write(out, array, row, &column.pg_type, style)?,
            FieldFormat::Binary => binary::write(out, array, row, &column.pg_type)?,
        }
        Ok(true)
    })
}

/// A value behind its length, which is -1 when there is none.
fn sized(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<bool>) -> Result<()> {
    let start = out.len();
    out.put_i32(-1);
    if write(out)? {
        let length = (out.len() - start - 4) as i32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// The elements of a list value.
fn elements(array: &dyn Array, row: usize) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => Some(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().value(row)),
        DataType::ListView(_) => Some(array.as_list_view::<i32>().value(row)),
        _ => None,
    }
}

/// The text of a string value.
fn string(array: &dyn Array, row: usize) -> Option<&str> {
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        _ => None,
    }
}

/// The bytes of a binary value.
fn bytes_of(array: &dyn Array, row: usize) -> Option<&[u8]> {
    match array.data_type() {
        DataType::Binary => Some(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Some(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => Some(array.as_fixed_size_binary().value(row)),
        _ => None,
    }
}

/// A value of Arrow's types for times, in PostgreSQL's terms.
enum Moment {
    /// Days since 1970-01-01.
    Date(i64),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970-01-01 00:00 of no zone.
    Timestamp(i64),
    /// Microseconds since 1970-01-01 00:00 UTC.
    TimestampTz(i64),
    /// Months, days and microseconds.
    Interval(i32, i32, i64),
}

fn moment(array: &dyn Array, row: usize) -> Option<Moment> {
    use datafusion::arrow::array::types as t;
    use datafusion::arrow::datatypes::{IntervalUnit, TimeUnit};
    let stamp = |micros: i64, zone: &Option<Arc<str>>| match zone {
        Some(_) => Moment::TimestampTz(micros),
        None => Moment::Timestamp(micros),
    };
    Some(match array.data_type() {
        DataType::Date32 => Moment::Date(array.as_primitive::<t::Date32Type>().value(row).into()),
        DataType::Date64 => Moment::Date(array.as_primitive::<t::Date64Type>().value(row).div_euclid(86_400_000)),
        DataType::Time32(TimeUnit::Second) => {
            Moment::Time(i64::from(array.as_primitive::<t::Time32SecondType>().value(row)) * 1_000_000)
        }
        DataType::Time32(_) => {
            Moment::Time(i64::from(array.as_primitive::<t::Time32MillisecondType>().value(row)) * 1_000)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Moment::Time(array.as_primitive::<t::Time64MicrosecondType>().value(row))
        }
        DataType::Time64(_) => Moment::Time(array.as_primitive::<t::Time64NanosecondType>().value(row) / 1_000),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            stamp(array.as_primitive::<t::TimestampSecondType>().value(row).saturating_mul(1_000_000), zone)
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            stamp(array.as_primitive::<t::TimestampMillisecondType>().value(row).saturating_mul(1_000), zone)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            stamp(array.as_primitive::<t::TimestampMicrosecondType>().value(row), zone)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            stamp(array.as_primitive::<t::TimestampNanosecondType>().value(row).div_euclid(1_000), zone)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            Moment::Interval(array.as_primitive::<t::IntervalYearMonthType>().value(row), 0, 0)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = array.as_primitive::<t::IntervalDayTimeType>().value(row);
            Moment::Interval(0, value.days, i64::from(value.milliseconds) * 1_000)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<t::IntervalMonthDayNanoType>().value(row);
            Moment::Interval(value.months, value.days, value.nanoseconds / 1_000)
        }
        DataType::Duration(TimeUnit::Second) => {
            span(array.as_primitive::<t::DurationSecondType>().value(row).saturating_mul(1_000_000))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            span(array.as_primitive::<t::DurationMillisecondType>().value(row).saturating_mul(1_000))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            span(array.as_primitive::<t::DurationMicrosecondType>().value(row))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            span(array.as_primitive::<t::DurationNanosecondType>().value(row) / 1_000)
        }
        _ => return None,
    })
}

/// What subtracting two timestamps gives: whole days apart from the rest, as in PostgreSQL.
fn span(micros: i64) -> Moment {
    const DAY: i64 = 86_400_000_000;
    Moment::Interval(0, (micros / DAY) as i32, micros % DAY)
}

/// The decimal text of a numeric value.
fn decimal(array: &dyn Array, row: usize) -> Option<String> {
    use datafusion::arrow::array::types as t;
    Some(match array.data_type() {
        DataType::Decimal32(..) => array.as_primitive::<t::Decimal32Type>().value_as_string(row),
        DataType::Decimal64(..) => array.as_primitive::<t::Decimal64Type>().value_as_string(row),
        // As wide as can be: a numeric of no declared scale, whose values have their own in PostgreSQL.
        DataType::Decimal128(38, 10) => {
            let text = array.as_primitive::<t::Decimal128Type>().value_as_string(row);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        DataType::Decimal128(..) => array.as_primitive::<t::Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => array.as_primitive::<t::Decimal256Type>().value_as_string(row),
        DataType::UInt64 => array.as_primitive::<t::UInt64Type>().value(row).to_string(),
        _ => return None,
    })
}

/// A whole number of at most 64 bits with sign.
fn integer(array: &dyn Array, row: usize) -> Option<i64> {
    use datafusion::arrow::array::types as t;
    Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<t::Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<t::Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<t::Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<t::Int64Type>().value(row),
        DataType::UInt8 => array.as_primitive::<t::UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<t::UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<t::UInt32Type>().value(row).into(),
        _ => return None,
    })
}

/// What can't be written, which only a defect of ours can bring here.
fn unwritable(array: &dyn Array) -> Error {
    Error::Internal(format!("a value of type {} can't be sent to a client", array.data_type()))
}

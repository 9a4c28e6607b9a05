//! Rows of SQLite as Arrow batches.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListBuilder, RecordBatch,
    RecordBatchOptions, StringBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, SchemaRef};
use rusqlite::types::ValueRef;

use crate::error::{Error, Result};
use crate::store::view_rows::NAN;

/// Collects rows into a batch.
pub struct BatchBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    rows: usize,
}

impl BatchBuilder {
    /// An empty batch of that schema.
    ///
    /// # Errors
    /// A column of a type that SQLite's rows can't be turned into.
    pub fn new(schema: SchemaRef) -> Result<Self> {
        let columns =
            schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type())).collect::<Result<_>>()?;
        Ok(Self { schema, columns, rows: 0 })
    }

    /// Adds a row: the values from `first` on are those of the columns.
    ///
    /// # Errors
    /// A value that isn't of its column's type.
    pub fn push(&mut self, row: &rusqlite::Row<'_>, first: usize) -> Result<()> {
        for (index, column) in self.columns.iter_mut().enumerate() {
            let value = row.get_ref(first + index).map_err(store)?;
            column.push(value).ok_or_else(|| {
                let field = self.schema.field(index);
                Error::Internal(format!("{value:?} is not of type {} in column {}", field.data_type(), field.name()))
            })?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// The batch.
    ///
    /// # Errors
    /// None in practice: the columns are as long as each other.
    pub fn finish(self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let schema = self.schema;
        let columns = self
            .columns
            .into_iter()
            .zip(schema.fields())
            .map(|(column, field)| column.finish(field.data_type()))
            .collect();
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(|error| Error::Internal(error.to_string()))
    }
}

fn store(source: rusqlite::Error) -> Error {
    super::store_error("read the catalog", source)
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Instant(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Decimal(Decimal128Builder, i8),
    List(ListBuilder<Box<dyn ArrayBuilder>>, Element),
}

/// What an array holds.
#[derive(Clone, Copy)]
enum Element {
    Bool,
    Int16,
    Int32,
    Int64,
    Float64,
    Text,
}

impl ColumnBuilder {
    fn new(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Boolean => Self::Bool(BooleanBuilder::new()),
            DataType::Int16 => Self::Int16(Int16Builder::new()),
            DataType::Int32 => Self::Int32(Int32Builder::new()),
            DataType::Int64 => Self::Int64(Int64Builder::new()),
            DataType::Float32 => Self::Float32(Float32Builder::new()),
            DataType::Float64 => Self::Float64(Float64Builder::new()),
            DataType::Utf8 => Self::Text(StringBuilder::new()),
            DataType::Binary => Self::Bytes(BinaryBuilder::new()),
            DataType::Date32 => Self::Date(Date32Builder::new()),
            DataType::Time64(_) => Self::Time(Time64MicrosecondBuilder::new()),
            DataType::Timestamp(..) => Self::Instant(TimestampMicrosecondBuilder::new()),
            DataType::Interval(_) => Self::Interval(IntervalMonthDayNanoBuilder::new()),
            DataType::Decimal128(precision, scale) => {
                Self::Decimal(Decimal128Builder::new().with_data_type(DataType::Decimal128(*precision, *scale)), *scale)
            }
            DataType::List(element) => {
                let (kind, values): (_, Box<dyn ArrayBuilder>) = match element.data_type() {
                    DataType::Boolean => (Element::Bool, Box::new(BooleanBuilder::new())),
                    DataType::Int16 => (Element::Int16, Box::new(Int16Builder::new())),
                    DataType::Int32 => (Element::Int32, Box::new(Int32Builder::new())),
                    DataType::Int64 => (Element::Int64, Box::new(Int64Builder::new())),
                    DataType::Float64 => (Element::Float64, Box::new(Float64Builder::new())),
                    DataType::Utf8 => (Element::Text, Box::new(StringBuilder::new())),
                    other => return Err(Error::Internal(format!("no rows of {other} arrays"))),
                };
                Self::List(ListBuilder::new(values).with_field(Arc::clone(element)), kind)
            }
            other => return Err(Error::Internal(format!("no rows of type {other}"))),
        })
    }

    /// `None`: the value isn't of this type.
    fn push(&mut self, value: ValueRef<'_>) -> Option<()> {
        if value == ValueRef::Null {
            self.push_null();
            return Some(());
        }
        match self {
            Self::Bool(builder) => builder.append_value(integer(value)? != 0),
            Self::Int16(builder) => builder.append_value(integer(value)?.try_into().ok()?),
            Self::Int32(builder) => builder.append_value(integer(value)?.try_into().ok()?),
            Self::Int64(builder) => builder.append_value(integer(value)?),
            #[expect(clippy::cast_possible_truncation, reason = "a float4 was stored")]
            Self::Float32(builder) => builder.append_value(real(value)? as f32),
            Self::Float64(builder) => builder.append_value(real(value)?),
            Self::Text(builder) => builder.append_value(value.as_str().ok()?),
            Self::Bytes(builder) => builder.append_value(value.as_blob().ok()?),
            Self::Date(builder) => builder.append_value(integer(value)?.try_into().ok()?),
            Self::Time(builder) => builder.append_value(integer(value)?),
            Self::Instant(builder) => builder.append_value(integer(value)?),
            Self::Interval(builder) => {
                let (value, day) = (integer(value)?, 24 * 60 * 60 * 1_000_000);
                let days = i32::try_from(value / day).ok()?;
                builder.append_value(IntervalMonthDayNanoType::make_value(0, days, value % day * 1000));
            }
            Self::Decimal(builder, scale) => builder.append_value(decimal(value, *scale)?),
            Self::List(builder, element) => {
                let items: Vec<serde_json::Value> = serde_json::from_str(value.as_str().ok()?).ok()?;
                for item in &items {
                    push_item(builder.values(), *element, item)?;
                }
                builder.append(true);
            }
        }
        Some(())
    }

    fn push_null(&mut self) {
        match self {
            Self::Bool(builder) => builder.append_null(),
            Self::Int16(builder) => builder.append_null(),
            Self::Int32(builder) => builder.append_null(),
            Self::Int64(builder) => builder.append_null(),
            Self::Float32(builder) => builder.append_null(),
            Self::Float64(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
            Self::Bytes(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Time(builder) => builder.append_null(),
            Self::Instant(builder) => builder.append_null(),
            Self::Interval(builder) => builder.append_null(),
            Self::Decimal(builder, _) => builder.append_null(),
            Self::List(builder, _) => builder.append(false),
        }
    }

    fn finish(self, data_type: &DataType) -> ArrayRef {
        match self {
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Int16(mut builder) => Arc::new(builder.finish()),
            Self::Int32(mut builder) => Arc::new(builder.finish()),
            Self::Int64(mut builder) => Arc::new(builder.finish()),
            Self::Float32(mut builder) => Arc::new(builder.finish()),
            Self::Float64(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Bytes(mut builder) => Arc::new(builder.finish()),
            Self::Date(mut builder) => Arc::new(builder.finish()),
            Self::Time(mut builder) => Arc::new(builder.finish()),
            Self::Instant(mut builder) => {
                let zone = match data_type {
                    DataType::Timestamp(_, zone) => zone.clone(),
                    _ => None,
                };
                Arc::new(builder.finish().with_timezone_opt(zone))
            }
            Self::Interval(mut builder) => Arc::new(builder.finish()),
            Self::Decimal(mut builder, _) => Arc::new(builder.finish()),
            Self::List(mut builder, _) => Arc::new(builder.finish()),
        }
    }
}

fn integer(value: ValueRef<'_>) -> Option<i64> {
    value.as_i64().ok()
}

#[expect(clippy::cast_precision_loss, reason = "an integer in a float column: SQLite stores 1.0 so")]
fn real(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Integer(value) => Some(value as f64),
        ValueRef::Real(value) => Some(value),
        ValueRef::Text(text) if text == NAN.as_bytes() => Some(f64::NAN),
        _ => None,
    }
}

/// A numeric, stored as text, in units of 10^-scale. Digits beyond the scale are cut off.
fn decimal(value: ValueRef<'_>, scale: i8) -> Option<i128> {
    let text = match value {
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.to_owned(),
        _ => return None,
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.as_str()),
    };
    let scale = usize::try_from(scale).ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(scale).collect();
    let units: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some(if negative { -units } else { units })
}

fn push_item(builder: &mut Box<dyn ArrayBuilder>, element: Element, item: &serde_json::Value) -> Option<()> {
    let builder = builder.as_any_mut();
    match element {
        Element::Bool => {
            let value = item.as_bool().or_else(|| item.as_i64().map(|value| value != 0));
            builder.downcast_mut::<BooleanBuilder>()?.append_option(value);
        }
        Element::Int16 => {
            let value = item.as_i64().and_then(|value| value.try_into().ok());
            builder.downcast_mut::<Int16Builder>()?.append_option(value);
        }
        Element::Int32 => {
            let value = item.as_i64().and_then(|value| value.try_into().ok());
            builder.downcast_mut::<Int32Builder>()?.append_option(value);
        }
        Element::Int64 => builder.downcast_mut::<Int64Builder>()?.append_option(item.as_i64()),
        Element::Float64 => builder.downcast_mut::<Float64Builder>()?.append_option(item.as_f64()),
        Element::Text => {
            let builder = builder.downcast_mut::<StringBuilder>()?;
            match item {
                serde_json::Value::Null => builder.append_null(),
                serde_json::Value::String(text) => builder.append_value(text),
                other => builder.append_value(other.to_string()),
            }
        }
    }
    Some(())
}

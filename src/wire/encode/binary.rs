//! The binary format.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::types::{Float16Type, Float32Type, Float64Type};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use pgwire::api::Type;
use postgres_types::Kind;

use super::{Moment, bytes_of, decimal, elements, integer, moment, numeric, pg_type, string, text, unwritable};
use crate::error::Result;

/// Days, and microseconds, from 1970 to 2000, where PostgreSQL counts from.
const EPOCH_DAYS: i64 = 10_957;
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Appends the value in the binary format of its type, without length.
pub(super) fn write(out: &mut BytesMut, array: &dyn Array, row: usize, pg_type: &Type) -> Result<()> {
    if let Some(value) = string(array, row) {
        write_string(out, value, pg_type);
    } else if let Some(value) = integer(array, row) {
        write_integer(out, value, pg_type);
    } else if let Some(value) = moment(array, row) {
        write_moment(out, &value);
    } else if let Some(value) = decimal(array, row) {
        numeric::write_numeric(out, &value);
    } else if let Some(value) = bytes_of(array, row) {
        out.put_slice(value);
    } else if let Some(items) = elements(array, row) {
        write_list(out, items, pg_type)?;
    } else {
        match array.data_type() {
            DataType::Boolean => out.put_u8(array.as_boolean().value(row).into()),
            DataType::Float16 => out.put_f32(array.as_primitive::<Float16Type>().value(row).to_f32()),
            DataType::Float32 => out.put_f32(array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => out.put_f64(array.as_primitive::<Float64Type>().value(row)),
            DataType::Struct(_) => write_record(out, array, row)?,
            _ if *pg_type == Type::TEXT => text::write_debug(out, array, row)?,
            _ => return Err(unwritable(array)),
        }
    }
    Ok(())
}

fn write_string(out: &mut BytesMut, value: &str, pg_type: &Type) {
    match *pg_type {
        Type::CHAR => out.put_u8(value.as_bytes().first().copied().unwrap_or(0)),
        Type::JSONB => {
            // The version of the format.
            out.put_u8(1);
            out.put_slice(value.as_bytes());
        }
        Type::UUID => {
            let digits: Vec<u8> = value.bytes().filter(u8::is_ascii_hexdigit).collect();
            for pair in digits.chunks(2) {
                let text = std::str::from_utf8(pair).unwrap_or("0");
                out.put_u8(u8::from_str_radix(text, 16).unwrap_or(0));
            }
        }
        Type::XID => out.put_u32(value.parse().unwrap_or(0)),
        Type::INET => write_inet(out, value),
        _ => out.put_slice(value.as_bytes()),
    }
}

/// An address with the bits of its network, as PostgreSQL sends it: the family, the bits, no CIDR, the length.
fn write_inet(out: &mut BytesMut, value: &str) {
    const FAMILY_4: u8 = 2;
    const FAMILY_6: u8 = 3;
    let (address, bits) = value.split_once('/').map_or((value, None), |(address, bits)| (address, bits.parse().ok()));
    match address.parse() {
        Ok(IpAddr::V4(address)) => {
            out.put_slice(&[FAMILY_4, bits.unwrap_or(32), 0, 4]);
            out.put_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            out.put_slice(&[FAMILY_6, bits.unwrap_or(128), 0, 16]);
            out.put_slice(&address.octets());
        }
        // Not an address, which only a defect of ours can bring here.
        Err(_) => out.put_slice(&[FAMILY_4, 0, 0, 0]),
    }
}

fn write_integer(out: &mut BytesMut, value: i64, pg_type: &Type) {
    match *pg_type {
        Type::INT2 => out.put_i16(value as i16),
        Type::INT8 => out.put_i64(value),
        Type::CHAR => out.put_i8(value as i8),
        Type::NUMERIC => numeric::write_numeric(out, &value.to_string()),
        // int4, oid and its aliases.
        _ => out.put_i32(value as i32),
    }
}

fn write_moment(out: &mut BytesMut, value: &Moment) {
    match *value {
        Moment::Date(days) => out.put_i32((days - EPOCH_DAYS) as i32),
        Moment::Time(micros) => out.put_i64(micros),
        Moment::Timestamp(micros) | Moment::TimestampTz(micros) => out.put_i64(micros.saturating_sub(EPOCH_MICROS)),
        Moment::Interval(months, days, micros) => {
            out.put_i64(micros);
            out.put_i32(days);
            out.put_i32(months);
        }
    }
}

/// Appends the number of bytes that `write` appends, then those.
fn sized(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.put_i32(0);
    write(out)?;
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_list(out: &mut BytesMut, items: ArrayRef, pg_type: &Type) -> Result<()> {
    let item_type = match pg_type.kind() {
        Kind::Array(item) => item.clone(),
        _ => Type::TEXT,
    };
    // These two count from 0.
    let lower_bound = if [Type::INT2_VECTOR, Type::OID_VECTOR].contains(pg_type) { 0 } else { 1 };
    let (dimensions, leaves) = flatten(vec![items]);
    let empty = leaves.iter().all(|leaf| leaf.is_empty());
    out.put_i32(if empty { 0 } else { dimensions.len() as i32 });
    out.put_i32(leaves.iter().any(|leaf| leaf.null_count() > 0 || leaf.data_type().is_null()).into());
    out.put_u32(item_type.oid());
    if empty {
        return Ok(());
    }
    for length in dimensions {
        out.put_i32(length as i32);
        out.put_i32(lower_bound);
    }
    for leaf in &leaves {
        for row in 0..leaf.len() {
            if leaf.is_null(row) || leaf.data_type().is_null() {
                out.put_i32(-1);
            } else {
                sized(out, |out| write(out, leaf, row, &item_type))?;
            }
        }
    }
    Ok(())
}

/// The lengths of all dimensions, and the innermost arrays in order.
fn flatten(mut level: Vec<ArrayRef>) -> (Vec<usize>, Vec<ArrayRef>) {
    let mut dimensions = vec![level.first().map_or(0, |array| array.len())];
    loop {
        let next: Option<Vec<ArrayRef>> =
            level.iter().flat_map(|array| (0..array.len()).map(move |row| elements(array, row))).collect();
        match next {
            Some(next) if !next.is_empty() => {
                dimensions.push(next[0].len());
                level = next;
            }
            _ => return (dimensions, level),
        }
    }
}

fn write_record(out: &mut BytesMut, array: &dyn Array, row: usize) -> Result<()> {
    let record = array.as_struct();
    out.put_i32(record.num_columns() as i32);
    for (field, values) in record.fields().iter().zip(record.columns()) {
        let field_type = pg_type(field)?;
        out.put_u32(field_type.oid());
        if values.is_null(row) || values.data_type().is_null() {
            out.put_i32(-1);
        } else {
            sized(out, |out| write(out, values, row, &field_type))?;
        }
    }
    Ok(())
}

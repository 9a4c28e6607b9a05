//! Rows as COPY writes them, each a CopyData message.

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;

use super::{Column, Style, binary, text};
use crate::command::ast::{CopyFormat, CopyOptions};
use crate::error::Result;

/// What a file in binary format starts with: a signature that text conversions spoil, no flags, no extension.
const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Writes rows as the options say.
pub struct CopyWriter {
    options: CopyOptions,
    /// Of each column, whether its values are quoted always.
    forced: Vec<bool>,
    /// The header of the binary format is still to be sent: it stands in one message with what comes next, as clients
    /// are used to.
    header_due: bool,
}

impl CopyWriter {
    pub fn new(options: CopyOptions, forced: Vec<bool>) -> Self {
        let header_due = options.format == CopyFormat::Binary;
        Self { options, forced, header_due }
    }

    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// What comes before the rows.
    pub fn write_header(&self, out: &mut BytesMut, columns: &[Column]) {
        if self.options.header && !self.is_binary() {
            message(out, |out| {
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        out.put_u8(self.options.delimiter);
                    }
                    let alone = columns.len() == 1;
                    match self.options.format {
                        CopyFormat::Csv => self.write_csv(out, column.name.as_bytes(), false, alone),
                        _ => self.write_escaped(out, column.name.as_bytes()),
                    }
                }
                out.put_u8(b'\n');
            });
        }
    }

    /// What comes after the rows.
    pub fn write_end(&mut self, out: &mut BytesMut) {
        if self.is_binary() {
            let header = self.binary_header();
            message(out, |out| {
                out.put_slice(header);
                out.put_i16(-1);
            });
        }
    }

    fn binary_header(&mut self) -> &'static [u8] {
        if std::mem::take(&mut self.header_due) { BINARY_HEADER } else { &[] }
    }

    /// One row.
    pub fn write_row(
        &mut self,
        out: &mut BytesMut,
        columns: &[Column],
        arrays: &[ArrayRef],
        row: usize,
        style: &Style,
    ) -> Result<()> {
        if self.is_binary() {
            let header = self.binary_header();
            return message(out, |out| {
                out.put_slice(header);
                out.put_i16(columns.len() as i16);
                columns.iter().zip(arrays).try_for_each(|(column, array)| {
                    super::sized(out, |out| match is_null(array, row) {
                        true => Ok(false),
                        false => binary::write(out, array, row, &column.pg_type).map(|()| true),
                    })
                })
            });
        }
        let mut value = BytesMut::new();
        message(out, |out| {
            for (index, (column, array)) in columns.iter().zip(arrays).enumerate() {
                if index > 0 {
                    out.put_u8(self.options.delimiter);
                }
                if is_null(array, row) {
                    out.put_slice(self.options.null.as_bytes());
                    continue;
                }
                value.clear();
                text::write(&mut value, array, row, &column.pg_type, style)?;
                match self.options.format {
                    CopyFormat::Csv => {
                        let forced = self.forced.get(index).copied().unwrap_or(false);
                        self.write_csv(out, &value, forced, columns.len() == 1);
                    }
                    _ => self.write_escaped(out, &value),
                }
            }
            out.put_u8(b'\n');
            Ok(())
        })
    }

    fn write_escaped(&self, out: &mut BytesMut, value: &[u8]) {
        for byte in value {
            let letter = match byte {
                0x08 => b'b',
                0x09 => b't',
                0x0a => b'n',
                0x0b => b'v',
                0x0c => b'f',
                0x0d => b'r',
                b'\\' => b'\\',
                _ => {
                    if *byte == self.options.delimiter {
                        out.put_u8(b'\\');
                    }
                    out.put_u8(*byte);
                    continue;
                }
            };
            out.put_slice(&[b'\\', letter]);
        }
    }

    /// `alone`: it is the line's only value, which must not look like the end of the data.
    fn write_csv(&self, out: &mut BytesMut, value: &[u8], forced: bool, alone: bool) {
        let CopyOptions { delimiter, quote, escape, null, .. } = &self.options;
        let special = |byte: &u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
        if !(forced || value == null.as_bytes() || (alone && value == b"\\.") || value.iter().any(special)) {
            out.put_slice(value);
            return;
        }
        out.put_u8(*quote);
        for byte in value {
            if byte == quote || byte == escape {
                out.put_u8(*escape);
            }
            out.put_u8(*byte);
        }
        out.put_u8(*quote);
    }
}

fn is_null(array: &dyn Array, row: usize) -> bool {
    array.is_null(row) || array.data_type() == &DataType::Null
}

/// Appends a CopyData message.
fn message<T>(out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut) -> T) -> T {
    out.put_u8(b'd');
    let start = out.len();
    out.put_i32(0);
    let result = fill(out);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    result
}

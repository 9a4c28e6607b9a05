//! Lines of a file: each is a row of all columns' types, or a bad row with its offset.
#![no_main]

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::Schema;
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::backfill::id::Offset;
use tidegate_fuzz::engine::embedded::columns;
use tidegate_fuzz::engine::embedded::connector::json::Decoder;

const TYPES: [&str; 13] = [
    "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "date", "timestamp", "timestamptz", "jsonb",
    "bytea",
];

static DECODER: LazyLock<Decoder> = LazyLock::new(|| {
    let fields: Vec<_> = TYPES.iter().map(|name| columns::field(name, name).unwrap()).collect();
    Decoder::new(Arc::new(Schema::new(fields))).unwrap()
});

fuzz_target!(|bytes: &[u8]| {
    let lines: Vec<_> = (0..).map(Offset).zip(bytes.split(|byte| *byte == b'\n')).collect();
    let decoded = DECODER.decode(&lines);
    assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), lines.len());
});

//! Messages of a Kafka partition: each is a row, a bad row with its offset, or says nothing.
//!
//! The first byte tells how the value is encoded. Then each line is a message: `key;value;name=value;name=value`, where
//! a part that is left out is not there.
#![no_main]

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::Schema;
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::backfill::id::Offset;
use tidegate_fuzz::engine::embedded::columns;
use tidegate_fuzz::engine::embedded::connector::kafka::decode::{Decoder, Message};
use tidegate_fuzz::store::format::{Encode, Include, MessageFormat};

fn decoder(encode: Encode, values: &[&str]) -> Decoder {
    let header = || Include::Header("h".into());
    let include =
        vec![Include::Key, Include::Partition, Include::Offset, Include::Timestamp, Include::Headers, header(), header()];
    let included = ["bytea", "text", "text", "timestamptz", "jsonb", "bytea", "text"];
    let names = (0..).map(|n| format!("c{n}"));
    let fields: Vec<_> =
        names.zip(values.iter().chain(&included)).map(|(name, kind)| columns::field(&name, kind).unwrap()).collect();
    Decoder::new(Arc::new(Schema::new(fields)), &MessageFormat { encode, include }).unwrap()
}

static JSON: LazyLock<Decoder> =
    LazyLock::new(|| decoder(Encode::Json, &["bool", "int8", "float8", "numeric", "text", "timestamptz", "jsonb"]));
static BYTES: LazyLock<Decoder> = LazyLock::new(|| decoder(Encode::Bytes, &["bytea"]));

fn message(offset: i64, line: &[u8]) -> Message<'_> {
    let mut parts = line.split(|byte| *byte == b';');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    let (key, payload) = (part(), part());
    let headers = parts.filter_map(|header| {
        let mut halves = header.splitn(2, |byte| *byte == b'=');
        let name = std::str::from_utf8(halves.next()?).ok()?;
        Some((name, halves.next()))
    });
    // Times of all sizes, made of what is there.
    let timestamp_millis = key.filter(|key| key.len() == 8).map(|key| i64::from_be_bytes(key.try_into().unwrap()));
    Message { offset, partition: line.len() as i32, timestamp_millis, key, payload, headers: headers.collect() }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let messages: Vec<_> =
        (0..).zip(rest.split(|byte| *byte == b'\n')).map(|(offset, line)| message(offset, line)).collect();
    let decoded = if first & 1 == 0 { &*JSON } else { &*BYTES }.decode(&messages);
    let rows = messages.iter().filter(|message| message.key.is_some() || message.payload.is_some()).count();
    assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), rows);
    assert_eq!(decoded.rows.num_rows(), decoded.offsets.len());
    let mut offsets: Vec<Offset> = decoded.offsets.iter().copied().chain(decoded.bad.iter().map(|bad| bad.offset)).collect();
    offsets.sort();
    offsets.dedup();
    assert_eq!(offsets.len(), rows);
});

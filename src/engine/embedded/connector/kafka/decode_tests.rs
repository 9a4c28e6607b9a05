use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{Int32Type, TimestampMicrosecondType};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;

fn decoder(columns: &[(&str, &str)], encode: Encode, include: &[Include]) -> Result<Decoder> {
    let columns: Vec<_> = columns.iter().map(|(name, pg)| ((*name).to_owned(), (*pg).to_owned())).collect();
    Decoder::new(columns::schema(&columns)?, &MessageFormat { encode, include: include.to_vec() })
}

fn message(offset: i64, key: Option<&'static str>, payload: Option<&'static str>) -> Message<'static> {
    Message {
        offset,
        partition: 3,
        timestamp_millis: Some(1_357_034_400_000 + offset),
        key: key.map(str::as_bytes),
        payload: payload.map(str::as_bytes),
        headers: Vec::new(),
    }
}

fn offsets(decoded: &Decoded) -> Vec<i64> {
    decoded.offsets.iter().map(|offset| offset.0).collect()
}

#[test]
fn a_json_value_and_all_that_can_be_included() {
    let include = [
        Include::Key,
        Include::Partition,
        Include::Offset,
        Include::Timestamp,
        Include::Headers,
        Include::Header("h".into()),
    ];
    let columns = [
        ("a", "int4"),
        ("k", "bytea"),
        ("p", "text"),
        ("o", "text"),
        ("t", "timestamptz"),
        ("hs", "jsonb"),
        ("h", "bytea"),
    ];
    let decoder = decoder(&columns, Encode::Json, &include).unwrap();
    assert!(decoder.wants_headers());
    let mut first = message(7, Some("k"), Some(r#"{"a":1}"#));
    first.headers = vec![("g", None), ("h", Some(b"\x00\xff")), ("h", Some(b"2")), ("q\"", Some(b""))];
    let mut second = message(9, None, Some(r#"{"a":2}"#));
    second.timestamp_millis = None;
    let decoded = decoder.decode(&[first, second]);
    assert_eq!(offsets(&decoded), [7, 9]);
    assert!(decoded.bad.is_empty());
    let rows = decoded.rows;
    assert_eq!(rows.column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
    assert_eq!(rows.column(1).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"k"[..]), None]);
    assert_eq!(rows.column(2).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("3"), Some("3")]);
    assert_eq!(rows.column(3).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("7"), Some("9")]);
    let times = rows.column(4).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.iter().collect::<Vec<_>>(), [Some(1_357_034_400_007_000), None]);
    let headers = r#"[{"key": "g", "value": null}, {"key": "h", "value": "\\x00ff"}, {"key": "h", "value": "\\x32"}, {"key": "q\"", "value": "\\x"}]"#;
    assert_eq!(rows.column(5).as_string::<i32>().iter().collect::<Vec<_>>(), [Some(headers), Some("[]")]);
    assert_eq!(rows.column(6).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"\x00\xff"[..]), None]);
}

#[test]
fn messages_without_a_value() {
    let decoder = decoder(&[("a", "int4"), ("k", "bytea")], Encode::Json, &[Include::Key]).unwrap();
    assert!(!decoder.wants_headers());
    let messages = [
        message(1, Some("tombstone"), None),
        message(2, None, None),
        message(3, None, Some("")),
        message(4, Some("k"), Some(r#"{"a":4}"#)),
    ];
    let decoded = decoder.decode(&messages);
    assert_eq!(offsets(&decoded), [1, 3, 4]);
    assert!(decoded.bad.is_empty());
    let a = decoded.rows.column(0).as_primitive::<Int32Type>();
    assert_eq!(a.iter().collect::<Vec<_>>(), [None, None, Some(4)]);
    let keys = decoded.rows.column(1).as_binary::<i32>();
    assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(&b"tombstone"[..]), None, Some(&b"k"[..])]);
    assert_eq!(decoder.decode(&messages[1..2]).rows.num_rows(), 0);
    assert_eq!(decoder.decode(&[]).rows.num_rows(), 0);
}

#[test]
fn bytes_are_kept_as_they_are() {
    let decoder = decoder(&[("raw", "bytea"), ("o", "text")], Encode::Bytes, &[Include::Offset]).unwrap();
    let mut invalid = message(2, None, None);
    invalid.payload = Some(b"\xff\x00{");
    let messages = [message(1, None, Some("{")), invalid, message(3, None, Some("")), message(4, Some("k"), None)];
    let decoded = decoder.decode(&messages);
    assert!(decoded.bad.is_empty());
    let raw = decoded.rows.column(0).as_binary::<i32>();
    assert_eq!(raw.iter().collect::<Vec<_>>(), [Some(&b"{"[..]), Some(&b"\xff\x00{"[..]), Some(&b""[..]), None]);
}

#[test]
fn bad_rows_leave_the_others_in_step() {
    let include = [Include::Offset, Include::Header("h".into())];
    let decoder = decoder(&[("a", "int4"), ("o", "text"), ("h", "text")], Encode::Json, &include).unwrap();
    let mut messages = [
        message(1, None, Some(r#"{"a":1}"#)),
        message(2, None, Some(r#"{"a":"no"}"#)),
        message(3, None, Some(r#"{"a":3}"#)),
        message(4, None, Some("[]")),
        message(5, None, Some(r#"{"a":5}"#)),
        message(6, None, Some(r#"{"a":6}"#)),
    ];
    messages[0].headers = vec![("h", Some("ä".as_bytes()))];
    messages[2].headers = vec![("h", Some(b"ab\xff"))];
    messages[3].headers = vec![("h", Some(b"\xff"))];
    messages[4].headers = vec![("h", Some(b"a\0"))];
    let decoded = decoder.decode(&messages);
    assert_eq!(offsets(&decoded), [1, 6]);
    let column = |index: usize| decoded.rows.column(index).as_string::<i32>().iter().collect::<Vec<_>>();
    assert_eq!(column(1), [Some("1"), Some("6")]);
    assert_eq!(column(2), [Some("ä"), None]);
    let bad: Vec<_> = decoded.bad.iter().map(|bad| (bad.offset.0, bad.error.as_str(), bad.text.as_str())).collect();
    assert_eq!(
        bad,
        [
            (2, r#"column "a" (integer): found "no""#, r#"{"a":"no"}"#),
            (3, r#"column "h" (text): found header "h", which is not valid UTF-8 from byte 2 on"#, r#"{"a":3}"#),
            (4, "not a JSON object", "[]"),
            (5, r#"column "h" (text): found header "h", which has the character \u0000"#, r#"{"a":5}"#),
        ]
    );
}

#[test]
fn columns_that_do_not_fit_the_format() {
    let told = |columns, encode, include: &[Include]| {
        let error = decoder(columns, encode, include).err().expect("refused");
        (error.sqlstate(), [error.to_string(), error.detail().unwrap_or_default()].join(" | "))
    };
    for (columns, found) in
        [(&[][..], ""), (&[("a", "text")], "a text"), (&[("a", "bytea"), ("b", "int4")], "a bytea, b integer")]
    {
        let want = format!(
            "invalid value for the columns of ENCODE BYTES: \"{found}\" | Allowed: exactly one column, of type bytea."
        );
        assert_eq!(told(columns, Encode::Bytes, &[]), ("22023", want));
    }
    assert_eq!(told(&[("k", "text")], Encode::Json, &[Include::Key]).0, "XX000");
    assert_eq!(told(&[], Encode::Json, &[Include::Key]).0, "XX000");
    // The key's column is not one of the value.
    assert!(decoder(&[("raw", "bytea"), ("k", "bytea")], Encode::Bytes, &[Include::Key]).is_ok());
}

/// Parts of a message, and bytes that are now and then almost JSON.
fn parts() -> impl Strategy<Value = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>, Option<i64>)> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
    let json = proptest::option::of(
        "(\\{|\\}|\"a\"|\"h\"|:|,|1|-|\\.|e9|null|true|\\[|\\]|\"\\\\u00|\"|é| ){0,8}".prop_map(String::into_bytes),
    );
    let payload = proptest::prop_oneof![bytes(), json];
    let headers = proptest::collection::vec(("(h|g|é|)", bytes()), 0..4);
    (bytes(), payload, headers, any::<Option<i64>>())
}

proptest! {
    /// No bytes make the decoder panic, and no message is lost: each is a row, a bad row, or has neither key nor value.
    #[test]
    fn every_message_is_accounted_for(given in proptest::collection::vec(parts(), 0..12)) {
        let include = [Include::Key, Include::Timestamp, Include::Headers, Include::Header("h".into()), Include::Header("h".into())];
        let columns = [("a", "int4"), ("k", "bytea"), ("t", "timestamptz"), ("hs", "jsonb"), ("h", "bytea"), ("ht", "text")];
        let bytes_columns = [("a", "bytea"), ("k", "bytea"), ("t", "timestamptz"), ("hs", "jsonb"), ("h", "bytea"), ("ht", "text")];
        let messages: Vec<Message<'_>> = given.iter().zip(0..).map(|((key, payload, headers, millis), offset)| Message {
            offset: offset * 2,
            partition: 0,
            timestamp_millis: *millis,
            key: key.as_deref(),
            payload: payload.as_deref(),
            headers: headers.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect(),
        }).collect();
        for (columns, encode) in [(&columns, Encode::Json), (&bytes_columns, Encode::Bytes)] {
            let decoded = decoder(columns, encode, &include).unwrap().decode(&messages);
            prop_assert_eq!(decoded.rows.num_rows(), decoded.offsets.len());
            prop_assert!(decoded.offsets.is_sorted() && decoded.bad.is_sorted_by_key(|bad| bad.offset));
            let mut found: Vec<i64> = offsets(&decoded);
            found.extend(decoded.bad.iter().map(|bad| bad.offset.0));
            found.sort_unstable();
            let with_something = messages.iter().filter(|message| message.key.is_some() || message.payload.is_some());
            prop_assert_eq!(found, with_something.map(|message| message.offset).collect::<Vec<_>>());
            for (nth, offset) in decoded.offsets.iter().enumerate() {
                let message = messages.iter().find(|message| message.offset == offset.0).unwrap();
                let keys = decoded.rows.column(1).as_binary::<i32>();
                prop_assert_eq!(keys.is_valid(nth).then(|| keys.value(nth)), message.key);
                let headers = decoded.rows.column(3).as_string::<i32>().value(nth);
                let headers: Vec<serde_json::Value> = serde_json::from_str(headers).unwrap();
                prop_assert_eq!(headers.len(), message.headers.len());
                if encode == Encode::Bytes {
                    let raw = decoded.rows.column(0).as_binary::<i32>();
                    prop_assert_eq!(raw.is_valid(nth).then(|| raw.value(nth)), message.payload);
                }
            }
        }
    }

    /// What was written as JSON is read as it was.
    #[test]
    fn values_come_back(values in proptest::collection::vec((any::<Option<i32>>(), proptest::option::of("[^\0]{0,10}")), 0..20)) {
        let decoder = decoder(&[("a", "int4"), ("b", "text")], Encode::Json, &[]).unwrap();
        let lines: Vec<String> = values.iter().map(|(a, b)| serde_json::json!({"b": b, "a": a}).to_string()).collect();
        let messages: Vec<Message<'_>> = lines.iter().zip(0..).map(|(line, offset)| Message {
            offset, payload: Some(line.as_bytes()), ..Message::default()
        }).collect();
        let decoded = decoder.decode(&messages);
        prop_assert!(decoded.bad.is_empty());
        let a = decoded.rows.column(0).as_primitive::<Int32Type>().iter();
        let b = decoded.rows.column(1).as_string::<i32>().iter();
        let read: Vec<_> = a.zip(b.map(|b| b.map(str::to_owned))).collect();
        prop_assert_eq!(read, values);
    }
}

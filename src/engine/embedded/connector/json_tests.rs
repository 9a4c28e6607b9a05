use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::util::display::array_value_to_string;

use super::*;

fn decoder(columns: &[(&str, &str)]) -> Decoder {
    let fields: Vec<Field> = columns.iter().map(|(name, pg)| columns::field(name, pg).unwrap()).collect();
    Decoder::new(Arc::new(Schema::new(fields))).unwrap()
}

fn decode(decoder: &Decoder, lines: &[&[u8]]) -> Decoded {
    let lines: Vec<_> = (0..).zip(lines).map(|(offset, line)| (Offset(offset), *line)).collect();
    decoder.decode(&lines)
}

/// What a value becomes in a column of a type: shown as text, `NULL`, or the error.
fn one(pg: &str, value: &str) -> Result<String, String> {
    let decoded = decode(&decoder(&[("x", pg)]), &[format!("{{\"x\": {value}}}").as_bytes()]);
    match decoded.bad.as_slice() {
        [] if decoded.rows.column(0).is_null(0) => Ok("NULL".into()),
        [] => Ok(array_value_to_string(decoded.rows.column(0), 0).unwrap()),
        [bad] => Err(bad.error.clone()),
        more => panic!("{more:?}"),
    }
}

#[test]
fn values_that_fit() {
    for (pg, value, want) in [
        ("bool", "true", "true"),
        ("bool", "null", "NULL"),
        ("int2", "-32768", "-32768"),
        ("int4", "2147483647", "2147483647"),
        ("int8", "9223372036854775807", "9223372036854775807"),
        ("int8", "-9223372036854775808", "-9223372036854775808"),
        ("int8", "\"9223372036854775807\"", "9223372036854775807"),
        ("int4", "1.0", "1"),
        ("int4", "12e2", "1200"),
        ("int4", "0", "0"),
        ("int4", "-0", "0"),
        ("float4", "0.1", "0.1"),
        ("float8", "1e3", "1000.0"),
        ("float8", "\"NaN\"", "NaN"),
        ("float8", "\"-Infinity\"", "-inf"),
        ("float8", "12", "12.0"),
        ("numeric", "1.5", "1.5000000000"),
        ("numeric", "\"-0.00000000005\"", "-0.0000000001"),
        ("numeric", "0.000000000049999", "0.0000000000"),
        ("numeric", "1234567890123456789012345678", "1234567890123456789012345678.0000000000"),
        ("numeric", "1.25e-3", "0.0012500000"),
        ("numeric", "0e999999999", "0.0000000000"),
        ("numeric", "1e-999999999", "0.0000000000"),
        ("text", "\"a\"", "a"),
        ("text", r#""a\n\u00e4\"""#, "a\nä\""),
        ("text", "1.10", "1.10"),
        ("text", "true", "true"),
        ("text", r#"{"a": [1]}"#, r#"{"a": [1]}"#),
        ("text", "\"\"", ""),
        ("date", "\"2013-01-31\"", "2013-01-31"),
        ("timestamp", "\"2013-01-01 10:00:00.25\"", "2013-01-01T10:00:00.250"),
        ("timestamptz", "\"2013-01-01T10:00:00Z\"", "2013-01-01T10:00:00Z"),
        ("timestamptz", "\"2013-01-01 10:00:00+02\"", "2013-01-01T08:00:00Z"),
        ("timestamptz", "\"2013-01-01 10:00:00.000001\"", "2013-01-01T10:00:00.000001Z"),
        ("timestamptz", "1357034400", "2013-01-01T10:00:00Z"),
        ("timestamptz", "1357034400000", "2013-01-01T10:00:00Z"),
        ("timestamptz", "1357034400000000", "2013-01-01T10:00:00Z"),
        ("timestamptz", "1357034400000000000", "2013-01-01T10:00:00Z"),
        ("jsonb", r#"{"a": [1, 2.50]}"#, r#"{"a": [1, 2.50]}"#),
        ("jsonb", r#"{"bb":1e2,"a":{"x":1,"x":[2]}}"#, r#"{"a": {"x": [2]}, "bb": 100}"#),
        ("jsonb", "\"a\"", "\"a\""),
        ("jsonb", "null", "NULL"),
        ("bytea", r#""\\x00fF""#, "00ff"),
        ("bytea", "\"ab\"", "6162"),
    ] {
        assert_eq!(one(pg, value).as_deref(), Ok(want), "{pg} {value}");
    }
}

#[test]
fn values_that_do_not_fit_name_the_column_and_what_was_found() {
    for (pg, value, want) in [
        ("int8", "\"abc\"", "column \"x\" (bigint): found \"abc\""),
        ("int8", "1.5", "column \"x\" (bigint): found 1.5"),
        ("int8", "true", "column \"x\" (bigint): found true"),
        ("int8", "9223372036854775808", "column \"x\" (bigint): found 9223372036854775808, which is out of range"),
        ("int2", "32768", "column \"x\" (smallint): found 32768, which is out of range"),
        ("int4", "{\"a\":1}", "column \"x\" (integer): found {\"a\":1}"),
        ("bool", "\"true\"", "column \"x\" (boolean): found \"true\""),
        ("bool", "1", "column \"x\" (boolean): found 1"),
        ("float8", "1e999", "column \"x\" (double precision): found 1e999, which is out of range"),
        ("float4", "1e39", "column \"x\" (real): found 1e39, which is out of range"),
        ("float8", "[1]", "column \"x\" (double precision): found [1]"),
        ("numeric", "1e28", "column \"x\" (numeric): found 1e28, which is out of range"),
        ("numeric", "1e999999999", "column \"x\" (numeric): found 1e999999999, which is out of range"),
        ("numeric", "\"NaN\"", "column \"x\" (numeric): found \"NaN\""),
        ("text", r#""a\u0000""#, r#"column "x" (text): found "a\u0000", which has the character \u0000"#),
        ("text", r#""\ud800""#, r#"column "x" (text): found "\ud800", which has an invalid escape"#),
        ("date", "\"2013-02-30\"", "column \"x\" (date): found \"2013-02-30\""),
        ("date", "12", "column \"x\" (date): found 12"),
        ("timestamptz", "\"soon\"", "column \"x\" (timestamp with time zone): found \"soon\""),
        ("timestamptz", "1.5", "column \"x\" (timestamp with time zone): found 1.5"),
        ("bytea", r#""\\xf""#, r#"column "x" (bytea): found "\\xf", which is not hexadecimal"#),
        ("bytea", "1", "column \"x\" (bytea): found 1"),
    ] {
        assert_eq!(one(pg, value), Err(want.to_owned()), "{pg} {value}");
    }
    let long = format!("\"{}\"", "ä".repeat(100));
    assert!(one("int4", &long).unwrap_err().ends_with("ä..."));
}

#[test]
fn lines_that_are_not_objects_are_bad_and_the_others_come_out() {
    let decoder = decoder(&[("a", "int4"), ("b", "text")]);
    let lines: &[&[u8]] = &[
        br#"{"a":1,"b":"x"}"#,
        b"{\"a\":1,",
        b"[1]",
        b"\xff{}",
        br#" {"b" : "y" , "other" : {"a": [1, "}"]} , "a" : 2 } "#,
        br#"{"a":01}"#,
        br#"{"a":"no"}"#,
        br#"{"a":3} {"a":4}"#,
        b"{}",
        br#"{"a":5"b":1}"#,
        br#"{"a":tru}"#,
        br#"{"a":-}"#,
    ];
    let decoded = decode(&decoder, lines);
    assert_eq!(decoded.offsets, [Offset(0), Offset(4), Offset(8)]);
    let a = decoded.rows.column(0).as_primitive::<Int32Type>();
    assert_eq!(a.iter().collect::<Vec<_>>(), [Some(1), Some(2), None]);
    let b = decoded.rows.column(1).as_string::<i32>();
    assert_eq!(b.iter().collect::<Vec<_>>(), [Some("x"), Some("y"), None]);
    let errors: Vec<_> = decoded.bad.iter().map(|bad| (bad.offset.0, bad.error.as_str())).collect();
    assert_eq!(
        errors[..3],
        [
            (1, "not valid JSON: EOF while parsing a value at character 7"),
            (2, "not a JSON object"),
            (3, "not valid UTF-8 from byte 0 of the line on"),
        ]
    );
    let offsets: Vec<_> = errors.iter().map(|bad| bad.0).collect();
    assert_eq!(offsets, [1, 2, 3, 5, 6, 7, 9, 10, 11]);
    assert_eq!(decoded.bad[1].text, "[1]");
}

#[test]
fn keys_match_exactly_or_without_case_and_the_last_of_two_counts() {
    let decoder = decoder(&[("id", "int4"), ("Name", "text")]);
    let decoded = decode(
        &decoder,
        &[br#"{"ID":1,"name":"a"}"#, br#"{"id":2,"ID":3,"id":4}"#, br#"{"ID":5,"id":6}"#, br#"{"\u0069d":7}"#],
    );
    let id = decoded.rows.column(0).as_primitive::<Int32Type>();
    assert_eq!(id.iter().flatten().collect::<Vec<_>>(), [1, 4, 6, 7]);
    assert_eq!(decoded.rows.column(1).as_string::<i32>().value(0), "a");
}

#[test]
fn a_flight() {
    let integers = [
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "air_time",
        "flight",
        "distance",
    ];
    let mut columns: Vec<_> = integers.iter().map(|name| (*name, "int4")).collect();
    columns.extend([("carrier", "text"), ("tailnum", "text"), ("time_hour", "timestamptz")]);
    let decoded = decode(&decoder(&columns), &[
        br#"{"dep_time":542,"sched_dep_time":540,"dep_delay":2,"arr_time":923,"sched_arr_time":850,"arr_delay":33,"carrier":"AA","flight":1141,"tailnum":"N619AA","origin":"JFK","dest":"MIA","air_time":160,"distance":1089,"time_hour":"2013-01-01T10:00:00Z"}"#,
        br#"{"dep_time":null,"sched_dep_time":1935,"dep_delay":null,"arr_time":null,"sched_arr_time":2240,"arr_delay":null,"carrier":"AA","flight":791,"tailnum":null,"origin":"LGA","dest":"DFW","air_time":null,"distance":1389,"time_hour":"2013-01-02T00:00:00Z"}"#,
    ]);
    assert!(decoded.bad.is_empty());
    assert_eq!(decoded.rows.column(0).as_primitive::<Int32Type>().value(0), 542);
    assert!(decoded.rows.column(0).is_null(1) && decoded.rows.column(10).is_null(1));
    assert_eq!(array_value_to_string(decoded.rows.column(11), 1).unwrap(), "2013-01-02T00:00:00Z");
}

#[test]
fn no_columns_and_no_lines() {
    assert_eq!(decode(&decoder(&[]), &[b"{}", b"{\"a\":1}"]).rows.num_rows(), 2);
    assert_eq!(decode(&decoder(&[("a", "int4")]), &[]).rows.num_rows(), 0);
}

#[test]
fn a_bad_line_is_cut() {
    let bad = bad_row(Offset(0), String::new(), "ä".repeat(5000).as_bytes());
    assert_eq!(bad.text.len(), KEPT_TEXT);
    let bad = bad_row(Offset(0), String::new(), format!("a{}", "ä".repeat(5000)).as_bytes());
    assert!(bad.text.len() <= KEPT_TEXT && bad.text.starts_with("aä"));
}

/// `cargo test --release -- --ignored --nocapture decoding_speed`
#[test]
#[ignore = "a measurement"]
fn decoding_speed() {
    let line = br#"{"dep_time":542,"sched_dep_time":540,"dep_delay":2,"arr_time":923,"sched_arr_time":850,"arr_delay":33,"carrier":"AA","flight":1141,"tailnum":"N619AA","origin":"JFK","dest":"MIA","air_time":160,"distance":1089,"time_hour":"2013-01-01T10:00:00Z"}"#;
    let mut columns: Vec<_> = [
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "air_time",
        "flight",
        "distance",
    ]
    .map(|name| (name, "int4"))
    .to_vec();
    columns.extend(["carrier", "tailnum", "origin", "dest"].map(|name| (name, "text")));
    columns.push(("time_hour", "timestamptz"));
    let decoder = decoder(&columns);
    let lines: Vec<(Offset, &[u8])> = (0..4096).map(|offset| (Offset(offset), &line[..])).collect();
    let start = std::time::Instant::now();
    for _ in 0..100 {
        decoder.decode(&lines);
    }
    println!("{:.0} rows/s", 409_600.0 / start.elapsed().as_secs_f64());
}

proptest::proptest! {
    /// Whatever a line holds: it is a row or a bad row, never both or neither.
    #[test]
    fn any_line_is_a_row_or_a_bad_row(lines in proptest::collection::vec(line(), 0..10)) {
        let types = ["bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "date", "timestamp",
            "timestamptz", "jsonb", "bytea"];
        let decoder = decoder(&types.map(|name| (name, name)));
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let decoded = decode(&decoder, &lines);
        proptest::prop_assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), lines.len());
        proptest::prop_assert!(decoded.bad.iter().all(|bad| bad.text.len() <= KEPT_TEXT));
    }
}

/// A line of a file: nonsense, or an object of which something may be wrong.
fn line() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::{Just, Strategy, any, prop_oneof};
    let name = proptest::sample::select(vec![
        "bool",
        "int4",
        "INT8",
        "float8",
        "numeric",
        "date",
        "timestamptz",
        "jsonb",
        "bytea",
        "x",
    ]);
    let value = prop_oneof![
        any::<String>().prop_map(|text| serde_json::Value::String(text).to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        any::<i128>().prop_map(|number| number.to_string()),
        "-?[0-9]{1,40}(\\.[0-9]{0,40})?([eE][-+]?[0-9]{1,20})?",
        "\"[0-9T:.+ -]{0,30}\"",
        proptest::sample::select(vec!["null", "true", "[", "{}", "\"\\\\x0g\"", "\"\\ud800\""]).prop_map(str::to_owned),
        (0..300_usize).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
    ];
    prop_oneof![
        4 => proptest::collection::vec((name, value), 0..5).prop_map(|pairs| {
            let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
            format!("{{{}}}", pairs.join(", ")).into_bytes()
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..100),
        1 => Just(Vec::new()),
    ]
}

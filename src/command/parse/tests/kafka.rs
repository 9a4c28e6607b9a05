//! `INCLUDE`, `ENCODE`, and statements without their secrets.

use proptest::prelude::{prop_assert, proptest};

use super::{command, error, one};
use crate::command::ast::{ColumnType, Command, CreateSource};
use crate::command::{Statement, bind, parse, without_secrets};
use crate::store::format::{Encode, Include};

fn source(sql: &str) -> CreateSource {
    match command(sql) {
        Command::CreateSource(source) => source,
        other => panic!("{other:?}"),
    }
}

/// The columns and parts of `INCLUDE`s.
fn included(includes: &str) -> (Vec<(String, ColumnType)>, Vec<Include>) {
    let source = source(&format!("CREATE SOURCE s (a int) {includes} WITH () FORMAT PLAIN ENCODE JSON"));
    let columns = source.columns.into_iter().skip(1).map(|column| (column.name, column.data_type)).collect();
    (columns, source.format.include)
}

#[test]
fn includes_have_risingwaves_names_and_types() {
    for (includes, name, data_type, part) in [
        ("INCLUDE KEY", "_rw_kafka_key", ColumnType::Bytea, Include::Key),
        ("include partition", "_rw_kafka_partition", ColumnType::Varchar, Include::Partition),
        ("INCLUDE OFFSET", "_rw_kafka_offset", ColumnType::Varchar, Include::Offset),
        ("INCLUDE TIMESTAMP", "_rw_kafka_timestamp", ColumnType::Timestamptz, Include::Timestamp),
        ("INCLUDE HEADER", "_rw_kafka_header", ColumnType::Jsonb, Include::Headers),
        ("INCLUDE HEADER 'h'", "_rw_kafka_header_h", ColumnType::Bytea, Include::Header("h".into())),
        ("INCLUDE HEADER 'H' varchar", "_rw_kafka_header_H_varchar", ColumnType::Varchar, Include::Header("H".into())),
        ("INCLUDE HEADER 'h' bytea", "_rw_kafka_header_h_bytea", ColumnType::Bytea, Include::Header("h".into())),
        ("INCLUDE HEADER 'h' TEXT AS \"C\"", "C", ColumnType::Varchar, Include::Header("h".into())),
        ("INCLUDE HEADER 'h' AS C", "c", ColumnType::Bytea, Include::Header("h".into())),
        ("INCLUDE KEY AS k", "k", ColumnType::Bytea, Include::Key),
    ] {
        assert_eq!(included(includes), (vec![(name.to_owned(), data_type)], vec![part]), "{includes}");
    }
    let (columns, parts) = included("INCLUDE OFFSET INCLUDE KEY AS k INCLUDE HEADER INCLUDE KEY AS again");
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["_rw_kafka_offset", "k", "_rw_kafka_header", "again"]);
    assert_eq!(parts, [Include::Offset, Include::Key, Include::Headers, Include::Key]);
}

#[test]
fn encode_bytes() {
    let sql = "CREATE SOURCE s (raw BYTEA) WITH () FORMAT PLAIN ENCODE BYTES";
    assert_eq!(source(sql).format.encode, Encode::Bytes);
}

#[test]
fn includes_that_are_not() {
    let told = |includes: &str| {
        let error = error(&format!("CREATE SOURCE s (a int) {includes} WITH () FORMAT PLAIN ENCODE JSON"));
        (error.sqlstate(), error.to_string())
    };
    for (includes, sqlstate, message) in [
        ("INCLUDE", "42601", "syntax error at or near \"WITH\""),
        ("INCLUDE OFSET", "42601", "syntax error at or near \"OFSET\""),
        ("INCLUDE KEY AS", "42601", "syntax error at or near \"WITH\""),
        ("INCLUDE KEY k", "42601", "syntax error at or near \"k\""),
        ("INCLUDE KEY, INCLUDE OFFSET", "42601", "syntax error at or near \",\""),
        ("INCLUDE HEADER 7", "42601", "the name of a header is a string: INCLUDE HEADER 'name'"),
        ("INCLUDE KEY INCLUDE KEY", "42701", "column \"_rw_kafka_key\" specified more than once"),
        ("INCLUDE KEY AS a", "42701", "column \"a\" specified more than once"),
        ("INCLUDE HEADER 'h' int", "0A000", "type integer for a header is not supported"),
    ] {
        assert_eq!(told(includes), (sqlstate, message.to_owned()), "{includes}");
    }
    let near = error("CREATE SOURCE s (a int) INCLUDE OFSET WITH () FORMAT PLAIN ENCODE JSON");
    assert!(near.hint().unwrap().starts_with("Perhaps you meant \"OFFSET\"."));
    let late = error("CREATE SOURCE s (a int) WITH () INCLUDE KEY FORMAT PLAIN ENCODE JSON");
    assert_eq!(late.to_string(), "INCLUDE stands between the columns and WITH");
}

#[test]
fn parameters_in_an_include() {
    let parsed = one("CREATE SOURCE s (a int) INCLUDE HEADER $1 AS h WITH (b = $2) FORMAT PLAIN ENCODE JSON");
    assert_eq!(parsed.params, 2);
    match bind(&parsed, &[Some("it's".into()), Some("x".into())]).unwrap() {
        Statement::Command(Command::CreateSource(source)) => {
            assert_eq!(source.format.include, [Include::Header("it's".into())]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_definition_has_no_secrets_and_reads_back() {
    let written = "CREATE SOURCE s (a int)\n  WITH (topic = 't', properties.sasl.password = 'hunter2', \
        \"Properties.SSL.Key.Pem\" = $$-----BEGIN$$, properties . ssl . key . password = INTERVAL '1' DAY, \
        x.token=7) FORMAT PLAIN ENCODE JSON";
    let definition = source(written).definition;
    assert_eq!(
        definition,
        "CREATE SOURCE s (a int)\n  WITH (topic = 't', properties.sasl.password = '[hidden]', \
        \"Properties.SSL.Key.Pem\" = '[hidden]', properties . ssl . key . password = '[hidden]' '1' DAY, \
        x.token='[hidden]') FORMAT PLAIN ENCODE JSON"
    );
}

#[test]
fn a_bound_secret_is_hidden_in_the_definition() {
    let parsed = one("CREATE SOURCE s (a int) WITH (properties.sasl.password = $1) FORMAT PLAIN ENCODE JSON");
    match bind(&parsed, &[Some("hunter2".into())]).unwrap() {
        Statement::Command(Command::CreateSource(source)) => {
            assert_eq!(source.options, [("properties.sasl.password".to_owned(), "hunter2".to_owned())]);
            assert_eq!(
                source.definition,
                "CREATE SOURCE s (a int) WITH (properties.sasl.password = '[hidden]') FORMAT PLAIN ENCODE JSON"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_are_shown_without_their_secrets() {
    for (text, want) in [
        ("SELECT 1; SELECT 'a' = 'b'", "SELECT 1; SELECT 'a' = 'b'"),
        ("SELECT * FROM t WHERE token = 'x' AND b = 'y'", "SELECT * FROM t WHERE token = '[hidden]' AND b = 'y'"),
        ("a (password='x' 'y', b='z'); c", "a (password='[hidden]', b='z'); c"),
        ("a (password = x)", "a (password = '[hidden]')"),
        ("a (password = $1)", "a (password = $1)"),
        ("a (password =", "a (password ="),
        ("ALTER USER u PASSWORD 'x'", "ALTER USER u PASSWORD '[hidden]'"),
        ("CREATE SOURCE s (token TEXT, password INT)", "CREATE SOURCE s (token TEXT, password INT)"),
        ("a (é.password = 'ü') -- x", "a (é.password = '[hidden]') -- x"),
        ("EXECUTE p ('a', 'b')", "EXECUTE p ('[hidden]')"),
        ("execute p", "execute p"),
        ("a (password = 'x", "(a text that can't be read and may hold a secret)"),
    ] {
        assert_eq!(without_secrets(text), want);
    }
}

#[test]
fn errors_tell_no_secret() {
    for sql in [
        "CREATE SOURCE s (a int) WITH (password = 'x' 'hunter2') FORMAT PLAIN ENCODE JSON",
        "CREATE SOURCE s (a int) WITH (password = hunter2) FORMAT PLAIN ENCODE JSON",
        "CREATE SOURCE s (a int) WITH (password 'hunter2') FORMAT PLAIN ENCODE JSON",
        "CREATE SOURCE s (a int) WITH (password = 'hunter2",
        "CREATE SOURCE s (a int) WITH (password = $$hunter2",
        "CREATE SAUCE s (a int) WITH (password = 'hunter2')",
        "CREATE SOURCE s (a int) WITH (password = 'hunter2', password = 'hunter2')",
    ] {
        let error = error(sql);
        let told = [error.to_string(), error.detail().unwrap_or_default(), error.hint().unwrap_or_default()].concat();
        assert!(!told.contains("hunter2"), "{sql}: {told}");
    }
}

proptest! {
    /// Whatever a client sends, and however it quotes: what is shown has none of it, and reads back.
    #[test]
    fn no_value_of_a_secret_option_is_shown(value in "[^\0]{0,20}") {
        let secret = format!("hunter2{value}");
        for quoted in [format!("'{}'", secret.replace('\'', "''")), format!("E'{}'", secret.replace('\\', "\\\\").replace('\'', "\\'"))] {
            let sql = format!("CREATE SOURCE s (a int) WITH (topic = 't', properties.sasl.password = {quoted}) FORMAT PLAIN ENCODE JSON");
            let shown = without_secrets(&sql).into_owned();
            prop_assert!(!shown.contains("hunter2"), "{}", shown);
            if parse(&sql).is_ok() {
                prop_assert!(parse(&shown).is_ok(), "{}", shown);
            }
        }
    }

    #[test]
    fn hiding_secrets_never_panics(text in "(password|token|EXECUTE|=|\\.|'|\\(|\\)|,|;|\\$1|\\$\\$| |é|x){0,30}") {
        without_secrets(&text);
    }
}

//! Values on their way out and in, in both formats.

use chrono::{DateTime, NaiveDate, Utc};

use super::{TestServer, error, one, text_rows};

/// The expected texts are what PostgreSQL 15 prints for the same expression.
#[tokio::test(flavor = "multi_thread")]
async fn text_is_printed_as_postgresql_does() {
    let server = TestServer::start().await;
    let client = server.client().await;
    for (sql, text) in [
        ("SELECT true, false", "t f"),
        ("SELECT NULL, 1::smallint, 2::int, 3::bigint", "NULL 1 2 3"),
        ("SELECT 1::double precision, 0.1::double precision, 1e20::double precision", "1 0.1 1e+20"),
        ("SELECT 'NaN'::double precision, '-Infinity'::double precision", "NaN -Infinity"),
        ("SELECT 1.5::real, 1e10::real", "1.5 1e+10"),
        (
            "SELECT 12.50::numeric(10,2), '99999999999999999999999999999'::numeric(38,0)",
            "12.50 99999999999999999999999999999",
        ),
        ("SELECT DATE '2013-01-01'", "2013-01-01"),
        ("SELECT TIMESTAMP '2013-01-01 10:00:00'", "2013-01-01 10:00:00"),
        ("SELECT TIMESTAMP '2013-01-01 10:00:00.120'", "2013-01-01 10:00:00.12"),
        ("SELECT TIMESTAMPTZ '2013-01-01 10:00:00Z'", "2013-01-01 10:00:00+00"),
        ("SELECT INTERVAL '1 day 2 hours 3 minutes 4 seconds'", "1 day 02:03:04"),
        ("SELECT INTERVAL '1 month', arrow_cast(NULL, 'Interval(MonthDayNano)')", "1 mon NULL"),
        ("SELECT TIMESTAMP '2013-01-02 10:00:00' - TIMESTAMP '2013-01-01 09:00:00'", "1 day 01:00:00"),
        (
            "SELECT make_array(1, NULL, 3), make_array('a', 'b c', NULL, '', 'x\"y')",
            "{1,NULL,3} {a,\"b c\",NULL,\"\",\"x\\\"y\"}",
        ),
        ("SELECT make_array(make_array(1, 2), make_array(3, 4))", "{{1,2},{3,4}}"),
        ("SELECT arrow_cast('ab', 'Binary')", "\\x6162"),
        ("SELECT arrow_cast('a', 'Dictionary(Int32, Utf8)')", "a"),
        ("SELECT named_struct('a', 1, 'b', 'x y', 'c', NULL)", "(1,\"x y\",)"),
        ("SELECT arrow_cast(9223372036854775807, 'UInt64')", "9223372036854775807"),
        ("SELECT TIME '10:11:12.5'", "10:11:12.5"),
    ] {
        assert_eq!(text_rows(&client, sql).await[0].join(" "), text, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_follows_the_settings() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let instant = "SELECT TIMESTAMPTZ '2013-07-01 10:00:00Z'";
    for (set, sql, text) in [
        ("SET timezone = 'Europe/Berlin'", instant, "2013-07-01 12:00:00+02"),
        ("SET timezone = 'Asia/Kolkata'", instant, "2013-07-01 15:30:00+05:30"),
        ("SET timezone = 'UTC'; SET datestyle = 'SQL, DMY'", instant, "01/07/2013 10:00:00 UTC"),
        ("SET datestyle = 'German'; SET timezone = 'Europe/Berlin'", instant, "01.07.2013 12:00:00 +02"),
        ("SET timezone = UTC", instant, "01.07.2013 10:00:00 UTC"),
        ("SET datestyle = 'Postgres, MDY'", instant, "Mon Jul 01 10:00:00 2013 UTC"),
        ("SET datestyle = 'Postgres, MDY'", "SELECT DATE '2013-07-01'", "07-01-2013"),
        ("SET intervalstyle = iso_8601", "SELECT INTERVAL '1 day 2 hours 3 minutes 4 seconds'", "P1DT2H3M4S"),
        ("SET bytea_output = escape", "SELECT arrow_cast('a\\b', 'Binary')", "a\\\\b"),
        ("SET extra_float_digits = 0", "SELECT 1.0::double precision / 3", "0.333333333333333"),
    ] {
        client.batch_execute(set).await.unwrap();
        assert_eq!(one(&client, sql).await, text, "{set}; {sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_values_round_trip() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let row = client
        .query_one(
            "SELECT $1::bool, $2::smallint, $3::int, $4::bigint, $5::real, $6::double precision, $7::text, $8::date, \
             $9::timestamptz, $10::bytea, $11::bigint[]",
            &[
                &true,
                &2_i16,
                &3_i32,
                &4_i64,
                &1.5_f32,
                &-2.25_f64,
                &"täxt",
                &NaiveDate::from_ymd_opt(2013, 1, 31),
                &DateTime::parse_from_rfc3339("2013-01-01T10:00:00.5Z").unwrap().with_timezone(&Utc),
                &b"\x00\xff".as_slice(),
                &vec![Some(1_i64), None, Some(3)],
            ],
        )
        .await
        .unwrap_or_else(|error| panic!("{}", super::told(&error)));
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, i16>(1), 2);
    assert_eq!(row.get::<_, i32>(2), 3);
    assert_eq!(row.get::<_, i64>(3), 4);
    assert_eq!(row.get::<_, f32>(4), 1.5);
    assert_eq!(row.get::<_, f64>(5), -2.25);
    assert_eq!(row.get::<_, &str>(6), "täxt");
    assert_eq!(row.get::<_, NaiveDate>(7), NaiveDate::from_ymd_opt(2013, 1, 31).unwrap());
    assert_eq!(row.get::<_, DateTime<Utc>>(8).to_rfc3339(), "2013-01-01T10:00:00.500+00:00");
    assert_eq!(row.get::<_, &[u8]>(9), b"\x00\xff");
    assert_eq!(row.get::<_, Vec<Option<i64>>>(10), [Some(1), None, Some(3)]);
    let row =
        client.query_one("SELECT $1::bigint, $2::text[], 1.5::numeric(4,1)", &[&None::<i64>, &vec!["a", "b,c"]]).await;
    let row = row.unwrap_or_else(|error| panic!("{}", super::told(&error)));
    assert_eq!(row.get::<_, Option<i64>>(0), None);
    assert_eq!(row.get::<_, Vec<String>>(1), ["a", "b,c"]);
    assert_eq!(row.columns()[2].type_(), &tokio_postgres::types::Type::NUMERIC);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_values_are_told_in_postgresqls_words() {
    let server = TestServer::start().await;
    let client = server.client().await;
    for (sql, told) in [
        ("SELECT 'x'::bigint", "22P02 invalid input syntax for type bigint: \"x\""),
        ("SELECT cast(name AS int) FROM numbers", "22P02 invalid input syntax for type integer: \"one\""),
        ("SELECT 'x'::double precision", "22P02 invalid input syntax for type double precision: \"x\""),
        ("SELECT 'x'::date", "22007 invalid input syntax for type date: \"x\""),
        ("SELECT 'x'::timestamp", "22007 invalid input syntax for type timestamp: \"x\""),
        ("SELECT 'x'::boolean", "22P02 invalid input syntax for type boolean: \"x\""),
        ("SELECT 1/0", "22012 division by zero"),
        ("SELECT id / (id - id) FROM numbers", "22012 division by zero"),
        ("SELECT (id * 10000)::smallint FROM numbers", "22003 smallint out of range"),
    ] {
        assert_eq!(error(&client, sql).await, told, "{sql}");
    }
}

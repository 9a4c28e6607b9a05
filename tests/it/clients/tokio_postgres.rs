//! tokio-postgres, which speaks the extended protocol in binary; with rustls through our own connector.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use tidegate::cli::connector::Connector;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage};

use super::{Fixture, PASSWORD};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Tries everything.
pub async fn outcomes(fixture: &Fixture) -> Vec<String> {
    let db = connect(fixture).await.unwrap();
    let mut lines = Vec::new();
    let mut say = |feature: &str, outcome: Outcome| {
        lines.push(match outcome {
            Ok(()) => format!("{feature} ok"),
            Err(error) => format!("{feature} failed: {}", told(&*error)),
        });
    };
    say("connect", named(fixture).await);
    say("scram", scram(fixture).await);
    say("tls", tls(fixture).await);
    say("text", text(&db).await);
    say("binary", binary(&db).await);
    say("parameters", parameters(&db).await);
    say("arrays", arrays(&db).await);
    say("nulls", nulls(&db).await);
    say("batch", batch(&db).await);
    say("cursor", cursor(fixture).await);
    say("cancel", cancel(&db).await);
    say("errors", errors(&db).await);
    say("transactions", transactions(fixture).await);
    say("prepared", prepared(&db).await);
    say("copy", copy(&db).await);
    say("statements", statements(&db).await);
    say("notices", notices(fixture).await);
    say("catalog", catalog(&db).await);
    lines
}

fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let said = error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.as_db_error());
    said.map_or_else(|| format!("{error:?}"), |said| format!("{said:?}")).replace('\n', " / ")
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, wanted: &T) -> Outcome {
    if got == wanted { Ok(()) } else { Err(format!("{got:?} isn't {wanted:?}").into()) }
}

fn config(fixture: &Fixture, user: &str) -> Config {
    let mut config = Config::new();
    let address = fixture.server.address;
    config.host("localhost").hostaddr(address.ip()).port(address.port()).user(user).dbname("dev");
    config
}

async fn connect(fixture: &Fixture) -> Outcome<Client> {
    let (client, connection) = config(fixture, "root").connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn named(fixture: &Fixture) -> Outcome {
    let (client, connection) = config(fixture, "root").application_name("drivers").connect(NoTls).await?;
    same(&connection.parameter("server_encoding"), &Some("UTF8"))?;
    tokio::spawn(connection);
    same(&client.query_one("SHOW application_name", &[]).await?.get::<_, String>(0), &"drivers".to_owned())
}

async fn scram(fixture: &Fixture) -> Outcome {
    let (client, connection) = config(fixture, "reader").password(PASSWORD).connect(NoTls).await?;
    tokio::spawn(connection);
    same(&client.query_one("SELECT current_user::text", &[]).await?.get::<_, String>(0), &"reader".to_owned())?;
    match config(fixture, "reader").password("wrong").connect(NoTls).await {
        Ok(_) => Err("it came in".into()),
        Err(error) => same(&error.code().map(|code| code.code()), &Some("28P01")),
    }
}

async fn tls(fixture: &Fixture) -> Outcome {
    let mut url = config(fixture, "reader");
    url.password(PASSWORD);
    let connector = Connector::new(fixture.certificates.client(false));
    let (client, connection) = url.ssl_mode(tokio_postgres::config::SslMode::Require).connect(connector).await?;
    tokio::spawn(connection);
    same(&client.query_one("SELECT 1::int4", &[]).await?.get::<_, i32>(0), &1)
}

/// Type and literal, as the server prints it again.
const VALUES: &[(&str, &str)] = &[
    ("bool", "t"),
    ("int2", "-32768"),
    ("int4", "2147483647"),
    ("int8", "-9223372036854775808"),
    ("float4", "1.5"),
    ("float8", "-2.25e+100"),
    ("numeric", "12345.6789"),
    ("text", "grüße 'n\"\\"),
    ("varchar", "x y"),
    ("bytea", "\\x00ff10"),
    ("date", "2026-02-28"),
    ("time", "23:59:58.123456"),
    ("timestamp", "1999-12-31 23:59:59.000001"),
    ("timestamptz", "2026-01-02 03:04:05.6+00"),
    ("interval", "3 days 04:05:06.7"),
    ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", "{\"a\":[1,null]}"),
    ("jsonb", "{\"a\": [1, null]}"),
    ("oid", "4294967295"),
    ("name", "pg_class"),
    ("\"char\"", "r"),
];

fn literal(pg_type: &str, text: &str) -> String {
    format!("'{}'::{pg_type}", text.replace('\'', "''"))
}

/// Runs a check for every type and tells all that fail.
macro_rules! each {
    (|$pg_type:ident, $text:ident| $check:expr) => {{
        let mut wrong = Vec::new();
        for ($pg_type, $text) in VALUES {
            let outcome: Outcome = async { $check }.await;
            if let Err(error) = outcome {
                wrong.push(format!("{}: {}", $pg_type, told(&*error)));
            }
        }
        same(&wrong, &Vec::new())
    }};
}

async fn text_of(db: &Client, sql: &str) -> Outcome<Option<String>> {
    let messages = db.simple_query(sql).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
        _ => None,
    });
    Ok(row.flatten())
}

async fn text(db: &Client) -> Outcome {
    each!(|pg_type, text| {
        let got = text_of(db, &format!("SELECT {}", literal(pg_type, text))).await?;
        same(&got.as_deref(), &Some(*text))
    })
}

/// A value read and sent as what Rust has for its type.
async fn round_trip<T>(db: &Client, pg_type: &str, text: &str, wanted: T) -> Outcome
where
    T: PartialEq + std::fmt::Debug + ToSql + Sync + for<'a> FromSql<'a>,
{
    let read = db.query_one(&format!("SELECT {}", literal(pg_type, text)), &[]).await?;
    same(&read.try_get::<_, T>(0)?, &wanted)?;
    let sent = db.query_one(&format!("SELECT $1::{pg_type}"), &[&wanted]).await?;
    same(&sent.try_get::<_, T>(0)?, &wanted)?;
    let listed = vec![Some(wanted), None];
    let sent = db.query_one(&format!("SELECT $1::{pg_type}[]"), &[&listed]).await?;
    same(&sent.try_get::<_, Vec<Option<T>>>(0)?, &listed)?;
    let none = db.query_one(&format!("SELECT NULL::{pg_type}, $1::{pg_type}"), &[&None::<T>]).await?;
    same(&(none.try_get::<_, Option<T>>(0)?, none.try_get::<_, Option<T>>(1)?), &(None, None))
}

async fn binary(db: &Client) -> Outcome {
    let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").unwrap();
    let mut wrong = Vec::new();
    for (pg_type, text) in VALUES {
        let outcome = match *pg_type {
            "bool" => round_trip(db, pg_type, text, true).await,
            "int2" => round_trip(db, pg_type, text, i16::MIN).await,
            "int4" => round_trip(db, pg_type, text, i32::MAX).await,
            "int8" => round_trip(db, pg_type, text, i64::MIN).await,
            "float4" => round_trip(db, pg_type, text, 1.5_f32).await,
            "float8" => round_trip(db, pg_type, text, -2.25e100_f64).await,
            "text" | "varchar" | "name" => round_trip(db, pg_type, text, (*text).to_owned()).await,
            "bytea" => round_trip(db, pg_type, text, vec![0_u8, 255, 16]).await,
            "date" => round_trip(db, pg_type, text, text.parse::<NaiveDate>().unwrap()).await,
            "time" => round_trip(db, pg_type, text, text.parse::<NaiveTime>().unwrap()).await,
            "timestamp" => round_trip(db, pg_type, text, at(text)).await,
            "timestamptz" => round_trip(db, pg_type, text, at("2026-01-02 03:04:05.6").and_utc()).await,
            "json" | "jsonb" => {
                round_trip(db, pg_type, text, serde_json::from_str::<serde_json::Value>(text).unwrap()).await
            }
            "oid" => round_trip(db, pg_type, text, u32::MAX).await,
            "\"char\"" => round_trip(db, pg_type, text, b'r'.cast_signed()).await,
            // Rust has nothing of its own for these.
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            wrong.push(format!("{pg_type}: {}", told(&*error)));
        }
    }
    same(&wrong, &Vec::new())
}

async fn parameters(db: &Client) -> Outcome {
    let row = db.query_one("SELECT count(*) FROM mv WHERE id < $1", &[&-1_i64]).await?;
    same(&row.get::<_, i64>(0), &0)?;
    let row = db.query_one("SELECT relname::text FROM pg_class WHERE oid = $1", &[&1259_u32]).await?;
    same(&row.get::<_, String>(0), &"pg_class".to_owned())?;
    let then: DateTime<Utc> = SystemTime::UNIX_EPOCH.into();
    let row = db.query_one("SELECT now() > $1, $2 || 'x', $3::int8 + 1", &[&then, &"a", &41_i64]).await?;
    same(&(row.get(0), row.get::<_, String>(1), row.get::<_, i64>(2)), &(true, "ax".to_owned(), 42))
}

async fn arrays(db: &Client) -> Outcome {
    each!(|pg_type, text| {
        let read = text_of(db, &format!("SELECT array[{}, NULL]", literal(pg_type, text))).await?;
        let sql = format!("SELECT {}", literal(&format!("{pg_type}[]"), &read.clone().unwrap_or_default()));
        same(&text_of(db, &sql).await?, &read)
    })?;
    let names = ["mv", "s", "no"].map(str::to_owned).to_vec();
    let row = db.query_one("SELECT count(*) FROM pg_class WHERE relname = ANY($1::text[])", &[&names]).await?;
    same(&row.get::<_, i64>(0), &2)?;
    let row = db.query_one("SELECT count(*) FROM mv WHERE id = ANY($1)", &[&vec![-1_i64]]).await?;
    same(&row.get::<_, i64>(0), &0)
}

async fn nulls(db: &Client) -> Outcome {
    each!(|pg_type, _text| same(&text_of(db, &format!("SELECT NULL::{pg_type}")).await?, &None))?;
    let row = db.query_one("SELECT $1::text IS NULL, $2::int8", &[&None::<String>, &None::<i64>]).await?;
    same(&(row.get(0), row.get::<_, Option<i64>>(1)), &(true, None))
}

/// Many statements without waiting for each other.
async fn batch(db: &Client) -> Outcome {
    let statement = db.prepare("SELECT $1::int8 + 1").await?;
    let runs = (0..50_i64).map(|n| {
        let statement = statement.clone();
        async move { db.query_one(&statement, &[&n]).await.map(|row| row.get::<_, i64>(0)) }
    });
    let got = futures::future::try_join_all(runs).await?;
    same(&got, &(1..=50).collect::<Vec<_>>())?;
    let messages = db.simple_query("SELECT 1; SELECT 'two'; SET statement_timeout = '90s'").await?;
    same(&messages.iter().filter(|message| matches!(message, SimpleQueryMessage::CommandComplete(_))).count(), &3)
}

/// A portal with a limit of rows.
async fn cursor(fixture: &Fixture) -> Outcome {
    let mut db = connect(fixture).await?;
    let transaction = db.transaction().await?;
    let portal = transaction.bind("SELECT id FROM mv WHERE id >= $1", &[&i64::MIN]).await?;
    let mut parts = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 300).await?;
        parts.push(rows.len());
        if rows.is_empty() {
            break;
        }
    }
    same(&parts, &vec![300, 300, 300, 100, 0])?;
    transaction.commit().await?;
    let rows = db.query_raw("SELECT n FROM generate_series(1, 1000) g(n)", Vec::<i64>::new()).await?;
    pin_mut!(rows);
    let mut seen = 0;
    while rows.try_next().await?.is_some() {
        seen += 1;
    }
    same(&seen, &1000)
}

async fn cancel(db: &Client) -> Outcome {
    let token = db.cancel_token();
    let canceling = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        token.cancel_query(NoTls).await
    });
    match db.query("SELECT pg_sleep(60)", &[]).await {
        Ok(_) => return Err("it went on".into()),
        Err(error) => same(&error.code().map(|code| code.code()), &Some("57014"))?,
    }
    canceling.await??;
    same(&text_of(db, "SELECT 1").await?.as_deref(), &Some("1"))
}

/// SQLSTATE, and whether DETAIL and HINT are there, of a statement that fails.
async fn failing(db: &Client, sql: &str) -> Outcome<(String, bool, bool)> {
    match db.query(sql, &[]).await {
        Ok(_) => Err(format!("{sql} succeeded").into()),
        Err(error) => {
            let Some(said) = error.as_db_error() else { return Err(error.into()) };
            Ok((said.code().code().to_owned(), said.detail().is_some(), said.hint().is_some()))
        }
    }
}

async fn fails(db: &Client, sqlstate: &str, sql: &str) -> Outcome {
    same(&failing(db, sql).await?.0.as_str(), &sqlstate)
}

async fn errors(db: &Client) -> Outcome {
    fails(db, "42P01", "SELECT * FROM nowhere").await?;
    fails(db, "42601", "SELEC 1").await?;
    fails(db, "22012", "SELECT 1 / 0").await?;
    fails(db, "22P02", "SELECT 'x'::int4").await?;
    let said = db.query("SELECT nme FROM mv", &[]).await.err().ok_or("it succeeded")?;
    let position = said.as_db_error().and_then(|said| said.position().cloned());
    same(&position, &Some(tokio_postgres::error::ErrorPosition::Original(8)))?;
    same(&failing(db, "ALTER SOURCE slow SET PARALLELISM = 3").await?, &("55000".to_owned(), true, true))
}

async fn transactions(fixture: &Fixture) -> Outcome {
    let mut db = connect(fixture).await?;
    let transaction = db.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let mut transaction = transaction.read_only(true).start().await?;
    let savepoint = transaction.savepoint("a").await?;
    same(&savepoint.query("SELECT 1 / 0", &[]).await.is_err(), &true)?;
    let failed = savepoint.query("SELECT 1", &[]).await.err();
    same(&failed.and_then(|error| error.code().map(|code| code.code().to_owned())).as_deref(), &Some("25P02"))?;
    savepoint.rollback().await?;
    let row = transaction.query_one("SHOW transaction_isolation", &[]).await?;
    same(&row.get::<_, String>(0), &"repeatable read".to_owned())?;
    transaction.commit().await?;
    Ok(())
}

async fn prepared(db: &Client) -> Outcome {
    let statement = db.prepare_typed("SELECT $1 + 1, $2 || '!', id FROM mv LIMIT 1", &[Type::INT8, Type::TEXT]).await?;
    let types: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
    same(&types, &vec!["int8", "text", "int8"])?;
    for n in 0..20_i64 {
        let row = db.query_one(&statement, &[&n, &"x"]).await?;
        same(&(row.get::<_, i64>(0), row.get::<_, String>(1)), &(n + 1, "x!".to_owned()))?;
    }
    Ok(())
}

async fn copy(db: &Client) -> Outcome {
    let out = db.copy_out("COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT").await?;
    pin_mut!(out);
    let mut bytes = Vec::new();
    while let Some(part) = out.next().await {
        bytes.extend_from_slice(&part?);
    }
    same(&String::from_utf8(bytes)?, &"1\tx1\n2\tx2\n3\tx3\n".to_owned())
}

async fn statements(db: &Client) -> Outcome {
    let source = "CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10)
                  FORMAT PLAIN ENCODE JSON";
    db.execute(source, &[]).await?;
    db.execute("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine", &[]).await?;
    same(&db.query_one("SELECT count(*) FROM my_view", &[]).await?.get::<_, i64>(0), &20)?;
    fails(db, "55000", "ALTER SOURCE slow SET PARALLELISM = 3").await?;
    let rows = db.query("SELECT * FROM tidegate.check_rescale($1, $2)", &[&"slow", &"3"]).await?;
    same(&rows.is_empty(), &false)?;
    db.execute("DROP SOURCE mine CASCADE", &[]).await?;
    Ok(())
}

async fn notices(fixture: &Fixture) -> Outcome {
    let (client, mut connection) = config(fixture, "root").connect(NoTls).await?;
    let hearing = tokio::spawn(async move {
        let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
        let mut heard = Vec::new();
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message {
                heard.push(notice.severity().to_owned());
            }
        }
        heard
    });
    client.batch_execute("DROP SOURCE IF EXISTS nowhere").await?;
    drop(client);
    same(&hearing.await?, &vec!["NOTICE".to_owned()])
}

/// It asks the catalogs for types that it doesn't know.
async fn catalog(db: &Client) -> Outcome {
    let statement = db.prepare("SELECT $1::regclass::text, oid, relname, relkind FROM pg_class WHERE false").await?;
    let types: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
    same(&types, &vec!["text", "oid", "name", "char"])
}

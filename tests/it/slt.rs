//! The readable specification: each file of `tests/slt/` is run over real connections to a server of its own, once in
//! the simple and once in the extended protocol; those of the SQL language, `sql_*.slt`, in the simple one alone.
//!
//! The files are [sqllogictest](https://crates.io/crates/sqllogictest) scripts. Four things are ours:
//! - an error reads as psql shows it with `\set VERBOSITY verbose`: `ERROR:  code: message`, then `DETAIL:` and `HINT:`;
//! - a statement without a result that gives notices is a `query` whose rows are the lines of the notices;
//! - `\connect name [password]` is a statement, as in psql: what follows is on a connection of that user;
//! - `$__DIR__` (after `control substitution on`) is a directory with the files of `examples/flights` in `flights/`.
//!
//! `TIDEGATE_SLT_UPDATE=1 cargo test --test it slt` writes what the server answers into the files, for `git diff`.

#![allow(clippy::unwrap_used)] // clippy only knows functions marked #[test] as tests

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use tokio_postgres::error::DbError;
use tokio_postgres::types::{FromSql, Kind, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::server::Server;

macro_rules! specification {
    ($($file:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $file() {
            run(concat!(stringify!($file), ".slt")).await;
        })*

        /// A file that nobody runs would specify nothing.
        #[test]
        fn every_file_is_run() {
            let mut found: Vec<String> = std::fs::read_dir(folder())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with(".slt"))
                .collect();
            found.sort();
            assert_eq!(found, [$(concat!(stringify!($file), ".slt")),*]);
        }
    };
}

specification!(
    advisory_locks catalog catalog_of_tools errors kafka_statements names progress rate_limits rescale session sources sql_arrays sql_dates sql_errors sql_json
    sql_nulls sql_number_types sql_numbers sql_queries sql_rows sql_strings sql_subqueries users_and_grants views
);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt")
}

async fn run(file: &str) {
    let path = folder().join(file);
    // What the language's files compare is PostgreSQL's text of values; their binary forms are for the drivers' tests.
    let both = [Protocol::Simple, Protocol::Extended];
    let protocols = if file.starts_with("sql_") { &both[..1] } else { &both };
    for protocol in protocols.iter().copied() {
        let server = Server::start();
        let dir = tempfile::tempdir().unwrap();
        copy_samples(&dir.path().join("flights"));
        let dir_name = dir.path().to_str().unwrap().to_owned();
        let (url, name) = (server.url(), dir_name.clone());
        let mut runner = Runner::new(move || Connection::open(url.clone(), name.clone(), protocol));
        runner.set_var("__DIR__".to_owned(), dir_name);
        if std::env::var_os("TIDEGATE_SLT_UPDATE").is_some() {
            let normalizer = sqllogictest::default_normalizer;
            let columns = sqllogictest::default_column_validator;
            runner.update_test_file(&path, " ", sqllogictest::default_validator, normalizer, columns).await.unwrap();
            return;
        }
        if let Err(error) = runner.run_file_async(&path).await {
            panic!("{protocol:?} protocol: {error}");
        }
    }
}

fn copy_samples(to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/flights")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Simple,
    Extended,
}

/// A connection, and what has been noticed on it.
struct Connection {
    client: Client,
    notices: Arc<Mutex<Vec<DbError>>>,
    /// With user root in it.
    url: String,
    dir: String,
    protocol: Protocol,
}

impl Connection {
    async fn open(url: String, dir: String, protocol: Protocol) -> Result<Self, Failure> {
        let (client, mut connection) =
            tokio_postgres::connect(&url, NoTls).await.map_err(|error| failure(&error, &dir))?;
        let notices = Arc::new(Mutex::new(Vec::new()));
        let noticed = Arc::clone(&notices);
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notice(notice) = message {
                    noticed.lock().unwrap().push(notice);
                }
            }
        });
        Ok(Self { client, notices, url, dir, protocol })
    }

    /// The rows of a statement, or `None` and a count where it has no columns.
    async fn rows(&self, sql: &str) -> Result<(Option<Table>, u64), tokio_postgres::Error> {
        match self.protocol {
            Protocol::Simple => {
                let (mut table, mut count) = (None, 0);
                for message in self.client.simple_query(sql).await? {
                    match message {
                        SimpleQueryMessage::RowDescription(columns) => {
                            table = Some(Table { columns: columns.len(), rows: Vec::new() });
                        }
                        SimpleQueryMessage::Row(row) => {
                            let row = (0..row.len()).map(|column| shown(row.get(column).map(str::to_owned))).collect();
                            table.as_mut().unwrap().rows.push(row);
                        }
                        SimpleQueryMessage::CommandComplete(rows) => count = rows,
                        _ => {}
                    }
                }
                Ok((table, count))
            }
            Protocol::Extended => {
                let statement = self.client.prepare(sql).await?;
                let columns = statement.columns().len();
                if columns == 0 {
                    return Ok((None, self.client.execute(&statement, &[]).await?));
                }
                let mut rows = Vec::new();
                for row in self.client.query(&statement, &[]).await? {
                    let values = (0..columns).map(|column| {
                        row.try_get::<_, Option<Text>>(column).map(|text| shown(text.map(|text| text.0)))
                    });
                    rows.push(values.collect::<Result<_, _>>()?);
                }
                let count = rows.len() as u64;
                Ok((Some(Table { columns, rows }), count))
            }
        }
    }
}

struct Table {
    columns: usize,
    rows: Vec<Vec<String>>,
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        if let Some(user) = sql.strip_prefix("\\connect ") {
            let user = user.trim().replace(' ', ":");
            let url = self.url.replacen("root@", &format!("{user}@"), 1);
            *self = Self { url: self.url.clone(), ..Self::open(url, self.dir.clone(), self.protocol).await? };
            return Ok(DBOutput::StatementComplete(0));
        }
        let result = self.rows(sql).await;
        let notices = std::mem::take(&mut *self.notices.lock().unwrap());
        let (table, count) = result.map_err(|error| failure(&error, &self.dir))?;
        let Table { columns, rows } = match table {
            Some(table) => table,
            None if notices.is_empty() => return Ok(DBOutput::StatementComplete(count)),
            None => {
                let lines =
                    notices.iter().flat_map(|notice| told(notice).lines().map(str::to_owned).collect::<Vec<_>>());
                Table { columns: 1, rows: lines.map(|line| vec![line]).collect() }
            }
        };
        let rows =
            rows.into_iter().map(|row| row.into_iter().map(|value| value.replace(&self.dir, "$__DIR__")).collect());
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: rows.collect() })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        match self.protocol {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
        }
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        Some(error.sqlstate.clone())
    }
}

/// An error as psql shows it when it is verbose.
#[derive(Debug)]
struct Failure {
    sqlstate: String,
    text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

fn failure(error: &tokio_postgres::Error, dir: &str) -> Failure {
    match error.as_db_error() {
        Some(error) => Failure { sqlstate: error.code().code().to_owned(), text: told(error).replace(dir, "$__DIR__") },
        None => Failure { sqlstate: String::new(), text: format!("{error:?}") },
    }
}

fn told(error: &DbError) -> String {
    let mut text = format!("{}:  {}: {}", error.severity(), error.code().code(), error.message());
    for (name, part) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}:  {part}"));
        }
    }
    text
}

/// An element of an array as PostgreSQL shows it.
fn quoted(text: String) -> String {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || "{},\"\\".contains(c)) {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text
    }
}

/// A value as the files write it.
fn shown(value: Option<String>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => text,
    }
}

/// A value of the binary format as the text format has it. Types that aren't here are for the file to cast to text.
struct Text(String);

/// The decimal text of a numeric's binary form: digits to the base of 10,000.
fn numeric(raw: &[u8]) -> Result<String, Box<dyn std::error::Error + Sync + Send>> {
    let words: Vec<i16> = raw.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect();
    let [_, weight, sign, scale, digits @ ..] = words.as_slice() else { return Err("a numeric is shorter".into()) };
    let group =
        |position: i16| usize::try_from(weight - position).ok().and_then(|index| digits.get(index)).unwrap_or(&0);
    let whole: String = (0..=(*weight).max(0)).rev().map(|position| format!("{:04}", group(position))).collect();
    let whole = whole.trim_start_matches('0');
    let scale = usize::try_from(*scale)?;
    let groups = i16::try_from(scale.div_ceil(4))?;
    let fraction: String = (1..=groups).map(|position| format!("{:04}", group(-position))).collect();
    let minus = if *sign == 0x4000 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    Ok(format!("{minus}{}{point}{}", if whole.is_empty() { "0" } else { whole }, &fraction[..scale]))
}

impl<'a> FromSql<'a> for Text {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(match *kind {
            Type::BOOL => (if bool::from_sql(kind, raw)? { "t" } else { "f" }).to_owned(),
            Type::INT2 => i16::from_sql(kind, raw)?.to_string(),
            Type::INT4 => i32::from_sql(kind, raw)?.to_string(),
            Type::INT8 => i64::from_sql(kind, raw)?.to_string(),
            Type::OID | Type::XID => u32::from_sql(kind, raw)?.to_string(),
            Type::FLOAT4 => f32::from_sql(kind, raw)?.to_string(),
            Type::FLOAT8 => f64::from_sql(kind, raw)?.to_string(),
            Type::CHAR => char::from(u8::try_from(i8::from_sql(kind, raw)?)?).to_string(),
            // A version, then the text.
            Type::JSONB => std::str::from_utf8(&raw[1..])?.to_owned(),
            Type::NUMERIC => numeric(raw)?,
            _ if matches!(kind.kind(), Kind::Array(_)) => {
                let values = Vec::<Option<Text>>::from_sql(kind, raw)?;
                let values: Vec<String> = values
                    .into_iter()
                    .map(|value| value.map_or_else(|| "NULL".to_owned(), |text| quoted(text.0)))
                    .collect();
                format!("{{{}}}", values.join(","))
            }
            _ => <&str>::from_sql(kind, raw)?.to_owned(),
        }))
    }

    fn accepts(kind: &Type) -> bool {
        match kind.kind() {
            Kind::Array(element) => Self::accepts(element),
            _ => {
                <&str>::accepts(kind)
                    || [
                        Type::BOOL,
                        Type::INT2,
                        Type::INT4,
                        Type::INT8,
                        Type::OID,
                        Type::XID,
                        Type::FLOAT4,
                        Type::FLOAT8,
                        Type::CHAR,
                        Type::JSONB,
                        Type::NUMERIC,
                    ]
                    .contains(kind)
            }
        }
    }
}

//! The catalog as a client sees it: SQL in, rows and types out, over a database with two sources and two views.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::sqlparser::dialect::PostgreSqlDialect;
use datafusion::logical_expr::sqlparser::parser::Parser;
use futures::TryStreamExt as _;
use rusqlite::Connection;

use super::table::SqliteScan;
use super::view::VIEWS;
use super::{Activity, Catalog, Host, Server, Session, Setting, prepare_connection, types};
use crate::error::{Error, Result};
use crate::store::Store;

mod clients;
mod errors;
mod guard;
mod language;
mod progress;
mod reference;

#[derive(Debug, Default)]
struct TestHost(Mutex<BTreeMap<String, String>>);

impl Host for TestHost {
    fn setting(&self, name: &str) -> Option<String> {
        let known = self.0.lock().unwrap().get(name).cloned();
        known.or_else(|| (name == "server_version").then(|| "15.0".into()))
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting { name: "server_version".into(), value: "15.0".into(), ..Setting::default() }]
    }

    fn set(&self, name: &str, value: &str, _: bool) -> Result<String> {
        self.0.lock().unwrap().insert(name.into(), value.into());
        Ok(value.into())
    }

    fn activity(&self) -> Vec<Activity> {
        vec![Activity { pid: 7, user: "root".into(), ..Activity::default() }]
    }

    fn cancel(&self, pid: i32) -> bool {
        pid == 7
    }

    fn terminate(&self, _: i32) -> bool {
        false
    }
}

/// A source of three splits with a view that is backfilling, and one without splits.
const DATA: &str = r#"
INSERT INTO relations VALUES
  (16384, 'public', 's', 'source', 'root', 'CREATE SOURCE s (id BIGINT, note TEXT) WITH (connector = ''datagen'')', 1000000),
  (16386, 'public', 'mv', 'materialized view', 'root', 'CREATE MATERIALIZED VIEW mv AS SELECT * FROM s', 2000000);
INSERT INTO columns VALUES (16384, 1, 'id', 'int8'), (16384, 2, 'note', 'text'), (16386, 1, 'id', 'int8'), (16386, 2, 'note', 'text');
INSERT INTO sources (id, connector, options_json, parallelism, rate_limit, discovery_error, discovery_error_at) VALUES (16384, 'datagen', '{"connector":"datagen","splits":"3"}', '2', NULL, NULL, NULL);
INSERT INTO jobs VALUES (16386, 'SELECT * FROM s', 'creating', 1, '2', NULL, '[]', 2000000, NULL);
INSERT INTO fragments VALUES (16385, 16384, 16384, 'source', NULL), (16387, 16386, 16384, 'source scan', NULL);
INSERT INTO actors VALUES (1, 16385, 0, NULL, 0, 0), (2, 16385, 1, NULL, 0, 0),
  (3, 16387, 0, 'backfill', 1, 2), (4, 16387, 1, 'backfill', 1, 2);
INSERT INTO splits (source_id, split_id, upstream_offset, low_watermark, high_watermark, latest_offset, first_seen_at, found_at_run_time, error, error_at) VALUES (16384, '0', 10000, 0, 10000, 9999, 1000000, 0, NULL, NULL),
  (16384, '1', 10000, 0, 10000, 9999, 1000000, 0, NULL, NULL), (16384, '2', 10000, 0, 10000, 9999, 1000000, 0, NULL, NULL);
INSERT INTO split_assignments VALUES (16384, '0', 1, 1000000, NULL), (16384, '1', 2, 1000000, NULL), (16384, '2', 1, 1000000, NULL);
INSERT INTO backfill_states VALUES
  (16387, '0', '{"num_consumed_rows": 10000, "state": "Finished", "target_offset": "9999"}', 5),
  (16387, '2', '{"num_consumed_rows": 530, "state": {"Backfilling": "529"}, "target_offset": "9999"}', 5);
INSERT INTO split_progress VALUES (16387, '0', 0, 2000000, 3000000, 100, NULL, NULL, NULL, 3000000, NULL),
  (16387, '2', 0, 2000000, 3000000, NULL, 500, 500, NULL, 3000000, 500);
UPDATE meta SET epoch = 5, checkpoint_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER);
CREATE TABLE mv_16386 (_source_id INTEGER, _split TEXT, _offset INTEGER, id INTEGER, note TEXT);
INSERT INTO mv_16386 VALUES (16384, '0', 0, 10, 'a'), (16384, '0', 1, 11, NULL), (16384, '2', 0, 12, 'c');
"#;

/// A state file, open twice: as the server has it, and as the test writes to it.
struct Database {
    store: Store,
    connection: Connection,
    _directory: tempfile::TempDir,
}

impl std::ops::Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

fn database() -> Database {
    // Made once, then copied: a new state file is synced to the disk many times.
    static TEMPLATE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let connection = Connection::open(store.path()).unwrap();
        connection.execute_batch(&format!("BEGIN; {DATA} COMMIT; PRAGMA wal_checkpoint(TRUNCATE);")).unwrap();
        std::fs::read(store.path()).unwrap()
    });
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(crate::store::FILE_NAME), &*TEMPLATE).unwrap();
    let store = Store::open(directory.path()).unwrap();
    store.set_reader_setup(Arc::new(prepare_connection));
    let connection = Connection::open(store.path()).unwrap();
    connection.execute_batch("PRAGMA synchronous = off").unwrap();
    prepare_connection(&connection).unwrap();
    Database { store, connection, _directory: directory }
}

/// A session, with the state file that its snapshot is of.
struct TestSession {
    session: Session,
    // Dropped after the session: a store that closes waits for those who read.
    _database: Database,
}

impl std::ops::Deref for TestSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

fn session_on(database: Database) -> TestSession {
    static CATALOG: std::sync::LazyLock<Arc<Catalog>> = std::sync::LazyLock::new(|| {
        Catalog::new(Server { available: 4, barrier_interval: 1_000_000 }, super::Memory::for_tests())
    });
    let session = CATALOG.session("root", 7, Arc::new(TestHost::default()));
    session.set_snapshot(Arc::new(database.store.snapshot().unwrap()));
    TestSession { session, _database: database }
}

fn session() -> TestSession {
    session_on(database())
}

async fn batches(session: &Session, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    session.query(statements.remove(0)).await?.try_collect().await
}

/// The rows, as text: columns parted by a bar, NULL as nothing.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches = batches(session, sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let options = FormatOptions::default().with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S"));
    let mut rows = Vec::new();
    for batch in batches {
        // Of an oid with its name, the name.
        let shown = batch.columns().iter().map(|column| match column.as_struct_opt() {
            Some(parts) if parts.column_names() == ["oid", "name"] => parts.column(1),
            _ => column,
        });
        let columns: Vec<_> = shown.map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

/// The error of ours inside, if there is one.
async fn error(session: &Session, sql: &str) -> String {
    let error = batches(session, sql).await.expect_err(sql);
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => format!("{} {ours}", ours.sqlstate()),
            None => inner.to_string(),
        },
        other => other.to_string(),
    }
}

#[test]
fn every_view_gives_its_declared_columns_and_reads() {
    let connection = database();
    for view in VIEWS.iter().filter(|view| view.select.is_some()) {
        let mut statement = connection
            .prepare(&format!("SELECT * FROM \"{}\"", view.sqlite_name()))
            .unwrap_or_else(|error| panic!("{}: {error}", view.sqlite_name()));
        let declared: Vec<_> = view.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(statement.column_names(), declared, "{}", view.sqlite_name());
        let mut rows = statement.query([]).unwrap();
        while rows.next().unwrap_or_else(|error| panic!("{}: {error}", view.sqlite_name())).is_some() {}
    }
}

#[tokio::test]
async fn every_relation_can_be_read_and_has_its_types() {
    let session = session();
    let relations = rows(&session, "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relkind <> 'f'").await;
    assert!(relations.len() > 200);
    for relation in relations {
        let batches = batches(&session, &format!("SELECT * FROM {relation}")).await;
        let batches = batches.unwrap_or_else(|error| panic!("{relation}: {error}"));
        let (schema, name) = relation.split_once('.').unwrap();
        let expected = rows(
            &session,
            &format!("SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE attrelid = '{relation}'::regclass ORDER BY attnum"),
        )
        .await;
        let _ = (schema, name);
        if let Some(batch) = batches.first() {
            let found: Vec<_> = batch
                .schema()
                .fields()
                .iter()
                .map(|field| format!("{}|{}", field.name(), types::by_name(types::name_of(field)).unwrap().typname))
                .collect();
            assert_eq!(found, expected, "{relation}");
        }
    }
}

#[tokio::test]
async fn names_are_found_along_the_search_path() {
    let session = session();
    assert_eq!(rows(&session, "SELECT name FROM rw_sources").await, ["s"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM tidegate.split_assignments").await, ["3"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM dev.public.mv").await, ["3"]);
    assert_eq!(
        error(&session, "SELECT * FROM split_asignments").await,
        "42P01 relation \"split_asignments\" does not exist"
    );
    assert_eq!(error(&session, "SELECT * FROM s").await, "0A000 querying source \"s\" directly is not supported");
    assert_eq!(rows(&session, "SELECT set_config('search_path', 'rw_catalog', false)").await, ["rw_catalog"]);
    assert_eq!(error(&session, "SELECT * FROM mv").await, "42P01 relation \"mv\" does not exist");
    assert_eq!(rows(&session, "SELECT pg_table_is_visible('public.mv'::regclass)").await, ["false"]);
}

#[tokio::test]
async fn hidden_columns_are_there_for_those_who_name_them() {
    let session = session();
    assert_eq!(rows(&session, "SELECT * FROM mv").await, ["10|a", "11|", "12|c"]);
    assert_eq!(rows(&session, "SELECT _split, _offset, * FROM mv WHERE id = 12").await, ["2|0|12|c"]);
    assert_eq!(
        rows(
            &session,
            "SELECT m.*, n.* FROM mv m JOIN mv n ON n._offset = m._offset AND n._split = m._split AND n.id = 11"
        )
        .await,
        ["11||11|"]
    );
    assert_eq!(rows(&session, "SELECT * FROM (SELECT _split FROM mv) x ORDER BY 1 LIMIT 1").await, ["0"]);
    assert!(error(&session, "SELECT _source_id FROM mv").await.contains("_source_id"));
}

/// What SQLite says that it does for a scan's SQL.
fn query_plan(scan: &SqliteScan) -> String {
    let connection = database();
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", scan.sql())).unwrap();
    let lines: Vec<String> = statement
        .query_map(rusqlite::params_from_iter(scan.parameters()), |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    lines.join("\n")
}

async fn scan_of(session: &Session, sql: &str) -> Arc<dyn datafusion::physical_plan::ExecutionPlan> {
    let statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    let plan = session.optimize(&session.plan(statement).unwrap()).unwrap();
    let mut plan = session.physical_plan(&plan).await.unwrap();
    while let Some(child) = plan.children().first().map(|child| Arc::clone(child)) {
        plan = child;
    }
    plan
}

#[tokio::test]
async fn filters_reach_sqlites_indexes() {
    let session = session();
    for filter in [
        "split_id = '2'",
        "split_id IN ('1', '2') AND job_id = 16386",
        "job_id = '16386' AND state <> 'Finished'",
        "source_id = 16384 AND split_id = '2'",
        "job_name = 'mv' AND source_name = 's' AND schema_name = 'public'",
    ] {
        let plan = scan_of(&session, &format!("SELECT * FROM split_backfill_progress WHERE {filter}")).await;
        let scan = plan.downcast_ref::<SqliteScan>().unwrap_or_else(|| panic!("{plan:?}"));
        let plan = query_plan(scan);
        assert!(!plan.contains("SCAN a") && !plan.contains("SCAN b") && !plan.contains("SCAN p"), "{filter}\n{plan}");
        assert!(plan.contains("SEARCH a USING PRIMARY KEY (source_id=?"), "{filter}\n{plan}");
        if filter.contains("split_id =") {
            assert!(plan.contains("SEARCH a USING PRIMARY KEY (source_id=? AND split_id=?)"), "{filter}\n{plan}");
        }
    }
}

#[tokio::test]
async fn limits_reach_sqlite() {
    let session = session();
    let plan = scan_of(&session, "SELECT id FROM mv LIMIT 2").await;
    assert!(plan.downcast_ref::<SqliteScan>().unwrap().sql().ends_with("LIMIT 2"));
    assert_eq!(rows(&session, "SELECT id FROM mv LIMIT 2").await, ["10", "11"]);
}

#[tokio::test]
async fn rows_are_paged() {
    let connection = database();
    connection
        .execute_batch("WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 20099) INSERT INTO mv_16386 SELECT 16384, '0', i, i, 'x' FROM n")
        .unwrap();
    let session = session_on(connection);
    assert_eq!(
        rows(&session, "SELECT count(*), min(id), max(id), count(DISTINCT id) FROM mv").await,
        ["20003|10|20099|20003"]
    );
    assert_eq!(rows(&session, "SELECT count(*) FROM (SELECT id FROM mv WHERE id > 50 LIMIT 9000)").await, ["9000"]);
}

#[tokio::test]
async fn a_context_is_cheap() {
    let session = session();
    let begin = std::time::Instant::now();
    let n = 1000;
    for _ in 0..n {
        let host = Arc::clone(&session.scope_for_tests().host);
        std::hint::black_box(session.catalog_for_tests().session("root", 7, host));
    }
    println!("a session: {:?}", begin.elapsed() / n);
    let begin = std::time::Instant::now();
    for _ in 0..100 {
        rows(&session, "SELECT job_name, split_id, state FROM split_backfill_progress WHERE split_id = '2'").await;
    }
    println!("a query: {:?}", begin.elapsed() / 100);
}

#[tokio::test]
async fn a_rescale_can_be_checked_in_sql() {
    let session = session();
    assert_eq!(rows(&session, "SELECT name, tidegate.can_rescale(name, '3') FROM rw_sources").await, ["s|false"]);
    assert_eq!(rows(&session, "SELECT tidegate.can_rescale('s', 2)").await, ["true"]);
    let splits = "SELECT split_id, verdict, state ->> 'num_consumed_rows' FROM tidegate.check_rescale('s', 3) WHERE check_name = 'split' ORDER BY 1";
    assert_eq!(rows(&session, splits).await.len(), 3);
    assert!(
        rows(&session, "SELECT c.check_name FROM check_rescale('s', '3') AS c WHERE decision <> 'pass'").await.len()
            > 1
    );
    assert_eq!(error(&session, "SELECT * FROM check_rescale('t', '3')").await, "42P01 source \"t\" does not exist");
    assert!(
        error(&session, "SELECT * FROM check_rescale('s', 'many')")
            .await
            .starts_with("22023 target parallelism must be")
    );
    assert_eq!(rows(&session, "SELECT set_config('rescale_policy', 'some', true)").await, ["some"]);
    assert!(
        error(&session, "SELECT tidegate.can_rescale('s', '3')").await.starts_with("22023 invalid value for parameter")
    );
}

#[tokio::test]
async fn the_arguments_of_a_check_may_be_parameters() {
    let session = session();
    let sql = "SELECT count(*) FROM tidegate.check_rescale($1, $2) WHERE check_name = 'split'";
    let statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    let plan = session.plan(statement).unwrap();
    let plan = plan.with_param_values(vec![ScalarValue::from("s"), "3".into()]).unwrap();
    let physical = session.physical_plan(&session.optimize(&plan).unwrap()).await.unwrap();
    let batches: Vec<_> = session.execute(physical).unwrap().try_collect().await.unwrap();
    assert_eq!(ScalarValue::try_from_array(batches[0].column(0), 0).unwrap(), ScalarValue::Int64(Some(3)));
}

//! What drivers learn from the protocol beside values.

use futures::StreamExt as _;
use tokio_postgres::{Client, NoTls};

use crate::server::Server;

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

async fn server() -> Server {
    let server = Server::start();
    let session = server.connect().await;
    session
        .run(
            "CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION)
             WITH (connector = 'datagen', splits = 1, rows_per_split = 3) FORMAT PLAIN ENCODE JSON",
        )
        .await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT id, amount FROM s").await;
    server
}

/// Of each column of a result: its name, the relation and column that it shows, and its type.
async fn columns(client: &Client, sql: &str) -> Vec<String> {
    let statement = client.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let mut shown = Vec::new();
    for column in statement.columns() {
        let origin = match (column.table_oid(), column.column_id()) {
            (Some(table), Some(number)) => {
                let name = client.query_one("SELECT $1::oid::regclass::text", &[&table]).await.unwrap();
                format!("{}.{number}", name.get::<_, String>(0))
            }
            _ => "-".to_owned(),
        };
        shown.push(format!("{} {origin} {}", column.name(), column.type_().name()));
    }
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_tell_which_relation_they_are_of() {
    let server = server().await;
    let client = connect(&server).await;
    for (sql, expected) in [
        ("SELECT * FROM mv", &["id mv.1 int8", "amount mv.2 float8"][..]),
        (
            "SELECT amount AS a, id + 1 AS b, 'x' AS c FROM mv WHERE id > 1 ORDER BY id LIMIT 2",
            &["a mv.2 float8", "b - int8", "c - text"],
        ),
        ("SELECT x.id FROM (SELECT id, amount FROM mv ORDER BY amount) AS x", &["id mv.1 int8"]),
        ("WITH c AS (SELECT id AS i FROM mv) SELECT i, count(*) AS n FROM c GROUP BY i", &["i mv.1 int8", "n - int8"]),
        ("SELECT DISTINCT id FROM mv", &["id mv.1 int8"]),
        ("SELECT a.id, b.amount FROM mv a LEFT JOIN mv b USING (id)", &["id mv.1 int8", "amount mv.2 float8"]),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM mv", &["id mv.1 int8", "n - int8"]),
        ("SELECT id FROM mv UNION ALL SELECT id FROM mv", &["id - int8"]),
        ("SELECT _split, id FROM mv", &["_split - text", "id mv.1 int8"]),
        (
            "SELECT oid, typname, typtype, typinput, typdefaultbin FROM pg_type",
            &[
                "oid pg_type.1 oid",
                "typname pg_type.2 name",
                "typtype pg_type.7 char",
                "typinput pg_type.16 regproc",
                "typdefaultbin pg_type.30 pg_node_tree",
            ],
        ),
        (
            "SELECT proargtypes, proallargtypes, proargmodes FROM pg_proc",
            &["proargtypes pg_proc.20 oidvector", "proallargtypes pg_proc.21 _oid", "proargmodes pg_proc.22 _char"],
        ),
        ("SELECT table_name FROM information_schema.tables", &["table_name information_schema.tables.3 name"]),
        (
            "SELECT raw, eta FROM tidegate.split_backfill_progress",
            &["raw split_backfill_progress.31 jsonb", "eta split_backfill_progress.24 interval"],
        ),
        (
            "SELECT oid::regclass, relkind::\"char\", relname::name FROM pg_class",
            &["oid - regclass", "relkind - char", "relname - name"],
        ),
    ] {
        assert_eq!(columns(&client, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oids_with_names_are_sent_as_either() {
    let server = server().await;
    let client = connect(&server).await;
    // tokio-postgres asks for the binary format, in which these are numbers.
    let row = client.query_one("SELECT 'pg_class'::regclass, 'int4'::regtype, 'boolin'::regproc", &[]).await.unwrap();
    struct Oid(u32);
    impl<'a> tokio_postgres::types::FromSql<'a> for Oid {
        fn from_sql(
            _: &tokio_postgres::types::Type,
            raw: &'a [u8],
        ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
            Ok(Self(u32::from_be_bytes(raw.try_into()?)))
        }
        fn accepts(_: &tokio_postgres::types::Type) -> bool {
            true
        }
    }
    let oids = [0, 1, 2].map(|column| row.get::<_, Oid>(column).0);
    assert_eq!(oids, [1259, 23, 1242]);
    let session = server.connect().await;
    let names = session.rows("SELECT 'pg_class'::regclass, 'int4'::regtype, 'boolin'::regproc, 0::regproc").await;
    assert_eq!(names, [["pg_class", "integer", "boolin", "-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_that_they_are_cast_to() {
    let server = server().await;
    let client = connect(&server).await;
    let sql = "SELECT relname FROM pg_class WHERE oid = $1::oid AND relname = $2::name AND relkind = $3::\"char\"";
    let statement = client.prepare(sql).await.unwrap();
    let types: Vec<_> = statement.params().iter().map(|pg_type| pg_type.name()).collect();
    assert_eq!(types, ["oid", "name", "char"]);
    let found = client.query(&statement, &[&1259_u32, &"pg_class", &(b'r' as i8)]).await.unwrap();
    assert_eq!(found.len(), 1);
    let statement = client.prepare("SELECT $1::jsonb, $2::uuid, 5 = ANY ($3)").await.unwrap();
    let types: Vec<_> = statement.params().iter().map(|pg_type| pg_type.name()).collect();
    assert_eq!(types, ["jsonb", "uuid", "_int4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_gives_all_rows_and_ends_when_cancelled() {
    let server = server().await;
    let client = connect(&server).await;
    let rows = client.copy_out("COPY (SELECT n FROM generate_series(1, 100000) AS s(n)) TO STDOUT").await.unwrap();
    let chunks: Vec<_> = rows.map(|chunk| chunk.unwrap()).collect().await;
    assert_eq!(chunks.len(), 100_000);
    assert_eq!(chunks.last().unwrap().as_ref(), b"100000\n");
    let endless = "COPY (SELECT 1 FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b) TO STDOUT";
    let mut rows = Box::pin(client.copy_out(endless).await.unwrap());
    rows.next().await.unwrap().unwrap();
    client.cancel_token().cancel_query(NoTls).await.unwrap();
    let error = loop {
        match rows.next().await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.code().unwrap().code(), "57014");
    assert_eq!(client.query_one("SELECT 1::int8", &[]).await.unwrap().get::<_, i64>(0), 1);
}

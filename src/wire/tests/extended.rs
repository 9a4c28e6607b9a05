//! Prepared statements, as drivers use them.

use std::sync::atomic::Ordering;

use futures::TryStreamExt as _;
use tokio_postgres::types::Type;

use super::{TestServer, told};

#[tokio::test(flavor = "multi_thread")]
async fn types_of_parameters_are_inferred_or_declared() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let types =
        async |sql: &str| client.prepare(sql).await.unwrap_or_else(|e| panic!("{sql}: {}", told(&e))).params().to_vec();
    assert_eq!(types("SELECT * FROM numbers WHERE id = $1 AND name = $2").await, [Type::INT8, Type::TEXT]);
    assert_eq!(types("SELECT $1").await, [Type::TEXT]);
    assert_eq!(types("SELECT $1::int, $2::double precision").await, [Type::INT4, Type::FLOAT8]);
    assert_eq!(types("SELECT id FROM numbers LIMIT $1").await, [Type::INT8]);
    assert_eq!(types("ALTER SOURCE s SET PARALLELISM = $1").await, [Type::TEXT]);
    let statement = client.prepare_typed("SELECT id + $1 AS sum FROM numbers", &[Type::INT4]).await.unwrap();
    assert_eq!(statement.params(), [Type::INT4]);
    assert_eq!(statement.columns()[0].name(), "sum");
    let rows = client.query(&statement, &[&10_i32]).await.unwrap();
    assert_eq!(rows[0].get::<_, i64>(0), 11);
    let rows = client.query("SELECT id FROM numbers ORDER BY id LIMIT $1", &[&2_i64]).await.unwrap();
    assert_eq!(rows.len(), 2);
    let rows = client.query("SELECT $1", &[&"x"]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_without_rows_have_columns() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let statement = client.prepare("SELECT id, name, amount FROM numbers WHERE false").await.unwrap();
    let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
    assert_eq!(types, [Type::INT8, Type::TEXT, Type::FLOAT8]);
    assert!(client.query(&statement, &[]).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn our_statements_take_parameters() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let rows = client.query("EXPLAIN ALTER SOURCE s SET PARALLELISM = $1", &[&"4"]).await.unwrap();
    assert_eq!(rows[0].get::<_, i64>(0), 7);
    assert!(rows[0].get::<_, &str>(1).contains("Fixed(4)"));
    client.execute("FLUSH", &[]).await.unwrap();
    let error = client.execute("CANCEL RESCALE $1", &[&"12"]).await.unwrap_err();
    assert!(told(&error).starts_with("42704 rescale 12 is not pending"));
    let rows = client.query("SHOW JOBS", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, i64>(0), 7);
    let rows = client.query("SHOW rescale_policy", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>("rescale_policy"), "forwarding");
    client.execute("SET rescale_policy = 'stage_aware'", &[]).await.unwrap();
    let rows = client.query("SHOW rescale_policy", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "stage_aware");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_kept_until_objects_change() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let counts = || (server.planner.planned.load(Ordering::SeqCst), server.planner.physical.load(Ordering::SeqCst));
    let statement = client.prepare("SELECT count(*) FROM numbers a JOIN numbers b ON a.id = b.id").await.unwrap();
    for _ in 0..3 {
        assert_eq!(client.query_one(&statement, &[]).await.unwrap().get::<_, i64>(0), 5);
    }
    assert_eq!(counts(), (1, 1));
    server.planner.version.fetch_add(1, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(client.query_one(&statement, &[]).await.unwrap().get::<_, i64>(0), 5);
    }
    assert_eq!(counts(), (2, 2));
    // What depends on the time is worked out anew each time.
    let statement = client.prepare("SELECT now()::text").await.unwrap();
    let first: String = client.query_one(&statement, &[]).await.unwrap().get(0);
    let second: String = client.query_one(&statement, &[]).await.unwrap().get(0);
    assert_ne!(first, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_give_their_rows_in_parts() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT id FROM numbers ORDER BY id", &[]).await.unwrap();
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let rows: Vec<_> = transaction.query_portal_raw(&portal, 2).await.unwrap().try_collect().await.unwrap();
        lengths.push(rows.len());
    }
    assert_eq!(lengths, [2, 2, 1]);
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_statements() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let all = futures::future::join_all((0..50_i64).map(|id| {
        client.query_one(
            "SELECT $1::bigint",
            Box::leak(Box::new([Box::leak(Box::new(id)) as &(dyn tokio_postgres::types::ToSql + Sync)])),
        )
    }))
    .await;
    for (id, row) in all.into_iter().enumerate() {
        assert_eq!(row.unwrap().get::<_, i64>(0), id as i64);
    }
}

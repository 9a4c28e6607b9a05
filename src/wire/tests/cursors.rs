//! DECLARE, FETCH, MOVE and CLOSE.

use super::{TestServer, error, text_rows};

async fn ids(client: &tokio_postgres::Client, sql: &str) -> String {
    text_rows(client, sql).await.concat().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn forwards_only() {
    let server = TestServer::start().await;
    let client = server.client().await;
    assert!(error(&client, "DECLARE c CURSOR FOR SELECT 1").await.starts_with("25P01"));
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM numbers ORDER BY id").await.unwrap();
    assert_eq!(ids(&client, "FETCH c").await, "1");
    assert_eq!(ids(&client, "FETCH FORWARD 2 FROM c").await, "2 3");
    client.batch_execute("MOVE c").await.unwrap();
    assert_eq!(ids(&client, "FETCH ALL FROM c").await, "5");
    assert_eq!(ids(&client, "FETCH ALL FROM c").await, "");
    assert_eq!(client.query("FETCH 1 FROM c", &[]).await.unwrap().len(), 0);
    client.batch_execute("CLOSE c; DECLARE c CURSOR FOR SELECT 1").await.unwrap();
    assert!(error(&client, "FETCH BACKWARD 1 FROM c").await.starts_with("55000 cursor can only scan forward"));
    client.batch_execute("ROLLBACK").await.unwrap();
    assert!(error(&client, "FETCH c").await.starts_with("34000 cursor \"c\" does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_all_directions_and_beyond_the_transaction() {
    let server = TestServer::start().await;
    let client = server.client().await;
    client.batch_execute("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT id FROM numbers ORDER BY id").await.unwrap();
    for (fetch, expected) in [
        ("FETCH 2 FROM c", "1 2"),
        ("FETCH 0 FROM c", "2"),
        ("FETCH LAST FROM c", "5"),
        ("FETCH BACKWARD 2 FROM c", "4 3"),
        ("FETCH ABSOLUTE 2 FROM c", "2"),
        ("FETCH RELATIVE 2 FROM c", "4"),
        ("FETCH PRIOR FROM c", "3"),
        ("FETCH ALL FROM c", "4 5"),
        ("FETCH NEXT FROM c", ""),
        ("FETCH BACKWARD ALL FROM c", "5 4 3 2 1"),
        ("FETCH FIRST FROM c", "1"),
        ("FETCH ABSOLUTE -1 FROM c", "5"),
    ] {
        assert_eq!(ids(&client, fetch).await, expected, "{fetch}");
    }
    assert!(error(&client, "DECLARE c CURSOR WITH HOLD FOR SELECT 1").await.starts_with("42P03"));
    client.batch_execute("CLOSE ALL").await.unwrap();
}

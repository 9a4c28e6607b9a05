//! What clients are told of a query that can't be.

use super::{TestServer, error};

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_its_code_and_words() {
    let server = TestServer::start().await;
    let client = server.client().await;
    for (sql, told) in [
        ("SELECT * FROM nosuch", "42P01 relation \"nosuch\" does not exist"),
        ("SELECT nmae FROM numbers", "42703 column \"nmae\" does not exist | Perhaps you meant \"name\"."),
        ("SELECT x.id FROM numbers", "42P01 missing FROM-clause entry for table \"x\""),
        ("SELECT id FROM numbers a, numbers b", "42702 column reference \"id\" is ambiguous"),
        (
            "SELECT nosuch(1)",
            "42883 function nosuch() does not exist | No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
        (
            "SELECT name, count(*) FROM numbers GROUP BY id",
            "42803 column \"numbers.name\" must appear in the GROUP BY clause or be used in an aggregate function",
        ),
        (
            "SELECT true + 1",
            "42883 operator does not exist: boolean + bigint | No operator matches the given name and argument types. You might need to add explicit type casts.",
        ),
        ("SELECT 1 UNION SELECT 1, 2", "42601 each UNION query must have the same number of columns"),
        ("SELECT $1", "42P02 there is no parameter $1"),
        (
            "SET rescale_polcy = forwarding",
            "42704 unrecognized configuration parameter \"rescale_polcy\" | Perhaps you meant \"rescale_policy\".",
        ),
        (
            "SET rescale_policy = never",
            "22023 invalid value for parameter \"rescale_policy\": \"never\" | Allowed: forwarding, all_finished, stage_aware.",
        ),
    ] {
        assert_eq!(error(&client, sql).await, told, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_point_at_the_name() {
    let server = TestServer::start().await;
    let client = server.client().await;
    for (sql, place) in [
        ("SELECT nmae FROM numbers", 8),
        ("SELECT 1;\nSELECT * FROM nosuch", 25),
        ("SELECT 'é', nosuch(1)", 13),
        ("SELECT nope, 1 WHERE nope", 8),
    ] {
        let error = client.simple_query(sql).await.unwrap_err();
        let position = match error.as_db_error().unwrap().position() {
            Some(tokio_postgres::error::ErrorPosition::Original(position)) => *position,
            _ => 0,
        };
        assert_eq!(position, place, "{sql}");
    }
}

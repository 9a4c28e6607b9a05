//! What clients send when they browse, as they send it.

use super::{TestSession, batches, rows, session};

/// The queries of psql 15's commands: the command, and a query.
fn psql_queries() -> Vec<(&'static str, String)> {
    let mut queries = Vec::new();
    for block in include_str!("psql15.txt").split("\n== ").skip(1) {
        let (command, text) = block.split_once('\n').unwrap_or((block, ""));
        for query in text.split_inclusive(";\n").map(str::trim).filter(|query| !query.is_empty()) {
            let query = query
                .replace("{mv}", "16386")
                .replace("{table}", "16387")
                .replace("{pg_class}", "1259")
                .replace("{source}", "16384");
            queries.push((
                command,
                query
                    .replace("{view}", "15101")
                    .replace("'v'::pg_catalog.regclass", "'split_backfill_progress'::regclass"),
            ));
        }
    }
    queries
}

#[tokio::test]
async fn psql_gets_an_answer_to_every_command() {
    let session = session();
    let queries = psql_queries();
    assert!(queries.len() > 80);
    let mut failed = Vec::new();
    for (command, query) in &queries {
        if let Err(error) = batches(&session, query).await {
            failed.push(format!("{command}\n{query}\n-> {error}"));
        }
    }
    assert!(failed.is_empty(), "{} of {}\n\n{}", failed.len(), queries.len(), failed.join("\n\n"));
}

/// The rows of a command's first query that holds some text.
async fn answer(session: &TestSession, command: &str, part: &str) -> Vec<String> {
    let queries = psql_queries();
    let found = queries.iter().find(|(known, query)| *known == command && query.contains(part));
    rows(session, &found.unwrap_or_else(|| panic!("{command} sends no {part}")).1).await
}

#[tokio::test]
async fn psql_lists_what_there_is() {
    let session = session();
    for (command, part, expected) in [
        ("\\dm", "relkind", vec!["public|mv|materialized view|root"]),
        ("\\dE", "relkind", vec!["public|s|foreign table|root"]),
        ("\\dt", "relkind", vec![]),
        ("\\dn", "pg_namespace", vec!["public|root", "rw_catalog|root", "tidegate|root"]),
        ("\\l", "pg_database", vec!["dev|root|UTF8|C.UTF-8|C.UTF-8||libc|"]),
        (
            "\\du",
            "pg_roles",
            vec![
                "root|true|true|true|true|true|-1||[]|false|true",
                "tidegate_operator|false|true|false|false|false|-1||[tidegate_viewer]|false|false",
                "tidegate_viewer|false|true|false|false|false|-1||[]|false|false",
            ],
        ),
        ("\\des", "pg_foreign_server", vec!["datagen|root|tidegate"]),
        ("\\d s", "pg_foreign_table", vec!["datagen|connector 'datagen', splits '3'"]),
        ("\\di", "relkind", vec![]),
        ("\\ds", "relkind", vec![]),
    ] {
        assert_eq!(answer(&session, command, part).await, expected, "{command}");
    }
    let functions = answer(&session, "\\df", "pg_proc").await;
    assert!(
        functions.iter().any(|row| row == "tidegate|can_rescale|boolean|source text, target text|func"),
        "{functions:?}"
    );
    let everything = answer(&session, "\\d", "relkind").await;
    assert!(everything.contains(&"tidegate|split_backfill_progress|view|root".to_owned()), "{everything:?}");
    assert!(!everything.iter().any(|row| row.starts_with("pg_catalog")));
}

#[tokio::test]
async fn psql_describes_relations_with_their_comments() {
    let session = session();
    let columns = answer(&session, "\\d+ v", "FROM pg_catalog.pg_attribute a").await;
    assert_eq!(columns.len(), 31);
    assert_eq!(columns[0], "job_id|integer||false||||p|Id of the materialized view.");
    let columns = answer(&session, "\\d mv", "FROM pg_catalog.pg_attribute a").await;
    assert_eq!(columns, ["id|bigint||false|||", "note|text||false|||"]);
}

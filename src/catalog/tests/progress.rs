//! Progress of backfills, as the tables show it.

use super::{database, rows, session, session_on};

#[tokio::test]
async fn every_assigned_split_has_a_row_with_its_state() {
    assert_eq!(
        rows(&session(), "SELECT split_id, actor_id, stage, state, backfill_offset, target_offset, remaining, round(progress_percent, 1), is_estimate, num_consumed_rows FROM split_backfill_progress ORDER BY split_id").await,
        ["0|3|backfill|Finished||9999|0|100.0|false|10000", "1|4|backfill|not_started||||0.0|true|0", "2|3|backfill|Backfilling|529|9999|9470|5.3|true|530"]
    );
    assert_eq!(
        rows(&session(), "SELECT extract(epoch FROM eta), stalled_for > interval '1 day', blocked_by FROM split_backfill_progress WHERE split_id = '2'").await,
        ["18.940000|true|"]
    );
}

#[tokio::test]
async fn where_the_source_grows_the_time_left_is_by_the_closing_speed() {
    for (closing, eta) in [("100", "94.700000"), ("0", ""), ("-20", ""), ("NULL", "")] {
        let connection = database();
        connection
            .execute(&format!("UPDATE split_progress SET closing_per_second = {closing} WHERE split_id = '2'"), [])
            .unwrap();
        assert_eq!(
            rows(
                &session_on(connection),
                "SELECT extract(epoch FROM eta) FROM split_backfill_progress WHERE split_id = '2'"
            )
            .await,
            [eta]
        );
    }
}

#[tokio::test]
async fn a_row_that_does_not_parse_is_shown_and_breaks_nothing() {
    let connection = database();
    connection.execute("UPDATE backfill_states SET state = '{\"oops' WHERE split_id = '2'", []).unwrap();
    let session = session_on(connection);
    assert_eq!(
        rows(&session, "SELECT state, progress_percent, num_consumed_rows, raw, raw ->> 'x' FROM split_backfill_progress WHERE split_id = '2'").await,
        [r#"|||"{\"oops"|"#]
    );
    assert_eq!(
        rows(&session, "SELECT splits, finished, backfilling, progress_percent FROM job_backfill_progress").await,
        ["3|1|1|"]
    );
    assert_eq!(rows(&session, "SELECT count(*) FROM internal_source_backfill_progress()").await, ["2"]);
}

#[tokio::test]
async fn percent_never_goes_down_and_is_100_only_when_finished() {
    let connection = database();
    connection.execute("UPDATE split_progress SET max_percent = 42.5 WHERE split_id = '2'", []).unwrap();
    let session = session_on(connection);
    assert_eq!(
        rows(&session, "SELECT progress_percent FROM split_backfill_progress WHERE split_id = '2'").await,
        ["42.5"]
    );
    let connection = database();
    connection.execute("UPDATE backfill_states SET state = '{\"num_consumed_rows\": 10000, \"state\": {\"SourceCachingUp\": \"9999\"}, \"target_offset\": \"9999\"}'", []).unwrap();
    let session = session_on(connection);
    assert_eq!(
        rows(&session, "SELECT DISTINCT progress_percent FROM split_backfill_progress WHERE state = 'SourceCachingUp'")
            .await,
        ["99.9"]
    );
}

#[tokio::test]
async fn a_job_is_weighted_by_work() {
    let connection = database();
    connection.execute_batch("INSERT INTO backfill_states VALUES (16387, '1', '{\"num_consumed_rows\": 0, \"state\": {\"Backfilling\": null}, \"target_offset\": \"999\"}', 5); INSERT INTO split_progress VALUES (16387, '1', 0, 0, 0, NULL, NULL, NULL, NULL, 0, NULL);").unwrap();
    let session = session_on(connection);
    // 10000 + 530 of 21000, where the mean of the percentages would be 35.1.
    assert_eq!(
        rows(&session, "SELECT round(progress_percent, 2), remaining, eta FROM job_backfill_progress").await,
        ["50.14|10470|"]
    );
}

#[tokio::test]
async fn the_tables_that_risingwaves_users_know() {
    let session = session();
    assert_eq!(rows(&session, "SELECT progress FROM rw_fragment_backfill_progress").await, ["10530 consumed rows"]);
    assert_eq!(
        rows(&session, "SELECT ddl_id, create_type, backfill_type FROM rw_ddl_progress").await,
        ["16386|BACKGROUND|SOURCE"]
    );
    assert_eq!(
        rows(&session, "SELECT name, columns, connector_props ->> 'splits' FROM rw_sources").await,
        ["s|[id, note]|3"]
    );
    assert_eq!(rows(&session, "SELECT fragment_id, flags, upstream_fragment_ids, state_table_ids, parallelism FROM rw_fragments ORDER BY 1").await, ["16385|[SOURCE]|[]|[]|2", "16387|[SOURCE_SCAN, MVIEW]|[16385]|[16387]|2"]);
    assert_eq!(
        rows(&session, "SELECT actor_id, split_id, fragment_type FROM rw_actor_splits WHERE split_id = '2' ORDER BY 1")
            .await,
        ["1|2|SHARED_SOURCE", "3|2|SHARED_SOURCE_BACKFILL"]
    );
    let table = rows(&session, "SELECT name FROM rw_internal_tables").await.remove(0);
    assert_eq!(table, "__internal_mv_16387_sourcebackfill_16387");
    assert_eq!(rows(&session, &format!("SELECT partition_id, backfill_progress -> 'state' ->> 'Backfilling' FROM {table} WHERE partition_id = '2'")).await, ["2|529"]);
}

//! Connecting, cancelling, and the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgwire::messages::ProtocolVersion;
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;

use super::super::registry::{Entered, Peer, Registry};
use super::super::settings::Settings;
use super::super::{SettingsView, Snapshot, State};
use super::{TestServer, one, told};

async fn refused(config: &tokio_postgres::Config) -> String {
    match config.connect(NoTls).await {
        Ok(_) => panic!("connected"),
        Err(error) => told(&error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_user_and_database_that_exist() {
    let server = TestServer::start().await;
    // Nobody is told who exists: a name without a user is asked for a password.
    assert_eq!(
        refused(server.config().user("joe").password("x")).await,
        "28P01 password authentication failed for user \"joe\""
    );
    assert_eq!(refused(server.config().dbname("x")).await, "3D000 database \"x\" does not exist");
    assert!(refused(server.config().options("-c nosuch=1")).await.starts_with("42704"));
    let (client, connection) = server
        .config()
        .application_name("my app")
        .options("-c rescale_policy=all_finished")
        .connect(NoTls)
        .await
        .unwrap();
    assert!(connection.parameter("server_version").unwrap().starts_with("15."));
    assert_eq!(connection.parameter("application_name"), Some("my app"));
    assert_eq!(connection.parameter("TimeZone"), Some("UTC"));
    assert_eq!(connection.parameter("is_superuser"), Some("on"));
    tokio::spawn(connection);
    assert_eq!(one(&client, "SHOW rescale_policy").await, "all_finished");
    assert_eq!(
        one(&client, "SET rescale_policy = forwarding; RESET rescale_policy; SHOW rescale_policy").await,
        "all_finished"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_a_client_is_told() {
    let server = TestServer::with_limits(Limits { max_connections: 1, ..Limits::default() }).await;
    let first = server.client().await;
    assert_eq!(
        refused(&server.config()).await,
        "53300 sorry, too many clients already | max_connections is 1: end a connection, or raise it."
    );
    assert_eq!(server.shared.sessions.len(), 1);
    drop(first);
    while server.config().connect(NoTls).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn cancelled_within_100_ms(sql: &'static str) {
    let server = TestServer::start().await;
    let client = server.client().await;
    let token = client.cancel_token();
    let cancelling = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let start = Instant::now();
        token.cancel_query(NoTls).await.unwrap();
        start
    });
    let error = client.simple_query(sql).await.unwrap_err();
    let took = cancelling.await.unwrap().elapsed();
    assert_eq!(told(&error), "57014 canceling statement due to user request");
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_can_be_cancelled() {
    cancelled_within_100_ms("WAIT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_blocks_its_thread_can_be_cancelled() {
    cancelled_within_100_ms("SELECT pg_sleep(20)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_rows_can_be_cancelled() {
    cancelled_within_100_ms("SELECT * FROM generate_series(1, 1000000000000)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_calculations_can_be_cancelled() {
    cancelled_within_100_ms("SELECT sum(value) FROM generate_series(1, 1000000000000)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_times_out() {
    let server = TestServer::start().await;
    let client = server.client().await;
    client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
    for sql in ["WAIT", "SELECT pg_sleep(20)", "SELECT * FROM generate_series(1, 1000000000000)"] {
        let start = Instant::now();
        assert_eq!(super::error(&client, sql).await, "57014 canceling statement due to statement timeout");
        assert!(start.elapsed() < Duration::from_millis(500));
    }
    assert_eq!(one(&client, "SELECT 1").await, "1");
    client
        .batch_execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 20; BEGIN")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(client.simple_query("SELECT 1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_cancels_and_ends_another() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let activity = server.shared.sessions.activity();
    assert_eq!(activity.len(), 1);
    let pid = activity[0].pid;
    let sleeping = tokio::spawn(async move { (client.simple_query("SELECT pg_sleep(20)").await, client) });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let activity = server.shared.sessions.activity();
    assert_eq!((activity[0].state.as_str(), activity[0].query.as_str()), ("active", "SELECT pg_sleep(20)"));
    assert!(server.shared.sessions.cancel(pid));
    let (result, client) = sleeping.await.unwrap();
    assert_eq!(told(&result.unwrap_err()), "57014 canceling statement due to user request");
    assert!(server.shared.sessions.terminate(pid));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(client.is_closed());
    assert!(!server.shared.sessions.cancel(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_tells_idle_sessions_and_waits_for_busy_ones() {
    let server = TestServer::start().await;
    let (idle, busy, stuck) = (server.client().await, server.client().await, server.client().await);
    let busy = tokio::spawn(async move { busy.simple_query("SELECT pg_sleep(0.5)").await.map(|_| ()) });
    let stuck = tokio::spawn(async move { stuck.simple_query("SELECT pg_sleep(60)").await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    server.shutdown.cancel();
    server.served.await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    assert!(idle.is_closed());
    busy.await.unwrap().unwrap();
    let error = stuck.await.unwrap().unwrap_err();
    assert_eq!(told(&error), "57P01 terminating connection due to administrator command");
    assert_eq!(server.shared.sessions.len(), 0);
}

fn enter(sessions: &Arc<Registry>) -> Entered {
    let server = BTreeMap::from([("statement_timeout".to_owned(), "3600s".to_owned())]);
    let settings = SettingsView::new(Settings::new(&server).unwrap());
    let client = Peer { address: ([127, 0, 0, 1], 1).into(), encryption: None };
    let parent = CancellationToken::new();
    sessions.enter(ProtocolVersion::PROTOCOL3_0, "root", client, settings, &parent, true, &Limits::default()).unwrap()
}

struct Held;

impl Snapshot for Held {
    fn interrupt(&self) {}
}

#[tokio::test]
async fn a_lost_session_gives_its_snapshot_back_before_its_timeout() {
    let (sessions, held) = (Arc::new(Registry::default()), Arc::new(Held));
    let session = enter(&sessions);
    session.begin_statement("SELECT 1");
    session.set_snapshot(Some(Arc::<Held>::clone(&held)));
    assert_eq!(Arc::strong_count(&held), 2);
    drop(session);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test]
async fn a_session_that_is_ended_between_two_statements_runs_no_more() {
    let sessions = Arc::new(Registry::default());
    let session = enter(&sessions);
    assert!(!session.begin_statement("SELECT 1").is_cancelled());
    session.end_statement(State::Idle);
    assert!(sessions.terminate(session.pid));
    assert!(session.begin_statement("SELECT 2").is_cancelled());
    assert_eq!(sessions.activity()[0].state, State::Active);
}

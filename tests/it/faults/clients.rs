//! Clients that stop reading, or go away in the middle.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::oracle::{Rows, assert_all};
use crate::server::{PATIENCE, Server, Session};

/// A client that sends a query and does nothing by itself.
fn ask(server: &Server, query: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut startup = 196_608_u32.to_be_bytes().to_vec();
    startup.extend(b"user\0root\0database\0dev\0application_name\0raw\0\0");
    let length = u32::try_from(startup.len() + 4).unwrap().to_be_bytes();
    socket.write_all(&[&length[..], &startup].concat()).unwrap();
    // ReadyForQuery, in a block of its own or at the end of one.
    let mut seen = Vec::new();
    while !seen.ends_with(b"Z\0\0\0\x05I") {
        let mut some = [0; 1024];
        let read = socket.read(&mut some).unwrap();
        assert!(read > 0, "the server hung up: {}", String::from_utf8_lossy(&seen));
        seen.extend(&some[..read]);
    }
    let length = u32::try_from(query.len() + 5).unwrap().to_be_bytes();
    socket.write_all(&[b"Q", &length[..], query.as_bytes(), b"\0"].concat()).unwrap();
    socket
}

async fn server_with_rows(rows: &Rows) -> (Server, Session) {
    let server = Server::start();
    let session = server.connect().await;
    session.run("SET streaming_parallelism = 2; SET background_ddl = true").await;
    session.run(&rows.create_source()).await;
    session.run("CREATE MATERIALIZED VIEW mv AS SELECT n FROM s").await;
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    (server, session)
}

/// Far more than any buffer between a server and a client holds.
const MUCH: &str = "SELECT n, repeat('x', 20000) FROM mv";
const RAW: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'raw'";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_holds_up_nobody() {
    let rows = Rows::create(4, 1000);
    let (server, session) = server_with_rows(&rows).await;
    let stalled: Vec<TcpStream> = (0..5).map(|_| ask(&server, MUCH)).collect();
    for parallelism in [3, 1, 2] {
        rows.append_to_all();
        session.run("FLUSH; FLUSH").await;
        session.run(&format!("ALTER SOURCE s SET PARALLELISM = {parallelism}")).await;
    }
    session.wait_for("SELECT count(*) FROM mv", &rows.count().to_string()).await;
    assert_eq!(session.value(RAW).await, "5", "they are still there");
    assert_eq!(server.http("/healthz").await.0, 200);
    drop(stalled);
    session.wait_for(RAW, "0").await;
    assert_all(&server, &session, &rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_in_the_middle_of_a_result_leaves_nothing_behind() {
    let rows = Rows::create(4, 1000);
    let (server, session) = server_with_rows(&rows).await;
    for read in [1, 100_000, 3_000_000] {
        let mut cut = ask(&server, MUCH);
        cut.read_exact(&mut vec![0; read]).unwrap();
        drop(cut);
    }
    session.wait_for(RAW, "0").await;
    assert_all(&server, &session, &rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_in_the_foreground_ends_with_its_client() {
    let rows = Rows::create(2, 10);
    let (server, session) = server_with_rows(&rows).await;
    let creating = ask(&server, "CREATE MATERIALIZED VIEW held WITH (backfill_rate_limit = 0) AS SELECT n FROM s");
    let held = "SELECT count(*) FROM rw_catalog.rw_materialized_views WHERE name = 'held'";
    session.wait_for(held, "1").await;
    drop(creating);
    session.wait_for(held, "0").await;
    session.wait_for(RAW, "0").await;
    assert_all(&server, &session, &rows).await;
}

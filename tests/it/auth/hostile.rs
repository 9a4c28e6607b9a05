//! What somebody with a small account, or none, tries.

use tokio::io::AsyncReadExt as _;

use super::{PASSWORD, connect, guarded, receive, send};
use crate::server::Server;

const DATAGEN: &str = "WITH (connector = 'datagen', splits = 1, rows_per_split = 3) FORMAT PLAIN ENCODE JSON";

/// A block keeps its snapshot of the rows, not of what was allowed when it began; nor does a plan outlive it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoke_holds_in_a_block_that_began_before_it() {
    let server = Server::start();
    let root = server.connect().await;
    root.run(&format!("CREATE SOURCE s (id BIGINT) {DATAGEN}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    root.run("CREATE USER u; GRANT SELECT ON mv TO u; CREATE USER boss SUPERUSER").await;
    let user = connect(&server, "u", None).await.unwrap();
    user.run("BEGIN; SELECT count(*) FROM mv; PREPARE p AS SELECT count(*) FROM mv").await;
    let boss = connect(&server, "boss", None).await.unwrap();
    boss.run("BEGIN; SELECT count(*) FROM pg_authid").await;
    root.run("REVOKE SELECT ON mv FROM u; ALTER USER boss NOSUPERUSER").await;
    assert_eq!(user.value("SELECT has_table_privilege('mv', 'SELECT')").await, "f");
    for sql in
        ["SELECT count(*) FROM mv", "EXECUTE p", "SELECT max(id) FROM mv", "SELECT tidegate.can_rescale('s', '1')"]
    {
        user.run("SAVEPOINT here").await;
        assert_eq!(user.error(sql).await.sqlstate, "42501", "{sql}");
        user.run("ROLLBACK TO here").await;
    }
    assert_eq!(boss.error("SELECT count(*) FROM pg_authid").await.sqlstate, "42501");
    user.run("COMMIT").await;
    boss.run("ROLLBACK").await;
    assert_eq!(user.error("SELECT count(*) FROM mv").await.sqlstate, "42501");
    assert_eq!(user.error("EXECUTE p").await.sqlstate, "42501");
    assert_eq!(boss.error("SELECT count(*) FROM pg_authid").await.sqlstate, "42501");
    // And the other way round.
    root.run("GRANT SELECT ON mv TO u").await;
    user.run("SELECT count(*) FROM mv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_somebody_else_keeps_allows_nothing() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER u").await;
    let user = connect(&server, "u", None).await.unwrap();
    for _ in 0..3 {
        root.run("SELECT name FROM tidegate.settings").await;
        assert_eq!(user.error("SELECT name FROM tidegate.settings").await.sqlstate, "42501");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_gets_no_further() {
    let server = Server::start();
    let root = server.connect().await;
    root.run(&format!("CREATE SOURCE s (id BIGINT) {DATAGEN}")).await;
    root.run("CREATE USER viewer; GRANT tidegate_viewer TO viewer; CREATE USER maker; GRANT CREATE ON SCHEMA public TO maker").await;
    let viewer = connect(&server, "viewer", None).await.unwrap();
    for (sql, sqlstate) in [
        ("SET is_superuser = on", "55P02"),
        ("SET session_authorization = 'root'", "55P02"),
        ("SELECT set_config('is_superuser', 'on', false)", "55P02"),
        ("SELECT set_config('role', 'root', false)", "55P02"),
        ("SET ROLE root", "0A000"),
        ("SET max_connections = 5", "55P02"),
        ("SET statement_memory = '1GB'", "42501"),
        ("SELECT set_config('statement_memory', '1GB', false)", "42501"),
        ("GRANT tidegate_operator TO CURRENT_USER", "42501"),
        ("REASSIGN OWNED BY root TO CURRENT_USER", "42501"),
        ("DROP OWNED BY maker", "42501"),
        ("ALTER SOURCE s OWNER TO viewer", "42501"),
        ("EXPLAIN SELECT rolpassword FROM pg_authid", "42501"),
        ("SELECT * FROM main.users", "42P01"),
        ("SELECT * FROM temp.\"base.acl\"", "42P01"),
        ("SELECT set_session_user_id(10)", "42883"),
        ("SELECT pg_read_file('/etc/passwd')", "42883"),
        ("SELECT * FROM '/etc/passwd'", "42P01"),
        ("COPY (SELECT 1) TO '/tmp/x'", "0A000"),
        ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'", "0A000"),
    ] {
        assert_eq!(viewer.error(sql).await.sqlstate, sqlstate, "{sql}");
    }
    viewer.run("SET statement_memory = '1MB'; RESET statement_memory; SET statement_memory = '256MB'").await;
    root.run("SET statement_memory = '1GB'").await;
    let mut options = super::config(&server, "viewer", None);
    options.options("-c statement_memory=1GB");
    let error = options.connect(tokio_postgres::NoTls).await.err().unwrap();
    assert_eq!(error.code().unwrap().code(), "42501");
    // Views of what belongs to others, however the source is named.
    let maker = connect(&server, "maker", None).await.unwrap();
    for from in ["s", "public.s", "dev.public.s", "(SELECT * FROM s) q", "\"s\" AS t"] {
        let error = maker.error(&format!("CREATE MATERIALIZED VIEW x AS SELECT id FROM {from}")).await;
        assert_eq!(error.sqlstate, "42501", "{from}");
    }
    let error = maker.error("CREATE MATERIALIZED VIEW x AS WITH s AS (SELECT * FROM public.s) SELECT id FROM s").await;
    assert_eq!(error.sqlstate, "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_name_has_no_control_characters() {
    let server = Server::start();
    let mut config = super::config(&server, "root", None);
    config.application_name("a\nb\u{1b}[31m\u{e9}");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let session = crate::server::Session(client);
    assert_eq!(session.value("SHOW application_name").await, "a?b?[31m?");
}

fn startup(user: &str) -> Vec<u8> {
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    body.extend(format!("user\0{user}\0database\0dev\0\0").as_bytes());
    body
}

/// In every state of a login, what doesn't belong there ends it, and the next one works.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_no_login_end_it() {
    let (server, _dir) = guarded(&[]);
    let mut first = b"SCRAM-SHA-256\0\0\0\0\x0b".to_vec();
    first.extend(b"n,,n=,r=abc");
    let wrong: [(bool, u8, Vec<u8>); 8] = [
        (false, b'Q', b"SELECT 1\0".to_vec()),
        (false, b'p', b"MD5\0\0\0\0\0".to_vec()),
        (false, b'p', b"SCRAM-SHA-256-PLUS\0\0\0\0\x0bn,,n=,r=abc".to_vec()),
        (false, b'S', Vec::new()),
        (false, b'X', Vec::new()),
        (true, b'p', first.clone()),
        (true, b'Q', b"SELECT 1\0".to_vec()),
        (true, b'p', b"c=biws,r=abc,p=AAAA".to_vec()),
    ];
    for (after_first, kind, body) in wrong {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        send(&mut socket, None, &startup("root")).await;
        assert_eq!(receive(&mut socket).await.0, b'R');
        if after_first {
            send(&mut socket, Some(b'p'), &first).await;
            assert_eq!(receive(&mut socket).await.0, b'R');
        }
        send(&mut socket, Some(kind), &body).await;
        let (answer, text) = receive(&mut socket).await;
        assert_eq!(answer, b'E', "{kind} {body:?}");
        assert!(String::from_utf8_lossy(&text).contains("08P01"), "{kind} {body:?}");
        assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0);
    }
    // A length that no login needs isn't waited for.
    for length in [i32::MAX, 1 << 20, -1, 3] {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        send(&mut socket, None, &startup("root")).await;
        receive(&mut socket).await;
        let mut message = vec![b'p'];
        message.extend(length.to_be_bytes());
        tokio::io::AsyncWriteExt::write_all(&mut socket, &message).await.unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
        assert!(!rest.windows(4).any(|bytes| bytes == b"R\0\0\0"), "{length}");
    }
    connect(&server, "root", Some(PASSWORD)).await.unwrap();
}

/// A proof that was seen once is worth nothing the next time.
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_login_can_not_be_played_again() {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    let (server, _dir) = guarded(&[]);
    let mut client = ScramSha256::new(PASSWORD.as_bytes(), ChannelBinding::unsupported());
    let initial = |message: &[u8]| {
        let mut body = b"SCRAM-SHA-256\0".to_vec();
        body.extend(i32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend(message);
        body
    };
    let first = initial(client.message());
    let mut last = Vec::new();
    for attempt in 0..2 {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        send(&mut socket, None, &startup("root")).await;
        receive(&mut socket).await;
        send(&mut socket, Some(b'p'), &first).await;
        let (_, question) = receive(&mut socket).await;
        if attempt == 0 {
            client.update(&question[4..]).unwrap();
            last = client.message().to_vec();
        }
        send(&mut socket, Some(b'p'), &last).await;
        assert_eq!(receive(&mut socket).await.0, if attempt == 0 { b'R' } else { b'E' });
    }
}

/// Who opens connections and says nothing doesn't keep others out, also not those of the same address.
#[tokio::test(flavor = "multi_thread")]
async fn one_address_can_not_take_all_places() {
    let server = Server::start_with(&["--max-connections", "10", "--superuser-reserved-connections", "2"]);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
        // Not more at a time than the server can tell.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let root = connect(&server, "root", None).await.unwrap();
    assert_eq!(root.value("SELECT 1").await, "1");
    // Half of max_connections, and half of the hundred that may be starting beside: the newest. The others were told.
    let mut waits = Vec::new();
    for socket in &mut silent {
        let mut answer = [0; 1024];
        let wait = std::time::Duration::from_millis(5);
        match tokio::time::timeout(wait, socket.read(&mut answer)).await {
            Ok(read) => {
                let said = String::from_utf8_lossy(&answer[..read.unwrap()]).into_owned();
                assert!(said.starts_with('E') && said.contains("53300"), "{said}");
                waits.push(false);
            }
            Err(_) => waits.push(true),
        }
    }
    let left = waits.iter().filter(|waits| **waits).count();
    assert!((50..=55).contains(&left), "{left} wait");
    assert!(waits[200 - left..].iter().all(|waits| *waits), "the oldest go: {waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_needs_the_key() {
    let server = Server::start();
    let root = server.connect().await;
    let pid: i32 = root.value("SELECT pg_backend_pid()").await.parse().unwrap();
    for key in [0_i32, 1, -1] {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let body = [80_877_102_i32, pid, key].map(i32::to_be_bytes).concat();
        send(&mut socket, None, &body).await;
        assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0);
    }
    assert_eq!(root.value("SELECT count(*) FROM generate_series(1, 1000)").await, "1000");
}

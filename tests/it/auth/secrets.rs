//! No password, verifier or message of a login is shown or logged, however the statement is written.

use std::fs::File;
use std::process::Stdio;

use tokio_postgres::NoTls;

use crate::server::{PATIENCE, Session, program};

const SECRET: &str = "hunter2pw";

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_shows_nowhere_however_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut server = program()
        .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"])
        .arg(dir.path().join("data"))
        .env("TIDEGATE_LOG", "trace")
        .env("TIDEGATE_ROOT_PASSWORD", SECRET)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let since = std::time::Instant::now();
    let address: std::net::SocketAddr = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if let Some(found) = text.split("listening on ").nth(1).and_then(|rest| rest.split_whitespace().next()) {
            break found.parse().unwrap();
        }
        assert!(since.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let connect = async || {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(address.port()).user("root").dbname("dev").password(SECRET);
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        Session(client)
    };
    let (root, watcher) = (connect().await, connect().await);
    let wrong = [
        "CREATE USER x PASSWORD 'hunter2pw",
        "CREATE USR x PASWORD 'hunter2pw'",
        "CREAT USER x PASSWORD 'hunter2pw'",
        "ALTER ROLE x PASWORD 'hunter2pw'",
        "ALTER USER x PASSWRD E'hunter2pw'",
        "ALTER USER x PASSWORD E'hunter2pw' foo",
        "ALTER USER x PASSWORD $$hunter2pw$$ foo",
        "ALTER USER x PASSWORD $q$hunter2pw",
        "ALTER USER x PASSWORD U&'hunter2pw' foo",
        "CREATE USER x PASSWORD = 'hunter2pw'",
        "CREATE USER x IDENTIFIED BY 'hunter2pw'",
        "ALTER USER x 'hunter2pw'",
        "ALTER USER x LOGIN 'hunter2pw'",
        "ALTER USER x VALID UNTIL 'hunter2pw' 'hunter2pw'",
        "SELECT 1; ALTER USER x PASSWORD ('hunter2pw')",
        "EXPLAIN ALTER USER x PASSWRD 'hunter2pw'",
        "CREATE USER MAPPING FOR x SERVER s OPTIONS (pasword 'hunter2pw')",
        "CREATE SOURCE k (a INT) WITH (connector = 'kafka', properties.sasl.pasword = 'hunter2pw') FORMAT PLAIN ENCODE JSON",
        "CREATE SOURCE k (a INT) WITH (connector = 'kafka', properties.sasl.password = 'hunter2pw') FORMAT PLAIN ENCODE JSO",
        "SET password = 'hunter2pw'",
    ];
    for sql in wrong {
        let told = root.error(sql).await;
        assert!(!format!("{told:?}").contains(SECRET), "{sql}: {told:?}");
        let seen = watcher.rows("SELECT query FROM pg_stat_activity").await.concat();
        assert!(!seen.concat().contains(SECRET), "{sql}: {seen:?}");
        // The same, in a Parse.
        let error = root.0.prepare(sql).await.err().map(|error| error.as_db_error().map(|error| format!("{error:?}")));
        assert!(!format!("{error:?}").contains(SECRET), "{sql}: {error:?}");
        let seen = watcher.rows("SELECT query FROM pg_stat_activity").await.concat();
        assert!(!seen.concat().contains(SECRET), "{sql}: {seen:?}");
    }
    root.run("CREATE USER u PASSWORD 'hunter2pw'").await;
    let told = root
        .error(
            "CREATE SOURCE k (a INT) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = '127.0.0.1:1', \
             properties.sasl.mechanism = 'PLAIN', properties.security.protocol = 'SASL_PLAINTEXT', \
             properties.sasl.username = 'u', properties.sasl.password = 'hunter2pw') FORMAT PLAIN ENCODE JSON",
        )
        .await;
    assert!(!format!("{told:?}").contains(SECRET), "{told:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(text.contains("DEBUG"), "{text}");
    for secret in [SECRET, "SCRAM-SHA-256$", "biws", ",r=", ",p="] {
        assert!(!text.contains(secret), "the log has {secret}");
    }
}

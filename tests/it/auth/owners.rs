//! Whose is it? OWNER TO, REASSIGN OWNED, DROP OWNED, and GRANT on many things at once.

use super::connect;
use crate::server::Server;

const DATAGEN: &str = "WITH (connector = 'datagen', splits = 1, rows_per_split = 3) FORMAT PLAIN ENCODE JSON";

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_owns_can_be_given_away() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("CREATE USER a; CREATE USER b; CREATE ROLE team; GRANT CREATE ON SCHEMA public TO a, team").await;
    let a = connect(&server, "a", None).await.unwrap();
    a.run(&format!("CREATE SOURCE s (id BIGINT) {DATAGEN}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    let owner = async |name: &str| {
        root.value(&format!("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = '{name}'")).await
    };
    // Not to a role that one isn't a member of, nor to one that couldn't have made it.
    let told = a.error("ALTER SOURCE s OWNER TO team").await;
    assert_eq!((told.sqlstate.as_str(), told.message.as_str()), ("42501", "must be member of role \"team\""));
    root.run("GRANT team TO a").await;
    a.run("ALTER SOURCE s OWNER TO team; ALTER MATERIALIZED VIEW mv OWNER TO team").await;
    assert_eq!((owner("s").await, owner("mv").await), ("team".into(), "team".into()));
    // A member of the owner owns.
    a.run("ALTER SOURCE s SET source_rate_limit = 1000").await;
    root.run("GRANT b TO a").await;
    assert_eq!(a.error("ALTER SOURCE s OWNER TO b").await.sqlstate, "42501");
    // A superuser needs no such thing of anybody.
    root.run("ALTER SOURCE s OWNER TO b").await;
    assert_eq!(owner("s").await, "b");
    root.run("ALTER SOURCE s OWNER TO team; REVOKE b FROM a").await;
    assert_eq!(root.error("ALTER SOURCE mv OWNER TO team").await.sqlstate, "42809");
    assert_eq!(root.error("ALTER SOURCE s OWNER TO nobody").await.sqlstate, "42704");
    assert_eq!(root.error("BEGIN; ALTER SOURCE s OWNER TO a").await.sqlstate, "25001");
    root.run("ROLLBACK").await;
    // Each of them is in the history.
    let asked = "SELECT requested_by, source_name, decision, sqlstate FROM tidegate.rescale_history
        WHERE statement LIKE '%OWNER TO%' ORDER BY rescale_id";
    let expected: [[&str; 4]; 9] = [
        ["a", "s", "refused", "42501"],
        ["a", "s", "committed", "NULL"],
        ["a", "mv", "committed", "NULL"],
        ["a", "s", "refused", "42501"],
        ["root", "s", "committed", "NULL"],
        ["root", "s", "committed", "NULL"],
        ["root", "mv", "refused", "42809"],
        ["root", "s", "refused", "42704"],
        ["root", "s", "refused", "25001"],
    ];
    assert_eq!(root.rows(asked).await, expected);
    // Who leaves hands over, and goes.
    assert_eq!(root.error("DROP OWNED BY team").await.sqlstate, "2BP01");
    root.run("REASSIGN OWNED BY team TO CURRENT_USER").await;
    assert_eq!((owner("s").await, owner("mv").await), ("root".into(), "root".into()));
    assert_eq!(a.error("SELECT * FROM mv").await.sqlstate, "42501");
    root.run("GRANT SELECT ON mv TO a; DROP OWNED BY a, team").await;
    assert_eq!(root.value("SELECT has_table_privilege('a', 'mv', 'SELECT')").await, "f");
    root.run("DROP ROLE a, team").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_on_all_of_a_kind() {
    let server = Server::start();
    let root = server.connect().await;
    root.run(&format!("CREATE SOURCE s (id BIGINT) {DATAGEN}; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s")).await;
    root.run("CREATE USER u").await;
    let has = async || {
        let sql = "SELECT has_table_privilege('u', 's', 'SELECT'), has_table_privilege('u', 'mv', 'SELECT')";
        root.rows(sql).await.concat().concat()
    };
    root.run("GRANT SELECT ON ALL SOURCES IN SCHEMA public TO u").await;
    assert_eq!(has().await, "tf");
    root.run("GRANT SELECT ON ALL MATERIALIZED VIEWS IN SCHEMA public TO u").await;
    assert_eq!(has().await, "tt");
    root.run("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM u").await;
    assert_eq!(has().await, "ff");
    for sql in ["GRANT SELECT ON mv TO u WITH GRANT OPTION", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO u"] {
        let told = root.error(sql).await;
        assert!(told.sqlstate == "0A000" && !told.hint.is_empty(), "{told:?}");
    }
}

/// What drivers send to reset a connection: there is no other role to come back from.
#[tokio::test(flavor = "multi_thread")]
async fn one_is_always_oneself() {
    let server = Server::start();
    let root = server.connect().await;
    root.run("SET SESSION AUTHORIZATION DEFAULT; RESET SESSION AUTHORIZATION; SET ROLE NONE; RESET ROLE").await;
    assert_eq!(root.value("SHOW role").await, "none");
    for sql in ["SET ROLE root", "SET LOCAL ROLE root", "SET SESSION AUTHORIZATION root"] {
        assert_eq!(root.error(sql).await.sqlstate, "0A000", "{sql}");
    }
    let names = root.rows("SELECT current_user, session_user, user, current_role").await.concat();
    assert_eq!(names, ["root"; 4]);
}

//! The commands that ask a server find it, and the password, where PostgreSQL's clients do.

use std::os::unix::fs::PermissionsExt as _;

use super::{Certificates, PASSWORD, err, guarded};
use crate::server::{Server, program};

/// What `tidegate check` says of a source that isn't there, with these variables. It came in when it says so.
fn check(server: &Server, flags: &[&str], env: &[(&str, &str)]) -> String {
    let mut program = program();
    for name in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGSSLMODE", "PGSSLROOTCERT", "TIDEGATE_URL"]
    {
        program.env_remove(name);
    }
    program.env("PGPORT", server.address.port().to_string()).env("PGPASSFILE", "/nowhere");
    err(&program.arg("check").args(flags).args(["none", "1"]).envs(env.iter().copied()).output().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn they_read_the_variables_and_the_password_file() {
    let (server, dir) = guarded(&[]);
    let came_in = |said: &str| said.contains("source \"none\" does not exist");
    let said = check(&server, &[], &[("PGPASSWORD", PASSWORD)]);
    assert!(came_in(&said), "{said}");
    let said = check(&server, &[], &[("PGPASSWORD", PASSWORD), ("PGUSER", "nobody"), ("PGHOST", "localhost")]);
    assert!(said.contains("28P01") && said.contains("nobody"), "{said}");
    let said = check(&server, &[], &[]);
    let address = format!("cannot connect to postgres://root@{}/dev: ", server.address);
    assert!(said.contains(&address) && said.contains("HINT:  The user has a password: PGPASSWORD"), "{said}");
    // A URL goes before the variables.
    let url = format!("postgres://root@{}/dev", server.address);
    let said = check(&server, &["--url", &url], &[("PGPASSWORD", PASSWORD), ("PGUSER", "nobody")]);
    assert!(came_in(&said), "{said}");
    let said = check(&server, &[], &[("PGPORT", "many")]);
    assert!(said.contains("PGPORT"), "{said}");
    let file = dir.path().join("pgpass");
    std::fs::write(&file, format!("*:*:other:*:no\n127.0.0.1:*:dev:root:{PASSWORD}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let passfile = [("PGPASSFILE", file.to_str().unwrap())];
    let said = check(&server, &[], &passfile);
    assert!(came_in(&said), "{said}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = check(&server, &[], &passfile);
    assert!(!came_in(&said) && said.contains("others can read it"), "{said}");
}

#[test]
fn nobody_at_an_address_is_told_with_the_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://bi:secret@{free}/dev");
    let said = err(&program().args(["check", "--url", &url, "s", "1"]).output().unwrap());
    assert!(
        said.contains(&format!("cannot connect to postgres://bi@{free}/dev: ")) && !said.contains("secret"),
        "{said}"
    );
    assert!(said.contains("HINT:  Is `tidegate serve` running there?"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_missed_where_the_server_has_none() {
    let server = Server::start();
    let said = check(&server, &[], &[("PGSSLMODE", "require")]);
    assert!(said.contains("cannot connect") && said.contains("HINT:  The server has no certificate"), "{said}");
}

/// The example for release pipelines, on the server of the variables and on that of a URL.
#[tokio::test(flavor = "multi_thread")]
async fn the_release_step_rescales_or_says_why_not() {
    let server = Server::start();
    let root = server.connect().await;
    let source = "WITH (connector = 'datagen', splits = 4, rows_per_split = 10) FORMAT PLAIN ENCODE JSON";
    root.run(&format!("CREATE SOURCE s (id BIGINT) {source}; CREATE USER looks; GRANT SELECT ON SOURCE s TO looks"))
        .await;
    let url = format!("postgres://root@{}/dev", server.address);
    let step = |source: &str, target: &str, env: &[(&str, &str)]| {
        let program = program();
        let folder = std::path::Path::new(program.get_program()).parent().unwrap().to_owned();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut script = std::process::Command::new("examples/pre_rescale_check.sh");
        for name in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "TIDEGATE_URL"] {
            script.env_remove(name);
        }
        let ended = script.args([source, target]).env("PATH", path).envs(env.iter().copied()).output().unwrap();
        (ended.status.code(), err(&ended))
    };
    let port = server.address.port().to_string();
    let (code, said) = step("s", "1", &[("PGPORT", &port)]);
    assert!(code == Some(0), "{code:?} {said}");
    assert_eq!(root.value("SELECT count(*) FROM tidegate.rescale_history WHERE decision = 'committed'").await, "1");
    assert_eq!(step("s", "2", &[("TIDEGATE_URL", &url)]).0, Some(0));
    root.run(&format!("CREATE SOURCE slow (id BIGINT) {source}")).await;
    root.run(
        "SET backfill_rate_limit = 0; SET background_ddl = on; CREATE MATERIALIZED VIEW mv AS SELECT id FROM slow",
    )
    .await;
    let (code, said) = step("slow", "1", &[("TIDEGATE_URL", &url)]);
    assert!(code == Some(1) && said.contains("not rescaling slow"), "{code:?} {said}");
    let (code, said) = step("s", "3", &[("PGPORT", &port), ("PGUSER", "looks")]);
    assert!(code == Some(1) && said.contains("permission denied for source s"), "{code:?} {said}");
    assert_eq!(step("none", "3", &[("PGPORT", &port)]).0, Some(2));
    assert_eq!(step("s", "3", &[("PGPORT", "1")]).0, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_ca_looks_at_the_authority_and_not_at_the_name() {
    let certificates = Certificates::new();
    let (server, _dir) = certificates.server(&["--tls-required"]);
    let ca = certificates.text("ca.pem");
    let with = |mode: &str, root: &str| {
        check(&server, &[], &[("PGPASSWORD", PASSWORD), ("PGSSLMODE", mode), ("PGSSLROOTCERT", root)])
    };
    // The certificate is for localhost, and 127.0.0.1 is asked.
    assert!(with("verify-ca", &ca).contains("does not exist"), "{}", with("verify-ca", &ca));
    let said = with("verify-full", &ca);
    assert!(said.contains("cannot connect") && said.contains("HINT:  sslrootcert"), "{said}");
    let other = Certificates::new();
    assert!(with("verify-ca", &other.text("ca.pem")).contains("cannot connect"));
    assert!(with("verify-ca", "").contains("sslrootcert"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_signs_itself_is_trusted_where_it_is_named() {
    let certificates = Certificates::new();
    certificates.sign_itself("localhost");
    let (server, _dir) = certificates.server(&["--tls-required"]);
    let with = |host: &str, mode: &str, root: &str| {
        let tls = [("PGPASSWORD", PASSWORD), ("PGHOST", host), ("PGSSLMODE", mode), ("PGSSLROOTCERT", root)];
        check(&server, &[], &tls)
    };
    let own = certificates.text("cert.pem");
    assert!(
        with("localhost", "verify-full", &own).contains("does not exist"),
        "{}",
        with("localhost", "verify-full", &own)
    );
    assert!(with("127.0.0.1", "verify-full", &own).contains("cannot connect"));
    assert!(with("127.0.0.1", "verify-ca", &own).contains("does not exist"));
    let other = Certificates::new();
    other.sign_itself("localhost");
    for root in ["ca.pem", "cert.pem"] {
        assert!(with("localhost", "verify-full", &other.text(root)).contains("cannot connect"), "{root}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_only_look_gets_an_answer_right_after_a_rescale() {
    let server = Server::start_with(&["--barrier-interval-ms", "400"]);
    let session = server.connect().await;
    session
        .run(
            "CREATE SOURCE s (id BIGINT) WITH (connector = 'datagen', splits = 4, rows_per_split = 10) FORMAT PLAIN \
             ENCODE JSON; CREATE MATERIALIZED VIEW mv AS SELECT id FROM s; CREATE USER viewer PASSWORD 'v'; GRANT \
             tidegate_viewer TO viewer; ALTER SOURCE s SET PARALLELISM = 2",
        )
        .await;
    let url = format!("postgres://viewer:v@{}/dev", server.address);
    let asked = program().args(["check", "--url", &url, "s", "4"]).output().unwrap();
    assert!(asked.status.success(), "{} {}", String::from_utf8_lossy(&asked.stdout), err(&asked));
}

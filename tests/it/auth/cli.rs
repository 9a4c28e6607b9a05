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
    assert!(with("verify-full", &ca).contains("cannot connect"));
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

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

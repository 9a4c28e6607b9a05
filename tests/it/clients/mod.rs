//! Real clients against a real server: each is a script under `tests/clients` that tries what the client can do and
//! prints a line for every feature. What they said is written in `docs/clients.md`, and compared with it:
//! `TIDEGATE_REWRITE=1 cargo test --test it clients` writes it anew.
//!
//! `tests/clients/fetch.sh` fetches the clients. The test of one that isn't there says that it was skipped, and passes.
//! To add one: a script, and a line in [`clients`].

mod matrix;
mod runtime;
mod tokio_postgres;

use std::path::PathBuf;

use matrix::{Group, Outcome, Row};
use runtime::Runtime;
use tokio::sync::Semaphore;

use crate::auth::Certificates;
use crate::server::Server;

/// The password of the user `reader`.
const PASSWORD: &str = "open sesame";

/// A client, and how it is run.
struct Client {
    /// What the page calls it.
    name: &'static str,
    group: &'static Group,
    runtime: Runtime,
}

/// Makes a test of every client, and the list of them.
macro_rules! clients {
    ($($test:ident: $name:literal, $group:expr, $runtime:expr;)*) => {
        const CLIENTS: &[Client] = &[$(Client { name: $name, group: &$group, runtime: $runtime }),*];
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                run(CLIENTS.iter().find(|client| client.name == $name).unwrap()).await;
            }
        )*
    };
}

clients! {
    tokio_postgres: "tokio-postgres", matrix::DRIVERS, Runtime::TokioPostgres;
    psycopg3: "psycopg 3", matrix::DRIVERS, Runtime::Python("psycopg_3.py");
    psycopg2: "psycopg2", matrix::DRIVERS, Runtime::Python("psycopg_2.py");
    asyncpg: "asyncpg", matrix::DRIVERS, Runtime::Python("asyncpg_.py");
    pg8000: "pg8000", matrix::DRIVERS, Runtime::Python("pg8000_.py");
    psqlodbc: "psqlODBC", matrix::DRIVERS, Runtime::Python("psqlodbc.py");
    node_postgres: "node-postgres", matrix::DRIVERS, Runtime::Node("pg.js");
    pgjdbc: "pgjdbc", matrix::DRIVERS, Runtime::Java("Pgjdbc.java");
    pgx: "pgx", matrix::DRIVERS, Runtime::Go("pgx");
    pq: "lib/pq", matrix::DRIVERS, Runtime::Go("pq");
    dbd_pg: "DBD::Pg", matrix::DRIVERS, Runtime::System("perl", &["-MDBD::Pg", "-e1"], "dbd_pg.pl");
    sqlalchemy: "SQLAlchemy", matrix::TOOLS, Runtime::PythonOf("tools", "sqlalchemy_.py");
    pgcli: "pgcli", matrix::TOOLS, Runtime::PythonOf("tools", "pgcli_.py");
    harlequin: "Harlequin", matrix::TOOLS, Runtime::PythonOf("tools", "harlequin_.py");
    dbt: "dbt", matrix::TOOLS, Runtime::PythonOf("tools", "dbt_.py");
    superset: "Superset", matrix::TOOLS, Runtime::PythonOf("superset", "superset_.py");
    pgadmin: "pgAdmin 4", matrix::TOOLS, Runtime::PythonOf("tools", "pgadmin.py");
    dbeaver: "DBeaver", matrix::REPLAYED_TOOLS, Runtime::Python("dbeaver.py");
    datagrip: "DataGrip", matrix::REPLAYED_TOOLS, Runtime::Python("datagrip.py");
    metabase: "Metabase", matrix::REPLAYED_TOOLS, Runtime::Python("metabase.py");
    grafana: "Grafana", matrix::REPLAYED_TOOLS, Runtime::Python("grafana.py");
    power_bi: "Power BI", matrix::REPLAYED_TOOLS, Runtime::Python("power_bi.py");
    tableau: "Tableau", matrix::REPLAYED_TOOLS, Runtime::Python("tableau.py");
    django: "Django", matrix::REPLAYED_TOOLS, Runtime::Python("django_.py");
    npgsql: "Npgsql", matrix::REPLAYED, Runtime::Python("npgsql.py");
}

#[test]
fn the_page_lists_no_other_clients() {
    for (group, name) in matrix::listed() {
        let known = CLIENTS.iter().any(|client| client.name == name && client.group.title == group);
        assert!(known, "docs/clients.md has {name:?} among the {group}, which no test runs");
    }
}

#[test]
fn the_readme_has_the_same_tables() {
    matrix::compare_readme();
}

/// How many clients run at a time: each brings a server and a program of its own.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Runs a client and compares what it said with what the page says.
async fn run(client: &Client) {
    let _turn = TURNS.acquire().await.unwrap();
    let fixture = Fixture::start().await;
    let lines = match client.runtime.run(&fixture).await {
        Ok(lines) => lines,
        Err(missing) => return eprintln!("skipped: {}, since {missing}", client.name),
    };
    let row = Row::from_lines(client.group, client.name, &lines);
    for (feature, outcome) in &row.outcomes {
        if let Outcome::Failed(why) = outcome {
            panic!("{}: {feature} failed: {why}\n{}", client.name, lines.join("\n"));
        }
    }
    matrix::compare(client.group, &row);
}

/// What every client finds: a server with TLS, `root` without a password, `reader` with one, a finished view `mv` on the
/// source `s`, and the source `slow`, whose view `busy` will not be done.
pub struct Fixture {
    pub server: Server,
    certificates: Certificates,
}

impl Fixture {
    async fn start() -> Self {
        let certificates = Certificates::new();
        let (cert, key) = (certificates.text("cert.pem"), certificates.text("key.pem"));
        let server = Server::start_with(&["--tls-cert", &cert, "--tls-key", &key]);
        let session = server.connect().await;
        session
            .run(&format!(
                "CREATE USER reader PASSWORD '{PASSWORD}';
                 GRANT tidegate_viewer TO reader;
                 CREATE SOURCE s (id BIGINT, amount DOUBLE PRECISION, at TIMESTAMPTZ)
                 WITH (connector = 'datagen', splits = 4, rows_per_split = 250) FORMAT PLAIN ENCODE JSON;
                 CREATE MATERIALIZED VIEW mv AS SELECT id, amount FROM s;
                 SET streaming_parallelism = 2;
                 CREATE SOURCE slow (id BIGINT)
                 WITH (connector = 'datagen', splits = 4, rows_per_split = 1000000) FORMAT PLAIN ENCODE JSON;
                 SET background_ddl = true;
                 CREATE MATERIALIZED VIEW busy WITH (backfill_rate_limit = 1) AS SELECT id FROM slow"
            ))
            .await;
        session.wait_for("SELECT count(*) FROM mv", "1000").await;
        let begun = "SELECT count(*) FROM tidegate.split_backfill_progress
                     WHERE job_name = 'busy' AND state = 'Backfilling' AND backfill_offset IS NOT NULL";
        session.wait_for(begun, "4").await;
        Self { server, certificates }
    }

    /// The certificate that the server's own is signed by.
    fn authority(&self) -> PathBuf {
        self.certificates.path("ca.pem")
    }

    /// What a script is told by its environment.
    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("TIDEGATE_PORT", self.server.address.port().to_string()),
            ("TIDEGATE_PASSWORD", PASSWORD.to_owned()),
            ("TIDEGATE_CA", self.authority().display().to_string()),
        ]
    }
}

//! What the demo tells.

use std::net::SocketAddr;
use std::path::Path;

use super::pause;
use super::session::Session;
use crate::cli::client::connect;
use crate::error::{Error, Result};

/// How far every split of the view on orders is.
const PROGRESS: &str =
    "SELECT split_id, state, backfill_offset, target_offset, round(progress_percent, 1) AS percent, actor_id, eta
FROM tidegate.split_backfill_progress WHERE job_name = 'order_totals' ORDER BY split_id;";

/// Tells the story, each step over the server's PostgreSQL port.
///
/// # Errors
/// When the server answers otherwise than told.
pub async fn tell(address: SocketAddr, flights: &Path) -> Result<()> {
    // Its own server has no certificate, whatever PGSSLMODE asks of others.
    let url = format!("postgres://root@{address}/dev?sslmode=disable");
    let (client, notices) = connect(&url, "tidegate demo").await?;
    let mut session = Session { client, notices };
    sources(&mut session, flights).await?;
    watch_it_fill(&mut session).await?;
    refused(&mut session).await?;
    deferred(&mut session).await?;
    accepted(&mut session).await
}

async fn sources(session: &mut Session, flights: &Path) -> Result<()> {
    session.say("Two sources: real flights, one file (a split) a carrier; and generated orders, for volume.");
    let path = flights.display().to_string().replace('\'', "''");
    session
        .run(&format!(
            "CREATE SOURCE flights (carrier TEXT, flight BIGINT, origin TEXT, dest TEXT, distance BIGINT,
  dep_delay BIGINT, time_hour TIMESTAMPTZ)
WITH (connector = 'file', path = '{path}') FORMAT PLAIN ENCODE JSON;"
        ))
        .await?;
    session.run("SET streaming_parallelism = 2;").await?;
    session
        .run(
            "CREATE SOURCE orders (id BIGINT, amount DOUBLE PRECISION, at TIMESTAMPTZ)
WITH (connector = 'datagen', splits = 6, rows_per_split = 9000) FORMAT PLAIN ENCODE JSON;",
        )
        .await?;
    session.say(
        "Two views. Each starts a backfill of all that its source holds; this one is held to 2000 rows/s an actor.",
    );
    session.run("SET background_ddl = true;").await?;
    session
        .run("CREATE MATERIALIZED VIEW delays AS SELECT carrier, flight, dest, dep_delay FROM flights WHERE dep_delay > 0;")
        .await?;
    session
        .run(
            "CREATE MATERIALIZED VIEW order_totals WITH (backfill_rate_limit = 2000) AS
SELECT id, amount, at FROM orders WHERE amount > 10;",
        )
        .await?;
    Ok(())
}

async fn watch_it_fill(session: &mut Session) -> Result<()> {
    session.say("How far is each split?");
    for _ in 0..2 {
        pause(2.5).await;
        session.run(PROGRESS).await?;
    }
    Ok(())
}

async fn refused(session: &mut Session) -> Result<()> {
    session.say("May orders be scaled from 2 to 3 actors now? A dry run tells, and changes nothing.");
    session
        .run(
            "SELECT check_name, decision, split_id, from_actor, to_actor, verdict
FROM tidegate.check_rescale('orders', '3') WHERE decision <> 'pass';",
        )
        .await?;
    session.say(
        "No: splits would move whose backfill is not finished. In RisingWave an actor that gets such a split in its\n\
         forwarding stage dies with this error, recovers, and dies again. Here the ALTER is refused, with the reason:",
    );
    session.refused("ALTER SOURCE orders SET PARALLELISM = 3;").await
}

async fn deferred(session: &mut Session) -> Result<()> {
    session.say(
        "DEFERRED waits until it is safe, and then commits by itself. Any two splits will do, so those that are Finished\n\
         first may move. (Actors here are the view's own, each paired with one of the source's.)",
    );
    session.run("ALTER SOURCE orders SET PARALLELISM = 3 DEFERRED;").await?;
    session
        .run("SELECT rescale_id, source_name, to_parallelism, policy, waiting_for FROM tidegate.pending_rescales;")
        .await?;
    session.say("Meanwhile the backfill goes on ...");
    for _ in 0..240 {
        pause(0.5).await;
        let pending = session.value("SELECT count(*) FROM tidegate.pending_rescales").await?;
        if pending.as_deref() == Some("0") {
            session.run(PROGRESS).await?;
            session
                .run(
                    "SELECT rescale_id, source_name, from_parallelism, to_parallelism, decision, moved_splits
FROM tidegate.rescale_history ORDER BY rescale_id;",
                )
                .await?;
            return Ok(());
        }
    }
    Err(Error::Internal("the deferred rescale did not commit within two minutes".into()))
}

async fn accepted(session: &mut Session) -> Result<()> {
    for _ in 0..120 {
        let unfinished = "SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'";
        if session.value(unfinished).await?.as_deref() == Some("0") {
            break;
        }
        pause(0.5).await;
    }
    session.say("The ALTER that was refused, once more: back to 2 actors, then to 3. Now that every split is Finished, the same\ncheck accepts both.");
    session.run("ALTER SOURCE orders SET PARALLELISM = 2;").await?;
    session.run("ALTER SOURCE orders SET PARALLELISM = 3;").await?;
    session
        .run(
            "SELECT split_id, actor_id FROM tidegate.split_assignments WHERE source_name = 'orders' ORDER BY split_id;",
        )
        .await?;
    session.say("And every row is there once:");
    session.run("SELECT count(*) AS rows, count(DISTINCT id) AS ids FROM order_totals;").await?;
    session.run("SELECT carrier, count(*) AS late, max(dep_delay) AS worst FROM delays GROUP BY carrier ORDER BY late DESC;").await?;
    Ok(())
}

/// Asks people in.
#[expect(clippy::print_stdout, reason = "the demo is what it prints")]
pub fn invite(address: SocketAddr) {
    println!(
        "\nThe server stays up. Try it yourself:\n\n  psql -h {} -p {} -U root dev\n\nand there, for a start:\n\n  \
         \\d+ tidegate.split_backfill_progress\n  EXPLAIN ALTER SOURCE orders SET PARALLELISM = 5;\n  \
         SELECT * FROM tidegate.rescale_history;\n\nCtrl-C ends it and removes its files.",
        address.ip(),
        address.port()
    );
}

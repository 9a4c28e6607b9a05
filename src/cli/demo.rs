//! `tidegate demo`: the main job in one go, over the server's own PostgreSQL port.
//!
//! It narrates what anyone can do with psql, with the SQL that it runs, and then stays up so that they do.

mod script;
mod session;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::serve::stop_on_signal;
use crate::config::{Config, Flags};
use crate::error::{Error, Result};
use crate::observe;
use crate::serve::{Listeners, serve};

/// Rows that the demo reads: real flights, one file a carrier. Their origin is told in `examples/flights`.
const FLIGHTS: [(&str, &str); 8] = [
    ("AA", include_str!("../../examples/flights/AA.jsonl")),
    ("AS", include_str!("../../examples/flights/AS.jsonl")),
    ("F9", include_str!("../../examples/flights/F9.jsonl")),
    ("HA", include_str!("../../examples/flights/HA.jsonl")),
    ("OO", include_str!("../../examples/flights/OO.jsonl")),
    ("VX", include_str!("../../examples/flights/VX.jsonl")),
    ("WN", include_str!("../../examples/flights/WN.jsonl")),
    ("YV", include_str!("../../examples/flights/YV.jsonl")),
];

/// The demo's data directory, files and ports are its own, and gone when it ends.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Address for PostgreSQL clients; another free port is taken if it is in use.
    #[arg(long, default_value = "127.0.0.1:4567")]
    listen: SocketAddr,
    /// End after the script rather than stay up.
    #[arg(long)]
    exit: bool,
}

/// Runs the demo.
///
/// # Errors
/// When the server can't be started, or answers otherwise than the script tells.
pub async fn run(args: DemoArgs) -> Result<()> {
    let dir = TemporaryDir::new()?;
    let flights = dir.path().join("flights");
    write_flights(&flights)?;
    let flags = Flags {
        data_dir: Some(dir.path().join("data")),
        barrier_interval_ms: Some(500),
        worker_parallelism: Some(4),
        ..Flags::default()
    };
    let mut config = Config::load(Flags { listen: Some(args.listen), ..flags })?;
    let any_port = |address: SocketAddr| SocketAddr::new(address.ip(), 0);
    config.http = any_port(config.http);
    let listeners = match Listeners::bind(&config).await {
        Ok(listeners) => listeners,
        Err(_) => {
            config.listen = any_port(config.listen);
            Listeners::bind(&config).await?
        }
    };
    let address = listeners
        .postgres
        .local_addr()
        .map_err(|error| Error::Internal(format!("the listener has no address: {error}")))?;
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    // Without a password for root, whatever the environment says: the demo's own session has none either.
    let server = tokio::spawn(serve(config, listeners, None, observe::install_metrics()?, shutdown.clone()));

    let told = tokio::select! {
        told = script::tell(address, &flights) => told,
        () = shutdown.cancelled() => Ok(()),
    };
    if told.is_ok() && !args.exit && !shutdown.is_cancelled() {
        script::invite(address);
        shutdown.cancelled().await;
    }
    shutdown.cancel();
    let ended = server.await.map_err(|error| Error::Internal(format!("the server failed: {error}")))?;
    told.and(ended)
}

fn write_flights(dir: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::Config {
        message: format!("the demo's files cannot be written to {}: {error}", dir.display()),
        hint: "It needs a few megabytes in the directory for temporary files (TMPDIR).".into(),
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    for (carrier, rows) in FLIGHTS {
        std::fs::write(dir.join(format!("{carrier}.jsonl")), rows).map_err(failed)?;
    }
    Ok(())
}

/// A directory that is removed when it is dropped.
struct TemporaryDir(std::path::PathBuf);

impl TemporaryDir {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Error::Config {
            message: format!("directory {} cannot be made: {error}", path.display()),
            hint: "Set TMPDIR to a directory that can be written to.".into(),
        })?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // Best effort: the system clears its temporary files too.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits a moment, for people to read and for the engine to get on.
async fn pause(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

//! `tidegate serve`: runs the server until it is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::auth::passwords;
use crate::config::{Config, Flags};
use crate::error::{Error, Result};
use crate::observe;
use crate::serve::{Listeners, serve};

/// Runs the server until SIGTERM or SIGINT.
///
/// # Errors
/// When the configuration, an address or the data directory can't be used.
pub async fn run(flags: Flags) -> Result<()> {
    let config = Config::load(flags)?;
    let listeners = Listeners::bind(&config).await?;
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let first_password = passwords::first(config.password_file.as_deref())?;
    serve(config, listeners, first_password, observe::install_metrics()?, shutdown).await?;
    info!("stopped");
    Ok(())
}

/// Fires `shutdown` at the first SIGTERM or SIGINT. A second one ends the process at once.
///
/// # Errors
/// When signals can't be listened to.
pub fn stop_on_signal(shutdown: CancellationToken) -> Result<()> {
    let failed = |error: std::io::Error| Error::Internal(format!("signals cannot be listened to: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                std::process::exit(130);
            }
            shutdown.cancel();
            info!("stopping; a second signal stops at once");
        }
    });
    Ok(())
}

//! The listener: accepts connections, and ends the sessions when the server goes down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Shared, connection};
use crate::error::{Error, Result};

/// At shutdown, running statements may go on so long before they are interrupted.
const GRACE: Duration = Duration::from_secs(2);
/// And are left behind if they haven't ended so long after that.
const BOUND: Duration = Duration::from_secs(3);
/// The longest pause after a failed accept.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A bound listener.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Listens on an address; port 0 takes any free one.
    ///
    /// # Errors
    /// The address is taken, or not ours.
    pub async fn bind(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| Error::Config {
            message: format!("can't listen on {address}: {error}"),
            hint: "Another server may be running; choose another address with --listen.".into(),
        })?;
        Ok(Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The operating system doesn't say.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|error| Error::Internal(format!("the listener has no address: {error}")))
    }

    /// Serves until `shutdown` fires and all sessions have ended.
    pub async fn serve(self, shared: Arc<Shared>, shutdown: CancellationToken) {
        serve(self.listener, shared, shutdown).await;
    }
}

/// Serves until `shutdown` fires. Then idle sessions end at once, and statements get a few seconds.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, shutdown: CancellationToken) {
    let tracker = TaskTracker::new();
    let mut pause = Duration::from_millis(5);
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => {
                pause = Duration::from_millis(5);
                tracker.spawn(handle(socket, address, Arc::clone(&shared), shutdown.clone()));
            }
            // Mostly: too many open files. It gets better when some are closed.
            Err(error) => {
                tracing::warn!(%error, ?pause, "can't accept a connection");
                tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
                }
            }
        }
    }
    drop(listener);
    tracker.close();
    if tokio::time::timeout(GRACE, tracker.wait()).await.is_ok() {
        return;
    }
    shared.sessions.interrupt_all();
    if tokio::time::timeout(BOUND, tracker.wait()).await.is_err() {
        for activity in shared.sessions.activity() {
            tracing::warn!(pid = activity.pid, query = activity.query, "a session did not end in time");
        }
    }
}

async fn handle(socket: TcpStream, address: SocketAddr, shared: Arc<Shared>, shutdown: CancellationToken) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "can't set TCP_NODELAY");
    }
    if let Err(error) = connection::run(socket, shared, shutdown).await {
        tracing::debug!(%address, %error, "the connection broke");
    }
}

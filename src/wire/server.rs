//! The listener: accepts connections, and ends the sessions when the server goes down.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use pgwire::error::PgWireError;
use pgwire::messages::Message as _;
use pgwire::messages::response::ErrorResponse;
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::Link;
use super::session::Session;
use super::{Shared, connection, errors, limits, startup};
use crate::auth::throttle::network;
use crate::error::{Error, Result};
use crate::incident;
use crate::limits::STACK;

/// The longest pause after a failed accept.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Connections that may be starting or refused beside those that are sessions.
const STARTING: usize = 100;

/// The connections of each address that are starting, the oldest first: they have been accepted, and haven't proven who
/// they are.
#[derive(Debug, Default)]
struct Starting(Mutex<HashMap<IpAddr, VecDeque<Place>>>);

/// The place of a starting connection: a token that fires when a newer one takes it.
type Place = Arc<CancellationToken>;

/// One of them, until it is dropped.
struct StartingOne {
    of: Arc<Starting>,
    address: IpAddr,
    place: Place,
}

impl Starting {
    /// One more of an address. If there are `most` already, it takes the place of the oldest: who logs in does so at once,
    /// so that is one that has nothing to say.
    fn enter(self: &Arc<Self>, address: IpAddr, most: usize) -> StartingOne {
        let address = network(address);
        let place = Place::default();
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = places.entry(address).or_default();
        if places.len() >= most
            && let Some(oldest) = places.pop_front()
        {
            oldest.cancel();
        }
        places.push_back(Arc::clone(&place));
        StartingOne { of: Arc::clone(self), address, place }
    }
}

impl Drop for StartingOne {
    fn drop(&mut self) {
        let mut all = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = all.get_mut(&self.address) {
            places.retain(|place| !Arc::ptr_eq(place, &self.place));
            if places.is_empty() {
                all.remove(&self.address);
            }
        }
    }
}

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

    /// See [`serve`].
    pub async fn serve(self, shared: Arc<Shared>, shutdown: CancellationToken, drain: Duration) {
        serve(self.listener, shared, shutdown, drain).await;
    }
}

/// Serves until `shutdown` fires. Then idle sessions end at once, and running statements are interrupted after half of
/// `drain`; what hasn't ended after all of it is left behind. Needs a runtime of several threads.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, shutdown: CancellationToken, drain: Duration) {
    let tracker = TaskTracker::new();
    let left_behind = CancellationToken::new();
    let starting = Arc::new(Starting::default());
    // Who opens connections and says nothing leaves room for others.
    let most_of_one = shared.limits.max_connections / 2 + STARTING / 2;
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
                let is_full = tracker.len() >= shared.limits.max_connections + STARTING;
                if is_full {
                    refuse(socket, &shared);
                    continue;
                }
                let entered = starting.enter(address.ip(), most_of_one);
                let ends =
                    Ends { shutdown: shutdown.clone(), left_behind: left_behind.clone(), tracker: tracker.clone() };
                tracker.spawn(open(socket, entered, Arc::clone(&shared), ends));
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
    if tokio::time::timeout(drain / 2, tracker.wait()).await.is_ok() {
        return;
    }
    shared.sessions.interrupt_all();
    if tokio::time::timeout(drain / 2, tracker.wait()).await.is_err() {
        for activity in shared.sessions.activity() {
            tracing::warn!(pid = activity.pid, query = activity.query, "a session did not end in time");
        }
        left_behind.cancel();
    }
}

/// Tells a client that there are too many, without waiting for it or for what it has to say.
fn refuse(socket: TcpStream, shared: &Shared) {
    let response = ErrorResponse::new(errors::fields("FATAL", &limits::connections(shared), None));
    let mut out = BytesMut::new();
    if response.encode(&mut out).is_ok() {
        let _ = socket.try_write(&out);
    }
}

/// How the server's end and a session's meet.
struct Ends {
    shutdown: CancellationToken,
    /// The server no longer waits for its sessions, and its runtime ends.
    left_behind: CancellationToken,
    tracker: TaskTracker,
}

/// Makes a session of a connection, and gives it a thread.
async fn open(socket: TcpStream, starting: StartingOne, shared: Arc<Shared>, ends: Ends) {
    let address = starting.address;
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%address, %error, "can't set TCP_NODELAY");
    }
    let mut slot = Some(Link::new(socket));
    let started =
        incident::caught("a startup", startup::run(&mut slot, &shared, &ends.shutdown, &starting.place)).await;
    drop(starting);
    let session = match started {
        Ok(Ok(session)) => session,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "the connection broke at startup");
            None
        }
        Err(panicked) => {
            if let Some(link) = &mut slot {
                let _ = link.fatal(&panicked).await;
            }
            None
        }
    };
    let (Some(link), Some(session)) = (slot, session) else { return };
    let (server, token) = (Handle::current(), ends.tracker.token());
    let thread = std::thread::Builder::new().name(format!("session {}", session.pid())).stack_size(STACK);
    let spawned = thread.spawn(move || {
        stand_back();
        let pid = session.pid();
        let result = run(link, session, &server, &ends.left_behind);
        tracing::debug!(pid, ?result, "the session ended");
        drop(token);
    });
    if let Err(error) = spawned {
        tracing::warn!(%address, %error, "can't start a thread for a session");
    }
}

/// Runs a session on this thread, which looks after its socket too: the server's runtime would have to wake it for every
/// message. Whatever else is waited for belongs to that runtime, since it goes on while this thread is busy.
fn run(
    link: Link,
    mut session: Session,
    server: &Handle,
    left_behind: &CancellationToken,
) -> std::result::Result<(), PgWireError> {
    let own = Builder::new_current_thread().enable_io().build()?;
    own.block_on(async {
        let mut link = link.adopted()?;
        let served = {
            let mut serving = pin!(incident::caught("a session", connection::serve(&mut link, &mut session)));
            let serving = poll_fn(|context| {
                let _entered = server.enter();
                serving.as_mut().poll(context)
            });
            tokio::select! {
                biased;
                () = left_behind.cancelled() => Err(Error::ShuttingDown),
                served = serving => served,
            }
        };
        match served {
            Ok(result) => result,
            Err(error) => link.fatal(&error).await,
        }
    })
}

/// The engine's threads go before those of sessions: a barrier that waits behind queries holds up every source.
///
/// Nice 9 on Linux. Elsewhere, and where it isn't allowed, all threads stay alike.
fn stand_back() {
    let lower =
        ThreadPriorityValue::try_from(25_u8).map(|value| ThreadPriority::Crossplatform(value).set_for_current());
    if let Ok(Err(error)) = lower {
        tracing::debug!(%error, "a session's thread keeps its priority");
    }
}

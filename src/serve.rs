//! The server put together: store, engine, catalog, wire and HTTP, started in order and ended in order.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use rusqlite::params;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::auth::passwords;
use crate::auth::throttle::Throttle;
use crate::catalog::{Catalog, Memory, scope};
use crate::clock;
use crate::command::run::Runner;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::embedded::{self, Embedded};
use crate::error::{Error, Result};
use crate::observe;
use crate::store::check_input::Surroundings;
use crate::store::{Context, Durability, Store, users};
use crate::wire;

/// How long sessions may take to end.
const DRAIN: Duration = Duration::from_secs(5);

/// The addresses of a server, bound before anything else starts: a taken port is told at once.
pub struct Listeners {
    /// For PostgreSQL clients.
    pub postgres: TcpListener,
    /// For HTTP.
    pub http: TcpListener,
}

impl Listeners {
    /// Binds both.
    ///
    /// # Errors
    /// [`Error::Config`] for an address that can't be had.
    pub async fn bind(config: &Config) -> Result<Self> {
        let bind = async |name: &str, address: std::net::SocketAddr| {
            TcpListener::bind(address).await.map_err(|error| Error::Config {
                message: format!("cannot listen on {address}: {error}"),
                hint: format!("Give another address with --{name}."),
            })
        };
        Ok(Self { postgres: bind("listen", config.listen).await?, http: bind("http", config.http).await? })
    }
}

/// Opens the data directory, runs the engine and serves both listeners until `shutdown` fires; then lets sessions end,
/// makes a last checkpoint and returns. `first_password` becomes that of user root, if it has none.
///
/// # Errors
/// When the data directory can't be used or is taken away, or a listener fails.
pub async fn serve(
    config: Config,
    listeners: Listeners,
    first_password: Option<String>,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
) -> Result<()> {
    let store = Store::open(&config.data_dir)?;
    stop_when(store.lost(), shutdown.clone());
    let address = |listener: &TcpListener| listener.local_addr().map_or_else(|e| e.to_string(), |at| at.to_string());
    let entrance = Entrance::open(&config, &listeners, &store, first_password.as_deref()).await?;
    info!("listening on {} ({}), HTTP on {}", address(&listeners.postgres), entrance.told, address(&listeners.http));
    store.set_reader_setup(Arc::new(crate::catalog::prepare_connection));
    write_settings(&store, &config).await?;
    let surroundings = surroundings(&config);
    let interval = surroundings().barrier_interval;
    let engine: Arc<dyn Engine> = Arc::new(Embedded::start(
        store.clone(),
        embedded::Config {
            barrier_interval: config.barrier_interval,
            available_parallelism: config.worker_parallelism,
        },
    ));
    let version = Arc::new(AtomicU64::new(0));
    let sessions = Arc::<wire::Registry>::default();
    let runner = Runner::new(
        Arc::clone(&engine),
        store.clone(),
        Arc::clone(&surroundings),
        Arc::clone(&version),
        Arc::clone(&sessions),
        entrance.beyond_loopback,
    );
    let server = scope::Server { available: config.worker_parallelism, barrier_interval: interval };
    let memory = Memory::new(&config.limits, Some(&config.data_dir.join("spill")))?;
    let planner = wire::CatalogPlanner::new(Catalog::new(server, memory), store.clone(), version);
    let shared = Arc::new(wire::Shared {
        commands: Arc::new(runner),
        planner: Arc::new(planner),
        settings: config
            .limits
            .settings()
            .chain([("rescale_policy".to_owned(), config.rescale_policy.to_string())])
            .chain(tls_settings(&config))
            .collect(),
        message_room: wire::message_room(&config.limits),
        limits: config.limits,
        door: entrance.door,
        sessions,
    });
    let http: JoinHandle<std::io::Result<()>> = tokio::spawn(observe::serve(
        listeners.http,
        Arc::clone(&engine),
        store.clone(),
        metrics,
        interval,
        shutdown.clone(),
    ));
    wire::serve(listeners.postgres, shared, shutdown.clone(), DRAIN).await;
    shutdown.cancel();
    engine.shutdown().await;
    if store.lost().is_cancelled() {
        return Err(store.lost_error());
    }
    match http.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::Internal(format!("the HTTP listener failed: {error}"))),
        Err(error) => Err(Error::Internal(format!("the HTTP task failed: {error}"))),
    }
}

/// How clients come in.
struct Entrance {
    door: wire::Door,
    beyond_loopback: bool,
    /// For whoever starts the server.
    told: String,
}

impl Entrance {
    /// Gives root its first password, reads the certificate, and sees to it that no user is open to everybody.
    async fn open(config: &Config, listeners: &Listeners, store: &Store, first_password: Option<&str>) -> Result<Self> {
        if let Some(password) = first_password {
            passwords::set_first(store, password).await?;
        }
        let address = listeners.postgres.local_addr();
        let ip = address.map_err(|error| Error::Internal(format!("the listener has no address: {error}")))?.ip();
        let beyond_loopback = !ip.to_canonical().is_loopback();
        let (open, secret) = store
            .snapshot()?
            .with(|connection| Ok::<_, Error>((users::without_password(connection)?, users::secret(connection)?)))?;
        if beyond_loopback && !open.is_empty() {
            return Err(Error::Config {
                message: format!(
                    "--listen {ip} is beyond loopback, but these users have no password: {}",
                    open.join(", ")
                ),
                hint:
                    "Set one with `tidegate passwd`, --password-file or TIDEGATE_ROOT_PASSWORD; or listen on 127.0.0.1."
                        .into(),
            });
        }
        let tls = match &config.tls {
            Some((cert, key)) => Some(Arc::new(wire::Tls::load(cert.clone(), key.clone())?)),
            None => None,
        };
        if beyond_loopback && tls.is_none() {
            warn!("there is no TLS: passwords are safe on the way, but what is asked and answered can be read");
        }
        reload_on_signal(tls.clone())?;
        let told = match (open.is_empty(), tls.is_some()) {
            (true, true) => "SCRAM, TLS",
            (true, false) => "SCRAM, no TLS",
            (false, _) => "without a password for some users: loopback only",
        };
        let users = store.clone();
        let door = wire::Door {
            find: Box::new(move |name| users.snapshot()?.with(|connection| users::find(connection, name))),
            secret,
            tls,
            tls_required: config.tls_required,
            throttle: Throttle::default(),
        };
        Ok(Self { door, beyond_loopback, told: format!("database dev, {told}") })
    }
}

/// What sessions are told of TLS.
fn tls_settings(config: &Config) -> impl Iterator<Item = (String, String)> {
    let files = config.tls.iter().flat_map(|(cert, key)| [("ssl_cert_file", cert), ("ssl_key_file", key)]);
    let files = files.map(|(name, path)| (name.to_owned(), path.display().to_string()));
    files.chain([("ssl".to_owned(), if config.tls.is_some() { "on" } else { "off" }.to_owned())])
}

/// Reads the certificate again at every SIGHUP, which without one has no effect: it would end the process otherwise.
fn reload_on_signal(tls: Option<Arc<wire::Tls>>) -> Result<()> {
    let mut hangup = signal(SignalKind::hangup())
        .map_err(|error| Error::Internal(format!("signals cannot be listened to: {error}")))?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            if let Some(Err(error)) = tls.as_deref().map(wire::Tls::reload) {
                warn!(%error, hint = error.hint(), "the TLS certificate can't be used; the old one stays");
            }
        }
    });
    Ok(())
}

/// A server that can keep nothing acknowledges nothing.
fn stop_when(lost: CancellationToken, shutdown: CancellationToken) {
    tokio::spawn(async move {
        lost.cancelled().await;
        shutdown.cancel();
    });
}

/// What a dry run knows of the engine, at any moment.
fn surroundings(config: &Config) -> Arc<dyn Fn() -> Surroundings + Send + Sync> {
    let available = config.worker_parallelism;
    let barrier_interval = i64::try_from(config.barrier_interval.as_micros()).unwrap_or(i64::MAX);
    Arc::new(move || Surroundings { available, barrier_interval, now: clock::now_micros(), asking: None })
}

async fn write_settings(store: &Store, config: &Config) -> Result<()> {
    let rows = config.rows();
    store
        .write(Durability::Checkpoint, move |tx| {
            tx.execute("DELETE FROM settings", []).context("writing the settings")?;
            for row in rows {
                tx.execute(
                    "INSERT INTO settings VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![row.name, row.value, row.unit, row.short_desc, row.source],
                )
                .context("writing the settings")?;
            }
            Ok(())
        })
        .await
}

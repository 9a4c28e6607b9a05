//! Configuration: command line, then environment, then file, then default; checked once.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::backfill::check::Policy;
use crate::error::{Error, Result};
use crate::limits::{LimitFlags, Limits};

/// The most actors that a source can have.
const MOST_ACTORS: u32 = 1024;

/// Which engine runs sources and views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// In this process, durable in SQLite.
    Embedded,
    /// In front of a running RisingWave cluster; not in this version.
    #[value(name = "risingwave")]
    RisingWave,
}

/// The flags of `tidegate serve`. Each can also stand in the file, by the same name with `_` for `-`.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flags {
    /// Directory of the state file; made if it doesn't exist [default: ./tidegate-data].
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address for PostgreSQL clients [default: 127.0.0.1:4567].
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Address for /healthz, /metrics and the status page [default: 127.0.0.1:4568].
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_HTTP")]
    pub http: Option<SocketAddr>,
    /// TOML file with the same settings.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Engine; this version has the embedded one only [default: embedded].
    #[arg(long, value_enum, env = "TIDEGATE_ENGINE")]
    pub engine: Option<EngineKind>,
    /// URL of the cluster, for --engine risingwave.
    #[arg(long, value_name = "URL", env = "TIDEGATE_UPSTREAM")]
    pub upstream: Option<String>,
    /// Time between two barriers, from 10 to 600000 ms [default: 1000].
    #[arg(long, value_name = "MS", env = "TIDEGATE_BARRIER_INTERVAL_MS")]
    pub barrier_interval_ms: Option<u64>,
    /// Actors that ADAPTIVE resolves to, from 1 to 1024 [default: the machine's cores].
    #[arg(long, value_name = "N", env = "TIDEGATE_WORKER_PARALLELISM")]
    pub worker_parallelism: Option<u32>,
    /// Default of rescale_policy: forwarding, all_finished or stage_aware [default: forwarding].
    #[arg(long, value_name = "POLICY", env = "TIDEGATE_RESCALE_POLICY")]
    pub rescale_policy: Option<String>,
    /// Certificate for TLS, with its chain, in PEM; read again when it changes and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Refuse connections without TLS [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", env = "TIDEGATE_TLS_REQUIRED")]
    pub tls_required: Option<bool>,
    /// File whose first line is the first password of user root; without effect once root has one.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Most connections at a time, from 1 to 10000 [default: 500].
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_CONNECTIONS")]
    pub max_connections: Option<usize>,
    /// What clients can make the server hold or do; the section `[limits]` of the file.
    #[command(flatten)]
    pub limits: LimitFlags,
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the state file.
    pub data_dir: PathBuf,
    /// Address for PostgreSQL clients.
    pub listen: SocketAddr,
    /// Address for the HTTP endpoints.
    pub http: SocketAddr,
    /// Time between two barriers.
    pub barrier_interval: Duration,
    /// Actors that an adaptive parallelism resolves to.
    pub worker_parallelism: u32,
    /// Default of `rescale_policy`.
    pub rescale_policy: Policy,
    /// Certificate and key for TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Connections without TLS are refused.
    pub tls_required: bool,
    /// Where the first password of user root stands.
    pub password_file: Option<PathBuf>,
    /// What clients can make the server hold or do.
    pub limits: Limits,
    /// Where each setting's value comes from, by name.
    sources: BTreeMap<&'static str, &'static str>,
}

/// A row of `tidegate.settings`.
#[derive(Debug, Clone)]
pub struct SettingRow {
    /// Its name.
    pub name: &'static str,
    /// Its value, in `unit`.
    pub value: String,
    /// The unit, if it has one.
    pub unit: Option<&'static str>,
    /// What it does.
    pub short_desc: &'static str,
    /// `default`, `file`, or `command line` (which the environment counts as).
    pub source: &'static str,
}

impl Config {
    /// Puts flags and file together and checks the outcome.
    ///
    /// # Errors
    /// [`Error::Config`] for a file that can't be read or has an unknown name, and for a value out of range.
    pub fn load(flags: Flags) -> Result<Self> {
        let file = flags.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let mut sources = BTreeMap::new();
        let data_dir = pick("data_dir", flags.data_dir, file.data_dir, &mut sources, || "tidegate-data".into());
        let listen =
            pick("listen", flags.listen, file.listen, &mut sources, || SocketAddr::from(([127, 0, 0, 1], 4567)));
        let http = pick("http", flags.http, file.http, &mut sources, || SocketAddr::from(([127, 0, 0, 1], 4568)));
        let engine = pick("engine", flags.engine, file.engine, &mut sources, || EngineKind::Embedded);
        let interval =
            pick("barrier_interval_ms", flags.barrier_interval_ms, file.barrier_interval_ms, &mut sources, || 1000);
        let cores =
            || std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(MOST_ACTORS));
        let parallelism =
            pick("worker_parallelism", flags.worker_parallelism, file.worker_parallelism, &mut sources, cores);
        let policy =
            pick("rescale_policy", flags.rescale_policy, file.rescale_policy, &mut sources, || "forwarding".into());
        let connections = pick("max_connections", flags.max_connections, file.max_connections, &mut sources, || 500);
        check_engine(engine, flags.upstream.or(file.upstream).as_deref())?;
        check_loopback("http", http.ip())?;
        let tls_cert = pick("tls_cert", flags.tls_cert.map(Some), file.tls_cert.map(Some), &mut sources, || None);
        let tls_key = pick("tls_key", flags.tls_key.map(Some), file.tls_key.map(Some), &mut sources, || None);
        let tls = tls_files(tls_cert, tls_key)?;
        let tls_required = pick("tls_required", flags.tls_required, file.tls_required, &mut sources, || false);
        if tls_required && tls.is_none() {
            return Err(Error::Config {
                message: "--tls-required needs a certificate".into(),
                hint: "Give --tls-cert and --tls-key too.".into(),
            });
        }
        in_range("barrier_interval_ms", interval, 10, 600_000)?;
        in_range("worker_parallelism", parallelism, 1, MOST_ACTORS)?;
        in_range("max_connections", connections, 1, 10_000)?;
        let limits = Limits::load(connections, flags.limits, file.limits, &mut sources)?;
        Ok(Self {
            data_dir,
            listen,
            http,
            barrier_interval: Duration::from_millis(interval),
            worker_parallelism: parallelism,
            rescale_policy: policy.parse().map_err(|allowed: String| wrong("rescale_policy", &policy, &allowed))?,
            tls,
            tls_required,
            password_file: flags.password_file.or(file.password_file),
            limits,
            sources,
        })
    }

    /// The rows of `tidegate.settings`.
    pub fn rows(&self) -> Vec<SettingRow> {
        let row = |name, value: String, unit, short_desc| SettingRow {
            name,
            value,
            unit,
            short_desc,
            source: self.sources.get(name).copied().unwrap_or("default"),
        };
        let mut rows = vec![
            row(
                "barrier_interval_ms",
                self.barrier_interval.as_millis().to_string(),
                Some("ms"),
                "Time between two barriers, each of which is a checkpoint.",
            ),
            row("data_dir", absolute(&self.data_dir), None, "Directory of the state file."),
            row("engine", "embedded".into(), None, "What runs sources and views."),
            row("http", self.http.to_string(), None, "Address for /healthz, /metrics and the status page."),
            row("listen", self.listen.to_string(), None, "Address for PostgreSQL clients."),
            row("max_connections", self.limits.max_connections.to_string(), None, "Most connections at a time."),
            row(
                "rescale_policy",
                self.rescale_policy.to_string(),
                None,
                "Default of the session setting rescale_policy: what must hold before splits move.",
            ),
            row(
                "tls_cert",
                self.tls.as_ref().map(|(cert, _)| cert.display().to_string()).unwrap_or_default(),
                None,
                "Certificate for TLS; empty: there is no TLS.",
            ),
            row(
                "tls_key",
                self.tls.as_ref().map(|(_, key)| key.display().to_string()).unwrap_or_default(),
                None,
                "Private key of tls_cert.",
            ),
            row("tls_required", self.tls_required.to_string(), None, "Whether connections without TLS are refused."),
            row(
                "worker_parallelism",
                self.worker_parallelism.to_string(),
                Some("actors"),
                "Actors that ADAPTIVE resolves to.",
            ),
        ];
        rows.extend(self.limits.rows().into_iter().map(|(name, value, unit, about)| row(name, value, unit, about)));
        rows
    }
}

/// As it reads from anywhere on this machine.
fn absolute(dir: &Path) -> String {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf()).display().to_string()
}

fn pick<T>(
    name: &'static str,
    flag: Option<T>,
    file: Option<T>,
    sources: &mut BTreeMap<&'static str, &'static str>,
    default: impl FnOnce() -> T,
) -> T {
    match (flag, file) {
        (Some(value), _) => {
            sources.insert(name, "command line");
            value
        }
        (None, Some(value)) => {
            sources.insert(name, "file");
            value
        }
        (None, None) => default(),
    }
}

fn read_file(path: &Path) -> Result<Flags> {
    let failed = |error: String| Error::Config {
        message: format!("configuration file {} cannot be used: {error}", path.display()),
        hint: "Its names are the flags of `tidegate serve`, with _ for -.".into(),
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    toml::from_str(&text).map_err(|error| failed(error.to_string()))
}

fn check_engine(engine: EngineKind, upstream: Option<&str>) -> Result<()> {
    match (engine, upstream) {
        (EngineKind::Embedded, None) => Ok(()),
        (EngineKind::Embedded, Some(_)) => Err(Error::Config {
            message: "--upstream is for --engine risingwave".into(),
            hint: "The embedded engine needs no cluster: leave it out.".into(),
        }),
        (EngineKind::RisingWave, _) => Err(Error::FeatureNotSupported {
            what: "--engine risingwave".into(),
            hint: "This version has the embedded engine only.".into(),
        }),
    }
}

/// Both files, or none.
fn tls_files(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<(PathBuf, PathBuf)>> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        (cert, _) => Err(Error::Config {
            message: format!("{} alone makes no TLS", if cert.is_some() { "--tls-cert" } else { "--tls-key" }),
            hint: "Give both --tls-cert and --tls-key.".into(),
        }),
    }
}

/// HTTP asks nobody who they are.
fn check_loopback(name: &str, ip: IpAddr) -> Result<()> {
    if ip.is_loopback() {
        return Ok(());
    }
    Err(Error::Config {
        message: format!("--{name} {ip} is not a loopback address"),
        hint: "There are no logins over HTTP, so only this machine may connect: use 127.0.0.1 or [::1], and a proxy that asks from elsewhere."
            .into(),
    })
}

fn in_range<T: PartialOrd + std::fmt::Display>(name: &str, value: T, least: T, most: T) -> Result<()> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(wrong(name, &value.to_string(), &format!("a number from {least} to {most}")))
}

fn wrong(name: &str, value: &str, allowed: &str) -> Error {
    Error::Config { message: format!("{name} can't be {value}"), hint: format!("Allowed: {allowed}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_before_the_file_and_the_file_before_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tidegate.toml");
        std::fs::write(&path, "barrier_interval_ms = 50\nworker_parallelism = 3\n").unwrap();
        let flags = Flags { config: Some(path), worker_parallelism: Some(4), ..Flags::default() };
        let config = Config::load(flags).unwrap();
        assert_eq!((config.barrier_interval.as_millis(), config.worker_parallelism), (50, 4));
        let source = |name| config.rows().into_iter().find(|row| row.name == name).unwrap().source;
        assert_eq!(source("barrier_interval_ms"), "file");
        assert_eq!(source("worker_parallelism"), "command line");
        assert_eq!(source("max_connections"), "default");
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_allowed() {
        let error = Config::load(Flags { barrier_interval_ms: Some(5), ..Flags::default() }).unwrap_err();
        assert_eq!(error.to_string(), "barrier_interval_ms can't be 5");
        assert_eq!(error.hint().unwrap(), "Allowed: a number from 10 to 600000.");
        let error = Config::load(Flags { rescale_policy: Some("yolo".into()), ..Flags::default() }).unwrap_err();
        assert_eq!(error.hint().unwrap(), "Allowed: forwarding, all_finished or stage_aware.");
    }

    #[test]
    fn an_unknown_name_in_the_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tidegate.toml");
        std::fs::write(&path, "barrier_intervall_ms = 50\n").unwrap();
        let error = Config::load(Flags { config: Some(path), ..Flags::default() }).unwrap_err();
        assert!(error.to_string().contains("barrier_intervall_ms"), "{error}");
    }

    #[test]
    fn http_is_for_this_machine_only() {
        let http = Some(SocketAddr::from(([0, 0, 0, 0], 4568)));
        assert!(Config::load(Flags { http, ..Flags::default() }).is_err());
    }

    #[test]
    fn half_a_tls_is_none() {
        let whole = Flags { tls_cert: Some("c.pem".into()), tls_key: Some("k.pem".into()), ..Flags::default() };
        let rows = Config::load(whole).unwrap().rows();
        let told: Vec<_> =
            rows.iter().filter(|row| row.name.starts_with("tls_")).map(|row| (&*row.value, row.source)).collect();
        assert_eq!(told, [("c.pem", "command line"), ("k.pem", "command line"), ("false", "default")]);
        let half = Flags { tls_cert: Some("cert.pem".into()), ..Flags::default() };
        assert_eq!(Config::load(half).unwrap_err().to_string(), "--tls-cert alone makes no TLS");
        let none = Flags { tls_required: Some(true), ..Flags::default() };
        assert_eq!(Config::load(none).unwrap_err().sqlstate(), "F0000");
    }
}

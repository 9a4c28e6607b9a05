//! The options of `connector = 'kafka'`, named as in RisingWave.
//!
//! | option | meaning |
//! |---|---|
//! | `topic` | required |
//! | `properties.bootstrap.server` | required: `host:port,host:port`; `properties.bootstrap.servers` is the same |
//! | `scan.startup.mode` | `earliest` (default), `latest` or `timestamp`: where a partition is begun |
//! | `scan.startup.timestamp.millis` | with `timestamp`, which it implies: milliseconds since 1970 UTC |
//! | `group.id.prefix` | what consumer group ids start with, default `tidegate`; no group is joined |
//! | `source_rate_limit` | as with every connector |
//! | `properties.*` | librdkafka's properties, except those that Tidegate sets itself |

use std::collections::BTreeMap;
use std::fmt;

use super::properties::{self, PREFIX};
use crate::engine::embedded::connector::options::{SOURCE_RATE_LIMIT, invalid, number};
use crate::error::{Error, Result, nearest};
use crate::secret;

const TOPIC: &str = "topic";
const BOOTSTRAP: &str = "properties.bootstrap.server";
/// librdkafka's own name of it.
const BOOTSTRAP_SERVERS: &str = "properties.bootstrap.servers";
const MODE: &str = "scan.startup.mode";
const TIMESTAMP: &str = "scan.startup.timestamp.millis";
const GROUP: &str = "group.id.prefix";
const OPTIONS: [&str; 7] = [
    TOPIC,
    BOOTSTRAP,
    MODE,
    TIMESTAMP,
    GROUP,
    SOURCE_RATE_LIMIT,
    "properties.* (a consumer's properties of librdkafka)",
];
const DEFAULT_GROUP: &str = "tidegate";

/// Where a source starts to read a partition that it has no offset of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Startup {
    /// At the first message that the broker has.
    Earliest,
    /// Behind the last one: nothing is backfilled.
    Latest,
    /// At the first message of this time or later, in milliseconds since 1970 UTC.
    Timestamp(i64),
}

/// What a source's options say.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The topic.
    pub topic: String,
    /// The brokers to ask first: `host:port,host:port`.
    pub bootstrap: String,
    /// Where to start.
    pub startup: Startup,
    /// What the consumer group's id starts with.
    pub group_id_prefix: String,
    /// librdkafka's properties as the user gave them, without the `properties.` before them: known names with values
    /// that librdkafka takes. Those that Tidegate sets itself are not among them. May hold secrets.
    pub client: Vec<(String, String)>,
}

/// Without secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client: Vec<_> = self.client.iter().map(|(name, value)| (name, secret::shown(name, value))).collect();
        f.debug_struct("Settings")
            .field("topic", &self.topic)
            .field("bootstrap", &self.bootstrap)
            .field("startup", &self.startup)
            .field("group_id_prefix", &self.group_id_prefix)
            .field("client", &client)
            .finish()
    }
}

impl Settings {
    /// Reads the options of WITH, without `connector`.
    ///
    /// # Errors
    /// [`Error::UnknownOption`], [`Error::MissingOption`], [`Error::InvalidValue`], and [`Error::FeatureNotSupported`]
    /// for a property that Tidegate sets itself. None holds a secret.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self> {
        let client = client(options)?;
        check_sasl(&client)?;
        Ok(Self {
            topic: topic(options)?,
            bootstrap: bootstrap(options)?,
            startup: startup(options)?,
            group_id_prefix: group(options)?,
            client,
        })
    }
}

/// The properties for librdkafka. Every other option is looked at too, as to whether there is such a one.
fn client(options: &BTreeMap<String, String>) -> Result<Vec<(String, String)>> {
    let mut client = Vec::new();
    for (name, value) in options {
        if OPTIONS.contains(&name.as_str()) || name == BOOTSTRAP_SERVERS {
            continue;
        }
        let property = name.strip_prefix(PREFIX).and_then(|name| Some((name, properties::check(name, value)?)));
        match property {
            Some((property, checked)) => checked.map(|()| client.push((property.to_owned(), value.clone())))?,
            None => return Err(unknown(name)),
        }
    }
    Ok(client)
}

fn unknown(name: &str) -> Error {
    // What all properties start with would make all of them alike.
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let bares = properties::known().chain(["bootstrap.server"]);
    let near_property = nearest(bare, bares).map(|near| format!("{PREFIX}{near}"));
    let near_option = nearest(name, [TOPIC, MODE, TIMESTAMP, GROUP, SOURCE_RATE_LIMIT]);
    Error::UnknownOption {
        name: name.into(),
        of: "connector 'kafka'".into(),
        nearest: if name.starts_with(PREFIX) { near_property.or(near_option) } else { near_option.or(near_property) },
        known: OPTIONS.to_vec(),
    }
}

fn missing(name: &'static str, of: &str) -> Error {
    Error::MissingOption { name, of: of.into() }
}

fn topic(options: &BTreeMap<String, String>) -> Result<String> {
    let topic = options.get(TOPIC).ok_or_else(|| missing(TOPIC, "connector 'kafka'"))?;
    let legal = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    if !(1..=249).contains(&topic.len()) || [".", ".."].contains(&topic.as_str()) || !topic.chars().all(legal) {
        let allowed = "the name of one topic: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'";
        return Err(invalid(TOPIC, topic, allowed.into()));
    }
    Ok(topic.clone())
}

fn bootstrap(options: &BTreeMap<String, String>) -> Result<String> {
    let (name, brokers) = match (options.get(BOOTSTRAP), options.get(BOOTSTRAP_SERVERS)) {
        (Some(brokers), None) => (BOOTSTRAP, brokers),
        (None, Some(brokers)) => (BOOTSTRAP_SERVERS, brokers),
        (None, None) => return Err(missing(BOOTSTRAP, "connector 'kafka'")),
        (Some(_), Some(brokers)) => {
            return Err(invalid(BOOTSTRAP_SERVERS, brokers, format!("only one of it and {BOOTSTRAP}")));
        }
    };
    let fits = |broker: &str| {
        let broker = broker.trim();
        let address = broker.split_once("://").map_or(broker, |(_, address)| address);
        let (host, port) = match address.rsplit_once(':') {
            // An address of IPv6 without a port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (address, None),
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        };
        !host.is_empty()
            && !host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@')
            && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    if !brokers.split(',').all(fits) {
        return Err(invalid(name, brokers, "brokers as host:port,host:port".into()));
    }
    Ok(brokers.clone())
}

fn startup(options: &BTreeMap<String, String>) -> Result<Startup> {
    let millis = number(options, TIMESTAMP, 0..=i64::MAX)?;
    let mode = options.get(MODE).map(|mode| mode.trim().to_lowercase());
    match (mode.as_deref(), millis) {
        (None | Some("timestamp"), Some(millis)) => Ok(Startup::Timestamp(millis)),
        (None | Some("earliest"), None) => Ok(Startup::Earliest),
        (Some("latest"), None) => Ok(Startup::Latest),
        (Some("timestamp"), None) => Err(missing(TIMESTAMP, "scan.startup.mode = 'timestamp'")),
        (Some(mode @ ("earliest" | "latest")), Some(_)) => {
            Err(invalid(MODE, mode, format!("timestamp, or nothing, together with {TIMESTAMP}")))
        }
        (Some(_), _) => {
            let given = options.get(MODE).map(String::as_str).unwrap_or_default();
            Err(invalid(MODE, given, "earliest, latest or timestamp".into()))
        }
    }
}

fn group(options: &BTreeMap<String, String>) -> Result<String> {
    let prefix = options.get(GROUP).map_or(DEFAULT_GROUP, String::as_str);
    if prefix.trim().is_empty() || prefix.len() > 200 || prefix.contains(char::is_control) {
        return Err(invalid(GROUP, prefix, "1 to 200 characters, without control characters".into()));
    }
    Ok(prefix.to_owned())
}

/// What librdkafka would tell only when it connects.
fn check_sasl(client: &[(String, String)]) -> Result<()> {
    let given = |name| client.iter().find(|(property, _)| property == name).map(|(_, value)| value.as_str());
    let Some(protocol) = given("security.protocol") else { return Ok(()) };
    if !protocol.to_lowercase().starts_with("sasl") {
        return Ok(());
    }
    let of = format!("properties.security.protocol = '{protocol}'");
    if given("sasl.mechanism").or(given("sasl.mechanisms")).is_none() {
        return Err(missing("properties.sasl.mechanism", &of));
    }
    for (name, option) in [("sasl.username", "properties.sasl.username"), ("sasl.password", "properties.sasl.password")]
    {
        given(name).ok_or_else(|| missing(option, &of))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;

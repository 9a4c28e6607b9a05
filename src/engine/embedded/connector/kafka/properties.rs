//! librdkafka's properties: which a source may set, to what, and why some are not for it to set.

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

use crate::error::{Error, Result};
use crate::secret;

/// What stands before a property's name in WITH.
pub const PREFIX: &str = "properties.";

/// Properties of a consumer that a source may set. librdkafka knows more: those in [`REFUSED`], those of a producer,
/// and those that only a program can set. It can't be asked for their names, so they are listed here; a test asks it
/// whether it knows each of them.
const KNOWN: &str = "api.version.fallback.ms api.version.request api.version.request.timeout.ms \
    broker.address.family broker.address.ttl broker.version.fallback check.crcs client.dns.lookup client.id client.rack \
    connections.max.idle.ms debug enable.metrics.push enable.random.seed enable.ssl.certificate.verification \
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms \
    fetch.wait.max.ms https.ca.location https.ca.pem isolation.level log.connection.close log.thread.name log_level \
    max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms \
    message.copy.max.bytes message.max.bytes metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms \
    metadata.recovery.strategy queued.max.messages.kbytes queued.min.messages receive.message.max.bytes \
    reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms \
    sasl.mechanism sasl.mechanisms sasl.password sasl.username security.protocol socket.blocking.max.ms \
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable \
    socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location \
    ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list \
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location \
    ssl.keystore.password ssl.providers ssl.sigalgs.list topic.metadata.propagation.max.ms \
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms \
    topic.metadata.refresh.sparse";

const OFFSETS: &str = "Leave it away: offsets are kept in the state file, together with the rows; none is committed to \
    the broker.";
const GROUP: &str = "Leave it away: Tidegate assigns the partitions itself, no consumer group is joined.";
const CODE: &str = "Leave it away: it would run code of others in the server.";
const PROGRAM: &str = "Leave it away: it is for the program that uses librdkafka, not for a source.";
const MECHANISMS: &str = "Use properties.sasl.mechanism = 'PLAIN', 'SCRAM-SHA-256' or 'SCRAM-SHA-512', or a client \
    certificate (properties.ssl.certificate.location).";

/// Properties that Tidegate sets itself or can't use, and what to do instead. One that ends in a dot stands for all that
/// start so.
const REFUSED: [(&str, &str); 36] = [
    ("enable.auto.commit", OFFSETS),
    ("auto.commit.enable", OFFSETS),
    ("auto.commit.interval.ms", OFFSETS),
    ("enable.auto.offset.store", OFFSETS),
    ("offset.store.", OFFSETS),
    (
        "auto.offset.reset",
        "Use scan.startup.mode. An offset that the broker doesn't have any more is never passed over in silence.",
    ),
    ("enable.partition.eof", "Leave it away: Tidegate has to see where a partition ends."),
    ("group.id", "Use group.id.prefix."),
    ("group.instance.id", GROUP),
    ("group.protocol", GROUP),
    ("group.protocol.type", GROUP),
    ("group.remote.assignor", GROUP),
    ("partition.assignment.strategy", GROUP),
    ("session.timeout.ms", GROUP),
    ("heartbeat.interval.ms", GROUP),
    ("coordinator.query.interval.ms", GROUP),
    ("metadata.broker.list", "Use properties.bootstrap.server."),
    ("allow.auto.create.topics", "Leave it away: a source reads a topic, it never makes one."),
    ("statistics.interval.ms", "Leave it away: see tidegate.split_backfill_progress and /metrics."),
    ("plugin.", CODE),
    ("interceptors", CODE),
    ("ssl.engine.", CODE),
    ("ssl_engine_callback_data", PROGRAM),
    ("ssl_key", "Use properties.ssl.key.pem or properties.ssl.key.location."),
    ("ssl_certificate", "Use properties.ssl.certificate.pem or properties.ssl.certificate.location."),
    ("ssl_ca", "Use properties.ssl.ca.pem or properties.ssl.ca.location."),
    ("builtin.features", PROGRAM),
    ("consume.callback.max.messages", PROGRAM),
    ("enabled_events", PROGRAM),
    ("internal.termination.signal", PROGRAM),
    ("log.queue", PROGRAM),
    ("topic.blacklist", PROGRAM),
    ("opaque", PROGRAM),
    ("sasl.kerberos.", MECHANISMS),
    ("sasl.oauthbearer.", MECHANISMS),
    ("enable.sasl.oauthbearer.unsecure.jwt", MECHANISMS),
];

/// What librdkafka's error doesn't tell: the words that a property may have.
const WORDS: [(&str, &str); 9] = [
    ("broker.address.family", "any, v4 or v6"),
    ("client.dns.lookup", "use_all_dns_ips or resolve_canonical_bootstrap_servers_only"),
    ("isolation.level", "read_committed or read_uncommitted"),
    ("metadata.recovery.strategy", "none or rebootstrap"),
    ("sasl.mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ("sasl.mechanisms", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ("security.protocol", "plaintext, ssl, sasl_plaintext or sasl_ssl"),
    ("ssl.endpoint.identification.algorithm", "https or none"),
    ("socket.keepalive.enable", "true or false"),
];

/// The properties that a source may set.
pub fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.split_ascii_whitespace()
}

/// Whether a property can be set to a value. `None`: librdkafka has none of that name that a source could set.
///
/// # Errors
/// [`Error::FeatureNotSupported`] for one that Tidegate sets itself, [`Error::InvalidValue`] for a value that librdkafka
/// doesn't take. A secret is not among what they tell.
pub fn check(name: &str, value: &str) -> Option<Result<()>> {
    let refused =
        REFUSED.iter().find(|(refused, _)| *refused == name || (refused.ends_with('.') && name.starts_with(refused)));
    if let Some((_, hint)) = refused {
        let what = format!("option \"{PREFIX}{name}\"");
        return Some(Err(Error::FeatureNotSupported { what, hint: (*hint).into() }));
    }
    known().find(|known| *known == name).map(|_| check_value(name, value).and_then(|()| check_mechanism(name, value)))
}

fn check_value(name: &str, value: &str) -> Result<()> {
    let Err(error) = ClientConfig::new().set(name, value).create_native_config() else { return Ok(()) };
    let option = format!("{PREFIX}{name}");
    let words = WORDS.iter().find(|(property, _)| *property == name).map(|(_, words)| (*words).to_owned());
    let allowed = match &error {
        // The text may have the value in it.
        KafkaError::ClientConfig(_, text, ..) if !secret::is_secret(name) => words.or_else(|| allowed(text)),
        _ => words,
    };
    Err(Error::InvalidValue {
        what: format!("option \"{option}\""),
        value: secret::shown(&option, value).into(),
        allowed: allowed.unwrap_or_else(|| "a value that librdkafka takes".into()),
    })
}

/// What is allowed, from librdkafka's words for what isn't.
fn allowed(text: &str) -> Option<String> {
    if let Some((_, range)) = text.split_once("is outside allowed range ") {
        let (from, to) = range.trim().split_once("..")?;
        return Some(format!("a number from {from} to {to}"));
    }
    if let Some((_, why)) = text.split_once("not supported in this build") {
        return Some(format!("nothing: librdkafka is built without it{why}"));
    }
    let known = [
        ("Expected bool value", "true or false"),
        ("cannot be set to empty", "a text that is not empty"),
        ("Invalid value for", "a number"),
    ];
    known.iter().find(|(words, _)| text.contains(words)).map(|(_, allowed)| (*allowed).to_owned())
}

/// librdkafka takes any name, and fails when it connects.
fn check_mechanism(name: &str, value: &str) -> Result<()> {
    let known = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
    if !["sasl.mechanism", "sasl.mechanisms"].contains(&name) || known.contains(&value) {
        return Ok(());
    }
    if ["GSSAPI", "OAUTHBEARER"].contains(&value) {
        let what = format!("SASL mechanism {value}");
        return Err(Error::FeatureNotSupported { what, hint: MECHANISMS.into() });
    }
    Err(Error::InvalidValue {
        what: format!("option \"{PREFIX}{name}\""),
        value: value.into(),
        allowed: known.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn librdkafka_knows_every_property_that_is_listed() {
        let config = ClientConfig::new().create_native_config().unwrap();
        for name in known().chain(WORDS.iter().map(|(name, _)| *name)) {
            // Aliases can be set but not read back.
            let unset = matches!(ClientConfig::new().set(name, "\u{1}").create_native_config(),
                Err(KafkaError::ClientConfig(_, text, ..)) if text.contains("No such configuration property"));
            assert!(!unset || config.get(name).is_ok(), "{name}");
            assert!(known().any(|known| known == name), "{name}");
        }
    }

    #[test]
    fn what_is_refused_is_not_known_too() {
        for name in known() {
            let refused = REFUSED
                .iter()
                .any(|(refused, _)| name == *refused || (refused.ends_with('.') && name.starts_with(refused)));
            assert!(!refused, "{name}");
        }
    }
}

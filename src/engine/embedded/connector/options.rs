//! The options of `CREATE SOURCE ... WITH (...)`: known names, ranges, errors that say what is allowed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;

use super::datagen::Datagen;
use super::file::FileConnector;
use super::json::Decoder;
use super::kafka::{Kafka, decode, options::Settings};
use super::{Connector, datagen};
use crate::engine::MAX_RATE_LIMIT;
use crate::error::{Error, Result, nearest};
use crate::secret::{self, HIDDEN, Options};
use crate::store::format::{Encode, MessageFormat};

const CONNECTORS: [&str; 3] = ["file", "datagen", "kafka"];
/// An option of every connector.
pub(super) const SOURCE_RATE_LIMIT: &str = "source_rate_limit";
const FILE_OPTIONS: &[&str] = &["path", "poll_interval", SOURCE_RATE_LIMIT];
const DATAGEN_OPTIONS: &[&str] = &["splits", "rows_per_split", "rows_per_second", "seed", SOURCE_RATE_LIMIT];

const POLL_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Rows a second of an endless split that names no rate.
const DEFAULT_ENDLESS_RATE: f64 = 10.0;

/// What a source is, to its connector.
#[derive(Debug)]
pub struct SourceSpec<'a> {
    /// The connector's name.
    pub connector: &'a str,
    /// The options of WITH without `connector`.
    pub options: &'a Options,
    /// The columns.
    pub schema: SchemaRef,
    /// How messages become rows.
    pub format: &'a MessageFormat,
    /// The source's name.
    pub name: &'a str,
    /// When the source was created, in microseconds since 1970 UTC: the same after a restart.
    pub created_at_micros: i64,
}

/// Makes the connector of a source.
///
/// Nothing of the outside world is looked at: [`Connector::discover`] does that.
///
/// # Errors
/// [`Error::UnknownOption`], [`Error::MissingOption`] and [`Error::InvalidValue`] for an option,
/// [`Error::InvalidValue`] for a connector that isn't known, [`Error::FeatureNotSupported`] for what a connector doesn't
/// have.
pub fn build(source: &SourceSpec<'_>) -> Result<Arc<dyn Connector>> {
    let SourceSpec { options, schema, .. } = source;
    source_rate_limit(options)?;
    let hidden = options.iter().find(|(name, value)| secret::is_secret(name) && *value == HIDDEN);
    if let Some((name, value)) = hidden {
        return Err(invalid(name, value, "the secret itself, which is hidden wherever Tidegate shows it".into()));
    }
    let connector = source.connector.to_lowercase();
    if connector != "kafka" && CONNECTORS.contains(&connector.as_str()) {
        refuse_format(source)?;
    }
    match connector.as_str() {
        "file" => {
            check_known(options, "file", FILE_OPTIONS)?;
            let poll_interval = poll_interval(options)?;
            let decoder = Decoder::new(Arc::clone(schema))?;
            Ok(Arc::new(FileConnector::new(path(options)?, poll_interval, source.name, decoder)))
        }
        "datagen" => {
            check_known(options, "datagen", DATAGEN_OPTIONS)?;
            let rows_per_split = number(options, "rows_per_split", 0..=i64::MAX)?;
            let given_rate = rate(options)?;
            let settings = datagen::Settings {
                splits: number(options, "splits", 1..=10_000)?.unwrap_or(1),
                rows_per_split,
                rows_per_second: given_rate.or(rows_per_split.is_none().then_some(DEFAULT_ENDLESS_RATE)),
                seed: number(options, "seed", 0..=u64::MAX)?.unwrap_or(0),
                created_at_micros: source.created_at_micros,
            };
            Ok(Arc::new(Datagen::new(settings, Arc::clone(schema))?))
        }
        "kafka" => kafka(source),
        _ => Err(Error::InvalidValue {
            what: "option \"connector\"".into(),
            value: source.connector.into(),
            allowed: format!("one of {}", CONNECTORS.join(", ")),
        }),
    }
}

fn kafka(source: &SourceSpec<'_>) -> Result<Arc<dyn Connector>> {
    let settings = Settings::parse(source.options)?;
    let decoder = decode::Decoder::new(Arc::clone(&source.schema), source.format)?;
    Ok(Arc::new(Kafka::new(settings, source.name, decoder)))
}

/// What only Kafka's messages have.
fn refuse_format(source: &SourceSpec<'_>) -> Result<()> {
    let of = format!("with connector '{}'", source.connector.to_lowercase());
    if !source.format.include.is_empty() {
        return Err(Error::FeatureNotSupported {
            what: format!("INCLUDE {of}"),
            hint: "The split and the offset of a row are there already: SELECT _split, _offset FROM the materialized \
                   view."
                .into(),
        });
    }
    if source.format.encode == Encode::Bytes {
        return Err(Error::FeatureNotSupported {
            what: format!("ENCODE BYTES {of}"),
            hint: "Use ENCODE JSON: each line is one JSON object.".into(),
        });
    }
    Ok(())
}

/// The rows a second that each split of the source may bring, if limited. 0 pauses it.
///
/// # Errors
/// [`Error::InvalidValue`] when it isn't a number from 0 to 2147483647.
pub fn source_rate_limit(options: &BTreeMap<String, String>) -> Result<Option<u32>> {
    number(options, SOURCE_RATE_LIMIT, 0..=MAX_RATE_LIMIT)
}

fn check_known(options: &BTreeMap<String, String>, connector: &str, known: &[&'static str]) -> Result<()> {
    match options.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::UnknownOption {
            name: name.clone(),
            of: format!("connector '{connector}'"),
            nearest: nearest(name, known.iter().copied()),
            known: known.to_vec(),
        }),
    }
}

pub(super) fn invalid(name: &str, value: &str, allowed: String) -> Error {
    Error::InvalidValue { what: format!("option \"{name}\""), value: value.into(), allowed }
}

pub(super) fn number<T>(options: &BTreeMap<String, String>, name: &str, range: RangeInclusive<T>) -> Result<Option<T>>
where
    T: FromStr + PartialOrd + Display,
{
    let Some(value) = options.get(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(invalid(name, value, format!("a whole number from {} to {}", range.start(), range.end()))),
    }
}

fn rate(options: &BTreeMap<String, String>) -> Result<Option<f64>> {
    let name = "rows_per_second";
    let Some(value) = options.get(name) else { return Ok(None) };
    match value.trim().parse::<f64>() {
        Ok(rate) if (1e-6..=1e9).contains(&rate) => Ok(Some(rate)),
        _ => Err(invalid(name, value, "a number from 0.000001 to 1000000000".into())),
    }
}

fn path(options: &BTreeMap<String, String>) -> Result<PathBuf> {
    let path = options.get("path").ok_or(Error::MissingOption { name: "path", of: "connector 'file'".into() })?;
    if path.is_empty() || path.contains('\0') {
        return Err(invalid("path", path, "the path of a directory".into()));
    }
    Ok(path.into())
}

fn poll_interval(options: &BTreeMap<String, String>) -> Result<Duration> {
    let name = "poll_interval";
    let Some(value) = options.get(name) else { return Ok(DEFAULT_POLL_INTERVAL) };
    match duration(value) {
        Some(interval) if POLL_INTERVAL.contains(&interval) => Ok(interval),
        _ => Err(invalid(
            name,
            value,
            "a duration with its unit from 10 ms to 1 hour, such as 200ms, 2s, 1 minute".into(),
        )),
    }
}

/// `200ms`, `2 s`, `1.5 minutes`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit())?);
    let seconds = match unit.trim_start().to_lowercase().as_str() {
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;

    use super::*;

    fn options(given: &[(&str, &str)]) -> Options {
        Options(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn built(connector: &str, given: &[(&str, &str)], format: &MessageFormat) -> Result<Arc<dyn Connector>> {
        build(&SourceSpec {
            connector,
            options: &options(given),
            schema: Arc::new(Schema::empty()),
            format,
            name: "s",
            created_at_micros: 0,
        })
    }

    fn refused(connector: &str, given: &[(&str, &str)]) -> String {
        let result = built(connector, given, &MessageFormat::default());
        let error = result.err().expect("refused");
        let rest = [error.detail(), error.hint()].into_iter().flatten();
        [error.to_string()].into_iter().chain(rest).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn durations() {
        for (text, millis) in
            [("200ms", 200), ("2s", 2000), ("1 minute", 60_000), (" 1.5 Min ", 90_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "2", "s", "1 fortnight", "1..5s", "-1s", "1e400s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn good_options_make_a_connector() {
        let made = |connector, given| built(connector, given, &MessageFormat::default()).is_ok();
        assert!(made("file", &[("path", "/data"), ("poll_interval", "10ms"), ("source_rate_limit", "0")]));
        assert!(made("FILE", &[("path", "data")]));
        assert!(made("datagen", &[]));
        assert!(made("datagen", &[("splits", "10000"), ("rows_per_split", "0"), ("rows_per_second", "0.5")]));
        assert!(made("datagen", &[("seed", "18446744073709551615")]));
        assert_eq!(source_rate_limit(&options(&[("source_rate_limit", "7")])).unwrap(), Some(7));
        assert_eq!(source_rate_limit(&options(&[])).unwrap(), None);
    }

    #[test]
    fn a_refusal_names_option_value_and_what_is_allowed() {
        for (connector, given, want) in [
            ("file", &[][..], "option \"path\" is required for connector 'file'"),
            ("file", &[("path", "")], "invalid value for option \"path\": \"\" | Allowed: the path of a directory."),
            (
                "file",
                &[("path", "/d"), ("poll_interval", "5ms")],
                "invalid value for option \"poll_interval\": \"5ms\" | Allowed: a duration with its unit from 10 ms to 1 \
                 hour, such as 200ms, 2s, 1 minute.",
            ),
            (
                "file",
                &[("path", "/d"), ("pol_interval", "5s")],
                "unknown option \"pol_interval\" for connector 'file' | Known: path, poll_interval, source_rate_limit. | \
                 Perhaps you meant \"poll_interval\".",
            ),
            (
                "datagen",
                &[("splits", "0")],
                "invalid value for option \"splits\": \"0\" | Allowed: a whole number from 1 to 10000.",
            ),
            (
                "datagen",
                &[("rows_per_split", "many")],
                "invalid value for option \"rows_per_split\": \"many\" | Allowed: a whole number from 0 to \
                 9223372036854775807.",
            ),
            (
                "datagen",
                &[("rows_per_second", "0")],
                "invalid value for option \"rows_per_second\": \"0\" | Allowed: a number from 0.000001 to 1000000000.",
            ),
            (
                "datagen",
                &[("seed", "-1")],
                "invalid value for option \"seed\": \"-1\" | Allowed: a whole number from 0 to 18446744073709551615.",
            ),
            (
                "datagen",
                &[("source_rate_limit", "2147483648")],
                "invalid value for option \"source_rate_limit\": \"2147483648\" | Allowed: a whole number from 0 to \
                 2147483647.",
            ),
            ("s3", &[], "invalid value for option \"connector\": \"s3\" | Allowed: one of file, datagen, kafka."),
            (
                "datagen",
                &[("password", HIDDEN)],
                "invalid value for option \"password\": \"[hidden]\" | Allowed: the secret itself, which is hidden \
                 wherever Tidegate shows it.",
            ),
        ] {
            assert_eq!(refused(connector, given), want);
        }
    }
}

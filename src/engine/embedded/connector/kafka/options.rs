//! The options of `connector = 'kafka'`.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

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

impl Settings {
    /// Reads the options of WITH, without `connector`.
    ///
    /// # Errors
    /// [`Error::UnknownOption`], [`Error::MissingOption`], [`Error::InvalidValue`], and [`Error::FeatureNotSupported`]
    /// for a property that Tidegate sets itself. None holds a secret.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self> {
        let required = |name: &'static str| {
            options.get(name).cloned().ok_or(Error::MissingOption { name, of: "connector 'kafka'".into() })
        };
        Ok(Self {
            topic: required("topic")?,
            bootstrap: required("properties.bootstrap.server")?,
            startup: Startup::Earliest,
            group_id_prefix: "tidegate".into(),
            client: Vec::new(),
        })
    }
}

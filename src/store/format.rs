//! How the messages of a source become rows: its `ENCODE` and its `INCLUDE`s, as `sources.format_json` holds them.

use serde::{Deserialize, Serialize};

/// How the messages of a source become rows. `FORMAT` is always `PLAIN`: each message is a row of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageFormat {
    /// How a message's value is written.
    pub encode: Encode,
    /// What the last columns of the source hold, in order, one a column. The columns before them come from the value.
    pub include: Vec<Include>,
}

/// How a message's value is written: `ENCODE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Encode {
    /// A JSON object, whose keys are columns.
    #[default]
    Json,
    /// Anything: the one column is the value as it is.
    Bytes,
}

/// A part of a message beside its value: `INCLUDE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Include {
    /// The key, in a `bytea` column.
    Key,
    /// The partition, in a `text` column.
    Partition,
    /// The offset, in a `text` column.
    Offset,
    /// The time of the message, in a `timestamptz` column.
    Timestamp,
    /// All headers, in a `jsonb` column: `[{"key": "h", "value": "\\x00ff"}, ...]`.
    Headers,
    /// The first header of this name, in a `bytea` or a `text` column.
    Header(String),
}

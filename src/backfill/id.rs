//! Ids and offsets: a type for each, so that no actor is taken for a split.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A source, as in `rw_catalog.rw_sources.id`.
    SourceId,
    i32
);
id!(
    /// A streaming job: a materialized view.
    JobId,
    i32
);
id!(
    /// A fragment: the actors that do the same work. A source has one; a view has one for every source that it reads.
    FragmentId,
    i32
);
id!(
    /// An actor: one of the parallel workers of a fragment.
    ActorId,
    i32
);
id!(
    /// A checkpoint's number. Grows by one a barrier.
    Epoch,
    i64
);
id!(
    /// A decision about a rescale, as in `tidegate.rescale_history`.
    RescaleId,
    i64
);

/// A split of a source: a Kafka partition, a file. Unique within its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SplitId(Arc<str>);

impl SplitId {
    /// The id as text, as the connector gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: AsRef<str>> From<T> for SplitId {
    fn from(id: T) -> Self {
        Self(Arc::from(id.as_ref()))
    }
}

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of a row in its split. Text on the wire, compared as a signed 64-bit integer, as RisingWave does.
///
/// Offsets grow along a split but need not be dense: a file's are byte positions, and a Kafka partition has gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Quoted, since RisingWave holds offsets as text and users search for its messages.
impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl Serialize for Offset {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse()
            .map(Offset)
            .map_err(|_| serde::de::Error::custom(format_args!("offset {text:?} is not a signed 64-bit integer")))
    }
}

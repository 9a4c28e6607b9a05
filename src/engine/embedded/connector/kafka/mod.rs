//! Kafka: a topic is a source, a partition a split, and offsets are Kafka's own.

pub mod decode;
pub mod options;
mod properties;

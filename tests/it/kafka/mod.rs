//! Kafka's topics as sources.

mod mock;

//! Kafka sources against a real Apache Kafka broker, which `tests/clients/kafka/fetch.sh` fetches.
//!
//! Without its jars (or without Java) each of these tests says that it was skipped, and passes.

mod broker;
mod failures;
mod flights;
mod partitions;
mod positions;
mod recreated;
mod rows;
mod security;
mod topic;

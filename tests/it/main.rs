//! The integration tests: one binary, since each that links DataFusion takes its time. A module a theme.

mod server;
mod slt;

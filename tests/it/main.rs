//! The integration tests: one binary, since each that links DataFusion takes its time. A module a theme.

mod exactly_once;
mod files;
mod gate;
mod lifecycle;
mod psql;
mod server;
mod slt;

//! The integration tests: one binary, since each that links DataFusion takes its time. A module a theme.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that can't go on should say so"
)]

mod exactly_once;
mod files;
mod gate;
mod lifecycle;
mod model;
mod psql;
mod server;
mod shuttle;
mod sim;
mod slt;

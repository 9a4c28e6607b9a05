//! The integration tests: one binary, since each that links DataFusion takes its time. A module a theme.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that can't go on should say so"
)]

mod auth;
mod backup;
mod clients;
mod exactly_once;
mod faults;
mod files;
mod gate;
mod kafka;
mod lifecycle;
mod limits;
mod model;
mod protocol;
mod psql;
mod server;
mod shuttle;
mod sim;
mod slt;
mod upgrade;

//! Tidegate: see how far the backfill of every split of a streaming source is, and refuse the rescale that would break it.

pub mod backfill;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod command;
pub mod config;
pub mod engine;
pub mod error;
pub mod observe;
pub mod serve;
pub mod store;
pub mod wire;

//! Tidegate: see how far the backfill of every split of a streaming source is, and refuse the rescale that would break it.

pub mod backfill;
pub mod command;
pub mod engine;
pub mod error;
pub mod wire;

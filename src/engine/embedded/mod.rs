//! The embedded engine.

pub mod columns;
pub mod connector;

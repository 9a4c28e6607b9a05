//! The embedded engine.
pub mod connector;

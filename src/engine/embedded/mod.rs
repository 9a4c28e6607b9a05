//! The embedded engine.

pub mod columns;
pub mod connector;
pub mod view;

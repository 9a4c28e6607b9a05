//! The domain.
pub mod id;
pub mod state;
pub mod target;

//! The domain.
pub mod id;
pub mod state;

//! The domain
pub mod assignment;
pub mod check;
pub mod id;
pub mod progress;
pub mod stage;
pub mod state;
pub mod target;
pub mod transition;

#[cfg(test)]
mod tests;

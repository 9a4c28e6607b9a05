//! The check.

//! Engines: what runs sources and views.
pub mod embedded;

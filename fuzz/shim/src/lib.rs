//! What the parser and the decoders use of DataFusion: the two crates that it passes on.

pub use arrow;

pub mod sql {
    pub use sqlparser;
}

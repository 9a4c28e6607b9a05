//! Tidegate
fn main() {}

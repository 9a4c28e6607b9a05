//! A clock that a test sets forwards and back while a server runs: what it is wrong by stands in a file.

use std::path::PathBuf;
use std::sync::LazyLock;

/// The file, by TIDEGATE_CLOCK_JUMP in the server's environment.
static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| std::env::var_os("TIDEGATE_CLOCK_JUMP").map(PathBuf::from));

/// By how many microseconds the clock is ahead; 0 without a file, or with one that holds no number.
pub(super) fn micros() -> i64 {
    let read = FILE.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    read.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

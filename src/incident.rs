//! Panics: what it happened in ends, whoever waits for that gets a number, and the log has the same number with what
//! happened.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;

use crate::error::Error;

/// The future's result, or what its panic is to be told as.
pub(crate) async fn caught<T>(what: &str, future: impl Future<Output = T>) -> Result<T, Error> {
    // What a panic leaves half done is the future's alone, and is dropped with it; what it shares with others is behind
    // locks that are held for single steps, or is SQLite's.
    let done = AssertUnwindSafe(future).catch_unwind().await;
    done.map_err(|panic| Error::Panic { incident: note(what, panic.as_ref()) })
}

/// A thread that logs its panic. Whoever waits for it sees that its channel ends.
pub(crate) fn thread(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let told = name.clone();
    let run = move || {
        if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(body)) {
            note(&format!("thread {told}"), panic.as_ref());
        }
    };
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}

/// A number for something that the log tells more of.
pub(crate) fn number() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{second:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Logs a panic, and gives it its number.
pub(crate) fn note(what: &str, panic: &(dyn Any + Send)) -> String {
    let incident = number();
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    tracing::error!(incident, panic = text, "{what} panicked");
    incident
}

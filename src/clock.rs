//! The clock: microseconds since 1970 (UTC), the unit of every time in the state file; and the engine's timers.

#[cfg(feature = "hooks")]
mod jump;
#[cfg(feature = "hooks")]
pub mod simulated;

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Now. A clock set before 1970 reads as 1970.
pub fn now_micros() -> i64 {
    #[cfg(feature = "hooks")]
    if let Some(now) = simulated::now_micros() {
        return now;
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    #[cfg(feature = "hooks")]
    let now = now.saturating_add(jump::micros());
    now
}

/// Now, for measuring and waiting.
pub fn now() -> Instant {
    #[cfg(feature = "hooks")]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Waits until then.
pub async fn sleep_until(at: Instant) {
    #[cfg(feature = "hooks")]
    if let Some(sleep) = simulated::sleep_until(at) {
        return sleep.await;
    }
    tokio::time::sleep_until(at).await;
}

/// A time as people and PostgreSQL write it, to the second: `2026-08-22 10:00:00+00`.
pub fn display(micros: i64) -> String {
    chrono::DateTime::from_timestamp_micros(micros)
        .map_or_else(|| micros.to_string(), |at| at.format("%Y-%m-%d %H:%M:%S+00").to_string())
}

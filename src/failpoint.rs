//! Labelled points on a statement's way from its barrier to its acknowledgement, at which a test can end the process.
//!
//! With the feature `hooks`, `TIDEGATE_FAILPOINT=label` in a server's environment ends it there without any farewell, as
//! kill -9 and a power cut do; `label:n` at the n-th time, from 1. Passing counts once a statement waits for its
//! barrier, so that the barriers before it don't. Without the feature every point is empty.
//!
//! `tests/it/faults/points.rs` walks all of [`FailPoint::ALL`].

macro_rules! fail_points {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// A place where a test can end the process.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum FailPoint {
            $($(#[$doc])* $name,)*
        }

        impl FailPoint {
            /// All of them, in the order in which a rescale passes them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What TIDEGATE_FAILPOINT calls it.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }
        }
    };
}

fail_points! {
    /// One source actor has been sent the barrier, others perhaps not.
    BarrierSentToOne = "barrier-sent-to-one",
    /// Every source actor has been sent it.
    BarrierSent = "barrier-sent",
    /// A source actor has passed it on and is about to report.
    SourceReports = "source-reports",
    /// A scan actor is about to report.
    ScanReports = "scan-reports",
    /// One report has come in, others perhaps not.
    OneReport = "one-report",
    /// All have come in; nothing is written.
    AllReports = "all-reports",
    /// The transaction has begun.
    TransactionBegun = "transaction-begun",
    /// The barrier's states and rows are written in it, the statement not yet.
    CheckpointWritten = "checkpoint-written",
    /// A rescale has written its line in the history, and no actor yet.
    RescaleRecorded = "rescale-recorded",
    /// A rescale has changed the actors, and no assignment yet.
    ActorsWritten = "actors-written",
    /// A rescale has moved the splits, and isn't decided yet.
    AssignmentWritten = "assignment-written",
    /// All that the transaction does is done; it isn't committed.
    BeforeCommit = "before-commit",
    /// It is committed; nobody knows yet.
    Committed = "committed",
    /// The coordinator knows; no actor has been changed or resumed.
    CommitKnown = "commit-known",
    /// The actors run in line with what was committed; nobody is answered.
    ActorsChanged = "actors-changed",
    /// The session has its answer; the client doesn't.
    BeforeAcknowledged = "before-acknowledged",
}

/// A statement waits for its barrier: from now on passing counts.
#[inline]
pub fn arm() {
    #[cfg(feature = "hooks")]
    armed::arm();
}

/// Passes a point, or ends the process there.
#[inline]
pub fn pass(point: FailPoint) {
    #[cfg(feature = "hooks")]
    armed::pass(point);
    #[cfg(not(feature = "hooks"))]
    let _ = point;
}

#[cfg(feature = "hooks")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::FailPoint;

    static ARMED: AtomicBool = AtomicBool::new(false);
    static PASSED: AtomicU64 = AtomicU64::new(0);
    /// The label, and at which time.
    static WANTED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var("TIDEGATE_FAILPOINT").ok()?;
        Some(match text.split_once(':') {
            Some((label, nth)) => (label.to_owned(), nth.parse().unwrap_or(1)),
            None => (text, 1),
        })
    });

    pub fn arm() {
        ARMED.store(true, Ordering::SeqCst);
    }

    pub fn pass(point: FailPoint) {
        let Some((label, nth)) = WANTED.as_ref() else { return };
        if label == point.label() && ARMED.load(Ordering::SeqCst) && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
            // Nothing is flushed, closed or dropped.
            std::process::abort();
        }
    }
}

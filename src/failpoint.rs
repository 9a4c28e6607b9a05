//! Labelled points on a statement's way from its barrier to its acknowledgement, at which a test can do harm.
//!
//! With the feature `hooks`, `TIDEGATE_FAILPOINT=label` in a server's environment ends it there without any farewell, as
//! kill -9 and a power cut do; `label:panic` panics there, and `label:pause` never goes on from there. With `label:n` or
//! `label:n:panic` it happens at the n-th time, from 1. Passing counts once a statement waits for its barrier, so that
//! the barriers before it don't. Without the feature every point is empty.
//!
//! `tests/it/faults/points.rs` and `panics.rs` walk all of [`FailPoint::ALL`]; `tests/it/kafka/mock.rs` has the points that
//! are on no rescale's way.

macro_rules! fail_points {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*; $($(#[$beside:meta])* $other:ident = $called:literal,)*) => {
        /// A place where a test can do harm.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum FailPoint {
            $($(#[$doc])* $name,)*
            $($(#[$beside])* $other,)*
        }

        impl FailPoint {
            /// All on the way of a rescale, in the order in which a rescale passes them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What TIDEGATE_FAILPOINT calls it.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                    $(Self::$other => $called,)*
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
    ;
    /// The thread that reads Kafka's messages for an actor is about to look for the next ones.
    KafkaReads = "kafka-reads",
    /// The thread that knows how far Kafka's partitions are has been asked.
    KafkaLooks = "kafka-looks",
}

/// A statement waits for its barrier: from now on passing counts.
#[inline]
pub fn arm() {
    #[cfg(feature = "hooks")]
    armed::arm();
}

/// Passes a point, or does there what is asked for.
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
    static WANTED: LazyLock<Option<Wanted>> = LazyLock::new(|| {
        let text = std::env::var("TIDEGATE_FAILPOINT").ok()?;
        let mut words = text.split(':');
        let mut wanted = Wanted { label: words.next()?.to_owned(), nth: 1, harm: Harm::Kill };
        for word in words {
            match word {
                "panic" => wanted.harm = Harm::Panic,
                "pause" => wanted.harm = Harm::Pause,
                number => wanted.nth = number.parse().ok()?,
            }
        }
        Some(wanted)
    });

    struct Wanted {
        label: String,
        nth: u64,
        harm: Harm,
    }

    enum Harm {
        Kill,
        Panic,
        Pause,
    }

    pub fn arm() {
        ARMED.store(true, Ordering::SeqCst);
    }

    pub fn pass(point: FailPoint) {
        let Some(wanted) = WANTED.as_ref().filter(|wanted| wanted.label == point.label()) else { return };
        if !ARMED.load(Ordering::SeqCst) || PASSED.fetch_add(1, Ordering::SeqCst) + 1 != wanted.nth {
            return;
        }
        match wanted.harm {
            // Nothing is flushed, closed or dropped.
            Harm::Kill => std::process::abort(),
            Harm::Panic => panic!("fail-point {}", point.label()),
            // The other tasks of this thread have to go on.
            Harm::Pause => tokio::task::block_in_place(|| {
                loop {
                    std::thread::park();
                }
            }),
        }
    }
}

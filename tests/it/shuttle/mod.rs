//! What threads share, under a scheduler that tries their interleavings.
//!
//! The product's own source files are compiled here a second time, with shuttle's locks, channels, threads and atomics
//! in place of the standard library's; a schedule that fails is printed, and `shuttle::replay` runs it again.
//!
//! A session's prepared statements and plans are its own, so that there is nothing to try.

mod claim;
mod pool;
mod queue;
mod roster;

/// Schedules that each test tries.
const SCHEDULES: usize = 2000;

/// Stands in for the product's `sync` modules.
mod sync {
    pub use std::sync::PoisonError;

    pub use shuttle::sync::atomic::{AtomicU8, Ordering};
    pub use shuttle::sync::{Mutex, MutexGuard, mpsc};
    pub use shuttle::thread;
}

#[path = "../../../src/engine/embedded/claim.rs"]
mod claim_core;
#[path = "../../../src/store/pool.rs"]
mod pool_core;
#[path = "../../../src/store/queue.rs"]
mod queue_core;
#[path = "../../../src/wire/roster.rs"]
mod roster_core;

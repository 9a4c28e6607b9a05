//! Deterministic simulation of the whole embedded engine: one seed fixes the schedule, the clock, the outside world,
//! what users do, and where the process dies.
//!
//! Everything runs on one thread, on a simulated clock (`clock::simulated`) and a store without a thread
//! (`Store::open_inline`); what would be chance elsewhere is drawn from the seed: how long a connector or an actor takes,
//! when a barrier's report comes, and at which of the engine's scheduler points the process dies. So a seed always gives
//! the same run, and one that fails is run again with
//!
//! ```text
//! TIDEGATE_SEED=n cargo test --test it sim::one_seed -- --nocapture
//! ```
//!
//! - `world`: the outside world and its connector. `client`: what users do, and what they were told.
//! - `run`: a seed from start to end. `oracle`: what must be true of it.

mod client;
mod oracle;
mod run;
mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use run::{Fault, run};

/// Seeds that once found something in the engine, with what it was. None so far.
const FOUND: &[u64] = &[];

/// How long fresh seeds are tried in an ordinary test run.
const SECONDS: u64 = 60;

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs seeds on two threads until the time is over, one fails or there are no more. How many were run, and the failure.
fn seeds(from: u64, count: u64, time: Duration, fault: Fault) -> (u64, Option<run::Failed>) {
    let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let end = Instant::now() + time;
    let work = || {
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                break;
            }
            let outcome = run(from.wrapping_add(nth), fault);
            done.fetch_add(1, Ordering::Relaxed);
            if outcome.damage.is_some() {
                stop.store(true, Ordering::Relaxed);
                return outcome.failed();
            }
        }
        None
    };
    let failed = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).min_by_key(|failed| failed.seed)
    });
    (done.into_inner(), failed)
}

/// The seed of `TIDEGATE_SEED`, with its whole trace; without it, the first.
#[test]
fn one_seed() {
    let outcome = run(env("TIDEGATE_SEED").unwrap_or(0), Fault::None);
    if std::env::var_os("TIDEGATE_SEED").is_some() {
        println!("{}", outcome.trace.join("\n"));
    }
    if let Some(failed) = outcome.failed() {
        panic!("{failed}");
    }
}

#[test]
fn seeds_that_once_failed() {
    for seed in FOUND {
        if let Some(failed) = run(*seed, Fault::None).failed() {
            panic!("{failed}");
        }
    }
}

/// As many as fit in a fixed time: `TIDEGATE_SIM_SECONDS`, from `TIDEGATE_SIM_FROM` on.
#[test]
fn fresh_seeds() {
    let from = env("TIDEGATE_SIM_FROM")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() * 1_000_000));
    let seconds = env("TIDEGATE_SIM_SECONDS").unwrap_or(SECONDS);
    let (done, failed) = seeds(from, u64::MAX, Duration::from_secs(seconds), Fault::None);
    println!("{done} seeds from {from} in {seconds} s");
    if let Some(failed) = failed {
        panic!("{failed}");
    }
    assert!(done > 0);
}

#[test]
fn a_seed_is_the_same_every_time() {
    for seed in 0..20 {
        let (one, other) = (run(seed, Fault::None), run(seed, Fault::None));
        let differs = one.trace.iter().zip(&other.trace).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.trace.len(), other.trace.len(), "seed {seed}");
    }
    let traces: std::collections::BTreeSet<_> = (0..20).map(|seed| run(seed, Fault::None).trace).collect();
    assert_eq!(traces.len(), 20, "other seeds are other runs");
}

#[test]
fn without_the_gate_damage_is_found() {
    let (_, failed) = seeds(0, 300, Duration::MAX / 4, Fault::Unseen);
    println!("{}", failed.expect("a rescale committed unseen does harm"));
}

#[test]
fn a_rescale_applied_before_the_states_are_written_is_found() {
    let (_, failed) = seeds(0, 300, Duration::MAX / 4, Fault::EarlyStates);
    println!("{}", failed.expect("states of the barrier before are too old"));
}

#[test]
fn a_check_outside_the_commit_is_found() {
    let (_, failed) = seeds(0, 300, Duration::MAX / 4, Fault::CheckedAtRequest);
    println!("{}", failed.expect("what was true at the request isn't at the barrier"));
}

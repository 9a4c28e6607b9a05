//! A session that gives up against a coordinator that starts.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use super::SCHEDULES;
use super::claim_core::Claim;

/// The session withdraws once; the coordinator has the statement at up to three barriers, at the first of which it can't
/// tell yet. A statement that was reported as cancelled is never applied, and one that wasn't is.
#[test]
fn a_statement_is_withdrawn_or_applied() {
    shuttle::check_random(
        || {
            let (claim, applied) = (Arc::new(Claim::default()), Arc::new(AtomicUsize::new(0)));
            let coordinator = {
                let (claim, applied) = (Arc::clone(&claim), Arc::clone(&applied));
                thread::spawn(move || {
                    for barrier in 0..3 {
                        if !claim.take() {
                            return;
                        }
                        if barrier == 0 {
                            claim.release();
                            continue;
                        }
                        applied.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                })
            };
            let session = {
                let claim = Arc::clone(&claim);
                thread::spawn(move || claim.withdraw())
            };
            let cancelled = session.join().unwrap();
            coordinator.join().unwrap();
            assert_eq!(applied.load(Ordering::SeqCst), usize::from(!cancelled), "cancelled: {cancelled}");
        },
        SCHEDULES,
    );
}

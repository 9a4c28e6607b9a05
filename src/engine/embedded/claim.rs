//! Who has a statement: its session, which may withdraw it, or the coordinator, which applies it.

use super::sync::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Decides between a session that gives up and a coordinator that starts: just one of them has the statement.
#[derive(Debug, Default)]
pub struct Claim(AtomicU8);

impl Claim {
    /// The coordinator applies it. `false`: it was withdrawn.
    pub fn take(&self) -> bool {
        self.move_on(TAKEN)
    }

    /// The session gives up. `false`: it is being applied, and the answer will come.
    pub fn withdraw(&self) -> bool {
        self.move_on(WITHDRAWN)
    }

    /// The coordinator has to wait for another barrier.
    pub fn release(&self) {
        self.0.store(WAITING, Ordering::SeqCst);
    }

    fn move_on(&self, to: u8) -> bool {
        self.0.compare_exchange(WAITING, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

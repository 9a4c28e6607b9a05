//! Advisory locks: what applications lock by numbers of their own, so that only one of them does something at a time.
//!
//! They live in memory. A session's end lets go of all that it holds; a transaction's end of what it took for it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::error::Result as DfResult;
use tokio::sync::Notify;

use super::activity::batch;
use super::scope::Scope;
use super::types;
use crate::clock::now_micros;
use crate::error::{Error, Result};

/// What is locked: `classid`, `objid` and `objsubid` of `pg_locks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub i32, pub i32, pub i16);

/// A lock that a session has or wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Of what.
    pub key: Key,
    /// Others may have it too.
    pub shared: bool,
}

/// How long it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Until {
    /// Until it is let go of, as often as it was taken.
    Unlocked,
    /// Until the transaction ends.
    TransactionEnds,
}

/// How many things may be locked at a time, on all sessions together.
const MOST: usize = 10_000;

/// All locks of a server.
#[derive(Debug, Default)]
pub struct Locks {
    state: Mutex<State>,
    /// Somebody has let go of one.
    released: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By session; how often it was taken.
    held: HashMap<Key, HashMap<(i32, bool, Until), usize>>,
    /// Who came first waits at the front.
    waiting: Vec<Waiter>,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    pid: i32,
    lock: Lock,
    since: i64,
}

impl State {
    /// Whom a session would wait for.
    fn blockers(&self, pid: i32, lock: Lock) -> HashSet<i32> {
        let held = self.held.get(&lock.key);
        let holders = || held.into_iter().flat_map(HashMap::keys);
        // Whoever has a lock isn't held up by those who wait for it.
        if holders().any(|(holder, shared, _)| *holder == pid && (!shared || lock.shared)) {
            return HashSet::new();
        }
        let conflicts = |other: i32, shared: bool| other != pid && !(shared && lock.shared);
        let holding = holders().filter(|(holder, shared, _)| conflicts(*holder, *shared)).map(|(holder, ..)| *holder);
        let has_some = holders().any(|(holder, ..)| *holder == pid);
        let earlier = self.waiting.iter().take_while(|waiter| waiter.pid != pid).filter(|_| !has_some);
        let earlier = earlier.filter(|waiter| waiter.lock.key == lock.key && conflicts(waiter.pid, waiter.lock.shared));
        holding.chain(earlier.map(|waiter| waiter.pid)).collect()
    }

    /// Whether a session that waits for this lock would wait for itself.
    fn is_deadlock(&self, pid: i32, lock: Lock) -> bool {
        let mut seen = HashSet::new();
        let mut next: Vec<i32> = self.blockers(pid, lock).into_iter().collect();
        while let Some(blocker) = next.pop() {
            if blocker == pid {
                return true;
            }
            if seen.insert(blocker) {
                let waits = self.waiting.iter().filter(|waiter| waiter.pid == blocker);
                next.extend(waits.flat_map(|waiter| self.blockers(blocker, waiter.lock)));
            }
        }
        false
    }

    fn take(&mut self, pid: i32, lock: Lock, until: Until) -> Result<bool> {
        if !self.blockers(pid, lock).is_empty() {
            return Ok(false);
        }
        if self.held.len() >= MOST && !self.held.contains_key(&lock.key) {
            return Err(Error::LimitReached {
                sqlstate: "53200",
                message: format!("{MOST} advisory locks are held already"),
                hint: "SELECT pid, count(*) FROM pg_locks GROUP BY pid tells by whom.".into(),
            });
        }
        *self.held.entry(lock.key).or_default().entry((pid, lock.shared, until)).or_default() += 1;
        Ok(true)
    }

    /// Takes away what `keep` doesn't keep.
    fn retain(&mut self, keep: impl Fn(i32, Until) -> bool) {
        self.held.retain(|_, holders| {
            holders.retain(|(pid, _, until), _| keep(*pid, *until));
            !holders.is_empty()
        });
    }
}

impl Locks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lock if that needs no waiting.
    ///
    /// # Errors
    /// There are too many locks.
    pub fn try_lock(&self, pid: i32, lock: Lock, until: Until) -> Result<bool> {
        self.state().take(pid, lock, until)
    }

    /// Takes a lock, and waits for it as long as `limit` says.
    ///
    /// # Errors
    /// The sessions would wait for each other; it took too long; there are too many locks.
    pub async fn lock(&self, pid: i32, lock: Lock, until: Until, limit: Option<Duration>) -> Result<()> {
        let failed = |sqlstate, message: &str| Error::Session { sqlstate, message: message.to_owned() };
        {
            let mut state = self.state();
            if state.take(pid, lock, until)? {
                return Ok(());
            }
            if state.is_deadlock(pid, lock) {
                return Err(failed("40P01", "deadlock detected"));
            }
            state.waiting.push(Waiter { pid, lock, since: now_micros() });
        }
        let _waiting = Waiting { locks: self, pid };
        let taken = async {
            loop {
                let released = self.released.notified();
                tokio::pin!(released);
                // From here on no release is missed.
                released.as_mut().enable();
                if self.state().take(pid, lock, until)? {
                    return Ok(());
                }
                released.await;
            }
        };
        match limit {
            Some(limit) => tokio::time::timeout(limit, taken)
                .await
                .map_err(|_| failed("55P03", "canceling statement due to lock timeout"))?,
            None => taken.await,
        }
    }

    /// Lets go of a lock once. False: the session has none that outlives its transaction.
    pub fn unlock(&self, pid: i32, lock: Lock) -> bool {
        let mut state = self.state();
        let Some(holders) = state.held.get_mut(&lock.key) else { return false };
        let of_session = (pid, lock.shared, Until::Unlocked);
        let Some(times) = holders.get_mut(&of_session) else { return false };
        *times -= 1;
        if *times == 0 {
            holders.remove(&of_session);
            state.held.retain(|_, holders| !holders.is_empty());
            drop(state);
            self.released.notify_waiters();
        }
        true
    }

    /// Lets go of all that a session would hold longer than its transaction.
    pub fn unlock_all(&self, pid: i32) {
        self.release(|holder, until| holder != pid || until == Until::TransactionEnds);
    }

    /// Lets go of what a session holds until its transaction ends.
    pub fn end_transaction(&self, pid: i32) {
        self.release(|holder, until| holder != pid || until == Until::Unlocked);
    }

    /// A session is over.
    pub fn end_session(&self, pid: i32) {
        self.release(|holder, _| holder != pid);
    }

    fn release(&self, keep: impl Fn(i32, Until) -> bool) {
        let mut state = self.state();
        // Most sessions never lock anything.
        if !state.held.is_empty() {
            state.retain(keep);
            drop(state);
            self.released.notify_waiters();
        }
    }

    /// Whom a session waits for.
    pub fn blockers(&self, pid: i32) -> Vec<i32> {
        let state = self.state();
        let waits = state.waiting.iter().filter(|waiter| waiter.pid == pid);
        let mut blockers: Vec<i32> = waits.flat_map(|waiter| state.blockers(pid, waiter.lock)).collect();
        blockers.sort_unstable();
        blockers
    }

    /// Each lock that a session has or, since a time, waits for.
    fn all(&self) -> Vec<(i32, Lock, Option<i64>)> {
        let state = self.state();
        let held = state.held.iter().flat_map(|(key, holders)| {
            let taken: HashSet<(i32, bool)> = holders.keys().map(|(pid, shared, _)| (*pid, *shared)).collect();
            taken.into_iter().map(|(pid, shared)| (pid, Lock { key: *key, shared }, None))
        });
        held.chain(state.waiting.iter().map(|waiter| (waiter.pid, waiter.lock, Some(waiter.since)))).collect()
    }
}

/// A session that waits: it does no longer once its statement is given up.
struct Waiting<'a> {
    locks: &'a Locks,
    pid: i32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.locks.state().waiting.retain(|waiter| waiter.pid != self.pid);
        // Others may have waited behind it.
        self.locks.released.notify_waiters();
    }
}

/// The rows of `pg_locks`: queries lock nothing.
pub fn rows(scope: &Scope) -> DfResult<RecordBatch> {
    let rows = scope.locks.all();
    let text = |value: fn(&Lock) -> &str| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, lock, _)| Some(value(lock))).collect::<StringArray>())
    };
    let number = |value: fn(&Key) -> i32| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, lock, _)| Some(value(&lock.key))).collect::<Int32Array>())
    };
    batch("pg_locks", rows.len(), |column| {
        Some(match column {
            "locktype" => text(|_| "advisory"),
            "database" => number(|_| 1),
            "classid" => number(|key| key.0),
            "objid" => number(|key| key.1),
            "objsubid" => Arc::new(rows.iter().map(|(_, lock, _)| Some(lock.key.2)).collect::<Int16Array>()),
            "pid" => Arc::new(rows.iter().map(|(pid, ..)| Some(*pid)).collect::<Int32Array>()),
            "mode" => text(|lock| if lock.shared { "ShareLock" } else { "ExclusiveLock" }),
            "granted" => Arc::new(rows.iter().map(|(.., since)| Some(since.is_none())).collect::<BooleanArray>()),
            "fastpath" => Arc::new(BooleanArray::from(vec![false; rows.len()])),
            "waitstart" => Arc::new(
                rows.iter().map(|(.., since)| *since).collect::<TimestampMicrosecondArray>().with_timezone(types::UTC),
            ),
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Lock = Lock { key: Key(0, 1, 1), shared: false };
    const TWO: Lock = Lock { key: Key(0, 2, 1), shared: false };

    #[test]
    fn locks_are_counted_and_end_with_what_they_were_taken_for() {
        let locks = Locks::default();
        assert!(locks.try_lock(1, ONE, Until::Unlocked).unwrap() && locks.try_lock(1, ONE, Until::Unlocked).unwrap());
        assert!(locks.try_lock(1, TWO, Until::TransactionEnds).unwrap());
        assert!(!locks.try_lock(2, ONE, Until::Unlocked).unwrap());
        assert!(!locks.unlock(2, ONE) && !locks.unlock(1, TWO));
        assert!(locks.unlock(1, ONE) && !locks.try_lock(2, ONE, Until::Unlocked).unwrap());
        assert!(locks.unlock(1, ONE) && locks.try_lock(2, ONE, Until::Unlocked).unwrap());
        assert!(!locks.try_lock(2, TWO, Until::Unlocked).unwrap());
        locks.end_transaction(1);
        assert!(locks.try_lock(2, TWO, Until::Unlocked).unwrap());
        locks.end_session(2);
        assert!(locks.all().is_empty());
    }

    #[test]
    fn shared_locks_exclude_only_the_others() {
        let (locks, shared) = (Locks::default(), Lock { shared: true, ..ONE });
        assert!(
            locks.try_lock(1, shared, Until::Unlocked).unwrap() && locks.try_lock(2, shared, Until::Unlocked).unwrap()
        );
        assert!(!locks.try_lock(1, ONE, Until::Unlocked).unwrap());
        assert!(locks.unlock(2, shared) && locks.try_lock(1, ONE, Until::Unlocked).unwrap());
    }

    #[tokio::test]
    async fn who_waits_gets_it_and_who_would_wait_for_itself_does_not() {
        let locks = Arc::new(Locks::default());
        assert!(locks.try_lock(1, ONE, Until::Unlocked).unwrap() && locks.try_lock(2, TWO, Until::Unlocked).unwrap());
        let waiting = tokio::spawn({
            let locks = Arc::clone(&locks);
            async move { locks.lock(2, ONE, Until::Unlocked, None).await }
        });
        while locks.blockers(2).is_empty() {
            tokio::task::yield_now().await;
        }
        let deadlock = locks.lock(1, TWO, Until::Unlocked, None).await.unwrap_err();
        assert_eq!(deadlock.sqlstate(), "40P01");
        assert!(locks.unlock(1, ONE));
        waiting.await.unwrap().unwrap();
        let late = locks.lock(1, ONE, Until::Unlocked, Some(Duration::from_millis(1))).await.unwrap_err();
        assert_eq!(late.to_string(), "canceling statement due to lock timeout");
        assert!(locks.blockers(1).is_empty());
    }

    #[test]
    fn there_are_only_so_many() {
        let locks = Locks::default();
        let lock = |number| Lock { key: Key(0, number, 1), shared: false };
        for number in 0..10_000 {
            assert!(locks.try_lock(1, lock(number), Until::Unlocked).unwrap());
        }
        assert_eq!(locks.try_lock(1, lock(10_000), Until::Unlocked).unwrap_err().sqlstate(), "53200");
        // What is held can be taken again, and asked for by others.
        assert!(locks.try_lock(1, lock(0), Until::Unlocked).unwrap());
        assert!(!locks.try_lock(2, lock(0), Until::Unlocked).unwrap());
        assert!(locks.unlock(1, lock(1)) && locks.try_lock(2, lock(10_000), Until::Unlocked).unwrap());
    }
}

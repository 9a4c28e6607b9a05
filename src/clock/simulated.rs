//! A clock that a test drives, one for each thread: it stands still while anything runs, and jumps to the next timer
//! when nothing can. A runtime on the thread calls [`advance`] whenever it would park.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

struct Clock {
    /// What every [`Instant`] of this clock is counted from.
    start: Instant,
    /// The time at `start`, in microseconds since 1970.
    start_micros: i64,
    /// Microseconds since `start`.
    elapsed: i64,
    /// By when they are due, in microseconds since `start`; the second number tells those apart that are due together.
    timers: BTreeMap<(i64, u64), Waker>,
    next_timer: u64,
}

fn with<T>(f: impl FnOnce(&mut Clock) -> T) -> Option<T> {
    CLOCK.with_borrow_mut(|clock| clock.as_mut().map(f))
}

/// From now on this thread's clock is simulated, and shows this time.
pub fn start(micros: i64) {
    let start = Instant::now();
    let clock = Clock { start, start_micros: micros, elapsed: 0, timers: BTreeMap::new(), next_timer: 0 };
    CLOCK.set(Some(clock));
}

/// Jumps to the next timer and wakes those who wait for it. `false`: nobody waits.
pub fn advance() -> bool {
    let due = with(|clock| {
        clock.elapsed = clock.timers.keys().next()?.0.max(clock.elapsed);
        let later = clock.timers.split_off(&(clock.elapsed, u64::MAX));
        Some(std::mem::replace(&mut clock.timers, later))
    });
    let due = due.flatten().unwrap_or_default();
    let any = !due.is_empty();
    due.into_values().for_each(Waker::wake);
    any
}

/// Whether this thread's clock is simulated.
pub fn is_on() -> bool {
    CLOCK.with_borrow(Option::is_some)
}

pub(super) fn now_micros() -> Option<i64> {
    with(|clock| clock.start_micros + clock.elapsed)
}

pub(super) fn now() -> Option<Instant> {
    with(|clock| clock.start + Duration::from_micros(clock.elapsed.unsigned_abs()))
}

pub(super) fn sleep_until(at: Instant) -> Option<Sleep> {
    with(|clock| {
        let until = at.saturating_duration_since(clock.start).as_nanos().div_ceil(1000);
        let key = (i64::try_from(until).unwrap_or(i64::MAX), clock.next_timer);
        clock.next_timer += 1;
        Sleep { key }
    })
}

/// Waits for its time.
pub(super) struct Sleep {
    key: (i64, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waits = with(|clock| {
            let waits = clock.elapsed < self.key.0;
            if waits {
                clock.timers.insert(self.key, context.waker().clone());
            }
            waits
        });
        if waits == Some(true) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        with(|clock| clock.timers.remove(&self.key));
    }
}

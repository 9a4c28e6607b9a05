//! What sessions share of each other: who is there, and which statement an interrupt reaches.
//!
//! What a session is, and what interrupts its statement, is `registry.rs`'s affair; here are the locks alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sync::{Mutex, MutexGuard, PoisonError};

/// The sessions that there are, by their numbers.
#[derive(Debug)]
pub struct Roster<M> {
    inner: Mutex<Inner<M>>,
}

#[derive(Debug)]
struct Inner<M> {
    closed: bool,
    members: BTreeMap<i32, Arc<M>>,
}

impl<M> Default for Roster<M> {
    fn default() -> Self {
        Self { inner: Mutex::new(Inner { closed: false, members: BTreeMap::new() }) }
    }
}

impl<M: Member> Roster<M> {
    /// Enters one that has a number of its own, if `room` finds that there is some beside those that are there. It
    /// leaves when the answer is dropped. `None`: the roster is closed.
    ///
    /// # Errors
    /// What `room` says.
    pub fn enter<E>(
        self: &Arc<Self>,
        number: i32,
        member: M,
        room: impl FnOnce(&BTreeMap<i32, Arc<M>>) -> Result<(), E>,
    ) -> Result<Option<Seat<M>>, E> {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Ok(None);
        }
        room(&inner.members)?;
        let member = Arc::new(member);
        inner.members.insert(number, Arc::clone(&member));
        Ok(Some(Seat { number, member, roster: Arc::clone(self) }))
    }

    /// The one with this number, if it is `right`.
    pub fn find(&self, number: i32, right: impl FnOnce(&M) -> bool) -> Option<Arc<M>> {
        let member = lock(&self.inner).members.get(&number).cloned();
        member.filter(|member| right(member))
    }

    /// All that there are.
    pub fn all(&self) -> Vec<Arc<M>> {
        lock(&self.inner).members.values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.inner).members.len()
    }

    /// Lets nobody enter any more. Answers all that are still there.
    pub fn close(&self) -> Vec<Arc<M>> {
        lock(&self.inner).closed = true;
        self.all()
    }
}

/// A session, as the roster knows it.
pub trait Member {
    /// It has gone: an interrupt that was on its way reaches nothing, and it holds on to nothing.
    fn gone(&self);
}

/// The place of a session in the roster.
#[derive(Debug)]
pub struct Seat<M: Member> {
    number: i32,
    member: Arc<M>,
    roster: Arc<Roster<M>>,
}

impl<M: Member> Seat<M> {
    /// The session, for whatever outlives it.
    pub fn member(&self) -> &Arc<M> {
        &self.member
    }
}

impl<M: Member> Drop for Seat<M> {
    fn drop(&mut self) {
        self.member.gone();
        lock(&self.roster.inner).members.remove(&self.number);
    }
}

/// Why a statement is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    User,
    Timeout,
    Terminated,
}

/// What a session runs.
pub trait Interruptible {
    /// Makes the statement end soon.
    fn interrupt(&self);
}

/// One statement after the other, and what interrupts the present one.
#[derive(Debug)]
pub struct Statements<R> {
    inner: Mutex<Present<R>>,
}

#[derive(Debug)]
struct Present<R> {
    /// Counts the statements.
    number: u64,
    /// Whether one is running.
    active: bool,
    /// Why the present one is to end.
    reason: Option<Reason>,
    /// Whether all that begin are interrupted too: the session is to end.
    ending: bool,
    running: R,
}

impl<R: Interruptible> Statements<R> {
    /// None has begun yet.
    pub fn new(running: R) -> Self {
        Self { inner: Mutex::new(Present { number: 0, active: false, reason: None, ending: false, running }) }
    }

    /// The next statement begins, once `change` has told what interrupts it: `change` has the statement's number.
    pub fn begin(&self, change: impl FnOnce(&mut R, u64)) {
        let mut present = lock(&self.inner);
        present.number += 1;
        present.active = true;
        present.reason = None;
        let number = present.number;
        change(&mut present.running, number);
        // Whoever ends the session may have come between two statements, where there was nothing to interrupt.
        if present.ending {
            present.interrupt(Reason::Terminated);
        }
    }

    /// The statement has ended: nothing interrupts it any more.
    pub fn end(&self, change: impl FnOnce(&mut R)) {
        let mut present = lock(&self.inner);
        present.active = false;
        present.reason = None;
        change(&mut present.running);
    }

    /// Reads or changes what is running, and whether it is.
    pub fn with<T>(&self, act: impl FnOnce(&mut R, bool) -> T) -> T {
        let mut present = lock(&self.inner);
        let active = present.active;
        act(&mut present.running, active)
    }

    /// Why the present statement is to end, if it is.
    pub fn reason(&self) -> Option<Reason> {
        lock(&self.inner).reason
    }

    /// Interrupts the present statement; nothing between two.
    pub fn cancel(&self) {
        lock(&self.inner).interrupt(Reason::User);
    }

    /// Interrupts the statement with this number, if it still runs.
    pub fn time_out(&self, number: u64) {
        let mut present = lock(&self.inner);
        if present.number == number {
            present.interrupt(Reason::Timeout);
        }
    }

    /// Interrupts the present statement, and each that begins after it.
    pub fn terminate(&self) {
        let mut present = lock(&self.inner);
        present.ending = true;
        present.interrupt(Reason::Terminated);
    }
}

impl<R: Interruptible> Present<R> {
    /// The first reason is the one that is told.
    fn interrupt(&mut self, reason: Reason) {
        if self.active {
            self.reason.get_or_insert(reason);
            self.running.interrupt();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

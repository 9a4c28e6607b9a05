//! Things that are set up once, lent out and given back: the store's readers.
//!
//! What is set up in an old way never comes back into the pool, also when it was lent out while the way changed.

use super::sync::{Mutex, MutexGuard, PoisonError};

/// Things of type `T`, each set up by an `S`.
pub struct Pool<S, T> {
    limit: usize,
    inner: Mutex<Inner<S, T>>,
}

struct Inner<S, T> {
    setup: Option<S>,
    /// How often the setup has changed.
    generation: u64,
    idle: Vec<T>,
}

/// What [`Pool::take`] has.
pub enum Taken<S, T> {
    /// An idle one.
    Idle(T),
    /// None: a new one has to be made, and set up like this.
    New(Option<S>),
}

impl<S: Clone, T> Pool<S, T> {
    /// An empty pool that keeps so many idle ones.
    pub fn new(limit: usize) -> Self {
        Self { limit, inner: Mutex::new(Inner { setup: None, generation: 0, idle: Vec::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S, T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How new ones are set up from now on.
    pub fn set_setup(&self, setup: S) {
        let mut inner = self.lock();
        inner.setup = Some(setup);
        inner.generation += 1;
        inner.idle.clear();
    }

    /// An idle one, or how to make one; and the generation that it belongs to.
    pub fn take(&self) -> (Taken<S, T>, u64) {
        let mut inner = self.lock();
        let taken = inner.idle.pop().map_or_else(|| Taken::New(inner.setup.clone()), Taken::Idle);
        (taken, inner.generation)
    }

    /// Takes one back, if it is still set up as they should be and there is room.
    pub fn give_back(&self, thing: T, generation: u64) {
        let mut inner = self.lock();
        if inner.generation == generation && inner.idle.len() < self.limit {
            inner.idle.push(thing);
        }
    }
}

//! Tokio's watch channel, as far as the engine uses it, for tests: on a simulated clock those who wait are woken in the
//! order in which they began to. Tokio wakes them in an order that it draws anew in every process.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::watch;

use crate::clock::simulated;

pub struct Sender<T> {
    // Before `waiting`, so that it is closed already when those who wait are woken for the last time.
    inner: watch::Sender<T>,
    waiting: Waiting,
}

struct Waiting(Arc<Notify>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

#[derive(Clone)]
pub struct Receiver<T> {
    inner: watch::Receiver<T>,
    waiting: Arc<Notify>,
}

pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    pub fn new(value: T) -> Self {
        Self { inner: watch::Sender::new(value), waiting: Waiting(Arc::default()) }
    }

    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { inner: self.inner.subscribe(), waiting: Arc::clone(&self.waiting.0) }
    }

    pub fn borrow(&self) -> watch::Ref<'_, T> {
        self.inner.borrow()
    }

    pub fn send_replace(&self, value: T) -> T {
        let before = self.inner.send_replace(value);
        self.waiting.0.notify_waiters();
        before
    }

    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let modified = self.inner.send_if_modified(modify);
        if modified {
            self.waiting.0.notify_waiters();
        }
        modified
    }
}

impl<T> Receiver<T> {
    pub fn borrow(&self) -> watch::Ref<'_, T> {
        self.inner.borrow()
    }

    pub fn borrow_and_update(&mut self) -> watch::Ref<'_, T> {
        self.inner.borrow_and_update()
    }

    pub fn has_changed(&self) -> Result<bool, watch::error::RecvError> {
        self.inner.has_changed()
    }

    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        if !simulated::is_on() {
            return self.inner.changed().await;
        }
        loop {
            let mut woken = std::pin::pin!(self.waiting.notified());
            woken.as_mut().enable();
            if self.inner.has_changed()? {
                self.inner.mark_unchanged();
                return Ok(());
            }
            woken.await;
        }
    }
}

//! A thread that owns something and runs jobs on it, in the order in which they were sent.

use super::sync::{mpsc, thread};

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The thread's queue. Dropping it waits until every job that was sent has been run.
pub struct Queue<T> {
    jobs: Option<mpsc::Sender<Job<T>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl<T: Send + 'static> Queue<T> {
    /// Starts the thread. `end` is run last.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(name: &str, mut owned: T, end: impl FnOnce(T) + Send + 'static) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job<T>>();
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            while let Ok(job) = queue.recv() {
                job(&mut owned);
            }
            end(owned);
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Adds a job. `false`: the thread is gone, and the job with it.
    pub fn send(&self, job: impl FnOnce(&mut T) + Send + 'static) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(Box::new(job)).is_ok())
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

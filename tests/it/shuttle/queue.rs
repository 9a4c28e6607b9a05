//! The writer's queue: what is sent is run, in order, and before it is gone.

use shuttle::sync::{Arc, Mutex, mpsc};
use shuttle::thread;

use super::SCHEDULES;
use super::queue_core::Queue;

/// Two sessions send transactions and wait for the answers, or go away without; then the store is dropped. Every job is
/// run once, each session's in its order, every answer arrives, and the end comes last.
#[test]
fn no_job_and_no_answer_is_lost() {
    shuttle::check_random(
        || {
            let log = Arc::new(Mutex::new(Vec::new()));
            let ended = Arc::clone(&log);
            let end = move |done: Vec<(u32, u32)>| ended.lock().unwrap().extend(done);
            let queue = Arc::new(Queue::start("writer", Vec::new(), end).unwrap());
            let sessions: Vec<_> = (0..2)
                .map(|session| {
                    let queue = Arc::clone(&queue);
                    thread::spawn(move || {
                        for nth in 0..3 {
                            let (answer, answered) = mpsc::channel();
                            let sent = queue.send(move |done: &mut Vec<(u32, u32)>| {
                                done.push((session, nth));
                                // Whoever asked may be gone.
                                let _ = answer.send(nth);
                            });
                            assert!(sent);
                            if nth != 1 {
                                assert_eq!(answered.recv(), Ok(nth));
                            }
                        }
                    })
                })
                .collect();
            drop(queue);
            sessions.into_iter().for_each(|session| session.join().unwrap());
            let done = log.lock().unwrap().clone();
            for session in 0..2 {
                let own: Vec<u32> = done.iter().filter(|(who, _)| *who == session).map(|(_, nth)| *nth).collect();
                assert_eq!(own, [0, 1, 2], "session {session} of {done:?}");
            }
        },
        SCHEDULES,
    );
}

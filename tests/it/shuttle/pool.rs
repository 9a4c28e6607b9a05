//! Readers that are lent out while the way to set them up changes.

use shuttle::sync::Arc;
use shuttle::thread;

use super::SCHEDULES;
use super::pool_core::{Pool, Taken};

/// A reader is the number of the setup that it has had.
fn take(pool: &Pool<u32, u32>) -> (u32, u64) {
    match pool.take() {
        (Taken::Idle(reader), generation) => (reader, generation),
        (Taken::New(setup), generation) => {
            // Opening takes a while.
            thread::yield_now();
            (setup.unwrap_or(0), generation)
        }
    }
}

/// Once a setup is set, nobody gets a reader without it.
#[test]
fn no_reader_has_an_old_setup() {
    shuttle::check_random(
        || {
            let pool = Arc::new(Pool::new(2));
            let users: Vec<_> = (0..2)
                .map(|_| {
                    let pool = Arc::clone(&pool);
                    thread::spawn(move || {
                        for _ in 0..2 {
                            let (reader, generation) = take(&pool);
                            thread::yield_now();
                            pool.give_back(reader, generation);
                        }
                    })
                })
                .collect();
            for setup in 1..=2 {
                pool.set_setup(setup);
                let (reader, generation) = take(&pool);
                assert_eq!(reader, setup);
                pool.give_back(reader, generation);
            }
            users.into_iter().for_each(|user| user.join().unwrap());
            let readers: Vec<u32> = (0..3).map(|_| take(&pool).0).collect();
            assert_eq!(readers, [2; 3]);
        },
        SCHEDULES,
    );
}

//! Sessions that interrupt each other, end and begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Mutex, mpsc};
use shuttle::thread;

use super::SCHEDULES;
use super::roster_core::{Interruptible, Member, Reason, Roster, Seat, Statements};

/// The token of the present statement, as the session and its interrupts share it.
#[derive(Default)]
struct Token {
    fired: AtomicBool,
    wake: Mutex<Option<mpsc::Sender<()>>>,
}

impl Token {
    fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}

impl Interruptible for Arc<Token> {
    fn interrupt(&self) {
        self.fired.store(true, Ordering::SeqCst);
        if let Some(wake) = self.wake.lock().unwrap().take() {
            wake.send(()).unwrap();
        }
    }
}

struct Session {
    key: u32,
    statements: Statements<Arc<Token>>,
}

impl Member for Session {
    fn gone(&self) {
        self.statements.end(|_| {});
    }
}

type Sessions = Roster<Session>;

fn enter(sessions: &Arc<Sessions>, number: i32, key: u32) -> Option<Seat<Session>> {
    let session = Session { key, statements: Statements::new(Arc::default()) };
    sessions.enter(number, session, |_| Ok::<_, std::convert::Infallible>(())).unwrap()
}

/// A cancel request.
fn cancel(sessions: &Sessions, number: i32, key: u32) -> bool {
    let found = sessions.find(number, |session| session.key == key);
    // The session may go, and its number be given away, before the cancel gets through.
    thread::yield_now();
    found.inspect(|session| session.statements.cancel()).is_some()
}

/// A statement begins. Answers its token and its number.
fn begin(session: &Session) -> (Arc<Token>, u64) {
    let (token, mut number) = (Arc::<Token>::default(), 0);
    session.statements.begin(|running, nth| {
        *running = Arc::clone(&token);
        number = nth;
    });
    (token, number)
}

/// Runs a statement to its end. Answers its token, and whether that had fired by then.
fn run(session: &Session, during: impl FnOnce(u64)) -> (Arc<Token>, bool) {
    let (token, number) = begin(session);
    during(number);
    let reason = session.statements.reason();
    assert!(reason.is_none() || token.fired(), "{reason:?} was meant for a statement before");
    let mut fired = false;
    session.statements.end(|running| fired = running.fired());
    assert_eq!(session.statements.reason(), None);
    (token, fired)
}

/// One cancel request comes at any time, and one surely during the last statement; others have a wrong key or number.
/// The first interrupts one statement at most, which is running then; the second just the last.
#[test]
fn a_cancel_reaches_its_session_and_the_statement_that_runs() {
    shuttle::check_random(
        || {
            let sessions = Arc::new(Sessions::default());
            let (one, other) = (enter(&sessions, 1, 11).unwrap(), enter(&sessions, 2, 22).unwrap());
            let wrong = {
                let sessions = Arc::clone(&sessions);
                thread::spawn(move || {
                    assert!(!cancel(&sessions, 1, 22));
                    assert!(!cancel(&sessions, 2, 11));
                    assert!(!cancel(&sessions, 3, 11));
                })
            };
            let right = {
                let sessions = Arc::clone(&sessions);
                thread::spawn(move || assert!(cancel(&sessions, 1, 11)))
            };
            let bystander = thread::spawn(move || {
                for _ in 0..3 {
                    let (token, _) = run(other.member(), |_| thread::yield_now());
                    assert!(!token.fired(), "another session was cancelled");
                }
            });
            let mut ended: Vec<_> = (0..3).map(|_| run(one.member(), |_| thread::yield_now())).collect();
            right.join().unwrap();
            ended.push(run(one.member(), |_| {
                assert!(cancel(&sessions, 1, 11));
                assert_eq!(one.member().statements.reason(), Some(Reason::User));
            }));
            wrong.join().unwrap();
            bystander.join().unwrap();
            let fired: Vec<bool> = ended.iter().map(|(_, fired)| *fired).collect();
            assert!(ended.iter().all(|(token, fired)| token.fired() == *fired), "cancelled after its end: {fired:?}");
            assert!(fired[3] && fired[..3].iter().filter(|fired| **fired).count() <= 1, "{fired:?}");
            drop(one);
            assert_eq!(sessions.len(), 0);
        },
        SCHEDULES,
    );
}

/// A timeout that is late finds the next statement running.
#[test]
fn a_timeout_reaches_no_later_statement() {
    shuttle::check_random(
        || {
            let sessions = Arc::new(Sessions::default());
            let seat = enter(&sessions, 1, 11).unwrap();
            let timer = Mutex::new(None);
            let (first, fired) = run(seat.member(), |number| {
                let session = Arc::clone(seat.member());
                *timer.lock().unwrap() = Some(thread::spawn(move || session.statements.time_out(number)));
                thread::yield_now();
            });
            let (next, _) = run(seat.member(), |_| thread::yield_now());
            timer.into_inner().unwrap().unwrap().join().unwrap();
            assert_eq!(first.fired(), fired, "timed out after its end");
            assert!(!next.fired(), "the next statement was timed out");
        },
        SCHEDULES,
    );
}

/// A session is lost in the middle of a statement, while it is cancelled; its number is given to another at once.
#[test]
fn a_session_that_has_gone_is_not_cancelled_nor_is_its_successor() {
    shuttle::check_random(
        || {
            let sessions = Arc::new(Sessions::default());
            let lost = enter(&sessions, 1, 11).unwrap();
            let (token, _) = begin(lost.member());
            let canceller = {
                let sessions = Arc::clone(&sessions);
                thread::spawn(move || cancel(&sessions, 1, 11))
            };
            thread::yield_now();
            drop(lost);
            let fired = token.fired();
            assert_eq!(sessions.len(), 0);
            let successor = enter(&sessions, 1, 22).unwrap();
            let (next, _) = run(successor.member(), |_| thread::yield_now());
            canceller.join().unwrap();
            assert_eq!(token.fired(), fired, "cancelled after it had gone");
            assert!(!next.fired(), "its successor was cancelled");
            assert_eq!(sessions.len(), 1);
            drop(successor);
            assert_eq!(sessions.len(), 0);
        },
        SCHEDULES,
    );
}

/// Each session that gets in runs a short statement, and one that lasts until it is interrupted: if the end of the
/// server passes one over, that one waits for ever, and the scheduler reports it.
#[test]
fn shutdown_leaves_no_session_running() {
    shuttle::check_random(
        || {
            let sessions = Arc::new(Sessions::default());
            let clients: Vec<_> = (0..3)
                .map(|number| {
                    let sessions = Arc::clone(&sessions);
                    thread::spawn(move || {
                        let Some(seat) = enter(&sessions, number, 11) else { return };
                        run(seat.member(), |_| thread::yield_now());
                        let (wake, woken) = mpsc::channel();
                        let token = Arc::new(Token { wake: Mutex::new(Some(wake)), ..Token::default() });
                        seat.member().statements.begin(|running, _| *running = Arc::clone(&token));
                        woken.recv().unwrap();
                        assert_eq!(seat.member().statements.reason(), Some(Reason::Terminated));
                        seat.member().statements.end(|_| {});
                    })
                })
                .collect();
            thread::yield_now();
            sessions.close().iter().for_each(|session| session.statements.terminate());
            assert!(enter(&sessions, 9, 11).is_none());
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert_eq!((sessions.len(), sessions.all().len()), (0, 0));
        },
        SCHEDULES,
    );
}

/// Three clients want two places.
#[test]
fn no_more_sessions_than_the_limit() {
    shuttle::check_random(
        || {
            let sessions = Arc::new(Sessions::default());
            let inside = Arc::new(AtomicUsize::new(0));
            let clients: Vec<_> = (0..3)
                .map(|number| {
                    let (sessions, inside) = (Arc::clone(&sessions), Arc::clone(&inside));
                    thread::spawn(move || {
                        let session = Session { key: 0, statements: Statements::new(Arc::default()) };
                        let room = |there: &BTreeMap<_, _>| if there.len() < 2 { Ok(()) } else { Err(()) };
                        let Ok(Some(seat)) = sessions.enter(number, session, room) else { return false };
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        assert!(sessions.len() <= 2);
                        let idle = seat.member().statements.with(|_, active| !active);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        idle
                    })
                })
                .collect();
            let entered =
                clients.into_iter().filter_map(|client| client.join().ok()).filter(|entered| *entered).count();
            assert!(entered >= 2, "a place stayed empty: {entered}");
            assert_eq!(sessions.len(), 0);
        },
        SCHEDULES,
    );
}

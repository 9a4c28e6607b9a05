//! A seed from start to end: some lives of the process, each ended by its death, then all heals and is judged.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use tidegate::clock;
use tidegate::engine::embedded::hooks::{Gate, Hooks, Point};
use tidegate::engine::embedded::{Config, Embedded};
use tidegate::engine::{Engine, RateLimit};
use tidegate::store::relations::RelationKind;
use tidegate::store::rescales::Asked;
use tidegate::store::{FILE_NAME, Store};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Ledger, create_source};
use super::oracle;
use super::world::Source;

/// When a run starts, in microseconds since 1970.
const START: i64 = 1_800_000_000_000_000;

const BARRIER_INTERVAL: Duration = Duration::from_millis(100);

/// The longest that a healed world may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is wrong with the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Rescales are committed unseen.
    Unseen,
    /// Rescales are checked when they are asked for.
    CheckedAtRequest,
    /// Moved splits get the states from before the barrier.
    EarlyStates,
}

/// What came of a seed.
pub struct Outcome {
    pub seed: u64,
    pub damage: Option<String>,
    pub trace: Vec<String>,
}

/// A seed that found something.
pub struct Failed {
    pub seed: u64,
    damage: String,
    tail: Vec<String>,
}

impl Outcome {
    pub fn failed(self) -> Option<Failed> {
        let tail = self.trace[self.trace.len().saturating_sub(60)..].to_vec();
        self.damage.map(|damage| Failed { seed: self.seed, damage, tail })
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n...\n{}\nagain: TIDEGATE_SEED={} cargo test --test it sim::one_seed -- --nocapture",
            self.damage,
            self.tail.join("\n"),
            self.seed
        )
    }
}

/// What outlives the process.
pub struct Shared {
    ledger: Mutex<Ledger>,
    trace: Mutex<Vec<String>>,
    /// Cancelled once the world heals.
    pub healing: CancellationToken,
}

impl Shared {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Adds a line to the trace.
    pub fn say(&self, what: &str) {
        let micros = clock::now_micros() - START;
        self.trace.lock().unwrap().push(format!("{:>9.3} ms  {what}", micros as f64 / 1000.0));
    }
}

struct Run {
    rng: fastrand::Rng,
    fault: Fault,
    dir: TempDir,
    sources: BTreeMap<String, Source>,
    shared: Arc<Shared>,
}

/// Runs a seed on this thread.
pub fn run(seed: u64, fault: Fault) -> Outcome {
    clock::simulated::start(START);
    let mut rng = fastrand::Rng::with_seed(seed);
    let sources = ["s0", "s1"].map(|name| (name.to_owned(), Source::new(&mut rng))).into();
    let shared =
        Arc::new(Shared { ledger: Mutex::default(), trace: Mutex::default(), healing: CancellationToken::new() });
    let mut run = Run { rng, fault, dir: new_dir(), sources, shared: Arc::clone(&shared) };
    let damage = run.lives().err();
    if let Some(damage) = &damage {
        shared.say(damage);
    }
    let trace = std::mem::take(&mut *shared.trace.lock().unwrap());
    Outcome { seed, damage, trace }
}

/// A data directory with an empty state file, in memory where there is such a place.
fn new_dir() -> TempDir {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    let memory = Path::new("/dev/shm");
    let new = || if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap();
    let empty = EMPTY.get_or_init(|| {
        let dir = new();
        drop(Store::open_inline(dir.path()).unwrap());
        std::fs::read(dir.path().join(FILE_NAME)).unwrap()
    });
    let dir = new();
    std::fs::write(dir.path().join(FILE_NAME), empty).unwrap();
    dir
}

/// Opens the store again. A test beside this one may be starting a process: between its fork and its exec the child
/// holds the lock that was dropped here, so it may take a moment until it is free.
fn reopen(dir: &Path) -> Result<Store, String> {
    let mut tries = 0;
    loop {
        match Store::open_inline(dir) {
            Err(error) if tries < 2000 && error.to_string().contains("in use by another process") => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.map_err(|error| format!("the store: {error}")),
        }
    }
}

fn sleep(time: Duration) -> impl Future<Output = ()> {
    clock::sleep_until(clock::now() + time)
}

/// How a life of the process ends.
enum End {
    Crash(Arc<Notify>),
    Shutdown,
    Judgement,
}

impl Run {
    fn lives(&mut self) -> Result<(), String> {
        for left in (0..self.rng.usize(1..=4)).rev() {
            let store = reopen(self.dir.path())?;
            self.judge(&store, oracle::always)?;
            let crash = Arc::new(Notify::new());
            let end = match (left, self.rng.u32(..4)) {
                (0, _) => End::Judgement,
                (_, 0) => End::Shutdown,
                _ => End::Crash(Arc::clone(&crash)),
            };
            let crash_at = match end {
                End::Crash(_) if self.rng.bool() => self.rng.u64(1..400),
                _ => u64::MAX,
            };
            let hooks = self.hooks(crash, crash_at);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .on_thread_park(|| {
                    clock::simulated::advance();
                })
                .build()
                .unwrap();
            runtime.block_on(self.live(store, hooks, end))?;
            self.shared.say("the process ends");
        }
        Ok(())
    }

    fn judge<T>(&self, store: &Store, ask: impl FnOnce(&rusqlite::Connection, &Ledger) -> T) -> T {
        store.snapshot().unwrap().with(|file| ask(file, &self.shared.ledger()))
    }

    fn hooks(&mut self, crash: Arc<Notify>, crash_at: u64) -> Hooks {
        let hooks = Hooks::default();
        for (name, source) in &self.sources {
            hooks.connect(name, Arc::new(source.clone()));
        }
        match self.fault {
            Fault::None => {}
            Fault::Unseen => hooks.set_gate(Gate::Unseen),
            Fault::CheckedAtRequest => hooks.set_gate(Gate::AtRequest),
            Fault::EarlyStates => hooks.read_states_early(true),
        }
        let dice = Mutex::new((self.rng.fork(), 0));
        let shared = Arc::clone(&self.shared);
        hooks.at_points(move |point: Point| {
            let mut dice = dice.lock().unwrap();
            dice.1 += 1;
            let (crashes, delay) = (dice.1 == crash_at, Duration::from_micros(dice.0.u64(..20_000)));
            let waits = dice.0.u32(..3) == 0;
            shared.say(&format!("{point:?}"));
            let crash = Arc::clone(&crash);
            Box::pin(async move {
                if crashes {
                    crash.notify_one();
                    std::future::pending::<()>().await;
                }
                if waits {
                    sleep(delay).await;
                }
            })
        });
        hooks
    }

    async fn live(&mut self, store: Store, hooks: Hooks, end: End) -> Result<(), String> {
        let config = Config { barrier_interval: BARRIER_INTERVAL, available_parallelism: 4 };
        let engine = Arc::new(Embedded::start_with(store.clone(), config, hooks));
        for name in ["v0", "v1", "v2"] {
            let client = Client {
                name: name.into(),
                engine: Arc::clone(&engine),
                shared: Arc::clone(&self.shared),
                rng: self.rng.fork(),
            };
            tokio::spawn(client.run());
        }
        tokio::spawn(first_sources(Arc::clone(&engine), self.rng.u32(2..=5), Arc::clone(&self.shared)));
        tokio::spawn(nature(self.sources.clone(), Arc::clone(&self.shared), self.rng.fork()));
        let time = Duration::from_micros(self.rng.u64(100_000..1_200_000));
        match end {
            End::Crash(crash) => {
                tokio::select! {
                    biased;
                    () = crash.notified() => self.shared.say("crash at this point"),
                    () = sleep(time) => self.shared.say("crash"),
                }
                Ok(())
            }
            End::Shutdown => {
                sleep(time).await;
                engine.shutdown().await;
                Ok(())
            }
            End::Judgement => {
                sleep(time).await;
                self.heal_and_judge(&engine, &store).await
            }
        }
    }

    /// Takes every brake off, waits until the world is at rest, and looks at it; then once more, with some more rows.
    async fn heal_and_judge(&mut self, engine: &Embedded, store: &Store) -> Result<(), String> {
        self.shared.say("the world heals");
        self.shared.healing.cancel();
        self.sources.values().for_each(|source| source.heal(&mut self.rng));
        // The last statements of the users.
        sleep(Duration::from_millis(300)).await;
        for source in self.sources.keys() {
            let _ =
                engine.set_rate_limit(RelationKind::Source, source, RateLimit::Source, None, Asked::default()).await;
        }
        for view in ["v0", "v1", "v2"] {
            let _ = engine
                .set_rate_limit(RelationKind::MaterializedView, view, RateLimit::Backfill, None, Asked::default())
                .await;
        }
        for _ in 0..2 {
            self.rest(engine, store).await?;
            self.judge(store, |file, ledger| {
                oracle::always(file, ledger)?;
                oracle::assignment(file, &self.sources)
            })?;
            for source in self.sources.values() {
                source.grow_all(&mut self.rng);
            }
        }
        Ok(())
    }

    async fn rest(&self, engine: &Embedded, store: &Store) -> Result<(), String> {
        let end = clock::now() + PATIENCE;
        loop {
            sleep(Duration::from_millis(150)).await;
            let flushed = engine.flush(&CancellationToken::new()).await;
            let drained = self.judge(store, |file, ledger| {
                oracle::always(file, ledger).map(|()| oracle::is_drained(file, &self.sources))
            })?;
            match (flushed, drained) {
                (Ok(_), Ok(())) => return Ok(()),
                (_, Err(why)) if clock::now() >= end => return Err(format!("the world doesn't come to rest: {why}")),
                _ => {}
            }
        }
    }
}

/// Makes the sources, where they aren't yet there.
async fn first_sources(engine: Arc<Embedded>, parallelism: u32, shared: Arc<Shared>) {
    for name in ["s0", "s1"] {
        loop {
            match create_source(&engine, name, parallelism).await {
                Ok(()) => break shared.say(&format!("CREATE SOURCE {name} with {parallelism}")),
                Err(error) if error.sqlstate() == "42P07" => break,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// Changes the outside world.
async fn nature(sources: BTreeMap<String, Source>, shared: Arc<Shared>, mut rng: fastrand::Rng) {
    loop {
        sleep(Duration::from_micros(rng.u64(..150_000))).await;
        if shared.healing.is_cancelled() {
            return;
        }
        let (name, source) = sources.iter().nth(rng.usize(..sources.len())).unwrap();
        let change = source.change(&mut rng);
        shared.say(&format!("{name}: {change}"));
    }
}

//! Does to a running engine, step by step, what the model checker has just found, and looks for the damage there. Then
//! the same with nothing left out.
//!
//! The model goes along: after every barrier, crash and loss the state table, the owners and the answer to a rescale
//! must be what the model says. So a replay is also a check that the model is like the engine.
//!
//! The hooks can't keep a barrier's phases apart, nor a rescale's request and its barrier. No shortest schedule needs it;
//! one that did would fail here.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::FromSql;
use stateright::Model as _;
use tempfile::TempDir;
use tidegate::backfill::check::Policy;
use tidegate::backfill::state::BackfillStateWithProgress;
use tidegate::backfill::target::Target;
use tidegate::engine::embedded::hooks::{Gate as EngineGate, Hooks};
use tidegate::engine::embedded::{Config, Embedded};
use tidegate::engine::{CreateSource, CreateView, Engine as _, Rescale, Rescaled};
use tidegate::error::{Error, Refusal};
use tidegate::store::{FILE_NAME, Store};
use tokio_util::sync::CancellationToken;

use super::cell::Damage;
use super::exact::{Exact, Step};
use super::hand::{Hand, Offer, Role};
use super::negative::{self, Negative};
use super::world::{Alter, Gate, Statement, Switches, World, split_id};

/// How it ended, after all has been delivered and some more barriers.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// Whether each rescale of the schedule was committed.
    rescaled: Vec<bool>,
    /// How often each row is in the view, by split and offset.
    rows: BTreeMap<(usize, i64), usize>,
    /// Splits whose row says that they aren't Finished, or that have none.
    unfinished: Vec<usize>,
    /// Whether the view is said to be complete.
    created: bool,
    /// `tidegate.invariant_violations`: split and message.
    violations: Vec<(usize, String)>,
    /// Why the engine built its actors anew.
    recoveries: Vec<String>,
}

struct Replay {
    exact: Exact,
    /// The model's.
    world: World,
    engine: Embedded,
    store: Store,
    hooks: Hooks,
    hand: Hand,
    rescaled: Vec<bool>,
    dir: TempDir,
}

impl Replay {
    /// A source, and a view that has just been made.
    async fn new(exact: Exact) -> Self {
        let world = exact.init_states().remove(0);
        let hand = Hand::new(&exact.logs, exact.history);
        let hooks = Hooks::default();
        hooks.barriers_on_demand(true);
        hooks.connect("s", Arc::new(hand.clone()));
        hooks.read_states_early(exact.switches.early);
        hooks.set_gate(match exact.switches.gate {
            Gate::On => EngineGate::On,
            Gate::Off => EngineGate::Unseen,
            Gate::AtRequest => EngineGate::AtRequest,
        });
        let dir = TempDir::new().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let config = Config { barrier_interval: Duration::from_secs(1), available_parallelism: 4 };
        let engine = Embedded::start_with(store.clone(), config, hooks.clone());
        hand.expect(Role::Live, world.actors);
        engine.create_source(source(world.actors), &CancellationToken::new()).await.unwrap();
        hand.exist(exact.logs[0].len());
        hand.expect(Role::Scan, world.actors);
        engine.create_view(view(), &CancellationToken::new()).await.unwrap();
        let replay = Self { exact, world, engine, store, hooks, hand, rescaled: Vec::new(), dir };
        replay.compare();
        replay
    }

    async fn step(&mut self, step: &Step) {
        let next = self.exact.step(&self.world, step);
        match step {
            Step::Source { split, offset } => self.deal(Role::Live, *split, entry(*offset)).await,
            Step::Reader { split, offset, .. } => self.deal(Role::Scan, *split, entry(*offset)).await,
            // Part of the rescale that follows: see `replay`.
            Step::Ask(_) | Step::Barrier => {}
            Step::Commit(None) => {
                self.engine.flush(&CancellationToken::new()).await.unwrap();
            }
            Step::Commit(Some(Statement::Alter(alter))) => {
                let committed = self.alter(*alter, &next).await;
                assert_eq!(committed, next.actors != self.world.actors, "{step:?}");
                self.rescaled.push(committed);
            }
            // By itself. If an actor died of it, a barrier finds out.
            Step::Apply if matches!(next.damage, Some(Damage::Unexpected(_))) => {
                let _ = self.engine.flush(&CancellationToken::new()).await;
            }
            Step::Apply => {}
            Step::Crash { lost } => {
                if let Some((_, split)) = lost {
                    self.hooks.lose_row("mv", split_id(*split).as_str());
                }
                self.hand.expect(Role::Scan, next.actors);
                self.hand.expect(Role::Live, next.actors);
                self.engine.recover().await.unwrap();
            }
            Step::Lose { split, .. } => {
                let file = Connection::open(self.dir.path().join(FILE_NAME)).unwrap();
                let lost = file.execute("DELETE FROM backfill_states WHERE split_id = ?1", [split.to_string()]);
                assert_eq!(lost.unwrap(), 1);
            }
            Step::Live { .. } | Step::Cancel | Step::Commit(Some(_)) => panic!("can't be done here: {step:?}"),
        }
        self.world = next;
        if !matches!(step, Step::Source { .. } | Step::Reader { .. } | Step::Ask(_) | Step::Barrier) {
            self.compare();
        }
    }

    async fn deal(&self, role: Role, split: usize, last: usize) {
        let offer = Offer { role, split, last };
        let dealt = tokio::time::timeout(Duration::from_secs(60), self.hand.deal(offer)).await;
        assert!(dealt.is_ok(), "nobody takes {offer:?}");
    }

    /// Whether it was committed.
    async fn alter(&self, alter: Alter, next: &World) -> bool {
        let new = next.actors.saturating_sub(self.world.actors);
        self.hand.expect(Role::Scan, new);
        self.hand.expect(Role::Live, new);
        if matches!(self.exact.step(next, &Step::Apply).damage, Some(Damage::Unexpected(_))) {
            // The engine then recovers.
            self.hand.expect(Role::Scan, next.actors);
            self.hand.expect(Role::Live, next.actors);
        }
        match self.engine.rescale(rescale(alter), &CancellationToken::new()).await {
            Ok(Rescaled::Committed { .. }) => true,
            Err(Error::UnsafeRescale(_)) => false,
            other => panic!("{alter:?}: {other:?}"),
        }
    }

    fn ask<T: FromSql, U: FromSql>(&self, sql: &str) -> Vec<(T, U)> {
        self.store.snapshot().unwrap().with(|file| {
            let mut statement = file.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.collect::<rusqlite::Result<_>>().unwrap()
        })
    }

    fn rows(&self) -> BTreeMap<usize, BackfillStateWithProgress> {
        let rows = self.ask("SELECT split_id, state FROM backfill_states");
        let row = |(split, state): (String, String)| {
            (split.parse().unwrap(), BackfillStateWithProgress::from_json(&state).unwrap())
        };
        rows.into_iter().map(row).collect()
    }

    /// The model and the state file are of one mind.
    fn compare(&self) {
        let rows = self.world.views[0].rows.iter().enumerate();
        let rows: BTreeMap<_, _> = rows.filter_map(|(split, row)| Some((split, (*row)?))).collect();
        assert_eq!(self.rows(), rows);
        let owners: Vec<(String, u8)> = self.ask(
            "SELECT x.split_id, a.position FROM split_assignments x JOIN actors a ON a.id = x.actor_id ORDER BY 1",
        );
        assert_eq!(owners.into_iter().map(|(_, owner)| owner).collect::<Vec<_>>(), self.world.owners);
    }

    /// Whatever somebody reads is delivered, and barriers are made, until nothing can change any more.
    async fn drain(&self) {
        for _ in 0..4 {
            self.engine.flush(&CancellationToken::new()).await.unwrap();
            loop {
                let unread = self.hand.unread();
                let Some((role, split)) = unread.first() else { break };
                self.deal(*role, *split, self.exact.logs[*split].len() - 1).await;
            }
        }
    }

    /// A split whose row is lost: it says so where a person looks, every rescale is refused, and a deferred one waits.
    async fn rests(&self, split: usize) {
        let blocked = self.ask::<String, Option<String>>("SELECT split_id, blocked_by FROM split_progress");
        let blocked = blocked.into_iter().find(|(id, _)| *id == split.to_string()).and_then(|(_, why)| why);
        assert!(blocked.as_ref().is_some_and(|why| why.contains("needs a person: recreate")), "{blocked:?}");
        for policy in [Policy::Forwarding, Policy::AllFinished, Policy::StageAware] {
            for (to, deferred) in [(1, false), (1, true), (3, false), (3, true)] {
                let alter = Alter { policy, to, deferred };
                let told = self.engine.rescale(rescale(alter), &CancellationToken::new()).await;
                let holds = match &told {
                    Ok(Rescaled::Deferred { .. }) => deferred,
                    Err(Error::UnsafeRescale(refusal)) => !deferred && refusal.detail.contains("(lost)"),
                    Ok(_) | Err(_) => false,
                };
                assert!(holds, "{alter:?}: {told:?}");
            }
        }
        self.drain().await;
        let committed = self.ask::<i64, String>("SELECT id, statement FROM rescales WHERE decision = 'committed'");
        assert_eq!(committed, []);
    }

    fn end(&self) -> End {
        let splits = 0..self.exact.logs.len();
        let finished: BTreeSet<usize> =
            self.rows().into_iter().filter(|(_, row)| row.is_finished()).map(|(split, _)| split).collect();
        let (job, status) = self.ask::<i64, String>("SELECT id, status FROM jobs").remove(0);
        let mut rows = BTreeMap::new();
        for (split, at) in self.ask::<String, i64>(&format!("SELECT _split, _offset FROM mv_{job}")) {
            *rows.entry((split.parse().unwrap(), at)).or_default() += 1;
        }
        let violations = self.ask::<String, String>("SELECT split_id, message FROM invariant_violations");
        let recoveries =
            self.ask("SELECT info_json ->> '$.reason', rowid FROM events WHERE event_type = 'RECOVERY' ORDER BY rowid");
        End {
            rescaled: self.rescaled.clone(),
            rows,
            unfinished: splits.filter(|split| !finished.contains(split)).collect(),
            created: status == "created",
            violations: violations.into_iter().map(|(split, message)| (split.parse().unwrap(), message)).collect(),
            recoveries: recoveries.into_iter().map(|(reason, _): (String, i64)| reason).skip(1).collect(),
        }
    }
}

fn entry(offset: i64) -> usize {
    usize::try_from(offset).unwrap()
}

fn source(actors: u8) -> CreateSource {
    CreateSource {
        name: "s".into(),
        owner: "root".into(),
        definition: "CREATE SOURCE s".into(),
        connector: "test".into(),
        options: tidegate::secret::Options::default(),
        format: tidegate::store::format::MessageFormat::default(),
        columns: vec![("v".into(), "int8".into())],
        parallelism: fixed(actors),
        rate_limit: None,
    }
}

fn view() -> CreateView {
    CreateView {
        name: "mv".into(),
        owner: "root".into(),
        definition: "CREATE MATERIALIZED VIEW mv AS SELECT v FROM s".into(),
        query: "SELECT v FROM s".into(),
        rate_limit: None,
        order: Vec::new(),
        background: true,
    }
}

fn rescale(alter: Alter) -> Rescale {
    Rescale {
        source: "s".into(),
        target: fixed(alter.to),
        policy: alter.policy,
        deferred: alter.deferred,
        statement: format!("ALTER SOURCE s SET PARALLELISM = {}", alter.to),
        requested_by: "root".into(),
        application_name: "replay".into(),
    }
}

fn fixed(n: u8) -> Target {
    Target::Fixed(NonZeroU32::new(n.into()).unwrap())
}

/// Plays a schedule to its end.
async fn play(exact: Exact, schedule: &[Step]) -> (Replay, End) {
    let mut replay = Replay::new(exact).await;
    for (nth, step) in schedule.iter().enumerate() {
        let doable = match (step, &schedule[nth + 1..]) {
            // The engine makes its barrier at once when it is asked.
            (Step::Ask(alter), [Step::Barrier, Step::Commit(Some(Statement::Alter(asked))), ..]) => alter == asked,
            (Step::Barrier, [Step::Commit(_), Step::Apply, ..]) => true,
            (Step::Ask(_) | Step::Barrier, _) => false,
            _ => true,
        };
        assert!(doable, "step {nth} can't be done to the engine: {schedule:?}");
        replay.step(step).await;
    }
    replay.drain().await;
    let end = replay.end();
    (replay, end)
}

/// The negative of that title, with the schedule that the checker finds for it now.
fn found(title: &str) -> (Negative, Vec<Step>) {
    let negative = negative::negatives().into_iter().find(|negative| negative.title.starts_with(title)).unwrap();
    let schedule = negative.schedule();
    (negative, schedule)
}

/// As the product is.
fn mended(exact: &Exact) -> Exact {
    Exact { switches: Switches { gate: Gate::On, early: false, ..exact.switches }, ..exact.clone() }
}

const ALL: &[usize] = &[1, 1, 1];

const NO_ROW: &str = "a split that was seen before has no row in the state table";

/// A replay's end if nothing is wrong: each row once, and all is Finished. `rescaled`: see [`End`].
fn well(rescaled: &[bool]) -> End {
    End {
        rescaled: rescaled.to_vec(),
        rows: counts(ALL),
        unfinished: vec![],
        created: true,
        violations: vec![],
        recoveries: vec![],
    }
}

/// So many times each split's only row.
fn counts(counts: &[usize]) -> BTreeMap<(usize, i64), usize> {
    let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(split, count)| ((split, 0), *count)).collect()
}

#[tokio::test]
async fn the_error_shows_in_the_engine() {
    let (negative, schedule) = found("The error");
    let (replay, end) = play(negative.exact.clone(), &schedule).await;
    let Some(Damage::Unexpected(state)) = replay.world.damage else { panic!("{:?}", replay.world.damage) };
    let message = Refusal::unexpected_state(&state);
    // The engine recovers from it, and as it forgets at which stage the actors were, all comes right in the end.
    let violations = vec![(1, NO_ROW.into()), (1, message.clone())];
    let recoveries = vec!["RECOVER was run".into(), message];
    assert_eq!(end, End { violations, recoveries, ..well(&[true]) });

    let (replay, end) = play(mended(&negative.exact), &schedule).await;
    let violations = vec![(1, NO_ROW.into())];
    let recoveries = vec!["RECOVER was run".into()];
    let rows = counts(&[1, 0, 1]);
    assert_eq!(end, End { rows, unfinished: vec![1], created: false, violations, recoveries, ..well(&[false]) });
    replay.rests(1).await;
}

#[tokio::test]
async fn the_silence_shows_in_the_engine() {
    let (negative, schedule) = found("The silence");
    let (_, end) = play(negative.exact.clone(), &schedule).await;
    assert_eq!(end, End { rows: counts(&[1, 0, 1]), unfinished: vec![1], created: false, ..well(&[true]) });

    let (_, end) = play(mended(&negative.exact), &schedule).await;
    assert_eq!(end, well(&[false]));
}

#[tokio::test]
async fn the_loss_shows_in_the_engine() {
    let (negative, schedule) = found("The loss");
    // The engine looks through its state table, and so there is a line of the missing row. RisingWave has none.
    let violations = vec![(1, NO_ROW.to_owned())];
    let (_, end) = play(negative.exact.clone(), &schedule).await;
    assert_eq!(end, End { rows: counts(&[1, 0, 1]), violations: violations.clone(), ..well(&[true]) });

    // The actor that holds the split knows its state still, and writes it again.
    let (_, end) = play(mended(&negative.exact), &schedule).await;
    assert_eq!(end, End { violations, ..well(&[false]) });
}

#[tokio::test]
async fn the_race_shows_in_the_engine() {
    let (negative, schedule) = found("The race");
    let (_, end) = play(negative.exact.clone(), &schedule).await;
    assert_eq!(end, End { rows: counts(&[1, 0, 1]), unfinished: vec![1], created: false, ..well(&[true]) });

    let (_, end) = play(mended(&negative.exact), &schedule).await;
    assert_eq!(end, well(&[false]));
}

#[tokio::test]
async fn the_early_rescale_shows_in_the_engine() {
    let (negative, schedule) = found("The early rescale");
    let (_, end) = play(negative.exact.clone(), &schedule).await;
    assert_eq!(end, End { rows: counts(&[2, 1, 1]), ..well(&[true]) });

    let (_, end) = play(mended(&negative.exact), &schedule).await;
    assert_eq!(end, well(&[true]));
}

#[tokio::test]
async fn the_lost_row_shows_in_the_engine() {
    let (negative, mut schedule) = found("The lost row");
    let (replay, end) = play(negative.exact.clone(), &schedule).await;
    let violations = vec![(0, NO_ROW.into())];
    let recoveries = vec!["RECOVER was run".to_owned()];
    let missing = End { rows: counts(&[0, 1, 1]), unfinished: vec![0], created: false, violations, ..well(&[]) };
    assert_eq!(end, End { recoveries: recoveries.clone(), ..missing });
    replay.rests(0).await;

    for step in &mut schedule {
        if let Step::Crash { lost } = step {
            *lost = None;
        }
    }
    let (_, end) = play(negative.exact, &schedule).await;
    assert_eq!(end, End { recoveries, ..well(&[]) });
}

//! Every row of a split comes out exactly once and in order, whatever happens; and each way to spoil it is found by the
//! same search, so that the search is known to be able to fail.

use std::collections::BTreeSet;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::sim::{Careless, Damage, Step, World};
use crate::backfill::check::Policy;

const POLICIES: [Policy; 3] = [Policy::Forwarding, Policy::AllFinished, Policy::StageAware];

#[derive(Clone, Debug)]
struct Schedule {
    actors: u32,
    splits: Vec<(u8, u8)>,
    steps: Vec<Step>,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u8>(), 1u8..5).prop_map(|(actor, split, n)| Step::Source(actor, split, n)),
        6 => (any::<u8>(), 1u8..6).prop_map(|(actor, n)| Step::Upstream(actor, n)),
        6 => (any::<u8>(), any::<u8>(), 2u8..8).prop_map(|(actor, split, n)| Step::Reader(actor, split, n)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(actor, split)| Step::Contact(actor, split)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(split, bits)| Step::Append(split, bits)),
        1 => Just(Step::NewSplit),
        5 => Just(Step::Barrier),
        2 => any::<u8>().prop_map(Step::Rescale),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(source, paused)| Step::Pause(source, paused)),
    ]
}

/// Schedules with one more kind of step.
fn schedules(also: impl Strategy<Value = Step> + 'static, steps: usize) -> impl Strategy<Value = Schedule> {
    let step = prop_oneof![30 => step(), 1 => also];
    let steps = proptest::collection::vec(step, 0..steps);
    (1u32..4, proptest::collection::vec((any::<u8>(), 0u8..8), 1..5), steps)
        .prop_map(|(actors, splits, steps)| Schedule { actors, splits, steps })
}

fn crashing() -> impl Strategy<Value = Schedule> {
    schedules(Just(Step::Crash), 120)
}

fn losing_rows() -> impl Strategy<Value = Schedule> {
    schedules(any::<u8>().prop_map(Step::LoseRow), 120)
}

fn run(schedule: &Schedule, policy: Option<Policy>, careless: Careless) -> World {
    let mut world = World::new(schedule.actors, &schedule.splits, policy, careless);
    schedule.steps.iter().for_each(|step| world.step(*step));
    world.settle();
    world
}

/// What goes wrong in so many schedules, always the same ones.
fn search(
    schedules: impl Strategy<Value = Schedule>,
    n: usize,
    policy: Option<Policy>,
    careless: Careless,
) -> BTreeSet<Damage> {
    let mut runner = TestRunner::deterministic();
    let mut schedule = || schedules.new_tree(&mut runner).unwrap().current();
    (0..n).filter_map(|_| run(&schedule(), policy, careless).damage).collect()
}

proptest! {
    #![proptest_config(Config { cases: 300, ..Config::default() })]

    #[test]
    fn every_row_once_and_in_order(schedule in crashing(), policy in 0usize..3) {
        let world = run(&schedule, Some(POLICIES[policy]), Careless::default());
        prop_assert_eq!(world.damage, None);
        prop_assert!(world.is_at_rest(), "it goes forwarding, and a deferred rescale is committed in the end");
    }

    #[test]
    fn no_checked_rescale_does_harm_though_state_rows_get_lost(schedule in losing_rows(), policy in 0usize..3) {
        let world = run(&schedule, Some(POLICIES[policy]), Careless::default());
        prop_assert_eq!(world.damage, None);
        prop_assert!(world.is_at_rest());
    }
}

#[test]
fn checked_rescales_are_committed_by_the_search() {
    let mut runner = TestRunner::deterministic();
    let schedules = crashing();
    let mut schedule = || schedules.new_tree(&mut runner).unwrap().current();
    let committed: usize =
        (0..100).map(|at| run(&schedule(), Some(POLICIES[at % 3]), Careless::default()).committed_rescales).sum();
    assert!(committed > 100, "{committed} rescales in 100 schedules: the search would prove little");
}

#[test]
fn unchecked_rescales_do_all_three_kinds_of_harm() {
    let found = search(losing_rows(), 1500, None, Careless::default());
    for harm in [Damage::Violation, Damage::Hang, Damage::Loss] {
        assert!(found.contains(&harm), "{harm:?} not found, only {found:?}");
    }
}

#[test]
fn unchecked_rescales_do_harm_without_a_lost_row_too() {
    let found = search(schedules(Just(Step::Barrier), 120), 1500, None, Careless::default());
    assert!(found.contains(&Damage::Hang), "{found:?}");
}

#[test]
fn the_table_alone_loses_live_rows_before_the_first_read() {
    let careless = Careless { upstream: true, ..Careless::default() };
    assert!(search(crashing(), 400, Some(Policy::Forwarding), careless).contains(&Damage::Loss));
}

#[test]
fn the_table_alone_believes_an_old_answer_of_the_broker() {
    let careless = Careless { contact: true, ..Careless::default() };
    assert!(search(crashing(), 400, Some(Policy::Forwarding), careless).contains(&Damage::Loss));
}

#[test]
fn the_table_alone_takes_dropped_rows_for_a_gap() {
    let careless = Careless { position: true, ..Careless::default() };
    assert!(search(crashing(), 400, Some(Policy::Forwarding), careless).contains(&Damage::Loss));
}

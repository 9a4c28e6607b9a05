//! Targets, assignments and the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use crate::backfill::assignment::{Assignment, Move, Planner, moves, plan, reassign};
use crate::backfill::id::{ActorId, SplitId};
use crate::backfill::target::Target;

fn assigned(of: &[(i32, &[&str])]) -> Assignment {
    of.iter().map(|(actor, splits)| (ActorId(*actor), splits.iter().map(SplitId::from).collect())).collect()
}

fn splits(of: &[&str]) -> BTreeSet<SplitId> {
    of.iter().map(SplitId::from).collect()
}

#[test]
fn targets() {
    let n = |n| NonZeroU32::new(n).unwrap();
    for (text, target, shown) in [
        ("0", Target::Adaptive, "adaptive"),
        ("ADAPTIVE", Target::Adaptive, "adaptive"),
        ("Default", Target::Adaptive, "adaptive"),
        (" 4 ", Target::Fixed(n(4)), "4"),
        ("1024", Target::Fixed(n(1024)), "1024"),
        ("bounded(4)", Target::Bounded(n(4)), "bounded(4)"),
        ("BOUNDED ( 4 )", Target::Bounded(n(4)), "bounded(4)"),
        ("ratio(0.5)", Target::Ratio(0.5), "ratio(0.5)"),
        ("Ratio(1)", Target::Ratio(1.0), "ratio(1)"),
    ] {
        assert_eq!(Target::parse(text), Ok(target), "{text}");
        assert_eq!(target.to_string(), shown);
        assert_eq!(Target::parse(shown), Ok(target));
    }
    for text in [
        "",
        "x",
        "-1",
        "1.5",
        "1025",
        "99999999999999999999",
        "bounded(0)",
        "bounded()",
        "bounded(1025)",
        "bounded 4",
        "bounded(4",
        "ratio(0)",
        "ratio(1.1)",
        "ratio(-0.5)",
        "ratio(nan)",
        "ratio(inf)",
        "ratio()",
        "4 5",
    ] {
        let error = Target::parse(text).unwrap_err();
        let start = "target parallelism must be a valid number, adaptive, bounded(n), or ratio(r): ";
        assert!(error.starts_with(start) && error.len() > start.len(), "{text}: {error}");
    }
    assert!(Target::parse("1025").unwrap_err().ends_with("1025 is not in the range 0 to 1024"));
    assert!(Target::parse("bounded(0)").unwrap_err().ends_with("bounded(0) is not in the range 1 to 1024"));
}

#[test]
fn targets_resolve() {
    for (text, available, actors) in [
        ("adaptive", 8, 8),
        ("adaptive", 0, 1),
        ("adaptive", 5000, 1024),
        ("4", 2, 4),
        ("bounded(4)", 8, 4),
        ("bounded(4)", 2, 2),
        ("bounded(4)", 0, 1),
        ("ratio(0.5)", 5, 2),
        ("ratio(0.29)", 100, 29),
        ("ratio(0.1)", 4, 1),
        ("ratio(1)", u32::MAX, 1024),
    ] {
        assert_eq!(Target::parse(text).unwrap().resolve(available), actors, "{text} of {available}");
    }
}

#[test]
fn reassigns_as_risingwave_does() {
    let now = assigned(&[(1, &["a", "b"]), (2, &["c"]), (3, &[])]);
    assert_eq!(reassign(&now, &splits(&["a", "b", "c"])), None);
    // New ones go to the fewest; of several, to the lowest id.
    let grown = assigned(&[(1, &["a", "b"]), (2, &["c", "e"]), (3, &["d", "f"])]);
    assert_eq!(reassign(&now, &splits(&["a", "b", "c", "d", "e", "f"])), Some(grown));
    // Those that are gone make room first.
    let swapped = assigned(&[(1, &["d"]), (2, &["c"]), (3, &["e"])]);
    assert_eq!(reassign(&now, &splits(&["c", "d", "e"])), Some(swapped));
    assert_eq!(reassign(&Assignment::new(), &splits(&["a"])), None);
    assert_eq!(reassign(&Assignment::new(), &splits(&[])), None);
}

#[test]
fn moves_name_both_ends() {
    let old = assigned(&[(1, &["a", "b"]), (2, &["x"])]);
    let new = assigned(&[(1, &["a", "n"]), (3, &["b"])]);
    let moved =
        |split: &str, from: Option<i32>, to| Move { split: split.into(), from: from.map(ActorId), to: ActorId(to) };
    assert_eq!(moves(&old, &new), [moved("b", Some(1), 3), moved("n", None, 1)]);
}

#[test]
fn plans_of_extremes() {
    let all = |_: &SplitId| true;
    assert_eq!(plan(&Assignment::new(), 2, ActorId(5), &all), assigned(&[(5, &[]), (6, &[])]));
    assert_eq!(plan(&assigned(&[(1, &["a"])]), 0, ActorId(5), &all), assigned(&[(1, &["a"])]));
    assert_eq!(plan(&assigned(&[(1, &["a"])]), 3, ActorId(5), &all), assigned(&[(1, &["a"]), (5, &[]), (6, &[])]));
}

#[test]
fn an_unfinished_split_goes_where_it_can_be_read() {
    // Three of slot 0 and three of slot 1 stay; slot 2 goes, with a split that is unfinished and one that is finished.
    let owners = [0, 0, 0, 1, 1, 1, 2, 2];
    let finished = [true, true, true, true, true, false, false, true];
    for (can_backfill, receivers) in [([false, true, true], [1, 0]), ([true, false, true], [0, 1])] {
        let planned = Planner { owners: &owners, finished: &finished, can_backfill: &can_backfill }.plan(2);
        assert_eq!(planned.stays, [true, true, false]);
        assert_eq!(planned.owners[6..], receivers, "{can_backfill:?}");
    }
}

/// Up to four actors with up to six splits in all, which of those are finished, and how many actors there shall be.
fn small() -> impl Strategy<Value = (Assignment, BTreeSet<SplitId>, u32)> {
    let owners = (0usize..4).prop_flat_map(|actors| {
        let splits = if actors == 0 { 0..1 } else { 0..7 };
        (proptest::collection::vec((0..actors.max(1), any::<bool>()), splits), 0..=actors)
    });
    (owners, 1u32..5).prop_map(|((owners, actors), to)| {
        let actors = owners.iter().map(|(owner, _)| owner + 1).max().unwrap_or(0).max(actors);
        let mut assignment: Assignment =
            (0..actors).map(|actor| (ActorId(10 * i32::try_from(actor).unwrap()), BTreeSet::new())).collect();
        let mut finished = BTreeSet::new();
        for (at, (owner, is_finished)) in owners.iter().enumerate() {
            let split = SplitId::from(at.to_string());
            assignment.get_mut(&ActorId(10 * i32::try_from(*owner).unwrap())).unwrap().insert(split.clone());
            if *is_finished {
                finished.insert(split);
            }
        }
        (assignment, finished, to)
    })
}

/// The fewest moves, and then the fewest unfinished moves, over all balanced assignments to `to` actors.
fn brute_force(current: &Assignment, finished: &BTreeSet<SplitId>, to: usize) -> (usize, usize) {
    let splits: Vec<(&SplitId, ActorId)> =
        current.iter().flat_map(|(actor, held)| held.iter().map(|split| (split, *actor))).collect();
    let mut actors: Vec<ActorId> = current.keys().copied().collect();
    actors.extend((0..to).map(|n| ActorId(100 + i32::try_from(n).unwrap())));
    let mut best = (usize::MAX, usize::MAX);
    for chosen in (0u32..1 << actors.len()).filter(|chosen| chosen.count_ones() as usize == to) {
        let chosen: Vec<ActorId> = (0..actors.len()).filter(|at| chosen >> at & 1 == 1).map(|at| actors[at]).collect();
        for code in 0..to.pow(u32::try_from(splits.len()).unwrap()) {
            let (mut loads, mut rest, mut cost) = (vec![0; to], code, (0, 0));
            for (split, owner) in &splits {
                loads[rest % to] += 1;
                if chosen[rest % to] != *owner {
                    cost.0 += 1;
                    cost.1 += usize::from(!finished.contains(*split));
                }
                rest /= to;
            }
            if loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1 {
                best = best.min(cost);
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 120, ..Default::default() })]

    #[test]
    fn plans_are_balanced_and_cheapest((current, finished, to) in small()) {
        let next = plan(&current, to, ActorId(100), &|split| finished.contains(split));
        let loads: Vec<usize> = next.values().map(BTreeSet::len).collect();
        prop_assert_eq!(loads.len(), to as usize);
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
        let all = |assignment: &Assignment| assignment.values().flatten().cloned().collect::<Vec<_>>();
        let (mut before, mut after) = (all(&current), all(&next));
        before.sort();
        after.sort();
        prop_assert_eq!(before, after);
        let moves = moves(&current, &next);
        let unfinished = moves.iter().filter(|m| !finished.contains(&m.split)).count();
        prop_assert_eq!((moves.len(), unfinished), brute_force(&current, &finished, to as usize));
        let added = next.keys().filter(|actor| !current.contains_key(actor)).copied().collect::<Vec<_>>();
        let expected = (to as usize).saturating_sub(current.len());
        prop_assert_eq!(added, (0..expected).map(|n| ActorId(100 + n as i32)).collect::<Vec<_>>());
        prop_assert_eq!(plan(&current, to, ActorId(100), &|split| finished.contains(split)), next);
    }
}

#[test]
fn plans_of_many_splits_are_quick() {
    let mut current: BTreeMap<ActorId, BTreeSet<SplitId>> = (0..500).map(|n| (ActorId(n), BTreeSet::new())).collect();
    for n in 0..100_000 {
        current.get_mut(&ActorId(n % 500)).unwrap().insert(n.to_string().into());
    }
    let started = std::time::Instant::now();
    let next = plan(&current, 700, ActorId(1000), &|split| split.as_str().ends_with('7'));
    assert_eq!(next.len(), 700);
    // Some 0.3 s without optimisation. What grows with the square of the splits would take minutes.
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

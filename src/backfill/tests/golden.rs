//! The forms and tables of RisingWave, row by row.

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::backfill::id::{ActorId, Offset, SplitId};
use crate::backfill::stage::{ReaderState, SplitChange, Stage, UnexpectedState, on_first_barrier, on_split_change};
use crate::backfill::state::BackfillState::{self, Backfilling, Finished, SourceCachingUp};
use crate::backfill::state::BackfillStateWithProgress;
use crate::backfill::transition::{
    Emit, Event, on_contact, on_reader_position, on_reader_row, on_upstream_position, on_upstream_row, transition,
};

/// A state with ten rows read.
pub fn state(state: BackfillState, target: Option<i64>) -> BackfillStateWithProgress {
    BackfillStateWithProgress { state, num_consumed_rows: 10, target_offset: target.map(Offset) }
}

pub fn any_state() -> impl Strategy<Value = BackfillStateWithProgress> {
    let offset = || any::<i64>().prop_map(Offset);
    let state = prop_oneof![
        proptest::option::of(offset()).prop_map(Backfilling),
        offset().prop_map(SourceCachingUp),
        Just(Finished),
    ];
    (state, any::<u64>(), proptest::option::of(offset())).prop_map(|(state, num_consumed_rows, target_offset)| {
        BackfillStateWithProgress { state, num_consumed_rows, target_offset }
    })
}

const fn at(offset: i64) -> Offset {
    Offset(offset)
}

fn reading(offset: i64) -> BackfillState {
    Backfilling(Some(at(offset)))
}

#[test]
fn json_and_debug_forms() {
    let rows = [
        (
            r#"{"num_consumed_rows": 530, "state": {"Backfilling": "529"}, "target_offset": "9999"}"#,
            r#"BackfillStateWithProgress { state: Backfilling(Some("529")), num_consumed_rows: 530, target_offset: Some("9999") }"#,
        ),
        (
            r#"{"num_consumed_rows": 0, "state": {"Backfilling": null}, "target_offset": null}"#,
            "BackfillStateWithProgress { state: Backfilling(None), num_consumed_rows: 0, target_offset: None }",
        ),
        (
            r#"{"num_consumed_rows": 12, "state": {"SourceCachingUp": "11"}, "target_offset": "11"}"#,
            r#"BackfillStateWithProgress { state: SourceCachingUp("11"), num_consumed_rows: 12, target_offset: Some("11") }"#,
        ),
        (
            r#"{"num_consumed_rows": 10000, "state": "Finished", "target_offset": "9999"}"#,
            r#"BackfillStateWithProgress { state: Finished, num_consumed_rows: 10000, target_offset: Some("9999") }"#,
        ),
    ];
    for (json, debug) in rows {
        let state: BackfillStateWithProgress = json.parse().unwrap();
        assert_eq!(state.to_json(), json);
        assert_eq!(format!("{state:?}"), debug);
        assert_eq!(UnexpectedState(state).to_string(), format!("Unexpected backfill state: {debug}"));
    }
    let without_target = BackfillStateWithProgress::from_json(r#"{"state":"Finished","num_consumed_rows":0}"#);
    assert_eq!(without_target, Ok(BackfillStateWithProgress::finished()));
    assert_eq!(
        (reading(3).name(), SourceCachingUp(at(3)).name(), Finished.name()),
        ("Backfilling", "SourceCachingUp", "Finished")
    );
}

#[test]
fn json_that_is_not_a_state_is_refused() {
    for json in [
        "",
        "null",
        "{}",
        r#"{"num_consumed_rows": 1, "target_offset": null}"#,
        r#"{"num_consumed_rows": -1, "state": "Finished", "target_offset": null}"#,
        r#"{"num_consumed_rows": 1, "state": "Done", "target_offset": null}"#,
        r#"{"num_consumed_rows": 1, "state": {"SourceCachingUp": null}, "target_offset": null}"#,
        r#"{"num_consumed_rows": 1, "state": {"Backfilling": 529}, "target_offset": null}"#,
        r#"{"num_consumed_rows": 1, "state": "Finished", "target_offset": "9999999999999999999"}"#,
        r#"{"num_consumed_rows": 1, "state": "Finished", "target_offset": "x"}"#,
        r#"{"num_consumed_rows": 1, "state": "Finished", "target_offset": null, "more": 1}"#,
        r#"{"num_consumed_rows": 1, "state": "Finished", "target_offset": null} x"#,
    ] {
        assert!(BackfillStateWithProgress::from_json(json).is_err(), "{json}");
    }
    let error =
        BackfillStateWithProgress::from_json(r#"{"num_consumed_rows": 1, "state": "Finished", "target_offset": "x"}"#);
    assert!(error.unwrap_err().contains(r#"offset "x" is not a signed 64-bit integer"#));
}

#[test]
fn every_row_of_the_upstream_table() {
    let (t, far) = (Some(7), Some(99));
    for (before, u, after, emit) in [
        (state(Backfilling(None), t), 9, state(Backfilling(None), t), Emit::No),
        (state(reading(5), t), 9, state(reading(5), Some(9)), Emit::No),
        (state(reading(5), far), 9, state(reading(5), Some(9)), Emit::No),
        (state(reading(5), None), 9, state(reading(5), Some(9)), Emit::No),
        (state(reading(5), t), 5, state(Finished, t), Emit::No),
        (state(reading(5), t), 4, state(SourceCachingUp(at(5)), t), Emit::No),
        (state(SourceCachingUp(at(5)), t), 4, state(SourceCachingUp(at(5)), t), Emit::No),
        (state(SourceCachingUp(at(5)), t), 5, state(Finished, t), Emit::No),
        (state(SourceCachingUp(at(5)), t), 6, state(Finished, t), Emit::Yes),
        (state(Finished, t), 1, state(Finished, t), Emit::Yes),
    ] {
        assert_eq!(transition(before, Event::Upstream(at(u))), (after, emit), "{before:?} {u}");
        assert_eq!(transition(before, Event::UpstreamPosition(at(u))), (after, Emit::No), "{before:?} {u}");
    }
}

#[test]
fn every_row_of_the_reader_table() {
    let t = Some(7);
    for (before, o, after, emit) in [
        (state(Backfilling(None), t), 7, SourceCachingUp(at(7)), Emit::Yes),
        (state(reading(5), t), 8, SourceCachingUp(at(8)), Emit::Yes),
        (state(reading(5), t), 6, reading(6), Emit::Yes),
        (state(Backfilling(None), None), 6, reading(6), Emit::Yes),
        (state(reading(5), None), 6, reading(6), Emit::Yes),
        (state(SourceCachingUp(at(7)), t), 8, SourceCachingUp(at(7)), Emit::No),
        (state(Finished, t), 8, Finished, Emit::No),
    ] {
        let counted = BackfillStateWithProgress { state: after, num_consumed_rows: 11, ..before };
        assert_eq!(transition(before, Event::Reader(at(o))), (counted, emit), "{before:?} {o}");
        assert_eq!(on_reader_row(before, at(o)), (counted, emit));
    }
    for (before, o, after) in [
        (state(Backfilling(None), t), 7, SourceCachingUp(at(7))),
        (state(reading(5), t), 7, SourceCachingUp(at(7))),
        (state(reading(5), t), 6, reading(6)),
        (state(reading(5), None), 6, reading(6)),
        (state(SourceCachingUp(at(7)), t), 9, SourceCachingUp(at(9))),
        (state(SourceCachingUp(at(7)), t), 6, SourceCachingUp(at(7))),
        (state(Finished, t), 9, Finished),
    ] {
        let uncounted = BackfillStateWithProgress { state: after, ..before };
        assert_eq!(transition(before, Event::ReaderPosition(at(o))), (uncounted, Emit::No), "{before:?} {o}");
        assert_eq!(on_reader_position(before, None, at(o)), uncounted);
    }
}

#[test]
fn first_contact() {
    let contact = |before, latest: Option<i64>| transition(before, Event::Contact { latest: latest.map(Offset) });
    let fresh = BackfillStateWithProgress::new();
    assert_eq!(contact(fresh, None), (BackfillStateWithProgress::finished(), Emit::No));
    assert_eq!(contact(fresh, Some(9)).0, BackfillStateWithProgress { target_offset: Some(at(9)), ..fresh });
    for begun in [reading(5), SourceCachingUp(at(5)), Finished].map(|s| state(s, Some(7))) {
        for latest in [None, Some(9)] {
            assert_eq!(contact(begun, latest), (begun, Emit::No));
        }
    }
}

#[test]
fn careful_functions_do_what_the_table_can_not() {
    let fresh = BackfillStateWithProgress { target_offset: Some(at(3)), ..BackfillStateWithProgress::new() };
    // A live row behind the target moves it, one before it doesn't.
    assert_eq!(on_upstream_row(fresh, at(5)).0.target_offset, Some(at(5)));
    assert_eq!(on_upstream_row(fresh, at(2)).0.target_offset, Some(at(3)));
    assert_eq!(on_upstream_position(fresh, at(5)).target_offset, Some(at(5)));
    // An old answer of the broker neither finishes the split nor lowers the target.
    assert_eq!(on_contact(fresh, None), fresh);
    assert_eq!(on_contact(fresh, Some(at(1))), fresh);
    // Rows that the reader brought after its target are upstream's, so no gap.
    let caught = state(SourceCachingUp(at(7)), Some(7));
    assert_eq!(on_reader_position(caught, Some(at(9)), at(9)), caught);
    assert_eq!(on_reader_position(caught, Some(at(7)), at(9)).state, SourceCachingUp(at(9)));
    // A position never takes the reader back.
    assert_eq!(on_reader_position(state(reading(5), None), None, at(4)), state(reading(5), None));
}

#[test]
fn stages_at_a_checkpoint() {
    let live = Stage::NEW;
    let dropped = Stage::Backfill { reader: ReaderState::Dropped };
    let (b, c, f) = (state(reading(1), None), state(SourceCachingUp(at(1)), None), state(Finished, None));
    for (stage, own, all, checkpoints, after) in [
        (live, vec![b, f], false, 5, live),
        (live, vec![c, f], false, 5, dropped),
        (live, vec![f], false, 5, dropped),
        (live, vec![], false, 1, dropped),
        (live, vec![f], true, 1, dropped),
        (live, vec![f], true, 2, Stage::Forwarding),
        (dropped, vec![f], true, 2, Stage::Forwarding),
        (dropped, vec![c], true, 2, dropped),
        (dropped, vec![b], false, 9, dropped),
        (live, vec![c], true, 9, dropped),
        (Stage::Forwarding, vec![b], false, 9, Stage::Forwarding),
    ] {
        assert_eq!(stage.at_checkpoint(&own, all, checkpoints), after, "{stage:?} {own:?} {all} {checkpoints}");
    }
    assert_eq!((live.to_string(), Stage::Forwarding.to_string()), ("backfill".into(), "forwarding".into()));
}

#[test]
fn every_stage_times_every_state_at_a_split_change() {
    let live = Stage::NEW;
    let dropped = Stage::Backfill { reader: ReaderState::Dropped };
    let (n, b) = (state(Backfilling(None), None), state(reading(1), None));
    let (c, f) = (state(SourceCachingUp(at(1)), None), state(Finished, None));
    let resume = |s| Ok(SplitChange::Resume(s));
    for (stage, persisted, after) in [
        (live, None, Ok(SplitChange::NewPartition)),
        (live, Some(n), resume(n)),
        (live, Some(b), resume(b)),
        (live, Some(c), resume(c)),
        (live, Some(f), resume(f)),
        (dropped, None, Ok(SplitChange::NewPartition)),
        (dropped, Some(n), Ok(SplitChange::Stuck(n))),
        (dropped, Some(b), Ok(SplitChange::Stuck(b))),
        (dropped, Some(c), resume(c)),
        (dropped, Some(f), resume(f)),
        (Stage::Forwarding, None, Ok(SplitChange::NewPartition)),
        (Stage::Forwarding, Some(n), Err(UnexpectedState(n))),
        (Stage::Forwarding, Some(b), Err(UnexpectedState(b))),
        (Stage::Forwarding, Some(c), Err(UnexpectedState(c))),
        (Stage::Forwarding, Some(f), resume(f)),
    ] {
        assert_eq!(on_split_change(stage, None, persisted), after, "{stage:?} {persisted:?}");
        // A split that is held already is not looked at.
        assert_eq!(on_split_change(stage, Some(b), persisted), Ok(SplitChange::Keep));
    }
    assert_eq!((on_first_barrier(None), on_first_barrier(Some(c))), (BackfillStateWithProgress::new(), c));
}

#[test]
fn ids_as_json() {
    let map: std::collections::BTreeMap<ActorId, Vec<SplitId>> = [(ActorId(3), vec!["a".into(), "b".into()])].into();
    let json = r#"{"3":["a","b"]}"#;
    assert_eq!(serde_json::to_string(&map).unwrap(), json);
    assert_eq!(serde_json::from_str::<std::collections::BTreeMap<ActorId, Vec<SplitId>>>(json).unwrap(), map);
}

fn any_event() -> impl Strategy<Value = Event> {
    let offset = || any::<i64>().prop_map(Offset);
    prop_oneof![
        proptest::option::of(offset()).prop_map(|latest| Event::Contact { latest }),
        offset().prop_map(Event::Upstream),
        offset().prop_map(Event::UpstreamPosition),
        offset().prop_map(Event::Reader),
        offset().prop_map(Event::ReaderPosition),
    ]
}

proptest! {
    #[test]
    fn json_round_trips(state in any_state()) {
        prop_assert_eq!(BackfillStateWithProgress::from_json(&state.to_json()), Ok(state));
        let serde = serde_json::to_string(&state).unwrap();
        prop_assert_eq!(BackfillStateWithProgress::from_json(&serde), Ok(state));
    }

    /// The form that is ours has a reader of its own, which must see what any reader of JSON sees.
    #[test]
    fn own_form_is_read_as_any_json(state in any_state(), at in any::<proptest::sample::Index>(), byte in "[ -~]") {
        let mut json = state.to_json();
        let at = at.index(json.len());
        json.replace_range(at..=at, &byte);
        let any: Option<BackfillStateWithProgress> = serde_json::from_str(&json).ok();
        prop_assert_eq!(BackfillStateWithProgress::from_json(&json).ok(), any);
    }

    #[test]
    fn finished_is_absorbing(state in any_state(), events in proptest::collection::vec(any_event(), 0..20)) {
        let mut now = state;
        for event in events {
            let (next, emit) = transition(now, event);
            prop_assert!(!now.is_finished() || next.is_finished());
            let brings_no_row =
                matches!(event, Event::Contact { .. } | Event::UpstreamPosition(_) | Event::ReaderPosition(_));
            prop_assert!(!brings_no_row || emit == Emit::No);
            prop_assert!(next.num_consumed_rows >= now.num_consumed_rows);
            now = next;
        }
    }

    #[test]
    fn anything_may_be_in_the_state_table(json in ".*") {
        let _ = BackfillStateWithProgress::from_json(&json);
    }
}

//! How far a backfill is.

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::golden::{any_state, state};
use crate::backfill::id::Offset;
use crate::backfill::progress::{Eta, MOST_UNFINISHED, Rate, Share, eta, job_percent, percent, remaining, work};
use crate::backfill::state::BackfillState::{Backfilling, Finished, SourceCachingUp};
use crate::backfill::transition::{Event, transition};

const START: Option<Offset> = Some(Offset(0));

#[test]
fn of_one_split() {
    let at = |offset| Some(Offset(offset));
    for (start, now, left, all, done) in [
        (START, state(Backfilling(at(529)), Some(9999)), Some(9470), Some(10000), Some(5.3)),
        (START, state(Backfilling(None), Some(9999)), Some(10000), Some(10000), Some(0.0)),
        (START, state(Backfilling(None), None), None, None, None),
        (None, state(Backfilling(None), Some(9999)), None, None, None),
        (None, state(Backfilling(at(529)), Some(9999)), Some(9470), None, None),
        (START, state(Backfilling(at(529)), None), None, None, None),
        // A target that was moved back, or lies before the start.
        (START, state(Backfilling(at(9)), Some(4)), Some(0), Some(10), Some(MOST_UNFINISHED)),
        (at(100), state(Backfilling(None), Some(4)), Some(0), Some(0), Some(MOST_UNFINISHED)),
        // The reader is done, but the split isn't.
        (START, state(SourceCachingUp(Offset(11)), Some(11)), Some(0), Some(12), Some(MOST_UNFINISHED)),
        (START, state(Finished, Some(9999)), Some(0), Some(10000), Some(100.0)),
        (None, state(Finished, None), Some(0), None, Some(100.0)),
    ] {
        assert_eq!(remaining(start, &now), left, "{now:?}");
        assert_eq!(work(start, &now), all, "{now:?}");
        let shown = percent(start, &now, None);
        assert_eq!(shown.map(|p| (p * 1e6).round()), done.map(|p: f64| (p * 1e6).round()), "{now:?}");
    }
    // It stays where it was while the target runs away, or nothing is known.
    assert_eq!(percent(START, &state(Backfilling(at(529)), Some(99999)), Some(5.3)), Some(5.3));
    assert_eq!(percent(None, &state(Backfilling(at(529)), None), Some(5.3)), Some(5.3));
    assert_eq!(percent(START, &state(Backfilling(None), None), Some(100.0)), Some(MOST_UNFINISHED));
    let wide = state(Backfilling(at(i64::MAX - 1)), Some(i64::MAX));
    assert!(percent(Some(Offset(i64::MIN)), &wide, None).unwrap() <= MOST_UNFINISHED);
}

#[test]
fn of_a_job() {
    let share = |finished, percent, work| Share { finished, percent, work };
    let (small, large) = (share(true, Some(100.0), Some(10)), share(false, Some(10.0), Some(990)));
    // Weighted by work, not a mean of percentages.
    assert!((job_percent([small, large], None).unwrap() - 10.9).abs() < 1e-9);
    assert_eq!(job_percent([small, small], None), Some(100.0));
    assert_eq!(job_percent([small, share(true, Some(100.0), None)], Some(3.0)), Some(100.0));
    assert_eq!(job_percent([small, share(false, None, None)], None), None);
    assert_eq!(job_percent([small, share(false, None, None)], Some(3.0)), Some(3.0));
    assert_eq!(job_percent([], None), None);
    assert_eq!(job_percent([share(false, Some(99.9), Some(0))], None), Some(MOST_UNFINISHED));
    assert_eq!(job_percent([small, large], Some(50.0)), Some(50.0));
}

#[test]
fn rates_and_etas() {
    let second = 1_000_000;
    let once = Rate::default().observe(100, 0);
    assert_eq!(once.per_second(), None);
    let twice = once.observe(600, second);
    assert_eq!(twice.per_second(), Some(500.0));
    assert_eq!(twice.observe(700, second), twice, "one instant is one observation");
    let slower = twice.observe(600, 2 * second).per_second().unwrap();
    assert!(slower < 500.0 && slower > 400.0, "smoothed: {slower}");
    let still = (2..200).fold(twice, |rate, n| rate.observe(600, n * second)).per_second().unwrap();
    assert!(still < 1e-3, "a rate that has ended is forgotten: {still}");
    // A counter or clock that has gone back says nothing, and does no harm.
    assert_eq!(twice.observe(0, 2 * second).per_second(), Some(500.0));
    assert_eq!(twice.observe(9999, 0).per_second(), Some(500.0));
    assert_eq!(Rate::resume(Some(7.0)).observe(1, 1).per_second(), Some(7.0));

    assert_eq!(eta(Some(9470), Some(500.0), Some(5.3)), Some(Eta::Seconds(18.94)));
    assert_eq!(eta(Some(9470), Some(500.0), Some(0.9)), None, "below 1 %");
    assert_eq!(eta(Some(9470), Some(500.0), None), None);
    assert_eq!(eta(Some(9470), Some(0.0), Some(0.9)), Some(Eta::Never));
    assert_eq!(eta(Some(9470), Some(-3.0), Some(5.3)), Some(Eta::Never));
    assert_eq!(eta(Some(0), Some(0.0), Some(99.9)), Some(Eta::Seconds(0.0)));
    assert_eq!(eta(Some(9470), Some(f64::NAN), Some(5.3)), None);
    assert_eq!(eta(None, Some(500.0), Some(5.3)), None);
}

fn small_event() -> impl Strategy<Value = Event> {
    (0u8..5, 0i64..60).prop_map(|(kind, offset)| match kind {
        0 => Event::Contact { latest: Some(Offset(offset)) },
        1 => Event::Upstream(Offset(offset)),
        2 => Event::UpstreamPosition(Offset(offset)),
        3 => Event::Reader(Offset(offset)),
        _ => Event::ReaderPosition(Offset(offset)),
    })
}

proptest! {
    #[test]
    fn percent_never_goes_down_and_is_100_exactly_when_finished(
        events in proptest::collection::vec(small_event(), 0..60),
        start in proptest::option::of(0i64..60),
    ) {
        let mut now = crate::backfill::state::BackfillStateWithProgress::new();
        let mut shown = None;
        for event in events {
            now = transition(now, event).0;
            let next = percent(start.map(Offset), &now, shown);
            prop_assert!(next >= shown);
            prop_assert_eq!(next == Some(100.0), now.is_finished());
            prop_assert!(next.is_none_or(|p| (0.0..=100.0).contains(&p)));
            shown = next;
        }
    }

    #[test]
    fn any_state_gives_sane_numbers(state in any_state(), start in any::<i64>(), before in proptest::option::of(any::<f64>())) {
        let start = Some(Offset(start));
        prop_assert!(remaining(start, &state).is_none_or(|left| left >= 0));
        prop_assert!(work(start, &state).is_none_or(|all| all >= 0));
        let shown = percent(start, &state, before);
        prop_assert!(shown.is_none_or(|p| (0.0..=100.0).contains(&p)));
        prop_assert_eq!(shown == Some(100.0), state.is_finished());
    }
}

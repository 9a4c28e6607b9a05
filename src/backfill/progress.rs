//! How far a backfill is: pure arithmetic over offsets.
//!
//! Offsets aren't rows: markers and compaction leave gaps, and a file's offsets are bytes. So `remaining` and percent
//! are estimates until the state says Finished. What isn't known is `None`, never a made-up number.

use super::id::Offset;
use super::state::{BackfillState, BackfillStateWithProgress};

/// The most that an unfinished split or job shows, in percent. 100 is only shown when the state says so.
pub const MOST_UNFINISHED: f64 = 99.9;

/// No ETA is given below this many percent: it would be guessed from too little.
pub const LEAST_FOR_ETA: f64 = 1.0;

/// How many offsets a split's backfill covers in all, from `start` (the first that there was to read) to the target. 0
/// or more.
pub fn work(start: Option<Offset>, state: &BackfillStateWithProgress) -> Option<i64> {
    let end = match state.state {
        BackfillState::Backfilling(read) => state.target_offset?.max(read.unwrap_or(Offset(i64::MIN))),
        BackfillState::SourceCachingUp(read) => state.target_offset.map_or(read, |target| target.max(read)),
        BackfillState::Finished => state.target_offset?,
    };
    Some(offsets(start?, end))
}

/// How many offsets the reader has still to pass. 0 or more; 0 once it is done. `None` while the target isn't known, or
/// before its first row if `start` isn't known.
pub fn remaining(start: Option<Offset>, state: &BackfillStateWithProgress) -> Option<i64> {
    match state.state {
        BackfillState::Backfilling(None) => Some(offsets(start?, state.target_offset?)),
        BackfillState::Backfilling(Some(read)) => Some(state.target_offset?.0.saturating_sub(read.0).max(0)),
        BackfillState::SourceCachingUp(_) | BackfillState::Finished => Some(0),
    }
}

/// How far a split is, in percent of start..target, from 0 to 100. `max_so_far` is what was shown before: the figure never goes
/// down, though the target moves. 100 only, and always, when the state is Finished. `None` while start or target aren't
/// known.
pub fn percent(start: Option<Offset>, state: &BackfillStateWithProgress, max_so_far: Option<f64>) -> Option<f64> {
    if state.is_finished() {
        return Some(100.0);
    }
    let now = match (work(start, state), remaining(start, state)) {
        (Some(work), Some(remaining)) => Some(done(work, remaining)),
        (None, _) | (_, None) => None,
    };
    highest(now, max_so_far)
}

/// One split's share in its job's progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Whether the split's state is Finished.
    pub finished: bool,
    /// Its percentage, as [`percent`] gives it.
    pub percent: Option<f64>,
    /// Its weight, as [`work`] gives it.
    pub work: Option<i64>,
}

/// How far a job is, in percent, every split weighted by its work. 100 only, and always, when all are Finished. `None`
/// without splits, or while an unfinished split's percentage or work isn't known. Never below `max_so_far`.
///
/// A finished split without known work (it was empty, or came later) weighs nothing.
pub fn job_percent(splits: impl IntoIterator<Item = Share>, max_so_far: Option<f64>) -> Option<f64> {
    let (mut any, mut all_finished, mut known) = (false, true, true);
    let (mut work, mut done) = (0.0, 0.0);
    for split in splits {
        any = true;
        all_finished &= split.finished;
        match (split.percent, split.work) {
            (Some(percent), Some(offsets)) => {
                work += offsets as f64;
                done += offsets as f64 * percent;
            }
            (Some(_), None) | (None, _) => known &= split.finished,
        }
    }
    if any && all_finished {
        return Some(100.0);
    }
    let now = (any && known).then(|| if work > 0.0 { done / work } else { MOST_UNFINISHED });
    highest(now, max_so_far)
}

/// When a reader will be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Eta {
    /// In so many seconds, 0 or more.
    Seconds(f64),
    /// Never at this speed: its target moves away as fast as it reads, or it doesn't read at all.
    Never,
}

/// When the reader will be done, by the speed at which it closes in on its target: its own less that of the target.
/// `None` without a speed, when anything isn't known, or below 1 % unless the answer is never.
pub fn eta(remaining: Option<i64>, closing_per_second: Option<f64>, percent: Option<f64>) -> Option<Eta> {
    let (remaining, speed) = (remaining?, closing_per_second.filter(|speed| speed.is_finite())?);
    if remaining > 0 && speed <= 0.0 {
        return Some(Eta::Never);
    }
    percent.filter(|percent| *percent >= LEAST_FOR_ETA)?;
    Some(Eta::Seconds(if remaining == 0 { 0.0 } else { remaining as f64 / speed }))
}

/// A smoothed rate of a counter or an offset: an exponentially weighted mean, in which an observation's weight has
/// fallen to 1/e after [`Rate::MEMORY_SECONDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    last: Option<(i64, i64)>,
    per_second: Option<f64>,
}

impl Rate {
    /// How far back the mean reaches.
    pub const MEMORY_SECONDS: f64 = 10.0;

    /// A rate that was stored, to go on from. It stays as it is until there are two new observations.
    pub const fn resume(per_second: Option<f64>) -> Self {
        Self { last: None, per_second }
    }

    /// Takes in the counter's value at a time in microseconds. A counter or clock that has gone back starts a new pair;
    /// two observations at one instant count as one.
    #[must_use]
    pub fn observe(self, value: i64, at_micros: i64) -> Self {
        let Some((last_value, last_at)) = self.last else {
            return Self { last: Some((value, at_micros)), ..self };
        };
        let seconds = (at_micros as f64 - last_at as f64) / 1e6;
        if seconds < 0.0 || value < last_value {
            return Self { last: Some((value, at_micros)), ..self };
        }
        if seconds == 0.0 {
            return self;
        }
        let now = (value as f64 - last_value as f64) / seconds;
        let weight = 1.0 - (-seconds / Self::MEMORY_SECONDS).exp();
        let per_second = self.per_second.map_or(now, |mean| mean + weight * (now - mean));
        Self { last: Some((value, at_micros)), per_second: Some(per_second) }
    }

    /// The rate a second, 0 or more. `None` before the second observation.
    pub const fn per_second(self) -> Option<f64> {
        self.per_second
    }
}

/// Offsets from `start` to `end`, both included; 0 if `end` is before it.
fn offsets(start: Offset, end: Offset) -> i64 {
    end.0.saturating_sub(start.0).saturating_add(1).max(0)
}

/// A part of work done, in percent, as an unfinished split shows it.
fn done(work: i64, remaining: i64) -> f64 {
    if work == 0 {
        return MOST_UNFINISHED;
    }
    // Work grows with the target and remaining can't be more, except where the reader began before `start`.
    (100.0 * (1.0 - remaining as f64 / work as f64)).clamp(0.0, MOST_UNFINISHED)
}

fn highest(now: Option<f64>, max_so_far: Option<f64>) -> Option<f64> {
    let before = max_so_far.filter(|percent| percent.is_finite()).map(|percent| percent.clamp(0.0, MOST_UNFINISHED));
    match (now, before) {
        (Some(now), Some(before)) => Some(now.max(before)),
        (now, before) => now.or(before),
    }
}

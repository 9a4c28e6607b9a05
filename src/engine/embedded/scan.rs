//! A scan fragment as the coordinator sees it: its states as last committed, how fast they move, what holds them.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::message::ScanResume;
use super::scan_actor::Permit;
use super::watch;
use crate::backfill::check::identifier;
use crate::backfill::id::{ActorId, FragmentId, JobId, Offset, SourceId, SplitId};
use crate::backfill::progress::{Rate, percent};
use crate::backfill::state::{BackfillState, BackfillStateWithProgress};
use crate::store::checkpoint::Progress;
use crate::store::running::ScanRow;

/// A running scan fragment.
pub struct Scan {
    pub job: JobId,
    pub job_name: String,
    /// Sources of the view whose backfill comes before this one's.
    pub after: Vec<SourceId>,
    pub rate_limit: watch::Sender<Option<u32>>,
    pub permit: watch::Sender<Permit>,
    pub actors: BTreeMap<ActorId, mpsc::Sender<ScanResume>>,
    splits: BTreeMap<SplitId, Tracked>,
}

/// What is known of one split.
struct Tracked {
    /// As last committed. `None`: its row can't be read, or contradicts that the fragment went forwarding.
    state: Option<BackfillStateWithProgress>,
    start: Option<Offset>,
    rows: Rate,
    offsets: Rate,
    /// Of the target, which moves on where the source grows.
    growth: Rate,
    percent: Option<f64>,
    /// Why its reader or its source's can't read it, and since when.
    error: Option<(String, i64)>,
    written: Option<Progress>,
}

/// What the coordinator knows of a split's upstream.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpstreamSide<'a> {
    /// Last offset passed.
    pub passed: Option<Offset>,
    /// The source's rate limit.
    pub rate_limit: Option<u32>,
    /// Why the live stream can't read the split, and since when.
    pub error: Option<(&'a str, i64)>,
}

impl Scan {
    /// A fragment as committed.
    pub fn new(row: &ScanRow) -> Self {
        let mut scan = Self {
            job: row.job,
            job_name: row.job_name.clone(),
            after: row.after.clone(),
            rate_limit: watch::Sender::new(row.rate_limit),
            permit: watch::Sender::new(Permit { may_backfill: false, all_finished: false }),
            actors: BTreeMap::new(),
            splits: BTreeMap::new(),
        };
        scan.adopt_new_splits(row);
        scan
    }

    /// Starts to track splits that it didn't have.
    pub fn adopt_new_splits(&mut self, row: &ScanRow) {
        for (split, state) in &row.states {
            self.splits.entry(split.clone()).or_insert_with(|| Tracked {
                state: state.state().filter(|state| state.is_finished() || !row.forwarding),
                start: row.starts.get(split).copied(),
                rows: Rate::resume(None),
                offsets: Rate::resume(None),
                growth: Rate::resume(None),
                percent: row.percents.get(split).copied(),
                error: None,
                written: None,
            });
        }
    }

    /// Whether the state table holds nothing but Finished.
    pub fn all_finished(&self) -> bool {
        self.splits.values().all(|split| split.state.is_some_and(|state| state.is_finished()))
    }

    /// Whether every split is Finished or SourceCachingUp.
    pub fn is_done(&self) -> bool {
        self.splits
            .values()
            .all(|split| split.state.is_some_and(|state| !matches!(state.state, BackfillState::Backfilling(_))))
    }

    /// Takes in a committed state.
    pub fn committed(&mut self, split: &SplitId, state: BackfillStateWithProgress) {
        if let Some(tracked) = self.splits.get_mut(split) {
            tracked.state = Some(state);
        }
    }

    /// Notes that a split's reader can't read it, or can again.
    pub fn set_error(&mut self, split: &SplitId, error: Option<String>, now: i64) {
        if let Some(tracked) = self.splits.get_mut(split) {
            let since = tracked.error.as_ref().map_or(now, |(_, since)| *since);
            tracked.error = error.map(|message| (message, since));
        }
    }

    /// The progress rows that have changed, given the states that this barrier is about to commit.
    pub fn progress<'a>(
        &mut self,
        fragment: FragmentId,
        now: i64,
        changed: &BTreeMap<SplitId, BackfillStateWithProgress>,
        upstream: impl Fn(&SplitId) -> UpstreamSide<'a>,
        order: Option<&str>,
    ) -> Vec<Progress> {
        let limit = *self.rate_limit.borrow();
        let mut rows = Vec::new();
        for (split, tracked) in &mut self.splits {
            let new = changed.get(split).copied();
            let state = new.or(tracked.state);
            if new.is_none() && state.is_some_and(|state| state.is_finished()) {
                continue;
            }
            let row = tracked.observe(fragment, split, now, (state, new.is_some()), || {
                blocked_by(&self.job_name, state, limit, &upstream(split), order)
            });
            if row.moved || tracked.written.as_ref().is_none_or(|written| *written != row) {
                tracked.written = Some(row.clone());
                rows.push(row);
            }
        }
        rows
    }
}

impl Tracked {
    fn observe(
        &mut self,
        fragment: FragmentId,
        split: &SplitId,
        now: i64,
        (state, moved): (Option<BackfillStateWithProgress>, bool),
        blocked_by: impl FnOnce() -> Option<String>,
    ) -> Progress {
        if let Some(state) = state {
            self.rows = self.rows.observe(i64::try_from(state.num_consumed_rows).unwrap_or(i64::MAX), now);
            if let BackfillState::Backfilling(Some(at)) | BackfillState::SourceCachingUp(at) = state.state {
                self.offsets = self.offsets.observe(at.0, now);
            }
            if let (BackfillState::Backfilling(_), Some(target)) = (state.state, state.target_offset) {
                self.growth = self.growth.observe(target.0, now);
            }
            self.percent = percent(self.start, &state, self.percent);
        }
        let finished = state.is_some_and(|state| state.is_finished());
        let unreachable = self.error.as_ref().map(|(message, since)| unreachable(message, *since));
        let blocked_by = if finished { None } else { unreachable.or_else(blocked_by) };
        // What is held has no speed to tell an ETA from.
        let runs = !finished && blocked_by.is_none();
        let (offsets, growth) = (self.offsets.per_second().filter(|_| runs), self.growth.per_second());
        let blocked_by = blocked_by.or_else(|| outrun(state?, offsets?, growth?));
        Progress {
            fragment,
            split: split.clone(),
            moved,
            percent: self.percent,
            rows_per_second: self.rows.per_second().filter(|_| runs),
            offsets_per_second: offsets,
            closing_per_second: offsets.zip(growth).map(|(read, grown)| read - grown),
            blocked_by,
        }
    }
}

/// What holds an unfinished split, in words. It says what heals by itself and what needs a person.
fn blocked_by(
    job: &str,
    state: Option<BackfillStateWithProgress>,
    limit: Option<u32>,
    upstream: &UpstreamSide<'_>,
    order: Option<&str>,
) -> Option<String> {
    let Some(state) = state else {
        return Some(format!(
            "its row of the state table can't be trusted, see tidegate.invariant_violations (needs a person: recreate \
             materialized view {})",
            identifier(job)
        ));
    };
    match state.state {
        BackfillState::Backfilling(_) if order.is_some() => {
            order.map(|before| format!("waiting for the backfill of {before} (backfill_order; goes on by itself)"))
        }
        BackfillState::Backfilling(_) if limit == Some(0) => Some(format!(
            "paused: backfill_rate_limit is 0 rows/s (needs a person: ALTER MATERIALIZED VIEW {} SET \
             backfill_rate_limit = DEFAULT)",
            identifier(job)
        )),
        BackfillState::Backfilling(_) => None,
        BackfillState::SourceCachingUp(offset) => Some(waiting_for_upstream(offset, upstream)),
        BackfillState::Finished => None,
    }
}

/// That a split's target moves away as fast as the reader comes nearer, where that isn't the rest of an old mean.
fn outrun(state: BackfillStateWithProgress, read: f64, grown: f64) -> Option<String> {
    let reads = matches!(state.state, BackfillState::Backfilling(_));
    (reads && grown >= read && grown * Rate::MEMORY_SECONDS >= 1.0).then(|| {
        format!(
            "the source grows by {grown:.1} offsets/s and the backfill reads {read:.1}: at this speed it has no end (goes on \
             by itself once the source slows down; a higher backfill_rate_limit helps where there is one)"
        )
    })
}

/// Why a split can't be read. A message that doesn't say that a person is needed heals by itself.
fn unreachable(message: &str, since: i64) -> String {
    let heals = if message.contains("(needs a person") { "" } else { " (goes on by itself once that is mended)" };
    format!("source unreachable since {}: {message}{heals}", crate::clock::display(since))
}

fn waiting_for_upstream(offset: Offset, upstream: &UpstreamSide<'_>) -> String {
    let at = upstream.passed.map_or_else(|| "nowhere yet".to_owned(), |passed| format!("at {passed}"));
    let waiting = format!("waiting for upstream to pass offset {offset}, it is {at}");
    match (upstream.error, upstream.rate_limit) {
        (Some((message, since)), _) => format!("{waiting}: {}", unreachable(message, since)),
        (None, Some(0)) => {
            format!("{waiting}: source_rate_limit is 0 rows/s (needs a person: raise it with ALTER SOURCE)")
        }
        (None, _) => format!("{waiting} (goes on by itself, at a barrier)"),
    }
}

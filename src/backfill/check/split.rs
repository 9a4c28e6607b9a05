//! The verdict on one split of one job, and its words.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::super::id::{ActorId, JobId, Offset, SplitId};
use super::super::progress::{self, Eta};
use super::super::stage::{ReaderState, Stage};
use super::super::state::{BackfillState, BackfillStateWithProgress};
use super::plan::PairedKind;
use super::{Decision, Policy, Verdict};

/// The verdict on one split of one job.
#[derive(Clone, Debug)]
pub struct SplitVerdict {
    /// The job.
    pub job_id: JobId,
    /// Its name.
    pub job_name: Arc<str>,
    /// The split.
    pub split: SplitId,
    /// The job's actor that holds it now. `None` if the job has no actor paired with the source's.
    pub from_actor: Option<ActorId>,
    /// The job's actor that will hold it.
    pub to_actor: ActorId,
    /// What the rescale does to it.
    pub verdict: Verdict,
    /// Whether it stands in the way.
    pub decision: Decision,
    /// Its persisted state.
    pub state: Option<BackfillStateWithProgress>,
    /// The content of its row in the state table, if that isn't a state.
    pub raw_state: Option<String>,
    /// How many offsets the reader has still to pass, if that is known.
    pub remaining: Option<i64>,
    /// The part of its offsets that is left, in percent, 0 to 100, if that is known.
    pub percent_left: Option<f64>,
    /// When the reader will be done, if that can be told.
    pub eta: Option<Eta>,
    pub(super) why: Why,
}

/// What the state table and the split's past say of one split.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    /// Its state.
    State(&'a BackfillStateWithProgress),
    /// No row, and it came after the job: a new partition.
    New,
    /// No row yet: its actor hasn't had a checkpoint.
    Unwritten,
    /// No row, though there must have been one.
    Lost,
    /// A row that isn't a state.
    Unreadable(&'a str),
}

impl Known<'_> {
    /// Whether any actor can go on with the split.
    pub(super) const fn may_move(&self) -> bool {
        match self {
            Self::State(state) => state.is_finished(),
            Self::New => true,
            Self::Unwritten | Self::Lost | Self::Unreadable(_) => false,
        }
    }
}

/// Why a split's decision is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Finished {
        moves: bool,
    },
    New,
    /// Unfinished, but it stays where it is.
    Stays,
    /// Unfinished, but its receiver backfills.
    Received {
        by_new_actor: bool,
    },
    /// Unfinished, and only a finished split may move.
    Unfinished,
    /// Unfinished, and it would have to be finished even to stay.
    NotAllFinished {
        moves: bool,
    },
    /// Unfinished, and its receiver can't backfill it.
    NotReceived(Option<Stage>),
    /// Unfinished, and its actor can't finish it any more.
    Damaged {
        moves: bool,
        matters: bool,
    },
    Unwritten,
    Lost,
    Unreadable,
}

/// The circumstances of a split.
pub(super) struct Circumstances {
    pub(super) policy: Policy,
    /// The rescale changes nothing.
    pub(super) noop: bool,
    pub(super) moves: bool,
    /// The stage of the actor that holds it, if that is known.
    pub(super) holder: Option<Stage>,
    pub(super) receiver: PairedKind,
}

impl Circumstances {
    pub(super) fn judge(&self, known: Known<'_>) -> (Verdict, Decision, Why) {
        let verdict = if self.moves { Verdict::MigratedUnfinished } else { Verdict::Kept };
        let blocking = |decision| if self.noop { Decision::Pass } else { decision };
        let moves = self.moves;
        match known {
            Known::New => (Verdict::NewSplit, Decision::Pass, Why::New),
            Known::State(state) if state.is_finished() => {
                let verdict = if moves { Verdict::MigratedFinished } else { Verdict::Kept };
                (verdict, Decision::Pass, Why::Finished { moves })
            }
            Known::State(state) => {
                let (decision, why) = self.judge_unfinished(state);
                (verdict, blocking(decision), why)
            }
            Known::Unwritten => (verdict, blocking(Decision::Wait), Why::Unwritten),
            Known::Lost => (verdict, blocking(Decision::Unknown), Why::Lost),
            Known::Unreadable(_) => (verdict, blocking(Decision::Unknown), Why::Unreadable),
        }
    }

    fn judge_unfinished(&self, state: &BackfillStateWithProgress) -> (Decision, Why) {
        let moves = self.moves;
        if self.is_damaged(state) {
            // Also where it stays: nothing is provable on top of a state table that contradicts itself.
            return (Decision::Fail, Why::Damaged { moves, matters: !self.noop });
        }
        let matters = !self.noop && (moves || self.policy == Policy::AllFinished);
        if !matters {
            return (Decision::Pass, Why::Stays);
        }
        match self.policy {
            Policy::Forwarding => (Decision::Wait, Why::Unfinished),
            Policy::AllFinished => (Decision::Wait, Why::NotAllFinished { moves }),
            Policy::StageAware => match self.receiver {
                PairedKind::New => (Decision::Pass, Why::Received { by_new_actor: true }),
                PairedKind::Existing(Some(stage)) if stage.can_backfill() => {
                    (Decision::Pass, Why::Received { by_new_actor: false })
                }
                PairedKind::Existing(stage) => (Decision::Wait, Why::NotReceived(stage)),
                PairedKind::Missing => (Decision::Wait, Why::NotReceived(None)),
            },
        }
    }

    /// Whether waiting is in vain: the actor that holds the unfinished split can't finish it.
    fn is_damaged(&self, unfinished: &BackfillStateWithProgress) -> bool {
        match self.holder {
            None | Some(Stage::Backfill { reader: ReaderState::Live }) => false,
            Some(Stage::Backfill { reader: ReaderState::Dropped }) => {
                matches!(unfinished.state, BackfillState::Backfilling(_))
            }
            Some(Stage::Forwarding) => true,
        }
    }
}

impl SplitVerdict {
    /// Fills in what is known of the split and how far it is.
    pub(super) fn with(mut self, known: Known<'_>, start: Option<&Offset>, closing: Option<&f64>) -> Self {
        match known {
            Known::State(state) => {
                self.state = Some(*state);
                self.remaining = progress::remaining(start.copied(), state);
                if !state.is_finished() {
                    let percent = progress::percent(start.copied(), state, None);
                    self.percent_left = percent.map(|percent| 100.0 - percent);
                    self.eta = progress::eta(self.remaining, closing.copied(), percent);
                }
            }
            Known::Unreadable(content) => self.raw_state = Some(content.to_owned()),
            Known::New | Known::Unwritten | Known::Lost => {}
        }
        self
    }

    /// Whether it stands in the way.
    pub fn offends(&self) -> bool {
        self.decision != Decision::Pass
    }

    /// Why the decision is what it is: a sentence.
    pub fn reason(&self) -> Cow<'static, str> {
        match self.why {
            Why::Finished { moves: false } => "It is Finished, and stays on its actor.".into(),
            Why::Finished { moves: true } => "It is Finished: any actor can go on with it.".into(),
            Why::New => "It is new since the view was made: the live stream carries all of it.".into(),
            Why::Stays => "It is not Finished, but stays on its actor.".into(),
            Why::Received { by_new_actor: true } => {
                "It is not Finished, but moves to a new actor, which starts with a backfill reader.".into()
            }
            Why::Received { by_new_actor: false } => {
                "It is not Finished, but moves to an actor with a live backfill reader.".into()
            }
            Why::Damaged { matters: false, .. } => {
                "It is not Finished, and its actor has no backfill reader to finish it with. It stays on its actor, so this \
                 rescale doesn't make it worse."
                    .into()
            }
            Why::Unfinished
            | Why::NotAllFinished { .. }
            | Why::NotReceived(_)
            | Why::Damaged { .. }
            | Why::Unwritten
            | Why::Lost
            | Why::Unreadable => format!("{}.", self.line()).into(),
        }
    }

    /// What to do about it, in SQL where SQL helps. `None`: nothing needs doing.
    pub fn remedy(&self) -> Option<String> {
        let needed = match self.why {
            Why::Finished { .. } | Why::New | Why::Stays | Why::Received { .. } => false,
            // Damage is worth a word even where this rescale does no harm.
            Why::Damaged { .. } => true,
            Why::Unfinished
            | Why::NotAllFinished { .. }
            | Why::NotReceived(_)
            | Why::Unwritten
            | Why::Lost
            | Why::Unreadable => self.offends(),
        };
        needed.then(|| self.what_to_do())
    }

    pub(super) fn what_to_do(&self) -> String {
        match self.why {
            Why::Finished { .. } | Why::New | Why::Stays | Why::Received { .. } => String::new(),
            Why::Unfinished | Why::NotAllFinished { .. } | Why::NotReceived(_) => WAIT.into(),
            Why::Damaged { .. } => format!("RECOVER; and if it is still not Finished then, {}", self.recreate()),
            Why::Unwritten => "FLUSH; takes a checkpoint now.".into(),
            Why::Lost => format!("FLUSH; has its actor write the state again. If it doesn't, {}", self.recreate()),
            Why::Unreadable => format!(
                "FLUSH; has its actor write the state again (tidegate.invariant_violations keeps the row). If it \
                 doesn't, {}",
                self.recreate()
            ),
        }
    }

    fn recreate(&self) -> String {
        let name = identifier(&self.job_name);
        format!("recreate the view: DROP MATERIALIZED VIEW {name}; and CREATE MATERIALIZED VIEW {name} ... again.")
    }

    /// What stands in the way, as a line of a refusal's DETAIL.
    pub(super) fn line(&self) -> String {
        let who = format!("split \"{}\" of materialized view \"{}\"", self.split, self.job_name);
        let (to, left) = (self.to_actor, Left(self));
        let from = self.from_actor.map_or_else(|| "an unknown actor".to_owned(), |actor| format!("actor {actor}"));
        match self.why {
            Why::Unfinished | Why::NotAllFinished { moves: true } => {
                format!("{who} would move from {from} to actor {to}{left}")
            }
            Why::NotAllFinished { moves: false } => {
                format!("{who} stays on {from} but policy all_finished wants every split Finished{left}")
            }
            Why::NotReceived(receiver) => {
                format!("{who} would move from {from} to actor {to}, {}{left}", cannot_backfill(receiver))
            }
            Why::Damaged { moves: true, .. } => format!(
                "{who} would move from {from} to actor {to}, and can't be finished: {from} has no backfill reader{left}"
            ),
            Why::Damaged { moves: false, .. } => {
                format!("{who} stays on {from}, but can't be finished: {from} has no backfill reader{left}")
            }
            Why::Unwritten => format!("{who} has no state yet, since {from} has not had a checkpoint"),
            Why::Lost => {
                format!(
                    "{who} has no state although it is older than the view, so how much of it was read is not known"
                )
            }
            Why::Unreadable => {
                format!("{who} has a state that can't be read: {}", self.raw_state.as_deref().unwrap_or_default())
            }
            Why::Finished { .. } | Why::New | Why::Stays | Why::Received { .. } => who,
        }
    }
}

/// The remedy for an unfinished split.
pub(super) const WAIT: &str = "Wait until tidegate.split_backfill_progress shows Finished, or add DEFERRED.";

fn cannot_backfill(receiver: Option<Stage>) -> &'static str {
    match receiver {
        Some(Stage::Forwarding) => "which is in the forwarding stage",
        Some(Stage::Backfill { reader: ReaderState::Dropped }) => "which has dropped its backfill reader",
        Some(Stage::Backfill { reader: ReaderState::Live }) => "which has a backfill reader",
        None => "whose stage is not known",
    }
}

/// How much of a split is left, as the end of a sentence: what isn't known is left out.
struct Left<'a>(&'a SplitVerdict);

impl fmt::Display for Left<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(split) = self;
        if let Some(BackfillStateWithProgress { state: BackfillState::SourceCachingUp(offset), .. }) = split.state {
            return write!(f, ", waiting for upstream to pass offset {offset}");
        }
        let Some(remaining) = split.remaining else { return Ok(()) };
        let offsets = if remaining == 1 { "offset" } else { "offsets" };
        let eta = split.eta.map(|eta| match eta {
            Eta::Seconds(seconds) => format!("about {}", duration(seconds)),
            Eta::Never => "no end in sight at this speed".to_owned(),
        });
        match (split.percent_left, eta) {
            (Some(percent), Some(eta)) => write!(f, ", {percent:.1} % left ({remaining} {offsets}, {eta})"),
            (Some(percent), None) => write!(f, ", {percent:.1} % left ({remaining} {offsets})"),
            (None, Some(eta)) => write!(f, ", {remaining} {offsets} left ({eta})"),
            (None, None) => write!(f, ", {remaining} {offsets} left"),
        }
    }
}

/// A span of time, rounded to its largest sensible unit: `19 s`, `5 min`, `3 h`, `12 d`.
pub(super) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 119.5 => (s, "s"),
        s if s < 119.5 * 60.0 => (s / 60.0, "min"),
        s if s < 47.5 * 3600.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "d"),
    };
    format!("{value:.0} {unit}")
}

/// A name as SQL writes it: quoted where it has to be. Always quoting is right too, but plain names are what people type.
pub fn identifier(name: &str) -> Cow<'_, str> {
    let starts_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts_plain && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        name.into()
    } else {
        format!("\"{}\"", name.replace('"', "\"\"")).into()
    }
}

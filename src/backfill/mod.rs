//! The domain: how the backfill of a split goes on, and when a split may move. Pure and synchronous; it calls nobody.
//!
//! # The story
//!
//! A *shared source* reads every split once, with a few *source actors*. A view made later needs the splits' history
//! too: each of its *backfill actors* is paired with a source actor, gets that actor's live rows, and has a *backfill
//! reader* of its own for the history. So every row of a split can come from two sides, and must come out exactly once,
//! in offset order. A small [state] a split decides which side is emitted:
//!
//! 1. `Backfilling`: the reader's rows go out. Live rows are dropped, but say how far the reader has to go.
//! 2. `SourceCachingUp`: the reader has got that far and is done; upstream has yet to reach the same place.
//! 3. `Finished`: upstream's rows go out. That is for good.
//!
//! [`transition`] holds the table of these moves, and nobody else makes any.
//!
//! Once all own splits are past the first state, an actor drops its reader; once every split of the view is Finished,
//! it only forwards ([`stage`]). Neither is ever taken back. That is what makes a rescale dangerous: a split that
//! moves takes its persisted state along, and its new actor may be unable to go on with it. Then one of three things
//! happens:
//!
//! - the *error*: the new actor forwards already, and dies with `Unexpected backfill state`, again after each recovery;
//! - the *silence*: it has dropped its reader, and the split waits for ever ([`stage::SplitChange::Stuck`]);
//! - the *loss*: the split's state is missing, so the split is taken for a new one and its history never comes.
//!
//! [`check`](mod@check) foresees all three from the persisted states, and says which splits stand in the way, why, and
//! until when. [`assignment`] makes plans that put as little in the way as possible. [`progress`] turns offsets into
//! percentages and ETAs. [`target`] reads what `SET PARALLELISM` may be set to.
//!
//! # What an engine has to do
//!
//! At every barrier, in this order, as one transaction:
//!
//! 1. write the states of all held splits, the positions of the live stream and the emitted rows;
//! 2. move every actor's stage on: [`stage::Stage::at_checkpoint`];
//! 3. decide a rescale, if one is asked for: [`check::check`] on exactly those states and stages;
//! 4. take in new splits: [`assignment::reassign`];
//! 5. apply the changed assignment: [`stage::on_split_change`] for actors that go on, [`stage::on_first_barrier`] for
//!    new ones.
//!
//! The live stream stands still between its barrier and the end of step 5. Between barriers, rows and positions go
//! through the `on_…` functions of [`transition`]. The tests hold a model of all this, in which random schedules of
//! reads, barriers, crashes and rescales never lose or repeat a row, and do so quickly as soon as one of these rules is
//! left out.

pub mod assignment;
pub mod check;
pub mod id;
pub mod progress;
pub mod stage;
pub mod state;
pub mod target;
pub mod transition;

#[cfg(test)]
mod tests;

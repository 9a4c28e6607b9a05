//! Which actor reads which split, and how that changes.
//!
//! [`reassign`] is RisingWave's rule for splits that come and go. [`plan`] is ours, for a change of parallelism:
//! balanced, with the fewest moves, and among those with the fewest moves of unfinished splits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::id::{ActorId, SplitId};

/// The splits of every actor of a source's fragment. Actors without splits are there too.
pub type Assignment = BTreeMap<ActorId, BTreeSet<SplitId>>;

/// A split that changes actors, or gets its first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The split.
    pub split: SplitId,
    /// The actor that holds it now. `None`: a new split.
    pub from: Option<ActorId>,
    /// The actor that will hold it.
    pub to: ActorId,
}

/// The assignment once the source has exactly these splits. `None`: there is nothing to change, or no actor.
///
/// RisingWave's rule: splits that exist stay where they are, and a new one goes to the actor that holds the fewest (of
/// several, the one with the lowest id). Splits that are gone are taken out first.
pub fn reassign(current: &Assignment, splits: &BTreeSet<SplitId>) -> Option<Assignment> {
    let mut next: Assignment = current
        .iter()
        .map(|(actor, held)| (*actor, held.iter().filter(|split| splits.contains(*split)).cloned().collect()))
        .collect();
    let held: BTreeSet<&SplitId> = current.values().flatten().collect();
    let mut by_load: BinaryHeap<_> = next.iter().map(|(actor, held)| Reverse((held.len(), *actor))).collect();
    for split in splits.iter().filter(|split| !held.contains(split)) {
        let mut least = by_load.peek_mut()?;
        let Reverse((load, actor)) = &mut *least;
        *load += 1;
        next.entry(*actor).or_default().insert(split.clone());
    }
    (!next.is_empty() && next != *current).then_some(next)
}

/// An assignment of the same splits to `to` actors (at least one).
///
/// - Loads differ by at most one.
/// - As few splits as possible move. When actors go, those go whose splits cost the fewest moves.
/// - Among plans with equally few moves, as few as possible of the splits that aren't `finished` move.
/// - Among those, the actors and splits with the lowest ids stay, and new actors take the unfinished splits first,
///   since a new actor starts with a backfill reader.
///
/// New actors get the ids `next_actor_id`, `next_actor_id + 1`, … The same input gives the same plan.
pub fn plan(current: &Assignment, to: u32, next_actor_id: ActorId, finished: &dyn Fn(&SplitId) -> bool) -> Assignment {
    let held = Held::of(current);
    let finished: Vec<bool> = held.splits.iter().map(|split| finished(split)).collect();
    let planner = Planner { owners: &held.owners, finished: &finished, can_backfill: &vec![false; current.len()] };
    let slots = Slots::new(current.keys().copied(), next_actor_id);
    planner.plan(to).assignment(&held, &slots)
}

/// The splits that `new` has at another actor than `old`, in order of split id. Splits that `new` lacks are left out.
pub fn moves(old: &Assignment, new: &Assignment) -> Vec<Move> {
    let before: BTreeMap<&SplitId, ActorId> = owned(old).collect();
    let mut moves: Vec<Move> = owned(new)
        .map(|(split, to)| (split, before.get(split).copied(), to))
        .filter(|(_, from, to)| *from != Some(*to))
        .map(|(split, from, to)| Move { split: split.clone(), from, to })
        .collect();
    moves.sort_by(|a, b| a.split.cmp(&b.split));
    moves
}

fn owned(assignment: &Assignment) -> impl Iterator<Item = (&SplitId, ActorId)> {
    assignment.iter().flat_map(|(actor, held)| held.iter().map(|split| (split, *actor)))
}

/// The splits of an assignment, in order of split id, each with its actor's slot: the actor's place among all.
pub(super) struct Held<'a> {
    pub(super) splits: Vec<&'a SplitId>,
    pub(super) owners: Vec<usize>,
}

impl<'a> Held<'a> {
    pub(super) fn of(assignment: &'a Assignment) -> Self {
        let mut rows = Vec::with_capacity(assignment.values().map(BTreeSet::len).sum());
        for (slot, held) in assignment.values().enumerate() {
            rows.extend(held.iter().map(|split| (prefix(split), split, slot)));
        }
        // A stable sort merges the actors' runs, each of which is sorted. The prefix decides nearly always, without a
        // look at text that lies elsewhere in memory.
        rows.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        let (splits, owners) = rows.into_iter().map(|(_, split, slot)| (split, slot)).unzip();
        Self { splits, owners }
    }
}

/// The first eight bytes of a split's id as a number that sorts like them; a shorter id is filled up with zeros.
fn prefix(split: &SplitId) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(split.as_str().bytes()).for_each(|(to, byte)| *to = byte);
    u64::from_be_bytes(first)
}

/// Actors by slot: those that exist, in their order, and then the new ones.
pub(super) struct Slots {
    existing: Vec<ActorId>,
    first_new: ActorId,
}

impl Slots {
    pub(super) fn new(existing: impl IntoIterator<Item = ActorId>, first_new: ActorId) -> Self {
        Self { existing: existing.into_iter().collect(), first_new }
    }

    /// How many actors exist.
    pub(super) fn existing(&self) -> usize {
        self.existing.len()
    }

    /// The actor of a slot.
    pub(super) fn actor(&self, slot: usize) -> ActorId {
        self.existing.get(slot).copied().unwrap_or_else(|| {
            let nth = i32::try_from(slot - self.existing.len()).unwrap_or(i32::MAX);
            ActorId(self.first_new.0.saturating_add(nth))
        })
    }
}

/// [`plan`] over dense numbers: splits are indexes, actors are slots. Takes time in proportion to the splits.
pub(super) struct Planner<'a> {
    /// Every split's slot.
    pub(super) owners: &'a [usize],
    /// Whether every split is finished.
    pub(super) finished: &'a [bool],
    /// For every existing slot, whether an unfinished split can be gone on with there.
    pub(super) can_backfill: &'a [bool],
}

/// A plan in the planner's numbers.
pub(super) struct Planned {
    /// Every split's new slot.
    pub(super) owners: Vec<usize>,
    /// Which slots, existing and new, have an actor afterwards.
    pub(super) stays: Vec<bool>,
}

impl Planned {
    /// The plan to leave everything as it is.
    pub(super) fn unchanged(held: &Held<'_>, actors: usize) -> Self {
        Self { owners: held.owners.clone(), stays: vec![true; actors] }
    }

    pub(super) fn assignment(&self, held: &Held<'_>, slots: &Slots) -> Assignment {
        let mut splits: Vec<Vec<SplitId>> = vec![Vec::new(); self.stays.len()];
        for (split, slot) in held.splits.iter().zip(&self.owners) {
            splits[*slot].push((*split).clone());
        }
        let staying = splits.into_iter().enumerate().filter(|(slot, _)| self.stays[*slot]);
        staying.map(|(slot, splits)| (slots.actor(slot), splits.into_iter().collect())).collect()
    }

    pub(super) fn moves(&self, held: &Held<'_>, slots: &Slots) -> Vec<Move> {
        let ends = held.owners.iter().zip(&self.owners);
        let moved = held.splits.iter().zip(ends).filter(|(_, (from, to))| from != to);
        let to_move = |(split, (from, to)): (&&SplitId, (&usize, &usize))| Move {
            split: (*split).clone(),
            from: Some(slots.actor(*from)),
            to: slots.actor(*to),
        };
        moved.map(to_move).collect()
    }
}

/// How many splits a slot has of each kind.
#[derive(Clone, Copy, Default)]
struct Load {
    all: usize,
    unfinished: usize,
}

impl Planner<'_> {
    pub(super) fn plan(&self, to: u32) -> Planned {
        let to = usize::try_from(to).unwrap_or(usize::MAX).max(1);
        let existing = self.can_backfill.len();
        let mut loads = vec![Load::default(); existing.max(to)];
        for (&slot, &finished) in self.owners.iter().zip(self.finished) {
            loads[slot].all += 1;
            loads[slot].unfinished += usize::from(!finished);
        }
        // `extra` actors hold one more than the `base` of all.
        let (base, extra) = (self.owners.len() / to, self.owners.len() % to);
        let stays = staying(&loads, to, base, extra);
        let room = capacities(&loads, &stays, existing, base, extra);
        let owners = self.deal(&loads, room);
        Planned { owners, stays }
    }

    /// Takes from every slot what is more than its capacity, finished splits first, and gives it to those with room.
    fn deal(&self, loads: &[Load], mut room: Vec<usize>) -> Vec<usize> {
        // How many of each kind stay: the unfinished ones first.
        let mut keep: Vec<Load> = loads
            .iter()
            .zip(&mut room)
            .map(|(load, room)| {
                let all = load.all.min(*room);
                *room -= all;
                Load { all, unfinished: load.unfinished.min(all) }
            })
            .collect();
        let mut owners = self.owners.to_vec();
        let (mut unfinished, mut finished) = (Vec::new(), Vec::new());
        for (split, &slot) in self.owners.iter().enumerate() {
            let keep = &mut keep[slot];
            if self.finished[split] {
                if keep.all > keep.unfinished { keep.all -= 1 } else { finished.push(split) }
            } else if keep.unfinished > 0 {
                keep.all -= 1;
                keep.unfinished -= 1;
            } else {
                unfinished.push(split);
            }
        }
        // Unfinished splits go to actors that can backfill them, as far as there is room: the new ones can.
        let can_backfill = |slot: &usize| self.can_backfill.get(*slot).copied().unwrap_or(true);
        let (mut receivers, others): (Vec<usize>, Vec<usize>) = (0..room.len()).rev().partition(can_backfill);
        receivers.extend(others.into_iter().rev());
        let places = receivers.into_iter().flat_map(|slot| std::iter::repeat_n(slot, room[slot]));
        for (split, slot) in unfinished.into_iter().chain(finished).zip(places) {
            owners[split] = slot;
        }
        owners
    }
}

/// Which slots have an actor afterwards. When some must go, those that keep the most splits stay.
fn staying(loads: &[Load], to: usize, base: usize, extra: usize) -> Vec<bool> {
    if to >= loads.len() {
        return vec![true; loads.len()];
    }
    // An actor keeps up to `base` of its splits, and `extra` of those that have more keep one more. So that many of the
    // latter are wanted first; the rest are chosen by what they keep without it.
    let kept = |slot: &usize| (loads[*slot].all.min(base), loads[*slot].unfinished.min(base));
    let mut slots: Vec<usize> = (0..loads.len()).collect();
    slots.sort_by_key(|slot| (loads[*slot].all <= base, Reverse(loads[*slot].unfinished), *slot));
    let wanted = slots.iter().take(extra).filter(|slot| loads[**slot].all > base).count();
    slots[wanted..].sort_by_key(|slot| (Reverse(kept(slot)), *slot));
    let mut stays = vec![false; loads.len()];
    for slot in slots.into_iter().take(to) {
        stays[slot] = true;
    }
    stays
}

/// How many splits every slot gets: none if it goes, else `base`, and one more for `extra` of them. One more is best
/// given to an actor that has it already, and best of all where it would have to give away an unfinished split.
fn capacities(loads: &[Load], stays: &[bool], existing: usize, base: usize, extra: usize) -> Vec<usize> {
    let mut capacities: Vec<usize> = stays.iter().map(|stays| if *stays { base } else { 0 }).collect();
    let mut slots: Vec<usize> = (0..loads.len()).filter(|slot| stays[*slot]).collect();
    slots.sort_by_key(|slot| {
        let load = loads[*slot];
        (load.all <= base, load.unfinished <= base, *slot < existing, *slot)
    });
    for slot in slots.into_iter().take(extra) {
        capacities[slot] += 1;
    }
    capacities
}

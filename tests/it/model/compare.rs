//! Whether the whole allows all that happens row by row: what its reductions rest on.

use std::collections::HashSet;

use stateright::{Checker as _, Model as _, StateRecorder};

use super::cell::Cell;
use super::exact::Exact;
use super::image::Kind;
use super::whole::{State, Whole, in_order};
use super::world::{Phase, World};

/// A world row by row as the whole sees it, if it is one between two epochs: what runs is what is committed.
fn seen(world: &World) -> Option<State> {
    let still = |view: &super::world::View| {
        view.cells.iter().zip(&view.rows).all(|(cell, row)| cell.map(|cell| cell.state) == *row)
    };
    if world.phase != Phase::Running || !world.views.iter().all(still) {
        return None;
    }
    let mut world = world.clone();
    world.passed.fill(None);
    world.source.fill(None);
    for view in &mut world.views {
        view.emitted.fill(0);
        for row in view.rows.iter_mut().flatten() {
            *row = Kind::of(row).row();
        }
        for cell in view.cells.iter_mut().flatten() {
            *cell = Cell::new(cell.holder, Kind::of(&cell.state).row(), None, 0);
        }
    }
    Some(in_order(State { world, arrived: 0, finished: Vec::new() }))
}

/// How many worlds between two epochs there are row by row; each must be one of the whole's.
pub fn count_contained(exact: Exact, whole: Whole) -> usize {
    let (recorder, visited) = StateRecorder::new_with_accessor();
    whole.checker().visitor(recorder).spawn_bfs().join();
    let allowed: HashSet<State> = visited().into_iter().filter(|state| state.arrived == 0).collect();
    let (recorder, visited) = StateRecorder::new_with_accessor();
    exact.checker().visitor(recorder).spawn_bfs().join();
    let found: HashSet<State> = visited().iter().filter_map(seen).collect();
    let beyond = found.difference(&allowed).next();
    assert!(beyond.is_none(), "the whole doesn't know {beyond:#?}");
    found.len()
}

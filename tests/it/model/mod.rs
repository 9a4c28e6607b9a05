//! An exhaustive model of the protocol.

mod cell;
mod exact;
mod world;

use std::time::Instant;

use stateright::{Checker as _, Model as _};
use tidegate::backfill::check::Policy;

use exact::{Exact, Harm};
use world::{Gate, Switches};

const POLICIES: [Policy; 3] = [Policy::Forwarding, Policy::AllFinished, Policy::StageAware];

fn small(switches: Switches, harm: Harm) -> Exact {
    Exact {
        switches,
        logs: vec![vec![true; 3]; 2],
        history: 2,
        any_first_row: false,
        actors: vec![1, 2],
        views: 1,
        targets: vec![1, 2, 3],
        policies: vec![Policy::StageAware, Policy::Forwarding],
        deferred: false,
        crashes: false,
        eager: true,
        harm,
    }
}

#[test]
fn negatives() {
    let off = Switches { gate: Gate::Off, ..Switches::default() };
    for (name, switches, harm) in [
        ("error", Switches { loses_rows: true, ..off }, Harm::Unexpected),
        ("silence", off, Harm::Hang),
        ("loss", Switches { loses_rows: true, ..off }, Harm::Loss),
        ("race", Switches { gate: Gate::AtRequest, ..Switches::default() }, Harm::Any),
        ("early", Switches { early: true, ..Switches::default() }, Harm::Any),
        ("lost", Switches { loses_rows: true, ..Switches::default() }, Harm::Any),
        ("error without lost rows", off, Harm::Unexpected),
        ("nothing", Switches::default(), Harm::Any),
    ] {
        let start = Instant::now();
        let (schedule, states) = small(switches, harm).shortest();
        println!("{name}: {schedule:#?}\n  states={states} seconds={:.1}", start.elapsed().as_secs_f64());
    }
}

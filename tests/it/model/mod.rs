//! An exhaustive model of the protocol.

mod cell;
mod exact;
mod image;
mod whole;
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
        logs: vec![vec![true]; 3],
        history: 1,
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

#[test]
fn whole_model() {
    let start = Instant::now();
    let image = std::sync::Arc::new(image::image(&image::logs(4)));
    println!("image: states={} edges={} seconds={:.1}", image.states, image.next.len(), start.elapsed().as_secs_f64());
    for (k, v) in &image.next { println!("{k:?} -> {}", v.len()); }
    println!("{:?}", image.first);
    let n: usize = std::env::var("N").map_or(2, |n| n.parse().unwrap());
    for policy in POLICIES {
        let start = Instant::now();
        let whole = whole::Whole { image: image.clone(), splits: n, actors: n as u8, views: 2, policies: vec![policy], switches: Switches::default() };
        let checker = whole.run(2);
        println!("{policy}: states={} unique={} seconds={:.1}", checker.state_count(), checker.unique_state_count(), start.elapsed().as_secs_f64());
        for (name, path) in checker.discoveries() { println!("{name}: {:?}\n{:?}", path.clone().into_actions(), path.last_state()); }
    }
}

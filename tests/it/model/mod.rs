//! An exhaustive model of the protocol, in three parts; the models call the product's own rules and hold no copy of any.
//!
//! - [`exact`] takes a row, a barrier's phase, a statement or a crash at a time, without any reduction. It finds the
//!   shortest schedule to each kind of damage once something is left out ([`negative`]), and none while nothing is.
//! - [`replay`] does those schedules to the running engine, where the damage must show.
//! - [`whole`] has all splits, actors, views, barriers, crashes, new splits, new views, ALTER, DEFERRED and CANCEL. It
//!   sees a split as [`image`] shows it.
//!
//! Why that is sound:
//!
//! - *Between two barriers a split's views share nothing but the live stream's position*, and splits share nothing. So
//!   each may go through all its interleavings alone, for every position that the stream may get to. [`image`] does
//!   so for every log of up to four entries (rows and markers), and each path is checked row by row.
//! - *At a barrier only a state's kind matters*: Backfilling, SourceCachingUp or Finished. The whole therefore keeps the
//!   kinds, and lets them change as any log allows. That allows more than one log would, never less: what is never
//!   reached here is never reached at all.
//! - *Right after a commit, what runs is what is committed*, so a crash between two barriers, wherever it comes, leads
//!   where a crash at the start of the epoch does. One after the commit is another end of the barrier.
//! - *A reader that is paused* is one that isn't scheduled, which every epoch allows.
//! - *Views are interchangeable*: no rule asks which comes first. Splits and actors are not, as the planner breaks ties by
//!   their order; actors keep their order, and their ids beyond it don't matter.
//! - *Liveness*: once all is delivered a split with a reader is Finished at the next barrier ([`image`] asserts it), and
//!   then each barrier leads to one next state. So from every state that can be reached the fair continuation is a
//!   single path, and the model walks it to its end.
//!
//! At most one rescale is pending, and one statement is applied a barrier (beside a deferred one).

mod cell;
mod compare;
mod exact;
mod hand;
mod image;
mod negative;
mod replay;
mod story;
mod whole;
mod world;

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use stateright::Checker as _;
use tidegate::backfill::check::Policy;

use exact::{Exact, Harm};
use whole::Whole;
use world::Switches;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/why.md");

/// The generated part of the page starts here.
const MARK: &str = "<!-- From here on made by TIDEGATE_REWRITE=1 cargo test --test it model -->\n";

/// How many splits and actors the whole has: `TIDEGATE_MODEL=3` is more than a test run has time for.
fn size() -> u8 {
    std::env::var("TIDEGATE_MODEL").map_or(2, |size| size.parse().unwrap())
}

/// Computed once for all policies.
static IMAGE: OnceLock<Arc<image::Image>> = OnceLock::new();

fn image() -> Arc<image::Image> {
    Arc::clone(IMAGE.get_or_init(|| {
        let start = Instant::now();
        let image = image::image(&image::logs(4));
        let (states, seconds) = (image.states, start.elapsed().as_secs_f64());
        println!("one split in two views, every log of 4 offsets: unique={states} seconds={seconds:.1}");
        Arc::new(image)
    }))
}

fn whole(policy: Policy) {
    let image = image();
    let start = Instant::now();
    let size = size();
    let model = Whole {
        image,
        splits: usize::from(size),
        actors: size,
        views: 2,
        policies: vec![policy],
        switches: Switches::default(),
    };
    let checker = model.run(2);
    let (states, unique, seconds) =
        (checker.state_count(), checker.unique_state_count(), start.elapsed().as_secs_f64());
    println!("{policy}, {size} splits, {size} actors, 2 views: states={states} unique={unique} seconds={seconds:.1}");
    checker.assert_properties();
}

#[test]
fn forwarding_is_safe_and_comes_to_rest() {
    whole(Policy::Forwarding);
}

#[test]
fn all_finished_is_safe_and_comes_to_rest() {
    whole(Policy::AllFinished);
}

#[test]
fn stage_aware_is_safe_and_comes_to_rest() {
    whole(Policy::StageAware);
}

#[test]
fn the_whole_allows_what_happens_row_by_row() {
    let start = Instant::now();
    let policies = vec![Policy::Forwarding, Policy::AllFinished, Policy::StageAware];
    let whole = Whole {
        image: image(),
        splits: 2,
        actors: 2,
        views: 1,
        policies: policies.clone(),
        switches: Switches::default(),
    };
    let mut found = 0;
    for logs in [[vec![true], vec![true]], [vec![true, false], Vec::new()]] {
        let exact = Exact {
            logs: logs.to_vec(),
            history: 0,
            any_first_row: true,
            actors: vec![1, 2],
            targets: vec![1, 2],
            policies: policies.clone(),
            deferred: true,
            crashes: true,
            eager: false,
            ..negative::small(Switches::default(), Harm::Any)
        };
        found += compare::count_contained(exact, whole.clone());
    }
    println!("row by row and as a whole: {found} barriers, seconds={:.1}", start.elapsed().as_secs_f64());
    assert!(found > 100, "{found}");
}

#[test]
fn row_by_row_nothing_goes_wrong_with_the_gate() {
    let exact = Exact { crashes: true, deferred: true, ..negative::small(Switches::default(), Harm::Any) };
    let start = Instant::now();
    let (schedule, states) = exact.shortest();
    println!("row by row: unique={states} seconds={:.1}", start.elapsed().as_secs_f64());
    assert_eq!(schedule, None);
}

#[test]
fn each_way_to_damage_is_found_and_told() {
    let mut told = String::from(MARK);
    for negative in negative::negatives() {
        let schedule = negative.schedule();
        let table = story::tell(&negative.exact, &schedule);
        write!(told, "\n## {}\n\n{}\n\n{table}", negative.title, negative.why).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (written, tables) = page.split_once(MARK).unwrap();
    if std::env::var_os("TIDEGATE_REWRITE").is_some() {
        std::fs::write(PAGE, format!("{written}{told}")).unwrap();
        return;
    }
    let tables = format!("{MARK}{tables}");
    assert!(tables == told, "docs/why.md is out of date: TIDEGATE_REWRITE=1 cargo test --test it model\n{told}");
}

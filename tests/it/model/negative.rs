//! What goes wrong as soon as one thing is left out: for each, the shortest schedule, found anew in every run.

use tidegate::backfill::check::Policy;

use super::exact::{Exact, Harm, Step};
use super::world::{Gate, Switches};

/// One thing left out.
pub struct Negative {
    pub title: &'static str,
    pub why: &'static str,
    pub exact: Exact,
}

impl Negative {
    pub fn schedule(&self) -> Vec<Step> {
        self.exact.clone().shortest().0.unwrap_or_else(|| panic!("{}: nothing found", self.title))
    }
}

/// Three splits of one row each on two actors, one view.
pub fn small(switches: Switches, harm: Harm) -> Exact {
    Exact {
        switches,
        logs: vec![vec![true]; 3],
        history: 1,
        any_first_row: false,
        actors: vec![2],
        views: 1,
        targets: vec![1, 3],
        policies: vec![Policy::StageAware, Policy::Forwarding],
        deferred: false,
        crashes: false,
        eager: true,
        harm,
    }
}

pub fn negatives() -> Vec<Negative> {
    let off = Switches { gate: Gate::Off, ..Switches::default() };
    let on = Switches::default();
    vec![
        Negative {
            title: "The error: no gate, and a recovery that loses a state row",
            why: "With the row gone, all rows that are left are Finished, so the other actor goes forwarding. Then the \
                  split's first state is written again, and it moves to where nobody can read it: the actor dies with \
                  `Unexpected backfill state`.",
            exact: Exact { history: 0, ..small(Switches { recovery_loses: true, ..off }, Harm::Unexpected) },
        },
        Negative {
            title: "The silence: no gate",
            why: "The receiver's own splits are Finished, so it has dropped its reader at this very barrier. The moved \
                  split waits for ever. Nothing fails.",
            exact: small(off, Harm::Hang),
        },
        Negative {
            title: "The loss: no gate, and a state row that is missing",
            why: "The receiver finds no row, takes the split for a new partition and calls it Finished. Its history \
                  never comes. Nothing fails here either.",
            exact: small(Switches { table_loses: true, ..off }, Harm::Loss),
        },
        Negative {
            title: "The race: the check is made before the barrier, outside its transaction",
            why: "The receiver had a reader when the check looked, and has none when the plan is committed: the hang \
                  again.",
            exact: small(Switches { gate: Gate::AtRequest, ..on }, Harm::Any),
        },
        Negative {
            title: "The early rescale: applied before the barrier's states are written",
            why: "The check is right, the split may move; but its new actor starts from the state before, and reads \
                  again what has come out already.",
            exact: small(Switches { early: true, ..on }, Harm::Any),
        },
        Negative {
            title: "The lost row: a recovery loses one state row, with the gate on",
            why: "Nobody knows how far the split was. It rests, and is reported; every rescale is refused, and a \
                  deferred one waits. That is a hang, but one that says so: to guess would lose rows or double them.",
            exact: small(Switches { recovery_loses: true, ..on }, Harm::Any),
        },
    ]
}

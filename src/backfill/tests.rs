//! Tests of the domain as a whole. Rules that rows depend on are proved by [`exactly_once`], over the model in [`sim`].

mod checking;
mod exactly_once;
mod golden;
mod planning;
mod progress;
mod sim;
mod state_text;

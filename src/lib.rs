//! Tidegate: see how far the backfill of every split of a streaming source is, and refuse the rescale that would break it.
//!
//! When a split of a shared source moves to an actor that has left its backfill stage while the split's persisted state
//! isn't `Finished`, RisingWave's executor dies, recovers and can die again. Tidegate shows those states as SQL tables
//! and puts a check in front of the move: [`backfill::check`], run inside the transaction that would commit it.
//!
//! How a statement travels, and where to look for it:
//!
//! ```text
//! client ── wire ──┬── command ── engine ──┐        wire      PostgreSQL's protocol, sessions, errors
//!                  │                       ├─ store  command   our statements: parsed and run
//!                  └── catalog ────────────┘         catalog   every SELECT, over views in sql/views
//!                                                    engine    actors, barriers, checkpoints, the gate
//!                          backfill                  store     the state file, tidegate.db
//!             (pure: states, stages, check, plan)    backfill  the rules, without any I/O
//! ```
//!
//! - A split's life: [`backfill::transition`]. An actor's: [`backfill::stage`].
//! - The check and its verdicts: [`backfill::check`]. The gate that uses it: `engine/embedded/rescale.rs`.
//! - A barrier's life: `engine/embedded/coordinator.rs`.
//! - A virtual table: one file in `sql/views`. A statement of ours: [`command::ast`].
//! - What is never shown: [`secret`].
//! - Who may do what: [`auth::authorize`], nowhere else.
//! - An error's message, SQLSTATE, DETAIL and HINT: [`error::Error`], nowhere else.

pub mod auth;
pub mod backfill;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod command;
pub mod config;
pub mod engine;
pub mod error;
pub mod failpoint;
mod incident;
mod jsonb;
pub mod limits;
pub mod observe;
pub mod secret;
pub mod serve;
pub mod store;
pub mod wire;

//! A schedule as a table that a person can follow. `docs/why.md` is made from them.

use std::fmt::Write as _;

use super::exact::{Exact, Step};
use super::world::{Statement, World};

/// Every step with the states after it.
pub fn tell(exact: &Exact, schedule: &[Step]) -> String {
    use stateright::Model as _;
    let mut world = exact.init_states().remove(0);
    let splits = exact.logs.len();
    let mut out = String::from("| | what happens |");
    (0..splits).for_each(|split| write!(out, " split {split} |").unwrap());
    out.push_str(" actors |\n|---|---|");
    out.push_str(&"---|".repeat(splits + 1));
    line(&mut out, 0, "the view has just been made", &world);
    for (nth, step) in schedule.iter().enumerate() {
        world = exact.step(&world, step);
        line(&mut out, nth + 1, &words(step), &world);
    }
    out.push('\n');
    let end = match world.damage {
        Some(damage) => format!("{damage:?}"),
        None if exact.hangs(&world) => "everything is delivered, and a split never gets Finished".into(),
        None => "nothing".into(),
    };
    writeln!(out, "\nDamage: `{end}`").unwrap();
    out
}

fn line(out: &mut String, nth: usize, what: &str, world: &World) {
    write!(out, "\n| {nth} | {what} |").unwrap();
    let view = &world.views[0];
    for cell in &view.cells {
        match cell {
            Some(cell) => {
                write!(out, " {} at actor {} |", state(&format!("{:?}", cell.state.state)), cell.holder).unwrap()
            }
            None => out.push_str(" rests |"),
        }
    }
    let actors: Vec<String> = view
        .actors
        .iter()
        .map(|actor| match (actor.stage.can_backfill(), actor.stage) {
            (true, _) => "reads".to_owned(),
            (false, stage) => format!("{stage}").replace("backfill", "no reader"),
        })
        .collect();
    write!(out, " {} |", actors.join(", ")).unwrap();
}

fn state(debug: &str) -> String {
    debug.replace('"', "").replace("Some(", "").replace("None", "-").replace("))", ")")
}

fn words(step: &Step) -> String {
    match step {
        Step::Source { split, offset } => format!("the live stream brings row {offset} of split {split}"),
        Step::Live { split, offset, .. } => format!("the view's actor takes row {offset} of split {split}"),
        Step::Reader { split, offset, entries, .. } => {
            let rows = if *entries == 1 { format!("row {offset}") } else { format!("rows up to {offset}") };
            format!("the backfill reader brings {rows} of split {split}")
        }
        Step::Ask(alter) => {
            format!("`ALTER SOURCE s SET PARALLELISM = {}` ({}) is checked, and passes", alter.to, alter.policy)
        }
        Step::Barrier => "a barrier reaches all actors".into(),
        Step::Commit(None) => "its states are committed".into(),
        Step::Commit(Some(Statement::Alter(alter))) => {
            format!("`ALTER SOURCE s SET PARALLELISM = {}` is committed with them", alter.to)
        }
        Step::Commit(Some(other)) => format!("{other:?} is committed"),
        Step::Apply => "the actors go on".into(),
        Step::Crash { lost: None } => "a crash; all is rebuilt from the last commit".into(),
        Step::Crash { lost: Some((_, split)) } => {
            format!("a crash; all is rebuilt, and the state row of split {split} is lost")
        }
        Step::Lose { split, .. } => format!("the state row of split {split} is lost"),
        Step::Cancel => "the rescale is cancelled".into(),
    }
}

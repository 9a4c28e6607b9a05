//! Every form of every statement, every error with its place, and texts that nobody would write.

mod commands;
mod errors;
mod kafka;
mod limits;
mod patience;
mod sessions;

use crate::command::{Parsed, Statement, ast, parse};
use crate::error::Error;

/// The only statement of a text.
fn one(sql: &str) -> Parsed {
    let mut parsed = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error} {:?}", error.hint()));
    assert_eq!(parsed.len(), 1, "{sql}");
    parsed.remove(0)
}

fn command(sql: &str) -> ast::Command {
    match one(sql).statement {
        Statement::Command(command) => command,
        other => panic!("{sql}: {other:?}"),
    }
}

fn session(sql: &str) -> ast::Session {
    match one(sql).statement {
        Statement::Session(session) => session,
        other => panic!("{sql}: {other:?}"),
    }
}

/// The error of a text, or that of running it if its value can't be had.
fn error(sql: &str) -> Error {
    match parse(sql) {
        Err(error) => error,
        Ok(mut parsed) => match parsed.remove(0).statement {
            Statement::Command(ast::Command::Alter(ast::Alter {
                action: ast::AlterAction::Invalid(value), ..
            })) => value.into(),
            other => panic!("{sql}: {other:?}"),
        },
    }
}

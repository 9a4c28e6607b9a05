//! The commands of the command line, one file each.

pub mod backup;
pub mod check;
mod client;
pub mod connector;
pub mod demo;
pub mod passwd;
mod pgpass;
mod secure;
pub mod serve;
pub mod watch;

use std::process::ExitCode;

use crate::error::Error;

/// Prints an error as psql prints a server's, on standard error.
#[expect(clippy::print_stderr, reason = "this is what the command line shows")]
pub fn print_error(error: &Error) {
    eprintln!("ERROR:  {}: {error}", error.sqlstate());
    if let Some(detail) = error.detail() {
        eprintln!("DETAIL:  {detail}");
    }
    if let Some(hint) = error.hint() {
        eprintln!("HINT:  {hint}");
    }
}

/// Exit code of a command that has nothing finer to say.
pub fn exit_code(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

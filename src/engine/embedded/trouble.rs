//! Why the store can't be written: what statements and `/healthz` are told until a checkpoint works again.

use crate::error::Error;

/// The cause.
#[derive(Debug, Clone)]
pub struct Trouble {
    sqlstate: &'static str,
    /// In words.
    pub detail: String,
}

impl From<&Error> for Trouble {
    fn from(error: &Error) -> Self {
        let detail = error.detail().map_or_else(|| error.to_string(), |detail| format!("{error}: {detail}"));
        Self { sqlstate: error.sqlstate(), detail }
    }
}

impl Trouble {
    /// What those are told whose statement was in the checkpoint.
    pub fn to_error(&self) -> Error {
        Error::CheckpointFailed { sqlstate: self.sqlstate, detail: self.detail.clone() }
    }
}

/// What a request is told between two tries.
pub fn not_now(trouble: Option<&Trouble>, reason: &str, seconds: u64) -> Error {
    let next = format!("Next try in at most {seconds} s.");
    match trouble {
        Some(Trouble { sqlstate, detail }) => Error::CheckpointFailed { sqlstate, detail: format!("{detail}. {next}") },
        None => Error::Recovering { detail: format!("{reason}. {next}") },
    }
}

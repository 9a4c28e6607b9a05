//! The SQL catalog: everything between SQLite and DataFusion.
//!
//! A virtual table is a file of `sql/views` ([`view`]); each reader connection gets them as temporary SQLite views
//! (`connection`). [`table`] reads them for DataFusion with conditions and limits in SQLite's SQL, [`types`] keeps
//! PostgreSQL's exact types up to the wire. A [`Session`] plans and runs the statements of one client connection:
//! names are looked up along its search path in the snapshot that the statement reads ([`scope`]), what PostgreSQL
//! writes otherwise than DataFusion is rewritten (`rewrite`), and `functions` adds PostgreSQL's functions.

use datafusion::error::DataFusionError;

use crate::error::Error;

mod activity;
mod analyze;
mod append;
mod batch;
mod both;
mod cast;
pub mod casts;
mod computed;
mod connection;
mod counted;
mod datetime;
mod exact;
mod expansion;
mod explain;
mod filter;
mod functions;
mod guard;
pub mod held;
mod interrupt;
mod levels;
mod locks;
mod marks;
mod nulls;
mod number_pattern;
mod ordered;
mod origin;
mod own_functions;
mod pages;
mod repeated;
mod rescale;
mod rewrite;
mod schemas;
pub mod scope;
mod session;
mod statics;
mod strict;
mod subquery;
pub mod table;
mod table_functions;
mod timezones;
pub mod types;
pub mod view;

#[cfg(test)]
mod tests;

pub use cast::interval;
pub use connection::prepare_connection;
pub use guard::Memory;
pub use origin::{Origin, origins};
pub use rewrite::{fold, output_name};
pub use schemas::{DATABASE, SCHEMAS, SEARCH_PATH, other_database};
pub use scope::{Activity, Encryption, Host, Server, Setting};
pub use session::{Catalog, Session};

/// The schema in which the server has a table of that name, if it is one that is searched.
pub fn schema_of_own(name: &str) -> Option<&'static str> {
    let mut own = view::VIEWS.iter().chain(statics::TABLES.iter()).filter(|view| view.is_visible());
    own.find(|view| view.name == name && SEARCH_PATH.contains(&&*view.schema)).map(|view| &*view.schema)
}

/// SQLite's error as ours.
fn store_error(context: &'static str, source: rusqlite::Error) -> Error {
    match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => Error::Canceled,
        _ => Error::Store { context, source },
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

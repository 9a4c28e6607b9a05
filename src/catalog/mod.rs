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
mod marks;
mod number_pattern;
mod ordered;
mod origin;
mod own_functions;
mod pages;
mod repeated;
mod rescale;
mod rewrite;
pub mod scope;
mod session;
mod statics;
mod strict;
mod subquery;
pub mod table;
mod table_functions;
pub mod types;
pub mod view;

#[cfg(test)]
mod tests;

pub use cast::interval;
pub use connection::prepare_connection;
pub use guard::Memory;
pub use origin::{Origin, origins};
pub use rewrite::{fold, output_name};
pub use scope::{Activity, Encryption, Host, Server, Setting};
pub use session::{Catalog, Session};

/// The only database.
pub const DATABASE: &str = "dev";

/// What PostgreSQL says of a name in another one.
pub fn other_database(name: &str) -> Error {
    let message = format!("cross-database references are not implemented: \"{name}\"");
    Error::Semantics { sqlstate: "0A000", message }
}

/// The schemas: name, oid and comment.
pub const SCHEMAS: &[(&str, u32, &str)] = &[
    ("pg_catalog", 11, "system catalog schema"),
    ("public", 2200, "standard public schema"),
    ("information_schema", 13207, "the catalog of the SQL standard"),
    ("tidegate", 15001, "how far every backfill is, and whether a rescale is safe"),
    ("rw_catalog", 15002, "the catalog that RisingWave's users know"),
];

/// Where an unqualified name is looked for, as long as search_path is not set.
pub const SEARCH_PATH: &[&str] = &["public", "tidegate", "rw_catalog", "pg_catalog"];

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

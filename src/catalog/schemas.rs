//! The one database and its schemas.

use crate::error::Error;

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

//! Names of sources and views, with a schema and a database or without.

use crate::catalog::{DATABASE, SCHEMAS, other_database};
use crate::error::Error;

/// Why a name can't be that of a source or view: they all live in schema public of the one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// It is in another database.
    Database(String),
    /// It is in a schema that doesn't exist.
    Schema(String),
    /// It is in a schema that has the server's own tables only.
    Own {
        /// `source`, `materialized view`, or `relation` where it may be either.
        kind: &'static str,
        /// The name, with the schema.
        name: String,
    },
}

impl Elsewhere {
    /// What is wrong with a name, if it is: `qualifier` is what stands before it, the schema last.
    pub(in crate::command) fn find(qualifier: &[String], name: &str, kind: &'static str) -> Option<Self> {
        let (schema, database) = qualifier.split_last()?;
        if database.iter().any(|database| database != DATABASE) {
            return Some(Self::Database(format!("{}.{name}", qualifier.join("."))));
        }
        match SCHEMAS.iter().any(|(known, ..)| known == schema) {
            true if schema == "public" => None,
            true => Some(Self::Own { kind, name: format!("{schema}.{name}") }),
            false => Some(Self::Schema(schema.clone())),
        }
    }

    /// The error of one that is to be made.
    pub(in crate::command) fn when_created(self) -> Error {
        match self {
            Self::Own { name, .. } => Error::Privilege {
                message: format!("permission denied to create \"{name}\""),
                detail: "Sources and materialized views live in schema public.".into(),
                hint: "Leave the schema away.".into(),
            },
            other => other.into(),
        }
    }
}

impl From<Elsewhere> for Error {
    fn from(elsewhere: Elsewhere) -> Self {
        match elsewhere {
            Elsewhere::Database(name) => other_database(&name),
            Elsewhere::Schema(name) => Self::Semantics { sqlstate: "3F000", message: no_schema(&name) },
            Elsewhere::Own { kind, name } => Self::UndefinedRelation { kind, name, nearest: None },
        }
    }
}

/// In PostgreSQL's words.
pub(in crate::command) fn no_schema(name: &str) -> String {
    format!("schema \"{name}\" does not exist")
}

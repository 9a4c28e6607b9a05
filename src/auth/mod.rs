//! Who may do what: one function, [`authorize`], which commands ask before they run and the catalog before it plans.
//!
//! The rules, in PostgreSQL's words:
//! - a *superuser* may do everything;
//! - an *owner* may do everything with its sources and views, and so may the members of a role that owns them;
//! - `SELECT` on a view, or on the schema that it is in, lets a role read it; `SELECT` on a source lets it make views of
//!   the source, and ask whether it may be rescaled;
//! - `ALTER` on a source or view lets a role rescale it, set its rate limits and cancel its rescales;
//! - `CREATE` on schema public lets a role make sources and views;
//! - `tidegate_viewer` reads every view and every table of `tidegate` and `rw_catalog`; `tidegate_operator` does too, has
//!   `ALTER` on every source and view, and may `RECOVER` and `FLUSH`;
//! - everybody reads `pg_catalog` and `information_schema`, apart from what holds verifiers.
//!
//! What follows for relations is written once, in `sql/views/base.acl.sql`, so that `pg_class.relacl` and
//! `has_table_privilege` can't tell anything else than what is enforced here.

pub mod passwords;
pub mod scram;
pub mod throttle;

use rusqlite::{Connection, params};

use crate::error::{Error, Result};
use crate::store::Context as _;
use crate::store::users::{self, OPERATOR, PUBLIC, User, VIEWER};

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read it.
    Select,
    /// Rescale it, set its rates.
    Alter,
    /// Ask whether it may be rescaled: who may read or alter it.
    Inspect,
    /// Drop it, grant on it: what owners do.
    Own,
    /// Make something in it.
    Create,
    /// Rebuild actors, force a checkpoint.
    Operate,
    /// Make and change users and roles.
    Administer,
}

/// What it is to be done with.
#[derive(Debug, Clone, Copy)]
pub enum Object<'a> {
    /// A source, view or virtual table.
    Relation {
        /// Its oid.
        oid: i64,
        /// `source`, `materialized view` or `table`.
        kind: &'a str,
        /// Its name, as errors give it.
        name: &'a str,
    },
    /// A schema.
    Schema {
        /// Its oid.
        oid: i64,
        /// Its name.
        name: &'a str,
    },
    /// The server as a whole; what is done with it, in words.
    Server(&'a str),
}

/// Lets a user do something with an object, or says what is missing and who can give it.
///
/// The connection is a reader, which has the catalog's views.
///
/// # Errors
/// [`Error::Privilege`], SQLSTATE 42501; also for a user that is no more.
pub fn authorize(connection: &Connection, user: &str, action: Action, object: Object<'_>) -> Result<()> {
    let Some(who) = users::find(connection, user)? else { return Err(gone(user)) };
    if may(connection, &who, action, object)? { Ok(()) } else { Err(denied(connection, user, action, object)?) }
}

/// Whether a user may do something with an object.
///
/// # Errors
/// [`Error::Store`].
pub fn may(connection: &Connection, who: &User, action: Action, object: Object<'_>) -> Result<bool> {
    if who.superuser {
        return Ok(true);
    }
    match (action, object) {
        (Action::Select, Object::Relation { oid, .. }) => on_relation(connection, who.id, oid, "SELECT"),
        (Action::Alter, Object::Relation { oid, .. }) => on_relation(connection, who.id, oid, "ALTER"),
        (Action::Inspect, Object::Relation { oid, .. }) => {
            Ok(on_relation(connection, who.id, oid, "SELECT")? || on_relation(connection, who.id, oid, "ALTER")?)
        }
        (Action::Own, Object::Relation { oid, .. }) => match owner(connection, oid)? {
            Some((owner, _)) => Ok(users::roles_of(connection, who.id)?.contains(&owner)),
            None => Ok(false),
        },
        (Action::Create, Object::Schema { oid, .. }) => on_schema(connection, who.id, oid, "CREATE"),
        (Action::Select, Object::Schema { oid, .. }) => on_schema(connection, who.id, oid, "SELECT"),
        (Action::Alter, Object::Schema { oid, .. }) => on_schema(connection, who.id, oid, "ALTER"),
        (Action::Operate, _) => is_member(connection, who.id, OPERATOR),
        _ => Ok(false),
    }
}

/// Whether a user is a member, directly or not, of a role.
///
/// # Errors
/// [`Error::Store`].
pub fn is_member(connection: &Connection, user: i32, role: &str) -> Result<bool> {
    Ok(match users::find(connection, role)? {
        Some(role) => users::roles_of(connection, user)?.contains(&role.id),
        None => false,
    })
}

fn on_relation(connection: &Connection, user: i32, oid: i64, privilege: &str) -> Result<bool> {
    let roles = users::roles_of(connection, user)?;
    connection
        .prepare_cached("SELECT a.grantee FROM temp.\"base.acl\" a WHERE a.oid = ?1 AND a.privilege = ?2")
        .and_then(|mut statement| {
            let grantees = statement.query_map(params![oid, privilege], |row| row.get(0))?;
            grantees.collect::<rusqlite::Result<Vec<i32>>>()
        })
        .map(|grantees| grantees.iter().any(|grantee| *grantee == PUBLIC || roles.contains(grantee)))
        .context("looking up privileges")
}

fn on_schema(connection: &Connection, user: i32, oid: i64, privilege: &str) -> Result<bool> {
    let roles = users::roles_of(connection, user)?;
    connection
        .prepare_cached("SELECT grantee FROM main.grants WHERE object = ?1 AND privilege = ?2")
        .and_then(|mut statement| {
            let grantees = statement.query_map(params![oid, privilege], |row| row.get(0))?;
            grantees.collect::<rusqlite::Result<Vec<i32>>>()
        })
        .map(|grantees| grantees.iter().any(|grantee| *grantee == PUBLIC || roles.contains(grantee)))
        .context("looking up privileges")
}

/// The owner of a relation: id and name.
fn owner(connection: &Connection, oid: i64) -> Result<Option<(i32, String)>> {
    use rusqlite::OptionalExtension as _;
    connection
        .prepare_cached(
            "SELECT u.id, u.name FROM temp.\"base.relations\" r JOIN main.users u ON u.id = r.owner WHERE r.oid = ?1",
        )
        .and_then(|mut statement| statement.query_row([oid], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .context("looking up an owner")
}

fn gone(user: &str) -> Error {
    Error::Privilege {
        message: format!("role \"{user}\" does not exist any more"),
        detail: "It was dropped or renamed while this session was open.".into(),
        hint: "Connect again, as a role that exists.".into(),
    }
}

/// The error, with what is missing and who can give it.
fn denied(connection: &Connection, user: &str, action: Action, object: Object<'_>) -> Result<Error> {
    let to = quoted(user);
    Ok(match object {
        Object::Relation { oid, kind, name } => {
            let owner = owner(connection, oid)?.map_or_else(String::new, |(_, owner)| owner);
            if action == Action::Own {
                return Ok(Error::Privilege {
                    message: format!("must be owner of {kind} {name}"),
                    detail: format!("It belongs to role \"{owner}\", of which role \"{user}\" is not a member."),
                    hint: "Ask its owner or a superuser.".into(),
                });
            }
            let privilege = if action == Action::Alter { "ALTER" } else { "SELECT" };
            let role = if action == Action::Alter { OPERATOR } else { VIEWER };
            let words = if kind == "table" { String::new() } else { format!("{} ", kind.to_uppercase()) };
            let hint = if matches!(oid, 1260 | 12005) {
                "Only superusers see what checks passwords: pg_roles and pg_user show the rest.".into()
            } else {
                format!(
                    "Its owner \"{owner}\" can GRANT {privilege} ON {words}{name} TO {to}, or a superuser can GRANT {role} TO {to}."
                )
            };
            Error::Privilege {
                message: format!("permission denied for {kind} {name}"),
                detail: format!("Role \"{user}\" lacks {privilege} on it."),
                hint,
            }
        }
        Object::Schema { name, .. } => Error::Privilege {
            message: format!("permission denied for schema {name}"),
            detail: format!("Role \"{user}\" lacks CREATE on it."),
            hint: format!("A superuser can GRANT CREATE ON SCHEMA {name} TO {to}."),
        },
        Object::Server(what) if action == Action::Operate => Error::Privilege {
            message: format!("permission denied to {what}"),
            detail: format!("Role \"{user}\" is not a member of {OPERATOR}."),
            hint: format!("A superuser can GRANT {OPERATOR} TO {to}."),
        },
        Object::Server(what) => Error::Privilege {
            message: format!("permission denied to {what}"),
            detail: format!("Role \"{user}\" is not a superuser."),
            hint: "Ask a superuser.".into(),
        },
    })
}

/// A name as it has to be written in SQL.
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

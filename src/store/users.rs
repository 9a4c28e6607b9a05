//! Users, the roles that they are members of, and what was granted to them.

use rusqlite::{Connection, OptionalExtension, named_params, params};

use super::Context;
use crate::error::{Error, Result};

/// The user that every server has. It stays a superuser, so that there is one.
pub const ROOT: i32 = 10;
/// The role that reads every virtual table and view.
pub const VIEWER: &str = "tidegate_viewer";
/// The role that rescales.
pub const OPERATOR: &str = "tidegate_operator";
/// `grants.grantee` of what everybody may.
pub const PUBLIC: i32 = 0;

/// A user or role.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Its oid.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// May do everything.
    pub superuser: bool,
    /// May connect.
    pub can_login: bool,
    /// What checks its password, in PostgreSQL's form. `None`: it has none.
    pub verifier: Option<String>,
    /// Most sessions at a time; -1: no limit.
    pub connection_limit: i32,
    /// When its password ends, in microseconds since 1970. `None`: never.
    pub valid_until: Option<i64>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Finds a user or role by name.
///
/// # Errors
/// [`Error::Store`].
pub fn find(connection: &Connection, name: &str) -> Result<Option<User>> {
    let sql = "SELECT id, name, superuser, can_login, verifier, connection_limit, valid_until
               FROM main.users WHERE name = ?1";
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let row = |row: &rusqlite::Row<'_>| {
                Ok(User {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    superuser: row.get(2)?,
                    can_login: row.get(3)?,
                    verifier: row.get(4)?,
                    connection_limit: row.get(5)?,
                    valid_until: row.get(6)?,
                })
            };
            statement.query_row([name], row).optional()
        })
        .context("looking up a user")
}

/// Finds a user or role that has to be there.
///
/// # Errors
/// SQLSTATE 42704.
pub fn get(connection: &Connection, name: &str) -> Result<User> {
    find(connection, name)?.ok_or_else(|| undefined(name))
}

/// The error for a name that no role has.
pub fn undefined(name: &str) -> Error {
    Error::Semantics { sqlstate: "42704", message: format!("role \"{name}\" does not exist") }
}

/// The user that every server has, whatever its name is now.
///
/// # Errors
/// [`Error::Store`].
pub fn first(connection: &Connection) -> Result<Option<User>> {
    name(connection, ROOT.into())?.map_or(Ok(None), |name| find(connection, &name))
}

/// The name of a user.
///
/// # Errors
/// [`Error::Store`].
pub fn name(connection: &Connection, id: i64) -> Result<Option<String>> {
    connection
        .prepare_cached("SELECT name FROM main.users WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)).optional())
        .context("looking up a user")
}

/// Who may connect without a password, by name.
///
/// # Errors
/// [`Error::Store`].
pub fn without_password(connection: &Connection) -> Result<Vec<String>> {
    connection
        .prepare("SELECT name FROM main.users WHERE can_login AND verifier IS NULL ORDER BY name")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .context("looking for users without a password")
}

/// What made-up salts are made of.
///
/// # Errors
/// [`Error::Store`].
pub fn secret(connection: &Connection) -> Result<Vec<u8>> {
    connection
        .query_row("SELECT value FROM main.server_secret", [], |row| row.get(0))
        .context("reading the server's secret")
}

/// Adds a user; its id is taken from the relations' sequence, whatever `user.id` is.
///
/// # Errors
/// SQLSTATE 42710 when the name is taken.
pub fn insert(tx: &Connection, user: &User) -> Result<()> {
    refuse_taken(tx, &user.name)?;
    let id = super::relations::next_oid(tx)?;
    tx.execute("INSERT INTO users (id, name, superuser) VALUES (?1, ?2, 0)", params![id, user.name])
        .context("adding a user")?;
    update(tx, &User { id, ..user.clone() })
}

/// Writes all but the name of a user.
///
/// # Errors
/// [`Error::Store`].
pub fn update(tx: &Connection, user: &User) -> Result<()> {
    tx.execute(
        "UPDATE users SET superuser = :superuser, can_login = :login, verifier = :verifier,
           connection_limit = :limit, valid_until = :until WHERE id = :id",
        named_params! {
            ":superuser": user.superuser, ":login": user.can_login, ":verifier": user.verifier,
            ":limit": user.connection_limit, ":until": user.valid_until, ":id": user.id,
        },
    )
    .context("changing a user")?;
    Ok(())
}

/// Gives a user, and so the owner of its relations, another name.
///
/// # Errors
/// SQLSTATE 42710 when the name is taken.
pub fn rename(tx: &Connection, user: &User, to: &str) -> Result<()> {
    refuse_taken(tx, to)?;
    tx.execute("UPDATE users SET name = ?1 WHERE id = ?2", params![to, user.id]).context("renaming a user")?;
    tx.execute("UPDATE relations SET owner = ?1 WHERE owner = ?2", params![to, user.name])
        .context("renaming an owner")?;
    Ok(())
}

/// Makes a relation another user's.
///
/// # Errors
/// [`Error::Store`].
pub fn set_owner(tx: &Connection, relation: i32, owner: &User) -> Result<()> {
    tx.execute("UPDATE relations SET owner = ?1 WHERE id = ?2", params![owner.name, relation])
        .context("changing an owner")?;
    Ok(())
}

/// Makes all that a user owns another's.
///
/// # Errors
/// [`Error::Store`].
pub fn reassign(tx: &Connection, from: &User, to: &User) -> Result<()> {
    tx.execute("UPDATE relations SET owner = ?1 WHERE owner = ?2", [&to.name, &from.name])
        .context("changing owners")?;
    Ok(())
}

/// Takes away all that a user was granted on relations and schemas.
///
/// # Errors
/// SQLSTATE 2BP01 when it owns something.
pub fn drop_owned(tx: &Connection, user: &User) -> Result<()> {
    refuse_owner(tx, user)?;
    tx.execute("DELETE FROM grants WHERE grantee = ?1", [user.id]).context("revoking what was granted")?;
    Ok(())
}

/// Takes a user away, with its memberships and what it was granted.
///
/// # Errors
/// SQLSTATE 2BP01 when it owns something.
pub fn delete(tx: &Connection, user: &User) -> Result<()> {
    refuse_owner(tx, user)?;
    tx.execute("DELETE FROM users WHERE id = ?1", [user.id]).context("dropping a user")?;
    Ok(())
}

fn refuse_owner(tx: &Connection, user: &User) -> Result<()> {
    let owned: Vec<String> = tx
        .prepare("SELECT kind || ' ' || name FROM relations WHERE owner = ?1 ORDER BY name")
        .and_then(|mut statement| statement.query_map([&user.name], |row| row.get(0))?.collect())
        .context("looking for what a user owns")?;
    if !owned.is_empty() {
        let dependents = owned.into_iter().map(|object| format!("owner of {object}")).collect();
        return Err(Error::OwnsObjects { name: user.name.clone(), dependents });
    }
    Ok(())
}

fn refuse_taken(tx: &Connection, name: &str) -> Result<()> {
    match find(tx, name)? {
        Some(_) => Err(Error::Semantics { sqlstate: "42710", message: format!("role \"{name}\" already exists") }),
        None => Ok(()),
    }
}

/// Makes `member` a member of `role`. False: it was one.
///
/// # Errors
/// SQLSTATE 0LP01 when the role is, in the end, a member of `member`.
pub fn add_member(tx: &Connection, role: &User, member: &User, grantor: i32) -> Result<bool> {
    if roles_of(tx, role.id)?.contains(&member.id) {
        let message = format!("role \"{}\" is a member of role \"{}\"", role.name, member.name);
        return Err(Error::Semantics { sqlstate: "0LP01", message });
    }
    tx.execute("INSERT OR IGNORE INTO role_members VALUES (?1, ?2, ?3)", params![role.id, member.id, grantor])
        .map(|rows| rows > 0)
        .context("granting a role")
}

/// Ends a membership. False: there was none.
///
/// # Errors
/// [`Error::Store`].
pub fn remove_member(tx: &Connection, role: &User, member: &User) -> Result<bool> {
    tx.execute("DELETE FROM role_members WHERE role_id = ?1 AND member_id = ?2", [role.id, member.id])
        .map(|rows| rows > 0)
        .context("revoking a role")
}

/// The roles that a user is, or is a member of, directly or not.
///
/// # Errors
/// [`Error::Store`].
pub fn roles_of(connection: &Connection, user: i32) -> Result<Vec<i32>> {
    let sql = "WITH RECURSIVE roles (id) AS (
                 SELECT ?1 UNION SELECT m.role_id FROM roles JOIN main.role_members m ON m.member_id = roles.id)
               SELECT id FROM roles";
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map([user], |row| row.get(0))?.collect())
        .context("looking up a user's roles")
}

/// Grants a privilege on a relation or schema.
///
/// # Errors
/// [`Error::Store`].
pub fn grant(tx: &Connection, object: i64, grantee: i32, privilege: &str, grantor: i32) -> Result<()> {
    tx.execute("INSERT OR IGNORE INTO grants VALUES (?1, ?2, ?3, ?4)", params![object, grantee, privilege, grantor])
        .context("granting a privilege")?;
    Ok(())
}

/// Takes a granted privilege away, if it was granted.
///
/// # Errors
/// [`Error::Store`].
pub fn revoke(tx: &Connection, object: i64, grantee: i32, privilege: &str) -> Result<()> {
    tx.execute(
        "DELETE FROM grants WHERE object = ?1 AND grantee = ?2 AND privilege = ?3",
        params![object, grantee, privilege],
    )
    .context("revoking a privilege")?;
    Ok(())
}

//! Running the statements on users, roles and grants. Each is one transaction.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use rusqlite::{Connection, OptionalExtension as _};

use super::Runner;
use crate::auth::scram::verifier_of;
use crate::auth::{Action, Object, authorize};
use crate::catalog::DATABASE;
use crate::command::ast::{GrantObject, Privilege, READS_ALL, RoleCommand, RoleName, RoleOptions, Secret, no_schema};
use crate::error::{Error, Result};
use crate::store::relations::{self, RelationKind};
use crate::store::rescales::{Asked, Outcome as Decision};
use crate::store::users::{self, PUBLIC, ROOT, User};
use crate::store::{Context as _, Durability};
use crate::wire::{Caller, Notice, Outcome};

impl Runner {
    pub(super) async fn role(&self, caller: &Caller, command: RoleCommand) -> Result<Outcome> {
        let user = caller.user.clone();
        let (tag, notices) = match command {
            RoleCommand::Create { name, options } => {
                let new = User {
                    id: 0,
                    name,
                    superuser: false,
                    can_login: true,
                    verifier: None,
                    connection_limit: -1,
                    valid_until: None,
                };
                let (roles, members) = (options.in_roles.clone(), options.members.clone());
                let new = with_options(new, hashed(options)?)?;
                refuse_open(self.beyond_loopback, &new)?;
                let write = move |tx: &rusqlite::Transaction<'_>| {
                    users::insert(tx, &new)?;
                    let it = || vec![RoleName::Named(new.name.clone())];
                    let mut notices = memberships(tx, &user, false, &roles, &it())?;
                    notices.extend(memberships(tx, &user, false, &[new.name.clone()], &members)?);
                    Ok(notices)
                };
                ("CREATE ROLE", self.store.write(Durability::Full, write).await?)
            }
            RoleCommand::Alter { role, options } => {
                let (beyond_loopback, options) = (self.beyond_loopback, hashed(options)?);
                let write = move |tx: &rusqlite::Transaction<'_>| {
                    let changed = with_options(users::get(tx, &name_of(&role, &user))?, options)?;
                    if changed.id == ROOT && !changed.superuser {
                        return Err(required(&changed.name, "the first user must have the SUPERUSER attribute"));
                    }
                    refuse_open(beyond_loopback, &changed)?;
                    users::update(tx, &changed)
                };
                self.store.write(Durability::Full, write).await?;
                ("ALTER ROLE", Vec::new())
            }
            RoleCommand::Rename { role, to } => {
                let from = name_of(&role, &user);
                if from == user {
                    let message = "session user cannot be renamed".into();
                    return Err(Error::Session { sqlstate: "0A000", message });
                }
                let name = from.clone();
                let write = move |tx: &rusqlite::Transaction<'_>| {
                    refuse_built_in(&name)?;
                    users::rename(tx, &users::get(tx, &name)?, &to)
                };
                self.store.write(Durability::Full, write).await?;
                self.sessions.terminate_user(&from);
                ("ALTER ROLE", Vec::new())
            }
            RoleCommand::Drop { names, if_exists } => ("DROP ROLE", self.drop_roles(&user, names, if_exists).await?),
            RoleCommand::Privileges { revoke, privileges, on, grantees } => {
                let still = self.privileges(&user, revoke, &privileges, &on, &grantees).await?;
                match revoke {
                    true => ("REVOKE", still.into_iter().chain(kept_anyway(&privileges, &on)).collect()),
                    false => ("GRANT", held_anyway(&privileges, &on)),
                }
            }
            RoleCommand::Reassign { from, to } => {
                let write = move |tx: &rusqlite::Transaction<'_>| {
                    let to = users::get(tx, &name_of(&to, &user))?;
                    from.iter().try_for_each(|from| users::reassign(tx, &users::get(tx, &name_of(from, &user))?, &to))
                };
                self.store.write(Durability::Full, write).await?;
                ("REASSIGN OWNED", Vec::new())
            }
            RoleCommand::DropOwned(roles) => {
                let write = move |tx: &rusqlite::Transaction<'_>| {
                    roles.iter().try_for_each(|role| users::drop_owned(tx, &users::get(tx, &name_of(role, &user))?))
                };
                self.store.write(Durability::Full, write).await?;
                ("DROP OWNED", Vec::new())
            }
            RoleCommand::Membership { revoke, roles, members } => {
                let write = move |tx: &rusqlite::Transaction<'_>| memberships(tx, &user, revoke, &roles, &members);
                let notices = self.store.write(Durability::Full, write).await?;
                (if revoke { "REVOKE ROLE" } else { "GRANT ROLE" }, notices)
            }
        };
        // Plans made before rest on what was allowed then.
        self.changed();
        Ok(Outcome::Done { tag: tag.into(), notices })
    }

    async fn drop_roles(&self, user: &str, names: Vec<String>, if_exists: bool) -> Result<Vec<Notice>> {
        if names.iter().any(|name| name == user) {
            return Err(Error::Session { sqlstate: "55006", message: "current user cannot be dropped".into() });
        }
        let (dropped, notices) = self
            .store
            .write(Durability::Full, move |tx| {
                let (mut dropped, mut notices) = (Vec::new(), Vec::new());
                for name in names {
                    refuse_built_in(&name)?;
                    match users::find(tx, &name)? {
                        Some(found) if found.id == ROOT => {
                            return Err(required(&name, "it is the server's first user"));
                        }
                        Some(found) => users::delete(tx, &found)?,
                        None if if_exists => {
                            notices.push(Notice::notice(format!("role \"{name}\" does not exist, skipping")));
                            continue;
                        }
                        None => return Err(users::undefined(&name)),
                    }
                    dropped.push(name);
                }
                Ok((dropped, notices))
            })
            .await?;
        dropped.iter().for_each(|name| self.sessions.terminate_user(name));
        Ok(notices)
    }

    /// Makes a source or view another role's, of which the old owner is a member, as PostgreSQL asks: nobody can
    /// put what they made into the hands of somebody else.
    pub(super) async fn give(
        &self,
        user: &str,
        kind: RelationKind,
        name: &str,
        to: &RoleName,
        asked: Asked,
    ) -> Result<()> {
        let (relation, to) = self.store.snapshot()?.with(|connection| {
            let relation = relations::get(connection, kind, name)?;
            let object = Object::Relation { oid: relation.id.into(), kind: kind.as_str(), name };
            own(connection, user, object)?;
            let to = users::get(connection, &name_of(to, user))?;
            let who = users::get(connection, user)?;
            if !who.superuser && !users::roles_of(connection, who.id)?.contains(&to.id) {
                return Err(Error::Privilege {
                    message: format!("must be member of role \"{}\"", to.name),
                    detail: format!("Role \"{user}\" is not a member of it."),
                    hint: "Ask a superuser.".into(),
                });
            }
            // Who owns something in the schema could else make it there.
            let public = Object::Schema { oid: 2200, name: "public" };
            authorize(connection, &to.name, Action::Create, public)?;
            Ok((relation.id, to))
        })?;
        let name = name.to_owned();
        let write = move |tx: &rusqlite::Transaction<'_>| {
            users::set_owner(tx, relation, &to)?;
            asked.note(tx, Some(relation), &name, Decision::Committed, None)
        };
        self.store.write(Durability::Full, write).await?;
        self.changed();
        Ok(())
    }

    async fn privileges(
        &self,
        user: &str,
        revoke: bool,
        privileges: &[Privilege],
        on: &GrantObject,
        grantees: &[RoleName],
    ) -> Result<Vec<Notice>> {
        let snapshot = self.store.snapshot()?;
        let changes = snapshot.with(|connection| {
            let grantor = users::get(connection, user)?.id;
            let objects = objects(connection, user, on)?;
            let id = |grantee: &RoleName| match grantee {
                RoleName::Public => Ok(PUBLIC),
                named => users::get(connection, &name_of(named, user)).map(|user| user.id),
            };
            let grantees = grantees.iter().map(id).collect::<Result<Vec<_>>>()?;
            let mut changes = Vec::new();
            for (object, is_schema) in objects {
                for &grantee in &grantees {
                    for privilege in words(privileges, is_schema) {
                        changes.push((object, grantee, privilege, grantor));
                    }
                }
            }
            Ok::<_, Error>(changes)
        })?;
        let changed = changes.clone();
        let write = move |tx: &rusqlite::Transaction<'_>| {
            changes.into_iter().try_for_each(|(object, grantee, privilege, grantor)| match revoke {
                true => users::revoke(tx, object, grantee, privilege),
                false => users::grant(tx, object, grantee, privilege, grantor),
            })
        };
        self.store.write(Durability::Full, write).await?;
        let mut still = BTreeSet::new();
        if revoke {
            self.store.snapshot()?.with(|connection| {
                changed.into_iter().try_for_each(|(object, grantee, privilege, _)| {
                    still.extend(held_by_schema(connection, object, grantee, privilege)?);
                    Ok::<_, Error>(())
                })
            })?;
        }
        Ok(still.into_iter().map(|what| Notice::warning("01006", what)).collect())
    }
}

/// Makes roles members of others, or ends that.
fn memberships(
    tx: &Connection,
    user: &str,
    revoke: bool,
    roles: &[String],
    members: &[RoleName],
) -> Result<Vec<Notice>> {
    let grantor = users::get(tx, user)?.id;
    let mut notices = Vec::new();
    for name in roles {
        let role = users::get(tx, if name == READS_ALL { users::VIEWER } else { name })?;
        if role.name != *name {
            notices.push(Notice::notice(format!("{name} is {} here", role.name)));
        }
        for member in members {
            let member = users::get(tx, &name_of(member, user))?;
            let (a, b) = (&member.name, &role.name);
            if revoke && !users::remove_member(tx, &role, &member)? {
                let message = format!("role \"{a}\" is not a member of role \"{b}\"");
                notices.push(Notice::warning("01000", message));
            } else if !revoke && !users::add_member(tx, &role, &member, grantor)? {
                let message = format!("role \"{a}\" is already a member of role \"{b}\"");
                notices.push(Notice::notice(message));
            }
        }
    }
    Ok(notices)
}

/// While others than this machine can connect, everybody who may has a password.
fn refuse_open(beyond_loopback: bool, user: &User) -> Result<()> {
    if beyond_loopback && user.can_login && user.verifier.is_none() {
        return Err(Error::NoPassword {
            message: format!("role \"{}\" needs a password", user.name),
            detail: "The server listens beyond loopback.".into(),
            hint: "Add PASSWORD '...', or NOLOGIN.".into(),
        });
    }
    Ok(())
}

/// With the verifier in place of a password. It takes some milliseconds, so not in the transaction.
fn hashed(options: RoleOptions) -> Result<RoleOptions> {
    let password = match options.password {
        Some(Some(Secret(password))) => Some(Some(Secret(verifier_of(&password)?))),
        other => other,
    };
    Ok(RoleOptions { password, ..options })
}

fn with_options(user: User, options: RoleOptions) -> Result<User> {
    let verifier = match options.password {
        None => user.verifier,
        Some(None) => None,
        Some(Some(Secret(verifier))) => Some(verifier),
    };
    Ok(User {
        superuser: options.superuser.unwrap_or(user.superuser),
        can_login: options.login.unwrap_or(user.can_login),
        verifier,
        connection_limit: options.connection_limit.unwrap_or(user.connection_limit),
        valid_until: match options.valid_until {
            None => user.valid_until,
            Some(text) => moment(&text)?,
        },
        ..user
    })
}

/// A moment as VALID UNTIL takes it, in microseconds since 1970; without a time zone it is UTC. `None`: for ever.
fn moment(text: &str) -> Result<Option<i64>> {
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let zoned = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z"];
    let plain = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let zoned = zoned.iter().find_map(|form| DateTime::parse_from_str(trimmed, form).ok());
    let plain = || plain.iter().find_map(|form| NaiveDateTime::parse_from_str(trimmed, form).ok());
    let day = || NaiveDate::parse_from_str(trimmed, "%Y-%m-%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0));
    let utc = DateTime::parse_from_rfc3339(trimmed).ok().or(zoned).map(|at| at.naive_utc()).or_else(plain).or_else(day);
    utc.map(|at| Some(at.and_utc().timestamp_micros())).ok_or_else(|| Error::InvalidValue {
        what: "VALID UNTIL".into(),
        value: text.into(),
        allowed: "a time like 2030-01-31 or 2030-01-31 12:00:00+00, or infinity".into(),
    })
}

fn name_of(role: &RoleName, user: &str) -> String {
    match role {
        RoleName::Named(name) => name.clone(),
        RoleName::Current => user.to_owned(),
        RoleName::Public => "public".into(),
    }
}

fn refuse_built_in(name: &str) -> Result<()> {
    if [users::VIEWER, users::OPERATOR].contains(&name) {
        return Err(required(name, "it is a role that every server has"));
    }
    Ok(())
}

fn required(name: &str, why: &str) -> Error {
    Error::Semantics { sqlstate: "2BP01", message: format!("role \"{name}\" is required by the server: {why}") }
}

/// The privileges that an object of that kind has, of those that were named.
fn words(privileges: &[Privilege], is_schema: bool) -> Vec<&'static str> {
    let all: &[_] = if is_schema { &["SELECT", "ALTER", "CREATE"] } else { &["SELECT", "ALTER"] };
    if privileges.contains(&Privilege::All) {
        return all.to_vec();
    }
    let word = |privilege: &Privilege| match privilege {
        Privilege::Alter => Some("ALTER"),
        Privilege::Create => Some("CREATE"),
        Privilege::Select | Privilege::All => Some("SELECT"),
        Privilege::Usage | Privilege::Connect | Privilege::Execute => None,
    };
    privileges.iter().filter_map(word).collect()
}

/// Who holds, by a grant on its schema, what was taken away of a relation.
fn held_by_schema(connection: &Connection, object: i64, grantee: i32, privilege: &str) -> Result<Option<String>> {
    let sql = "SELECT COALESCE(u.name, 'public'), n.name
               FROM temp.\"base.relations\" r JOIN main.grants g ON g.object = r.namespace
               JOIN temp.catalog_schemas n ON n.oid = r.namespace LEFT JOIN main.users u ON u.id = g.grantee
               WHERE r.oid = ?1 AND g.grantee = ?2 AND g.privilege = ?3";
    connection
        .prepare_cached(sql)
        .and_then(|mut found| {
            found
                .query_row(rusqlite::params![object, grantee, privilege], |row| {
                    let (who, schema): (String, String) = (row.get(0)?, row.get(1)?);
                    Ok(format!("\"{who}\" keeps {privilege}, which is granted on schema {schema}"))
                })
                .optional()
        })
        .context("looking up the grants of a schema")
}

/// What everybody keeps though all was taken away.
fn kept_anyway(privileges: &[Privilege], on: &GrantObject) -> Option<Notice> {
    let kept = match on {
        GrantObject::Schemas(_) => "everybody keeps USAGE on every schema",
        GrantObject::Functions => "everybody keeps EXECUTE on every function",
        _ => return None,
    };
    privileges.contains(&Privilege::All).then(|| Notice::warning("01006", kept))
}

/// Tells who granted what everybody has that it needn't be granted.
fn held_anyway(privileges: &[Privilege], on: &GrantObject) -> Vec<Notice> {
    let told = privileges.iter().filter_map(|privilege| match privilege {
        Privilege::Execute => Some("everybody has EXECUTE on every function"),
        Privilege::All if *on == GrantObject::Functions => Some("everybody has EXECUTE on every function"),
        Privilege::Usage => Some("everybody has USAGE on every schema"),
        Privilege::Connect => Some("everybody with LOGIN has CONNECT on the database"),
        Privilege::Select | Privilege::Alter | Privilege::Create | Privilege::All => None,
    });
    told.map(Notice::notice).collect()
}

/// The oids of what is granted on, each with whether it is a schema. Whoever grants must own them.
fn objects(connection: &Connection, user: &str, on: &GrantObject) -> Result<Vec<(i64, bool)>> {
    let mut oids = Vec::new();
    match on {
        GrantObject::Relations { kind, names } => {
            for (schema, name) in names {
                let kind = kind.map(super::relation_kind);
                let (oid, kind) = relation(connection, kind, schema.as_deref(), name)?;
                let shown = schema.as_ref().map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
                own(connection, user, Object::Relation { oid, kind, name: &shown })?;
                oids.push((oid, false));
            }
        }
        GrantObject::Schemas(names) => {
            for name in names {
                let oid = schema_oid(connection, name)?;
                own(connection, user, Object::Server("grant on schemas"))?;
                oids.push((oid, true));
            }
        }
        // Nothing is kept of it.
        GrantObject::Functions => {}
        GrantObject::Databases(names) => {
            if let Some(other) = names.iter().find(|name| *name != DATABASE) {
                let message = format!("database \"{other}\" does not exist");
                return Err(Error::Semantics { sqlstate: "3D000", message });
            }
            own(connection, user, Object::Server("grant on the database"))?;
        }
        GrantObject::AllIn { kind, schemas } => {
            for name in schemas {
                let schema = schema_oid(connection, name)?;
                let sql =
                    "SELECT b.oid, b.name FROM temp.\"base.relations\" b LEFT JOIN main.relations r ON r.id = b.oid
                           WHERE b.namespace = ?1 AND (?2 IS NULL OR r.kind = ?2)";
                let kind = kind.map(|kind| super::relation_kind(kind).as_str());
                let found: Vec<(i64, String)> = connection
                    .prepare(sql)
                    .and_then(|mut all| {
                        let rows =
                            all.query_map(rusqlite::params![schema, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
                        rows.collect()
                    })
                    .context("listing a schema")?;
                for (oid, name) in found {
                    own(connection, user, Object::Relation { oid, kind: "table", name: &name })?;
                    oids.push((oid, false));
                }
            }
        }
    }
    Ok(oids)
}

fn own(connection: &Connection, user: &str, object: Object<'_>) -> Result<()> {
    authorize(connection, user, Action::Own, object)
}

fn schema_oid(connection: &Connection, name: &str) -> Result<i64> {
    let found = connection
        .query_row("SELECT oid FROM temp.catalog_schemas WHERE name = ?1", [name], |row| row.get(0))
        .optional()
        .context("looking up a schema")?;
    found.ok_or_else(|| Error::Semantics { sqlstate: "3F000", message: no_schema(name) })
}

/// A relation's oid and kind: of a user, or a virtual table.
fn relation(
    connection: &Connection,
    kind: Option<RelationKind>,
    schema: Option<&str>,
    name: &str,
) -> Result<(i64, &'static str)> {
    if let Some(schema) = schema {
        schema_oid(connection, schema)?;
    }
    let is_public = schema.is_none_or(|schema| schema == "public");
    let shown = schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}"));
    match kind {
        Some(kind) if is_public => return Ok((relations::get(connection, kind, name)?.id.into(), kind.as_str())),
        Some(kind) => return Err(Error::UndefinedRelation { kind: kind.as_str(), name: shown, nearest: None }),
        None => {}
    }
    if is_public && let Some(found) = relations::find(connection, name)? {
        return Ok((found.id.into(), found.kind.as_str()));
    }
    let found = connection
        .query_row(
            "SELECT r.oid FROM temp.\"base.relations\" r JOIN temp.catalog_schemas s ON s.oid = r.namespace
             WHERE r.name = ?1 AND (?2 IS NULL OR s.name = ?2)
             ORDER BY s.name = 'tidegate' DESC, s.name = 'rw_catalog' DESC LIMIT 1",
            rusqlite::params![name, schema],
            |row| row.get(0),
        )
        .optional()
        .context("looking up a relation")?;
    found.map(|oid| (oid, "table")).ok_or(Error::UndefinedRelation { kind: "relation", name: shown, nearest: None })
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_as_postgresql_takes_them() {
        let new_year = 1_893_456_000_000_000;
        for text in ["2030-01-01", "2030-01-01 00:00:00", "2030-01-01 01:00:00+01", "2030-01-01T00:00:00Z"] {
            assert_eq!(moment(text).unwrap(), Some(new_year), "{text}");
        }
        assert_eq!(moment("infinity").unwrap(), None);
        assert_eq!(moment("soon").unwrap_err().sqlstate(), "22023");
    }
}

//! Running the statements on users and roles. Each is one transaction.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use rusqlite::Connection;

use super::Runner;
use crate::auth::scram::verifier_of;
use crate::auth::{Action, Object, authorize};
use crate::command::ast::{READS_ALL, RoleCommand, RoleName, RoleOptions, Secret};
use crate::error::{Error, Result};
use crate::store::Durability;
use crate::store::relations::{self, RelationKind};
use crate::store::rescales::{Asked, Outcome as Decision};
use crate::store::users::{self, ROOT, User};
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
                    notices.extend(memberships(tx, &user, false, std::slice::from_ref(&new.name), &members)?);
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
                let notices = self.privileges(&user, revoke, &privileges, &on, &grantees).await?;
                (if revoke { "REVOKE" } else { "GRANT" }, notices)
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

    /// Makes a source or view another role's, of which the old owner is a member, as PostgreSQL asks: nobody but a
    /// superuser can put what they made into the hands of somebody else.
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
            authorize(connection, user, Action::Own, object)?;
            let to = users::get(connection, &name_of(to, user))?;
            let who = users::get(connection, user)?;
            if who.superuser {
                return Ok((relation.id, to));
            }
            if !users::roles_of(connection, who.id)?.contains(&to.id) {
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

pub(super) fn name_of(role: &RoleName, user: &str) -> String {
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

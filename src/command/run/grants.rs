//! GRANT and REVOKE of privileges on sources, views, schemas and tables.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::Runner;
use super::roles::name_of;
use crate::auth::{Action, Object, authorize};
use crate::catalog::DATABASE;
use crate::command::ast::{GrantObject, Privilege, RoleName, no_schema};
use crate::error::{Error, Result};
use crate::store::relations::{self, RelationKind};
use crate::store::users::{self, PUBLIC};
use crate::store::{Context as _, Durability};
use crate::wire::Notice;

/// A privilege that a role gets or loses.
#[derive(Clone)]
struct Change {
    object: i64,
    is_schema: bool,
    grantee: i32,
    privilege: &'static str,
}

impl Runner {
    /// Grants or revokes. Tells what is kept after a REVOKE, and what everybody has anyway.
    pub(super) async fn privileges(
        &self,
        user: &str,
        revoke: bool,
        privileges: &[Privilege],
        on: &GrantObject,
        grantees: &[RoleName],
    ) -> Result<Vec<Notice>> {
        let (grantor, changes) = self.store.snapshot()?.with(|connection| {
            let grantor = users::get(connection, user)?.id;
            Ok::<_, Error>((grantor, changes(connection, user, privileges, on, grantees)?))
        })?;
        let changed = changes.clone();
        let write = move |tx: &rusqlite::Transaction<'_>| {
            changes.into_iter().try_for_each(|Change { object, grantee, privilege, .. }| match revoke {
                true => users::revoke(tx, object, grantee, privilege),
                false => users::grant(tx, object, grantee, privilege, grantor),
            })
        };
        self.store.write(Durability::Full, write).await?;
        if !revoke {
            return Ok(held_anyway(privileges, on));
        }
        let still = self.store.snapshot()?.with(|connection| {
            let still = changed.iter().map(|change| kept(connection, change));
            still.filter_map(Result::transpose).collect::<Result<BTreeSet<_>>>()
        })?;
        let still = still.into_iter().map(|what| Notice::warning("01006", what));
        Ok(still.chain(kept_anyway(privileges, on)).collect())
    }
}

fn changes(
    connection: &Connection,
    user: &str,
    privileges: &[Privilege],
    on: &GrantObject,
    grantees: &[RoleName],
) -> Result<Vec<Change>> {
    let objects = objects(connection, user, on)?;
    let id = |grantee: &RoleName| match grantee {
        RoleName::Public => Ok(PUBLIC),
        named => users::get(connection, &name_of(named, user)).map(|user| user.id),
    };
    let grantees = grantees.iter().map(id).collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::new();
    for (object, is_schema) in objects {
        for &grantee in &grantees {
            let change = |privilege| Change { object, is_schema, grantee, privilege };
            changes.extend(words(privileges, is_schema).into_iter().map(change));
        }
    }
    Ok(changes)
}

/// Who keeps what was taken away, and why: a REVOKE takes back what was granted to that role on that object, no more.
fn kept(connection: &Connection, change: &Change) -> Result<Option<String>> {
    let Change { object, is_schema, grantee, privilege } = *change;
    let (name, roles) = match users::name(connection, grantee.into())? {
        Some(name) => (format!("\"{name}\""), users::roles_of(connection, grantee)?),
        None => ("everybody".to_owned(), vec![PUBLIC]),
    };
    // What it has itself comes first, then what all have, then what it has through other roles.
    let rank = |holder: i32| match holder {
        _ if holder == grantee => Some(0),
        PUBLIC => Some(1),
        _ => roles.contains(&holder).then_some(2),
    };
    let holders = holders(connection, object, is_schema, privilege)?;
    let first =
        holders.into_iter().filter_map(|(holder, why, schema)| Some((rank(holder)?, holder, why, schema))).min();
    let Some((rank, holder, why, schema)) = first else { return Ok(None) };
    Ok(Some(match (rank, &*why) {
        (1, _) => format!("{name} keeps {privilege}, which everybody has"),
        (2, _) => {
            let role = users::name(connection, holder.into())?.unwrap_or_default();
            format!("{name} keeps {privilege} as a member of \"{role}\"")
        }
        (_, "owner") => format!("{name} keeps {privilege} as the owner"),
        (_, "schema") => format!("{name} keeps {privilege}, which is granted on schema {schema}"),
        (_, "catalog") => format!("{name} keeps {privilege} on the tables of {schema}"),
        _ => format!("{name} keeps {privilege}: that is what the role is for"),
    }))
}

/// Who has a privilege on a relation or schema, by which rule of `base.acl`, and in which schema it is.
fn holders(
    connection: &Connection,
    object: i64,
    is_schema: bool,
    privilege: &str,
) -> Result<Vec<(i32, String, String)>> {
    let of_relation =
        "SELECT a.grantee, a.rule, n.name FROM temp.\"base.acl\" a JOIN temp.\"base.relations\" r ON r.oid = a.oid
                       JOIN temp.catalog_schemas n ON n.oid = r.namespace WHERE a.oid = ?1 AND a.privilege = ?2";
    // Of a schema: what was granted on it, and what holds for all that is in it.
    let of_schema =
        "SELECT g.grantee, 'schema', n.name FROM main.grants g JOIN temp.catalog_schemas n ON n.oid = g.object
                     WHERE g.object = ?1 AND g.privilege = ?2
                     UNION SELECT a.grantee, a.rule, n.name FROM temp.\"base.acl\" a
                     JOIN temp.\"base.relations\" r ON r.oid = a.oid JOIN temp.catalog_schemas n ON n.oid = r.namespace
                     WHERE r.namespace = ?1 AND a.privilege = ?2 AND a.rule IN ('catalog', 'built-in')";
    connection
        .prepare_cached(if is_schema { of_schema } else { of_relation })
        .and_then(|mut found| {
            let rows =
                found.query_map(params![object, privilege], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        })
        .context("looking up who has a privilege")
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

//! What each command asks [`authorize`] before it runs.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use rusqlite::{Connection, OptionalExtension as _};

use super::relation_kind;
use crate::auth::{Action, Object, authorize};
use crate::command::ast::{
    Alter, AlterAction, Command, CreateView, InvalidValue, RoleCommand, RoleName, RoleOptions, Show,
};
use crate::error::{Error, Result};
use crate::store::relations::{self, RelationKind};
use crate::store::{Context as _, Store};
use crate::wire::Notice;
use crate::wire::errors::from_datafusion;

/// The schema of sources and views.
const PUBLIC_SCHEMA: Object<'_> = Object::Schema { oid: 2200, name: "public" };

/// Lets a user run a command, or says what is missing. Who may GRANT on which objects is looked at when they are found.
///
/// # Errors
/// [`Error::Privilege`].
pub(super) fn check(store: &Store, user: &str, command: &Command) -> Result<()> {
    store.snapshot()?.with(|connection| {
        let on_server = |action, what| authorize(connection, user, action, Object::Server(what));
        let named = |action, kind, name: &str| on_relation(connection, user, action, kind, name);
        match command {
            Command::CreateSource(_) => authorize(connection, user, Action::Create, PUBLIC_SCHEMA),
            Command::CreateView(view) => {
                authorize(connection, user, Action::Create, PUBLIC_SCHEMA)?;
                reads(view)?.iter().try_for_each(|name| any_relation(connection, user, Action::Select, name))
            }
            Command::Drop(drop) => {
                drop.names.iter().try_for_each(|name| named(Action::Own, relation_kind(drop.kind), name))
            }
            // Who may give away is looked at when it is found; what can't be found is refused anyway.
            Command::Alter(Alter {
                action: AlterAction::Owner(_) | AlterAction::Invalid(InvalidValue::Elsewhere(_)),
                ..
            }) => Ok(()),
            Command::Alter(alter) => named(Action::Alter, relation_kind(alter.kind), &alter.name),
            Command::Explain { alter, .. } => named(Action::Inspect, relation_kind(alter.kind), &alter.name),
            Command::CancelRescale(id) => match source_of(connection, *id)? {
                Some(source) => any_relation(connection, user, Action::Alter, &source),
                // The command says that there is none.
                None => Ok(()),
            },
            Command::Wait => Ok(()),
            Command::Flush => on_server(Action::Operate, "FLUSH"),
            Command::Recover => on_server(Action::Operate, "RECOVER"),
            Command::Show(what) => match what {
                Show::Sources | Show::MaterializedViews => Ok(()),
                Show::CreateSource(name) => named(Action::Inspect, RelationKind::Source, name),
                Show::CreateMaterializedView(name) => named(Action::Inspect, RelationKind::MaterializedView, name),
                // What these show is in tables.
                Show::Jobs => virtual_table(connection, user, "job_backfill_progress"),
                Show::Parameters => virtual_table(connection, user, "settings"),
            },
            Command::Role(role) => match role {
                RoleCommand::Alter { role, options } if is_own_password(user, role, options) => Ok(()),
                RoleCommand::Create { .. } => on_server(Action::Administer, "create roles"),
                RoleCommand::Alter { .. } | RoleCommand::Rename { .. } => on_server(Action::Administer, "alter roles"),
                RoleCommand::Drop { .. } => on_server(Action::Administer, "drop roles"),
                RoleCommand::Membership { .. } => on_server(Action::Administer, "grant and revoke roles"),
                // So it is here.
                RoleCommand::Privileges { .. } => Ok(()),
                RoleCommand::Reassign { .. } => on_server(Action::Administer, "reassign what roles own"),
                RoleCommand::DropOwned(_) => on_server(Action::Administer, "drop what roles own"),
            },
        }
    })
}

/// What a dry run adds for who may look, but not act: whether it is safe is another question than who may do it.
pub(super) fn only_looking(store: &Store, user: &str, alter: &Alter) -> Result<Option<Notice>> {
    let kind = relation_kind(alter.kind);
    match store.snapshot()?.with(|connection| on_relation(connection, user, Action::Alter, kind, &alter.name)) {
        Err(refused @ Error::Privilege { .. }) => {
            Ok(Some(Notice::notice(format!("the ALTER itself would be refused: {refused}"))))
        }
        other => other.map(|()| None),
    }
}

/// Everybody may change their own password, and nothing else of themselves.
fn is_own_password(user: &str, role: &RoleName, options: &RoleOptions) -> bool {
    let own = match role {
        RoleName::Current => true,
        RoleName::Named(name) => name == user,
        RoleName::Public => false,
    };
    // But not take it away.
    let only_password = RoleOptions { password: options.password.clone(), ..RoleOptions::default() };
    own && matches!(options.password, Some(Some(_))) && *options == only_password
}

/// A relation that doesn't exist, or is of another kind, is the command's own to complain about.
fn on_relation(connection: &Connection, user: &str, action: Action, kind: RelationKind, name: &str) -> Result<()> {
    match relations::find(connection, name)? {
        Some(found) if found.kind == kind => any_relation(connection, user, action, name),
        _ => Ok(()),
    }
}

fn any_relation(connection: &Connection, user: &str, action: Action, name: &str) -> Result<()> {
    match relations::find(connection, name)? {
        Some(found) => {
            let object = Object::Relation { oid: found.id.into(), kind: found.kind.as_str(), name };
            authorize(connection, user, action, object)
        }
        None => Ok(()),
    }
}

fn virtual_table(connection: &Connection, user: &str, name: &str) -> Result<()> {
    let oid = connection
        .query_row("SELECT oid FROM temp.catalog_relations WHERE namespace = 15001 AND name = ?1", [name], |row| {
            row.get(0)
        })
        .context("looking up a virtual table")?;
    let name = format!("tidegate.{name}");
    authorize(connection, user, Action::Select, Object::Relation { oid, kind: "table", name: &name })
}

/// The source of a rescale.
fn source_of(connection: &Connection, rescale: i64) -> Result<Option<String>> {
    connection
        .query_row("SELECT source_name FROM main.rescales WHERE id = ?1", [rescale], |row| row.get(0))
        .optional()
        .context("looking up a rescale")
}

/// The relations that a view's query names.
fn reads(view: &CreateView) -> Result<Vec<String>> {
    let statement = DfStatement::Statement(Box::new(SqlStatement::Query(view.query.clone())));
    let (names, _) = resolve_table_references(&statement, true).map_err(from_datafusion)?;
    Ok(names.into_iter().map(|name| name.table().to_owned()).collect())
}

//! The has_..._privilege family, and pg_has_role: what [`crate::auth`] enforces, asked.

use datafusion::common::ScalarValue;

use super::{Call, Definition, Value, invalid, pure, stable};
use crate::auth::{self, Action, Object};
use crate::error::{Error, Result};
use crate::store::Context as _;
use crate::store::users::{self, User};

/// The database's oid, as in `pg_database`.
const DATABASE_OID: i64 = 1;

pub const FUNCTIONS: &[Definition] = &[
    stable("has_table_privilege", 2..=3, "bool", |call| asked(call, 1, table)),
    stable("has_any_column_privilege", 2..=3, "bool", |call| asked(call, 1, table)),
    stable("has_column_privilege", 3..=4, "bool", |call| asked(call, 2, column)),
    stable("has_schema_privilege", 2..=3, "bool", |call| asked(call, 1, schema)),
    stable("has_database_privilege", 2..=3, "bool", |call| asked(call, 1, database)),
    pure("has_function_privilege", 2..=3, "bool", allowed),
    pure("has_language_privilege", 2..=3, "bool", allowed),
    pure("has_sequence_privilege", 2..=3, "bool", allowed),
    pure("has_server_privilege", 2..=3, "bool", allowed),
    pure("has_tablespace_privilege", 2..=3, "bool", allowed),
    pure("has_type_privilege", 2..=3, "bool", allowed),
    pure("has_foreign_data_wrapper_privilege", 2..=3, "bool", allowed),
    pure("has_parameter_privilege", 2..=3, "bool", allowed),
    stable("pg_has_role", 2..=3, "bool", |call| asked(call, 1, role)),
    pure("row_security_active", 1..=1, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
];

/// What nobody can be kept from, and nothing is granted on.
fn allowed(call: &Call<'_>) -> Value {
    Ok(ScalarValue::Boolean((!call.any_null()).then_some(true)))
}

/// Whether a user has one of the privileges in a list. The object is the argument after the user, `None` is NULL.
type Ask = fn(&Call<'_>, &User, usize, &str) -> Result<Option<bool>>;

/// `f([user,] object, ..., privileges)`, with `objects` arguments between the user and the privileges.
fn asked(call: &Call<'_>, objects: usize, ask: Ask) -> Value {
    if call.any_null() {
        return Ok(ScalarValue::Boolean(None));
    }
    let first = usize::from(call.args.len() == objects + 2);
    let user = if first == 1 {
        user(call, 0)?
    } else {
        call.scope.read_privileges(|c| users::get(c, &call.scope.user)).map(Some)?
    };
    let Some(user) = user else { return Ok(ScalarValue::Boolean(None)) };
    let privileges = call.text(first + objects).unwrap_or_default();
    let mut answer = Some(false);
    // All are looked at, so that a wrong word is never missed.
    for privilege in privileges.split(',') {
        let one = ask(call, &user, first, privilege.trim().to_uppercase().as_str())?;
        answer = answer.zip(one).map(|(before, now)| before || now);
    }
    Ok(ScalarValue::Boolean(answer))
}

/// A user, by name or oid; `public` has no privileges but those of everybody.
fn user(call: &Call<'_>, index: usize) -> Result<Option<User>> {
    let text = call.text(index).unwrap_or_default();
    if text == "public" {
        let public = User {
            id: users::PUBLIC,
            name: text,
            superuser: false,
            can_login: false,
            verifier: None,
            connection_limit: -1,
            valid_until: None,
        };
        return Ok(Some(public));
    }
    call.scope.read_privileges(|connection| match call.integer(index) {
        Some(oid) => match users::name(connection, oid)? {
            Some(name) => users::find(connection, &name),
            None => Ok(None),
        },
        None => users::get(connection, &text).map(Some),
    })
}

fn table(call: &Call<'_>, user: &User, index: usize, privilege: &str) -> Result<Option<bool>> {
    let Some(oid) = super::names::relation_oid(call, index)? else { return Ok(None) };
    let (privilege, grants) = plain(privilege);
    let action = match privilege {
        "SELECT" | "ALTER" if grants => Action::Own,
        "SELECT" => Action::Select,
        "ALTER" => Action::Alter,
        // Nobody can do these, superusers neither; but PostgreSQL's clients take a superuser's no for a broken server.
        "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" | "REFERENCES" | "TRIGGER" => return Ok(Some(user.superuser)),
        _ => return Err(unrecognized(privilege)),
    };
    may(call, user, action, Object::Relation { oid, kind: "table", name: "" })
}

/// What somebody may do with a column is what they may do with its relation; but it has to be one.
fn column(call: &Call<'_>, user: &User, index: usize, privilege: &str) -> Result<Option<bool>> {
    let Some(oid) = super::names::relation_oid(call, index)? else { return Ok(None) };
    let (number, name) = (call.integer(index + 1), call.text(index + 1).unwrap_or_default());
    let sql = "SELECT 1 FROM \"base.columns\" WHERE relation = ?1 AND (attnum = ?2 OR (?2 IS NULL AND name = ?3))";
    let found = call.scope.read(|connection| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.exists(rusqlite::params![oid, number, name]))
            .context("looking up a column")
    })?;
    match (found, number) {
        (true, _) => table(call, user, index, privilege),
        (false, Some(_)) => Ok(None),
        (false, None) => Err(invalid(
            "42703",
            format!("column \"{name}\" of relation \"{}\" does not exist", call.text(index).unwrap_or_default()),
        )),
    }
}

fn schema(call: &Call<'_>, user: &User, index: usize, privilege: &str) -> Result<Option<bool>> {
    let Some(oid) = super::names::schema_oid(call, index)? else { return Ok(None) };
    let (privilege, grants) = plain(privilege);
    let action = match privilege {
        "USAGE" if !grants => return Ok(Some(true)),
        // Superusers grant on schemas, nobody else.
        "USAGE" | "CREATE" | "SELECT" | "ALTER" if grants => return Ok(Some(user.superuser)),
        "CREATE" => Action::Create,
        "SELECT" => Action::Select,
        "ALTER" => Action::Alter,
        _ => return Err(unrecognized(privilege)),
    };
    may(call, user, action, Object::Schema { oid, name: "" })
}

fn database(call: &Call<'_>, user: &User, index: usize, privilege: &str) -> Result<Option<bool>> {
    match (call.integer(index), call.text(index).unwrap_or_default()) {
        (Some(DATABASE_OID), _) => {}
        (Some(_), _) => return Ok(None),
        (None, name) if name == super::super::DATABASE => {}
        (None, name) => return Err(invalid("3D000", format!("database \"{name}\" does not exist"))),
    }
    let (privilege, grants) = plain(privilege);
    match privilege {
        "CONNECT" | "CREATE" | "TEMPORARY" | "TEMP" if grants => Ok(Some(user.superuser)),
        "CONNECT" => Ok(Some(user.can_login || user.id == users::PUBLIC)),
        "CREATE" | "TEMPORARY" | "TEMP" => Ok(Some(user.superuser)),
        _ => Err(unrecognized(privilege)),
    }
}

fn role(call: &Call<'_>, who: &User, index: usize, privilege: &str) -> Result<Option<bool>> {
    let admin = match privilege {
        "USAGE" | "MEMBER" | "SET" => false,
        "USAGE WITH ADMIN OPTION"
        | "MEMBER WITH ADMIN OPTION"
        | "SET WITH ADMIN OPTION"
        | "USAGE WITH GRANT OPTION"
        | "MEMBER WITH GRANT OPTION"
        | "SET WITH GRANT OPTION" => true,
        _ => return Err(unrecognized(privilege)),
    };
    let Some(role) = user(call, index)? else { return Ok(None) };
    // Superusers grant roles, nobody else.
    if who.superuser || admin {
        return Ok(Some(who.superuser));
    }
    call.scope.read_privileges(|connection| Ok(Some(users::roles_of(connection, who.id)?.contains(&role.id))))
}

fn may(call: &Call<'_>, user: &User, action: Action, object: Object<'_>) -> Result<Option<bool>> {
    call.scope.read_privileges(|connection| auth::may(connection, user, action, object)).map(Some)
}

/// A privilege, and whether the right to grant it is asked for, which its object's owner has.
fn plain(privilege: &str) -> (&str, bool) {
    privilege.strip_suffix(" WITH GRANT OPTION").map_or((privilege, false), |plain| (plain, true))
}

fn unrecognized(privilege: &str) -> Error {
    invalid("22023", format!("unrecognized privilege type: \"{privilege}\""))
}

//! What access lists say, item by item.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::ScalarValue;

use super::sets::{list_field, records};
use super::{Call, Definition, Returns, Value, derived, invalid, stable, text};
use crate::auth::quoted;
use crate::catalog::types;
use crate::error::{Error, Result};
use crate::store::users;

/// The columns of `aclexplode`, with their types.
const COLUMNS: [(&str, &str); 4] =
    [("grantor", "oid"), ("grantee", "oid"), ("privilege_type", "text"), ("is_grantable", "bool")];

pub const FUNCTIONS: &[Definition] = &[
    derived(
        "acl_items",
        1..=1,
        Returns::By(|_| Ok(list_field(Field::new("item", DataType::Struct(fields()?), true)))),
        exploded,
    ),
    stable("acldefault", 2..=2, "text[]", of_nothing_granted),
];

/// What PUBLIC and the owner may do with an object that nobody has granted anything on, by the letter of its kind.
const DEFAULTS: [(&str, &str, &str); 13] = [
    ("c", "", ""),
    // As relacl has it.
    ("r", "", "rA"),
    ("s", "", "rwU"),
    ("d", "Tc", "CTc"),
    ("f", "X", "X"),
    ("l", "U", "U"),
    ("L", "", "rw"),
    ("n", "", "UC"),
    ("p", "", "sA"),
    ("t", "", "C"),
    ("F", "", "U"),
    ("S", "", "U"),
    ("T", "U", "U"),
];

/// Privileges and their letters in an access list.
const PRIVILEGES: [(char, &str); 14] = [
    ('r', "SELECT"),
    ('a', "INSERT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
    ('s', "SET"),
    ('A', "ALTER"),
];

fn fields() -> Result<Fields> {
    let field = |(name, pg_type): &(&str, &str)| {
        types::by_name(pg_type)
            .map(|pg_type| Arc::new(pg_type.field(name)))
            .ok_or_else(|| Error::Internal(format!("there is no type {pg_type}")))
    };
    COLUMNS.iter().map(field).collect()
}

/// A row a privilege of every item `grantee=letters/grantor`; a letter before `*` may be granted on.
fn exploded(call: &Call<'_>) -> Value {
    let Some(items) = call.items(0) else { return Ok(ScalarValue::Null) };
    let mut columns = vec![Vec::new(); COLUMNS.len()];
    for item in &items {
        let ScalarValue::Utf8(Some(item)) = item else { continue };
        let (grantee, letters, grantor) = parts(item)
            .ok_or_else(|| invalid("22P02", format!("invalid input syntax for type aclitem: \"{item}\"")))?;
        let (grantor, grantee) = (role(call, grantor)?, role(call, grantee)?);
        let mut letters = letters.chars().peekable();
        while let Some(letter) = letters.next() {
            let privilege = PRIVILEGES.iter().find(|(known, _)| *known == letter).map(|(_, name)| (*name).to_owned());
            let grantable = letters.next_if_eq(&'*').is_some();
            let row =
                [grantor.clone(), grantee.clone(), ScalarValue::Utf8(privilege), ScalarValue::Boolean(Some(grantable))];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
    }
    records(fields()?, columns)
}

/// The access list of an object whose own is NULL.
fn of_nothing_granted(call: &Call<'_>) -> Value {
    let (Some(kind), Some(owner)) = (call.text(0), call.integer(1)) else { return Ok(ScalarValue::Null) };
    let (_, public, own) = DEFAULTS
        .iter()
        .find(|(known, ..)| *known == kind)
        .ok_or_else(|| invalid("XX000", format!("unrecognized object type abbreviation: {kind}")))?;
    let owner =
        call.scope.read_privileges(|connection| users::name(connection, owner))?.unwrap_or_else(|| owner.to_string());
    let owner = quoted(&owner);
    let items = [("", *public), (&*owner, *own)].into_iter().filter(|(_, letters)| !letters.is_empty());
    let items: Vec<_> = items.map(|(who, letters)| text(Some(format!("{who}={letters}/{owner}")))).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Utf8)))
}

fn parts(item: &str) -> Option<(&str, &str, &str)> {
    let (granted, grantor) = item.rsplit_once('/')?;
    let (grantee, letters) = granted.rsplit_once('=')?;
    Some((grantee.trim_matches('"'), letters, grantor.trim_matches('"')))
}

/// A role's oid; 0 is everybody.
fn role(call: &Call<'_>, name: &str) -> Value {
    let role = call.scope.read_privileges(|connection| users::find(connection, name))?;
    Ok(ScalarValue::Int32(Some(role.map_or(0, |role| role.id))))
}

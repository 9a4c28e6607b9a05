//! `CREATE`, `ALTER` and `DROP USER`, `GRANT`, `REVOKE`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Literal};
use super::unsupported;
use crate::command::ast::{
    Command, Elsewhere, GrantObject, ObjectKind, Privilege, READS_ALL, RoleCommand, RoleName, RoleOptions, Secret,
};
use crate::error::{Error, Result};

const CREATE: &str = "CREATE {USER | ROLE} name [WITH] [LOGIN | NOLOGIN] [PASSWORD 'x' | PASSWORD NULL] \
    [SUPERUSER | NOSUPERUSER] [CONNECTION LIMIT n] [VALID UNTIL 'time'] [IN ROLE name, ...] [ROLE name, ...]";
const ALTER: &str = "ALTER {USER | ROLE} name {[WITH] options as in CREATE USER | RENAME TO name}";
const DROP: &str = "DROP {USER | ROLE} [IF EXISTS] name, ...";
const GRANT: &str = "GRANT {SELECT | ALTER | CREATE | USAGE | CONNECT | ALL [PRIVILEGES]} ON {[TABLE] name | SOURCE name | \
    MATERIALIZED VIEW name | SCHEMA name | DATABASE name | ALL {TABLES | SOURCES | MATERIALIZED VIEWS} IN SCHEMA name} TO role, or GRANT role TO role";
const REVOKE: &str = "REVOKE {SELECT | ALTER | CREATE | ALL [PRIVILEGES]} ON {[TABLE] name | SOURCE name | \
    MATERIALIZED VIEW name | SCHEMA name | ALL {TABLES | SOURCES | MATERIALIZED VIEWS} IN SCHEMA name} FROM role, or REVOKE role FROM role";

const OPTIONS: [&str; 8] =
    ["LOGIN", "NOLOGIN", "SUPERUSER", "NOSUPERUSER", "PASSWORD", "ENCRYPTED", "CONNECTION", "VALID"];
/// What every role is without being told, so that saying so changes nothing.
const ANYWAY: [&str; 5] = ["INHERIT", "NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "NOBYPASSRLS"];

/// Whether a statement on users and roles begins behind CREATE, ALTER or DROP.
pub(super) fn starts(cursor: &Cursor<'_>) -> bool {
    cursor.at(&["USER"]) || cursor.at(&["ROLE"])
}

/// After the word CREATE.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.form = Some(CREATE);
    let is_user = cursor.one_of(&["USER", "ROLE"])? == "USER";
    let name = new_name(cursor)?;
    let mut options = options(cursor, true)?;
    options.login.get_or_insert(is_user);
    Ok(Command::Role(RoleCommand::Create { name, options }))
}

/// After the word ALTER.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.form = Some(ALTER);
    cursor.one_of(&["USER", "ROLE"])?;
    let role = role(cursor)?;
    if cursor.accept(&["RENAME"]) {
        cursor.expect(&["TO"])?;
        let to = new_name(cursor)?;
        return Ok(Command::Role(RoleCommand::Rename { role, to }));
    }
    if cursor.at(&["SET"]) || cursor.at(&["RESET"]) || cursor.at(&["IN"]) {
        return Err(unsupported::error("ALTER USER ... SET", "SET changes a setting for the session."));
    }
    if cursor.at_end() {
        return Err(cursor.expected(&OPTIONS));
    }
    Ok(Command::Role(RoleCommand::Alter { role, options: options(cursor, false)? }))
}

/// After the word DROP.
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.form = Some(DROP);
    cursor.one_of(&["USER", "ROLE"])?;
    let if_exists = cursor.accept(&["IF", "EXISTS"]);
    let names = cursor.list(Cursor::name)?;
    Ok(Command::Role(RoleCommand::Drop { names, if_exists }))
}

/// Behind `ALTER SOURCE name` or `ALTER MATERIALIZED VIEW name`.
pub(super) fn owner(cursor: &mut Cursor<'_>) -> Result<RoleName> {
    cursor.form = Some("ALTER {SOURCE | MATERIALIZED VIEW} name OWNER TO role");
    cursor.expect(&["OWNER"])?;
    cursor.expect(&["TO"])?;
    let to = owning(cursor)?;
    cursor.expect_end()?;
    Ok(to)
}

/// After the word REASSIGN.
pub(super) fn reassign(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.form = Some("REASSIGN OWNED BY role, ... TO role");
    cursor.expect(&["OWNED"])?;
    cursor.expect(&["BY"])?;
    let from = cursor.list(owning)?;
    cursor.expect(&["TO"])?;
    Ok(Command::Role(RoleCommand::Reassign { from, to: owning(cursor)? }))
}

/// After the words DROP OWNED.
pub(super) fn drop_owned(cursor: &mut Cursor<'_>) -> Result<Command> {
    cursor.form = Some("DROP OWNED BY role, ...");
    cursor.expect(&["BY"])?;
    let roles = cursor.list(owning)?;
    // The same: nothing hangs on a grant.
    cursor.accept_one_of(&["CASCADE", "RESTRICT"]);
    Ok(Command::Role(RoleCommand::DropOwned(roles)))
}

/// A role that may own something: not PUBLIC.
fn owning(cursor: &mut Cursor<'_>) -> Result<RoleName> {
    let index = cursor.index();
    match role(cursor)? {
        RoleName::Public => Err(cursor.error_at(index, "role \"public\" can't own anything".into())),
        other => Ok(other),
    }
}

/// After the word GRANT, or REVOKE.
pub(super) fn grant(cursor: &mut Cursor<'_>, revoke: bool) -> Result<Command> {
    cursor.form = Some(if revoke { REVOKE } else { GRANT });
    for words in [&["GRANT", "OPTION", "FOR"][..], &["ADMIN", "OPTION", "FOR"]] {
        if cursor.at(words) {
            return Err(unsupported::error(&words.join(" "), OWNERS_GRANT));
        }
    }
    // Privileges are followed by ON, roles by TO or FROM.
    let words = (0..).map_while(|n| cursor.peek(n).map(|_| cursor.peek_word(n).unwrap_or_default()));
    let is_privileges = words
        .into_iter()
        .find(|word| ["ON", "TO", "FROM"].iter().any(|end| word.eq_ignore_ascii_case(end)))
        .is_some_and(|word| word.eq_ignore_ascii_case("ON"));
    let command = if is_privileges {
        let privileges = cursor.list(|cursor| privilege(cursor, revoke))?;
        cursor.expect(&["ON"])?;
        let on = object(cursor)?;
        let grantees = to_whom(cursor, revoke, true)?;
        check_privileges(&privileges, &on)?;
        RoleCommand::Privileges { revoke, privileges, on, grantees }
    } else {
        let roles = cursor.list(role_to_join)?;
        let members = to_whom(cursor, revoke, false)?;
        RoleCommand::Membership { revoke, roles, members }
    };
    if cursor.at(&["WITH"]) || cursor.at(&["GRANTED"]) {
        return Err(unsupported::error("a GRANT with options", OWNERS_GRANT));
    }
    if revoke {
        // The same: nothing rests on a grant, since who was granted something can't grant it on.
        cursor.accept_one_of(&["CASCADE", "RESTRICT"]);
    }
    Ok(Command::Role(command))
}

const OWNERS_GRANT: &str = "Leave it away: owners and superusers grant, nobody else.";

fn to_whom(cursor: &mut Cursor<'_>, revoke: bool, public: bool) -> Result<Vec<RoleName>> {
    cursor.expect(if revoke { &["FROM"] } else { &["TO"] })?;
    let index = cursor.index();
    let roles = cursor.list(role)?;
    if !public && roles.contains(&RoleName::Public) {
        return Err(cursor.error_at(index, "role \"public\" can't be a member of a role".into()));
    }
    Ok(roles)
}

fn role(cursor: &mut Cursor<'_>) -> Result<RoleName> {
    if cursor.accept_one_of(&["CURRENT_USER", "SESSION_USER", "CURRENT_ROLE"]).is_some() {
        return Ok(RoleName::Current);
    }
    let quoted = cursor.peek_word(0).is_none();
    let name = cursor.name()?;
    Ok(if name == "public" && !quoted { RoleName::Public } else { RoleName::Named(name) })
}

/// A name for a new role.
fn new_name(cursor: &mut Cursor<'_>) -> Result<String> {
    let name = cursor.name()?;
    let is_reserved = name.starts_with("pg_") || name.starts_with("tidegate_") || ["public", "none"].contains(&&*name);
    if is_reserved {
        return Err(Error::Semantics { sqlstate: "42939", message: format!("role name \"{name}\" is reserved") });
    }
    if name.len() > 63 || name.contains('\0') {
        return Err(Error::Semantics { sqlstate: "42622", message: "a role's name has at most 63 bytes".into() });
    }
    Ok(name)
}

fn options(cursor: &mut Cursor<'_>, is_new: bool) -> Result<RoleOptions> {
    cursor.accept(&["WITH"]);
    let mut options = RoleOptions::default();
    while !cursor.at_end() {
        let index = cursor.index();
        if cursor.accept_one_of(&ANYWAY).is_some() {
            continue;
        }
        if is_new && memberships(cursor, &mut options)? {
            continue;
        }
        refuse_other(cursor)?;
        let word = cursor.one_of(&OPTIONS).map_err(without_literals)?;
        let twice = match word {
            "LOGIN" | "NOLOGIN" => options.login.replace(word == "LOGIN").is_some(),
            "SUPERUSER" | "NOSUPERUSER" => options.superuser.replace(word == "SUPERUSER").is_some(),
            "PASSWORD" => options.password.replace(password(cursor)?).is_some(),
            "ENCRYPTED" => {
                cursor.expect(&["PASSWORD"])?;
                options.password.replace(password(cursor)?).is_some()
            }
            "CONNECTION" => {
                cursor.expect(&["LIMIT"])?;
                let allowed = "a whole number from -1 (no limit)";
                let limit: i32 = cursor.integer("CONNECTION LIMIT", allowed)?;
                if limit < -1 {
                    let what = "CONNECTION LIMIT".into();
                    return Err(Error::InvalidValue { what, value: limit.to_string(), allowed: allowed.into() });
                }
                options.connection_limit.replace(limit).is_some()
            }
            _ => {
                cursor.expect(&["UNTIL"])?;
                let until = match cursor.literal()? {
                    Literal::String(text) => text,
                    Literal::Parameter => "infinity".into(),
                    _ => return Err(cursor.error_at(index, "VALID UNTIL takes a time in quotes".into())),
                };
                options.valid_until.replace(until).is_some()
            }
        };
        if twice {
            return Err(cursor.error_at(index, "conflicting or redundant options".into()));
        }
    }
    Ok(options)
}

/// `IN ROLE` or `ROLE`, in the words of all versions. False: it is neither.
fn memberships(cursor: &mut Cursor<'_>, options: &mut RoleOptions) -> Result<bool> {
    if cursor.accept(&["IN", "ROLE"]) || cursor.accept(&["IN", "GROUP"]) {
        options.in_roles.extend(cursor.list(role_to_join)?);
        return Ok(true);
    }
    let is_members = cursor.accept_one_of(&["ROLE", "USER"]).is_some();
    if is_members {
        options.members.extend(cursor.list(owning)?);
    }
    Ok(is_members)
}

/// A role that somebody is to become a member of.
fn role_to_join(cursor: &mut Cursor<'_>) -> Result<String> {
    let name = cursor.name()?;
    let hint = match name.as_str() {
        "pg_monitor" | "pg_read_all_settings" | "pg_read_all_stats" | "pg_stat_scan_tables" => {
            "tidegate_viewer reads every table and view; tidegate_operator sees what others run, too."
        }
        "pg_signal_backend" => "tidegate_operator cancels and ends what others run; it rescales, too.",
        other if other.starts_with("pg_") && other != READS_ALL => {
            "tidegate_viewer reads everything, tidegate_operator rescales."
        }
        _ => return Ok(name),
    };
    Err(unsupported::error(&format!("role {name}"), hint))
}

fn password(cursor: &mut Cursor<'_>) -> Result<Option<Secret>> {
    let index = cursor.index();
    match cursor.accept_literal() {
        Some(Literal::String(text)) if !text.contains('\0') => Ok(Some(Secret(text))),
        Some(Literal::Parameter) => Ok(Some(Secret("$".into()))),
        Some(Literal::Null) => Ok(None),
        _ => Err(cursor.error_at(index, "a password is a string in single quotes, or NULL".into())),
    }
}

/// A syntax error without what is quoted in it: it may be a password in the wrong place.
fn without_literals(error: Error) -> Error {
    match error {
        Error::Syntax { message, position, hint } if message.contains('\'') || message.contains('$') => {
            Error::Syntax { message: message.split(" at or near").next().unwrap_or_default().into(), position, hint }
        }
        other => other,
    }
}

fn refuse_other(cursor: &Cursor<'_>) -> Result<()> {
    let (words, hint) = match () {
        () if cursor.at(&["CREATEDB"]) => ("CREATEDB", "There is one database."),
        () if cursor.at(&["CREATEROLE"]) => ("CREATEROLE", "SUPERUSER makes roles."),
        () if cursor.at(&["CREATEUSER"]) => ("CREATEUSER", "SUPERUSER makes roles."),
        () if cursor.at(&["NOINHERIT"]) => ("NOINHERIT", "Members of a role may always do what it may."),
        () if cursor.at(&["REPLICATION"]) => ("REPLICATION", "There is no replication."),
        () if cursor.at(&["BYPASSRLS"]) => ("BYPASSRLS", "There is no row-level security."),
        () if cursor.at(&["UNENCRYPTED"]) => ("UNENCRYPTED PASSWORD", "Only verifiers are kept: PASSWORD 'x'."),
        () if cursor.at(&["OAUTH"]) => ("OAUTH", "PASSWORD 'x' is how users prove themselves."),
        () if cursor.at(&["ADMIN"]) => ("ADMIN in CREATE USER", OWNERS_GRANT),
        () if ["IN", "ROLE", "USER", "SYSID"].iter().any(|word| cursor.at(&[word])) => {
            ("a membership in ALTER USER", "GRANT role TO user.")
        }
        () => return Ok(()),
    };
    Err(unsupported::error(words, hint))
}

fn privilege(cursor: &mut Cursor<'_>, revoke: bool) -> Result<Privilege> {
    const REFUSED: [(&str, &str); 8] = [
        ("INSERT", "No rows are written through SQL: grant SELECT or ALTER."),
        ("UPDATE", "No rows are written through SQL: grant SELECT or ALTER."),
        ("DELETE", "No rows are written through SQL: grant SELECT or ALTER."),
        ("TRUNCATE", "No rows are written through SQL: grant SELECT or ALTER."),
        ("REFERENCES", "There are no foreign keys: grant SELECT or ALTER."),
        ("TRIGGER", "There are no triggers: grant SELECT or ALTER."),
        ("TEMPORARY", "There are no temporary tables."),
        ("TEMP", "There are no temporary tables."),
    ];
    // What everybody has can be granted, but not be taken away.
    const HELD: [(&str, &str); 3] = [
        ("USAGE", "Everybody may use every schema: revoke SELECT on what is in it."),
        ("EXECUTE", "Everybody may call every function."),
        ("CONNECT", "Who has LOGIN may connect: ALTER USER name NOLOGIN."),
    ];
    let refused = REFUSED.iter().chain(if revoke { &HELD[..] } else { &[] });
    if let Some((word, hint)) = refused.into_iter().find(|(word, _)| cursor.at(&[word])) {
        let statement = if revoke { "REVOKE" } else { "GRANT" };
        return Err(unsupported::error(&format!("{statement} {word}"), hint));
    }
    let privilege = match cursor.one_of(&["SELECT", "ALTER", "CREATE", "USAGE", "CONNECT", "EXECUTE", "ALL"])? {
        "SELECT" => Privilege::Select,
        "ALTER" => Privilege::Alter,
        "CREATE" => Privilege::Create,
        "USAGE" => Privilege::Usage,
        "CONNECT" => Privilege::Connect,
        "EXECUTE" => Privilege::Execute,
        _ => {
            cursor.accept(&["PRIVILEGES"]);
            Privilege::All
        }
    };
    if cursor.peek(0) == Some(&Token::LParen) {
        return Err(unsupported::error("a privilege on columns", "Grant on a view that has only these columns."));
    }
    Ok(privilege)
}

fn object(cursor: &mut Cursor<'_>) -> Result<GrantObject> {
    if cursor.accept(&["DATABASE"]) {
        return Ok(GrantObject::Databases(cursor.list(Cursor::name)?));
    }
    if cursor.accept(&["SCHEMA"]) {
        return Ok(GrantObject::Schemas(cursor.list(Cursor::name)?));
    }
    if functions(cursor)? {
        return Ok(GrantObject::Functions);
    }
    let all: [(&[&str], _); 3] = [
        (&["ALL", "TABLES", "IN", "SCHEMA"], None),
        (&["ALL", "SOURCES", "IN", "SCHEMA"], Some(ObjectKind::Source)),
        (&["ALL", "MATERIALIZED", "VIEWS", "IN", "SCHEMA"], Some(ObjectKind::MaterializedView)),
    ];
    for (words, kind) in all {
        if cursor.accept(words) {
            return Ok(GrantObject::AllIn { kind, schemas: cursor.list(Cursor::name)? });
        }
    }
    let kind = match cursor.accept_one_of(&["SOURCE", "MATERIALIZED", "TABLE"]) {
        Some("SOURCE") => Some(ObjectKind::Source),
        Some("MATERIALIZED") => {
            cursor.expect(&["VIEW"])?;
            Some(ObjectKind::MaterializedView)
        }
        _ => None,
    };
    let names = cursor.list(|cursor| {
        let (qualifier, name) = cursor.qualified()?;
        match Elsewhere::find(&qualifier, &name, "relation") {
            Some(database @ Elsewhere::Database(_)) => Err(database.into()),
            // The server's own tables can be granted too.
            _ => Ok((qualifier.last().cloned(), name)),
        }
    })?;
    Ok(GrantObject::Relations { kind, names })
}

/// Functions, by name or all of some schemas. False: it is something else.
fn functions(cursor: &mut Cursor<'_>) -> Result<bool> {
    for word in ["FUNCTIONS", "PROCEDURES", "ROUTINES"] {
        if cursor.accept(&["ALL", word, "IN", "SCHEMA"]) {
            return cursor.list(Cursor::name).map(|_| true);
        }
    }
    if cursor.accept_one_of(&["FUNCTION", "PROCEDURE", "ROUTINE"]).is_none() {
        return Ok(false);
    }
    cursor.list(|cursor| {
        cursor.qualified()?;
        let mut open = usize::from(cursor.accept_token(&Token::LParen));
        // The types of its parameters: whichever is meant, everybody may call it.
        while open > 0 {
            match cursor.peek(0) {
                Some(Token::LParen) => open += 1,
                Some(Token::RParen) => open -= 1,
                Some(_) => {}
                None => return Err(cursor.unexpected()),
            }
            cursor.skip();
        }
        Ok(())
    })?;
    Ok(true)
}

fn check_privileges(privileges: &[Privilege], on: &GrantObject) -> Result<()> {
    let kind = match on {
        GrantObject::Schemas(_) => "schema",
        GrantObject::Databases(_) => "database",
        GrantObject::Functions => "function",
        GrantObject::Relations { .. } | GrantObject::AllIn { .. } => "relation",
    };
    for privilege in privileges {
        let (word, fits) = match privilege {
            Privilege::Create => ("CREATE", matches!(kind, "schema" | "database")),
            Privilege::Usage => ("USAGE", kind == "schema"),
            Privilege::Connect => ("CONNECT", kind == "database"),
            Privilege::Select => ("SELECT", matches!(kind, "schema" | "relation")),
            Privilege::Alter => ("ALTER", matches!(kind, "schema" | "relation")),
            Privilege::Execute => ("EXECUTE", kind == "function"),
            Privilege::All => ("ALL", true),
        };
        if !fits {
            let message = format!("invalid privilege type {word} for {kind}");
            return Err(Error::Semantics { sqlstate: "0LP01", message });
        }
        if kind == "database" && *privilege != Privilege::Connect {
            let hint = "Who has LOGIN may connect, and nothing else is done with a database.";
            return Err(unsupported::error(&format!("{word} on a database"), hint));
        }
    }
    Ok(())
}

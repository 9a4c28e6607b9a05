//! Statements on users, roles and what they may do.

use std::fmt;

/// PostgreSQL's role that reads everything: `tidegate_viewer` under another name.
pub const READS_ALL: &str = "pg_read_all_data";

/// A statement on users and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleCommand {
    /// `CREATE USER`, `CREATE ROLE`
    Create {
        /// Its name.
        name: String,
        /// What it is; `login` is always given.
        options: RoleOptions,
    },
    /// `ALTER USER`, `ALTER ROLE`
    Alter {
        /// Which.
        role: RoleName,
        /// What changes.
        options: RoleOptions,
    },
    /// `ALTER USER name RENAME TO name`
    Rename {
        /// Which.
        role: RoleName,
        /// Its new name.
        to: String,
    },
    /// `DROP USER`, `DROP ROLE`
    Drop {
        /// Which; at least one.
        names: Vec<String>,
        /// Whether a missing one is no error.
        if_exists: bool,
    },
    /// `GRANT privileges ON objects TO grantees`, or `REVOKE ... FROM`.
    Privileges {
        /// Whether they are taken away.
        revoke: bool,
        /// Which; at least one.
        privileges: Vec<Privilege>,
        /// On what.
        on: GrantObject,
        /// To or from whom.
        grantees: Vec<RoleName>,
    },
    /// `REASSIGN OWNED BY roles TO role`: all their sources and views.
    Reassign {
        /// Whose they are; at least one.
        from: Vec<RoleName>,
        /// Whose they are to be.
        to: RoleName,
    },
    /// `DROP OWNED BY roles`: takes away what they were granted. What they own has to be dropped or given away before.
    DropOwned(Vec<RoleName>),
    /// `GRANT roles TO members`, or `REVOKE ... FROM`.
    Membership {
        /// Whether it ends.
        revoke: bool,
        /// The roles.
        roles: Vec<String>,
        /// Their members.
        members: Vec<RoleName>,
    },
}

/// How a statement names a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleName {
    /// By its name.
    Named(String),
    /// `CURRENT_USER`, `SESSION_USER`, `CURRENT_ROLE`
    Current,
    /// `PUBLIC`: everybody.
    Public,
}

/// What a role is; `None` where a statement doesn't say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `LOGIN`, `NOLOGIN`
    pub login: Option<bool>,
    /// `SUPERUSER`, `NOSUPERUSER`
    pub superuser: Option<bool>,
    /// `PASSWORD`; none within for `PASSWORD NULL`.
    pub password: Option<Option<Secret>>,
    /// `CONNECTION LIMIT`, from -1 (none).
    pub connection_limit: Option<i32>,
    /// `VALID UNTIL`, as text.
    pub valid_until: Option<String>,
    /// `IN ROLE`, of a new role: those that it becomes a member of.
    pub in_roles: Vec<String>,
    /// `ROLE`, of a new role: those that become its members.
    pub members: Vec<RoleName>,
}

/// A password. It can't be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'********'")
    }
}

/// What can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// `SELECT`
    Select,
    /// `ALTER`
    Alter,
    /// `CREATE`, on schemas.
    Create,
    /// `USAGE`, on schemas: everybody has it.
    Usage,
    /// `CONNECT`, on the database: who has LOGIN has it.
    Connect,
    /// `EXECUTE`, on functions: everybody has it.
    Execute,
    /// `ALL [PRIVILEGES]`: whatever the object has.
    All,
}

/// What something is granted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantObject {
    /// `[TABLE | SOURCE | MATERIALIZED VIEW] names`
    Relations {
        /// The kind that was named, if it is one that has its own word.
        kind: Option<super::ObjectKind>,
        /// The names, each perhaps with its schema.
        names: Vec<(Option<String>, String)>,
    },
    /// `SCHEMA names`
    Schemas(Vec<String>),
    /// `DATABASE names`
    Databases(Vec<String>),
    /// `{FUNCTION | PROCEDURE | ROUTINE} names`, or all of some schemas.
    Functions,
    /// `ALL {TABLES | SOURCES | MATERIALIZED VIEWS} IN SCHEMA names`: those that there are now.
    AllIn {
        /// The kind that was named; none for TABLES, which are all.
        kind: Option<super::ObjectKind>,
        /// The schemas.
        schemas: Vec<String>,
    },
}

//! The virtual tables: one file of `sql/views` each, embedded. A file's header gives the columns, types and comments,
//! its text the SQLite view. Whatever else speaks of these tables (pg_class, the reference page) is made from it.
//!
//! ```sql
//! -- schema.table (oid 12345): Comment.
//! --
//! -- column type: Comment.
//! SELECT ...
//! ```

use std::sync::LazyLock;

use super::types::{self, PgType};

/// A virtual table's column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub pg_type: &'static PgType,
    /// What it holds. `None` for those of PostgreSQL's own catalog.
    pub comment: Option<String>,
}

/// A virtual table.
#[derive(Debug, Clone)]
pub struct View {
    /// Its schema. `base`: a part of other views, not visible.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its oid, below 16384 and fixed for ever. 0 in schema `base`.
    pub oid: u32,
    /// What it holds.
    pub comment: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The SELECT over the raw tables. `None`: always empty.
    pub select: Option<String>,
}

impl View {
    /// The name of the SQLite view.
    pub fn sqlite_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Users can see and read it.
    pub fn is_visible(&self) -> bool {
        self.schema != "base"
    }
}

macro_rules! embed {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../sql/views/", $name, ".sql")))),*] };
}

/// Every view file, in the order in which SQLite may be told of them.
const FILES: &[(&str, &str)] = embed![
    "base.accessible"
    "base.acl"
    "base.acl_text"
    "base.columns"
    "base.listed"
    "base.membership"
    "base.relations"
    "base.schema_acl"
    "information_schema.applicable_roles"
    "information_schema.character_sets"
    "information_schema.columns"
    "information_schema.enabled_roles"
    "information_schema.information_schema_catalog_name"
    "information_schema.role_table_grants"
    "information_schema.schemata"
    "information_schema.table_privileges"
    "information_schema.tables"
    "information_schema.views"
    "pg_catalog.pg_attribute"
    "pg_catalog.pg_auth_members"
    "pg_catalog.pg_authid"
    "pg_catalog.pg_class"
    "pg_catalog.pg_database"
    "pg_catalog.pg_description"
    "pg_catalog.pg_foreign_data_wrapper"
    "pg_catalog.pg_foreign_server"
    "pg_catalog.pg_foreign_table"
    "pg_catalog.pg_matviews"
    "pg_catalog.pg_namespace"
    "pg_catalog.pg_roles"
    "pg_catalog.pg_shadow"
    "pg_catalog.pg_stat_archiver"
    "pg_catalog.pg_stat_bgwriter"
    "pg_catalog.pg_stat_user_tables"
    "pg_catalog.pg_tables"
    "pg_catalog.pg_tablespace"
    "pg_catalog.pg_user"
    "pg_catalog.pg_views"
    "rw_catalog.rw_actor_splits"
    "rw_catalog.rw_actors"
    "rw_catalog.rw_backfill_info"
    "rw_catalog.rw_columns"
    "rw_catalog.rw_databases"
    "rw_catalog.rw_ddl_progress"
    "rw_catalog.rw_event_logs"
    "rw_catalog.rw_fragment_backfill_progress"
    "rw_catalog.rw_fragment_parallelism"
    "rw_catalog.rw_fragments"
    "rw_catalog.rw_internal_tables"
    "rw_catalog.rw_materialized_views"
    "rw_catalog.rw_rate_limit"
    "rw_catalog.rw_relations"
    "rw_catalog.rw_schemas"
    "rw_catalog.rw_sources"
    "rw_catalog.rw_streaming_parallelism"
    "rw_catalog.rw_tables"
    "rw_catalog.rw_users"
    "rw_catalog.rw_views"
    "rw_catalog.rw_worker_nodes"
    "tidegate.bad_rows"
    "tidegate.invariant_violations"
    "tidegate.job_backfill_progress"
    "tidegate.pending_rescales"
    "tidegate.rescale_history"
    "tidegate.settings"
    "tidegate.split_assignment_history"
    "tidegate.split_assignments"
    "tidegate.split_backfill_progress"
    "tidegate.split_gaps"
];

/// The tables of PostgreSQL that are always empty here.
const EMPTY: &str = include_str!("../../sql/views/empty.txt");

/// All virtual tables that have a file.
pub static VIEWS: LazyLock<Vec<View>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|(name, text)| parse(text).unwrap_or_else(|error| unreachable!("sql/views/{name}.sql: {error}")))
        .chain(parse_list(EMPTY, "sql/views/empty.txt"))
        .collect()
});

/// Reads a list of relations without SQL, of our own files: one a line, `schema.table 1234: column type, ...`.
pub fn parse_list(text: &str, file: &str) -> Vec<View> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| parse_line(line).unwrap_or_else(|error| unreachable!("{file}: {line}: {error}")))
        .collect()
}

/// Reads a view file.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<View, String> {
    let mut lines = text.lines();
    let title = lines.next().and_then(|line| line.strip_prefix("-- ")).ok_or("the first line is no title")?;
    let (head, comment) = title.split_once(": ").ok_or("the title has no comment")?;
    let (schema, name, oid) = parse_title(head)?;
    if lines.next() != Some("--") {
        return Err("the second line is not a lone --".into());
    }
    let mut columns = Vec::new();
    let mut select = String::new();
    for line in lines {
        match line.strip_prefix("-- ") {
            Some(column) if select.is_empty() => columns.push(parse_column(column)?),
            _ => {
                select.push_str(line);
                select.push('\n');
            }
        }
    }
    let select = select.trim().to_owned();
    if columns.is_empty() || !select.starts_with("SELECT ") {
        return Err("it needs columns and a SELECT".into());
    }
    Ok(View { schema, name, oid, comment: comment.into(), columns, select: Some(select) })
}

/// `schema.table (oid 12345)`.
fn parse_title(head: &str) -> Result<(String, String, u32), String> {
    let (name, oid) = head
        .strip_suffix(')')
        .and_then(|head| head.split_once(" (oid "))
        .ok_or_else(|| format!("{head:?} is not \"schema.table (oid n)\""))?;
    let (schema, name) = name.split_once('.').ok_or_else(|| format!("{name:?} has no schema"))?;
    let oid = oid.parse().map_err(|_| format!("{oid:?} is no oid"))?;
    Ok((schema.into(), name.into(), oid))
}

/// `column type` or `column type: Comment.`
fn parse_column(text: &str) -> Result<Column, String> {
    let (head, comment) = match text.split_once(": ") {
        Some((head, comment)) => (head, Some(comment.to_owned())),
        None => (text, None),
    };
    let (name, pg_type) = head.split_once(' ').ok_or_else(|| format!("{head:?} is not \"column type\""))?;
    let pg_type = types::by_name(pg_type).ok_or_else(|| format!("column {name} has the unknown type {pg_type:?}"))?;
    Ok(Column { name: name.into(), pg_type, comment })
}

fn parse_line(line: &str) -> Result<View, String> {
    let (head, columns) = line.split_once(": ").ok_or("no colon")?;
    let (name, oid) = head.split_once(' ').ok_or("no oid")?;
    let (schema, name, oid) = parse_title(&format!("{name} (oid {oid})"))?;
    let columns = columns.split(", ").map(parse_column).collect::<Result<_, _>>()?;
    Ok(View { schema, name, oid, comment: String::new(), columns, select: None })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    #[test]
    fn every_file_is_listed_under_its_own_name() {
        let listed: BTreeSet<_> = FILES.iter().map(|(name, _)| format!("{name}.sql")).collect();
        let there: BTreeSet<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/views"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".sql"))
            .collect();
        assert_eq!(listed, there);
        for (name, text) in FILES {
            assert_eq!(parse(text).unwrap().sqlite_name(), *name);
        }
    }

    #[test]
    fn oids_are_unique_and_below_those_of_users() {
        let mut seen = HashSet::new();
        for view in VIEWS.iter().filter(|view| view.is_visible()) {
            assert!(view.oid > 0 && view.oid < 16384, "{}", view.sqlite_name());
            assert!(seen.insert(view.oid), "{} has the oid of another", view.sqlite_name());
        }
    }

    #[test]
    fn our_own_tables_and_columns_all_have_comments() {
        for view in VIEWS.iter().filter(|view| ["tidegate", "rw_catalog"].contains(&&*view.schema)) {
            assert!(view.comment.ends_with('.'), "{}", view.sqlite_name());
            for column in &view.columns {
                assert!(column.comment.is_some(), "{}.{}", view.sqlite_name(), column.name);
            }
        }
    }

    #[test]
    fn a_broken_file_says_what_is_wrong() {
        assert!(parse("SELECT 1").unwrap_err().contains("title"));
        assert!(parse("-- a.b (oid 1): C.\n--\n-- x int9: D.\nSELECT 1").unwrap_err().contains("int9"));
        assert!(parse("-- a.b (oid 1): C.\n--\n-- x int4: D.\n").unwrap_err().contains("SELECT"));
    }
}

//! `SHOW` of what is not a setting: lists in the columns that RisingWave gives them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rusqlite::Connection;

use crate::command::ast::Show;
use crate::error::{Error, Result};
use crate::store::relations::{self, RelationKind};
use crate::store::{Context, Store};

/// The columns; all are text.
fn columns(what: &Show) -> &'static [&'static str] {
    match what {
        Show::Jobs => &["Id", "Statement", "Create Type", "Progress"],
        Show::Sources | Show::MaterializedViews => &["Name"],
        Show::CreateSource(_) | Show::CreateMaterializedView(_) => &["Name", "Create Sql"],
        Show::Parameters => &["Name", "Value", "Unit", "Description", "Source"],
    }
}

/// The schema of the rows.
pub fn schema(what: &Show) -> SchemaRef {
    let fields: Vec<Field> = columns(what).iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    Arc::new(Schema::new(fields))
}

/// The rows.
///
/// # Errors
/// When the relation that is named doesn't exist.
pub fn rows(store: &Store, what: &Show) -> Result<RecordBatch> {
    let rows = store.snapshot()?.with(|connection| match what {
        Show::Jobs => query(
            connection,
            "SELECT j.id, r.definition, iif(j.background, 'BACKGROUND', 'FOREGROUND'),
                    coalesce(sum(s.state ->> '$.num_consumed_rows'), 0) || ' consumed rows'
             FROM jobs j JOIN relations r ON r.id = j.id LEFT JOIN fragments f ON f.job_id = j.id
             LEFT JOIN backfill_states s ON s.fragment_id = f.id AND json_valid(s.state)
             WHERE j.status = 'creating' GROUP BY j.id ORDER BY j.id",
            4,
        ),
        Show::Sources => query(connection, "SELECT name FROM relations WHERE kind = 'source' ORDER BY name", 1),
        Show::MaterializedViews => {
            query(connection, "SELECT name FROM relations WHERE kind = 'materialized view' ORDER BY name", 1)
        }
        Show::CreateSource(name) => definition(connection, RelationKind::Source, name),
        Show::CreateMaterializedView(name) => definition(connection, RelationKind::MaterializedView, name),
        Show::Parameters => {
            query(connection, "SELECT name, value, unit, short_desc, source FROM settings ORDER BY name", 5)
        }
    })?;
    let arrays = (0..columns(what).len())
        .map(|column| Arc::new(rows.iter().map(|row| row[column].clone()).collect::<StringArray>()) as ArrayRef)
        .collect();
    RecordBatch::try_new(schema(what), arrays).map_err(|error| Error::Internal(error.to_string()))
}

type Rows = Vec<Vec<Option<String>>>;

fn definition(connection: &Connection, kind: RelationKind, name: &str) -> Result<Rows> {
    let relation = relations::get(connection, kind, name)?;
    let sql = format!("SELECT 'public.' || name, definition FROM relations WHERE id = {}", relation.id);
    query(connection, &sql, 2)
}

fn query(connection: &Connection, sql: &str, columns: usize) -> Result<Rows> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    (0..columns)
                        .map(|column| {
                            Ok(match row.get_ref(column)? {
                                rusqlite::types::ValueRef::Null => None,
                                rusqlite::types::ValueRef::Integer(value) => Some(value.to_string()),
                                rusqlite::types::ValueRef::Real(value) => Some(value.to_string()),
                                other => Some(other.as_str()?.to_owned()),
                            })
                        })
                        .collect()
                })?
                .collect()
        })
        .context("listing what is shown")
}

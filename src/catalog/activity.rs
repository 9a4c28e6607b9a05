//! `pg_settings`, `pg_stat_activity`, `pg_stat_ssl` and `pg_stat_gssapi`: rows that the connection's host tells.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result as DfResult;

use super::scope::{Activity, Encryption, Scope, Setting};
use super::{statics, types};
use crate::auth;
use crate::error::Result;
use crate::limits::{parse_bytes, parse_milliseconds};
use crate::store::users;

/// The rows of `pg_settings`.
pub fn settings(scope: &Scope) -> DfResult<RecordBatch> {
    let rows = scope.host.settings();
    let text =
        |value: fn(&Setting) -> Option<&str>| -> ArrayRef { Arc::new(rows.iter().map(value).collect::<StringArray>()) };
    batch("pg_settings", rows.len(), |column| {
        Some(match column {
            "name" => text(|row| Some(&row.name)),
            "setting" => Arc::new(rows.iter().map(|row| Some(number(row, &row.value))).collect::<StringArray>()),
            "unit" => text(|row| row.unit.as_deref()),
            "category" => text(|_| Some("Tidegate")),
            "short_desc" => text(|row| Some(&row.short_desc)),
            "context" => text(|row| Some(row.context)),
            "vartype" => text(|row| Some(row.vartype)),
            "source" => text(|row| Some(row.source)),
            "boot_val" | "reset_val" => {
                Arc::new(rows.iter().map(|row| Some(number(row, &row.reset_value))).collect::<StringArray>())
            }
            "pending_restart" => Arc::new(BooleanArray::from(vec![false; rows.len()])),
            _ => return None,
        })
    })
}

/// A value in its unit, which has a column of its own.
fn number(row: &Setting, value: &str) -> String {
    let number = match row.unit.as_deref() {
        Some("ms") => parse_milliseconds(value),
        Some("kB") => parse_bytes(value).map(|bytes| bytes / 1024),
        _ => None,
    };
    number.map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// The rows of `pg_stat_activity`.
pub fn activity(scope: &Scope) -> DfResult<RecordBatch> {
    let mut rows = scope.host.activity();
    let ids = hide_from_others(scope, &mut rows)?;
    let text = |value: fn(&Activity) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<StringArray>())
    };
    let instant = |value: fn(&Activity) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<TimestampMicrosecondArray>().with_timezone(types::UTC))
    };
    batch("pg_stat_activity", rows.len(), |column| {
        Some(match column {
            "datid" => Arc::new(Int32Array::from(vec![1; rows.len()])),
            "datname" => text(|_| Some(super::DATABASE)),
            "pid" => Arc::new(rows.iter().map(|row| Some(row.pid)).collect::<Int32Array>()),
            "usesysid" => Arc::new(Int32Array::from(ids.clone())),
            "usename" => text(|row| Some(&row.user)),
            "application_name" => text(|row| Some(&row.application_name)),
            "client_addr" => text(|row| row.client_addr.as_deref()),
            "client_port" => Arc::new(rows.iter().map(|row| row.client_port).collect::<Int32Array>()),
            "backend_start" => instant(|row| Some(row.backend_start)),
            "query_start" | "xact_start" | "state_change" => instant(|row| row.query_start),
            "state" => text(|row| Some(&row.state)),
            "query" => text(|row| Some(&row.query)),
            "backend_type" => text(|_| Some("client backend")),
            _ => return None,
        })
    })
}

/// The rows of `pg_stat_ssl`: how each connection is encrypted.
pub fn tls(scope: &Scope) -> DfResult<RecordBatch> {
    let mut rows = scope.host.activity();
    hide_from_others(scope, &mut rows)?;
    let text = |value: fn(&Encryption) -> &str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.encryption.as_ref().map(value)).collect::<StringArray>())
    };
    batch("pg_stat_ssl", rows.len(), |column| {
        Some(match column {
            "pid" => Arc::new(rows.iter().map(|row| Some(row.pid)).collect::<Int32Array>()),
            // Of others it isn't told.
            "ssl" => Arc::new(
                rows.iter()
                    .map(|row| row.client_addr.as_ref().map(|_| row.encryption.is_some()))
                    .collect::<BooleanArray>(),
            ),
            "version" => text(|encryption| &encryption.version),
            "cipher" => text(|encryption| &encryption.cipher),
            "bits" => {
                Arc::new(rows.iter().map(|row| row.encryption.as_ref().map(|tls| tls.bits)).collect::<Int32Array>())
            }
            _ => return None,
        })
    })
}

/// The rows of `pg_stat_gssapi`: there is no GSSAPI.
pub fn gssapi(scope: &Scope) -> DfResult<RecordBatch> {
    let rows = scope.host.activity();
    batch("pg_stat_gssapi", rows.len(), |column| {
        Some(match column {
            "pid" => Arc::new(rows.iter().map(|row| Some(row.pid)).collect::<Int32Array>()),
            "gss_authenticated" | "encrypted" => Arc::new(BooleanArray::from(vec![false; rows.len()])),
            _ => return None,
        })
    })
}

/// The rows of `pg_stat_database`: the only one. There is nothing that could conflict or meet in a deadlock; what else
/// isn't counted is NULL.
pub fn database(scope: &Scope) -> DfResult<RecordBatch> {
    let sessions = i32::try_from(scope.host.activity().len()).unwrap_or(i32::MAX);
    batch("pg_stat_database", 1, |column| {
        Some(match column {
            "datid" => Arc::new(Int32Array::from(vec![1])),
            "datname" => Arc::new(StringArray::from(vec![super::DATABASE])),
            "numbackends" => Arc::new(Int32Array::from(vec![sessions])),
            "conflicts" | "deadlocks" => Arc::new(Int64Array::from(vec![0])),
            _ => return None,
        })
    })
}

/// Only superusers and operators see what others do, as in PostgreSQL. Gives the users' ids.
fn hide_from_others(scope: &Scope, rows: &mut [Activity]) -> Result<Vec<Option<i32>>> {
    scope.read_privileges(|connection| {
        let user = users::find(connection, &scope.user)?;
        let sees_all = match &user {
            Some(user) => user.superuser || auth::is_member(connection, user.id, users::OPERATOR)?,
            None => false,
        };
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            ids.push(users::find(connection, &row.user)?.map(|user| user.id));
            if !sees_all && row.user != scope.user {
                *row = Activity {
                    pid: row.pid,
                    user: std::mem::take(&mut row.user),
                    application_name: std::mem::take(&mut row.application_name),
                    query: "<insufficient privilege>".into(),
                    ..Activity::default()
                };
            }
        }
        Ok(ids)
    })
}

/// Rows of one of the tables that are computed; a column that `column` doesn't know is NULL.
pub fn batch(name: &str, rows: usize, column: impl Fn(&str) -> Option<ArrayRef>) -> DfResult<RecordBatch> {
    let schema: SchemaRef = statics::schema(name);
    let columns = schema
        .fields()
        .iter()
        .map(|field| column(field.name()).unwrap_or_else(|| new_null_array(field.data_type(), rows)))
        .collect();
    Ok(RecordBatch::try_new(schema, columns)?)
}

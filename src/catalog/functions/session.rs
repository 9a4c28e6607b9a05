//! Functions about the session and the server.

use datafusion::common::ScalarValue;

use super::super::DATABASE;
use super::super::connection::STARTED_AT;
use super::super::scope::Host;
use super::super::types::UTC;
use super::{Call, Definition, Value, pure, stable, text, volatile};
use crate::auth::{Action, Object, authorize};
use crate::clock::now_micros;
use crate::error::Error;
use crate::store::users;

/// The names of PostgreSQL's encodings, in the order of their numbers.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

pub const FUNCTIONS: &[Definition] = &[
    pure("version", 0..=0, "text", |_| {
        Ok(text(Some(format!(
            "PostgreSQL 15.0 (Tidegate {}) on {}-{}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::ARCH,
            std::env::consts::OS
        ))))
    }),
    pure("current_database", 0..=0, "name", |_| Ok(text(Some(DATABASE)))),
    pure("current_catalog", 0..=0, "name", |_| Ok(text(Some(DATABASE)))),
    stable("current_schema", 0..=0, "name", |call| Ok(text(call.scope.search_path().into_iter().next()))),
    stable("current_schemas", 1..=1, "name[]", current_schemas),
    stable("current_user", 0..=0, "name", user),
    stable("session_user", 0..=0, "name", user),
    stable("current_role", 0..=0, "name", user),
    stable("user", 0..=0, "name", user),
    stable("pg_backend_pid", 0..=0, "int4", |call| Ok(ScalarValue::Int32(Some(call.scope.pid)))),
    stable("current_setting", 1..=2, "text", current_setting),
    volatile("set_config", 3..=3, "text", |call| {
        let name = call.text(0).unwrap_or_default();
        let local = call.boolean(2).unwrap_or(false);
        Ok(text(Some(call.scope.host.set(&name, &call.text(1).unwrap_or_default(), local)?)))
    }),
    stable("pg_postmaster_start_time", 0..=0, "timestamptz", started),
    stable("pg_conf_load_time", 0..=0, "timestamptz", started),
    pure("pg_is_in_recovery", 0..=0, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
    pure("pg_is_wal_replay_paused", 0..=0, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
    // A server that is no standby has received and replayed nothing, and here there is no log either.
    stable("pg_last_wal_receive_lsn", 0..=0, "text", |_| Ok(text(None::<&str>))),
    stable("pg_last_wal_replay_lsn", 0..=0, "text", |_| Ok(text(None::<&str>))),
    stable("pg_current_wal_lsn", 0..=0, "text", |_| Ok(text(None::<&str>))),
    stable("pg_current_wal_insert_lsn", 0..=0, "text", |_| Ok(text(None::<&str>))),
    stable("pg_current_wal_flush_lsn", 0..=0, "text", |_| Ok(text(None::<&str>))),
    stable("pg_last_xact_replay_timestamp", 0..=0, "timestamptz", |_| {
        Ok(ScalarValue::TimestampMicrosecond(None, Some(UTC.into())))
    }),
    stable("pg_current_xact_id_if_assigned", 0..=0, "int8", |_| Ok(ScalarValue::Int64(None))),
    stable("txid_current", 0..=0, "int8", epoch),
    stable("pg_current_xact_id", 0..=0, "int8", epoch),
    stable("txid_current_if_assigned", 0..=0, "int8", |_| Ok(ScalarValue::Int64(None))),
    pure("pg_client_encoding", 0..=0, "name", |_| Ok(text(Some("UTF8")))),
    pure("getdatabaseencoding", 0..=0, "name", |_| Ok(text(Some("UTF8")))),
    pure("pg_encoding_to_char", 1..=1, "name", |call| {
        Ok(text(call.integer(0).map(|encoding| {
            let name = usize::try_from(encoding).ok().and_then(|encoding| ENCODINGS.get(encoding));
            name.copied().unwrap_or_default()
        })))
    }),
    pure("pg_char_to_encoding", 1..=1, "int4", |call| {
        Ok(ScalarValue::Int32(call.text(0).map(|name| match name.to_uppercase().as_str() {
            "UTF8" | "UTF-8" | "UNICODE" => 6,
            "SQL_ASCII" => 0,
            _ => -1,
        })))
    }),
    stable("inet_server_addr", 0..=0, "inet", |call| Ok(text(call.scope.host.setting("listen_addresses")))),
    stable("inet_server_port", 0..=0, "int4", |call| {
        Ok(ScalarValue::Int32(call.scope.host.setting("port").and_then(|port| port.parse().ok())))
    }),
    stable("inet_client_addr", 0..=0, "inet", |call| Ok(text(own_activity(call).and_then(|row| row.client_addr)))),
    stable("inet_client_port", 0..=0, "int4", |call| {
        Ok(ScalarValue::Int32(own_activity(call).and_then(|row| row.client_port)))
    }),
    pure("pg_my_temp_schema", 0..=0, "oid", |_| Ok(ScalarValue::Int32(Some(0)))),
    pure("pg_is_other_temp_schema", 1..=1, "bool", |_| Ok(ScalarValue::Boolean(Some(false)))),
    volatile("pg_cancel_backend", 1..=1, "bool", |call| signal(call, |host, pid| host.cancel(pid))),
    volatile("pg_terminate_backend", 1..=2, "bool", |call| signal(call, |host, pid| host.terminate(pid))),
    stable("now", 0..=0, "timestamptz", now),
    stable("transaction_timestamp", 0..=0, "timestamptz", now),
    stable("statement_timestamp", 0..=0, "timestamptz", now),
    stable("current_timestamp", 0..=1, "timestamptz", now),
    volatile("clock_timestamp", 0..=0, "timestamptz", |_| {
        Ok(ScalarValue::TimestampMicrosecond(Some(now_micros()), Some(UTC.into())))
    }),
];

fn user(call: &Call<'_>) -> Value {
    Ok(text(Some(&call.scope.user)))
}

fn pid(call: &Call<'_>) -> Option<i32> {
    call.integer(0).and_then(|pid| i32::try_from(pid).ok())
}

/// Interrupts a session: one's own user's, with tidegate_operator those of others, and of superusers as a superuser.
fn signal(call: &Call<'_>, send: fn(&dyn Host, i32) -> bool) -> Value {
    let Some(pid) = pid(call) else { return Ok(ScalarValue::Boolean(None)) };
    let target = call.scope.host.activity().into_iter().find(|row| row.pid == pid);
    if let Some(target) = target.filter(|target| target.user != call.scope.user) {
        call.scope.read_privileges(|connection| {
            let superuser = users::find(connection, &target.user)?.is_some_and(|user| user.superuser);
            let action = if superuser { Action::Administer } else { Action::Operate };
            authorize(connection, &call.scope.user, action, Object::Server("cancel or end sessions of others"))
        })?;
    }
    Ok(ScalarValue::Boolean(Some(send(call.scope.host.as_ref(), pid))))
}

fn own_activity(call: &Call<'_>) -> Option<super::super::scope::Activity> {
    call.scope.host.activity().into_iter().find(|row| row.pid == call.scope.pid)
}

fn now(call: &Call<'_>) -> Value {
    Ok(ScalarValue::TimestampMicrosecond(Some(call.scope.statement_at()), Some(UTC.into())))
}

fn started(_: &Call<'_>) -> Value {
    Ok(ScalarValue::TimestampMicrosecond(Some(*STARTED_AT), Some(UTC.into())))
}

/// The last checkpoint is the transaction that a query sees.
fn epoch(call: &Call<'_>) -> Value {
    call.scope.read(|connection| {
        connection
            .query_row("SELECT epoch FROM main.meta", [], |row| row.get(0))
            .map(|epoch| ScalarValue::Int64(Some(epoch)))
            .map_err(|source| super::super::store_error("read the epoch", source))
    })
}

fn current_schemas(call: &Call<'_>) -> Value {
    let mut path = call.scope.search_path();
    if call.boolean(0) != Some(true) {
        path.retain(|schema| schema != "pg_catalog");
    }
    let values: Vec<_> = path.into_iter().map(|schema| text(Some(schema))).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &datafusion::arrow::datatypes::DataType::Utf8)))
}

fn current_setting(call: &Call<'_>) -> Value {
    let Some(name) = call.text(0) else { return Ok(ScalarValue::Utf8(None)) };
    match call.scope.host.setting(&name) {
        Some(value) => Ok(text(Some(value))),
        None if call.boolean(1) == Some(true) => Ok(ScalarValue::Utf8(None)),
        None => Err(Error::UnknownSetting { name, nearest: None }),
    }
}

//! The functions of advisory locks: `pg_advisory_lock` and its kin, over [`Locks`](super::super::locks::Locks).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::super::locks::{Key, Lock, Until};
use super::super::scope::Scope;
use super::{Call, Definition, Value, invalid, no_such_function, stable, text, volatile};
use crate::error::Result;
use crate::limits::parse_milliseconds;

pub const FUNCTIONS: &[Definition] = &[
    volatile("pg_try_advisory_lock", 1..=2, "bool", |call| take(call, "pg_try_advisory_lock", false, Until::Unlocked)),
    volatile("pg_try_advisory_lock_shared", 1..=2, "bool", |call| {
        take(call, "pg_try_advisory_lock_shared", true, Until::Unlocked)
    }),
    volatile("pg_try_advisory_xact_lock", 1..=2, "bool", |call| {
        take(call, "pg_try_advisory_xact_lock", false, Until::TransactionEnds)
    }),
    volatile("pg_try_advisory_xact_lock_shared", 1..=2, "bool", |call| {
        take(call, "pg_try_advisory_xact_lock_shared", true, Until::TransactionEnds)
    }),
    volatile("pg_advisory_unlock", 1..=2, "bool", |call| release(call, "pg_advisory_unlock", false)),
    volatile("pg_advisory_unlock_shared", 1..=2, "bool", |call| release(call, "pg_advisory_unlock_shared", true)),
    volatile("pg_advisory_unlock_all", 0..=0, "text", |call| {
        call.scope.locks.unlock_all(call.scope.pid);
        Ok(text(Some("")))
    }),
    stable("pg_blocking_pids", 1..=1, "int4[]", |call| {
        let pid = call.integer(0).and_then(|pid| i32::try_from(pid).ok());
        let blockers = pid.map(|pid| call.scope.locks.blockers(pid)).unwrap_or_default();
        let blockers: Vec<_> = blockers.into_iter().map(|pid| ScalarValue::Int32(Some(pid))).collect();
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&blockers, &DataType::Int32)))
    }),
];

/// Those that wait: they hold no thread, and end when their statement is cancelled.
pub fn waiting() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        ("pg_advisory_lock", false, Until::Unlocked),
        ("pg_advisory_lock_shared", true, Until::Unlocked),
        ("pg_advisory_xact_lock", false, Until::TransactionEnds),
        ("pg_advisory_xact_lock_shared", true, Until::TransactionEnds),
    ];
    all.into_iter().map(|(name, shared, until)| {
        let keys = vec![
            TypeSignature::Exact(vec![DataType::Int64]),
            TypeSignature::Exact(vec![DataType::Int32, DataType::Int32]),
        ];
        let signature = Signature::one_of(keys, Volatility::Volatile);
        AsyncScalarUDF::new(Arc::new(Wait { name, shared, until, signature })).into_scalar_udf()
    })
}

/// One bigint, or two integers, which never are the same lock.
fn key(values: &[ScalarValue]) -> Option<Key> {
    match values {
        [ScalarValue::Int64(Some(whole))] => {
            let [high, low] = [whole >> 32, *whole].map(|half| u32::try_from(half & 0xffff_ffff).unwrap_or_default());
            Some(Key(high.cast_signed(), low.cast_signed(), 1))
        }
        [ScalarValue::Int32(Some(class)), ScalarValue::Int32(Some(object))] => Some(Key(*class, *object, 2)),
        _ => None,
    }
}

/// The lock that a call is about. `None`: an argument is NULL.
fn lock(call: &Call<'_>, function: &str, shared: bool) -> Result<Option<Lock>> {
    if call.any_null() {
        return Ok(None);
    }
    let wanted = if call.args.len() == 1 { DataType::Int64 } else { DataType::Int32 };
    let value = |argument: &ScalarValue| match argument {
        ScalarValue::Utf8(Some(text)) => argument.cast_to(&wanted).map_err(|_| {
            let name = if wanted == DataType::Int64 { "bigint" } else { "integer" };
            invalid("22P02", format!("invalid input syntax for type {name}: \"{text}\""))
        }),
        ScalarValue::Int16(_) | ScalarValue::Int32(_) => {
            argument.cast_to(&wanted).map_err(|_| no_such_function(function, call.fields))
        }
        ScalarValue::Int64(_) if wanted == DataType::Int64 => Ok(argument.clone()),
        _ => Err(no_such_function(function, call.fields)),
    };
    let values = call.args.iter().map(value).collect::<Result<Vec<_>>>()?;
    Ok(key(&values).map(|key| Lock { key, shared }))
}

fn take(call: &Call<'_>, function: &str, shared: bool, until: Until) -> Value {
    let lock = lock(call, function, shared)?;
    let taken = lock.map(|lock| call.scope.locks.try_lock(call.scope.pid, lock, until)).transpose()?;
    Ok(ScalarValue::Boolean(taken))
}

fn release(call: &Call<'_>, function: &str, shared: bool) -> Value {
    let lock = lock(call, function, shared)?;
    Ok(ScalarValue::Boolean(lock.map(|lock| call.scope.locks.unlock(call.scope.pid, lock))))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Wait {
    name: &'static str,
    shared: bool,
    until: Until,
    signature: Signature,
}

impl ScalarUDFImpl for Wait {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        datafusion::common::internal_err!("{} is only called asynchronously", self.name)
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Wait {
    async fn invoke_async_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scope = Scope::of(&call.config_options)?;
        let limit = scope.host.setting("lock_timeout").and_then(|limit| parse_milliseconds(&limit));
        let limit = limit.filter(|limit| *limit > 0).map(Duration::from_millis);
        let columns = ColumnarValue::values_to_arrays(&call.args)?;
        let mut done = Vec::with_capacity(call.number_rows);
        for row in 0..call.number_rows {
            let values = columns.iter().map(|column| ScalarValue::try_from_array(column, row));
            let key = key(&values.collect::<DfResult<Vec<_>>>()?);
            if let Some(key) = key {
                scope.locks.lock(scope.pid, Lock { key, shared: self.shared }, self.until, limit).await?;
            }
            // A value of type void is shown as nothing.
            done.push(ScalarValue::Utf8(key.map(|_| String::new())));
        }
        if done.is_empty() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(done)?))
    }
}

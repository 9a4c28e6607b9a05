//! The check of a rescale in SQL: `tidegate.check_rescale(source, target)` and `tidegate.can_rescale(source, target)`.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use rusqlite::Connection;

use super::computed::Computed;
use super::functions::{Call, Definition, Value, stable};
use super::scope::Scope;
use super::view::{self, View};
use crate::auth::{Action, Object, authorize};
use crate::backfill::check::{Decision, Policy, Report, check};
use crate::backfill::target::Target;
use crate::clock::now_micros;
use crate::command;
use crate::error::{Error, Result};
use crate::store::check_input::{Surroundings, check_input};
use crate::store::relations;

/// The columns of `check_rescale`.
pub static CHECK_RESCALE: LazyLock<View> = LazyLock::new(|| {
    let text = include_str!("../../sql/views/check_rescale.txt");
    view::parse(text).unwrap_or_else(|error| unreachable!("sql/views/check_rescale.txt: {error}"))
});

/// The arguments, as columns of [`CheckRescale`].
pub const ARGUMENTS: [&str; 2] = ["source", "target"];

/// The scalar form.
pub const FUNCTIONS: &[Definition] = &[stable("can_rescale", 2..=2, "bool", |call: &Call<'_>| -> Value {
    let (Some(source), Some(target)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Boolean(None)) };
    let report = report(call.scope, &source, &target)?;
    Ok(ScalarValue::Boolean(Some(report.decision() == Decision::Pass)))
})];

/// Runs the check on the query's snapshot, under the session's policy.
fn report(scope: &Scope, source: &str, target: &str) -> Result<Report> {
    let target = Target::parse(target).map_err(|message| Error::Data { sqlstate: "22023", message })?;
    let source = &scope.read(|connection| source_name(connection, source))?;
    let found = scope.read(|connection| relations::find(connection, source))?;
    scope.read_privileges(|connection| match &found {
        Some(found) => {
            let object = Object::Relation { oid: found.id.into(), kind: found.kind.as_str(), name: source };
            authorize(connection, &scope.user, Action::Inspect, object)
        }
        // The check says that there is none.
        None => Ok(()),
    })?;
    let policy = match scope.host.setting("rescale_policy") {
        None => Policy::default(),
        Some(value) => value.parse().map_err(|allowed| Error::InvalidValue {
            what: "parameter \"rescale_policy\"".into(),
            value,
            allowed,
        })?,
    };
    let surroundings = Surroundings {
        available: scope.server.available,
        barrier_interval: scope.server.barrier_interval,
        now: now_micros(),
        asking: None,
    };
    let input = scope.read(|connection| check_input(connection, source, target, &surroundings))?;
    Ok(check(&input, policy))
}

/// The source that an argument names: by its name as it is, or as a statement would name it, as `public.s`.
fn source_name(connection: &Connection, written: &str) -> Result<String> {
    let is_plain = !written.contains('.') || relations::find(connection, written)?.is_some();
    if is_plain { Ok(written.to_owned()) } else { command::relation_name(written, "source") }
}

/// `check_rescale`, as a table with two more columns, its arguments, which a query has to fix. So they may be
/// parameters of a prepared statement.
#[derive(Debug)]
pub struct CheckRescale {
    schema: SchemaRef,
}

impl CheckRescale {
    /// The table.
    pub fn new() -> Self {
        let mut fields: Vec<_> =
            CHECK_RESCALE.columns.iter().map(|column| column.pg_type.field(&column.name)).collect();
        fields.extend(ARGUMENTS.iter().filter_map(|name| Some(super::types::by_name("text")?.field(name))));
        Self { schema: Arc::new(Schema::new(fields)) }
    }
}

/// Which argument a filter fixes, and at what. `None` within: at a value that it has when it comes to a scan.
fn argument(filter: &Expr) -> Option<(usize, Option<&str>)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
    let Expr::Column(column) = left.as_ref() else { return None };
    let index = ARGUMENTS.iter().position(|name| *name == column.name)?;
    match right.as_ref() {
        Expr::Literal(ScalarValue::Utf8(Some(value)), _) => Some((index, Some(value))),
        Expr::Placeholder(_) => Some((index, None)),
        _ => None,
    }
}

#[async_trait]
impl TableProvider for CheckRescale {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match argument(filter) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let value = |wanted: usize| {
            let fixed = filters.iter().filter_map(argument).find(|(index, _)| *index == wanted);
            fixed.and_then(|(_, value)| value).map(str::to_owned)
        };
        let (Some(source), Some(target)) = (value(0), value(1)) else {
            return Err(Error::FeatureNotSupported {
                what: "check_rescale with arguments that are columns or NULL".into(),
                hint: "Use tidegate.can_rescale(source, target), or one check_rescale for every source.".into(),
            }
            .into());
        };
        let schema = Arc::clone(&self.schema);
        let rows = move |scope: &Scope| rows(&schema, &report(scope, &source, &target)?, [&source, &target]);
        Computed::table(Arc::clone(&self.schema), rows)?.scan(session, projection, &[], None).await
    }
}

/// A row a condition, then a row a split.
fn rows(schema: &SchemaRef, report: &Report, arguments: [&str; 2]) -> DfResult<RecordBatch> {
    let (conditions, splits) = (&report.conditions, &report.splits);
    let nothing = || conditions.iter().map(|_| None::<String>);
    let text = |values: Vec<Option<String>>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let both = |of_condition: Vec<Option<String>>, of_split: Vec<Option<String>>| {
        text(of_condition.into_iter().chain(of_split).collect())
    };
    let actor = |of_split: Vec<Option<i32>>| -> ArrayRef {
        Arc::new(Int32Array::from_iter(conditions.iter().map(|_| None).chain(of_split)))
    };
    let of_splits = |value: &dyn Fn(&crate::backfill::check::SplitVerdict) -> Option<String>| {
        both(nothing().collect(), splits.iter().map(value).collect())
    };
    let remaining = conditions.iter().map(|_| None).chain(splits.iter().map(|split| split.remaining));
    let all = conditions.len() + splits.len();
    let columns: Vec<ArrayRef> = vec![
        both(
            conditions.iter().map(|condition| Some(condition.name.to_owned())).collect(),
            splits.iter().map(|_| Some("split".to_owned())).collect(),
        ),
        both(
            conditions.iter().map(|condition| Some(condition.decision.to_string())).collect(),
            splits.iter().map(|split| Some(split.decision.to_string())).collect(),
        ),
        of_splits(&|split| Some(split.job_name.to_string())),
        of_splits(&|split| Some(split.split.to_string())),
        actor(splits.iter().map(|split| split.from_actor.map(|actor| actor.0)).collect()),
        actor(splits.iter().map(|split| Some(split.to_actor.0)).collect()),
        of_splits(&|split| Some(split.verdict.to_string())),
        of_splits(&|split| {
            let unreadable = || split.raw_state.as_ref().map(|raw| serde_json::Value::from(raw.as_str()).to_string());
            split.state.map(|state| state.to_json()).or_else(unreadable)
        }),
        Arc::new(Int64Array::from_iter(remaining)),
        both(
            conditions.iter().map(|condition| Some(condition.reason.clone())).collect(),
            splits.iter().map(|split| Some(split.reason().into_owned())).collect(),
        ),
        both(
            conditions.iter().map(|condition| condition.remedy.clone()).collect(),
            splits.iter().map(|split| split.remedy()).collect(),
        ),
        text(vec![Some(arguments[0].to_owned()); all]),
        text(vec![Some(arguments[1].to_owned()); all]),
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

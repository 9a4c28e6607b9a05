//! A subquery as a function of the outer values that it uses.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, RecordBatch, StructArray, new_null_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::{Exists, FieldMetadata, Placeholder};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Subquery,
};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt as _;

use super::{has_subqueries, optimize, outer_columns};
use crate::catalog::functions::several;
use crate::catalog::scope::Scope;

#[derive(Debug)]
pub(super) enum Kind {
    /// The value of the only row; NULL without one.
    Value(FieldRef),
    /// Whether there is a row.
    Exists { negated: bool },
    /// Whether the last argument is one of the values.
    In { negated: bool },
    /// All rows, as an array of records; one of NULLs without any, if there has to be one.
    Rows { fields: Fields, at_least_one: bool },
}

/// A subquery as a function of the outer values that it uses.
#[derive(Debug)]
pub(super) struct ByRow {
    pub(super) name: String,
    pub(super) plan: Arc<LogicalPlan>,
    pub(super) kind: Kind,
    pub(super) columns: Vec<Column>,
    pub(super) state: Arc<SessionState>,
    /// The plan as it is optimized once for all outer values, which it has as parameters. `None`: each its own way.
    pub(super) optimized: OnceLock<Option<LogicalPlan>>,
    pub(super) signature: Signature,
}

impl PartialEq for ByRow {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.columns == other.columns
    }
}

impl Eq for ByRow {}

impl Hash for ByRow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.columns.hash(state);
    }
}

impl ScalarUDFImpl for ByRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(match &self.kind {
            Kind::Value(field) => field.data_type().clone(),
            Kind::Exists { .. } | Kind::In { .. } => DataType::Boolean,
            Kind::Rows { fields, .. } => DataType::new_list(DataType::Struct(fields.clone()), true),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let data_type = self.return_type(&[])?;
        let field = datafusion::arrow::datatypes::Field::new(self.name(), data_type, true);
        let _ = args;
        Ok(Arc::new(match &self.kind {
            Kind::Value(inner) => field.with_metadata(inner.metadata().clone()),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let mut known: HashMap<Vec<ScalarValue>, Answer> = HashMap::new();
        let mut values = Vec::with_capacity(call.number_rows);
        let arrays = ColumnarValue::values_to_arrays(&call.args)?;
        for row in 0..call.number_rows {
            let mut outer: Vec<_> =
                arrays.iter().map(|array| ScalarValue::try_from_array(array, row)).collect::<DfResult<_>>()?;
            let operand = outer.split_off(self.columns.len());
            let answer = match known.entry(outer) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let answer = self.run(new.key(), operand.first())?;
                    new.insert(answer)
                }
            };
            values.push(answer.value(operand.first())?.cast_to(call.return_field.data_type())?);
        }
        let array: ArrayRef = if values.is_empty() {
            datafusion::arrow::array::new_empty_array(call.return_field.data_type())
        } else {
            ScalarValue::iter_to_array(values)?
        };
        Ok(ColumnarValue::Array(array))
    }
}

/// What a subquery says for one set of outer values.
enum Answer {
    Value(ScalarValue),
    /// Its values, as the type that they are compared in; whether NULL is one of them, and whether it is about NOT IN.
    Set {
        values: HashSet<ScalarValue>,
        compared: DataType,
        null: bool,
        negated: bool,
    },
}

impl Answer {
    fn value(&self, operand: Option<&ScalarValue>) -> DfResult<ScalarValue> {
        let (values, compared, null, negated) = match self {
            Self::Value(value) => return Ok(value.clone()),
            Self::Set { values, compared, null, negated } => (values, compared, null, negated),
        };
        let operand = operand.unwrap_or(&ScalarValue::Null);
        // Nothing is in no values, not even NULL.
        let is_in = if values.is_empty() && !null {
            Some(false)
        } else if operand.is_null() {
            None
        } else if values.contains(&operand.cast_to(compared)?) {
            Some(true)
        } else {
            (!null).then_some(false)
        };
        Ok(ScalarValue::Boolean(is_in.map(|is_in| is_in != *negated)))
    }
}

impl ByRow {
    /// What the subquery says for one set of outer values; `operand` is of the type of what is looked for in it.
    fn run(&self, outer: &[ScalarValue], operand: Option<&ScalarValue>) -> DfResult<Answer> {
        let guard = Arc::clone(&Scope::of(self.state.config_options())?.guard);
        guard.check()?;
        let plan = match self.optimized.get_or_init(|| self.with_parameters().ok().flatten()) {
            Some(plan) => self.with_values(plan, outer)?,
            None => optimize(&self.bind(outer)?, &self.state)?,
        };
        let batches = block_on(async {
            let plan = self.state.query_planner().create_physical_plan(&plan, self.state.as_ref()).await?;
            let task = TaskContext::from(self.state.as_ref()).with_runtime(guard.runtime());
            first_batches(execute_stream(plan, Arc::new(task))?, &self.kind).await
        })?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        Ok(Answer::Value(match &self.kind {
            Kind::Exists { negated } => ScalarValue::Boolean(Some((rows > 0) != *negated)),
            Kind::In { negated } => return set(&batches, operand.unwrap_or(&ScalarValue::Null), *negated),
            Kind::Rows { fields, at_least_one } => records(fields, &batches, *at_least_one && rows == 0)?,
            Kind::Value(field) => match batches.iter().find(|batch| batch.num_rows() > 0) {
                None => ScalarValue::try_from(field.data_type())?,
                Some(_) if rows > 1 => return Err(several().into()),
                Some(batch) => ScalarValue::try_from_array(batch.column(0), 0)?,
            },
        }))
    }

    /// The plan with a parameter for each outer value, optimized. `None`: there are subqueries within, which may need the
    /// values.
    fn with_parameters(&self) -> DfResult<Option<LogicalPlan>> {
        if has_subqueries(&self.plan)? {
            return Ok(None);
        }
        let plan = replace(self.plan.as_ref().clone(), &|expr| {
            let Expr::OuterReferenceColumn(field, column) = expr else { return Ok(None) };
            let index = self.columns.iter().position(|known| known == column);
            let parameter = |index| Placeholder::new_with_field(format!("${index}"), Some(Arc::clone(field)));
            Ok(index.map(|index| Expr::Placeholder(parameter(index))))
        })?;
        self.state.optimize(&plan).map(Some)
    }

    /// The optimized plan with the outer values in it.
    fn with_values(&self, plan: &LogicalPlan, outer: &[ScalarValue]) -> DfResult<LogicalPlan> {
        replace(plan.clone(), &|expr| {
            let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr else { return Ok(None) };
            let index = id.strip_prefix('$').and_then(|index| index.parse::<usize>().ok());
            let Some(value) = index.and_then(|index| outer.get(index)) else { return Ok(None) };
            let metadata = FieldMetadata::new_from_field(field);
            Ok(Some(Expr::Literal(value.cast_to(field.data_type())?, Some(metadata))))
        })
    }

    /// The plan with the outer values in it.
    fn bind(&self, outer: &[ScalarValue]) -> DfResult<LogicalPlan> {
        let value = |column: &Column| self.columns.iter().position(|known| known == column).map(|index| &outer[index]);
        let plan = self.plan.as_ref().clone().transform_up_with_subqueries(|plan| {
            let plan = match plan {
                LogicalPlan::Subquery(mut subquery) => {
                    forget(&mut subquery, &value);
                    LogicalPlan::Subquery(subquery)
                }
                // A LATERAL part that now depends on nothing outside.
                other => {
                    other
                        .map_children(|child| {
                            Ok(match child {
                                LogicalPlan::Subquery(subquery) if outer_columns(&subquery).is_empty() => {
                                    Transformed::yes(Arc::unwrap_or_clone(subquery.subquery))
                                }
                                other => Transformed::no(other),
                            })
                        })?
                        .data
                }
            };
            let preserver = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = expr.transform_up(|expr| {
                    Ok(match expr {
                        Expr::OuterReferenceColumn(field, column) => match value(&column) {
                            Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                        },
                        mut other => match subquery_mut(&mut other) {
                            Some(subquery) => {
                                forget(subquery, &value);
                                Transformed::yes(other)
                            }
                            None => Transformed::no(other),
                        },
                    })
                })?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })?;
        plan.data.recompute_schema()
    }
}

/// The plan with some of its expressions replaced, the columns of its nodes named as before.
fn replace(plan: LogicalPlan, with: &impl Fn(&Expr) -> DfResult<Option<Expr>>) -> DfResult<LogicalPlan> {
    let replaced = plan.transform_up(|plan| {
        let preserver = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let expr =
                expr.transform_up(|expr| Ok(with(&expr)?.map_or_else(|| Transformed::no(expr), Transformed::yes)))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        if plan.transformed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })?;
    Ok(replaced.data)
}

/// As many batches as it takes to know the value.
async fn first_batches(mut rows: SendableRecordBatchStream, kind: &Kind) -> DfResult<Vec<RecordBatch>> {
    let enough = match kind {
        Kind::Value(_) => 2,
        Kind::Exists { .. } => 1,
        Kind::In { .. } | Kind::Rows { .. } => usize::MAX,
    };
    let (mut batches, mut count) = (Vec::new(), 0);
    while count < enough
        && let Some(batch) = rows.next().await.transpose()?
    {
        count += batch.num_rows();
        batches.push(batch);
    }
    Ok(batches)
}

/// The values of the first column, for comparisons with something of the operand's type.
fn set(batches: &[RecordBatch], operand: &ScalarValue, negated: bool) -> DfResult<Answer> {
    let (mut values, mut compared, mut null) = (HashSet::new(), operand.data_type(), false);
    for column in batches.iter().map(|batch| batch.column(0)) {
        compared = comparison_coercion(&operand.data_type(), column.data_type()).unwrap_or(compared);
        let column = cast(column, &compared)?;
        for row in 0..column.len() {
            let value = ScalarValue::try_from_array(&column, row)?;
            null |= value.is_null();
            if !value.is_null() {
                values.insert(value);
            }
        }
    }
    Ok(Answer::Set { values, compared, null, negated })
}

/// Rows as an array of records.
fn records(fields: &Fields, batches: &[RecordBatch], one_of_nulls: bool) -> DfResult<ScalarValue> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        let column = match parts.is_empty() {
            true => new_null_array(field.data_type(), usize::from(one_of_nulls)),
            false if one_of_nulls => new_null_array(field.data_type(), 1),
            false => concat(&parts)?,
        };
        columns.push(cast(&column, field.data_type())?);
    }
    let rows = columns.first().map_or(0, |column| column.len());
    let items = StructArray::try_new_with_length(fields.clone(), columns, None, rows)?;
    let item = Arc::new(datafusion::arrow::datatypes::Field::new_list_field(items.data_type().clone(), true));
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths([rows]), Arc::new(items), None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}

fn subquery_mut(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => Some(subquery),
        Expr::InSubquery(within) => Some(&mut within.subquery),
        Expr::SetComparison(compared) => Some(&mut compared.subquery),
        _ => None,
    }
}

/// A subquery within no longer refers to what has a value now.
fn forget<'a>(subquery: &mut Subquery, value: &impl Fn(&Column) -> Option<&'a ScalarValue>) {
    subquery
        .outer_ref_columns
        .retain(|outer| !matches!(outer, Expr::OuterReferenceColumn(_, column) if value(column).is_some()));
}

/// Runs a future to its end on this thread. Scans read SQLite without waiting for anything, so nothing else has to run.
pub fn block_on<T>(future: impl Future<Output = Result<T, DataFusionError>>) -> DfResult<T> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    // Outside the budget of the task that it is part of: that one can't be refilled from here.
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

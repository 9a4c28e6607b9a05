//! Subqueries that DataFusion can't turn into joins: run once for every row, or rather for every different set of the
//! outer values that they use. LATERAL is one whose rows are wanted.
//!
//! PostgreSQL: any condition may tie a subquery to the outer row. DataFusion: equalities only, and not in every place.
//! Blocked by: its decorrelation rules. Remove when: a plan with a correlated `<>` runs without this module.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, RecordBatch, StructArray, new_null_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, ScalarValue, UnnestOptions};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, EmptyRelation, Expr, Join, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Subquery, TypeSignature, Volatility,
};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt as _;

use super::scope::Scope;

/// Optimizes a plan, whatever its subqueries are.
///
/// # Errors
/// What DataFusion says.
pub fn optimize(plan: &LogicalPlan, state: &SessionState) -> DfResult<LogicalPlan> {
    let optimized = state.optimize(plan);
    let stuck = match &optimized {
        Ok(optimized) => has_correlated(optimized)?,
        Err(_) => has_correlated(plan)?,
    };
    if !stuck {
        return optimized;
    }
    // What becomes a join by itself costs much less as one, also beside a subquery that doesn't.
    let some = by_row(plan.clone(), state, Which::Stuck).and_then(|plan| state.optimize(&plan));
    if let Ok(some) = some
        && !has_correlated(&some)?
    {
        return Ok(some);
    }
    let optimized = state.optimize(&by_row(plan.clone(), state, Which::All)?)?;
    // `x > ANY (SELECT ...)` is an EXISTS only now.
    if has_correlated(&optimized)? { state.optimize(&by_row(optimized, state, Which::All)?) } else { Ok(optimized) }
}

fn has_correlated(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                // An outer column that is left over: what referred to it was taken for a join and isn't one.
                found |= correlated(expr).is_some() || matches!(expr, Expr::OuterReferenceColumn(..));
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

fn correlated(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => (!outer_columns(subquery).is_empty()).then_some(subquery),
        // These two become joins in a filter alone.
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The columns of the outer query that a subquery uses. DataFusion's own list lacks those in UNNEST.
fn outer_columns(subquery: &Subquery) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |expr: &Expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && !columns.contains(column)
        {
            columns.push(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    };
    let _ = subquery.outer_ref_columns.iter().try_for_each(|expr| add(expr).map(|_| ()));
    let _ = subquery.subquery.apply(|plan| plan.apply_expressions(|expr| expr.apply(&mut add)));
    columns
}

/// Which subqueries are to be run row by row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those that DataFusion can't turn into a join even when they stand alone.
    Stuck,
}

/// Whether DataFusion makes a join of a subquery that stands in a query on `input`.
fn becomes_join(subquery: &Expr, input: &LogicalPlan, state: &SessionState) -> DfResult<bool> {
    if !matches!(subquery, Expr::ScalarSubquery(_)) {
        return Ok(false);
    }
    let row = EmptyRelation { produce_one_row: true, schema: Arc::clone(input.schema()) };
    let builder = LogicalPlanBuilder::from(LogicalPlan::EmptyRelation(row));
    let alone = builder.project([subquery.clone().alias("alone")])?.build()?;
    state.optimize(&alone).map_or(Ok(false), |plan| Ok(!has_correlated(&plan)?))
}

/// Replaces the correlated subqueries of the outermost query by function calls.
fn by_row(plan: LogicalPlan, state: &SessionState, which: Which) -> DfResult<LogicalPlan> {
    let state = Arc::new(state.clone());
    let plan = plan.transform_up(|plan| {
        let plan = match plan {
            LogicalPlan::Join(join) => lateral(join, &state)?,
            other => Transformed::no(other),
        };
        plan.transform_data(|plan| {
            let preserver = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
            let input = match plan.inputs()[..] {
                [input] if which == Which::Stuck => Some(input.clone()),
                _ => None,
            };
            plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = expr.transform_down(|expr| {
                    if let Some(input) = &input
                        && correlated(&expr).is_some()
                        && becomes_join(&expr, input, &state)?
                    {
                        return Ok(Transformed::no(expr));
                    }
                    let call = correlated(&expr).map(|subquery| call(&expr, subquery, &state));
                    Ok(call.map_or_else(|| Transformed::no(expr), Transformed::yes))
                })?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })
    })?;
    plan.data.recompute_schema()
}

/// The column that holds the rows of a LATERAL part.
const ROWS: &str = "lateral\u{1}";

/// A join with a LATERAL part: the part's rows as an array, unnested.
fn lateral(join: Join, state: &Arc<SessionState>) -> DfResult<Transformed<LogicalPlan>> {
    let is_left = join.join_type == JoinType::Left;
    let always = join.filter.as_ref().is_none_or(|on| matches!(on, Expr::Literal(ScalarValue::Boolean(Some(true)), _)));
    let Some(subquery) = lateral_part(&join.right) else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let columns = outer_columns(subquery);
    let known = columns.iter().all(|column| join.left.schema().has_column(column));
    let possible = join.join_type == JoinType::Inner || (is_left && always && join.on.is_empty());
    if columns.is_empty() || !known || !possible {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let fields = subquery.subquery.schema().fields().iter().enumerate().map(|(index, field)| {
        let unnamed = datafusion::arrow::datatypes::Field::new(format!("f{index}"), field.data_type().clone(), true);
        unnamed.with_metadata(field.metadata().clone())
    });
    let kind = Kind::Rows { fields: fields.collect(), at_least_one: is_left };
    let rows = by_row_call(subquery, kind, columns, Vec::new(), state).alias(ROWS);
    let left: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let right = join.right.schema().iter().enumerate().map(|(index, (relation, field))| {
        let part = get_field(Expr::Column(Column::from_name(ROWS)), format!("f{index}"));
        part.alias_qualified(relation.cloned(), field.name())
    });
    let all: Vec<Expr> = left.iter().cloned().chain(right).collect();
    let options = UnnestOptions::new().with_preserve_nulls(false);
    let mut builder = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left))
        .project(left.into_iter().chain([rows]))?
        .unnest_columns_with_options(vec![Column::from_name(ROWS)], options)?
        .project(all)?;
    if !is_left {
        let equal = join.on.into_iter().map(|(left, right)| left.eq(right));
        if let Some(condition) = equal.chain(join.filter).reduce(Expr::and) {
            builder = builder.filter(condition)?;
        }
    }
    Ok(Transformed::yes(builder.build()?))
}

fn lateral_part(plan: &LogicalPlan) -> Option<&Subquery> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral_part(&alias.input),
        _ => None,
    }
}

fn call(expr: &Expr, subquery: &Subquery, state: &Arc<SessionState>) -> Expr {
    let (kind, operand) = match expr {
        Expr::Exists(Exists { negated, .. }) => (Kind::Exists { negated: *negated }, None),
        Expr::InSubquery(within) => (Kind::In { negated: within.negated }, Some(within.expr.as_ref().clone())),
        _ => (Kind::Value(Arc::clone(subquery.subquery.schema().field(0))), None),
    };
    by_row_call(subquery, kind, outer_columns(subquery), operand.into_iter().collect(), state)
}

fn by_row_call(
    subquery: &Subquery,
    kind: Kind,
    columns: Vec<Column>,
    operands: Vec<Expr>,
    state: &Arc<SessionState>,
) -> Expr {
    let args = columns.iter().cloned().map(Expr::Column).chain(operands).collect();
    // DataFusion tells expressions from each other by their names too.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let function = ByRow {
        name: format!("subquery_{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        plan: Arc::clone(&subquery.subquery),
        kind,
        columns,
        state: Arc::clone(state),
        signature: Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable),
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), args))
}

#[derive(Debug)]
enum Kind {
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
struct ByRow {
    name: String,
    plan: Arc<LogicalPlan>,
    kind: Kind,
    columns: Vec<Column>,
    state: Arc<SessionState>,
    signature: Signature,
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
        let mut known: HashMap<Vec<ScalarValue>, ScalarValue> = HashMap::new();
        let mut values = Vec::with_capacity(call.number_rows);
        let arrays = ColumnarValue::values_to_arrays(&call.args)?;
        for row in 0..call.number_rows {
            let outer: Vec<_> =
                arrays.iter().map(|array| ScalarValue::try_from_array(array, row)).collect::<DfResult<_>>()?;
            let value = match known.get(&outer) {
                Some(value) => value.clone(),
                None => {
                    let value = self.run(&outer)?.cast_to(call.return_field.data_type())?;
                    known.insert(outer, value.clone());
                    value
                }
            };
            values.push(value);
        }
        let array: ArrayRef = if values.is_empty() {
            datafusion::arrow::array::new_empty_array(call.return_field.data_type())
        } else {
            ScalarValue::iter_to_array(values)?
        };
        Ok(ColumnarValue::Array(array))
    }
}

impl ByRow {
    /// The subquery's value for one set of outer values.
    fn run(&self, outer: &[ScalarValue]) -> DfResult<ScalarValue> {
        let guard = Arc::clone(&Scope::of(self.state.config_options())?.guard);
        guard.check()?;
        let plan = optimize(&self.bind(outer)?, &self.state)?;
        let batches = block_on(async {
            let plan = self.state.query_planner().create_physical_plan(&plan, self.state.as_ref()).await?;
            let task = TaskContext::from(self.state.as_ref()).with_runtime(guard.runtime());
            first_batches(execute_stream(plan, Arc::new(task))?, &self.kind).await
        })?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        match &self.kind {
            Kind::Exists { negated } => Ok(ScalarValue::Boolean(Some((rows > 0) != *negated))),
            Kind::In { negated } => {
                let is_in = is_in(outer.last().unwrap_or(&ScalarValue::Null), &batches)?;
                Ok(ScalarValue::Boolean(is_in.map(|is_in| is_in != *negated)))
            }
            Kind::Rows { fields, at_least_one } => records(fields, &batches, *at_least_one && rows == 0),
            Kind::Value(field) => match batches.iter().find(|batch| batch.num_rows() > 0) {
                None => ScalarValue::try_from(field.data_type()),
                Some(_) if rows > 1 => Err(super::functions::several().into()),
                Some(batch) => ScalarValue::try_from_array(batch.column(0), 0),
            },
        }
    }

    /// The plan with the outer values in it.
    fn bind(&self, outer: &[ScalarValue]) -> DfResult<LogicalPlan> {
        let value = |column: &Column| self.columns.iter().position(|known| known == column).map(|index| &outer[index]);
        let plan = self.plan.as_ref().clone().transform_up_with_subqueries(|plan| {
            // A LATERAL part, which now depends on nothing outside.
            let plan = match plan {
                LogicalPlan::Subquery(mut subquery) => {
                    forget(&mut subquery, &value);
                    if outer_columns(&subquery).is_empty() {
                        return Ok(Transformed::yes(Arc::unwrap_or_clone(subquery.subquery)));
                    }
                    LogicalPlan::Subquery(subquery)
                }
                other => other,
            };
            let preserver = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let expr = expr.transform_up(|expr| {
                    Ok(match expr {
                        Expr::OuterReferenceColumn(field, column) => match value(&column) {
                            Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                        },
                        Expr::ScalarSubquery(mut subquery) => {
                            forget(&mut subquery, &value);
                            Transformed::yes(Expr::ScalarSubquery(subquery))
                        }
                        Expr::Exists(mut exists) => {
                            forget(&mut exists.subquery, &value);
                            Transformed::yes(Expr::Exists(exists))
                        }
                        Expr::InSubquery(mut within) => {
                            forget(&mut within.subquery, &value);
                            Transformed::yes(Expr::InSubquery(within))
                        }
                        other => Transformed::no(other),
                    })
                })?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })?;
        plan.data.recompute_schema()
    }
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

/// Whether a value is one of the first column's; NULL where only a NULL could be it.
fn is_in(value: &ScalarValue, batches: &[RecordBatch]) -> DfResult<Option<bool>> {
    let mut unknown = false;
    for batch in batches {
        let column = batch.column(0);
        for row in 0..column.len() {
            let item = ScalarValue::try_from_array(column, row)?;
            if item.is_null() || value.is_null() {
                unknown = true;
            } else if item == *value || value.cast_to(&item.data_type()).is_ok_and(|value| value == item) {
                return Ok(Some(true));
            }
        }
    }
    Ok((!unknown).then_some(false))
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

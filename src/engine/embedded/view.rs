//! Views: a stateless SELECT, compiled once and evaluated on one batch of a source's rows at a time.
//!
//! DataFusion plans the query; what remains of the plan is filters and projections over a source, one such pipeline for
//! every SELECT of a UNION ALL. Anything that would need to remember rows, or that would give another answer when a row
//! is read again after a restart, is refused with its name.
//!
//! Expressions follow DataFusion where it differs from PostgreSQL, which the README lists. Overflow of an integer is an
//! error, as in PostgreSQL.

mod planner;
mod query;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, BooleanBuilder, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{
    CastOptions, cast_with_options, concat_batches, filter_record_batch, prep_null_mask_filter,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::error::Result as PlanResult;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TryCast, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::{Query, Statement};

use super::columns;
use crate::error::{Error, Result};
use crate::wire::errors::from_datafusion;
use planner::{Sources, duplicate_column, evaluation_error, planning_error};
use query::{internal_name, name_columns, refuse};

/// Names of the hidden columns that a view's table has beside the user's.
const HIDDEN: [&str; 3] = ["_source_id", "_split", "_offset"];

/// A view's query, ready to be evaluated.
#[derive(Debug, Clone)]
pub struct ViewPlan {
    /// The view's columns: names and PostgreSQL types (short names), in order.
    pub columns: Vec<(String, String)>,
    /// One for every SELECT from a source, in the query's order. A source that is read twice has two.
    pub branches: Vec<Branch>,
}

/// One SELECT from a source.
#[derive(Debug, Clone)]
pub struct Branch {
    /// The source.
    pub source: String,
    /// The columns of the source.
    input: SchemaRef,
    schema: SchemaRef,
    steps: Vec<Step>,
}

/// What became of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// The rows of the view, in the order of their input rows.
    pub rows: RecordBatch,
    /// Which input rows came out, one bit each; `None`: all of them.
    pub kept: Option<BooleanArray>,
    /// Input rows that can't be evaluated: their index and why. They don't come out.
    pub failed: Vec<(usize, String)>,
}

#[derive(Debug, Clone)]
enum Step {
    Filter(Arc<dyn PhysicalExpr>),
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

impl ViewPlan {
    /// Refuses a query that has no meaning for any row, which shows without one: an operator that nothing computes, a
    /// constant that can't be.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`], with what the evaluation says.
    pub fn refuse_hopeless(&self) -> Result<()> {
        self.branches.iter().try_for_each(|branch| {
            let none = RecordBatch::new_empty(Arc::clone(&branch.input));
            match branch.run(&none) {
                Ok(_) => Ok(()),
                Err(error @ (DataFusionError::ArrowError(..) | DataFusionError::Execution(_))) => {
                    Err(from_datafusion(error))
                }
                Err(error) => Err(planning_error(error)),
            }
        })
    }
}

impl Branch {
    /// The columns of the view.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Evaluates rows of the source. Total: a row that fails is in [`Evaluated::failed`], and the others come out.
    pub fn evaluate(&self, rows: &RecordBatch) -> Evaluated {
        match self.run(rows) {
            Ok((rows, kept)) => Evaluated { rows, kept, failed: Vec::new() },
            Err(_) => self.evaluate_around_failures(rows),
        }
    }

    /// Halves the batch until the rows that fail are alone.
    fn evaluate_around_failures(&self, rows: &RecordBatch) -> Evaluated {
        let mut parts = Vec::new();
        let mut kept = BooleanBuilder::with_capacity(rows.num_rows());
        let mut failed = Vec::new();
        let mut todo = vec![(0, rows.num_rows())];
        while let Some((start, length)) = todo.pop() {
            match self.run(&rows.slice(start, length)) {
                Ok((part, mask)) => {
                    match mask {
                        Some(mask) => kept.append_array(&mask),
                        None => kept.append_n(length, true),
                    }
                    parts.push(part);
                }
                // An expression of constants can fail without any row.
                Err(_) if length == 0 => {}
                Err(error) if length == 1 => {
                    kept.append_value(false);
                    failed.push((start, evaluation_error(error)));
                }
                Err(_) => {
                    let half = length / 2;
                    todo.extend([(start + half, length - half), (start, half)]);
                }
            }
        }
        let rows = concat_batches(&self.schema, &parts).expect("all parts have the view's columns");
        Evaluated { rows, kept: Some(kept.finish()), failed }
    }

    fn run(&self, rows: &RecordBatch) -> PlanResult<(RecordBatch, Option<BooleanArray>)> {
        let mut batch = rows.clone();
        let mut kept: Option<BooleanArray> = None;
        for step in &self.steps {
            match step {
                Step::Filter(predicate) => {
                    let mask = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
                    let mask = mask.as_boolean();
                    let mask = if mask.null_count() == 0 { mask.clone() } else { prep_null_mask_filter(mask) };
                    batch = filter_record_batch(&batch, &mask)?;
                    kept = Some(match kept {
                        None => mask,
                        Some(before) => narrow(&before, &mask),
                    });
                }
                Step::Project(exprs, schema) => {
                    let arrays = exprs.iter().map(|expr| expr.evaluate(&batch)?.into_array(batch.num_rows()));
                    let arrays = arrays.collect::<PlanResult<_>>()?;
                    batch = with_columns(schema, arrays, batch.num_rows())?;
                }
            }
        }
        let strictly = CastOptions { safe: false, ..CastOptions::default() };
        let arrays = batch.columns().iter().zip(self.schema.fields()).map(|(array, field)| {
            if array.data_type() == field.data_type() {
                Ok(Arc::clone(array))
            } else {
                cast_with_options(array, field.data_type(), &strictly)
            }
        });
        let arrays = arrays.collect::<Result<_, _>>()?;
        Ok((with_columns(&self.schema, arrays, batch.num_rows())?, kept))
    }
}

fn with_columns(
    schema: &SchemaRef,
    arrays: Vec<datafusion::arrow::array::ArrayRef>,
    rows: usize,
) -> PlanResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

/// The rows of `before` that `mask`, over those rows alone, keeps too.
fn narrow(before: &BooleanArray, mask: &BooleanArray) -> BooleanArray {
    let mut mask = mask.values().iter();
    before.values().iter().map(|kept| Some(kept && mask.next().unwrap_or(false))).collect()
}

/// Compiles a view's query over the sources that there are, by their names, with their columns.
///
/// # Errors
/// [`Error::UnsupportedView`] for what can't be kept up row by row, [`Error::UndefinedRelation`],
/// [`Error::UndefinedColumn`], [`Error::UndefinedFunction`], [`Error::Semantics`] and [`Error::InvalidQuery`] for a query
/// that has no meaning.
pub fn plan(query: &Query, sources: &BTreeMap<String, SchemaRef>) -> Result<ViewPlan> {
    let state = session_state();
    let named = name_columns(query, &state)?;
    let sources = Sources { state: &state, schemas: sources };
    let plan = SqlToRel::new_with_options(&sources, (&state.config_options().sql_parser).into())
        .sql_statement_to_plan(Statement::Query(Box::new(named.query)))
        .and_then(as_postgresql)
        .and_then(|plan| state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}))
        .map_err(planning_error)?;
    refuse_unstable(&plan)?;

    let pipelines = compile(&plan, &state)?;
    let mut fields = Vec::new();
    for (index, field) in plan.schema().fields().iter().enumerate() {
        let place = (0..named.names.len()).find(|place| internal_name(*place) == *field.name());
        let name = place.map_or_else(|| field.name().clone(), |place| named.names[place].clone());
        fields.push(output_field(name, field, pipelines.iter().all(|pipeline| pipeline.is_json[index]))?);
    }
    check_names(&fields)?;

    let schema = Arc::new(Schema::new(fields));
    let columns = schema
        .fields()
        .iter()
        .map(|field| (field.name().clone(), columns::pg_type(field).unwrap_or("text").to_owned()));
    let columns = columns.collect();
    let branches = pipelines.into_iter().map(|pipeline| Branch {
        source: pipeline.source,
        input: pipeline.input,
        schema: Arc::clone(&schema),
        steps: pipeline.steps,
    });
    Ok(ViewPlan { columns, branches: branches.collect() })
}

fn session_state() -> SessionState {
    let mut config = SessionConfig::new().with_default_catalog_and_schema("dev", "public");
    let options = config.options_mut();
    options.execution.time_zone = Some(columns::TIME_ZONE.into());
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.parse_float_as_decimal = true;
    SessionStateBuilder::new().with_default_features().with_config(config).build()
}

/// Gives literals and casts PostgreSQL's types: a whole number is an int4 if it fits, and timestamps are in microseconds
/// (DataFusion's nanoseconds end in the year 2262).
fn as_postgresql(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let plan = plan.transform_up(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(|expr| Ok(retype(expr))))?;
        node.map_data(LogicalPlan::recompute_schema)
    });
    plan.data()
}

fn retype(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), metadata) => match i32::try_from(number) {
            Ok(number) => Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(number)), metadata)),
            Err(_) => Transformed::no(Expr::Literal(ScalarValue::Int64(Some(number)), metadata)),
        },
        // 1e15 is 1 of scale -15 to DataFusion, whose arithmetic overflows on that.
        Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale @ ..0), metadata) => {
            Transformed::yes(Expr::Literal(whole(digits, scale), metadata))
        }
        Expr::Cast(cast) => match micros(cast.field.data_type()) {
            Some(micros) => Transformed::yes(Expr::Cast(Cast::new(cast.expr, micros))),
            None => Transformed::no(Expr::Cast(cast)),
        },
        Expr::TryCast(cast) => match micros(cast.field.data_type()) {
            Some(micros) => Transformed::yes(Expr::TryCast(TryCast::new(cast.expr, micros))),
            None => Transformed::no(Expr::TryCast(cast)),
        },
        other => Transformed::no(other),
    }
}

/// A number of negative scale: without its scale, or as a float where that is too long.
fn whole(digits: i128, scale: i8) -> ScalarValue {
    let places = u32::from(scale.unsigned_abs());
    let number = 10_i128.checked_pow(places).and_then(|power| digits.checked_mul(power));
    match number.filter(|number| number.unsigned_abs() < 10_u128.pow(38)) {
        Some(number) => {
            let precision = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
            ScalarValue::Decimal128(Some(number), u8::try_from(precision).unwrap_or(38), 0)
        }
        // What a float holds of it: views have no number that is longer.
        #[expect(clippy::cast_precision_loss, reason = "a float has 15 digits")]
        None => ScalarValue::Float64(Some(digits as f64 * 10_f64.powi(i32::from(-i16::from(scale))))),
    }
}

fn micros(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    }
}

/// A row that is read again after a restart must give the same result.
fn refuse_unstable(plan: &LogicalPlan) -> Result<()> {
    let mut unstable = None;
    let visited = plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| match expr {
                Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                    unstable = Some((call.func.name().to_owned(), call.func.signature().volatility));
                    Ok(TreeNodeRecursion::Stop)
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    });
    visited.map_err(planning_error)?;
    match unstable {
        None => Ok(()),
        Some((name, volatility)) => {
            let why = if volatility == Volatility::Volatile { "every call" } else { "every statement" };
            Err(refuse(
                format!("function {name}() is not supported in a materialized view: its result differs with {why}"),
                "A row that is read again after a restart must give the same result. Use a column of the source instead.",
            ))
        }
    }
}

/// Filters and projections over one source.
struct Pipeline {
    source: String,
    input: SchemaRef,
    steps: Vec<Step>,
    /// Which columns hold jsonb, that the planner knows as text.
    is_json: Vec<bool>,
}

fn compile(plan: &LogicalPlan, state: &SessionState) -> Result<Vec<Pipeline>> {
    match plan {
        LogicalPlan::TableScan(scan) => Ok(vec![Pipeline {
            source: scan.table_name.table().to_owned(),
            input: scan.source.schema(),
            steps: Vec::new(),
            is_json: scan
                .source
                .schema()
                .fields()
                .iter()
                .map(|field| columns::pg_type(field) == Some("jsonb"))
                .collect(),
        }]),
        LogicalPlan::SubqueryAlias(alias) => compile(&alias.input, state),
        LogicalPlan::Filter(filter) => {
            let predicate = physical(&filter.predicate, filter.input.schema(), state)?;
            let mut pipelines = compile(&filter.input, state)?;
            for pipeline in &mut pipelines {
                pipeline.steps.push(Step::Filter(Arc::clone(&predicate)));
            }
            Ok(pipelines)
        }
        LogicalPlan::Projection(projection) => {
            let input = projection.input.schema();
            let exprs = projection.expr.iter().map(|expr| physical(expr, input, state)).collect::<Result<Vec<_>>>()?;
            let fields = exprs.iter().enumerate().map(|(index, expr)| {
                let data_type = expr.data_type(input.as_arrow()).map_err(planning_error)?;
                Ok(Field::new(format!("c{index}"), data_type, true))
            });
            let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?));
            let mut pipelines = compile(&projection.input, state)?;
            for pipeline in &mut pipelines {
                let json = projection.expr.iter().map(|expr| match expr.clone().unalias_nested().data {
                    Expr::Column(column) => input.index_of_column(&column).is_ok_and(|index| pipeline.is_json[index]),
                    _ => false,
                });
                pipeline.is_json = json.collect();
                pipeline.steps.push(Step::Project(exprs.clone(), Arc::clone(&schema)));
            }
            Ok(pipelines)
        }
        LogicalPlan::Union(union) => {
            let pipelines = union.inputs.iter().map(|input| compile(input, state)).collect::<Result<Vec<_>>>()?;
            Ok(pipelines.into_iter().flatten().collect())
        }
        other => Err(refuse(
            format!("{} is not supported in a materialized view", other.display()),
            "A materialized view is made of SELECT, WHERE and UNION ALL over sources.",
        )),
    }
}

fn physical(expr: &Expr, schema: &DFSchema, state: &SessionState) -> Result<Arc<dyn PhysicalExpr>> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .build();
    ExprSimplifier::new(context)
        // Some functions exist only as what they are simplified to.
        .simplify(expr.clone())
        .and_then(|expr| state.create_physical_expr(expr, schema))
        .and_then(failing_on_overflow)
        .map_err(planning_error)
}

fn failing_on_overflow(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let expr = expr.transform_up(|expr| {
        Ok(match expr.downcast_ref::<BinaryExpr>() {
            Some(binary) => Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true)) as _),
            None => Transformed::no(expr),
        })
    });
    expr.data()
}

fn output_field(name: String, planned: &Field, is_json: bool) -> Result<Field> {
    let bare = Field::new("", planned.data_type().clone(), true);
    let pg = if is_json { Some("jsonb") } else { columns::pg_type(&bare) };
    pg.and_then(|pg| columns::field(&name, pg)).ok_or_else(|| {
        refuse(
            format!("column \"{name}\" has a type that a materialized view can't keep: {}", planned.data_type()),
            "Cast it to one of the types that a source's column can have, such as text.",
        )
    })
}

fn check_names(fields: &[Field]) -> Result<()> {
    for (index, field) in fields.iter().enumerate() {
        if HIDDEN.contains(&field.name().as_str()) {
            return Err(Error::Semantics {
                sqlstate: "42701",
                message: format!("column name \"{}\" conflicts with a system column name", field.name()),
            });
        }
        if fields[..index].iter().any(|earlier| earlier.name() == field.name()) {
            return Err(duplicate_column(field.name()));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "view/tests.rs"]
mod tests;

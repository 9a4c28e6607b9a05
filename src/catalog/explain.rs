//! EXPLAIN of a query, in the form that PostgreSQL's tools read: a column `QUERY PLAN`, a tree of nodes, as text or JSON.
//!
//! Costs and numbers of rows aren't estimated, so that they are all zero. With ANALYZE the query runs, and the topmost
//! node tells how long that took and how many rows came.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, JoinType};
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::sqlparser::ast::{self, Expr as SqlExpr, UtilityOption};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt as _;
use serde_json::{Map, Value as Json, json};

use super::scope::Scope;
use super::{functions, output_name, subquery, types};
use crate::wire::errors::in_sql;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    analyze: bool,
    json: bool,
    costs: bool,
    timing: bool,
    summary: bool,
}

impl Options {
    /// As the statement has them.
    pub fn new(analyze: bool, format: Option<&ast::AnalyzeFormatKind>, options: Option<&[UtilityOption]>) -> Self {
        let json = format.is_some_and(|format| format.to_string().to_uppercase().contains("JSON"));
        let set = |name: &str, default: bool| {
            let option = options.into_iter().flatten().find(|option| option.name.value.eq_ignore_ascii_case(name));
            option.map_or(
                default,
                |option| !matches!(&option.arg, Some(SqlExpr::Value(off)) if off.to_string() == "false"),
            )
        };
        Self { analyze, json, costs: set("COSTS", true), timing: set("TIMING", true), summary: set("SUMMARY", analyze) }
    }
}

/// The plan of the EXPLAIN of a plan.
///
/// # Errors
/// What DataFusion says.
pub fn explain(plan: LogicalPlan, options: Options, state: &SessionState) -> DfResult<LogicalPlan> {
    const LINES: &str = "lines";
    let explained = Explained {
        plan: Arc::new(plan),
        options,
        state: Arc::new(state.clone()),
        signature: Signature::nullary(Volatility::Volatile),
    };
    let lines = ScalarUDF::new_from_impl(explained).call(Vec::new()).alias(LINES);
    let line = Expr::Column(Column::from_name(LINES));
    let line = match functions::find("as_json").filter(|_| options.json) {
        Some(json) => json.call(vec![line]),
        None => line,
    };
    LogicalPlanBuilder::empty(true)
        .project([lines])?
        .unnest_column(Column::from_name(LINES))?
        .project([line.alias("QUERY PLAN")])?
        .build()
}

/// The lines, as a function that makes them when the statement runs.
#[derive(Debug)]
struct Explained {
    plan: Arc<LogicalPlan>,
    options: Options,
    state: Arc<SessionState>,
    signature: Signature,
}

impl PartialEq for Explained {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan)
    }
}

impl Eq for Explained {}

impl Hash for Explained {
    fn hash<H: Hasher>(&self, state: &mut H) {
        "explain".hash(state);
    }
}

impl ScalarUDFImpl for Explained {
    fn name(&self) -> &'static str {
        "explain"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::new_list(DataType::Utf8, true))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let lines = self.lines()?;
        let mut list = ListBuilder::new(StringBuilder::new());
        list.append_value(lines.into_iter().map(Some));
        let array: ArrayRef = Arc::new(list.finish());
        Ok(ColumnarValue::Array(array))
    }
}

impl Explained {
    fn lines(&self) -> DfResult<Vec<String>> {
        let start = Instant::now();
        let optimized = subquery::optimize(&self.plan, &self.state)?;
        let planning = start.elapsed().as_secs_f64() * 1000.0;
        let mut root = Node::of(&optimized);
        let mut execution = None;
        if self.options.analyze {
            let start = Instant::now();
            let rows = self.run(&optimized)?;
            let millis = start.elapsed().as_secs_f64() * 1000.0;
            root.actual = Some((millis, rows));
            execution = Some(millis);
        }
        if self.options.json {
            let mut plan = Map::new();
            plan.insert("Plan".into(), root.json(self.options));
            if self.options.summary {
                plan.insert("Planning Time".into(), json!(round(planning)));
            }
            if let Some(execution) = execution.filter(|_| self.options.summary) {
                plan.insert("Execution Time".into(), json!(round(execution)));
            }
            let text = serde_json::to_string_pretty(&Json::Array(vec![Json::Object(plan)])).unwrap_or_default();
            return Ok(vec![text]);
        }
        let mut lines = Vec::new();
        root.text(&mut lines, 0, self.options);
        if self.options.summary {
            lines.push(format!("Planning Time: {planning:.3} ms"));
            lines.extend(execution.map(|millis| format!("Execution Time: {millis:.3} ms")));
        }
        Ok(lines)
    }

    /// Runs the plan to its end; gives the number of its rows.
    fn run(&self, plan: &LogicalPlan) -> DfResult<usize> {
        let guard = Arc::clone(&Scope::of(self.state.config_options())?.guard);
        subquery::block_on(async {
            let plan = self.state.query_planner().create_physical_plan(plan, self.state.as_ref()).await?;
            let task = TaskContext::from(self.state.as_ref()).with_runtime(guard.runtime());
            let mut stream = execute_stream(plan, Arc::new(task))?;
            let mut rows = 0;
            while let Some(batch) = stream.next().await.transpose()? {
                guard.check()?;
                rows += batch.num_rows();
            }
            Ok(rows)
        })
    }
}

fn round(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

/// A node of PostgreSQL's plan.
#[derive(Debug)]
struct Node {
    kind: &'static str,
    relation: Option<String>,
    /// The name that the relation goes by.
    alias: Option<String>,
    /// More of it: `Filter`, `Sort Key`, ...
    details: Vec<(&'static str, Json)>,
    width: usize,
    children: Vec<Node>,
    /// Milliseconds and rows.
    actual: Option<(f64, usize)>,
}

impl Node {
    fn of(plan: &LogicalPlan) -> Self {
        let node = |kind: &'static str, inputs: Vec<&LogicalPlan>| Self {
            kind,
            relation: None,
            alias: None,
            details: Vec::new(),
            width: width(plan),
            children: inputs.into_iter().map(Self::of).collect(),
            actual: None,
        };
        match plan {
            // What only renames or computes has no node.
            LogicalPlan::Projection(projection) => Self { width: width(plan), ..Self::of(&projection.input) },
            LogicalPlan::SubqueryAlias(named) => {
                let inner = Self::of(&named.input);
                let name = Some(named.alias.table().to_owned()).filter(|name| Some(name) != inner.relation.as_ref());
                Self { alias: inner.alias.clone().or(name), ..inner }
            }
            LogicalPlan::Subquery(subquery) => Self::of(&subquery.subquery),
            LogicalPlan::Repartition(inner) => Self::of(&inner.input),
            LogicalPlan::Filter(filter) => {
                Self::of(&filter.input).with("Filter", Json::String(shown(&filter.predicate)))
            }
            LogicalPlan::TableScan(scan) => {
                let mut scanned = node("Seq Scan", Vec::new());
                scanned.relation = Some(scan.table_name.table().to_owned());
                match scan.filters.iter().map(shown).collect::<Vec<_>>() {
                    filters if filters.is_empty() => scanned,
                    filters => scanned.with("Filter", Json::String(filters.join(" AND "))),
                }
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                node("Aggregate", vec![&aggregate.input]).with("Strategy", "Plain".into())
            }
            LogicalPlan::Aggregate(aggregate) => node("HashAggregate", vec![&aggregate.input])
                .with("Group Key", aggregate.group_expr.iter().map(shown).collect()),
            LogicalPlan::Sort(sort) => node("Sort", vec![&sort.input]).with(
                "Sort Key",
                sort.expr.iter().map(|by| shown(&by.expr) + if by.asc { "" } else { " DESC" }).collect(),
            ),
            LogicalPlan::Limit(limit) => node("Limit", vec![&limit.input]),
            LogicalPlan::Join(join) => {
                let kind = if join.on.is_empty() { "Nested Loop" } else { "Hash Join" };
                let on = join.on.iter().map(|(left, right)| format!("({} = {})", shown(left), shown(right)));
                let on: Vec<String> = on.chain(join.filter.iter().map(shown)).collect();
                let joined =
                    node(kind, vec![&join.left, &join.right]).with("Join Type", join_type(join.join_type).into());
                if on.is_empty() { joined } else { joined.with("Join Filter", Json::String(on.join(" AND "))) }
            }
            LogicalPlan::Union(union) => node("Append", union.inputs.iter().map(AsRef::as_ref).collect()),
            LogicalPlan::Distinct(_) => node("Unique", plan.inputs()),
            LogicalPlan::Window(_) => node("WindowAgg", plan.inputs()),
            LogicalPlan::Unnest(_) => node("ProjectSet", plan.inputs()),
            LogicalPlan::RecursiveQuery(_) => node("Recursive Union", plan.inputs()),
            LogicalPlan::Values(_) => node("Values Scan", Vec::new()),
            _ => node("Result", plan.inputs()),
        }
    }

    fn with(mut self, name: &'static str, value: Json) -> Self {
        self.details.push((name, value));
        self
    }

    fn text(&self, lines: &mut Vec<String>, depth: usize, options: Options) {
        let indent = if depth == 0 { String::new() } else { format!("{}->  ", " ".repeat(depth * 6 - 4)) };
        let mut line = format!("{indent}{}", self.kind);
        if let Some((_, Json::String(join))) = self.details.iter().find(|(name, _)| *name == "Join Type")
            && join != "Inner"
        {
            line = line.replace("Join", &format!("{join} Join"));
        }
        if let Some(relation) = &self.relation {
            let alias = self.alias.as_ref().map(|alias| format!(" {alias}")).unwrap_or_default();
            let _ = write!(line, " on {relation}{alias}");
        }
        if options.costs {
            let _ = write!(line, "  (cost=0.00..0.00 rows=0 width={})", self.width);
        }
        if let Some((millis, rows)) = self.actual {
            let time = if options.timing { format!("time=0.000..{millis:.3} ") } else { String::new() };
            let _ = write!(line, " (actual {time}rows={rows} loops=1)");
        }
        lines.push(line);
        for (name, value) in self.details.iter().filter(|(name, _)| !matches!(*name, "Join Type" | "Strategy")) {
            let value = match value {
                Json::Array(items) => items.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", "),
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            lines.push(format!("{}{name}: {value}", " ".repeat(depth * 6 + 2)));
        }
        for child in &self.children {
            child.text(lines, depth + 1, options);
        }
    }

    fn json(&self, options: Options) -> Json {
        let mut map = Map::new();
        // In JSON both kinds of aggregates are one.
        let kind = if self.kind == "HashAggregate" { "Aggregate" } else { self.kind };
        map.insert("Node Type".into(), kind.into());
        if self.kind == "HashAggregate" {
            map.insert("Strategy".into(), "Hashed".into());
        }
        map.insert("Parallel Aware".into(), false.into());
        map.insert("Async Capable".into(), false.into());
        if let Some(relation) = &self.relation {
            map.insert("Relation Name".into(), relation.clone().into());
            map.insert("Alias".into(), self.alias.as_ref().unwrap_or(relation).clone().into());
        }
        if options.costs {
            map.insert("Startup Cost".into(), json!(0.0));
            map.insert("Total Cost".into(), json!(0.0));
            map.insert("Plan Rows".into(), json!(0));
            map.insert("Plan Width".into(), json!(self.width));
        }
        if let Some((millis, rows)) = self.actual {
            if options.timing {
                map.insert("Actual Startup Time".into(), json!(0.0));
                map.insert("Actual Total Time".into(), json!(round(millis)));
            }
            map.insert("Actual Rows".into(), json!(rows));
            map.insert("Actual Loops".into(), json!(1));
        }
        map.extend(self.details.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        if !self.children.is_empty() {
            map.insert("Plans".into(), self.children.iter().map(|child| child.json(options)).collect());
        }
        Json::Object(map)
    }
}

fn join_type(join: JoinType) -> &'static str {
    match join {
        JoinType::Left | JoinType::LeftMark => "Left",
        JoinType::Right | JoinType::RightMark => "Right",
        JoinType::Full => "Full",
        JoinType::LeftSemi | JoinType::RightSemi => "Semi",
        JoinType::LeftAnti | JoinType::RightAnti => "Anti",
        JoinType::Inner => "Inner",
    }
}

/// Bytes of a row: those of its columns, 32 for one that varies.
fn width(plan: &LogicalPlan) -> usize {
    let bytes = |field: &FieldRef| types::by_name(types::name_of(field)).map_or(32, |known| known.len);
    plan.schema().fields().iter().map(|field| usize::try_from(bytes(field)).unwrap_or(32)).sum()
}

/// An expression without what makes its names unique.
fn shown(expr: &Expr) -> String {
    output_name(&in_sql(&expr.to_string())).replace("CAST", "cast")
}

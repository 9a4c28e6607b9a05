//! Plans and runs the statements of a client connection.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::sqlparser::ast::{DataType as SqlType, ExactNumberInfo, Statement, TimezoneInfo};
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF};
use datafusion::optimizer::Analyzer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use rusqlite::{OptionalExtension as _, params};
use tokio_util::sync::CancellationToken;

use super::analyze::TypeLiterals;
use super::append::AppendUnions;
use super::both::Both;
use super::cast::PgCasts;
use super::casts::Arrays;
use super::functions::{self, JsonOperators, Operators, Unknown, Vectors};
use super::guard::{GuardPlan, Memory};
use super::interrupt::{self, Check};
use super::locks::Locks;
use super::ordered::KeepSorts;
use super::origin::Relation;
use super::pages::Pages;
use super::rescale::CheckRescale;
use super::scope::{Host, Scope, ScopeExtension, Server};
use super::strict::{MergedFilters, Strict};
use super::table::SqliteTable;
use super::view::VIEWS;
use super::{
    DATABASE, SCHEMAS, counted, exact, expansion, explain, levels, marks, other_database, repeated, rewrite, statics,
    store_error, types,
};
use crate::auth;
use crate::error::{Error, Result, nearest};
use crate::limits::parse_bytes;
use crate::store::Snapshot;
use crate::store::view_rows;

/// What all client connections share.
#[derive(Debug)]
pub struct Catalog {
    server: Server,
    memory: Memory,
    pages: Arc<Pages>,
    locks: Arc<Locks>,
    state: SessionState,
    tables: HashMap<(&'static str, &'static str), Arc<dyn TableProvider>>,
}

/// One client connection's view of the catalog.
#[derive(Debug)]
pub struct Session {
    catalog: Arc<Catalog>,
    scope: Arc<Scope>,
    state: SessionState,
}

impl Catalog {
    /// The catalog. Takes some milliseconds; made once.
    pub fn new(server: Server, memory: Memory) -> Arc<Self> {
        let mut config = SessionConfig::new().with_target_partitions(1).with_information_schema(false);
        let options = config.options_mut();
        options.sql_parser.map_string_types_to_utf8view = false;
        options.sql_parser.parse_float_as_decimal = true;
        options.sql_parser.enable_subquery_sort_elimination = false;
        options.sql_parser.default_null_ordering = "nulls_max".into();
        options.execution.time_zone = Some(types::UTC.into());
        // A plan may be run again, and a dynamic filter keeps what it learned from the rows of the run before.
        options.optimizer.enable_dynamic_filter_pushdown = false;
        let mut analyzer = Analyzer::new();
        analyzer.rules.insert(0, Arc::new(TypeLiterals));
        // Behind the one that gives operands their types.
        analyzer.rules.push(Arc::new(PgCasts));
        analyzer.rules.push(Arc::new(Strict));
        let mut state = SessionStateBuilder::new().with_config(config).with_default_features().build();
        let mut planners = state.expr_planners().to_vec();
        planners.insert(0, Arc::new(JsonOperators));
        // A user's statement ends when it is to, also while it is planned.
        let mut optimizers = state.optimizers().to_vec();
        if let Some(at) = optimizers.iter().position(|rule| rule.name() == "push_down_filter") {
            optimizers.insert(at + 1, Arc::new(MergedFilters));
        }
        let optimizers = interrupt::before_each(&(Arc::new(Check) as _), optimizers);
        let (first, last) = ([Arc::new(AppendUnions) as _, Arc::new(KeepSorts) as _], Arc::new(GuardPlan) as _);
        let physical = first.into_iter().chain(state.physical_optimizers().iter().cloned()).chain([last]);
        let physical = interrupt::before_each(&(Arc::new(Check) as _), physical);
        planners.insert(1, Arc::new(Operators));
        planners.insert(0, Arc::new(Arrays));
        planners.insert(0, Arc::new(Vectors));
        state = SessionStateBuilder::new_from_existing(state)
            .with_analyzer_rules(interrupt::before_each(&(Arc::new(Check) as _), analyzer.rules))
            .with_optimizer_rules(optimizers)
            .with_expr_planners(planners)
            .with_type_planner(Arc::new(PgTypes))
            .with_physical_optimizer_rules(physical)
            .build();
        for function in functions::all() {
            // A function of that name may be there already: ours is PostgreSQL's.
            let _ = datafusion::execution::FunctionRegistry::register_udf(&mut state, Arc::new(function));
        }
        let _ = datafusion::execution::FunctionRegistry::register_udaf(&mut state, Arc::new(functions::single_value()));
        let tables = VIEWS
            .iter()
            .filter(|view| view.is_visible())
            .map(|view| {
                let table = SqliteTable::view(view_rows::quote(&view.sqlite_name()), &view.columns);
                let table: Arc<dyn TableProvider> = match view.select {
                    Some(_) => Arc::new(table),
                    None => Arc::new(EmptyTable::new(table.schema())),
                };
                let table = if view.name == statics::DESCRIPTIONS { with_postgresqls(table) } else { table };
                ((view.schema.as_str(), view.name.as_str()), table)
            })
            .collect();
        let pages = Arc::new(Pages::new(memory.view_cache()));
        Arc::new(Self { server, memory, pages, locks: Arc::default(), state, tables })
    }

    /// A client connection's session.
    pub fn session(self: &Arc<Self>, user: impl Into<String>, pid: i32, host: Arc<dyn Host>) -> Session {
        let (locks, guard) = (Arc::clone(&self.locks), self.memory.session());
        let scope = Arc::new(Scope::new(user.into(), pid, host, self.server, locks, guard));
        let mut state = self.state.clone();
        state.config_mut().options_mut().extensions.insert(ScopeExtension(Arc::clone(&scope)));
        // Functions get the configuration as of this call.
        state.mark_start_execution();
        Session { catalog: Arc::clone(self), scope, state }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.catalog.locks.end_session(self.scope.pid);
    }
}

impl Session {
    /// Lets go of the locks that last as long as a transaction.
    pub fn end_transaction(&self) {
        self.catalog.locks.end_transaction(self.scope.pid);
    }

    /// Lets go of the locks that last longer.
    pub fn unlock_all(&self) {
        self.catalog.locks.unlock_all(self.scope.pid);
    }

    /// Replaces the snapshot that statements read from now on, also those that are planned already. now() is this
    /// moment.
    pub fn set_snapshot(&self, snapshot: Arc<Snapshot>) {
        self.scope.set_snapshot(Some(snapshot));
    }

    /// A statement begins: what runs from now on ends soon after the token fires.
    pub fn begin_statement(&self, cancel: &CancellationToken) {
        let memory = self.scope.host.setting("statement_memory").and_then(|size| parse_bytes(&size));
        let memory = memory.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        self.scope.guard.begin(cancel, memory);
    }

    /// Gives the snapshot back. A stream that still reads keeps it.
    pub fn clear_snapshot(&self) {
        self.scope.set_snapshot(None);
    }

    /// Plans a query, or an EXPLAIN of one. The statement is as the parser gave it.
    ///
    /// The names of the plan's columns are made unique: [`super::output_name`] gives the name to show.
    ///
    /// # Errors
    /// What DataFusion says, with an [`Error`] of ours inside where we know better: an unknown relation, a source.
    pub fn plan(&self, mut statement: Statement) -> DfResult<LogicalPlan> {
        if let Statement::Explain { analyze, format, options, statement, .. } = statement {
            let options = explain::Options::new(analyze, format.as_ref(), options.as_deref());
            return explain::explain(self.plan(*statement)?, options, &self.state);
        }
        if !matches!(statement, Statement::Query(_)) {
            return Err(Error::Internal("only queries are planned here".into()).into());
        }
        expansion::check(&statement)?;
        let hidden = rewrite::statement(&mut statement, self)?;
        let provider = Planner { session: self, hidden };
        let options = ParserOptions {
            parse_float_as_decimal: true,
            map_string_types_to_utf8view: false,
            default_null_ordering: datafusion::sql::planner::NullOrdering::NullsMax,
            ..ParserOptions::default()
        };
        let plan = SqlToRel::new_with_options(&provider, options).sql_statement_to_plan(statement)?;
        levels::check(&plan)?;
        exact::shown(repeated::named(marks::marked(exact::exact(counted::counted(plan)?)?)?)?)
    }

    /// Optimizes a plan. Calls of stable functions that depend on no row are computed here, on the present snapshot.
    ///
    /// # Errors
    /// What DataFusion says.
    pub fn optimize(&self, plan: &LogicalPlan) -> DfResult<LogicalPlan> {
        super::subquery::optimize(plan, &self.state)
    }

    /// The plan of an optimized plan's execution. It reads the snapshot that is set when it is executed.
    ///
    /// # Errors
    /// What DataFusion says.
    pub async fn physical_plan(&self, optimized: &LogicalPlan) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.state.query_planner().create_physical_plan(optimized, &self.state).await
    }

    /// Runs a physical plan on the present snapshot.
    ///
    /// # Errors
    /// What DataFusion says.
    pub fn execute(&self, plan: Arc<dyn ExecutionPlan>) -> DfResult<SendableRecordBatchStream> {
        let memory = self.scope.guard.memory();
        let mut config = self.state.config().clone();
        // What is kept back for putting files together. With all of the memory a sort could never begin. All statements
        // share the options until one has others.
        if config.options().execution.sort_spill_reservation_bytes > memory / 4 {
            config.options_mut().execution.sort_spill_reservation_bytes = memory / 4;
        }
        let task = TaskContext::new(
            None,
            self.state.session_id().to_owned(),
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            self.scope.guard.runtime(),
        );
        execute_stream(plan, Arc::new(task))
    }

    /// All of it.
    ///
    /// # Errors
    /// Those of the steps.
    pub async fn query(&self, statement: Statement) -> DfResult<SendableRecordBatchStream> {
        let plan = self.optimize(&self.plan(statement)?)?;
        self.execute(self.physical_plan(&plan).await?)
    }

    #[cfg(test)]
    pub(super) fn scope_for_tests(&self) -> &Scope {
        &self.scope
    }

    #[cfg(test)]
    pub(super) fn catalog_for_tests(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// What a user's relation of that name is.
    fn kind(&self, schema: Option<&str>, name: &str) -> Result<Option<String>> {
        if schema.is_some_and(|schema| schema != "public") {
            return Ok(None);
        }
        self.scope.read(|connection| {
            connection
                .prepare_cached("SELECT kind FROM main.relations WHERE schema = 'public' AND name = ?1")
                .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
                .map_err(|source| store_error("look up a relation", source))
        })
    }

    fn table(&self, schema: &str, name: &str, hidden: bool) -> DfResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.catalog.tables.get(&(schema, name)) {
            return Ok(Some(Arc::clone(table)));
        }
        match schema {
            "public" => Ok(self.users_table(name, hidden)?),
            "pg_catalog" => statics::table(name),
            _ => Ok(None),
        }
    }

    /// A materialized view, or the state table of one.
    fn users_table(&self, name: &str, hidden: bool) -> Result<Option<Arc<dyn TableProvider>>> {
        let failed = |source| store_error("look up a relation", source);
        self.scope.read(|connection| {
            let relation: Option<(i64, String)> = connection
                .prepare_cached("SELECT id, kind FROM main.relations WHERE schema = 'public' AND name = ?1")
                .and_then(|mut statement| statement.query_row([name], |row| Ok((row.get(0)?, row.get(1)?))).optional())
                .map_err(failed)?;
            let Some((id, kind)) = relation else { return state_table(connection, name).map_err(failed) };
            if kind == "source" {
                return Err(Error::FeatureNotSupported {
                    what: format!("querying source \"{name}\" directly"),
                    hint: "Make a materialized view of it: CREATE MATERIALIZED VIEW ... AS SELECT ... FROM it.".into(),
                });
            }
            let mut statement = connection
                .prepare_cached("SELECT name, type FROM main.columns WHERE relation_id = ?1 ORDER BY attnum")
                .map_err(failed)?;
            let columns: Vec<(String, String)> = statement
                .query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))
                .and_then(Iterator::collect)
                .map_err(failed)?;
            let mut fields = columns
                .iter()
                .map(|(column, pg_type)| {
                    types::by_name(pg_type)
                        .map(|pg_type| pg_type.field(column))
                        .ok_or_else(|| Error::Internal(format!("column {column} has the unknown type {pg_type}")))
                })
                .collect::<Result<Vec<_>>>()?;
            if hidden {
                for (column, pg_type) in rewrite::HIDDEN {
                    fields.extend(types::by_name(pg_type).map(|pg_type| pg_type.field(column)));
                }
            }
            let schema = datafusion::arrow::datatypes::Schema::new(fields);
            let table = SqliteTable::rows(format!("main.mv_{id}"), schema, Arc::clone(&self.catalog.pages));
            Ok(Some(Arc::new(table) as Arc<dyn TableProvider>))
        })
    }

    /// Lets the user read a relation that exists, and tells its oid.
    fn authorize(&self, schema: &str, name: &str) -> Result<i64> {
        let (oid, kind, shown) = self.scope.read(|connection| {
            let oid: Option<i64> = connection
                .prepare_cached(
                    "SELECT r.oid FROM \"base.relations\" r JOIN temp.catalog_schemas s ON s.oid = r.namespace
                     WHERE s.name = ?1 AND r.name = ?2",
                )
                .and_then(|mut statement| statement.query_row([schema, name], |row| row.get(0)).optional())
                .map_err(|source| store_error("look up a relation", source))?;
            let kind =
                if schema == "public" && !name.starts_with("__internal_") { "materialized view" } else { "table" };
            let shown = if schema == "public" { name.to_owned() } else { format!("{schema}.{name}") };
            let oid = oid.ok_or_else(|| Error::Internal(format!("{shown} has no oid")))?;
            Ok((oid, kind, shown))
        })?;
        let object = auth::Object::Relation { oid, kind, name: &shown };
        let ask = |connection: &rusqlite::Connection| {
            auth::authorize(connection, &self.scope.user, auth::Action::Select, object)
        };
        let is_there = |connection: &rusqlite::Connection| {
            connection
                .prepare_cached("SELECT 1 FROM \"base.relations\" WHERE oid = ?1")
                .and_then(|mut statement| statement.exists([oid]))
                .map_err(|source| store_error("look up a relation", source))
        };
        match self.scope.host.authority()? {
            Some(now) if now.with(is_there)? => now.with(ask),
            // What has been dropped since is nobody's to revoke: the snapshot tells.
            _ => self.scope.read(ask),
        }
        .map(|()| oid)
    }

    fn undefined(&self, name: &TableReference) -> Error {
        let users: Vec<String> = self
            .scope
            .read(|connection| {
                connection
                    .prepare_cached("SELECT name FROM main.relations")
                    .and_then(|mut statement| statement.query_map(params![], |row| row.get(0))?.collect())
                    .map_err(|source| store_error("look up a relation", source))
            })
            .unwrap_or_default();
        let known = self.catalog.tables.keys().map(|(_, table)| *table).chain(users.iter().map(String::as_str));
        // One of just that name is in a schema that search_path doesn't name.
        let elsewhere = SCHEMAS.iter().map(|(schema, ..)| *schema).filter(|_| name.schema().is_none());
        let elsewhere = elsewhere
            .into_iter()
            .find(|schema| self.catalog.tables.contains_key(&(*schema, name.table())))
            .map(|schema| format!("{schema}.{}", name.table()));
        Error::UndefinedRelation {
            kind: "relation",
            name: match name.schema() {
                Some(schema) => format!("{schema}.{}", name.table()),
                None => name.table().into(),
            },
            nearest: elsewhere.or_else(|| nearest(name.table(), known)),
        }
    }
}

/// The descriptions of relations and columns, and those of PostgreSQL's own objects.
fn with_postgresqls(table: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
    match statics::table(statics::DESCRIPTIONS) {
        Ok(Some(fixed)) => Arc::new(Both::new(table, fixed)),
        _ => table,
    }
}

fn state_table(connection: &rusqlite::Connection, name: &str) -> rusqlite::Result<Option<Arc<dyn TableProvider>>> {
    if !name.starts_with("__internal_") {
        return Ok(None);
    }
    let id: Option<i64> = connection
        .prepare_cached("SELECT id FROM \"rw_catalog.rw_internal_tables\" WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(id.map(|id| {
        Arc::new(super::table_functions::state_rows(&format!("fragment_id = {id}"))) as Arc<dyn TableProvider>
    }))
}

/// Where something can't be told, the planner says why.
impl rewrite::Relations for Session {
    fn has_hidden(&self, schema: Option<&str>, name: &str) -> bool {
        matches!(self.kind(schema, name), Ok(Some(kind)) if kind == "materialized view")
    }

    fn columns(&self, schema: Option<&str>, name: &str) -> Option<Vec<String>> {
        let path = schema.map_or_else(|| self.scope.search_path(), |schema| vec![schema.to_owned()]);
        let table = path.iter().find_map(|schema| self.table(schema, name, false).ok().flatten())?;
        Some(table.schema().fields().iter().map(|field| field.name().clone()).collect())
    }
}

/// What DataFusion's SQL planner asks.
struct Planner<'a> {
    session: &'a Session,
    /// The statement names hidden columns, so materialized views have them.
    hidden: bool,
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        if let Some(database) = name.catalog()
            && database != DATABASE
        {
            return Err(other_database(&name.to_string()).into());
        }
        if name.table() == rewrite::CHECK_RESCALE {
            return Ok(provider_as_source(Arc::new(CheckRescale::new())));
        }
        let path = match name.schema() {
            Some(schema) => vec![schema.to_owned()],
            None => self.session.scope.search_path(),
        };
        for schema in &path {
            if let Some(table) = self.session.table(schema, name.table(), self.hidden)? {
                let oid = self.session.authorize(schema, name.table())?;
                return Ok(provider_as_source(Arc::new(Relation::new(oid, table))));
            }
        }
        if let Some(schema) = name.schema()
            && !SCHEMAS.iter().any(|(known, ..)| *known == schema)
        {
            // PostgreSQL, too, speaks of the relation here.
            return Err(Error::UndefinedRelation {
                kind: "relation",
                name: format!("{schema}.{}", name.table()),
                nearest: nearest(schema, SCHEMAS.iter().map(|(known, ..)| *known)),
            }
            .into());
        }
        Err(self.session.undefined(&name).into())
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        if name == "internal_source_backfill_progress" {
            // The same rows, of all views.
            self.session.authorize("tidegate", "split_backfill_progress")?;
        }
        super::table_functions::call(&self.session.state, name, args).map(provider_as_source)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.session.state.expr_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(PgTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let state = &self.session.state;
        // Those of Arrow's types have no meaning here.
        let known = state.scalar_functions().get(name).filter(|_| !name.starts_with("arrow_")).cloned();
        let of_other_kind = || {
            // What the planner knows by itself.
            name == "unnest"
                || state.aggregate_functions().contains_key(name)
                || state.window_functions().contains_key(name)
                || state.higher_order_functions().contains_key(name)
        };
        known.or_else(|| (!of_other_kind()).then(|| Arc::new(ScalarUDF::new_from_impl(Unknown::new(name)))))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.session.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.session.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.session.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.session.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.session.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.session.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.session.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.session.state.window_functions().keys().cloned().collect()
    }
}

/// PostgreSQL's type names that DataFusion doesn't know.
#[derive(Debug)]
struct PgTypes;

impl TypePlanner for PgTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> DfResult<Option<FieldRef>> {
        let plain =
            |data_type: DataType| Ok(Some(Arc::new(datafusion::arrow::datatypes::Field::new("", data_type, true))));
        // Microseconds, which reach as far as PostgreSQL's times.
        let named = match sql_type {
            SqlType::Timestamp(_, zone) => match zone {
                TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => "timestamptz",
                TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => "timestamp",
            },
            SqlType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => "time",
            SqlType::Interval { .. } => "interval",
            // By its number of bits, and by itself the larger of the two.
            SqlType::Float(ExactNumberInfo::Precision(..=24)) => "float4",
            SqlType::Float(_) => "float8",
            _ => "",
        };
        if let Some(known) = types::by_name(named) {
            return plain(known.arrow());
        }
        let SqlType::Custom(name, modifiers) = sql_type else { return Ok(None) };
        let name = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase());
        let Some(name) = name.filter(|_| modifiers.is_empty()) else { return Ok(None) };
        let known = types::TYPES.iter().find(|known| known.name == name || known.sql == name);
        // Without the mark of the exact type: a cast keeps that of its operand in one half of DataFusion and not in
        // the other.
        Ok(known.map(|known| Arc::new(datafusion::arrow::datatypes::Field::new("", known.arrow(), true))))
    }
}

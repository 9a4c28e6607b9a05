//! Prepared statements: what is known of a statement before it runs.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{self, visit_expressions_mut};
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;

use super::encode::{self, Column, PG_TYPE_KEY};
use super::rows::Tag;
use super::session::Session;
use super::{errors, params};
use crate::catalog::types::PgType;
use crate::catalog::{casts, held};
use crate::clock::now_micros;
use crate::command::Parsed;
use crate::command::ast::{AlterAction, Command, ObjectKind, RoleCommand, Session as Own, Statement};
use crate::error::{Error, Result};

/// A prepared statement.
pub(super) struct Prepared {
    /// As written.
    pub text: String,
    /// What the client sent, of which it may be a part.
    pub source: String,
    /// By PREPARE, not by the protocol's message.
    pub from_sql: bool,
    /// When, in microseconds since 1970.
    pub prepared_at: i64,
    /// How often it ran.
    pub runs: AtomicI64,
    pub parsed: Parsed,
    /// The types of `$1`, `$2`, ...
    pub types: Vec<Type>,
    /// What it gives; None if it gives no rows.
    pub columns: Option<Arc<[Column]>>,
    /// Of a query. Made anew when objects or settings have changed since.
    plan: Mutex<Option<Arc<Plan>>>,
}

/// Plans of simple queries that a session keeps.
const RECENT_PLANS: usize = 32;

/// Bytes of a simple query's text, beyond which its plan isn't kept.
const RECENT_TEXT: usize = 8 * 1024;

/// The plan of a query.
pub(super) struct Plan {
    pub logical: LogicalPlan,
    /// The types that the plan takes `$1`, `$2`, ... as.
    pub targets: Vec<Option<DataType>>,
    /// Whether the physical plan gives the right result at any later time: no `now()` is worked into it.
    pub may_be_kept: bool,
    /// Whether it reads of the session's own statements and cursors.
    pub reads_held: bool,
    physical: Mutex<Option<Arc<dyn ExecutionPlan>>>,
    /// To what it applies.
    basis: Basis,
}

/// What a plan depends on beside its text.
#[derive(PartialEq)]
struct Basis {
    version: u64,
    /// The version that the snapshot is of: within a block it may be an older one.
    of_snapshot: u64,
    search_path: String,
    /// What text a value has, and what value a text.
    style: [String; 5],
}

impl Plan {
    pub fn kept(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.physical.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn keep(&self, physical: &Arc<dyn ExecutionPlan>) {
        *self.physical.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(physical));
    }
}

impl Prepared {
    /// Whether it may run in a failed block, since it ends it.
    pub fn ends_block(&self) -> bool {
        ends_block(&self.parsed.statement)
    }

    /// How the command's tag reads.
    pub fn tag(&self) -> Tag {
        match &self.parsed.statement {
            Statement::Query(query) if matches!(**query, ast::Statement::Explain { .. }) => {
                Tag::Fixed("EXPLAIN".into())
            }
            _ => Tag::Counted("SELECT"),
        }
    }

    pub fn forget_plan(&self) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Session {
    /// Finds out a statement's parameters and columns. `declared` are the types that the client gives some parameters.
    pub(super) fn prepare(&mut self, parsed: Parsed, declared: &[Option<Type>]) -> Result<Prepared> {
        let mut prepared = Prepared {
            text: parsed.text.clone(),
            source: self.text.clone(),
            from_sql: false,
            prepared_at: now_micros(),
            runs: AtomicI64::new(0),
            types: (0..parsed.params.max(declared.len())).map(|n| declared_type(declared, n)).collect(),
            columns: None,
            parsed,
            plan: Mutex::new(None),
        };
        self.check_not_failed(prepared.ends_block())?;
        prepared.columns = match &prepared.parsed.statement {
            Statement::Empty => None,
            Statement::Query(query) => {
                self.take_snapshot()?;
                let plan = Arc::new(self.plan(query, &mut prepared.types, declared)?);
                let columns = self.columns_of_plan(&plan.logical)?;
                *prepared.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
                Some(columns)
            }
            Statement::Unbound(statement) => self.columns_of_statement(statement)?,
            statement => self.columns_of_statement(statement)?,
        };
        Ok(prepared)
    }

    /// The query that was last planned from just this text, if its plan still holds. Clients that speak the simple
    /// protocol (psql's \watch, dashboards) send the same text again and again.
    pub(super) fn planned_before(&mut self, text: &str) -> Option<Arc<Prepared>> {
        let at = self.recent.iter().position(|(known, _)| known == text)?;
        let (known, prepared) = self.recent.remove(at);
        let plan = prepared.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        plan.filter(|plan| plan.basis == self.basis())?;
        self.recent.push((known, Arc::clone(&prepared)));
        Some(prepared)
    }

    /// Keeps a query's plan for [`Self::planned_before`].
    pub(super) fn keep_plan(&mut self, text: &str, prepared: &Arc<Prepared>) {
        let is_planned = prepared.plan.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_planned || !prepared.types.is_empty() || text.len() > RECENT_TEXT {
            return;
        }
        if self.recent.len() == RECENT_PLANS {
            self.recent.remove(0);
        }
        self.recent.push((text.to_owned(), Arc::clone(prepared)));
    }

    /// The columns as they are now: those of a FETCH are its cursor's.
    pub(super) fn current_columns(&self, prepared: &Prepared) -> Option<Arc<[Column]>> {
        match &prepared.parsed.statement {
            Statement::Session(statement) => self.columns_of(statement),
            _ => prepared.columns.clone(),
        }
    }

    /// A query's plan, made anew if it is out of date.
    pub(super) fn plan_of(&self, prepared: &Prepared) -> Result<Arc<Plan>> {
        let kept = prepared.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(plan) = kept.filter(|plan| plan.basis == self.basis()) {
            return Ok(plan);
        }
        let Statement::Query(query) = &prepared.parsed.statement else {
            return Err(Error::Internal("only queries have plans".into()));
        };
        let declared: Vec<Option<Type>> = prepared.types.iter().cloned().map(Some).collect();
        let plan = Arc::new(self.plan(query, &mut prepared.types.clone(), &declared)?);
        let columns = self.columns_of_plan(&plan.logical)?;
        let same = |old: &Arc<[Column]>| {
            old.len() == columns.len() && old.iter().zip(columns.iter()).all(|(a, b)| a.pg_type == b.pg_type)
        };
        if !prepared.columns.as_ref().is_some_and(same) {
            return Err(Error::FeatureNotSupported {
                what: "a prepared statement whose result type has changed".into(),
                hint: "Prepare it anew.".into(),
            });
        }
        *prepared.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&plan));
        Ok(plan)
    }

    fn columns_of_statement(&self, statement: &Statement) -> Result<Option<Arc<[Column]>>> {
        match statement {
            Statement::Command(command) => {
                self.shared.commands.describe(command).map(|schema| encode::columns(&schema, |name| name)).transpose()
            }
            Statement::Session(own) => Ok(self.columns_of(own)),
            _ => Ok(None),
        }
    }

    fn columns_of_plan(&self, plan: &LogicalPlan) -> Result<Arc<[Column]>> {
        let columns = encode::columns(plan.schema().as_arrow(), |name| self.plans.output_name(name))?;
        let origins = self.plans.origins(plan);
        Ok(columns.iter().zip(origins).map(|(column, origin)| Column { origin, ..column.clone() }).collect())
    }

    fn basis(&self) -> Basis {
        Basis {
            version: self.shared.planner.version(),
            of_snapshot: self.plans.version(),
            search_path: self.settings.text("search_path"),
            style: ["timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output"]
                .map(|name| self.settings.text(name)),
        }
    }

    /// Plans, and tells the types of the parameters that the client didn't declare.
    fn plan(&self, query: &ast::Statement, types: &mut [Type], declared: &[Option<Type>]) -> Result<Plan> {
        let basis = self.basis();
        // A parameter's declared type is what it would be with a cast. Text fits what it is compared with.
        let mut casts: HashMap<usize, ast::DataType> = HashMap::new();
        for (index, pg_type) in declared.iter().enumerate() {
            if let Some(cast) = pg_type.as_ref().and_then(params::sql_type) {
                casts.insert(index + 1, cast);
            }
        }
        let mut logical = self.plans.plan(with_casts(query, &casts))?;
        let mut inferred = infer(&logical, types.len())?;
        // What the query says nothing about is text, as in PostgreSQL.
        let unknown: Vec<usize> =
            (0..types.len()).filter(|n| inferred[*n].is_none() && !casts.contains_key(&(n + 1))).collect();
        if !unknown.is_empty() {
            casts.extend(unknown.iter().map(|index| (index + 1, ast::DataType::Text)));
            logical = self.plans.plan(with_casts(query, &casts))?;
            inferred = infer(&logical, types.len())?;
        }
        for (index, field) in inferred.iter().enumerate() {
            let known = declared.get(index).is_some_and(Option::is_some);
            if let (false, Some(field)) = (known, field) {
                types[index] = encode::pg_type(field)?;
            }
        }
        let may_be_kept = is_timeless(&logical)?;
        let reads_held = held::is_read_by(&logical).map_err(errors::from_datafusion)?;
        let targets = inferred.into_iter().map(|field| field.map(|field| field.data_type().clone())).collect();
        Ok(Plan { logical, targets, may_be_kept, reads_held, physical: Mutex::new(None), basis })
    }
}

fn declared_type(declared: &[Option<Type>], index: usize) -> Type {
    declared.get(index).cloned().flatten().unwrap_or(Type::TEXT)
}

/// Columns of text.
pub(super) fn text_columns(names: &[&str]) -> Arc<[Column]> {
    let column = |name: &&str| {
        let field: FieldRef = Arc::new(Field::new(*name, DataType::Utf8, true));
        Column { name: (*name).to_owned(), field, pg_type: Type::TEXT, format: FieldFormat::Text, origin: None }
    };
    names.iter().map(column).collect()
}

/// The query with each `$n` cast to its type.
fn with_casts(query: &ast::Statement, casts: &HashMap<usize, ast::DataType>) -> ast::Statement {
    let mut query = query.clone();
    if casts.is_empty() {
        return query;
    }
    let _ = visit_expressions_mut(&mut query, |expr| {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(data_type) = name[1..].parse().ok().and_then(|number: usize| casts.get(&number))
        {
            *expr = ast::Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type: data_type.clone(),
                array: false,
                format: None,
            };
        }
        ControlFlow::<()>::Continue(())
    });
    query
}

/// What a plan takes its parameters as: a field of the Arrow type that it needs, marked with PostgreSQL's type.
fn infer(plan: &LogicalPlan, count: usize) -> Result<Vec<Option<FieldRef>>> {
    let of = |data_type: DataType| Arc::new(Field::new("", data_type, true));
    let known = plan.get_parameter_types().map_err(errors::from_datafusion)?;
    let mut known: HashMap<String, FieldRef> =
        known.into_iter().filter_map(|(name, data_type)| Some((name, of(data_type?)))).collect();
    // Of `$1::bigint` alone DataFusion says nothing, but the cast does; nor of a limit, which is a bigint.
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for number in [&limit.skip, &limit.fetch].into_iter().flatten() {
                if let Expr::Placeholder(placeholder) = &**number {
                    known.entry(placeholder.id.clone()).or_insert_with(|| of(DataType::Int64));
                }
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                for (operand, field) in taken(expr, node) {
                    if let Expr::Placeholder(placeholder) = operand {
                        let known = known.entry(placeholder.id.clone()).or_insert_with(|| Arc::clone(&field));
                        if known.metadata().is_empty() {
                            *known = field;
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(errors::from_datafusion)?;
    Ok((1..=count).map(|number| known.remove(&format!("${number}"))).collect())
}

/// The operands of an expression whose types the expression tells, with those.
fn taken<'e>(expr: &'e Expr, node: &LogicalPlan) -> Vec<(&'e Expr, FieldRef)> {
    let here = |expr: &Expr| expr.to_field(&merge_schema(&node.inputs())).ok().map(|(_, field)| field);
    match expr {
        // What has the exact type of a column is of that type, too; a name for an oid is read by a cast only.
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() || *op == Operator::NotEq => {
            let exact = |other: &Expr| here(other).filter(is_exact);
            match (&**left, &**right) {
                (Expr::Placeholder(_), other) => exact(other).map(|field| (&**left, field)).into_iter().collect(),
                (other, Expr::Placeholder(_)) => exact(other).map(|field| (&**right, field)).into_iter().collect(),
                _ => Vec::new(),
            }
        }
        Expr::Cast(cast) => {
            vec![(&*cast.expr, Arc::new(Field::new("", cast.field.data_type().clone(), true)))]
        }
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            // `x = ANY($1)`: an array of what x is.
            ("array_has", [array, item]) => here(item).map(|item| (array, array_of(&item))).into_iter().collect(),
            (name, args) => match (args, casts::target(name)) {
                // It takes text.
                ([Expr::Cast(cast), ..], Some(to)) => vec![(&*cast.expr, parameter(to))],
                ([operand, ..], Some(to)) => vec![(operand, parameter(to))],
                _ => {
                    let argument = |(index, arg)| Some((arg, parameter(casts::argument(name, args.len(), index)?)));
                    args.iter().enumerate().filter_map(argument).collect()
                }
            },
        },
        _ => Vec::new(),
    }
}

/// An array of a field's values, of the type that clients know.
fn array_of(item: &FieldRef) -> FieldRef {
    let data_type = DataType::List(Arc::new(Field::new_list_field(item.data_type().clone(), true)));
    let marked = item.metadata().get(PG_TYPE_KEY).map(|name| (PG_TYPE_KEY.to_owned(), format!("{name}[]")));
    Arc::new(Field::new("", data_type, true).with_metadata(marked.into_iter().collect()))
}

/// Whether a parameter that is compared with this may be told to be of just its type.
fn is_exact(field: &FieldRef) -> bool {
    let exact = ["oid", "name", "char", "xid", "uuid", "json", "jsonb"];
    encode::pg_type(field).is_ok_and(|pg_type| exact.contains(&pg_type.name()))
}

/// A parameter of this type: the Arrow type that its value is read as, marked.
fn parameter(to: &PgType) -> FieldRef {
    let takes = match to.name {
        // Without a sign it needs more room.
        "oid" => DataType::Int64,
        "oid[]" => DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))),
        // A name, or an oid.
        name if name.starts_with("reg") => DataType::Utf8,
        _ => to.arrow(),
    };
    Arc::new(Field::new("", takes, true).with_metadata(HashMap::from([(PG_TYPE_KEY.into(), to.name.into())])))
}

/// Whether no part of the plan depends on when it is made. What is the same within a statement is worked out when it is
/// planned, but for a function of a row's values.
fn is_timeless(plan: &LogicalPlan) -> Result<bool> {
    let mut timeless = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    timeless &= match call.func.signature().volatility {
                        Volatility::Stable => expr.any_column_refs() || expr.contains_outer(),
                        // The one is the same at any time, the other is never worked out ahead.
                        Volatility::Immutable | Volatility::Volatile => true,
                    };
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        // State that a run leaves in such a plan can't be taken out of it.
        if matches!(node, LogicalPlan::RecursiveQuery(_)) {
            timeless = false;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(errors::from_datafusion)?;
    Ok(timeless)
}

/// Whether a statement may run in a failed block, since it ends it.
pub(super) const fn ends_block(statement: &Statement) -> bool {
    matches!(statement, Statement::Empty | Statement::Session(Own::Commit | Own::Rollback | Own::RollbackTo(_)))
}

/// A command as errors name it.
pub(super) const fn command_name(command: &Command) -> &'static str {
    match command {
        Command::CreateSource(_) => "CREATE SOURCE",
        Command::CreateView(_) => "CREATE MATERIALIZED VIEW",
        Command::Drop(drop) => match drop.kind {
            ObjectKind::Source => "DROP SOURCE",
            ObjectKind::MaterializedView => "DROP MATERIALIZED VIEW",
        },
        Command::Alter(alter) => match (alter.kind, &alter.action) {
            (ObjectKind::Source, AlterAction::Parallelism(_)) => "ALTER SOURCE ... SET PARALLELISM",
            (ObjectKind::Source, _) => "ALTER SOURCE",
            (ObjectKind::MaterializedView, _) => "ALTER MATERIALIZED VIEW",
        },
        Command::Explain { .. } => "EXPLAIN",
        Command::CancelRescale(_) => "CANCEL RESCALE",
        Command::Wait => "WAIT",
        Command::Flush => "FLUSH",
        Command::Recover => "RECOVER",
        Command::Show(_) => "SHOW",
        Command::Role(role) => match role {
            RoleCommand::Create { .. } => "CREATE ROLE",
            RoleCommand::Alter { .. } | RoleCommand::Rename { .. } => "ALTER ROLE",
            RoleCommand::Reassign { .. } => "REASSIGN OWNED",
            RoleCommand::DropOwned(_) => "DROP OWNED",
            RoleCommand::Drop { .. } => "DROP ROLE",
            RoleCommand::Privileges { revoke, .. } | RoleCommand::Membership { revoke, .. } => {
                if *revoke {
                    "REVOKE"
                } else {
                    "GRANT"
                }
            }
        },
    }
}

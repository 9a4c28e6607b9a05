//! The life of one statement.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use pgwire::api::Type;
use tokio_util::sync::CancellationToken;

use super::encode::{self, Style};
use super::params::{self, Param};
use super::prepared::{Plan, Prepared, command_name};
use super::rows::{Reply, Rows, Tag};
use super::session::Session;
use super::transaction::Status;
use super::{Outcome, errors};
use crate::catalog::{held, types};
use crate::command;
use crate::command::ast::{Command, Statement};
use crate::error::{Error, Result};
use crate::failpoint::{self, FailPoint};

impl Session {
    /// Runs a prepared statement. The rows of the reply are read as they are sent.
    pub(super) async fn execute(
        &mut self,
        prepared: &Prepared,
        params: &[Param],
        token: &CancellationToken,
    ) -> Result<Reply> {
        self.admit(&prepared.parsed).await?;
        if params.len() < prepared.types.len() {
            let (given, needed) = (params.len(), prepared.types.len());
            return Err(Error::Session {
                sqlstate: "08P01",
                message: format!("{given} parameters are given, but the statement needs {needed}"),
            });
        }
        match &prepared.parsed.statement {
            Statement::Empty => Ok(Reply::Empty),
            Statement::Session(statement) => self.run_own(statement, token).await,
            Statement::Query(_) => {
                let reply = self.query(prepared, params, token).await;
                reply.map_err(|error| self.interrupt(token).explain(error))
            }
            Statement::Command(command) => self.command(&prepared.text, command.clone(), token).await,
            Statement::Unbound(_) => {
                let texts = params.iter().map(Param::to_text).collect::<Result<Vec<_>>>()?;
                match command::bind(&prepared.parsed, &texts)? {
                    Statement::Command(command) => self.command(&prepared.text, command, token).await,
                    Statement::Session(statement) => self.run_own(&statement, token).await,
                    _ => Err(Error::Internal("a statement became another when its parameters were bound".into())),
                }
            }
        }
    }

    async fn command(&mut self, text: &str, command: Command, token: &CancellationToken) -> Result<Reply> {
        let caller = self.caller(token);
        let runner = Arc::clone(&self.shared.commands);
        if let Some(refusal) = self.refusal(&command) {
            runner.refused(&caller, &command, &refusal).await;
            return Err(refusal);
        }
        // It gives up by itself when the token fires: dropped, it might be committed without anyone being told.
        let outcome = runner.run(&caller, text, command).await;
        failpoint::pass(FailPoint::BeforeAcknowledged);
        let outcome = outcome.map_err(|error| self.interrupt(token).explain(error))?;
        match outcome {
            Outcome::Done { tag, notices } => {
                notices.into_iter().for_each(|notice| self.notice(notice));
                Ok(Reply::Done(tag))
            }
            Outcome::Rows { rows, tag, notices } => {
                notices.into_iter().for_each(|notice| self.notice(notice));
                let columns = encode::columns(&rows.schema(), |name| name)?;
                Ok(Reply::Rows(Rows::from_batches(columns, vec![rows], Tag::Fixed(tag), Style::of(&self.settings))))
            }
        }
    }

    /// Why the command can't run in the present transaction.
    fn refusal(&self, command: &Command) -> Option<Error> {
        let statement = command_name(command);
        if !changes_something(command) {
            None
        } else if self.settings.transaction_read_only() {
            let message = format!("cannot execute {statement} in a read-only transaction");
            Some(Error::Session { sqlstate: "25006", message })
        } else if self.transaction.status != Status::Idle {
            Some(Error::InTransactionBlock { statement: statement.into() })
        } else {
            None
        }
    }

    async fn query(&mut self, prepared: &Prepared, params: &[Param], token: &CancellationToken) -> Result<Reply> {
        self.take_snapshot()?;
        let plan = self.plan_of(prepared)?;
        prepared.runs.fetch_add(1, Ordering::Relaxed);
        if plan.reads_held {
            self.tell_held();
        }
        let physical = match plan.kept() {
            Some(physical) => reset_plan_states(physical).map_err(errors::from_datafusion)?,
            None => {
                let logical = bound(&plan, params, &self.settings.text("timezone"))?;
                let optimized = self.plans.optimize(&logical)?;
                let planning = self.plans.physical_plan(&optimized);
                let physical = self.interrupt(token).or(planning).await??;
                if params.is_empty() && plan.may_be_kept {
                    plan.keep(&physical);
                }
                physical
            }
        };
        let stream = self.plans.execute(physical)?;
        let columns = prepared.columns.clone().unwrap_or_default();
        Ok(Reply::Rows(Rows::from_stream(columns, stream, prepared.tag(), Style::of(&self.settings))))
    }

    /// Tells queries what is held now. Unnamed statements and portals last for one message, and aren't listed.
    fn tell_held(&self) {
        let named = self.statements.iter().filter(|(name, _)| !name.is_empty());
        let statements = named.map(|(name, prepared)| held::Statement {
            name: name.clone(),
            text: prepared.source.clone(),
            prepared_at: prepared.prepared_at,
            types: prepared.types.iter().map(sql_name).collect(),
            from_sql: prepared.from_sql,
            runs: prepared.runs.load(Ordering::Relaxed),
        });
        let cursors = self.cursors.values().map(|cursor| cursor.held.clone());
        let portals = self.portals.iter().filter(|(name, _)| !name.is_empty());
        let portals = portals.map(|(name, portal)| portal.held(name));
        self.held.tell(statements.collect(), cursors.chain(portals).collect());
    }
}

/// A type in SQL's words.
fn sql_name(pg_type: &Type) -> String {
    let known = types::TYPES.iter().find(|known| known.oid == pg_type.oid());
    known.map_or_else(|| pg_type.name().to_owned(), |known| known.sql.to_owned())
}

/// The plan with the values of its `$n`.
fn bound(plan: &Plan, params: &[Param], time_zone: &str) -> Result<LogicalPlan> {
    if params.is_empty() {
        return Ok(plan.logical.clone());
    }
    let values = params::values(params, &plan.targets, time_zone)?;
    plan.logical.clone().replace_params_with_values(&values).map_err(errors::from_datafusion)
}

/// Whether the command may not run in a transaction block, since it can't be undone with it.
const fn changes_something(command: &Command) -> bool {
    !matches!(command, Command::Explain { .. } | Command::Show(_))
}

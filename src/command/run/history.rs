//! The lines of `tidegate.rescale_history` that the engine doesn't write: ALTERs that move no splits, and those that
//! never came to the check.

use rusqlite::OptionalExtension as _;

use super::{Runner, policy, relation_kind};
use crate::backfill::id::{Epoch, SourceId};
use crate::clock::now_micros;
use crate::command::ast::Alter;
use crate::error::{Error, Result};
use crate::store::rescales::{self, Decided, Outcome, RescaleRow};
use crate::store::{Context as _, Durability, relations};
use crate::wire::Caller;

impl Runner {
    /// Adds an ALTER that was done, or failed. One on something that doesn't exist has no line. The statement's own
    /// outcome stands, whatever becomes of the line.
    pub(super) async fn record(&self, caller: &Caller, alter: &Alter, error: Option<&Error>) {
        if let Err(lost) = self.try_record(caller, alter, error).await {
            tracing::error!(error = %lost, user = caller.user, statement = alter.text, "an ALTER is missing in the history");
        }
    }

    async fn try_record(&self, caller: &Caller, alter: &Alter, error: Option<&Error>) -> Result<()> {
        let kind = relation_kind(alter.kind);
        let name = alter.name.clone();
        let (statement, policy) = (alter.text.clone(), policy(caller).map(|policy| policy.to_string()));
        let (requested_by, application_name) = (caller.user.clone(), caller.application_name.clone());
        let sqlstate = error.map(Error::sqlstate);
        let outcome = match error {
            None => Outcome::Committed,
            Some(Error::Canceled | Error::BarrierTimeout { .. } | Error::StatementTimeout | Error::ShuttingDown) => {
                Outcome::Cancelled
            }
            Some(_) => Outcome::Refused,
        };
        self.store
            .write(Durability::Full, move |tx| {
                let Some(relation) = relations::find(tx, &name)?.filter(|found| found.kind == kind) else {
                    return Ok(());
                };
                let actors: Option<u32> = tx
                    .query_row(
                        "SELECT count(*) FROM actors a JOIN fragments f ON f.id = a.fragment_id
                         WHERE f.job_id = ?1 GROUP BY f.id LIMIT 1",
                        [relation.id],
                        |row| row.get(0),
                    )
                    .optional()
                    .context("counting actors")?;
                let now = now_micros();
                let row = RescaleRow {
                    source_id: SourceId(relation.id),
                    source_name: name,
                    statement,
                    policy: policy.unwrap_or_default(),
                    target: String::new(),
                    from_parallelism: actors.unwrap_or_default(),
                    to_parallelism: actors.unwrap_or_default(),
                    requested_by,
                    application_name,
                    requested_at: now,
                };
                let id = rescales::insert(tx, &row)?;
                let epoch =
                    tx.query_row("SELECT epoch FROM meta", [], |row| row.get(0)).context("reading the epoch")?;
                rescales::decide(tx, id, outcome, &Decided { sqlstate, ..Decided::default() }, Epoch(epoch), now)
            })
            .await
    }
}

//! The lines of `tidegate.rescale_history` of ALTERs that failed before they came to the check.

use super::{Runner, policy};
use crate::command::ast::{Alter, AlterAction, InvalidValue};
use crate::error::{Error, Result};
use crate::store::rescales::{Asked, Outcome};
use crate::store::{Durability, relations};
use crate::wire::Caller;

impl Runner {
    /// Adds an ALTER that failed, also one of something that doesn't exist. The statement's own outcome stands, whatever
    /// becomes of the line.
    pub(super) async fn record(&self, caller: &Caller, alter: &Alter, error: &Error) {
        if let Err(lost) = self.try_record(caller, alter, error).await {
            tracing::error!(error = %lost, user = caller.user, statement = alter.text, "an ALTER is missing in the history");
        }
    }

    async fn try_record(&self, caller: &Caller, alter: &Alter, error: &Error) -> Result<()> {
        let (name, asked, sqlstate) = (alter.name.clone(), asked(caller, alter), error.sqlstate());
        let outcome = match error {
            Error::Canceled | Error::BarrierTimeout { .. } | Error::StatementTimeout | Error::ShuttingDown => {
                Outcome::Cancelled
            }
            _ => Outcome::Refused,
        };
        let can_be_found = !matches!(alter.action, AlterAction::Invalid(InvalidValue::Elsewhere(_)));
        self.store
            .write(Durability::Full, move |tx| {
                let found = if can_be_found { relations::find(tx, &name)? } else { None };
                let id = found.map(|found| found.id);
                asked.note(tx, id, &name, outcome, Some(sqlstate))
            })
            .await
    }
}

/// Who asks for what.
pub(super) fn asked(caller: &Caller, alter: &Alter) -> Asked {
    Asked {
        statement: alter.text.clone(),
        policy: policy(caller).map(|policy| policy.to_string()).unwrap_or_default(),
        requested_by: caller.user.clone(),
        application_name: caller.application_name.clone(),
    }
}

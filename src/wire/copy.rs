//! `COPY ... TO STDOUT`.

use pgwire::messages::PgWireBackendMessage as Backend;
use pgwire::messages::copy::{CopyDone, CopyOutResponse};
use pgwire::messages::response::CommandComplete;
use tokio_util::sync::CancellationToken;

use super::connection::{Failure, Link};
use super::encode::CopyWriter;
use super::rows::{Interrupt, Reply, Rows};
use super::session::Session;
use crate::command::ast::{CopyFormat, ForceQuote, Session as Ast};
use crate::error::{Error, Result};

/// The rows of a COPY, and how they are written.
pub(super) struct Copy {
    rows: Rows,
    writer: CopyWriter,
}

impl Session {
    /// `COPY ... TO STDOUT`.
    pub(super) async fn copy(&mut self, statement: &Ast, token: &CancellationToken) -> Result<Reply> {
        let Ast::CopyTo { query, query_text, options } = statement else {
            return Err(Error::Internal("not a COPY".into()));
        };
        let mut rows = self.open(query, query_text, token).await?;
        if options.format == CopyFormat::Binary {
            rows = rows.with_formats(&[1])?;
        }
        let forced = match &options.force_quote {
            ForceQuote::All => vec![true; rows.columns.len()],
            ForceQuote::Columns(names) => {
                if let Some(name) = names.iter().find(|name| rows.columns.iter().all(|column| column.name != **name)) {
                    let message = format!("column \"{name}\" does not exist");
                    return Err(Error::Semantics { sqlstate: "42703", message });
                }
                rows.columns.iter().map(|column| names.contains(&column.name)).collect()
            }
        };
        Ok(Reply::Copy(Box::new(Copy { rows, writer: CopyWriter::new(options.clone(), forced) })))
    }
}

impl Copy {
    /// Sends all of it.
    pub async fn send(mut self, link: &mut Link, interrupt: &Interrupt<'_>) -> Result<(), Failure> {
        let format = i16::from(self.writer.is_binary());
        let count = self.rows.columns.len();
        let response = CopyOutResponse::new(format as i8, count as i16, vec![format; count]);
        link.feed(Backend::CopyOutResponse(response)).await?;
        self.writer.write_header(link.buffer(), &self.rows.columns);
        let mut writer = self.writer;
        let write = |out: &mut _, columns: &[_], arrays: &[_], row, style: &_| {
            writer.write_row(out, columns, arrays, row, style)
        };
        let (count, _) = self.rows.send_as(link, None, interrupt, write).await?;
        writer.write_end(link.buffer());
        link.feed(Backend::CopyDone(CopyDone::new())).await?;
        link.feed(Backend::CommandComplete(CommandComplete::new(format!("COPY {count}")))).await?;
        Ok(())
    }
}

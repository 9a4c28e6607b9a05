//! A session that shows what it does, in psql's manner.

use tokio_postgres::{Client, SimpleColumn, SimpleQueryMessage};

use crate::cli::client::Notices;
use crate::error::{Error, Result};

/// A psql of sorts.
pub struct Session {
    /// The connection.
    pub client: Client,
    /// What the server tells beside its results.
    pub notices: Notices,
}

impl Session {
    /// Says something.
    #[expect(clippy::print_stdout, reason = "the demo is what it prints")]
    pub fn say(&self, text: &str) {
        println!("\n-- {}", text.replace('\n', "\n-- "));
    }

    #[expect(clippy::print_stdout, reason = "the demo is what it prints")]
    fn echo(&self, sql: &str) {
        println!("dev=> {}", sql.replace('\n', "\ndev-> "));
    }

    /// Runs a statement that has to succeed, and shows its rows. Returns how many there were.
    ///
    /// # Errors
    /// The server's.
    #[expect(clippy::print_stdout, reason = "the demo is what it prints")]
    pub async fn run(&mut self, sql: &str) -> Result<usize> {
        self.echo(sql);
        let messages = self.client.simple_query(sql).await.map_err(super::super::client::failed)?;
        while let Ok(notice) = self.notices.try_recv() {
            println!("{}:  {}", notice.severity(), notice.message());
        }
        let (text, rows) = table(&messages);
        print!("{text}");
        Ok(rows)
    }

    /// Runs a statement that has to be refused, and shows the error.
    ///
    /// # Errors
    /// [`Error::Internal`] when it isn't refused.
    #[expect(clippy::print_stdout, reason = "the demo is what it prints")]
    pub async fn refused(&mut self, sql: &str) -> Result<()> {
        self.echo(sql);
        match self.client.simple_query(sql).await {
            Ok(_) => Err(Error::Internal(format!("{sql} was not refused"))),
            Err(error) => {
                let Some(error) = error.as_db_error() else { return Err(super::super::client::failed(error)) };
                println!("ERROR:  {}: {}", error.code().code(), error.message());
                for (name, text) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
                    if let Some(text) = text {
                        println!("{name}:  {}", text.replace('\n', "\n         "));
                    }
                }
                Ok(())
            }
        }
    }

    /// The first column of the first row of a query.
    ///
    /// # Errors
    /// The server's.
    pub async fn value(&self, sql: &str) -> Result<Option<String>> {
        let messages = self.client.simple_query(sql).await.map_err(super::super::client::failed)?;
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }
}

/// Rows as an aligned table, and how many there are.
fn table(messages: &[SimpleQueryMessage]) -> (String, usize) {
    let mut head: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => head = names(columns),
            SimpleQueryMessage::Row(row) => {
                head = names(row.columns());
                rows.push((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect());
            }
            _ => {}
        }
    }
    if head.is_empty() {
        return (String::new(), 0);
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} ")).collect();
        padded.join("|").trim_end().to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let body: String = rows.iter().map(|row| line(row) + "\n").collect();
    let count = if rows.len() == 1 { "(1 row)".to_owned() } else { format!("({} rows)", rows.len()) };
    (format!("{}\n{}\n{body}{count}\n", line(&head), rule.join("+")), rows.len())
}

fn names(columns: &[SimpleColumn]) -> Vec<String> {
    columns.iter().map(|column| column.name().to_owned()).collect()
}

//! `docs/tables.md` is made from the view files. After a change: `TIDEGATE_REWRITE=1 cargo test reference`.

use std::fmt::Write as _;

use super::super::SCHEMAS;
use super::super::rescale::CHECK_RESCALE;
use super::super::view::{VIEWS, View};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tables.md");

fn describe(out: &mut String, title: &str, view: &View) {
    writeln!(out, "\n### {title}\n\n{}\n\n| column | type | |\n|---|---|---|", view.comment).unwrap();
    for column in &view.columns {
        let comment = column.comment.as_deref().unwrap_or_default().replace('|', "\\|");
        writeln!(out, "| `{}` | {} | {comment} |", column.name, column.pg_type.sql).unwrap();
    }
}

fn reference() -> String {
    let mut out = String::from(
        "# Tables\n\nEvery table is read-only and shows the last committed checkpoint; a query that joins several sees them all at\n\
         one moment. Unknown is NULL, never 0. The comments are in the database too: `\\d+ tidegate.split_backfill_progress`.\n\n\
         This page is made from `sql/views`: change it there.\n",
    );
    for schema in ["tidegate", "rw_catalog"] {
        let comment = SCHEMAS.iter().find(|(name, ..)| *name == schema).unwrap().2;
        writeln!(out, "\n## Schema {schema}\n\nHolds {comment}.").unwrap();
        for view in VIEWS.iter().filter(|view| view.schema == schema) {
            describe(&mut out, &format!("{schema}.{}", view.name), view);
        }
        if schema == "tidegate" {
            describe(&mut out, "tidegate.check_rescale(source text, target text)", &CHECK_RESCALE);
            out.push_str(
                "\n### tidegate.can_rescale(source text, target text)\n\nTrue when every row of `check_rescale` passes. Its \
                 arguments may be columns: `SELECT name, tidegate.can_rescale(name, '4') FROM rw_sources`.\n",
            );
        }
    }
    out.push_str(
        "\n### internal_source_backfill_progress()\n\nThe rows of the state tables of materialized views that are being \
         created: `partition_id` and `backfill_progress`. The state table of one view is listed in \
         `rw_catalog.rw_internal_tables` and can be read by its name.\n\n## PostgreSQL's own schemas\n\n`pg_catalog` and \
         `information_schema` have the tables of PostgreSQL 15, with their columns. Those below tell of the \
         server's relations, users and sessions. `pg_type`, `pg_proc`, `pg_operator`, `pg_settings` and their like have \
         rows too; what there is none of, such as indexes and triggers, is an empty table.\n\n",
    );
    for view in VIEWS.iter().filter(|view| view.select.is_some()) {
        if ["pg_catalog", "information_schema"].contains(&&*view.schema) {
            writeln!(out, "- `{}.{}`: {}", view.schema, view.name, view.comment).unwrap();
        }
    }
    out
}

#[test]
fn the_reference_page_is_up_to_date() {
    let reference = reference();
    if std::env::var_os("TIDEGATE_REWRITE").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
        std::fs::write(PATH, &reference).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == reference, "docs/tables.md is out of date: TIDEGATE_REWRITE=1 cargo test reference");
}

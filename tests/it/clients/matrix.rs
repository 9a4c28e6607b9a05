//! The page `docs/clients.md`: a table a group, a row a client, a column a feature, and the reasons for what isn't there.
//! The README has the same tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/clients.md");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// What the tables stand between in the README.
const MARKS: [&str; 2] = ["<!-- the tables of docs/clients.md, made by the tests -->\n", "<!-- up to here -->\n"];

/// Clients of one kind, which have the same features.
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// What each of them has to say something of: the word, and what it stands for.
    pub features: &'static [(&'static str, &'static str)],
}

/// The libraries that programs use.
pub const DRIVERS: Group = Group {
    title: "Drivers",
    features: &[
        ("connect", "connects as a user without a password, and is told the server's parameters"),
        ("scram", "logs in with a password (SCRAM-SHA-256); a wrong one is refused with 28P01"),
        ("tls", "connects over TLS, and verifies the server's certificate"),
        ("text", "reads a value of every type in the text format"),
        ("binary", "reads a value of every type in the binary format"),
        ("parameters", "sends a value of every type as a parameter and gets it back"),
        ("arrays", "arrays of every type, with NULLs in them, to the server and back"),
        ("nulls", "NULL of every type, to the server and back"),
        ("batch", "many statements in one go: a pipeline, a batch, or executemany"),
        ("cursor", "fetches a large result in parts"),
        ("cancel", "cancels a running statement: 57014, and the connection lives on"),
        ("errors", "SQLSTATE, message, DETAIL, HINT and the position of an error"),
        ("transactions", "commit, rollback, a failed block (25P02) and savepoints"),
        ("prepared", "runs a prepared statement many times"),
        ("copy", "COPY (SELECT ...) TO STDOUT"),
        (
            "statements",
            "CREATE SOURCE and MATERIALIZED VIEW, a refused ALTER SOURCE (55000, with its DETAIL), check_rescale",
        ),
        ("notices", "sees the server's notices"),
        ("catalog", "what the driver itself asks the catalogs: types, tables, columns, keys"),
    ],
};

/// Libraries that the tests can't fetch.
pub const REPLAYED: Group = Group {
    title: "Replayed drivers",
    features: &[
        ("types", "the statements that load the types, all in one message"),
        ("pooling", "what a pool sends before it hands a connection out again"),
        ("hosts", "what tells a primary from a standby"),
        ("schema", "the schema collections: tables, columns, users, constraints"),
    ],
};

/// Programs that people browse and query with, and libraries that do it for them: run, but for their windows.
pub const TOOLS: Group = Group {
    title: "Tools",
    features: &[
        ("connect", "connects, and learns what it talks to"),
        ("databases", "lists databases, schemas and roles"),
        ("relations", "lists tables, views, materialized views and foreign tables"),
        ("columns", "their columns, with types"),
        ("details", "comments, keys, indexes, definitions, privileges, statistics"),
        ("queries", "its previews, charts, data sets or tests"),
        ("completion", "what its editor completes with"),
        ("errors", "shows what the server says of a wrong query, and goes on"),
    ],
};

/// Tools that the tests can't fetch, or not without their windows: what they send, in our own words.
pub const REPLAYED_TOOLS: Group = Group {
    title: "Replayed tools",
    features: &[
        ("connect", "what it sends first"),
        ("databases", "databases, schemas and roles"),
        ("relations", "tables, views, materialized views and foreign tables"),
        ("columns", "their columns, with types"),
        ("details", "keys, indexes, definitions, privileges, dependencies"),
        ("queries", "its previews, charts and variables"),
    ],
};

const GROUPS: &[&Group] = &[&DRIVERS, &REPLAYED, &TOOLS, &REPLAYED_TOOLS];

/// What a client said of a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Failed(String),
    /// It has no such thing, for this reason.
    None(String),
}

/// What a client said of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// Its version, where that is pinned.
    version: String,
    /// By the group's features.
    pub outcomes: Vec<(&'static str, Outcome)>,
}

impl Row {
    /// Reads lines of the form `version 1.2`, `feature ok`, `feature failed: why` and `feature none: why`. A feature that
    /// nothing is said of has failed.
    pub fn from_lines(group: &Group, name: &str, lines: &[String]) -> Self {
        let mut said = BTreeMap::new();
        let mut version = String::new();
        for line in lines {
            let (feature, outcome) = line.split_once(' ').unwrap_or((line, ""));
            let outcome = match outcome.split_once(": ") {
                _ if feature == "version" => {
                    version = outcome.to_owned();
                    continue;
                }
                None if outcome == "ok" => Outcome::Ok,
                Some(("failed", why)) => Outcome::Failed(why.to_owned()),
                Some(("none", why)) => Outcome::None(why.to_owned()),
                _ => panic!("{name} said {line:?}"),
            };
            assert!(group.features.iter().any(|(known, _)| *known == feature), "{name} said {line:?}");
            assert!(said.insert(feature, outcome).is_none(), "{name} said two things of {feature}");
        }
        let silent = || Outcome::Failed("nothing was said of it".to_owned());
        let outcomes =
            group.features.iter().map(|(feature, _)| (*feature, said.remove(feature).unwrap_or_else(silent))).collect();
        Self { name: name.to_owned(), version, outcomes }
    }

    /// Its line of the table.
    fn line(&self) -> String {
        let mut line = format!("| {} |", format!("{} {}", self.name, self.version).trim_end());
        for (_, outcome) in &self.outcomes {
            line.push_str(if *outcome == Outcome::Ok { " ✓ |" } else { " – |" });
        }
        line
    }

    /// Why it has no such thing, a line each.
    fn notes(&self) -> Vec<String> {
        let note = |(feature, outcome): &(&str, Outcome)| match outcome {
            Outcome::None(why) => Some(format!("- {}: {feature}: {why}", self.name)),
            _ => None,
        };
        self.outcomes.iter().filter_map(note).collect()
    }
}

/// The lines of the page that are about each client: its row and its notes, by group and name.
type Page = BTreeMap<(String, String), (String, Vec<String>)>;

/// Fails if the page says something else of a client than it has just said; or writes it, with TIDEGATE_REWRITE.
pub fn compare(group: &Group, row: &Row) {
    // Several tests write the page, one at a time.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = (group.title.to_owned(), row.name.clone());
    let now = (row.line(), row.notes());
    let mut page = read();
    if std::env::var_os("TIDEGATE_REWRITE").is_some() {
        page.insert(key, now);
        std::fs::write(PATH, written(&page)).unwrap();
        let [before, _, after] = readme();
        std::fs::write(README, [&before, MARKS[0], &tables(&page), MARKS[1], &after].concat()).unwrap();
    } else {
        let out_of_date = "docs/clients.md is out of date: TIDEGATE_REWRITE=1 cargo test --test it clients";
        assert_eq!(page.get(&key), Some(&now), "{out_of_date}");
    }
}

/// The groups and names of the clients that the page lists.
pub fn listed() -> Vec<(String, String)> {
    read().into_keys().collect()
}

/// Fails if the README has other tables than the page.
pub fn compare_readme() {
    assert_eq!(readme()[1], tables(&read()));
}

/// The README: what stands before the tables, they, and what stands behind them.
fn readme() -> [String; 3] {
    let text = std::fs::read_to_string(README).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).expect("the README has a place for the tables");
    let (tables, after) = rest.split_once(MARKS[1]).expect("it says where they end");
    [before, tables, after].map(str::to_owned)
}

/// The page as it stands.
fn read() -> Page {
    let text = std::fs::read_to_string(PATH).unwrap_or_default();
    let (mut page, mut group) = (Page::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut group);
        } else if let Some(rest) = line.strip_prefix("| ").filter(|rest| rest.contains(" ✓ ") || rest.contains(" – "))
        {
            let label = rest.split(" |").next().unwrap_or_default();
            page.insert((group.clone(), name(label).to_owned()), (line.to_owned(), Vec::new()));
        } else if let Some((name, _)) = line.strip_prefix("- ").and_then(|rest| rest.split_once(": ")) {
            let of = page.get_mut(&(group.clone(), name.to_owned()));
            of.unwrap_or_else(|| panic!("a note of no client: {line}")).1.push(line.to_owned());
        }
    }
    page
}

/// A client's label without its version.
fn name(label: &str) -> &str {
    match label.rsplit_once(' ') {
        Some((name, version)) if version.contains('.') => name,
        _ => label,
    }
}

/// A group's table.
fn table(page: &Page, group: &Group) -> String {
    let mut text = String::from("| |");
    group.features.iter().for_each(|(feature, _)| write!(text, " {feature} |").unwrap());
    writeln!(text, "\n|---|{}", ":---:|".repeat(group.features.len())).unwrap();
    rows(page, group).for_each(|(row, _)| writeln!(text, "{row}").unwrap());
    text
}

/// The lines of a group's clients.
fn rows<'a>(page: &'a Page, group: &'a Group) -> impl Iterator<Item = &'a (String, Vec<String>)> {
    page.iter().filter(move |((title, _), _)| title == group.title).map(|(_, lines)| lines)
}

/// All tables, as the README has them.
fn tables(page: &Page) -> String {
    let titled = |group: &&Group| format!("\n*{}*\n\n{}", group.title, table(page, group));
    GROUPS.iter().map(titled).collect::<String>() + "\n"
}

/// The page's text.
fn written(page: &Page) -> String {
    let mut text = String::from(
        "# Clients\n\nWhat the tests have run against a server: a ✓ is a feature that a real client has tried and found right, a – \
         one that it doesn't have, for the reason below the table.\n\n\
         This page is made by the tests, and compared in each run: `TIDEGATE_REWRITE=1 cargo test --test it clients`.\n",
    );
    for group in GROUPS {
        writeln!(text, "\n## {}\n\n{}", group.title, table(page, group)).unwrap();
        rows(page, group).flat_map(|(_, notes)| notes).for_each(|note| writeln!(text, "{note}").unwrap());
        text.push_str("\n| feature | what was tried |\n|---|---|\n");
        group.features.iter().for_each(|(feature, what)| writeln!(text, "| {feature} | {what} |").unwrap());
    }
    text
}

//! Users: what they do, and what they were told. What they were told must stay true.

use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::backfill::check::Policy;
use tidegate::backfill::id::RescaleId;
use tidegate::backfill::target::Target;
use tidegate::clock;
use tidegate::engine::embedded::Embedded;
use tidegate::engine::{CreateSource, CreateView, Engine, RateLimit, Rescale, Rescaled};
use tidegate::error::{Error, Result};
use tidegate::store::format::MessageFormat;
use tidegate::store::relations::RelationKind;
use tidegate::store::rescales::Asked;
use tokio_util::sync::CancellationToken;

use super::run::Shared;

/// The queries of views. A view's definition is the number of its query.
pub const QUERIES: [&str; 5] = [
    "SELECT v FROM s0",
    "SELECT v FROM s0 WHERE v % 2 = 0",
    "SELECT v + 1 AS v FROM s1",
    "SELECT v FROM s0 UNION ALL SELECT v FROM s1",
    "SELECT v FROM s0 UNION ALL SELECT -v AS v FROM s0",
];

/// What a query makes of a row, by source.
pub fn results(query: usize, source: &str, v: i64) -> Vec<i64> {
    match (query, source) {
        (0 | 3, "s0") | (3, "s1") => vec![v],
        (1, "s0") if v % 2 == 0 => vec![v],
        (2, "s1") => vec![v + 1],
        (4, "s0") => vec![v, -v],
        _ => Vec::new(),
    }
}

/// What somebody was told of an ALTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing: the process died.
    Nothing,
    Committed(RescaleId),
    Deferred(RescaleId),
    Refused,
    /// There were as many actors already.
    Unchanged,
    /// Nothing was done.
    NotDone,
}

/// What is known of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Exists,
    Gone,
    /// The process died in the middle.
    Unknown,
}

/// All that users were told.
#[derive(Default)]
pub struct Ledger {
    /// By statement: each is written in its own way.
    pub alters: BTreeMap<String, Told>,
    pub views: BTreeMap<String, Known>,
    /// Rescales whose cancellation was asked for, and whether it was confirmed.
    pub cancels: BTreeMap<RescaleId, bool>,
}

pub struct Client {
    pub name: String,
    pub engine: Arc<Embedded>,
    pub shared: Arc<Shared>,
    pub rng: fastrand::Rng,
}

pub async fn create_source(engine: &Embedded, name: &str, parallelism: u32) -> Result<()> {
    let request = CreateSource {
        name: name.into(),
        owner: "root".into(),
        definition: format!("CREATE SOURCE {name}"),
        connector: "test".into(),
        options: tidegate::secret::Options::default(),
        format: MessageFormat::default(),
        columns: vec![("v".into(), "int8".into())],
        parallelism: fixed(parallelism),
        rate_limit: None,
    };
    engine.create_source(request, &CancellationToken::new()).await
}

fn fixed(n: u32) -> Target {
    Target::Fixed(NonZeroU32::new(n).unwrap())
}

impl Client {
    /// Does one thing after the other until the world heals.
    pub async fn run(mut self) {
        loop {
            let pause = self.rng.u64(..300_000);
            clock::sleep_until(clock::now() + Duration::from_micros(pause)).await;
            if self.shared.healing.is_cancelled() {
                return;
            }
            match self.rng.u32(..20) {
                0..5 => self.create_view().await,
                5..7 => self.drop_view().await,
                7..14 => self.alter().await,
                14 => self.cancel().await,
                15 => {
                    let told = self.engine.recover().await;
                    self.say("RECOVER", &told);
                }
                16..18 => self.limit().await,
                18 => {
                    let told = self.patiently(|engine, cancel| async move { engine.flush(&cancel).await }).await;
                    self.say("FLUSH", &told);
                }
                _ => {
                    let told = self.patiently(|engine, cancel| async move { engine.wait(&cancel).await }).await;
                    self.say("WAIT", &told);
                }
            }
        }
    }

    fn say<T: std::fmt::Debug>(&self, what: &str, told: &Result<T>) {
        let told = match told {
            Ok(told) => format!("{told:?}"),
            Err(error) => format!("error: {error}"),
        };
        self.shared.say(&format!("{}: {what}: {told}", self.name));
    }

    /// Runs a statement; the user's patience ends at some time.
    async fn patiently<T, F: Future<Output = Result<T>>>(
        &mut self,
        statement: impl FnOnce(Arc<Embedded>, CancellationToken) -> F,
    ) -> Result<T> {
        let cancel = self.shared.healing.child_token();
        let micros = if self.rng.u32(..4) == 0 { self.rng.u64(..200_000) } else { self.rng.u64(300_000..1_000_000) };
        let mut running = std::pin::pin!(statement(Arc::clone(&self.engine), cancel.clone()));
        tokio::select! {
            biased;
            told = &mut running => return told,
            () = clock::sleep_until(clock::now() + Duration::from_micros(micros)) => cancel.cancel(),
        }
        running.await
    }

    async fn create_view(&mut self) {
        let query = self.rng.usize(..QUERIES.len());
        let order = if query == 3 && self.rng.bool() { vec![("s0".into(), "s1".into())] } else { Vec::new() };
        let request = CreateView {
            name: self.name.clone(),
            owner: "root".into(),
            definition: query.to_string(),
            query: QUERIES[query].into(),
            rate_limit: [None, Some(0), Some(30), Some(30)][self.rng.usize(..4)],
            order,
            background: self.rng.u32(..3) > 0,
        };
        let what = format!("CREATE {query} limit {:?} background {}", request.rate_limit, request.background);
        self.shared.say(&format!("{}: {what}", self.name));
        let before = self.note(Known::Unknown).unwrap_or(Known::Gone);
        let told = self.patiently(|engine, cancel| async move { engine.create_view(request, &cancel).await }).await;
        self.note(match &told {
            Ok(()) => Known::Exists,
            // What is being created goes on without who asked for it.
            Err(Error::ShuttingDown) => Known::Unknown,
            Err(_) => before,
        });
        self.say(&what, &told);
    }

    async fn drop_view(&mut self) {
        let before = self.note(Known::Unknown).unwrap_or(Known::Gone);
        let names = vec![self.name.clone()];
        let told = self
            .patiently(|engine, cancel| async move {
                engine.drop_relations(RelationKind::MaterializedView, names, false, &cancel).await
            })
            .await;
        self.note(if told.is_ok() { Known::Gone } else { before });
        self.say("DROP", &told);
    }

    fn note(&self, known: Known) -> Option<Known> {
        self.shared.ledger().views.insert(self.name.clone(), known)
    }

    async fn alter(&mut self) {
        let source = ["s0", "s1"][self.rng.usize(..2)];
        let policy =
            [Policy::Forwarding, Policy::AllFinished, Policy::StageAware, Policy::StageAware][self.rng.usize(..4)];
        let (target, deferred) = (self.rng.u32(1..=5), self.rng.bool());
        let statement = format!("{}: ALTER {source} TO {target} {policy} {deferred} #{}", self.name, self.rng.u32(..));
        self.shared.say(&statement);
        self.shared.ledger().alters.insert(statement.clone(), Told::Nothing);
        let request = Rescale {
            source: source.into(),
            target: fixed(target),
            policy,
            deferred,
            statement: statement.clone(),
            requested_by: "root".into(),
            application_name: "sim".into(),
        };
        let told = self.patiently(|engine, cancel| async move { engine.rescale(request, &cancel).await }).await;
        self.say(&statement, &told);
        let told = match told {
            Ok(Rescaled::Committed { id, .. }) => Told::Committed(id),
            Ok(Rescaled::Deferred { id, .. }) => Told::Deferred(id),
            Err(Error::UnsafeRescale(_)) => Told::Refused,
            Ok(Rescaled::Unchanged { .. }) => Told::Unchanged,
            Err(_) => Told::NotDone,
        };
        self.shared.ledger().alters.insert(statement, told);
    }

    async fn cancel(&mut self) {
        let deferred: Vec<RescaleId> = {
            let ledger = self.shared.ledger();
            let ids = ledger.alters.values().filter_map(|told| match told {
                Told::Deferred(id) => Some(*id),
                _ => None,
            });
            ids.collect()
        };
        let Some(id) = self.rng.choice(deferred) else { return };
        self.shared.ledger().cancels.entry(id).or_insert(false);
        let told = self.engine.cancel_rescale(id, "root").await;
        self.say(&format!("CANCEL RESCALE {id}"), &told);
        if told.is_ok() {
            self.shared.ledger().cancels.insert(id, true);
        }
    }

    async fn limit(&mut self) {
        let (kind, name, which) = if self.rng.bool() {
            (RelationKind::Source, ["s0", "s1"][self.rng.usize(..2)].to_owned(), RateLimit::Source)
        } else {
            (RelationKind::MaterializedView, self.name.clone(), RateLimit::Backfill)
        };
        let limit = [None, None, Some(0), Some(30), Some(300)][self.rng.usize(..5)];
        let told = self.engine.set_rate_limit(kind, &name, which, limit, Asked::default()).await;
        self.say(&format!("LIMIT {name} {limit:?}"), &told);
    }
}

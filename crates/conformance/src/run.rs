//! Runs many programs against both sides concurrently, groups the differences, and shrinks one program per group.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cluster::{Cluster, Options};
use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;

use crate::compare::{Differences, compare};
use crate::difference::Difference;
use crate::known::Known;
use crate::normal::normalise;
use crate::program::Program;
use crate::real::Real;
use crate::replay::{post, replay};
use crate::side::{Answer, Asked, Side};
use crate::{generate, shrink};

/// How often a difference must be seen. A real server's answer may vary, for example with the order of a Go map; that
/// does not count as a difference.
const TRIES: usize = 8;
/// How long both servers may take until they serve a definition's kinds.
const SERVED: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(200);

/// Both servers, with the tests' definitions installed.
pub struct Twins {
    real: Option<Real>,
    cluster: Cluster,
    ours: Side,
    list: Vec<Known>,
    namespaces: AtomicUsize,
    _folder: tempfile::TempDir,
}

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// The number of programs.
    pub programs: u64,
    /// The number of concurrent programs.
    pub side_by_side: usize,
    /// The number of groups of differences to shrink and show.
    pub shown: usize,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of programs.
    pub programs: usize,
    /// The number of requests to each side.
    pub requests: usize,
    /// The duration of the run.
    pub took: Duration,
    /// The number of programs with each known difference.
    pub known: BTreeMap<String, usize>,
    /// The unknown differences by signature: count, seed of one program, and its difference.
    pub unknown: BTreeMap<String, (usize, u64, Difference)>,
    /// The number of programs with an unknown difference.
    pub differing: usize,
}

impl Twins {
    /// Starts the embedded server and, if a folder of programs is given, the real one.
    ///
    /// # Errors
    /// When a server does not start or rejects the definitions.
    pub async fn start(binaries: Option<&Path>, list: Vec<Known>) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut options = Options::new(folder.path().join("cluster"));
        options.controllers = false;
        // Creates the service accounts that a program's pods use, along with its namespace.
        options.service_accounts = true;
        options.nodes = 0;
        let cluster = Cluster::start(options).await.map_err(|error| error.to_string())?;
        let ours = Side::new(cluster.client());
        install(&ours).await?;
        let real = match binaries {
            Some(binaries) => Some(Real::start(binaries).await.map_err(|error| error.to_string())?),
            None => None,
        };
        if let Some(real) = &real {
            install(&real.side).await?;
        }
        Ok(Self { real, cluster, ours, list, namespaces: AtomicUsize::new(0), _folder: folder })
    }

    /// Returns the embedded server's normalized answers.
    ///
    /// # Errors
    /// When the program's namespace cannot be created.
    pub async fn ours(&self, program: &Program) -> Result<Vec<Answer>, String> {
        let (began, namespace) = (Timestamp::now(), self.namespace(program));
        Ok(normalise(program, &replay(program, &self.ours, &namespace).await?, &namespace, began))
    }

    /// Returns both servers' normalized answers, the real one's first.
    ///
    /// # Errors
    /// When there is no real server, or the program's namespace cannot be created.
    pub async fn both(&self, program: &Program) -> Result<(Vec<Answer>, Vec<Answer>), String> {
        let real = self.real.as_ref().ok_or("there is no real server in this run")?;
        let (began, namespace) = (Timestamp::now(), self.namespace(program));
        let (there, here) =
            futures::join!(replay(program, &real.side, &namespace), replay(program, &self.ours, &namespace));
        let normal = |answers: Vec<Answer>| normalise(program, &answers, &namespace, began);
        Ok((normal(there?), normal(here?)))
    }

    /// Returns the differences in the answers to a program, if they occur every time.
    ///
    /// # Errors
    /// As [`Twins::both`].
    pub async fn difference(&self, program: &Program) -> Result<Differences, String> {
        let mut outcome = Differences::default();
        for _ in 0..TRIES {
            let (real, ours) = self.both(program).await?;
            outcome = compare(program, &real, &ours, &self.list);
            if outcome.unknown.is_empty() {
                break;
            }
        }
        Ok(outcome)
    }

    fn namespace(&self, program: &Program) -> String {
        format!("twin-{}-{}", program.seed, self.namespaces.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends both servers.
    pub async fn stop(self) {
        if let Some(real) = self.real {
            real.stop().await;
        }
        self.cluster.stop().await;
    }

    /// Shrinks the program of a seed to the smallest that shows a difference with this signature.
    pub async fn least(&self, seed: u64, signature: &str) -> Program {
        shrink::shrink(generate::program(seed), |program| async move {
            let Ok((real, ours)) = self.both(&program).await else { return false };
            let found = compare(&program, &real, &ours, &self.list);
            found.unknown.first().is_some_and(|difference| difference.signature() == signature)
        })
        .await
    }
}

/// Runs the programs of consecutive seeds.
///
/// # Errors
/// When a program cannot be run at all.
pub async fn run(twins: Arc<Twins>, plan: Plan) -> Result<Report, String> {
    let began = Instant::now();
    let mut report = Report::default();
    let mut outcomes = futures::stream::iter(plan.seed..plan.seed + plan.programs)
        .map(|seed| {
            let twins = twins.clone();
            tokio::spawn(async move {
                let program = generate::program(seed);
                let outcome = twins.difference(&program).await;
                (seed, program.steps.len(), outcome)
            })
        })
        .buffer_unordered(plan.side_by_side);
    while let Some(done) = outcomes.next().await {
        let (seed, requests, outcome) = done.map_err(|error| format!("a program ended early: {error}"))?;
        let outcome = outcome.map_err(|error| format!("program {seed}: {error}"))?;
        report.programs += 1;
        report.requests += requests;
        report.take(seed, outcome);
    }
    report.took = began.elapsed();
    Ok(report)
}

impl Report {
    fn take(&mut self, seed: u64, outcome: Differences) {
        let mut met = outcome.known;
        met.sort();
        met.dedup();
        for name in met {
            *self.known.entry(name).or_default() += 1;
        }
        let Some(first) = outcome.unknown.into_iter().next() else { return };
        self.differing += 1;
        let entry = self.unknown.entry(first.signature()).or_insert_with(|| (0, seed, first));
        entry.0 += 1;
    }

    /// Returns the groups of unknown differences, the most frequent first.
    pub fn groups(&self) -> Vec<(&String, &(usize, u64, Difference))> {
        let mut groups = self.unknown.iter().collect::<Vec<_>>();
        groups.sort_by_key(|(_, (count, _, _))| std::cmp::Reverse(*count));
        groups
    }

    /// Returns a summary in a few lines.
    pub fn summary(&self) -> String {
        let mut text = format!(
            "{} programs, {} requests to each server, {:.0} s: {} differ in {} ways\n",
            self.programs,
            self.requests,
            self.took.as_secs_f64(),
            self.differing,
            self.unknown.len()
        );
        for (name, count) in &self.known {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "known: {name}: {count} programs");
        }
        text
    }
}

/// Installs the definitions that programs use, and waits until they are served.
async fn install(side: &Side) -> Result<(), String> {
    for definition in generate::definitions()? {
        post(side, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        let text = |pointer: &str| {
            definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let served = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        for version in served.filter(|version| version["served"] == true) {
            let name = version["name"].as_str().unwrap_or_default();
            wait(side, &format!("/apis/{}/{name}/{}", text("/spec/group"), text("/spec/names/plural")))
                .await?;
        }
    }
    Ok(())
}

async fn wait(side: &Side, path: &str) -> Result<(), String> {
    let asked =
        Asked { method: "GET".into(), uri: path.into(), headers: vec![], body: None, is_watch: false };
    let began = Instant::now();
    loop {
        let answer = side.ask(&asked).await;
        if answer.code == 200 {
            return Ok(());
        }
        if began.elapsed() > SERVED {
            return Err(format!("{path} is not served after {SERVED:?}: {} {}", answer.code, answer.body));
        }
        tokio::time::sleep(STEP).await;
    }
}

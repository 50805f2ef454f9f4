//! The pods that a job has and had: those that are there as the watch has them, those that are gone as the archive of their
//! output names them.

use std::collections::BTreeMap;

use api::Phase;
use history::logs as archive;
use jiff::Timestamp;
use jobs::Kind;
use jobs::view::Row;
use kube::api::DynamicObject;

use crate::collector::RunName;
use crate::service::Service;

/// What a pod is in its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// `Launcher`, `Worker`, or the name of what else it is.
    pub role: String,
    /// The Worker's index.
    pub index: Option<i32>,
}

impl Part {
    /// Reads `launcher` or `worker-3`.
    pub fn of(text: &str) -> Self {
        match text.strip_prefix("worker-") {
            Some(index) => Self { role: "Worker".to_owned(), index: index.parse().ok() },
            None if text == "launcher" => Self { role: "Launcher".to_owned(), index: None },
            None => Self { role: text.to_owned(), index: None },
        }
    }
}

/// The pods of a job.
#[derive(Debug, Default)]
pub struct Ran {
    /// By name.
    pub pods: BTreeMap<String, Part>,
    /// When the first was created, as far as known.
    pub since: Option<Timestamp>,
}

impl Ran {
    fn add(&mut self, pod: String, part: &str, created: Option<Timestamp>) {
        self.pods.insert(pod, Part::of(part));
        self.since = [self.since, created].into_iter().flatten().min();
    }
}

/// Returns the pods of a job.
pub async fn pods(service: &Service, job: &DynamicObject, row: &Row) -> Ran {
    let mut ran = Ran::default();
    for facts in service.ledger.of_job(&service.board, &row.namespace, &row.name, &row.uid) {
        ran.add(facts.name.clone(), &facts.part, Some(facts.created));
    }
    // Without the store, those that are gone are unknown.
    if let Ok(opened) = service.kept.opened() {
        match archive::sources(&opened.archive, &row.uid, None).await {
            Ok(sources) => {
                let runs = sources.iter().filter_map(|source| source.container.parse::<RunName>().ok());
                for run in runs {
                    ran.add(run.pod, &run.part, Timestamp::from_second(run.created).ok());
                }
            }
            Err(error) => tracing::debug!(%error, "cannot read which pods a job had"),
        }
    }
    // A pending job counts as started when it was created.
    let has_run = row.phase != Phase::Pending;
    let started = row.running_since.or(row.started).filter(|_| has_run);
    let has_worker = ran.pods.values().any(|part| part.index.is_some());
    if row.kind == Kind::MpiJob && !has_worker && started.is_some() {
        // The service was not there when it ran, but the names of its Workers follow from its own.
        for index in 0..usize::try_from(row.kind.workers(job)).unwrap_or(0) {
            ran.add(plan::worker_name(&row.name, index), &format!("worker-{index}"), None);
        }
    }
    ran.since = ran.since.or(started);
    ran
}

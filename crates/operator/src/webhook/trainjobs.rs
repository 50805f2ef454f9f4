//! Decisions about TrainJobs and runtimes: the times of patches, faults, forbidden changes, warnings. Where Kubeflow
//! Trainer runs, its own webhook decides, and everything passes here: it runs jobs of frameworks that we do not.

use std::time::{Duration, Instant};

use api::{ClusterTrainingRuntime, TrainJob, TrainingRuntime, TrainingRuntimeSpec};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use plan::Fault;
use plan::trainjob::{self, Runtime};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::decide::owner;
use super::review::{Decision, Request};
use crate::trainjobs::{as_runtime, is_trainer_here};

/// An answer on whether Trainer runs is good for this long.
const FRESH: Duration = Duration::from_secs(60);

/// Whether Trainer runs, as lately found.
#[derive(Default)]
pub(super) struct Beside(Mutex<Option<(Instant, bool)>>);

impl Beside {
    async fn is_trainer_here(&self, client: &Client) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, found)) = *known
            && at.elapsed() < FRESH
        {
            return found;
        }
        let found = is_trainer_here(client).await;
        *known = Some((Instant::now(), found));
        found
    }
}

/// A runtime of either kind under review.
#[derive(Debug, Deserialize)]
pub(super) struct AnyRuntime {
    spec: TrainingRuntimeSpec,
}

/// Stamps the patches that were added or changed with the time, and records who creates the job.
pub(super) fn default(request: &Request<TrainJob>, trusted_creators: &[String], now: Timestamp) -> Decision {
    let Some(job) = &request.object else { return Decision::default() };
    let times = trainjob::patch_times(request.old_object.as_ref(), job, now);
    let stamped = job.spec.runtime_patches.iter().zip(times).enumerate();
    let changed = stamped.filter(|(_, (patch, time))| patch.time.as_ref() != Some(time));
    let stamps = changed.map(|(index, (_, time))| {
        json!({ "op": "add", "path": format!("/spec/runtimePatches/{index}/time"), "value": time })
    });
    Decision { patch: stamps.chain(owner(request, trusted_creators)).collect(), ..Decision::default() }
}

/// Refuses a TrainJob that cannot run with its runtime, or a change that is not allowed, with every fault, and warns of a
/// deprecated runtime and of annotations without effect. A change that leaves the spec alone passes.
///
/// # Errors
/// If the runtime could not be read.
pub(super) async fn validate(
    client: &Client,
    beside: &Beside,
    request: &Request<TrainJob>,
) -> Result<Decision, kube::Error> {
    let Some(job) = &request.object else { return Ok(Decision::default()) };
    let same = |old: &TrainJob| old.spec == job.spec && old.metadata.annotations == job.metadata.annotations;
    let untouched = request.old_object.as_ref().is_some_and(same);
    if untouched || job.metadata.deletion_timestamp.is_some() || beside.is_trainer_here(client).await {
        return Ok(Decision::default());
    }
    let changes =
        request.old_object.as_ref().map(|old| trainjob::forbidden_changes(old, job)).unwrap_or_default();
    if !changes.is_empty() {
        return Ok(deny(&changes));
    }
    let reference = match trainjob::runtime_ref(job) {
        Ok(reference) => reference,
        Err(refusal) => return Ok(deny(&refusal.faults)),
    };
    let namespace = request.namespace.as_str();
    let snapshot = match &request.old_object {
        Some(_) => of_snapshot(client, namespace, &job.name_any()).await?,
        None => None,
    };
    let runtime = match snapshot {
        Some(runtime) => Some(runtime),
        None => current(client, namespace, reference).await?,
    };
    let Some(runtime) = runtime else {
        let (kind, name) = reference;
        return Ok(deny(&[Fault {
            path: "spec.runtimeRef".to_owned(),
            message: format!("{kind} {name:?} does not exist"),
            advice: "create the runtime before the TrainJob".to_owned(),
        }]));
    };
    let mut warnings = trainjob::ineffective(request.old_object.as_ref(), job);
    if request.old_object.is_none() {
        warnings.extend(trainjob::warnings(job, &runtime));
    }
    Ok(match trainjob::validate(job, &runtime, &plan::Settings::default()) {
        Ok(_) => Decision { warnings, ..Decision::default() },
        Err(refusal) => deny(&refusal.faults),
    })
}

/// The runtime as a job that exists keeps it.
async fn of_snapshot(client: &Client, namespace: &str, job: &str) -> Result<Option<Runtime>, kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = maps.get_opt(&trainjob::snapshot_name(job)).await?;
    let parsed = found.as_ref().and_then(trainjob::snapshot_text).map(serde_saphyr::from_str);
    Ok(parsed.and_then(Result::ok).as_ref().and_then(Runtime::of))
}

async fn current(
    client: &Client,
    namespace: &str,
    (kind, name): (&str, &str),
) -> Result<Option<Runtime>, kube::Error> {
    Ok(if kind == "TrainingRuntime" {
        let found = Api::<TrainingRuntime>::namespaced(client.clone(), namespace).get_opt(name).await?;
        found.map(|it| as_runtime(kind, it.metadata, it.spec))
    } else {
        let found = Api::<ClusterTrainingRuntime>::all(client.clone()).get_opt(name).await?;
        found.map(|it| as_runtime(kind, it.metadata, it.spec.runtime))
    })
}

/// Refuses a runtime that could run no job, whatever its framework.
pub(super) fn validate_runtime(request: &Request<AnyRuntime>) -> Decision {
    let faults = request.object.as_ref().map(|runtime| trainjob::runtime_faults(&runtime.spec));
    match faults.filter(|faults| !faults.is_empty()) {
        Some(faults) => deny(&faults),
        None => Decision::default(),
    }
}

fn deny(faults: &[Fault]) -> Decision {
    let listed: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Decision::deny(422, "Invalid", listed.join("; "))
}

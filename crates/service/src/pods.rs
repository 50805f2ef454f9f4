//! Watches the pods of jobs as the service's own account, each reduced to what usage and the log archive need.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{LABEL_JOB_NAME, LABEL_OPERATOR_NAME};
use controller_runtime::cache::{Cache, Change, follow_selected};
use history::usage::Resources;
use jiff::Timestamp;
use jobs::describe::pod_view;
use jobs::logs::kept::part;
use jobs::{Kind, LABEL_JOB_SET};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde::{Deserialize, Deserializer};
use tokio_util::sync::CancellationToken;

use crate::board::{Board, Entry};

/// A container that has started, in one of its runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The container's place in the pod, from 0.
    pub place: usize,
    /// The container's name.
    pub container: String,
    /// How often it was restarted before.
    pub restarts: i32,
    /// Whether this run has ended.
    pub ended: bool,
}

/// What is known of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
    /// When its node took it: from then on it holds its resources.
    pub started: Option<Timestamp>,
    /// When its last container ended, if the pod has ended.
    pub ended: Option<Timestamp>,
    /// What it holds.
    pub resources: Resources,
    /// `launcher`, `worker-3` or `master-0`; empty if its output is of no part.
    pub part: String,
    /// The job's attempt that it was made for; 0 if the job's kind counts none.
    pub attempt: u32,
    /// The containers that have started.
    pub runs: Vec<Run>,
    /// The job's name, and the kinds that it may have.
    job: String,
    kinds: &'static [Kind],
}

impl Facts {
    /// Returns the job that the pod belongs to, if it is known.
    pub fn job(&self, board: &Board) -> Option<Arc<Entry>> {
        let found =
            self.kinds.iter().find_map(|kind| board.get(&(*kind, self.namespace.clone(), self.job.clone())));
        // A job of the same name that is younger than the pod is not its job.
        found.filter(|job| job.created.is_some_and(|created| created <= self.created))
    }

    fn of(pod: &Pod) -> Self {
        let label = |name: &str| pod.labels().get(name).cloned();
        let (job, kinds): (_, &[Kind]) = match (label(LABEL_JOB_NAME), label(LABEL_OPERATOR_NAME).as_deref())
        {
            (Some(job), Some(api::OPERATOR_NAME)) => (job, &[Kind::MpiJob]),
            (Some(job), Some("pytorchjob-controller")) => (job, &[Kind::PyTorchJob]),
            (Some(job), Some("tfjob-controller")) => (job, &[Kind::TfJob]),
            (Some(job), _) => (job, &[Kind::MpiJob, Kind::PyTorchJob, Kind::TfJob]),
            (None, _) => (label(LABEL_JOB_SET).unwrap_or_default(), &[Kind::TrainJob]),
        };
        let view = pod_view(pod);
        let status = pod.status.as_ref();
        let statuses = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        let counts = kinds.contains(&Kind::MpiJob);
        Self {
            uid: pod.uid().unwrap_or_default(),
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            created: view.created.unwrap_or_default(),
            started: status.and_then(|status| Some(status.start_time.as_ref()?.0)),
            ended: semantics::has_ended(pod).then(|| last_end(statuses)).flatten(),
            resources: pod.spec.as_ref().map(resources).unwrap_or_default(),
            part: part(&view),
            attempt: if counts { plan::attempt_of(&pod.metadata) } else { 0 },
            runs: runs(pod, statuses),
            job,
            kinds,
        }
    }

    /// The name of the pod's job.
    pub fn job_name(&self) -> &str {
        &self.job
    }

    /// When the pod stopped to hold its resources, if it is gone now.
    pub fn gone(&self, now: Timestamp) -> Timestamp {
        self.ended.unwrap_or(now)
    }
}

/// When the last container ended; `None` unless all have ended.
fn last_end(statuses: &[ContainerStatus]) -> Option<Timestamp> {
    let ends = statuses.iter().map(|status| {
        let ended = status.state.as_ref()?.terminated.as_ref()?;
        Some(ended.finished_at.as_ref()?.0)
    });
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn resources(spec: &k8s_openapi::api::core::v1::PodSpec) -> Resources {
    let requests = semantics::pod_requests(spec);
    let amount = |name: &str, of: fn(&semantics::Quantity) -> i128| {
        requests.get(name).and_then(|amount| u64::try_from(of(amount)).ok()).unwrap_or(0)
    };
    let gpus: BTreeMap<String, u64> = requests
        .iter()
        .filter(|(name, _)| semantics::is_gpu(name))
        .filter_map(|(name, amount)| Some((name.clone(), u64::try_from(amount.units()).ok()?)))
        .collect();
    Resources {
        cpu_millicores: amount("cpu", semantics::Quantity::millis),
        memory_bytes: amount("memory", semantics::Quantity::units),
        gpus,
        gpu_model: jobs::overview::model_of(spec).unwrap_or_default().to_owned(),
    }
}

fn runs(pod: &Pod, statuses: &[ContainerStatus]) -> Vec<Run> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let of = |(place, container): (usize, &k8s_openapi::api::core::v1::Container)| {
        let status = statuses.iter().find(|status| status.name == container.name)?;
        let state = status.state.as_ref()?;
        let ended = state.terminated.is_some();
        (ended || state.running.is_some()).then(|| Run {
            place,
            container: container.name.clone(),
            restarts: status.restart_count,
            ended,
        })
    };
    containers.enumerate().filter_map(of).collect()
}

/// A pod, reduced.
#[derive(Clone, Debug)]
pub struct JobPod {
    metadata: ObjectMeta,
    facts: Arc<Facts>,
}

impl<'de> Deserialize<'de> for JobPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = Pod::deserialize(deserializer)?;
        let facts = Arc::new(Facts::of(&pod));
        let metadata = ObjectMeta {
            name: pod.metadata.name,
            namespace: pod.metadata.namespace,
            uid: pod.metadata.uid,
            resource_version: pod.metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, facts })
    }
}

semantics::resource_as! {
    impl for JobPod as Pod {
        self => &self.metadata, &mut self.metadata
    }
}

/// Watches all pods of jobs until `stop`. `hear` gets each change: the pod, and whether it is gone.
pub fn watch(
    client: &Client,
    stop: &CancellationToken,
    hear: impl Fn(&Arc<Facts>, bool) + Clone + Send + Sync + 'static,
) {
    for label in [LABEL_JOB_NAME, LABEL_JOB_SET] {
        let (cache, hear): (Cache<JobPod>, _) = (Cache::default(), hear.clone());
        cache.on_change(stop, move |change: &Change<JobPod>| {
            let replaced = match (&change.old, &change.new) {
                (Some(old), Some(new)) => Some(old).filter(|old| old.facts.uid != new.facts.uid),
                (old, None) => old.as_ref(),
                (None, Some(_)) => None,
            };
            if let Some(old) = replaced {
                hear(&old.facts, true);
            }
            if let Some(new) = &change.new {
                hear(&new.facts, false);
            }
        });
        let (api, stop) = (Api::all(client.clone()), stop.clone());
        tokio::spawn(async move { follow_selected(api, Some(label), cache, stop).await });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(status: Value) -> Facts {
        let container = |name: &str, gpus: u32| {
            json!({ "name": name, "image": "i",
            "resources": { "limits": { "cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": gpus } } })
        };
        let pod: JobPod = serde_json::from_value(json!({
            "metadata": { "name": "a-worker-3", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "training.kubeflow.org/job-name": "a", "training.kubeflow.org/job-role": "worker" } },
            "spec": { "containers": [container("main", 2), container("side", 0)] }, "status": status,
        }))
        .unwrap();
        Facts::clone(&pod.facts)
    }

    #[test]
    fn a_pod_holds_its_requests_from_its_start_to_the_end_of_its_last_container() {
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:06Z" } });
        let ended = |second: u32| json!({ "terminated": { "exitCode": 0, "finishedAt": format!("2026-01-01T00:01:{second:02}Z") } });
        let status = |phase: &str, main: Value, side: Value| {
            json!({ "phase": phase, "startTime": "2026-01-01T00:00:05Z", "containerStatuses": [
                { "name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 1, "state": main },
                { "name": "side", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": side }] })
        };
        let held = facts(status("Running", ended(1), running.clone()));
        assert_eq!((held.part.as_str(), held.attempt, held.ended), ("worker-3", 1, None));
        assert_eq!((held.resources.cpu_millicores, held.resources.memory_bytes), (3000, 2 << 30));
        assert_eq!(held.resources.gpus.get("nvidia.com/gpu"), Some(&2));
        assert_eq!(held.started.unwrap().to_string(), "2026-01-01T00:00:05Z");
        let of = |run: &Run| (run.container.clone(), run.restarts, run.ended);
        let runs: Vec<_> = held.runs.iter().map(of).collect();
        assert_eq!(runs, [("main".to_owned(), 1, true), ("side".to_owned(), 0, false)]);
        let over = facts(status("Succeeded", ended(1), ended(7)));
        assert_eq!(over.ended.unwrap().to_string(), "2026-01-01T00:01:07Z");
        assert_eq!(facts(json!({})).runs, []);
    }
}

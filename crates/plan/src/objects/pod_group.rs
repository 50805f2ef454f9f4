//! The PodGroup by which a gang scheduler starts all pods of a job or none, and what links the pods to it. Fields,
//! defaults and sums are upstream's (`kubeflow/mpi-operator`, `pkg/controller/podgroup.go`), except for a Launcher
//! that waits for its Workers: it is not part of the gang, which would otherwise wait for it forever. Kubernetes' own
//! PodGroup follows `k8s.io/api/scheduling/v1beta1` of 1.37.

use k8s_openapi::api::core::v1::{PodSchedulingGroup, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{metadata, watched_labels};
use semantics::{Amounts, Quantity};

use crate::observed::ObservedState;
use crate::validate::{LauncherCreation, ValidJob};

/// The annotation by which Volcano finds a pod's group.
const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
/// The label by which scheduler-plugins find a pod's group.
const PLUGINS_GROUP: &str = "scheduling.x-k8s.io/pod-group";

/// The scheduler that schedules jobs as gangs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gang {
    /// Volcano.
    Volcano,
    /// The coscheduling plug-in of scheduler-plugins, in the scheduler of this name.
    SchedulerPlugins(String),
    /// Kubernetes' own scheduler, if the API has PodGroups (1.37 and later).
    Kubernetes,
}

impl Gang {
    /// Parses upstream's flag `--gang-scheduling`: empty, `volcano`, or a scheduler that runs the plug-in.
    /// `kubernetes` is our addition.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" => None,
            "volcano" => Some(Self::Volcano),
            "kubernetes" => Some(Self::Kubernetes),
            scheduler => Some(Self::SchedulerPlugins(scheduler.to_owned())),
        }
    }

    /// Group and version of the PodGroup API.
    #[must_use]
    pub fn api(&self) -> (&'static str, &'static str) {
        match self {
            Self::Volcano => ("scheduling.volcano.sh", "v1beta1"),
            Self::SchedulerPlugins(_) => ("scheduling.x-k8s.io", "v1alpha1"),
            Self::Kubernetes => ("scheduling.k8s.io", "v1beta1"),
        }
    }
}

/// A PodGroup of any of the three kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroup {
    /// The API version.
    pub api_version: String,
    /// `PodGroup`.
    pub kind: String,
    /// The metadata; the name is the job's.
    pub metadata: ObjectMeta,
    /// The fields that the scheduler reads.
    pub spec: Map<String, Value>,
}

/// The PodGroup of a job.
pub(crate) fn pod_group(job: &ValidJob, seen: &ObservedState, gang: &Gang) -> PodGroup {
    let (group, version) = gang.api();
    let spec = match gang {
        Gang::Volcano => volcano_spec(job, seen),
        Gang::SchedulerPlugins(_) => plugins_spec(job, seen),
        Gang::Kubernetes => kubernetes_spec(job),
    };
    PodGroup {
        api_version: format!("{group}/{version}"),
        kind: "PodGroup".to_owned(),
        metadata: metadata(job, job.name.clone(), watched_labels(job)),
        spec: spec.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn volcano_spec(job: &ValidJob, seen: &ObservedState) -> Vec<(&'static str, Value)> {
    let policy = &job.scheduling;
    let queue = policy.queue.as_deref().filter(|queue| !queue.is_empty()).or(job.volcano_queue.as_deref());
    let mut spec = vec![("minMember", json!(min_member(job)))];
    spec.extend(queue.map(|queue| ("queue", json!(queue))));
    spec.extend(priority_class(job).map(|class| ("priorityClassName", json!(class))));
    spec.extend(min_resources(job, seen).map(|resources| ("minResources", resources)));
    spec
}

fn plugins_spec(job: &ValidJob, seen: &ObservedState) -> Vec<(&'static str, Value)> {
    let timeout = job.scheduling.schedule_timeout_seconds.unwrap_or(0);
    let mut spec = vec![("minMember", json!(min_member(job))), ("scheduleTimeoutSeconds", json!(timeout))];
    let resources = min_resources(job, seen).filter(|sum| sum.as_object().is_some_and(|sum| !sum.is_empty()));
    spec.extend(resources.map(|resources| ("minResources", resources)));
    spec
}

fn kubernetes_spec(job: &ValidJob) -> Vec<(&'static str, Value)> {
    // The API requires a positive count.
    let count = min_member(job).max(1);
    let mut spec = vec![("schedulingPolicy", json!({ "gang": { "minCount": count } }))];
    spec.extend(priority_class(job).map(|class| ("priorityClassName", json!(class))));
    spec
}

/// The minimum number of pods that the job asks for.
fn asked(job: &ValidJob) -> i32 {
    job.scheduling.min_available.unwrap_or_else(|| workers(job).saturating_add(1))
}

/// The number of pods in the gang. A Launcher that is created once the Workers are ready cannot be one of the pods
/// that the Workers wait for.
fn min_member(job: &ValidJob) -> i32 {
    match job.launcher_creation {
        LauncherCreation::WaitForWorkersReady if workers(job) > 0 => asked(job).min(workers(job)),
        LauncherCreation::AtStartup | LauncherCreation::WaitForWorkersReady => asked(job),
    }
}

fn workers(job: &ValidJob) -> i32 {
    i32::try_from(job.worker_count()).unwrap_or(i32::MAX)
}

/// The scheduling policy's priority class, else the Launcher's, else the Workers'.
fn priority_class(job: &ValidJob) -> Option<String> {
    let of_template = |template: &PodTemplateSpec| template.spec.as_ref()?.priority_class_name.clone();
    let classes = [
        job.scheduling.priority_class.clone(),
        of_template(&job.launcher.template),
        job.workers.as_ref().and_then(|workers| of_template(&workers.template)),
    ];
    classes.into_iter().flatten().find(|class| !class.is_empty())
}

/// Returns the names of the priority classes that decide which pods' resources count; empty if all pods count.
#[must_use]
pub fn deciding_classes(job: &ValidJob) -> Vec<String> {
    let asked = asked(job);
    if job.scheduling.min_resources.is_some() || asked == 0 || asked > workers(job) {
        return Vec::new();
    }
    let templates = [Some(&job.launcher.template), job.workers.as_ref().map(|workers| &workers.template)];
    let classes = templates.into_iter().flatten().filter_map(|template| {
        template.spec.as_ref()?.priority_class_name.clone().filter(|class| !class.is_empty())
    });
    let mut classes: Vec<String> = classes.collect();
    classes.dedup();
    classes
}

/// What must be free before the gang starts: the policy's `minResources`, else the sum over the containers of the
/// counted pods. If there are more pods than the minimum, the role of lower priority, or the Workers at equal
/// priority, counts as the minimum less one, as upstream.
fn min_resources(job: &ValidJob, seen: &ObservedState) -> Option<Value> {
    if let Some(given) = &job.scheduling.min_resources {
        return Some(json!(given));
    }
    let asked = asked(job);
    if asked == 0 {
        return None;
    }
    let mut launchers = 1;
    let mut others = workers(job);
    let priority = |template: &PodTemplateSpec| {
        let class = template.spec.as_ref().and_then(|pod| pod.priority_class_name.as_ref());
        class.and_then(|class| seen.priorities.get(class)).copied().unwrap_or(0)
    };
    if launchers + i64::from(others) > i64::from(asked) {
        let replica = job.workers.as_ref()?;
        if priority(&job.launcher.template) < priority(&replica.template) {
            launchers = i64::from(asked - 1);
        } else {
            others = asked - 1;
        }
    }
    let mut sum = Amounts::new();
    add(&mut sum, &job.launcher.template, launchers);
    if let Some(replica) = &job.workers {
        add(&mut sum, &replica.template, i64::from(others));
    }
    Some(
        sum.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect::<Map<_, _>>().into(),
    )
}

/// Adds what the containers of `count` pods request; without a request, their limit.
fn add(sum: &mut Amounts, template: &PodTemplateSpec, count: i64) {
    for container in template.spec.iter().flat_map(|pod| &pod.containers) {
        let requests = semantics::requests(container.resources.as_ref());
        let requests = requests.into_iter().map(|(name, amount)| (name, amount.times(count)));
        semantics::add(sum, &requests.collect());
    }
}

/// Links a pod to the job's group.
pub(crate) fn join(job: &ValidJob, gang: Option<&Gang>, metadata: &mut ObjectMeta, pod: &mut PodSpec) {
    match gang {
        None => {}
        Some(Gang::Volcano) => {
            pod.scheduler_name = Some("volcano".to_owned());
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(VOLCANO_GROUP.to_owned(), job.name.clone());
        }
        Some(Gang::SchedulerPlugins(scheduler)) => {
            pod.scheduler_name = Some(scheduler.clone());
            metadata.labels.get_or_insert_default().insert(PLUGINS_GROUP.to_owned(), job.name.clone());
        }
        Some(Gang::Kubernetes) => {
            pod.scheduling_group = Some(PodSchedulingGroup { pod_group_name: Some(job.name.clone()) });
        }
    }
}

/// The merge patch that corrects a group; `None` if it is correct. Fields that a server or webhook filled in stay.
pub(crate) fn drift(existing: &PodGroup, wanted: &PodGroup) -> Option<Value> {
    let mut spec = Map::new();
    for (key, value) in &wanted.spec {
        let has = existing.spec.get(key).unwrap_or(&Value::Null);
        let change = if key == "minResources" {
            resources_drift(has, value)
        } else {
            (has != value).then(|| value.clone())
        };
        spec.extend(change.map(|change| (key.clone(), change)));
    }
    let dropped = ["minResources", "priorityClassName"].into_iter();
    let dropped = dropped.filter(|key| existing.spec.contains_key(*key) && !wanted.spec.contains_key(*key));
    spec.extend(dropped.map(|key| (key.to_owned(), Value::Null)));
    // Immutable in Kubernetes' own PodGroup.
    if existing.api_version == "scheduling.k8s.io/v1beta1" {
        spec.remove("priorityClassName");
    }
    let labels = wanted.metadata.labels.clone().unwrap_or_default();
    let has = existing.metadata.labels.clone().unwrap_or_default();
    let labelled = labels.iter().all(|(key, value)| has.get(key) == Some(value));
    if spec.is_empty() && labelled {
        return None;
    }
    let mut patch = Map::new();
    if !labelled {
        patch.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    Some(Value::Object(patch))
}

/// Compares amounts, not their spelling, and removes those that are no longer wanted.
fn resources_drift(has: &Value, wanted: &Value) -> Option<Value> {
    let none = Map::new();
    let (has, wanted) = (has.as_object().unwrap_or(&none), wanted.as_object().unwrap_or(&none));
    let amount = |value: &Value| Quantity::of(value).ok();
    let same = |key: &str, value: &Value| has.get(key).and_then(amount) == amount(value);
    let changed = wanted.iter().filter(|(key, value)| !same(key, value));
    let gone = has.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let change: Map<String, Value> =
        changed.map(|(key, value)| (key.clone(), value.clone())).chain(gone).collect();
    (!change.is_empty()).then_some(Value::Object(change))
}

//! Pods and Jobs, reduced to the fields that planning, reporting and diagnosing a job read. They make up by far most of an operator's memory, and the full API types take some kilobytes each, mostly for
//! empty fields. Names and shapes are the API's, so that an object of the API server decodes to them directly; other
//! fields are skipped while decoding. To read more of a pod, add the field here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::{Job as WholeJob, JobStatus};
use k8s_openapi::api::core::v1::{
    Container as WholeContainer, ContainerState, ContainerStatus as WholeContainerStatus, Pod as WholePod,
    PodCondition, PodSchedulingGate,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::main_container::is_marked;

/// A pod (`core/v1`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Pod {
    /// Complete, except for `managedFields` if it came from a watch.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: Option<PodSpec>,
    /// The last reported state.
    pub status: Option<PodStatus>,
}

/// A pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that the pod is bound to.
    pub node_name: Option<String>,
    /// Its containers, the MPI container first, wherever it is in the pod.
    #[serde(deserialize_with = "mpi_first")]
    pub containers: Vec<Container>,
    /// Its init containers.
    pub init_containers: Option<Vec<Container>>,
    /// The gates that keep the scheduler from considering the pod.
    pub scheduling_gates: Option<Vec<PodSchedulingGate>>,
}

/// A container in a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Its name, unique in the pod.
    pub name: String,
    /// The resources that it may use.
    pub resources: Option<Resources>,
}

/// A container's resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// The most that it may use of each resource.
    pub limits: Option<Limits>,
}

/// Limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<Quantity>,
}

/// A pod's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// Why it is in this phase, in one word, e.g. `Evicted`.
    pub reason: Option<String>,
    /// Why it is in this phase, in a sentence.
    pub message: Option<String>,
    /// Its IP address, by which a diagnosis maps addresses in the output to pods.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// Its conditions, without those that nothing reads.
    #[serde(deserialize_with = "conditions")]
    pub conditions: Option<Vec<PodCondition>>,
    /// The statuses of its containers.
    #[serde(deserialize_with = "fitting_if_any")]
    pub container_statuses: Option<Vec<ContainerStatus>>,
    /// The statuses of its init containers.
    #[serde(deserialize_with = "fitting_if_any")]
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
}

/// Conditions of a pod that nothing reads.
const UNREAD_CONDITIONS: [&str; 3] = ["Initialized", "ContainersReady", "PodReadyToStartContainers"];

fn conditions<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Vec<PodCondition>>, D::Error> {
    Ok(Option::deserialize(from)?.map(read_ones))
}

fn read_ones(mut conditions: Vec<PodCondition>) -> Vec<PodCondition> {
    conditions.retain(|condition| !UNREAD_CONDITIONS.contains(&condition.type_.as_str()));
    conditions.shrink_to_fit();
    conditions
}

// A list that grows while it is decoded has room for four; of statuses of containers that is a kilobyte for each pod.

/// A container while it is decoded: with the names of its variables, which show whether it runs MPI.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Decoded {
    name: String,
    resources: Option<Resources>,
    env: Option<Vec<VariableName>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VariableName {
    name: String,
}

fn mpi_first<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Container>, D::Error> {
    let mut list: Vec<Decoded> = Vec::deserialize(from)?;
    let names = |container: &Decoded| -> bool {
        is_marked(container.env.iter().flatten().map(|variable| variable.name.as_str()))
    };
    if let Some(place) = list.iter().position(names) {
        list[..=place].rotate_right(1);
    }
    let mut kept: Vec<Container> =
        list.into_iter().map(|Decoded { name, resources, env: _ }| Container { name, resources }).collect();
    kept.shrink_to_fit();
    Ok(kept)
}

fn fitting_if_any<'a, T: Deserialize<'a>, D: Deserializer<'a>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    let mut list: Option<Vec<T>> = Option::deserialize(from)?;
    list.iter_mut().for_each(Vec::shrink_to_fit);
    Ok(list)
}

fn metadata<'a, D: Deserializer<'a>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
    metadata.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
    Ok(metadata)
}

fn state_if_any<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Box<ContainerState>>, D::Error> {
    Ok(Option::deserialize(from)?.and_then(non_empty))
}

fn non_empty(state: ContainerState) -> Option<Box<ContainerState>> {
    (state != ContainerState::default()).then(|| Box::new(state))
}

/// A container in a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name in the spec.
    pub name: String,
    /// Whether its last readiness probe succeeded.
    pub ready: bool,
    /// The number of restarts.
    pub restart_count: i32,
    /// Its current state.
    pub state: Option<ContainerState>,
    /// How its previous run ended; an empty one, which the API server sends for a first run, is none.
    #[serde(deserialize_with = "state_if_any")]
    pub last_state: Option<Box<ContainerState>>,
}

/// A Launcher's Job (`batch/v1`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Job {
    /// Complete, except for `managedFields` if it came from a watch.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: Option<JobSpec>,
    /// The last reported state.
    pub status: Option<JobStatus>,
}

/// The spec of a Launcher's Job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// Whether it is suspended.
    pub suspend: Option<bool>,
    /// The parts of its pod's template that a resumed job replaces.
    pub template: PodTemplate,
}

/// The template of a Launcher's pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// The pod's spec.
    pub spec: Option<TemplateSpec>,
}

/// The spec in a template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateSpec {
    /// Labels that the pod's node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// Returns since when a condition of the pod has been True.
#[must_use]
pub fn condition_since(pod: &Pod, type_: &str) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition =
        conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")?;
    Some(condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

/// Implements `Resource` for a type, so that the client knows which API resource decodes to it.
macro_rules! of_the_api {
    ($kept:ty, $whole:ty) => {
        impl k8s_openapi::Resource for $kept {
            const API_VERSION: &'static str = <$whole as k8s_openapi::Resource>::API_VERSION;
            const GROUP: &'static str = <$whole as k8s_openapi::Resource>::GROUP;
            const KIND: &'static str = <$whole as k8s_openapi::Resource>::KIND;
            const URL_PATH_SEGMENT: &'static str = <$whole as k8s_openapi::Resource>::URL_PATH_SEGMENT;
            const VERSION: &'static str = <$whole as k8s_openapi::Resource>::VERSION;
            type Scope = NamespaceResourceScope;
        }

        impl k8s_openapi::Metadata for $kept {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

of_the_api!(Pod, WholePod);
of_the_api!(Job, WholeJob);

impl From<WholePod> for Pod {
    fn from(pod: WholePod) -> Self {
        let marked = |container: &WholeContainer| {
            is_marked(container.env.iter().flatten().map(|variable| variable.name.as_str()))
        };
        let mpi_first = |mut containers: Vec<WholeContainer>| {
            if let Some(place) = containers.iter().position(marked) {
                containers[..=place].rotate_right(1);
            }
            all(containers)
        };
        let spec = pod.spec.map(|spec| PodSpec {
            node_name: spec.node_name,
            containers: mpi_first(spec.containers),
            init_containers: spec.init_containers.map(all),
            scheduling_gates: spec.scheduling_gates,
        });
        let status = pod.status.map(|status| PodStatus {
            phase: status.phase,
            reason: status.reason,
            message: status.message,
            pod_ip: status.pod_ip,
            conditions: status.conditions.map(read_ones),
            container_statuses: status.container_statuses.map(all),
            init_container_statuses: status.init_container_statuses.map(all),
        });
        Self { metadata: pod.metadata, spec, status }
    }
}

fn all<A, B: From<A>>(list: Vec<A>) -> Vec<B> {
    list.into_iter().map(B::from).collect()
}

impl From<WholeContainer> for Container {
    fn from(container: WholeContainer) -> Self {
        let resources = container.resources.map(|resources| Resources {
            limits: resources.limits.map(|mut limits| Limits { memory: limits.remove("memory") }),
        });
        Self { name: container.name, resources }
    }
}

impl From<WholeContainerStatus> for ContainerStatus {
    fn from(status: WholeContainerStatus) -> Self {
        Self {
            name: status.name,
            ready: status.ready,
            restart_count: status.restart_count,
            state: status.state,
            last_state: status.last_state.and_then(non_empty),
        }
    }
}

impl From<WholeJob> for Job {
    fn from(job: WholeJob) -> Self {
        let spec = job.spec.map(|spec| JobSpec {
            suspend: spec.suspend,
            template: PodTemplate {
                spec: spec.template.spec.map(|pod| TemplateSpec { node_selector: pod.node_selector }),
            },
        });
        Self { metadata: job.metadata, spec, status: job.status }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_of_the_api_decodes_to_the_same_values_as_its_full_type() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pi-worker-0", "labels": { "a": "b" } },
            "spec": {
                "nodeName": "node-1", "restartPolicy": "Never", "schedulingGates": [{ "name": "example.com/gang" }],
                "initContainers": [{ "name": "wait", "image": "i" }],
                "containers": [
                    { "name": "mpi", "image": "i", "resources": { "limits": { "memory": "2Gi", "cpu": "1" } } },
                    { "name": "log", "resources": {} },
                ],
            },
            "status": {
                "phase": "Failed", "reason": "Evicted", "message": "no room", "podIP": "10.0.0.7", "hostIP": "10.0.0.1",
                "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": null },
                    { "type": "Initialized", "status": "True", "lastTransitionTime": null }],
                "containerStatuses": [{
                    "name": "mpi", "ready": true, "restartCount": 2, "image": "i", "imageID": "sha256:0",
                    "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
                    "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
                }],
                "initContainerStatuses": [],
            },
        });
        let direct: Pod = serde_json::from_value(pod.clone()).unwrap();
        let whole: WholePod = serde_json::from_value(pod).unwrap();
        let limits = direct.spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap().limits.as_ref();
        assert_eq!(limits.unwrap().memory.as_ref().unwrap().0, "2Gi");
        let status = &direct.status.as_ref().unwrap();
        assert_eq!(status.pod_ip.as_deref(), Some("10.0.0.7"));
        let conditions = status.conditions.iter().flatten();
        assert_eq!(
            conditions.map(|it| it.type_.as_str()).collect::<Vec<_>>(),
            ["Ready"],
            "nothing reads the other"
        );
        let last = status.container_statuses.as_ref().unwrap()[0].last_state.as_ref().unwrap();
        assert_eq!(last.terminated.as_ref().unwrap().exit_code, 137);
        assert_eq!(direct, Pod::from(whole));
    }

    #[test]
    fn a_launchers_job_decodes_to_the_same_values_as_its_full_type() {
        let job = json!({
            "metadata": { "name": "pi-launcher" },
            "spec": { "suspend": true, "backoffLimit": 2, "template": { "metadata": { "labels": {} },
                "spec": { "nodeSelector": { "zone": "a" }, "containers": [{ "name": "mpi" }] } } },
            "status": { "startTime": "2026-01-01T00:00:00Z", "active": 1 },
        });
        let direct: Job = serde_json::from_value(job.clone()).unwrap();
        let whole: WholeJob = serde_json::from_value(job).unwrap();
        let selector = direct.spec.as_ref().unwrap().template.spec.as_ref().unwrap().node_selector.as_ref();
        assert_eq!(selector.unwrap()["zone"], "a");
        assert_eq!(direct, Job::from(whole));
    }
}

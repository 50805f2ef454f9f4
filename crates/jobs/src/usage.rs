//! The current usage of jobs: CPU, memory and GPUs of their pods, from `metrics.k8s.io` and the pods' own specs.
//!
//! The input is a client and a namespace, or all; the output is plain values. Without metrics, or without permission
//! to read them, pods have no figures.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use paging::MOST_PAGES;
use semantics::{Quantity, has_ended, is_gpu};
use serde::Serialize;
use serde_json::Value;

use crate::view::Row;
use crate::{Attempt, Error, describe};

/// Nano-units in one unit.
const NANOS: f64 = 1e9;
/// The most nodes whose summaries are read.
const MOST_NODES: u32 = 64;

/// A pod and its usage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUse {
    /// Its namespace.
    pub namespace: String,
    /// The job that it belongs to.
    pub job: String,
    /// Its name.
    pub name: String,
    /// `launcher` or `worker`.
    pub role: String,
    /// kubectl's STATUS.
    pub state: String,
    /// Whether it has ended, so that it no longer holds its GPUs.
    #[serde(skip)]
    pub ended: bool,
    /// Its node.
    pub node: Option<String>,
    /// CPU cores in use; `None` if not measured.
    pub cpu_cores: Option<f64>,
    /// The CPU limit, in cores.
    pub cpu_limit: Option<f64>,
    /// Memory in use, in bytes.
    pub memory_bytes: Option<u64>,
    /// The memory limit, in bytes.
    pub memory_limit: Option<u64>,
    /// Its GPUs of any vendor.
    pub gpus: u64,
}

/// A job and the usage of its pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobUse {
    /// The job's row in a list.
    #[serde(flatten)]
    pub row: Row,
    /// The sum over its pods; `None` if none is measured.
    pub cpu_cores: Option<f64>,
    /// The sum over its pods, in bytes.
    pub memory_bytes: Option<u64>,
    /// The GPUs that its pods hold: those that have not ended.
    #[serde(rename = "gpusInUse")]
    pub gpus: u64,
    /// Its pods: the Launcher, then Workers by index.
    pub pods: Vec<PodUse>,
}

/// The labels that name a pod's job: an MPIJob's and the Training Operator's, and a TrainJob's.
const LABELS: [&str; 2] = [api::LABEL_JOB_NAME, crate::LABEL_JOB_SET];

/// Returns the pods of training jobs with their usage.
///
/// # Errors
/// The server's refusal to list pods.
pub async fn pods(client: &Client, namespace: Option<&str>) -> Result<Vec<PodUse>, Error> {
    let (pods, measured) = futures::join!(listed(client, namespace), measured(client, namespace));
    let mut uses: Vec<(i32, PodUse)> = pods?
        .iter()
        .map(|pod| {
            let key = (pod.namespace().unwrap_or_default(), pod.name_any());
            (describe::pod_view(pod).index.unwrap_or(-1), pod_use(pod, measured.get(&key).copied()))
        })
        .collect();
    uses.sort_by(|(a_index, a), (b_index, b)| (&a.role, a_index, &a.name).cmp(&(&b.role, b_index, &b.name)));
    Ok(uses.into_iter().map(|(_, pod)| pod).collect())
}

/// Assigns pods to jobs and sums up their usage; pods of other jobs are left out. Pure.
pub fn of_jobs(rows: Vec<Row>, pods: &[PodUse]) -> Vec<JobUse> {
    let mut by_job: BTreeMap<(&str, &str), Vec<&PodUse>> = BTreeMap::new();
    for pod in pods {
        by_job.entry((&pod.namespace, &pod.job)).or_default().push(pod);
    }
    rows.into_iter()
        .map(|row| {
            let pods = by_job.get(&(row.namespace.as_str(), row.name.as_str())).cloned().unwrap_or_default();
            let cpu: Vec<f64> = pods.iter().filter_map(|pod| pod.cpu_cores).collect();
            let memory: Vec<u64> = pods.iter().filter_map(|pod| pod.memory_bytes).collect();
            JobUse {
                cpu_cores: (!cpu.is_empty()).then(|| cpu.iter().sum()),
                memory_bytes: (!memory.is_empty()).then(|| memory.iter().sum()),
                gpus: pods.iter().filter(|pod| !pod.ended).map(|pod| pod.gpus).sum(),
                pods: pods.into_iter().cloned().collect(),
                row,
            }
        })
        .collect()
}

async fn listed(client: &Client, namespace: Option<&str>) -> Result<Vec<Pod>, Error> {
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let attempt = Attempt { verb: "list", what: "pods", name: "", namespace: namespace.unwrap_or("") };
    let mut found = Vec::new();
    for label in LABELS {
        paging::each(&api, ListParams::default().labels(label), MOST_PAGES, |pods| found.extend(pods))
            .await
            .map_err(|error| Error::from_kube(error, attempt))?;
    }
    Ok(found)
}

/// The job that a pod's labels name.
fn job_of(labels: &BTreeMap<String, String>) -> Option<&String> {
    LABELS.iter().find_map(|label| labels.get(*label))
}

/// CPU cores and bytes by namespace and name of the pod; empty without metrics.
async fn measured(client: &Client, namespace: Option<&str>) -> BTreeMap<(String, String), (f64, u64)> {
    let api = metrics(client, namespace);
    let items = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    items.iter().map(|item| ((item.namespace().unwrap_or_default(), item.name_any()), sum(item))).collect()
}

fn metrics(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "metrics.k8s.io/v1beta1".to_owned(),
        kind: "PodMetrics".to_owned(),
        plural: "pods".to_owned(),
    };
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// What a pod of a job uses now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its namespace.
    pub namespace: String,
    /// The job that its label names.
    pub job: String,
    /// Its name.
    pub name: String,
    /// `launcher` or `worker`.
    pub role: String,
    /// CPU, in thousandths of a core.
    pub cpu_millis: u32,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// Returns what the pods of all jobs use now.
///
/// # Errors
/// The server's refusal, also if the cluster has no metrics API.
pub async fn measure(client: &Client) -> Result<Vec<Measured>, Error> {
    let attempt = Attempt { verb: "list", what: "pods.metrics.k8s.io", name: "", namespace: "" };
    let mut found = Vec::new();
    for label in LABELS {
        let listed = metrics(client, None).list(&ListParams::default().labels(label)).await;
        let listed = listed.map_err(|error| Error::from_kube(error, attempt))?;
        found.extend(listed.items.iter().filter_map(measurement));
    }
    Ok(found)
}

/// The network traffic of a pod since it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// Returns the traffic of pods that have a network of their own, from the summaries of at most [`MOST_NODES`] nodes. A node
/// that does not answer is left out.
///
/// # Errors
/// The server's refusal to list nodes.
pub async fn traffic(client: &Client) -> Result<Vec<Traffic>, Error> {
    let attempt = Attempt { verb: "list", what: "nodes", name: "", namespace: "" };
    let nodes =
        Api::<Node>::all(client.clone()).list_metadata(&ListParams::default().limit(MOST_NODES)).await;
    let mut found = Vec::new();
    for node in nodes.map_err(|error| Error::from_kube(error, attempt))?.items {
        let path = format!("/api/v1/nodes/{}/proxy/stats/summary", node.name_any());
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { continue };
        if let Ok(summary) = client.request::<Value>(request).await {
            found.extend(summary["pods"].as_array().into_iter().flatten().filter_map(traffic_of));
        }
    }
    Ok(found)
}

/// Reads a pod of a summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
fn traffic_of(pod: &Value) -> Option<Traffic> {
    let text = |field: &str| pod["podRef"][field].as_str().map(str::to_owned);
    let bytes = |field: &str| pod["network"][field].as_u64();
    Some(Traffic {
        namespace: text("namespace")?,
        name: text("name")?,
        uid: text("uid")?,
        received_bytes: bytes("rxBytes")?,
        sent_bytes: bytes("txBytes")?,
    })
}

fn measurement(metrics: &DynamicObject) -> Option<Measured> {
    let (cpu, bytes) = sum(metrics);
    let fitting = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
    Some(Measured {
        namespace: metrics.namespace()?,
        job: job_of(metrics.labels())?.clone(),
        role: crate::part::role(metrics.labels()).to_owned(),
        name: metrics.name_any(),
        cpu_millis: fitting(whole(cpu * 1000.0)),
        memory_mib: fitting(bytes >> 20),
        memory_bytes: bytes,
    })
}

fn sum(metrics: &DynamicObject) -> (f64, u64) {
    let containers = metrics.data.get("containers").and_then(|containers| containers.as_array());
    let of = |name: &str| -> f64 {
        let amounts = containers
            .into_iter()
            .flatten()
            .filter_map(|container| amount(container["usage"][name].as_str()?));
        amounts.sum()
    };
    (of("cpu"), whole(of("memory")))
}

fn amount(quantity: &str) -> Option<f64> {
    // A figure for people, so the precision lost in a float does not matter.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Quantity::read(quantity).map(|amount| amount.nanos() as f64 / NANOS)
}

fn whole(amount: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "quantities in use are not negative"
    )]
    let whole = amount.max(0.0).round() as u64;
    whole
}

fn pod_use(pod: &Pod, measured: Option<(f64, u64)>) -> PodUse {
    let view = describe::pod_view(pod);
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let cpu = limit(containers, |name| name == "cpu");
    let memory = limit(containers, |name| name == "memory");
    PodUse {
        namespace: pod.namespace().unwrap_or_default(),
        job: job_of(pod.labels()).cloned().unwrap_or_default(),
        name: view.name,
        role: view.role,
        state: view.state,
        ended: has_ended(pod),
        node: view.node,
        cpu_cores: measured.map(|(cpu, _)| cpu),
        cpu_limit: cpu,
        memory_bytes: measured.map(|(_, memory)| memory),
        memory_limit: memory.map(whole),
        gpus: limit(containers, is_gpu).map_or(0, whole),
    }
}

/// The sum of the containers' limits, if any has one.
fn limit(containers: &[Container], wanted: impl Fn(&str) -> bool) -> Option<f64> {
    let limits = containers.iter().filter_map(|container| container.resources.as_ref()?.limits.as_ref());
    let amounts: Vec<f64> = limits
        .flatten()
        .filter(|(name, _)| wanted(name))
        .filter_map(|(_, quantity)| amount(&quantity.0))
        .collect();
    (!amounts.is_empty()).then(|| amounts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, role: &str, phase: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "team",
                "labels": {api::LABEL_JOB_NAME: "pi", api::LABEL_JOB_ROLE: role}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "4"}}}]},
            "status": {"phase": phase}}))
        .unwrap()
    }

    #[test]
    fn a_job_uses_what_its_pods_use() {
        let metrics: DynamicObject = serde_json::from_value(json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": "pi-worker-0"}, "containers": [
                {"name": "c", "usage": {"cpu": "250000000n", "memory": "512Mi"}}, {"name": "d", "usage": {"cpu": "1", "memory": "1Ki"}}]}))
        .unwrap();
        let measured = sum(&metrics);
        assert_eq!(measured, (1.25, 512 * 1024 * 1024 + 1024));
        let pods = [
            pod_use(&pod("pi-worker-0", "worker", "Running"), Some(measured)),
            pod_use(&pod("pi-worker-1", "worker", "Running"), None),
            pod_use(&pod("pi-worker-2", "worker", "Failed"), None),
        ];
        assert_eq!((pods[0].gpus, pods[0].memory_limit, pods[0].cpu_limit), (4, Some(1 << 30), Some(2.0)));
        let job = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi", "namespace": "team"}})).unwrap();
        let other = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "other", "namespace": "team"}})).unwrap();
        let uses = of_jobs(vec![crate::view::row(&job), crate::view::row(&other)], &pods);
        assert_eq!(
            (uses[0].cpu_cores, uses[0].memory_bytes, uses[0].gpus),
            (Some(1.25), Some(measured.1), 8)
        );
        assert_eq!((uses[1].cpu_cores, uses[1].gpus, uses[1].pods.len()), (None, 0, 0));
    }
}

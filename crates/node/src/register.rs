//! Registers the nodes: Node objects with the machine's capacity, and Leases as heartbeats.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use semantics::local_nodes;
use serde_json::json;

use super::environment::Facts;
use super::{HOST_IP, LocalNode, lock};

/// kubelet's `nodeLeaseDurationSeconds`. The lease is renewed four times in this period.
const LEASE_SECONDS: i32 = 40;
/// Time between two renewals, unless the cluster is configured with a shorter one.
pub const RENEWAL: Duration = Duration::from_secs(10);
/// Nodes in one rack.
const RACK: usize = 2;
/// Renewals per update of the whole status; kubelet's `nodeStatusReportFrequency` is five minutes.
const RENEWALS_PER_STATUS: u32 = 30;
/// Pods per node. kubelet's default of 110 assumes heavier pods.
const MAX_PODS: u32 = 500;
/// The namespace of the nodes' Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The kubelet version that the nodes report.
const KUBELET_VERSION: &str = "v1.36.0";

/// The nodes as which the machine poses.
#[derive(Debug)]
pub struct Shape {
    /// Their names.
    pub names: Vec<String>,
    /// Simulated GPUs of each.
    pub gpus: u32,
    /// What each has of the machine.
    pub facts: Facts,
}

impl Shape {
    /// Divides the machine among this many nodes, at least one.
    pub fn new(nodes: u32, gpus: u32) -> Self {
        Self { names: super::names(nodes), gpus, facts: machine_facts(HOST_IP, nodes.max(1)) }
    }
}

/// Returns each node's share of the machine's resources.
fn machine_facts(host_ip: &str, nodes: u32) -> Facts {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = memory.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    Facts {
        pod_ip: String::new(),
        host_ip: host_ip.to_owned(),
        cpu_millis: processors as u64 * 1000 / u64::from(nodes),
        memory_bytes: kibibytes.unwrap_or(0) / u64::from(nodes) * 1024,
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Formats whole CPUs as such, otherwise as millis.
fn cpu(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// Returns the rack and zone of the node at `position` of `count`: two nodes per rack, half of the racks in each of two
/// zones.
fn place_of(position: usize, count: usize) -> (String, String) {
    let racks = count.div_ceil(RACK);
    let rack = position / RACK;
    let zone = if rack < racks.div_ceil(2) { 0 } else { 1 };
    (format!("rack-{rack}"), format!("zone-{zone}"))
}

fn status(shape: &Shape, name: &str, since: Timestamp) -> NodeStatus {
    let amount = |value: String| Quantity(value);
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), amount(cpu(shape.facts.cpu_millis))),
        ("memory".to_owned(), amount(format!("{}Ki", shape.facts.memory_bytes / 1024))),
        ("pods".to_owned(), amount(MAX_PODS.to_string())),
    ]);
    if shape.gpus > 0 {
        capacity.insert(semantics::NVIDIA_GPU.to_owned(), amount(shape.gpus.to_string()));
    }
    let now = Timestamp::now();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(since)),
    };
    let address = |kind: &str, value: &str| NodeAddress { type_: kind.to_owned(), address: value.to_owned() };
    NodeStatus {
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ]),
        addresses: Some(vec![address("InternalIP", HOST_IP), address("Hostname", name)]),
        daemon_endpoints: Some(NodeDaemonEndpoints::default()),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            container_runtime_version: format!("odh://{}", env!("CARGO_PKG_VERSION")),
            kernel_version: read("/proc/sys/kernel/osrelease"),
            kubelet_version: KUBELET_VERSION.to_owned(),
            kube_proxy_version: String::new(),
            machine_id: read("/etc/machine-id"),
            operating_system: "linux".to_owned(),
            os_image: os_image(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// Returns Go's name of the architecture, as Kubernetes uses it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn os_image() -> String {
    let text = read("/etc/os-release");
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
    name.trim_matches('"').to_owned()
}

fn node_object(node: &LocalNode, shape: &Shape, name: &str) -> Node {
    let position = shape.names.iter().position(|known| known == name).unwrap_or(0);
    let (rack, zone) = place_of(position, shape.names.len());
    let labels = [
        ("topology.kubernetes.io/region", "local"),
        ("topology.kubernetes.io/zone", zone.as_str()),
        (local_nodes::LABEL_NODE_RACK, rack.as_str()),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        (local_nodes::ANNOTATION_NODE_MODE, node.mode.kind.as_str()),
    ];
    let mut annotations =
        BTreeMap::from([(local_nodes::ANNOTATION_NODE_MODE.to_owned(), node.mode.kind.to_string())]);
    if shape.gpus > 0 {
        annotations
            .insert(local_nodes::ANNOTATION_NODE_GPUS.to_owned(), local_nodes::GPUS_SIMULATED.to_owned());
    }
    if let Some(reason) = &node.mode.reason {
        annotations.insert(format!("{}-reason", local_nodes::ANNOTATION_NODE_MODE), reason.clone());
    }
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(
                labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: None,
    }
}

/// Creates or updates the Node objects.
///
/// # Errors
/// Errors of the API.
pub async fn register(node: &Arc<LocalNode>) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(node.client.clone());
    let shape = node.shape();
    for name in &shape.names {
        let object = node_object(node, &shape, name);
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => {
                let patch = json!({"metadata": {"labels": object.metadata.labels, "annotations": object.metadata.annotations}});
                let known = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                // The Node is from an earlier process and has no power: it stays off until the annotation changes.
                if lock(&node.dark).obey(name, &known).is_some() {
                    continue;
                }
            }
            result => {
                result?;
            }
        }
        write_status(node, &api, name, Timestamp::now()).await?;
    }
    Ok(())
}

async fn write_status(
    node: &LocalNode,
    api: &Api<Node>,
    name: &str,
    since: Timestamp,
) -> Result<(), kube::Error> {
    let shape = node.shape();
    let mut patch = json!({"status": status(&shape, name, since)});
    if shape.gpus == 0 {
        // It may have had some.
        for field in ["capacity", "allocatable"] {
            patch["status"][field][semantics::NVIDIA_GPU] = serde_json::Value::Null;
        }
    }
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
}

/// Renews the Leases until dropped, and writes the status every so often, and where the stored one says that the node is
/// not ready: others may have marked it so while this process was paused.
pub async fn heartbeat(node: Arc<LocalNode>) {
    let began = Timestamp::now();
    let nodes: Api<Node> = Api::all(node.client.clone());
    // Since when each node has been ready.
    let mut since: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut tick = tokio::time::interval(node.heartbeat);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for round in 0u32.. {
        let woken = tokio::select! {
            _ = tick.tick() => false,
            () = node.pulse.notified() => true,
        };
        let is_routine = round > 0 && round.is_multiple_of(RENEWALS_PER_STATUS);
        for name in node.shape().names.iter().filter(|name| !lock(&node.dark).contains(name)) {
            if let Err(error) = renew(&node, &nodes, name).await {
                tracing::warn!(%error, node = name, "cannot renew the lease");
            }
            let ready_again = woken || is_called_unready(&nodes, name).await;
            if ready_again {
                since.insert(name.clone(), Timestamp::now());
            }
            if !ready_again && !is_routine {
                continue;
            }
            let since = since.get(name).copied().unwrap_or(began);
            if let Err(error) = write_status(&node, &nodes, name, since).await {
                tracing::warn!(%error, node = name, "cannot write the node's status");
            }
        }
    }
}

/// Whether the stored status of a node says that it is not ready; a node that cannot be read may be.
async fn is_called_unready(nodes: &Api<Node>, name: &str) -> bool {
    let Ok(Some(stored)) = nodes.get_opt(name).await else { return false };
    let conditions = stored.status.and_then(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status != "True")
}

async fn renew(node: &LocalNode, nodes: &Api<Node>, name: &str) -> Result<(), kube::Error> {
    let api: Api<Lease> = Api::namespaced(node.client.clone(), LEASE_NAMESPACE);
    let now = MicroTime(Timestamp::now());
    let patch = json!({"spec": {"renewTime": now}});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => {}
        other => return other.map(drop),
    }
    let owner = nodes.get(name).await?;
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.to_owned(),
                uid: owner.metadata.uid.unwrap_or_default(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    };
    api.create(&PostParams::default(), &lease).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_spread_over_racks_and_zones() {
        let places = |count: usize| -> Vec<String> {
            (0..count).map(|n| place_of(n, count)).map(|(rack, zone)| format!("{zone}/{rack}")).collect()
        };
        assert_eq!(places(1), ["zone-0/rack-0"]);
        assert_eq!(places(4), ["zone-0/rack-0", "zone-0/rack-0", "zone-1/rack-1", "zone-1/rack-1"]);
        assert_eq!(places(5)[4], "zone-1/rack-2");
        assert_eq!(places(5)[2], "zone-0/rack-1");
    }

    #[test]
    fn cpus_are_divided_among_nodes() {
        assert_eq!((cpu(2000), cpu(666)), ("2".to_owned(), "666m".to_owned()));
        let (whole, part) = (machine_facts("", 1), machine_facts("", 4));
        assert_eq!(part.cpu_millis, whole.cpu_millis / 4);
        assert!(part.memory_bytes <= whole.memory_bytes / 4);
    }
}

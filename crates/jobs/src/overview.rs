//! Who uses what in the cluster: GPUs by node and model, quotas by namespace, queues.
//!
//! [`read`] reads what the caller may see and reduces it at once; the rest is pure. What the caller may not read is named
//! in [`Overview::unread`], and never counted as zero.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, ResourceQuota};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use paging::MOST_PAGES;
use semantics::{Amounts, Quantity, amounts, is_gpu};
use serde::Serialize;
use serde_json::Value;

use crate::queue::{self, Found};

/// The pods that hold or ask for something.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// The labels with which GPU operators name the model of a node's GPUs.
const MODELS: [&str; 3] = ["nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product"];
/// The namespaces that are read one by one if all at once are not permitted, and how many at a time.
const MOST_NAMESPACES: usize = 100;
const AT_ONCE: usize = 8;

/// The cluster as the caller sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The nodes with GPUs, by name.
    pub nodes: Vec<NodeUse>,
    /// GPUs by model.
    pub models: Vec<ModelUse>,
    /// Namespaces with a quota, the fullest first.
    pub quotas: Vec<QuotaUse>,
    /// Kueue's ClusterQueues, by name.
    pub cluster_queues: Vec<ClusterQueueUse>,
    /// Kueue's LocalQueues, by namespace and name.
    pub local_queues: Vec<LocalQueueUse>,
    /// What the caller may not read.
    pub unread: Vec<&'static str>,
}

/// A node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeUse {
    /// The node.
    pub name: String,
    /// The model of its GPUs; the resource's name if no label says it.
    pub model: String,
    /// Whether it is ready and accepts pods.
    pub usable: bool,
    /// Its GPUs.
    pub gpus: u64,
    /// Those that pods hold; `None` if pods may not be read.
    pub used: Option<u64>,
}

/// GPUs of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelUse {
    /// The model; empty for what pods ask for without naming one.
    pub model: String,
    /// Those of all nodes.
    pub gpus: u64,
    /// Those that pods hold; `None` if pods may not be read.
    pub used: Option<u64>,
    /// Those on usable nodes that no pod holds; `None` if pods may not be read.
    pub free: Option<u64>,
    /// Those that pods without a node ask for; `None` if pods may not be read.
    pub asked: Option<u64>,
}

/// How full a namespace's quotas are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaUse {
    /// The namespace.
    pub namespace: String,
    /// The part of the fullest resource that is used, in percent.
    pub percent: u32,
    /// The resources, the fullest first.
    pub resources: Vec<QuotaResource>,
}

/// A resource of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaResource {
    /// The quota.
    pub quota: String,
    /// The resource.
    pub resource: String,
    /// What is used.
    pub used: String,
    /// The most.
    pub hard: String,
    /// The part that is used, in percent.
    pub percent: u32,
}

/// How full one ResourceQuota is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLevel {
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its resources, the fullest first. Those of which it permits none are left out: they cannot fill up.
    pub resources: Vec<QuotaResource>,
}

/// A ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterQueueUse {
    /// The name.
    pub name: String,
    /// The cohort from which it may borrow.
    pub cohort: Option<String>,
    /// Whether it admits nothing.
    pub stopped: bool,
    /// Workloads that wait.
    pub pending: u64,
    /// Workloads that are admitted.
    pub admitted: u64,
    /// Its resources, by name.
    pub resources: Vec<QueueResource>,
}

/// A resource of a ClusterQueue, over all its flavors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueResource {
    /// The resource.
    pub resource: String,
    /// Its own quota.
    pub nominal: String,
    /// What admitted Workloads use.
    pub used: String,
    /// The part of that which is borrowed from the cohort.
    pub borrowed: String,
}

/// A LocalQueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalQueueUse {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Its ClusterQueue.
    pub cluster_queue: String,
    /// Workloads that wait.
    pub pending: u64,
    /// Workloads that are admitted.
    pub admitted: u64,
}

/// A node, reduced to its GPUs.
#[derive(Clone, Debug)]
struct NodeGpus {
    name: String,
    model: String,
    usable: bool,
    gpus: u64,
}

/// A pod that holds or asks for GPUs.
#[derive(Clone, Debug)]
struct PodGpus {
    node: Option<String>,
    /// The model that it asks for, if it names one.
    model: Option<String>,
    gpus: u64,
}

/// Reads the cluster. Where the caller may not read the quotas of all namespaces, those of `namespaces` are read.
pub async fn read(client: &Client, namespaces: &[String]) -> Overview {
    let (nodes, pods, quotas, clusters, locals) = futures::join!(
        nodes(client),
        pods(client),
        quotas(client, namespaces),
        queue::read_all(client, None, "ClusterQueue", "clusterqueues"),
        queue::read_all(client, None, "LocalQueue", "localqueues"),
    );
    let mut unread = Vec::new();
    let mut note = |is_hidden: bool, what: &'static str| {
        if is_hidden {
            unread.push(what);
        }
    };
    note(nodes.is_none(), "nodes");
    note(pods.is_none(), "pods of all namespaces");
    note(quotas.is_none(), "quotas");
    note(matches!(clusters, Found::Hidden), "ClusterQueues");
    note(matches!(locals, Found::Hidden), "LocalQueues");
    let all = |found: Found| match found {
        Found::All(objects) => objects,
        Found::Unserved | Found::Hidden => Vec::new(),
    };
    let nodes = nodes.unwrap_or_default();
    Overview {
        models: by_model(&nodes, pods.as_deref()),
        nodes: by_node(nodes, pods.as_deref()),
        quotas: fullness(&quotas.unwrap_or_default()),
        cluster_queues: sorted(all(clusters).iter().map(cluster_queue).collect(), |queue| queue.name.clone()),
        local_queues: sorted(all(locals).iter().map(local_queue).collect(), |queue| {
            (queue.namespace.clone(), queue.name.clone())
        }),
        unread,
    }
}

async fn nodes(client: &Client) -> Option<Vec<NodeGpus>> {
    let mut found = Vec::new();
    let keep = |nodes: Vec<Node>| found.extend(nodes.iter().filter_map(node));
    let whole = paging::each(&Api::all(client.clone()), ListParams::default(), MOST_PAGES, keep).await;
    whole.ok()?.then_some(found)
}

async fn pods(client: &Client) -> Option<Vec<PodGpus>> {
    let mut found = Vec::new();
    let keep = |pods: Vec<Pod>| found.extend(pods.iter().filter_map(pod));
    let not_ended = ListParams::default().fields(NOT_ENDED);
    paging::each(&Api::all(client.clone()), not_ended, MOST_PAGES, keep).await.ok()?.then_some(found)
}

async fn quotas(client: &Client, namespaces: &[String]) -> Option<Vec<ResourceQuota>> {
    let all: Api<ResourceQuota> = Api::all(client.clone());
    if let Ok(found) = all.list(&ListParams::default()).await {
        return Some(found.items);
    }
    let each = namespaces.iter().take(MOST_NAMESPACES);
    let each: Vec<Api<ResourceQuota>> =
        each.map(|namespace| Api::namespaced(client.clone(), namespace)).collect();
    let each = each
        .into_iter()
        .map(|api| async move { api.list(&ListParams::default()).await.ok().map(|found| found.items) });
    let found: Vec<Option<Vec<ResourceQuota>>> =
        futures::stream::iter(each).buffered(AT_ONCE).collect().await;
    let is_hidden = found.iter().all(Option::is_none);
    (!is_hidden).then(|| found.into_iter().flatten().flatten().collect())
}

/// Reads how full the quotas of a namespace are.
///
/// # Errors
/// If they cannot be read.
pub async fn quota_levels(client: &Client, namespace: &str) -> Result<Vec<QuotaLevel>, kube::Error> {
    let api: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
    Ok(api.list(&ListParams::default()).await?.items.iter().map(quota_level).collect())
}

fn quota_level(quota: &ResourceQuota) -> QuotaLevel {
    let resources = fullness(std::slice::from_ref(quota)).into_iter().flat_map(|found| found.resources);
    QuotaLevel {
        uid: quota.uid().unwrap_or_default(),
        name: quota.name_any(),
        resources: resources.filter(|resource| resource.hard != Quantity::ZERO.to_string()).collect(),
    }
}

/// Reduces a node; `None` if it has no GPUs.
fn node(node: &Node) -> Option<NodeGpus> {
    let (spec, status) = (node.spec.as_ref(), node.status.as_ref()?);
    let allocatable = amounts(status.allocatable.as_ref());
    let gpus = semantics::gpus(&allocatable);
    let resource = allocatable.keys().find(|name| is_gpu(name))?;
    let label = model_in(node.labels());
    let is_ready = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Some(NodeGpus {
        name: node.name_any(),
        model: label.unwrap_or(resource).to_owned(),
        usable: is_ready && spec.and_then(|spec| spec.unschedulable) != Some(true),
        gpus,
    })
    .filter(|node| node.gpus > 0)
}

/// Reduces a pod; `None` if it requests no GPUs.
fn pod(pod: &Pod) -> Option<PodGpus> {
    let spec = pod.spec.as_ref()?;
    let gpus = plan::gpus_of(spec);
    let node = spec.node_name.clone().filter(|node| !node.is_empty());
    (gpus > 0).then(|| PodGpus { node, model: model_of(spec).map(str::to_owned), gpus })
}

/// Returns the model of GPUs that a pod's node selector names.
pub fn model_of(pod: &PodSpec) -> Option<&str> {
    model_in(pod.node_selector.as_ref()?)
}

/// Returns the model of GPUs that these labels name.
pub(crate) fn model_in(labels: &BTreeMap<String, String>) -> Option<&str> {
    MODELS.iter().find_map(|label| labels.get(*label)).map(String::as_str)
}

fn by_node(nodes: Vec<NodeGpus>, pods: Option<&[PodGpus]>) -> Vec<NodeUse> {
    let held = held(pods);
    let of = |node: NodeGpus| NodeUse {
        used: held.as_ref().map(|held| held.get(node.name.as_str()).copied().unwrap_or(0)),
        name: node.name,
        model: node.model,
        usable: node.usable,
        gpus: node.gpus,
    };
    sorted(nodes.into_iter().map(of).collect(), |node| node.name.clone())
}

/// The GPUs that pods hold, by node.
fn held(pods: Option<&[PodGpus]>) -> Option<BTreeMap<&str, u64>> {
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in pods? {
        if let Some(node) = &pod.node {
            *held.entry(node).or_default() += pod.gpus;
        }
    }
    Some(held)
}

fn by_model(nodes: &[NodeGpus], pods: Option<&[PodGpus]>) -> Vec<ModelUse> {
    let held = held(pods);
    let known = pods.map(|_| 0);
    let new =
        |model: &str| ModelUse { model: model.to_owned(), used: known, free: known, asked: known, gpus: 0 };
    let mut models: BTreeMap<&str, ModelUse> = BTreeMap::new();
    for node in nodes {
        let model = models.entry(&node.model).or_insert_with(|| new(&node.model));
        model.gpus += node.gpus;
        let Some(held) = &held else { continue };
        let used = held.get(node.name.as_str()).copied().unwrap_or(0);
        let free = if node.usable { node.gpus.saturating_sub(used) } else { 0 };
        model.used = model.used.map(|sum| sum + used);
        model.free = model.free.map(|sum| sum + free);
    }
    for pod in pods.into_iter().flatten().filter(|pod| pod.node.is_none()) {
        let name = pod.model.as_deref().unwrap_or_default();
        let model = models.entry(name).or_insert_with(|| new(name));
        model.asked = model.asked.map(|sum| sum + pod.gpus);
    }
    models.into_values().collect()
}

fn fullness(quotas: &[ResourceQuota]) -> Vec<QuotaUse> {
    let mut by_namespace: BTreeMap<String, Vec<QuotaResource>> = BTreeMap::new();
    for quota in quotas {
        let Some(status) = &quota.status else { continue };
        let (hard, used) = (amounts(status.hard.as_ref()), amounts(status.used.as_ref()));
        let resources = hard.iter().map(|(resource, hard)| {
            let used = used.get(resource).copied().unwrap_or(Quantity::ZERO);
            QuotaResource {
                quota: quota.name_any(),
                resource: resource.clone(),
                percent: percent(used, *hard),
                used: used.to_string(),
                hard: hard.to_string(),
            }
        });
        by_namespace.entry(quota.namespace().unwrap_or_default()).or_default().extend(resources);
    }
    let mut found: Vec<QuotaUse> = by_namespace
        .into_iter()
        .filter(|(_, resources)| !resources.is_empty())
        .map(|(namespace, mut resources)| {
            resources.sort_by_key(|resource| std::cmp::Reverse(resource.percent));
            let percent = resources.first().map_or(0, |fullest| fullest.percent);
            QuotaUse { namespace, percent, resources }
        })
        .collect();
    found.sort_by_key(|quota| std::cmp::Reverse(quota.percent));
    found
}

/// The part that is used; of nothing, everything.
fn percent(used: Quantity, hard: Quantity) -> u32 {
    match hard.nanos() {
        0 => 100,
        hard => u32::try_from(used.nanos().saturating_mul(100) / hard).unwrap_or(u32::MAX),
    }
}

fn cluster_queue(queue: &DynamicObject) -> ClusterQueueUse {
    let text = |pointer: &str| queue.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let flavors: Vec<&Value> = items(queue.data.pointer("/spec/resourceGroups"))
        .flat_map(|group| items(group.get("flavors")))
        .collect();
    let nominal = sum(flavors.into_iter(), "nominalQuota");
    let using = || items(queue.data.pointer("/status/flavorsUsage"));
    let (used, borrowed) = (sum(using(), "total"), sum(using(), "borrowed"));
    let of =
        |amounts: &Amounts, name: &str| amounts.get(name).map_or_else(|| "0".to_owned(), Quantity::to_string);
    let resources = nominal.keys().map(|name| QueueResource {
        resource: name.clone(),
        nominal: of(&nominal, name),
        used: of(&used, name),
        borrowed: of(&borrowed, name),
    });
    ClusterQueueUse {
        name: queue.name_any(),
        // `cohort` up to v1beta1.
        cohort: text("/spec/cohortName").or_else(|| text("/spec/cohort")).filter(|name| !name.is_empty()),
        stopped: text("/spec/stopPolicy").is_some_and(|policy| policy != "None"),
        pending: number(queue, "/status/pendingWorkloads"),
        admitted: number(queue, "/status/admittedWorkloads"),
        resources: resources.collect(),
    }
}

fn local_queue(queue: &DynamicObject) -> LocalQueueUse {
    let cluster_queue = queue.data.pointer("/spec/clusterQueue").and_then(Value::as_str);
    LocalQueueUse {
        namespace: queue.namespace().unwrap_or_default(),
        name: queue.name_any(),
        cluster_queue: cluster_queue.unwrap_or_default().to_owned(),
        pending: number(queue, "/status/pendingWorkloads"),
        admitted: number(queue, "/status/admittedWorkloads"),
    }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Sums a field of the resources of flavors.
fn sum<'v>(flavors: impl Iterator<Item = &'v Value>, field: &str) -> Amounts {
    let mut total = Amounts::new();
    for resource in flavors.flat_map(|flavor| items(flavor.get("resources"))) {
        if let (Some(name), Ok(amount)) = (resource["name"].as_str(), Quantity::of(&resource[field])) {
            let sum = total.entry(name.to_owned()).or_insert(Quantity::ZERO);
            *sum = amount.plus(*sum);
        }
    }
    total
}

fn number(object: &DynamicObject, pointer: &str) -> u64 {
    object.data.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn sorted<T, K: Ord>(mut items: Vec<T>, key: impl FnMut(&T) -> K) -> Vec<T> {
    items.sort_by_cached_key(key);
    items
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn node_of(name: &str, model: Option<&str>, gpus: u32, ready: &str) -> NodeGpus {
        let labels = model.map(|model| json!({ MODELS[0]: model }));
        node(&read(json!({ "metadata": { "name": name, "labels": labels }, "status": {
            "allocatable": { "nvidia.com/gpu": gpus.to_string() },
            "conditions": [{ "type": "Ready", "status": ready }] } })))
        .unwrap()
    }

    fn pod_of(node: Option<&str>, model: Option<&str>, gpus: u32) -> PodGpus {
        let selector = model.map(|model| json!({ MODELS[0]: model }));
        pod(&read(json!({ "spec": { "nodeName": node, "nodeSelector": selector, "containers": [
            { "name": "c", "resources": { "limits": { "nvidia.com/gpu": gpus.to_string() } } }] } })))
        .unwrap()
    }

    #[test]
    fn gpus_are_counted_by_node_and_model() {
        let nodes = vec![
            node_of("b", Some("H100"), 8, "True"),
            node_of("a", None, 4, "True"),
            node_of("c", Some("H100"), 8, "Unknown"),
        ];
        let pods = vec![
            pod_of(Some("b"), None, 5),
            pod_of(Some("c"), None, 2),
            pod_of(None, Some("H100"), 16),
            pod_of(None, None, 1),
        ];
        let models = by_model(&nodes, Some(&pods));
        let of = |name: &str| {
            let found = models.iter().find(|model| model.model == name).unwrap();
            (found.gpus, found.used.unwrap(), found.free.unwrap(), found.asked.unwrap())
        };
        assert_eq!(of("H100"), (16, 7, 3, 16), "nothing is free on a node that is not ready");
        assert_eq!(of("nvidia.com/gpu"), (4, 0, 4, 0));
        assert_eq!(of(""), (0, 0, 0, 1));
        let nodes = by_node(nodes, Some(&pods));
        let used: Vec<_> =
            nodes.iter().map(|node| (node.name.as_str(), node.used.unwrap(), node.usable)).collect();
        assert_eq!(used, [("a", 0, true), ("b", 5, true), ("c", 2, false)]);
    }

    #[test]
    fn without_pods_nothing_is_claimed_about_use() {
        let nodes = vec![node_of("a", None, 4, "True")];
        let model = by_model(&nodes, None).remove(0);
        assert_eq!((model.gpus, model.used, model.free, model.asked), (4, None, None, None));
        assert_eq!(by_node(nodes, None)[0].used, None);
    }

    #[test]
    fn the_fullest_quota_comes_first() {
        let quota = |namespace: &str, used: &str| {
            read::<ResourceQuota>(json!({ "metadata": { "name": "q", "namespace": namespace }, "status": {
                "hard": { "requests.nvidia.com/gpu": "10", "requests.memory": "1Gi" },
                "used": { "requests.nvidia.com/gpu": used, "requests.memory": "512Mi" } } }))
        };
        let found = fullness(&[quota("team-cv", "1"), quota("team-nlp", "9")]);
        let shown: Vec<_> = found.iter().map(|quota| (quota.namespace.as_str(), quota.percent)).collect();
        assert_eq!(shown, [("team-nlp", 90), ("team-cv", 50)]);
        let fullest = &found[0].resources[0];
        assert_eq!(
            (fullest.resource.as_str(), fullest.used.as_str(), fullest.hard.as_str()),
            ("requests.nvidia.com/gpu", "9", "10")
        );
        assert_eq!(percent(Quantity::ZERO, Quantity::ZERO), 100);
    }

    #[test]
    fn a_queue_shows_its_quota_its_use_and_what_it_borrows() {
        let resources = |field: &str, amount: u32| json!([{ "name": "f", "resources": [{ "name": "nvidia.com/gpu", field: amount }] }]);
        let mut usage = resources("total", 10);
        usage[0]["resources"][0]["borrowed"] = json!(2);
        let queue: DynamicObject = read(
            json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
            "metadata": { "name": "all" },
            "spec": { "cohortName": "shared", "stopPolicy": "None", "resourceGroups": [{ "flavors": resources("nominalQuota", 8) }] },
            "status": { "pendingWorkloads": 3, "admittedWorkloads": 2, "flavorsUsage": usage } }),
        );
        let found = cluster_queue(&queue);
        assert_eq!(
            (found.cohort.as_deref(), found.stopped, found.pending, found.admitted),
            (Some("shared"), false, 3, 2)
        );
        let gpu = &found.resources[0];
        assert_eq!((gpu.nominal.as_str(), gpu.used.as_str(), gpu.borrowed.as_str()), ("8", "10", "2"));
    }
}

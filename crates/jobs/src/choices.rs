//! What a form can offer for a job in a namespace: volume claims, Secrets, ConfigMaps, queues, priority classes, runtimes and
//! hardware profiles.
//!
//! Each function reads one kind of objects with the client that it is given, at most [`MOST`] of them, and reduces them at once.
//! Of Secrets and ConfigMaps it reads the metadata only, so that no value of them is ever here. A kind that the cluster does not
//! serve has no items; one that may not be read is an error, and never empty.
//!
//! Sources: `kubernetes-sigs/kueue` `apis/kueue/v1beta2/localqueue_types.go`; `opendatahub-io/opendatahub-operator`
//! `api/infrastructure/v1/hardwareprofile_types.go`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret, Toleration};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::availability::Resources;
use crate::cluster_queue::{Labels, UnknownQuota, cluster_queue_of, is_held, offer};
use crate::queue::{self, Found, is_unserved};
use crate::runtime::{self, Runtime};
use crate::template::LABEL;
use crate::{Class, Kind};

/// The most items of a list.
pub const MOST: u32 = 500;
/// ConfigMaps that clusters put into every namespace.
const OF_CLUSTER: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];
/// The prefix of priority classes that are reserved for the system.
const RESERVED: &str = "system-";
/// The namespaces with the hardware profiles for everybody: of Open Data Hub, and of OpenShift AI.
const SHARED: [&str; 2] = ["opendatahub", "redhat-ods-applications"];
/// The API group of hardware profiles, and its versions, newest first.
const HARDWARE: &str = "infrastructure.opendatahub.io";
const HARDWARE_VERSIONS: [&str; 2] = ["v1", "v1alpha1"];
/// The annotations of hardware profiles.
const TITLE: &str = "opendatahub.io/display-name";
const DESCRIPTION: &str = "opendatahub.io/description";
const DISABLED: &str = "opendatahub.io/disabled";

/// The first items of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether there are others.
    pub more: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), more: false }
    }
}

/// Why a list cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The caller may not read it.
    NotAllowed,
    /// Any other reason.
    Failed,
}

impl From<kube::Error> for Unread {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => Self::NotAllowed,
            _ => Self::Failed,
        }
    }
}

/// A volume claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name.
    pub name: String,
    /// How it can be mounted.
    pub access_modes: Vec<String>,
    /// Its size; what it requests if it has none yet.
    pub size: String,
    /// Its phase.
    pub phase: String,
}

/// A Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// The name.
    pub name: String,
    /// Whether it is a credential for pulling images.
    pub is_image_pull: bool,
}

/// A LocalQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueChoice {
    /// The name.
    pub name: String,
    /// Its ClusterQueue.
    pub cluster_queue: String,
    /// Whether it admits nothing.
    pub is_stopped: bool,
    /// The Workloads that wait in it; `None` if Kueue does not report that.
    pub pending: Option<u64>,
    /// What the ClusterQueue's own quota has free; `None` if that may not be read, or is not offered to the namespace.
    pub free: Option<Resources>,
    /// Why it is not offered to the namespace.
    pub unknown: Option<UnknownQuota>,
}

/// A priority class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The name.
    pub name: String,
    /// The priority.
    pub value: i32,
    /// Whether pods without a class get it.
    pub is_default: bool,
}

/// A hardware profile.
#[derive(Clone, Debug, PartialEq)]
pub struct HardwareProfile {
    /// Its namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// What it sets.
    pub spec: HardwareSpec,
}

/// What a hardware profile sets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareSpec {
    /// The resources.
    pub identifiers: Vec<HardwareIdentifier>,
    /// Where its pods run.
    pub scheduling: HardwareScheduling,
}

/// A resource of a hardware profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareIdentifier {
    /// The resource.
    pub identifier: String,
    /// Its name for people.
    #[serde(default)]
    pub display_name: String,
    /// `CPU`, `Memory` or `Accelerator`.
    #[serde(default)]
    pub resource_type: String,
    /// The least.
    pub min_count: Option<IntOrString>,
    /// The most.
    pub max_count: Option<IntOrString>,
    /// The amount to begin with.
    pub default_count: Option<IntOrString>,
}

/// Where the pods of a hardware profile run: what Kueue decides, or nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareScheduling {
    /// The queue.
    pub kueue: HardwareQueue,
    /// The nodes.
    pub node: HardwareNodes,
}

/// The queue of a hardware profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareQueue {
    /// The LocalQueue.
    pub local_queue_name: String,
    /// The WorkloadPriorityClass.
    pub priority_class: String,
}

/// The nodes of a hardware profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareNodes {
    /// Labels that they must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
}

/// Lists the volume claims of a namespace that are not being deleted.
///
/// # Errors
/// [`Unread`].
pub async fn claims(client: &Client, namespace: &str) -> Result<Listed<Claim>, Unread> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    Ok(few(&api, claim).await?)
}

fn claim(claim: PersistentVolumeClaim) -> Option<Claim> {
    let (spec, status) = (claim.spec.unwrap_or_default(), claim.status.unwrap_or_default());
    let storage =
        |amounts: Option<BTreeMap<String, Quantity>>| amounts.and_then(|mut all| all.remove("storage"));
    let requested = spec.resources.and_then(|resources| resources.requests);
    let size = storage(status.capacity).or_else(|| storage(requested));
    claim.metadata.deletion_timestamp.is_none().then(|| Claim {
        name: claim.metadata.name.unwrap_or_default(),
        access_modes: spec.access_modes.unwrap_or_default(),
        size: size.map(|size| size.0).unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
    })
}

/// Lists the names of a namespace's Secrets that hold values or credentials for pulling images.
///
/// # Errors
/// [`Unread`].
pub async fn secrets(client: &Client, namespace: &str) -> Result<Listed<SecretName>, Unread> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let of = |kind: &str| ListParams::default().fields(&format!("type={kind}"));
    let (opaque, pull) =
        futures::try_join!(names(&api, of("Opaque")), names(&api, of("kubernetes.io/dockerconfigjson")))?;
    let more = opaque.more || pull.more;
    let named = |is_image_pull: bool| move |name: String| SecretName { name, is_image_pull };
    let opaque = opaque.items.into_iter().map(named(false));
    let mut items: Vec<SecretName> = opaque.chain(pull.items.into_iter().map(named(true))).collect();
    items.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Listed { items, more })
}

/// Lists the names of a namespace's ConfigMaps, without templates.
///
/// # Errors
/// [`Unread`].
pub async fn config_maps(client: &Client, namespace: &str) -> Result<Listed<String>, Unread> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut found = names(&api, ListParams::default().labels(&format!("!{LABEL}"))).await?;
    found.items.retain(|name| !OF_CLUSTER.contains(&name.as_str()));
    Ok(found)
}

/// Lists the LocalQueues of a namespace.
///
/// # Errors
/// [`Unread`].
pub async fn queues(client: &Client, namespace: &str) -> Result<Listed<QueueChoice>, Unread> {
    let (local, cluster) = futures::join!(
        served(queue::apis(client, Some(namespace), "LocalQueue", "localqueues")),
        queue::read_all(client, None, "ClusterQueue", "clusterqueues"),
    );
    let local = unless_absent(client, "kueue.x-k8s.io", local.map_err(Unread::from)).await?;
    let cluster = match cluster {
        Found::All(objects) => objects,
        Found::Unserved | Found::Hidden => Vec::new(),
    };
    let labels = if local.items.is_empty() || cluster.is_empty() {
        None
    } else {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let found = namespaces.get_metadata(namespace).await.ok();
        found.map(|found| found.metadata.labels.unwrap_or_default())
    };
    let items = local.items.iter().map(|queue| queue_choice(queue, &cluster, labels.as_ref())).collect();
    Ok(Listed { items, more: local.more })
}

fn queue_choice(queue: &DynamicObject, cluster: &[DynamicObject], labels: Option<&Labels>) -> QueueChoice {
    let offer = offer(queue, cluster, labels);
    let mut conditions =
        queue.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_inactive = conditions.any(|one| one["type"] == "Active" && one["status"] == "False");
    QueueChoice {
        name: queue.name_any(),
        cluster_queue: cluster_queue_of(queue).to_owned(),
        is_stopped: is_inactive || is_held(queue) || offer.as_ref().is_some_and(|offer| offer.admits_nothing),
        pending: queue.data.pointer("/status/pendingWorkloads").and_then(Value::as_u64),
        free: offer.as_ref().and_then(|offer| offer.quota.as_ref().ok()).map(|(_, free)| Resources::of(free)),
        unknown: offer.and_then(|offer| offer.quota.err()),
    }
}

/// Lists the cluster's priority classes, without those of the system.
///
/// # Errors
/// [`Unread`].
pub async fn priority_classes(client: &Client) -> Result<Listed<Priority>, Unread> {
    let priority = |class: PriorityClass| {
        let name = class.metadata.name.filter(|name| !name.starts_with(RESERVED))?;
        let is_default = class.global_default.unwrap_or_default();
        Some(Priority { name, value: class.value?, is_default })
    };
    Ok(few(&Api::all(client.clone()), priority).await?)
}

/// Lists the runtimes that a TrainJob of this namespace can use.
///
/// # Errors
/// [`Unread`].
pub async fn runtimes(client: &Client, namespace: &str) -> Result<Listed<Runtime>, Unread> {
    let found = match runtime::runtimes(client, namespace).await {
        Ok(items) => Ok(Listed { items, more: false }),
        Err(error) => match error.class() {
            // The cluster has no TrainJobs.
            Class::NotFound => Ok(Listed::default()),
            Class::NotAllowed => Err(Unread::NotAllowed),
            _ => Err(Unread::Failed),
        },
    };
    let mut found = unless_absent(client, Kind::TrainJob.group(), found).await?;
    let most = usize::try_from(MOST).unwrap_or(usize::MAX);
    found.more = found.items.len() > most;
    found.items.truncate(most);
    Ok(found)
}

/// Lists the hardware profiles for a namespace: its own, and those for everybody as far as they may be read.
///
/// # Errors
/// [`Unread`] if there is none among those that can be read, and others cannot be.
pub async fn hardware_profiles(client: &Client, namespace: &str) -> Result<Listed<HardwareProfile>, Unread> {
    let shared = SHARED.into_iter().filter(|shared| *shared != namespace);
    let places = std::iter::once(namespace).chain(shared);
    let lists = futures::future::join_all(places.map(|place| profiles(client, place))).await;
    let (mut found, mut unread) = (Listed::default(), None);
    for list in lists {
        match list {
            Ok(list) => {
                found.items.extend(list.items.iter().filter_map(profile));
                found.more |= list.more;
            }
            Err(error) => unread = unread.or(Some(Unread::from(error))),
        }
    }
    match unread {
        Some(why) if found.items.is_empty() => unless_absent(client, HARDWARE, Err(why)).await,
        _ => Ok(found),
    }
}

async fn profiles(client: &Client, namespace: &str) -> Result<Listed<DynamicObject>, kube::Error> {
    let apis = HARDWARE_VERSIONS.into_iter().map(|version| {
        let resource = ApiResource {
            group: HARDWARE.to_owned(),
            version: version.to_owned(),
            api_version: format!("{HARDWARE}/{version}"),
            kind: "HardwareProfile".to_owned(),
            plural: "hardwareprofiles".to_owned(),
        };
        Api::namespaced_with(client.clone(), namespace, &resource)
    });
    served(apis).await
}

/// Reads a profile; `None` if it is disabled, or not as its API describes it.
fn profile(profile: &DynamicObject) -> Option<HardwareProfile> {
    let text =
        |annotation: &str| profile.annotations().get(annotation).map(String::as_str).unwrap_or_default();
    if text(DISABLED) == "true" {
        return None;
    }
    let (name, title) = (profile.name_any(), text(TITLE));
    Some(HardwareProfile {
        namespace: profile.namespace().unwrap_or_default(),
        title: if title.is_empty() { name.clone() } else { title.to_owned() },
        name,
        description: text(DESCRIPTION).to_owned(),
        spec: HardwareSpec::deserialize(&profile.data["spec"]).ok()?,
    })
}

/// Reads the first items of a list.
async fn few<K, T>(api: &Api<K>, read: impl Fn(K) -> Option<T>) -> Result<Listed<T>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let page = api.list(&ListParams::default().limit(MOST)).await?;
    let more = page.metadata.continue_.is_some_and(|token| !token.is_empty());
    Ok(Listed { items: page.items.into_iter().filter_map(read).collect(), more })
}

/// Reads the first names of a list.
async fn names<K>(api: &Api<K>, selection: ListParams) -> Result<Listed<String>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let page = api.list_metadata(&selection.limit(MOST)).await?;
    let more = page.metadata.continue_.is_some_and(|token| !token.is_empty());
    Ok(Listed { items: page.items.into_iter().filter_map(|item| item.metadata.name).collect(), more })
}

/// Reads the first objects in the first version that the cluster serves; none if it serves no version.
async fn served(
    apis: impl Iterator<Item = Api<DynamicObject>>,
) -> Result<Listed<DynamicObject>, kube::Error> {
    for api in apis {
        match few(&api, Some).await {
            Err(error) if is_unserved(&error) => {}
            found => return found,
        }
    }
    Ok(Listed::default())
}

/// Replaces a refusal by no items if the cluster does not serve the group: permissions are checked before that.
async fn unless_absent<T>(
    client: &Client,
    group: &str,
    found: Result<Listed<T>, Unread>,
) -> Result<Listed<T>, Unread> {
    let Err(why) = found else { return found };
    match client.list_api_groups().await {
        Ok(known) if !known.groups.iter().any(|known| known.name == group) => Ok(Listed::default()),
        _ => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_claim_has_its_size_or_what_it_requests() {
        let of = |deleted: Option<&str>, capacity: Value| {
            claim(read(json!({ "metadata": { "name": "data", "deletionTimestamp": deleted },
                "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "10Gi" } } },
                "status": { "phase": "Bound", "capacity": capacity } })))
        };
        let bound = of(None, json!({ "storage": "16Gi" })).unwrap();
        assert_eq!((bound.size.as_str(), bound.access_modes), ("16Gi", vec!["ReadWriteMany".to_owned()]));
        assert_eq!(of(None, json!({})).unwrap().size, "10Gi");
        assert_eq!(of(Some("2026-01-01T00:00:00Z"), json!({})), None);
    }

    #[test]
    fn a_queue_that_is_not_active_is_stopped_and_has_room_only_where_it_can_be_read() {
        let kueue = |kind: &str, name: &str, spec: Value, status: Value| -> DynamicObject {
            read(json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
                "metadata": { "name": name }, "spec": spec, "status": status }))
        };
        let flavors =
            json!([{ "name": "f", "resources": [{ "name": "nvidia.com/gpu", "nominalQuota": 8 }] }]);
        let all = kueue(
            "ClusterQueue",
            "all",
            json!({ "namespaceSelector": {}, "resourceGroups": [{ "flavors": flavors }] }),
            json!({}),
        );
        let status =
            json!({ "pendingWorkloads": 2, "conditions": [{ "type": "Active", "status": "False" }] });
        let stopped = kueue("LocalQueue", "b", json!({ "clusterQueue": "all" }), status);
        let open = kueue("LocalQueue", "a", json!({ "clusterQueue": "all" }), json!({}));
        let found = queue_choice(&stopped, &[], None);
        assert_eq!((found.is_stopped, found.pending, found.free), (true, Some(2), None));
        let found = queue_choice(&open, &[all], Some(&Labels::new()));
        assert_eq!((found.is_stopped, found.pending, found.free.unwrap().gpus), (false, None, 8));
    }

    #[test]
    fn a_hardware_profile_has_its_resources_and_where_its_pods_run() {
        let of = |disabled: &str, scheduling: Value| -> Option<HardwareProfile> {
            profile(&read(
                json!({ "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
                "metadata": { "name": "gpu", "namespace": "opendatahub", "annotations": {
                    "opendatahub.io/display-name": "One H100", "opendatahub.io/disabled": disabled } },
                "spec": { "scheduling": scheduling, "identifiers": [
                    { "identifier": "memory", "displayName": "Memory", "resourceType": "Memory", "minCount": "2Gi", "defaultCount": "8Gi" },
                    { "identifier": "nvidia.com/gpu", "displayName": "GPU", "minCount": 1, "maxCount": 8, "defaultCount": 1 }] } }),
            ))
        };
        let nodes = json!({ "type": "Node", "node": { "nodeSelector": { "gpu": "h100" },
            "tolerations": [{ "key": "nvidia.com/gpu", "operator": "Exists" }] } });
        let found = of("false", nodes).unwrap();
        let HardwareNodes { node_selector, tolerations } = found.spec.scheduling.node;
        assert_eq!((found.title.as_str(), node_selector["gpu"].as_str()), ("One H100", "h100"));
        assert_eq!(tolerations[0].key.as_deref(), Some("nvidia.com/gpu"));
        let [memory, gpus]: [HardwareIdentifier; 2] = found.spec.identifiers.try_into().unwrap();
        assert_eq!((memory.max_count, gpus.max_count), (None, Some(IntOrString::Int(8))));
        let queue =
            json!({ "type": "Queue", "kueue": { "localQueueName": "gpus", "priorityClass": "high" } });
        assert_eq!(of("false", queue).unwrap().spec.scheduling.kueue.local_queue_name, "gpus");
        assert_eq!(of("true", json!({ "type": "Node", "node": {} })), None);
    }
}

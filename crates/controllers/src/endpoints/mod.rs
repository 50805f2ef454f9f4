//! Maintains EndpointSlices for Services with a selector, headless ones included, and the Endpoints that older clients
//! read.
//!
//! Input: Services, pods and slices from the shared caches. Output: slices and Endpoints.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Client, ResourceExt};

mod slices;

use super::cache::{Cache, Change, Key};
use super::queue::{Queue, work};
use super::{Error, allow};
use controller_runtime::index::Index;
use controller_runtime::supervision::Scope;
use slices::{MANAGER, MANAGER_LABEL, SERVICE_LABEL};

/// Responses that need no retry: the object is gone, or another has its name.
const SETTLED: [u16; 2] = [404, 409];
/// Services processed concurrently.
const CONCURRENCY: usize = 8;
/// The most addresses in one Endpoints object (upstream's `maxCapacity`).
const ADDRESSES_MAX: usize = 1000;

/// Our slices by their Service.
type Slices = Index<EndpointSlice, Key>;

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// The API, under the identity that writes Endpoints.
    pub endpoints: Client,
    /// Every Service.
    pub services: Cache<Service>,
    /// Every EndpointSlice.
    pub slices: Cache<EndpointSlice>,
    /// Every pod.
    pub pods: Cache<Pod>,
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    // Before the listeners that add to the queue, so that a step finds what it was queued for.
    let slices = Slices::new(&context.slices, &scope.stop, service_of);
    let queue: Arc<Queue<Key>> = Arc::default();
    let to = queue.clone();
    context.services.on_change(&scope.stop, move |change| {
        if let Some(service) = change.latest() {
            to.add(Key::of(service.as_ref()));
        }
    });
    let to = queue.clone();
    context.slices.on_change(&scope.stop, move |change| {
        if let Some(service) = change.latest().and_then(|slice| service_of(slice)) {
            to.add(service);
        }
    });
    let (to, services) = (queue.clone(), context.services.clone());
    context.pods.on_change(&scope.stop, move |change| {
        if !matters(change) {
            return;
        }
        let Some(namespace) = change.latest().and_then(|pod| pod.namespace()) else { return };
        let both = [&change.old, &change.new];
        for service in services.list_in(&namespace) {
            let Some(selector) = slices::selector(&service) else { continue };
            if both.iter().any(|pod| pod.as_ref().is_some_and(|pod| slices::selects(selector, pod))) {
                to.add(Key::of(service.as_ref()));
            }
        }
    });
    context.services.filled().await;
    context.slices.filled().await;
    context.pods.filled().await;
    for service in context.services.list() {
        queue.add(Key::of(service.as_ref()));
    }
    work(queue, CONCURRENCY, scope, |key| step(&context, &slices, key)).await;
}

/// Returns the Service that one of our slices belongs to.
fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let service = slice.labels().get(SERVICE_LABEL).filter(|_| is_ours(slice))?;
    Some(Key::new(slice.namespace().unwrap_or_default(), service.clone()))
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGER_LABEL).is_some_and(|by| by == MANAGER)
}

/// Returns whether the pod has an address before or after the change; otherwise it is no endpoint.
fn matters(change: &Change<Pod>) -> bool {
    let address = |pod: &Option<Arc<Pod>>| {
        pod.as_ref().and_then(|p| p.status.as_ref()).and_then(|s| s.pod_ip.clone()).is_some()
    };
    address(&change.old) || address(&change.new)
}

async fn step(context: &Context, slices: &Slices, key: Key) -> Result<Option<Duration>, Error> {
    let service = context.services.get(&key).filter(|s| s.metadata.deletion_timestamp.is_none());
    let Some(service) = service else {
        // The garbage collector deletes its slices as dependents; Endpoints have no owner.
        let api: Api<Endpoints> = Api::namespaced(context.endpoints.clone(), &key.namespace);
        allow(&SETTLED, api.delete(&key.name, &DeleteParams::default()).await)?;
        return Ok(None);
    };
    if slices::selector(&service).is_none() {
        return Ok(None);
    }
    let wanted = slices::slices(&service, &context.pods.list_in(&key.namespace));
    write_endpoints(context, &service, &wanted).await?;
    write_slices(context, &key, slices.get(&key), wanted).await?;
    Ok(None)
}

/// Replaces the known slices of a Service by the wanted ones.
async fn write_slices(
    context: &Context,
    key: &Key,
    known: Vec<Arc<EndpointSlice>>,
    wanted: Vec<EndpointSlice>,
) -> Result<(), Error> {
    let api: Api<EndpointSlice> = Api::namespaced(context.client.clone(), &key.namespace);
    for slice in &known {
        if !wanted.iter().any(|w| w.name_any() == slice.name_any()) {
            let precondition = Preconditions { uid: slice.uid(), resource_version: None };
            allow(
                &SETTLED,
                api.delete(&slice.name_any(), &DeleteParams::default().preconditions(precondition)).await,
            )?;
        }
    }
    for slice in wanted {
        let written = match known.iter().find(|k| k.name_any() == slice.name_any()) {
            None => api.create(&PostParams::default(), &slice).await?,
            Some(known) if is_same(known, &slice) => continue,
            Some(known) => {
                let mut next = slice;
                next.metadata.resource_version = known.resource_version();
                api.replace(&next.name_any(), &PostParams::default(), &next).await?
            }
        };
        context.slices.learn(written);
    }
    Ok(())
}

fn is_same(known: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let list = |s: &EndpointSlice| s.endpoints.clone().unwrap_or_default();
    let ports = |s: &EndpointSlice| s.ports.clone().unwrap_or_default();
    known.labels() == wanted.labels() && list(known) == list(wanted) && ports(known) == ports(wanted)
}

async fn write_endpoints(
    context: &Context,
    service: &Service,
    slices: &[EndpointSlice],
) -> Result<(), Error> {
    let api: Api<Endpoints> =
        Api::namespaced(context.endpoints.clone(), &service.namespace().unwrap_or_default());
    let wanted = endpoints(service, slices);
    let Some(known) = api.get_opt(&service.name_any()).await? else {
        api.create(&PostParams::default(), &wanted).await?;
        return Ok(());
    };
    if known.subsets == wanted.subsets && known.labels() == wanted.labels() {
        return Ok(());
    }
    let metadata = ObjectMeta { labels: wanted.metadata.labels, ..known.metadata };
    let next = Endpoints { metadata, subsets: wanted.subsets };
    api.replace(&service.name_any(), &PostParams::default(), &next).await?;
    Ok(())
}

/// Returns the slices as one Endpoints object: ready and other addresses per set of ports. Terminating pods are left
/// out.
fn endpoints(service: &Service, slices: &[EndpointSlice]) -> Endpoints {
    let mut subsets = Vec::new();
    let mut room = ADDRESSES_MAX;
    for slice in slices {
        let (mut ready, mut other) = (Vec::new(), Vec::new());
        for endpoint in slice.endpoints.iter().flatten() {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            if conditions.terminating == Some(true) && conditions.ready != Some(true) || room == 0 {
                continue;
            }
            room -= 1;
            let address = EndpointAddress {
                ip: endpoint.addresses.first().cloned().unwrap_or_default(),
                hostname: endpoint.hostname.clone(),
                node_name: endpoint.node_name.clone(),
                target_ref: endpoint.target_ref.clone(),
            };
            if conditions.ready == Some(true) { ready.push(address) } else { other.push(address) }
        }
        if ready.is_empty() && other.is_empty() {
            continue;
        }
        let filled = |list: Vec<EndpointAddress>| Some(list).filter(|l| !l.is_empty());
        let ports: Vec<EndpointPort> = slice.ports.iter().flatten().map(core_port).collect();
        subsets.push(EndpointSubset {
            addresses: filled(ready),
            not_ready_addresses: filled(other),
            ports: Some(ports).filter(|l| !l.is_empty()),
        });
    }
    let mut labels = service.labels().clone();
    labels.insert("endpoints.kubernetes.io/managed-by".into(), "endpoint-controller".into());
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.namespace(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets).filter(|l| !l.is_empty()),
    }
}

fn core_port(port: &k8s_openapi::api::discovery::v1::EndpointPort) -> EndpointPort {
    EndpointPort {
        name: port.name.clone().filter(|name| !name.is_empty()),
        port: port.port.unwrap_or(0),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    }
}

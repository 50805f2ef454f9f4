//! Services in the pods' network: their addresses are routed to endpoints ([`routing`]) and their names resolved
//! ([`dns`], [`names`]). The API's Service needs no rule, because its address belongs to the network itself.
//!
//! `nft` loads the rules inside the sandbox's own network, so the machine's firewall is never touched. If that is not
//! possible (plain mode, no `nft`), each Service with an address and a selector gets a Warning Event. Names of pods are
//! also in the hosts files (`node/hosts`), which need no server.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Resource as _, ResourceExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub mod dns;
mod names;
mod negatives;
mod routing;

use super::LocalNode;
use super::policy::load;
use super::sandbox::client::Sandbox;
use super::sandbox::protocol::{Failure, ListenSpec};
use controller_runtime::cache::{Cache, Key, follow};
use controller_runtime::index::Index;
use controller_runtime::record::{Note, Recorder};
use kubelet::{OWN_ADDRESS, OWN_PORT};
use names::Directory;
use negatives::Negatives;

/// The Services and slices in which names are looked up.
#[derive(Clone)]
struct Known {
    services: Cache<Service>,
    slices: Cache<EndpointSlice>,
    of_service: Arc<Index<EndpointSlice, Key>>,
}

impl Known {
    /// Empty caches, which are indexed until `stop`.
    fn new(stop: &CancellationToken) -> Self {
        let slices = Cache::default();
        let of_service = Arc::new(Index::new(&slices, stop, service_of));
        Self { services: Cache::default(), slices, of_service }
    }
}

impl Directory for Known {
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.services.get(&Key::new(namespace, name))
    }

    fn slices(&self, namespace: &str, name: &str) -> Vec<Arc<EndpointSlice>> {
        self.of_service.get(&Key::new(namespace, name))
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.services.list()
    }
}

/// Listens for connections of pods in their own network, at the address of the Service `kubernetes`, which belongs to that
/// network (`sandbox::network`).
///
/// # Errors
/// When the pods have no network of their own, or the port is taken there.
pub async fn listen_for_pods(sandbox: &Sandbox, port: u16) -> Result<TcpListener, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("port {port} in the pods' network: {error}"));
    let door = sandbox.listen(ListenSpec { port, stream: true }).await?;
    let door = std::net::TcpListener::from(door);
    door.set_nonblocking(true).map_err(failed)?;
    TcpListener::from_std(door).map_err(failed)
}

/// Returns the environment variables with the address of the API (`pkg/kubelet/envvars`).
pub fn api_variables() -> [(&'static str, String); 8] {
    let url = format!("tcp://{OWN_ADDRESS}:{OWN_PORT}");
    [
        ("KUBERNETES_SERVICE_HOST", OWN_ADDRESS.to_string()),
        ("KUBERNETES_SERVICE_PORT", OWN_PORT.to_string()),
        ("KUBERNETES_SERVICE_PORT_HTTPS", OWN_PORT.to_string()),
        ("KUBERNETES_PORT", url.clone()),
        ("KUBERNETES_PORT_443_TCP", url),
        ("KUBERNETES_PORT_443_TCP_PROTO", "tcp".to_owned()),
        ("KUBERNETES_PORT_443_TCP_PORT", OWN_PORT.to_string()),
        ("KUBERNETES_PORT_443_TCP_ADDR", OWN_ADDRESS.to_string()),
    ]
}

/// Opens the name server's sockets in the pods' network.
///
/// # Errors
/// When the pods have no network of their own.
pub async fn listen(sandbox: &Sandbox) -> Result<dns::Sockets, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("the pods' name server: {error}"));
    let datagrams = sandbox.listen(ListenSpec { port: dns::PORT, stream: false }).await?;
    let datagrams = std::net::UdpSocket::from(datagrams);
    let connections = sandbox.listen(ListenSpec { port: dns::PORT, stream: true }).await?;
    let connections = std::net::TcpListener::from(connections);
    datagrams.set_nonblocking(true).and_then(|()| connections.set_nonblocking(true)).map_err(failed)?;
    Ok(dns::Sockets {
        datagrams: UdpSocket::from_std(datagrams).map_err(failed)?,
        connections: TcpListener::from_std(connections).map_err(failed)?,
    })
}

/// Keeps routes and names up to date until dropped.
pub async fn keep(node: Arc<LocalNode>, sockets: Option<Arc<dns::Sockets>>, stop: CancellationToken) {
    let known = Known::new(&stop);
    let wake = Arc::new(Notify::new());
    // Of the headless Services, one for each job, nothing is routed.
    let to = wake.clone();
    known.services.on_change(&stop, move |change| {
        if [&change.old, &change.new]
            .into_iter()
            .flatten()
            .any(|service| names::cluster_ip(service).is_some())
        {
            to.notify_one();
        }
    });
    let (to, services) = (wake.clone(), known.services.clone());
    known.slices.on_change(&stop, move |change| {
        // If the Service is not known yet, its own arrival is a change.
        let service = change.latest().and_then(|slice| services.get(&service_of(slice)?));
        if service.is_some_and(|service| names::cluster_ip(&service).is_some()) {
            to.notify_one();
        }
    });
    let recorder = Recorder::start(node.client.clone(), "service-routing", stop.clone());
    let names = async {
        if let Some(sockets) = sockets {
            let negatives = Arc::new(Negatives::new(node.dns_negative_ttl));
            dns::serve(&sockets, Arc::new(known.clone()), negatives).await;
        }
    };
    tokio::join!(
        follow(Api::all(node.client.clone()), known.services.clone(), stop.clone()),
        follow(Api::all(node.client.clone()), known.slices.clone(), stop.clone()),
        route(&node, &known, &wake, &recorder),
        names
    );
}

/// Returns the Service that a slice belongs to.
fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(names::SERVICE_LABEL)?;
    Some(Key::new(slice.metadata.namespace.clone()?, name))
}

async fn route(node: &LocalNode, known: &Known, wake: &Notify, recorder: &Recorder) {
    known.services.filled().await;
    known.slices.filled().await;
    let mut loaded: Option<String> = None;
    let mut told = BTreeSet::new();
    loop {
        let services = known.services.list();
        let rules = routing::ruleset(&services, &known.slices.list());
        // Load nothing at all until there is a first Service.
        let rules = rules.or_else(|| loaded.is_some().then(routing::empty));
        if let Some(rules) = rules.filter(|rules| loaded.as_ref() != Some(rules)) {
            match load(node, "services.nft", &rules).await {
                Ok(()) => loaded = Some(rules),
                Err(why) => tell(&services, &why, &mut told, recorder),
            }
        }
        wake.notified().await;
    }
}

/// Records an Event, once per Service and reason, for Services whose own address is not routed.
fn tell(services: &[Arc<Service>], why: &str, told: &mut BTreeSet<String>, recorder: &Recorder) {
    tracing::warn!(why, "cluster IPs of Services are not routed");
    let selects = |service: &&Arc<Service>| {
        names::cluster_ip(service).is_some()
            && service.spec.as_ref().is_some_and(|spec| spec.selector.is_some())
    };
    for service in services.iter().filter(selects) {
        if told.insert(format!("{} {why}", service.uid().unwrap_or_default())) {
            let message = format!("The Service's cluster IP is unreachable: {why}");
            recorder.note_ref(service.object_ref(&()), Note::warning("ClusterIPNotRouted", message));
        }
    }
}

//! DNS names of Services and pods. Pure.
//!
//! Rules: Kubernetes' DNS-based service discovery, version 1.1.0 (`dns/docs/specification.md`): Services by their
//! address, headless Services by the addresses of their ready endpoints, each endpoint by its hostname, named ports
//! (SRV), reverse lookups (PTR), and pods by their dashed address. Names are lower-case, without a final dot.

use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// The domain of all names.
pub const DOMAIN: &str = "cluster.local";
/// The label that names a slice's Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The type of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// `A`.
    Address,
    /// `SRV`.
    Port,
    /// `PTR`.
    Name,
    /// Any other type; no name has such records.
    Other,
}

/// One record of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// `A`.
    Address(Ipv4Addr),
    /// `SRV`: a port and its host name.
    Port(u16, String),
    /// `PTR`.
    Name(String),
    /// `CNAME`.
    Alias(String),
}

/// The Services and endpoints of the cluster.
pub trait Directory: Send + Sync {
    /// Returns a Service by name.
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>>;
    /// Returns the slices of a Service.
    fn slices(&self, namespace: &str, name: &str) -> Vec<Arc<EndpointSlice>>;
    /// Returns every Service.
    fn services(&self) -> Vec<Arc<Service>>;
}

/// Returns the records of a name: `None` if the name does not exist, an empty list if it has none of this type.
pub fn lookup(directory: &dyn Directory, name: &str, wanted: Wanted) -> Option<Vec<Record>> {
    if let Some(reversed) = name.strip_suffix(".in-addr.arpa") {
        return of_address(directory, reversed, wanted);
    }
    let below = name.strip_suffix(DOMAIN)?;
    if below.is_empty() {
        return Some(Vec::new());
    }
    let mut labels: Vec<&str> = below.strip_suffix('.')?.split('.').collect();
    match labels.pop()? {
        "svc" => in_services(directory, &labels, wanted),
        "pod" => match labels.as_slice() {
            [] | [_] => Some(Vec::new()),
            [dashed, _namespace] => {
                let address = dashed.replace('-', ".").parse().ok()?;
                Some(addresses(wanted, [address]))
            }
            _ => None,
        },
        _ => None,
    }
}

fn in_services(directory: &dyn Directory, labels: &[&str], wanted: Wanted) -> Option<Vec<Record>> {
    match labels {
        // A namespace has no records of its own.
        [] | [_] => Some(Vec::new()),
        [name, namespace] => of_service(directory, namespace, name, wanted),
        [protocol, name, namespace] if protocol.starts_with('_') => {
            directory.service(namespace, name).map(|_| Vec::new())
        }
        [host, name, namespace] => {
            let slices = directory.slices(namespace, name);
            let found = ready(&slices).filter(|(endpoint, address)| host_of(endpoint, *address) == *host);
            let found = found.map(|(_, address)| address).collect::<Vec<_>>();
            if found.is_empty() { None } else { Some(addresses(wanted, found)) }
        }
        [port, protocol, name, namespace] => {
            let (port, protocol) = (port.strip_prefix('_')?, protocol.strip_prefix('_')?);
            let service = directory.service(namespace, name)?;
            let found = ports(directory, &service, namespace, name, port, protocol);
            match (found.is_empty(), wanted) {
                (true, _) => None,
                (false, Wanted::Port) => Some(found),
                (false, _) => Some(Vec::new()),
            }
        }
        _ => None,
    }
}

fn of_service(directory: &dyn Directory, namespace: &str, name: &str, wanted: Wanted) -> Option<Vec<Record>> {
    let service = directory.service(namespace, name)?;
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        let alias = spec.external_name.clone()?;
        return Some(vec![Record::Alias(alias)]);
    }
    if let Some(address) = cluster_ip(&service) {
        return Some(addresses(wanted, [address]));
    }
    let slices = directory.slices(namespace, name);
    let mut found: Vec<Ipv4Addr> = ready(&slices).map(|(_, address)| address).collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { None } else { Some(addresses(wanted, found)) }
}

/// Returns the Service's own address; `None` for a headless Service.
pub fn cluster_ip(service: &Service) -> Option<Ipv4Addr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

fn addresses(wanted: Wanted, found: impl IntoIterator<Item = Ipv4Addr>) -> Vec<Record> {
    if wanted == Wanted::Address { found.into_iter().map(Record::Address).collect() } else { Vec::new() }
}

/// Returns the ready endpoints, each with its addresses.
pub fn ready(slices: &[Arc<EndpointSlice>]) -> impl Iterator<Item = (&Endpoint, Ipv4Addr)> {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let is_ready =
        |endpoint: &&Endpoint| endpoint.conditions.as_ref().and_then(|known| known.ready) != Some(false);
    endpoints.filter(is_ready).flat_map(|endpoint| {
        endpoint.addresses.iter().filter_map(move |address| Some((endpoint, address.parse().ok()?)))
    })
}

/// Returns an endpoint's host name below its Service.
fn host_of(endpoint: &Endpoint, address: Ipv4Addr) -> String {
    endpoint.hostname.clone().unwrap_or_else(|| address.to_string().replace('.', "-"))
}

fn ports(
    directory: &dyn Directory,
    service: &Service,
    namespace: &str,
    name: &str,
    port: &str,
    protocol: &str,
) -> Vec<Record> {
    let own = format!("{name}.{namespace}.svc.{DOMAIN}");
    let is_meant = |known: &Option<String>, spoken: &Option<String>| {
        known.as_deref() == Some(port) && spoken.as_deref().unwrap_or("TCP").eq_ignore_ascii_case(protocol)
    };
    let number = |port: i32| u16::try_from(port).unwrap_or_default();
    if cluster_ip(service).is_some() {
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let meant = ports.filter(|known: &&ServicePort| is_meant(&known.name, &known.protocol));
        return meant.map(|known| Record::Port(number(known.port), own.clone())).collect();
    }
    let mut found = Vec::new();
    for slice in directory.slices(namespace, name) {
        let meant = slice.ports.iter().flatten().find(|known| is_meant(&known.name, &known.protocol));
        let Some(port) = meant.and_then(|known| known.port) else { continue };
        let slice = [slice.clone()];
        found.extend(ready(&slice).map(|(endpoint, address)| {
            Record::Port(number(port), format!("{}.{own}", host_of(endpoint, address)))
        }));
    }
    found
}

/// Returns the names of an address, given in reverse.
fn of_address(directory: &dyn Directory, reversed: &str, wanted: Wanted) -> Option<Vec<Record>> {
    let reversed: Ipv4Addr = reversed.parse().ok()?;
    let mut octets = reversed.octets();
    octets.reverse();
    let address = Ipv4Addr::from(octets);
    let mut names = Vec::new();
    for service in directory.services() {
        let metadata = &service.metadata;
        let (Some(name), Some(namespace)) = (&metadata.name, &metadata.namespace) else { continue };
        let own = format!("{name}.{namespace}.svc.{DOMAIN}");
        if cluster_ip(&service) == Some(address) {
            names.push(own);
            continue;
        }
        let slices = directory.slices(namespace, name);
        let below = ready(&slices).filter(|(_, known)| *known == address);
        names.extend(below.map(|(endpoint, address)| format!("{}.{own}", host_of(endpoint, address))));
    }
    match (names.is_empty(), wanted) {
        (true, _) => None,
        (false, Wanted::Name) => Some(names.into_iter().map(Record::Name).collect()),
        (false, _) => Some(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Known(Vec<Arc<Service>>, Vec<Arc<EndpointSlice>>);

    impl Directory for Known {
        fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
            let is = |service: &&Arc<Service>| {
                service.metadata.name.as_deref() == Some(name)
                    && service.metadata.namespace.as_deref() == Some(namespace)
            };
            self.0.iter().find(is).cloned()
        }

        fn slices(&self, _namespace: &str, name: &str) -> Vec<Arc<EndpointSlice>> {
            let is =
                |slice: &&Arc<EndpointSlice>| slice.metadata.labels.as_ref().unwrap()[SERVICE_LABEL] == name;
            self.1.iter().filter(is).cloned().collect()
        }

        fn services(&self) -> Vec<Arc<Service>> {
            self.0.clone()
        }
    }

    fn known() -> Known {
        let service = |name: &str, spec: serde_json::Value| {
            let whole = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
            Arc::new(serde_json::from_value(whole).unwrap())
        };
        let slice = json!({"metadata": {"name": "s", "namespace": "n", "labels": {SERVICE_LABEL: "job"}},
            "addressType": "IPv4", "ports": [{"name": "ssh", "port": 2222, "protocol": "TCP"}], "endpoints": [
                {"addresses": ["10.77.0.2"], "hostname": "job-worker-1", "conditions": {"ready": true}},
                {"addresses": ["10.77.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.77.0.3"], "hostname": "job-worker-2", "conditions": {"ready": false}}]});
        Known(
            vec![
                service("web", json!({"clusterIP": "10.96.0.9", "ports": [{"name": "http", "port": 80}]})),
                service("job", json!({"clusterIP": "None"})),
                service("out", json!({"type": "ExternalName", "externalName": "example.org"})),
            ],
            vec![Arc::new(serde_json::from_value(slice).unwrap())],
        )
    }

    #[test]
    fn names_resolve_as_specified() {
        let known = known();
        let address = |text: &str| Record::Address(text.parse().unwrap());
        let port = |number: u16, target: &str| Record::Port(number, target.to_owned());
        let table = [
            ("web.n.svc.cluster.local", Wanted::Address, Some(vec![address("10.96.0.9")])),
            ("web.n.svc.cluster.local", Wanted::Other, Some(vec![])),
            ("web.other.svc.cluster.local", Wanted::Address, None),
            (
                "job.n.svc.cluster.local",
                Wanted::Address,
                Some(vec![address("10.77.0.1"), address("10.77.0.2")]),
            ),
            ("job-worker-1.job.n.svc.cluster.local", Wanted::Address, Some(vec![address("10.77.0.2")])),
            ("job-worker-2.job.n.svc.cluster.local", Wanted::Address, None),
            ("10-77-0-1.job.n.svc.cluster.local", Wanted::Address, Some(vec![address("10.77.0.1")])),
            ("10-77-0-1.n.pod.cluster.local", Wanted::Address, Some(vec![address("10.77.0.1")])),
            (
                "_http._tcp.web.n.svc.cluster.local",
                Wanted::Port,
                Some(vec![port(80, "web.n.svc.cluster.local")]),
            ),
            (
                "_ssh._tcp.job.n.svc.cluster.local",
                Wanted::Port,
                Some(vec![
                    port(2222, "job-worker-1.job.n.svc.cluster.local"),
                    port(2222, "10-77-0-1.job.n.svc.cluster.local"),
                ]),
            ),
            ("_ssh._udp.job.n.svc.cluster.local", Wanted::Port, None),
            ("out.n.svc.cluster.local", Wanted::Address, Some(vec![Record::Alias("example.org".into())])),
            (
                "2.0.77.10.in-addr.arpa",
                Wanted::Name,
                Some(vec![Record::Name("job-worker-1.job.n.svc.cluster.local".into())]),
            ),
            (
                "9.0.96.10.in-addr.arpa",
                Wanted::Name,
                Some(vec![Record::Name("web.n.svc.cluster.local".into())]),
            ),
            ("9.9.9.9.in-addr.arpa", Wanted::Name, None),
            ("cluster.local", Wanted::Address, Some(vec![])),
            ("svc.cluster.local", Wanted::Address, Some(vec![])),
            ("xcluster.local", Wanted::Address, None),
            ("example.org", Wanted::Address, None),
        ];
        for (name, wanted, expected) in table {
            assert_eq!(lookup(&known, name, wanted), expected, "{name} {wanted:?}");
        }
    }
}

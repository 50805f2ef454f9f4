//! Translates Services' addresses into an nftables ruleset for the network that forwards all pods' packets. Pure.
//!
//! A new connection to a Service's port goes to a random ready endpoint, as in kube-proxy's nftables mode. A connection
//! to a Service without endpoints finds no route. IPv4, TCP and UDP.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::names::{SERVICE_LABEL, cluster_ip, ready};

/// The table for all rules; no other table is touched.
const TABLE: &str = "odh_services";

/// Returns the whole ruleset. Loading it atomically replaces the previous one. Returns `None` if no Service has an
/// endpoint in the pods' network.
pub fn ruleset(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Option<String> {
    let mut of: BTreeMap<(&str, &str), Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in slices {
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL));
        if let (Some(service), Some(namespace)) = (service, &slice.metadata.namespace) {
            of.entry((namespace, service)).or_default().push(slice.clone());
        }
    }
    let (mut rules, mut own) = (BTreeSet::new(), BTreeSet::new());
    for service in services {
        let metadata = &service.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { continue };
        let (Some(address), Some(slices)) =
            (cluster_ip(service), of.get(&(namespace.as_str(), name.as_str())))
        else {
            continue;
        };
        for port in service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()) {
            let protocol = match port.protocol.as_deref() {
                None | Some("TCP") => "tcp",
                Some("UDP") => "udp",
                Some(_) => continue,
            };
            let behind = behind(slices, port.name.as_deref().unwrap_or_default());
            own.extend(behind.iter().map(|(address, _)| *address));
            if let Some(to) = destination(&behind) {
                rules.insert(format!("ip daddr {address} {protocol} dport {} {to}", port.port));
            }
        }
    }
    if rules.is_empty() {
        return None;
    }
    let mut text = format!("add table ip {TABLE}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n");
    text.push_str("  chain prerouting {\n    type nat hook prerouting priority -100; policy accept;\n");
    for rule in rules {
        let _ = writeln!(text, "    {rule}");
    }
    text.push_str("  }\n  chain postrouting {\n    type nat hook postrouting priority 100; policy accept;\n");
    // A pod that connects to itself through a Service must see another sender, or it would answer itself directly.
    for address in own {
        let _ = writeln!(text, "    ip saddr {address} ip daddr {address} masquerade");
    }
    text.push_str("  }\n}\n");
    Some(text)
}

/// Returns a ruleset without any Service.
pub fn empty() -> String {
    format!("add table ip {TABLE}\ndelete table ip {TABLE}\n")
}

/// Returns the ready endpoints of a port, by the port's name.
fn behind(slices: &[Arc<EndpointSlice>], port: &str) -> BTreeSet<(Ipv4Addr, u16)> {
    let mut found = BTreeSet::new();
    for slice in slices {
        let named =
            slice.ports.iter().flatten().find(|known| known.name.as_deref().unwrap_or_default() == port);
        let number = named.and_then(|known| u16::try_from(known.port?).ok());
        let Some(number) = number else { continue };
        let own = [slice.clone()];
        // The API server itself listens on the machine's loopback, which pods cannot reach.
        let reachable = ready(&own).filter(|(_, address)| !address.is_loopback());
        found.extend(reachable.map(|(_, address)| (address, number)));
    }
    found
}

fn destination(behind: &BTreeSet<(Ipv4Addr, u16)>) -> Option<String> {
    let mut all = behind.iter();
    match (all.next(), behind.len()) {
        (None, _) => None,
        (Some((address, port)), 1) => Some(format!("dnat to {address}:{port}")),
        (Some(_), count) => {
            let entries = behind.iter().enumerate();
            let entries: Vec<String> =
                entries.map(|(number, (address, port))| format!("{number} : {address} . {port}")).collect();
            Some(format!("dnat ip addr . port to numgen random mod {count} map {{ {} }}", entries.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_connection_goes_to_a_ready_endpoint() {
        let service = |name: &str, spec: Value| {
            let whole = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
            Arc::new(serde_json::from_value::<Service>(whole).unwrap())
        };
        let slice = |name: &str, endpoints: Value| {
            let whole = json!({"metadata": {"name": name, "namespace": "n", "labels": {SERVICE_LABEL: name}},
                "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints});
            Arc::new(serde_json::from_value::<EndpointSlice>(whole).unwrap())
        };
        let two = json!([{"addresses": ["10.77.0.2"]}, {"addresses": ["10.77.0.1"]},
            {"addresses": ["10.77.0.3"], "conditions": {"ready": false}}]);
        let services = [
            service("a", json!({"clusterIP": "10.96.0.7", "ports": [{"port": 80}]})),
            service("b", json!({"clusterIP": "10.96.0.8", "ports": [{"port": 53, "protocol": "UDP"}]})),
            service("none", json!({"clusterIP": "10.96.0.9", "ports": [{"port": 1}]})),
            service("headless", json!({"clusterIP": "None", "ports": [{"port": 1}]})),
        ];
        let slices = [
            slice("a", two),
            slice("b", json!([{"addresses": ["10.77.0.1"]}])),
            slice("headless", json!([{"addresses": ["10.77.0.1"]}])),
        ];
        let rules = ruleset(&services, &slices).unwrap();
        for line in [
            "    ip daddr 10.96.0.7 tcp dport 80 dnat ip addr . port to numgen random mod 2 map { 0 : 10.77.0.1 . 8080, 1 : 10.77.0.2 . 8080 }\n",
            "    ip daddr 10.96.0.8 udp dport 53 dnat to 10.77.0.1:8080\n",
            "    ip saddr 10.77.0.2 ip daddr 10.77.0.2 masquerade\n",
        ] {
            assert!(rules.contains(line), "{rules}");
        }
        assert!(!rules.contains("10.96.0.9") && !rules.contains("10.77.0.3"), "{rules}");
        let own = [service("kubernetes", json!({"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}))];
        assert_eq!(ruleset(&own, &[slice("kubernetes", json!([{"addresses": ["127.0.0.1"]}]))]), None);
    }
}

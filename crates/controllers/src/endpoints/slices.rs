//! Computes a Service's EndpointSlices from the pods that its selector matches. Pure.
//!
//! Rules: `k8s.io/endpointslice` (`reconciler.go`, `utils.go`) of Kubernetes 1.36. Names are derived from the ports and
//! a number instead of being random, so writing twice is harmless.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use sha2::{Digest, Sha256};

use semantics::{has_ended, is_ready};

/// The most endpoints in one slice (upstream's `--max-endpoints-per-slice`).
const PER_SLICE_MAX: usize = 100;
/// The label with the Service of a slice.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label with the writer of a slice.
pub const MANAGER_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Our value of that label; clients know it.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// Returns the Service's selector, if this controller maintains its endpoints.
pub fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref().filter(|s| s.type_.as_deref() != Some("ExternalName"))?;
    spec.selector.as_ref().filter(|s| !s.is_empty())
}

/// Returns whether the selector matches the pod.
pub fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let labels = pod.labels();
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Returns the slices of `service`, given the pods of its namespace; empty if it has no selector.
pub fn slices(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    let (Some(selector), Some(spec)) = (selector(service), &service.spec) else { return Vec::new() };
    let early = spec.publish_not_ready_addresses == Some(true);
    let ports = spec.ports.as_deref().unwrap_or_default();
    // Pods may map a named port to different numbers: one group per set of ports.
    let mut groups: BTreeMap<Vec<PortKey>, Vec<Endpoint>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| selects(selector, pod) && !has_ended(pod)) {
        if let Some(endpoint) = endpoint(service, pod, early) {
            let key = ports.iter().filter_map(|port| port_of(port, pod)).collect();
            groups.entry(key).or_default().push(endpoint);
        }
    }
    if groups.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    let mut made = Vec::new();
    for (ports, endpoints) in groups {
        let chunks: Vec<Vec<Endpoint>> = if endpoints.is_empty() {
            vec![Vec::new()]
        } else {
            endpoints.chunks(PER_SLICE_MAX).map(<[_]>::to_vec).collect()
        };
        for (number, chunk) in chunks.into_iter().enumerate() {
            made.push(slice(service, &ports, number, chunk));
        }
    }
    made
}

/// Name, protocol, number, application protocol.
type PortKey = (String, String, i32, Option<String>);

/// Returns the pod's port for a Service's port; `None` if the pod has none of that name.
fn port_of(port: &ServicePort, pod: &Pod) -> Option<PortKey> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) if name.is_empty() => port.port,
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            let mut all = containers.flat_map(|c| c.ports.iter().flatten());
            let same = |p: &str| p == protocol;
            all.find(|p| p.name.as_ref() == Some(name) && same(p.protocol.as_deref().unwrap_or("TCP")))?
                .container_port
        }
    };
    Some((port.name.clone().unwrap_or_default(), protocol, number, port.app_protocol.clone()))
}

/// Returns the pod's endpoint; `None` while it has no address.
fn endpoint(service: &Service, pod: &Pod, early: bool) -> Option<Endpoint> {
    let status = pod.status.as_ref()?;
    let address = status.pod_ip.clone().filter(|ip| !ip.is_empty())?;
    let ready = is_ready(pod);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let spec = pod.spec.as_ref();
    let named = spec.is_some_and(|s| s.subdomain == service.metadata.name);
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(early || (ready && !terminating)),
            serving: Some(ready),
            terminating: Some(terminating),
        }),
        hostname: spec.and_then(|s| s.hostname.clone()).filter(|name| named && !name.is_empty()),
        node_name: spec.and_then(|s| s.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.namespace(),
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

fn slice(service: &Service, ports: &[PortKey], number: usize, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let name = service.name_any();
    let mut labels = service.labels().clone();
    labels.insert(SERVICE_LABEL.into(), name.clone());
    labels.insert(MANAGER_LABEL.into(), MANAGER.into());
    if service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS_LABEL.into(), String::new());
    }
    let digest = Sha256::digest(format!("{:?} {ports:?} {number}", service.uid()));
    let suffix: String = digest.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{suffix}")),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: service.controller_owner_ref(&()).map(|mut owner| {
                owner.block_owner_deletion = Some(true);
                vec![owner]
            }),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".into(),
        endpoints: Some(endpoints),
        ports: Some(
            ports
                .iter()
                .cloned()
                .map(|(name, protocol, number, app_protocol)| EndpointPort {
                    name: Some(name),
                    protocol: Some(protocol),
                    port: Some(number),
                    app_protocol,
                })
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(more: Value) -> Service {
        let mut whole = json!({"metadata": {"name": "job", "namespace": "n", "uid": "u"},
            "spec": {"clusterIP": "None", "selector": {"app": "x"}}});
        json_patch::merge(&mut whole, &more);
        serde_json::from_value(whole).unwrap()
    }

    fn pod(name: &str, ready: bool, more: Value) -> Arc<Pod> {
        let mut whole = json!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "x"}},
            "spec": {"hostname": name, "subdomain": "job", "nodeName": "node", "containers": [{"name": "c",
                "ports": [{"name": "ssh", "containerPort": 2222}]}]},
            "status": {"phase": "Running", "podIP": format!("10.0.0.{}", name.len()),
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        json_patch::merge(&mut whole, &more);
        Arc::new(serde_json::from_value(whole).unwrap())
    }

    /// One line per slice: ports, then `hostname=address` with r ready, s serving, t terminating.
    fn text(slices: &[EndpointSlice]) -> Vec<String> {
        let flag = |on: Option<bool>, letter: &'static str| if on == Some(true) { letter } else { "" };
        slices
            .iter()
            .map(|slice| {
                let ports: Vec<String> =
                    slice.ports.iter().flatten().map(|p| p.port.unwrap().to_string()).collect();
                let ends = slice.endpoints.iter().flatten().map(|e| {
                    let c = e.conditions.as_ref().unwrap();
                    let flags = [flag(c.ready, "r"), flag(c.serving, "s"), flag(c.terminating, "t")].concat();
                    format!("{}={}:{flags}", e.hostname.as_deref().unwrap_or("-"), e.addresses[0])
                });
                format!("[{}] {}", ports.join(","), ends.collect::<Vec<_>>().join(" ")).trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn endpoints_follow_the_pods() {
        let all = [
            pod("a", true, json!({})),
            pod("bb", false, json!({"spec": {"subdomain": "other"}})),
            pod("ccc", true, json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}})),
            pod("dddd", true, json!({"status": {"phase": "Succeeded"}})),
            pod("eeeee", true, json!({"status": {"podIP": null}})),
            pod("ffffff", true, json!({"metadata": {"labels": {"app": "y"}}})),
        ];
        assert_eq!(
            text(&slices(&service(json!({})), &all)),
            ["[] a=10.0.0.1:rs -=10.0.0.2: ccc=10.0.0.3:st"]
        );
        let early = service(json!({"spec": {"publishNotReadyAddresses": true}}));
        assert_eq!(text(&slices(&early, &all)), ["[] a=10.0.0.1:rs -=10.0.0.2:r ccc=10.0.0.3:rst"]);
        assert_eq!(
            text(&slices(&service(json!({})), &[])),
            ["[]"],
            "an empty slice says that nobody is there"
        );
        assert_eq!(
            slices(&service(json!({"spec": {"selector": null}})), &all),
            [],
            "somebody else's to write"
        );
        let made = slices(&service(json!({"metadata": {"labels": {"app": "job"}}})), &all);
        assert_eq!(
            serde_json::to_value(&made[0].metadata.labels).unwrap(),
            json!({"app": "job", "kubernetes.io/service-name": "job", "service.kubernetes.io/headless": "",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
        );
    }

    #[test]
    fn ports_by_number_and_by_name() {
        let by_name = service(json!({"spec": {"ports": [{"port": 22, "targetPort": "ssh"}, {"port": 80}]}}));
        let other = pod(
            "bb",
            true,
            json!({"spec": {"containers": [{"name": "c",
            "ports": [{"name": "ssh", "containerPort": 22}]}]}}),
        );
        assert_eq!(
            text(&slices(&by_name, &[pod("a", true, json!({})), other])),
            ["[22,80] bb=10.0.0.2:rs", "[2222,80] a=10.0.0.1:rs"]
        );
    }

    #[test]
    fn slices_have_at_most_100_endpoints_and_stable_names() {
        let pods: Vec<Arc<Pod>> = (0..205).map(|n| pod(&format!("p{n}"), true, json!({}))).collect();
        let made = slices(&service(json!({})), &pods);
        let sizes: Vec<usize> = made.iter().map(|s| s.endpoints.as_ref().unwrap().len()).collect();
        assert_eq!(sizes, [100, 100, 5]);
        let names: std::collections::BTreeSet<_> = made.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names.len(), 3);
        assert_eq!(slices(&service(json!({})), &pods[..50])[0].name_any(), made[0].name_any());
    }
}

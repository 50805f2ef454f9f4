//! Headings and rows of built-in kinds, one small function per kind.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::age::since;
use super::super::kinds::Kind;
use super::cells::{
    AGE, NAME, Row, age, count, created, integer, labels, list, name, none, selector, string, text, wide,
};
use super::{Heading, pod};

/// Returns the headings of a kind, and its row function.
pub(super) fn of(kind: &Kind) -> (Vec<Heading>, Row) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ReplicationController") | ("apps", _) => super::apps::of(&kind.kind),
        ("", _) => of_core(&kind.kind),
        ("batch", _) => super::batch::of(&kind.kind),
        ("events.k8s.io", "Event") => (EVENT.to_vec(), event),
        ("coordination.k8s.io", "Lease") => (vec![NAME, string("Holder"), AGE], |o, now| {
            vec![name(o), json!(text(&o["spec"], "holderIdentity")), age(o, now)]
        }),
        ("discovery.k8s.io", "EndpointSlice") => {
            (vec![NAME, string("AddressType"), string("Ports"), string("Endpoints"), AGE], endpoint_slice)
        }
        ("networking.k8s.io", "NetworkPolicy") => (vec![NAME, string("Pod-Selector"), AGE], |o, now| {
            vec![name(o), selector(&o["spec"]["podSelector"]), age(o, now)]
        }),
        ("policy", "PodDisruptionBudget") => (
            vec![
                NAME,
                string("Min Available"),
                string("Max Unavailable"),
                integer("Allowed Disruptions"),
                AGE,
            ],
            budget,
        ),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            (vec![NAME, string("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")], binding)
        }
        ("scheduling.k8s.io", "PriorityClass") => (
            vec![
                NAME,
                integer("Value"),
                ("Global-Default", "boolean", "", 0),
                AGE,
                string("PreemptionPolicy"),
            ],
            |o, now| {
                let global = o["globalDefault"] == true;
                vec![
                    name(o),
                    json!(o["value"].as_i64().unwrap_or_default()),
                    json!(global),
                    age(o, now),
                    json!(text(o, "preemptionPolicy")),
                ]
            },
        ),
        ("storage.k8s.io", "StorageClass") => (
            vec![
                NAME,
                string("Provisioner"),
                string("ReclaimPolicy"),
                string("VolumeBindingMode"),
                string("AllowVolumeExpansion"),
                AGE,
            ],
            storage_class,
        ),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => (vec![NAME, integer("Webhooks"), AGE], |o, now| {
            vec![name(o), json!(list(o, "webhooks").count()), age(o, now)]
        }),
        // CustomResourceDefinitions, Roles and ClusterRoles show their creation as a timestamp.
        _ => (vec![NAME, ("Created At", "date", "", 0)], |o, _| vec![name(o), created(o)]),
    }
}

const EVENT: &[Heading] = &[
    string("Last Seen"),
    string("Type"),
    string("Reason"),
    string("Object"),
    wide("Subobject"),
    wide("Source"),
    string("Message"),
    wide("First Seen"),
    wide("Count"),
    ("Name", "string", "name", 1),
];

fn of_core(kind: &str) -> (Vec<Heading>, Row) {
    match kind {
        "Pod" => (
            vec![
                NAME,
                string("Ready"),
                string("Status"),
                string("Restarts"),
                AGE,
                wide("IP"),
                wide("Node"),
                wide("Nominated Node"),
                wide("Readiness Gates"),
            ],
            pod::row,
        ),
        "Service" => (
            vec![
                NAME,
                string("Type"),
                string("Cluster-IP"),
                string("External-IP"),
                string("Port(s)"),
                AGE,
                wide("Selector"),
            ],
            service,
        ),
        "Node" => (
            vec![
                NAME,
                string("Status"),
                string("Roles"),
                AGE,
                string("Version"),
                wide("Internal-IP"),
                wide("External-IP"),
                wide("OS-Image"),
                wide("Kernel-Version"),
                wide("Container-Runtime"),
            ],
            node,
        ),
        "Event" => (EVENT.to_vec(), event),
        "Endpoints" => {
            (vec![NAME, string("Endpoints"), AGE], |o, now| vec![name(o), endpoints(o), age(o, now)])
        }
        "Namespace" => (vec![NAME, string("Status"), AGE], |o, now| {
            vec![name(o), json!(text(&o["status"], "phase")), age(o, now)]
        }),
        "ConfigMap" => (vec![NAME, string("Data"), AGE], |o, now| {
            vec![name(o), json!(count(&o["data"]) + count(&o["binaryData"])), age(o, now)]
        }),
        "Secret" => (vec![NAME, string("Type"), string("Data"), AGE], |o, now| {
            vec![name(o), json!(text(o, "type")), json!(count(&o["data"])), age(o, now)]
        }),
        "ServiceAccount" => (vec![NAME, AGE], |o, now| vec![name(o), age(o, now)]),
        _ => of_core_stores(kind),
    }
}

/// Core kinds for storage and quotas, and all that show their creation as a timestamp.
fn of_core_stores(kind: &str) -> (Vec<Heading>, Row) {
    match kind {
        "PersistentVolume" => (
            vec![
                NAME,
                string("Capacity"),
                string("Access Modes"),
                string("Reclaim Policy"),
                string("Status"),
                string("Claim"),
                string("StorageClass"),
                string("VolumeAttributesClass"),
                string("Reason"),
                AGE,
                wide("VolumeMode"),
            ],
            volume,
        ),
        "PersistentVolumeClaim" => (
            vec![
                NAME,
                string("Status"),
                string("Volume"),
                string("Capacity"),
                string("Access Modes"),
                string("StorageClass"),
                string("VolumeAttributesClass"),
                AGE,
                wide("VolumeMode"),
            ],
            claim,
        ),
        "ResourceQuota" => (vec![NAME, string("Request"), string("Limit"), AGE], quota),
        _ => (vec![NAME, ("Created At", "date", "", 0)], |o, _| vec![name(o), created(o)]),
    }
}

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let external: Vec<&str> = list(spec, "externalIPs").filter_map(Value::as_str).collect();
    let balanced: BTreeSet<&str> = list(&service["status"]["loadBalancer"], "ingress")
        .map(|i| if text(i, "ip").is_empty() { text(i, "hostname") } else { text(i, "ip") })
        .filter(|address| !address.is_empty())
        .collect();
    let external = match text(spec, "type") {
        "ExternalName" => text(spec, "externalName").to_owned(),
        "LoadBalancer" if balanced.is_empty() && external.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => balanced.into_iter().chain(external).collect::<Vec<_>>().join(","),
        "" => "<unknown>".to_owned(),
        _ if external.is_empty() => "<none>".to_owned(),
        _ => external.join(","),
    };
    let port = |p: &Value| {
        let (number, protocol) = (p["port"].as_i64().unwrap_or_default(), text(p, "protocol"));
        match p["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = list(spec, "ports").map(port).collect();
    vec![
        name(service),
        json!(text(spec, "type")),
        none(spec["clusterIPs"][0].as_str().unwrap_or_default()),
        json!(external),
        none(&ports.join(",")),
        age(service, now),
        labels(&spec["selector"]),
    ]
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let (status, info) = (&node["status"], &node["status"]["nodeInfo"]);
    let mut words: Vec<&str> = list(status, "conditions")
        .filter(|c| c["type"] == "Ready")
        .map(|c| if c["status"] == "True" { "Ready" } else { "NotReady" })
        .collect();
    if words.is_empty() {
        words.push("Unknown");
    }
    if node["spec"]["unschedulable"] == true {
        words.push("SchedulingDisabled");
    }
    let roles: Vec<&str> = node["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            _ if label == "kubernetes.io/role" => value.as_str().filter(|v| !v.is_empty()),
            _ => None,
        })
        .collect();
    let address = |kind: &str| {
        none(
            list(status, "addresses")
                .find(|a| a["type"] == kind)
                .map(|a| text(a, "address"))
                .unwrap_or_default(),
        )
    };
    let known = |text: &str| if text.is_empty() { "<unknown>".to_owned() } else { text.to_owned() };
    let mut kernel = known(text(info, "kernelVersion"));
    if !text(info, "architecture").is_empty() {
        kernel = format!("{kernel} ({})", text(info, "architecture"));
    }
    vec![
        name(node),
        json!(words.join(",")),
        none(&roles.join(",")),
        age(node, now),
        json!(text(info, "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(known(text(info, "osImage"))),
        json!(kernel),
        json!(known(text(info, "containerRuntimeVersion"))),
    ]
}

/// Handles both versions of Events: `involvedObject` in one is `regarding` in the other.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let first_of = |fields: [&str; 2]| {
        fields.into_iter().map(|f| &event[f]).find(|v| !v.is_null()).unwrap_or(&Value::Null)
    };
    let object = first_of(["involvedObject", "regarding"]);
    let source = first_of(["source", "deprecatedSource"]);
    let ago = |value: &Value| since(value.as_str(), now);
    let first = first_of(["firstTimestamp", "deprecatedFirstTimestamp"]);
    let first = ago(if first.is_null() { &event["eventTime"] } else { first });
    let last = first_of(["lastTimestamp", "deprecatedLastTimestamp"]);
    let mut last = if last.is_null() { first.clone() } else { ago(last) };
    let mut count = first_of(["count", "deprecatedCount"]).as_i64().filter(|count| *count != 0).unwrap_or(1);
    if event["series"].is_object() {
        last = ago(&event["series"]["lastObservedTime"]);
        count = event["series"]["count"].as_i64().unwrap_or(count);
    }
    let kind = text(object, "kind").to_lowercase();
    let target =
        if text(object, "name").is_empty() { kind } else { format!("{kind}/{}", text(object, "name")) };
    let either = |a: &'_ str, b: &'_ str| if a.is_empty() { b.to_owned() } else { a.to_owned() };
    let reporter = first_of(["reportingComponent", "reportingController"]).as_str().unwrap_or_default();
    let component = either(text(source, "component"), reporter);
    let host = either(text(source, "host"), text(event, "reportingInstance"));
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    let message = first_of(["message", "note"]).as_str().unwrap_or_default();
    vec![
        json!(last),
        json!(text(event, "type")),
        json!(text(event, "reason")),
        json!(target),
        json!(text(object, "fieldPath")),
        json!(source),
        json!(message.trim()),
        json!(first),
        json!(count),
        name(event),
    ]
}

/// Formats at most three entries of a list, and how many more there are.
fn abridged(all: &[String]) -> Value {
    const SHOWN: usize = 3;
    match all.len() {
        0 => json!("<none>"),
        1..=SHOWN => json!(all.join(",")),
        more => json!(format!("{} + {} more...", all[..SHOWN].join(","), more - SHOWN)),
    }
}

fn endpoints(endpoints: &Value) -> Value {
    let mut all = Vec::new();
    for subset in list(endpoints, "subsets") {
        let ports: Vec<i64> = list(subset, "ports").filter_map(|p| p["port"].as_i64()).collect();
        for address in list(subset, "addresses").map(|a| text(a, "ip")) {
            if ports.is_empty() {
                all.push(address.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{address}:{port}")));
        }
    }
    abridged(&all)
}

fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    // A port without a number has perhaps a name (`formatDiscoveryPorts`).
    let shown = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or("*").to_owned(),
    };
    let ports: Vec<String> = list(slice, "ports").map(shown).collect();
    let ports = if ports.is_empty() { json!("<unset>") } else { abridged(&ports) };
    let addresses: Vec<String> = list(slice, "endpoints")
        .flat_map(|e| list(e, "addresses"))
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    let addresses = if addresses.is_empty() { json!("<unset>") } else { abridged(&addresses) };
    vec![name(slice), json!(text(slice, "addressType")), ports, addresses, age(slice, now)]
}

fn access_modes(modes: &Value) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        _ => "",
    };
    modes.as_array().into_iter().flatten().map(short).collect::<Vec<_>>().join(",")
}

fn phase(object: &Value) -> Value {
    let deleted = !object["metadata"]["deletionTimestamp"].is_null();
    json!(if deleted { "Terminating" } else { text(&object["status"], "phase") })
}

fn unset(text: &str) -> Value {
    json!(if text.is_empty() { "<unset>" } else { text })
}

fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = &spec["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", text(claim, "namespace"), text(claim, "name"))
    } else {
        String::new()
    };
    vec![
        name(volume),
        json!(spec["capacity"]["storage"].as_str().unwrap_or("0")),
        json!(access_modes(&spec["accessModes"])),
        json!(text(spec, "persistentVolumeReclaimPolicy")),
        phase(volume),
        json!(claim),
        json!(text(spec, "storageClassName")),
        unset(text(spec, "volumeAttributesClassName")),
        json!(text(&volume["status"], "reason")),
        age(volume, now),
        unset(text(spec, "volumeMode")),
    ]
}

fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let bound = !text(spec, "volumeName").is_empty();
    let capacity = if bound { text(&status["capacity"], "storage") } else { "" };
    let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
    vec![
        name(claim),
        phase(claim),
        json!(text(spec, "volumeName")),
        json!(capacity),
        json!(modes),
        json!(text(spec, "storageClassName")),
        unset(text(spec, "volumeAttributesClassName")),
        age(claim, now),
        unset(text(spec, "volumeMode")),
    ]
}

fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
        let used = quota["status"]["used"][resource].as_str().unwrap_or("0");
        let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![name(quota), json!(requests.join(", ")), json!(limits.join(", ")), age(quota, now)]
}

fn budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let amount = |field: &str| match &budget["spec"][field] {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
    vec![
        name(budget),
        json!(amount("minAvailable")),
        json!(amount("maxUnavailable")),
        json!(allowed),
        age(budget, now),
    ]
}

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(&binding["roleRef"], "kind"), text(&binding["roleRef"], "name"));
    let subjects = |kind: &str| {
        let of = list(binding, "subjects").filter(|s| s["kind"] == kind);
        let shown = of.map(|s| match text(s, "namespace") {
            "" => text(s, "name").to_owned(),
            namespace => format!("{namespace}/{}", text(s, "name")),
        });
        json!(shown.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(binding),
        json!(role),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn storage_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let default =
        text(&class["metadata"]["annotations"], "storageclass.kubernetes.io/is-default-class") == "true";
    let shown = format!("{}{}", text(&class["metadata"], "name"), if default { " (default)" } else { "" });
    vec![
        json!(shown),
        json!(text(class, "provisioner")),
        json!(class["reclaimPolicy"].as_str().unwrap_or("Delete")),
        json!(class["volumeBindingMode"].as_str().unwrap_or("Immediate")),
        json!(class["allowVolumeExpansion"] == true),
        age(class, now),
    ]
}

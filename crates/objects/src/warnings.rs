//! Warnings for valid but questionable objects, as in Kubernetes (`WarningsOnCreate`, `WarningsOnUpdate`).
//!
//! Input is a decoded and validated object, output the texts; nothing else is looked up.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semantics::Quantity;
use serde_json::Value;

use super::kinds::Kind;
use super::validation::text;
use super::{metadata, names};

const PEM: &str = "-----BEGIN ";
/// The most definitions of one port that a further one is compared with.
const MAX_OTHERS: usize = 16;

/// Returns the warnings for a new state; `old` is the previous one, for an update.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    if !kind.is_builtin() {
        return finalizers(new, old);
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => of_service(&new["spec"]),
        // Not on updates of pods, which are too frequent.
        ("", "Pod") if old.is_none() => {
            let hostname = names::label(new["metadata"]["name"].as_str().unwrap_or_default());
            let mut texts = Vec::new();
            if !hostname.is_empty() {
                texts.push(format!(
                    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                    hostname.join(" ")
                ));
            }
            texts.extend(of_pod(&new["spec"], "spec"));
            texts
        }
        ("batch", "Job") => of_pod(&new["spec"]["template"]["spec"], "spec.template.spec"),
        ("batch", "CronJob") => of_cron_job(new, old),
        ("", "Secret") => certificate(new).into_iter().collect(),
        ("discovery.k8s.io", "EndpointSlice") if old.is_none() && new["addressType"] == "FQDN" => {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Returns warnings for a CronJob (`registry/batch/cronjob/strategy.go`).
fn of_cron_job(new: &Value, old: Option<&Value>) -> Vec<String> {
    let judged = names::label(new["metadata"]["name"].as_str().unwrap_or_default());
    let mut texts = Vec::new();
    if old.is_none() && !judged.is_empty() {
        texts.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            judged.join(" ")
        ));
    }
    if old.is_none_or(|old| old["spec"] != new["spec"]) {
        let pod = &new["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        texts.extend(of_pod(pod, "spec.jobTemplate.spec.template.spec"));
    }
    texts
}

/// Returns warnings for fields of a Service without effect (`pkg/api/service/warnings.go`).
fn of_service(spec: &Value) -> Vec<String> {
    let is_there = |field: &str| match &spec[field] {
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    };
    let is_named = spec["type"] == "ExternalName";
    let is_headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    let close = "PreferClose";
    let said = [
        (is_headless && is_there("loadBalancerIP"), "spec.loadBalancerIP is ignored for headless services"),
        (is_headless && is_there("externalIPs"), "spec.externalIPs is ignored for headless services"),
        (
            is_headless && spec["sessionAffinity"] != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            is_there("externalIPs") && !is_headless && !is_named,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (
            is_named && is_there("externalIPs"),
            "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
        ),
        (
            !is_named && is_there("externalName"),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            spec["trafficDistribution"] == close,
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    said.iter().filter(|(is_so, _)| *is_so).map(|(_, text)| (*text).to_owned()).collect()
}

/// Returns warnings for fields of a pod without effect (the more common ones of `pkg/api/pod/warnings.go`).
fn of_pod(spec: &Value, path: &str) -> Vec<String> {
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let mut texts = Vec::new();
    for (index, constraint) in list("topologySpreadConstraints").enumerate() {
        if constraint["labelSelector"].is_null() {
            texts.push(format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
    list("volumes").for_each(|volume| overlaps(volume, &mut texts));
    for (field, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (index, item) in list(field).enumerate() {
            let value = item[key].as_str().unwrap_or_default();
            if !seen.insert(value) {
                texts.push(format!("{path}.{field}[{index}].{key}: duplicate {key} {value:?}"));
            }
        }
    }
    for (index, secret) in list("imagePullSecrets").enumerate() {
        if text(secret, "name").is_empty() {
            texts.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    fractions(&spec["overhead"], &format!("{path}.overhead"), &mut texts);
    for field in ["initContainers", "containers"] {
        for (index, container) in list(field).enumerate() {
            let at = format!("{path}.{field}[{index}]");
            for which in ["limits", "requests"] {
                fractions(&container["resources"][which], &format!("{at}.resources.{which}"), &mut texts);
            }
            hidden_variables(container, &at, &mut texts);
        }
    }
    ports(spec, path, &mut texts);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        texts.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for which in ["podAffinity", "podAntiAffinity"] {
        for (list, term_at) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", ".podAffinityTerm"),
        ] {
            let terms = spec["affinity"][which][list].as_array().into_iter().flatten().enumerate();
            for (index, term) in terms {
                let term = if term_at.is_empty() { term } else { &term["podAffinityTerm"] };
                if term["labelSelector"].is_null() {
                    texts.push(format!(
                        "{path}.affinity.{which}.{list}[{index}]{term_at}.labelSelector: a null labelSelector results in matching no pod"
                    ));
                }
            }
        }
    }
    texts
}

/// Warns about amounts of memory and storage that are not whole bytes, e.g. `500m`.
fn fractions(amounts: &Value, path: &str, texts: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        if let Ok(amount) = Quantity::of(&amounts[name])
            && amount.millis() % 1000 != 0
        {
            texts.push(format!(
                "{path}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"
            ));
        }
    }
}

/// Warns about variables of a container that are set again without a reference to the previous value.
fn hidden_variables(container: &Value, path: &str, texts: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let [name, value] = ["name", "value"].map(|field| variable[field].as_str().unwrap_or_default());
        let before = format!("$({name})");
        let extends = variable["valueFrom"].is_null() && value != before && value.contains(&before);
        if !seen.insert(name) && !extends {
            texts.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

/// Warns about ports that several definitions have in common, in one container or in several.
fn ports(spec: &Value, path: &str, texts: &mut Vec<String>) {
    let mut all = Vec::new();
    for field in ["initContainers", "containers"] {
        for (container, of) in spec[field].as_array().into_iter().flatten().enumerate() {
            let ports = of["ports"].as_array().into_iter().flatten().enumerate();
            all.extend(
                ports.map(|(index, port)| (format!("{path}.{field}[{container}].ports[{index}]"), port)),
            );
        }
    }
    let number = |port: &Value, field: &str| port[field].as_i64().unwrap_or_default();
    let mut definitions = BTreeMap::<_, Vec<_>>::new();
    for (at, port) in &all {
        let (host_ip, host_port) = (text(port, "hostIP"), number(port, "hostPort"));
        if !host_ip.is_empty() && host_port == 0 {
            let shown = format!(
                "{{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host_ip}}}",
                text(port, "name"),
                number(port, "containerPort"),
                text(port, "protocol"),
            );
            texts.push(format!("{at}: hostIP set without hostPort: {shown}"));
        }
        let others = definitions.entry((number(port, "containerPort"), text(port, "protocol"))).or_default();
        for &(other_at, other) in others.iter() {
            let (other_ip, other_port) = (text(other, "hostIP"), number(other, "hostPort"));
            let what = if (host_ip, host_port) == (other_ip, other_port) {
                "duplicate"
            } else if host_port == 0 || other_port == 0 {
                "overlapping"
            } else if host_port == other_port && host_ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            texts.push(format!("{at}: {what} port definition with {other_at}"));
        }
        if others.len() < MAX_OTHERS {
            others.push((at, *port));
        }
    }
    let mut named = BTreeMap::new();
    for (at, port) in all.iter().filter(|(_, port)| !text(port, "name").is_empty()) {
        let name = text(port, "name");
        match named.get(name) {
            Some(first) => texts.push(format!(
                "{at}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"
            )),
            None => {
                named.insert(name, at);
            }
        }
    }
}

/// A file of a volume: its path and its source.
type File = (String, String);

/// Warns about files of one volume whose paths overlap (`warningsForOverlappingVirtualPaths`).
fn overlaps(volume: &Value, texts: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let files = |source: &Value, of: &str| -> Vec<File> {
        let items = source["items"].as_array().into_iter().flatten();
        items.map(|item| (text(&item["path"]), of.to_owned())).collect()
    };
    let mut warn = |kind: &str, files: Vec<File>, seen: &mut Vec<File>| {
        for (path, of) in files {
            let file = (path.trim_end_matches('/').to_owned(), of);
            for other in seen.iter().filter(|other| overlap(&file.0, &other.0)) {
                texts.push(format!(
                    "volume {} ({kind}): overlapping paths: {} with {}",
                    volume["name"],
                    shown(&file),
                    shown(other)
                ));
            }
            seen.push(file);
        }
    };
    for (field, named, title) in [
        ("configMap", "name", "ConfigMap"),
        ("secret", "secretName", "Secret"),
        ("downwardAPI", "", "DownwardAPI"),
    ] {
        let source = &volume[field];
        let kind =
            if named.is_empty() { title.to_owned() } else { format!("{title} {:?}", text(&source[named])) };
        warn(&kind, files(source, ""), &mut Vec::new());
    }
    let mut seen = Vec::new();
    for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
        let named = |title: &str, source: &Value| format!("{title} {:?}", text(&source["name"]));
        let of_source = if source["configMap"]["items"].is_array() {
            files(&source["configMap"], &named("ConfigMap", &source["configMap"]))
        } else if source["secret"]["items"].is_array() {
            files(&source["secret"], &named("Secret", &source["secret"]))
        } else if source["downwardAPI"]["items"].is_array() {
            files(&source["downwardAPI"], "DownwardAPI")
        } else if source["serviceAccountToken"].is_object() {
            vec![(text(&source["serviceAccountToken"]["path"]), "ServiceAccountToken".to_owned())]
        } else {
            Vec::new()
        };
        warn("Projected", of_source, &mut seen);
    }
    let sources = volume["projected"]["sources"].as_array().into_iter().flatten();
    let empty = sources.filter(|source| source.as_object().is_none_or(serde_json::Map::is_empty));
    texts.extend(empty.map(|_| format!("volume {} (Projected) has no sources provided", volume["name"])));
}

/// Returns whether the paths are equal or one contains the other.
fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (format!("{one}/"), format!("{other}/"));
    one.len() > 1 && other.len() > 1 && (one.starts_with(&other) || other.starts_with(&one))
}

/// Formats a file for a warning.
fn shown((path, of): &File) -> String {
    if of.is_empty() { format!("{path:?}") } else { format!("{path:?} ({of})") }
}

/// Warns about new finalizers of a custom object (`validateKubeFinalizerName`).
fn finalizers(new: &Value, old: Option<&Value>) -> Vec<String> {
    let of = |object: &Value| {
        let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    let before = old.map(of).unwrap_or_default();
    let mut texts = Vec::new();
    for name in of(new).difference(&before) {
        let said = |text: &str| format!("metadata.finalizers: {name:?}: {text}");
        texts.extend(names::qualified_name(name).iter().map(|text| said(text)));
        if !name.contains('/') && !metadata::STANDARD_FINALIZERS.contains(&name.as_str()) {
            texts.push(said(
                "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
            ));
        }
    }
    texts
}

/// Warns about a TLS Secret whose certificate or key is not PEM (`tls.X509KeyPair`). The content is not parsed.
fn certificate(secret: &Value) -> Option<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return None;
    }
    let is_pem = |field: &str| {
        let bytes = STANDARD.decode(secret["data"][field].as_str().unwrap_or_default()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(PEM)
    };
    let inputs = [("tls.crt", "certificate"), ("tls.key", "key")];
    let (_, input) = inputs.into_iter().find(|(field, _)| !is_pem(field))?;
    Some(format!("tls: failed to find any PEM data in {input} input"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin_kind;

    #[test]
    fn only_new_finalizers_of_custom_kinds_lead_to_warnings() {
        let kind = Kind::new("example.com", "v1", "Widget", "widgets", true);
        let object = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let new = object(&["plain", "orphan", "example.com/f"]);
        assert_eq!(
            warnings(&kind, &new, None),
            [
                "metadata.finalizers: \"plain\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            ]
        );
        assert!(warnings(&kind, &new, Some(&object(&["plain"]))).is_empty());
    }

    #[test]
    fn a_variable_that_is_set_again_hides_the_first() {
        let kind = builtin_kind("", "Pod").unwrap();
        let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"},
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": "$(B)"}]);
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "env": env}]}});
        assert_eq!(
            warnings(kind, &pod, None),
            [
                "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply"
            ]
        );
    }

    #[test]
    fn likely_mistakes_in_a_pod_are_told() {
        let resources = json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "500m", "cpu": "500m"}});
        let spec = json!({"containers": [{"resources": resources}], "terminationGracePeriodSeconds": -1,
            "hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}], "imagePullSecrets": [{"name": "a"}, {}]});
        assert_eq!(
            of_pod(&spec, "spec"),
            [
                "spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\"",
                "spec.imagePullSecrets[1].name: invalid empty name \"\"",
                "spec.containers[0].resources.requests[memory]: fractional byte value \"500m\" is invalid, must be an integer",
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            ]
        );
    }

    #[test]
    fn ports_are_defined_once() {
        let pod = |ports: [Value; 2]| {
            let [first, second] = ports;
            let spec = json!({"initContainers": [{"ports": [first]}], "containers": [{"ports": [second]}]});
            of_pod(&spec, "spec")
        };
        let port = |more: Value| {
            let mut port = json!({"containerPort": 80, "protocol": "TCP"});
            json_patch::merge(&mut port, &more);
            port
        };
        let udp = port(json!({"protocol": "UDP"}));
        assert_eq!(pod([port(json!({})), udp]), Vec::<String>::new());
        for (first, second, what) in [
            (json!({}), json!({"name": "a"}), "duplicate"),
            (json!({"hostPort": 80}), json!({}), "overlapping"),
            (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), json!({"hostPort": 80}), "dangerously ambiguous"),
        ] {
            let text = format!(
                "spec.containers[0].ports[0]: {what} port definition with spec.initContainers[0].ports[0]"
            );
            assert_eq!(pod([port(first), port(second)]), [text]);
        }
        let many = vec![port(json!({})); 1000];
        assert!(of_pod(&json!({"containers": [{"ports": many}]}), "spec").len() < 1000 * MAX_OTHERS);
        let named = json!({"name": "a", "containerPort": 81, "protocol": "TCP"});
        let text = "spec.containers[0].ports[0]: duplicate port name \"a\" with spec.initContainers[0].ports[0], services and probes that select ports by name will use spec.initContainers[0].ports[0]";
        assert_eq!(pod([port(json!({"name": "a"})), named]), [text]);
    }

    #[test]
    fn certificates_are_pem() {
        let kind = builtin_kind("", "Secret").unwrap();
        let said = |certificate: &str| {
            let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": ""});
            warnings(kind, &json!({"type": "kubernetes.io/tls", "data": data}), None)
        };
        assert_eq!(said("x"), ["tls: failed to find any PEM data in certificate input"]);
        assert_eq!(said("-----BEGIN CERTIFICATE-----"), ["tls: failed to find any PEM data in key input"]);
    }
}

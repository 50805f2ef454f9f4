//! What Kubernetes tells a writer of an object that is right but unwise (`WarningsOnCreate`, `WarningsOnUpdate`).
//!
//! Objects come in decoded and judged; texts go out. Nothing is looked up.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::kinds::Kind;
use super::{metadata, names};

const PEM: &str = "-----BEGIN ";

/// What is said of a new state; `old` is the one before, for an update.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    if !kind.is_builtin() {
        return finalizers(new, old);
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => of_service(&new["spec"]),
        ("", "Pod") => of_pod(&new["spec"], "spec"),
        ("batch", "Job") => of_pod(&new["spec"]["template"]["spec"], "spec.template.spec"),
        ("", "Secret") => certificate(new).into_iter().collect(),
        ("discovery.k8s.io", "EndpointSlice") if old.is_none() && new["addressType"] == "FQDN" => {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// What a service says that has no effect (`pkg/api/service/warnings.go`).
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

/// What a pod says that has no effect (`pkg/api/pod/warnings.go`), as far as it is met.
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
    for volume in list("volumes") {
        let sources = volume["projected"]["sources"].as_array().into_iter().flatten();
        let is_empty = |source: &&Value| source.as_object().is_none_or(serde_json::Map::is_empty);
        texts.extend(
            sources
                .filter(is_empty)
                .map(|_| format!("volume {} (Projected) has no sources provided", volume["name"])),
        );
    }
    texts
}

/// New finalizers of a custom resource (`validateKubeFinalizerName`).
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

/// A TLS Secret whose certificate or key is no PEM (`tls.X509KeyPair`); what is within is not read.
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
    use crate::objects::builtin_kind;

    #[test]
    fn only_new_finalizers_of_custom_kinds_are_spoken_of() {
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

//! Discovery of resources: `/api`, `/apis` and below, unaggregated and aggregated (KEP-3352).
//!
//! Pure: converts a catalog to JSON.

use serde_json::{Value, json};

use super::catalog::{Catalog, Entry};
use objects::Kind;

/// Returns `/version`: the Kubernetes version whose behaviour this server follows.
pub fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+odh-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": format!("linux/{}", architecture())})
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns `/api`, unaggregated.
pub fn core_versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

/// Returns `/apis`, unaggregated.
pub fn groups(catalog: &Catalog) -> Value {
    let groups = catalog
        .groups()
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| group_value(group, &versions))
        .collect::<Vec<_>>();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns `/apis/GROUP`.
pub fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    let (group, versions) =
        catalog.groups().into_iter().find(|(group, _)| *group == name && !group.is_empty())?;
    let mut value = group_value(group, &versions);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

fn group_value(group: &str, versions: &[&str]) -> Value {
    let versions = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect::<Vec<_>>();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// Returns `/api/v1` or `/apis/GROUP/VERSION`, unaggregated.
pub fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    if !catalog.has_version(group, version) {
        return None;
    }
    let resources =
        catalog.of_version(group, version).flat_map(|entry| resource_values(&entry.kind)).collect::<Vec<_>>();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

fn resource_values(kind: &Kind) -> Vec<Value> {
    let mut own = json!({"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": kind.verbs});
    if !kind.short_names.is_empty() {
        own["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        own["categories"] = json!(kind.categories);
    }
    let mut values = vec![own];
    for part in &kind.subresources {
        let (group, version, taken) = &part.takes;
        let mut value = json!({"name": format!("{}/{}", kind.plural, part.name), "singularName": "",
            "namespaced": kind.namespaced, "kind": taken, "verbs": part.verbs});
        if (group, version) != (&kind.group, &kind.version) {
            value["group"] = group.as_str().into();
            value["version"] = version.as_str().into();
        }
        values.push(value);
    }
    values
}

/// Returns `/api` or `/apis`, aggregated, in the format of `apidiscovery.k8s.io/VERSION`.
pub fn aggregated(catalog: &Catalog, core: bool, form_version: &str) -> Value {
    let items = catalog
        .groups()
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions = versions
                .into_iter()
                .map(|version| {
                    let resources =
                        catalog.of_version(group, version).map(aggregated_resource).collect::<Vec<_>>();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect::<Vec<_>>();
            let metadata = if group.is_empty() {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect::<Vec<_>>();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{form_version}"),
        "metadata": {}, "items": items})
}

fn aggregated_resource(entry: &Entry) -> Value {
    let kind = &entry.kind;
    let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
    let mut value = json!({"resource": kind.plural, "scope": scope, "singularResource": kind.singular,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind}, "verbs": kind.verbs});
    if !kind.short_names.is_empty() {
        value["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        value["categories"] = json!(kind.categories);
    }
    let parts = kind
        .subresources
        .iter()
        .map(|part| {
            let (group, version, taken) = &part.takes;
            json!({"subresource": part.name, "verbs": part.verbs,
                "responseKind": {"group": group, "version": version, "kind": taken}})
        })
        .collect::<Vec<_>>();
    if !parts.is_empty() {
        value["subresources"] = parts.into();
    }
    value
}

//! `/openapi/v3` and `/openapi/v2`: the resources, their schemas, and the parameters of their writes.
//!
//! Documents are generated on request: requests are rare and schemas are large.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::header::ACCEPT;
use http::{HeaderMap, Response};
use serde_json::{Map, Value, json};

use super::catalog::{Catalog, Entry};
use super::negotiate;
use super::openapi_protobuf;
use super::reply::{self, Body};
use super::status::{self, StatusError};

/// Answers a request below `/openapi/`.
///
/// # Errors
/// 404; 406 for a client that accepts only protobuf, except for the v2 document.
pub fn answer(catalog: &Catalog, path: &str, headers: &HeaderMap) -> Result<Response<Body>, StatusError> {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let first = accepted.flat_map(|value| value.split(',')).next().unwrap_or_default();
    if path.trim_end_matches('/') == "/openapi/v2" && openapi_protobuf::is_meant(first) {
        let bytes = openapi_protobuf::encode(&document_v2(catalog));
        return Ok(reply::full(200, openapi_protobuf::MEDIA, bytes.into()));
    }
    negotiate::accepted(headers)?;
    if path.trim_end_matches('/') == "/openapi/v2" {
        return Ok(reply::json_value(200, &document_v2(catalog)));
    }
    let Some(rest) = path.strip_prefix("/openapi/v3") else { return Err(status::no_such_resource()) };
    let rest = rest.trim_matches('/');
    if rest.is_empty() {
        return Ok(reply::json_value(200, &index(catalog)));
    }
    let (group, version) = match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return Err(status::no_such_resource()),
    };
    if !catalog.has_version(&group, &version) {
        return Err(status::no_such_resource());
    }
    Ok(reply::json_value(200, &document(catalog, &group, &version)))
}

fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn index(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    for (group, versions) in catalog.groups() {
        for version in versions {
            let prefix = prefix(group, version);
            // Clients that cache documents fetch them again when the hash changes.
            let mut hash = DefaultHasher::new();
            (catalog.generation, env!("CARGO_PKG_VERSION")).hash(&mut hash);
            let url = format!("/openapi/v3/{prefix}?hash={:016X}", hash.finish());
            paths.insert(prefix, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn document(catalog: &Catalog, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    for entry in catalog.of_version(group, version) {
        add_paths(&mut paths, entry);
    }
    let kinds = catalog.of_version(group, version).map(|entry| &*entry.kind);
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": env!("CARGO_PKG_VERSION")}, "paths": paths,
        "components": {"schemas": objects::v3_schemas(kinds)}})
}

fn document_v2(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    let mut kinds = Vec::new();
    for (group, versions) in catalog.groups() {
        for entry in versions.into_iter().flat_map(|version| catalog.of_version(group, version)) {
            add_paths(&mut paths, entry);
            kinds.push(&*entry.kind);
        }
    }
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": env!("CARGO_PKG_VERSION")}, "paths": paths,
        "definitions": objects::v2_definitions(kinds)})
}

fn add_paths(paths: &mut Map<String, Value>, entry: &Entry) {
    let kind = &entry.kind;
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let all = format!("/{}{scope}/{}", prefix(&kind.group, &kind.version), kind.plural);
    let one = format!("{all}/{{name}}");
    let operations = [("create", "post", &all), ("update", "put", &one), ("patch", "patch", &one)];
    for (verb, method, path) in operations {
        if !kind.verbs.contains(&verb) {
            continue;
        }
        let names = ["dryRun", "fieldManager", "fieldValidation"];
        let parameters = names.map(
            |name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}),
        );
        let operation = json!({"parameters": parameters, "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": verb,
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind}});
        paths.entry(path.clone()).or_insert_with(|| json!({}))[method] = operation;
    }
}

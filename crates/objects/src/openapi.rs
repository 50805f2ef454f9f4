//! OpenAPI schemas of the served kinds, for `kubectl explain` and for clients that merge or validate.
//!
//! Built from the schemas that validate objects, with Kubernetes' extensions (KEP-2896): group, version and kind; list
//! types; merge keys. The API server adds the paths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use crate::schema::{Additional, ListType, Node, NodeId, Property, Schema, builtin};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The most definitions in one document.
const MAX_DEFINITIONS: usize = 4096;

/// The OpenAPI version to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    V2,
    V3,
}

impl Form {
    fn reference(self, name: &str, description: Option<&str>) -> Value {
        let mut out = match self {
            Form::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Form::V3 => json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]}),
        };
        if let Some(description) = description {
            out["description"] = json!(description);
        }
        out
    }
}

/// Returns the `components.schemas` of an OpenAPI v3 document for these kinds.
pub fn v3_schemas<'k>(kinds: impl IntoIterator<Item = &'k Kind>) -> Value {
    definitions(kinds, Form::V3)
}

/// Returns the `definitions` of an OpenAPI v2 document for these kinds.
pub fn v2_definitions<'k>(kinds: impl IntoIterator<Item = &'k Kind>) -> Value {
    definitions(kinds, Form::V2)
}

/// Returns the name of a kind's schema: that of its type, or for a custom kind its group reversed, with version and
/// kind.
pub fn schema_name(kind: &Kind) -> String {
    let schema = kind.schema();
    if let Some(name) = &schema.node(schema.root()).definition {
        return name.clone();
    }
    let group: Vec<&str> = kind.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

fn definitions<'k>(kinds: impl IntoIterator<Item = &'k Kind>, form: Form) -> Value {
    let mut all = Map::new();
    let mut gvks: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for kind in kinds {
        let name = schema_name(kind);
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        gvks.entry(name.clone()).or_default().push(gvk);
        let schema = kind.schema();
        match schema.source() {
            Some(source) => {
                all.insert(name, custom(&source, form));
                add_types(&builtin::<ObjectMeta>(), form, &mut all);
            }
            None => add_types(schema, form, &mut all),
        }
    }
    for (name, gvk) in gvks {
        if let Some(definition) = all.get_mut(&name) {
            definition["x-kubernetes-group-version-kind"] = Value::Array(gvk);
        }
    }
    Value::Object(all)
}

/// Returns a CRD's schema with the fields that every object has.
fn custom(source: &Value, form: Form) -> Value {
    let mut schema = source.clone();
    if form == Form::V2 {
        if source["x-kubernetes-preserve-unknown-fields"] == true {
            // If any field were listed, kubectl would report all others as unknown (apiextensions `openapi/builder`).
            return json!({"type": "object"});
        }
        // Version 2 has no such combinators; a validating client would misread the schema with only some of them.
        for keyword in ["allOf", "anyOf", "oneOf", "not", "nullable"] {
            schema.as_object_mut().map(|map| map.remove(keyword));
        }
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] =
        text("APIVersion defines the versioned schema of this representation of an object.");
    schema["properties"]["kind"] =
        text("Kind is a string value representing the REST resource this object represents.");
    schema["properties"]["metadata"] = form.reference(META, Some("Standard object's metadata."));
    schema
}

/// Adds a built-in type and all types that it refers to.
fn add_types(schema: &Schema, form: Form, all: &mut Map<String, Value>) {
    let mut queue = vec![schema.root()];
    let mut seen = BTreeSet::new();
    while let Some(id) = queue.pop() {
        let Some(name) = schema.node(id).definition.clone() else { continue };
        if !seen.insert(name.clone()) || all.contains_key(&name) || all.len() >= MAX_DEFINITIONS {
            continue;
        }
        let mut writer = Writer { schema, form, queue: &mut queue };
        let definition = writer.node(id, 0);
        all.insert(name, definition);
    }
}

struct Writer<'a> {
    schema: &'a Schema,
    form: Form,
    queue: &'a mut Vec<NodeId>,
}

impl Writer<'_> {
    /// Returns the schema of a node: a reference if its type has a name of its own.
    fn child(&mut self, id: NodeId, property: Option<&Property>, depth: usize) -> Value {
        let description = property.and_then(|p| p.description.as_deref());
        let mut out = match &self.schema.node(id).definition {
            Some(name) => {
                self.queue.push(id);
                self.form.reference(name, description)
            }
            None => self.node(id, depth + 1),
        };
        let Some(property) = property else { return out };
        if property.atomic {
            out["x-kubernetes-map-type"] = json!("atomic");
        }
        let strategy = &property.strategy;
        if let Some(key) = &strategy.merge_key {
            out["x-kubernetes-patch-merge-key"] = json!(key);
        }
        let words: Vec<&str> =
            [(strategy.merge, "merge"), (strategy.retain_keys, "retainKeys"), (strategy.replace, "replace")]
                .into_iter()
                .filter_map(|(set, word)| set.then_some(word))
                .collect();
        if !words.is_empty() {
            out["x-kubernetes-patch-strategy"] = json!(words.join(","));
        }
        out
    }

    fn node(&mut self, id: NodeId, depth: usize) -> Value {
        let node = self.schema.node(id);
        let mut out = json!({});
        if let Some(description) = &node.description {
            out["description"] = json!(description);
        }
        if depth > crate::schema::MAX_DEPTH || self.scalar(node, &mut out) {
            return out;
        }
        if let Some(kind) = node.kind {
            out["type"] = json!(kind.name());
        }
        if let Some(format) = &node.format {
            out["format"] = json!(if format == "micro-time" { "date-time" } else { format });
        }
        if let Some(default) = &node.default {
            out["default"] = default.clone();
        }
        for (name, property) in &node.properties {
            out["properties"][name] = self.child(property.node, Some(property), depth);
        }
        match node.additional {
            Additional::Of(values) => out["additionalProperties"] = self.child(values, None, depth),
            Additional::Anything => out["additionalProperties"] = json!(true),
            Additional::Forbidden => {}
        }
        if let Some(items) = node.items {
            out["items"] = self.child(items, None, depth);
        }
        if !node.required.is_empty() {
            out["required"] = json!(node.required);
        }
        self.extensions(node, &mut out);
        out
    }

    /// Writes types that differ between the two versions. Returns whether the schema is complete.
    fn scalar(&self, node: &Node, out: &mut Value) -> bool {
        if !node.quantity && !node.int_or_string {
            return false;
        }
        match (self.form, node.quantity) {
            (Form::V2, _) => out["type"] = json!("string"),
            (Form::V3, true) => out["oneOf"] = json!([{"type": "string"}, {"type": "number"}]),
            (Form::V3, false) => out["oneOf"] = json!([{"type": "integer"}, {"type": "string"}]),
        }
        if !node.quantity {
            out["format"] = json!("int-or-string");
        }
        true
    }

    fn extensions(&self, node: &Node, out: &mut Value) {
        if node.list_type_given {
            match &node.list_type {
                ListType::Atomic => out["x-kubernetes-list-type"] = json!("atomic"),
                ListType::Set => out["x-kubernetes-list-type"] = json!("set"),
                ListType::Map(keys) => {
                    out["x-kubernetes-list-type"] = json!("map");
                    out["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
        }
        if node.atomic {
            out["x-kubernetes-map-type"] = json!("atomic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin_kind, builtin_kinds};

    /// Collects the references of a document that have no definition in it.
    fn unresolved(document: &Value, prefix: &str, value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let name = reference.strip_prefix(prefix).unwrap_or_default();
                    if document.get(name).is_none() {
                        out.push(reference.clone());
                    }
                }
                map.values().for_each(|v| unresolved(document, prefix, v, out));
            }
            Value::Array(items) => items.iter().for_each(|v| unresolved(document, prefix, v, out)),
            _ => {}
        }
    }

    #[test]
    fn references_resolve() {
        let kinds: Vec<&Kind> = builtin_kinds().iter().map(AsRef::as_ref).collect();
        for (document, prefix) in
            [(v3_schemas(kinds.clone()), "#/components/schemas/"), (v2_definitions(kinds), "#/definitions/")]
        {
            let mut out = Vec::new();
            unresolved(&document, prefix, &document, &mut out);
            assert_eq!(out, Vec::<String>::new());
        }
    }

    #[test]
    fn a_pod_is_described_as_in_kubernetes() {
        let schemas = v3_schemas([&**builtin_kind("", "Pod").unwrap()]);
        let pod = &schemas["io.k8s.api.core.v1.Pod"];
        assert_eq!(
            pod["x-kubernetes-group-version-kind"],
            json!([{"group": "", "version": "v1", "kind": "Pod"}])
        );
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(
            containers["items"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.api.core.v1.Container"
        );
        assert!(schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"]["oneOf"].is_array());
    }

    #[test]
    fn a_crds_kind_is_described_too() {
        let crd = serde_json::to_value(api::mpijob_crd()).unwrap();
        let kinds = crate::kinds_of_crd(&crd).unwrap();
        let schemas = v3_schemas(&kinds);
        let job = &schemas["org.kubeflow.v2beta1.MPIJob"];
        assert_eq!(job["x-kubernetes-group-version-kind"][0]["kind"], "MPIJob");
        assert!(job["properties"]["spec"]["properties"]["slotsPerWorker"].is_object());
        assert!(schemas[META]["properties"]["labels"].is_object());
    }
}

//! Drops the fields that are not in a schema, and returns their paths.
//!
//! Rules of `apiextensions-apiserver/pkg/apiserver/schema/pruning`: specified fields below
//! `x-kubernetes-preserve-unknown-fields` are still pruned; `apiVersion`, `kind` and `metadata` of an object are kept.

use serde_json::Value;

use super::{Additional, MAX_DEPTH, NodeId, Schema};

/// The most unknown fields that are reported; all are dropped.
pub const MAX_REPORTED: usize = 100;

impl Schema {
    /// Drops unknown fields of `object` and returns their paths, e.g. `spec.containers[0].foo`.
    ///
    /// Strict validation reports them in kubectl's words: `unknown field "spec.foo"`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        if self.is_builtin() {
            self.prune_node(self.root(), object, &mut String::new(), &mut unknown, 0);
            return unknown;
        }
        // Metadata is decoded first.
        if let (Some(id), Some(metadata)) = (self.field(self.root(), "metadata"), object.get_mut("metadata"))
        {
            self.prune_node(id, metadata, &mut "metadata".to_owned(), &mut unknown, 0);
        }
        let mut custom =
            Custom { schema: self, path: String::new(), unknown: Vec::new(), embedded: Vec::new() };
        custom.value(Some(self.root()), object, false, 0);
        for mut found in [custom.unknown, custom.embedded] {
            found.sort();
            unknown.extend(found);
        }
        unknown.truncate(MAX_REPORTED);
        unknown
    }

    /// Drops `null`s where `null` is not valid and no default replaces them, as when a custom object is decoded
    /// (`defaulting.PruneNonNullableNullsWithoutDefaults`).
    pub fn drop_nulls(&self, object: &mut Value) {
        self.drop_nulls_of(Some(self.root()), object, 0);
    }

    fn drop_nulls_of(&self, id: Option<NodeId>, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(map) => map.retain(|name, child| {
                if id.is_some_and(|id| self.is_type_or_metadata(id, name)) {
                    return true;
                }
                let field = id.and_then(|id| self.field(id, name));
                let of = field.map(|id| self.node(id));
                if child.is_null() && of.is_some_and(|of| !of.nullable && of.default.is_none()) {
                    return false;
                }
                self.drop_nulls_of(field, child, depth + 1);
                true
            }),
            Value::Array(items) => {
                let of = id.and_then(|id| self.node(id).items);
                items.iter_mut().for_each(|item| self.drop_nulls_of(of, item, depth + 1));
            }
            _ => {}
        }
    }

    /// Returns whether this is a type or metadata field of a custom object, which its schema does not describe.
    pub(crate) fn is_type_or_metadata(&self, id: NodeId, name: &str) -> bool {
        !self.is_builtin()
            && (id == self.root() || self.node(id).embedded)
            && matches!(name, "apiVersion" | "kind" | "metadata")
    }

    fn prune_node(
        &self,
        id: NodeId,
        value: &mut Value,
        path: &mut String,
        unknown: &mut Vec<String>,
        depth: usize,
    ) {
        if depth > MAX_DEPTH {
            return;
        }
        let node = self.node(id);
        match value {
            Value::Object(map) => {
                if node.preserve_unknown && node.properties.is_empty() && node.map_values().is_none() {
                    return;
                }
                if node.kind.is_none() && node.int_or_string {
                    return;
                }
                let keep_all = node.preserve_unknown || node.additional == Additional::Anything;
                map.retain(|name, child| {
                    let length = path.len();
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                    let known = self.field(id, name);
                    match known {
                        Some(field) => self.prune_node(field, child, path, unknown, depth + 1),
                        None if !keep_all && unknown.len() < MAX_REPORTED => unknown.push(path.clone()),
                        None => {}
                    }
                    path.truncate(length);
                    known.is_some() || keep_all
                });
            }
            Value::Array(items) => {
                let Some(of) = node.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = path.len();
                    path.push_str(&format!("[{index}]"));
                    self.prune_node(of, item, path, unknown, depth + 1);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Prunes a custom object (`pruning.prune`). Also prunes values below a node without a schema, e.g. inside a list where
/// the schema has a map, or the other way round.
struct Custom<'a> {
    schema: &'a Schema,
    path: String,
    unknown: Vec<String>,
    /// Unknown fields in the metadata of embedded objects.
    embedded: Vec<String>,
}

impl Custom<'_> {
    /// `kept` says whether unknown fields are kept because an enclosing value preserves them.
    fn value(&mut self, id: Option<NodeId>, value: &mut Value, kept: bool, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let schema = self.schema;
        let node = id.map(|id| (id, schema.node(id)));
        let kept = kept || node.is_some_and(|(_, node)| node.preserve_unknown);
        let length = self.path.len();
        match value {
            Value::Object(map) => map.retain(|name, child| {
                if let Some((id, _)) = node.filter(|(id, _)| schema.is_type_or_metadata(*id, name)) {
                    if let (false, "metadata", Some(field)) =
                        (self.path.is_empty(), name.as_str(), schema.field(id, name))
                    {
                        self.path.push_str(".metadata");
                        schema.prune_node(field, child, &mut self.path, &mut self.embedded, depth + 1);
                        self.path.truncate(length);
                    }
                    return true;
                }
                if !self.path.is_empty() {
                    self.path.push('.');
                }
                self.path.push_str(name);
                let field = node.map(|(id, node)| (schema.field(id, name), node.additional));
                let known = match field {
                    Some((Some(field), _)) => {
                        self.value(Some(field), child, false, depth + 1);
                        true
                    }
                    Some((None, Additional::Anything)) => {
                        self.value(None, child, false, depth + 1);
                        true
                    }
                    _ => kept,
                };
                if !known {
                    self.unknown.push(self.path.clone());
                }
                self.path.truncate(length);
                known
            }),
            Value::Array(items) => {
                let of = node.and_then(|(_, node)| node.items);
                if kept && of.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.value(of, item, kept, depth + 1);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::of_crd(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "properties": {"known": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
        }}}}))
        .unwrap()
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let mut object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "labels": {"l": "1"}, "oops": 1},
            "more": 1, "spec": {"a": "b", "c": 1, "list": [{"x": 1}, {"y": 2}], "map": {"k": {"x": 1, "z": 1}},
                "free": {"any": {"thing": 1}, "known": {"x": 1, "y": 1}},
                "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}}});
        let unknown = schema().prune(&mut object);
        assert_eq!(
            unknown,
            [
                "metadata.oops",
                "more",
                "spec.c",
                "spec.embedded.spec",
                "spec.free.known.y",
                "spec.list[1].y",
                "spec.map.k.z"
            ]
        );
        assert_eq!(
            object,
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "labels": {"l": "1"}},
                "spec": {"a": "b", "list": [{"x": 1}, {}], "map": {"k": {"x": 1}},
                    "free": {"any": {"thing": 1}, "known": {"x": 1}},
                    "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}})
        );
    }

    #[test]
    fn values_without_a_schema_are_dropped() {
        let mut object = json!({"spec": {"a": [{"x": 1}, "y"], "list": {"x": 1}, "map": {"k": [{"z": 1}]}}});
        assert_eq!(schema().prune(&mut object), ["spec.a[0].x", "spec.list.x", "spec.map.k[0].z"]);
        assert_eq!(object, json!({"spec": {"a": [{}, "y"], "list": {}, "map": {"k": [{}]}}}));
    }

    #[test]
    fn invalid_nulls_are_dropped() {
        let mut object = json!({"metadata": {"labels": {"a": null}},
            "spec": {"a": null, "list": [null, {"x": null}], "map": {"k": null}, "free": {"any": null}}});
        schema().drop_nulls(&mut object);
        assert_eq!(
            object,
            json!({"metadata": {"labels": {"a": null}}, "spec": {"list": [null, {}], "map": {}, "free": {"any": null}}})
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from)
        ];
        leaf.prop_recursive(5, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("(a|spec|list|map|free|x|metadata|[a-z]{1,3})", inner, 0..6)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn pruning_twice_is_pruning_once(object in any_json()) {
            let schema = schema();
            let mut once = object;
            schema.prune(&mut once);
            let mut twice = once.clone();
            prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn no_input_panics(object in any_json()) {
            let schema = schema();
            let mut changed = object.clone();
            schema.default(&mut changed);
            schema.validate(&object, Some(&changed));
            let pod = crate::builtin_kind("", "Pod").unwrap().schema();
            let mut pruned = object.clone();
            pod.prune(&mut pruned);
            let _ = pod.normalize(&mut pruned);
            pod.validate(&pruned, None);
        }
    }
}

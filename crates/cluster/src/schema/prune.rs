//! Drops the fields that a schema does not know, and says which they were.
//!
//! Rules of `apiextensions-apiserver/pkg/apiserver/schema/pruning`: specified fields below
//! `x-kubernetes-preserve-unknown-fields` are still pruned; `apiVersion`, `kind` and `metadata` of an object stay.

use serde_json::Value;

use super::{Additional, MAX_DEPTH, NodeId, Schema};

/// How many unknown fields are reported; all are dropped.
pub const MAX_REPORTED: usize = 100;

impl Schema {
    /// Drops unknown fields of `object` and returns their paths, e.g. `spec.containers[0].foo`.
    ///
    /// The wording for strict validation is kubectl's: `unknown field "spec.foo"`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_node(self.root(), object, &mut String::new(), &mut unknown, 0);
        unknown
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
    fn unknown_fields_go_and_are_named() {
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
            let pod = crate::objects::builtin_kind("", "Pod").unwrap().schema();
            let mut pruned = object.clone();
            pod.prune(&mut pruned);
            let _ = pod.normalize(&mut pruned);
            pod.validate(&pruned, None);
        }
    }
}

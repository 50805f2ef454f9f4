//! Sets a schema's defaults.
//!
//! Rules of `apiextensions-apiserver/pkg/apiserver/schema/defaulting`: the default replaces an absent field, or a
//! `null` where `null` is not a valid value, and is itself defaulted. Other invalid `null`s are kept: they cannot occur
//! in what is decoded ([`Schema::drop_nulls`]), but may in an applied configuration.

use serde_json::Value;

use super::{MAX_DEPTH, NodeId, Schema};

impl Schema {
    /// Sets defaults.
    pub fn default(&self, object: &mut Value) {
        self.default_node(self.root(), object, 0);
    }

    /// Returns whether a stored object lacks a default: one added to the schema after the object was written, or one
    /// that the stored version does not have.
    pub fn lacks_default(&self, object: &Value) -> bool {
        self.has_defaults && self.node_lacks_default(self.root(), object, 0)
    }

    fn node_lacks_default(&self, id: NodeId, value: &Value, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let node = self.node(id);
        match value {
            Value::Object(map) => {
                let lacks = |(name, property): (&String, &super::Property)| {
                    let of = self.node(property.node);
                    of.default.is_some() && map.get(name).is_none_or(|value| value.is_null() && !of.nullable)
                };
                node.properties.iter().any(lacks)
                    || map.iter().any(|(name, child)| {
                        self.field(id, name)
                            .is_some_and(|field| self.node_lacks_default(field, child, depth + 1))
                    })
            }
            Value::Array(items) => node
                .items
                .is_some_and(|of| items.iter().any(|item| self.node_lacks_default(of, item, depth + 1))),
            _ => false,
        }
    }

    fn default_node(&self, id: NodeId, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let node = self.node(id);
        match value {
            Value::Object(map) => {
                for (name, property) in &node.properties {
                    let of = self.node(property.node);
                    let absent = map.get(name).is_none_or(|v| v.is_null() && !of.nullable);
                    if let (true, Some(default)) = (absent, &of.default) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, child) in map.iter_mut() {
                    let Some(field) = self.field(id, name) else { continue };
                    let of = self.node(field);
                    if let (true, false, Some(default)) = (child.is_null(), of.nullable, &of.default) {
                        *child = default.clone();
                    }
                    self.default_node(field, child, depth + 1);
                }
            }
            Value::Array(items) => {
                let Some(of) = node.items else { return };
                for item in items {
                    let items = self.node(of);
                    if let (true, false, Some(default)) = (item.is_null(), items.nullable, &items.default) {
                        *item = default.clone();
                    }
                    self.default_node(of, item, depth + 1);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_replace_absent_fields() {
        let schema = Schema::of_crd(&json!({"type": "object", "properties": {"spec": {"type": "object",
            "default": {"mode": "x"}, "properties": {
                "mode": {"type": "string", "default": "slow"}, "n": {"type": "integer", "default": 1},
                "maybe": {"type": "string", "nullable": true, "default": "d"}, "plain": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"r": {"type": "integer", "default": 1}}}},
            }}}}))
        .unwrap();
        let cases = [
            (json!({}), json!({"spec": {"mode": "x", "n": 1, "maybe": "d"}})),
            (
                json!({"spec": {"n": null, "maybe": null, "plain": null}}),
                json!({"spec": {"mode": "slow", "n": 1, "maybe": null, "plain": null}}),
            ),
            (
                json!({"spec": {"n": 0, "maybe": "", "list": [{}, {"p": "UDP"}], "map": {"k": {}}}}),
                json!({"spec": {"mode": "slow", "n": 0, "maybe": "", "list": [{"p": "TCP"}, {"p": "UDP"}], "map": {"k": {"r": 1}}}}),
            ),
        ];
        for (mut object, expected) in cases {
            schema.default(&mut object);
            assert_eq!(object, expected);
        }
    }
}

//! Embedded objects (`x-kubernetes-embedded-resource`): their type and metadata are those of any object, whatever the
//! schema says about the rest.
//!
//! Rule: `apiextensions-apiserver/pkg/apiserver/schema/objectmeta` (coercion when a body is decoded, validation later).

use serde_json::Value;

use super::{MAX_DEPTH, NodeId, Schema};

impl Schema {
    /// Decodes the metadata of embedded objects with `decode`.
    ///
    /// # Errors
    /// The first value of the wrong type, as `path: Invalid value: …: why`.
    pub fn coerce_embedded(
        &self,
        object: &mut Value,
        decode: &dyn Fn(&mut Value) -> Result<(), String>,
    ) -> Result<(), String> {
        self.coerce_node(self.root(), object, "", decode, 0)
    }

    fn coerce_node(
        &self,
        id: NodeId,
        value: &mut Value,
        path: &str,
        decode: &dyn Fn(&mut Value) -> Result<(), String>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Ok(());
        }
        let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match value {
            Value::Object(map) => {
                if self.node(id).embedded {
                    for name in ["apiVersion", "kind"] {
                        if let Some(other) = map.get(name).filter(|value| !value.is_string()) {
                            return Err(format!("{}: Invalid value: {other}: must be a string", at(name)));
                        }
                    }
                    if let Some(metadata) = map.get_mut("metadata") {
                        let shown = metadata.to_string();
                        let at = at("metadata");
                        decode(metadata).map_err(|why| format!("{at}: Invalid value: {shown}: {why}"))?;
                        if metadata.is_null() {
                            *metadata = serde_json::json!({});
                        }
                    }
                }
                for (name, child) in map {
                    if let Some(field) = self.field(id, name) {
                        self.coerce_node(field, child, &at(name), decode, depth + 1)?;
                    }
                }
                Ok(())
            }
            Value::Array(items) => {
                let Some(of) = self.node(id).items else { return Ok(()) };
                items.iter_mut().enumerate().try_for_each(|(index, item)| {
                    self.coerce_node(of, item, &format!("{path}[{index}]"), decode, depth + 1)
                })
            }
            _ => Ok(()),
        }
    }
}

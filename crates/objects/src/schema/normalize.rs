//! Decodes an object of a built-in kind into the form that a typed API server would return, or reports why it cannot be
//! decoded.
//!
//! A kube-apiserver decodes built-in kinds into Go types: wrong JSON types are a bad request, nulls and empty optional
//! lists and maps vanish, and quantities and times become canonical. This does the same on JSON values.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{MAX_DEPTH, Node, NodeId, Schema, Type, Zero};
use semantics::{NotAQuantity, Quantity};

use crate::json_kind;

/// Why an object cannot be decoded; worded as Go's `encoding/json`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A value of the wrong JSON type.
    #[error("json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {wanted}")]
    Type {
        /// The JSON type found.
        found: String,
        /// The struct with the field.
        holder: String,
        /// The field, without list positions.
        path: String,
        /// The expected type.
        wanted: String,
    },
    /// A string that is not a quantity.
    #[error(transparent)]
    Quantity(#[from] NotAQuantity),
    /// A string that is not a time.
    #[error("parsing time {text} as {layout:?}: cannot parse {text} as \"2006\"", text = quoted(.0), layout = .1)]
    Time(String, &'static str),
    /// A string that is not base64.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// Nested too deeply.
    #[error("json: the object is nested too deeply at {0}")]
    TooDeep(String),
}

impl Schema {
    /// Replaces empty lists by `null` in fields where Go writes an absent list as `null`, because objects read from the
    /// store have no empty lists there.
    pub fn settle(&self, object: &mut Value) {
        self.settle_node(self.root(), object, 0);
    }

    fn settle_node(&self, id: NodeId, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, child) in map.iter_mut() {
                    let property = self.node(id).properties.get(name);
                    if property.is_some_and(|property| property.go.zero == Zero::Null) && is_empty_list(child)
                    {
                        *child = Value::Null;
                    } else if let Some(field) = self.field(id, name) {
                        self.settle_node(field, child, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                let Some(of) = self.node(id).items else { return };
                items.iter_mut().for_each(|item| self.settle_node(of, item, depth + 1));
            }
            _ => {}
        }
    }

    /// Checks types and makes values canonical.
    ///
    /// # Errors
    /// The first value of the wrong type.
    pub fn normalize(&self, object: &mut Value) -> Result<(), DecodeError> {
        let mut walk = Walk::new(self);
        walk.value(self.root(), object, 0)?;
        walk.first.map_or(Ok(()), Err)
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    /// The struct fields on the path, as messages name them, without map keys and list positions.
    path: String,
    /// The struct entered last.
    holder: &'a str,
    /// The Go type of the current value, if the table has it.
    declared: Option<&'static str>,
    /// The first value of a wrong type. Go continues after it, and reports errors of custom decoders first.
    first: Option<DecodeError>,
}

impl<'a> Walk<'a> {
    fn new(schema: &'a Schema) -> Self {
        Walk { schema, path: String::new(), holder: "", declared: None, first: None }
    }

    fn value(&mut self, id: NodeId, value: &mut Value, depth: usize) -> Result<(), DecodeError> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep(self.path.clone()));
        }
        let schema = self.schema;
        let node = schema.node(id);
        if node.quantity {
            return self.quantity(value);
        }
        if node.int_or_string {
            return match value {
                Value::String(_) => Ok(()),
                Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
                Value::Number(number) => Err(self.wrong(&format!("number {number}"), "int32")),
                other => Err(self.wrong(json_kind(other), "int32")),
            };
        }
        let Some(kind) = node.kind else { return Ok(()) };
        match (kind, &mut *value) {
            (Type::Object, Value::Object(map)) => self.object(id, map, depth),
            (Type::Array, Value::Array(items)) => {
                let Some(of) = node.items else { return Ok(()) };
                let declared = self.declared.map(|name| name.strip_prefix("[]").unwrap_or(name));
                for item in items {
                    if item.is_null() {
                        *item = zero(schema.node(of));
                    }
                    self.declared = declared;
                    self.value(of, item, depth + 1)?;
                }
                Ok(())
            }
            (Type::String, Value::String(text)) => self.string(node, text),
            (Type::String, Value::Array(bytes)) if node.format.as_deref() == Some("byte") => {
                *value = self.bytes(bytes).into();
                Ok(())
            }
            (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => Ok(()),
            (Type::Integer, Value::Number(number)) => match (whole(number), node.format.as_deref()) {
                (Some(n), Some("int32")) if i32::try_from(n).is_err() => self.mistyped(node, value),
                (Some(n), _) => {
                    *value = Value::from(n);
                    Ok(())
                }
                (None, _) => self.mistyped(node, value),
            },
            _ => self.mistyped(node, value),
        }
    }

    fn object(&mut self, id: NodeId, map: &mut Map<String, Value>, depth: usize) -> Result<(), DecodeError> {
        let schema = self.schema;
        let node = schema.node(id);
        let is_struct = !node.properties.is_empty();
        if node.preserve_unknown && !is_struct {
            return Ok(());
        }
        let (holder, declared) = (self.holder, self.declared);
        if let (true, Some(definition)) = (is_struct, &node.definition) {
            self.holder = definition.rsplit('.').next().unwrap_or_default();
        }
        let mut emptied = Vec::new();
        for (name, child) in map.iter_mut() {
            if child.is_null() && is_struct {
                // An unknown field stays until it is pruned, which reports it.
                if schema.field(id, name).is_some() {
                    emptied.push(name.clone());
                }
                continue;
            }
            let Some(field) = schema.field(id, name) else { continue };
            if child.is_null() && !is_struct {
                *child = zero(schema.node(field));
                if child.is_null() {
                    continue;
                }
            }
            let length = self.path.len();
            if is_struct {
                if !self.path.is_empty() {
                    self.path.push('.');
                }
                if let Some(embedded) = node.definition.as_deref().and_then(|holder| embedded(holder, name)) {
                    self.path.push_str(embedded);
                    self.path.push('.');
                }
                self.path.push_str(name);
                let go = node.properties.get(name).and_then(|property| property.go.type_name);
                self.declared = go;
            } else {
                self.declared = declared.map(|name| name.split_once(']').map_or(name, |(_, of)| of));
            }
            self.value(field, child, depth + 1)?;
            self.path.truncate(length);
            let zero = node.properties.get(name).map(|property| property.go.zero).unwrap_or_default();
            if is_struct && zero != Zero::Null && vanishes(schema.node(field), zero, child) {
                emptied.push(name.clone());
            }
        }
        self.holder = holder;
        for name in emptied {
            map.remove(&name);
        }
        self.fill(node, map, depth)
    }

    /// Adds the fields of a struct that Go writes even if unset.
    fn fill(&mut self, node: &Node, map: &mut Map<String, Value>, depth: usize) -> Result<(), DecodeError> {
        for (name, property) in &node.properties {
            if map.contains_key(name) {
                continue;
            }
            let Some(mut value) = property.go.zero.value() else { continue };
            if let Value::Object(inner) = &mut value {
                self.object(property.node, inner, depth + 1)?;
            }
            map.insert(name.clone(), value);
        }
        Ok(())
    }

    fn quantity(&self, value: &mut Value) -> Result<(), DecodeError> {
        *value = Value::String(Quantity::of(value)?.to_string());
        Ok(())
    }

    fn string(&mut self, node: &Node, text: &mut String) -> Result<(), DecodeError> {
        match node.format.as_deref() {
            Some("date-time") => {
                *text = format!("{:.0}", time(text, "2006-01-02T15:04:05Z07:00")?);
                Ok(())
            }
            Some("micro-time") => {
                *text = format!("{:.6}", time(text, "2006-01-02T15:04:05.000000Z07:00")?);
                Ok(())
            }
            Some("byte") => {
                match base64_fault(text) {
                    Some(at) => {
                        self.first.get_or_insert(DecodeError::Base64(at));
                    }
                    None => text.retain(|c| c != '\n' && c != '\r'),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Converts bytes given as a list of numbers. Records the first invalid number as a fault.
    fn bytes(&mut self, list: &[Value]) -> String {
        let mut bytes = Vec::with_capacity(list.len());
        for one in list {
            let number = one.as_u64().and_then(|number| u8::try_from(number).ok());
            if number.is_none() && !one.is_null() {
                let found = match one {
                    Value::Number(number) => format!("number {number}"),
                    other => json_kind(other).to_owned(),
                };
                let fault = self.wrong(&found, "uint8");
                self.first.get_or_insert(fault);
            }
            bytes.push(number.unwrap_or_default());
        }
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    fn wrong(&self, found: &str, wanted: &str) -> DecodeError {
        let (holder, path) = (self.holder.to_owned(), self.path.clone());
        DecodeError::Type { found: found.to_owned(), holder, path, wanted: wanted.to_owned() }
    }

    /// Handles a value of the wrong type. For a type with its own decoder it is an error at once.
    fn mistyped(&mut self, node: &Node, value: &Value) -> Result<(), DecodeError> {
        if matches!(node.format.as_deref(), Some("date-time" | "micro-time")) {
            return Err(self.wrong(json_kind(value), "string"));
        }
        let fault = self.mismatch(node, value);
        self.first.get_or_insert(fault);
        Ok(())
    }

    fn mismatch(&self, node: &Node, value: &Value) -> DecodeError {
        let holder = self.holder.to_owned();
        let found = match (value, node.kind) {
            (Value::Number(number), Some(Type::Integer)) => format!("number {number}"),
            (value, _) => json_kind(value).to_owned(),
        };
        if let Some(wanted) = self.declared {
            return DecodeError::Type { found, holder, path: self.path.clone(), wanted: wanted.to_owned() };
        }
        let wanted = match (node.kind, node.format.as_deref(), &node.definition) {
            (_, _, Some(definition)) => definition.rsplit('.').take(2).collect::<Vec<_>>(),
            (Some(Type::Integer), Some(format), _) => vec![format],
            (Some(Type::Boolean), _, _) => vec!["bool"],
            (Some(Type::Integer), None, _) => vec!["int"],
            (Some(kind), _, _) => vec![kind.name()],
            (None, _, _) => vec!["intstr", "IntOrString"],
        };
        let wanted = wanted.into_iter().rev().collect::<Vec<_>>().join(".");
        DecodeError::Type { found, holder, path: self.path.clone(), wanted }
    }
}

/// Returns the embedded Go struct that has this field: messages name it, JSON does not.
fn embedded(holder: &str, name: &str) -> Option<&'static str> {
    match holder.rsplit('.').next().unwrap_or_default() {
        "Volume" if name != "name" => Some("VolumeSource"),
        "Probe" if matches!(name, "exec" | "httpGet" | "tcpSocket" | "grpc") => Some("ProbeHandler"),
        "PersistentVolumeSpec" if matches!(name, "hostPath" | "nfs" | "local" | "csi" | "iscsi" | "fc") => {
            Some("PersistentVolumeSource")
        }
        "EphemeralContainer" if name != "targetContainerName" => Some("EphemeralContainerCommon"),
        "ConfigMapVolumeSource"
        | "ConfigMapProjection"
        | "SecretProjection"
        | "ConfigMapEnvSource"
        | "SecretEnvSource"
        | "ConfigMapKeySelector"
        | "SecretKeySelector"
            if name == "name" =>
        {
            Some("LocalObjectReference")
        }
        _ => None,
    }
}

fn time(text: &str, layout: &'static str) -> Result<Timestamp, DecodeError> {
    text.parse().map_err(|_| DecodeError::Time(text.to_owned(), layout))
}

/// Quotes a text as Go's `time` package does: non-ASCII characters byte by byte.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the position of the first base64 error; line breaks are ignored.
pub(super) fn base64_fault(text: &str) -> Option<usize> {
    let data: String = text.chars().filter(|c| *c != '\n' && *c != '\r').collect();
    match base64::engine::general_purpose::STANDARD.decode(&data) {
        Ok(_) => None,
        Err(base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _)) => {
            Some(at)
        }
        Err(_) => Some(data.len() / 4 * 4),
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Returns the value that replaces `null` in a list or map. Absent bytes stay `null` until they are read from the
/// store.
pub(super) fn zero(node: &Node) -> Value {
    match node.kind {
        _ if node.quantity => Value::from("0"),
        Some(Type::String) if node.format.as_deref() == Some("byte") => Value::Null,
        Some(Type::String) => Value::from(""),
        Some(Type::Integer | Type::Number) => Value::from(0),
        Some(Type::Boolean) => Value::from(false),
        Some(Type::Object) if !node.properties.is_empty() => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

/// Returns a number if it is an integer, also when written as `1.0`.
fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        // Beyond 2^53 a float does not identify an integer.
        (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
    })
}

/// Returns whether Go's `omitempty` omits the value: empty lists and maps (but not structs), and zero values.
fn vanishes(node: &Node, zero: Zero, value: &Value) -> bool {
    let left_out = zero == Zero::LeftOut;
    match value {
        Value::String(text) => left_out && text.is_empty(),
        Value::Bool(set) => left_out && !set,
        Value::Number(number) => left_out && number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && node.map_values().is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::builtin_kind;

    #[test]
    fn typed_values_become_canonical() {
        let mut pod = json!({"metadata": {"name": "p", "creationTimestamp": null, "labels": {}}, "spec": {"containers": [{"name": "c",
            "args": [], "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}, "ports": [{"containerPort": 80.0}]}],
            "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {}},
            "status": {"startTime": "2024-01-01T01:00:00.123+01:00"}});
        builtin_kind("", "Pod").unwrap().schema().normalize(&mut pod).unwrap();
        assert_eq!(
            pod,
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c",
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}, "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "v", "emptyDir": {}}]},
                "status": {"startTime": "2024-01-01T00:00:00Z"}})
        );
    }

    #[test]
    fn only_known_fields_vanish_with_a_null() {
        let mut map = json!({"metadata": {"name": null, "bogus": null}});
        builtin_kind("", "ConfigMap").unwrap().schema().normalize(&mut map).unwrap();
        assert_eq!(map, json!({"metadata": {"bogus": null}}));
    }

    #[test]
    fn mistyped_values_are_reported() {
        let cases = [
            (
                "Pod",
                json!({"spec": {"containers": "x"}}),
                "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                "Pod",
                json!({"spec": {"priority": "x"}}),
                "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                "Pod",
                json!({"spec": []}),
                "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
            ),
            (
                "Pod",
                json!({"spec": {"priority": 4294967296_i64}}),
                "json: cannot unmarshal number 4294967296 into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                "ConfigMap",
                json!({"data": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            ("Secret", json!({"data": {"a": "?"}}), "illegal base64 data at input byte 0"),
            (
                "PersistentVolumeClaim",
                json!({"spec": {"resources": {"requests": {"storage": "1e"}}}}),
                "unable to parse quantity's suffix",
            ),
        ];
        for (kind, mut object, text) in cases {
            let error = builtin_kind("", kind).unwrap().schema().normalize(&mut object).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }
}

//! Conversion of an object's JSON to Go types without parsing text, as Kubernetes does after a strategic merge patch
//! and a server-side apply (`runtime.DefaultUnstructuredConverter.FromUnstructured`).
//!
//! It differs from decoding text ([`Schema::normalize`]) in its messages, and in that integers too large for their
//! field overflow.

use base64::Engine as _;
use serde_json::Value;

use super::normalize::zero;
use super::{MAX_DEPTH, NodeId, Schema, Type};
use crate::json_kind;

impl Schema {
    /// Converts numbers and `null`s of a built-in kind's object as Kubernetes does. Call before [`Schema::normalize`].
    ///
    /// # Errors
    /// The first value that cannot be converted to the type of its field, in the words of Kubernetes.
    pub fn convert(&self, object: &mut Value) -> Result<(), String> {
        self.convert_node(self.root(), object, None, 0)
    }

    /// `declared` is the Go type of the value, if the table has it.
    fn convert_node(
        &self,
        id: NodeId,
        value: &mut Value,
        declared: Option<&str>,
        depth: usize,
    ) -> Result<(), String> {
        let node = self.node(id);
        if depth > MAX_DEPTH {
            return Err("the object is nested too deeply".to_owned());
        }
        if value.is_null() || node.quantity {
            return Ok(());
        }
        if node.int_or_string {
            return int_or_string(value);
        }
        if matches!(node.format.as_deref(), Some("date-time" | "micro-time")) {
            return match &*value {
                Value::String(_) => Ok(()),
                other => into_value(json_kind(other), "string"),
            };
        }
        match (node.kind, &mut *value) {
            (None, _) => Ok(()),
            (Some(Type::Object), Value::Object(fields)) => {
                let is_struct = !node.properties.is_empty();
                for (name, child) in fields.iter_mut() {
                    let Some(field) = self.field(id, name) else { continue };
                    let declared = match node.properties.get(name) {
                        Some(property) => property.go.type_name,
                        None => declared.map(|name| name.split_once(']').map_or(name, |(_, of)| of)),
                    };
                    if child.is_null() && !is_struct {
                        *child = zero(self.node(field));
                    }
                    self.convert_node(field, child, declared, depth + 1)?;
                }
                Ok(())
            }
            (Some(Type::Object), other) if node.properties.is_empty() => {
                if node.map_values().is_none() {
                    return Ok(());
                }
                Err(format!("cannot restore map from {}", go_kind(other)))
            }
            (Some(Type::Object), other) => Err(format!("cannot restore struct from: {}", go_kind(other))),
            (Some(Type::Array), Value::Array(items)) => {
                let Some(of) = node.items else { return Ok(()) };
                let declared = declared.map(|name| name.strip_prefix("[]").unwrap_or(name));
                for item in items {
                    if item.is_null() {
                        *item = zero(self.node(of));
                    }
                    self.convert_node(of, item, declared, depth + 1)?;
                }
                Ok(())
            }
            (Some(Type::Array), other) => Err(format!("cannot restore slice from {}", go_kind(other))),
            (Some(Type::String), _) if node.format.as_deref() == Some("byte") => bytes(value),
            (Some(Type::String), Value::String(_)) | (Some(Type::Boolean), Value::Bool(_)) => Ok(()),
            (Some(Type::String), Value::Number(number)) if !number.is_f64() => {
                Err(format!("cannot convert int64 to {}", declared.unwrap_or("string")))
            }
            (Some(Type::String), _) => Err("unrecognized type: string".to_owned()),
            (Some(Type::Boolean), _) => Err("unrecognized type: bool".to_owned()),
            (Some(Type::Number), Value::Number(_)) => Ok(()),
            (Some(Type::Number), _) => Err("unrecognized type: float64".to_owned()),
            (Some(Type::Integer), Value::Number(number)) => {
                let format = node.format.as_deref().unwrap_or("int64");
                let whole = number.as_i64().or_else(|| {
                    let float = number.as_f64()?;
                    (float == float.trunc()).then_some(float as i64)
                });
                let Some(whole) = whole else { return Err(format!("cannot convert float64 to {format}")) };
                // Go's conversion between integers keeps the low bits.
                *value = Value::from(if format == "int32" { i64::from(whole as i32) } else { whole });
                Ok(())
            }
            (Some(Type::Integer), _) => {
                Err(format!("unrecognized type: {}", node.format.as_deref().unwrap_or("int64")))
            }
        }
    }
}

/// Rejects a value of a type with its own JSON decoder.
fn into_value(found: &str, wanted: &str) -> Result<(), String> {
    Err(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
}

fn int_or_string(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) if number.as_i64().is_none_or(|n| i32::try_from(n).is_err()) => {
            into_value(&format!("number {number}"), "int32")
        }
        Value::Number(_) | Value::String(_) => Ok(()),
        other => into_value(json_kind(other), "int32"),
    }
}

/// Accepts bytes as base64 text or as a list of numbers.
fn bytes(value: &mut Value) -> Result<(), String> {
    match &*value {
        Value::String(text) => match super::normalize::base64_fault(text) {
            Some(at) => Err(format!("error decoding from json: illegal base64 data at input byte {at}")),
            None => Ok(()),
        },
        Value::Array(items) => {
            let byte = |item: &Value| {
                let number = item.as_f64().or(item.is_null().then_some(0.0));
                // As above, numbers keep their low bits.
                number.map(|number| number as i64 as u8).ok_or("unrecognized type: uint8")
            };
            let bytes = items.iter().map(byte).collect::<Result<Vec<_>, _>>()?;
            *value = base64::engine::general_purpose::STANDARD.encode(bytes).into();
            Ok(())
        }
        other => Err(format!("cannot restore slice from {}", go_kind(other))),
    }
}

/// Returns a value's kind in Go.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::builtin_kind;

    fn converted(kind: &str, mut object: Value) -> Result<Value, String> {
        builtin_kind("", kind).unwrap().schema().convert(&mut object).map(|()| object)
    }

    #[test]
    fn whole_numbers_overflow_and_nulls_become_zero() {
        let pod = json!({"spec": {"priority": 2_147_483_648_u64, "containers": [null], "terminationGracePeriodSeconds": 3.0}});
        assert_eq!(
            converted("Pod", pod).unwrap(),
            json!({"spec": {"priority": -2_147_483_648_i64, "containers": [{}], "terminationGracePeriodSeconds": 3}})
        );
        let data = json!({"data": {"a": null}, "binaryData": {"b": [], "c": [104, 105]}});
        assert_eq!(
            converted("ConfigMap", data).unwrap(),
            json!({"data": {"a": ""}, "binaryData": {"b": "", "c": "aGk="}})
        );
    }

    #[test]
    fn unfitting_values_are_rejected_in_the_words_of_the_converter() {
        let cases = [
            ("Pod", json!({"spec": "x"}), "cannot restore struct from: string"),
            ("Pod", json!({"spec": {"containers": {}}}), "cannot restore slice from map"),
            ("Pod", json!({"spec": {"restartPolicy": 1}}), "cannot convert int64 to v1.RestartPolicy"),
            ("Pod", json!({"spec": {"priority": 1.5}}), "cannot convert float64 to int32"),
            ("Pod", json!({"spec": {"hostNetwork": "yes"}}), "unrecognized type: bool"),
            ("Pod", json!({"metadata": {"labels": ["a"]}}), "cannot restore map from slice"),
            ("Pod", json!({"metadata": {"labels": {"a": {}}}}), "unrecognized type: string"),
            (
                "Service",
                json!({"spec": {"ports": [{"targetPort": {}}]}}),
                "json: cannot unmarshal object into Go value of type int32",
            ),
            (
                "Secret",
                json!({"data": {"a": "a?"}}),
                "error decoding from json: illegal base64 data at input byte 1",
            ),
        ];
        for (kind, object, text) in cases {
            assert_eq!(converted(kind, object).unwrap_err(), text);
        }
    }
}

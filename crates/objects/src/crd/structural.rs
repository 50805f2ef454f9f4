//! Structural schemas (`pkg/apiserver/schema/validation.go`, KEP-1693).

use serde_json::{Map, Value};

use crate::fault::FieldFault;
use crate::schema::{self, MAX_DEPTH, Schema, SchemaError};

/// JSON schema keywords that structural schemas do not support.
const FORBIDDEN_KEYWORDS: &[&str] = &[
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "$ref",
    "additionalItems",
];

/// Validates a schema: its structure first, then patterns, defaults and rules.
pub(super) fn validate_schema(source: &Value, path: &str, with_rules: bool, faults: &mut Vec<FieldFault>) {
    let before = faults.len();
    Structural { faults }.node(source, path, Position { root: true, value_only: false }, 0);
    if faults.len() > before {
        return;
    }
    match Schema::of_crd(source) {
        Err(SchemaError::Pattern(at, pattern)) => {
            let at = at.replace("openAPIV3Schema", path);
            faults.push(FieldFault::invalid(
                format!("{at}.pattern"),
                pattern,
                "must be a valid regular expression",
            ));
        }
        Err(error) => faults.push(FieldFault::invalid(path, "", error.to_string())),
        Ok(schema) => {
            let compiled = if with_rules { schema::compile_faults(&schema) } else { Vec::new() };
            for (at, index, rule, error) in compiled {
                let at = at.replacen("openAPIV3Schema", path, 1);
                let at = format!("{at}.x-kubernetes-validations[{index}].rule");
                faults.push(FieldFault::invalid(at, rule, format!("compilation failed: {error}")));
            }
            if source["type"] != "object" {
                let text = "must be object at the root";
                faults.push(FieldFault::invalid(format!("{path}.type"), source["type"].clone(), text));
            }
        }
    }
}

/// The position of a node in its schema.
#[derive(Clone, Copy)]
struct Position {
    root: bool,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`, which may contain only conditions on values.
    value_only: bool,
}

struct Structural<'a> {
    faults: &'a mut Vec<FieldFault>,
}

impl Structural<'_> {
    fn node(&mut self, schema: &Value, path: &str, position: Position, depth: usize) {
        let Some(map) = schema.as_object() else {
            self.faults.push(FieldFault::invalid(path, schema.clone(), "must be a schema object"));
            return;
        };
        if depth > MAX_DEPTH {
            self.faults.push(FieldFault::invalid(path, "", "the schema is nested too deeply"));
            return;
        }
        for keyword in FORBIDDEN_KEYWORDS.iter().filter(|k| map.contains_key(**k)) {
            self.faults.push(FieldFault::forbidden(
                format!("{path}.{keyword}"),
                format!("{keyword} is not supported"),
            ));
        }
        if position.value_only {
            self.condition(map, path);
        } else {
            self.shape(map, path, position);
        }
        self.children(map, path, position, depth);
    }

    /// Validates a node that defines the shape of a value.
    fn shape(&mut self, map: &Map<String, Value>, path: &str, position: Position) {
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let (either, free) =
            (flag("x-kubernetes-int-or-string"), flag("x-kubernetes-preserve-unknown-fields"));
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        match kind {
            "" if either || (free && !position.root) => {}
            "" => {
                let text = "must not be empty for specified object fields";
                self.faults.push(FieldFault::required(
                    format!("{path}.type"),
                    if position.root { "must not be empty at the root" } else { text },
                ));
            }
            _ if either => {
                let text = "must be empty if x-kubernetes-int-or-string is true";
                self.faults.push(FieldFault::invalid(format!("{path}.type"), kind, text));
            }
            kind if !types.contains(&kind) => {
                self.faults.push(FieldFault::not_supported(format!("{path}.type"), kind, &types));
            }
            _ => {}
        }
        if kind == "array" && !map.get("items").is_some_and(Value::is_object) {
            self.faults.push(FieldFault::required(format!("{path}.items"), "must be specified"));
        }
        if map.contains_key("properties")
            && map.get("additionalProperties").is_some_and(|a| *a != Value::Bool(false))
        {
            let text = "additionalProperties and properties are mutual exclusive";
            self.faults.push(FieldFault::forbidden(format!("{path}.additionalProperties"), text));
        }
        if map.get("additionalProperties") == Some(&Value::Bool(false)) {
            let text = "additionalProperties cannot be set to false";
            self.faults.push(FieldFault::forbidden(format!("{path}.additionalProperties"), text));
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            let text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.faults.push(FieldFault::forbidden(format!("{path}.uniqueItems"), text));
        }
        self.list(map, path);
    }

    fn list(&mut self, map: &Map<String, Value>, path: &str) {
        let Some(list_type) = map.get("x-kubernetes-list-type").and_then(Value::as_str) else { return };
        let at = format!("{path}.x-kubernetes-list-type");
        match list_type {
            "atomic" | "set" => {}
            "map" => self.list_keys(map, path),
            other => self.faults.push(FieldFault::not_supported(&at, other, &["atomic", "set", "map"])),
        }
        if map.get("type").and_then(Value::as_str) != Some("array") {
            let text = "must be array if x-kubernetes-list-type is specified";
            self.faults.push(FieldFault::invalid(
                format!("{path}.type"),
                map.get("type").cloned().unwrap_or_default(),
                text,
            ));
        }
    }

    fn list_keys(&mut self, map: &Map<String, Value>, path: &str) {
        let keys: Vec<&str> = map
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if keys.is_empty() {
            let text = "must not be empty if x-kubernetes-list-type is map";
            self.faults.push(FieldFault::required(format!("{path}.x-kubernetes-list-map-keys"), text));
        }
        let items = map.get("items").unwrap_or(&Value::Null);
        for (index, key) in keys.iter().enumerate() {
            let property = &items["properties"][key];
            let required = items["required"].as_array().is_some_and(|r| r.iter().any(|r| r == key));
            if property.is_null() {
                let at = format!("{path}.x-kubernetes-list-map-keys[{index}]");
                self.faults.push(FieldFault::invalid(
                    at,
                    *key,
                    "entries must all be names of item properties",
                ));
            } else if !required && property.get("default").is_none() {
                let at = format!("{path}.items.properties[{key}].default");
                let text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.faults.push(FieldFault::required(at, text));
            }
        }
    }

    /// Validates a node that only imposes conditions on a value.
    fn condition(&mut self, map: &Map<String, Value>, path: &str) {
        for keyword in
            ["description", "type", "default", "title", "additionalProperties", "nullable", "example"]
        {
            if !map.contains_key(keyword) {
                continue;
            }
            let int_or_string = keyword == "type" && path.contains(".anyOf[");
            if !int_or_string {
                let text = "must be undefined to be structural";
                self.faults.push(FieldFault::forbidden(format!("{path}.{keyword}"), text));
            }
        }
        for keyword in map.keys().filter(|k| k.starts_with("x-kubernetes-")) {
            let text = "must be undefined to be structural";
            self.faults.push(FieldFault::forbidden(format!("{path}.{keyword}"), text));
        }
    }

    fn children(&mut self, map: &Map<String, Value>, path: &str, position: Position, depth: usize) {
        let inner = Position { root: false, ..position };
        for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if position.root && name == "metadata" {
                continue;
            }
            self.node(property, &format!("{path}.properties[{name}]"), inner, depth + 1);
        }
        if let Some(items) = map.get("items").filter(|i| i.is_object()) {
            self.node(items, &format!("{path}.items"), inner, depth + 1);
        }
        if let Some(values) = map.get("additionalProperties").filter(|a| a.is_object()) {
            self.node(values, &format!("{path}.additionalProperties"), inner, depth + 1);
        }
        let either = map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
        let below = Position { root: false, value_only: true };
        for junctor in ["allOf", "anyOf", "oneOf"] {
            if either && junctor == "anyOf" {
                // Generators write int-or-string as `anyOf: [{type: integer}, {type: string}]`.
                continue;
            }
            for (index, schema) in
                map.get(junctor).and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                self.node(schema, &format!("{path}.{junctor}[{index}]"), below, depth + 1);
            }
        }
        if let Some(schema) = map.get("not") {
            self.node(schema, &format!("{path}.not"), below, depth + 1);
        }
    }
}

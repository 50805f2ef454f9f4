//! Rules in CEL (`x-kubernetes-validations`, KEP-2876) on the values of a schema.
//!
//! Each rule is compiled once, with the schema of its own value only, so that the walk over an object stays ours: old
//! values are found by list-map keys and never across atomic or set lists, as `apiextensions-apiserver` does.
//! Evaluation is crate `kube-cel`'s. It has no cost budget; object and schema sizes bound it.

use std::collections::BTreeMap;

use kube_cel::{CompiledSchema, ErrorKind};
use serde_json::Value;

use super::{NodeId, Schema};
use crate::objects::{FieldFault, Reason};

const RULES: &str = "x-kubernetes-validations";

/// The compiled rules of a schema, by the value that they are about.
#[derive(Debug, Default)]
pub(super) struct Rules {
    by_node: BTreeMap<NodeId, CompiledSchema>,
}

impl Rules {
    /// Compiles the rules of each `(node, schema)` pair.
    pub(super) fn compile(sources: &[(NodeId, Value)]) -> Rules {
        let compile = |(node, source): &(NodeId, Value)| {
            let mut source = source.clone();
            strip_below(&mut source, true);
            (*node, kube_cel::compile_schema(&source))
        };
        Rules { by_node: sources.iter().map(compile).collect() }
    }

    /// Evaluates the rules about one value.
    pub(super) fn check(
        &self,
        node: NodeId,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Vec<FieldFault> {
        let Some(compiled) = self.by_node.get(&node) else { return Vec::new() };
        if value.is_null() {
            return Vec::new();
        }
        let old = old.filter(|old| !old.is_null());
        match kube_cel::validate_compiled(compiled, value, old) {
            Ok(()) => Vec::new(),
            Err(errors) => errors.into_vec().iter().map(|error| fault(error, value, path)).collect(),
        }
    }
}

fn fault(error: &kube_cel::ValidationError, value: &Value, path: &str) -> FieldFault {
    let below = error.field_path.trim_start_matches('.');
    let path = match (path.is_empty(), below.is_empty()) {
        (true, _) => below.to_owned(),
        (_, true) => path.to_owned(),
        _ if below.starts_with('[') => format!("{path}{below}"),
        _ => format!("{path}.{below}"),
    };
    let shown = if value.is_object() || value.is_array() { None } else { Some(value.clone()) };
    match error.kind {
        ErrorKind::ValidationFailure => {
            FieldFault::new(path, Reason::of_rule(error.reason.as_deref()), shown, error.message.trim())
        }
        _ => FieldFault::new(
            path,
            Reason::Invalid,
            shown,
            format!("{} evaluating rule: {}", error.message, error.rule),
        ),
    }
}

/// Removes the rules of all values below, and defaults, which are long filled in.
fn strip_below(schema: &mut Value, top: bool) {
    match schema {
        Value::Object(map) => {
            if !top {
                map.remove(RULES);
            }
            map.remove("default");
            for (key, child) in map.iter_mut() {
                match (key.as_str(), child) {
                    ("properties", Value::Object(properties)) => {
                        properties.values_mut().for_each(|p| strip_below(p, false));
                    }
                    ("items" | "additionalProperties", child) => strip_below(child, false),
                    _ => {}
                }
            }
            for junctor in ["allOf", "anyOf", "oneOf", "not"] {
                map.remove(junctor);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip_below(item, false)),
        _ => {}
    }
}

impl Schema {
    pub(super) fn rules(&self) -> Option<&Rules> {
        if self.rule_sources.is_empty() {
            return None;
        }
        Some(self.rules.get_or_init(|| Box::new(Rules::compile(&self.rule_sources))))
    }
}

/// The rules of `schema` that do not compile: path within the schema, position, rule and error.
pub fn compile_faults(schema: &Schema) -> Vec<(String, usize, String, String)> {
    let mut faults = Vec::new();
    for ((_, source), path) in schema.rule_sources.iter().zip(&schema.rule_paths) {
        let rules = source.get(RULES).and_then(Value::as_array).cloned().unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
            let alone = serde_json::json!({RULES: [rule]});
            for error in kube_cel::compile_schema(&alone).compilation_errors() {
                faults.push((path.clone(), index, text.to_owned(), error.to_string()));
            }
        }
    }
    faults
}

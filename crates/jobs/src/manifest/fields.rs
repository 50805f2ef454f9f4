//! Checks a manifest against the schema of its kind: unknown fields, wrong types, values outside an enum, missing
//! fields.
//!
//! The schema is that of the MPIJob CRD, so a server finds the same faults; here each fault also has its line and
//! column and the field that was probably meant. Bounds and rules between fields are checked by `plan` and the server.

use serde_json::Value;

use super::MAX_FAULTS;
use super::node::{Entry, Node, Shape};
use super::path::field;
use super::scalar;
use crate::Position;

/// The longest text that may be meant to be one of the known words: the time to compare grows with its length.
const LONGEST_WORD: usize = 256;
/// How deep the schema is searched for the right place of a misplaced field.
const MISPLACED_DEPTH: usize = 8;

/// A fault without the source of its text.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldFault {
    /// The field's path.
    pub path: String,
    /// Its position.
    pub at: Position,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub advice: Option<String>,
}

/// Returns what in `node` `schema` (OpenAPI v3, structural) does not allow; not much more than [`MAX_FAULTS`].
pub fn check(node: &Node, schema: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    check_node(node, schema, schema, "", &mut faults);
    faults
}

fn check_node(node: &Node, schema: &Value, root: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    if is_true(schema, "x-kubernetes-preserve-unknown-fields") && schema.get("properties").is_none() {
        return;
    }
    if let Shape::Scalar { value: Value::Null, .. } = node.shape {
        return;
    }
    if is_true(schema, "x-kubernetes-int-or-string") {
        if !matches!(&node.shape, Shape::Scalar { value: Value::Number(_) | Value::String(_), .. }) {
            faults.push(wrong_type(node, path, "a number or a string"));
        }
        return;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => check_map(node, schema, root, path, faults),
        Some("array") => check_list(node, schema, root, path, faults),
        Some(scalar) => check_scalar(node, schema, scalar, path, faults),
        None => {}
    }
}

fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn check_map(node: &Node, schema: &Value, root: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let Shape::Map(entries) = &node.shape else {
        faults.push(wrong_type(node, path, "a map of fields"));
        return;
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    let open =
        is_true(schema, "x-kubernetes-preserve-unknown-fields") || (properties.is_none() && others.is_none());
    for entry in entries {
        if faults.len() >= MAX_FAULTS {
            return;
        }
        if let Some(known) = properties.and_then(|known| known.get(&entry.key)) {
            check_node(&entry.value, known, root, &field(path, &entry.key), faults);
        } else if let Some(each) = others.filter(|each| each.is_object()) {
            check_node(&entry.value, each, root, &format!("{path}[{}]", entry.key), faults);
        } else if !open && !is_left_over(entry) {
            let known: Vec<&str> =
                properties.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
            faults.push(FieldFault {
                path: field(path, &entry.written),
                at: entry.at,
                message: "unknown field".to_owned(),
                advice: advice_for_unknown(&entry.written, &known, path, root),
            });
        }
    }
    for name in
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if node
            .entry(name)
            .is_none_or(|entry| matches!(entry.value.shape, Shape::Scalar { value: Value::Null, .. }))
        {
            faults.push(FieldFault {
                path: field(path, name),
                at: node.at,
                message: "is required".to_owned(),
                advice: None,
            });
        }
    }
}

/// Every template that Go programs write has `creationTimestamp: null`, which means nothing.
fn is_left_over(entry: &Entry) -> bool {
    entry.key == "creationTimestamp" && matches!(entry.value.shape, Shape::Scalar { value: Value::Null, .. })
}

fn check_list(node: &Node, schema: &Value, root: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let Shape::List(items) = &node.shape else {
        let mut fault = wrong_type(node, path, "a list");
        fault.advice = Some("begin each item with \"- \"".to_owned());
        faults.push(fault);
        return;
    };
    if let Some(each) = schema.get("items") {
        for (index, item) in items.iter().enumerate() {
            if faults.len() >= MAX_FAULTS {
                return;
            }
            check_node(item, each, root, &format!("{path}[{index}]"), faults);
        }
    }
}

fn check_scalar(node: &Node, schema: &Value, wanted: &str, path: &str, faults: &mut Vec<FieldFault>) {
    let Shape::Scalar { value, plain } = &node.shape else {
        faults.push(wrong_type(node, path, article(wanted)));
        return;
    };
    let fits = match wanted {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        let mut fault = wrong_type(node, path, article(wanted));
        fault.advice = advice_for_type(wanted, value, plain.as_deref());
        faults.push(fault);
        return;
    }
    let Some(allowed) = schema.get("enum").and_then(Value::as_array) else { return };
    if !allowed.contains(value) {
        let words: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        faults.push(FieldFault {
            path: path.to_owned(),
            at: node.at,
            message: format!("\"{written}\" is not one of {}", words.join(", ")),
            advice: nearest(&written, &words).map(|meant| format!("did you mean \"{meant}\"?")),
        });
    }
}

fn article(wanted: &str) -> &'static str {
    match wanted {
        "string" => "a string",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a number",
    }
}

fn wrong_type(node: &Node, path: &str, wanted: &str) -> FieldFault {
    let is = match &node.shape {
        Shape::List(_) => "a list".to_owned(),
        Shape::Map(_) => "a map".to_owned(),
        Shape::Scalar { value: Value::String(text), .. } => format!("the string \"{text}\""),
        Shape::Scalar { value, plain } => match plain {
            Some(text) if scalar::surprises(text) => format!("{value} (written {text})"),
            _ => value.to_string(),
        },
    };
    FieldFault {
        path: path.to_owned(),
        at: node.at,
        message: format!("must be {wanted}, but is {is}"),
        advice: None,
    }
}

fn advice_for_type(wanted: &str, value: &Value, plain: Option<&str>) -> Option<String> {
    match (wanted, value) {
        ("string", Value::Bool(_) | Value::Number(_)) => {
            plain.map(|text| format!("write it in quotes: \"{text}\""))
        }
        ("integer" | "number", Value::String(text)) if text.parse::<f64>().is_ok() => {
            Some(format!("write it without quotes: {text}"))
        }
        ("boolean", Value::String(text))
            if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") =>
        {
            Some(format!("write it without quotes: {}", text.to_ascii_lowercase()))
        }
        _ => None,
    }
}

/// Suggests the field that was meant: a similar name at this level, else the same name at its right place.
fn advice_for_unknown(written: &str, known: &[&str], path: &str, root: &Value) -> Option<String> {
    if let Some(meant) = nearest(written, known) {
        return Some(format!("did you mean \"{meant}\"?"));
    }
    let place = find_field(root, written, path)?;
    Some(format!("it belongs at {place}"))
}

/// Returns the word in `known` that `written` was probably meant to be.
pub fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    if written.len() > LONGEST_WORD {
        return None;
    }
    let folded = written.to_lowercase().replace(['_', '-'], "");
    known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&folded, &word.to_lowercase()), *word))
        .filter(|(distance, word)| {
            *distance <= (word.chars().count().max(written.chars().count()) / 3).max(1)
        })
        .min_by_key(|(distance, word)| (*distance, word.len()))
        .map(|(_, word)| word)
}

/// Searches breadth-first, so that the shallowest place wins; among equals, the one that shares the most with `near`.
fn find_field(root: &Value, name: &str, near: &str) -> Option<String> {
    let mut level = vec![(String::new(), root)];
    for _ in 0..MISPLACED_DEPTH {
        let mut next = Vec::new();
        let mut found: Vec<String> = Vec::new();
        for (path, schema) in level {
            for (key, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if key == "status" && path.is_empty() {
                    continue;
                }
                if key == name {
                    found.push(field(&path, key));
                }
                next.push((field(&path, key), child));
            }
            if let Some(each) = schema.get("additionalProperties").filter(|each| each.is_object()) {
                next.push((format!("{path}[*]"), each));
            }
            if let Some(each) = schema.get("items") {
                next.push((format!("{path}[*]"), each));
            }
        }
        found.retain(|place| place != &field(near, name));
        if let Some(best) = found.into_iter().max_by_key(|place| shared_prefix(place, near)) {
            return Some(best.replace("mpiReplicaSpecs[*]", "mpiReplicaSpecs[Launcher|Worker]"));
        }
        level = next;
    }
    None
}

fn shared_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
}

//! Validates types, bounds, formats and combinators.

use serde_json::{Map, Value};

use super::{NOWHERE, duplicates, join};
use crate::schema::{ListType, MAX_DEPTH, Node, NodeId, Schema, Type, formats};
use crate::{FieldFault, MAX_FAULTS, Reason};

/// Validates types and bounds.
pub(super) struct Bounded<'a> {
    pub(super) schema: &'a Schema,
    pub(super) faults: &'a mut Vec<FieldFault>,
}

impl Bounded<'_> {
    /// Validates a value; faults of an unchanged value are ignored.
    pub(super) fn value(&mut self, id: NodeId, value: &Value, old: Option<&Value>, path: &str, depth: usize) {
        let before = self.faults.len();
        self.judge(id, value, old, path, depth);
        let is_type = matches!(path, "apiVersion" | "kind");
        if self.faults.len() > before && !is_type && old == Some(value) {
            self.faults.truncate(before);
        }
    }

    fn judge(&mut self, id: NodeId, value: &Value, old: Option<&Value>, path: &str, depth: usize) {
        if self.faults.len() >= MAX_FAULTS {
            return;
        }
        if depth > MAX_DEPTH {
            self.faults.push(FieldFault::new(path, Reason::Invalid, None, "is nested too deeply"));
            return;
        }
        let schema = self.schema;
        let node = schema.node(id);
        if value.is_null() && node.nullable {
            return;
        }
        self.typed(node, value, path);
        self.enumerated(node, value, path);
        if value.is_null() {
            return;
        }
        // The other checks depend on the value's actual type, not on the expected one.
        match value {
            Value::Number(number) => self.number(node, number, path),
            Value::String(text) => self.string(node, text, path),
            Value::Array(items) => self.array(node, items, old, path, depth),
            Value::Object(map) => self.object(id, map, old, path, depth),
            Value::Null | Value::Bool(_) => {}
        }
        self.junctors(node, value, old, path, depth);
    }

    fn body(&mut self, path: &str, value: Value, text: &str) {
        self.faults.push(FieldFault::invalid(path, value, format!("{path} in body {text}")));
    }

    /// `typeValidator.Validate`.
    fn typed(&mut self, node: &Node, value: &Value, path: &str) {
        let has_format = node.format.as_deref().filter(|format| !format.is_empty());
        let (wanted, holds) = if node.int_or_string {
            ("integer,string".to_owned(), value.is_string() || is_whole(value))
        } else {
            let Some(kind) = node.kind else { return };
            let holds = match kind {
                Type::Object => value.is_object(),
                Type::Array => value.is_array(),
                Type::String => value.is_string(),
                Type::Boolean => value.is_boolean(),
                Type::Number => value.is_number(),
                Type::Integer => is_whole(value),
            };
            (kind.name().to_owned(), holds)
        };
        if holds {
            return;
        }
        let is_number = node.int_or_string || matches!(node.kind, Some(Type::Number | Type::Integer));
        let (wanted, found) = match has_format {
            // Another check handles the format of a text or list.
            Some(_) if !is_number && (value.is_string() || value.is_array()) => return,
            Some(format) if !value.is_string() && !value.is_array() && !value.is_null() => {
                (format.to_owned(), format_of(value))
            }
            _ => (wanted, type_name(value)),
        };
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        self.faults.push(FieldFault::new(path, Reason::TypeInvalid, Some(found.into()), detail));
    }

    fn enumerated(&mut self, node: &Node, value: &Value, path: &str) {
        let allowed = &node.bounds.one_of;
        if !allowed.is_empty() && !allowed.contains(value) {
            let texts: Vec<String> =
                allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            self.faults.push(FieldFault::not_supported(path, value.clone(), &texts));
        }
    }

    fn number(&mut self, node: &Node, number: &serde_json::Number, path: &str) {
        let (value, bounds) = (Value::Number(number.clone()), &node.bounds);
        let float = number.as_f64().unwrap_or(f64::NAN);
        if let Some((minimum, exclusive)) = bounds.minimum
            && (float < minimum || (exclusive && float <= minimum))
        {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            self.body(path, value.clone(), &format!("should be {words} {}", plain(minimum)));
        }
        if let Some((maximum, exclusive)) = bounds.maximum
            && (float > maximum || (exclusive && float >= maximum))
        {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            self.body(path, value.clone(), &format!("should be {words} {}", plain(maximum)));
        }
        if let Some(of) = bounds.multiple_of
            && of > 0.0
            && (float / of).fract() != 0.0
        {
            self.body(path, value.clone(), &format!("should be a multiple of {}", plain(of)));
        }
        if node.kind == Some(Type::Integer) && !node.int_or_string {
            let whole = number.as_i64().or_else(|| {
                let is_whole = float.fract() == 0.0 && float.abs() < 1e21;
                (is_whole && float.abs() < 9.223_372_036_854_775e18).then_some(float as i64)
            });
            let format = node.format.as_deref().filter(|format| matches!(*format, "int32" | "int64"));
            let fits = match format {
                Some("int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
                _ => whole.is_some(),
            };
            if !fits {
                let format = format
                    .map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
                let text = format!("Checked value must be of type integer {format} in {path}");
                self.faults.push(FieldFault::invalid(NOWHERE, "", text));
            }
        }
    }

    fn string(&mut self, node: &Node, text: &str, path: &str) {
        let bounds = &node.bounds;
        let length = text.chars().count() as u64;
        if let Some(max) = bounds.max_length.filter(|max| length > *max) {
            self.faults.push(FieldFault::too_long(path, max as usize));
        }
        if let Some(min) = bounds.min_length.filter(|min| length < *min) {
            self.body(path, text.into(), &format!("should be at least {min} chars long"));
        }
        if let Some((written, _)) = bounds.pattern.as_ref().filter(|(_, regex)| !regex.is_match(text)) {
            self.body(path, text.into(), &format!("should match '{written}'"));
        }
        if let Some(format) = node.format.as_deref().filter(|format| !formats::holds(format, text)) {
            let detail = format!("{path} in body must be of type {format}: {text:?}");
            self.faults.push(FieldFault::new(path, Reason::TypeInvalid, Some(text.into()), detail));
        }
    }

    fn array(&mut self, node: &Node, items: &[Value], old: Option<&Value>, path: &str, depth: usize) {
        let (bounds, count) = (&node.bounds, items.len());
        if let Some(max) = bounds.max_items.filter(|max| count as u64 > *max) {
            self.faults.push(FieldFault::too_many(path, count, max));
        }
        if let Some(min) = bounds.min_items.filter(|min| (count as u64) < *min) {
            self.body(path, count.into(), &format!("should have at least {min} items"));
        }
        if bounds.unique_items && !duplicates(&ListType::Set, items, |_| None).is_empty() {
            self.body(path, Value::Array(items.to_vec()), "shouldn't contain duplicates");
        }
        if let Some(of) = node.items {
            for (index, item) in items.iter().enumerate() {
                let old = self.schema.counterpart(node, item, old);
                self.value(of, item, old, &format!("{path}[{index}]"), depth + 1);
            }
        }
    }

    fn object(
        &mut self,
        id: NodeId,
        map: &Map<String, Value>,
        old: Option<&Value>,
        path: &str,
        depth: usize,
    ) {
        let schema = self.schema;
        let node = schema.node(id);
        let (bounds, count) = (&node.bounds, map.len());
        if let Some(max) = bounds.max_properties.filter(|max| count as u64 > *max) {
            self.faults.push(FieldFault::too_many(path, count, max));
        }
        if let Some(min) = bounds.min_properties.filter(|min| (count as u64) < *min) {
            self.body(path, count.into(), &format!("should have at least {min} properties"));
        }
        for name in node.required.iter().filter(|name| !map.contains_key(*name)) {
            self.faults.push(FieldFault::required(join(path, name), ""));
        }
        for (name, child) in map {
            // Type and metadata are validated elsewhere.
            if schema.is_type_or_metadata(id, name) {
                continue;
            }
            if let Some(field) = schema.field(id, name) {
                let old = old.filter(|_| !node.atomic).and_then(|old| old.get(name));
                self.value(field, child, old, &join(path, name), depth + 1);
            }
        }
    }

    fn junctors(&mut self, node: &Node, value: &Value, old: Option<&Value>, path: &str, depth: usize) {
        let (schema, junctors) = (self.schema, &node.junctors);
        let judged = |id: NodeId, old: Option<&Value>| {
            let mut faults = Vec::new();
            Bounded { schema, faults: &mut faults }.value(id, value, old, path, depth + 1);
            faults
        };
        let mut failed = Vec::new();
        let first = |ids: &[NodeId]| ids.first().map(|id| judged(*id, None)).unwrap_or_default();
        if !junctors.any_of.is_empty() && !junctors.any_of.iter().any(|id| judged(*id, None).is_empty()) {
            failed.push(format!("{path:?} must validate at least one schema (anyOf)"));
            self.faults.extend(first(&junctors.any_of));
        }
        if !junctors.one_of.is_empty() {
            let valid = junctors.one_of.iter().filter(|id| judged(**id, None).is_empty()).count();
            if valid != 1 {
                let found = if valid == 0 {
                    self.faults.extend(first(&junctors.one_of));
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                failed.push(format!("{path:?} must validate one and only one schema (oneOf). {found}"));
            }
        }
        let mut valid = 0;
        for all in &junctors.all_of {
            let faults = judged(*all, old);
            valid += usize::from(faults.is_empty());
            self.faults.extend(faults);
        }
        if valid != junctors.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            failed.push(format!("{path:?} must validate all the schemas (allOf){none}"));
        }
        if junctors.not.is_some_and(|id| judged(id, None).is_empty()) {
            failed.push(format!("{path:?} must not validate the schema (not)"));
        }
        for text in failed {
            self.faults.push(FieldFault::invalid(NOWHERE, "", text));
        }
    }
}

/// Returns the inherent format of a JSON value (`schemaInfoForType`).
fn format_of(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        _ => "",
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn plain(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{number:.0}") } else { number.to_string() }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

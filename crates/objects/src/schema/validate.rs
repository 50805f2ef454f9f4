//! Validates an object against its schema.
//!
//! Checks and messages of `kube-openapi/pkg/validation` and
//! `apiextensions-apiserver/pkg/apiserver/{schema,validation}`: types, bounds, formats, combinators; then, if types are
//! right, embedded objects, list sets and maps, and CEL rules. Objects of built-in kinds are only checked for required
//! fields; their other rules are in [`crate`].
//!
//! Unchanged values may remain invalid on update (ratcheting, KEP-4008, `apiserver/validation/ratcheting.go`): new
//! values are matched with old ones by field and by list-map key, and faults of values that did not change are ignored.

use serde_json::{Map, Value};

use super::cost::BUDGET;
use super::{ListType, MAX_DEPTH, Node, NodeId, Schema, Type, formats};
use crate::expressions;
use crate::{FieldFault, MAX_FAULTS, Reason};

/// The path of a fault without a field.
pub(super) const NOWHERE: &str = "<nil>";
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

impl Schema {
    /// Returns the faults of `object`; `old` is its previous state, for transition rules.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        if self.builtin {
            self.required(self.root(), object, "", &mut faults, 0);
            return faults;
        }
        faults.extend(self.bounds(object, old));
        faults.extend(self.structure(object, old, true));
        self.conclude(object, old, faults)
    }

    /// Validates types and bounds of a custom object.
    pub fn bounds(&self, object: &Value, old: Option<&Value>) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        Bounded { schema: self, faults: &mut faults }.value(self.root(), object, old, "", 0);
        faults
    }

    /// Validates types and bounds of `status` alone. It is treated as a separate object, so paths in messages start
    /// there.
    pub fn status_bounds(&self, object: &Value, old: &Value) -> Vec<FieldFault> {
        let (Some(id), Some(status)) = (self.field(self.root(), "status"), object.get("status")) else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        Bounded { schema: self, faults: &mut faults }.value(id, status, old.get("status"), "", 0);
        for fault in &mut faults {
            fault.path = match fault.path.as_str() {
                "" | NOWHERE => "status".to_owned(),
                path => join("status", path.trim_start_matches('.')),
            };
        }
        faults
    }

    /// Validates lists that are sets or maps and, with `with_embedded`, embedded objects.
    pub fn structure(&self, object: &Value, old: Option<&Value>, with_embedded: bool) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        if with_embedded {
            self.embedded(self.root(), object, "", &mut faults, 0);
        }
        if !old.is_some_and(|old| self.has_duplicates(old)) {
            self.lists(self.root(), object, "", &mut faults, 0);
        }
        faults
    }

    /// Returns all faults, given those found so far. Evaluates rules only if these faults allow it.
    pub fn conclude(
        &self,
        object: &Value,
        old: Option<&Value>,
        mut faults: Vec<FieldFault>,
    ) -> Vec<FieldFault> {
        let blocked = faults.iter().any(|f| {
            matches!(
                f.reason,
                Reason::Required
                    | Reason::TooLong
                    | Reason::TooMany
                    | Reason::TypeInvalid
                    | Reason::NotSupported
            )
        });
        if blocked && !self.rule_sources.is_empty() {
            faults.push(FieldFault::new(NOWHERE, Reason::Invalid, Some(Value::Null), UNCHECKED));
        } else if !blocked {
            let mut budget = BUDGET;
            let at = At { path: "", depth: 0, unchanged: false };
            // With enough stack space for every rule, which need not be mapped for each.
            let mut check = || self.check_rules(self.root(), object, old, at, &mut faults, &mut budget);
            if self.rule_sources.is_empty() { check() } else { expressions::with_room(check) }
        }
        faults.truncate(MAX_FAULTS);
        faults
    }

    /// Checks required scalars and objects of a built-in kind, except in `metadata` and `status`, which have their own
    /// rules.
    fn required(&self, id: NodeId, value: &Value, path: &str, faults: &mut Vec<FieldFault>, depth: usize) {
        let node = self.node(id);
        if depth > MAX_DEPTH || faults.len() >= MAX_FAULTS || node.preserve_unknown {
            return;
        }
        match value {
            Value::Object(map) => {
                for name in &node.required {
                    let field = self.field(id, name).map(|f| self.node(f));
                    let array = field.is_some_and(|f| f.kind == Some(Type::Array));
                    let empty = field.is_some_and(|f| f.kind == Some(Type::String))
                        && map.get(name).is_some_and(|v| v == "");
                    if !array && depth > 0 && (empty || map.get(name).is_none_or(Value::is_null)) {
                        faults.push(FieldFault::required(join(path, name), ""));
                    }
                }
                for (name, child) in map {
                    if depth == 0 && matches!(name.as_str(), "status" | "metadata") {
                        continue;
                    }
                    if let Some(field) = self.field(id, name) {
                        self.required(field, child, &join(path, name), faults, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                let Some(of) = node.items else { return };
                for (index, item) in items.iter().enumerate() {
                    self.required(of, item, &format!("{path}[{index}]"), faults, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Checks for duplicate items of sets and maps, except in `metadata`, which has its own rules.
    fn lists(&self, id: NodeId, value: &Value, path: &str, faults: &mut Vec<FieldFault>, depth: usize) {
        if depth > MAX_DEPTH || faults.len() >= MAX_FAULTS || (depth == 1 && path == "metadata") {
            return;
        }
        let node = self.node(id);
        if let Value::Array(items) = value {
            let mut strange =
                items.iter().enumerate().filter(|(_, item)| !item.is_object() && !item.is_null());
            let strange = strange.next().filter(|_| matches!(node.list_type, ListType::Map(_)));
            if let Some((index, item)) = strange {
                let text = "must be an object for an array of list-type map";
                faults.push(FieldFault::invalid(format!("{path}[{index}]"), item.clone(), text));
            }
            let has_strange = strange.is_some();
            for index in duplicates(&node.list_type, items, |key| self.default_of(node, key)) {
                if has_strange {
                    break;
                }
                let shown = match &node.list_type {
                    ListType::Map(keys) => key_object(&items[index], keys, |key| self.default_of(node, key)),
                    _ => items[index].clone(),
                };
                faults.push(FieldFault::duplicate(format!("{path}[{index}]"), shown));
            }
        }
        self.children(id, value, path, |child, value, path| {
            self.lists(child, value, path, faults, depth + 1)
        });
    }

    fn has_duplicates(&self, object: &Value) -> bool {
        let mut faults = Vec::new();
        self.lists(self.root(), object, "", &mut faults, 0);
        !faults.is_empty()
    }

    fn default_of(&self, list: &Node, key: &str) -> Option<Value> {
        let field = self.field(list.items?, key)?;
        self.node(field).default.clone()
    }

    /// Validates type and metadata of embedded objects.
    fn embedded(&self, id: NodeId, value: &Value, path: &str, faults: &mut Vec<FieldFault>, depth: usize) {
        if depth > MAX_DEPTH || faults.len() >= MAX_FAULTS {
            return;
        }
        if self.node(id).embedded && value.is_object() {
            faults.extend(crate::embedded_faults(value, path));
        }
        self.children(id, value, path, |child, value, path| {
            self.embedded(child, value, path, faults, depth + 1)
        });
    }

    fn children(&self, id: NodeId, value: &Value, path: &str, mut visit: impl FnMut(NodeId, &Value, &str)) {
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let Some(field) = self.field(id, name) else { continue };
                    // Paths of map entries are written differently from those of fields.
                    let is_field = self.node(id).properties.contains_key(name);
                    let at = if is_field { join(path, name) } else { format!("{path}[{name}]") };
                    visit(field, child, &at);
                }
            }
            Value::Array(items) => {
                let Some(of) = self.node(id).items else { return };
                for (index, item) in items.iter().enumerate() {
                    visit(of, item, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }

    fn check_rules(
        &self,
        id: NodeId,
        value: &Value,
        old: Option<&Value>,
        at: At<'_>,
        faults: &mut Vec<FieldFault>,
        budget: &mut u64,
    ) {
        let Some(rules) = self.rules() else { return };
        if at.depth > MAX_DEPTH || faults.len() >= MAX_FAULTS || *budget == 0 {
            return;
        }
        let node = self.node(id);
        // A value without an old counterpart is unchanged if its container is.
        let unchanged = at.unchanged || old == Some(value);
        if node.has_rules {
            faults.extend(rules.check(id, value, old, at.path, unchanged, budget));
        }
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let Some(field) = self.field(id, name) else { continue };
                    let old = old.filter(|_| !node.atomic).and_then(|old| old.get(name));
                    let path = join(at.path, name);
                    let at = At { path: &path, depth: at.depth + 1, unchanged };
                    self.check_rules(field, child, old, at, faults, budget);
                }
            }
            Value::Array(items) => {
                let Some(of) = node.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let old = self.counterpart(node, item, old);
                    let path = format!("{}[{index}]", at.path);
                    let at = At { path: &path, depth: at.depth + 1, unchanged };
                    self.check_rules(of, item, old, at, faults, budget);
                }
            }
            _ => {}
        }
    }

    /// Returns the matching item of the old list; only lists that are maps have one.
    fn counterpart<'v>(&self, list: &Node, item: &Value, old: Option<&'v Value>) -> Option<&'v Value> {
        let ListType::Map(keys) = &list.list_type else { return None };
        let key = |item: &Value| key_object(item, keys, |key| self.default_of(list, key));
        let wanted = key(item);
        old?.as_array()?.iter().find(|old| key(old) == wanted)
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

/// Returns the positions of repeated items.
fn duplicates(list_type: &ListType, items: &[Value], default: impl Fn(&str) -> Option<Value>) -> Vec<usize> {
    let identity = |item: &Value| match list_type {
        ListType::Map(keys) => key_object(item, keys, &default).to_string(),
        _ => item.to_string(),
    };
    if *list_type == ListType::Atomic {
        return Vec::new();
    }
    let mut seen = std::collections::BTreeSet::new();
    items
        .iter()
        .enumerate()
        .filter(|(_, item)| !seen.insert(identity(item)))
        .map(|(index, _)| index)
        .collect()
}

fn key_object(item: &Value, keys: &[String], default: impl Fn(&str) -> Option<Value>) -> Value {
    let value = |key: &String| Some((key.clone(), item.get(key).cloned().or_else(|| default(key))?));
    Value::Object(keys.iter().filter_map(value).collect())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The position of the walk over the rules.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a str,
    depth: usize,
    /// Whether the value is part of one that the update does not change.
    unchanged: bool,
}

/// Validates types and bounds.
struct Bounded<'a> {
    schema: &'a Schema,
    faults: &'a mut Vec<FieldFault>,
}

impl Bounded<'_> {
    /// Validates a value; faults of an unchanged value are ignored.
    fn value(&mut self, id: NodeId, value: &Value, old: Option<&Value>, path: &str, depth: usize) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unchanged_values_may_remain_invalid() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 3},
            "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10", "message": "too big"}]},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string", "maxLength": 1}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}}}}}});
        let wrong = json!({"name": "long", "size": 11, "set": ["a", "a"], "plain": ["xx", "y"], "keyed": [{"k": "a", "v": 9}]});
        let change = |change: Value| {
            let mut new = wrong.clone();
            json_patch::merge(&mut new, &change);
            faults(schema.clone(), new, Some(wrong.clone()))
        };
        assert!(change(json!({"other": 1})).is_empty());
        assert!(change(json!({"keyed": [{"k": "b", "v": 1}, {"k": "a", "v": 9}]})).is_empty());
        assert_eq!(change(json!({"keyed": [{"k": "a", "v": 8}]})).len(), 1);
        assert_eq!(change(json!({"name": "longer"})).len(), 2, "and the rules are not asked");
        assert_eq!(change(json!({"size": 12})), ["spec.size: Invalid value: 12: too big"]);
        // Items of a list that is not a map cannot be matched with old ones.
        assert_eq!(change(json!({"plain": ["xx"]})).len(), 2);
        assert_eq!(faults(schema, wrong.clone(), None).len(), 5);
    }

    #[test]
    fn what_was_refused_is_refused_again_and_what_passed_passes() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "other": {"type": "integer"}},
            "x-kubernetes-validations": [
                {"rule": "self.n > 0", "message": "too small"}, {"rule": "self.n >= oldSelf.n", "message": "shrunk"}]});
        let schema = Schema::of_crd(&json!({"type": "object", "properties": {"spec": schema}})).unwrap();
        let check = |new: Value, old: Option<Value>| {
            let object = |spec: Value| json!({"spec": spec});
            let old = old.map(object);
            schema.validate(&object(new), old.as_ref()).len()
        };
        for _ in 0..2 {
            assert_eq!(check(json!({"n": 0}), None), 1);
            assert_eq!(check(json!({"n": 2}), None), 0);
            assert_eq!(check(json!({"n": 2}), Some(json!({"n": 3}))), 1);
            assert_eq!(check(json!({"n": 2, "other": 1}), Some(json!({"n": 1}))), 0);
        }
    }

    #[test]
    fn an_old_value_can_be_optional() {
        let rule = "self == 'init' || (oldSelf.hasValue() && oldSelf.value() != 'end')";
        let schema = json!({"type": "object", "properties": {"phase": {"type": "string",
            "x-kubernetes-validations": [{"rule": rule, "optionalOldSelf": true, "message": "not 'oldSelf'"}]}}});
        let at = |phase: &str| json!({"phase": phase});
        assert!(faults(schema.clone(), at("init"), None).is_empty());
        assert_eq!(
            faults(schema.clone(), at("run"), None),
            ["spec.phase: Invalid value: \"run\": not 'oldSelf'"]
        );
        assert!(faults(schema.clone(), at("run"), Some(at("init"))).is_empty());
        assert_eq!(faults(schema, at("run"), Some(at("end"))).len(), 1);
    }

    #[test]
    fn rules_that_cost_too_much_are_not_run() {
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
            "x-kubernetes-validations": [{"rule": "self.l.all(x, self.l.all(y, x + y >= 0))"}]});
        let list = |count: usize| json!({"l": vec![1; count]});
        assert!(faults(schema.clone(), list(100), None).is_empty());
        let text = "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run";
        assert_eq!(faults(schema, list(3000), None), [text]);
    }

    fn faults(schema: Value, object: Value, old: Option<Value>) -> Vec<String> {
        let schema = Schema::of_crd(&json!({"type": "object", "properties": {"spec": schema}})).unwrap();
        let old = old.map(|o| json!({"spec": o}));
        schema.validate(&json!({"spec": object}), old.as_ref()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sets_in_the_metadata_are_not_checked() {
        let schema = Schema::of_crd(&json!({"type": "object"})).unwrap();
        let object = json!({"metadata": {"finalizers": ["a/b", "a/b"]}});
        assert!(schema.validate(&object, None).is_empty());
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table of cases")]
    fn messages_match_the_api_server() {
        let cases = [
            (
                json!({"type": "integer"}),
                json!("x"),
                r#"spec: Invalid value: "string": spec in body must be of type integer: "string""#,
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
            ),
            (
                json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}),
                json!(1),
                "spec: Invalid value: 1: spec in body should be less than 1",
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("c"),
                r#"spec: Unsupported value: "c": supported values: "a", "b""#,
            ),
            (
                json!({"type": "string", "maxLength": 1}),
                json!("cc"),
                "spec: Too long: may not be more than 1 bytes",
            ),
            (
                json!({"type": "string", "minLength": 3}),
                json!("cc"),
                r#"spec: Invalid value: "cc": spec in body should be at least 3 chars long"#,
            ),
            (
                json!({"type": "string", "pattern": "^a$"}),
                json!("b"),
                r#"spec: Invalid value: "b": spec in body should match '^a$'"#,
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("b"),
                r#"spec: Invalid value: "b": spec in body must be of type date-time: "b""#,
            ),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
                json!({}),
                "spec.a: Required value",
            ),
            (
                json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
                json!(["a", "b"]),
                "spec: Too many: 2: must have at most 1 item",
            ),
            (
                json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
                json!([]),
                "spec: Invalid value: 0: spec in body should have at least 1 items",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
                json!(["a", "a"]),
                r#"spec[1]: Duplicate value: "a""#,
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}}}}),
                json!([{"k": "a"}, {"k": "a", "p": "TCP"}]),
                r#"spec[1]: Duplicate value: {"k":"a","p":"TCP"}"#,
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(true),
                r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#,
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
                json!({"a": "b"}),
                r#"spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#,
            ),
            (
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
                json!({"kind": "A"}),
                "spec.apiVersion: Required value",
            ),
            (
                json!({"type": "integer", "not": {"minimum": 3}}),
                json!(4),
                r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#,
            ),
            (
                json!({"type": "integer", "format": "int32"}),
                json!(3_000_000_000_i64),
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec",
            ),
            (
                json!({"type": "string"}),
                Value::Null,
                r#"spec: Invalid value: "null": spec in body must be of type string: "null""#,
            ),
        ];
        for (schema, object, text) in cases {
            assert_eq!(faults(schema, object, None), [text]);
        }
        // If none of several schemas holds, the first one's faults are reported, too.
        assert_eq!(
            faults(json!({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 3}]}), json!(4), None),
            [
                "spec: Invalid value: 4: spec in body should be greater than or equal to 5",
                r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#
            ]
        );
        assert!(faults(json!({"type": "string", "nullable": true}), Value::Null, None).is_empty());
        assert!(faults(json!({"type": "integer"}), json!(1.0), None).is_empty());
    }

    #[test]
    fn rules_match_old_values_by_key() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.n < 10", "message": "too much"}],
        "properties": {
            "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "messageExpression": "'was ' + string(oldSelf)"}]},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
                "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v", "message": "immutable", "fieldPath": ".v", "reason": "FieldValueForbidden"}],
                "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
            "a": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}},
        }});
        let old = json!({"n": 5, "l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "a": [{"v": 1}]});
        let cases = [
            (json!({"n": 11}), None, vec!["spec: Invalid value: too much"]),
            (json!({"n": 4}), Some(old.clone()), vec!["spec.n: Invalid value: 4: was 5"]),
            (
                json!({"n": 5, "l": [{"k": "b", "v": 2}, {"k": "a", "v": 3}], "a": [{"v": 9}]}),
                Some(old.clone()),
                vec!["spec.l[1].v: Forbidden: immutable"],
            ),
            (
                json!({"n": "x"}),
                Some(old),
                vec![
                    r#"spec.n: Invalid value: "string": spec.n in body must be of type integer: "string""#,
                    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
                ],
            ),
        ];
        for (object, old, expected) in cases {
            assert_eq!(faults(schema.clone(), object, old), expected);
        }
    }

    #[test]
    fn required_fields_of_builtin_kinds_are_checked() {
        let pod = crate::builtin_kind("", "Pod").unwrap().schema();
        let object = json!({"spec": {"containers": [{"image": "i", "env": [{"value": "v"}]}]}, "status": {"containerStatuses": [{}]}});
        let faults: Vec<String> = pod.validate(&object, None).iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            ["spec.containers[0].name: Required value", "spec.containers[0].env[0].name: Required value"]
        );
    }
}

//! Validates an object against its schema.
//!
//! Checks and messages of `kube-openapi/pkg/validation` and
//! `apiextensions-apiserver/pkg/apiserver/{schema,validation}`: types, bounds, formats, combinators; then, if types are
//! right, embedded objects, list sets and maps, and CEL rules. Objects of built-in kinds are only checked for required
//! fields; their other rules are in [`crate`].
//!
//! Unchanged values may remain invalid on update (ratcheting, KEP-4008, `apiserver/validation/ratcheting.go`): new
//! values are matched with old ones by field and by list-map key, and faults of values that did not change are ignored.

mod bounds;

use serde_json::Value;

use self::bounds::Bounded;
use super::cost::BUDGET;
use super::{ListType, MAX_DEPTH, Node, NodeId, Schema, Type};
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

//! Objects seen through their schema: which fields they set, how two of them differ, what their merge is
//! (structured-merge-diff `typed`).
//!
//! What no schema describes is deduced: objects are maps, everything else is one value.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fieldset::{FieldSet, Path, field};
use crate::objects::printed;
use crate::schema::{ListType, MAX_DEPTH, NodeId, Schema, Type, Zero};

/// A place in a schema; nothing is known below a `None`.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    schema: &'a Schema,
    node: Option<NodeId>,
    atomic: bool,
}

/// How a value is taken apart.
enum Shape<'a> {
    /// As one.
    Leaf,
    /// Into its fields.
    Map,
    /// Into its items, by their value or by these keys.
    List(&'a ListType),
}

/// How two objects differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl<'a> Place<'a> {
    pub(super) fn root(schema: &'a Schema) -> Place<'a> {
        Place { schema, node: Some(schema.root()), atomic: false }
    }

    fn deduced(self) -> Place<'a> {
        Place { node: None, atomic: false, ..self }
    }

    /// The place of a field, and whether it is a named one.
    pub(super) fn field(self, name: &str) -> (Place<'a>, bool) {
        let Some(id) = self.node else { return (self, false) };
        let node = self.schema.node(id);
        match (node.properties.get(name), node.map_values()) {
            (Some(property), _) => {
                (Place { node: Some(property.node), atomic: property.atomic, ..self }, true)
            }
            (None, Some(values)) => (Place { node: Some(values), atomic: false, ..self }, false),
            (None, None) => (self.deduced(), false),
        }
    }

    fn item(self) -> Place<'a> {
        match self.node.and_then(|id| self.schema.node(id).items) {
            Some(items) => Place { node: Some(items), atomic: false, ..self },
            None => self.deduced(),
        }
    }

    /// The place below an element of a path, and whether it is a named field.
    pub(super) fn below(self, element: &str) -> (Place<'a>, bool) {
        match element.strip_prefix("f:") {
            Some(name) => self.field(name),
            None => (self.item(), false),
        }
    }

    fn shape(self, value: &Value) -> Shape<'a> {
        let Some(id) = self.node else {
            return if value.is_object() { Shape::Map } else { Shape::Leaf };
        };
        let node = self.schema.node(id);
        if self.atomic || node.atomic {
            return Shape::Leaf;
        }
        match (node.kind, value) {
            (Some(Type::Object) | None, Value::Object(_)) if !node.int_or_string => Shape::Map,
            (Some(Type::Array), Value::Array(_)) if node.list_type != ListType::Atomic => {
                Shape::List(&node.list_type)
            }
            _ => Shape::Leaf,
        }
    }

    /// A text or number that Go writes even where nobody set it is a key as well as any other.
    fn key_of_go(self, name: &str) -> Option<Value> {
        let zero = self.schema.node(self.item().node?).properties.get(name)?.go.zero;
        matches!(zero, Zero::Text | Zero::Number).then(|| zero.value()).flatten()
    }

    /// The element by which an item of a list is told apart.
    fn element(self, list: &ListType, item: &Value) -> Result<String, String> {
        match list {
            ListType::Map(keys) => {
                let mut key = Map::new();
                for name in keys {
                    let default = || {
                        let node = self.schema.node(self.item().field(name).0.node?);
                        node.default.clone().or_else(|| self.key_of_go(name))
                    };
                    if let Some(value) = item.get(name).cloned().filter(|v| !v.is_null()).or_else(default) {
                        key.insert(name.clone(), value);
                    }
                }
                if key.is_empty() {
                    let keys = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for any key fields)"
                    ));
                }
                Ok(format!("k:{}", Value::Object(key)))
            }
            _ if item.is_object() || item.is_array() => Err(format!("Only scalars supported, found {item}")),
            _ => Ok(format!("v:{item}")),
        }
    }

    /// Items by their elements, in order; `strict` refuses two of the same, otherwise the first counts.
    fn items<'v>(
        self,
        list: &ListType,
        value: Option<&'v Value>,
        strict: bool,
    ) -> Result<Vec<(String, &'v Value)>, String> {
        let mut seen: BTreeMap<String, ()> = BTreeMap::new();
        let mut items = Vec::new();
        for item in value.and_then(Value::as_array).into_iter().flatten() {
            let element = match self.element(list, item) {
                Ok(element) => element,
                Err(error) if strict => return Err(error),
                Err(_) => continue,
            };
            if seen.insert(element.clone(), ()).is_none() {
                items.push((element, item));
            } else if strict {
                return Err(format!("duplicate entries for key {}", super::fieldset::show(&[element])));
            }
        }
        Ok(items)
    }
}

/// What does not fit the schema, each with its path (structured-merge-diff `typed/validate.go`).
///
/// # Errors
/// All faults; of the fields of one object only those before the first that is not declared.
pub(super) fn check(place: Place<'_>, value: &Value) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    judge(place, value, &mut Vec::new(), &mut faults);
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Several faults as one text.
pub(super) fn join(faults: &[String]) -> String {
    match faults {
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    }
}

fn judge(place: Place<'_>, value: &Value, path: &mut Path, faults: &mut Vec<String>) {
    let Some(id) = place.node.filter(|_| path.len() <= MAX_DEPTH && !value.is_null()) else { return };
    let node = place.schema.node(id);
    let mut fault = |path: &Path, text: String| {
        let at = super::fieldset::show(path);
        faults.push(if at.is_empty() { text } else { format!("{at}: {text}") });
    };
    let is_time = matches!(node.format.as_deref(), Some("date-time" | "micro-time"));
    if node.quantity || node.int_or_string || is_time && place.schema.is_builtin() {
        if value.is_object() || value.is_array() {
            fault(path, format!("expected any scalar, got &{{{}}}", printed(value)));
        }
        return;
    }
    match (node.kind, value) {
        (Some(Type::Object), Value::Object(map)) => {
            for (name, child) in map {
                let declared = node.properties.contains_key(name)
                    || node.map_values().is_some()
                    || node.preserve_unknown
                    || node.additional == crate::schema::Additional::Anything;
                path.push(field(name));
                if declared {
                    judge(place.field(name).0, child, path, faults);
                } else {
                    faults.push(format!("{}: field not declared in schema", super::fieldset::show(path)));
                }
                path.pop();
                if !declared {
                    return;
                }
            }
        }
        (Some(Type::Object), other) => fault(path, format!("expected map, got &{{{}}}", printed(other))),
        (Some(Type::Array), Value::Array(items)) => judge_items(place, items, path, faults),
        (Some(Type::Array), other) => fault(path, format!("expected list, got &{{{}}}", printed(other))),
        (Some(Type::Integer | Type::Number), Value::Number(_))
        | (Some(Type::String), Value::String(_))
        | (Some(Type::Boolean), Value::Bool(_))
        | (None, _) => {}
        (Some(Type::Integer | Type::Number), other) => {
            fault(path, format!("expected numeric (int or float), got {}", go_type(other)));
        }
        (Some(Type::String), other) => {
            fault(
                path,
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other)),
            );
        }
        (Some(Type::Boolean), other) => fault(path, format!("expected boolean, got &{{{}}}", printed(other))),
    }
}

fn judge_items(place: Place<'_>, items: &[Value], path: &mut Path, faults: &mut Vec<String>) {
    let list = place.node.map(|id| &place.schema.node(id).list_type).filter(|_| !place.atomic);
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = match list {
            None | Some(ListType::Atomic) => Ok(format!("i:{index}")),
            Some(list) => place.element(list, item),
        };
        let at = super::fieldset::show(path);
        match element {
            Err(text) => {
                faults.push(format!("{at}: element {index}: {text}"));
                return;
            }
            Ok(element) => {
                if !seen.insert(element.clone()) {
                    let key = super::fieldset::show(std::slice::from_ref(&element));
                    faults.push(format!("{at}: duplicate entries for key {key}"));
                }
                path.push(element);
                judge(place.item(), item, path, faults);
                path.pop();
            }
        }
    }
}

/// A value as Go's `%#v` shows it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value)));
            format!("map[string]interface {{}}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        other => other.to_string(),
    }
}

/// A value's type as Go's `%T` shows it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The paths of maps and lists within `value` that are set as one (`findAtomics`).
pub(super) fn atomics(place: Place<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_atomics(place, value, "", 0, &mut found);
    found
}

fn find_atomics(place: Place<'_>, value: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    let Some(id) = place.node.filter(|_| depth <= MAX_DEPTH) else { return };
    let node = place.schema.node(id);
    let is_atomic = place.atomic || node.atomic;
    match value {
        Value::Object(fields) => {
            if is_atomic {
                found.push(path.to_owned());
            }
            for (name, child) in fields {
                if let (below, true) = place.field(name) {
                    find_atomics(below, child, &format!("{path}.{name}"), depth + 1, found);
                }
            }
        }
        Value::Array(items) => {
            if is_atomic || node.list_type == ListType::Atomic {
                found.push(path.to_owned());
            }
            for (index, item) in items.iter().enumerate() {
                find_atomics(place.item(), item, &format!("{path}[{index}]"), depth + 1, found);
            }
        }
        _ => {}
    }
}

/// The fields that `value` sets. Lists of an applied configuration must have no duplicates.
pub(super) fn field_set(place: Place<'_>, value: &Value, strict: bool) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    collect(place, value, strict, &mut Vec::new(), &mut set)?;
    Ok(set)
}

fn collect(
    place: Place<'_>,
    value: &Value,
    strict: bool,
    path: &mut Path,
    set: &mut FieldSet,
) -> Result<(), String> {
    if path.len() > MAX_DEPTH {
        return Err("the object is nested too deeply".to_owned());
    }
    match place.shape(value) {
        Shape::Leaf => {
            // An empty granular list sets nothing that could be owned.
            set.insert(path);
        }
        Shape::Map => {
            for (name, child) in value.as_object().into_iter().flatten() {
                let (below, named) = place.field(name);
                path.push(field(name));
                collect(below, child, strict, path, set)?;
                if child.is_null() || child.as_object().is_some_and(Map::is_empty) || !named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Shape::List(list) => {
            for (element, item) in place.items(list, Some(value), strict)? {
                path.push(element);
                collect(place.item(), item, strict, path, set)?;
                set.insert(path);
                path.pop();
            }
        }
    }
    Ok(())
}

/// How `new` differs from `old`; the record of managers is no part of either.
pub(super) fn compare(place: Place<'_>, old: &Value, new: &Value) -> Comparison {
    let mut out = Comparison::default();
    walk(place, Some(old), Some(new), &mut Vec::new(), &mut out);
    out
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn same_kind(a: &Value, b: &Value) -> bool {
    a.is_null() || b.is_null() || (a.is_object() == b.is_object() && a.is_array() == b.is_array())
}

fn walk(place: Place<'_>, old: Option<&Value>, new: Option<&Value>, path: &mut Path, out: &mut Comparison) {
    if old == new || path.len() > MAX_DEPTH {
        return;
    }
    if let (Some(before), Some(after)) = (old, new)
        && !same_kind(before, after)
    {
        // A map became a value, or the other way round: what stood below is gone or new.
        below(place, old, None, path, out);
        below(place, None, new, path, out);
        out.modified.insert(path);
        return;
    }
    let leaf = below(place, old, new, path, out);
    match (old, new) {
        (None, Some(_)) => out.added.insert(path),
        (Some(_), None) => out.removed.insert(path),
        (Some(_), Some(_)) if leaf => out.modified.insert(path),
        _ => {}
    }
}

/// Compares what stands below; true where the value is taken as one.
fn below(
    place: Place<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Path,
    out: &mut Comparison,
) -> bool {
    let example = [new, old].into_iter().flatten().find(|v| !v.is_null()).unwrap_or(&Value::Null);
    let shape = place.shape(example);
    if is_empty(old) && is_empty(new) {
        return true;
    }
    match shape {
        Shape::Leaf => return true,
        Shape::Map => {
            let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let at_managers = matches!(path.as_slice(), [only] if only == "f:metadata");
            let compare = |name: &str, path: &mut Path, out: &mut Comparison| {
                if at_managers && name == "managedFields" {
                    return;
                }
                let (old, new) = (before.and_then(|map| map.get(name)), after.and_then(|map| map.get(name)));
                if old != new {
                    path.push(field(name));
                    walk(place.field(name).0, old, new, path, out);
                    path.pop();
                }
            };
            for name in before.into_iter().flat_map(Map::keys) {
                compare(name, path, out);
            }
            let is_new = |name: &&String| before.is_none_or(|before| !before.contains_key(*name));
            for name in after.into_iter().flat_map(Map::keys).filter(is_new) {
                compare(name, path, out);
            }
        }
        Shape::List(list) => {
            let items = |v| place.items(list, v, false).unwrap_or_default();
            let (before, after) = (items(old), items(new));
            let by_element = |all: Vec<(String, _)>| all.into_iter().collect::<BTreeMap<_, &Value>>();
            let (before, mut after) = (by_element(before), by_element(after));
            for (element, old) in before {
                let new = after.remove(&element);
                path.push(element);
                walk(place.item(), Some(old), new, path, out);
                path.pop();
            }
            for (element, new) in after {
                path.push(element);
                walk(place.item(), None, Some(new), path, out);
                path.pop();
            }
        }
    }
    false
}

/// Lays `applied` over `live`: maps and keyed lists are merged, all else is replaced.
pub(super) fn merge(
    place: Place<'_>,
    live: Option<&Value>,
    applied: Option<&Value>,
    depth: usize,
) -> Result<Option<Value>, String> {
    let (live, applied) = match (live, applied) {
        (live, None) => return Ok(live.cloned()),
        (None, Some(applied)) => return Ok(Some(applied.clone())),
        (Some(live), Some(applied)) => (live, applied),
    };
    if depth > MAX_DEPTH {
        return Err("the object is nested too deeply".to_owned());
    }
    if is_empty(Some(live)) || !same_kind(live, applied) || applied.is_null() {
        return Ok(Some(applied.clone()));
    }
    match place.shape(applied) {
        Shape::Leaf => Ok(Some(applied.clone())),
        Shape::Map => {
            let mut out = live.as_object().cloned().unwrap_or_default();
            for (name, value) in applied.as_object().into_iter().flatten() {
                if let Some(merged) = merge(place.field(name).0, live.get(name), Some(value), depth + 1)? {
                    out.insert(name.clone(), merged);
                }
            }
            Ok(Some(Value::Object(out)))
        }
        Shape::List(list) => merge_lists(place, list, live, applied, depth).map(Some),
    }
}

/// Items of the applied list keep its order; those that only the live list has keep their place before the next one
/// that both have.
fn merge_lists(
    place: Place<'_>,
    list: &ListType,
    live: &Value,
    applied: &Value,
    depth: usize,
) -> Result<Value, String> {
    let before = place.items(list, Some(live), false)?;
    let after = place.items(list, Some(applied), true)?;
    let find = |element: &str| before.iter().find(|(e, _)| e == element).map(|(_, v)| *v);
    let rank = |element: &str| after.iter().position(|(e, _)| e == element);
    let mut out = Vec::with_capacity(before.len() + after.len());
    let mut next_live = 0;
    for (index, (element, item)) in after.iter().enumerate() {
        let next_shared = after[index..].iter().find(|(e, _)| find(e).is_some()).map(|(e, _)| e);
        while let Some((live_element, live_item)) = before.get(next_live) {
            match rank(live_element) {
                None => out.push((*live_item).clone()),
                Some(at) if at < index || Some(live_element) != next_shared => {}
                Some(_) => break,
            }
            next_live += 1;
        }
        out.extend(merge(place.item(), find(element), Some(item), depth + 1)?);
    }
    out.extend(before[next_live..].iter().filter(|(e, _)| rank(e).is_none()).map(|(_, v)| (*v).clone()));
    Ok(Value::Array(out))
}

/// Adds to a set the named fields that it has something below.
pub(super) fn with_named_fields(place: Place<'_>, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet { members: set.members.clone(), children: BTreeMap::new() };
    for (element, children) in &set.children {
        let (below, named) = place.below(element);
        if named {
            out.members.insert(element.clone());
        }
        out.children.insert(element.clone(), with_named_fields(below, children));
    }
    out
}

/// Takes the fields of `set` out of `value`; nothing is left of a map or list that becomes empty.
pub(super) fn remove(place: Place<'_>, value: &Value, set: &FieldSet) -> Option<Value> {
    match place.shape(value) {
        Shape::Leaf => Some(value.clone()),
        Shape::Map => {
            let mut out = Map::new();
            for (name, child) in value.as_object().into_iter().flatten() {
                let element = field(name);
                if set.members.contains(&element) {
                    continue;
                }
                match set.children.get(&element).filter(|below| !below.is_empty()) {
                    None => {
                        out.insert(name.clone(), child.clone());
                    }
                    Some(below) => {
                        if let Some(kept) = remove(place.field(name).0, child, below) {
                            out.insert(name.clone(), kept);
                        }
                    }
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        Shape::List(list) => {
            let mut out = Vec::new();
            for item in value.as_array().into_iter().flatten() {
                let Ok(element) = place.element(list, item) else {
                    out.push(item.clone());
                    continue;
                };
                if set.members.contains(&element) {
                    continue;
                }
                match set.children.get(&element).filter(|below| !below.is_empty()) {
                    None => out.push(item.clone()),
                    Some(below) => out.extend(remove(place.item(), item, below)),
                }
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
    }
}

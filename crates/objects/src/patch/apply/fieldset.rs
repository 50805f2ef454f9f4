//! Sets of fields, as trees of path elements, and their wire form (`fieldsV1`).
//!
//! An element is kept in its wire form: `f:<field>`, `k:<keys as JSON>`, `v:<value as JSON>`, `i:<position>`
//! (structured-merge-diff `fieldpath`). Keys are written with sorted fields, so equal elements are equal texts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::schema::MAX_DEPTH;

/// A path from the root of an object.
pub(super) type Path = Vec<String>;

/// Returns the element for a named field.
pub(super) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// The elements that are themselves in the set.
    pub members: BTreeSet<String>,
    /// The sets below elements.
    pub children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    pub(super) fn insert(&mut self, path: &[String]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn union(mut self, other: &FieldSet) -> FieldSet {
        self.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let mine = self.children.remove(element).unwrap_or_default();
            self.children.insert(element.clone(), mine.union(set));
        }
        self
    }

    fn combine(
        &self,
        members: BTreeSet<String>,
        children: impl Fn(&String, &FieldSet) -> FieldSet,
    ) -> FieldSet {
        let children = self.children.iter().map(|(e, set)| (e.clone(), children(e, set)));
        FieldSet { members, children: children.filter(|(_, set)| !set.is_empty()).collect() }
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.intersection(&other.members).cloned().collect();
        self.combine(members, |e, set| other.children.get(e).map(|o| set.intersection(o)).unwrap_or_default())
    }

    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.difference(&other.members).cloned().collect();
        self.combine(members, |e, set| {
            other.children.get(e).map_or_else(|| set.clone(), |o| set.difference(o))
        })
    }

    /// Removes `other` from this set. The work is proportional to `other`.
    pub(super) fn subtract(&mut self, other: &FieldSet) {
        for member in &other.members {
            self.members.remove(member);
        }
        for (element, theirs) in &other.children {
            if let Some(mine) = self.children.get_mut(element) {
                mine.subtract(theirs);
                if mine.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// Keeps what is below the root fields for which `keep` returns true.
    pub(super) fn filter_root(mut self, keep: impl Fn(&str) -> bool) -> FieldSet {
        let kept = |element: &String| element.strip_prefix("f:").is_none_or(&keep);
        self.members.retain(|element| kept(element));
        self.children.retain(|element, _| kept(element));
        self
    }

    /// Removes a field of a root field, with everything below it.
    pub(super) fn drop_below(&mut self, root: &str, name: &str) {
        let (root, name) = (field(root), field(name));
        if let Some(fields) = self.children.get_mut(&root) {
            fields.members.remove(&name);
            fields.children.remove(&name);
            if fields.is_empty() {
                self.children.remove(&root);
            }
        }
    }

    /// Returns all paths in the set, in order.
    pub(super) fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, at: &mut Path, out: &mut Vec<Path>) {
        let elements: BTreeSet<&String> = self.members.iter().chain(self.children.keys()).collect();
        for element in elements {
            at.push(element.clone());
            if self.members.contains(element) {
                out.push(at.clone());
            }
            if let Some(set) = self.children.get(element) {
                set.collect(at, out);
            }
            at.pop();
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub(super) fn to_wire(&self) -> Value {
        let mut map = Map::new();
        for element in &self.members {
            map.insert(element.clone(), Value::Object(Map::new()));
        }
        for (element, set) in self.children.iter().filter(|(_, set)| !set.is_empty()) {
            let Value::Object(mut below) = set.to_wire() else { continue };
            if self.members.contains(element) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.clone(), Value::Object(below));
        }
        Value::Object(map)
    }

    /// Decodes `fieldsV1`. Returns `None` if an element is invalid.
    pub(super) fn of_wire(wire: &Value) -> Option<FieldSet> {
        read(wire, 0).map(|(_, set)| set)
    }
}

/// Decodes a node of the tree: whether it is itself in the set, and the set below it.
fn read(wire: &Value, depth: usize) -> Option<(bool, FieldSet)> {
    let map = wire.as_object().filter(|_| depth <= MAX_DEPTH)?;
    let mut set = FieldSet::default();
    for (element, below) in map {
        if element == "." {
            continue;
        }
        let element = canonical(element)?;
        let (member, below) = read(below, depth + 1)?;
        if member {
            set.members.insert(element.clone());
        }
        if !below.is_empty() {
            set.children.insert(element, below);
        }
    }
    Some((map.is_empty() || map.contains_key("."), set))
}

fn canonical(element: &str) -> Option<String> {
    let (kind, rest) = element.split_once(':')?;
    match kind {
        "f" => Some(element.to_owned()),
        "k" | "v" => serde_json::from_str::<Value>(rest).ok().map(|value| format!("{kind}:{value}")),
        "i" => rest.parse::<i64>().ok().map(|_| element.to_owned()),
        _ => None,
    }
}

/// Formats a path for messages: `.spec.containers[name="c"].image`.
pub(super) fn show(path: &[String]) -> String {
    let mut out = String::new();
    for element in path {
        let (kind, rest) = element.split_once(':').unwrap_or(("f", element));
        match kind {
            "k" => {
                let keys = serde_json::from_str::<Map<String, Value>>(rest).unwrap_or_default();
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", print(value))).collect();
                out.push_str(&format!("[{}]", keys.join(",")));
            }
            "v" => out.push_str(&format!("[={rest}]")),
            "i" => out.push_str(&format!("[{rest}]")),
            _ => out.push_str(&format!(".{rest}")),
        }
    }
    out
}

/// Formats a key's value for messages (`value.ToString`).
fn print(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", print(value))).collect()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_sets_round_trip_through_the_wire_form() {
        let wire = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}});
        let set = FieldSet::of_wire(&wire).unwrap();
        assert_eq!(set.to_wire(), wire);
        let shown: Vec<String> = set.paths().iter().map(|p| show(p)).collect();
        assert_eq!(
            shown,
            [
                ".metadata.finalizers[=\"x/y\"]",
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image"
            ]
        );
        assert!(FieldSet::of_wire(&json!({"x": {}})).is_none() && FieldSet::of_wire(&json!([])).is_none());
    }
}

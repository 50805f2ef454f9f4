//! Finds the differences of two objects (`typed/compare.go`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::check::scalar_fault;
use super::{Shape, TypeRef, is_empty_list, is_empty_map, shapes};
use crate::patch::apply::fieldset::{FieldSet, Path, field};
use crate::schema::{ListType, MAX_DEPTH};

/// The differences of two objects.
#[derive(Debug, Default)]
pub(in crate::patch::apply) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

/// Returns the differences from `old` to `new` (`typed/compare.go`), ignoring `managedFields`.
pub(in crate::patch::apply) fn compare(type_ref: TypeRef<'_>, old: &Value, new: &Value) -> Comparison {
    let mut out = Comparison::default();
    walk(type_ref, Some(old), Some(new), &mut Vec::new(), &mut out);
    out
}

fn walk(
    type_ref: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Path,
    out: &mut Comparison,
) {
    if same(old, new) || path.len() > MAX_DEPTH {
        return;
    }
    let (before, shape) = shapes(type_ref, old, new);
    if let Some(before) = before {
        below(type_ref, before, old, new, path, out);
    }
    if below(type_ref, shape, old, new, path, out) {
        return;
    }
    match (old, new) {
        (None, _) => out.added.insert(path),
        (_, None) => out.removed.insert(path),
        _ => {}
    }
}

/// Compares atomic values (`doLeaf`).
fn leaf(old: Option<&Value>, new: Option<&Value>, path: &Path, out: &mut Comparison) -> bool {
    match (old, new) {
        (None, _) => out.added.insert(path),
        (_, None) => out.removed.insert(path),
        _ if !same(old, new) => out.modified.insert(path),
        _ => {}
    }
    true
}

/// Compares values of one shape. Returns whether they were compared as atomic values.
fn below(
    type_ref: TypeRef<'_>,
    shape: Shape,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Path,
    out: &mut Comparison,
) -> bool {
    match shape {
        Shape::Scalar(scalar) => {
            let fits =
                |value: Option<&Value>| value.is_none_or(|value| scalar_fault(scalar, value).is_none());
            (fits(old) || fits(new)) && leaf(old, new, path, out)
        }
        Shape::Map if type_ref.is_atomic_map() || is_empty_map(old) && is_empty_map(new) => {
            leaf(old, new, path, out)
        }
        Shape::Map => {
            let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let at_managers = matches!(path.as_slice(), [only] if only == "f:metadata");
            let compare = |name: &str, path: &mut Path, out: &mut Comparison| {
                if at_managers && name == "managedFields" {
                    return;
                }
                let (old, new) = (before.and_then(|map| map.get(name)), after.and_then(|map| map.get(name)));
                path.push(field(name));
                walk(type_ref.field(name).0, old, new, path, out);
                path.pop();
            };
            for name in before.into_iter().flat_map(Map::keys) {
                compare(name, path, out);
            }
            let is_new = |name: &&String| before.is_none_or(|before| !before.contains_key(*name));
            for name in after.into_iter().flat_map(Map::keys).filter(is_new) {
                compare(name, path, out);
            }
            false
        }
        Shape::List if is_empty_list(old) && is_empty_list(new) => leaf(old, new, path, out),
        Shape::List => match type_ref.list() {
            None => leaf(old, new, path, out),
            Some(list) => {
                compare_items(type_ref, list, old, new, path, out);
                false
            }
        },
    }
}

fn compare_items(
    type_ref: TypeRef<'_>,
    list: &ListType,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Path,
    out: &mut Comparison,
) {
    let mut both: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (element, item) in type_ref.items(list, old) {
        both.entry(element).or_default().0.push(item);
    }
    for (element, item) in type_ref.items(list, new) {
        both.entry(element).or_default().1.push(item);
    }
    for (element, (before, after)) in both {
        path.push(element);
        match (before.as_slice(), after.as_slice()) {
            ([] | [_], [] | [_]) => {
                walk(type_ref.item(), before.first().copied(), after.first().copied(), path, out);
            }
            ([_, _, ..], [_, _, ..]) => {
                if before != after {
                    out.modified.insert(path);
                }
            }
            ([_, _, ..], rest) => {
                if let [only] = rest {
                    walk(type_ref.item(), None, Some(only), path, out);
                }
                out.removed.insert(path);
            }
            (rest, _) => {
                if let [only] = rest {
                    walk(type_ref.item(), Some(only), None, path, out);
                }
                out.added.insert(path);
            }
        }
        path.pop();
    }
}

fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => equal(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Returns whether values are equal; 1 equals 1.0 (`value.Equals`).
pub(in crate::patch::apply) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| equal(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(value, other)| equal(value, other))
        }
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (a, b) => a == b,
    }
}

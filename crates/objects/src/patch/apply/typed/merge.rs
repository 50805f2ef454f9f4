//! Merges objects, and removes fields from one (`typed/merge.go`, `typed/remove.go`).

use serde_json::{Map, Value};

use super::check::scalar_fault;
use super::{Shape, TypeRef, is_empty_list, is_empty_map, shapes};
use crate::patch::apply::fieldset::{FieldSet, field};
use crate::schema::{ListType, MAX_DEPTH};

/// Merges `applied` into `live`: maps and keyed lists are merged, everything else is replaced (`typed/merge.go`).
pub(in crate::patch::apply) fn merge(
    type_ref: TypeRef<'_>,
    live: Option<&Value>,
    applied: Option<&Value>,
    depth: usize,
) -> Result<Option<Value>, String> {
    if depth > MAX_DEPTH {
        return Err("the object is nested too deeply".to_owned());
    }
    if live.is_none() && applied.is_none() {
        return Ok(None);
    }
    // A value of another shape is replaced, so its old shape does not matter.
    let (_, shape) = shapes(type_ref, live, applied);
    let kept = || Ok(applied.or(live).cloned());
    match shape {
        Shape::Scalar(scalar) => {
            let fault = |value: Option<&Value>| value.and_then(|value| scalar_fault(scalar, value));
            match (fault(live), fault(applied)) {
                (Some(left), Some(_)) => Err(format!("lhs: {left}")),
                _ => kept(),
            }
        }
        Shape::Map if type_ref.is_atomic_map() || is_empty_map(live) && is_empty_map(applied) => kept(),
        Shape::Map => {
            let (before, after) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            let mut out = Map::new();
            for name in before.into_iter().chain(after).flat_map(Map::keys) {
                if out.contains_key(name) {
                    continue;
                }
                let (left, right) =
                    (before.and_then(|map| map.get(name)), after.and_then(|map| map.get(name)));
                if let Some(merged) = merge(type_ref.field(name).0, left, right, depth + 1)? {
                    out.insert(name.clone(), merged);
                }
            }
            Ok((!out.is_empty()).then_some(Value::Object(out)))
        }
        Shape::List if is_empty_list(live) && is_empty_list(applied) => kept(),
        Shape::List => match type_ref.list() {
            None => kept(),
            Some(list) => merge_lists(type_ref, list, live, applied, depth),
        },
    }
}

/// Merges keyed lists. Items of the applied list keep its order. Items of the live list alone stay before the next item
/// that both lists have.
fn merge_lists(
    type_ref: TypeRef<'_>,
    list: &ListType,
    live: Option<&Value>,
    applied: Option<&Value>,
    depth: usize,
) -> Result<Option<Value>, String> {
    let before = type_ref.items(list, live);
    let after = type_ref.items(list, applied);
    // A duplicate live item is not merged with the applied one.
    let find = |element: &str| {
        let mut found = before.iter().filter(|(e, _)| e == element).map(|(_, value)| *value);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Some(&Value::Null),
            (first, _) => first,
        }
    };
    let rank = |element: &str| after.iter().position(|(e, _)| e == element);
    let mut shared = after.iter().map(|(element, _)| element).filter(|element| find(element).is_some());
    let mut next_shared = shared.next();
    let mut merged_right = std::collections::BTreeSet::new();
    let mut out = Vec::with_capacity(before.len() + after.len());
    let (mut left, mut right) = (0, 0);
    while left < before.len() || right < after.len() {
        if let (Some((element, _)), Some((wanted, item))) = (before.get(left), after.get(right)) {
            if element == wanted {
                merged_right.insert(element.clone());
                out.extend(merge(type_ref.item(), find(element), Some(item), depth + 1)?);
                (left, right) = (left + 1, right + 1);
                next_shared = shared.next();
                continue;
            }
            if rank(element).is_some() && next_shared.is_some_and(|next| next != element) {
                left += 1;
                continue;
            }
        }
        if let Some((element, item)) = before.get(left) {
            if rank(element).is_none() {
                out.extend(merge(type_ref.item(), Some(item), None, depth + 1)?);
                left += 1;
                continue;
            }
            if merged_right.contains(element) {
                left += 1;
            }
        }
        if let Some((element, item)) = after.get(right) {
            merged_right.insert(element.clone());
            out.extend(merge(type_ref.item(), find(element), Some(item), depth + 1)?);
            right += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// Removes the fields of `set` from `value`. Leaves `null` for a map or list that becomes empty, and for an atomic one
/// in which something is to be removed (`typed/remove.go`).
pub(in crate::patch::apply) fn remove(type_ref: TypeRef<'_>, value: &Value, set: &FieldSet) -> Value {
    let rest = |element: &str| set.children.get(element).filter(|below| !below.is_empty());
    match type_ref.atom().of(Some(value)).shape() {
        Shape::Scalar(_) => value.clone(),
        Shape::Map => {
            let fields = value.as_object().filter(|_| !type_ref.is_atomic_map());
            let mut out = Map::new();
            for (name, child) in fields.into_iter().flatten() {
                let element = field(name);
                if set.members.contains(&element) {
                    continue;
                }
                let kept = match rest(&element) {
                    None => child.clone(),
                    Some(below) => remove(type_ref.field(name).0, child, below),
                };
                out.insert(name.clone(), kept);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        Shape::List => {
            let Some(list) = type_ref.list() else { return Value::Null };
            let mut out = Vec::new();
            for item in value.as_array().into_iter().flatten() {
                let Ok(element) = type_ref.element(list, item) else {
                    out.push(item.clone());
                    continue;
                };
                if set.members.contains(&element) {
                    continue;
                }
                out.push(match rest(&element) {
                    None => item.clone(),
                    Some(below) => remove(type_ref.item(), item, below),
                });
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
    }
}

//! The directives of a patch: of maps, of items, and of lists of scalars.

use serde_json::Value;

use super::{
    DELETE_FROM_LIST, DIRECTIVE, ELEMENT_ORDER, List, Object, RETAIN_KEYS, confused, find, go_type,
    malformed, no_merge_key,
};
use crate::patch::PatchError;
use crate::printed;

/// Returns the list that a directive refers to.
pub(super) fn list_of(name: &str) -> Option<&str> {
    let (directive, list) = name.split_once('/')?;
    matches!(directive, DELETE_FROM_LIST | ELEMENT_ORDER).then_some(list)
}

/// Applies the `$patch` directive of a map (`handleDirectiveInMergeMap`).
pub(super) fn directed(directive: &Value, mut patch: Object) -> Result<Object, PatchError> {
    match directive.as_str() {
        Some("replace") => Ok(patch),
        Some("delete") => Ok(Object::new()),
        _ => {
            patch.insert(DIRECTIVE.to_owned(), directive.clone());
            Err(bad_directive(directive, patch))
        }
    }
}

fn bad_directive(directive: &Value, patch: Object) -> PatchError {
    let text = match directive {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={directive})", go_type(directive)),
        other => printed(other),
    };
    confused(format!("unknown patch type: {text} in map: {}", printed(&Value::Object(patch))))
}

/// Removes the fields that `$retainKeys` does not list (`applyRetainKeysDirective`).
pub(super) fn retain_keys(object: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(keep) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || malformed("invalid patch format of retainKeys");
    let keep = keep.as_array().ok_or_else(bad)?;
    let kept = |name: &str| keep.iter().any(|k| k == name);
    for (name, value) in patch.iter() {
        let is_directive = name.starts_with(ELEMENT_ORDER) || name.starts_with(DELETE_FROM_LIST);
        if !value.is_null() && !is_directive && !kept(name) {
            return Err(bad());
        }
    }
    object.retain(|name, _| kept(name));
    Ok(())
}

/// Applies the `$patch` directives of items, and removes those items (`mergeSliceWithSpecialElements`).
pub(super) fn obey_directives(mut old: List, new: List, key: &str) -> Result<(List, List), PatchError> {
    let (mut plain, mut is_replaced) = (List::new(), false);
    for item in new {
        let Some((fields, directive)) = item.as_object().and_then(|map| Some((map, map.get(DIRECTIVE)?)))
        else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                while let Some(at) = find(&old, key, value)? {
                    old.remove(at);
                }
            }
            Some("replace") => is_replaced = true,
            Some("merge") => return Err(confused("merging lists cannot yet be specified in the patch")),
            _ => return Err(bad_directive(directive, fields.clone())),
        }
    }
    Ok(if is_replaced { (plain, List::new()) } else { (old, plain) })
}

/// Removes fields that are `null` from a new value, also within lists.
pub(super) fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(|field| *field = without_nulls(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_nulls(item.take())),
        _ => {}
    }
    value
}

/// Removes maps with a `$patch` from a new value. Returns `None` if the value itself is one (`removeDirectives`).
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept =
                fields.into_iter().filter_map(|(name, field)| Some((name, without_directives(field)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

//! Kubernetes' strategic merge of a manager's patch into a runtime's JobSet (`k8s.io/apimachinery`,
//! `pkg/util/strategicpatch`), as far as the fields of `runtimePatches` need it: objects are merged field by field,
//! lists of named things by name, and all else is replaced. Patches are typed, so they have no directives.

use serde_json::{Map, Value};

/// The lists that are merged, by field name, with the key of their items.
const MERGED_LISTS: [(&str, &str); 9] = [
    ("replicatedJobs", "name"),
    ("volumes", "name"),
    ("initContainers", "name"),
    ("containers", "name"),
    ("imagePullSecrets", "name"),
    ("schedulingGates", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("claims", "name"),
];

/// Returns the original with the patch merged into it.
pub(super) fn merged(original: Value, patch: Value) -> Value {
    merge_field("", original, patch)
}

fn merge_field(name: &str, original: Value, patch: Value) -> Value {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => Value::Object(merge_objects(original, patch)),
        (Value::Array(original), Value::Array(patch)) => {
            match MERGED_LISTS.iter().find(|(list, _)| *list == name) {
                Some((_, key)) => Value::Array(merge_lists(original, patch, key)),
                None => Value::Array(patch),
            }
        }
        (_, patch) => patch,
    }
}

fn merge_objects(mut original: Map<String, Value>, patch: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in patch {
        let merged = match original.remove(&name) {
            Some(known) => merge_field(&name, known, value),
            None => value,
        };
        original.insert(name, merged);
    }
    original
}

/// Merges items of equal key. The patch's items keep the patch's order; each of the others goes before the first of them
/// that it preceded in the original.
fn merge_lists(original: Vec<Value>, patch: Vec<Value>, key: &str) -> Vec<Value> {
    let places: Vec<Value> = original.iter().map(|item| item[key].clone()).collect();
    let place = |item: &Value| places.iter().position(|place| *place == item[key]);
    let (mut patched, mut rest): (Vec<Value>, Vec<Value>) = (Vec::new(), original);
    for item in patch {
        let same = |known: &Value| known[key] == item[key];
        if let Some(index) = rest.iter().position(same) {
            patched.push(merge_field("", rest.remove(index), item));
        } else if let Some(index) = patched.iter().position(same) {
            let known = patched[index].take();
            patched[index] = merge_field("", known, item);
        } else {
            patched.push(item);
        }
    }
    let mut merged = Vec::with_capacity(patched.len() + rest.len());
    let (mut patched, mut rest) = (patched.into_iter().peekable(), rest.into_iter().peekable());
    while let Some(next) = patched.peek() {
        let before = |item: &Value| matches!((place(item), place(next)), (Some(a), Some(b)) if a < b);
        match rest.next_if(|item| before(item)) {
            Some(item) => merged.push(item),
            None => merged.extend(patched.next()),
        }
    }
    merged.extend(rest);
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn named_items_are_merged_and_other_lists_replaced() {
        let original = json!({
            "containers": [
                { "name": "node", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }] },
                { "name": "side", "image": "s" },
            ],
            "tolerations": [{ "key": "a" }],
            "nodeSelector": { "zone": "a", "kind": "gpu" },
        });
        let patch = json!({
            "containers": [{ "name": "side", "env": [{ "name": "C" }] }, { "name": "node", "env": [{ "name": "B", "value": "3" }] }],
            "tolerations": [{ "key": "b" }],
            "nodeSelector": { "zone": "b" },
        });
        assert_eq!(
            merged(original, patch),
            json!({
                "containers": [
                    { "name": "side", "image": "s", "env": [{ "name": "C" }] },
                    { "name": "node", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "3" }] },
                ],
                "tolerations": [{ "key": "b" }],
                "nodeSelector": { "zone": "b", "kind": "gpu" },
            })
        );
    }

    #[test]
    fn items_keep_their_order_and_new_ones_stand_where_upstream_puts_them() {
        let names = |list: Vec<Value>| -> Vec<String> {
            list.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
        };
        let list = |names: &str| -> Vec<Value> {
            names.chars().map(|name| json!({ "name": name.to_string() })).collect()
        };
        // Computed with `strategicpatch.StrategicMergePatch` of k8s.io/apimachinery 0.36.
        for (original, patch, expected) in [
            ("abc", "b", "abc"),
            ("abc", "ca", "bca"),
            ("ab", "x", "xab"),
            ("abc", "xb", "xabc"),
            ("abc", "bx", "abxc"),
            ("", "yx", "yx"),
        ] {
            assert_eq!(
                names(merge_lists(list(original), list(patch), "name")).concat(),
                expected,
                "{original} {patch}"
            );
        }
    }
}

//! Strategic merge patch: a merge patch that knows which lists are maps by a key.
//!
//! Semantics of `apimachinery/pkg/util/strategicpatch/patch.go`: fields marked `merge` are merged by their merge key
//! (or as sets of scalars), all other lists are replaced; directives `$patch: replace|delete`, `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`. Merge keys come from the kind's schema; kinds of a
//! CRD have none and take no such patch. Depth is bounded by the schema module's `MAX_DEPTH`.

use serde_json::{Map, Value};

use super::PatchError;
use crate::objects::Kind;
use crate::schema::{MAX_DEPTH, NodeId, PatchStrategy, Schema};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
///
/// # Errors
/// [`PatchError::Unsupported`] for a kind of a CRD; otherwise where a directive is unknown, a merge key is missing, or
/// an order contradicts the patch.
pub fn strategic(kind: &Kind, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !kind.is_builtin() {
        return Err(PatchError::Unsupported);
    }
    let Some(patch) = patch.as_object() else {
        return Err(malformed("a strategic merge patch must be a JSON object"));
    };
    let schema = kind.schema();
    let object = object.as_object().cloned().unwrap_or_default();
    let merger = Merger { schema };
    merger.map(object, patch, Some(schema.root()), 0).map(Value::Object)
}

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

struct Merger<'a> {
    schema: &'a Schema,
}

/// A list field being merged: its strategy and the schema of its items.
struct ListField<'a> {
    strategy: &'a PatchStrategy,
    items: Option<NodeId>,
    depth: usize,
}

impl ListField<'_> {
    fn key(&self) -> Option<&str> {
        self.strategy.merge_key.as_deref()
    }
}

impl Merger<'_> {
    fn map(
        &self,
        mut object: Object,
        patch: &Object,
        node: Option<NodeId>,
        depth: usize,
    ) -> Result<Object, PatchError> {
        if depth > MAX_DEPTH {
            return Err(malformed("the patch is nested too deeply"));
        }
        if let Some(directive) = patch.get(DIRECTIVE) {
            return directed(directive, patch);
        }
        retain_keys(&mut object, patch)?;
        let done = self.ordered_lists(&mut object, patch, node, depth)?;
        for (name, value) in patch {
            if name == RETAIN_KEYS || name.starts_with(ELEMENT_ORDER) || done.contains(&name.as_str()) {
                continue;
            }
            if let Some(field) = name.strip_prefix(DELETE_FROM_LIST) {
                delete_scalars(&mut object, field, value)?;
            } else {
                self.field(&mut object, name, value, node, depth)?;
            }
        }
        Ok(object)
    }

    fn field(
        &self,
        object: &mut Object,
        name: &str,
        value: &Value,
        node: Option<NodeId>,
        depth: usize,
    ) -> Result<(), PatchError> {
        if value.is_null() {
            object.remove(name);
            return Ok(());
        }
        let (strategy, child) = self.lookup(node, name);
        let merged = match (object.remove(name), value) {
            (Some(Value::Object(_)), Value::Object(_)) if strategy.replace => Some(value.clone()),
            (Some(Value::Object(old)), Value::Object(new)) => {
                Some(Value::Object(self.map(old, new, child, depth + 1)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) if strategy.merge => {
                let items = child.and_then(|c| self.schema.node(c).items);
                Some(Value::Array(self.list(old, new, &ListField { strategy: &strategy, items, depth })?))
            }
            (Some(Value::Array(_)), Value::Array(_)) => Some(value.clone()),
            (_, new) => without_directives(new, depth)?,
        };
        if let Some(merged) = merged {
            object.insert(name.to_owned(), merged);
        }
        Ok(())
    }

    fn lookup(&self, node: Option<NodeId>, name: &str) -> (PatchStrategy, Option<NodeId>) {
        let Some(id) = node else { return (PatchStrategy::default(), None) };
        match self.schema.node(id).properties.get(name) {
            Some(property) => (property.strategy.clone(), Some(property.node)),
            None => (PatchStrategy::default(), self.schema.node(id).map_values()),
        }
    }

    /// Merges the lists that come with a `$setElementOrder`, and returns their names.
    fn ordered_lists<'p>(
        &self,
        object: &mut Object,
        patch: &'p Object,
        node: Option<NodeId>,
        depth: usize,
    ) -> Result<Vec<&'p str>, PatchError> {
        let mut done = Vec::new();
        for (name, order) in patch {
            let Some(field) = name.strip_prefix(ELEMENT_ORDER) else { continue };
            let order = order.as_array().ok_or_else(|| malformed(format!("{name} must be a list")))?;
            let (strategy, child) = self.lookup(node, field);
            let items = child.and_then(|c| self.schema.node(c).items);
            let list = ListField { strategy: &strategy, items, depth };
            let delete = patch.get(&format!("{DELETE_FROM_LIST}{field}"));
            if let Some(delete) = delete {
                delete_scalars(object, field, delete)?;
            }
            let old = match object.get(field) {
                Some(Value::Array(old)) => old.clone(),
                None | Some(Value::Null) => Vec::new(),
                Some(_) => return Err(malformed(format!("{field} is not a list"))),
            };
            let merged = match patch.get(field) {
                Some(Value::Array(new)) => {
                    check_order(new, order, list.key(), name)?;
                    if strategy.merge { self.list(old.clone(), new, &list)? } else { new.clone() }
                }
                Some(Value::Null) | None if object.contains_key(field) => old.clone(),
                Some(Value::Null) | None => continue,
                Some(_) => return Err(malformed(format!("{field} is not a list"))),
            };
            object.insert(field.to_owned(), Value::Array(in_order(merged, order, &old, list.key())));
            done.push(field);
        }
        Ok(done)
    }

    /// Merges a list marked `merge`: of scalars as a set, of objects by the merge key.
    fn list(&self, old: Vec<Value>, new: &[Value], field: &ListField<'_>) -> Result<Vec<Value>, PatchError> {
        let of_objects = old.iter().chain(new).any(Value::is_object);
        let server_order = old.clone();
        let (merged, key) = if of_objects {
            let key = field.key().ok_or_else(|| malformed("cannot merge lists without merge key"))?;
            (self.objects(old, new, key, field)?, Some(key))
        } else {
            let mut merged = old;
            for item in new {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            (merged, None)
        };
        Ok(in_order(merged, new, &server_order, key))
    }

    fn objects(
        &self,
        mut old: Vec<Value>,
        new: &[Value],
        key: &str,
        field: &ListField<'_>,
    ) -> Result<Vec<Value>, PatchError> {
        let plain: Vec<&Object> = new
            .iter()
            .map(|item| item.as_object().ok_or_else(|| malformed("all items of the list must be objects")))
            .collect::<Result<_, _>>()?;
        let key_of = |item: &Object| {
            item.get(key).cloned().ok_or_else(|| {
                malformed(format!(
                    "map: {} does not contain declared merge key: {key}",
                    Value::Object(item.clone())
                ))
            })
        };
        let replace = plain.iter().any(|item| item.get(DIRECTIVE).is_some_and(|d| d == "replace"));
        for item in plain.iter().filter(|item| item.contains_key(DIRECTIVE)) {
            match item[DIRECTIVE].as_str() {
                Some("delete") => {
                    let value = key_of(item)?;
                    old.retain(|o| o.get(key) != Some(&value));
                }
                Some("replace") => {}
                _ => return Err(bad_directive(&item[DIRECTIVE], item)),
            }
        }
        let plain = plain.into_iter().filter(|item| !item.contains_key(DIRECTIVE));
        if replace {
            return Ok(plain.cloned().map(Value::Object).collect());
        }
        for item in plain {
            let value = key_of(item)?;
            match old.iter_mut().find(|o| o.get(key) == Some(&value)) {
                Some(found) => {
                    let before = found.as_object().cloned().unwrap_or_default();
                    *found = Value::Object(self.map(before, item, field.items, field.depth + 1)?);
                }
                None => {
                    if let Some(item) = without_directives(&Value::Object(item.clone()), field.depth)? {
                        old.push(item);
                    }
                }
            }
        }
        Ok(old)
    }
}

fn directed(directive: &Value, patch: &Object) -> Result<Object, PatchError> {
    match directive.as_str() {
        Some("replace") => {
            let mut replaced = patch.clone();
            replaced.remove(DIRECTIVE);
            Ok(replaced)
        }
        Some("delete") => Ok(Object::new()),
        _ => Err(bad_directive(directive, patch)),
    }
}

fn bad_directive(directive: &Value, patch: &Object) -> PatchError {
    let text = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    malformed(format!("unknown patch type: {text} in map: {}", Value::Object(patch.clone())))
}

/// Clears the fields that `$retainKeys` does not name.
fn retain_keys(object: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(keep) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keep = keep.as_array().ok_or_else(|| malformed("invalid patch format of retainKeys"))?;
    let kept = |name: &str| keep.iter().any(|k| k == name);
    for name in patch.keys() {
        let directive =
            name == RETAIN_KEYS || name.starts_with(ELEMENT_ORDER) || name.starts_with(DELETE_FROM_LIST);
        if !directive && !kept(name) {
            return Err(malformed(format!("patch contains {name}, which $retainKeys does not name")));
        }
    }
    object.retain(|name, _| kept(name));
    Ok(())
}

fn delete_scalars(object: &mut Object, field: &str, delete: &Value) -> Result<(), PatchError> {
    let delete =
        delete.as_array().ok_or_else(|| malformed(format!("{DELETE_FROM_LIST}{field} must be a list")))?;
    if let Some(Value::Array(items)) = object.get_mut(field) {
        items.retain(|item| !delete.contains(item));
    }
    Ok(())
}

/// A new value as it is stored: without directives and nulls; nothing if it is itself a directive.
fn without_directives(value: &Value, depth: usize) -> Result<Option<Value>, PatchError> {
    if depth > MAX_DEPTH {
        return Err(malformed("the patch is nested too deeply"));
    }
    match value {
        Value::Object(map) => {
            if map.get(DIRECTIVE).is_some_and(|d| d == "delete") {
                return Ok(None);
            }
            let mut kept = Object::new();
            for (name, value) in map.iter().filter(|(name, value)| !is_directive(name) && !value.is_null()) {
                if let Some(value) = without_directives(value, depth + 1)? {
                    kept.insert(name.clone(), value);
                }
            }
            Ok(Some(Value::Object(kept)))
        }
        Value::Array(items) => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let only_directive = item
                    .as_object()
                    .is_some_and(|m| m.len() == 1 && m.get(DIRECTIVE).is_some_and(|d| d == "replace"));
                if only_directive {
                    continue;
                }
                kept.extend(without_directives(item, depth + 1)?);
            }
            Ok(Some(Value::Array(kept)))
        }
        scalar => Ok(Some(scalar.clone())),
    }
}

fn is_directive(name: &str) -> bool {
    name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(ELEMENT_ORDER)
        || name.starts_with(DELETE_FROM_LIST)
}

/// The identity of an item: its merge key's value, or the item itself.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> &'v Value {
    match key {
        Some(key) if item.is_object() => item.get(key).unwrap_or(&Value::Null),
        _ => item,
    }
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|other| identity(other, key) == identity(item, key))
}

/// Every item that is patched must stand in the order, and in that order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>, name: &str) -> Result<(), PatchError> {
    let mut last = 0;
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        match position(order, item, key) {
            Some(at) if at >= last => last = at,
            _ => {
                return Err(malformed(format!(
                    "The order in patch list:\n{}\n doesn't match {name} list:\n{}\n",
                    Value::Array(patch.to_vec()),
                    Value::Array(order.to_vec())
                )));
            }
        }
    }
    Ok(())
}

/// Puts the items that `wanted` names in its order, and the others where the server had them relative to these.
fn in_order(merged: Vec<Value>, wanted: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| position(wanted, item, key).is_some());
    named.sort_by_key(|item| position(wanted, item, key));
    others.sort_by_key(|item| position(server, item, key).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let take_other = match (others.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(name)) => {
                matches!((position(server, other, key), position(server, name, key)), (Some(o), Some(n)) if o < n)
            }
        };
        out.extend(if take_other { others.next() } else { named.next() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::builtin_kind;

    fn pod(patch: Value) -> Result<Value, PatchError> {
        let object = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1", "y": "2"}}, "spec": {
            "containers": [{"name": "a", "image": "i", "args": ["1", "2"]}, {"name": "b", "image": "j"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k"}]}});
        strategic(builtin_kind("", "Pod").unwrap(), &object, &patch)
    }

    #[test]
    fn lists_merge_by_key() {
        let after =
            pod(json!({"spec": {"containers": [{"name": "b", "image": "new"}, {"name": "c"}]}})).unwrap();
        assert_eq!(
            after["spec"]["containers"],
            json!([{"name": "a", "image": "i", "args": ["1", "2"]}, {"name": "b", "image": "new"}, {"name": "c"}])
        );
    }

    #[test]
    fn other_lists_are_replaced() {
        let after = pod(
            json!({"spec": {"tolerations": [{"key": "n"}], "containers": [{"name": "a", "args": ["3"]}]}}),
        );
        let after = after.unwrap();
        assert_eq!(after["spec"]["tolerations"], json!([{"key": "n"}]));
        assert_eq!(after["spec"]["containers"][0]["args"], json!(["3"]));
        assert_eq!(after["spec"]["containers"][0]["image"], "i");
    }

    #[test]
    fn directives_are_obeyed() {
        let cases = [
            (
                json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
                "/spec/containers",
                json!([{"name": "b", "image": "j"}]),
            ),
            (
                json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
                "/spec/containers",
                json!([{"name": "z"}]),
            ),
            (
                json!({"metadata": {"labels": {"$patch": "replace", "z": "3"}}}),
                "/metadata/labels",
                json!({"z": "3"}),
            ),
            (json!({"metadata": {"labels": {"$patch": "delete"}}}), "/metadata/labels", json!({})),
            (json!({"metadata": {"finalizers": ["c"]}}), "/metadata/finalizers", json!(["c", "a", "b"])),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
                "/metadata/finalizers",
                json!(["b"]),
            ),
            (
                json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}}),
                "/spec/volumes",
                json!([{"name": "v", "secret": {"secretName": "s"}}]),
            ),
            (
                json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "k"}]}}),
                "/spec/containers/0/name",
                json!("b"),
            ),
            (
                json!({"metadata": {"$setElementOrder/finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
                "/metadata/finalizers",
                json!(["c", "b"]),
            ),
            (json!({"metadata": {"labels": {"x": null}}}), "/metadata/labels", json!({"y": "2"})),
        ];
        for (patch, at, expected) in cases {
            assert_eq!(pod(patch.clone()).unwrap().pointer(at), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn bad_patches_are_refused() {
        let cases = [
            json!([]),
            json!({"spec": {"$patch": "fly"}}),
            json!({"spec": {"containers": [{"image": "no key"}]}}),
            json!({"spec": {"$retainKeys": ["a"], "volumes": []}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "c"}]}}),
        ];
        for patch in cases {
            assert_eq!(pod(patch.clone()).unwrap_err().code(), 400, "{patch}");
        }
        let crd = Kind::new("g", "v1", "K", "ks", true);
        assert_eq!(strategic(&crd, &json!({}), &json!({})).unwrap_err().code(), 415);
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        fn spec() -> impl Strategy<Value = Value> {
            let container = ("[a-c]", prop::option::of("[x-z]"), prop::collection::vec("[1-3]", 0..3))
                .prop_map(|(name, image, args)| {
                    let mut container = json!({"name": name, "args": args});
                    if let Some(image) = image {
                        container["image"] = json!(image);
                    }
                    container
                });
            let finalizers = prop::collection::btree_set("[a-d]/f", 0..4);
            (prop::collection::btree_map("[a-c]", container, 0..4), finalizers).prop_map(|(containers, finalizers)| {
                let named = containers.into_iter().map(|(name, mut container)| {
                    container["name"] = json!(name);
                    container
                });
                json!({"metadata": {"finalizers": finalizers}, "spec": {"containers": named.collect::<Vec<_>>()}})
            })
        }

        proptest! {
            /// A patch without directives says what is to be, so saying it twice changes nothing more, and all of it
            /// is there afterwards.
            #[test]
            fn a_patch_can_be_repeated(object in spec(), patch in spec()) {
                let kind = builtin_kind("", "Pod").unwrap();
                let once = strategic(kind, &object, &patch).unwrap();
                prop_assert_eq!(&strategic(kind, &once, &patch).unwrap(), &once);
                for wanted in patch["spec"]["containers"].as_array().unwrap() {
                    let found = once["spec"]["containers"].as_array().unwrap().iter().find(|c| c["name"] == wanted["name"]).unwrap();
                    prop_assert_eq!(&found["args"], &wanted["args"]);
                }
            }

            /// Hostile patches are refused or applied, never worse.
            #[test]
            fn no_directive_panics(
                directive in prop_oneof![Just("$patch"), Just("$retainKeys"), Just("$setElementOrder/containers"), Just("$deleteFromPrimitiveList/finalizers")],
                value in prop_oneof![Just(json!("delete")), Just(json!("replace")), Just(json!([])), Just(json!([{"name": "a"}])), Just(json!(["a", null, {}])), Just(Value::Null), Just(json!({}))],
                object in spec(), patch in spec(),
            ) {
                let mut patch = patch;
                patch["spec"][directive] = value.clone();
                patch["metadata"][directive] = value.clone();
                if let Some(first) = patch["spec"]["containers"].get_mut(0) {
                    first[directive] = value;
                }
                let _ = strategic(builtin_kind("", "Pod").unwrap(), &object, &patch);
            }
        }
    }
}

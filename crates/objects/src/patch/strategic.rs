//! Strategic merge patch: a merge patch that also merges lists by a key.
//!
//! Follows `apimachinery/pkg/util/strategicpatch/patch.go` step by step, so that contradictory patches get the same
//! response. Fields marked `merge` are merged by their merge key (or as sets of scalars); all other lists are replaced.
//! Directives: `$patch: replace|delete`, `$retainKeys`, `$deleteFromPrimitiveList/<field>` and
//! `$setElementOrder/<field>`. Merge keys come from the kind's schema; custom kinds have none and do not support such
//! patches. The schema module's `MAX_DEPTH` bounds depth.

mod directives;
mod order;

use serde_json::{Map, Value};

use self::directives::{directed, list_of, obey_directives, retain_keys, without_directives, without_nulls};
use self::order::{check_order, in_order, partition, without_repetition};
use super::PatchError;
use crate::schema::{MAX_DEPTH, NodeId, PatchStrategy, Schema, Type};
use crate::{Kind, printed};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;
type List = Vec<Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
///
/// # Errors
/// [`PatchError::Unsupported`] for a custom kind; otherwise when a directive is unknown, a merge key is missing, or an
/// order contradicts the patch.
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
    merger.map(object, patch.clone(), Some(schema.root()), 0).map(Value::Object)
}

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

/// Creates an error that Kubernetes reports as an internal error.
fn confused(text: impl Into<String>) -> PatchError {
    PatchError::Confused(text.into())
}

struct Merger<'a> {
    schema: &'a Schema,
}

/// A field being merged: its strategy, its schema or that of its items, and its depth.
struct Field {
    strategy: PatchStrategy,
    node: Option<NodeId>,
    depth: usize,
}

impl Field {
    fn key(&self) -> &str {
        self.strategy.merge_key.as_deref().unwrap_or_default()
    }
}

impl Merger<'_> {
    fn map(
        &self,
        mut object: Object,
        mut patch: Object,
        node: Option<NodeId>,
        depth: usize,
    ) -> Result<Object, PatchError> {
        if depth > MAX_DEPTH {
            return Err(malformed("the patch is nested too deeply"));
        }
        if let Some(directive) = patch.remove(DIRECTIVE) {
            return directed(&directive, patch);
        }
        retain_keys(&mut object, &mut patch)?;
        self.ordered_lists(&mut object, &mut patch, node, depth)?;
        for (name, value) in patch {
            let is_deletion = name.starts_with(DELETE_FROM_LIST);
            let field = match is_deletion {
                true => list_of(&name).ok_or_else(|| malformed("invalid patch format of primitive list"))?,
                false => &name,
            };
            if value.is_null() {
                object.remove(field);
                continue;
            }
            let merged = match (object.remove(field), value) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    let field = self.field(node, field, depth)?;
                    let new = match field.strategy.replace {
                        true => new,
                        false => self.map(old, new, field.node, depth + 1)?,
                    };
                    Some(Value::Object(new))
                }
                (Some(Value::Array(old)), Value::Array(new)) => {
                    let field = self.list_field(node, field, depth)?;
                    Some(Value::Array(self.list(old, new, &field, is_deletion)?))
                }
                // There is no list to delete from.
                (old, _) if is_deletion => old,
                (_, new) => without_directives(without_nulls(new)),
            };
            object.extend(merged.map(|merged| (field.to_owned(), merged)));
        }
        Ok(object)
    }

    /// Returns the strategy and schema of a map's field (`LookupPatchMetadataForStruct`).
    fn field(&self, node: Option<NodeId>, name: &str, depth: usize) -> Result<Field, PatchError> {
        let node = node.map(|id| self.schema.node(id)).filter(|node| !node.properties.is_empty());
        let Some(node) = node else {
            let text = "merging an object in json but data type is not struct, instead is: map";
            return Err(confused(text));
        };
        let property = node.properties.get(name).or_else(|| {
            let mut all = node.properties.iter();
            all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, property)| property)
        });
        let Some(property) = property else {
            let of = node.definition.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
            return Err(confused(format!(
                "unable to find api field in struct {of} for the json field {name:?}"
            )));
        };
        Ok(Field { strategy: property.strategy.clone(), node: Some(property.node), depth })
    }

    /// As [`Merger::field`] for a list, with the schema of its items (`LookupPatchMetadataForSlice`).
    fn list_field(&self, node: Option<NodeId>, name: &str, depth: usize) -> Result<Field, PatchError> {
        let field = self.field(node, name, depth)?;
        let list = field.node.map(|id| self.schema.node(id)).filter(|node| node.kind == Some(Type::Array));
        let Some(list) = list else {
            return Err(confused("expected slice or array type, but got: struct"));
        };
        Ok(Field { node: list.items, ..field })
    }

    /// Merges the lists that have a `$setElementOrder`, and removes them from the patch (`mergePatchIntoOriginal`).
    fn ordered_lists(
        &self,
        object: &mut Object,
        patch: &mut Object,
        node: Option<NodeId>,
        depth: usize,
    ) -> Result<(), PatchError> {
        let names = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect::<Vec<_>>();
        for name in names {
            let order = as_list(patch.remove(&name).unwrap_or_default())?;
            let of =
                list_of(&name).ok_or_else(|| malformed("invalid patch format of setElementOrder list"))?;
            let old = object.get(of).cloned().map(as_list).transpose()?;
            let new = patch.get(of).cloned().map(as_list).transpose()?;
            let field = self.list_field(node, of, depth)?;
            let key = field.key();
            check_order(new.as_deref().unwrap_or_default(), &order, key)?;
            let (server, patched) = (old.clone().unwrap_or_default(), new.clone().unwrap_or_default());
            let merged = match (old, new) {
                (Some(old), None) => old,
                (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
                (Some(old), Some(new)) => self.list(old, new, &field, false)?,
                (None, None) => continue,
            };
            let (first, others) = match key.is_empty() {
                true => merged.into_iter().partition(|item| order.contains(item)),
                false => partition(merged, &order, key)?,
            };
            let kind = element_kind(&server, &patched)?;
            let merged = in_order(first, others, &order, &server, key, kind)?;
            object.insert(of.to_owned(), Value::Array(merged));
            patch.remove(of);
        }
        Ok(())
    }

    /// Merges two lists (`mergeSliceHandler`, `mergeSlice`).
    fn list(&self, old: List, new: List, field: &Field, is_deletion: bool) -> Result<List, PatchError> {
        if !field.strategy.merge && !is_deletion {
            return Ok(new);
        }
        if old.is_empty() && new.is_empty() {
            return Ok(old);
        }
        let kind = element_kind(&old, &new)?;
        let key = field.key();
        let (merged, server, patch) = match kind {
            Element::Scalar if is_deletion => {
                return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
            }
            Element::Scalar => {
                let both = old.iter().chain(&new).cloned().collect();
                (without_repetition(both), old, new)
            }
            Element::Map if key.is_empty() => {
                return Err(confused("cannot merge lists without merge key for struct"));
            }
            Element::Map => {
                let (old, new) = obey_directives(old, new, key)?;
                (self.objects(old.clone(), new.clone(), key, field)?, old, new)
            }
        };
        let (first, others) = match key.is_empty() {
            true => merged.into_iter().partition(|item| patch.contains(item)),
            false => partition(merged, &patch, key)?,
        };
        in_order(first, others, &patch, &server, key, kind)
    }

    /// Merges items without directives (`mergeSliceWithoutSpecialElements`).
    fn objects(&self, mut old: List, new: List, key: &str, field: &Field) -> Result<List, PatchError> {
        for item in new {
            let Value::Object(item) = item else { continue };
            let value = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
            match find(&old, key, value)? {
                Some(at) => {
                    let before = old[at].as_object().cloned().unwrap_or_default();
                    old[at] = Value::Object(self.map(before, item, field.node, field.depth + 1)?);
                }
                None => old.push(Value::Object(item)),
            }
        }
        Ok(old)
    }
}

/// The kind of a list's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    Map,
    Scalar,
}

/// Returns the kind of both lists' elements (`sliceElementType`).
fn element_kind(old: &[Value], new: &[Value]) -> Result<Element, PatchError> {
    let mut first = None;
    for item in old.iter().chain(new) {
        let kind = go_type(item);
        match first {
            None if item.is_array() => {
                return Err(PatchError::Inapplicable("lists of lists are not supported".to_owned()));
            }
            None => first = Some(kind),
            Some(first) if first != kind => {
                let lists = [old, new].map(|list| printed(&Value::Array(list.to_vec())));
                return Err(confused(format!("list element types are not identical: [{}]", lists.join(" "))));
            }
            Some(_) => {}
        }
    }
    match first {
        Some(MAP) => Ok(Element::Map),
        Some(_) => Ok(Element::Scalar),
        None => Err(confused("no elements in any of the given slices")),
    }
}

fn as_list(value: Value) -> Result<List, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(bad_type("[]interface {}", &other)),
    }
}

fn bad_type(expected: &str, found: &Value) -> PatchError {
    confused(format!("expected a {expected}, but received a {}", go_type(found)))
}

fn no_merge_key(item: &Object, key: &str) -> PatchError {
    let item = printed(&Value::Object(item.clone()));
    confused(format!("map: {item} does not contain declared merge key: {key}"))
}

const MAP: &str = "map[string]interface {}";

/// Returns a value's type as Go names it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => MAP,
    }
}

/// Returns the position of the first item with this value of its key (`findMapInSliceBasedOnKeyValue`).
fn find(items: &[Value], key: &str, value: &Value) -> Result<Option<usize>, PatchError> {
    for (at, item) in items.iter().enumerate() {
        let Some(item) = item.as_object() else {
            return Err(confused(format!("value for key {at} is not a map")));
        };
        if item.get(key) == Some(value) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin_kind;

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
    fn directives_are_applied() {
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
            (json!([]), 400, "a strategic merge patch must be a JSON object"),
            (json!({"spec": {"$patch": "fly"}}), 500, "unknown patch type: fly in map: map[$patch:fly]"),
            (json!({"spec": {"$patch": 7}}), 500, "unknown patch type: %!s(int64=7) in map: map[$patch:7]"),
            (
                json!({"spec": {"containers": [{"image": "no key"}]}}),
                500,
                "map: map[image:no key] does not contain declared merge key: name",
            ),
            (
                json!({"spec": {"containers": ["a"]}}),
                500,
                "list element types are not identical: [[map[args:[1 2] image:i name:a] map[image:j name:b]] [a]]",
            ),
            (
                json!({"spec": {"$setElementOrder/containers": 1}}),
                500,
                "expected a []interface {}, but received a int64",
            ),
            (
                json!({"spec": {"$retainKeys": ["a"], "volumes": []}}),
                400,
                "invalid patch format of retainKeys",
            ),
            (
                json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "c"}]}}),
                500,
                "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
            ),
        ];
        for (patch, code, text) in cases {
            let error = pod(patch.clone()).unwrap_err();
            assert_eq!((error.code(), error.to_string().as_str()), (code, text), "{patch}");
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
            /// A patch without directives describes the desired result: repeating it changes nothing, and the result
            /// contains all of it.
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

            /// Hostile patches are rejected or applied, but never cause a panic.
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

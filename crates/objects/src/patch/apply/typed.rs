//! Operations on objects that need their schema: the fields that an object sets, the differences of two objects, and
//! merging (structured-merge-diff v6 `typed`). Reproduces how upstream's walkers treat values that do not fit the
//! schema, because applied configurations expose it.
//!
//! `None` is an absent value; `null` is a value. For values without a schema the type is deduced: objects are maps,
//! everything else is a single value.

mod check;
mod compare;
mod merge;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub(super) use self::check::{check, join};
pub(super) use self::compare::{Comparison, compare, equal};
pub(super) use self::merge::{merge, remove};
use super::fieldset::{FieldSet, Path, field};
use crate::schema::{Additional, ListType, MAX_DEPTH, NodeId, Schema, Type, Zero};

/// What a reference leads to.
#[derive(Clone, Copy)]
enum At {
    /// A node, with whether its field is atomic, and whether unknown fields are preserved.
    Node { id: NodeId, atomic: bool, preserve: bool },
    /// Any value; maps are merged by field.
    Deduced,
    /// Any value; it is atomic.
    Untyped,
}

/// A reference to a type in a schema (`schema.TypeRef` of structured-merge-diff).
#[derive(Clone, Copy)]
pub(super) struct TypeRef<'a> {
    schema: &'a Schema,
    at: At,
}

/// The scalars that a type accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

/// The shapes that a type accepts; several if it is open.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Atom {
    map: bool,
    scalar: Option<Scalar>,
    list: bool,
}

/// The shape by which a value is processed (`handleAtom`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Map,
    Scalar(Scalar),
    List,
}

impl Atom {
    const ANY: Atom = Atom { map: true, scalar: Some(Scalar::Any), list: true };

    /// Returns the shapes that remain for a value (`deduceAtom`); all of them if the value has none of them.
    fn of(self, value: Option<&Value>) -> Atom {
        let none = Atom { map: false, scalar: None, list: false };
        match value {
            Some(Value::Object(_)) if self.map => Atom { map: true, ..none },
            Some(Value::Array(_)) if self.list => Atom { list: true, ..none },
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => {
                Atom { scalar: self.scalar, ..none }
            }
            _ => self,
        }
    }

    fn shape(self) -> Shape {
        match self {
            Atom { map: true, .. } => Shape::Map,
            Atom { scalar: Some(scalar), .. } => Shape::Scalar(scalar),
            _ => Shape::List,
        }
    }
}

impl<'a> TypeRef<'a> {
    pub(super) fn root(schema: &'a Schema) -> TypeRef<'a> {
        TypeRef::of(schema, schema.root(), false, false)
    }

    fn of(schema: &'a Schema, id: NodeId, atomic: bool, preserve: bool) -> TypeRef<'a> {
        let preserve = preserve || schema.node(id).preserve_unknown;
        TypeRef { schema, at: At::Node { id, atomic, preserve } }
    }

    fn deduced(self) -> TypeRef<'a> {
        TypeRef { at: At::Deduced, ..self }
    }

    fn atom(self) -> Atom {
        let At::Node { id, .. } = self.at else { return Atom::ANY };
        let node = self.schema.node(id);
        let only = |scalar| Atom { map: false, scalar: Some(scalar), list: false };
        if node.quantity {
            return only(Scalar::Any);
        }
        match (node.kind, node.format.as_deref()) {
            (None, _) => Atom::ANY,
            _ if node.int_or_string => Atom::ANY,
            (Some(Type::Object), _) => Atom { map: true, scalar: None, list: false },
            (Some(Type::Array), _) => Atom { map: false, scalar: None, list: true },
            (Some(Type::Integer | Type::Number), _) => only(Scalar::Numeric),
            (Some(Type::Boolean), _) => only(Scalar::Boolean),
            (Some(Type::String), None | Some("" | "byte")) => only(Scalar::Text),
            (Some(Type::String), Some(_)) => only(Scalar::Any),
        }
    }

    /// Returns whether a map of this type is atomic.
    fn is_atomic_map(self) -> bool {
        match self.at {
            At::Node { id, atomic, .. } => atomic || self.schema.node(id).atomic,
            At::Deduced => false,
            At::Untyped => true,
        }
    }

    /// Returns how a list's items are identified; `None` if the list is atomic.
    fn list(self) -> Option<&'a ListType> {
        let At::Node { id, atomic: false, .. } = self.at else { return None };
        Some(&self.schema.node(id).list_type).filter(|list| **list != ListType::Atomic)
    }

    /// Returns the type of a field, and whether it is a named one; `None` if the schema has no such field.
    fn declared(self, name: &str) -> Option<(TypeRef<'a>, bool)> {
        let At::Node { id, preserve, .. } = self.at else { return Some((self, false)) };
        let node = self.schema.node(id);
        if let Some(property) = node.properties.get(name) {
            // Type and metadata have their own schema.
            let preserve = preserve && !self.schema.is_type_or_metadata(id, name);
            return Some((TypeRef::of(self.schema, property.node, property.atomic, preserve), true));
        }
        match node.additional {
            Additional::Of(values) => Some((TypeRef::of(self.schema, values, false, preserve), false)),
            Additional::Anything => Some((self.deduced(), false)),
            Additional::Forbidden if preserve || node.properties.is_empty() => Some((self.deduced(), false)),
            Additional::Forbidden => None,
        }
    }

    /// Returns the type of a field, and whether it is a named one.
    pub(super) fn field(self, name: &str) -> (TypeRef<'a>, bool) {
        self.declared(name).unwrap_or((self.deduced(), false))
    }

    fn item(self) -> TypeRef<'a> {
        let untyped = TypeRef { at: At::Untyped, ..self };
        let At::Node { id, preserve, .. } = self.at else { return untyped };
        self.schema.node(id).items.map_or(untyped, |items| TypeRef::of(self.schema, items, false, preserve))
    }

    /// Returns the type below a path element, and whether it is a named field.
    pub(super) fn below(self, element: &str) -> (TypeRef<'a>, bool) {
        match element.strip_prefix("f:") {
            Some(name) => self.field(name),
            None => (self.item(), false),
        }
    }

    /// Returns the value of a key that an item omits: its default, or the text or number that Go writes even if unset.
    fn key_default(self, name: &str) -> Option<Value> {
        let At::Node { id, .. } = self.at else { return None };
        let property = self.schema.node(id).properties.get(name)?;
        let written = matches!(property.go.zero, Zero::Text | Zero::Number);
        let default = self.schema.node(property.node).default.clone();
        default.or_else(|| property.go.zero.value().filter(|_| written))
    }

    /// Returns the element that identifies a list item (`listItemToPathElement`).
    fn element(self, list: &ListType, item: &Value) -> Result<String, String> {
        let bad = |text: &str| Err(text.to_owned());
        match (list, item) {
            (ListType::Map(_), Value::Null) => bad("associative list with keys may not have a null element"),
            (ListType::Map(keys), Value::Object(fields)) => {
                let mut key = Map::new();
                for name in keys {
                    let value = fields.get(name).cloned().or_else(|| self.item().key_default(name));
                    key.extend(value.map(|value| (name.clone(), value)));
                }
                if key.is_empty() {
                    let keys = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for any key fields)"
                    ));
                }
                Ok(format!("k:{}", Value::Object(key)))
            }
            (ListType::Map(_), _) => bad("associative list with keys may not have non-map elements"),
            (_, Value::Object(_)) => bad("associative list without keys has an element that's a map type"),
            (_, Value::Array(_)) => bad("not supported: associative list with lists as elements"),
            (_, Value::Null) => bad("associative list without keys has an element that's an explicit null"),
            _ => Ok(format!("v:{item}")),
        }
    }

    /// Returns items with their elements, in order, without those that have none.
    fn items<'v>(self, list: &ListType, value: Option<&'v Value>) -> Vec<(String, &'v Value)> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| Some((self.element(list, item).ok()?, item))).collect()
    }
}

/// Returns the paths of atomic maps and lists in `value` (`findAtomics`).
pub(super) fn atomics(type_ref: TypeRef<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_atomics(type_ref, value, "", 0, &mut found);
    found
}

fn find_atomics(type_ref: TypeRef<'_>, value: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    if !matches!(type_ref.at, At::Node { .. }) || depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            if type_ref.is_atomic_map() {
                found.push(path.to_owned());
            }
            for (name, child) in fields {
                if let (below, true) = type_ref.field(name) {
                    find_atomics(below, child, &format!("{path}.{name}"), depth + 1, found);
                }
            }
        }
        Value::Array(items) => {
            if type_ref.list().is_none() {
                found.push(path.to_owned());
            }
            for (index, item) in items.iter().enumerate() {
                find_atomics(type_ref.item(), item, &format!("{path}[{index}]"), depth + 1, found);
            }
        }
        _ => {}
    }
}

/// Returns the fields that `value` sets (`typed/tofieldset.go`).
pub(super) fn field_set(type_ref: TypeRef<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(type_ref, value, &mut Vec::new(), &mut set);
    set
}

fn collect(type_ref: TypeRef<'_>, value: &Value, path: &mut Path, set: &mut FieldSet) {
    if path.len() > MAX_DEPTH {
        return set.insert(path);
    }
    match type_ref.atom().of(Some(value)).shape() {
        Shape::Scalar(_) => set.insert(path),
        Shape::Map if type_ref.is_atomic_map() => set.insert(path),
        Shape::Map => {
            for (name, child) in value.as_object().into_iter().flatten() {
                let (below, named) = type_ref.field(name);
                path.push(field(name));
                collect(below, child, path, set);
                if child.is_null() || child.as_object().is_some_and(Map::is_empty) || !named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Shape::List => {
            let Some(list) = type_ref.list() else { return set.insert(path) };
            let items = type_ref.items(list, Some(value));
            for (element, item) in &items {
                // For duplicate items, only their presence is recorded.
                let is_only = items.iter().filter(|(other, _)| other == element).count() == 1;
                path.push(element.clone());
                if is_only {
                    collect(type_ref.item(), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
    }
}

fn is_empty_map(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_none_or(Map::is_empty)
}

fn is_empty_list(value: Option<&Value>) -> bool {
    value.and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Returns the shapes by which to process both values; two if the values differ in shape.
fn shapes(type_ref: TypeRef<'_>, left: Option<&Value>, right: Option<&Value>) -> (Option<Shape>, Shape) {
    let (of_left, of_right) = (type_ref.atom().of(left), type_ref.atom().of(right));
    match (left, right) {
        (_, None) => (None, of_left.shape()),
        (None, _) => (None, of_right.shape()),
        _ if of_left == of_right => (None, of_right.shape()),
        _ => (Some(of_left.shape()), of_right.shape()),
    }
}

/// Adds named fields to a set that contains something below them.
pub(super) fn with_named_fields(type_ref: TypeRef<'_>, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet { members: set.members.clone(), children: BTreeMap::new() };
    for (element, children) in &set.children {
        let (below, named) = type_ref.below(element);
        if named {
            out.members.insert(element.clone());
        }
        out.children.insert(element.clone(), with_named_fields(below, children));
    }
    out
}

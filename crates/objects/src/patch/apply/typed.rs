//! Operations on objects that need their schema: the fields that an object sets, the differences of two objects, and
//! merging (structured-merge-diff v6 `typed`). Reproduces how upstream's walkers treat values that do not fit the
//! schema, because applied configurations expose it.
//!
//! `None` is an absent value; `null` is a value. For values without a schema the type is deduced: objects are maps,
//! everything else is a single value.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fieldset::{FieldSet, Path, field};
use crate::printed;
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

/// The differences of two objects.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
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

/// Checks a value against the schema (`typed/validate.go`). `repeated` allows duplicate list items, which may occur in
/// stored objects but not in applied ones.
///
/// # Errors
/// All faults, each with its path. For the fields of one object, only those before the first undeclared field.
pub(super) fn check(type_ref: TypeRef<'_>, value: &Value, repeated: bool) -> Result<(), Vec<String>> {
    let mut judge = Judge { repeated, path: Vec::new(), faults: Vec::new() };
    judge.value(type_ref, value);
    if judge.faults.is_empty() { Ok(()) } else { Err(judge.faults) }
}

/// Joins several faults into one text.
pub(super) fn join(faults: &[String]) -> String {
    match faults {
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    }
}

struct Judge<'a> {
    repeated: bool,
    path: Vec<Step<'a>>,
    faults: Vec<String>,
}

/// An element of a path that becomes text only if there is a fault at it.
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Element(String),
}

impl Step<'_> {
    fn text(&self) -> String {
        match self {
            Step::Field(name) => field(name),
            Step::Index(index) => format!("i:{index}"),
            Step::Element(element) => element.clone(),
        }
    }
}

impl<'a> Judge<'a> {
    fn value(&mut self, type_ref: TypeRef<'_>, value: &'a Value) {
        if self.path.len() > MAX_DEPTH || value.is_null() {
            return;
        }
        match (type_ref.atom().of(Some(value)).shape(), value) {
            (Shape::Map, Value::Object(map)) => {
                for (name, child) in map {
                    self.path.push(Step::Field(name));
                    let declared = type_ref.declared(name);
                    match declared {
                        Some((below, _)) => self.value(below, child),
                        None => self.fault("field not declared in schema"),
                    }
                    self.path.pop();
                    if declared.is_none() {
                        return;
                    }
                }
            }
            (Shape::Map, other) => self.fault(&format!("expected map, got &{{{}}}", printed(other))),
            (Shape::List, Value::Array(items)) => self.items(type_ref, items),
            (Shape::List, other) => self.fault(&format!("expected list, got &{{{}}}", printed(other))),
            (Shape::Scalar(scalar), value) => {
                if let Some(text) = scalar_fault(scalar, value) {
                    self.fault(&text);
                }
            }
        }
    }

    fn items(&mut self, type_ref: TypeRef<'_>, items: &'a [Value]) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = match type_ref.list() {
                None => Step::Index(index),
                Some(list) => match type_ref.element(list, item) {
                    Err(text) => return self.fault(&format!("element {index}: {text}")),
                    Ok(element) => {
                        if !self.repeated && !seen.insert(element.clone()) {
                            let key = super::fieldset::show(std::slice::from_ref(&element));
                            self.fault(&format!("duplicate entries for key {key}"));
                        }
                        Step::Element(element)
                    }
                },
            };
            self.path.push(step);
            self.value(type_ref.item(), item);
            self.path.pop();
        }
    }

    fn fault(&mut self, text: &str) {
        let path: Path = self.path.iter().map(Step::text).collect();
        let at = super::fieldset::show(&path);
        self.faults.push(if at.is_empty() { text.to_owned() } else { format!("{at}: {text}") });
    }
}

/// Returns why a value is not of a scalar type (`validateScalar`); `null` is always accepted.
fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Bool(_) | Value::Number(_) | Value::String(_)) => None,
        (Scalar::Numeric, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::Text, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", printed(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", printed(other))),
    }
}

/// Formats a value as Go's `%#v` does.
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

/// Returns a value's type as Go's `%T` does.
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

/// Returns the differences from `old` to `new` (`typed/compare.go`), ignoring `managedFields`.
pub(super) fn compare(type_ref: TypeRef<'_>, old: &Value, new: &Value) -> Comparison {
    let mut out = Comparison::default();
    walk(type_ref, Some(old), Some(new), &mut Vec::new(), &mut out);
    out
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
pub(super) fn equal(a: &Value, b: &Value) -> bool {
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

/// Merges `applied` into `live`: maps and keyed lists are merged, everything else is replaced (`typed/merge.go`).
pub(super) fn merge(
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

/// Removes the fields of `set` from `value`. Leaves `null` for a map or list that becomes empty, and for an atomic one
/// in which something is to be removed (`typed/remove.go`).
pub(super) fn remove(type_ref: TypeRef<'_>, value: &Value, set: &FieldSet) -> Value {
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

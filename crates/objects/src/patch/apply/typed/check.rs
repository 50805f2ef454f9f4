//! Checks whether a value fits its schema (`typed/validate.go`).

use serde_json::Value;

use super::{Scalar, Shape, TypeRef};
use crate::patch::apply::fieldset::{self, Path, field};
use crate::printed;
use crate::schema::MAX_DEPTH;

/// Checks a value against the schema (`typed/validate.go`). `repeated` allows duplicate list items, which may occur in
/// stored objects but not in applied ones.
///
/// # Errors
/// All faults, each with its path. For the fields of one object, only those before the first undeclared field.
pub(in crate::patch::apply) fn check(
    type_ref: TypeRef<'_>,
    value: &Value,
    repeated: bool,
) -> Result<(), Vec<String>> {
    let mut judge = Judge { repeated, path: Vec::new(), faults: Vec::new() };
    judge.value(type_ref, value);
    if judge.faults.is_empty() { Ok(()) } else { Err(judge.faults) }
}

/// Joins several faults into one text.
pub(in crate::patch::apply) fn join(faults: &[String]) -> String {
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
                            let key = fieldset::show(std::slice::from_ref(&element));
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
        let at = fieldset::show(&path);
        self.faults.push(if at.is_empty() { text.to_owned() } else { format!("{at}: {text}") });
    }
}

/// Returns why a value is not of a scalar type (`validateScalar`); `null` is always accepted.
pub(super) fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
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

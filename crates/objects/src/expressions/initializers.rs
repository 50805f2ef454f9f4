//! Expressions that create objects, for mutating policies: `Object{spec: Object.spec{replicas: 3}}` and `[JSONPatch{op:
//! "add", path: "/a", value: 1}]`.
//!
//! Source: apiserver `pkg/cel/mutation`. kube-cel does not support such values, so an initializer is rewritten to a map
//! that has the name of its type under a key that no field can have ([`TYPE`]). kube-cel's parser rejects optional
//! fields (`?name: value`). The names of types must match the paths of their fields
//! (`CheckTypeNamesMatchFieldPathNames`).

use kube_cel::cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr,
};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Program, Value as Cel};
use serde_json::{Map as Fields, Number, Value};

use super::{Variables, guarded, parse, with_room};

/// The key for the type name of a created object.
const TYPE: &str = "\u{0}type";
/// The type of a whole object.
const OBJECT: &str = "Object";
/// The type of a JSON patch operation.
const OPERATION: &str = "JSONPatch";
/// The deepest nesting of a created object.
const MAX_DEPTH: usize = 64;

/// An expression that creates an object or the operations of a patch.
#[derive(Debug)]
pub struct Maker {
    /// The expression as written, for bounding its cost.
    pub program: Program,
    rewritten: IdedExpr,
}

/// Returns whether initializers of this type are supported.
pub(super) fn is_known(name: &str) -> bool {
    name == OBJECT || name == OPERATION || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
}

/// Compiles an expression that may create objects.
///
/// # Errors
/// The parse error, for a person.
pub fn compile(expression: &str) -> Result<Maker, String> {
    let program = parse(expression, true)?;
    let mut rewritten = program.expression().clone();
    rewrite(&mut rewritten);
    Ok(Maker { program, rewritten })
}

impl Variables {
    /// Evaluates an `ApplyConfiguration` expression to an object.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn make_object(&self, maker: &Maker) -> Result<Value, String> {
        match self.make(maker)? {
            Cel::Map(map) if type_of(&map) == Some(OBJECT) => to_json(&Cel::Map(map), Some(OBJECT), 0),
            other => {
                Err(format!("unsupported return type from ApplyConfiguration expression: {}", shown(&other)))
            }
        }
    }

    /// Evaluates a JSON patch expression to a list of operations.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn make_operations(&self, maker: &Maker) -> Result<Value, String> {
        let Cel::List(items) = self.make(maker)? else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
        };
        let operation = |item: &Cel| match item {
            Cel::Map(map) if type_of(map) == Some(OPERATION) => to_operation(map),
            other => Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {}",
                shown(other)
            )),
        };
        items.iter().map(operation).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn make(&self, maker: &Maker) -> Result<Cel, String> {
        with_room(|| guarded(|| Cel::resolve(&maker.rewritten, &self.0).map_err(|error| error.to_string())))
    }
}

fn to_operation(map: &Map) -> Result<Value, String> {
    let mut operation = Fields::new();
    for (key, value) in map.map.iter() {
        let name = key_text(key);
        match name.as_str() {
            TYPE => {}
            // A value's own type is the root of its paths.
            "value" => {
                let root = match value {
                    Cel::Map(map) => type_of(map),
                    _ => None,
                };
                operation.insert(name, to_json(value, root, 0)?);
            }
            "op" | "path" | "from" => {
                operation.insert(name, to_json(value, None, 0)?);
            }
            other => return Err(format!("undefined field '{other}'")),
        }
    }
    Ok(Value::Object(operation))
}

/// Returns a value's type name for messages: that of the initializer if it has one.
fn shown(value: &Cel) -> String {
    match value {
        Cel::Map(map) => type_of(map).unwrap_or("map").to_owned(),
        other => other.type_of().to_string(),
    }
}

fn type_of(map: &Map) -> Option<&str> {
    let of_type =
        map.map.iter().find(|(key, _)| matches!(key, Key::String(text) if text.as_str() == TYPE))?;
    match of_type.1 {
        Cel::String(name) => Some(name.as_str()),
        _ => None,
    }
}

fn key_text(key: &Key) -> String {
    match key {
        Key::String(text) => text.as_ref().clone(),
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::Bool(answer) => answer.to_string(),
    }
}

/// Converts a value to JSON. Created objects must have the type name `path`, extended by the path of their field.
///
/// # Errors
/// When a type name does not match, or JSON cannot represent a value.
pub fn to_json(value: &Cel, path: Option<&str>, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("what was made is nested too deeply".to_owned());
    }
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(answer) => (*answer).into(),
        Cel::Int(number) => (*number).into(),
        Cel::UInt(number) => (*number).into(),
        Cel::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Cel::String(text) => text.as_str().into(),
        Cel::List(items) => {
            let items = items.iter().map(|item| to_json(item, path, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Cel::Map(map) => {
            if let Some(name) = type_of(map)
                && let expected = path.unwrap_or(name)
                && name != expected
            {
                return Err(format!(
                    "type mismatch: unexpected type name \"{name}\", expected \"{expected}\", which matches field name path from root Object type"
                ));
            }
            let mut fields = Fields::new();
            for (key, value) in map.map.iter() {
                let name = key_text(key);
                if name != TYPE {
                    let below = path.map(|path| format!("{path}.{name}"));
                    fields.insert(name, to_json(value, below.as_deref(), depth + 1)?);
                }
            }
            Value::Object(fields)
        }
        Cel::Timestamp(time) => time.to_rfc3339().into(),
        other => return Err(format!("a value of type {} is not JSON", other.type_of())),
    })
}

/// Rewrites every initializer in an expression, whose depth has been checked.
fn rewrite(expression: &mut IdedExpr) {
    if let Expr::Struct(made) = &mut expression.expr {
        let text = |text: &str| IdedExpr {
            id: expression.id,
            expr: Expr::Literal(LiteralValue::String(text.to_owned().into())),
        };
        let entry = |key: IdedExpr, value: IdedExpr, optional: bool| IdedEntryExpr {
            id: expression.id,
            expr: EntryExpr::MapEntry(MapEntryExpr { key, value, optional }),
        };
        let mut entries = vec![entry(text(TYPE), text(&made.type_name), false)];
        entries.extend(made.entries.drain(..).map(|given| match given.expr {
            EntryExpr::StructField(field) => entry(text(&field.field), field.value, field.optional),
            EntryExpr::MapEntry(_) => given,
        }));
        expression.expr = Expr::Map(MapExpr { entries });
    }
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Some(target) = call.target.as_deref_mut() {
                rewrite(target);
            }
            call.args.iter_mut().for_each(rewrite);
        }
        Expr::Select(select) => rewrite(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(rewrite),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key);
                    rewrite(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(each) => {
            for part in [
                &mut each.iter_range,
                &mut each.accu_init,
                &mut each.loop_cond,
                &mut each.loop_step,
                &mut each.result,
            ] {
                rewrite(part);
            }
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn variables() -> Variables {
        Variables::new(&[("object", &json!({"spec": {"replicas": 2}, "metadata": {"labels": {"a/b": "c"}}}))])
    }

    #[test]
    fn initializers_create_objects() {
        let made = |text: &str| compile(text).and_then(|maker| variables().make_object(&maker));
        let table = [
            (
                "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}",
                Ok(json!({"spec": {"replicas": 3}})),
            ),
            ("Object{}", Ok(json!({}))),
            (
                "Object{metadata: Object.metadata{labels: {'x': 'y'}}}",
                Ok(json!({"metadata": {"labels": {"x": "y"}}})),
            ),
            (
                "object.spec.replicas > 1 ? Object{spec: Object.spec{containers: [Object.spec.containers{name: 'a'}]}} : Object{}",
                Ok(json!({"spec": {"containers": [{"name": "a"}]}})),
            ),
            (
                "Object{spec: Object.status{replicas: 1}}",
                Err(
                    "type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path from root Object type",
                ),
            ),
            ("{'spec': 1}", Err("unsupported return type from ApplyConfiguration expression: map")),
            ("Pod{}", Err("undeclared reference to 'Pod'")),
        ];
        for (text, expected) in table {
            assert_eq!(made(text), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn initializers_create_operations() {
        let made = |text: &str| compile(text).and_then(|maker| variables().make_operations(&maker));
        let table = [
            ("[]", Ok(json!([]))),
            (
                "[JSONPatch{op: 'test', path: '/spec/replicas', value: 2}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'd'}]",
                Ok(json!([{"op": "test", "path": "/spec/replicas", "value": 2},
                    {"op": "add", "path": "/metadata/labels/a~1b", "value": "d"}])),
            ),
            (
                "[JSONPatch{op: 'add', path: '/spec', value: Object.spec{replicas: 1}}]",
                Ok(json!([{"op": "add", "path": "/spec", "value": {"replicas": 1}}])),
            ),
            (
                "[1]",
                Err(
                    "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of int",
                ),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(made(text), expected.map_err(str::to_owned), "{text}");
        }
    }
}

//! Decodes bodies in Kubernetes' protobuf encoding to the equivalent JSON.
//!
//! Go clients since 1.32 send built-in types in it whatever the server accepts (client-go
//! `gentype.PrefersProtobuf`), including kubectl's `create`. Only bodies are decoded; responses are JSON,
//! which those clients accept. `fields.txt` maps field numbers to fields; `extract.py` generates it from
//! Kubernetes' definitions. It is parsed when the first such body arrives.
//!
//! Pure. Every length is checked against the input, and nesting is bounded.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The first bytes of every body (`serializer/protobuf`).
const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting of messages.
const MAX_DEPTH: usize = 48;

static MESSAGES: LazyLock<HashMap<&'static str, Message>> =
    LazyLock::new(|| include_str!("fields.txt").lines().filter_map(message).collect());

type Message = HashMap<u64, Field>;

/// A field of a message, parsed from `fields.txt`.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: &'static str,
    shape: Shape,
    /// A scalar code of one character, or the name of a message.
    code: &'static str,
    /// Whether a zero value is kept, as for a pointer in Go.
    is_pointer: bool,
    is_inline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

fn message(line: &'static str) -> Option<(&'static str, Message)> {
    let mut parts = line.split(' ');
    let name = parts.next()?;
    Some((name, parts.filter_map(field).collect()))
}

fn field(text: &'static str) -> Option<(u64, Field)> {
    let (number, rest) = text.split_once('=')?;
    let (name, code) = rest.rsplit_once(':')?;
    let (is_pointer, is_inline) = (name.starts_with('?'), name.starts_with('^'));
    let name = name.trim_start_matches(['?', '^']);
    let (shape, code) = match (code.strip_prefix('*'), code.strip_prefix('%')) {
        (Some(code), _) => (Shape::List, code),
        (_, Some(code)) => (Shape::Map, code),
        _ => (Shape::One, code),
    };
    Some((number.parse().ok()?, Field { name, shape, code, is_pointer, is_inline }))
}

/// Decodes a body.
///
/// # Errors
/// If the body is malformed, or its type is unknown.
pub fn decode(bytes: &[u8]) -> Result<Value, String> {
    let envelope =
        bytes.strip_prefix(MAGIC).ok_or("it does not begin as a Kubernetes protobuf message does")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for part in Parts(envelope) {
        match part? {
            (1, Wire::Bytes(bytes)) => {
                for part in Parts(bytes) {
                    match part? {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let group =
        api_version.split_once('/').map_or("core", |(group, _)| group.split('.').next().unwrap_or_default());
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let name = if kind == "DeleteOptions" {
        "meta.v1.DeleteOptions".into()
    } else {
        format!("{group}.{version}.{kind}")
    };
    let mut object = object(&name, raw, MAX_DEPTH)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

fn object(name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    let depth = depth.checked_sub(1).ok_or("it is nested too deeply")?;
    let message = MESSAGES.get(name).ok_or_else(|| format!("{name} is not known in protobuf, send JSON"))?;
    let mut object = Map::new();
    for part in Parts(bytes) {
        let (number, wire) = part?;
        let Some(field) = message.get(&number) else { continue };
        match field.shape {
            Shape::One => one(&mut object, field, wire, depth)?,
            Shape::List => list(&mut object, field, wire, depth)?,
            Shape::Map => {
                let (key, value) = entry(field.code, wire, depth)?;
                if let Value::Object(map) = object.entry(field.name).or_insert_with(|| json!({})) {
                    map.insert(key, value);
                }
            }
        }
    }
    Ok(object)
}

/// Go clients also encode empty fields that aren't pointers; JSON omits them.
fn one(object: &mut Map<String, Value>, field: &Field, wire: Wire<'_>, depth: usize) -> Result<(), String> {
    let value = value(field.code, wire, depth)?;
    if field.is_inline {
        if let Value::Object(inner) = value {
            object.extend(inner);
        }
        return Ok(());
    }
    let is_zero = match &value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    if field.is_pointer || !is_zero {
        object.insert(field.name.into(), value);
    }
    Ok(())
}

fn list(object: &mut Map<String, Value>, field: &Field, wire: Wire<'_>, depth: usize) -> Result<(), String> {
    let items = match (field.code, wire) {
        // Packed numbers.
        ("i", Wire::Bytes(mut bytes)) => {
            let mut items = Vec::new();
            while !bytes.is_empty() {
                items.push(Value::from(varint(&mut bytes)?.cast_signed()));
            }
            items
        }
        (code, wire) => vec![value(code, wire, depth)?],
    };
    if let Value::Array(list) = object.entry(field.name).or_insert_with(|| json!([])) {
        list.extend(items);
    }
    Ok(())
}

fn entry(code: &str, wire: Wire<'_>, depth: usize) -> Result<(String, Value), String> {
    let Wire::Bytes(bytes) = wire else { return Err("a map's entry is no message".into()) };
    let (mut key, mut found) = (String::new(), None);
    for part in Parts(bytes) {
        match part? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => found = Some(value(code, wire, depth)?),
            _ => {}
        }
    }
    let found = match found {
        Some(found) => found,
        None => value(code, Wire::Bytes(&[]), depth)?,
    };
    Ok((key, found))
}

fn value(code: &str, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    match (code, wire) {
        ("b", Wire::Number(number)) => Ok(Value::Bool(number != 0)),
        ("i", Wire::Number(number)) => Ok(number.cast_signed().into()),
        ("f", Wire::Bytes(bytes)) => double(bytes),
        ("s", Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
        ("y", Wire::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
        ("t" | "m", Wire::Bytes(bytes)) => time(bytes, code == "m"),
        ("q", Wire::Bytes(bytes)) => match Parts(bytes).next() {
            Some(part) => match part? {
                (1, Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
                _ => Err("a quantity is no text".into()),
            },
            None => Ok("0".into()),
        },
        ("o", Wire::Bytes(bytes)) => int_or_string(bytes),
        ("j", Wire::Bytes(bytes)) => match Parts(bytes).next() {
            Some(part) => match part? {
                (1, Wire::Bytes(bytes)) => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
                _ => Err("an embedded object is no JSON".into()),
            },
            None => Ok(Value::Null),
        },
        (name, Wire::Bytes(bytes)) if name.len() > 1 => {
            let object = object(name, bytes, depth)?;
            Ok(unwrapped(name, object))
        }
        _ => Err(format!("a field of type {code:?} is encoded otherwise")),
    }
}

/// Unwraps types that protobuf can only represent as messages: lists within maps, and unions.
fn unwrapped(name: &str, mut object: Map<String, Value>) -> Value {
    let other = match name {
        "authentication.v1.ExtraValue" | "authorization.v1.ExtraValue" | "certificates.v1.ExtraValue" => {
            "items"
        }
        "apiextensions.v1.JSONSchemaPropsOrBool" => "allows",
        "apiextensions.v1.JSONSchemaPropsOrArray" => "jSONSchemas",
        "apiextensions.v1.JSONSchemaPropsOrStringArray" => "property",
        _ => return object.into(),
    };
    match object.remove("schema").or_else(|| object.remove(other)) {
        Some(value) => value,
        None if other == "allows" => false.into(),
        None => Value::Null,
    }
}

/// Decodes a number; without a fraction if it is whole, as in Go.
fn double(bytes: &[u8]) -> Result<Value, String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let bytes = bytes.try_into().map_err(|_| "a double has not eight bytes")?;
    let number = f64::from_le_bytes(bytes);
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough to be exact")]
        return Ok((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Value::Number).ok_or_else(|| "a double is no number".into())
}

fn time(bytes: &[u8], with_microseconds: bool) -> Result<Value, String> {
    let (mut seconds, mut nanoseconds, mut is_set) = (0_i64, 0_i64, false);
    for part in Parts(bytes) {
        is_set = true;
        match part? {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => nanoseconds = number.cast_signed(),
            _ => {}
        }
    }
    if !is_set {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|error| error.to_string())?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|error| error.to_string())?;
    Ok(if with_microseconds { format!("{time:.6}") } else { format!("{time:.0}") }.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut string) = (false, 0_i64, String::new());
    for part in Parts(bytes) {
        match part? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => string = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}

/// A value on the wire.
#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message in order.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Result<(u64, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let part = self.part();
        if part.is_err() {
            self.0 = &[];
        }
        Some(part)
    }
}

impl<'a> Parts<'a> {
    fn part(&mut self) -> Result<(u64, Wire<'a>), String> {
        let tag = varint(&mut self.0)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut self.0)?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = varint(&mut self.0)?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|error| error.to_string())?)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            other => return Err(format!("wire type {other} is not used by Kubernetes")),
        };
        Ok((tag >> 3, wire))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("it ends too early")?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is too long".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &meta), &field(2, raw)].concat()
    }

    #[test]
    fn a_config_map_is_read() {
        let metadata = [field(1, b"m"), field(2, b""), field(8, b"")].concat();
        let entry = [field(1, b"k"), field(2, b"v")].concat();
        let raw = [field(1, &metadata), field(2, &entry), vec![4 << 3, 0]].concat();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"},
            "immutable": false});
        assert_eq!(decode(&body("v1", "ConfigMap", &raw)), Ok(expected));
    }

    #[test]
    fn inlined_fields_and_empty_pointers_are_decoded() {
        // A volume with an emptyDir: its source is inlined, and is empty but present.
        let source = field(2, b"");
        let volume = [field(1, b"v"), field(2, &source)].concat();
        let spec = [field(1, &volume), vec![4 << 3, 0]].concat();
        let raw = field(2, &spec);
        let expected = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"name": "v", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 0}});
        assert_eq!(decode(&body("v1", "Pod", &raw)), Ok(expected));
    }

    #[test]
    fn schemas_of_a_definition_are_unwrapped() {
        let either = |bytes: &[u8]| value("apiextensions.v1.JSONSchemaPropsOrBool", Wire::Bytes(bytes), 9);
        assert_eq!(either(&[1 << 3, 1]), Ok(json!(true)));
        assert_eq!(either(&[]), Ok(json!(false)));
        assert_eq!(either(&field(2, b"")), Ok(json!({})));
        let maximum = [vec![9 << 3 | 1], 2.5_f64.to_le_bytes().to_vec()].concat();
        let minimum = [vec![11 << 3 | 1], 3.0_f64.to_le_bytes().to_vec()].concat();
        let several = [field(5, b"number"), maximum, minimum].concat();
        assert_eq!(
            object("apiextensions.v1.JSONSchemaProps", &several, 9).map(Value::from),
            Ok(json!({"type": "number", "maximum": 2.5, "minimum": 3}))
        );
        let items = field(1, &field(5, b"string"));
        assert_eq!(
            value("apiextensions.v1.JSONSchemaPropsOrArray", Wire::Bytes(&items), 9),
            Ok(json!({"type": "string"}))
        );
    }

    #[test]
    fn broken_bodies_are_refused() {
        let whole = body("v1", "ConfigMap", &field(1, &field(1, b"m")));
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err() || length > 3, "{length}");
        }
        assert!(decode(&body("v1", "Unheardof", b"")).unwrap_err().contains("core.v1.Unheardof"));
        assert!(decode(&body("v1", "ConfigMap", &[0xff; 12])).is_err());
    }
}

//! JSON Schema of the contract's messages, as they are written in JSON.

use serde_json::{Map, Value, json};

use crate::contract::{Field, FieldKind, Message};

/// Returns the schema of a message. A response always has its numbers, flags, lists; a request need not.
pub fn message(message: &Message, is_request: bool) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in &message.fields {
        properties.insert(field.json.clone(), property(field));
        let always = field.list || (!field.optional && !field.map && is_always_there(&field.kind));
        if if is_request { field.required } else { always } {
            required.push(field.json.clone());
        }
    }
    let mut schema = json!({ "type": "object", "description": message.about, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if is_request {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

fn is_always_there(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::Number | FieldKind::Double | FieldKind::Flag)
}

/// Returns the schema of a field.
pub fn property(field: &Field) -> Value {
    let mut one = match &field.kind {
        FieldKind::Text => json!({ "type": "string" }),
        FieldKind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        FieldKind::Number => json!({ "type": "integer", "format": "int32" }),
        FieldKind::Double => json!({ "type": "number", "format": "double" }),
        FieldKind::Flag => json!({ "type": "boolean" }),
        FieldKind::Message(name) => json!({ "$ref": format!("#/components/schemas/{name}") }),
    };
    if !field.values.is_empty() {
        one["enum"] = json!(field.values);
    }
    if !field.pattern.is_empty() {
        one["pattern"] = json!(field.pattern);
    }
    if let Some(minimum) = field.minimum {
        one["minimum"] = json!(minimum);
    }
    let mut whole = match (field.list, field.map) {
        (true, _) => json!({ "type": "array", "items": one }),
        (_, true) => json!({ "type": "object", "additionalProperties": one }),
        _ => one,
    };
    whole["description"] = json!(field.about);
    if !field.example.is_empty() {
        let example = match field.kind {
            FieldKind::Number => json!(field.example.parse::<i32>().unwrap_or_default()),
            FieldKind::Double => json!(field.example.parse::<f64>().unwrap_or_default()),
            _ => json!(field.example),
        };
        whole["examples"] = if field.list { json!([[example]]) } else { json!([example]) };
    }
    whole
}

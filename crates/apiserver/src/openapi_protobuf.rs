//! The OpenAPI v2 document in protobuf, which kubectl asks for when it finds a kind in no v3 document: the definitions, without
//! paths. Field numbers: `openapiv2/OpenAPIv2.proto` of google/gnostic-models.

use serde_json::{Map, Value};

/// The media type of a response.
pub const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether a media type of an `Accept` header is this form.
pub fn is_meant(clause: &str) -> bool {
    let media = clause.split(';').next().unwrap_or_default().trim();
    media.starts_with("application/com.github.proto-openapi.spec.v2") && media.ends_with("+protobuf")
}

/// Encodes a document.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    out.message(8, |_| {});
    out.message(9, |definitions| definitions.named_schemas(&document["definitions"]));
    out.0
}

#[derive(Default)]
struct Message(Vec<u8>);

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn whole(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_i64().filter(|number| *number != 0) {
            self.varint(field << 3 | VARINT);
            self.varint(number.cast_unsigned());
        }
    }

    fn number(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_f64() {
            self.varint(field << 3 | FIXED64);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn flag(&mut self, field: u64, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(field << 3 | VARINT);
            self.varint(1);
        }
    }

    /// An arbitrary value: its text in YAML, of which JSON is a part.
    fn any(&mut self, field: u64, value: &Value) {
        if !value.is_null() {
            self.message(field, |any| any.bytes(2, value.to_string().as_bytes()));
        }
    }

    fn named_schemas(&mut self, schemas: &Value) {
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            self.message(1, |named| {
                named.bytes(1, name.as_bytes());
                named.message(2, |inner| inner.schema(schema));
            });
        }
    }

    fn schema(&mut self, schema: &Value) {
        for (field, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
            self.text(field, &schema[name]);
        }
        for (field, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
            self.number(field, &schema[name]);
        }
        let whole = [(11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems")];
        for (field, name) in whole.into_iter().chain([(17, "maxProperties"), (18, "minProperties")]) {
            self.whole(field, &schema[name]);
        }
        let flags =
            [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems"), (27, "readOnly")];
        for (field, name) in flags {
            self.flag(field, &schema[name]);
        }
        self.any(5, &schema["default"]);
        schema["required"].as_array().into_iter().flatten().for_each(|name| self.text(19, name));
        schema["enum"].as_array().into_iter().flatten().for_each(|value| self.any(20, value));
        match &schema["additionalProperties"] {
            Value::Bool(allowed) => self.message(21, |item| item.flag(2, &Value::Bool(*allowed))),
            inner @ Value::Object(_) => self.message(21, |item| item.message(1, |of| of.schema(inner))),
            _ => {}
        }
        if !schema["type"].is_null() {
            self.message(22, |item| match &schema["type"] {
                Value::Array(types) => types.iter().for_each(|name| item.text(1, name)),
                name => item.text(1, name),
            });
        }
        if schema["items"].is_object() {
            self.message(23, |item| item.message(1, |of| of.schema(&schema["items"])));
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.message(24, |of| of.schema(part));
        }
        if schema["properties"].is_object() {
            self.message(25, |properties| properties.named_schemas(&schema["properties"]));
        }
        self.extensions(schema.as_object());
    }

    fn extensions(&mut self, schema: Option<&Map<String, Value>>) {
        for (name, value) in schema.into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
            self.message(31, |named| {
                named.bytes(1, name.as_bytes());
                named.any(2, value);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_encoded_as_gnostic_reads_it() {
        let document = json!({ "swagger": "2.0", "info": { "title": "K", "version": "1" }, "paths": { "/a": {} },
            "definitions": { "A": { "type": "object", "properties": { "b": { "$ref": "#/definitions/B" } },
                "x-k": [{ "kind": "A" }] } } });
        let bytes = encode(&document);
        let mut wanted = b"\x0a\x032.0\x12\x06\x0a\x01K\x12\x011\x42\x00\x4a".to_vec();
        let schema = b"\xb2\x01\x08\x0a\x06object\xca\x01\x18\x0a\x16\x0a\x01b\x12\x11\x0a\x0f#/definitions/B\xfa\x01\x17\x0a\x03x-k\x12\x10\x12\x0e[{\"kind\":\"A\"}]";
        let named = [b"\x0a\x01A\x12".as_slice(), &[schema.len() as u8], schema].concat();
        let definitions = [b"\x0a".as_slice(), &[named.len() as u8], &named].concat();
        wanted.push(definitions.len() as u8);
        wanted.extend(definitions);
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn the_form_is_chosen_by_its_media_type() {
        assert!(is_meant("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"));
        assert!(is_meant(" application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=0.9"));
        assert!(
            !is_meant("application/json")
                && !is_meant("application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
        );
    }
}

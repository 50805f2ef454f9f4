//! The OpenAPI 3.1 document of the REST half of the contract.

use std::collections::BTreeSet;
use std::error::Error;

use serde_json::{Map, Value, json};

use crate::contract::{Contract, FieldKind, Message, Method};
use crate::json_schema;

/// Returns the document.
pub fn document(contract: &Contract) -> Result<Value, Box<dyn Error>> {
    let mut paths = Map::new();
    for method in &contract.methods {
        let path = paths.entry(method.path.clone()).or_insert_with(|| json!({}));
        path[method.verb.to_lowercase()] = operation(contract, method)?;
    }
    let requests: BTreeSet<&str> = contract.methods.iter().map(|method| method.input.as_str()).collect();
    let sent = within(contract, requests.iter().copied());
    let in_json = contract.methods.iter().filter(|method| !method.file);
    let returned = within(contract, in_json.map(|method| method.output.as_str()));
    // The items of a file are its bytes.
    let files: BTreeSet<&str> =
        contract.methods.iter().filter(|method| method.file).map(|method| method.output.as_str()).collect();
    let schemas: Map<String, Value> = contract
        .messages
        .iter()
        .filter(|message| !requests.contains(message.name.as_str()) && !files.contains(message.name.as_str()))
        .map(|message| {
            let name = message.name.as_str();
            let mut schema = json_schema::message(message, sent.contains(name));
            if returned.contains(name)
                && let Some(schema) = schema.as_object_mut()
            {
                // What is returned may have more fields one day.
                schema.remove("additionalProperties");
            }
            (message.name.clone(), schema)
        })
        .collect();
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Training service",
            "version": "v1",
            "description": contract.about,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer",
                "description": "A bearer token of Kubernetes: a service account's, or a user's.",
            } },
        },
    }))
}

/// The messages that these consist of, themselves included.
fn within<'c>(contract: &'c Contract, names: impl Iterator<Item = &'c str>) -> BTreeSet<&'c str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = names.collect();
    while let Some(name) = next.pop() {
        if !found.insert(name) {
            continue;
        }
        for field in contract.message(name).into_iter().flat_map(|message| &message.fields) {
            if let FieldKind::Message(inner) = &field.kind {
                next.push(inner);
            }
        }
    }
    found
}

fn operation(contract: &Contract, method: &Method) -> Result<Value, Box<dyn Error>> {
    let input = contract.message(&method.input).ok_or("no such message")?;
    let example: Value = match method.example.as_str() {
        "" => json!({}),
        text => serde_json::from_str(text).map_err(|error| format!("{}: example: {error}", method.name))?,
    };
    let mut operation = json!({
        "operationId": lower_first(&method.name),
        "summary": method.about.split_inclusive(['.', ':']).next().unwrap_or_default().trim_end_matches([':', '.']),
        "description": method.about,
        "tags": ["jobs"],
        "parameters": parameters(method, input, &example),
        "responses": responses(method, input),
    });
    if method.body {
        operation["requestBody"] = body(method, input, &example);
    }
    if !method.access_verb.is_empty() {
        operation["x-permission"] = json!({ "verb": method.access_verb, "resource": method.access_resource });
    }
    Ok(operation)
}

fn in_path(method: &Method, name: &str) -> bool {
    method.path.contains(&format!("{{{name}}}"))
}

fn parameters(method: &Method, input: &Message, example: &Value) -> Value {
    let mut found = Vec::new();
    for field in &input.fields {
        let in_path = in_path(method, &field.name);
        let simple = !field.map && !matches!(field.kind, FieldKind::Message(_));
        // Of a method with a body, a query has only the flag for a dry run.
        if !in_path && (!simple || (method.body && field.name != "dry_run")) {
            continue;
        }
        let mut schema = json_schema::property(field);
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("description");
        }
        let mut parameter = json!({
            "name": field.json,
            "in": if in_path { "path" } else { "query" },
            "description": field.about,
            "schema": schema,
        });
        if in_path {
            parameter["required"] = json!(true);
        }
        if let Some(value) = example.get(&field.json) {
            parameter["example"] = value.clone();
        }
        found.push(parameter);
    }
    json!(found)
}

fn body(method: &Method, input: &Message, example: &Value) -> Value {
    let mut schema = json_schema::message(input, true);
    let in_path: Vec<&String> =
        input.fields.iter().filter(|field| in_path(method, &field.name)).map(|field| &field.json).collect();
    let mut example = example.clone();
    for name in &in_path {
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.remove(*name);
        }
        if let Some(example) = example.as_object_mut() {
            example.remove(*name);
        }
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let required: Vec<Value> =
        required.into_iter().filter(|name| !in_path.iter().any(|path| *name == json!(path))).collect();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
    }
    let mut content = json!({ "application/json": { "schema": schema, "example": example } });
    if input.fields.iter().any(|field| field.name == "manifest") {
        content["application/yaml"] =
            json!({ "schema": { "type": "string", "description": "The manifest, in place of `manifest`." } });
    }
    json!({ "required": !required.is_empty(), "content": content })
}

fn responses(method: &Method, input: &Message) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{}", method.output) });
    let has_table =
        input.fields.iter().any(|field| field.name == "format" && field.values.iter().any(|v| v == "csv"));
    let mut content = if method.file {
        json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } })
    } else if method.streams {
        json!({
            "text/event-stream": { "schema": { "type": "string",
                "description": "Server-sent events; each `data` is one item." } },
            "application/x-ndjson": { "schema": schema },
        })
    } else {
        json!({ "application/json": { "schema": schema } })
    };
    if has_table {
        content["text/csv"] = json!({ "schema": { "type": "string", "description": "With `format=csv`." } });
    }
    let problem =
        json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    json!({
        "200": { "description": "Success.", "content": content },
        "default": { "description": "A problem.", "content": problem },
    })
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

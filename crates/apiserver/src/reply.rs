//! Responses: objects and lists in the negotiated format, statuses, plain text.
//!
//! Stored objects are sent as the store's shared JSON; nothing is serialised twice.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::negotiate::ResponseFormat;
use super::request_context::RequestContext;
use super::status::{self, StatusError};
use super::versions;
use crate::store::Record;
use objects::IncludeObject;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An object to return to the client.
#[derive(Debug)]
pub enum Shown {
    /// As stored.
    Stored(Arc<Record>),
    /// The result of a dry run.
    Draft(Arc<Value>),
}

impl Shown {
    /// Returns the object, in its stored version.
    pub fn value(&self) -> Arc<Value> {
        match self {
            Self::Stored(record) => record.value(),
            Self::Draft(value) => value.clone(),
        }
    }
}

/// Returns a response of serialised JSON.
pub fn json_bytes(code: u16, bytes: Bytes) -> Response<Body> {
    full(code, "application/json", bytes)
}

/// Returns a response of a JSON value.
pub fn json_value(code: u16, value: &Value) -> Response<Body> {
    json_bytes(code, value.to_string().into())
}

/// Returns a response of plain text.
pub fn text(code: u16, text: &'static str) -> Response<Body> {
    full(code, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

/// Returns a response of any media type.
pub fn full(code: u16, media_type: &'static str, bytes: Bytes) -> Response<Body> {
    let body = Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync();
    with_body(code, media_type, body)
}

/// Returns a response with a streamed or complete body.
pub fn with_body(code: u16, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Returns an error as a `Status`.
pub fn refusal(refusal: &StatusError) -> Response<Body> {
    let mut response = json_value(refusal.code, &refusal.to_value());
    if let Some(value) = refusal.warning.as_deref().and_then(warning) {
        response.headers_mut().append(http::header::WARNING, value);
    }
    let seconds =
        refusal.details.as_ref().and_then(|details| details.get("retryAfterSeconds")).and_then(Value::as_u64);
    if let Some(seconds) = seconds {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Formats a warning as the value of the header `Warning`.
pub fn warning(text: &str) -> Option<HeaderValue> {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_str(&format!("299 - \"{text}\"")).ok()
}

/// Returns one object in the negotiated format.
///
/// # Errors
/// 406 if a single object has no such format.
pub fn object(context: &RequestContext<'_>, code: u16, shown: &Shown) -> Result<Response<Body>, StatusError> {
    let kind = &context.entry.kind;
    match context.form {
        ResponseFormat::Object => match shown {
            Shown::Stored(record) => Ok(json_bytes(code, versions::served_json(kind, record))),
            Shown::Draft(value) => Ok(json_value(code, &versions::served(kind, value))),
        },
        ResponseFormat::Metadata => {
            Ok(json_value(code, &partial(&versions::served(kind, &shown.value()), "PartialObjectMetadata")))
        }
        ResponseFormat::Table(version) => {
            let whole = shown.value();
            let value = versions::served(kind, &whole);
            Ok(json_value(code, &table(context, &[&value], version, true, &json!({}))?))
        }
        ResponseFormat::MetadataList | ResponseFormat::Discovery(_) => {
            Err(status::not_acceptable(&["application/json"]))
        }
    }
}

/// Formats objects as a Table.
///
/// # Errors
/// 400 for an invalid `includeObject`.
pub fn table(
    context: &RequestContext<'_>,
    objects: &[&Value],
    version: &str,
    with_columns: bool,
    metadata: &Value,
) -> Result<Value, StatusError> {
    let include = match context.query.include_object.as_str() {
        include @ ("" | "None" | "Metadata" | "Object") => include,
        other => {
            let message = format!("unrecognized includeObject value: \"{other}\"");
            return Err(status::bad_request(message));
        }
    };
    let mut table =
        objects::table(&context.entry.kind, objects, IncludeObject::parse(Some(include)), context.now);
    table["apiVersion"] = format!("meta.k8s.io/{version}").into();
    if let Some(metadata) = metadata.as_object().filter(|metadata| !metadata.is_empty()) {
        table["metadata"] = Value::Object(metadata.clone());
    } else if let [only] = objects {
        table["metadata"] = json!({"resourceVersion": only["metadata"]["resourceVersion"]});
    }
    if !with_columns {
        table["columnDefinitions"] = Value::Null;
    }
    Ok(table)
}

/// Returns the object with its metadata only.
pub fn partial(value: &Value, kind: &str) -> Value {
    json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]})
}

/// Returns a list of objects in the negotiated format. `metadata` is the list's own.
///
/// # Errors
/// 400 for an invalid `includeObject`.
pub fn list(
    context: &RequestContext<'_>,
    records: &[Arc<Record>],
    metadata: &Value,
) -> Result<Response<Body>, StatusError> {
    let kind = &context.entry.kind;
    match context.form {
        ResponseFormat::Object | ResponseFormat::Discovery(_) => {
            let mut head =
                json!({"kind": kind.list_kind, "apiVersion": kind.api_version(), "metadata": metadata});
            if !kind.is_builtin() && head["metadata"]["continue"].is_null() {
                head["metadata"]["continue"] = "".into();
            }
            let items = records.iter().map(|record| versions::served_json(kind, record));
            // Go's typed lists omit `apiVersion` and `kind` from their items.
            let text = if kind.is_builtin() {
                join(&head, items.map(|item| untyped(&item)))
            } else {
                join(&head, items)
            };
            Ok(json_bytes(200, text))
        }
        ResponseFormat::Metadata | ResponseFormat::MetadataList => {
            let head = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
            let items = records.iter().map(|record| {
                partial(&versions::served(kind, &record.value()), "PartialObjectMetadata").to_string().into()
            });
            if records.is_empty() {
                let mut head = head;
                head["items"] = Value::Null;
                return Ok(json_value(200, &head));
            }
            Ok(json_bytes(200, join(&head, items)))
        }
        ResponseFormat::Table(version) => {
            let whole = records.iter().map(|record| record.value()).collect::<Vec<_>>();
            let values = whole.iter().map(|value| versions::served(kind, value)).collect::<Vec<_>>();
            let objects = values.iter().map(std::convert::AsRef::as_ref).collect::<Vec<_>>();
            Ok(json_value(200, &table(context, &objects, version, true, metadata)?))
        }
    }
}

/// Returns an object's JSON without its `apiVersion` and `kind`.
fn untyped(json: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(json.len());
    let (mut depth, mut quoted, mut escaped, mut start) = (0_usize, false, false, 0);
    for (at, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                depth += 1;
                if depth == 1 {
                    text.push(b'{');
                    start = at + 1;
                }
            }
            b'}' | b']' if depth > 1 => depth -= 1,
            b',' | b'}' if depth == 1 => {
                let member = json.get(start..at).unwrap_or_default();
                start = at + 1;
                if !member.starts_with(b"\"apiVersion\":")
                    && !member.starts_with(b"\"kind\":")
                    && !member.is_empty()
                {
                    if text.len() > 1 {
                        text.push(b',');
                    }
                    text.extend_from_slice(member);
                }
            }
            _ => {}
        }
    }
    text.push(b'}');
    text.into()
}

/// Serialises `head` (an object) with `items` added as an array.
fn join(head: &Value, items: impl Iterator<Item = Bytes>) -> Bytes {
    let mut text = head.to_string().into_bytes();
    text.pop();
    text.extend_from_slice(b",\"items\":[");
    for (index, item) in items.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&item);
    }
    text.extend_from_slice(b"]}");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_items_lose_only_their_type() {
        let item = json!({"apiVersion": "v1", "kind": "X", "a": {"kind": "k", "l": ["}", "\\\"{", {"apiVersion": 1}]}, "z": ","});
        let bare = untyped(item.to_string().as_bytes());
        let expected = json!({"a": {"kind": "k", "l": ["}", "\\\"{", {"apiVersion": 1}]}, "z": ","});
        assert_eq!(serde_json::from_slice::<Value>(&bare).unwrap(), expected);
        assert_eq!(untyped(b"{\"apiVersion\":\"v1\",\"kind\":\"X\"}"), "{}");
    }
}

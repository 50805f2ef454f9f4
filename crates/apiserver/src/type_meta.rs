//! The type that a body states, in `apiVersion` and `kind` (`metav1.TypeMeta`): whether it can be read, and whether it is
//! that of the path.
//!
//! Rules: apiserver `pkg/endpoints/handlers/rest.go` and the decoders of apimachinery, whose words the errors have.

use serde_json::Value;

use super::decoding;
use super::query::FieldValidation;
use super::request_context::RequestContext;
use super::status::{self, BodyError, StatusError};

/// The start of the error for a body whose type cannot be read.
pub const UNREADABLE: &str = "couldn't get version/kind; json parse error: ";

/// Why the type of a body cannot be read.
pub struct TypeFault {
    /// The reason.
    pub text: String,
    /// Whether the kind is missing.
    lacks_kind: bool,
}

/// 400 for a body whose type cannot be read (`handlers/rest.go`, `transformBodyError`).
pub fn unrecognized(context: &RequestContext<'_>, why: &str, bytes: &[u8]) -> StatusError {
    const SHOWN: usize = 30;
    let text = |bytes: &[u8]| match bytes.first() {
        Some(b'{') => String::from_utf8_lossy(bytes).into_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let summary = match bytes.get(..SHOWN) {
        _ if bytes.is_empty() => "<empty>".to_owned(),
        Some(start) if bytes.len() > SHOWN => format!("{} ...", text(start)),
        _ => text(bytes),
    };
    let kind = &context.entry.kind.kind;
    status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// Rejects a body whose `apiVersion` or `kind` isn't a string, or is malformed.
///
/// # Errors
/// 400.
pub fn check_type_fields(
    context: &RequestContext<'_>,
    value: &Value,
    bytes: &[u8],
) -> Result<(), StatusError> {
    let Some(fault) = type_fault(context, value, bytes) else { return Ok(()) };
    // Upstream's lenient decoder has read the version by then; its strict one hasn't.
    if fault.lacks_kind && context.query.field_validation == FieldValidation::Ignore {
        let (kind, version) = (&context.entry.kind.kind, &context.entry.kind.version);
        let given = value["apiVersion"].as_str().filter(|version| !version.is_empty()).unwrap_or(version);
        let version = given.rsplit('/').next().unwrap_or_default();
        return Err(BodyError::of(kind, version, kind, fault.text).into());
    }
    Err(unrecognized(context, &fault.text, bytes))
}

/// Returns why a body's type cannot be read, or `None` if it can.
pub fn type_fault(context: &RequestContext<'_>, value: &Value, bytes: &[u8]) -> Option<TypeFault> {
    let fault = |text: String| Some(TypeFault { text, lacks_kind: false });
    if value.is_null() {
        return None;
    }
    if !value.is_object() {
        let why = format!(
            "{UNREADABLE}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            objects::json_kind(value)
        );
        return fault(why);
    }
    for field in ["apiVersion", "kind"] {
        if !value[field].is_null() && !value[field].is_string() {
            let why = format!(
                "{UNREADABLE}json: cannot unmarshal {} into Go struct field .{field} of type string",
                objects::json_kind(&value[field])
            );
            return fault(why);
        }
    }
    let version = value["apiVersion"].as_str().unwrap_or_default();
    if version.matches('/').count() > 1 {
        return fault(format!("unexpected GroupVersion string: {version}"));
    }
    if !context.entry.kind.is_builtin() && value["kind"].as_str().unwrap_or_default().is_empty() {
        let text = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes));
        return Some(TypeFault { text, lacks_kind: true });
    }
    None
}

/// Rejects a body of another type, and fills in a missing one.
///
/// # Errors
/// 400.
pub fn check_type(context: &RequestContext<'_>, value: &mut Value) -> Result<(), BodyError> {
    let kind = &context.entry.kind;
    let object = value.as_object_mut().ok_or_else(|| {
        BodyError::plain(format!(
            "the object provided is unrecognized (must be of type {}): it is no object",
            kind.kind
        ))
    })?;
    check_registered(kind, object)?;
    if !kind.is_builtin() && object.get("apiVersion").is_some_and(Value::is_null) {
        let given = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(BodyError::of(given, "", &kind.kind, why));
    }
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_builtin() && version != kind.api_version() {
        // The metadata must be readable before the version is compared (`unstructuredSchemaCoercer.apply`).
        decoding::check_metadata(kind, value)?;
        let message = format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            kind.api_version()
        );
        return Err(BodyError::plain(message));
    }
    let given = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !kind.is_builtin() && !given.is_empty() && given != kind.kind {
        // Validation rejects it (`validator.ValidateTypeMeta`).
        return Ok(());
    }
    let wanted = [("apiVersion", kind.api_version(), "API version"), ("kind", kind.kind.clone(), "kind")];
    for (field, wanted, words) in wanted {
        match object.get(field).and_then(Value::as_str).unwrap_or_default() {
            "" => {
                object.insert(field.into(), wanted.into());
            }
            given if given != wanted => {
                let message = format!(
                    "the {words} in the data ({given}) does not match the expected {words} ({wanted})"
                );
                return Err(BodyError::plain(message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Rejects a kind that isn't registered in Kubernetes in its version, or that cannot be converted to this one, in the body
/// of a built-in kind.
fn check_registered(kind: &objects::Kind, object: &serde_json::Map<String, Value>) -> Result<(), BodyError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (own, name) = (kind.api_version(), kind.kind.as_str());
    let (given_version, given) = (text("apiVersion").unwrap_or(&own), text("kind").unwrap_or(name));
    if !kind.is_builtin() || (given_version == own && given == name) {
        return Ok(());
    }
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let unconverted = || {
        let package = match kind.group.split('.').next().unwrap_or_default() {
            "" | "events" => "core",
            first => first,
        };
        // Of whatever version it says to be, a `Status` is `v1.Status`.
        let decoded = if given == "Status" { "v1" } else { version };
        let why = format!("converting ({decoded}.{given}) to ({package}.{name}): unknown conversion");
        BodyError::of(given, version, name, why)
    };
    if given == "Status" {
        // `Status` exists in every version. It is decoded as one before its conversion to this kind fails.
        let texts = [("message", "string"), ("reason", "v1.StatusReason"), ("status", "string")];
        let wrong = texts.iter().find_map(|(field, go_type)| {
            let found = object.get(*field).filter(|value| !value.is_string() && !value.is_null())?;
            Some((field, objects::json_kind(found), go_type))
        });
        if let Some((field, found, go_type)) = wrong {
            let why = format!(
                "json: cannot unmarshal {found} into Go struct field Status.{field} of type {go_type}"
            );
            return Err(BodyError::of(given, version, name, why));
        }
        return Err(unconverted());
    }
    let is_list_of = |known: &str| given.strip_suffix("List") == Some(known);
    let is_registered = objects::builtin_kinds().iter().any(|known| {
        known.api_version() == given_version && (known.kind == given || is_list_of(&known.kind))
    });
    if is_registered {
        // The same kind in another version is converted, and then refused for its version.
        return if given == name { Ok(()) } else { Err(unconverted()) };
    }
    let why = format!(
        "no kind {given:?} is registered for version {given_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    );
    Err(BodyError::of(given, version, name, why))
}

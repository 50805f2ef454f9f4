//! patch: the four patch types, each converted to a change of the present object.
//!
//! Rules: apiserver `pkg/endpoints/handlers/patch.go`. A patch with an outdated resourceVersion is rejected;
//! any other is applied again if another write comes first. A server-side apply creates an object that
//! doesn't exist.

use bytes::Bytes;
use serde_json::Value;

use super::auth::authority;
use super::body::{self, Decoded};
use super::create::{self, CreateError};
use super::negotiate::{self, Encoding, PatchType};
use super::query::FieldValidation;
use super::reply::Shown;
use super::request_context::RequestContext;
use super::status::{self, StatusError};
use super::{decoding, managed, type_meta, update};
use objects::patch;

/// The start of the error for a configuration with a duplicate key.
const REPEATED: &str = "error strict decoding YAML: error converting YAML to JSON: yaml";

/// Handles a PATCH. The flag says whether it created the object.
///
/// # Errors
/// 400, 404, 409, 415, 422.
pub async fn patch(context: &RequestContext<'_>, bytes: &Bytes) -> Result<(Shown, bool), StatusError> {
    let patch_type = negotiate::patch_type(context.headers, context.entry.kind.is_builtin())?;
    if patch_type == PatchType::Apply {
        let decoded = body::decode(bytes, Encoding::Yaml);
        let malformed = |error: body::Undecodable| {
            status::bad_request(format!("error decoding YAML: {}", error.kubernetes()))
        };
        return apply(context, decoded.map_err(malformed)?).await;
    }
    if context.query.force {
        let detail = "Forbidden: may not be specified for non-apply patch".to_owned();
        let about = status::About { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
        return Err(status::invalid(about, &[("FieldValueForbidden".into(), detail, "force".into())]));
    }
    let patch = body::decode(bytes, Encoding::Json).map_err(|error| {
        // Upstream decodes the patch only after it has found the object.
        match context.server.store.get(&context.entry.resource, &context.key()) {
            Some(_) => status::bad_request(format!("error decoding patch: {}", error.kubernetes())),
            None => status::not_found(context.about()),
        }
    })?;
    let shown = update::change(context, |present| {
        let mut next = patch_type.patched(&context.entry.kind, present, &patch.value)?;
        let patched = next.clone();
        if patch_type == PatchType::Strategic {
            // Upstream requires strings here and ignores their values.
            for field in ["apiVersion", "kind"] {
                let found = match &patched[field] {
                    Value::Null | Value::String(_) => continue,
                    Value::Number(number) if !number.is_f64() => "cannot convert int64 to string",
                    _ => "unrecognized type: string",
                };
                return Err(undecodable(&patched, found));
            }
            let kind = &context.entry.kind;
            (next["apiVersion"], next["kind"]) = (kind.api_version().into(), kind.kind.as_str().into());
        } else {
            check_patched_type(context, &next)?;
        }
        if context.entry.kind.is_builtin() {
            type_meta::check_type(context, &mut next).map_err(|error| undecodable(&patched, &error.why))?;
        }
        let validation = context.query.field_validation;
        let dropped = match patch_type {
            PatchType::Strategic => {
                decoding::convert_patched(&context.entry.kind, &mut next, &patch.duplicates, validation)
            }
            _ => decoding::drop_unknown(&context.entry.kind, &mut next, &patch.duplicates, validation),
        };
        let warnings = dropped.map_err(|error| undecodable(&patched, &error.why))?;
        warnings.into_iter().for_each(|warning| context.warn(warning));
        create::check_namespace_field(context, &mut next)?;
        check_name(context, &next)?;
        Ok(next)
    })
    .await?;
    Ok((shown, false))
}

async fn apply(context: &RequestContext<'_>, decoded: Decoded) -> Result<(Shown, bool), StatusError> {
    if context.query.field_manager.is_empty() {
        let detail = "Required value: is required for apply patch".to_owned();
        let about = status::About { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
        return Err(status::invalid(about, &[("FieldValueRequired".into(), detail, "fieldManager".into())]));
    }
    let mut applied = decoded.value;
    check_applied_type(context, &mut applied)?;
    decoding::metadata(&mut applied)?;
    let is_there = context.server.store.get(&context.entry.resource, &context.key()).is_some();
    if !is_there && context.action.subresource.is_empty() {
        authority::authorize_creation(context)?;
        create::admit_into_namespace(context)?;
        let mut value = self::applied(context, None, &applied)?;
        repeated_key(context, &decoded.duplicate_key, REPEATED)?;
        if let Some(uid) = applied["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(status::conflict(context.about(), &why));
        }
        create::check_namespace_field(context, &mut value)?;
        check_name(context, &value)?;
        if !context.query.dry_run {
            // There is no previous version.
            decoding::metadata(&mut value)?.remove("resourceVersion");
        }
        match create::complete(context, value).await {
            // Another request has created it meanwhile.
            Err(CreateError::NameTaken(_)) => {}
            result => return Ok((result?, true)),
        }
    }
    let shown = update::change(context, |present| {
        let mut next = self::applied(context, Some(present), &applied)?;
        repeated_key(context, &decoded.duplicate_key, REPEATED)?;
        create::check_namespace_field(context, &mut next)?;
        check_name(context, &next)?;
        Ok(next)
    })
    .await?;
    Ok((shown, false))
}

/// Returns the result of a server-side apply, with its managedFields.
///
/// # Errors
/// 409 for fields with other owners, 400 for an invalid configuration.
fn applied(context: &RequestContext<'_>, live: Option<&Value>, intent: &Value) -> Result<Value, StatusError> {
    let manager = context.manager();
    let mut made = patch::apply::apply(
        &context.entry.kind,
        live,
        intent,
        managed::writer(context, &manager),
        context.query.force,
    )
    .map_err(|error| StatusError::of_status(&error.status(), error.to_string()))?;
    let kind = &context.entry.kind;
    objects::convert(kind, &mut made).map_err(|error| {
        let (name, version) = (&intent["metadata"]["name"], kind.api_version());
        let version = if version.contains('/') { version } else { format!("/{version}") };
        let (name, kind) = (name.as_str().unwrap_or_default(), &kind.kind);
        StatusError::new(500, "", format!(
            "failed to convert new object (/{name}; {version}, Kind={kind}) to proper version: unable to convert unstructured object to {version}, Kind={kind}: {error}"
        ))
    })?;
    Ok(made)
}

/// Checks the type of an applied configuration (`managedfields.FieldManager.Apply`).
fn check_applied_type(context: &RequestContext<'_>, applied: &mut Value) -> Result<(), StatusError> {
    let kind = &context.entry.kind;
    let text = |field: &str| applied[field].as_str().unwrap_or_default().to_owned();
    let (version, name) = (text("apiVersion"), text("kind"));
    if version != kind.api_version() || name != kind.kind {
        let is_none = version.matches('/').count() > 1;
        let (version, name) = match version.as_str() {
            _ if is_none => ("/".to_owned(), String::new()),
            "" => ("/".to_owned(), name),
            version if version.contains('/') => (version.to_owned(), name),
            version => (format!("/{version}"), name),
        };
        return Err(status::bad_request(format!("invalid object type: {version}, Kind={name}")));
    }
    Ok(())
}

/// Handles a duplicate YAML key by `fieldValidation`: ignores it, warns or rejects it.
///
/// # Errors
/// 400.
pub fn repeated_key(
    context: &RequestContext<'_>,
    key: &Option<String>,
    where_: &str,
) -> Result<(), StatusError> {
    let Some(key) = key else { return Ok(()) };
    let text = format!("{where_}: unmarshal errors:\n  {key}");
    match context.query.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => context.warn(text),
        FieldValidation::Strict => return Err(status::bad_request(text)),
    }
    Ok(())
}

/// Rejects the result of a JSON or merge patch whose type is missing or cannot be read.
fn check_patched_type(context: &RequestContext<'_>, next: &Value) -> Result<(), StatusError> {
    if let Some(fault) = type_meta::type_fault(context, next, next.to_string().as_bytes()) {
        return Err(undecodable(next, &fault.text));
    }
    let is_missing = next["apiVersion"].as_str().is_none_or(str::is_empty);
    if !is_missing {
        return Ok(());
    }
    if !context.entry.kind.is_builtin() {
        let is_null = next.get("apiVersion").is_some_and(Value::is_null);
        if !is_null {
            decoding::check_metadata(&context.entry.kind, next)
                .map_err(|error| undecodable(next, &error.why))?;
            check_name(context, next)?;
        }
        return Err(if is_null {
            let text = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
            undecodable(next, text)
        } else {
            status::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        });
    }
    let (group, given) = (&context.entry.kind.group, next["kind"].as_str().unwrap_or_default());
    if !given.is_empty()
        && !given.ends_with("List")
        && !given.ends_with("Options")
        && objects::builtin_kind(group, given).is_none()
    {
        let text = format!(
            "no kind {given:?} is registered for the internal version of group {group:?} in scheme \"pkg/runtime/scheme.go:111\""
        );
        return Err(undecodable(next, &text));
    }
    // Without a version, upstream decodes it as the internal type, which has none of these fields.
    let fields = next.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let unknown = fields.filter(|name| !matches!(*name, "apiVersion" | "kind"));
    let texts = unknown.map(|name| format!("unknown field \"{name}\"")).collect::<Vec<_>>();
    match context.query.field_validation {
        FieldValidation::Strict => {
            let text = format!("strict decoding error: {}", texts.join(", "));
            return Err(undecodable(next, &text));
        }
        FieldValidation::Warn => texts.into_iter().for_each(|text| context.warn(text)),
        FieldValidation::Ignore => {}
    }
    Err(nameless(context))
}

fn nameless(context: &RequestContext<'_>) -> StatusError {
    status::bad_request(format!(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        context.action.name
    ))
}

/// 422 for a patch whose result isn't an object of the kind (`handlers/patch.go`, `applyJSPatch`).
fn undecodable(patched: &Value, why: &str) -> StatusError {
    let detail = format!("Invalid value: {:?}: {why}", patched.to_string());
    let about = status::About { group: "", resource: "", name: "" };
    status::invalid(about, &[("FieldValueInvalid".into(), detail, "patch".into())])
}

/// Checks that the name is that of the path (`checkName`).
fn check_name(context: &RequestContext<'_>, next: &Value) -> Result<(), StatusError> {
    let name = next["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(nameless(context));
    }
    if name != context.action.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.action.name
        );
        return Err(status::bad_request(message));
    }
    Ok(())
}

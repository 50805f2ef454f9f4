//! patch: the four patch types, each converted to a change of the present object.
//!
//! Rules: apiserver `pkg/endpoints/handlers/patch.go`. A patch with an outdated resourceVersion is rejected;
//! any other is applied again if another write comes first. A server-side apply creates an object that
//! doesn't exist.

use bytes::Bytes;
use serde_json::Value;

use super::auth::authority;
use super::body::{self, Decoded};
use super::call::Call;
use super::create::{self, CreateError};
use super::negotiate::{self, Encoding, PatchType};
use super::query::FieldValidation;
use super::reply::Shown;
use super::status::{self, Refusal};
use super::{decoding, managed, type_meta, update};
use objects::patch;

/// The start of the error for a configuration with a duplicate key.
const REPEATED: &str = "error strict decoding YAML: error converting YAML to JSON: yaml";

/// Handles a PATCH. The flag says whether it created the object.
///
/// # Errors
/// 400, 404, 409, 415, 422.
pub async fn patch(call: &Call<'_>, bytes: &Bytes) -> Result<(Shown, bool), Refusal> {
    let patch_type = negotiate::patch_type(call.headers, call.entry.kind.is_builtin())?;
    if patch_type == PatchType::Apply {
        let decoded = body::decode(bytes, Encoding::Yaml);
        let malformed = |error: body::Undecodable| {
            status::bad_request(format!("error decoding YAML: {}", error.kubernetes()))
        };
        return apply(call, decoded.map_err(malformed)?).await;
    }
    if call.query.force {
        let detail = "Forbidden: may not be specified for non-apply patch".to_owned();
        let about = status::About { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
        return Err(status::invalid(about, &[("FieldValueForbidden".into(), detail, "force".into())]));
    }
    let patch = body::decode(bytes, Encoding::Json).map_err(|error| {
        // Upstream decodes the patch only after it has found the object.
        match call.server.store.get(&call.entry.resource, &call.key()) {
            Some(_) => status::bad_request(format!("error decoding patch: {}", error.kubernetes())),
            None => status::not_found(call.about()),
        }
    })?;
    let shown = update::change(call, |present| {
        let mut next = patch_type.patched(&call.entry.kind, present, &patch.value)?;
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
            let kind = &call.entry.kind;
            (next["apiVersion"], next["kind"]) = (kind.api_version().into(), kind.kind.as_str().into());
        } else {
            check_patched_type(call, &next)?;
        }
        if call.entry.kind.is_builtin() {
            type_meta::check_type(call, &mut next).map_err(|error| undecodable(&patched, &error.why))?;
        }
        let validation = call.query.field_validation;
        let dropped = match patch_type {
            PatchType::Strategic => {
                decoding::convert_patched(&call.entry.kind, &mut next, &patch.duplicates, validation)
            }
            _ => decoding::drop_unknown(&call.entry.kind, &mut next, &patch.duplicates, validation),
        };
        let warnings = dropped.map_err(|error| undecodable(&patched, &error.why))?;
        warnings.into_iter().for_each(|warning| call.warn(warning));
        create::check_namespace_field(call, &mut next)?;
        check_name(call, &next)?;
        Ok(next)
    })
    .await?;
    Ok((shown, false))
}

async fn apply(call: &Call<'_>, decoded: Decoded) -> Result<(Shown, bool), Refusal> {
    if call.query.field_manager.is_empty() {
        let detail = "Required value: is required for apply patch".to_owned();
        let about = status::About { group: "meta.k8s.io", resource: "PatchOptions", name: "" };
        return Err(status::invalid(about, &[("FieldValueRequired".into(), detail, "fieldManager".into())]));
    }
    let mut applied = decoded.value;
    check_applied_type(call, &mut applied)?;
    decoding::metadata(&mut applied)?;
    let is_there = call.server.store.get(&call.entry.resource, &call.key()).is_some();
    if !is_there && call.action.subresource.is_empty() {
        authority::authorize_creation(call)?;
        create::admit_into_namespace(call)?;
        let mut value = self::applied(call, None, &applied)?;
        repeated_key(call, &decoded.duplicate_key, REPEATED)?;
        if let Some(uid) = applied["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(status::conflict(call.about(), &why));
        }
        create::check_namespace_field(call, &mut value)?;
        check_name(call, &value)?;
        if !call.query.dry_run {
            // There is no previous version.
            decoding::metadata(&mut value)?.remove("resourceVersion");
        }
        match create::complete(call, value).await {
            // Another request has created it meanwhile.
            Err(CreateError::NameTaken(_)) => {}
            result => return Ok((result?, true)),
        }
    }
    let shown = update::change(call, |present| {
        let mut next = self::applied(call, Some(present), &applied)?;
        repeated_key(call, &decoded.duplicate_key, REPEATED)?;
        create::check_namespace_field(call, &mut next)?;
        check_name(call, &next)?;
        Ok(next)
    })
    .await?;
    Ok((shown, false))
}

/// Returns the result of a server-side apply, with its managedFields.
///
/// # Errors
/// 409 for fields with other owners, 400 for an invalid configuration.
fn applied(call: &Call<'_>, live: Option<&Value>, intent: &Value) -> Result<Value, Refusal> {
    let manager = call.manager();
    let mut made = patch::apply::apply(
        &call.entry.kind,
        live,
        intent,
        managed::writer(call, &manager),
        call.query.force,
    )
    .map_err(|error| Refusal::of_status(&error.status(), error.to_string()))?;
    let kind = &call.entry.kind;
    objects::convert(kind, &mut made).map_err(|error| {
        let (name, version) = (&intent["metadata"]["name"], kind.api_version());
        let version = if version.contains('/') { version } else { format!("/{version}") };
        let (name, kind) = (name.as_str().unwrap_or_default(), &kind.kind);
        Refusal::new(500, "", format!(
            "failed to convert new object (/{name}; {version}, Kind={kind}) to proper version: unable to convert unstructured object to {version}, Kind={kind}: {error}"
        ))
    })?;
    Ok(made)
}

/// Checks the type of an applied configuration (`managedfields.FieldManager.Apply`).
fn check_applied_type(call: &Call<'_>, applied: &mut Value) -> Result<(), Refusal> {
    let kind = &call.entry.kind;
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
pub fn repeated_key(call: &Call<'_>, key: &Option<String>, where_: &str) -> Result<(), Refusal> {
    let Some(key) = key else { return Ok(()) };
    let text = format!("{where_}: unmarshal errors:\n  {key}");
    match call.query.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => call.warn(text),
        FieldValidation::Strict => return Err(status::bad_request(text)),
    }
    Ok(())
}

/// Rejects the result of a JSON or merge patch whose type is missing or cannot be read.
fn check_patched_type(call: &Call<'_>, next: &Value) -> Result<(), Refusal> {
    if let Some(fault) = type_meta::type_fault(call, next, next.to_string().as_bytes()) {
        return Err(undecodable(next, &fault.text));
    }
    let is_missing = next["apiVersion"].as_str().is_none_or(str::is_empty);
    if !is_missing {
        return Ok(());
    }
    if !call.entry.kind.is_builtin() {
        let is_null = next.get("apiVersion").is_some_and(Value::is_null);
        if !is_null {
            decoding::check_metadata(&call.entry.kind, next)
                .map_err(|error| undecodable(next, &error.why))?;
            check_name(call, next)?;
        }
        return Err(if is_null {
            let text = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
            undecodable(next, text)
        } else {
            status::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        });
    }
    let (group, given) = (&call.entry.kind.group, next["kind"].as_str().unwrap_or_default());
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
    match call.query.field_validation {
        FieldValidation::Strict => {
            let text = format!("strict decoding error: {}", texts.join(", "));
            return Err(undecodable(next, &text));
        }
        FieldValidation::Warn => texts.into_iter().for_each(|text| call.warn(text)),
        FieldValidation::Ignore => {}
    }
    Err(nameless(call))
}

fn nameless(call: &Call<'_>) -> Refusal {
    status::bad_request(format!(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        call.action.name
    ))
}

/// 422 for a patch whose result isn't an object of the kind (`handlers/patch.go`, `applyJSPatch`).
fn undecodable(patched: &Value, why: &str) -> Refusal {
    let detail = format!("Invalid value: {:?}: {why}", patched.to_string());
    let about = status::About { group: "", resource: "", name: "" };
    status::invalid(about, &[("FieldValueInvalid".into(), detail, "patch".into())])
}

/// Checks that the name is that of the path (`checkName`).
fn check_name(call: &Call<'_>, next: &Value) -> Result<(), Refusal> {
    let name = next["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(nameless(call));
    }
    if name != call.action.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.action.name
        );
        return Err(status::bad_request(message));
    }
    Ok(())
}

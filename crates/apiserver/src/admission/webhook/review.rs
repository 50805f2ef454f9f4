//! Builds the `AdmissionReview` (`admission.k8s.io`) for a webhook, and parses its response.
//!
//! Source: apiserver `pkg/admission/plugin/webhook/request/admissionreview.go` and `errors/statuserror.go`.
//! Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::hook::Hook;
use super::invocation::Invocation;
use crate::admission::Attributes;
use crate::reviews::user_value;
use crate::status::StatusError;

/// The maximum number of warnings in a response; further ones are dropped.
const MAX_WARNINGS: usize = 32;
/// The maximum number of audit annotations in a response; further ones are dropped.
const MAX_ANNOTATIONS: usize = 64;

/// A webhook's response.
#[derive(Debug, Default)]
pub struct Answer {
    /// The error, if the request is denied.
    pub refusal: Option<StatusError>,
    /// The operations of its JSON patch.
    pub patch: Option<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations for the audit log.
    pub audit_annotations: Vec<(String, String)>,
}

/// Serialises the `AdmissionReview` to send; `states` are the new object and the old one.
pub fn request(
    at: &Attributes<'_>,
    version: &str,
    invocation: &Invocation,
    uid: &str,
    states: [Option<&Value>; 2],
) -> Vec<u8> {
    let request = request_value(at, invocation, uid, states);
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request})
        .to_string()
        .into_bytes()
}

/// Builds the `request` of a review, which is also the variable `request` in expressions.
pub fn request_value(
    at: &Attributes<'_>,
    invocation: &Invocation,
    uid: &str,
    states: [Option<&Value>; 2],
) -> Value {
    let own = &at.context.entry.kind;
    let kind_in = |kind: &objects::Kind| {
        let part = kind.subresource(at.subresource()).map(|part| part.takes.clone());
        let (group, version, kind) =
            part.unwrap_or_else(|| (kind.group.clone(), kind.version.clone(), kind.kind.clone()));
        json!({"group": group, "version": version, "kind": kind})
    };
    let resource_in =
        |kind: &objects::Kind| json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let [object, old] =
        states.map(|state| state.map_or(Value::Null, |object| invocation.convert(at, object).into_owned()));
    let mut request = json!({
        "uid": uid,
        "kind": kind_in(&invocation.kind),
        "resource": resource_in(&invocation.kind),
        "requestKind": kind_in(own),
        "requestResource": resource_in(own),
        "operation": at.operation.name(),
        "userInfo": user_value(&at.context.user),
        "object": object,
        "oldObject": old,
        "dryRun": at.dry_run,
        "options": at.options,
    });
    let texts = [
        ("subResource", at.subresource()),
        ("requestSubResource", at.subresource()),
        ("name", at.name),
        ("namespace", at.namespace().unwrap_or_default()),
    ];
    for (field, text) in texts {
        if !text.is_empty() {
            request[field] = text.into();
        }
    }
    request
}

/// Parses a response.
///
/// # Errors
/// The reason if it is invalid, starting like upstream's.
pub fn read(bytes: &[u8], hook: &Hook, uid: &str) -> Result<Answer, String> {
    let review: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("failed to call webhook: {error}"))?;
    let response =
        verified(&review, hook, uid).map_err(|why| format!("received invalid webhook response: {why}"))?;
    let warnings = response["warnings"].as_array().into_iter().flatten().take(MAX_WARNINGS);
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten().take(MAX_ANNOTATIONS);
    let mut answer = Answer {
        warnings: warnings.filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        audit_annotations: annotations
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        ..Answer::default()
    };
    if response["allowed"] != true {
        answer.refusal = Some(refusal(&hook.name, &response["status"]));
        return Ok(answer);
    }
    if let Some(patch) = response["patch"].as_str().filter(|patch| !patch.is_empty()) {
        answer.patch = Some(
            decode_patch(patch)
                .map_err(|why| format!("received undecodable patch in webhook response: {why}"))?,
        );
    }
    Ok(answer)
}

fn verified<'v>(review: &'v Value, hook: &Hook, uid: &str) -> Result<&'v Value, String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    if hook.review_version != "v1" {
        return Ok(response);
    }
    let text = |value: &'v Value| value.as_str().unwrap_or_default();
    if response["uid"] != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{}\"", text(&response["uid"])));
    }
    let (version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    let has_patch = response["patch"].as_str().is_some_and(|patch| !patch.is_empty());
    let patch_type = response["patchType"].as_str();
    match (hook.is_mutating, has_patch, patch_type) {
        (true, true, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, false, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".to_owned())
        }
        (true, true, Some(other)) if other != "JSONPatch" => {
            Err(format!("unsupported patch type \"{other}\""))
        }
        (false, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(response),
    }
}

fn decode_patch(text: &str) -> Result<Value, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let operations: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if operations.is_array() { Ok(operations) } else { Err("it is no array of operations".to_owned()) }
}

/// Builds the error from the `status` in a webhook's response (`ToStatusErr`).
fn refusal(name: &str, status: &Value) -> StatusError {
    let denied = format!("admission webhook \"{name}\" denied the request");
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let mut refusal = StatusError::new(code, "", message);
    refusal.reason = text("reason").to_owned().into();
    refusal.details =
        status["details"].as_object().cloned().filter(|details: &Map<_, _>| !details.is_empty());
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_has_the_status_of_the_webhook() {
        let table = [
            (json!({"message": "no", "code": 422, "reason": "Invalid"}), (422, "Invalid", ": no")),
            (json!({"reason": "Because"}), (400, "Because", ": Because")),
            (json!({"code": 200}), (400, "", " without explanation")),
            (Value::Null, (400, "", " without explanation")),
        ];
        for (status, (code, reason, end)) in table {
            let refusal = refusal("a.b.c", &status);
            assert_eq!((refusal.code, refusal.reason.as_ref()), (code, reason), "{status}");
            assert_eq!(refusal.message, format!("admission webhook \"a.b.c\" denied the request{end}"));
        }
    }
}

//! Errors, worded exactly as in Kubernetes: `metav1.Status` objects with a code, a reason, details and
//! causes.
//!
//! Messages: apimachinery `pkg/api/errors/errors.go`. This module only formats.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;

use serde_json::{Map, Value, json};

use crate::store;
use objects::patch::PatchError;
use objects::{FieldFault, Kind};

/// A request that fails with a `Status`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct StatusError {
    /// The HTTP status code.
    pub code: u16,
    /// `metav1.StatusReason`; empty if there is none. A webhook may set its own.
    pub reason: Cow<'static, str>,
    /// The message for people.
    pub message: String,
    /// `details`, if there are any.
    pub details: Option<Map<String, Value>>,
    /// `metadata.continue`, for a list whose continue token has expired.
    pub next: Option<Box<str>>,
    /// A warning for the client, sent with the error.
    pub warning: Option<Box<str>>,
}

/// Identifies the object that an error is about.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The resource's plural, or the kind for [`invalid`].
    pub resource: &'a str,
    /// The object's name, possibly empty.
    pub name: &'a str,
}

impl About<'_> {
    /// `pods` or `jobs.batch`.
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [("name", self.name), ("group", self.group), ("kind", self.resource)] {
            if !value.is_empty() {
                details.insert(key.into(), value.into());
            }
        }
        details
    }
}

/// Why a body cannot be decoded as an object of its kind: 400.
#[derive(Debug, thiserror::Error)]
#[error("{context}{why}")]
pub struct BodyError {
    /// The start of the message that says which object cannot be decoded; empty if the reason says it itself.
    context: String,
    /// What is wrong with the body.
    pub why: String,
}

impl BodyError {
    /// Creates an error whose message is the reason alone.
    pub fn plain(why: impl Into<String>) -> Self {
        Self { context: String::new(), why: why.into() }
    }

    /// Creates an error about an object that claims the kind `given` (`handlers/rest.go`, `transformBodyError`).
    pub fn of(given: &str, version: &str, kind: &str, why: impl std::fmt::Display) -> Self {
        let context = format!("{given} in version {version:?} cannot be handled as a {kind}: ");
        Self { context, why: why.to_string() }
    }
}

impl From<BodyError> for StatusError {
    fn from(error: BodyError) -> Self {
        bad_request(error.to_string())
    }
}

impl From<PatchError> for StatusError {
    fn from(error: PatchError) -> Self {
        let refusal = StatusError::new(error.code(), error.reason(), error.to_string());
        if error.code() == 422 { refusal.empty_details() } else { refusal }
    }
}

impl StatusError {
    /// Creates an error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            next: None,
            warning: None,
        }
    }

    /// Creates an error from an existing `Status`.
    pub fn of_status(status: &Value, message: String) -> Self {
        const REASONS: [&str; 4] = ["Conflict", "BadRequest", "Invalid", "RequestEntityTooLarge"];
        let reason = REASONS.into_iter().find(|reason| status["reason"] == *reason).unwrap_or_default();
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        Self { details: status["details"].as_object().cloned(), ..Self::new(code, reason, message) }
    }

    fn about(mut self, about: About<'_>) -> Self {
        self.details = Some(about.details());
        self
    }

    /// Sets empty details, which some errors of Kubernetes have.
    pub fn empty_details(mut self) -> Self {
        self.details = Some(Map::new());
        self
    }

    /// Adds one cause to the details.
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = Map::new();
        for (key, value) in [("reason", reason), ("message", message), ("field", field)] {
            if !value.is_empty() {
                cause.insert(key.into(), value.into());
            }
        }
        let details = self.details.get_or_insert_default();
        if let Value::Array(causes) = details.entry("causes").or_insert_with(|| json!([])) {
            causes.push(Value::Object(cause));
        }
        self
    }

    /// Sets the seconds after which the client may retry.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().insert("retryAfterSeconds".into(), seconds.into());
        self
    }

    /// Returns the error as a `metav1.Status`.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(next) = &self.next {
            metadata.insert("continue".into(), (**next).into());
        }
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code});
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}

/// 404: the object doesn't exist.
pub fn not_found(about: About<'_>) -> StatusError {
    StatusError::new(404, "NotFound", format!("{} \"{}\" not found", about.qualified(), about.name))
        .about(about)
}

/// 404: this server has no such resource or path.
pub fn no_such_resource() -> StatusError {
    StatusError::new(404, "NotFound", "the server could not find the requested resource").empty_details()
}

/// 405.
pub fn method_not_allowed() -> StatusError {
    let message = "the server does not allow this method on the requested resource";
    StatusError::new(405, "MethodNotAllowed", message).empty_details()
}

/// 409: the name is taken.
pub fn already_exists(about: About<'_>) -> StatusError {
    StatusError::new(409, "AlreadyExists", format!("{} \"{}\" already exists", about.qualified(), about.name))
        .about(about)
}

/// 409: the write was based on an outdated version, or its preconditions don't hold.
pub fn conflict(about: About<'_>, why: &str) -> StatusError {
    let message = format!("Operation cannot be fulfilled on {} \"{}\": {why}", about.qualified(), about.name);
    StatusError::new(409, "Conflict", message).about(about)
}

/// The message of most conflicts (`registry.OptimisticLockErrorMsg`).
pub const OUTDATED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// 403.
pub fn forbidden(about: About<'_>, why: &str) -> StatusError {
    let message = match (about.resource, about.name) {
        ("", _) => format!("forbidden: {why}"),
        (_, "") => format!("{} is forbidden: {why}", about.qualified()),
        (_, name) => format!("{} \"{name}\" is forbidden: {why}", about.qualified()),
    };
    StatusError::new(403, "Forbidden", message).about(about)
}

/// 401.
pub fn unauthorized() -> StatusError {
    StatusError::new(401, "Unauthorized", "Unauthorized")
}

/// 400.
pub fn bad_request(message: impl Into<String>) -> StatusError {
    StatusError::new(400, "BadRequest", message)
}

/// 406.
pub fn not_acceptable(accepted: &[&str]) -> StatusError {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", accepted.join(", "));
    StatusError::new(406, "NotAcceptable", message).empty_details()
}

/// 415.
pub fn unsupported_media_type(accepted: &[&str]) -> StatusError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    StatusError::new(415, "UnsupportedMediaType", message)
}

/// 413.
pub fn too_large(limit: usize) -> StatusError {
    StatusError::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
}

/// The error for a failed write to the store: 413 if the object exceeds the store's limits, 507 if the disk is full,
/// otherwise 500.
pub fn unwritten(error: impl Into<store::Error>) -> StatusError {
    match error.into() {
        store::Error::OutOfBounds(why) => StatusError::new(413, "RequestEntityTooLarge", why.to_string()),
        store::Error::Journal(why)
            if matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
        {
            let message =
                "the disk of the cluster's store is full: nothing can be written until there is room";
            StatusError::new(507, "InsufficientStorage", message)
        }
        error => internal(error),
    }
}

/// 410.
pub fn expired(message: impl Into<String>) -> StatusError {
    StatusError::new(410, "Expired", message)
}

/// 500.
pub fn internal(why: impl std::fmt::Display) -> StatusError {
    let message = format!("Internal error occurred: {why}");
    let mut refusal = StatusError::new(500, "InternalError", message).with_cause("", &why.to_string(), "");
    refusal.details.get_or_insert_default();
    refusal
}

/// 501: a feature of Kubernetes that this cluster doesn't have.
pub fn not_implemented(what: &str) -> StatusError {
    StatusError::new(501, "NotImplemented", format!("the embedded cluster does not support {what}"))
}

/// 422: causes are given as (reason, message, field); `about.resource` is the kind.
pub fn invalid(about: About<'_>, causes: &[(String, String, String)]) -> StatusError {
    let mut texts =
        causes.iter().map(|(_, message, field)| format!("{field}: {message}")).collect::<Vec<_>>();
    // The message lists each distinct cause once (`utilerrors.NewAggregate`).
    let mut told = BTreeSet::new();
    texts.retain(|text| told.insert(text.clone()));
    let faults = match texts.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let message = format!("{} \"{}\" is invalid: {faults}", about.qualified(), about.name);
    let refusal = StatusError::new(422, "Invalid", message).about(about);
    causes
        .iter()
        .fold(refusal, |refusal, (reason, message, field)| refusal.with_cause(reason, message, field))
}

/// 422 for an object's faults.
pub fn invalid_object(kind: &Kind, name: &str, faults: &[FieldFault]) -> StatusError {
    let causes = faults
        .iter()
        .map(|fault| (fault.reason.cause().to_owned(), fault.body(), fault.path.clone()))
        .collect::<Vec<_>>();
    // Events are reported as events of the core group, whichever group they were written in.
    let group = if kind.is("events.k8s.io", "Event") { "" } else { kind.group.as_str() };
    invalid(About { group, resource: &kind.kind, name }, &causes)
}

/// Same as [`invalid_object`], but a custom object is named by the kind and group that it claims, which may be
/// another's.
pub fn invalid_as_claimed(kind: &Kind, value: &Value, name: &str, faults: &[FieldFault]) -> StatusError {
    if kind.is_builtin() {
        return invalid_object(kind, name, faults);
    }
    let mut named = kind.clone();
    if let Some(given) = value["kind"].as_str().filter(|given| !given.is_empty()) {
        given.clone_into(&mut named.kind);
    }
    if let Some(given) = value["apiVersion"].as_str().filter(|given| !given.is_empty()) {
        given.split_once('/').map_or("", |(group, _)| group).clone_into(&mut named.group);
    }
    invalid_object(&named, name, faults)
}

/// 200: the response to a completed deletion.
pub fn deleted(about: About<'_>, uid: &str) -> Value {
    let mut details = about.details();
    if !uid.is_empty() {
        details.insert("uid".into(), uid.into());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Returns a `Status` of success with a code.
pub fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}

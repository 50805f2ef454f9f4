//! Turns the errors of the Kubernetes client into ours ([`Error::from_kube`]).
//!
//! The input is the client's error and what was attempted. The output is an [`Error`] with a class, a sentence and, if
//! known, a remedy. The server's own message is kept unless we have a better one.

use std::collections::BTreeMap;

use kube::core::Status;

use crate::{Action, Advice, Class, Error, Fault, Kind};

/// The reason of an error for a write that an admission webhook did not answer about. Nothing was written: the same
/// request may be sent again.
pub const ADMISSION_UNAVAILABLE: &str = "AdmissionUnavailable";
/// How the API server says so.
const WEBHOOK_FAILED: &str = "failed calling webhook";
/// How it says that the object was too large for the webhook.
const WEBHOOK_TOO_LARGE: &str = "status code 413";

/// The reason of an error for an apply that would change fields of other field managers, which can be forced.
pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
/// The most fields of a manager in a message.
const MOST_FIELDS: usize = 5;

/// How rustls refuses a server's certificate.
const BAD_CERTIFICATE: &str = "invalid peer certificate: ";

/// What was attempted when the server refused.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The verb as in RBAC: `create`, `get`, `list`, `delete`, `watch`.
    pub verb: &'a str,
    /// The object of the action in plain words: `MPIJobs`, `pod logs`.
    pub what: &'a str,
    /// The object's name; empty for a list.
    pub name: &'a str,
    /// The namespace; empty for all.
    pub namespace: &'a str,
}

impl Attempt<'_> {
    /// The job kind of the attempt; `None` if it was not about jobs.
    fn kind(&self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.names() == self.what)
    }
}

impl Error {
    /// Converts a client's error into an understandable one.
    pub fn from_kube(error: kube::Error, attempt: Attempt<'_>) -> Self {
        match error {
            kube::Error::Api(status) => from_status(&status, attempt),
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
                let detail = innermost(&error);
                match detail.strip_prefix(BAD_CERTIFICATE) {
                    Some(why) => Error::Untrusted { detail: why.to_owned() },
                    None => Error::Unreachable { detail },
                }
            }
            other => Error::Client(innermost(&other)),
        }
    }
}

/// The innermost source of an error says what happened; those above it only add context.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

fn from_status(status: &Status, attempt: Attempt<'_>) -> Error {
    match (status.code, &status.reason[..]) {
        (404, _) => not_found(status, attempt),
        (409, "AlreadyExists") => already_exists(attempt),
        (401, _) => unauthorized(status),
        (403, _) => forbidden(status, attempt),
        (422, _) => invalid(status),
        (409, _) => conflict(status),
        (429, _) => refused(
            Class::Quota,
            status,
            Some("the server receives too many requests; try again shortly".into()),
        ),
        (400, _) if attempt.verb == "create" => refused(Class::Invalid, status, None),
        (500, _) if status.message.contains(WEBHOOK_FAILED) && status.message.contains(WEBHOOK_TOO_LARGE) => {
            let advice = "make the object smaller: a webhook of the cluster cannot check one of this size";
            refused(Class::Invalid, status, Some(advice.into()))
        }
        (500, _) if status.message.contains(WEBHOOK_FAILED) => admission_unavailable(status),
        (507, _) => refused(
            Class::Error,
            status,
            Some("free some space on the disk that holds the cluster's store, then try again".into()),
        ),
        _ => refused(Class::Error, status, None),
    }
}

/// A write that came too late, or an apply that would change fields of other field managers.
///
/// Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts>.
fn conflict(status: &Status) -> Error {
    let mut managers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cause in status.details.iter().flat_map(|details| &details.causes) {
        if cause.reason == FIELD_MANAGER_CONFLICT {
            let manager = quoted_after(&cause.message, "conflict with ").unwrap_or(&cause.message);
            managers.entry(manager).or_default().push(cause.field.trim_start_matches('.'));
        }
    }
    if managers.is_empty() {
        return refused(Class::Conflict, status, Some("it was changed meanwhile; try again".into()));
    }
    let managed = managers.iter().map(|(manager, fields)| {
        let named = fields.iter().take(MOST_FIELDS).copied().collect::<Vec<_>>().join(", ");
        match fields.len().saturating_sub(MOST_FIELDS) {
            0 => format!("{manager} manages {named}"),
            more => format!("{manager} manages {named} and {more} more"),
        }
    });
    let managed = managed.collect::<Vec<_>>().join("; ");
    Error::Refused {
        class: Class::Conflict,
        reason: FIELD_MANAGER_CONFLICT.to_owned(),
        message: format!("it would change fields that other programs manage: {managed}"),
        advice: Some("leave these fields out of the manifest, or take them over".into()),
        faults: Vec::new(),
    }
}

/// A webhook that the cluster asks about each write did not answer, so nothing was written.
fn admission_unavailable(status: &Status) -> Error {
    Error::Refused {
        class: Class::Error,
        reason: ADMISSION_UNAVAILABLE.to_owned(),
        message: format!("the cluster could not check the request: {}", status.message),
        advice: Some("try again in a moment; if it lasts, ask an administrator about this webhook".into()),
        faults: Vec::new(),
    }
}

fn refused(class: Class, status: &Status, advice: Option<Advice>) -> Error {
    let message = if status.message.is_empty() {
        format!("the server answered {} {}", status.code, status.reason)
    } else {
        status.message.clone()
    };
    Error::Refused { class, reason: status.reason.clone(), message, advice, faults: Vec::new() }
}

fn not_found(status: &Status, attempt: Attempt<'_>) -> Error {
    let kind = status.details.as_ref().map_or("", |details| details.kind.as_str());
    if kind == "namespaces" {
        return Error::Refused {
            class: Class::NotFound,
            reason: "NotFound".to_owned(),
            message: format!("namespace \"{}\" not found", attempt.namespace),
            advice: Some(
                Advice::from("choose another namespace, or create this one")
                    .with(Action::CreateNamespace { namespace: attempt.namespace.to_owned() }),
            ),
            faults: Vec::new(),
        };
    }
    let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    if let (false, Some(kind)) = (named, attempt.kind()) {
        return Error::Refused {
            class: Class::NotFound,
            reason: "KindNotFound".to_owned(),
            message: format!("this cluster does not support {} ({})", kind.names(), kind.api_version()),
            advice: Some(
                Advice::from(
                    "ask an administrator to install the operator; or start a cluster on your own machine",
                )
                .with(Action::StartLocalCluster),
            ),
            faults: Vec::new(),
        };
    }
    Error::NotFound {
        kind: Some(attempt.kind().unwrap_or_default()),
        name: attempt.name.to_owned(),
        namespace: attempt.namespace.to_owned(),
        of_kind: None,
        meant: None,
    }
}

fn already_exists(attempt: Attempt<'_>) -> Error {
    let Attempt { name, namespace, .. } = attempt;
    let kind = attempt.kind().unwrap_or_default();
    Error::Refused {
        class: Class::Conflict,
        reason: "AlreadyExists".to_owned(),
        message: format!("{} \"{name}\" already exists in namespace \"{namespace}\"", kind.name()),
        advice: Some(
            Advice::from("choose another name, or delete the old job first")
                .with(Action::Delete(kind.job(namespace, name))),
        ),
        faults: Vec::new(),
    }
}

fn unauthorized(status: &Status) -> Error {
    let message = "not authenticated: your credentials are missing, invalid or expired";
    Error::Refused {
        class: Class::NotAllowed,
        reason: "Unauthorized".to_owned(),
        message: match status.message.as_str() {
            "" | "Unauthorized" => message.to_owned(),
            more => format!("{message}; the server says: {more}"),
        },
        advice: Some(Advice::from("log in again, or get a new kubeconfig").with(Action::LogIn)),
        faults: Vec::new(),
    }
}

fn forbidden(status: &Status, attempt: Attempt<'_>) -> Error {
    let message = &status.message;
    let lower = message.to_lowercase();
    if lower.contains("exceeded quota") || lower.contains("quota exceeded") {
        let advice = Advice::from("wait for a running job, delete one, or request less")
            .with(Action::list_jobs(attempt.namespace));
        let text = message.split("is forbidden: ").last().unwrap_or(message).to_owned();
        return Error::Refused {
            class: Class::Quota,
            reason: "QuotaExceeded".to_owned(),
            message: text,
            advice: Some(advice),
            faults: Vec::new(),
        };
    }
    let Some(user) = quoted_after(message, "User ") else {
        return refused(Class::NotAllowed, status, None);
    };
    let place = match attempt.namespace {
        "" => "in all namespaces".to_owned(),
        namespace => format!("in namespace '{namespace}'"),
    };
    Error::Refused {
        class: Class::NotAllowed,
        reason: "Forbidden".to_owned(),
        message: format!("User '{user}' lacks '{}' permission for {} {place}", attempt.verb, attempt.what),
        advice: Some(whom_to_ask(attempt.verb, attempt.what, attempt.namespace).into()),
        faults: Vec::new(),
    }
}

/// Names the administrator to ask and the role to ask for: that of MPIJobs, or the smallest built-in role that
/// suffices. An empty namespace means all of them.
pub(crate) fn whom_to_ask(verb: &str, what: &str, namespace: &str) -> String {
    let role = match (what, verb) {
        ("MPIJobs", "list" | "watch") => "kubeflow-mpijobs-view",
        // Those who may not see a job may want to change it.
        ("MPIJobs", "get") => "kubeflow-mpijobs-view, or kubeflow-mpijobs-edit to change jobs",
        ("MPIJobs", _) => "kubeflow-mpijobs-edit",
        (_, "get" | "list" | "watch") => "view",
        _ => "edit",
    };
    match namespace {
        "" => format!(
            "name a namespace, or ask an administrator of the cluster for the role {role} in all of them"
        ),
        _ => format!("ask an administrator of the namespace for the role {role}"),
    }
}

fn quoted_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    rest[1..].split(quote).next()
}

fn invalid(status: &Status) -> Error {
    let faults: Vec<Fault> = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| Fault {
            source: String::new(),
            position: None,
            path: cause.field.clone(),
            message: cause.message.clone(),
            advice: None,
        })
        .collect();
    let message = match faults.len() {
        0 => status.message.clone(),
        1 => faults.first().map(ToString::to_string).unwrap_or_default(),
        many => format!("the server found {many} errors; nothing was changed"),
    };
    Error::Refused { class: Class::Invalid, reason: "Invalid".to_owned(), message, advice: None, faults }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_smallest_role_that_suffices_is_named() {
        let told = |verb, what, namespace| whom_to_ask(verb, what, namespace);
        assert!(
            told("list", "MPIJobs", "team").ends_with("the namespace for the role kubeflow-mpijobs-view")
        );
        assert!(told("get", "MPIJobs", "team").contains("-view, or kubeflow-mpijobs-edit"));
        assert!(told("create", "MPIJobs", "team").ends_with("role kubeflow-mpijobs-edit"));
        assert!(told("get", "pods", "team").ends_with("role view"));
        assert!(told("delete", "pods", "team").ends_with("role edit"));
        assert!(told("list", "MPIJobs", "").contains("administrator of the cluster"));
    }

    #[test]
    fn an_object_that_is_too_large_for_a_webhook_is_not_sent_again() {
        let refused = |why: &str| {
            let message = format!("Internal error occurred: failed calling webhook \"x\": {why}");
            let status = json!({ "code": 500, "reason": "InternalError", "message": message });
            let status: Status = serde_json::from_value(status).unwrap();
            let attempt = Attempt { verb: "create", what: "MPIJobs", name: "pi", namespace: "team-cv" };
            let error = Error::from_kube(kube::Error::Api(status.boxed()), attempt);
            (error.class(), error.reason() == ADMISSION_UNAVAILABLE)
        };
        let too_large = "the server responded with the status code 413 but did not return more information";
        assert_eq!(refused(too_large), (Class::Invalid, false));
        assert_eq!(refused("context deadline exceeded"), (Class::Error, true));
    }

    #[test]
    fn a_full_disk_of_the_cluster_is_named_with_what_to_do() {
        let status = json!({ "code": 507, "reason": "InsufficientStorage", "message": "the disk is full" });
        let status: Status = serde_json::from_value(status).unwrap();
        let attempt = Attempt { verb: "delete", what: "MPIJobs", name: "pi", namespace: "team-cv" };
        let error = Error::from_kube(kube::Error::Api(status.boxed()), attempt);
        assert_eq!((error.class(), error.reason()), (Class::Error, "InsufficientStorage"));
        assert_eq!(error.to_string(), "the disk is full");
        assert!(error.advice().unwrap().text.starts_with("free some space on the disk"));
    }

    #[test]
    fn a_conflict_between_field_managers_names_them_and_their_fields() {
        let error = |causes: serde_json::Value| {
            let status = json!({ "code": 409, "reason": "Conflict", "message": "Apply failed with conflicts",
                "details": { "causes": causes } });
            let status: Status = serde_json::from_value(status).unwrap();
            let attempt = Attempt { verb: "patch", what: "MPIJob", name: "pi", namespace: "team-cv" };
            Error::from_kube(kube::Error::Api(status.boxed()), attempt)
        };
        let cause = |manager: &str, field: &str| {
            let message = format!("conflict with \"{manager}\" using kubeflow.org/v2beta1");
            json!({ "reason": "FieldManagerConflict", "message": message, "field": field })
        };
        let mut causes =
            vec![cause("kubectl", ".spec.slotsPerWorker"), cause("argocd", ".metadata.labels.a")];
        causes.extend((1..7).map(|number| cause("kubectl", &format!(".spec.field{number}"))));
        let conflict = error(causes.into());
        assert_eq!((conflict.class(), conflict.reason()), (Class::Conflict, FIELD_MANAGER_CONFLICT));
        assert_eq!(
            conflict.to_string(),
            "it would change fields that other programs manage: argocd manages metadata.labels.a; kubectl manages \
             spec.slotsPerWorker, spec.field1, spec.field2, spec.field3, spec.field4 and 2 more"
        );
        assert!(!conflict.advice().unwrap().text.contains("try again"));
        let late = error(json!([]));
        assert_eq!((late.reason(), late.to_string().as_str()), ("Conflict", "Apply failed with conflicts"));
        assert!(late.advice().unwrap().text.contains("try again"));
    }

    fn explained(status: serde_json::Value) -> (u8, String) {
        let status: Status = serde_json::from_value(status).unwrap();
        let attempt = Attempt { verb: "create", what: "MPIJobs", name: "pi", namespace: "team-cv" };
        let error = Error::from_kube(kube::Error::Api(status.boxed()), attempt);
        (error.class().exit_code(), error.to_string())
    }

    #[test]
    fn refusals_say_what_a_person_can_use() {
        let table = [
            (
                json!({"code": 403, "reason": "Forbidden", "message": "mpijobs.kubeflow.org is forbidden: User \"jane\" cannot create resource \"mpijobs\" in API group \"kubeflow.org\" in the namespace \"team-cv\""}),
                4,
                "User 'jane' lacks 'create' permission for MPIJobs in namespace 'team-cv'",
            ),
            (
                json!({"code": 403, "reason": "Forbidden", "message": "mpijobs.kubeflow.org \"pi\" is forbidden: Quota exceeded: 10/10 jobs running"}),
                6,
                "Quota exceeded: 10/10 jobs running",
            ),
            (
                json!({"code": 403, "reason": "Forbidden", "message": "admission webhook \"x\" denied the request: no"}),
                4,
                "admission webhook \"x\" denied the request: no",
            ),
            (
                json!({"code": 409, "reason": "AlreadyExists", "message": "mpijobs.kubeflow.org \"pi\" already exists"}),
                7,
                "MPIJob \"pi\" already exists in namespace \"team-cv\"",
            ),
            (
                json!({"code": 404, "reason": "NotFound", "message": "namespaces \"team-cv\" not found", "details": {"kind": "namespaces", "name": "team-cv"}}),
                3,
                "namespace \"team-cv\" not found",
            ),
            (
                json!({"code": 404, "reason": "NotFound", "message": "404 page not found"}),
                3,
                "this cluster does not support MPIJobs (kubeflow.org/v2beta1)",
            ),
            (
                json!({"code": 422, "reason": "Invalid", "message": "long", "details": {"causes": [{"field": "spec.slotsPerWorker", "message": "Invalid value: -1: should be at least 0", "reason": "FieldValueInvalid"}]}}),
                5,
                "spec.slotsPerWorker: Invalid value: -1: should be at least 0",
            ),
            (
                json!({"code": 401, "reason": "Unauthorized", "message": "Unauthorized"}),
                4,
                "not authenticated: your credentials are missing, invalid or expired",
            ),
            (
                json!({"code": 401, "reason": "Unauthorized", "message": "the token has expired"}),
                4,
                "not authenticated: your credentials are missing, invalid or expired; the server says: the token has expired",
            ),
        ];
        for (status, code, message) in table {
            assert_eq!(explained(status), (code, message.to_owned()));
        }
    }
}

//! Admission webhooks.
//!
//! Source: apiserver `pkg/admission/plugin/webhook/{generic,mutating,validating}`. A configuration is
//! compiled once per revision ([`hook`]). [`matching`] decides whether to call a webhook, [`review`] builds
//! the request and parses the response, and [`client`] makes the call. Mutating webhooks are called one after
//! the other, ordered by their configurations' names; validating ones concurrently.

mod client;
mod client_config;
pub mod hook;
mod identity;
pub mod invocation;
pub mod matching;
pub mod review;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::future::join_all;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Attributes, Operation, Round, settle};
use crate::status::{self, StatusError};
use crate::store::Resource;
use crate::{decoding, managed};
use hook::Hook;
use identity::Identity;
use invocation::Invocation;
use objects::patch;
use review::Answer;

/// The maximum number of concurrent calls; more wait.
const MAX_CALLS: usize = 256;

/// Webhooks by whether they are mutating and by configuration, with the revision that they were compiled
/// from.
type Compiled = HashMap<(bool, String), (u64, Arc<Vec<Hook>>)>;

/// The compiled webhooks, and the limit on calls.
pub struct Hooks {
    compiled: Mutex<Compiled>,
    calls: Semaphore,
    identity: OnceLock<Option<Arc<Identity>>>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self { compiled: Mutex::default(), calls: Semaphore::new(MAX_CALLS), identity: OnceLock::new() }
    }
}

impl Hooks {
    /// Returns the API server's client identity; `None` if it could not be generated.
    pub fn identity(&self) -> Option<Arc<Identity>> {
        let make = || match Identity::make() {
            Ok(identity) => Some(Arc::new(identity)),
            Err(error) => {
                tracing::warn!(error, "webhooks are called without a certificate");
                None
            }
        };
        self.identity.get_or_init(make).clone()
    }

    /// Returns the webhooks of all configurations, ordered by the configurations' names.
    fn all(&self, at: &Attributes<'_>, mutating: bool) -> Vec<Arc<Vec<Hook>>> {
        let plural =
            if mutating { "mutatingwebhookconfigurations" } else { "validatingwebhookconfigurations" };
        let resource = Resource::new("admissionregistration.k8s.io", plural);
        let store = &at.context.server.store;
        if store.count(&resource) == 0 || is_exempt(at) {
            return Vec::new();
        }
        let records = store.list(&resource, None).records;
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.retain(|(kind, name), _| {
            *kind != mutating || records.iter().any(|record| record.key.as_str() == name)
        });
        let of = |record: &Arc<crate::store::Record>| {
            let key = (mutating, record.key.as_str().to_owned());
            match compiled.get(&key) {
                Some((revision, hooks)) if *revision == record.revision => hooks.clone(),
                _ => {
                    let hooks = Arc::new(hook::compile(&record.value()));
                    compiled.insert(key, (record.revision, hooks.clone()));
                    hooks
                }
            }
        };
        records.iter().map(of).collect()
    }
}

/// Admission configuration is exempt from webhooks (`rules.IsExemptAdmissionConfigurationResource`).
fn is_exempt(at: &Attributes<'_>) -> bool {
    at.kind().group == "admissionregistration.k8s.io"
}

/// A failed call.
struct Failure {
    /// The reason, starting with `failed to call webhook` or similar.
    why: String,
}

/// The result of calling a webhook.
enum CallOutcome {
    Answered(Answer),
    Failed(Failure),
    Refused(StatusError),
}

async fn ask(
    at: &Attributes<'_>,
    hook: &Hook,
    invocation: &Invocation,
    states: [Option<&Value>; 2],
) -> CallOutcome {
    if at.dry_run && !hook.is_free_of_side_effects {
        let message = format!("admission webhook \"{}\" does not support dry run", hook.name);
        return CallOutcome::Refused(status::bad_request(message));
    }
    let uid = uuid::Uuid::new_v4().to_string();
    let body = review::request(at, hook.review_version, invocation, &uid, states);
    let server = at.context.server;
    let called = tokio::time::timeout(hook.timeout, async {
        // The semaphore is never closed.
        let _permit = server.hooks.calls.acquire().await;
        client::call(server, hook, body).await
    });
    let answer = match called.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return CallOutcome::Failed(Failure { why: format!("failed to call webhook: {error}") });
        }
        Err(_) => {
            let why = format!(
                "failed to call webhook: Post \"{}\": context deadline exceeded",
                hook.client_config.url(hook.timeout)
            );
            return CallOutcome::Failed(Failure { why });
        }
    };
    match review::read(&answer, hook, &uid) {
        Ok(answer) => CallOutcome::Answered(answer),
        Err(why) => CallOutcome::Failed(Failure { why }),
    }
}

/// Handles a failed call by the failure policy: ignores it or rejects the request.
fn failed(hook: &Hook, failure: &Failure) -> Result<(), StatusError> {
    let message = format!("failed calling webhook \"{}\": {}", hook.name, failure.why);
    if hook.ignores_failure {
        tracing::warn!(webhook = hook.name, configuration = hook.configuration, "failing open: {message}");
        return Ok(());
    }
    Err(status::internal(message))
}

fn take_notes(at: &Attributes<'_>, hook: &Hook, answer: &Answer) {
    for warning in &answer.warnings {
        at.context.warn(warning.as_str());
    }
    for (key, value) in &answer.audit_annotations {
        at.context.annotate(format!("{}/{key}", hook.name), value.clone());
    }
}

/// Calls each matching mutating webhook in order, or only those of `only`.
///
/// # Errors
/// The first error.
pub async fn round(
    at: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    only: Option<&[usize]>,
) -> Result<Round, StatusError> {
    let configurations = at.context.server.hooks.all(at, true);
    let mut round = Round::default();
    for (place, hook) in configurations.iter().flat_map(|hooks| hooks.iter()).enumerate() {
        if only.is_some_and(|only| !only.contains(&place)) {
            continue;
        }
        let present = Some(&*object).filter(|object| !object.is_null());
        let Some(invocation) = matching::invocation(at, hook, present, old)? else { continue };
        let outcome = ask(at, hook, &invocation, [present, old]).await;
        round.asked.push((place, hook.reinvokes));
        match outcome {
            CallOutcome::Refused(refusal) => return Err(refusal),
            CallOutcome::Failed(failure) => failed(hook, &failure)?,
            CallOutcome::Answered(answer) => {
                take_notes(at, hook, &answer);
                if let Some(refusal) = answer.refusal {
                    return Err(refusal);
                }
                let is_changed = match &answer.patch {
                    Some(patch) => apply(at, hook, &invocation, patch, object)?,
                    None => false,
                };
                if is_changed {
                    round.changed_by = Some(place);
                }
            }
        }
    }
    Ok(round)
}

/// Applies a webhook's patch; returns whether it changed the object.
fn apply(
    at: &Attributes<'_>,
    hook: &Hook,
    invocation: &Invocation,
    operations: &Value,
    object: &mut Value,
) -> Result<bool, StatusError> {
    if operations.as_array().is_some_and(Vec::is_empty) {
        return Ok(false);
    }
    if at.operation == Operation::Delete {
        return Err(status::internal(format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    }
    let asked = invocation.convert(at, object).into_owned();
    let next = patch::json(&asked, operations).map_err(status::internal)?;
    adopt(at, object, &asked, next)
}

/// Replaces the object with what a webhook or policy made of `asked`, which is the object in the version it
/// received. Returns whether the object changed.
///
/// # Errors
/// 500 if the result isn't valid for its kind.
pub fn adopt(
    at: &Attributes<'_>,
    object: &mut Value,
    asked: &Value,
    mut next: Value,
) -> Result<bool, StatusError> {
    if next["apiVersion"] == asked["apiVersion"] {
        next["apiVersion"] = object["apiVersion"].clone();
    }
    settle(at, &mut next)?;
    keep_managers(at, object, &mut next);
    let is_changed = *object != next;
    *object = next;
    Ok(is_changed)
}

/// Restores managedFields if a webhook made them invalid (`managedFieldsValidatingAdmissionController`).
fn keep_managers(at: &Attributes<'_>, before: &Value, after: &mut Value) {
    if before["metadata"]["managedFields"] == after["metadata"]["managedFields"]
        || managed::is_valid(after)
        || decoding::metadata(after).is_err()
    {
        return;
    }
    at.context.warn(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
         mutating admission controller; please fix your requests: the record has been kept as it was",
    );
    after["metadata"]["managedFields"] = before["metadata"]["managedFields"].clone();
}

/// Calls all matching validating webhooks concurrently.
///
/// # Errors
/// The first error, in the order of the webhooks.
pub async fn validate(
    at: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), StatusError> {
    let configurations = at.context.server.hooks.all(at, false);
    let mut due = Vec::new();
    for hook in configurations.iter().flat_map(|hooks| hooks.iter()) {
        if let Some(invocation) = matching::invocation(at, hook, object, old)? {
            due.push((hook, invocation));
        }
    }
    let asked = due.iter().map(|(hook, invocation)| ask(at, hook, invocation, [object, old]));
    let outcomes = join_all(asked).await;
    let mut result = Ok(());
    for ((hook, _), outcome) in due.iter().zip(outcomes) {
        let verdict = match outcome {
            CallOutcome::Refused(refusal) => Err(refusal),
            CallOutcome::Failed(failure) => failed(hook, &failure),
            CallOutcome::Answered(answer) => {
                take_notes(at, hook, &answer);
                answer.refusal.map_or(Ok(()), Err)
            }
        };
        result = result.and(verdict);
    }
    result
}

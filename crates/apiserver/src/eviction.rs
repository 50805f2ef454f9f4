//! pods/eviction: a deletion that a PodDisruptionBudget can reject.
//!
//! Rules: `pkg/registry/core/pod/storage/eviction.go`. The budget is charged before the pod is deleted,
//! guarded by its resourceVersion, so two evictions never share one allowance.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request_context::RequestContext;
use super::status::{self, About, StatusError};
use crate::store::{self, Record, Resource};
use objects::LabelSelector;
use semantics::{has_ended, is_deleted, is_ready, phase};

/// The number of attempts in case of conflicts.
const MAX_ATTEMPTS: usize = 20;
/// The maximum number of evicted pods in a budget's status (`MaxDisruptedPodSize`).
const MAX_DISRUPTED: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Charges an eviction to the pod's budget.
///
/// # Errors
/// 429 if the budget doesn't allow it, 500 if several budgets select the pod.
pub async fn charge(context: &RequestContext<'_>, pod: &Value, dry_run: bool) -> Result<(), StatusError> {
    if is_free(pod) {
        return Ok(());
    }
    let budgets = Resource::new("policy", "poddisruptionbudgets");
    for _ in 0..MAX_ATTEMPTS {
        let mut own = context.server.store.list(&budgets, context.action.namespace).records;
        own.retain(|budget| covers(&budget.value(), pod));
        let budget: Arc<Record> = match own.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(StatusError::new(500, "", message));
            }
        };
        if spares(&budget.value(), pod) {
            return Ok(());
        }
        let next = charged(context, &budget.value())?;
        if dry_run {
            return Ok(());
        }
        match context.server.store.replace(&budgets, &budget.key, budget.revision, next).await {
            Ok(_) => return Ok(()),
            Err(store::Error::Changed(_)) => {}
            Err(error) => return Err(status::unwritten(error)),
        }
    }
    Err(busy(text(&pod["metadata"]["name"])))
}

/// Sets the pod's condition DisruptionTarget before the pod is deleted (`addConditionAndDeletePod`).
///
/// # Errors
/// 429 if all attempts conflict.
pub async fn mark(context: &RequestContext<'_>) -> Result<(), StatusError> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(pod) = context.server.store.get(&context.entry.resource, &context.key()) else {
            return Ok(());
        };
        let Some(next) = marked(&pod.value(), &context.timestamp()) else { return Ok(()) };
        match context.server.store.replace(&context.entry.resource, &pod.key, pod.revision, next).await {
            Ok(_) => return Ok(()),
            Err(store::Error::Changed(_)) => {}
            Err(error) => return Err(status::unwritten(error)),
        }
    }
    Err(busy(context.action.name))
}

/// Returns the pod with the condition DisruptionTarget; `None` if it already has it.
fn marked(pod: &Value, now: &Value) -> Option<Value> {
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().position(|condition| condition["type"] == "DisruptionTarget");
    let before = known.and_then(|at| conditions.get(at)).unwrap_or(&Value::Null);
    let since = if before["status"] == "True" { &before["lastTransitionTime"] } else { now };
    let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": since });
    let is_same = ["status", "reason", "message"].iter().all(|field| condition[field] == before[field]);
    if is_same {
        return None;
    }
    match known.and_then(|at| conditions.get_mut(at)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    let mut next = pod.clone();
    next["status"]["conditions"] = conditions.into();
    Some(next)
}

/// Returns whether no budget applies because the pod isn't running (`canIgnorePDB`).
fn is_free(pod: &Value) -> bool {
    has_ended(pod) || phase(pod) == "Pending" || is_deleted(pod)
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    !selector.is_null() && LabelSelector::of(selector).is_ok_and(|selector| selector.matches(pod))
}

/// Returns whether the pod may be evicted without a charge because it isn't ready, by the budget's
/// `unhealthyPodEvictionPolicy`.
fn spares(budget: &Value, pod: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let is_kept = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
    !is_ready(pod) && (is_kept || budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow")
}

/// Returns the budget with one allowed disruption less (`checkAndDecrement`).
fn charged(context: &RequestContext<'_>, budget: &Value) -> Result<Value, StatusError> {
    let (name, status) = (text(&budget["metadata"]["name"]), &budget["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or_default() {
        return Err(busy(name));
    }
    let about = About { group: "policy", resource: "poddisruptionbudget", name };
    if number("disruptionsAllowed") < 0 {
        return Err(status::forbidden(about, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(status::forbidden(about, why));
    }
    if number("disruptionsAllowed") == 0 {
        return Err(StatusError::new(429, "TooManyRequests", REFUSED).with_cause(
            "DisruptionBudget",
            &why(name, status),
            "",
        ));
    }
    let mut next = budget.clone();
    next["status"]["disruptionsAllowed"] = (number("disruptionsAllowed") - 1).into();
    next["status"]["disruptedPods"][context.action.name] = context.timestamp();
    Ok(next)
}

/// Explains why a budget allows no eviction.
fn why(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.into_iter().find(|c| c["type"] == "DisruptionAllowed").unwrap_or(&Value::Null);
    let (reason, message) = (text(&condition["reason"]), text(&condition["message"]));
    let is_said = condition["status"] == "False" && !message.is_empty();
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let (wanted, there) = (number("desiredHealthy"), number("currentHealthy"));
    let begin = format!("The disruption budget {name}");
    match (is_said, reason) {
        (true, "SyncFailed") => {
            format!("{begin} does not allow evicting pods currently because it failed sync: {message}")
        }
        _ if there <= wanted => format!("{begin} needs {wanted} healthy pods and has {there} currently"),
        (true, _) => format!("{begin} does not allow evicting pods currently ({reason}): {message}"),
        _ => format!("{begin} does not allow evicting pods currently"),
    }
}

fn busy(name: &str) -> StatusError {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    StatusError::new(429, "TooManyRequests", REFUSED).with_cause("DisruptionBudget", &why, "").retry_after(10)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

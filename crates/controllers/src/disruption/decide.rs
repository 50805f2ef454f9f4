//! Decides how many pods of a budget may be evicted. Pure.
//!
//! Rules: `pkg/controller/disruption/disruption.go` of Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use semantics::{is_deleted, is_ready, labels_match};

/// The condition that says whether any pod may be evicted.
pub const ALLOWED: &str = "DisruptionAllowed";
/// Its reason if that could not be computed.
pub const SYNC_FAILED: &str = "SyncFailed";
/// How long an evicted pod may take to be deleted before it counts as present again (`DeletionTimeout`).
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// The computed state of a budget.
#[derive(Debug)]
pub struct BudgetState {
    /// The budget's next status.
    pub status: PodDisruptionBudgetStatus,
    /// When the status changes through the passage of time alone.
    pub again: Option<Duration>,
    /// Whether pods without a controller were left out.
    pub has_unmanaged: bool,
}

/// Returns whether the budget's selector matches the pod. An empty selector matches all pods, a missing one none.
pub fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    budget.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector: &LabelSelector| labels_match(selector, &labels))
}

/// Computes a budget's next status from its pods. `scale` returns the UID of a pod's controller and the number of pods
/// that it wants.
///
/// # Errors
/// Why the status cannot be computed, for the condition and an Event.
pub fn verdict(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    scale: impl Fn(&Pod) -> Result<Option<(String, i32)>, String>,
    now: Timestamp,
) -> Result<BudgetState, String> {
    let spec = budget.spec.clone().unwrap_or_default();
    let expected = || {
        let (mut controllers, mut unmanaged) = (BTreeMap::new(), BTreeSet::new());
        for pod in pods {
            match scale(pod)? {
                Some((uid, wanted)) => drop(controllers.insert(uid, wanted)),
                None => drop(unmanaged.insert(pod.metadata.name.clone())),
            }
        }
        Ok::<_, String>((controllers.into_values().fold(0, i32::saturating_add), !unmanaged.is_empty()))
    };
    let (expected_pods, desired_healthy, has_unmanaged) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let (expected, unmanaged) = expected()?;
            (expected, expected.saturating_sub(part(most, expected)?).max(0), unmanaged)
        }
        (None, Some(IntOrString::Int(least))) => {
            (i32::try_from(pods.len()).unwrap_or(i32::MAX), *least, false)
        }
        (None, Some(share)) => {
            let (expected, unmanaged) = expected()?;
            (expected, part(share, expected)?, unmanaged)
        }
        (None, None) => (0, 0, false),
    };
    let before = budget.status.clone().unwrap_or_default();
    let (disrupted, again) = disrupted(&before, pods, now);
    let is_healthy = |pod: &&Arc<Pod>| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        !is_deleted(pod) && !disrupted.contains_key(name) && is_ready(pod)
    };
    let current_healthy = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let allowed = if expected_pods > 0 { current_healthy.saturating_sub(desired_healthy).max(0) } else { 0 };
    let generation = budget.metadata.generation;
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    Ok(BudgetState {
        status: PodDisruptionBudgetStatus {
            conditions: Some(condition(&before, generation, allowed > 0, reason, "", now)),
            current_healthy: Some(current_healthy),
            desired_healthy: Some(desired_healthy),
            disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
            disruptions_allowed: Some(allowed),
            expected_pods: Some(expected_pods),
            observed_generation: generation,
        },
        again,
        has_unmanaged,
    })
}

/// Returns the status of a budget that cannot be computed: nothing may be evicted (`failSafe`).
pub fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let before = budget.status.clone().unwrap_or_default();
    let conditions = condition(&before, before.observed_generation, false, SYNC_FAILED, why, now);
    PodDisruptionBudgetStatus {
        conditions: Some(conditions),
        disruptions_allowed: Some(0),
        current_healthy: before.current_healthy.or(Some(0)),
        desired_healthy: before.desired_healthy.or(Some(0)),
        expected_pods: before.expected_pods.or(Some(0)),
        ..before
    }
}

/// Converts a number of pods, or a percentage of `whole` rounded up.
fn part(amount: &IntOrString, whole: i32) -> Result<i32, String> {
    match amount {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let share = text.strip_suffix('%').and_then(|share| share.parse::<i64>().ok());
            let share = share.ok_or_else(|| {
                "invalid value for IntOrString: invalid type: string is not a percentage".to_owned()
            })?;
            Ok(i32::try_from(i64::from(whole).saturating_mul(share).saturating_add(99) / 100)
                .unwrap_or(i32::MAX))
        }
    }
}

/// Returns evicted pods that are not marked as deleted yet, and when the first of them counts as present again.
fn disrupted(
    before: &PodDisruptionBudgetStatus,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let (mut kept, mut again) = (BTreeMap::new(), None::<Duration>);
    for pod in pods.iter().filter(|pod| !is_deleted(pod)) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(since) = before.disrupted_pods.as_ref().and_then(|pods| pods.get(name)) else { continue };
        let left = DELETION_TIMEOUT - now.duration_since(since.0);
        if let Ok(left) = Duration::try_from(left) {
            kept.insert(name.to_owned(), since.clone());
            again = Some(again.map_or(left, |first| first.min(left)));
        }
    }
    (kept, again)
}

fn condition(
    before: &PodDisruptionBudgetStatus,
    generation: Option<i64>,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let status = if holds { "True" } else { "False" };
    let known = conditions.iter().find(|condition| condition.type_ == ALLOWED);
    let since = known.filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != ALLOWED);
    conditions.push(Condition {
        type_: ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: since.unwrap_or(Time(now)),
    });
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pods(of: &[(&str, bool)]) -> Vec<Arc<Pod>> {
        let pod = |(name, ready): &(&str, bool)| {
            let status = if *ready { "True" } else { "False" };
            let pod = json!({"metadata": {"name": name, "namespace": "n", "labels": {"a": "b"}},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        of.iter().map(pod).collect()
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "n", "generation": 2},
            "spec": spec, "status": status}))
        .unwrap()
    }

    #[test]
    fn a_budget_over_controllers_of_the_largest_size_is_counted() {
        let two = pods(&[("x", true), ("y", true)]);
        let set = |pod: &Pod| Ok(Some((pod.metadata.name.clone().unwrap_or_default(), i32::MAX)));
        for spec in [json!({"minAvailable": "100%"}), json!({"maxUnavailable": "9223372036854775807%"})] {
            let made = verdict(&budget(spec, json!({})), &two, set, Timestamp::UNIX_EPOCH).unwrap().status;
            assert_eq!(made.expected_pods, Some(i32::MAX));
        }
    }

    #[test]
    fn a_budget_allows_evicting_surplus_healthy_pods() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let three = pods(&[("x", true), ("y", true), ("z", false)]);
        let set = |_: &Pod| Ok(Some(("u".to_owned(), 4)));
        let table = [
            (json!({"minAvailable": 1}), (2, 1, 3, 1)),
            (json!({"minAvailable": 2}), (2, 2, 3, 0)),
            (json!({"minAvailable": "30%"}), (2, 2, 4, 0)),
            (json!({"maxUnavailable": 3}), (2, 1, 4, 1)),
            (json!({"maxUnavailable": "100%"}), (2, 0, 4, 2)),
        ];
        for (spec, expected) in table {
            let made = verdict(&budget(spec.clone(), json!({})), &three, set, now).unwrap().status;
            let got = (
                made.current_healthy.unwrap(),
                made.desired_healthy.unwrap(),
                made.expected_pods.unwrap(),
                made.disruptions_allowed.unwrap(),
            );
            assert_eq!(got, expected, "{spec}");
            let condition = &made.conditions.unwrap()[0];
            assert_eq!(condition.status == "True", expected.3 > 0, "{spec}");
            assert_eq!(made.observed_generation, Some(2));
        }
        let nobody = |_: &Pod| Err("found no controllers for pod \"x\"".to_owned());
        let share = budget(json!({"maxUnavailable": 1}), json!({}));
        assert_eq!(verdict(&share, &three, nobody, now).unwrap_err(), "found no controllers for pod \"x\"");
        assert!(verdict(&share, &three, |_| Ok(None), now).unwrap().has_unmanaged);
    }

    #[test]
    fn an_evicted_pod_counts_as_gone_for_two_minutes() {
        let now: Timestamp = "2026-01-01T00:01:30Z".parse().unwrap();
        let two = pods(&[("x", true), ("y", true)]);
        let status = json!({"disruptedPods": {"x": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"},
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        let spec = json!({"minAvailable": 1});
        let early = verdict(&budget(spec.clone(), status.clone()), &two, |_| Ok(None), now).unwrap();
        assert_eq!(early.status.disruptions_allowed, Some(0));
        assert_eq!(early.again, Some(Duration::from_secs(30)));
        assert_eq!(early.status.disrupted_pods.unwrap().len(), 1);
        let late = now.checked_add(SignedDuration::from_secs(31)).unwrap();
        let late = verdict(&budget(spec, status), &two, |_| Ok(None), late).unwrap();
        assert_eq!(late.status.disruptions_allowed, Some(1));
        assert_eq!(late.status.disrupted_pods, None);
    }
}

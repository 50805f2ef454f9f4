//! The state of a pod as seen by its Job: active, ready, terminating, succeeded, failed. Pure.
//!
//! Rules: `pkg/controller/job/job_controller.go` (`isPodFailed`, `getFinishTimeOfPod`) and
//! `pkg/controller/controller_utils.go` (`FilterActivePods`, `ActivePods`) of Kubernetes 1.36.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use semantics::{has_ended, is_deleted, is_ready, phase};

/// The finalizer that keeps a pod until its end has been counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation with a pod's completion index in an Indexed Job.
pub const INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";

/// Returns whether the pod has neither ended nor is being deleted.
pub fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && !is_deleted(pod)
}

/// Returns whether the pod is being deleted and has not ended.
pub fn is_terminating(pod: &Pod) -> bool {
    !has_ended(pod) && is_deleted(pod)
}

fn conditions(pod: &Pod) -> &[k8s_openapi::api::core::v1::PodCondition] {
    pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

/// Returns whether a replacement may be created only after the old pod has ended (`podReplacementPolicy`;
/// `podFailurePolicy` changes its default).
pub fn replaces_only_failed(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    match spec.and_then(|s| s.pod_replacement_policy.as_deref()) {
        Some(policy) => policy == "Failed",
        None => spec.is_some_and(|s| s.pod_failure_policy.is_some()),
    }
}

/// Returns whether the pod counts as failed. A deleted pod may never reach the phase Failed, so it counts at once
/// unless the Job waits for the end of each pod.
pub fn is_failed(pod: &Pod, only_failed: bool) -> bool {
    phase(pod) == "Failed" || (!only_failed && is_deleted(pod) && phase(pod) != "Succeeded")
}

/// Returns whether the pod has the tracking finalizer: its end is not counted, or the count is not yet confirmed.
pub fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|f| f == TRACKING_FINALIZER)
}

/// Returns the pod's completion index.
pub fn index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX_ANNOTATION)?.parse().ok().filter(|index| *index >= 0)
}

/// Returns the pod's uid; empty if it was never stored.
pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or("")
}

/// Returns when the pod ended: the end of its last container, or else when it stopped being ready, was deleted, or was
/// created.
pub fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let ends: Option<Vec<Timestamp>> = statuses
        .iter()
        .map(|s| Some(s.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0))
        .collect();
    ends.and_then(|ends| ends.into_iter().max())
        .or_else(|| {
            let ready = conditions(pod).iter().find(|c| c.type_ == "Ready" && c.status == "False")?;
            Some(ready.last_transition_time.as_ref()?.0)
        })
        .or_else(|| Some(pod.metadata.deletion_timestamp.as_ref()?.0))
        .or_else(|| Some(pod.metadata.creation_timestamp.as_ref()?.0))
}

/// Returns the number of container restarts of a pod that has not ended; otherwise 0.
pub fn restarts(pod: &Pod) -> i32 {
    if !matches!(phase(pod), "Running" | "Pending") {
        return 0;
    }
    let Some(status) = &pod.status else { return 0 };
    let of = |list: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| {
        list.iter().flatten().map(|s| s.restart_count).fold(0, i32::saturating_add)
    };
    of(&status.init_container_statuses).saturating_add(of(&status.container_statuses))
}

/// Sorts pods by what they would lose, least first: not yet placed, not yet running, not ready, youngest.
pub fn cheapest_first(pods: &mut [&Pod]) {
    pods.sort_by_key(|pod| {
        let placed = pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
        let created = pod.metadata.creation_timestamp.as_ref().map(|t| t.0);
        (
            placed,
            phase(pod) == "Running",
            is_ready(pod),
            std::cmp::Reverse(created),
            pod.metadata.name.clone(),
        )
    });
}

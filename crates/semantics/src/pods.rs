//! The state of a pod: its phase, whether it has ended, whether it is ready (`pkg/api/v1/pod/util.go`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::kept;

/// What the state of a pod is read from, so that the rules hold for typed, raw and reduced pods alike.
pub trait PodState {
    /// Returns `status.phase`.
    fn status_phase(&self) -> Option<&str>;
    /// Returns whether the pod has this condition with the status `True`.
    fn has_condition(&self, type_: &str) -> bool;
    /// Returns whether `metadata.deletionTimestamp` is set.
    fn is_marked(&self) -> bool;
}

/// Implements [`PodState`] for complete and reduced pods: they have these fields in common.
macro_rules! pod_state {
    ($pod:ty) => {
        impl PodState for $pod {
            fn status_phase(&self) -> Option<&str> {
                self.status.as_ref()?.phase.as_deref()
            }

            fn has_condition(&self, type_: &str) -> bool {
                let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
                conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
            }

            fn is_marked(&self) -> bool {
                self.metadata.deletion_timestamp.is_some()
            }
        }
    };
}

pod_state!(Pod);
pod_state!(kept::Pod);

impl PodState for Value {
    fn status_phase(&self) -> Option<&str> {
        self["status"]["phase"].as_str()
    }

    fn has_condition(&self, type_: &str) -> bool {
        let conditions = self["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
    }

    fn is_marked(&self) -> bool {
        !self["metadata"]["deletionTimestamp"].is_null()
    }
}

impl<P: PodState> PodState for &P {
    fn status_phase(&self) -> Option<&str> {
        (**self).status_phase()
    }

    fn has_condition(&self, type_: &str) -> bool {
        (**self).has_condition(type_)
    }

    fn is_marked(&self) -> bool {
        (**self).is_marked()
    }
}

impl<P: PodState> PodState for Arc<P> {
    fn status_phase(&self) -> Option<&str> {
        (**self).status_phase()
    }

    fn has_condition(&self, type_: &str) -> bool {
        (**self).has_condition(type_)
    }

    fn is_marked(&self) -> bool {
        (**self).is_marked()
    }
}

/// Returns the pod's phase; `Pending` before it has a status, as the API server sets it.
pub fn phase(pod: &impl PodState) -> &str {
    pod.status_phase().unwrap_or("Pending")
}

/// Returns whether no container of a pod in this phase runs again (`IsPodPhaseTerminal`).
pub fn is_ended_phase(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// Returns whether the pod has ended and holds no resources any more.
pub fn has_ended(pod: &impl PodState) -> bool {
    is_ended_phase(phase(pod))
}

/// Returns whether the pod's condition `Ready` is True (`IsPodReady`).
pub fn is_ready(pod: &impl PodState) -> bool {
    pod.has_condition("Ready")
}

/// Returns whether the pod is being deleted.
pub fn is_deleted(pod: &impl PodState) -> bool {
    pod.is_marked()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(pod: &impl PodState) -> (&str, bool, bool, bool) {
        (phase(pod), has_ended(pod), is_ready(pod), is_deleted(pod))
    }

    #[test]
    fn typed_and_raw_pods_have_the_same_state() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        for (name, pod, expected) in [
            ("without status", json!({"metadata": {}}), ("Pending", false, false, false)),
            (
                "running",
                json!({"metadata": {}, "status": {"phase": "Running", "conditions": ready}}),
                ("Running", false, true, false),
            ),
            (
                "failed",
                json!({"metadata": {}, "status": {"phase": "Failed"}}),
                ("Failed", true, false, false),
            ),
            (
                "deleted",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Succeeded"}}),
                ("Succeeded", true, false, true),
            ),
        ] {
            let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
            assert_eq!(state(&pod), expected, "{name}, raw");
            assert_eq!(state(&typed), expected, "{name}, typed");
        }
    }
}

//! Gangs that are being restarted: why the last attempt failed, and what keeps the next from starting.

use api::{CONDITION_RESTARTING, MPIJobStatus};
use semantics::is_deleted;

use super::terminating::leaving;
use super::{Explanation, Situation, Stage, named};
use crate::conditions::condition;
use crate::kept::Pod;

/// A gang that is being restarted, while pods of the last attempt are still there.
pub(super) fn clearing(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    if status.phase_reason.as_deref() != Some(api::PHASE_REASON_RESTARTING) {
        return None;
    }
    let terminating: Vec<&Pod> = situation.pods.iter().filter(is_deleted).collect();
    let message = leaving(terminating.iter().map(|pod| &pod.metadata))?;
    let since = condition(status, CONDITION_RESTARTING)
        .and_then(|restarting| restarting.last_transition_time.as_ref())
        .map(|time| time.0);
    let told = Explanation::new(Stage::Restarting, message, since);
    Some(after_last_attempt(Explanation { evidence: named(&terminating), ..told }, status))
}

/// Adds to a restart why the last attempt failed, unless something else keeps the next one from starting.
pub(super) fn after_last_attempt(told: Explanation, status: &MPIJobStatus) -> Explanation {
    let restarting = condition(status, CONDITION_RESTARTING).filter(|restarting| restarting.status == "True");
    let failed = restarting.and_then(|restarting| restarting.message.as_ref());
    let Some(failed) = failed.filter(|_| told.state == Stage::Restarting && told.cause.is_none()) else {
        return told;
    };
    Explanation {
        // The next attempt is in the list, too, without a reason.
        cause: status.attempts.iter().rev().find_map(|attempt| attempt.reason.clone()),
        message: format!("{failed}: {}", lower_first(&told.message)),
        ..told
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explanation::explain;
    use crate::explanation::samples::{alone, job, pod, up};
    use diagnosis::Actor;

    #[test]
    fn a_restart_says_why_the_last_attempt_failed_and_what_it_waits_for() {
        let status = json!({ "phase": "Pending", "phaseReason": "Restarting", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{ "type": "Restarting", "status": "True", "reason": "MPIJobRestarting",
                "message": "Attempt 1 of 3 failed: Worker 1 was lost; restarting the gang", "lastTransitionTime": "2026-01-01T00:00:09Z" }],
            "attempts": [{ "number": 1, "outcome": "Failed", "reason": "WorkerLost" }] });
        let job = job(status, json!({}));
        let mut pods = [pod("pi-worker-0", up("True")), pod("pi-worker-1", up("True"))];
        pods[0].metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:39Z")).unwrap();
        let found = explain(&Situation { pods: &pods, ..alone(&job) });
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Restarting, Some("WorkerLost")));
        assert_eq!((found.actor, found.evidence), (Actor::Nobody, vec!["pod pi-worker-0".to_owned()]));
        assert_eq!(
            found.message,
            "Attempt 1 of 3 failed: Worker 1 was lost; restarting the gang: its pods are terminating, which they may do until 00:00:39 UTC; the next attempt starts after that"
        );
        assert_eq!(found.since.unwrap().to_string(), "2026-01-01T00:00:09Z");
        let found = explain(&Situation { pods: &pods[1..], ..alone(&job) });
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Restarting, Some("WorkerLost")));
        assert!(
            found.message.ends_with("restarting the gang: 1 of 2 Workers are created"),
            "{}",
            found.message
        );
    }
}

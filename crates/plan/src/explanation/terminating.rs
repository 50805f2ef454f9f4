//! Jobs that wait until pods that came before theirs are gone: those of the last attempt, of the run before a suspension,
//! or of a deleted job of the same name.

use api::{MPIJobStatus, WAITING_FOR_DELETED_JOB};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use semantics::is_deleted;

use super::{Explanation, Situation, Stage, is_running_job, named};
use crate::conditions::condition;
use crate::kept::Pod;

/// What a restart waits for before it creates pods: until when those of the last attempt have ended. `None` if none is
/// left.
#[must_use]
pub fn leaving<'a>(pods: impl Iterator<Item = &'a ObjectMeta>) -> Option<String> {
    let until = terminating_until(pods)?;
    Some(format!(
        "its pods are terminating, which they may do until {until} UTC; the next attempt starts after that"
    ))
}

/// What a job waits for whose name belonged to a job that was deleted: until when the pods of that one have ended.
pub(crate) fn leaving_names(left_behind: &[ObjectMeta]) -> String {
    match terminating_until(left_behind.iter()) {
        Some(until) => format!(
            "Pods of a deleted job of this name are terminating, which they may do until {until} UTC; this job starts after \
             that"
        ),
        None => {
            "Objects of a deleted job of this name are being removed; this job starts after that".to_owned()
        }
    }
}

/// What a resumed job waits for before its Launcher starts: until when the pods of the run before the suspension have
/// ended. `None` if the job was not suspended, or none of them is left.
#[must_use]
pub fn leaving_after_resume<'a>(
    status: &MPIJobStatus,
    pods: impl Iterator<Item = &'a ObjectMeta>,
) -> Option<String> {
    let resumed = condition(status, api::CONDITION_SUSPENDED).filter(|known| known.status == "False");
    let since = status.start_time.as_ref().filter(|_| resumed.is_some())?.0;
    let is_older = |pod: &&ObjectMeta| pod.creation_timestamp.as_ref().is_some_and(|time| time.0 < since);
    let until = terminating_until(pods.filter(is_older))?;
    Some(format!(
        "Pods of the run before the suspension are terminating, which they may do until {until} UTC; the Launcher \
         starts after that"
    ))
}

/// The time of day at which the grace period of the last terminating pod ends; the API server sets it.
fn terminating_until<'a>(pods: impl Iterator<Item = &'a ObjectMeta>) -> Option<String> {
    let last = pods.filter_map(|metadata| metadata.deletion_timestamp.as_ref()).map(|time| time.0).max()?;
    Some(last.strftime("%H:%M:%S").to_string())
}

/// A job that was resumed while pods of its former run are still there.
pub(super) fn resuming(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    if is_running_job(status) {
        return None;
    }
    let terminating: Vec<&Pod> = situation.pods.iter().filter(is_deleted).collect();
    let message = leaving_after_resume(status, terminating.iter().map(|pod| &pod.metadata))?;
    let since = status.start_time.as_ref().map(|time| time.0);
    Some(Explanation { evidence: named(&terminating), ..Explanation::new(Stage::Creating, message, since) })
}

/// A job that waits until what a deleted job of its name has left is gone.
pub(super) fn following(status: &MPIJobStatus) -> Option<Explanation> {
    let waiting = status.waiting.as_ref().filter(|waiting| waiting.reason == WAITING_FOR_DELETED_JOB)?;
    let since = waiting.since.as_ref().map(|since| since.0);
    Some(Explanation::new(Stage::Creating, waiting.message.clone(), since))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explanation::explain;
    use crate::explanation::samples::{alone, job, pod, up};
    use diagnosis::Actor;

    #[test]
    fn a_resumed_job_says_which_pods_of_its_former_run_it_waits_for() {
        let status = json!({ "phase": "Pending", "phaseReason": "Initializing", "startTime": "2026-01-01T00:05:00Z",
            "conditions": [{ "type": "Suspended", "status": "False", "reason": "MPIJobResumed", "message": "m" }] });
        let job = job(status, json!({}));
        let mut pods = [pod("pi-worker-0", up("True")), pod("pi-worker-1", up("True"))];
        pods[0].metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:05:29Z")).unwrap();
        let found = explain(&Situation { pods: &pods, ..alone(&job) });
        assert_eq!((found.state, found.cause, found.actor), (Stage::Creating, None, Actor::Nobody));
        assert_eq!(
            found.message,
            "Pods of the run before the suspension are terminating, which they may do until 00:05:29 UTC; the Launcher \
             starts after that"
        );
        assert_eq!(found.evidence, ["pod pi-worker-0"]);
        // A Worker of this run that is deleted is none of them.
        pods[0].metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T00:05:01Z")).unwrap();
        let found = explain(&Situation { pods: &pods, ..alone(&job) });
        assert!(!found.message.contains("suspension"), "{}", found.message);
    }
}

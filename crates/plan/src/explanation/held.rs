//! Jobs that are held back before they have pods: by another manager, by a user who suspended them, or by a queue.

use api::{MPIJobStatus, REASON_VALIDATION};
use jiff::Timestamp;

use super::{Explanation, QueuePlace, Situation, Stage};
use crate::conditions::condition;
use crate::validate::is_ours;
use diagnosis::Actor;

/// A job that another controller manages and that this operator leaves alone.
pub(super) fn elsewhere(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    let job = situation.job;
    if situation.kind != "MPIJob" || is_ours(job) || !status.conditions.is_empty() {
        return None;
    }
    let manager = job.spec.run_policy.as_ref().and_then(|policy| policy.managed_by.as_deref())?;
    let since = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let message =
        format!("{manager:?} manages this job (runPolicy.managedBy), so this operator does nothing about it");
    Some(Explanation {
        actor: Actor::Administrator,
        advice: Some(
            format!(
                "Look at what that controller reports, or ask its administrator. To have this operator run the job, create it \
                 without runPolicy.managedBy or with {:?}.",
                api::MANAGED_BY_US
            )
            .into(),
        ),
        ..Explanation::new(Stage::Creating, message, since)
    })
}

/// A suspended job, held back by a user or a queue.
pub(super) fn held(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    let job = situation.job;
    let suspended = job.spec.run_policy.as_ref().and_then(|policy| policy.suspend) == Some(true);
    if !suspended {
        return None;
    }
    let since = condition(status, api::CONDITION_SUSPENDED)
        .and_then(|suspended| suspended.last_transition_time.as_ref())
        .or(job.metadata.creation_timestamp.as_ref())
        .map(|time| time.0);
    let queue = job.metadata.labels.as_ref().and_then(|labels| labels.get(api::LABEL_QUEUE_NAME));
    let told = match queue {
        Some(queue) => queued(queue, situation.place, since),
        None => Explanation {
            actor: Actor::User,
            advice: Some("Resume it to let it go on.".into()),
            ..Explanation::new(Stage::Suspended, "The job is suspended", since)
        },
    };
    // If the job itself is invalid, neither the queue nor a resumption lets it go on. Whatever its pods waited for
    // before it was suspended may still be in the status, but no longer matters.
    let is_invalid = status.waiting.as_ref().is_some_and(|waiting| waiting.reason == REASON_VALIDATION);
    Some(if is_invalid { told.because_of(None, status) } else { told })
}

/// A job that a queue holds back: its position, and why it waits.
fn queued(queue: &str, place: Option<&QueuePlace>, since: Option<Timestamp>) -> Explanation {
    if place.is_some_and(|place| place.unserved) {
        let message = format!(
            "The job waits in the queue {queue:?}, but the cluster has no Kueue: nothing will start it"
        );
        return Explanation {
            actor: Actor::User,
            advice: Some("Resume it yourself, or ask an administrator to install Kueue.".into()),
            ..Explanation::new(Stage::Queued, message, since)
        };
    }
    let number = place.and_then(|place| Some((place.position?, place.waiting)));
    let message = match number {
        Some((position, waiting)) => format!(
            "The job waits in the queue {queue:?}: position {position} of {waiting} in this namespace. \
             Estimated wait time: unknown (the queue does not say how long its workloads take)"
        ),
        None => format!("The job waits in the queue {queue:?}"),
    };
    let evidence = place.map(|place| match &place.why {
        Some(why) => format!("workload {}: {why}", place.workload),
        None => format!("workload {}", place.workload),
    });
    Explanation {
        actor: Actor::Administrator,
        evidence: evidence.into_iter().collect(),
        advice: Some(
            "It starts automatically when the queue has room; ask the queue's administrator about its quota."
                .into(),
        ),
        ..Explanation::new(Stage::Queued, message, since)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explanation::explain;
    use crate::explanation::samples::{alone, job};

    #[test]
    fn a_suspended_job_is_not_explained_by_what_its_pods_waited_for() {
        let before = json!({ "phase": "Pending",
            "waiting": { "reason": "Unschedulable", "message": "Insufficient GPUs: requested 16, available 2" } });
        let mut held = job(before, json!({ "suspend": true }));
        held.metadata.labels = None;
        let found = explain(&alone(&held));
        assert_eq!((found.state, found.cause), (Stage::Suspended, None));
    }

    #[test]
    fn a_queued_job_is_explained_with_its_position() {
        let job = job(json!({}), json!({ "suspend": true }));
        let why = "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu";
        let place = QueuePlace {
            workload: "mpijob-pi-1a2b3".to_owned(),
            position: Some(2),
            waiting: 3,
            why: Some(why.to_owned()),
            unserved: false,
        };
        let found = explain(&Situation { place: Some(&place), ..alone(&job) });
        assert!(found.message.contains("\"gpus\": position 2 of 3"), "{found:?}");
        assert_eq!(found.evidence, [format!("workload mpijob-pi-1a2b3: {why}")]);
        let unserved = QueuePlace { unserved: true, ..QueuePlace::default() };
        let found = explain(&Situation { place: Some(&unserved), ..alone(&job) });
        assert!(found.message.contains("the cluster has no Kueue: nothing will start it"), "{found:?}");
        assert_eq!(found.actor, Actor::User);
    }

    #[test]
    fn a_job_of_another_manager_names_that_manager() {
        let other = job(json!({}), json!({ "managedBy": "kueue.x-k8s.io/multikueue" }));
        let found = explain(&alone(&other));
        assert!(found.message.starts_with("\"kueue.x-k8s.io/multikueue\" manages this job"), "{found:?}");
        let ours = job(json!({}), json!({ "managedBy": api::MANAGED_BY_US }));
        assert_eq!(explain(&alone(&ours)).message, "No operator has picked up the job yet");
    }

    #[test]
    fn a_held_job_is_explained_by_who_holds_it() {
        let job = job(json!({}), json!({ "suspend": true }));
        let found = explain(&alone(&job));
        assert_eq!((found.state, found.actor), (Stage::Queued, Actor::Administrator));
        assert!(found.message.contains("\"gpus\""));
    }

    #[test]
    fn a_held_job_that_is_invalid_says_what_to_correct() {
        let status = json!({ "phase": "Pending", "phaseReason": "Queued", "waiting": { "reason": "ValidationError",
            "message": "Found validation errors: it has", "suggestion": "use a duration like 90s" } });
        let job = job(status, json!({ "suspend": true }));
        let found = explain(&alone(&job));
        assert_eq!((found.state, found.actor), (Stage::Queued, Actor::User));
        assert_eq!(found.cause.as_deref(), Some("ValidationError"));
        assert_eq!(found.advice, Some("use a duration like 90s".into()));
    }
}

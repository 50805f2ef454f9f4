//! A job as the history has it, computed from the raw object by the functions that every interface shares. Pure.

use api::{ANNOTATION_ATTEMPT, AttemptOutcome, MPIJobStatus};
use history::jobs::{Attempt, Observation, State, Workers};
use jiff::Timestamp;
use jobs::{Kind, view};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;

/// A job at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its state. `at` is when this state was reached as far as the object says so.
    pub observation: Observation,
    /// Its attempts, if its kind counts them.
    pub attempts: Vec<Attempt>,
}

impl Seen {
    /// Computes it from a job.
    pub fn of(object: &DynamicObject) -> Self {
        let row = view::row(object);
        let job = view::in_our_words(object);
        let status = job.status.unwrap_or_default();
        let created = row.created.unwrap_or_default();
        let failure = status.failure.as_ref().map(|failure| failure.message.clone());
        let waiting = status.waiting.as_ref().map(|waiting| waiting.message.clone());
        let state = State {
            phase: view::phase_name(row.phase).to_owned(),
            reason: row.phase_reason,
            cause: row.cause,
            message: failure.or(waiting).filter(|message| !message.is_empty()),
            attempt: attempt(row.kind, object, &status),
            workers: Workers {
                running: number(row.workers.running),
                pending: number(row.workers.pending),
                failed: number(row.workers.failed),
                of: number(row.workers.of),
            },
        };
        let observation = Observation {
            uid: row.uid,
            kind: row.kind.name().to_owned(),
            namespace: row.namespace,
            name: row.name,
            owner: row.owner,
            created,
            started: row.started,
            finished: row.finished,
            version: object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0),
            at: row.finished.or_else(|| last_transition(&status)).unwrap_or(created),
            state,
            shown: row.state.to_string(),
            spec: None,
        };
        Self { observation, attempts: attempts(&status) }
    }

    /// Whether it differs from an earlier state in anything that the history has.
    pub fn is_news_after(&self, before: &Seen) -> bool {
        let without_moment = |seen: &Seen| Seen {
            observation: Observation { version: 0, at: Timestamp::UNIX_EPOCH, ..seen.observation.clone() },
            attempts: seen.attempts.clone(),
        };
        without_moment(self) != without_moment(before)
    }
}

fn number(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// The number of the current attempt; 0 if the kind counts none.
fn attempt(kind: Kind, object: &DynamicObject, status: &MPIJobStatus) -> u32 {
    let listed = status.attempts.last().map(|attempt| number(attempt.number));
    let annotated = object.annotations().get(ANNOTATION_ATTEMPT).and_then(|number| number.parse().ok());
    listed.or(annotated).unwrap_or(u32::from(kind == Kind::MpiJob))
}

fn last_transition(status: &MPIJobStatus) -> Option<Timestamp> {
    status.conditions.iter().filter_map(|condition| Some(condition.last_transition_time.as_ref()?.0)).max()
}

/// The attempts that a job's status lists.
pub fn attempts(status: &MPIJobStatus) -> Vec<Attempt> {
    let last = status.attempts.last().map(|attempt| attempt.number);
    let of = |attempt: &api::Attempt| {
        let failure = status.failure.as_ref().filter(|_| Some(attempt.number) == last);
        let evidence = failure.map(|failure| &failure.evidence).filter(|evidence| !evidence.is_empty());
        let phase = match attempt.outcome {
            AttemptOutcome::Active => None,
            AttemptOutcome::Succeeded => Some("Succeeded"),
            AttemptOutcome::Failed => Some("Failed"),
        };
        Attempt {
            number: number(attempt.number),
            started: attempt.start_time.as_ref().map(|time| time.0),
            finished: attempt.completion_time.as_ref().map(|time| time.0),
            phase: phase.map(str::to_owned),
            worker: failure.and_then(|failure| failure.worker).map(|worker| worker.to_string()),
            exit_code: attempt.exit_code.map(i64::from),
            cause: attempt.reason.clone(),
            message: attempt.message.clone(),
            evidence: evidence.map(|evidence| json!(evidence)),
            last_lines: None,
        }
    };
    status.attempts.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn object(version: u32, status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "resnet", "namespace": "team-cv", "uid": "u-1", "resourceVersion": version.to_string(),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": { "training.opendatahub.io/owner": "jane" } },
            "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": 4 } } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_failed_job_is_seen_with_its_cause_and_its_attempts() {
        let seen = Seen::of(&object(
            7,
            json!({ "phase": "Failed", "phaseReason": "OutOfMemory", "completionTime": "2026-01-01T01:00:00Z",
                "failure": { "reason": "OutOfMemory", "message": "too much", "worker": 2, "evidence": ["Killed"] },
                "attempts": [
                    { "number": 1, "outcome": "Failed", "reason": "WorkerLost", "exitCode": 137 },
                    { "number": 2, "outcome": "Failed", "reason": "OutOfMemory", "exitCode": 1 }] }),
        ));
        let Observation { version, at, state, owner, .. } = &seen.observation;
        assert_eq!((*version, at.to_string().as_str()), (7, "2026-01-01T01:00:00Z"));
        assert_eq!((owner.as_deref(), state.attempt, state.workers.of), (Some("jane"), 2, 4));
        assert_eq!(
            (state.cause.as_deref(), state.message.as_deref()),
            (Some("OutOfMemory"), Some("too much"))
        );
        let of = |attempt: &Attempt| (attempt.number, attempt.cause.clone().unwrap(), attempt.worker.clone());
        let attempts: Vec<_> = seen.attempts.iter().map(of).collect();
        assert_eq!(
            attempts,
            [(1, "WorkerLost".to_owned(), None), (2, "OutOfMemory".to_owned(), Some("2".to_owned()))]
        );
    }

    #[test]
    fn only_what_the_history_has_is_news() {
        let before = Seen::of(&object(
            1,
            json!({ "phase": "Running", "workers": { "running": 1, "pending": 3, "failed": 0, "of": 4 } }),
        ));
        let same = Seen::of(&object(
            2,
            json!({ "phase": "Running", "workers": { "running": 1, "pending": 3, "failed": 0, "of": 4 },
            "trainerStatus": { "progressPercentage": 40 } }),
        ));
        assert!(!same.is_news_after(&before));
        let more = Seen::of(&object(
            3,
            json!({ "phase": "Running", "workers": { "running": 2, "pending": 2, "failed": 0, "of": 4 } }),
        ));
        assert!(more.is_news_after(&before));
    }
}

//! A job in the form shown to people: one row of a list, computed from the raw object.
//!
//! The phase comes from `status.phase` if the operator sets it, else from upstream's conditions, so that every list
//! uses the same terms, whichever operator reconciles the job. Pure.

pub mod health;
mod reported;
mod state;
mod told_failure;
mod workers;

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Failure, MPIJob, MPIJobSpec, MPIJobStatus, Phase, ReplicaSpec, WORKER};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Serialize;

use crate::Kind;
use crate::runtime::{self, RuntimeRef};

pub use reported::{ANNOTATION_TRAINER_STATUS, MAX_METRIC_LENGTH, MAX_METRICS, Reported, of as reported};
pub(crate) use state::SUSPENDED;
pub use state::{CANCELLING, DELETING, JobAction, JobHealth, JobState};
pub use workers::Workers;

/// A queue that a job is submitted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The job's place among those that wait, from 1; `None` if it does not wait, or its place is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// The columns of a job in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its kind.
    pub kind: Kind,
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// The job's UID.
    pub uid: String,
    /// Its phase.
    pub phase: Phase,
    /// The reason for the phase, one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_reason: Option<String>,
    /// Why the job failed, what keeps it from starting, why it hangs or is tried again, or why its success is doubtful, one
    /// CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Its state: the phase with what is most worth knowing about it, such as `Pending (ImagePull)`, `Running (Stalled)`,
    /// `Retrying (OutOfMemory)`, `Cancelled`.
    pub state: JobState,
    /// How it is, for the colour of its state.
    pub health: JobHealth,
    /// A sentence about its state, if there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether it has ended.
    pub ended: bool,
    /// What a person may do with it in its state.
    pub actions: Vec<JobAction>,
    /// The number of its Workers in each state.
    pub workers: Workers,
    /// The user who created it, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When the job was created.
    pub created: Option<Timestamp>,
    /// When it was first allowed to run, or last resumed.
    pub started: Option<Timestamp>,
    /// When its Launcher first ran since then, from which its run time counts; if the job's operator does not report
    /// that, `started`. `None` while it is pending, and if it ended without having run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// The GPUs that all its pods together request, of any vendor.
    pub gpus: u64,
    /// The queue that it is submitted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// What its training program reports about its progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Reported>,
    /// The number of ranks per Worker.
    pub slots_per_worker: i32,
    /// The MPI implementation: `OpenMPI`, `Intel` or `MPICH`.
    pub mpi: String,
    /// The image of the Workers' first container.
    pub image: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its labels.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// For a TrainJob without a node count, the runtime that determines it.
    #[serde(skip)]
    pub runtime: Option<RuntimeRef>,
}

impl Row {
    /// Whether the job has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the job is stalled: it runs, and nothing shows that it goes on.
    pub fn is_stalled(&self) -> bool {
        let is_retried = self.phase_reason.as_deref() == Some(api::PHASE_REASON_RETRYING);
        self.phase == Phase::Running && !is_retried && self.cause.is_some()
    }

    /// Whether the job's state permits this.
    pub fn permits(&self, action: JobAction) -> bool {
        self.actions.contains(&action)
    }

    /// Returns the time from when it ran to its end, or to `now` while it runs; `None` before it runs.
    pub fn runtime(&self, now: Timestamp) -> Option<Duration> {
        since(self.running_since?, self.finished.unwrap_or(now))
    }

    /// Returns the time from creation to `now`.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        since(self.created?, now)
    }
}

/// Returns the row of a raw object; missing fields count as not set.
pub fn row(object: &DynamicObject) -> Row {
    let spec = spec(object);
    let status = status(object);
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let kind = Kind::of(object);
    let (phase, phase_reason) = phase(kind, object, &status);
    let ended = matches!(phase, Phase::Succeeded | Phase::Failed);
    let started = started(&status, created);
    let cause = cause(phase, phase_reason.as_deref(), &status);
    let deleting = object.metadata.deletion_timestamp.is_some();
    let (reason, why) = (phase_reason.as_deref(), cause.as_deref());
    let cancel = kind == Kind::MpiJob
        && object.annotations().get(api::ANNOTATION_CANCEL).is_some_and(|asked| asked == "true");
    let facts = state::Facts { kind, phase, reason, cause: why, deleting, cancel };
    Row {
        state: facts.state(),
        health: facts.health(),
        message: facts.message(&status),
        actions: facts.actions(),
        ended,
        kind,
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        phase,
        cause,
        phase_reason,
        workers: workers::of(kind, object, &status, phase),
        owner: plan::owner(&object.metadata).map(str::to_owned),
        started,
        running_since: running_since(phase, &status, started),
        finished: finished(&status),
        created,
        gpus: kind.gpus(object),
        queue: kind.queue(object).map(|name| Queue { name, position: None }),
        progress: reported(object),
        slots_per_worker: spec.slots_per_worker.unwrap_or(1),
        mpi: match kind {
            Kind::MpiJob => spec.mpi_implementation.clone().unwrap_or_else(|| "OpenMPI".to_owned()),
            _ => "-".to_owned(),
        },
        image: kind.image(object).unwrap_or_default(),
        deleting,
        labels: object.labels().clone(),
        runtime: (kind == Kind::TrainJob).then(|| runtime::of(object)).flatten(),
    }
}

/// Why a job failed, or what keeps it from starting: what its operator published, and else the reason for its phase.
fn cause(phase: Phase, phase_reason: Option<&str>, status: &MPIJobStatus) -> Option<String> {
    match phase {
        Phase::Failed => {
            status.failure.as_ref().map(|failure| failure.reason.as_str()).or(phase_reason).map(str::to_owned)
        }
        Phase::Pending => status.waiting.as_ref().map(|waiting| waiting.reason.clone()),
        Phase::Running if phase_reason == Some(api::PHASE_REASON_RETRYING) => {
            status.waiting.as_ref().map(|waiting| waiting.reason.clone())
        }
        Phase::Running | Phase::Succeeded => state::doubt(phase, status),
    }
}

/// Returns the job's spec; empty if it has none or it cannot be parsed.
pub fn spec(object: &DynamicObject) -> MPIJobSpec {
    object.data.get("spec").and_then(|spec| serde_json::from_value(spec.clone()).ok()).unwrap_or_default()
}

/// Returns the job's status, that of a TrainJob with its failure; empty if it has none or it cannot be parsed.
pub fn status(object: &DynamicObject) -> MPIJobStatus {
    let status = object.data.get("status").and_then(|status| serde_json::from_value(status.clone()).ok());
    let mut status: MPIJobStatus = status.unwrap_or_default();
    if Kind::of(object) == Kind::TrainJob && status.failure.is_none() {
        status.failure = told_failure::of(&status);
    }
    status
}

/// Returns the job as our operator would report it, whatever its kind and operator: with a phase derived from its
/// conditions and, if it failed, the reason and message of its Failed condition.
pub fn in_our_words(object: &DynamicObject) -> MPIJob {
    let mut status = status(object);
    let kind = Kind::of(object);
    let (phase, reason) = phase(kind, object, &status);
    let failed = status.conditions.iter().find(|condition| condition.type_ == api::CONDITION_FAILED);
    if phase == Phase::Failed && status.failure.is_none() {
        status.failure = Some(Failure {
            reason: reason.clone().unwrap_or_else(|| "Unknown".to_owned()),
            message: failed.and_then(|condition| condition.message.clone()).unwrap_or_default(),
            ..Failure::default()
        });
    }
    status.completion_time = status.completion_time.take().or_else(|| finished(&status).map(Time));
    status.phase = Some(phase);
    status.phase_reason = reason;
    let mut spec = spec(object);
    if kind.suspended(object) {
        spec.run_policy.get_or_insert_default().suspend = Some(true);
    }
    if kind != Kind::MpiJob {
        let workers = ReplicaSpec { replicas: Some(kind.workers(object)), ..ReplicaSpec::default() };
        spec.mpi_replica_specs.insert(WORKER.to_owned(), Box::new(workers));
    }
    MPIJob { metadata: object.metadata.clone(), spec, status: Some(status) }
}

/// When the job started. A TrainJob has no start time; when it was last resumed, or created, is used instead.
fn started(status: &MPIJobStatus, created: Option<Timestamp>) -> Option<Timestamp> {
    let told = status.start_time.as_ref().map(|time| time.0);
    let changed = |type_: &str| {
        let condition = status.conditions.iter().find(|condition| condition.type_ == type_)?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    };
    told.or_else(|| changed("Suspended")).or(created)
}

/// When the job began to run: when its Launcher did, if its operator reports that.
fn running_since(phase: Phase, status: &MPIJobStatus, started: Option<Timestamp>) -> Option<Timestamp> {
    match &status.startup {
        _ if phase == Phase::Pending => None,
        // An older operator wrote the zero of the clock for a Launcher that never started.
        Some(startup) => {
            startup.launched.as_ref().map(|time| time.0).filter(|time| *time > Timestamp::UNIX_EPOCH)
        }
        // Our operator reports the start of each Launcher.
        None if status.phase.is_some() && is_cancelled(status) => None,
        None => started,
    }
}

fn is_cancelled(status: &MPIJobStatus) -> bool {
    status.failure.as_ref().is_some_and(|failure| failure.reason == diagnosis::Cause::Cancelled.word())
}

/// When the job ended, from its own field or from the condition that reports its end.
fn finished(status: &MPIJobStatus) -> Option<Timestamp> {
    let told = status.completion_time.as_ref().map(|time| time.0);
    told.or_else(|| {
        let ending = |type_: &str| matches!(type_, "Succeeded" | "Complete" | "Failed");
        let condition = status.conditions.iter().find(|c| ending(&c.type_) && c.status == "True")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    })
}

/// Returns a job's phase and reason, from `status.phase` or else from the conditions that its own operator sets. A job
/// that was just suspended or resumed has the phase that follows from it, even before its operator has seen the change.
pub fn phase(kind: Kind, object: &DynamicObject, status: &MPIJobStatus) -> (Phase, Option<String>) {
    if let Some(phase) = status.phase {
        let reason = status.phase_reason.as_deref();
        let is_held = matches!(reason, Some(api::PHASE_REASON_SUSPENDED | api::PHASE_REASON_QUEUED));
        let has_ended = matches!(phase, Phase::Succeeded | Phase::Failed);
        return match kind.suspended(object) {
            suspended if has_ended || suspended == is_held || !is_outdated(object, status) => {
                (phase, status.phase_reason.clone())
            }
            true => (Phase::Pending, Some(api::PHASE_REASON_SUSPENDED.to_owned())),
            false => (Phase::Pending, None),
        };
    }
    let holds = |type_: &str| status.conditions.iter().find(|c| c.type_ == type_ && c.status == "True");
    // A TrainJob has Complete where the others have Succeeded, and no condition for running.
    if let Some(condition) = holds("Succeeded").or_else(|| holds("Complete")) {
        return (Phase::Succeeded, condition.reason.clone());
    }
    if let Some(condition) = holds("Failed") {
        let cause = status.failure.as_ref().map(|failure| failure.reason.clone());
        return (Phase::Failed, cause.or_else(|| condition.reason.clone()));
    }
    if holds("Suspended").is_some() || kind.suspended(object) {
        return (Phase::Pending, Some("Suspended".to_owned()));
    }
    if holds("Running").is_some() || kind.is_running(object) {
        return (Phase::Running, None);
    }
    if holds("Restarting").is_some() {
        return (Phase::Pending, Some("Restarting".to_owned()));
    }
    // Until an operator has reported something, the reason is unknown.
    (Phase::Pending, (!status.conditions.is_empty()).then(|| "Initializing".to_owned()))
}

/// Whether the spec has changed since the operator last reported.
fn is_outdated(object: &DynamicObject, status: &MPIJobStatus) -> bool {
    let generations = (object.metadata.generation, status.observed_generation);
    matches!(generations, (Some(generation), Some(observed)) if observed < generation)
}

/// Returns who can remove a cause, given by its word: the author of the job, unless the cause says otherwise.
pub fn actor(cause: &str) -> diagnosis::Actor {
    diagnosis::Cause::of_word(cause).map_or(diagnosis::Actor::User, diagnosis::Cause::actor)
}

/// Returns the phase's name.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    }
}

fn since(from: Timestamp, to: Timestamp) -> Option<Duration> {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).ok().map(Duration::from_millis)
}

/// Formats a duration in at most two units, as kubectl writes ages: `7s`, `3m12s`, `2h5m`, `4d3h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600, seconds / 60);
    let pair = |big: u64, big_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => pair(minutes, "m", seconds % 60, "s"),
        3_600..86_400 => pair(hours, "h", minutes % 60, "m"),
        _ => pair(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use api::{ANNOTATION_DASHBOARD_USER, ANNOTATION_OWNER, LABEL_DASHBOARD_USER};

    use super::*;
    use serde_json::json;

    fn object(status: serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {"Worker": {"replicas": 4, "template": {
                "spec": {"containers": [{"name": "w", "image": "img"}]}}}}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn upstreams_conditions_give_the_same_words() {
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
        let created = condition("Created", "True", "MPIJobCreated");
        let table = [
            (json!({}), Phase::Pending, None),
            (json!({"conditions": [created]}), Phase::Pending, Some("Initializing")),
            (
                json!({"conditions": [created, condition("Suspended", "True", "MPIJobSuspended")]}),
                Phase::Pending,
                Some("Suspended"),
            ),
            (
                json!({"conditions": [created, condition("Running", "True", "MPIJobRunning")]}),
                Phase::Running,
                None,
            ),
            (
                json!({"conditions": [condition("Running", "False", "x"), condition("Succeeded", "True", "MPIJobSucceeded")]}),
                Phase::Succeeded,
                Some("MPIJobSucceeded"),
            ),
            (
                json!({"conditions": [condition("Failed", "True", "BackoffLimitExceeded")]}),
                Phase::Failed,
                Some("BackoffLimitExceeded"),
            ),
            (
                json!({"phase": "Failed", "phaseReason": "WorkerLost", "conditions": [created]}),
                Phase::Failed,
                Some("WorkerLost"),
            ),
        ];
        for (status, phase, reason) in table {
            let row = row(&object(status.clone()));
            assert_eq!((row.phase, row.phase_reason.as_deref()), (phase, reason), "{status}");
        }
    }

    #[test]
    fn a_job_just_suspended_or_resumed_is_shown_so_before_its_operator_has_seen_it() {
        let shown = |suspend: bool, observed: i64, status: serde_json::Value| {
            let mut job = object(status);
            job.metadata.generation = Some(2);
            job.data["spec"]["runPolicy"]["suspend"] = suspend.into();
            job.data["status"]["observedGeneration"] = observed.into();
            row(&job).state.to_string()
        };
        let (running, held) =
            (json!({"phase": "Running"}), json!({"phase": "Pending", "phaseReason": "Suspended"}));
        assert_eq!(shown(true, 1, running.clone()), "Pending (Suspended)");
        assert_eq!(shown(true, 2, running.clone()), "Running", "the operator has seen it, and is at work");
        assert_eq!(shown(false, 1, held.clone()), "Pending");
        assert_eq!(shown(false, 1, running), "Running");
        assert_eq!(shown(true, 1, held), "Pending (Suspended)");
        assert_eq!(shown(true, 1, json!({"phase": "Succeeded"})), "Succeeded");
    }

    #[test]
    fn a_row_counts_workers_and_time() {
        let status = json!({"phase": "Running", "workers": {"running": 3, "pending": 1, "failed": 0, "of": 4}, "startTime": "2026-01-01T00:00:10Z"});
        let row = row(&object(status));
        assert_eq!((row.workers.to_string().as_str(), row.slots_per_worker), ("3/4 Running, 1 Pending", 2));
        assert_eq!(row.image, "img");
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_eq!(row.age(now).map(duration).as_deref(), Some("2m"));
        assert_eq!(row.runtime(now).map(duration).as_deref(), Some("1m50s"));
    }

    #[test]
    fn the_run_time_counts_from_when_the_launcher_ran() {
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        let table = [
            ("Running", json!({"launched": "2026-01-01T00:01:00Z"}), Some("1m")),
            ("Failed", json!({"launched": "2026-01-01T00:01:00Z"}), Some("30s")),
            ("Failed", json!({"queued": "2026-01-01T00:00:10Z"}), None),
            ("Pending", json!({"launched": "2026-01-01T00:01:00Z"}), None),
            ("Running", json!(null), Some("1m50s")),
        ];
        for (phase, startup, lasted) in table {
            let mut status = json!({"phase": phase, "startTime": "2026-01-01T00:00:10Z"});
            if !startup.is_null() {
                status["startup"] = startup.clone();
            }
            if phase == "Failed" {
                status["completionTime"] = "2026-01-01T00:01:30Z".into();
            }
            let row = row(&object(status));
            assert_eq!(row.runtime(now).map(duration).as_deref(), lasted, "{phase} {startup}");
        }
    }

    #[test]
    fn a_cause_is_published_or_else_the_reason_of_the_failure() {
        let table = [
            (
                json!({"phase": "Failed", "phaseReason": "A", "failure": {"reason": "OutOfMemory", "message": ""}}),
                Some("OutOfMemory"),
            ),
            (
                json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}),
                Some("BackoffLimitExceeded"),
            ),
            (
                json!({"phase": "Pending", "waiting": {"reason": "Unschedulable", "message": ""}}),
                Some("Unschedulable"),
            ),
            (json!({"phase": "Running", "waiting": {"reason": "Unschedulable", "message": ""}}), None),
            (json!({"phase": "Succeeded", "phaseReason": "MPIJobSucceeded"}), None),
        ];
        for (status, cause) in table {
            assert_eq!(row(&object(status.clone())).cause.as_deref(), cause, "{status}");
        }
    }

    #[test]
    fn the_owner_is_the_recorded_user_and_never_a_program() {
        let owned = |metadata: serde_json::Value| {
            let object =
                json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata});
            row(&serde_json::from_value(object).unwrap()).owner
        };
        let all = json!({"annotations": {ANNOTATION_OWNER: "jane", ANNOTATION_DASHBOARD_USER: "joe"},
            "labels": {LABEL_DASHBOARD_USER: "jim"}});
        assert_eq!(owned(all).as_deref(), Some("jane"));
        assert_eq!(owned(json!({"labels": {LABEL_DASHBOARD_USER: "jim"}})).as_deref(), Some("jim"));
        assert_eq!(owned(json!({"annotations": {ANNOTATION_OWNER: " "}})), None);
        assert_eq!(owned(json!({"managedFields": [{"manager": "kubectl-create"}]})), None);
    }

    #[test]
    fn a_row_in_json_has_the_contracts_fields() {
        let mut made = object(json!({"phase": "Running", "startTime": "2026-01-01T00:00:10Z",
            "trainerStatus": {"progressPercentage": 50, "estimatedRemainingSeconds": 60}}));
        made.metadata.labels =
            Some(BTreeMap::from([(crate::kind::LABEL_QUEUE.to_owned(), "gpus".to_owned())]));
        made.metadata.uid = Some("u".to_owned());
        let value = serde_json::to_value(row(&made)).unwrap();
        let expected = json!({"kind": "MPIJob", "namespace": "team", "name": "pi", "uid": "u", "phase": "Running",
            "state": "Running", "health": "running", "ended": false, "actions": ["suspend", "cancel", "delete"],
            "workers": {"running": 0, "pending": 4, "failed": 0, "of": 4},
            "created": "2026-01-01T00:00:00Z", "started": "2026-01-01T00:00:10Z",
            "runningSince": "2026-01-01T00:00:10Z", "finished": null, "gpus": 0,
            "queue": {"name": "gpus"}, "progress": {"percent": 50, "timeLeft": 60},
            "slotsPerWorker": 2, "mpi": "OpenMPI", "image": "img", "deleting": false});
        assert_eq!(value, expected);
        assert!(value.to_string().len() <= 600, "{}", value.to_string().len());
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (192, "3m12s"), (7500, "2h5m"), (356_400, "4d3h")]
        {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}

//! Explains the state of a job: what it waits for, on what evidence, who must act, since when, and what to do. The
//! rules are the same as for failures, applied before there is one.
//!
//! The input is the job, its pods and their events; the output is an [`Explanation`]. Pure. This is the only place
//! that decides it: the operator's warnings while a job starts and `odh training explain` both take it from here.

mod gates;
mod held;
mod image;
mod restarting;
mod retrying;
#[cfg(test)]
mod samples;
mod starting;
mod terminating;

use api::{
    CONDITION_INVALID, CONDITION_STALLED, CONDITION_WORLD_VERIFIED, MPIJob, MPIJobStatus, Phase,
    REASON_VALIDATION,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::action::{Action, Advice, JobRef};
use crate::conditions::condition;
use crate::kept::Pod;
use crate::observed::worker_index;
use diagnosis::{Actor, Cause, Diagnosis, Gpus};
use held::{elsewhere, held};
use image::unmapped_image;
use restarting::{after_last_attempt, clearing};
pub use retrying::crashing;
use retrying::{crashed, retrying};
pub(crate) use starting::hindrance;
use starting::starting;
pub use starting::wants_gpus_counted;
pub(crate) use terminating::leaving_names;
use terminating::{following, resuming};
pub use terminating::{leaving, leaving_after_resume};

/// The maximum number of pods named as evidence.
const MOST_NAMED: usize = 4;

/// The known facts about a job.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The job with its status.
    pub job: &'a MPIJob,
    /// The kind under which the cluster holds the job: `MPIJob`, or another kind that was read as one.
    pub kind: &'a str,
    /// Its pods: the Launcher's and the Workers'.
    pub pods: &'a [Pod],
    /// The events of the job and its pods, the oldest first.
    pub events: &'a [Told],
    /// The GPUs that the job requests and those that are free, if they could be counted.
    pub gpus: Option<Gpus>,
    /// Whether the Launcher has printed anything, if known.
    pub has_printed: Option<bool>,
    /// The images of containers that ran the machine's own programs, as the embedded cluster had no local environment
    /// for them.
    pub unmapped_images: &'a [String],
    /// The end of the log of the run that [`crashing`] returns, if it could be read.
    pub crash_log: Option<&'a str>,
    /// The job's place in its queue, if known.
    pub place: Option<&'a QueuePlace>,
}

impl Situation<'_> {
    fn job_ref(&self) -> JobRef {
        let metadata = &self.job.metadata;
        JobRef {
            kind: self.kind.to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// A job's place in a Kueue queue, from its Workload and those of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePlace {
    /// The Workload that represents the job.
    pub workload: String,
    /// The job's position among those that wait, from 1; `None` once it has its quota.
    pub position: Option<usize>,
    /// The number of waiting Workloads, including this one.
    pub waiting: usize,
    /// Why it waits, as the queue reports it.
    pub why: Option<String>,
    /// Whether the cluster has no Kueue, so that nothing will ever let the job go.
    pub unserved: bool,
}

/// An event of the job or of one of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The pod that it is about; `None` if it is about the job or another of its children.
    pub pod: Option<String>,
    /// The reason, one CamelCase word.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

/// What a job is waiting for, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// A queue holds it back.
    Queued,
    /// A user suspended it.
    Suspended,
    /// Its pods are not created yet.
    Creating,
    /// Pods wait for a node.
    Scheduling,
    /// Images are pulled, volumes mounted, containers created.
    Starting,
    /// Workers run but are not ready.
    Readiness,
    /// Workers are ready, but the Launcher does not run yet.
    Launching,
    /// The Launcher runs but has printed nothing: it is connecting to the Workers, and MPI is starting up.
    FirstOutput,
    /// All its pods run.
    Running,
    /// It runs, but has shown no activity for the stall timeout.
    Stalled,
    /// Its Launcher or a Worker failed, and is started again.
    Retrying,
    /// The gang is being restarted after an infrastructure failure.
    Restarting,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// A person ended it.
    Cancelled,
}

impl Stage {
    /// Whether the job has ended without success.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Stage::Failed | Stage::Cancelled)
    }
}

/// The state of a job, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What it waits for, or how it ended.
    pub state: Stage,
    /// The cause, one of those in the troubleshooting guide, if something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// One line for people.
    pub message: String,
    /// The evidence: statuses and events, the strongest first.
    pub evidence: Vec<String>,
    /// The last lines that the rank or the Launcher printed which failed or hangs, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Who must act.
    pub actor: Actor,
    /// Since when the job has been in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What to do.
    #[serde(flatten)]
    pub advice: Option<Advice>,
    /// A link to more information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Explanation {
    fn new(state: Stage, message: impl Into<String>, since: Option<Timestamp>) -> Self {
        Self {
            state,
            cause: None,
            message: message.into(),
            evidence: Vec::new(),
            last_lines: Vec::new(),
            actor: Actor::Nobody,
            since,
            advice: None,
            link: None,
        }
    }

    /// Adds the cause that was found; if none was, what the status says that the job waits for. The pods that exist
    /// may not show why others cannot be created.
    fn because_of(mut self, found: Option<Diagnosis>, status: &MPIJobStatus) -> Self {
        if let Some(found) = found {
            self.cause = Some(found.cause.word().to_owned());
            self.actor = found.cause.actor();
            self.message = found.message;
            self.evidence = found.evidence.into_iter().map(|evidence| evidence.text).collect();
            self.advice = Some(found.suggestion.into());
            self.link = Some(found.link);
        } else if let Some(waiting) = status.waiting.clone() {
            self.actor = match Cause::of_word(&waiting.reason) {
                Some(cause) => cause.actor(),
                None if waiting.reason == REASON_VALIDATION => Actor::User,
                None => self.actor,
            };
            self.cause = Some(waiting.reason);
            self.message = waiting.message;
            self.advice = waiting.suggestion.map(Advice::from);
            self.link = waiting.link;
            self.since = waiting.since.map(|since| since.0).or(self.since);
        }
        self
    }
}

/// Explains the state of a job.
#[must_use]
pub fn explain(situation: &Situation<'_>) -> Explanation {
    let none = MPIJobStatus::default();
    let status = situation.job.status.as_ref().unwrap_or(&none);
    let mut explanation = ended(status)
        .or_else(|| elsewhere(situation, status))
        .or_else(|| held(situation, status))
        .or_else(|| following(status))
        .or_else(|| clearing(situation, status))
        .or_else(|| resuming(situation, status))
        .or_else(|| retrying(status))
        .or_else(|| crashed(situation))
        .or_else(|| starting(situation, status).map(|told| after_last_attempt(told, status)))
        .unwrap_or_else(|| running(status));
    if let Some(suspect) = unmapped_image(situation, explanation.cause.as_deref()) {
        let advice = explanation.advice.get_or_insert_with(|| Advice::from(""));
        advice.text = format!("{suspect} {}", advice.text).trim_end().to_owned();
    }
    if let Some(advice) = &mut explanation.advice {
        let cause = explanation.cause.as_deref();
        advice.actions = actions(explanation.state, cause, situation.job_ref());
    }
    explanation
}

/// What a user can do about a job in this state.
fn actions(state: Stage, cause: Option<&str>, job: JobRef) -> Vec<Action> {
    match (state, cause) {
        (Stage::Suspended, None) => vec![Action::Resume(job)],
        (_, cause) => match cause.and_then(Cause::of_word) {
            Some(Cause::RankKilled | Cause::Unknown) => vec![Action::Describe(job)],
            Some(Cause::SilentHang) => vec![Action::ShowUsage(job)],
            Some(Cause::CrashLoop) => {
                vec![Action::Logs { job, workers: None, follow: false, previous: true }]
            }
            _ => Vec::new(),
        },
    }
}

/// A job that has ended.
fn ended(status: &MPIJobStatus) -> Option<Explanation> {
    let since = status.completion_time.as_ref().map(|time| time.0);
    match status.phase? {
        Phase::Succeeded => {
            let verified = condition(status, CONDITION_WORLD_VERIFIED);
            let doubt = verified.filter(|verified| verified.status == "False");
            let mut told = Explanation::new(Stage::Succeeded, "The job has succeeded", since);
            if let Some(doubt) = doubt {
                told.message = doubt.message.clone().unwrap_or_default();
                told.cause = doubt.reason.clone();
                told.actor = Actor::User;
            }
            Some(told)
        }
        Phase::Failed => {
            let failure = status.failure.clone().unwrap_or_default();
            let cause = Cause::of_word(&failure.reason);
            let stage = if cause == Some(Cause::Cancelled) { Stage::Cancelled } else { Stage::Failed };
            let mut told = Explanation::new(stage, failure.message, since);
            told.evidence.extend(failure.pod.map(|pod| match failure.exit_code {
                Some(code) => format!("pod {pod}: exit code {code}"),
                None => format!("pod {pod}"),
            }));
            told.cause = Some(failure.reason);
            told.actor = cause.map_or(Actor::User, Cause::actor);
            told.advice = failure.suggestion.map(Advice::from);
            told.link = failure.link;
            Some(told)
        }
        Phase::Pending | Phase::Running => None,
    }
}

/// Whether the pod is a Worker of the job: by its name an MPIJob's, by its label a node of a TrainJob.
fn is_worker(job: &str, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let replicated = labels.and_then(|labels| labels.get(api::LABEL_REPLICATED_JOB));
    replicated.is_some_and(|name| name == "node") || worker_index(job, pod).is_some()
}

fn is_running_job(status: &MPIJobStatus) -> bool {
    status.phase == Some(Phase::Running)
}

/// A job whose pods all run.
fn running(status: &MPIJobStatus) -> Explanation {
    let since = |type_: &str| {
        condition(status, type_)
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(|time| time.0)
    };
    let stalled = condition(status, CONDITION_STALLED).filter(|stalled| stalled.status == "True");
    match stalled {
        Some(stalled) => {
            let cause = stalled.reason.as_deref().and_then(Cause::of_word).unwrap_or(Cause::SilentHang);
            Explanation {
                cause: Some(cause.word().to_owned()),
                actor: cause.actor(),
                advice: Some(cause.texts().suggestion.into()),
                link: Some(cause.link()),
                ..Explanation::new(
                    Stage::Stalled,
                    stalled.message.clone().unwrap_or_default(),
                    since(CONDITION_STALLED),
                )
            }
        }
        None => {
            let mut told =
                Explanation::new(Stage::Running, "The job is running", since(api::CONDITION_RUNNING));
            let invalid = condition(status, CONDITION_INVALID).filter(|invalid| invalid.status == "True");
            told.evidence.extend(invalid.and_then(|invalid| invalid.message.clone()));
            told
        }
    }
}

fn named(pods: &[&Pod]) -> Vec<String> {
    let name = |pod: &&Pod| format!("pod {}", pod.metadata.name.as_deref().unwrap_or_default());
    let mut lines: Vec<String> = pods.iter().take(MOST_NAMED).map(name).collect();
    if pods.len() > MOST_NAMED {
        lines.push(format!("and {} more", pods.len() - MOST_NAMED));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::samples::{alone, job};
    use super::*;

    #[test]
    fn a_suspended_job_can_be_resumed_under_its_own_kind() {
        let mut job = job(json!({}), json!({ "suspend": true }));
        job.metadata.labels = None;
        let found = explain(&Situation { kind: "TrainJob", ..alone(&job) });
        let about = JobRef { kind: "TrainJob".to_owned(), namespace: String::new(), name: "pi".to_owned() };
        assert_eq!(found.advice.unwrap().actions, [Action::Resume(about)]);
    }

    #[test]
    fn a_running_job_that_became_invalid_names_the_fault() {
        let status = json!({ "phase": "Running", "conditions": [
            { "type": "Invalid", "status": "True", "reason": "ValidationError", "message": "Found it" }] });
        let found = running(&serde_json::from_value(status).unwrap());
        assert_eq!((found.state, found.evidence), (Stage::Running, vec!["Found it".to_owned()]));
    }

    #[test]
    fn a_cancelled_job_is_not_explained_as_a_failure() {
        let status = json!({ "phase": "Failed", "phaseReason": "Cancelled", "completionTime": "2026-01-01T00:01:00Z",
            "failure": { "reason": "Cancelled", "message": "The job was cancelled" } });
        let job = job(status, json!({}));
        let found = explain(&alone(&job));
        assert_eq!((found.state, found.actor), (Stage::Cancelled, Actor::Nobody));
    }

    #[test]
    fn the_end_of_a_job_is_explained_from_its_status() {
        let status = json!({ "phase": "Failed", "completionTime": "2026-01-01T00:01:00Z", "failure": {
            "reason": "OutOfMemory", "message": "Worker 1 failed", "suggestion": "more", "pod": "pi-worker-1", "exitCode": 137 } });
        let job = job(status, json!({}));
        let found = explain(&alone(&job));
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Failed, Some("OutOfMemory")));
        assert_eq!(found.evidence, ["pod pi-worker-1: exit code 137"]);
    }
}

//! Explains the state of a job: what it waits for, on what evidence, who must act, since when, and what to do. The
//! rules are the same as for failures, applied before there is one.
//!
//! The input is the job, its pods and their events; the output is an [`Explanation`]. Pure. This is the only place
//! that decides it: the operator's warnings while a job starts and `odh training explain` both take it from here.

use std::collections::{BTreeSet, HashMap};

use api::{
    CONDITION_INVALID, CONDITION_RESTARTING, CONDITION_STALLED, CONDITION_WORLD_VERIFIED, Failure, MPIJob,
    MPIJobStatus, Phase, REASON_VALIDATION, WAITING_FOR_DELETED_JOB, WORKER,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use semantics::kept::condition_since;
use semantics::local_nodes::IMAGE_OF_THE_MACHINE;
use semantics::{Starting as _, has_ended, is_deleted, is_ready};
use serde::Serialize;

use crate::action::{Action, Advice, JobRef};
use crate::capacity::reports_too_few_gpus;
use crate::conditions::condition;
use crate::failure::failure_of_run;
use crate::kept::Pod;
use crate::observed::{
    LauncherRun, ObservedState, container_state, is_running, next_start, started_at, worker_index,
};
use crate::validate::is_ours;
use diagnosis::{
    Actor, Cause, Confidence, Diagnosis, Ending, Evidence, Facts, FailedRun, Gpus, Output, PodFacts,
    diagnose, failed_run, is_init_container,
};

/// The maximum number of pods named as evidence.
const MOST_NAMED: usize = 4;
/// The event in which a node of the embedded cluster says which local environment stands for an image.
const EVENT_LOCAL_ENVIRONMENT: &str = "LocalEnvironment";
/// A part of the message with which a node of the embedded cluster refuses an image that is mapped with other tags only.
const NODE_PULLS_NONE: &str = "this node pulls no images";
/// The prefix of Kueue's scheduling gates, for topologies (`kueue.x-k8s.io/topology`) and pod groups.
const KUEUE_GATE_PREFIX: &str = "kueue.x-k8s.io/";

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

/// The first suspect where an image, a program or a library is missing: the embedded cluster's node had no local
/// environment for the image, and used the machine's own programs or none.
fn unmapped_image(situation: &Situation<'_>, cause: Option<&str>) -> Option<String> {
    if cause.and_then(Cause::of_word) == Some(Cause::ImagePull) {
        let is_local = |told: &Told| told.message.contains(NODE_PULLS_NONE);
        return situation.events.iter().any(is_local).then(|| {
            "The local cluster pulls no images: correct the tag, or map the image to a local environment. \
             In another cluster:"
                .to_owned()
        });
    }
    let is_about_the_image = matches!(
        cause.and_then(Cause::of_word)?,
        Cause::ExecutableNotFound
            | Cause::LibraryMissing
            | Cause::LaunchProgramMissing
            | Cause::DaemonMissing
            | Cause::WrongMpi
            | Cause::VersionMismatch
    );
    let told = situation.events.iter().filter(|_| is_about_the_image);
    let mut told = told.filter(|told| told.reason == EVENT_LOCAL_ENVIRONMENT);
    let image = told.find_map(|told| {
        let image = told.message.split_once(" is not mapped")?.0.rsplit('"').nth(1)?;
        (image != IMAGE_OF_THE_MACHINE).then_some(image)
    })?;
    Some(format!(
        "First look at the image: \"{image}\" is not mapped to a local environment, so this machine's own programs were used."
    ))
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

/// A job that another controller manages and that this operator leaves alone.
fn elsewhere(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
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
fn held(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
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
fn resuming(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    if is_running_job(status) {
        return None;
    }
    let terminating: Vec<&Pod> = situation.pods.iter().filter(is_deleted).collect();
    let message = leaving_after_resume(status, terminating.iter().map(|pod| &pod.metadata))?;
    let since = status.start_time.as_ref().map(|time| time.0);
    Some(Explanation { evidence: named(&terminating), ..Explanation::new(Stage::Creating, message, since) })
}

/// A job that waits until what a deleted job of its name has left is gone.
fn following(status: &MPIJobStatus) -> Option<Explanation> {
    let waiting = status.waiting.as_ref().filter(|waiting| waiting.reason == WAITING_FOR_DELETED_JOB)?;
    let since = waiting.since.as_ref().map(|since| since.0);
    Some(Explanation::new(Stage::Creating, waiting.message.clone(), since))
}

/// A job whose Launcher failed and is about to be started again: what its last run showed.
fn retrying(status: &MPIJobStatus) -> Option<Explanation> {
    let is_retried = status.phase_reason.as_deref() == Some(api::PHASE_REASON_RETRYING);
    (is_retried && status.waiting.is_some())
        .then(|| Explanation::new(Stage::Retrying, "", None).because_of(None, status))
}

/// Returns the pod, a Launcher first, of which a container failed and is started again in place, and the run that failed.
#[must_use]
pub fn crashing<'p>(job: &str, pods: &'p [Pod]) -> Option<(&'p Pod, FailedRun)> {
    let crashes = |pod: &'p Pod| {
        let run = failed_run(pod).filter(|run| !is_init_container(pod, &run.container))?;
        let state = container_state(pod, &run.container)?;
        let waits = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
        let is_restarted = run.restarts > 0 || waits == Some("CrashLoopBackOff");
        let is_up = state.running.is_some() || has_ended(pod) || is_deleted(pod);
        (is_restarted && !is_up).then_some((pod, run))
    };
    let of = |worker: bool| pods.iter().filter(move |pod| is_worker(job, pod) == worker);
    of(false).chain(of(true)).find_map(crashes)
}

/// A job of which a container failed and is started again: what its last run showed. The operator reports so of an MPIJob's
/// Launcher ([`retrying`]); a Worker, and a TrainJob, have no place for it in the status.
fn crashed(situation: &Situation<'_>) -> Option<Explanation> {
    let job = situation.job.metadata.name.as_deref().unwrap_or_default();
    let (pod, run) = crashing(job, situation.pods)?;
    let name = pod.metadata.name.clone().unwrap_or_default();
    let found = if is_worker(job, pod) {
        of_worker_run(pod, &run, situation.crash_log)
    } else {
        let others = situation.pods.iter().filter(|other| is_worker(job, other));
        let pods = others.map(|other| PodFacts::of(other, true)).collect();
        let log = situation.crash_log.map(str::to_owned);
        let launcher = LauncherRun { pod: pod.clone(), log, ..LauncherRun::default() };
        failure_of_run(pod, Some(&launcher), Facts { pods, ..Facts::default() }, |_| None).0
    };
    let code = run.ended.exit_code;
    let (cause, message, suggestion) = match Cause::of_word(&found.reason) {
        None | Some(Cause::Unknown) => {
            let cause = Cause::CrashLoop;
            let message = format!("Container {:?} of {name} ended with exit code {code}", run.container);
            (cause, message, Some(cause.texts().suggestion.to_owned()))
        }
        Some(cause) => (cause, found.message, found.suggestion),
    };
    let next = container_state(pod, &run.container).and_then(|state| next_start(state, &run));
    let when = next.map_or_else(
        || "is started again".to_owned(),
        |at| format!("is started again at about {} UTC", at.strftime("%H:%M:%S")),
    );
    let times = match run.restarts {
        0 => "has run once".to_owned(),
        restarts => format!("has run {} times", restarts.saturating_add(1)),
    };
    let message = format!("{}; {name} {times} and {when}", message.trim_end_matches('.'));
    let mut evidence = vec![format!("pod {name}: exit code {code}")];
    evidence.extend(found.evidence.into_iter().filter(|line| !line.starts_with("pod ")));
    let since = run.ended.finished_at.as_ref().map(|time| time.0);
    Some(Explanation {
        cause: Some(cause.word().to_owned()),
        evidence,
        actor: cause.actor(),
        advice: suggestion.map(Advice::from),
        link: Some(cause.link()),
        ..Explanation::new(Stage::Retrying, message, since)
    })
}

/// What a Worker's run that failed shows, by its own log.
fn of_worker_run(pod: &Pod, run: &FailedRun, log: Option<&str>) -> Failure {
    let mut facts = PodFacts::of(pod, false);
    facts.ignore_back_off();
    let facts = Facts { pods: vec![facts], ..Facts::default() };
    let found = diagnose(&Output::from(log.unwrap_or_default()), Ending::Exited(run.ended.exit_code), &facts);
    let Some(found) = found else { return Failure::default() };
    Failure {
        reason: found.cause.word().to_owned(),
        message: found.message,
        suggestion: Some(found.suggestion),
        evidence: found.evidence.into_iter().map(|evidence| evidence.text).collect(),
        ..Failure::default()
    }
}

/// A gang that is being restarted, while pods of the last attempt are still there.
fn clearing(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
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
fn after_last_attempt(told: Explanation, status: &MPIJobStatus) -> Explanation {
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

/// A job whose pods do not all run yet: the earliest stage of any pod, and what keeps it there.
fn starting(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    let job = situation.job;
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let wanted = job.spec.mpi_replica_specs.get(WORKER).map_or(0, |worker| worker.replicas.unwrap_or(0));
    let workers: Vec<&Pod> = situation.pods.iter().filter(|pod| is_worker(name, pod)).collect();
    let launchers: Vec<&Pod> =
        situation.pods.iter().filter(|pod| !is_worker(name, pod) && !has_ended(pod)).collect();
    let started = status.start_time.as_ref().or(job.metadata.creation_timestamp.as_ref()).map(|time| time.0);
    let all: Vec<&Pod> = workers.iter().chain(&launchers).copied().collect();
    let at = |stage: Stage| -> Vec<&Pod> {
        all.iter().copied().filter(|pod| stage_of(pod, is_worker(name, pod)) == Some(stage)).collect()
    };
    if let Some(found) = ended_worker(name, workers.iter().copied()).filter(|_| !is_running_job(status)) {
        let told = Explanation::new(Stage::Readiness, "", started).because_of(Some(found), status);
        return Some(Explanation { actor: Actor::User, ..told });
    }
    let stages = [
        (Stage::Scheduling, "wait for a node"),
        (Stage::Starting, "wait for their containers (images, volumes)"),
        (Stage::Readiness, "are running but not ready"),
    ];
    let restarting = status.phase_reason.as_deref() == Some(api::PHASE_REASON_RESTARTING);
    let state = |stage: Stage| if restarting { Stage::Restarting } else { stage };
    for (stage, what) in stages {
        let waiting = at(stage);
        if waiting.is_empty() {
            continue;
        }
        let since = waiting.iter().filter_map(|pod| since_of(pod, stage)).min();
        let message = format!("{} of {} pods {what}", waiting.len(), all.len());
        let mut told = Explanation::new(state(stage), message, since);
        told.evidence = named(&waiting);
        if let Some(preparing) = preparing(&waiting, all.len()) {
            (told.message, told.since) = preparing;
        }
        let found = trouble(situation, &waiting, name);
        if found.is_none() && waiting.iter().any(|pod| is_gated(pod)) {
            return Some(gated(told, job, &waiting, all.len()));
        }
        return Some(told.because_of(found, status));
    }
    // If the job runs, pods that are not visible are ones that we may not read, or another operator's.
    if !is_running_job(status) && (all.is_empty() || workers.len() < usize::try_from(wanted).unwrap_or(0)) {
        let told = if status.conditions.is_empty() && all.is_empty() {
            not_taken_up(started)
        } else {
            let message = format!("{} of {wanted} Workers are created", workers.len());
            Explanation::new(state(Stage::Creating), message, started)
        };
        return Some(told.because_of(trouble(situation, &[], name), status));
    }
    let since = workers.iter().filter_map(|pod| condition_since(pod, "Ready")).max().or(started);
    if !launchers.iter().any(|pod| is_running(pod)) && !is_running_job(status) {
        let message = "All Workers are ready; the Launcher is not running yet";
        let told = Explanation::new(state(Stage::Launching), message, since);
        // An operator without a phase does not say what a job waits for; events do.
        let found = if status.phase.is_none() { trouble(situation, &[], name) } else { None };
        return Some(told.because_of(found, status));
    }
    let printed = situation.has_printed.unwrap_or(true) || launchers.is_empty();
    (!printed && !is_stalled(status)).then(|| {
        let since = launchers.iter().filter_map(|pod| started_at(pod)).max();
        let message =
            "The Launcher is running but has printed nothing yet: it connects to the Workers and MPI starts up";
        Explanation::new(Stage::FirstOutput, message, since)
    })
}

/// Which init container pods are at, and since when; `None` if none runs.
fn preparing(pods: &[&Pod], of: usize) -> Option<(String, Option<Timestamp>)> {
    let at = |pod: &&&Pod| -> Option<(String, Option<Timestamp>)> {
        let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
        // A sidecar goes on running; the one that keeps the pod is the last that has started.
        let last =
            statuses.iter().rfind(|status| status.state.as_ref().is_some_and(|it| it.waiting.is_none()))?;
        let running = last.state.as_ref()?.running.as_ref()?;
        Some((last.name.clone(), running.started_at.as_ref().map(|time| time.0)))
    };
    let running: Vec<(String, Option<Timestamp>)> = pods.iter().filter_map(|pod| at(&pod)).collect();
    let (first, _) = running.first()?;
    let names: BTreeSet<String> = running.iter().map(|(name, _)| format!("{name:?}")).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let what =
        if running.iter().all(|(name, _)| name == first) { "init container" } else { "init containers" };
    let message = format!("{} of {of} pods run their {what} {names}", running.len());
    Some((message, running.iter().filter_map(|(_, since)| *since).min()))
}

/// A Worker whose own command has ended well, before the job has run: it has to run on until the Launcher has ended, and a
/// pod that has ended does not come back.
fn ended_worker<'a>(job: &str, mut pods: impl Iterator<Item = &'a Pod>) -> Option<Diagnosis> {
    let ended = |pod: &&Pod| is_worker(job, pod) && !is_deleted(pod) && semantics::phase(pod) == "Succeeded";
    let pod = pods.find(ended)?;
    let name = pod.metadata.name.clone().unwrap_or_default();
    let cause = Cause::WorkerLost;
    Some(Diagnosis {
        cause,
        confidence: Confidence::High,
        evidence: vec![Evidence { line: None, text: format!("pod {name}: Succeeded") }],
        worker: Some(name.clone()),
        message: format!(
            "The command of {name} has ended, but a Worker must go on running until the Launcher has ended"
        ),
        suggestion: "Leave the Workers' command out, or let it end with the program that serves the Launcher: the launch \
                     agent, or sshd in the foreground."
            .to_owned(),
        link: cause.link(),
    })
}

/// Whether the pod is a Worker of the job: by its name an MPIJob's, by its label a node of a TrainJob.
fn is_worker(job: &str, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let replicated = labels.and_then(|labels| labels.get(api::LABEL_REPLICATED_JOB));
    replicated.is_some_and(|name| name == "node") || worker_index(job, pod).is_some()
}

/// Whether scheduling gates keep the scheduler from considering the pod.
fn is_gated(pod: &Pod) -> bool {
    !pod.gates().is_empty()
}

/// Pods that the scheduler ignores because of their scheduling gates: which gates, and who removes them.
fn gated(told: Explanation, job: &MPIJob, waiting: &[&Pod], of: usize) -> Explanation {
    let held = waiting.iter().filter(|pod| is_gated(pod)).count();
    let gates: BTreeSet<&str> = waiting.iter().flat_map(|pod| pod.gates()).collect();
    let own: BTreeSet<&str> = job
        .spec
        .mpi_replica_specs
        .values()
        .filter_map(|replica| replica.template.spec.as_ref()?.scheduling_gates.as_ref())
        .flatten()
        .map(|gate| gate.name.as_str())
        .collect();
    let by_kueue = |gate: &&str| gate.starts_with(KUEUE_GATE_PREFIX);
    let (actor, advice) = if gates.iter().all(by_kueue) {
        (
            Actor::Administrator,
            "Kueue removes its gates once it has assigned nodes to all pods of the job; its Workload says what it waits for. If \
             they stay for more than a few seconds, ask the queue's administrator.",
        )
    } else if gates.iter().any(|gate| own.contains(gate) && !by_kueue(gate)) {
        (
            Actor::User,
            "The job's pod templates set these gates (schedulingGates), and the controller that they are for must remove \
             them from the pods. If there is none, remove them from the templates.",
        )
    } else {
        (
            Actor::Administrator,
            "A controller of the cluster added these gates to the pods and removes them. If they stay, ask an administrator.",
        )
    };
    let list: Vec<String> = gates.iter().map(|gate| format!("{gate:?}")).collect();
    Explanation {
        message: format!("{held} of {of} pods are held back by scheduling gates: {}", list.join(", ")),
        actor,
        advice: Some(advice.into()),
        ..told
    }
}

/// A job that no operator has reported on.
fn not_taken_up(since: Option<Timestamp>) -> Explanation {
    Explanation {
        actor: Actor::Administrator,
        advice: Some(
            "If this lasts more than a few seconds, the operator is not running or does not watch this namespace: ask an \
             administrator of the cluster."
                .into(),
        ),
        ..Explanation::new(Stage::Creating, "No operator has picked up the job yet", since)
    }
}

fn is_running_job(status: &MPIJobStatus) -> bool {
    status.phase == Some(Phase::Running)
}

fn is_stalled(status: &MPIJobStatus) -> bool {
    condition(status, CONDITION_STALLED).is_some_and(|stalled| stalled.status == "True")
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

/// The stage of its start that a pod is in; `None` once it has started.
fn stage_of(pod: &Pod, worker: bool) -> Option<Stage> {
    if has_ended(pod) {
        return None;
    }
    if started_at(pod).is_none() {
        let scheduling = semantics::waits_for(pod).is_scheduling();
        return Some(if scheduling { Stage::Scheduling } else { Stage::Starting });
    }
    (worker && !is_ready(pod)).then_some(Stage::Readiness)
}

/// Since when a pod has been in that stage.
fn since_of(pod: &Pod, stage: Stage) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    match stage {
        Stage::Starting => condition_since(pod, "PodScheduled").or(created),
        Stage::Readiness => started_at(pod).or(created),
        _ => created,
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

/// Whether a starting job waits for GPUs and its status has no GPU counts yet, so that they need counting.
#[must_use]
pub fn wants_gpus_counted(seen: &ObservedState) -> bool {
    let known = seen.status.waiting.as_ref().is_some_and(|waiting| waiting.gpus.is_some());
    let starting = matches!(seen.status.phase, None | Some(Phase::Pending));
    let lacks_gpus = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| {
            reports_too_few_gpus(&condition.type_, &condition.status, condition.message.as_deref())
        })
    };
    starting && !known && seen.workers.iter().any(|pod| lacks_gpus(pod))
}

/// What keeps a job's pods from starting, by their statuses and by the job's events; `None` for a job that starts
/// normally.
pub(crate) fn hindrance<'a>(
    job: &str,
    pods: impl Iterator<Item = &'a Pod>,
    told: Vec<(String, String)>,
    gpus: Option<Gpus>,
) -> Option<Diagnosis> {
    let pods: Vec<&Pod> = pods.collect();
    if let Some(found) = ended_worker(job, pods.iter().copied()) {
        return Some(found);
    }
    let starting = |pod: &&Pod| {
        let stage = stage_of(pod, is_worker(job, pod));
        !is_deleted(pod) && matches!(stage, Some(Stage::Scheduling | Stage::Starting))
    };
    // Where a queue assigns nodes, every pod has gates for a moment; they are explained only on request.
    let pods = pods
        .into_iter()
        .filter(|pod| starting(pod) && !is_gated(pod))
        .map(|pod| PodFacts::of(pod, is_worker(job, pod)))
        .collect();
    let facts = Facts { pods, events: told, gpus, world: None };
    diagnose(&Output::default(), Ending::Unknown, &facts).filter(|found| found.cause != Cause::Unknown)
}

/// What keeps these pods from going on, by their statuses and events; without pods, what keeps them from being
/// created.
fn trouble(situation: &Situation<'_>, pods: &[&Pod], job: &str) -> Option<Diagnosis> {
    let pair = |told: &Told| (told.reason.clone(), told.message.clone());
    let mut by_pod: HashMap<&str, Vec<&Told>> = HashMap::new();
    for told in situation.events {
        if let Some(pod) = &told.pod {
            by_pod.entry(pod).or_default().push(told);
        }
    }
    let of_pod = |pod: &Pod| {
        let events = pod.metadata.name.as_deref().and_then(|name| by_pod.get(name)).into_iter().flatten();
        let mut facts = PodFacts::of(pod, is_worker(job, pod));
        facts.events = newest(events.map(|told| pair(told)));
        facts
    };
    let told = situation.events.iter().filter(|told| told.pod.is_none() && pods.is_empty());
    let facts = Facts {
        pods: pods.iter().map(|pod| of_pod(pod)).collect(),
        events: newest(told.map(pair)),
        gpus: situation.gpus,
        world: None,
    };
    diagnose(&Output::default(), Ending::Unknown, &facts).filter(|found| found.cause != Cause::Unknown)
}

/// Puts the newest first, because the first of equal findings wins.
fn newest(events: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut events: Vec<(String, String)> = events.collect();
    events.reverse();
    events
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(status: Value, policy: Value) -> MPIJob {
        let template = json!({ "template": { "spec": { "containers": [{ "name": "main" }] } } });
        let mut worker = template.clone();
        worker["replicas"] = json!(2);
        let job = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "pi", "labels": { "kueue.x-k8s.io/queue-name": "gpus" } },
            "spec": { "runPolicy": policy, "mpiReplicaSpecs": { "Launcher": template, "Worker": worker } },
            "status": status });
        serde_json::from_value(job).unwrap()
    }

    fn pod(name: &str, status: Value) -> Pod {
        serde_json::from_value(
            json!({ "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "containers": [{ "name": "main" }] }, "status": status }),
        )
        .unwrap()
    }

    fn unscheduled(message: &str) -> Value {
        json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": message }] })
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({ "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:03Z" }],
            "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": reason, "message": message } } }] })
    }

    fn up(ready: &str) -> Value {
        json!({ "phase": "Running",
            "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:03Z" },
                { "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:09Z" }],
            "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "2026-01-01T00:00:07Z" } } }] })
    }

    fn told(pods: &[Pod], events: &[Told], gpus: Option<Gpus>, has_printed: Option<bool>) -> Explanation {
        let job = job(json!({ "phase": "Pending", "phaseReason": "Initializing" }), json!({}));
        explain(&Situation { pods, events, gpus, has_printed, ..alone(&job) })
    }

    /// A job about which nothing else is known.
    fn alone(job: &MPIJob) -> Situation<'_> {
        Situation {
            job,
            kind: "MPIJob",
            pods: &[],
            events: &[],
            gpus: None,
            has_printed: None,
            crash_log: None,
            place: None,
        }
    }

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
    fn a_pod_without_a_node_is_explained_with_the_numbers() {
        let no_gpus = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
        let pods = [pod("pi-worker-0", up("True")), pod("pi-worker-1", unscheduled(no_gpus))];
        let found = told(&pods, &[], Some(Gpus { requested: 32, available: 24 }), None);
        assert_eq!(found.state, Stage::Scheduling);
        assert_eq!(found.message, "Insufficient GPUs: requested 32, available 24");
        assert_eq!((found.cause.as_deref(), found.actor), (Some("Unschedulable"), Actor::Administrator));
        assert_eq!(found.since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert!(found.link.unwrap().ends_with("#unschedulable"));
    }

    #[test]
    fn gpus_are_counted_until_the_status_has_their_numbers() {
        let lacking =
            pod("pi-worker-0", unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."));
        let wants = |status: Value| {
            let status = serde_json::from_value(status).unwrap();
            wants_gpus_counted(&ObservedState {
                status,
                workers: vec![lacking.clone().into()],
                ..ObservedState::default()
            })
        };
        let waiting = |gpus: Value| {
            json!({ "phase": "Pending", "waiting": { "reason": "Unschedulable", "gpus": gpus,
                "message": "Insufficient GPUs: requested 16, available 2" } })
        };
        assert!(wants(json!({ "phase": "Pending" })));
        assert!(wants(waiting(Value::Null)), "whatever the message says");
        assert!(!wants(waiting(json!({ "requested": 16, "available": 2 }))));
        assert!(!wants(json!({ "phase": "Running" })));
    }

    #[test]
    fn each_stage_of_a_start_is_explained() {
        let image = waiting("ImagePullBackOff", "Back-off pulling image \"registry.example/train:1\"");
        let ready = || pod("pi-worker-1", up("True"));
        let launcher = |status| pod("pi-launcher-x", status);
        type Scene = (Vec<Pod>, Option<bool>, Stage, Option<&'static str>);
        let scenes: [Scene; 7] = [
            (vec![], None, Stage::Creating, None),
            (vec![pod("pi-worker-0", image), ready()], None, Stage::Starting, Some("ImagePull")),
            (
                vec![pod("pi-worker-0", waiting("ContainerCreating", "")), ready()],
                None,
                Stage::Starting,
                None,
            ),
            (
                vec![
                    pod("pi-worker-0", waiting("CreateContainerConfigError", "secret \"token\" not found")),
                    ready(),
                ],
                None,
                Stage::Starting,
                Some("MissingReference"),
            ),
            (vec![pod("pi-worker-0", up("False")), ready()], None, Stage::Readiness, None),
            (vec![pod("pi-worker-0", up("True")), ready()], None, Stage::Launching, None),
            (
                vec![pod("pi-worker-0", up("True")), ready(), launcher(up("True"))],
                Some(false),
                Stage::FirstOutput,
                None,
            ),
        ];
        for (pods, printed, stage, cause) in scenes {
            let found = told(&pods, &[], None, printed);
            assert_eq!((found.state, found.cause.as_deref()), (stage, cause), "{found:?}");
            assert!(found.since.is_some() || stage == Stage::Creating, "{found:?}");
        }
    }

    #[test]
    fn pods_with_scheduling_gates_say_who_removes_them() {
        let held_by = |gate: &str| -> Pod {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            let pod = json!({ "metadata": { "name": "pi-worker-0" },
                "spec": { "containers": [{ "name": "main" }], "schedulingGates": [{ "name": gate }] },
                "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                    "reason": "SchedulingGated", "message": message }] } });
            serde_json::from_value(pod).unwrap()
        };
        let mut own = job(json!({ "phase": "Pending", "phaseReason": "Initializing" }), json!({}));
        let worker = own.spec.mpi_replica_specs.get_mut(WORKER).unwrap().template.spec.as_mut().unwrap();
        worker.scheduling_gates = serde_json::from_value(json!([{ "name": "example.com/data" }])).unwrap();
        let cases = [
            ("kueue.x-k8s.io/topology", Actor::Administrator, "Kueue removes its gates"),
            ("example.com/data", Actor::User, "pod templates set these gates"),
            ("example.com/gang", Actor::Administrator, "A controller of the cluster"),
        ];
        for (gate, actor, advice) in cases {
            let pods = [pod("pi-worker-1", up("True")), held_by(gate)];
            let found = explain(&Situation { pods: &pods, ..alone(&own) });
            assert_eq!((found.state, found.actor), (Stage::Scheduling, actor), "{found:?}");
            assert_eq!(found.message, format!("1 of 2 pods are held back by scheduling gates: {gate:?}"));
            assert!(found.advice.as_ref().unwrap().text.contains(advice), "{found:?}");
            assert_eq!(found.evidence, ["pod pi-worker-0"]);
            assert_eq!(
                hindrance("pi", pods.iter(), Vec::new(), None),
                None,
                "no warning while a queue assigns nodes"
            );
        }
    }

    #[test]
    fn pods_that_a_quota_refuses_are_explained_by_the_event() {
        let message = "worker pod created failed: pods \"pi-worker-0\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4";
        let events = [Told { pod: None, reason: "MPIJobFailed".to_owned(), message: message.to_owned() }];
        let found = told(&[], &events, None, None);
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Creating, Some("QuotaExceeded")));
        assert!(found.evidence[0].contains("exceeded quota: compute"), "{found:?}");
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
    fn the_status_explains_a_job_when_pods_and_events_do_not() {
        let status = json!({ "phase": "Pending", "phaseReason": "Initializing",
            "waiting": { "reason": "QuotaExceeded", "message": "Quota exceeded: pods", "suggestion": "ask" } });
        let job = job(status, json!({}));
        let starting = pod(
            "pi-worker-0",
            json!({ "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "True" }] }),
        );
        let found = explain(&Situation { pods: &[starting], ..alone(&job) });
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Starting, Some("QuotaExceeded")));
        assert_eq!((found.message.as_str(), found.advice), ("Quota exceeded: pods", Some("ask".into())));
        assert_eq!(found.actor, Actor::Administrator);
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
    fn a_worker_whose_command_has_ended_is_for_its_author() {
        let ended = pod("pi-worker-0", json!({ "phase": "Succeeded" }));
        let pods = [ended, pod("pi-worker-1", up("True")), pod("pi-launcher-x", up("True"))];
        let found = told(&pods, &[], None, Some(false));
        assert_eq!((found.cause.as_deref(), found.actor), (Some("WorkerLost"), Actor::User), "{found:?}");
        assert!(found.message.contains("must go on running until the Launcher has ended"), "{found:?}");
        assert!(hindrance("pi", pods.iter(), Vec::new(), None).is_some(), "the status says so, too");
    }

    #[test]
    fn init_containers_that_run_are_named() {
        let init = |name: &str, state: Value| {
            json!({ "name": name, "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state })
        };
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:05Z" } });
        let mut status = waiting("PodInitializing", "");
        status["initContainerStatuses"] =
            json!([init("install", json!({ "terminated": { "exitCode": 0 } })), init("fetch", running)]);
        let pods = [pod("pi-worker-0", status), pod("pi-worker-1", up("True"))];
        let found = told(&pods, &[], None, None);
        assert_eq!(found.message, "1 of 2 pods run their init container \"fetch\"");
        assert_eq!(found.since.unwrap().to_string(), "2026-01-01T00:00:05Z");
        let mut status = waiting("PodInitializing", "");
        status["initContainerStatuses"] =
            json!([init("fetch", json!({ "terminated": { "exitCode": 3, "reason": "Error" } }))]);
        let found = told(&[pod("pi-worker-0", status), pod("pi-worker-1", up("True"))], &[], None, None);
        assert_eq!(found.cause.as_deref(), Some("InitContainerFailed"), "{found:?}");
    }

    #[test]
    fn a_node_that_refuses_to_start_a_container_is_quoted() {
        let message = "this node does not run privileged containers: remove securityContext.privileged";
        let pods = [
            pod("pi-worker-0", waiting("CreateContainerConfigError", message)),
            pod("pi-worker-1", up("True")),
        ];
        let found = told(&pods, &[], None, None);
        assert_eq!((found.cause.as_deref(), found.actor), (Some("AdmissionRefused"), Actor::User));
        assert!(found.message.contains(message), "{found:?}");
    }

    #[test]
    fn a_held_job_is_explained_by_who_holds_it() {
        let job = job(json!({}), json!({ "suspend": true }));
        let found = explain(&alone(&job));
        assert_eq!((found.state, found.actor), (Stage::Queued, Actor::Administrator));
        assert!(found.message.contains("\"gpus\""));
    }

    #[test]
    fn a_suspended_job_can_be_resumed_under_its_own_kind() {
        let mut job = job(json!({}), json!({ "suspend": true }));
        job.metadata.labels = None;
        let found = explain(&Situation { kind: "TrainJob", ..alone(&job) });
        let about = JobRef { kind: "TrainJob".to_owned(), namespace: String::new(), name: "pi".to_owned() };
        assert_eq!(found.advice.unwrap().actions, [Action::Resume(about)]);
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

    #[test]
    fn a_running_job_that_became_invalid_names_the_fault() {
        let status = json!({ "phase": "Running", "conditions": [
            { "type": "Invalid", "status": "True", "reason": "ValidationError", "message": "Found it" }] });
        let found = running(&serde_json::from_value(status).unwrap());
        assert_eq!((found.state, found.evidence), (Stage::Running, vec!["Found it".to_owned()]));
    }

    #[test]
    fn a_job_whose_launcher_is_tried_again_says_why_and_when() {
        let status = json!({ "phase": "Running", "phaseReason": "Retrying",
            "conditions": [{ "type": "Running", "status": "True" }],
            "waiting": { "reason": "OutOfMemory", "message": "it ran out; attempt 3 of 7 of the Launcher starts at about 12:00:40 UTC" } });
        let job = job(status, json!({}));
        let pods = [pod("pi-worker-0", up("True")), pod("pi-worker-1", up("True"))];
        let found = explain(&Situation { pods: &pods, has_printed: Some(false), ..alone(&job) });
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Retrying, Some("OutOfMemory")));
        assert_eq!(found.actor, Actor::User);
        assert!(found.message.contains("attempt 3 of 7"), "{found:?}");
    }

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

    #[test]
    fn a_cancelled_job_is_not_explained_as_a_failure() {
        let status = json!({ "phase": "Failed", "phaseReason": "Cancelled", "completionTime": "2026-01-01T00:01:00Z",
            "failure": { "reason": "Cancelled", "message": "The job was cancelled" } });
        let job = job(status, json!({}));
        let found = explain(&alone(&job));
        assert_eq!((found.state, found.actor), (Stage::Cancelled, Actor::Nobody));
    }

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

    #[test]
    fn an_image_that_is_not_mapped_is_the_first_suspect_where_a_program_is_missing() {
        let job = job(
            json!({ "phase": "Failed", "failure": { "reason": "ExecutableNotFound", "message": "m", "suggestion": "put it there" } }),
            json!({}),
        );
        let message =
            "No image was pulled: \"team/train:1\" is not mapped, so the machine's own file system is used";
        let events = [Told { pod: None, reason: "LocalEnvironment".to_owned(), message: message.to_owned() }];
        let advice = explain(&Situation { events: &events, ..alone(&job) }).advice.unwrap().text;
        assert!(advice.starts_with("First look at the image: \"team/train:1\" is not mapped"), "{advice}");
        assert!(advice.ends_with("put it there"), "{advice}");
        let message = message.replace("team/train:1", IMAGE_OF_THE_MACHINE);
        let events = [Told { pod: None, reason: "LocalEnvironment".to_owned(), message }];
        let meant = explain(&Situation { events: &events, ..alone(&job) });
        assert_eq!(meant.advice.unwrap().text, "put it there", "the machine's own programs were asked for");
        assert_eq!(explain(&alone(&job)).advice.unwrap().text, "put it there");
    }

    #[test]
    fn an_image_whose_tag_is_not_mapped_is_explained_for_the_local_cluster() {
        let job = job(
            json!({ "phase": "Failed", "failure": { "reason": "ImagePull", "message": "m", "suggestion": "correct it" } }),
            json!({}),
        );
        let message = "Failed to pull image \"mpi:2\": manifest unknown: this node pulls no images, and the only known tags are mpi:1";
        let events = [Told { pod: None, reason: "Failed".to_owned(), message: message.to_owned() }];
        let advice = explain(&Situation { events: &events, ..alone(&job) }).advice.unwrap().text;
        assert!(
            advice.starts_with("The local cluster pulls no images") && advice.ends_with("correct it"),
            "{advice}"
        );
        assert_eq!(explain(&alone(&job)).advice.unwrap().text, "correct it");
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

//! Turns a valid job and its observed state into the changes to make and the state that the job is then in. The order
//! of decisions is upstream's (`syncHandler` in `pkg/controller/mpi_job_controller.go`), but a failed Worker, which
//! upstream only counts, ends the job here. The failure is recorded before anything is released: the pass that decides
//! it changes nothing else, and the next pass finds the job finished and cleans up.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{
    CONDITION_FAILED, CONDITION_RUNNING, CONDITION_SUSPENDED, Failure, LAUNCHER, REASON_EVICTED,
    REASON_FAILED, REASON_RESTARTING, REASON_VALIDATION, WORKER,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use semantics::kept::condition_since;
use semantics::{has_ended, is_deleted, is_ready};
use serde_json::{Map, Value, json};

use crate::Settings;
use crate::advice::elastic_advice;
use crate::change::{Change, Child, ChildKind, Patch, Target};
use crate::conditions::{condition, has_run, is_finished, is_true};
use crate::failure::{
    failed_success, failure_of, launcher_failure, pod_facts, refusal, refused_template, users_error, world,
};
use crate::kept::{Job, Pod};
use crate::notice::ApplyFailure;
use crate::objects::{
    DISCOVER_HOSTS, config_map, config_map_name, discover_hosts, drift, launcher_job, launcher_name,
    network_policy, pod_group, scheduling_directives, secret, secret_name, service, watched_labels, worker,
    worker_name,
};
use crate::observed::{
    LauncherEnd, LogSource, ObservedState, OutputSeen, Recorded, SecretSeen, is_failed, is_running,
    mpi_container, runs, started_at, worker_index,
};
use crate::outlook::{AttemptFailure, Outlook};
use crate::restart::{CLEARING_LOOK, avoid, clear, is_restarted};
use crate::stall::{Listening, next_look, output_shown};
use crate::time::elapsed;
use crate::validate::{CleanPods, LauncherCreation, Replica, ValidJob};
use diagnosis::{
    Cause, Facts, PodFailure, lost_with_node, of_missing_worker, of_slow_worker, of_unstartable, of_worker,
};

/// How long a Launcher may still run after a Worker failed its job, so that it can print what it saw. A pod that ends
/// by itself keeps its log; one that is deleted does not.
const LAUNCHER_LAST_WORDS: Duration = Duration::from_secs(10);
/// The volumes of a pod that has a node are mostly there within this time; asked again this often.
const VOLUMES_LOOK: Duration = Duration::from_secs(5);
/// The Job controller creates the Launcher's pod within this time, or is refused; asked again this often.
const LAUNCHER_POD_LOOK: Duration = Duration::from_secs(3);
/// `discover_hosts.sh` is rewritten once the set of Workers has not changed for this long. Kubelets take a minute to
/// show a changed ConfigMap in a pod, so of a hundred writes for a hundred starting Workers, ninety-nine would be
/// useless.
const HOSTS_SETTLE: Duration = Duration::from_secs(10);

/// What to do now, and what the job is waiting for.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Groups of changes. Changes within a group may be made concurrently; groups are applied in order.
    pub changes: Vec<Vec<Change>>,
    /// A Launcher that still runs while its attempt ends: the end of its output belongs in the attempt's record.
    pub last_words: Option<LogSource>,
    /// The state of the job.
    pub outlook: Outlook,
    /// What the running Launcher's output shows by now, to be remembered for the next pass.
    pub output: Option<OutputSeen>,
    /// When to look again if no change is observed before.
    pub wake_after: Option<Duration>,
}

impl Plan {
    /// A plan that changes nothing.
    fn still(outlook: Outlook) -> Self {
        Self { changes: Vec::new(), last_words: None, outlook, output: None, wake_after: None }
    }
}

/// Decides what to do for a job.
#[must_use]
pub fn plan(job: &ValidJob, seen: &ObservedState, settings: &Settings, now: Timestamp) -> Plan {
    let facts = || Facts { pods: pod_facts(seen), world: world(job), ..Facts::default() };
    let output = output_shown(&Listening::to(job, seen), facts);
    let plan = decide(job, seen, output.as_ref(), settings, now);
    let ends = matches!(plan.outlook, Outlook::Failed(_) | Outlook::Restarting(_));
    let last_words = if ends && seen.launcher_failed.is_none() { seen.launcher_log() } else { None };
    Plan { last_words, output, ..plan }
}

fn decide(
    job: &ValidJob,
    seen: &ObservedState,
    output: Option<&OutputSeen>,
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    let ended = is_finished(&seen.status) && seen.status.completion_time.is_some();
    if ended {
        return clean_up(job, seen, now);
    }
    let restarts = recorded(seen, |recorded| recorded.condition_reason == REASON_RESTARTING);
    if let Some(verdict) = restarts.filter(|_| !job.suspended) {
        return Plan::still(Outlook::Restarting(Box::new(verdict)));
    }
    if let Some(verdict) = recorded(seen, ended_early) {
        return Plan::still(Outlook::Failed(Box::new(verdict)));
    }
    if let Some(changes) = clear(job, seen) {
        let wake_after = Some(CLEARING_LOOK);
        return Plan { changes: grouped([changes]), wake_after, ..Plan::still(Outlook::Clearing) };
    }
    if let Some(end) = seen.launcher_end() {
        let verdict = launcher_verdict(job, seen, end).filter(|_| !job.suspended);
        return Plan::still(
            verdict.map_or(Outlook::LauncherEnded, |verdict| Outlook::Restarting(Box::new(verdict))),
        );
    }
    if job.cancelled {
        return Plan::still(Outlook::Failed(Box::new(cancelled())));
    }
    let follows = follows_deleted_job(seen);
    if job.suspended {
        let changes = if follows { Vec::new() } else { suspend(job, seen, settings, now) };
        let wake_after = follows.then_some(CLEARING_LOOK);
        return Plan { changes, wake_after, ..Plan::still(Outlook::Suspended) };
    }
    if follows {
        return Plan { wake_after: Some(CLEARING_LOOK), ..Plan::still(Outlook::Active) };
    }
    if let Some(verdict) = judge(job, seen, now).map(Box::new) {
        let again = is_restarted(job, &verdict.failure);
        return Plan::still(if again { Outlook::Restarting(verdict) } else { Outlook::Failed(verdict) });
    }
    let looks = [next_deadline(job, seen, now), next_look(&Listening::to(job, seen), output, now)];
    if job.is_held() {
        return Plan { wake_after: looks.into_iter().flatten().min(), ..Plan::still(Outlook::Active) };
    }
    let (config, settle) = keep_config_map(job, seen, settings, now);
    let mut first: Vec<Change> = keep_service(job, seen).into_iter().collect();
    first.extend(config);
    first.extend(keep_secret(job, seen));
    first.extend(keep_network_policy(job, seen));
    first.extend(keep_pod_group(job, seen, settings));
    let clearing = (!is_launched(seen) && seen.former_run_ends()).then_some(CLEARING_LOOK);
    let wake_after = looks.into_iter().chain([settle, clearing]).flatten().min();
    if let Some(mut contested) = contest(job, seen, settings) {
        contested.extend(release(seen));
        return Plan { changes: grouped([first, contested]), wake_after, ..Plan::still(Outlook::Active) };
    }
    let (before, launcher) = keep_launcher(job, seen, settings);
    first.extend(before);
    // A Launcher is created before the Workers, which hold the scarce resources: if its name is taken, they are not
    // created.
    let (made, changed): (Vec<Change>, Vec<Change>) =
        launcher.into_iter().partition(|change| matches!(change, Change::Create(_)));
    let mut pods = keep_workers(job, seen, settings);
    pods.extend(changed);
    let missing = lacks_pod(job, seen).then_some(LAUNCHER_POD_LOOK);
    let starts = |pod: &Pod| condition_since(pod, "PodScheduled").is_some() && started_at(pod).is_none();
    let all = || seen.workers.iter().map(|pod| &**pod).chain(&seen.launcher_pods);
    let mounting = (!has_run(&seen.status) && all().any(starts)).then_some(VOLUMES_LOOK);
    let wake_after = wake_after.into_iter().chain(missing).chain(mounting).min();
    Plan { changes: grouped([first, made, pods]), wake_after, ..Plan::still(Outlook::Active) }
}

/// Whether the job waits until what a deleted job of its name has left is gone. Until then it has nothing of its own.
pub(crate) fn follows_deleted_job(seen: &ObservedState) -> bool {
    !seen.left_behind.is_empty() && seen.launcher.is_none() && seen.workers.is_empty()
}

/// The end of a job that a person has cancelled.
fn cancelled() -> AttemptFailure {
    let cause = Cause::Cancelled;
    let failure = Failure {
        reason: cause.word().to_owned(),
        message: cause.texts().message.to_owned(),
        suggestion: Some(cause.texts().suggestion.to_owned()),
        link: Some(cause.link()),
        ..Failure::default()
    };
    AttemptFailure::now(REASON_FAILED, failure)
}

/// Returns the job's state after its changes met these failures. If the server will never accept one of its pods as
/// the template defines it, and none has run, the job fails. Failures that may pass, such as an exceeded quota, are
/// waited for.
pub(crate) fn after_failures(
    job: &ValidJob,
    seen: &ObservedState,
    outlook: &Outlook,
    failures: &[ApplyFailure],
) -> Outlook {
    let ran = has_run(&seen.status)
        || seen.workers.iter().any(|pod| is_running(pod))
        || seen.launcher_pods.iter().any(is_running);
    match (outlook, refused_template(failures)) {
        (Outlook::Active, Some(refused)) if job.attempt == 1 && !ran => {
            Outlook::Failed(Box::new(template_refused(job, refused)))
        }
        (outlook, _) => outlook.clone(),
    }
}

fn template_refused(job: &ValidJob, refused: &ApplyFailure) -> AttemptFailure {
    let index = (0..job.worker_count()).find(|index| worker_name(&job.name, *index) == refused.name);
    let (who, role) = match index {
        Some(index) => (format!("Worker {index} ({})", refused.name), WORKER),
        None => (format!("Launcher ({})", refused.name), LAUNCHER),
    };
    let failure = Failure {
        pod: index.map(|_| refused.name.clone()),
        worker: index.and_then(|index| i32::try_from(index).ok()),
        ..refusal(&who, &format!("spec.mpiReplicaSpecs[{role}].template"), refused)
    };
    AttemptFailure::now(REASON_FAILED, failure)
}

/// Creates only the objects whose names others hold, while the job has not run. Returns `None` if no name is
/// contested.
fn contest(job: &ValidJob, seen: &ObservedState, settings: &Settings) -> Option<Vec<Change>> {
    let contested = |kind: ChildKind, name: &str| seen.strangers.contains(&(kind, name.to_owned()));
    let mut changes = Vec::new();
    if seen.launcher.is_none() && contested(ChildKind::Job, &launcher_name(&job.name)) {
        let mut launcher = launcher_job(job, settings);
        // The Workers it would start with do not exist yet.
        launcher.spec.get_or_insert_default().suspend = Some(true);
        changes.push(create(Child::Job(Box::new(launcher))));
    }
    let workers = keep_workers(job, seen, settings).into_iter().filter(|change| match change {
        Change::Create(child) => contested(ChildKind::Pod, child.name()),
        Change::Patch(_) | Change::Delete(_) => false,
    });
    changes.extend(workers);
    (!changes.is_empty() && !has_run(&seen.status)).then_some(changes)
}

/// Deletes the pods and the Launcher of a job that cannot begin to run.
fn release(seen: &ObservedState) -> Vec<Change> {
    let workers = seen.workers.iter().filter(|pod| !is_deleted(pod)).map(|pod| delete_pod(pod));
    let launcher = seen.launcher.iter().filter(|launcher| launcher.metadata.deletion_timestamp.is_none());
    let launcher = launcher.map(|launcher| {
        let metadata = &launcher.metadata;
        Change::Delete(Target {
            kind: ChildKind::Job,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            at_once: false,
        })
    });
    workers.chain(launcher).collect()
}

/// Drops empty groups.
fn grouped<const N: usize>(groups: [Vec<Change>; N]) -> Vec<Vec<Change>> {
    groups.into_iter().filter(|group| !group.is_empty()).collect()
}

/// A suspended job keeps its Service, ConfigMap, Secret and a suspended Launcher, and loses every Worker, including
/// failed ones: a resumed job begins with new ones (upstream would adopt a failed one). While the spec is invalid,
/// nothing is created or rewritten.
fn suspend(job: &ValidJob, seen: &ObservedState, settings: &Settings, now: Timestamp) -> Vec<Vec<Change>> {
    let mut first: Vec<Change> = Vec::new();
    if !job.is_held() {
        first.extend(keep_service(job, seen));
        first.extend(keep_config_map(job, seen, settings, now).0);
        first.extend(keep_secret(job, seen));
    }
    let mut pods: Vec<Change> =
        seen.workers.iter().filter(|pod| !is_deleted(pod)).map(|pod| delete_pod(pod)).collect();
    pods.extend(drop_pod_group(seen));
    match &seen.launcher {
        None if job.is_held() => {}
        None => pods.push(create(Child::Job(Box::new(launcher_job(job, settings))))),
        Some(launcher) if !is_suspended(launcher) => pods.push(set_suspend(job, true, Value::Null)),
        Some(_) => {}
    }
    grouped([first, pods])
}

/// Cleans up after the end: Workers are deleted as `cleanPodPolicy` says. If the job ended before its Launcher did,
/// everything that holds resources is deleted too: the Workers that have not ended, and the Launcher after a grace
/// period to log why it failed. A job that ended while suspended keeps no Worker.
fn clean_up(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Plan {
    let ended_early = was_ended_early(seen);
    let suspended = is_true(&seen.status, CONDITION_SUSPENDED);
    let goes = |pod: &Pod| match job.clean_pods {
        CleanPods::All => true,
        CleanPods::Running => !has_ended(pod),
        CleanPods::None => suspended || (ended_early && !has_ended(pod)),
    };
    let mut changes: Vec<Change> =
        seen.workers.iter().filter(|pod| !is_deleted(pod) && goes(pod)).map(|pod| delete_pod(pod)).collect();
    if job.clean_pods != CleanPods::None || ended_early || suspended {
        changes.extend(drop_pod_group(seen));
    }
    let mut wake_after = None;
    let unstopped = seen.launcher.as_ref().is_some_and(|launcher| !is_suspended(launcher));
    if ended_early && unstopped && seen.launcher_end().is_none() {
        let speaks = seen.launcher_pods.iter().any(|pod| is_running(pod) && !is_deleted(pod) && runs(pod));
        let since = seen.status.completion_time.as_ref().map_or(now, |time| time.0);
        let left = LAUNCHER_LAST_WORDS.saturating_sub(elapsed(since, now));
        if speaks && !left.is_zero() {
            wake_after = Some(left);
        } else {
            changes.push(set_suspend(job, true, Value::Null));
        }
    }
    let left = job.ttl_seconds.map(|ttl| ttl_left(seen, ttl, now));
    if changes.is_empty() && left.is_some_and(|left| left.is_zero()) {
        return Plan::still(Outlook::Expired);
    }
    let wake_after = wake_after.into_iter().chain(left).min();
    Plan { changes: grouped([changes]), wake_after, ..Plan::still(Outlook::Finished) }
}

/// How long a finished job is still kept. Upstream sets the TTL on the Launcher's Job only, which is then removed and
/// leaves everything else.
fn ttl_left(seen: &ObservedState, ttl_seconds: i32, now: Timestamp) -> Duration {
    let ttl = Duration::from_secs(u64::try_from(ttl_seconds).unwrap_or(0));
    let since = seen.status.completion_time.as_ref().map_or(now, |time| time.0);
    ttl.saturating_sub(elapsed(since, now))
}

/// Returns a failure that was decided before the Launcher's Job ended and recorded, but that a crash kept out of the
/// status. What has happened to the pods since then does not change it.
fn recorded(seen: &ObservedState, is_decided: impl Fn(&Recorded) -> bool) -> Option<AttemptFailure> {
    let recorded = seen.recorded.as_ref().filter(|recorded| is_decided(recorded))?;
    let Recorded { condition_reason, condition_message, failure, completion_time, node: _ } = recorded;
    Some(AttemptFailure {
        reason: condition_reason.clone(),
        message: condition_message.clone(),
        failure: failure.clone(),
        since: *completion_time,
    })
}

/// Returns the failure of the Launcher's Job if the infrastructure caused it and another attempt follows.
fn launcher_verdict(job: &ValidJob, seen: &ObservedState, end: LauncherEnd<'_>) -> Option<AttemptFailure> {
    if job.attempt > job.max_gang_restarts {
        return None;
    }
    let failure = match end {
        LauncherEnd::Failed { reason, message } => launcher_failure(job, seen, reason, message),
        LauncherEnd::Succeeded => failed_success(job, seen)?,
    };
    is_restarted(job, &failure).then(|| AttemptFailure::now(REASON_RESTARTING, failure))
}

/// Whether the job ended before its Launcher's Job did: because of a Worker, or of a Launcher that cannot start. The
/// failure says so; where upstream's CRD drops that field from the status, the job's failure record has it.
pub(crate) fn was_ended_early(seen: &ObservedState) -> bool {
    let Some(failed) = condition(&seen.status, CONDITION_FAILED).filter(|failed| failed.status == "True")
    else {
        return false;
    };
    let said = seen.status.failure.as_ref().and_then(|failure| failure.ended_early);
    let recorded = || seen.recorded.as_ref().and_then(|recorded| recorded.failure.ended_early);
    said.or_else(recorded).unwrap_or_else(|| ends_early(failed.reason.as_deref().unwrap_or_default()))
}

fn ended_early(recorded: &Recorded) -> bool {
    recorded.failure.ended_early.unwrap_or_else(|| ends_early(&recorded.condition_reason))
}

/// The same from the reason alone, for a failure that was written without `endedEarly`.
fn ends_early(reason: &str) -> bool {
    [REASON_FAILED, REASON_EVICTED].contains(&reason)
}

/// The Service; its selector and `publishNotReadyAddresses` are restored if they differ.
fn keep_service(job: &ValidJob, seen: &ObservedState) -> Option<Change> {
    let wanted = service(job);
    let Some(existing) = &seen.service else { return Some(create(Child::Service(Box::new(wanted)))) };
    let facts = |service: &Service| {
        let spec = service.spec.as_ref();
        let selector = spec.and_then(|spec| spec.selector.clone());
        (selector, spec.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false))
    };
    let (selector, publish) = facts(&wanted);
    let unlabelled = lacks_labels(job, existing.metadata.labels.as_ref());
    (unlabelled || facts(existing) != (selector.clone(), publish)).then(|| {
        let extra = existing.spec.as_ref().and_then(|spec| spec.selector.as_ref()).into_iter().flatten();
        let mut keys: Map<String, Value> = extra.map(|(key, _)| (key.clone(), Value::Null)).collect();
        keys.extend(selector.into_iter().flatten().map(|(key, value)| (key, Value::String(value))));
        let spec = json!({ "selector": keys, "publishNotReadyAddresses": publish });
        let body = json!({ "metadata": { "labels": watched_labels(job) }, "spec": spec });
        patch(ChildKind::Service, job.name.clone(), body)
    })
}

/// The ConfigMap. The second value is how long to wait if its script must not be rewritten yet.
fn keep_config_map(
    job: &ValidJob,
    seen: &ObservedState,
    settings: &Settings,
    now: Timestamp,
) -> (Option<Change>, Option<Duration>) {
    let wanted = config_map(job, discover_hosts(job, &seen.workers, settings), settings);
    let Some(existing) = &seen.config_map else {
        return (Some(create(Child::ConfigMap(Box::new(wanted)))), None);
    };
    let (has, wants) = (existing.data.clone().unwrap_or_default(), wanted.data.unwrap_or_default());
    let unlabelled = lacks_labels(job, existing.metadata.labels.as_ref());
    if has == wants && !unlabelled {
        return (None, None);
    }
    let mut others = has.iter().filter(|(key, _)| *key != DISCOVER_HOSTS);
    let only_script =
        !unlabelled && has.len() == wants.len() && others.all(|(key, value)| wants.get(key) == Some(value));
    if only_script && let Some(wait) = unsettled(job, seen, now) {
        return (None, Some(wait));
    }
    let mut keys: Map<String, Value> = has.into_keys().map(|key| (key, Value::Null)).collect();
    keys.extend(wants.into_iter().map(|(key, value)| (key, Value::String(value))));
    let body = json!({ "metadata": { "labels": watched_labels(job) }, "data": keys });
    (Some(patch(ChildKind::ConfigMap, config_map_name(&job.name), body)), None)
}

/// How long until the set of Workers has been stable for [`HOSTS_SETTLE`].
fn unsettled(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Option<Duration> {
    let ours = seen
        .workers
        .iter()
        .filter(|pod| worker_index(&job.name, pod).is_some_and(|i| i < job.worker_count()));
    let latest = ours.filter_map(|pod| started_at(pod)).max()?;
    let left = HOSTS_SETTLE.saturating_sub(elapsed(latest, now));
    (!left.is_zero()).then_some(left)
}

/// The Secret: created once, completed if its keys were removed, and otherwise left alone. The keys are filled in when
/// the change is made.
fn keep_secret(job: &ValidJob, seen: &ObservedState) -> Option<Change> {
    match seen.secret {
        SecretSeen::Absent => Some(create(Child::Secret(Box::new(secret(job))))),
        SecretSeen::Incomplete => Some(patch(ChildKind::Secret, secret_name(&job.name), json!({}))),
        SecretSeen::Present => None,
    }
}

/// The NetworkPolicy of a job that asks for one: created once and never changed afterwards, so that users can edit it.
fn keep_network_policy(job: &ValidJob, seen: &ObservedState) -> Option<Change> {
    let missing = job.isolated && !seen.network_policy;
    missing.then(|| create(Child::NetworkPolicy(Box::new(network_policy(job)))))
}

/// The PodGroup is created before the first pod, and follows the Worker count and the scheduling policy.
fn keep_pod_group(job: &ValidJob, seen: &ObservedState, settings: &Settings) -> Option<Change> {
    let wanted = pod_group(job, seen, settings.gang.as_ref()?);
    match &seen.pod_group {
        None => Some(create(Child::PodGroup(Box::new(wanted)))),
        Some(existing) => {
            drift(existing, &wanted).map(|body| patch(ChildKind::PodGroup, job.name.clone(), body))
        }
    }
}

fn drop_pod_group(seen: &ObservedState) -> Option<Change> {
    let group = seen.pod_group.as_ref().filter(|group| group.metadata.deletion_timestamp.is_none())?;
    Some(Change::Delete(Target {
        kind: ChildKind::PodGroup,
        name: group.metadata.name.clone().unwrap_or_default(),
        uid: group.metadata.uid.clone(),
        at_once: false,
    }))
}

/// Missing Workers are created, those beyond the count deleted. One that is being deleted keeps its name until it is
/// gone; its removal triggers another pass.
fn keep_workers(job: &ValidJob, seen: &ObservedState, settings: &Settings) -> Vec<Change> {
    let Some(workers) = &job.workers else { return Vec::new() };
    let beyond = seen.workers.iter().filter(|pod| {
        !is_deleted(pod) && worker_index(&job.name, pod).is_some_and(|index| index >= workers.count)
    });
    let mut changes: Vec<Change> = beyond.map(|pod| delete_pod(pod)).collect();
    let by_index = seen.by_index(job).into_iter().enumerate();
    let missing = by_index.filter(|(_, pod)| pod.is_none()).map(|(index, _)| index);
    changes.extend(missing.map(|index| {
        let mut pod = worker(job, workers, index, settings);
        avoid(job, &seen.failed_nodes, pod.spec.get_or_insert_default());
        create(Child::Pod(Box::new(pod)))
    }));
    changes
}

/// The Launcher's Job, which starts only once all pods of the run before a suspension are gone. The first value is the
/// change that must come before the pods, the second the change to the Job itself.
fn keep_launcher(
    job: &ValidJob,
    seen: &ObservedState,
    settings: &Settings,
) -> (Option<Change>, Option<Change>) {
    let at_startup = job.launcher_creation == LauncherCreation::AtStartup;
    let may_run = (at_startup || all_ready(job, seen)) && !seen.former_run_ends();
    let Some(launcher) = &seen.launcher else {
        let mut launcher = launcher_job(job, settings);
        if let Some(pod) = launcher.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
            avoid(job, &seen.failed_nodes, pod);
        }
        return (None, may_run.then(|| create(Child::Job(Box::new(launcher)))));
    };
    if !is_suspended(launcher) {
        return (None, label_launcher(job, launcher));
    }
    // Upstream resumes a Launcher at once, also one that should wait for its Workers; here it waits again.
    if !may_run {
        return (None, None);
    }
    let started = launcher.status.as_ref().is_some_and(|status| status.start_time.is_some());
    let clear_start = started.then(|| {
        // A Job's template can be changed only while it has no start time.
        Change::Patch(Patch {
            kind: ChildKind::Job,
            name: launcher_name(&job.name),
            of_status: true,
            body: json!({ "status": { "startTime": null } }),
        })
    });
    (clear_start, Some(set_suspend(job, false, scheduling_directives(job, launcher, settings))))
}

/// Adds the labels that the watches select by to a Launcher that upstream's operator made.
fn label_launcher(job: &ValidJob, launcher: &Job) -> Option<Change> {
    let body = json!({ "metadata": { "labels": watched_labels(job) } });
    lacks_labels(job, launcher.metadata.labels.as_ref())
        .then(|| patch(ChildKind::Job, launcher_name(&job.name), body))
}

fn lacks_labels(job: &ValidJob, labels: Option<&BTreeMap<String, String>>) -> bool {
    watched_labels(job).iter().any(|(key, value)| labels.and_then(|labels| labels.get(key)) != Some(value))
}

fn all_ready(job: &ValidJob, seen: &ObservedState) -> bool {
    seen.by_index(job).into_iter().all(|pod| pod.is_some_and(is_ready))
}

/// Whether the Launcher's Job exists and may start pods.
fn is_launched(seen: &ObservedState) -> bool {
    seen.launcher.as_ref().is_some_and(|launcher| !is_suspended(launcher))
}

/// Whether the Launcher's Job has had the time to create a pod, and has none.
#[must_use]
pub fn lacks_launcher_pod(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> bool {
    let started = seen.launcher.as_ref().and_then(|launcher| {
        let started = launcher.status.as_ref().and_then(|status| status.start_time.as_ref());
        started.or(launcher.metadata.creation_timestamp.as_ref())
    });
    lacks_pod(job, seen) && started.is_some_and(|started| elapsed(started.0, now) >= LAUNCHER_POD_LOOK)
}

/// The roles of which a pod that has a node has waited for its volumes for a while, as far as its status shows.
#[must_use]
pub fn waits_for_volumes<'a>(job: &'a ValidJob, seen: &ObservedState, now: Timestamp) -> Vec<&'a Replica> {
    if seen.status.completion_time.is_some() || job.suspended || has_run(&seen.status) {
        return Vec::new();
    }
    let waits = |pod: &Pod| {
        let since = condition_since(pod, "PodScheduled").filter(|_| !is_deleted(pod) && !has_ended(pod));
        let mut statuses = pod.status.iter().flat_map(|status| {
            status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
        });
        let is_untouched = statuses.all(|status| {
            let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
            let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
            status.restart_count == 0 && matches!(reason, Some("ContainerCreating" | "PodInitializing"))
        });
        is_untouched && since.is_some_and(|since| elapsed(since, now) >= VOLUMES_LOOK)
    };
    let mut roles: Vec<&Replica> = Vec::new();
    roles.extend(job.workers.as_ref().filter(|_| seen.workers.iter().any(|pod| waits(pod))));
    roles.extend(seen.launcher_pods.iter().any(waits).then_some(&job.launcher));
    roles
}

/// Whether the Launcher's Job may start a pod and has none, for a job that has not run.
fn lacks_pod(job: &ValidJob, seen: &ObservedState) -> bool {
    let has_pod = !seen.launcher_pods.is_empty() || seen.launcher_failed.is_some();
    is_launched(seen)
        && !has_pod
        && !job.suspended
        && seen.launcher_end().is_none()
        && seen.status.completion_time.is_none()
        && !has_run(&seen.status)
}

fn is_suspended(launcher: &Job) -> bool {
    launcher.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// Decides whether the job cannot go on: the Launcher or a Worker can never start, or a Worker failed, vanished while
/// the job ran, or did not become ready in time. If the job tolerates failed Workers, only the Launcher counts.
fn judge(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Option<AttemptFailure> {
    if job.tolerates_failures() {
        return judge_launcher(job, seen);
    }
    let by_index = seen.by_index(job);
    let workers = || by_index.iter().copied().enumerate();
    let failed = workers()
        .filter_map(|(index, pod)| Some((index, pod?)))
        .filter(|(_, pod)| has_failed(job, pod) && !seen.was_left_over(pod))
        .min_by_key(|(index, pod)| (ended_at(pod), *index));
    if let Some((index, pod)) = failed {
        return Some(verdict(job, seen, index, of_worker(pod)));
    }
    let on_lost_node = workers().find_map(|(index, pod)| Some((index, of_lost_node(seen, pod?)?)));
    if let Some((index, failure)) = on_lost_node {
        return Some(verdict(job, seen, index, failure));
    }
    let unstartable = workers().find_map(|(index, pod)| {
        let pod = pod.filter(|pod| !is_deleted(pod))?;
        Some((index, of_unstartable(pod)?))
    });
    if let Some((index, failure)) = unstartable {
        return Some(verdict(job, seen, index, failure));
    }
    if let Some(verdict) = judge_launcher(job, seen) {
        return Some(verdict);
    }
    if all_were_up(job, seen) {
        let lost = workers().find(|(_, pod)| pod.is_none_or(is_deleted));
        return lost.map(|(index, pod)| {
            let pod = pod.or_else(|| seen.disrupted_worker(job, index));
            verdict(job, seen, index, of_missing_worker(pod))
        });
    }
    if is_true(&seen.status, CONDITION_RUNNING) {
        return None;
    }
    let slow = workers()
        .filter_map(|(index, pod)| Some((index, pod?)))
        .find(|(_, pod)| start_deadline(job, pod, seen, now).is_some_and(|deadline| deadline <= now));
    let waited = format!("{} s", job.start_timeout.as_secs());
    slow.map(|(index, pod)| verdict(job, seen, index, of_slow_worker(pod, &waited)))
}

/// Detects a Launcher that can never start, or whose MPI refused what the user wrote. Upstream's Job would retry it in
/// vain for minutes.
fn judge_launcher(job: &ValidJob, seen: &ObservedState) -> Option<AttemptFailure> {
    let mut pods = seen.launcher_pods.iter().filter(|pod| !is_deleted(pod));
    let unstartable = pods.find_map(|pod| Some((pod, of_unstartable(pod)?))).map(|(pod, failure)| {
        let pod = pod.metadata.name.clone().unwrap_or_default();
        failure_of(failure, &format!("Launcher ({pod})"), pod, None)
    });
    let on_lost_node = || {
        let (pod, failure) =
            seen.launcher_pods.iter().find_map(|pod| Some((pod, of_lost_node(seen, pod)?)))?;
        let pod = pod.metadata.name.clone().unwrap_or_default();
        Some(failure_of(failure, &format!("Launcher ({pod})"), pod, None))
    };
    let failure = unstartable.or_else(on_lost_node).or_else(|| users_error(job, seen))?;
    Some(AttemptFailure::now(REASON_FAILED, failure))
}

/// The failure of a pod on a lost node, unless the pod ended before.
fn of_lost_node(seen: &ObservedState, pod: &Pod) -> Option<PodFailure> {
    let (node, told) = seen.lost_node(pod).filter(|_| !has_ended(pod))?;
    Some(lost_with_node(node, told))
}

/// A Worker has failed if its pod has, or if its MPI container has and nothing restarts it: a pod with a sidecar does
/// not reach the phase Failed before the sidecar ends too.
pub(crate) fn has_failed(job: &ValidJob, pod: &Pod) -> bool {
    let never = job.workers.as_ref().is_some_and(|workers| workers.restart_policy == "Never");
    let ended = mpi_container(pod).and_then(|(_, state)| state.terminated.as_ref());
    is_failed(pod) || (never && ended.is_some_and(|ended| ended.exit_code != 0))
}

fn ended_at(pod: &Pod) -> Timestamp {
    let ended = mpi_container(pod).and_then(|(_, state)| state.terminated.as_ref());
    ended.and_then(|ended| ended.finished_at.as_ref()).map_or(Timestamp::MAX, |time| time.0)
}

/// Whether every Worker of exactly this spec was seen running. Only then is a missing Worker a lost one, rather than
/// one still to be created. The counts are upstream's, as its CRD would drop ours.
fn all_were_up(job: &ValidJob, seen: &ObservedState) -> bool {
    let same_spec = seen.status.observed_generation.is_none_or(|observed| Some(observed) == job.generation);
    let counts = seen.status.replica_statuses.get(WORKER);
    let up = counts.map_or(0, |counts| counts.active.unwrap_or(0) + counts.succeeded.unwrap_or(0));
    is_true(&seen.status, CONDITION_RUNNING)
        && same_spec
        && job.worker_count() > 0
        && usize::try_from(up).is_ok_and(|up| up >= job.worker_count())
}

/// The deadline by which a scheduled Worker that is not ready must become ready. Pauses of the observer do not count.
fn start_deadline(job: &ValidJob, pod: &Pod, seen: &ObservedState, now: Timestamp) -> Option<Timestamp> {
    if is_ready(pod) || is_deleted(pod) || has_ended(pod) {
        return None;
    }
    let since = condition_since(pod, "PodScheduled")?;
    since.checked_add(job.start_timeout + seen.pauses.within(since, now)).ok()
}

/// How long until the first start deadline.
fn next_deadline(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Option<Duration> {
    if is_true(&seen.status, CONDITION_RUNNING) {
        return None;
    }
    let deadline = seen.workers.iter().filter_map(|pod| start_deadline(job, pod, seen, now)).min()?;
    Some(elapsed(now, deadline))
}

/// The verdict on a failed Worker; the reason and message of an eviction are upstream's.
fn verdict(job: &ValidJob, seen: &ObservedState, index: usize, failure: PodFailure) -> AttemptFailure {
    let pod = worker_name(&job.name, index);
    let mut failure = failure_of(failure, &format!("Worker {index} ({pod})"), pod, i32::try_from(index).ok());
    if let Some(advice) = elastic_advice(job) {
        let suggestion = failure.suggestion.take().into_iter().chain([advice]);
        failure.suggestion = Some(suggestion.collect::<Vec<_>>().join(" "));
    }
    let evicted = seen.workers.iter().filter(|pod| is_evicted(pod)).count();
    let (reason, message) = if evicted > 0 {
        (REASON_EVICTED, format!("{evicted}/{} workers are evicted", job.worker_count()))
    } else {
        (REASON_FAILED, failure.message.clone())
    };
    AttemptFailure { reason: reason.to_owned(), message, failure, since: None }
}

fn is_evicted(pod: &Pod) -> bool {
    is_failed(pod) && pod.status.as_ref().and_then(|status| status.reason.as_deref()) == Some("Evicted")
}

/// Whether the condition Failed marks the job as invalid.
pub(crate) fn was_refused(seen: &ObservedState) -> bool {
    condition(&seen.status, CONDITION_FAILED)
        .is_some_and(|failed| failed.status == "True" && failed.reason.as_deref() == Some(REASON_VALIDATION))
}

fn create(child: Child) -> Change {
    Change::Create(child)
}

fn patch(kind: ChildKind, name: String, body: Value) -> Change {
    Change::Patch(Patch { kind, name, of_status: false, body })
}

fn set_suspend(job: &ValidJob, suspend: bool, template: Value) -> Change {
    let mut body = json!({ "spec": { "suspend": suspend } });
    if !template.is_null() {
        body["spec"]["template"] = template;
    }
    patch(ChildKind::Job, launcher_name(&job.name), body)
}

fn delete_pod(pod: &Pod) -> Change {
    Change::Delete(Target {
        kind: ChildKind::Pod,
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone(),
        at_once: false,
    })
}

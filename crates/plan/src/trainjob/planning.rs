//! Turns a valid TrainJob and what exists of it into the changes to make and the state that it is then in. The order of
//! decisions is that of JobSet (`kubernetes-sigs/jobset`, `pkg/controllers/jobset_controller.go`) and of Trainer's
//! deadline; a Launcher or node that cannot go on ends the job here at once, before its Job has used up its retries.
//!
//! A Job is created if it is missing, nothing of a former one of its name is left, and what it waits for is there. It is
//! deleted if it belongs to an earlier attempt, or has not ended and the job is suspended or has ended. Nothing else
//! changes Jobs, so every pass can be cut off at any point and repeated.

use std::time::Duration;

use api::Failure;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use semantics::kept::condition_since;
use semantics::{has_ended, is_deleted, is_ready};
use serde_json::json;

use super::job_set::{LAUNCHER, NODE, Replicated};
use super::objects::{child_job, hostfile, job_name, key_secret, pod_group, service, snapshot};
use super::observed::{
    FAILED, JobEnd, SUSPENDED, SeenTrainJob, attempt, end_of, end_words, host_of, is_there, label, node_index,
};
use super::progress::authority;
use super::valid::ValidTrainJob;
use crate::change::{Change, Child, ChildKind, Patch, Target};
use crate::failure::{failure_of, failure_of_run, refusal, refused_template};
use crate::kept::{Job, Pod};
use crate::notice::ApplyFailure;
use crate::observed::{LogSource, OutputSeen, is_failed, is_running, start};
use crate::stall::{Probe, next_look, output_shown};
use crate::time::elapsed;
use diagnosis::{
    Cause, Confidence, Facts, PodFacts, PodFailure, Retry, World, failed_run, lost_with_node,
    of_missing_worker, of_slow_worker, of_unstartable, of_worker,
};

/// JobSet's reason of a job that failed because a Job of it did.
const FAILED_JOBS: &str = "FailedJobs";
const FAILED_JOBS_MESSAGE: &str = "jobset failed due to one or more job failures";
/// JobSet's reason of a job that was restarted as often as allowed.
const MAX_RESTARTS: &str = "ReachedMaxRestarts";
const MAX_RESTARTS_MESSAGE: &str = "jobset failed due to reaching max number of restarts";
/// Trainer's reason of a job that exceeded its deadline.
pub const DEADLINE: &str = "DeadlineExceeded";
/// The reasons with which a job that was run fails: of its condition, and of the event that says the same.
pub const ENDINGS: [&str; 3] = [FAILED_JOBS, MAX_RESTARTS, DEADLINE];
const DEADLINE_MESSAGE: &str = "TrainJob exceeded its active deadline";
/// How long a Launcher may still run after the job has failed, so that it can print what it saw.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long to wait before looking again at pods that are being deleted; normally a watch reports them earlier.
const CLEARING_LOOK: Duration = Duration::from_secs(10);

/// What to do now, and what state the job is in.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainJobPlan {
    /// Groups of changes. Changes within a group may be made concurrently; groups are applied in order.
    pub changes: Vec<Vec<Change>>,
    /// A Launcher that still runs while the job fails: the end of its output belongs in the record.
    pub last_words: Option<LogSource>,
    /// The state of the job.
    pub outlook: TrainJobOutlook,
    /// What the running Launcher's output shows by now, to be remembered for the next pass.
    pub output: Option<OutputSeen>,
    /// When to look again if no change is observed before.
    pub wake_after: Option<Duration>,
}

/// The state of a TrainJob.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainJobOutlook {
    /// It had ended before; only clean-up remains.
    Finished,
    /// It is suspended.
    Suspended,
    /// Its pods are being created, or run.
    Active,
    /// It has succeeded.
    Complete,
    /// It has failed.
    Failed(Box<Ending>),
    /// This attempt has failed, and another follows.
    Restarting(Box<Ending>),
}

/// How a job, or an attempt at it, failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// The reason of the condition Failed, which is upstream's.
    pub reason: String,
    /// The beginning of its message, which is upstream's.
    pub message: String,
    /// The cause, which ends the message.
    pub failure: Option<Failure>,
}

/// Decides what to do for a job.
#[must_use]
pub fn plan(job: &ValidTrainJob, seen: &SeenTrainJob, now: Timestamp) -> TrainJobPlan {
    if let Some(since) = seen.finished() {
        return clean_up(job, seen, since, now);
    }
    let left = deadline_left(job, seen, now);
    let outlook = decide(job, seen, left, now);
    let failed = matches!(outlook, TrainJobOutlook::Failed(_) | TrainJobOutlook::Restarting(_));
    if failed || outlook == TrainJobOutlook::Complete {
        let last_words = seen.launcher_log().filter(|_| failed && seen.launcher_failed.is_none());
        return TrainJobPlan { changes: Vec::new(), last_words, outlook, output: None, wake_after: None };
    }
    let listening = seen.listening(job);
    let output = output_shown(&listening, || facts(job, seen));
    let (changes, clearing) = changes(job, seen);
    let looks = [next_start_deadline(job, seen, now), next_look(&listening, output.as_ref(), now)];
    let clearing = clearing.then_some(CLEARING_LOOK);
    let wake_after = looks.into_iter().chain([left, clearing]).flatten().min();
    TrainJobPlan { changes, last_words: None, outlook, output, wake_after }
}

/// Returns the job's state after its changes met these failures. If the server will never accept one of its Jobs, and its
/// Launcher has not run, the job fails, for another attempt would be refused, too. Failures that may pass are waited for.
pub(super) fn after_failures(
    job: &ValidTrainJob,
    seen: &SeenTrainJob,
    outlook: &TrainJobOutlook,
    failures: &[ApplyFailure],
) -> TrainJobOutlook {
    let ran = job.attempt > 1 || seen.pods_of(LAUNCHER).any(|pod| is_running(pod) || has_ended(pod));
    match (outlook, refused_template(failures)) {
        (TrainJobOutlook::Active, Some(refused)) if !ran => {
            TrainJobOutlook::Failed(Box::new(template_refused(job, refused)))
        }
        (outlook, _) => outlook.clone(),
    }
}

fn template_refused(job: &ValidTrainJob, refused: &ApplyFailure) -> Ending {
    let part = parts(job).find(|(part, index)| job_name(&job.name, &part.name, *index) == refused.name);
    let who = match part {
        Some((part, _)) if part.name == LAUNCHER => format!("Launcher ({})", refused.name),
        Some((part, _)) if part.name == NODE => format!("Workers ({})", refused.name),
        Some((part, _)) => format!("{} ({})", part.name, refused.name),
        None => refused.name.clone(),
    };
    Ending {
        reason: FAILED_JOBS.to_owned(),
        message: FAILED_JOBS_MESSAGE.to_owned(),
        failure: Some(refusal(&who, "spec.trainer, or the template in the runtime,", refused)),
    }
}

fn decide(
    job: &ValidTrainJob,
    seen: &SeenTrainJob,
    left: Option<Duration>,
    now: Timestamp,
) -> TrainJobOutlook {
    if left.is_some_and(|left| left.is_zero()) {
        return TrainJobOutlook::Failed(Box::new(Ending {
            reason: DEADLINE.to_owned(),
            message: DEADLINE_MESSAGE.to_owned(),
            failure: Some(deadline_failure(DEADLINE_MESSAGE)),
        }));
    }
    let failed_job = first_failed(job, seen);
    let failure = match &failed_job {
        Some((part, failed)) => Some(why_failed(job, seen, part, failed)),
        None if job.suspended => None,
        None => judge(job, seen, now),
    };
    if let Some(failure) = failure {
        let first = failed_job.and_then(|(_, failed)| failed.metadata.name.clone());
        return outcome(job, first, failure);
    }
    if has_succeeded(job, seen) {
        return TrainJobOutlook::Complete;
    }
    if job.suspended { TrainJobOutlook::Suspended } else { TrainJobOutlook::Active }
}

/// The failure of a job that exceeded its deadline, in the words of the condition.
#[must_use]
pub fn deadline_failure(message: &str) -> Failure {
    let cause = Cause::Timeout;
    Failure {
        reason: cause.word().to_owned(),
        message: message.to_owned(),
        suggestion: Some("Raise spec.activeDeadlineSeconds, or give the job more nodes.".to_owned()),
        link: Some(cause.link()),
        ..Failure::default()
    }
}

/// Whether another attempt follows a failed one.
fn outcome(job: &ValidTrainJob, first: Option<String>, failure: Failure) -> TrainJobOutlook {
    let most = job.job_set.max_restarts;
    let (reason, message) =
        if most == 0 { (FAILED_JOBS, FAILED_JOBS_MESSAGE) } else { (MAX_RESTARTS, MAX_RESTARTS_MESSAGE) };
    let message = match first {
        Some(first) => format!("{message} (first failed job: {first})"),
        None => message.to_owned(),
    };
    let ending = Box::new(Ending { reason: reason.to_owned(), message, failure: Some(failure) });
    if job.attempt <= most { TrainJobOutlook::Restarting(ending) } else { TrainJobOutlook::Failed(ending) }
}

/// The names of all Jobs of the job, by replicated job and index.
fn parts(job: &ValidTrainJob) -> impl Iterator<Item = (&Replicated, usize)> {
    job.job_set.replicated.iter().flat_map(|part| (0..part.replicas).map(move |index| (part, index)))
}

/// The Job that failed first.
fn first_failed<'a>(job: &'a ValidTrainJob, seen: &'a SeenTrainJob) -> Option<(&'a Replicated, &'a Job)> {
    let failed = parts(job).filter_map(|(part, index)| Some((part, seen.job(job, part, index)?)));
    let failed = failed.filter(|(_, it)| end_of(it) == Some(JobEnd::Failed));
    failed.min_by_key(|(_, it)| end_words(it).2)
}

/// Whether as many Jobs have succeeded as the success policy asks for.
fn has_succeeded(job: &ValidTrainJob, seen: &SeenTrainJob) -> bool {
    let policy = &job.job_set.success;
    let counts = |part: &Replicated| {
        policy.target_replicated_jobs.is_empty() || policy.target_replicated_jobs.contains(&part.name)
    };
    let succeeded = |(part, index): &(&Replicated, usize)| {
        seen.job(job, part, *index).and_then(end_of) == Some(JobEnd::Succeeded)
    };
    let done = parts(job).filter(|(part, _)| counts(part)).filter(succeeded).count();
    let all = parts(job).filter(|(part, _)| counts(part)).count();
    done > 0 && done >= if policy.operator == "Any" { 1 } else { all }
}

/// How long until the deadline; `None` if there is none, or the job is suspended.
fn deadline_left(job: &ValidTrainJob, seen: &SeenTrainJob, now: Timestamp) -> Option<Duration> {
    let deadline = job.active_deadline.filter(|_| !job.suspended)?;
    let resumed = seen.condition(SUSPENDED).filter(|condition| condition.status == "False");
    // A job that still counts as suspended is resumed only by this pass.
    let held = seen.condition(SUSPENDED).is_some_and(|condition| condition.status == "True");
    let since = resumed.map(|condition| condition.last_transition_time.0).or(job.created)?;
    Some(if held { deadline } else { deadline.saturating_sub(elapsed(since, now)) })
}

/// The objects to make and the Jobs to delete; the second value is whether pods of former Jobs are waited for.
fn changes(job: &ValidTrainJob, seen: &SeenTrainJob) -> (Vec<Vec<Change>>, bool) {
    let mut first = Vec::new();
    if !seen.snapshot {
        first.push(Change::Create(Child::ConfigMap(Box::new(snapshot(job)))));
    }
    let gone = to_delete(job, seen);
    let mut made = Vec::new();
    if job.suspended {
        return (grouped([first, gone.into_iter().map(delete).collect(), made]), false);
    }
    made.extend(keep_network(job, seen));
    let none_made = parts(job).all(|(part, index)| seen.job(job, part, index).is_none());
    if none_made {
        made.push(Change::Create(Child::Secret(Box::new(key_secret(job)))));
        made.extend(pod_group(job).map(|group| Change::Create(Child::PodGroup(Box::new(group)))));
    }
    let (jobs, waits) = to_create(job, seen);
    let mut groups = grouped([first, made, gone.into_iter().map(delete).collect()]);
    groups.extend(grouped([jobs]));
    (groups, waits)
}

fn grouped<const N: usize>(groups: [Vec<Change>; N]) -> Vec<Vec<Change>> {
    groups.into_iter().filter(|group| !group.is_empty()).collect()
}

/// Jobs of former attempts, and of a suspended job those that have not ended.
fn to_delete<'a>(job: &ValidTrainJob, seen: &'a SeenTrainJob) -> Vec<&'a Job> {
    let former = |it: &Job| attempt(&it.metadata) != job.attempt;
    let jobs = seen.jobs.iter().map(|it| &**it).filter(|it| it.metadata.deletion_timestamp.is_none());
    jobs.filter(|it| former(it) || (job.suspended && end_of(it).is_none())).collect()
}

fn delete(job: &Job) -> Change {
    Change::Delete(Target {
        kind: ChildKind::Job,
        name: job.metadata.name.clone().unwrap_or_default(),
        uid: job.metadata.uid.clone(),
        at_once: false,
    })
}

/// The Service, the hostfile and the authorities of the endpoint for progress: created, and both ConfigMaps restored if
/// somebody changed them.
fn keep_network(job: &ValidTrainJob, seen: &SeenTrainJob) -> Vec<Change> {
    let mut changes = Vec::new();
    if seen.service.is_none() {
        changes.push(Change::Create(Child::Service(Box::new(service(job)))));
    }
    changes.extend(keep(seen.hostfile.as_ref(), hostfile(job)));
    changes.extend(authority(job).and_then(|wanted| keep(seen.authority.as_ref(), wanted)));
    changes
}

fn keep(existing: Option<&ConfigMap>, wanted: ConfigMap) -> Option<Change> {
    match existing {
        None => Some(Change::Create(Child::ConfigMap(Box::new(wanted)))),
        Some(existing) if existing.data != wanted.data => Some(Change::Patch(Patch {
            kind: ChildKind::ConfigMap,
            name: wanted.metadata.name.unwrap_or_default(),
            of_status: false,
            body: json!({ "data": wanted.data }),
        })),
        Some(_) => None,
    }
}

/// The Jobs to create now. A Job is not created before the pods of a former one of its name are gone: both would have
/// the same host names. The second value is whether any waits for that.
fn to_create(job: &ValidTrainJob, seen: &SeenTrainJob) -> (Vec<Change>, bool) {
    let (mut changes, mut waits) = (Vec::new(), false);
    for (part, index) in parts(job) {
        if seen.job(job, part, index).is_some()
            || !part.needs.iter().all(|need| {
                let needed = job.job_set.replicated.iter().find(|it| it.name == need.name);
                needed.is_some_and(|needed| is_reached(job, seen, needed, need.complete))
            })
        {
            continue;
        }
        let made = child_job(job, part, index);
        let name = made.metadata.name.clone().unwrap_or_default();
        let same_name = |it: &Job| it.metadata.name.as_deref() == Some(name.as_str());
        let of_job = |pod: &Pod| label(&pod.metadata, "batch.kubernetes.io/job-name") == Some(name.as_str());
        let lost = |pod: &Pod| seen.lost_node(pod).is_some();
        if seen.jobs.iter().any(|it| same_name(it)) || seen.orphans().any(|pod| of_job(pod) && !lost(pod)) {
            waits = true;
            continue;
        }
        changes.push(Change::Create(Child::Job(Box::new(made))));
    }
    (changes, waits)
}

/// Whether all Jobs of a replicated job are ready, or complete. Of a Job that is to be ready its end counts too, however
/// it ended.
fn is_reached(job: &ValidTrainJob, seen: &SeenTrainJob, part: &Replicated, complete: bool) -> bool {
    (0..part.replicas).all(|index| {
        seen.job(job, part, index).is_some_and(|it| match end_of(it) {
            Some(JobEnd::Succeeded) => true,
            Some(JobEnd::Failed) => !complete,
            None => !complete && all_ready(part, it),
        })
    })
}

/// Whether as many pods of a Job are ready or have succeeded as it has pods.
pub(super) fn all_ready(part: &Replicated, job: &Job) -> bool {
    let status = job.status.clone().unwrap_or_default();
    let count = status.ready.unwrap_or(0).saturating_add(status.succeeded.unwrap_or(0));
    usize::try_from(count).is_ok_and(|count| count >= part.pods)
}

/// Cleans up after the end, as JobSet: Jobs that have not ended are deleted, and all Jobs and the Service once the TTL is
/// over.
fn clean_up(job: &ValidTrainJob, seen: &SeenTrainJob, since: Timestamp, now: Timestamp) -> TrainJobPlan {
    let waited = elapsed(since, now);
    let failed = seen.condition(FAILED).is_some_and(|condition| condition.status == "True");
    let speaks = seen.pods_of(LAUNCHER).filter(is_there).any(is_running);
    let last_words = LAST_WORDS.saturating_sub(waited);
    let spared = failed && speaks && !last_words.is_zero();
    let ttl = job.job_set.ttl_seconds.and_then(|ttl| u64::try_from(ttl).ok()).map(Duration::from_secs);
    let left = ttl.map(|ttl| ttl.saturating_sub(waited));
    let expired = left.is_some_and(|left| left.is_zero());
    let goes = |it: &Job| {
        let is_launcher = label(&it.metadata, api::LABEL_REPLICATED_JOB) == Some(LAUNCHER);
        expired || (end_of(it).is_none() && !(is_launcher && spared))
    };
    let jobs = seen.jobs.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    let mut changes: Vec<Change> = jobs.filter(|it| goes(it)).map(|it| delete(it)).collect();
    changes.extend(seen.service.iter().filter(|_| expired).map(|service| {
        Change::Delete(Target {
            kind: ChildKind::Service,
            name: service.metadata.name.clone().unwrap_or_default(),
            uid: service.metadata.uid.clone(),
            at_once: false,
        })
    }));
    let wake_after = [spared.then_some(last_words), left.filter(|left| !left.is_zero())];
    TrainJobPlan {
        changes: grouped([changes]),
        last_words: None,
        outlook: TrainJobOutlook::Finished,
        output: None,
        wake_after: wake_after.into_iter().flatten().min(),
    }
}

/// Decides whether the job cannot go on although none of its Jobs has failed: a pod can never start, is on a lost node, or
/// was not ready in time; a node failed; or MPI refused what the user wrote.
fn judge(job: &ValidTrainJob, seen: &SeenTrainJob, now: Timestamp) -> Option<Failure> {
    let ours = || {
        job.job_set.replicated.iter().flat_map(|part| seen.pods_of(&part.name).map(move |pod| (part, pod)))
    };
    let there = || ours().filter(|(_, pod)| is_there(pod));
    let found =
        |(part, pod): (&Replicated, &Pod), failure: PodFailure| failure_of_pod(job, part, pod, failure);
    if let Some(failure) = there().find_map(|it| Some(found(it, of_unstartable(it.1)?))) {
        return Some(failure);
    }
    let lost = |pod: &Pod| {
        let (node, words) = seen.lost_node(pod).filter(|_| !has_ended(pod))?;
        Some(lost_with_node(node, words))
    };
    if !job.tolerates_failures {
        let of_mpi = |part: &Replicated| [NODE, LAUNCHER].contains(&part.name.as_str());
        if let Some(failure) =
            ours().filter(|(part, _)| of_mpi(part)).find_map(|it| Some(found(it, lost(it.1)?)))
        {
            return Some(failure);
        }
        let mut failed = there().filter(|(part, pod)| part.name == NODE && is_failed(pod));
        if let Some(it) = failed.next() {
            return Some(found(it, of_worker(it.1)));
        }
    }
    if let Some((failure, cause, confidence)) = of_launcher_run(job, seen)
        && cause.retry() == Retry::Useless
        && confidence >= Confidence::Medium
    {
        return Some(failure);
    }
    let slow =
        there().find(|(_, pod)| start_deadline(job, pod, seen, now).is_some_and(|deadline| deadline <= now));
    let waited = format!("{} s", job.start_timeout.as_secs());
    slow.map(|it| found(it, of_slow_worker(it.1, &waited)))
}

/// The deadline by which a scheduled pod that is not ready must become ready. Pauses of the observer do not count.
fn start_deadline(job: &ValidTrainJob, pod: &Pod, seen: &SeenTrainJob, now: Timestamp) -> Option<Timestamp> {
    let of_mpi = label(&pod.metadata, api::LABEL_REPLICATED_JOB).is_some_and(|part| part == NODE);
    if !of_mpi || is_ready(pod) || has_ended(pod) || was_ready(pod) {
        return None;
    }
    let since = condition_since(pod, "PodScheduled")?;
    since.checked_add(job.start_timeout + seen.pauses.within(since, now)).ok()
}

/// Whether a container of the pod has run and ended: it started in time.
fn was_ready(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.into_iter().any(|status| status.restart_count > 0)
}

fn next_start_deadline(job: &ValidTrainJob, seen: &SeenTrainJob, now: Timestamp) -> Option<Duration> {
    let pods = seen.pods_of(NODE).filter(is_there);
    Some(elapsed(now, pods.filter_map(|pod| start_deadline(job, pod, seen, now)).min()?))
}

fn failure_of_pod(job: &ValidTrainJob, part: &Replicated, pod: &Pod, failure: PodFailure) -> Failure {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let node = node_index(part, pod).filter(|_| part.name == NODE);
    let who = match node {
        Some(index) => format!("Worker {index} ({})", host_of(job, part, index)),
        None if part.name == LAUNCHER => format!("Launcher ({name})"),
        None => format!("{} ({name})", part.name),
    };
    failure_of(failure, &who, name, node.and_then(|index| i32::try_from(index).ok()))
}

/// Why a Job failed: a node's pod if one did, else what its own pod or the Launcher's output shows.
fn why_failed(job: &ValidTrainJob, seen: &SeenTrainJob, part: &Replicated, failed: &Job) -> Failure {
    let failed_pod = |part: &Replicated| seen.pods_of(&part.name).find(|pod| is_failed(pod)).cloned();
    if let Some((nodes, pod)) = job.nodes().and_then(|nodes| Some((nodes, failed_pod(nodes)?))) {
        let failure = if is_deleted(&pod) { of_missing_worker(Some(&pod)) } else { of_worker(&pod) };
        return failure_of_pod(job, nodes, &pod, failure);
    }
    if part.name == LAUNCHER
        && let Some((failure, cause, _)) = of_launcher_run(job, seen)
    {
        // What a Launcher prints about a deleted Worker shows less than that it was deleted.
        let is_loss = matches!(
            cause,
            Cause::WorkerLost | Cause::DaemonLost | Cause::RankKilled | Cause::Terminated | Cause::Unknown
        );
        return deleted_node(job, seen).filter(|_| is_loss).unwrap_or(failure);
    }
    if let Some(pod) = failed_pod(part) {
        return failure_of_pod(job, part, &pod, of_worker(&pod));
    }
    let (reason, message, _) = end_words(failed);
    let name = failed.metadata.name.clone().unwrap_or_default();
    let cause = if reason == DEADLINE { Cause::Timeout } else { Cause::Unknown };
    Failure {
        reason: cause.word().to_owned(),
        message: format!("Job {name:?} failed: {reason}: {message}"),
        suggestion: Some(cause.texts().suggestion.to_owned()),
        link: Some(cause.link()),
        ..Failure::default()
    }
}

/// The failure of a node that was deleted while the Launcher's failed run lasted. Its pod may be gone, or replaced, if the
/// Launcher was not created before the nodes were ready.
fn deleted_node(job: &ValidTrainJob, seen: &SeenTrainJob) -> Option<Failure> {
    let nodes = job.nodes()?;
    let launcher = job.job_set.replicated.iter().find(|part| part.name == LAUNCHER)?;
    let were_up = launcher.needs.iter().any(|need| need.name == NODE);
    let began = start(failed_run(seen.failed_launcher_pod()?)?.ended.started_at.as_ref())?;
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (0..nodes.replicas.saturating_mul(nodes.pods)).find_map(|index| {
        let pod = seen.pods_of(NODE).find(|pod| node_index(nodes, pod) == Some(index));
        let lost = match pod {
            None => were_up,
            Some(pod) => is_deleted(pod) || (were_up && created(pod) > Some(began)),
        };
        let host = host_of(job, nodes, index);
        let failure = of_missing_worker(pod.filter(|pod| is_deleted(*pod)));
        let index = i32::try_from(index).ok();
        lost.then(|| {
            failure_of(failure, &format!("Worker {} ({host})", index.unwrap_or_default()), host, index)
        })
    })
}

/// What the Launcher's last failed run shows.
fn of_launcher_run(job: &ValidTrainJob, seen: &SeenTrainJob) -> Option<(Failure, Cause, Confidence)> {
    let pod = seen.failed_launcher_pod()?;
    let hosts = node_hosts(job);
    let index_of = |worker: &str| {
        let index = hosts.iter().position(|host| host == worker)?;
        i32::try_from(index).ok()
    };
    Some(failure_of_run(pod, seen.launcher_failed.as_ref(), facts(job, seen), index_of))
}

/// The host names of the nodes, in the order of the hostfile.
fn node_hosts(job: &ValidTrainJob) -> Vec<String> {
    let of = |part: &Replicated| part.replicas.saturating_mul(part.pods);
    let nodes = job.nodes().into_iter();
    nodes.flat_map(|part| (0..of(part)).map(|index| host_of(job, part, index))).collect()
}

/// The facts about the existing pods. Output names hosts, not pods.
fn facts(job: &ValidTrainJob, seen: &SeenTrainJob) -> Facts {
    let hosts = node_hosts(job);
    let facts_of = |pod: &Pod| {
        let host = job.nodes().and_then(|part| hosts.get(node_index(part, pod)?));
        let facts = PodFacts::of(pod, true);
        PodFacts { name: host.cloned().unwrap_or_else(|| facts.name.clone()), ..facts }
    };
    let launchers = seen.pods_of(LAUNCHER).map(|pod| PodFacts::of(pod, false));
    let pods = launchers.chain(seen.pods_of(NODE).map(facts_of)).collect();
    let slots = u32::try_from(job.mpi.slots).ok().filter(|slots| *slots > 0 && !job.mpi.launcher_as_node);
    let world = slots.map(|slots| World { workers: hosts, slots });
    Facts { pods, world, mpi: Some(job.mpi.implementation.name()), ..Facts::default() }
}

/// What is looked at beside the output of a silent job.
pub(super) fn probe<'a>(job: &ValidTrainJob, seen: &'a SeenTrainJob) -> Probe<'a> {
    let workers: Vec<&Pod> = seen.pods_of(NODE).filter(is_there).collect();
    Probe {
        launcher_runs: seen.pods_of(LAUNCHER).any(is_running),
        worker_count: node_hosts(job).len(),
        workers,
        lost_nodes: &seen.lost_nodes,
        launch: Some(job.launch),
    }
}

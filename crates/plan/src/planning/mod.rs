//! Turns a valid job and its observed state into the changes to make and the state that the job is then in. The order
//! of decisions is upstream's (`syncHandler` in `pkg/controller/mpi_job_controller.go`), but a failed Worker, which
//! upstream only counts, ends the job here. The failure is recorded before anything is released: the pass that decides
//! it changes nothing else, and the next pass finds the job finished and cleans up.

mod children;
mod cleanup;
mod verdict;

use std::time::Duration;

use api::{CONDITION_FAILED, REASON_RESTARTING, REASON_VALIDATION};
use jiff::Timestamp;
use semantics::kept::condition_since;
use semantics::{has_ended, is_deleted};
use serde_json::{Value, json};

use crate::Settings;
use crate::change::{Change, Child, ChildKind, Patch, Target};
use crate::conditions::{condition, has_run, is_finished};
use crate::failure::{facts, refused_template};
use crate::kept::{Job, Pod};
use crate::notice::ApplyFailure;
use crate::objects::{launcher_job, launcher_name};
use crate::observed::{LogSource, ObservedState, OutputSeen, is_running, started_at};
use crate::outlook::Outlook;
use crate::restart::{CLEARING_LOOK, clear, is_restarted};
use crate::stall::{Listening, next_look, output_shown};
use crate::time::elapsed;
use crate::validate::{Replica, ValidJob};
use children::{
    drop_pod_group, keep_config_map, keep_launcher, keep_network_policy, keep_pod_group, keep_secret,
    keep_service, keep_workers,
};
pub(crate) use cleanup::was_ended_early;
use cleanup::{clean_up, ended_early};
pub(crate) use verdict::has_failed;
use verdict::{cancelled, judge, launcher_verdict, next_deadline, recorded, template_refused};

/// The volumes of a pod that has a node are mostly there within this time; asked again this often.
const VOLUMES_LOOK: Duration = Duration::from_secs(5);
/// The Job controller creates the Launcher's pod within this time, or is refused; asked again this often.
const LAUNCHER_POD_LOOK: Duration = Duration::from_secs(3);

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
    let output = output_shown(&Listening::to(job, seen), || facts(job, seen));
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

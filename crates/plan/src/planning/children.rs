//! What to create or change of each object that a job owns.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use semantics::{is_deleted, is_ready};
use serde_json::{Map, Value, json};

use super::{create, delete_pod, is_suspended, patch, set_suspend};
use crate::Settings;
use crate::change::{Change, Child, ChildKind, Patch, Target};
use crate::kept::Job;
use crate::objects::{
    DISCOVER_HOSTS, config_map, config_map_name, discover_hosts, drift, launcher_job, launcher_name,
    network_policy, pod_group, scheduling_directives, secret, secret_name, service, watched_labels, worker,
};
use crate::observed::{ObservedState, SecretSeen, started_at, worker_index};
use crate::restart::avoid;
use crate::time::elapsed;
use crate::validate::{LauncherCreation, ValidJob};

/// `discover_hosts.sh` is rewritten once the set of Workers has not changed for this long. Kubelets take a minute to
/// show a changed ConfigMap in a pod, so of a hundred writes for a hundred starting Workers, ninety-nine would be
/// useless.
const HOSTS_SETTLE: Duration = Duration::from_secs(10);

/// The Service; its selector and `publishNotReadyAddresses` are restored if they differ.
pub(super) fn keep_service(job: &ValidJob, seen: &ObservedState) -> Option<Change> {
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
pub(super) fn keep_config_map(
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
pub(super) fn keep_secret(job: &ValidJob, seen: &ObservedState) -> Option<Change> {
    match seen.secret {
        SecretSeen::Absent => Some(create(Child::Secret(Box::new(secret(job))))),
        SecretSeen::Incomplete => Some(patch(ChildKind::Secret, secret_name(&job.name), json!({}))),
        SecretSeen::Present => None,
    }
}

/// The NetworkPolicy of a job that asks for one: created once and never changed afterwards, so that users can edit it.
pub(super) fn keep_network_policy(job: &ValidJob, seen: &ObservedState) -> Option<Change> {
    let missing = job.isolated && !seen.network_policy;
    missing.then(|| create(Child::NetworkPolicy(Box::new(network_policy(job)))))
}

/// The PodGroup is created before the first pod, and follows the Worker count and the scheduling policy.
pub(super) fn keep_pod_group(job: &ValidJob, seen: &ObservedState, settings: &Settings) -> Option<Change> {
    let wanted = pod_group(job, seen, settings.gang.as_ref()?);
    match &seen.pod_group {
        None => Some(create(Child::PodGroup(Box::new(wanted)))),
        Some(existing) => {
            drift(existing, &wanted).map(|body| patch(ChildKind::PodGroup, job.name.clone(), body))
        }
    }
}

pub(super) fn drop_pod_group(seen: &ObservedState) -> Option<Change> {
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
pub(super) fn keep_workers(job: &ValidJob, seen: &ObservedState, settings: &Settings) -> Vec<Change> {
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
pub(super) fn keep_launcher(
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

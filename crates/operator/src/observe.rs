//! Reads what a job has: its last status and its children, from the watches' stores and, where those cannot know,
//! from the API server by name. It changes nothing, not even the memory, and waits for nothing but answers: what is still
//! to come is observed in a later pass.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{CONDITION_CREATED, CONDITION_RUNNING, LABEL_JOB_NAME, LABEL_JOB_ROLE, MPIJob};
use diagnosis::Gpus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt};
use plan::kept::{Job, Pod};
use plan::{ChildKind, LauncherCreation, ObservedState, SecretSeen, ValidJob};
use serde::de::DeserializeOwned;

use crate::context::{Context, Shared};
use crate::error::Error;
use crate::launcher_log::{self, Logs};
use crate::launcher_pod;
use crate::memory::{Known, Made, Priorities, WATCH_LAG};
use crate::owned::{is_controlled_by, is_left_behind};
use crate::pod_groups;
use crate::references;

/// At most so many Workers that seem lost are asked for by name; one that is truly lost is enough.
const MOST_ASKED: usize = 8;
/// Of so many earlier attempts the failed nodes are avoided.
const MOST_RECORDS: u32 = 20;

/// What was seen of a job.
pub(crate) struct Observed {
    /// What the plan is made from.
    pub seen: ObservedState,
    /// What the next observation need not ask for again.
    pub known: Known,
    /// How long to wait before the job is observed again, if something is still missing in what was seen.
    pub wait: Option<Duration>,
}

/// Observes a job.
///
/// # Errors
/// If the API server could not be asked where it had to be.
pub(crate) async fn observe(
    context: &Context,
    job: &MPIJob,
    valid: &ValidJob,
    now: Timestamp,
) -> Result<Observed, Error> {
    let mut seen = from_stores(context, valid);
    seen.pauses = context.pauses(now);
    seen.left_behind = left_behind(context, job, valid, &seen);
    let mut known = from_memory(context, job, valid, &mut seen);
    let first_pass = plan::condition(&seen.status, CONDITION_CREATED).is_none();
    let mut has_hidden = false;
    if !known.adopted && !first_pass && seen.status.completion_time.is_none() {
        has_hidden = adopt(context, valid, &mut seen).await?;
    } else if !first_pass && makes_pods(valid, &seen) {
        confirm_secret(context, valid, &mut seen).await?;
    }
    known.secret_present = seen.secret == SecretSeen::Present;
    if first_pass && valid.launcher_creation == LauncherCreation::WaitForWorkersReady {
        look_for_stranger(context, valid, &mut seen).await?;
    }
    if context.settings.plan.gang.is_some() && seen.status.completion_time.is_none() {
        seen.priorities = priorities(context, valid, &mut known).await?;
    }
    seen.launcher_refused = launcher_pod::refusal(context, valid, &seen, &mut known.attempt, now).await?;
    seen.missing_reference = references::missing(context, valid, &seen, &mut known.attempt, now).await;
    confirm_losses(context, valid, &mut seen).await?;
    lost_nodes(context, &mut seen).await;
    if context.settings.namespace.is_none() && plan::wants_gpus_counted(&seen) && !known.attempt.gpus_counted
    {
        seen.gpus = count_gpus(context, valid, &seen).await;
    }
    let logs = match launcher_log::add_failed_run(context, valid, &mut seen, &mut known.attempt).await? {
        Logs::Read => launcher_log::listen(context, valid, &mut seen, &mut known.attempt, now).await,
        logs @ Logs::Wait(_) => logs,
    };
    let wait = match logs {
        Logs::Read => None,
        Logs::Wait(wait) => Some(wait),
    };
    // A pass that has to wait makes no use of what it has found: the next one looks it up again.
    let is_used = wait.is_none();
    known.adopted = is_used || !has_hidden;
    known.attempt.gpus_counted |= is_used && seen.gpus.is_some();
    Ok(Observed { seen, known, wait })
}

/// GPUs that the job asks for, and those that are free; nothing where that cannot be counted.
async fn count_gpus(context: &Context, job: &ValidJob, seen: &ObservedState) -> Option<Gpus> {
    let capacity = context.capacity.read(&context.client).await?;
    let launchers = seen.launcher_pods.iter().filter_map(|pod| pod.metadata.uid.as_deref());
    let workers = seen.workers.iter().filter_map(|pod| pod.metadata.uid.as_deref());
    Some(capacity.gpus(job.gpus(), workers.chain(launchers)))
}

/// The values of the priority classes that decide which pods' resources a gang counts; one that is missing counts as 0, as
/// upstream has it, and is asked for again. The rest is asked for once for each generation of the job, as other classes may
/// decide about the next.
async fn priorities(
    context: &Context,
    job: &ValidJob,
    known: &mut Known,
) -> Result<BTreeMap<String, i32>, Error> {
    let names = plan::deciding_classes(job);
    let of_generation = known.priorities.as_ref().filter(|known| known.generation == job.generation);
    if let Some(known) = of_generation
        && names.iter().all(|name| known.values.contains_key(name))
    {
        return Ok(known.values.clone());
    }
    let values = pod_groups::priorities(&context.client, &names).await?;
    known.priorities = Some(Priorities { generation: job.generation, values: values.clone() });
    Ok(values)
}

fn from_stores(context: &Context, valid: &ValidJob) -> ObservedState {
    let stores = &context.stores;
    let mut seen = ObservedState {
        service: named(&stores.services, valid, &valid.name),
        config_map: named(&stores.config_maps, valid, &format!("{}-config", valid.name)),
        launcher: named(&stores.jobs, valid, &plan::launcher_name(&valid.name)),
        ..ObservedState::default()
    };
    if seen.launcher.is_none() {
        let ended = context.memory.ended_launcher(&valid.uid);
        seen.launcher = ended.filter(|launcher| {
            // One of a former attempt is gone because it was removed.
            plan::attempt_of(&launcher.metadata) == valid.attempt
        });
    }
    let group = stores.pod_groups.as_ref().and_then(|groups| {
        let wanted = ObjectRef::new_with(&valid.name, groups.resource.clone()).within(&valid.namespace);
        groups.store.get(&wanted)
    });
    let group = group.filter(|group| is_controlled_by(&**group, &valid.uid));
    seen.pod_group = group.and_then(|group| pod_groups::read(&group));
    let recorded = |attempt: u32| {
        let record = named(&stores.config_maps, valid, &plan::record_name(&valid.name, attempt));
        record.as_ref().and_then(plan::recorded)
    };
    seen.recorded = recorded(valid.attempt);
    if valid.avoid_nodes.is_some() {
        let oldest = valid.attempt.saturating_sub(MOST_RECORDS).max(1);
        seen.failed_nodes = (oldest..valid.attempt).filter_map(|attempt| recorded(attempt)?.node).collect();
        seen.failed_nodes.sort();
        seen.failed_nodes.dedup();
    }
    seen.disrupted_workers = context.memory.disrupted_workers_of(&valid.uid);
    let launcher = seen.launcher.as_ref().and_then(ResourceExt::uid);
    for pod in stores.pods_of_jobs.pods_of(&valid.namespace, &valid.name, &stores.pods) {
        if is_controlled_by(&*pod, &valid.uid) {
            seen.workers.push(pod);
        } else if launcher.as_deref().is_some_and(|uid| is_controlled_by(&*pod, uid)) {
            seen.launcher_pods.push((*pod).clone());
        } else if is_former_launcher(&pod, valid) {
            seen.former_launcher_pods.push((*pod).clone());
        }
    }
    seen
}

/// What the watches still show of a deleted job of this name: its objects, whose names the job needs, and its Launcher's
/// pods that have not ended.
fn left_behind(context: &Context, job: &MPIJob, valid: &ValidJob, seen: &ObservedState) -> Vec<ObjectMeta> {
    let stores = &context.stores;
    let (config, record) = (format!("{}-config", valid.name), plan::record_name(&valid.name, valid.attempt));
    let mut found: Vec<ObjectMeta> = [
        left(&stores.services, valid, &valid.name),
        left(&stores.config_maps, valid, &config),
        left(&stores.config_maps, valid, &record),
        left(&stores.jobs, valid, &plan::launcher_name(&valid.name)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let launcher = plan::launcher_name(&valid.name);
    let ours = seen.launcher.as_ref().and_then(ResourceExt::uid).unwrap_or_default();
    let created = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let is_older = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0) <= created;
    let pods = stores.pods_of_jobs.pods_of(&valid.namespace, &valid.name, &stores.pods);
    let pods = pods.iter().filter(|pod| {
        is_left_behind(&***pod, "MPIJob", &valid.name, &valid.uid)
            // A pod of the Launcher names its Job only. One that the job itself has lost is no older than the job.
            || (is_left_behind(&***pod, "Job", &launcher, &ours) && is_older(pod) && !semantics::has_ended(pod))
    });
    found.extend(pods.map(|pod| pod.metadata.clone()));
    found
}

/// The object of this name, if it is one of a deleted job of the job's name.
fn left<K>(store: &Store<K>, job: &ValidJob, name: &str) -> Option<ObjectMeta>
where
    K: Resource<DynamicType = ()> + Clone,
{
    let child = store.get(&ObjectRef::new(name).within(&job.namespace))?;
    is_left_behind(&*child, "MPIJob", &job.name, &job.uid).then(|| child.meta().clone())
}

/// Adds what is remembered of the job. Returns what earlier observations have found out.
fn from_memory(context: &Context, job: &MPIJob, valid: &ValidJob, seen: &mut ObservedState) -> Known {
    context.memory.of(&valid.uid, |memory| {
        let mut known = memory.known.in_attempt(valid.attempt);
        add_created(&mut known, seen);
        known.deleted.retain(|uid, deletion| deletion.awaits_watch(uid, seen));
        seen.status = memory.status.last(job);
        seen.network_policy = memory.network_policy_present;
        seen.strangers = memory.strangers.clone();
        seen.secret = if known.secret_present { SecretSeen::Present } else { SecretSeen::Absent };
        known
    })
}

/// Whether this is the pod of a Launcher of a former attempt, that has not ended: its Job may be gone before it.
fn is_former_launcher(pod: &Pod, job: &ValidJob) -> bool {
    let labels = pod.labels();
    let has = |key: &str, value: &str| labels.get(key).is_some_and(|label| label == value);
    let launcher = plan::launcher_name(&job.name);
    has(LABEL_JOB_NAME, &job.name)
        && has(LABEL_JOB_ROLE, "launcher")
        && pod.owner_references().iter().any(|owner| owner.kind == "Job" && owner.name == launcher)
        && plan::attempt_of(&pod.metadata) != job.attempt
        && !semantics::has_ended(pod)
}

async fn lost_nodes(context: &Context, seen: &mut ObservedState) {
    if seen.status.completion_time.is_some() {
        return;
    }
    let pods =
        seen.workers.iter().map(|pod| &**pod).chain(&seen.launcher_pods).chain(&seen.former_launcher_pods);
    seen.lost_nodes = lost_nodes_of(context, pods).await;
}

/// Asks for the nodes of pods whose container is ready by its kubelet's last word, while the pod is not: so the node's
/// life cycle marks the pods of a node that does not report any more. A node that cannot be asked for counts as there.
pub(crate) async fn lost_nodes_of<'a>(
    context: &Shared,
    pods: impl Iterator<Item = &'a Pod>,
) -> BTreeMap<String, String> {
    let mut silent: BTreeMap<String, Timestamp> = BTreeMap::new();
    for (pod, since) in pods.filter_map(|pod| Some((pod, silenced(pod)?))) {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
            let newest = silent.entry(node).or_insert(since);
            *newest = since.max(*newest);
        }
    }
    let mut lost = BTreeMap::new();
    for (name, since) in silent.into_iter().take(MOST_ASKED) {
        if let Some(words) = context.nodes.words_of_lost(&context.client, &name, since).await {
            lost.insert(name, words);
        }
    }
    lost
}

/// Since when a pod is not ready whose containers all are: the epoch where its condition does not say; nothing of other pods.
fn silenced(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"))?;
    let mut conditions = status.conditions.iter().flatten();
    let unready = conditions.find(|it| it.type_ == "Ready" && it.status == "False")?;
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let since = unready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    containers.iter().all(|container| container.ready).then_some(since)
}

/// The child of this name, if the job controls it.
fn named<K>(store: &Store<K>, job: &ValidJob, name: &str) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone,
{
    let child = store.get(&ObjectRef::new(name).within(&job.namespace))?;
    is_controlled_by(&*child, &job.uid).then(|| (*child).clone())
}

/// Children that were just created count as seen until their watch shows them, or has had the time to.
fn add_created(known: &mut Known, seen: &mut ObservedState) {
    let workers: HashSet<&str> = seen.workers.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let now = Instant::now();
    known.created.retain(|(kind, name), (at, _)| {
        let shown = match kind {
            ChildKind::Service => seen.service.is_some(),
            ChildKind::ConfigMap => seen.config_map.is_some(),
            ChildKind::Job => seen.launcher.is_some(),
            ChildKind::Pod => workers.contains(name.as_str()),
            ChildKind::PodGroup => seen.pod_group.is_some(),
            ChildKind::Secret | ChildKind::NetworkPolicy => true,
        };
        !shown && now.duration_since(*at) < WATCH_LAG
    });
    for (_, child) in known.created.values() {
        match child.clone() {
            Made::Service(service) => seen.service = Some(*service),
            Made::ConfigMap(config_map) => seen.config_map = Some(*config_map),
            Made::Job(job) => seen.launcher = Some(*job),
            Made::Pod(pod) => seen.workers.push(pod),
            Made::PodGroup(group) => seen.pod_group = Some(*group),
        }
    }
}

/// A job that another process began, ours before a restart or upstream's operator, may have children that no watch
/// selects, and its Secret is unknown: each is asked for by name, once. Returns whether there are such children.
async fn adopt(context: &Context, job: &ValidJob, seen: &mut ObservedState) -> Result<bool, Error> {
    let client = &context.client;
    let shown = children(seen);
    if seen.service.is_none() {
        seen.service = ask::<Service>(client, job, &job.name).await?;
    }
    if seen.config_map.is_none() {
        seen.config_map = ask::<ConfigMap>(client, job, &format!("{}-config", job.name)).await?;
    }
    if seen.launcher.is_none() {
        seen.launcher = ask::<Job>(client, job, &plan::launcher_name(&job.name)).await?;
    }
    if let Some(gang) = context.settings.plan.gang.as_ref().filter(|_| seen.pod_group.is_none()) {
        seen.pod_group = pod_groups::ask(client, gang, job).await?;
    }
    let secret = ask::<Secret>(client, job, &plan::secret_name(&job.name)).await?;
    seen.secret = secret.as_ref().map_or(SecretSeen::Absent, secret_state);
    Ok(children(seen) != shown)
}

/// Which of the children that watches may not select were seen.
fn children(seen: &ObservedState) -> [bool; 4] {
    let ObservedState { service, config_map, launcher, pod_group, .. } = seen;
    [service.is_some(), config_map.is_some(), launcher.is_some(), pod_group.is_some()]
}

/// Whether pods that mount the Secret are about to be made for a job that had pods before: on a resumption, for more Workers,
/// for another attempt.
fn makes_pods(job: &ValidJob, seen: &ObservedState) -> bool {
    let suspended = |launcher: &Job| launcher.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    !job.suspended
        && seen.status.completion_time.is_none()
        && (seen.workers.len() < job.worker_count() || seen.launcher.as_ref().is_some_and(suspended))
}

/// No watch shows that the Secret was deleted, so that it is there is asked of the server while nothing mounts it.
async fn confirm_secret(context: &Context, job: &ValidJob, seen: &mut ObservedState) -> Result<(), Error> {
    if seen.secret != SecretSeen::Present {
        return Ok(());
    }
    let secret = ask::<Secret>(&context.client, job, &plan::secret_name(&job.name)).await?;
    seen.secret = secret.as_ref().map_or(SecretSeen::Absent, secret_state);
    Ok(())
}

/// A Launcher that is made when the Workers are ready would meet a stranger of its name only then.
async fn look_for_stranger(context: &Context, job: &ValidJob, seen: &mut ObservedState) -> Result<(), Error> {
    if seen.launcher.is_some() || job.suspended {
        return Ok(());
    }
    let name = plan::launcher_name(&job.name);
    let launchers: Api<Job> = Api::namespaced(context.client.clone(), &job.namespace);
    let found = launchers.get_opt(&name).await.map_err(Error::request("look for the Launcher"))?;
    if found.is_some_and(|found| !is_controlled_by(&found, &job.uid)) {
        seen.strangers.insert((ChildKind::Job, name));
    }
    Ok(())
}

/// Whether the Secret has both keys and nothing else.
pub(crate) fn secret_state(secret: &Secret) -> SecretSeen {
    let keys: Vec<&str> = secret.data.iter().flatten().map(|(key, _)| key.as_str()).collect();
    if keys == ["ssh-privatekey", "ssh-publickey"] { SecretSeen::Present } else { SecretSeen::Incomplete }
}

/// A Worker that is missing from a running job ends it, so that it is missing is asked of the server, not of a watch.
async fn confirm_losses(context: &Context, job: &ValidJob, seen: &mut ObservedState) -> Result<(), Error> {
    if !plan::is_true(&seen.status, CONDITION_RUNNING)
        || seen.status.completion_time.is_some()
        || job.suspended
        || job.tolerates_failures()
    {
        return Ok(());
    }
    let names: HashSet<&str> = seen.workers.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let wanted = (0..job.worker_count()).map(|index| plan::worker_name(&job.name, index));
    let missing: Vec<String> =
        wanted.filter(|name| !names.contains(name.as_str())).take(MOST_ASKED).collect();
    for name in missing {
        if let Some(pod) = ask::<Pod>(&context.client, job, &name).await? {
            seen.workers.push(Arc::new(pod));
        }
    }
    Ok(())
}

/// A child by name, if there is one and the job controls it.
async fn ask<K>(client: &Client, job: &ValidJob, name: &str) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let children: Api<K> = Api::namespaced(client.clone(), &job.namespace);
    let what = format!("read {} {name:?}", K::kind(&()));
    let child = children.get_opt(name).await.map_err(Error::request(what))?;
    Ok(child.filter(|child| is_controlled_by(child, &job.uid)))
}

//! One pod on this node, from the first sight of it to its end: a task of its own that walks
//! prepare → init containers → containers → finish, while a second one writes its status.
//!
//! What is wished (the pod as the API has it, its deletion) comes in through a watch channel; what is known goes into
//! a [`PodRecord`], from which `status` computes what is reported. Nothing here waits without also looking at `stop`.

mod container;
pub mod hooks;
mod mounting;
mod probes;
mod secure;
mod security;
mod storage;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::container::Role;
use super::environment::{Facts, relocate};
use super::sandbox::protocol::PodSpec as SandboxSpec;
use super::status::{self, ContainerRecord, PodRecord, State};
use super::volumes::{self, Ready};
use super::{LocalNode, lock};
use crate::supervision::contained;

/// The first pause before a volume or sandbox is tried again; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// The longest such pause; kubelet's is two minutes, but here everything is near.
const LAST_RETRY: Duration = Duration::from_secs(15);
/// The longest that containers may take to end, whatever their pod says: `terminationGracePeriodSeconds` may hold more
/// seconds than a clock can count.
const MAX_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Tries to write a status before it is left to the next change.
const MAX_STATUS_TRIES: u32 = 8;

/// What the API wants of a pod.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The pod as last seen.
    pub pod: Arc<Pod>,
    /// Whether it is no longer in the API.
    pub gone: bool,
}

impl Wish {
    fn ends(&self) -> bool {
        self.gone || self.pod.metadata.deletion_timestamp.is_some()
    }
}

/// Which container of a record is meant.
#[derive(Debug, Clone, Copy)]
pub enum Slot {
    /// An init container.
    Init(usize),
    /// A container.
    Main(usize),
}

impl Slot {
    /// Its record.
    pub fn of(self, record: &mut PodRecord) -> &mut ContainerRecord {
        match self {
            Slot::Init(index) => &mut record.init[index],
            Slot::Main(index) => &mut record.main[index],
        }
    }
}

/// A pod on this node.
pub struct PodRun {
    /// The node.
    pub node: Arc<LocalNode>,
    /// Its uid.
    pub uid: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The folder of all that lives as long as its containers.
    pub folder: PathBuf,
    wish: watch::Receiver<Wish>,
    record: Mutex<PodRecord>,
    dirty: Notify,
    /// Containers are to be ended.
    stop: CancellationToken,
    /// Init containers that keep running are to be ended.
    stop_sidecars: CancellationToken,
    volumes: Mutex<BTreeMap<String, Ready>>,
    written: tokio::sync::Mutex<Option<PodStatus>>,
}

fn spec(pod: &Pod) -> PodSpec {
    pod.spec.clone().unwrap_or_default()
}

/// A grace period as a field has it, in seconds; never more than [`MAX_GRACE`].
fn grace_of(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(MAX_GRACE)
}

/// How a pod is called on the network.
pub fn hostname(pod: &Pod) -> String {
    let named = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| pod.metadata.name.clone().unwrap_or_default())
}

/// Runs a pod to its very end. If a step of this node panics, the pod's processes are killed, and after a pause the pod
/// begins again as after a restart of the node; a pod that is to go is taken down instead.
pub async fn run_supervised(node: Arc<LocalNode>, mut wish: watch::Receiver<Wish>, address: Ipv4Addr) {
    let mut pause = FIRST_RETRY;
    while let Err(panic) = contained(run(Arc::clone(&node), wish.clone(), address)).await {
        let pod = Arc::clone(&wish.borrow().pod);
        let name = format!(
            "{}/{}",
            pod.metadata.namespace.as_deref().unwrap_or_default(),
            pod.metadata.name.as_deref().unwrap_or_default()
        );
        node.health.failed("node: pods", &format!("{panic} (at pod {name})"));
        let message = format!("The node failed while it ran the pod: {panic}");
        node.events.warning(&pod, None, "InternalError", message);
        kill(&node, &pod).await;
        // A closed channel means that the node is being stopped.
        let ends = async { wish.wait_for(Wish::ends).await.is_ok() };
        if tokio::time::timeout(pause, ends).await == Ok(true) {
            take_down(&node, &pod).await;
            delete(&node.client, &pod).await;
            node.forget_logs(&pod);
            return;
        }
        pause = (pause * 2).min(LAST_RETRY);
    }
}

/// Kills what runs for a pod, and removes its network.
async fn kill(node: &LocalNode, pod: &Pod) {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let sandbox = lock(&node.sandboxes).remove(uid);
    sandbox.inspect(CancellationToken::cancel);
    let _ = node.sandbox.remove_pod(uid).await;
}

/// Gives back all that a pod without containers has of the node.
async fn take_down(node: &LocalNode, pod: &Pod) {
    kill(node, pod).await;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    lock(&node.devices).release(uid);
    lock(&node.hosts).remove(pod.metadata.namespace.as_deref().unwrap_or_default(), uid);
    let folder = node.pod_folder(uid);
    let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
}

/// What a task of the pod's came to; its panic goes on here.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Option<T> {
    match result.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(value) => Some(value),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Runs a pod to its very end.
async fn run(node: Arc<LocalNode>, wish: watch::Receiver<Wish>, address: Ipv4Addr) {
    let pod = Arc::clone(&wish.borrow().pod);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let folder = node.pod_folder(&uid);
    let record = first_record(&node, &pod);
    let run = Arc::new(PodRun {
        uid,
        address,
        folder,
        wish,
        record: Mutex::new(record),
        dirty: Notify::new(),
        stop: CancellationToken::new(),
        stop_sidecars: CancellationToken::new(),
        volumes: Mutex::default(),
        written: tokio::sync::Mutex::new(None),
        node,
    });
    run.update(|_| ());
    // When this future is dropped, as when the node's power is cut, what was spawned for the pod ends too.
    let _ends = (run.stop.clone().drop_guard(), run.stop_sidecars.clone().drop_guard());
    let live = async {
        run.live().await;
        run.finish().await;
    };
    tokio::select! {
        () = async { tokio::join!(live, run.obey()); } => {}
        () = run.write_statuses() => {}
    }
}

fn first_record(node: &LocalNode, pod: &Pod) -> PodRecord {
    let spec = spec(pod);
    let waiting = if spec.init_containers.iter().flatten().next().is_some() {
        "PodInitializing"
    } else {
        "ContainerCreating"
    };
    let make = |container: &Container| {
        ContainerRecord::new(
            container,
            node.image_id(container.image.as_deref().unwrap_or_default()),
            waiting,
        )
    };
    let limited = spec.containers.iter().any(|container| !container::limits(container).is_empty());
    let mut record = PodRecord {
        init: spec.init_containers.iter().flatten().map(make).collect(),
        main: spec.containers.iter().map(make).collect(),
        host_ip: node.host_ip.clone(),
        start_time: Some(Timestamp::now()),
        limits_missing: node.mode.limits.clone().err().filter(|_| limited),
        conditions: pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default(),
        ..PodRecord::default()
    };
    recall(&mut record, pod);
    record
}

/// A pod that an earlier process of this node had begun: its containers have died with that process.
fn recall(record: &mut PodRecord, pod: &Pod) {
    let Some(status) = pod.status.as_ref().filter(|status| status.start_time.is_some()) else { return };
    record.start_time = status.start_time.as_ref().map(|time| time.0);
    let pairs = [
        (&mut record.init, status.init_container_statuses.as_ref()),
        (&mut record.main, status.container_statuses.as_ref()),
    ];
    for (entries, statuses) in pairs {
        for entry in entries.iter_mut() {
            let Some(old) = statuses.iter().copied().flatten().find(|old| old.name == entry.name) else {
                continue;
            };
            let state = old.state.clone().unwrap_or_default();
            if state.running.is_some() || state.terminated.is_some() || old.restart_count > 0 {
                entry.restarts = old.restart_count.saturating_add(1);
                entry.last = state.terminated.or_else(|| Some(container::lost(&old.container_id)));
            }
        }
    }
}

impl PodRun {
    /// The pod as last seen.
    pub fn pod(&self) -> Arc<Pod> {
        Arc::clone(&self.wish.borrow().pod)
    }

    fn record(&self) -> MutexGuard<'_, PodRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, and has it reported.
    pub fn update(&self, change: impl FnOnce(&mut PodRecord)) {
        change(&mut self.record());
        self.dirty.notify_one();
    }

    /// What the downward API needs.
    pub fn facts(&self) -> Facts {
        Facts { pod_ip: self.address.to_string(), ..self.node.facts.clone() }
    }

    /// How long containers may take to end now.
    fn grace(&self) -> Duration {
        let wish = self.wish.borrow();
        let default =
            wish.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let seconds = match (wish.gone, wish.pod.metadata.deletion_grace_period_seconds) {
            (true, _) => 0,
            (false, Some(seconds)) => seconds,
            (false, None) => default,
        };
        grace_of(seconds)
    }

    /// Plain mode: names volumes by where they really lie. Elsewhere nothing changes.
    pub fn relocate_all(&self, texts: &[String]) -> Vec<String> {
        if self.node.mode.kind.isolates() {
            return texts.to_vec();
        }
        let paths = self.relocations();
        texts.iter().map(|text| relocate(text, &paths)).collect()
    }

    fn relocations(&self) -> Vec<(String, String)> {
        let spec = spec(&self.pod());
        let volumes = lock(&self.volumes);
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let mut paths: Vec<(String, String)> = containers
            .flat_map(|container| container.volume_mounts.iter().flatten())
            .filter_map(|mount| {
                let real = volumes.get(&mount.name)?.path.join(mount.sub_path.as_deref().unwrap_or_default());
                let path = real.display().to_string();
                Some((
                    mount.mount_path.trim_end_matches('/').to_owned(),
                    path.trim_end_matches('/').to_owned(),
                ))
            })
            .collect();
        paths.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        paths.dedup();
        paths
    }

    /// Sees to it that a wish to end the pod is heard; returns once it is over for the API too.
    async fn obey(&self) {
        let mut wish = self.wish.clone();
        let deadline =
            spec(&self.pod()).active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let expired = async {
            let Some(seconds) = deadline else { return std::future::pending().await };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        };
        let pod = self.pod();
        let spec = spec(&pod);
        let ended = async {
            // A closed channel means that the node is being stopped.
            let _ = wish.wait_for(Wish::ends).await;
        };
        tokio::select! {
            () = ended => {}
            message = storage::exceeded(self, &spec) => {
                if !self.record().over {
                    self.node.events.warning(&self.pod(), None, "Evicted", message.clone());
                    self.update(|record| record.verdict = Some(("Evicted".to_owned(), message)));
                }
            }
            () = expired => {
                let message = "Pod was active on the node longer than the specified deadline".to_owned();
                if !self.record().over {
                    self.node.events.normal(&self.pod(), None, "DeadlineExceeded", message.clone());
                    self.update(|record| record.verdict = Some(("DeadlineExceeded".to_owned(), message)));
                }
            }
        }
        self.stop.cancel();
        self.stop_sidecars.cancel();
    }

    /// From nothing to the end of the last container.
    async fn live(self: &Arc<Self>) {
        let pod = self.pod();
        let spec = spec(&pod);
        if self.lost_for_good(&spec) {
            return;
        }
        if let Some(name) = security::forbidden_sysctl(&spec) {
            let message = format!("forbidden sysctl: {name:?} not allowlisted");
            self.node.events.warning(&pod, None, "SysctlForbidden", message.clone());
            self.update(|record| record.verdict = Some(("SysctlForbidden".to_owned(), message)));
            return;
        }
        let not_held = security::not_held(&spec, self.node.mode.kind);
        if !not_held.is_empty() {
            let message = format!("Not enforced in mode {}: {}", self.node.mode.kind, not_held.join(", "));
            self.node.events.warning(&pod, None, "SecurityNotEnforced", message);
        }
        if !self.stop.is_cancelled() && self.prepare(&pod, &spec).await {
            let mut sidecars = Vec::new();
            if self.initialize(&spec, &mut sidecars).await {
                let mains = spec.containers.iter().enumerate().map(|(index, container)| {
                    container::run(
                        Arc::clone(self),
                        Slot::Main(index),
                        container.clone(),
                        Role::Main,
                        Arc::default(),
                    )
                });
                join_all(mains).await;
            }
            self.stop_sidecars.cancel();
            for sidecar in sidecars {
                joined(sidecar.await);
            }
        }
    }

    /// Whether containers were lost with an earlier process of this node and must not run again.
    fn lost_for_good(&self, spec: &PodSpec) -> bool {
        let never = spec.restart_policy.as_deref() == Some("Never");
        let mut record = self.record();
        if !never || record.main.iter().chain(&record.init).all(|entry| entry.last.is_none()) {
            return false;
        }
        let record = &mut *record;
        for entry in record.main.iter_mut().chain(&mut record.init) {
            if let Some(last) = entry.last.take() {
                entry.restarts = (entry.restarts - 1).max(0);
                entry.id.clone_from(&last.container_id);
                entry.state = State::Terminated(Box::new(last));
            }
        }
        true
    }

    /// Makes volumes and sandbox, as often as it takes; false where the pod is to end before.
    async fn prepare(&self, pod: &Pod, spec: &PodSpec) -> bool {
        let mut pause = FIRST_RETRY;
        loop {
            match self.prepare_once(pod, spec).await {
                Ok(()) => break,
                Err((reason, message)) => self.node.events.warning(pod, None, reason, message),
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_RETRY),
            }
        }
        lock(&self.node.sandboxes).insert(self.uid.clone(), CancellationToken::new());
        self.update(|record| {
            record.sandbox = true;
            record.address = Some(self.address);
        });
        true
    }

    async fn prepare_once(&self, pod: &Pod, spec: &PodSpec) -> Result<(), (&'static str, String)> {
        let folder = self.folder.join("volumes");
        std::fs::create_dir_all(&folder)
            .map_err(|e| ("FailedMount", format!("{}: {e}", folder.display())))?;
        let memory = self.prepare_volumes(spec, |_| true).await?;
        mounting::write_identity(self, pod).map_err(|e| ("FailedCreatePodSandBox", e.to_string()))?;
        let sandbox = SandboxSpec {
            pod: self.uid.clone(),
            hostname: hostname(pod),
            address: self.address,
            sysctls: security::sysctls(spec),
            memory_directories: memory,
        };
        self.node
            .sandbox
            .create_pod(sandbox)
            .await
            .map_err(|e| ("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {e}")))
    }

    /// Makes, or brings up to date, the volumes that `wanted` names; returns those to be backed by memory.
    pub async fn prepare_volumes(
        &self,
        spec: &PodSpec,
        wanted: impl Fn(&k8s_openapi::api::core::v1::Volume) -> bool,
    ) -> Result<Vec<(PathBuf, Option<u64>)>, (&'static str, String)> {
        let (pod, facts, folder) = (self.pod(), self.facts(), self.folder.join("volumes"));
        let place = volumes::Place {
            client: &self.node.client,
            pod: &pod,
            facts: &facts,
            folder: &folder,
            group: self.node.owner_group(spec),
            secret: &self.node.secret,
            claims: &self.node.claims,
        };
        let mut memory = Vec::new();
        for volume in spec.volumes.iter().flatten().filter(|volume| wanted(volume)) {
            let ready = volumes::prepare(volume, &place).await.map_err(|fault| {
                ("FailedMount", format!("MountVolume.SetUp failed for volume {:?} : {fault}", volume.name))
            })?;
            memory.extend(ready.memory.map(|size| (ready.path.clone(), size)));
            lock(&self.volumes).insert(volume.name.clone(), ready);
        }
        Ok(memory)
    }

    /// Runs the init containers in order; false where one failed for good or the pod is to end.
    async fn initialize(
        self: &Arc<Self>,
        spec: &PodSpec,
        sidecars: &mut Vec<tokio::task::JoinHandle<bool>>,
    ) -> bool {
        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            let slot = Slot::Init(index);
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            let started = Arc::new(Notify::new());
            let role = if sidecar { Role::Sidecar } else { Role::Init };
            let running =
                container::run(Arc::clone(self), slot, container.clone(), role, Arc::clone(&started));
            if sidecar {
                let mut sidecar = tokio::spawn(running);
                let goes_on = tokio::select! {
                    () = started.notified() => true,
                    () = self.stop.cancelled() => false,
                    ended = &mut sidecar => {
                        joined(ended);
                        continue;
                    }
                };
                sidecars.push(sidecar);
                if !goes_on {
                    return false;
                }
            } else if !running.await {
                return false;
            }
        }
        !self.stop.is_cancelled()
    }

    /// All containers have ended: say so, take everything down, and let go of the pod once the API wants it gone.
    async fn finish(&self) {
        self.update(|record| {
            record.over = true;
            record.sandbox = false;
            record.main.iter_mut().chain(&mut record.init).for_each(|entry| {
                entry.ready = false;
                entry.started = false;
            });
        });
        let sandbox = lock(&self.node.sandboxes).remove(&self.uid);
        sandbox.inspect(CancellationToken::cancel);
        self.flush().await;
        take_down(&self.node, &self.pod()).await;
        if self.wish.clone().wait_for(Wish::ends).await.is_err() {
            return;
        }
        delete(&self.node.client, &self.pod()).await;
        self.node.forget_logs(&self.pod());
    }

    fn api(&self) -> Api<Pod> {
        let namespace = self.pod().metadata.namespace.clone().unwrap_or_default();
        Api::namespaced(self.node.client.clone(), &namespace)
    }

    async fn write_statuses(&self) {
        loop {
            self.dirty.notified().await;
            self.flush().await;
        }
    }

    /// Reports the status if it differs from the last one; changes that come meanwhile go with the next.
    async fn flush(&self) {
        let mut written = self.written.lock().await;
        let mut pause = FIRST_RETRY;
        for _ in 0..MAX_STATUS_TRIES {
            let pod = self.pod();
            let status = {
                let mut record = self.record();
                let status = status::compute(&pod, &record, Timestamp::now());
                record.conditions = status.conditions.clone().unwrap_or_default();
                status
            };
            if written.as_ref() == Some(&status) || self.wish.borrow().gone {
                return;
            }
            // With the mode: a node may write a pod's status and nothing else of it (NodeRestriction).
            let mode = json!({api::ANNOTATION_NODE_MODE: self.node.mode.kind.as_str()});
            let patch = json!({"metadata": {"uid": self.uid, "annotations": mode}, "status": status});
            let name = pod.metadata.name.clone().unwrap_or_default();
            match self.api().patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => {
                    *written = Some(status);
                    return;
                }
                // Gone, or another pod of the same name: there is nobody left to tell.
                Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => return,
                Err(error) => tracing::warn!(%error, pod = name, "a pod's status could not be written"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_RETRY);
        }
    }
}

/// Takes a pod that has ended out of the API: grace period 0, and only if it is still the same pod.
pub async fn delete(client: &kube::Client, pod: &Pod) {
    let (Some(name), Some(namespace)) = (&pod.metadata.name, &pod.metadata.namespace) else { return };
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut parameters = DeleteParams::default().grace_period(0);
    parameters.preconditions = Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None });
    let mut pause = FIRST_RETRY;
    for _ in 0..MAX_STATUS_TRIES {
        match api.delete(name, &parameters).await {
            Ok(_) => return,
            Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => return,
            Err(error) => tracing::warn!(%error, pod = name, "an ended pod could not be deleted"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_grace_period_ends_at_a_time_that_a_clock_has() {
        for seconds in [i64::MIN, -1, 0, 30, i64::MAX] {
            assert!(tokio::time::Instant::now().checked_add(grace_of(seconds)).is_some(), "{seconds}");
        }
        assert_eq!((grace_of(-1), grace_of(30)), (Duration::ZERO, Duration::from_secs(30)));
    }
}

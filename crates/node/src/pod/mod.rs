//! One pod on this node, from when it is first seen until it is gone. Its task runs prepare → init containers →
//! containers → finish, while a second one writes its status.
//!
//! The desired state (the pod as the API has it, its deletion) arrives through a watch channel. The observed state goes
//! into a [`PodRecord`], from which `status` computes the report. Every wait here also watches `stop`.

mod container;
pub mod hooks;
mod mounting;
mod prepare;
mod probe_protocols;
mod probes;
mod report;
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
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::container::Role;
pub use self::report::delete;
use super::environment::Facts;
use super::status::{ContainerRecord, PodRecord, State};
use super::volumes::Ready;
use super::{HOST_IP, LocalNode, lock};
use controller_runtime::supervision::contained;

/// The first pause before creating a volume or sandbox is retried; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// The longest such pause. kubelet's is two minutes, but here everything is local.
const LAST_RETRY: Duration = Duration::from_secs(15);
/// The upper bound of a grace period: `terminationGracePeriodSeconds` may hold more seconds than a clock can count.
const MAX_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The desired state of a pod.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The pod as last seen.
    pub pod: Arc<Pod>,
    /// Whether the pod is no longer in the API.
    pub gone: bool,
}

impl Wish {
    fn ends(&self) -> bool {
        self.gone || self.pod.metadata.deletion_timestamp.is_some()
    }
}

/// Identifies a container of a record.
#[derive(Debug, Clone, Copy)]
pub enum Slot {
    /// An init container.
    Init(usize),
    /// A regular container.
    Main(usize),
}

impl Slot {
    /// Returns the container's record.
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
    /// The folder of everything that lives as long as its containers.
    pub folder: PathBuf,
    wish: watch::Receiver<Wish>,
    record: Mutex<PodRecord>,
    dirty: Notify,
    /// Cancelled when containers must end.
    stop: CancellationToken,
    /// Cancelled when sidecars must end.
    stop_sidecars: CancellationToken,
    volumes: Mutex<BTreeMap<String, Ready>>,
    written: tokio::sync::Mutex<Option<PodStatus>>,
}

fn spec(pod: &Pod) -> PodSpec {
    pod.spec.clone().unwrap_or_default()
}

/// Converts a grace period in seconds; at most [`MAX_GRACE`].
fn grace_of(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(MAX_GRACE)
}

/// Returns the pod's hostname.
pub fn hostname(pod: &Pod) -> String {
    let named = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| pod.metadata.name.clone().unwrap_or_default())
}

/// Runs a pod until it is gone. If a step panics, the pod's processes are killed, and after a pause the pod starts
/// again as after a restart of the node. A pod that is being deleted is taken down instead.
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
        let message = format!("The node failed while running the pod: {panic}");
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

/// Kills the pod's processes and removes its network.
async fn kill(node: &LocalNode, pod: &Pod) {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let sandbox = lock(&node.sandboxes).remove(uid);
    sandbox.inspect(CancellationToken::cancel);
    let _ = node.sandbox.remove_pod(uid).await;
}

/// Releases everything on the node that a pod without containers holds.
async fn take_down(node: &LocalNode, pod: &Pod) {
    kill(node, pod).await;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    lock(&node.devices).release(uid);
    lock(&node.hosts).remove(pod.metadata.namespace.as_deref().unwrap_or_default(), uid);
    let folder = node.pod_folder(uid);
    let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
}

/// Returns the result of a task, and propagates its panic. Returns `None` if the task was cancelled.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Option<T> {
    match result.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(value) => Some(value),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Runs a pod until it is gone.
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
    // If this future is dropped, as when the node's power is cut, the tasks spawned for the pod end too.
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
        host_ip: HOST_IP.to_owned(),
        start_time: Some(Timestamp::now()),
        limits_missing: node.mode.limits.clone().err().filter(|_| limited),
        conditions: pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default(),
        ..PodRecord::default()
    };
    recall(&mut record, pod);
    record
}

/// Restores the record of a pod that an earlier process of this node started. Its containers died with that process.
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

    /// Changes the record and schedules a status report.
    pub fn update(&self, change: impl FnOnce(&mut PodRecord)) {
        change(&mut self.record());
        self.dirty.notify_one();
    }

    /// Returns the facts for the downward API.
    pub fn facts(&self) -> Facts {
        Facts { pod_ip: self.address.to_string(), ..self.node.shape().facts.clone() }
    }

    /// Returns how long containers may now take to end.
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

    /// Waits until the pod must end, by deletion, eviction or deadline, and then cancels its containers.
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

    /// Runs the pod from preparation to the end of the last container.
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
        let ignored = security::ignored(&spec);
        if !ignored.is_empty() {
            let message = format!("Without effect on this cluster: {}", ignored.join("; "));
            self.node.events.warning(&pod, None, "NotSupported", message);
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

    /// Returns whether containers were lost with an earlier process of this node and must not run again.
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

    /// Runs the init containers in order. Returns false if one failed permanently or the pod must end.
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

    /// All containers have ended: reports that, releases everything, and deletes the pod once the API wants it gone.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grace_period_is_bounded() {
        for seconds in [i64::MIN, -1, 0, 30, i64::MAX] {
            assert!(tokio::time::Instant::now().checked_add(grace_of(seconds)).is_some(), "{seconds}");
        }
        assert_eq!((grace_of(-1), grace_of(30)), (Duration::ZERO, Duration::from_secs(30)));
    }
}

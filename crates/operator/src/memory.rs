//! What the operator remembers of a job between passes. It is a cache: every entry can be lost at any moment, as on
//! a restart, and the next pass recovers it at the cost of some requests.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::{LABEL_JOB_NAME, LABEL_JOB_ROLE, MPIJob};
use diagnosis::failed_run;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};
use plan::kept::{Job, Pod};
use plan::{
    Annotations, ChildKind, LauncherRun, ObservedState, OutputSeen, PodGroup, Target, ValidJob, is_disrupted,
};

use crate::owned::{controller_of, owner_by};
use crate::status::StatusMemory;

/// How long a watch may lag behind a create before the object counts as deleted, and behind a delete before it is sent again.
pub(crate) const WATCH_LAG: Duration = Duration::from_secs(10);

/// Which run of which container: the pod's UID, the container, and how often it had been started again before.
pub(crate) type RunId = (String, String, i32);

/// The memory of one job.
#[derive(Default)]
pub(crate) struct JobMemory {
    /// What observations have found out.
    pub known: Known,
    /// Whether the NetworkPolicy is known to exist.
    pub network_policy_present: bool,
    /// How often each event was recorded, by its name.
    pub events: HashMap<String, i32>,
    /// Names that the job needs and that foreign objects have.
    pub strangers: BTreeSet<(ChildKind, String)>,
    /// The last valid values of the job's annotations.
    pub annotations: Annotations,
    /// The status, written and yet to be written.
    pub status: StatusMemory,
    /// The number of failed passes in a row.
    pub failures: u32,
    /// Why the last of them failed, as it was logged.
    pub failure: Option<String>,
}

/// What observing a job has found out, so that the next observation need not ask the API server again. An observation
/// takes a copy, and [`Memory::remember`] puts it back with what was found out since.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Whether children that a watch may not select have been looked up by name.
    pub adopted: bool,
    /// Whether the Secret is known to exist with both keys.
    pub secret_present: bool,
    /// Values of the priority classes that matter for the gang, with the generation of the job that names them.
    pub priorities: Option<Priorities>,
    /// Children that were created and that no watch has shown yet.
    pub created: HashMap<(ChildKind, String), (Instant, Made)>,
    /// Pods that were deleted and that no watch has shown so yet, by UID.
    pub deleted: HashMap<String, Deletion>,
    /// What is known of the current attempt.
    pub attempt: KnownAttempt,
}

/// What is known of one attempt.
#[derive(Clone, Default)]
pub(crate) struct KnownAttempt {
    /// The attempt's number.
    pub number: u32,
    /// The Launcher's last run that failed.
    pub launcher_failed: Option<Box<FailedLauncher>>,
    /// Since when the failed pod of a failed Launcher is awaited, which the API server did not list.
    pub pod_awaited: Option<Instant>,
    /// What the running Launcher's output showed.
    pub output: Option<OutputSeen>,
    /// When that output could last not be read.
    pub unreadable: Option<Timestamp>,
    /// The end of a successful Launcher's output.
    pub success_log: Option<String>,
    /// The Workers' launch agents' reports on that.
    pub agents: AgentLogs,
    /// Whether GPUs have been counted.
    pub gpus_counted: bool,
    /// When the API server was last asked whether it would accept the Launcher's pod, and why it would not.
    pub launcher_asked: Option<(Instant, Option<String>)>,
    /// When it was last asked for what the job's pods mount, and what is missing.
    pub references_asked: Option<(Instant, Option<String>)>,
}

/// A run of the Launcher that failed.
#[derive(Clone)]
pub(crate) struct FailedLauncher {
    /// Which run it is.
    pub id: RunId,
    /// What is known of it.
    pub run: LauncherRun,
    /// The log of the launch agent that was asked about it.
    pub agents: AgentLogs,
}

/// What the Workers' launch agents have logged of one run of the Launcher.
#[derive(Clone, Default)]
pub(crate) struct AgentLogs {
    /// How often they were read.
    pub looks: u32,
    /// Their own lines, by Worker.
    pub words: BTreeMap<usize, String>,
    /// The Workers whose agent had not logged the end of a call when it was last read.
    pub busy: BTreeSet<usize>,
}

impl Known {
    /// Whether a watch has yet to show what was created or deleted.
    pub(crate) fn awaits_watch(&self) -> bool {
        !self.created.is_empty() || !self.deleted.is_empty()
    }

    /// A copy for this attempt: what belongs to another is left out.
    pub(crate) fn in_attempt(&self, number: u32) -> Self {
        let mut known = self.clone();
        if known.attempt.number != number {
            known.attempt = KnownAttempt { number, ..KnownAttempt::default() };
        }
        known
    }
}

/// The values of priority classes, once all of them have been found.
#[derive(Clone)]
pub(crate) struct Priorities {
    /// The generation of the job for which they were read.
    pub generation: Option<i64>,
    /// By the names of the classes.
    pub values: BTreeMap<String, i32>,
}

/// A delete that the server accepted.
#[derive(Clone, Copy)]
pub(crate) struct Deletion {
    /// When it was accepted.
    pub at: Instant,
    /// Whether it left no time to end.
    pub at_once: bool,
}

impl Deletion {
    /// Whether a delete now would ask for no more than this one did, which the watch has yet to show.
    pub(crate) fn covers(&self, target: &Target) -> bool {
        self.at.elapsed() < WATCH_LAG && (self.at_once || !target.at_once)
    }

    /// Whether the watch shows the pod of this UID as if it had not been deleted, and may do so for its lag.
    pub(crate) fn awaits_watch(&self, uid: &str, seen: &ObservedState) -> bool {
        let launchers = seen.launcher_pods.iter().chain(&seen.former_launcher_pods);
        let mut pods = seen.workers.iter().map(|pod| &**pod).chain(launchers);
        let unchanged = |pod: &Pod| self.at_once || !semantics::is_deleted(pod);
        self.at.elapsed() < WATCH_LAG
            && pods.any(|pod| pod.metadata.uid.as_deref() == Some(uid) && unchanged(pod))
    }
}

/// A child as the server returned it on creation.
#[derive(Clone)]
pub(crate) enum Made {
    Service(Box<Service>),
    ConfigMap(Box<ConfigMap>),
    Job(Box<Job>),
    Pod(Arc<Pod>),
    PodGroup(Box<PodGroup>),
}

/// No more Workers of a job are remembered that were taken away; one says why the job ended.
const MOST_DISRUPTED: usize = 8;
/// Once there are more entries than twice the number of jobs plus this many, some belong to deleted jobs.
const SPARE_ENTRIES: usize = 64;

/// The memory of all jobs, by UID. A job can be deleted without a pass that notices, so entries are swept now and
/// then: see [`Memory::sweep`].
#[derive(Default)]
pub(crate) struct Memory {
    jobs: Mutex<HashMap<String, Box<JobMemory>>>,
    /// The last failed pod of each Launcher's Job that the watch showed, by the Job's UID. A store holds only existing
    /// objects, and a Job that gives up deletes such a pod at once.
    failed_launchers: Mutex<HashMap<String, Pod>>,
    /// By the job's UID: its Workers' pods, by name, as the watch showed them when something outside of the job took them
    /// away. Such a pod may be gone before the store is looked at, and with it why.
    disrupted_workers: Mutex<HashMap<String, BTreeMap<String, Pod>>>,
    /// The Launcher's Job as the watch showed it when it had ended, by the job's UID. With a short
    /// `ttlSecondsAfterFinished` it may be gone before the store is read, and must not be created again.
    ended_launchers: Mutex<HashMap<String, Job>>,
}

impl Memory {
    /// Reads or changes the memory of a job. The lock is never held across an await.
    pub(crate) fn of<T>(&self, uid: &str, act: impl FnOnce(&mut JobMemory) -> T) -> T {
        // A panic elsewhere leaves entries that are at worst incomplete, which costs a request.
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        act(jobs.entry(uid.to_owned()).or_default())
    }

    /// Keeps what a pass has observed of a job for the next ones, and forgets what this shows to be over.
    pub(crate) fn remember(&self, job: &MPIJob, valid: &ValidJob, seen: &ObservedState, known: Known) {
        if seen.status.completion_time.is_some() || valid.suspended {
            self.forget_launcher(&valid.uid, seen);
        } else {
            self.forget_former_workers(valid);
        }
        self.of(&valid.uid, |memory| {
            memory.known = known;
            memory.status.caught_up(job);
        });
    }

    /// Records that a pass over a job has succeeded.
    pub(crate) fn passed(&self, uid: &str) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = jobs.get_mut(uid) {
            memory.failures = 0;
            memory.failure = None;
        }
    }

    /// Forgets deleted jobs, once they may outnumber the existing ones.
    pub(crate) fn sweep<K>(&self, jobs: &Store<K>)
    where
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        let mut entries = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() <= 2 * jobs.len() + SPARE_ENTRIES {
            return;
        }
        let state = jobs.state();
        let live: HashSet<String> = state.iter().filter_map(|job| job.uid()).collect();
        entries.retain(|uid, _| live.contains(uid));
        drop(entries);
        self.ended_launchers().retain(|job, _| live.contains(job));
        self.disrupted_workers().retain(|job, _| live.contains(job));
        // A Job's UID does not show whose it is; its pod's label does, well enough to drop what is over.
        let names: HashSet<(String, String)> =
            state.iter().map(|job| (job.namespace().unwrap_or_default(), job.name_any())).collect();
        self.failed_launchers()
            .retain(|_, pod| owner_by(pod, LABEL_JOB_NAME).is_some_and(|job| names.contains(&job)));
    }

    /// Records a pod from the watch, if it is a failed Launcher's or a disrupted Worker's.
    pub(crate) fn note(&self, pod: &Pod) {
        let Some(owner) = controller_of(pod) else { return };
        let has_role = |role: &str| pod.labels().get(LABEL_JOB_ROLE).is_some_and(|label| label == role);
        if has_role("worker") && is_disrupted(pod) {
            let mut disrupted = self.disrupted_workers();
            let pods = disrupted.entry(owner.to_owned()).or_default();
            if pods.len() < MOST_DISRUPTED || pods.contains_key(&pod.name_any()) {
                pods.insert(pod.name_any(), pod.clone());
            }
        }
        if has_role("launcher") && failed_run(pod).is_some() {
            self.failed_launchers().insert(owner.to_owned(), pod.clone());
        }
    }

    /// Returns the last recorded pod of a Launcher's Job.
    pub(crate) fn failed_launcher(&self, launcher: &str) -> Option<Pod> {
        self.failed_launchers().get(launcher).cloned()
    }

    /// The Workers' pods of a job that were noted.
    pub(crate) fn disrupted_workers_of(&self, job: &str) -> Vec<Pod> {
        let disrupted = self.disrupted_workers();
        disrupted.get(job).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Records a Job from the watch, if it has ended.
    pub(crate) fn note_end(&self, launcher: &Job) {
        let conditions = launcher.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ended = conditions.into_iter().any(|condition| {
            condition.status == "True" && ["Complete", "Failed"].contains(&&*condition.type_)
        });
        if let Some(job) = controller_of(launcher).filter(|_| ended) {
            self.ended_launchers().insert(job.to_owned(), launcher.clone());
        }
    }

    /// Returns the recorded Job of a job's Launcher.
    pub(crate) fn ended_launcher(&self, job: &str) -> Option<Job> {
        self.ended_launchers().get(job).cloned()
    }

    /// Forgets those pods and that Job.
    fn forget_launcher(&self, job: &str, seen: &ObservedState) {
        if let Some(launcher) = seen.launcher.as_ref().and_then(ResourceExt::uid) {
            self.failed_launchers().remove(&launcher);
        }
        self.ended_launchers().remove(job);
        self.disrupted_workers().remove(job);
    }

    /// Forgets the Workers of former attempts.
    fn forget_former_workers(&self, job: &ValidJob) {
        let mut disrupted = self.disrupted_workers();
        let Some(pods) = disrupted.get_mut(&job.uid) else { return };
        pods.retain(|_, pod| plan::attempt_of(&pod.metadata) >= job.attempt);
        if pods.is_empty() {
            disrupted.remove(&job.uid);
        }
    }

    fn disrupted_workers(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<String, Pod>>> {
        self.disrupted_workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended_launchers(&self) -> MutexGuard<'_, HashMap<String, Job>> {
        self.ended_launchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed_launchers(&self) -> MutexGuard<'_, HashMap<String, Pod>> {
        self.failed_launchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a job that has ended, unless the watch has yet to show the last write, creation or deletion. The memory may
    /// hold the end of a log, and a job that has ended is observed only when it changes.
    pub(crate) fn settle(&self, uid: &str) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let is_settled = |memory: &JobMemory| memory.status.is_settled() && !memory.known.awaits_watch();
        if jobs.get(uid).is_some_and(|memory| is_settled(memory)) {
            jobs.remove(uid);
        }
    }

    /// Forgets a job.
    pub(crate) fn forget(&self, uid: &str) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.ended_launchers().remove(uid);
        self.disrupted_workers().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn job(attempt: u32) -> MPIJob {
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": { "name": "pi", "namespace": "team", "uid": "7f1c",
                "annotations": { api::ANNOTATION_ATTEMPT: attempt.to_string() } },
            "spec": { "mpiReplicaSpecs": {} },
        }))
        .unwrap()
    }

    fn evicted(index: usize, owner: &str, attempt: u32) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("pi-worker-{index}"), "namespace": "team",
                "labels": { LABEL_JOB_NAME: "pi", LABEL_JOB_ROLE: "worker" },
                "annotations": { api::ANNOTATION_ATTEMPT: attempt.to_string() },
                "ownerReferences": [{ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "pi",
                    "uid": owner, "controller": true }],
            },
            "status": { "conditions": [{ "type": "DisruptionTarget", "status": "True" }] },
        }))
        .unwrap()
    }

    fn observe(memory: &Memory, attempt: u32) {
        let job = job(attempt);
        let valid = plan::tolerate(&job, &Annotations::default());
        memory.remember(&job, &valid, &ObservedState::default(), Known::default());
    }

    #[test]
    fn a_delete_is_sent_again_for_less_grace_or_once_the_watch_has_had_its_time() {
        let target = |at_once| Target { kind: ChildKind::Pod, name: "w".to_owned(), uid: None, at_once };
        let since = |at: Instant| [false, true].map(|at_once| Deletion { at, at_once });
        let [graceful, at_once] = since(Instant::now());
        assert!(graceful.covers(&target(false)) && !graceful.covers(&target(true)));
        assert!(at_once.covers(&target(false)) && at_once.covers(&target(true)));
        let long_ago = Instant::now().checked_sub(WATCH_LAG).unwrap();
        for old in since(long_ago) {
            assert!(!old.covers(&target(false)), "it was lost");
        }
        let mut pod = evicted(0, "7f1c", 1);
        pod.metadata.uid = Some("a".to_owned());
        let shows = |pod: &Pod| ObservedState { workers: vec![Arc::new(pod.clone())], ..Default::default() };
        assert!(graceful.awaits_watch("a", &shows(&pod)) && !graceful.awaits_watch("b", &shows(&pod)));
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(!graceful.awaits_watch("a", &shows(&pod)), "the watch shows that it ends");
        assert!(at_once.awaits_watch("a", &shows(&pod)), "that it ends was known before");
        let [old, _] = since(long_ago);
        assert!(!old.awaits_watch("a", &shows(&pod)));
    }

    fn noted(memory: &Memory) -> Vec<(String, u32)> {
        let pods = memory.disrupted_workers_of("7f1c");
        pods.iter().map(|pod| (pod.name_any(), plan::attempt_of(&pod.metadata))).collect()
    }

    #[test]
    fn disrupted_workers_of_former_attempts_leave_room_for_those_of_the_next() {
        let memory = Memory::default();
        (0..MOST_DISRUPTED).for_each(|index| memory.note(&evicted(index, "7f1c", 1)));
        memory.note(&evicted(MOST_DISRUPTED, "7f1c", 1));
        observe(&memory, 1);
        assert_eq!(noted(&memory).len(), MOST_DISRUPTED);
        observe(&memory, 2);
        assert_eq!(noted(&memory), []);
        memory.note(&evicted(9, "7f1c", 2));
        observe(&memory, 2);
        assert_eq!(noted(&memory), [("pi-worker-9".to_owned(), 2)]);
    }

    #[test]
    fn disrupted_workers_of_a_deleted_job_do_not_count_for_one_of_the_same_name() {
        let memory = Memory::default();
        (0..=MOST_DISRUPTED).for_each(|index| memory.note(&evicted(index, "another", 3)));
        memory.note(&evicted(2, "7f1c", 1));
        assert_eq!(noted(&memory), [("pi-worker-2".to_owned(), 1)], "nor do they take its room");
        memory.forget("another");
        assert_eq!(noted(&memory).len(), 1);
    }

    #[test]
    fn what_is_noted_of_a_launcher_belongs_to_its_owner_not_to_its_name() {
        let launcher = |uid: &str, owner: &str| -> Job {
            let owners = json!([{ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "pi",
                "uid": owner, "controller": true }]);
            let metadata = json!({ "name": "pi-launcher", "namespace": "team", "uid": uid,
                "labels": { LABEL_JOB_NAME: "pi" }, "ownerReferences": owners });
            let status = json!({ "conditions": [{ "type": "Failed", "status": "True" }] });
            serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
        };
        let failed = |name: &str, owner: &str| -> Pod {
            let owners = json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": "pi-launcher",
                "uid": owner, "controller": true }]);
            let ended = json!({ "terminated": { "exitCode": 1 } });
            serde_json::from_value(json!({
                "metadata": { "name": name, "namespace": "team", "ownerReferences": owners,
                    "labels": { LABEL_JOB_NAME: "pi", LABEL_JOB_ROLE: "launcher" } },
                "spec": { "containers": [{ "name": "mpi" }] },
                "status": { "containerStatuses": [{ "name": "mpi", "image": "", "imageID": "", "ready": false,
                    "restartCount": 0, "state": ended }] },
            }))
            .unwrap()
        };
        let memory = Memory::default();
        memory.note_end(&launcher("second", "7f1c"));
        memory.note(&failed("pi-launcher-b", "second"));
        // The events of the deleted job may come last.
        memory.note_end(&launcher("first", "another"));
        memory.note(&failed("pi-launcher-a", "first"));
        assert_eq!(
            memory.ended_launcher("7f1c").and_then(|launcher| launcher.uid()).as_deref(),
            Some("second")
        );
        assert_eq!(
            memory.failed_launcher("second").map(|pod| pod.name_any()).as_deref(),
            Some("pi-launcher-b")
        );
    }
}

//! What is remembered of TrainJobs between passes. It is a cache, as that of MPIJobs.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::{LABEL_REPLICATED_JOB, LABEL_TRAINJOB, TrainJob, TrainJobStatus};
use diagnosis::failed_run;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::Store;
use plan::kept::Pod;
use plan::{LauncherRun, OutputSeen};

use crate::memory::RunId;
use crate::owned::{controller_of, owner_by, version};

/// Once there are more entries than twice the number of jobs plus this many, some belong to deleted jobs.
const SPARE_ENTRIES: usize = 64;

/// The memory of one TrainJob.
#[derive(Default)]
pub(super) struct Remembered {
    /// The status as the server answered its last write, which the watch may not show yet.
    written: Option<TrainJob>,
    /// The Launcher's last failed run, and which run it is.
    pub run: Option<(RunId, LauncherRun)>,
    /// What the running Launcher's output showed.
    pub output: Option<OutputSeen>,
    /// When that output could last not be read.
    pub unreadable: Option<Timestamp>,
    /// The number of failed passes in a row.
    pub failures: u32,
    /// Why the last of them failed, as it was logged.
    pub failure: Option<String>,
}

impl Remembered {
    /// The job's status and resourceVersion: the watch's, or those of the last write if the watch lags behind.
    pub fn last(&mut self, job: &TrainJob) -> (TrainJobStatus, Option<String>) {
        let newer = self.written.as_ref().filter(|written| version(*written) > version(job));
        let of = |job: &TrainJob| (job.status.clone().unwrap_or_default(), job.resource_version());
        let last = of(newer.unwrap_or(job));
        if newer.is_none() {
            self.written = None;
        }
        last
    }

    /// Records how the server answered a write.
    pub fn wrote(&mut self, answer: TrainJob) {
        self.written = Some(answer);
    }
}

/// The memory of all TrainJobs.
#[derive(Default)]
pub(super) struct TrainMemory {
    jobs: Mutex<HashMap<String, Remembered>>,
    /// The last failed pod of each Launcher's Job that the watch showed, by the Job's UID: a Job that gives up may delete
    /// such a pod before the store is read.
    failed: Mutex<HashMap<String, Pod>>,
}

impl TrainMemory {
    /// Reads or changes the memory of a job. The lock is never held across an await.
    pub fn of<T>(&self, uid: &str, act: impl FnOnce(&mut Remembered) -> T) -> T {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        act(jobs.entry(uid.to_owned()).or_default())
    }

    /// Records a pod from the watch, if it is a failed Launcher's.
    pub fn note(&self, pod: &Pod) {
        let is_launcher = pod.labels().get(LABEL_REPLICATED_JOB).is_some_and(|part| part == "launcher");
        if let Some(job) = controller_of(pod).filter(|_| is_launcher && failed_run(pod).is_some()) {
            self.failed().insert(job.to_owned(), pod.clone());
        }
    }

    /// Returns the last recorded pod of a Launcher's Job.
    pub fn failed_launcher(&self, launcher: &str) -> Option<Pod> {
        self.failed().get(launcher).cloned()
    }

    /// Forgets deleted jobs, once they may outnumber the existing ones.
    pub fn sweep(&self, jobs: &Store<TrainJob>) {
        let mut entries = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() <= 2 * jobs.len() + SPARE_ENTRIES {
            return;
        }
        let live = jobs.state();
        let uids: HashSet<String> = live.iter().filter_map(|job| job.uid()).collect();
        entries.retain(|uid, _| uids.contains(uid));
        drop(entries);
        let names: HashSet<(String, String)> =
            live.iter().map(|job| (job.namespace().unwrap_or_default(), job.name_any())).collect();
        let is_live = |pod: &Pod| owner_by(pod, LABEL_TRAINJOB).is_some_and(|job| names.contains(&job));
        self.failed().retain(|_, pod| is_live(pod));
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<String, Pod>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

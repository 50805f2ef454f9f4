//! What the operator remembers of a job between passes, for economy only: every entry can be lost at any moment, as
//! on a restart, and the next pass finds out anew at the cost of some requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::{MPIJob, MPIJobStatus};
use kube::runtime::reflector::Store;
use plan::{Child, ChildKind};

/// How long a watch may lag behind a create before the object counts as gone.
pub(crate) const WATCH_LAG: Duration = Duration::from_secs(10);

/// What is remembered of one job.
#[derive(Default)]
pub(crate) struct JobMemory {
    /// Whether children that a watch may not select were looked for by name once.
    pub adopted: bool,
    /// Whether the Secret is known to be there, with both keys.
    pub secret_present: bool,
    /// Children that were created and that no watch has shown yet.
    pub created: HashMap<(ChildKind, String), (Instant, Child)>,
    /// The last status written, and the job's resource version after it.
    pub written: Option<(u64, MPIJobStatus)>,
    /// When a status was last written.
    pub written_at: Option<Instant>,
    /// Passes that failed in a row.
    pub failures: u32,
}

/// Entries beyond twice the number of jobs and this many are of jobs that are gone.
const SPARE_ENTRIES: usize = 64;

/// The memory of all jobs, by UID. A job can go without a pass that sees it go, so entries are swept now and then:
/// see [`Memory::sweep`].
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<String, JobMemory>>);

impl Memory {
    /// Looks at, or changes, what is remembered of a job. Never held across an await.
    pub(crate) fn of<T>(&self, uid: &str, act: impl FnOnce(&mut JobMemory) -> T) -> T {
        // A panic elsewhere leaves entries that are merely incomplete, which costs a request.
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(jobs.entry(uid.to_owned()).or_default())
    }

    /// Forgets the jobs that are gone, once they may be more than those that are there.
    pub(crate) fn sweep(&self, jobs: &Store<MPIJob>) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() <= 2 * jobs.len() + SPARE_ENTRIES {
            return;
        }
        let live: HashSet<String> = jobs.state().iter().filter_map(|job| job.metadata.uid.clone()).collect();
        entries.retain(|uid, _| live.contains(uid));
    }

    /// Forgets a job.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

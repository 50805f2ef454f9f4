//! Decides when a job's status is written. A change that nobody waits for waits for the next write, within bounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{
    CONDITION_CREATED, CONDITION_LIMITS_NOT_ENFORCED, CONDITION_SUSPENDED, MPIJob, MPIJobStatus,
    PHASE_REASON_INITIALIZING,
};
use plan::{Notice, condition};

use crate::owned::version;

/// Pod counts alone are written this long after the last write, or with anything that is written sooner,
const COUNTS_WAIT: Duration = Duration::from_secs(5);
/// ... and not before they have differed this long: a Launcher's pod that ends is followed by its Job's end, and by the
/// write that reports it.
const COUNTS_SETTLE: Duration = Duration::from_secs(2);

/// What is remembered of a job's status: what was written last, and what has yet to be written.
#[derive(Default)]
pub(crate) struct StatusMemory {
    /// The first status of a job, held back.
    deferred: Option<DeferredStatus>,
    /// The last written status, and the job's resource version after it, until the watch shows it.
    written: Option<(u64, MPIJobStatus)>,
    /// When a status was last written.
    written_at: Option<Instant>,
    /// Since when the pod counts have differed from the written ones.
    counts_differ_since: Option<Instant>,
}

/// How long the first status of a job waits for the next. When many jobs begin at once it waits longer: what it would take of
/// the API server's time is time that their pods wait for.
#[derive(Clone)]
pub(crate) struct FirstWait {
    alone: Duration,
    /// Each status that is held back has one.
    held_back: Arc<()>,
}

/// So many jobs that begin at once double the wait,
const JOBS_THAT_DOUBLE: usize = 10;
/// ... and no number of jobs makes it more than so many times as long.
const LONGEST_FIRST_WAIT: u32 = 5;

impl FirstWait {
    /// One that is so long for a job that begins alone.
    pub(crate) fn new(alone: Duration) -> Self {
        Self { alone, held_back: Arc::default() }
    }

    fn now(&self) -> Duration {
        let others = (Arc::strong_count(&self.held_back) - 1) / JOBS_THAT_DOUBLE;
        self.alone * u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1).min(LONGEST_FIRST_WAIT)
    }
}

/// A status and its notices, held back until the next write.
struct DeferredStatus {
    _counted: Arc<()>,
    since: Instant,
    status: MPIJobStatus,
    notices: Vec<Notice>,
}

/// What to publish now.
pub(crate) struct Due {
    /// The status that the server has.
    pub known: MPIJobStatus,
    /// The events to record now.
    pub notices: Vec<Notice>,
    /// When to write the new status.
    pub write: Write,
}

/// When to write a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Now,
    After(Duration),
    /// With the next write, whenever that is.
    Never,
}

impl StatusMemory {
    /// Returns the job's last status, written or not.
    pub(crate) fn last(&self, job: &MPIJob) -> MPIJobStatus {
        let on_server = self.on_server(job);
        match &self.deferred {
            // Another writer owns it, and may have written it since.
            Some(deferred) => {
                MPIJobStatus { trainer_status: on_server.trainer_status, ..deferred.status.clone() }
            }
            None => on_server,
        }
    }

    /// The status that the server has: as the watch shows it, or as it was last written if the watch lags behind.
    fn on_server(&self, job: &MPIJob) -> MPIJobStatus {
        match &self.written {
            Some((written, status)) if version(job) < *written => status.clone(),
            _ => job.status.clone().unwrap_or_default(),
        }
    }

    /// Decides what to publish of a new status and its notices. A first status that is worth a wait waits for `first_wait`
    /// in all, with its notices.
    pub(crate) fn due(
        &mut self,
        job: &MPIJob,
        status: &MPIJobStatus,
        notices: Vec<Notice>,
        first_wait: &FirstWait,
    ) -> Due {
        let known = self.on_server(job);
        let deferred = self.deferred.take();
        let since = deferred.as_ref().map_or_else(Instant::now, |deferred| deferred.since);
        let notices = deferred.into_iter().flat_map(|deferred| deferred.notices).chain(notices).collect();
        let urgency = urgency(&known, status);
        let wait = match urgency {
            Urgency::Never => {
                self.counts_differ_since = None;
                return Due { known, notices, write: Write::Never };
            }
            Urgency::Later => self.counts_wait(),
            Urgency::Soon => first_wait.now().saturating_sub(since.elapsed()),
            Urgency::Now => Duration::ZERO,
        };
        if wait.is_zero() {
            return Due { known, notices, write: Write::Now };
        }
        if urgency == Urgency::Soon {
            let _counted = Arc::clone(&first_wait.held_back);
            self.deferred = Some(DeferredStatus { _counted, since, status: status.clone(), notices });
            return Due { known, notices: Vec::new(), write: Write::After(wait) };
        }
        Due { known, notices, write: Write::After(wait) }
    }

    /// How long counts still have to wait.
    fn counts_wait(&mut self) -> Duration {
        let differ = self.counts_differ_since.get_or_insert_with(Instant::now);
        let after_write =
            self.written_at.map_or(Duration::ZERO, |at| COUNTS_WAIT.saturating_sub(at.elapsed()));
        after_write.max(COUNTS_SETTLE.saturating_sub(differ.elapsed()))
    }

    /// Records that a status was written, and how the server answered.
    pub(crate) fn wrote(&mut self, answer: MPIJob) {
        self.written = Some((version(&answer), answer.status.unwrap_or_default()));
        self.written_at = Some(Instant::now());
        self.counts_differ_since = None;
    }

    /// Forgets the last write once the watch shows it.
    pub(crate) fn caught_up(&mut self, job: &MPIJob) {
        if self.written.as_ref().is_some_and(|(written, _)| *written <= version(job)) {
            self.written = None;
        }
    }

    /// Whether the watch shows all that was to be written.
    pub(crate) fn is_settled(&self) -> bool {
        self.written.is_none() && self.deferred.is_none()
    }
}

/// How urgent a status is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// With the next write: nothing that anyone waits for has changed.
    Never,
    /// In a moment, or with the next write: only pod counts have changed.
    Later,
    /// Soon, or with the next write: the job has begun, which any later status says too.
    Soon,
    /// Immediately.
    Now,
}

/// How urgent it is to replace one status by another.
fn urgency(old: &MPIJobStatus, new: &MPIJobStatus) -> Urgency {
    let without_times = |status: &MPIJobStatus| {
        let mut status = status.clone();
        status.startup = None;
        status
    };
    let facts = |mut status: MPIJobStatus| {
        status.replica_statuses.clear();
        status.workers = None;
        for attempt in &mut status.attempts {
            attempt.launcher_failures = None;
        }
        // This can wait for the write that reports the job as running.
        status.conditions.retain(|condition| condition.type_ != CONDITION_LIMITS_NOT_ENFORCED);
        status
    };
    let (old, new) = (without_times(old), without_times(new));
    // A queue that suspends a job gives its quota to another once the job has no active pods.
    let was_held = condition(&new, CONDITION_SUSPENDED).is_some();
    let queue_cares = was_held && has_active(&old) != has_active(&new);
    if old == new {
        Urgency::Never
    } else if queue_cares {
        Urgency::Now
    } else if facts(old.clone()) == facts(new.clone()) {
        Urgency::Later
    } else if old == MPIJobStatus::default() && is_begun(&facts(new)) {
        Urgency::Soon
    } else {
        Urgency::Now
    }
}

fn has_active(status: &MPIJobStatus) -> bool {
    status.replica_statuses.values().any(|counts| counts.active.is_some_and(|active| active > 0))
}

/// Whether a status says only that the job was acknowledged and its pods are being created.
fn is_begun(status: &MPIJobStatus) -> bool {
    status.conditions.iter().all(|condition| condition.type_ == CONDITION_CREATED)
        && status.phase_reason.as_deref() == Some(PHASE_REASON_INITIALIZING)
        && status.waiting.is_none()
}

#[cfg(test)]
mod tests {
    use api::{LAUNCHER, WORKER};
    use serde_json::{Value, json};

    use super::*;

    fn status(suspended: Option<&str>, launcher: i32, worker: i32) -> MPIJobStatus {
        let conditions: Vec<Value> =
            suspended.iter().map(|state| json!({ "type": CONDITION_SUSPENDED, "status": state })).collect();
        let counts = |active: i32| if active > 0 { json!({ "active": active }) } else { json!({}) };
        let status = json!({
            "conditions": conditions,
            "replicaStatuses": { LAUNCHER: counts(launcher), WORKER: counts(worker) },
        });
        serde_json::from_value(status).unwrap()
    }

    fn conditioned(type_: &str) -> MPIJobStatus {
        let condition = json!({ "type": type_, "status": "True" });
        let status = json!({ "conditions": [condition], "phaseReason": PHASE_REASON_INITIALIZING });
        serde_json::from_value(status).unwrap()
    }

    fn notice(reason: &str) -> Notice {
        Notice { warning: false, reason: reason.to_owned(), message: String::new() }
    }

    fn reasons(due: &Due) -> Vec<&str> {
        due.notices.iter().map(|notice| notice.reason.as_str()).collect()
    }

    #[test]
    fn a_first_status_waits_with_its_notices_for_what_happens_next() {
        let (job, wait) = (MPIJob::new("pi", api::MPIJobSpec::default()), Duration::from_secs(60));
        let first_wait = FirstWait::new(wait);
        let (created, running) = (conditioned(CONDITION_CREATED), conditioned(api::CONDITION_RUNNING));
        let mut memory = StatusMemory::default();
        let due = memory.due(&job, &created, vec![notice("created")], &first_wait);
        assert!(matches!(due.write, Write::After(left) if left <= wait), "{:?}", due.write);
        assert!(due.notices.is_empty(), "a pass that is cut off here would not repeat them");
        assert_eq!((memory.last(&job), memory.is_settled()), (created.clone(), false));
        let due = memory.due(&job, &running, vec![notice("running")], &first_wait);
        assert_eq!((due.write, reasons(&due)), (Write::Now, vec!["created", "running"]));
        let due = memory.due(&job, &created, vec![notice("created")], &FirstWait::new(Duration::ZERO));
        assert_eq!((due.write, reasons(&due)), (Write::Now, vec!["created"]), "it need not wait");
    }

    #[test]
    fn the_more_jobs_begin_at_once_the_longer_a_first_status_waits() {
        let (job, created) = (MPIJob::new("pi", api::MPIJobSpec::default()), conditioned(CONDITION_CREATED));
        let first_wait = FirstWait::new(Duration::from_secs(1));
        let mut waits = Vec::new();
        let mut memories = Vec::new();
        for _ in 0..100 {
            let mut memory = StatusMemory::default();
            memory.due(&job, &created, vec![notice("created")], &first_wait);
            memories.push(memory);
            waits.push(first_wait.now().as_secs());
        }
        assert_eq!([waits[0], waits[9], waits[19], waits[39], waits[99]], [1, 2, 3, 5, 5]);
        memories.clear();
        assert_eq!(first_wait.now().as_secs(), 1, "all of them were written");
    }

    #[test]
    fn counts_wait_until_they_settle_and_notices_do_not() {
        let mut job = MPIJob::new("pi", api::MPIJobSpec::default());
        job.status = Some(status(None, 0, 1));
        let mut memory = StatusMemory::default();
        let due =
            memory.due(&job, &status(None, 0, 2), vec![notice("refused")], &FirstWait::new(Duration::ZERO));
        assert!(matches!(due.write, Write::After(wait) if wait <= COUNTS_SETTLE), "{:?}", due.write);
        assert_eq!(reasons(&due), ["refused"]);
        assert!(memory.counts_differ_since.is_some());
        let due = memory.due(&job, &status(None, 0, 1), Vec::new(), &FirstWait::new(Duration::ZERO));
        assert_eq!((due.write, memory.counts_differ_since), (Write::Never, None), "they are as before");
    }

    #[test]
    fn a_queue_sees_at_once_whether_a_job_has_anything_active() {
        for deferred in ["True", "False"] {
            let of = |launcher: i32, worker: i32| status(Some(deferred), launcher, worker);
            assert_eq!(urgency(&of(0, 1), &of(0, 0)), Urgency::Now, "the last goes");
            assert_eq!(urgency(&of(0, 0), &of(0, 1)), Urgency::Now, "the first comes");
            assert_eq!(urgency(&of(1, 1), &of(1, 0)), Urgency::Later, "one of two goes");
        }
        let never_held = urgency(&status(None, 1, 0), &status(None, 0, 0));
        assert_eq!(never_held, Urgency::Later);
    }
}

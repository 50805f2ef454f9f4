//! The operator's metrics.
//!
//! Counters and histograms are updated where things happen. What the watches' stores show (jobs by phase, Workers
//! by state, upstream's `mpi_operator_job_info`) is read at each scrape, so a series disappears with its job.
//! Upstream's names are kept (`cmd/mpi-operator/app/server.go`, `pkg/controller/mpi_job_controller.go` of v0.8.2).

mod calls;
mod jobs;
mod text;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{
    CONDITION_CREATED, CONDITION_FAILED, CONDITION_RUNNING, CONDITION_SUCCEEDED, MPIJob, MPIJobStatus,
    REASON_VALIDATION,
};
use jiff::Timestamp;
use kube::runtime::reflector::Store;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub use text::Format;

use crate::health::Health;
use crate::packed::Packed;
pub(crate) use calls::Counted;

/// Buckets for the stages of a job, in seconds: from a quarter of a second to some 18 hours.
const STAGE_BUCKETS: (f64, f64, u16) = (0.25, 2.0, 18);
/// Buckets for passes and requests, in seconds: from 1 ms to some 33 s.
const PASS_BUCKETS: (f64, f64, u16) = (0.001, 2.0, 16);

/// All metrics of one operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    jobs: Arc<OnceLock<Store<Packed>>>,
    created: Counter,
    successful: Counter,
    failed: Counter,
    failures: Family<ByCause, Counter>,
    is_leader: Gauge,
    stages: Durations<ByStage>,
    passes: Durations<ByOutcome>,
    passes_ended: AtomicU64,
    requests: Family<ByCall, Counter>,
    request_times: Durations<ByVerb>,
    admissions: Family<ByDecision, Counter>,
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCause {
    cause: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStage {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCall {
    verb: &'static str,
    resource: String,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerb {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByDecision {
    operation: String,
    decision: &'static str,
}

fn stage_histogram() -> Histogram {
    let (start, factor, length) = STAGE_BUCKETS;
    Histogram::new(exponential_buckets(start, factor, length))
}

fn pass_histogram() -> Histogram {
    let (start, factor, length) = PASS_BUCKETS;
    Histogram::new(exponential_buckets(start, factor, length))
}

impl Metrics {
    /// Creates the metrics, all at zero. The depth of the queue is read from `health`.
    pub(crate) fn new(health: Arc<Health>) -> Self {
        let jobs: Arc<OnceLock<Store<Packed>>> = Arc::default();
        let mut metrics = Self {
            registry: Registry::with_prefix("mpi_operator"),
            jobs: jobs.clone(),
            created: Counter::default(),
            successful: Counter::default(),
            failed: Counter::default(),
            failures: Family::default(),
            is_leader: Gauge::default(),
            stages: Family::new_with_constructor(stage_histogram),
            passes: Family::new_with_constructor(pass_histogram),
            passes_ended: AtomicU64::default(),
            requests: Family::default(),
            request_times: Family::new_with_constructor(pass_histogram),
            admissions: Family::default(),
        };
        metrics.register();
        metrics.registry.register_collector(Box::new(jobs::Jobs { jobs, health }));
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("jobs_created", "MPI jobs created", self.created.clone());
        registry.register("jobs_successful", "MPI jobs that succeeded", self.successful.clone());
        registry.register("jobs_failed", "MPI jobs that failed", self.failed.clone());
        registry.register("job_failures", "MPI jobs that failed, by cause", self.failures.clone());
        registry.register(
            "is_leader",
            "Is this client the leader of this mpi-operator client set",
            self.is_leader.clone(),
        );
        let seconds = || Unit::Seconds;
        let what = "Duration of job stages: queued (created to resumed), start (resumed to running) with its parts scheduled, pulled, ready and launched, and run (running to ended)";
        registry.register_with_unit("job_stage_duration", what, seconds(), self.stages.clone());
        let what = "Duration of reconciliations of a job, by outcome";
        registry.register_with_unit("reconcile_duration", what, seconds(), self.passes.clone());
        let what = "Requests to the API server, by verb, resource and HTTP status code";
        registry.register("api_requests", what, self.requests.clone());
        let what = "Duration of requests to the API server except watches, by verb";
        registry.register_with_unit("api_request_duration", what, seconds(), self.request_times.clone());
        let what = "Admission reviews answered, by operation and decision";
        registry.register("admission_reviews", what, self.admissions.clone());
    }

    /// Sets the store of jobs to read at each scrape.
    pub(crate) fn watch_jobs(&self, jobs: Store<Packed>) {
        // A process runs one operator, so only the first store counts.
        let _ = self.jobs.set(jobs);
    }

    /// Records whether this process leads.
    pub fn set_leader(&self, leads: bool) {
        self.is_leader.set(i64::from(leads));
    }

    /// Records that a pass over a job has ended.
    pub(crate) fn pass_ended(&self, took: Duration, is_ok: bool) {
        let outcome = if is_ok { "success" } else { "error" };
        self.passes.get_or_create(&ByOutcome { outcome }).observe(took.as_secs_f64());
        self.passes_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many passes over MPIJobs have ended.
    pub fn passes_ended(&self) -> u64 {
        self.passes_ended.load(Ordering::Relaxed)
    }

    /// Records the answer to a request, or its failure (`code` is then `error`).
    pub(crate) fn request_ended(&self, verb: &'static str, resource: String, code: String, took: Duration) {
        self.requests.get_or_create(&ByCall { verb, resource, code }).inc();
        if verb != "watch" {
            self.request_times.get_or_create(&ByVerb { verb }).observe(took.as_secs_f64());
        }
    }

    /// Records the answer to an admission review.
    pub fn review_answered(&self, operation: &str, decision: &'static str) {
        self.admissions.get_or_create(&ByDecision { operation: operation.to_owned(), decision }).inc();
    }

    /// Records a written status. What is new in it is counted once, and a status that could not be written is not
    /// counted (upstream counts before it writes, and again when it retries).
    pub(crate) fn status_written(&self, job: &MPIJob, old: &MPIJobStatus, new: &MPIJobStatus) {
        let became = |condition: &str| plan::is_true(new, condition) && !plan::is_true(old, condition);
        if became(CONDITION_CREATED) {
            self.created.inc();
        }
        if became(CONDITION_SUCCEEDED) {
            self.successful.inc();
        }
        // A job that cannot run has not failed: it never began, and may be corrected and refused any number of
        // times. Upstream does not count it either.
        if became(CONDITION_FAILED) && !is_refused(new) {
            self.failed.inc();
            self.failures.get_or_create(&ByCause { cause: cause(new) }).inc();
        }
        let created = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let started = new.start_time.as_ref().map(|time| time.0);
        let ran = plan::condition(new, CONDITION_RUNNING)
            .and_then(|running| Some(running.last_transition_time.as_ref()?.0));
        let ran_before = plan::condition(old, CONDITION_RUNNING)
            .and_then(|running| Some(running.last_transition_time.as_ref()?.0));
        if started.is_some() && old.start_time.is_none() {
            self.stage("queued", created, started);
        }
        if became(CONDITION_RUNNING) {
            self.stage("start", started, ran);
            self.phases(new);
        }
        if new.completion_time.is_some() && old.completion_time.is_none() && ran_before.is_some() {
            self.stage("run", ran_before, new.completion_time.as_ref().map(|time| time.0));
        }
    }

    /// Records the phases of a start once it is complete. All times of a running job are known, except for the
    /// first rank's.
    fn phases(&self, status: &MPIJobStatus) {
        let Some(startup) = &status.startup else { return };
        let times = [
            ("scheduled", &startup.scheduled),
            ("pulled", &startup.pulled),
            ("ready", &startup.ready),
            ("launched", &startup.launched),
        ];
        let mut before = startup.queued.as_ref().map(|time| time.0);
        for (phase, time) in times {
            let over = time.as_ref().map(|time| time.0);
            self.stage(phase, before, over);
            before = over.or(before);
        }
    }

    fn stage(&self, stage: &'static str, from: Option<Timestamp>, to: Option<Timestamp>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        let seconds = to.duration_since(from).as_secs_f64().max(0.0);
        self.stages.get_or_create(&ByStage { stage }).observe(seconds);
    }

    /// Returns all metrics as text.
    ///
    /// # Errors
    /// Only those of the formatter; writing to a `String` has none.
    pub fn show(&self, format: Format) -> Result<String, std::fmt::Error> {
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => shown,
            Format::Text => text::from_open_metrics(&shown),
        })
    }
}

/// Returns whether a status says that its job cannot run.
fn is_refused(status: &MPIJobStatus) -> bool {
    plan::condition(status, CONDITION_FAILED)
        .is_some_and(|failed| failed.reason.as_deref() == Some(REASON_VALIDATION))
}

/// Returns why a job failed, as one of a bounded number of words: a pod's own reason, after the slash, is left out.
fn cause(status: &MPIJobStatus) -> String {
    let failure = status.failure.as_ref().map(|failure| failure.reason.as_str());
    let condition =
        plan::condition(status, CONDITION_FAILED).and_then(|condition| condition.reason.as_deref());
    let words = failure.or(condition).unwrap_or("Unknown");
    words.split('/').next().unwrap_or(words).to_owned()
}

//! The Job controller's decision: takes a Job and its pods, returns what to create, delete, count and report. Pure and
//! deterministic; it cannot fail.
//!
//! Rules: `syncJob` and `manageJob` of `pkg/controller/job/job_controller.go`, Kubernetes 1.36.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::account::{Accounts, account};
use super::backoff::Backoff;
use super::conditions::{self, Ending};
use super::policies::{self, FailureDecision};
use super::{indexes, pods};
use controller_runtime::record::Note;

/// The most pods that one step creates or deletes (upstream's `MaxPodCreateDeletePerSync`).
const CHANGES_MAX: usize = 500;
/// The value of `spec.managedBy` that means this controller.
const OWN_NAME: &str = "kubernetes.io/job-controller";

/// The input of the decision.
#[derive(Debug)]
pub struct ObservedJob<'a> {
    /// The Job, as the API has it.
    pub job: &'a Job,
    /// The pods that the Job controls, ordered by name.
    pub pods: &'a [Arc<Pod>],
    /// The record of the previous step; `None` after a start.
    pub backoff: Option<Backoff>,
    /// The wall clock.
    pub now: Timestamp,
}

/// The actions of one step, in order: create and delete pods, write the status, remove finalizers.
#[derive(Debug, Default)]
pub struct Plan {
    /// One entry per pod, with its index for Indexed Jobs.
    pub create: Vec<Option<i32>>,
    /// Pods to delete.
    pub delete: Vec<Deletion>,
    /// Names of the pods whose finalizer is removed once the status is written.
    pub release: Vec<String>,
    /// The status if all actions succeed; `None` if another controller writes it.
    pub status: Option<JobStatus>,
    /// Events to record once the status is written.
    pub notes: Vec<Note>,
    /// When to run again even if nothing changes.
    pub again: Option<Duration>,
    /// The record for the next step.
    pub backoff: Backoff,
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// `metadata.name`.
    pub name: String,
    /// Its uid, which excludes another pod of that name.
    pub uid: String,
    /// Whether it was ready; it no longer counts as ready.
    pub ready: bool,
    /// Whether its end must not be counted: it is surplus, and is not deleted because the Job ends.
    pub forget: bool,
}

/// Decides the next step for a Job.
pub fn decide(seen: &ObservedJob) -> Plan {
    let Some(spec) = &seen.job.spec else { return Plan::default() };
    if spec.managed_by.as_deref().is_some_and(|by| by != OWN_NAME) {
        return Plan::default();
    }
    if conditions::is_finished(seen.job) {
        return Plan { release: tracked_names(seen.pods), ..Plan::default() };
    }
    if spec.backoff_limit_per_index.is_some() || spec.max_failed_indexes.is_some() {
        let message = "spec.backoffLimitPerIndex and spec.maxFailedIndexes are not supported by this cluster; \
                       use spec.backoffLimit";
        return Plan { notes: vec![Note::warning("NotSupported", message)], ..Plan::default() };
    }
    Step::new(seen, spec).plan()
}

fn tracked_names(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().filter(|pod| pods::is_tracked(pod)).filter_map(|pod| pod.metadata.name.clone()).collect()
}

/// The intermediate state of a decision.
struct Step<'a> {
    seen: &'a ObservedJob<'a>,
    spec: &'a JobSpec,
    indexed: bool,
    suspended: bool,
    books: Accounts,
    backoff: Backoff,
    active: Vec<&'a Pod>,
    terminating: usize,
    status: JobStatus,
    notes: Vec<Note>,
    again: Option<Duration>,
}

impl<'a> Step<'a> {
    fn new(seen: &'a ObservedJob<'a>, spec: &'a JobSpec) -> Self {
        let indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let books = account(seen.job, seen.pods, indexed, spec.completions);
        let backoff = match seen.backoff {
            Some(known) => known.after(&books.new_succeeded, &books.new_failed),
            None => recalled(seen),
        };
        Self {
            seen,
            spec,
            indexed,
            suspended: spec.suspend == Some(true),
            books,
            backoff,
            active: seen.pods.iter().map(Arc::as_ref).filter(|pod| pods::is_active(pod)).collect(),
            terminating: seen.pods.iter().filter(|pod| pods::is_terminating(pod)).count(),
            status: seen.job.status.clone().unwrap_or_default(),
            notes: Vec::new(),
            again: None,
        }
    }

    fn plan(mut self) -> Plan {
        if self.status.start_time.is_none() && !self.suspended {
            self.status.start_time = Some(Time(self.seen.now));
        }
        let mut ending = self.ending();
        let (mut create, mut delete) = (Vec::new(), Vec::new());
        if ending.is_some() {
            delete = self.deletions(self.active.clone(), false);
        } else if self.seen.job.metadata.deletion_timestamp.is_none() {
            (create, delete) = self.pods_to_change();
            let active_after = self.active.len() + create.len() - delete.len();
            if self.is_complete(active_after) {
                ending = Some(Ending::completions_reached());
            } else {
                self.note_suspension();
            }
        }
        self.fill_status(create.len(), &delete);
        if let Some(ending) = ending {
            self.end(&ending, delete.len());
        }
        Plan {
            create,
            delete,
            release: self.books.release,
            status: Some(self.status),
            notes: self.notes,
            again: self.again,
            backoff: self.backoff,
        }
    }

    /// Returns why the Job must end, other than by completion.
    fn ending(&mut self) -> Option<Ending> {
        let recorded = Ending::recorded(self.status.conditions.as_deref().unwrap_or_default());
        recorded
            .or_else(|| self.failed_by_policy())
            .or_else(|| self.past_backoff_limit().then(Ending::backoff_limit_exceeded))
            .or_else(|| self.past_deadline().then(Ending::deadline_exceeded))
            .or_else(|| self.succeeded_by_policy())
    }

    fn failed_by_policy(&self) -> Option<Ending> {
        self.spec.pod_failure_policy.as_ref()?;
        self.seen.pods.iter().filter(|pod| semantics::phase(pod) == "Failed").find_map(|pod| {
            match policies::judge(self.seen.job, pod) {
                FailureDecision::FailJob(message) => Some(Ending::pod_failure_policy(message)),
                FailureDecision::Count | FailureDecision::Ignore => None,
            }
        })
    }

    fn past_backoff_limit(&self) -> bool {
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if self.books.failed > limit {
            return true;
        }
        let in_place = self.spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
        if in_place != Some("OnFailure") {
            return false;
        }
        let restarts = self.seen.pods.iter().map(|pod| pods::restarts(pod)).fold(0, i32::saturating_add);
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    fn past_deadline(&mut self) -> bool {
        let (Some(seconds), Some(start)) = (self.spec.active_deadline_seconds, &self.status.start_time)
        else {
            return false;
        };
        if self.suspended {
            return false;
        }
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let passed = Duration::try_from(self.seen.now.duration_since(start.0)).unwrap_or_default();
        match limit.checked_sub(passed) {
            Some(left) if !left.is_zero() => {
                self.look_again(left);
                false
            }
            _ => true,
        }
    }

    fn succeeded_by_policy(&self) -> Option<Ending> {
        let policy = self.spec.success_policy.as_ref()?;
        policies::fulfilled(policy, &self.books.completed, self.spec.completions?).map(Ending::success_policy)
    }

    fn is_complete(&self, active_after: usize) -> bool {
        active_after == 0
            && match self.spec.completions {
                Some(completions) => self.books.succeeded >= completions,
                None => self.books.succeeded > 0,
            }
    }

    /// Returns how many pods should be active.
    fn wanted(&self) -> usize {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let wanted = match self.spec.completions {
            // A work queue: no new pods once one has succeeded.
            None if self.books.succeeded > 0 => return self.active.len(),
            None => parallelism,
            Some(completions) => completions.saturating_sub(self.books.succeeded).min(parallelism),
        };
        usize::try_from(wanted).unwrap_or(0)
    }

    fn pods_to_change(&mut self) -> (Vec<Option<i32>>, Vec<Deletion>) {
        if self.suspended {
            return (Vec::new(), self.deletions(self.active.clone(), true));
        }
        let wanted = self.wanted();
        let delete = self.surplus(wanted);
        if !delete.is_empty() {
            return (Vec::new(), delete);
        }
        let waiting_for = if pods::replaces_only_failed(self.seen.job) { self.terminating } else { 0 };
        let missing = wanted.saturating_sub(self.active.len() + waiting_for).min(CHANGES_MAX);
        if missing == 0 {
            return (Vec::new(), Vec::new());
        }
        if let Some(left) = self.backoff.remaining(self.seen.now) {
            self.look_again(left);
            return (Vec::new(), Vec::new());
        }
        let create = if self.indexed {
            self.free_indexes().take(missing).map(Some).collect()
        } else {
            vec![None; missing]
        };
        (create, Vec::new())
    }

    /// Returns surplus active pods: first those with a useless or duplicate index, then the cheapest.
    fn surplus(&self, wanted: usize) -> Vec<Deletion> {
        let (mut useless, mut useful) = (Vec::new(), Vec::new());
        let mut taken = BTreeSet::new();
        for pod in &self.active {
            let useful_index = match pods::index(pod) {
                _ if !self.indexed => true,
                Some(index) => {
                    self.spec.completions.is_some_and(|all| index < all)
                        && !self.books.completed.contains(&index)
                        && taken.insert(index)
                }
                None => false,
            };
            if useful_index { useful.push(*pod) } else { useless.push(*pod) }
        }
        let more = useful.len().saturating_sub(wanted);
        pods::cheapest_first(&mut useful);
        useless.extend(useful.into_iter().take(more));
        self.deletions(useless, true)
    }

    fn deletions(&self, mut pods: Vec<&Pod>, forget: bool) -> Vec<Deletion> {
        pods::cheapest_first(&mut pods);
        pods.into_iter()
            .take(CHANGES_MAX)
            .map(|pod| Deletion {
                name: pod.metadata.name.clone().unwrap_or_default(),
                uid: pods::uid(pod).to_owned(),
                ready: semantics::is_ready(pod),
                forget,
            })
            .collect()
    }

    /// Returns the indexes, in ascending order, that have neither succeeded nor a running pod.
    fn free_indexes(&self) -> impl Iterator<Item = i32> + '_ {
        let only_failed = pods::replaces_only_failed(self.seen.job);
        let busy: BTreeSet<i32> = self
            .seen
            .pods
            .iter()
            .filter(|pod| pods::is_active(pod) || (only_failed && pods::is_terminating(pod)))
            .filter_map(|pod| pods::index(pod))
            .collect();
        let all = self.spec.completions.unwrap_or(0);
        (0..all).filter(move |index| !busy.contains(index) && !self.books.completed.contains(index))
    }

    fn note_suspension(&mut self) {
        let list = self.status.conditions.get_or_insert_default();
        let now = self.seen.now;
        if self.suspended {
            if conditions::set(list, "Suspended", true, "JobSuspended", "Job suspended", now) {
                self.notes.push(Note::normal("Suspended", "Job suspended"));
            }
        } else if conditions::set(list, "Suspended", false, "JobResumed", "Job resumed", now) {
            self.notes.push(Note::normal("Resumed", "Job resumed"));
            self.status.start_time = Some(Time(now));
        }
    }

    fn fill_status(&mut self, created: usize, deleted: &[Deletion]) {
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let ready = self.active.iter().filter(semantics::is_ready).count();
        let status = &mut self.status;
        status.active = Some(number(self.active.len() + created - deleted.len())).filter(|n| *n > 0);
        status.ready = Some(number(ready - deleted.iter().filter(|d| d.ready).count()));
        status.terminating = Some(number(self.terminating + deleted.len()));
        status.succeeded = Some(self.books.counted_succeeded).filter(|n| *n > 0);
        status.failed = Some(self.books.counted_failed).filter(|n| *n > 0);
        // As upstream, keep an empty object: it marks that this Job's pods are tracked.
        status.uncounted_terminated_pods = Some(self.books.uncounted.clone().unwrap_or_default());
        if self.indexed {
            status.completed_indexes =
                Some(indexes::format(&self.books.completed)).filter(|text| !text.is_empty());
        }
    }

    /// Records that the Job is ending and, once every pod has stopped and been counted, that it has ended.
    fn end(&mut self, ending: &Ending, deleted: usize) {
        let stopped = self.active.len() + self.terminating == 0 && deleted == 0;
        let counted = self.books.uncounted.is_none() && self.books.release.is_empty();
        let (interim, last) =
            if ending.success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        let now = self.seen.now;
        let list = self.status.conditions.get_or_insert_default();
        conditions::set(list, interim, true, &ending.reason, &ending.message, now);
        if !(stopped && counted) {
            return;
        }
        conditions::set(list, last, true, &ending.reason, &ending.message, now);
        if ending.success {
            self.status.completion_time = Some(Time(now));
            self.notes.push(Note::normal("Completed", "Job completed"));
            let too_many = self.spec.completions.is_some_and(|all| self.books.succeeded > all);
            if too_many {
                let message = "Too many succeeded pods running after completion count reached";
                self.notes.push(Note::warning("TooManySucceededPods", message));
            }
        } else {
            self.notes.push(failure_note(ending));
        }
        self.again = None;
    }

    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |known| known.min(after)));
    }
}

/// Returns the Event of a failure. Its reason is that of the condition, out of a fixed set.
fn failure_note(ending: &Ending) -> Note {
    let reason = match ending.reason.as_str() {
        "DeadlineExceeded" => "DeadlineExceeded",
        "PodFailurePolicy" => "PodFailurePolicy",
        _ => "BackoffLimitExceeded",
    };
    Note::warning(reason, ending.message.clone())
}

/// Rebuilds the back-off record from the pods that still exist.
fn recalled(seen: &ObservedJob) -> Backoff {
    let only_failed = pods::replaces_only_failed(seen.job);
    let times = |wanted: &dyn Fn(&Pod) -> bool| -> Vec<Timestamp> {
        seen.pods.iter().filter(|pod| wanted(pod)).filter_map(|pod| pods::finished_at(pod)).collect()
    };
    let succeeded = times(&|pod| semantics::phase(pod) == "Succeeded");
    let failed = times(&|pod| pods::is_failed(pod, only_failed));
    Backoff::default().after(&succeeded, &failed)
}

//! Counts ended pods, so that none is counted twice or lost even if the process dies at any point. Pure.
//!
//! As in KEP-2307, an ended pod is first recorded in `status.uncountedTerminatedPods` (or `completedIndexes`). Then its
//! finalizer is removed. Only once that is seen does it move to the counters. Each step can be repeated safely. The
//! status is written with its resourceVersion, so a stale view never counts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::policies::{FailureDecision, judge};
use super::{indexes, pods};

/// The most uncounted pods in one status (upstream's `MaxUncountedPods`).
const UNCOUNTED_MAX: usize = 500;

/// The counters after looking at the pods.
#[derive(Debug, Default)]
pub struct Accounts {
    /// Succeeded pods whose count is final.
    pub counted_succeeded: i32,
    /// Failed pods whose count is final.
    pub counted_failed: i32,
    /// For `status.uncountedTerminatedPods`; `None` if nothing is uncounted.
    pub uncounted: Option<UncountedTerminatedPods>,
    /// Succeeded pods so far, uncounted ones included.
    pub succeeded: i32,
    /// Failed pods so far, uncounted ones included.
    pub failed: i32,
    /// Indexed Jobs: the indexes that succeeded.
    pub completed: BTreeSet<i32>,
    /// Names of the pods whose finalizer may be removed once this status is written.
    pub release: Vec<String>,
    /// End times of newly succeeded pods, for the back-off.
    pub new_succeeded: Vec<Timestamp>,
    /// End times of newly failed pods, for the back-off.
    pub new_failed: Vec<Timestamp>,
}

/// Reads the counters of `job` and updates them from its `pods`.
pub fn account(job: &Job, pods: &[Arc<Pod>], indexed: bool, completions: Option<i32>) -> Accounts {
    let status = job.status.clone().unwrap_or_default();
    let mut accounts = open(&status, pods, indexed, completions);
    let only_failed = pods::replaces_only_failed(job);
    let job_deleted = job.metadata.deletion_timestamp.is_some();
    let mut lists = accounts.uncounted.take().unwrap_or_default();
    let mut beyond_limit = (0, 0);

    for pod in pods.iter().filter(|pod| pods::is_tracked(pod)) {
        let succeeded = semantics::phase(pod) == "Succeeded";
        let failed = !succeeded && pods::is_failed(pod, only_failed);
        if !(succeeded || failed) {
            if job_deleted {
                accounts.release.push(name(pod));
            }
            continue;
        }
        let uid = pods::uid(pod).to_owned();
        let known = contains(&lists, &uid);
        let index = pods::index(pod).filter(|index| completions.is_none_or(|all| *index < all));
        if !known && (!indexed || index.is_some()) {
            let room = length(&lists) < UNCOUNTED_MAX;
            if succeeded {
                note_end(&mut accounts.new_succeeded, pod);
                match index {
                    Some(index) if indexed => drop(accounts.completed.insert(index)),
                    _ if room => lists.succeeded.get_or_insert_default().push(uid),
                    _ => beyond_limit.0 += 1,
                }
            } else {
                note_end(&mut accounts.new_failed, pod);
                match judge(job, pod) {
                    FailureDecision::Ignore => {}
                    _ if room => lists.failed.get_or_insert_default().push(uid),
                    _ => beyond_limit.1 += 1,
                }
            }
            if !(room || indexed && succeeded) {
                continue;
            }
        }
        accounts.release.push(name(pod));
    }
    let listed =
        |list: &Option<Vec<String>>| i32::try_from(list.as_ref().map_or(0, Vec::len)).unwrap_or(i32::MAX);
    accounts.succeeded =
        accounts.counted_succeeded.saturating_add(listed(&lists.succeeded)).saturating_add(beyond_limit.0);
    accounts.failed =
        accounts.counted_failed.saturating_add(listed(&lists.failed)).saturating_add(beyond_limit.1);
    if indexed {
        accounts.succeeded = i32::try_from(accounts.completed.len()).unwrap_or(i32::MAX);
        accounts.counted_succeeded = accounts.succeeded;
    }
    accounts.uncounted = (length(&lists) > 0).then_some(lists);
    accounts
}

/// Reads the counters from the status. Uncounted pods that no longer have the finalizer move into the counters.
fn open(status: &JobStatus, pods: &[Arc<Pod>], indexed: bool, completions: Option<i32>) -> Accounts {
    let tracked: HashMap<&str, bool> = pods.iter().map(|p| (pods::uid(p), pods::is_tracked(p))).collect();
    let written = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let split = |list: Option<Vec<String>>| -> (Vec<String>, i32) {
        let (open, done): (Vec<_>, Vec<_>) = list
            .unwrap_or_default()
            .into_iter()
            .partition(|uid| tracked.get(uid.as_str()).copied().unwrap_or(false));
        (open, i32::try_from(done.len()).unwrap_or(i32::MAX))
    };
    let (open_succeeded, done_succeeded) = split(written.succeeded);
    let (open_failed, done_failed) = split(written.failed);
    let keep = |list: Vec<String>| if list.is_empty() { None } else { Some(list) };
    let completed = match (&status.completed_indexes, indexed) {
        (Some(text), true) => indexes::parse(text, completions.unwrap_or(0)),
        _ => BTreeSet::new(),
    };
    Accounts {
        counted_succeeded: status.succeeded.unwrap_or(0).saturating_add(done_succeeded),
        counted_failed: status.failed.unwrap_or(0).saturating_add(done_failed),
        uncounted: Some(UncountedTerminatedPods {
            succeeded: keep(open_succeeded),
            failed: keep(open_failed),
        }),
        completed,
        ..Accounts::default()
    }
}

fn contains(lists: &UncountedTerminatedPods, uid: &str) -> bool {
    lists.succeeded.iter().flatten().chain(lists.failed.iter().flatten()).any(|known| known == uid)
}

fn length(lists: &UncountedTerminatedPods) -> usize {
    lists.succeeded.as_ref().map_or(0, Vec::len) + lists.failed.as_ref().map_or(0, Vec::len)
}

fn note_end(times: &mut Vec<Timestamp>, pod: &Pod) {
    times.extend(pods::finished_at(pod));
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

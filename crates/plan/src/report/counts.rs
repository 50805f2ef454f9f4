//! Counts the pods of a job for its status.

use api::{ReplicaStatus, WorkerCounts};
use semantics::{is_ready, phase};

use crate::conditions::is_finished;
use crate::kept::Pod;
use crate::observed::{ObservedState, is_failed, is_running};
use crate::outlook::Outlook;
use crate::planning::has_failed;
use crate::validate::ValidJob;

/// The Launcher's counts. A pod that is being deleted counts as active until it is gone, because a queue gives away
/// the quota of a job without active pods.
pub(super) fn launcher_progress(seen: &ObservedState, outlook: &Outlook) -> ReplicaStatus {
    let pods = seen.launcher_pods.iter().chain(&seen.former_launcher_pods);
    let active = match outlook {
        Outlook::LauncherEnded | Outlook::Finished | Outlook::Expired => None,
        Outlook::Active | Outlook::Failed(_) => count(&seen.launcher_pods, is_running),
        Outlook::Suspended | Outlook::Restarting(_) | Outlook::Clearing => count(pods, holds_a_node),
    };
    ReplicaStatus { active, ..launcher_counts(seen) }
}

/// The Workers' counts, by the same rule.
pub(super) fn worker_progress(job: &ValidJob, seen: &ObservedState, outlook: &Outlook) -> ReplicaStatus {
    match outlook {
        Outlook::Active | Outlook::Failed(_) => worker_counts(job, seen),
        // Upstream ignores the Workers once the Launcher has ended.
        Outlook::LauncherEnded | Outlook::Finished | Outlook::Expired => ReplicaStatus::default(),
        Outlook::Suspended | Outlook::Restarting(_) | Outlook::Clearing => ReplicaStatus {
            active: count(seen.workers.iter().map(|pod| &**pod), holds_a_node),
            ..ReplicaStatus::default()
        },
    }
}

/// Whether a pod takes up resources on a node.
fn holds_a_node(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    is_running(pod) || (bound && phase(pod) == "Pending")
}

pub(super) fn launcher_counts(seen: &ObservedState) -> ReplicaStatus {
    let failed =
        seen.launcher.as_ref().and_then(|launcher| launcher.status.as_ref()?.failed).filter(|n| *n > 0);
    ReplicaStatus { failed, ..ReplicaStatus::default() }
}

fn worker_counts(job: &ValidJob, seen: &ObservedState) -> ReplicaStatus {
    let pods: Vec<&Pod> = seen.by_index(job).into_iter().flatten().collect();
    ReplicaStatus {
        active: count(pods.iter().copied(), is_running),
        succeeded: count(pods.iter().copied(), |pod| phase(pod) == "Succeeded"),
        failed: count(pods.iter().copied(), is_failed),
        ..ReplicaStatus::default()
    }
}

/// The number of matches; `None` for zero, as Go omits it.
pub(super) fn count<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    matches: impl Fn(&Pod) -> bool,
) -> Option<i32> {
    i32::try_from(pods.into_iter().filter(|pod| matches(pod)).count()).ok().filter(|n| *n > 0)
}

pub(super) fn count_workers(job: &ValidJob, seen: &ObservedState) -> WorkerCounts {
    let mut counts =
        WorkerCounts { of: i32::try_from(job.worker_count()).unwrap_or(i32::MAX), ..WorkerCounts::default() };
    let ended = is_finished(&seen.status) && seen.status.completion_time.is_some();
    for pod in seen.by_index(job) {
        match pod {
            // A new Worker takes its place once it is gone.
            Some(pod) if seen.was_left_over(pod) && !job.suspended => counts.pending += 1,
            Some(pod) if has_failed(job, pod) => counts.failed += 1,
            Some(pod) if is_running(pod) && is_ready(pod) => counts.running += 1,
            Some(pod) if phase(pod) == "Succeeded" => {}
            None if ended => {}
            _ => counts.pending += 1,
        }
    }
    counts.ready = format!("{}/{}", counts.running, counts.of);
    counts
}

//! `status.startup`: when each phase of a start ended, from the times in the pods' statuses. It causes no write of its
//! own: the times are written with the next status change.

use api::MPIJobStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::kept::Pod;
use crate::observed::{LauncherRun, ObservedState, started_at};
use crate::validate::ValidJob;
use semantics::kept::condition_since;

/// Updates the times; `run` is the Launcher's run whose output was read, if any. A known time stays, even when the pods
/// it came from are gone.
pub(crate) fn report_startup(
    job: &ValidJob,
    seen: &ObservedState,
    run: Option<&LauncherRun>,
    status: &mut MPIJobStatus,
) {
    let Some(let_go) = status.start_time.clone().filter(|_| !job.suspended) else { return };
    let mut startup =
        status.startup.take().filter(|startup| startup.queued.as_ref() == Some(&let_go)).unwrap_or_default();
    startup.queued = Some(let_go);
    fill(&mut startup.scheduled, || last_of(job, seen, |pod| condition_since(pod, "PodScheduled")));
    fill(&mut startup.pulled, || last_of(job, seen, started_at));
    fill(&mut startup.ready, || last_of(job, seen, |pod| condition_since(pod, "Ready")));
    fill(&mut startup.launched, || launchers(seen).filter_map(started_at).min());
    fill(&mut startup.first_rank, || run.and_then(|run| run.first_output));
    status.startup = Some(startup);
}

fn fill(time: &mut Option<Time>, found: impl FnOnce() -> Option<Timestamp>) {
    if time.is_none() {
        let second = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        *time = found().map(|at| Time(second(at)));
    }
}

/// The time of the last Worker, once every Worker has one; for a job without Workers, the Launcher's.
fn last_of(
    job: &ValidJob,
    seen: &ObservedState,
    time: impl Fn(&Pod) -> Option<Timestamp>,
) -> Option<Timestamp> {
    if job.worker_count() == 0 {
        return launchers(seen).filter_map(time).min();
    }
    let workers = seen.by_index(job).into_iter().map(|pod| pod.filter(|pod| !seen.was_left_over(pod)));
    let times: Option<Vec<Timestamp>> = workers.map(|pod| pod.and_then(&time)).collect();
    times?.into_iter().max()
}

/// The Launcher's pods but those from before a suspension.
fn launchers(seen: &ObservedState) -> impl Iterator<Item = &Pod> {
    seen.launcher_pods.iter().filter(|pod| !seen.was_left_over(pod))
}

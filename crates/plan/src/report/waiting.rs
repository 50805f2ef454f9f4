//! Reports what keeps a job from going on: what hinders its start, or what comes before the next run of its Launcher.

use std::time::Duration;

use api::{GpuCounts, PHASE_REASON_RETRYING, Phase, WAITING_FOR_DELETED_JOB, Waiting};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use semantics::is_deleted;

use super::faults::invalid;
use super::{normal, shortened, warning};
use crate::explanation::{hindrance, leaving_names};
use crate::failure::launcher_failure;
use crate::notice::{ApplyFailure, Report};
use crate::observed::{ObservedState, container_state, is_failed, is_running, next_start};
use crate::outlook::Outlook;
use crate::planning::follows_deleted_job;
use crate::validate::ValidJob;
use diagnosis::{Cause, Gpus, failed_run};

/// Reports what keeps a starting job from going on. It is reported once, with an event, and removed when nothing does
/// any more.
pub(super) fn report_waiting(
    job: &ValidJob,
    seen: &ObservedState,
    outlook: &Outlook,
    failures: &[ApplyFailure],
    report: &mut Report,
    now: Timestamp,
) {
    let starting =
        *outlook == Outlook::Active && report.status.phase == Some(Phase::Pending) && !job.suspended;
    let pods = seen.workers.iter().map(|pod| &**pod).chain(&seen.launcher_pods);
    let refused = failures.iter().map(|failure| &failure.message).chain(&seen.launcher_refused);
    let refused = refused.map(|message| ("FailedCreate".to_owned(), message.clone()));
    let missing = seen.missing_reference.iter().map(|message| ("FailedMount".to_owned(), message.clone()));
    let refused = refused.chain(missing).collect();
    if starting && job.is_held() {
        let waiting = invalid(&job.faults, now);
        if report.status.waiting.as_ref().is_none_or(|known| known.message != waiting.message) {
            report.status.waiting = Some(waiting);
        }
        return;
    }
    if starting && follows_deleted_job(seen) {
        let known = report.status.waiting.take();
        let known = known.filter(|known| known.reason == WAITING_FOR_DELETED_JOB);
        let waiting = known.unwrap_or_else(|| {
            let message = leaving_names(&seen.left_behind);
            report.notices.push(normal(WAITING_FOR_DELETED_JOB, message.clone()));
            let (reason, since) = (WAITING_FOR_DELETED_JOB.to_owned(), Some(Time(now)));
            Waiting { reason, message, since, ..Waiting::default() }
        });
        report.status.waiting = Some(waiting);
        return;
    }
    if let Some(waiting) = retrying(job, seen, outlook, now) {
        // Its pods may never have all run at once, but it has begun to run.
        report.status.phase = Some(Phase::Running);
        report.status.phase_reason = Some(PHASE_REASON_RETRYING.to_owned());
        if report.status.waiting.as_ref().is_none_or(|known| known.message != waiting.message) {
            report.notices.push(warning(PHASE_REASON_RETRYING, waiting.message.clone()));
            report.status.waiting = Some(waiting);
        }
        return;
    }
    let Some(found) = starting.then(|| hindrance(&job.name, pods, refused, seen.gpus)).flatten() else {
        report.status.waiting = None;
        return;
    };
    let reason = found.cause.word();
    let gpus = seen.gpus.filter(|gpus| found.cause == Cause::Unschedulable && gpus.are_short());
    // Numbers change with every pod that comes and goes; only their first appearance is news.
    let same = |known: &Waiting| known.reason == reason && (known.gpus.is_some() || gpus.is_none());
    if report.status.waiting.as_ref().is_some_and(same) {
        return;
    }
    report.status.waiting = Some(Waiting {
        reason: reason.to_owned(),
        message: found.message.clone(),
        suggestion: Some(found.suggestion),
        link: Some(found.link),
        since: Some(Time(now)),
        gpus: gpus.map(counts),
    });
    report.notices.push(warning(reason, found.message));
}

/// What a job waits for between two runs of its Launcher: why the last run failed, and when the next begins.
fn retrying(job: &ValidJob, seen: &ObservedState, outlook: &Outlook, now: Timestamp) -> Option<Waiting> {
    if *outlook != Outlook::Active || job.suspended || seen.launcher_end().is_some() {
        return None;
    }
    let next = next_in_place(job, seen).or_else(|| next_pod(job, seen))?;
    let failure = launcher_failure(job, seen, "", "");
    let when = match next.at {
        Some(at) => format!("starts at about {} UTC", at.strftime("%H:%M:%S")),
        None => "starts shortly".to_owned(),
    };
    Some(Waiting {
        reason: failure.reason,
        message: shortened(&format!(
            "{}; attempt {} of {} of the Launcher {when}",
            failure.message.trim_end_matches('.'),
            next.number,
            next.of,
        )),
        suggestion: failure.suggestion,
        link: failure.link,
        since: Some(Time(now)),
        gpus: None,
    })
}

/// The next run of a Launcher whose last one failed.
struct NextRun {
    number: i32,
    of: i32,
    at: Option<Timestamp>,
}

/// The next run in the same pod, whose kubelet starts the container again. Its Job gives up once the containers were started
/// again as often as its backoff limit allows (`pastBackoffLimitOnFailure` in `pkg/controller/job/job_controller.go`).
fn next_in_place(job: &ValidJob, seen: &ObservedState) -> Option<NextRun> {
    if job.launcher.restart_policy != "OnFailure" {
        return None;
    }
    let pod = seen.newest_launcher_pod().filter(|pod| !is_deleted(pod) && !is_failed(pod))?;
    let failed = failed_run(pod)?;
    let state = container_state(pod, &failed.container)?;
    if state.running.is_some() {
        return None;
    }
    let runs = job.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT).max(1);
    let failures = failed.restarts + 1;
    let at = next_start(state, &failed);
    (failures < runs).then_some(NextRun { number: failures + 1, of: runs, at })
}

/// The next run in another pod, which the Launcher's Job creates.
fn next_pod(job: &ValidJob, seen: &ObservedState) -> Option<NextRun> {
    if seen.launcher_pods.iter().any(is_running) {
        return None;
    }
    let failures = seen.launcher.as_ref()?.status.as_ref()?.failed.filter(|failures| *failures > 0)?;
    // Until the Job has counted the run that has just failed, its number would be that of the run before.
    let failed_pods = seen.launcher_pods.iter().filter(|pod| is_failed(pod)).count();
    if usize::try_from(failures).is_ok_and(|counted| counted < failed_pods) {
        return None;
    }
    let of = job.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT).saturating_add(1);
    let failed = seen.failed_launcher_pod().filter(|_| failures < of)?;
    let ended = failed_run(failed)?.ended.finished_at?.0;
    let exponent = u32::try_from(failures - 1).unwrap_or(0).min(BACKOFF_DOUBLINGS);
    let at = ended.checked_add(FIRST_BACKOFF * 2_u32.pow(exponent)).ok();
    Some(NextRun { number: failures + 1, of, at })
}

/// `spec.backoffLimit` of a Job that does not set it.
const DEFAULT_BACKOFF_LIMIT: i32 = 6;
/// The Job controller's wait after a first failure; it doubles with each further one, up to ten minutes
/// (`k8s.io/kubernetes/pkg/controller/job/backoff_utils.go`).
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const BACKOFF_DOUBLINGS: u32 = 6;

fn counts(gpus: Gpus) -> GpuCounts {
    let bounded = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    GpuCounts { requested: bounded(gpus.requested), available: bounded(gpus.available) }
}

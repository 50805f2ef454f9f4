//! Reports the end of the Launcher's Job, which is mostly the end of the job.

use api::{
    CONDITION_FAILED, CONDITION_SUCCEEDED, Failure, LAUNCHER, REASON_FAILED, REASON_LAUNCHER_WARNING,
    REASON_RESTARTING, REASON_SUCCEEDED,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{normal, set_running, shortened, warning};
use crate::conditions::{has_run, set_condition};
use crate::failure::{failed_success, launcher_failure};
use crate::kept::Pod;
use crate::notice::{Notice, Report};
use crate::observed::{LauncherEnd, ObservedState, is_failed, started_at};
use crate::validate::ValidJob;
use crate::world_check::report_world;
use diagnosis::{Output, warnings};

/// Reports the end of the Launcher's Job. A job whose Launcher succeeded did run: if that was never observed, Running
/// is reported now, and the end with the next pass, which the status write triggers.
pub(super) fn report_launcher_end(job: &ValidJob, seen: &ObservedState, report: &mut Report, now: Timestamp) {
    let full_name = format!("{}/{}", job.namespace, job.name);
    match seen.launcher_end() {
        // If the job was suspended meanwhile, Running is False, and only its end is left to report.
        Some(LauncherEnd::Succeeded) if !has_run(&report.status) && !job.suspended => {
            let since = seen.launcher_pods.iter().filter_map(started_at).max().unwrap_or(now);
            set_running(job, report, now, since);
        }
        Some(LauncherEnd::Succeeded) => {
            let message = format!("MPIJob {full_name} successfully completed.");
            let ended =
                seen.launcher.as_ref().and_then(|launcher| launcher.status.as_ref()?.completion_time.clone());
            report.status.completion_time.get_or_insert(ended.unwrap_or(Time(now)));
            if let Some(failure) = failed_success(job, seen) {
                let message = failure.message.clone();
                report.status.failure = Some(failure);
                set_condition(
                    &mut report.status,
                    CONDITION_FAILED,
                    true,
                    REASON_FAILED,
                    message.clone(),
                    now,
                );
                report.notices.push(warning(REASON_FAILED, message));
                return;
            }
            if let Some(log) = &seen.success_log {
                report_world(job, log, &seen.agents, report, now);
                report.notices.extend(launcher_warnings(log));
            }
            if let Some(counts) = report.status.replica_statuses.get_mut(LAUNCHER) {
                counts.succeeded = Some(1);
            }
            set_condition(
                &mut report.status,
                CONDITION_SUCCEEDED,
                true,
                REASON_SUCCEEDED,
                message.clone(),
                now,
            );
            report.notices.push(normal(REASON_SUCCEEDED, message));
        }
        Some(LauncherEnd::Failed { reason, message }) => {
            let recorded =
                seen.recorded.as_ref().filter(|recorded| recorded.condition_reason != REASON_RESTARTING);
            let (reason, message) = recorded.map_or_else(
                || failure_words(&full_name, reason, message, &seen.launcher_pods),
                |recorded| (recorded.condition_reason.clone(), recorded.condition_message.clone()),
            );
            let ended = recorded.and_then(|recorded| recorded.completion_time).unwrap_or(now);
            report.status.completion_time.get_or_insert(Time(ended));
            let failure = recorded.map_or_else(
                || launcher_failure(job, seen, &reason, &message),
                |recorded| recorded.failure.clone(),
            );
            report.status.failure = Some(Failure { ended_early: Some(false), ..failure });
            set_condition(&mut report.status, CONDITION_FAILED, true, &reason, message.clone(), now);
            report.notices.push(Notice { warning: true, reason, message });
        }
        None => {}
    }
}

/// The maximum number of warning events for one run.
const MOST_WARNINGS: usize = 3;

/// What the Launcher of a successful job complained of. `mpirun` of Open MPI 5 ends with 0 after it has lost a daemon, and with
/// it the ranks of a Worker.
fn launcher_warnings(log: &str) -> impl Iterator<Item = Notice> {
    let said = warnings(&Output::from(log)).into_iter().take(MOST_WARNINGS);
    said.map(|said| {
        let message = format!("The Launcher succeeded, but its output says: {}.", said.message);
        warning(REASON_LAUNCHER_WARNING, shortened(&message))
    })
}

/// Upstream's reason and message for a failed Launcher: the Job's, and if it ran out of retries also those of the last
/// failed pod.
fn failure_words(job: &str, reason: &str, message: &str, pods: &[Pod]) -> (String, String) {
    let mut words = (
        if reason.is_empty() { REASON_FAILED.to_owned() } else { reason.to_owned() },
        if message.is_empty() { format!("MPIJob {job} has failed") } else { message.to_owned() },
    );
    let last = pods.iter().filter(|pod| is_failed(pod)).max_by_key(|pod| created_at(pod));
    if let Some(status) =
        last.and_then(|pod| pod.status.as_ref()).filter(|_| reason == "BackoffLimitExceeded")
    {
        words.0 = format!("{}/{}", words.0, status.reason.as_deref().unwrap_or_default());
        words.1 = shortened(&format!("{}: {}", words.1, status.message.as_deref().unwrap_or_default()));
    }
    words
}

fn created_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

//! What remains to be done for a job that has ended.

use std::time::Duration;

use api::{CONDITION_FAILED, CONDITION_SUSPENDED, REASON_EVICTED, REASON_FAILED};
use jiff::Timestamp;
use semantics::{has_ended, is_deleted};
use serde_json::Value;

use super::children::drop_pod_group;
use super::{Plan, delete_pod, grouped, is_suspended, set_suspend};
use crate::change::Change;
use crate::conditions::{condition, is_true};
use crate::kept::Pod;
use crate::observed::{ObservedState, Recorded, is_running, runs};
use crate::outlook::Outlook;
use crate::time::elapsed;
use crate::validate::{CleanPods, ValidJob};

/// How long a Launcher may still run after a Worker failed its job, so that it can print what it saw. A pod that ends
/// by itself keeps its log; one that is deleted does not.
const LAUNCHER_LAST_WORDS: Duration = Duration::from_secs(10);

/// Cleans up after the end: Workers are deleted as `cleanPodPolicy` says. If the job ended before its Launcher did,
/// everything that holds resources is deleted too: the Workers that have not ended, and the Launcher after a grace
/// period to log why it failed. A job that ended while suspended keeps no Worker.
pub(super) fn clean_up(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Plan {
    let ended_early = was_ended_early(seen);
    let suspended = is_true(&seen.status, CONDITION_SUSPENDED);
    let goes = |pod: &Pod| match job.clean_pods {
        CleanPods::All => true,
        CleanPods::Running => !has_ended(pod),
        CleanPods::None => suspended || (ended_early && !has_ended(pod)),
    };
    let mut changes: Vec<Change> =
        seen.workers.iter().filter(|pod| !is_deleted(pod) && goes(pod)).map(|pod| delete_pod(pod)).collect();
    if job.clean_pods != CleanPods::None || ended_early || suspended {
        changes.extend(drop_pod_group(seen));
    }
    let mut wake_after = None;
    let unstopped = seen.launcher.as_ref().is_some_and(|launcher| !is_suspended(launcher));
    if ended_early && unstopped && seen.launcher_end().is_none() {
        let speaks = seen.launcher_pods.iter().any(|pod| is_running(pod) && !is_deleted(pod) && runs(pod));
        let since = seen.status.completion_time.as_ref().map_or(now, |time| time.0);
        let left = LAUNCHER_LAST_WORDS.saturating_sub(elapsed(since, now));
        if speaks && !left.is_zero() {
            wake_after = Some(left);
        } else {
            changes.push(set_suspend(job, true, Value::Null));
        }
    }
    let left = job.ttl_seconds.map(|ttl| ttl_left(seen, ttl, now));
    if changes.is_empty() && left.is_some_and(|left| left.is_zero()) {
        return Plan::still(Outlook::Expired);
    }
    let wake_after = wake_after.into_iter().chain(left).min();
    Plan { changes: grouped([changes]), wake_after, ..Plan::still(Outlook::Finished) }
}

/// How long a finished job is still kept. Upstream sets the TTL on the Launcher's Job only, which is then removed and
/// leaves everything else.
fn ttl_left(seen: &ObservedState, ttl_seconds: i32, now: Timestamp) -> Duration {
    let ttl = Duration::from_secs(u64::try_from(ttl_seconds).unwrap_or(0));
    let since = seen.status.completion_time.as_ref().map_or(now, |time| time.0);
    ttl.saturating_sub(elapsed(since, now))
}

/// Whether the job ended before its Launcher's Job did: because of a Worker, or of a Launcher that cannot start. The
/// failure says so; where upstream's CRD drops that field from the status, the job's failure record has it.
pub(crate) fn was_ended_early(seen: &ObservedState) -> bool {
    let Some(failed) = condition(&seen.status, CONDITION_FAILED).filter(|failed| failed.status == "True")
    else {
        return false;
    };
    let said = seen.status.failure.as_ref().and_then(|failure| failure.ended_early);
    let recorded = || seen.recorded.as_ref().and_then(|recorded| recorded.failure.ended_early);
    said.or_else(recorded).unwrap_or_else(|| ends_early(failed.reason.as_deref().unwrap_or_default()))
}

pub(super) fn ended_early(recorded: &Recorded) -> bool {
    recorded.failure.ended_early.unwrap_or_else(|| ends_early(&recorded.condition_reason))
}

/// The same from the reason alone, for a failure that was written without `endedEarly`.
fn ends_early(reason: &str) -> bool {
    [REASON_FAILED, REASON_EVICTED].contains(&reason)
}

//! Which of the cluster's warnings about a job are reported.

use k8s_openapi::api::core::v1::Event;

use super::{Progress, Seen, Told};
use crate::describe;

/// The maximum number of warnings reported; a pod that cannot start repeats its warnings forever.
const MAX_WARNINGS: usize = 50;
/// Reasons of warnings that the job's own status reports with more: its end, a restart, a stall.
const OF_THE_STATUS: [&str; 4] =
    [api::REASON_FAILED, api::REASON_RESTARTING, api::CONDITION_STALLED, api::PHASE_REASON_RETRYING];
/// The beginning of the reason with which the Launcher's Job and upstream's condition report its end.
const OF_THE_END: &str = "BackoffLimitExceeded";
/// The reason of a warning that repeats the condition of a pod.
const OF_A_CONDITION: &str = "FailedScheduling";
/// Reasons of warnings about pods that have not started.
const OF_A_START: [&str; 5] =
    ["FailedScheduling", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Failed"];

pub(super) fn warn(told: &mut Told, seen: &Seen, event: &Event) -> Option<Progress> {
    let job = seen.job.as_ref()?;
    let view = describe::event_view(event);
    let key = (view.object.clone(), view.reason.clone(), without_pod(&view.message));
    let pod = view.object.strip_prefix("pod/").and_then(|name| seen.pods.get(name));
    let told_by_status = OF_THE_STATUS.contains(&view.reason.as_str())
        || view.reason.starts_with(OF_THE_END)
        || plan::trainjob::ENDINGS.contains(&view.reason.as_str())
        || told.waiting.as_ref().is_some_and(|(_, detail)| *detail == view.message)
        || pod.is_some() && view.reason == OF_A_CONDITION;
    // What kept a pod from starting is history once it has started.
    let is_over = pod.is_some_and(describe::started) && OF_A_START.contains(&view.reason.as_str());
    let new = view.kind == "Warning"
        && !told_by_status
        && !is_over
        && describe::concerns(event, job)
        && told.warnings.len() < MAX_WARNINGS
        && told.warnings.insert(key);
    new.then_some(Progress::Warning(view))
}

/// The message of an event without the name of a pod that could not be created: each try has another name.
fn without_pod(message: &str) -> String {
    match message.split_once("pods \"").and_then(|(before, rest)| Some((before, rest.split_once('"')?.1))) {
        Some((before, after)) => format!("{before}pods{after}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::progress::samples::{job, pod};

    #[test]
    fn a_pod_that_is_refused_under_several_names_is_one_warning() {
        let (mut told, seen) = (Told::default(), Seen { job: Some(job(json!({}))), ..Seen::default() });
        let mut warned = |pod: &str, why: &str| {
            let message = format!("Error creating: pods \"{pod}\" is forbidden: {why}");
            let event = json!({"metadata": {"name": pod}, "type": "Warning", "reason": "FailedCreate", "message": message,
                "involvedObject": {"kind": "Job", "name": "pi-launcher"}});
            warn(&mut told, &seen, &serde_json::from_value(event).unwrap()).is_some()
        };
        assert!(warned("pi-launcher-abcde", "violates PodSecurity"));
        assert!(!warned("pi-launcher-fghij", "violates PodSecurity"));
        assert!(warned("pi-launcher-fghij", "exceeded quota"));
    }

    #[test]
    fn a_warning_that_repeats_what_the_status_says_is_left_out() {
        let mut told = Told::default();
        let mut seen = Seen { job: Some(job(json!({}))), ..Seen::default() };
        seen.pods.extend([pod("pi-worker-0", "worker", json!({}))]);
        let event = |kind: &str, name: &str, reason: &str| -> Event {
            serde_json::from_value(
                json!({"metadata": {}, "type": "Warning", "reason": reason, "message": "m",
                "involvedObject": {"kind": kind, "name": name}}),
            )
            .unwrap()
        };
        for (kind, name, reason, is_told) in [
            ("MPIJob", "pi", "MPIJobFailed", false),
            ("MPIJob", "pi", "MPIJobRestarting", false),
            ("MPIJob", "pi", "BackoffLimitExceeded/Evicted", false),
            ("Job", "pi-launcher", "BackoffLimitExceeded", false),
            ("Pod", "pi-worker-0", "FailedScheduling", false),
            ("Pod", "pi-worker-1", "FailedScheduling", true),
            ("Pod", "pi-worker-0", "FailedMount", true),
        ] {
            assert_eq!(
                warn(&mut told, &seen, &event(kind, name, reason)).is_some(),
                is_told,
                "{reason} of {name}"
            );
        }
    }
}

//! What a job waits for, and what it is at while nothing hinders it.

use std::collections::BTreeMap;

use api::Phase;
use diagnosis::{Cause, no_node_can_take};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::{Progress, Seen, Told};
use crate::describe;
use crate::view::{self, Row};

pub(super) fn tell_waiting(told: &mut Told, seen: &Seen, row: &Row, news: &mut Vec<Progress>) {
    let waiting = seen.job.as_ref().and_then(|job| waiting(job, &seen.pods, row));
    // The operator reports a cause by an event, too.
    let is_told = |detail: &str| told.warnings.iter().any(|(_, _, message)| message == detail);
    if let Some((reason, detail)) = &waiting
        && told.waiting != waiting
        && !is_told(detail)
    {
        news.push(Progress::Waiting { reason: reason.clone(), detail: detail.clone() });
    }
    told.waiting = waiting;
}

/// What a job of which nothing was reported for a while is at, unless that was reported before.
pub(super) fn tell_quiet(told: &mut Told, seen: &Seen) -> Option<Progress> {
    let at = seen.job.as_ref().filter(|_| told.waiting.is_none()).and_then(|job| standing(job, &seen.pods));
    if at.is_none() || told.quiet == at {
        return None;
    }
    told.quiet.clone_from(&at);
    at.map(|(reason, detail)| Progress::Waiting { reason, detail })
}

/// What a job that has not started is at, if nothing is known that hinders it: a reason, and what is waited for.
pub(crate) fn standing(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> Option<(String, String)> {
    let row = view::row(job);
    if row.phase != Phase::Pending {
        return None;
    }
    let reason = row.phase_reason.unwrap_or_else(|| view::phase_name(row.phase).to_owned());
    let waits = pods
        .values()
        .find_map(|pod| Some(format!("{} waits for {}", pod.name_any(), describe::waits_for(pod)?)));
    let detail = match waits {
        Some(waits) => waits,
        None if pods.is_empty() => "its pods are not created yet".to_owned(),
        None => "its Workers are not ready yet".to_owned(),
    };
    Some((reason, detail))
}

/// What keeps a job from going on, if something does: a reason, and what it waits for.
pub(crate) fn hindrance(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> Option<(String, String)> {
    waiting(job, pods, &view::row(job))
}

fn waiting(job: &DynamicObject, pods: &BTreeMap<String, Pod>, row: &Row) -> Option<(String, String)> {
    if row.phase == Phase::Running {
        return hindered(job, row);
    }
    if row.phase != Phase::Pending {
        return None;
    }
    let said = |detail: &str| row.phase_reason.clone().map(|reason| (reason, detail.to_owned()));
    match row.phase_reason.as_deref() {
        Some("Suspended") => return said(view::SUSPENDED),
        Some(api::PHASE_REASON_RESTARTING) => return said(&restarting(job, pods)),
        _ => {}
    }
    if let Some(leaving) = resuming(job, pods) {
        return said(&leaving);
    }
    let stuck: Vec<&str> = pods.values().filter_map(describe::unschedulable).collect();
    let Some(why) = stuck.first() else {
        // What its operator found out, such as an image that cannot be pulled.
        let reason = row.cause.clone().or_else(|| row.phase_reason.clone());
        return reason.zip(row.message.clone());
    };
    // Without their number: pods are found unschedulable one by one, and each would be news.
    let detail = no_node_can_take("all of its pods", why);
    Some(("Unschedulable".to_owned(), detail))
}

/// Why the gang is restarted, and what the next attempt waits for.
fn restarting(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> String {
    let status = view::status(job);
    let is_restart = |condition: &api::JobCondition| {
        condition.type_ == api::CONDITION_RESTARTING && condition.status == "True"
    };
    let failed = status.conditions.into_iter().find(is_restart).and_then(|condition| condition.message);
    let failed = failed.unwrap_or_else(|| "Its pods are being restarted".to_owned());
    match plan::leaving(pods.values().map(|pod| &pod.metadata)) {
        Some(leaving) => format!("{failed}: {leaving}"),
        None => failed,
    }
}

/// What a resumed job waits for before its Launcher starts.
fn resuming(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> Option<String> {
    plan::leaving_after_resume(&view::status(job), pods.values().map(|pod| &pod.metadata))
}

/// What keeps a running job from going on: its Launcher is to be started again, or it is stalled. Where to correct it is
/// part of the text.
fn hindered(job: &DynamicObject, row: &Row) -> Option<(String, String)> {
    let status = view::status(job);
    let reason = row.cause.clone()?;
    if let Some(waiting) = status.waiting.filter(|_| status.phase_reason.is_some()) {
        return Some((row.state.to_string(), waiting.message));
    }
    let stalled =
        status.conditions.into_iter().find(|condition| condition.type_ == api::CONDITION_STALLED)?;
    let advice = Cause::of_word(&reason).map(|cause| format!(". {}", cause.texts().suggestion));
    Some((reason, format!("{}{}", stalled.message?, advice.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::progress::samples::{job, pod, ready};
    use crate::progress::tell;

    #[test]
    fn the_reason_for_waiting_is_reported_when_it_changes() {
        let mut told = Told::default();
        let mut seen = Seen {
            job: Some(job(json!({"phase": "Pending", "phaseReason": "Suspended"}))),
            ..Seen::default()
        };
        let news = tell(&mut told, &seen);
        assert!(matches!(&news[1], Progress::Waiting { reason, .. } if reason == "Suspended"), "{news:?}");
        seen.job = Some(job(json!({"phase": "Pending", "phaseReason": "Initializing"})));
        let stuck = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient cpu."}]});
        seen.pods.extend([pod("pi-worker-0", "worker", stuck)]);
        let news = tell(&mut told, &seen);
        assert_eq!(
            news,
            [Progress::Waiting {
                reason: "Unschedulable".into(),
                detail: "No node can take all of its pods: 0/1 nodes: Insufficient cpu.".into(),
            }]
        );
    }

    #[test]
    fn a_job_that_waits_for_what_its_operator_found_says_so_once() {
        let mut told = Told::default();
        let waiting = |message: &str| {
            job(
                json!({"phase": "Pending", "phaseReason": "Initializing", "waiting": {"reason": "ImagePull", "message": message}}),
            )
        };
        let mut seen = Seen { job: Some(waiting("no such tag")), ..Seen::default() };
        let said = Progress::Waiting { reason: "ImagePull".into(), detail: "no such tag".into() };
        assert_eq!(tell(&mut told, &seen), [Progress::Accepted, said]);
        seen.pods.extend([pod("pi-worker-0", "worker", json!({}))]);
        assert_eq!(tell(&mut told, &seen), []);
        assert_eq!(tell_quiet(&mut told, &seen), None, "it was said why");
    }

    #[test]
    fn a_job_that_just_takes_long_to_start_is_not_passed_over_in_silence() {
        let mut told = Told::default();
        let initializing = json!({"phase": "Pending", "phaseReason": "Initializing"});
        let mut seen = Seen { job: Some(job(initializing)), ..Seen::default() };
        tell(&mut told, &seen);
        let said = |detail: &str| {
            Some(Progress::Waiting { reason: "Initializing".to_owned(), detail: detail.to_owned() })
        };
        assert_eq!(tell_quiet(&mut told, &seen), said("its pods are not created yet"));
        assert_eq!(tell_quiet(&mut told, &seen), None, "once");
        let pulls = json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        seen.pods.extend([pod("pi-worker-0", "worker", pulls)]);
        let Some(Progress::Waiting { detail, .. }) = tell_quiet(&mut told, &seen) else { panic!("nothing") };
        assert!(detail.starts_with("pi-worker-0 waits for "), "{detail}");
        seen.job = Some(job(json!({"phase": "Running"})));
        assert_eq!(tell_quiet(&mut told, &seen), None);
    }

    #[test]
    fn a_restart_says_why_and_until_when_it_waits_and_then_counts_again() {
        let attempt = |number: &str, status| {
            let mut job = job(status);
            job.metadata.annotations = Some([(api::ANNOTATION_ATTEMPT.to_owned(), number.to_owned())].into());
            job
        };
        let of_attempt = |number: &str, (name, mut pod): (String, Pod)| {
            pod.metadata.annotations = Some([(api::ANNOTATION_ATTEMPT.to_owned(), number.to_owned())].into());
            (name, pod)
        };
        let mut told = Told::default();
        let mut seen = Seen { job: Some(attempt("1", json!({"phase": "Running"}))), ..Seen::default() };
        seen.pods.extend([pod("pi-worker-0", "worker", ready()), pod("pi-worker-1", "worker", ready())]);
        tell(&mut told, &seen);
        let restarting = json!({"phase": "Pending", "phaseReason": "Restarting", "conditions": [
            {"type": "Restarting", "status": "True", "message": "Attempt 1 of 3 failed: m; restarting the gang"}]});
        seen.job = Some(attempt("2", restarting.clone()));
        let ends = serde_json::from_value(json!("2026-01-01T10:00:30Z")).unwrap();
        seen.pods.get_mut("pi-worker-0").unwrap().metadata.deletion_timestamp = Some(ends);
        let news = tell(&mut told, &seen);
        assert!(
            matches!(&news[..], [Progress::Waiting { detail, .. }]
                if detail.starts_with("Attempt 1 of 3 failed: m; restarting the gang: its pods are terminating")
                    && detail.contains("until 10:00:30 UTC")),
            "{news:?}"
        );
        assert_eq!(tell(&mut told, &seen), []);
        seen.job = Some(attempt("2", json!({"phase": "Pending", "phaseReason": "Initializing"})));
        seen.pods = [
            of_attempt("2", pod("pi-worker-0", "worker", ready())),
            of_attempt("2", pod("pi-worker-1", "worker", ready())),
        ]
        .into();
        assert_eq!(
            tell(&mut told, &seen),
            [Progress::Scheduled { pods: 2, of: 3 }, Progress::WorkersReady { ready: 2, of: 2 }]
        );
    }

    #[test]
    fn a_resumed_job_says_until_when_it_waits_for_the_pods_of_its_former_run() {
        let resumed = job(json!({"phase": "Pending", "phaseReason": "Initializing",
            "startTime": "2026-01-01T10:00:00Z",
            "conditions": [{"type": "Suspended", "status": "False", "reason": "MPIJobResumed"}]}));
        let mut seen = Seen { job: Some(resumed), ..Seen::default() };
        let (name, mut former) = pod("pi-worker-0", "worker", ready());
        former.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T09:00:00Z")).unwrap();
        former.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T10:00:29Z")).unwrap();
        seen.pods.insert(name.clone(), former);
        let mut told = Told::default();
        let news = tell(&mut told, &seen);
        assert!(
            news.iter().any(|news| matches!(news, Progress::Waiting { reason, detail }
                if reason == "Initializing" && detail.contains("until 10:00:29 UTC; the Launcher starts after that"))),
            "{news:?}"
        );
        assert!(!news.iter().any(|news| matches!(news, Progress::WorkersReady { .. })), "{news:?}");
        seen.pods.remove(&name);
        assert_eq!(tell(&mut told, &seen), []);
    }
}

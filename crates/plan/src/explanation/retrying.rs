//! Jobs of which a container failed and is started again.

use api::{Failure, MPIJobStatus};
use semantics::{has_ended, is_deleted};

use super::{Explanation, Situation, Stage, is_worker};
use crate::action::Advice;
use crate::failure::failure_of_run;
use crate::kept::Pod;
use crate::observed::{LauncherRun, container_state, next_start};
use diagnosis::{Cause, Ending, Facts, FailedRun, Output, PodFacts, diagnose, failed_run, is_init_container};

/// A job whose Launcher failed and is about to be started again: what its last run showed.
pub(super) fn retrying(status: &MPIJobStatus) -> Option<Explanation> {
    let is_retried = status.phase_reason.as_deref() == Some(api::PHASE_REASON_RETRYING);
    (is_retried && status.waiting.is_some())
        .then(|| Explanation::new(Stage::Retrying, "", None).because_of(None, status))
}

/// Returns the pod, a Launcher first, of which a container failed and is started again in place, and the run that failed.
#[must_use]
pub fn crashing<'p>(job: &str, pods: &'p [Pod]) -> Option<(&'p Pod, FailedRun)> {
    let crashes = |pod: &'p Pod| {
        let run = failed_run(pod).filter(|run| !is_init_container(pod, &run.container))?;
        let state = container_state(pod, &run.container)?;
        let waits = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
        let is_restarted = run.restarts > 0 || waits == Some("CrashLoopBackOff");
        let is_up = state.running.is_some() || has_ended(pod) || is_deleted(pod);
        (is_restarted && !is_up).then_some((pod, run))
    };
    let of = |worker: bool| pods.iter().filter(move |pod| is_worker(job, pod) == worker);
    of(false).chain(of(true)).find_map(crashes)
}

/// A job of which a container failed and is started again: what its last run showed. The operator reports so of an MPIJob's
/// Launcher ([`retrying`]); a Worker, and a TrainJob, have no place for it in the status.
pub(super) fn crashed(situation: &Situation<'_>) -> Option<Explanation> {
    let job = situation.job.metadata.name.as_deref().unwrap_or_default();
    let (pod, run) = crashing(job, situation.pods)?;
    let name = pod.metadata.name.clone().unwrap_or_default();
    let found = if is_worker(job, pod) {
        of_worker_run(pod, &run, situation.crash_log)
    } else {
        let others = situation.pods.iter().filter(|other| is_worker(job, other));
        let pods = others.map(|other| PodFacts::of(other, true)).collect();
        let log = situation.crash_log.map(str::to_owned);
        let launcher = LauncherRun { pod: pod.clone(), log, ..LauncherRun::default() };
        failure_of_run(pod, Some(&launcher), Facts { pods, ..Facts::default() }, |_| None).0
    };
    let code = run.ended.exit_code;
    let (cause, message, suggestion) = match Cause::of_word(&found.reason) {
        None | Some(Cause::Unknown) => {
            let cause = Cause::CrashLoop;
            let message = format!("Container {:?} of {name} ended with exit code {code}", run.container);
            (cause, message, Some(cause.texts().suggestion.to_owned()))
        }
        Some(cause) => (cause, found.message, found.suggestion),
    };
    let next = container_state(pod, &run.container).and_then(|state| next_start(state, &run));
    let when = next.map_or_else(
        || "is started again".to_owned(),
        |at| format!("is started again at about {} UTC", at.strftime("%H:%M:%S")),
    );
    let times = match run.restarts {
        0 => "has run once".to_owned(),
        restarts => format!("has run {} times", restarts.saturating_add(1)),
    };
    let message = format!("{}; {name} {times} and {when}", message.trim_end_matches('.'));
    let mut evidence = vec![format!("pod {name}: exit code {code}")];
    evidence.extend(found.evidence.into_iter().filter(|line| !line.starts_with("pod ")));
    let since = run.ended.finished_at.as_ref().map(|time| time.0);
    Some(Explanation {
        cause: Some(cause.word().to_owned()),
        evidence,
        actor: cause.actor(),
        advice: suggestion.map(Advice::from),
        link: Some(cause.link()),
        ..Explanation::new(Stage::Retrying, message, since)
    })
}

/// What a Worker's run that failed shows, by its own log.
fn of_worker_run(pod: &Pod, run: &FailedRun, log: Option<&str>) -> Failure {
    let mut facts = PodFacts::of(pod, false);
    facts.ignore_back_off();
    let facts = Facts { pods: vec![facts], ..Facts::default() };
    let found = diagnose(&Output::from(log.unwrap_or_default()), Ending::Exited(run.ended.exit_code), &facts);
    let Some(found) = found else { return Failure::default() };
    Failure {
        reason: found.cause.word().to_owned(),
        message: found.message,
        suggestion: Some(found.suggestion),
        evidence: found.evidence.into_iter().map(|evidence| evidence.text).collect(),
        ..Failure::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explanation::explain;
    use crate::explanation::samples::{alone, job, pod, up};
    use diagnosis::Actor;

    #[test]
    fn a_job_whose_launcher_is_tried_again_says_why_and_when() {
        let status = json!({ "phase": "Running", "phaseReason": "Retrying",
            "conditions": [{ "type": "Running", "status": "True" }],
            "waiting": { "reason": "OutOfMemory", "message": "it ran out; attempt 3 of 7 of the Launcher starts at about 12:00:40 UTC" } });
        let job = job(status, json!({}));
        let pods = [pod("pi-worker-0", up("True")), pod("pi-worker-1", up("True"))];
        let found = explain(&Situation { pods: &pods, has_printed: Some(false), ..alone(&job) });
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Retrying, Some("OutOfMemory")));
        assert_eq!(found.actor, Actor::User);
        assert!(found.message.contains("attempt 3 of 7"), "{found:?}");
    }
}

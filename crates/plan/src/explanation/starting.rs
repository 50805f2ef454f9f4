//! Jobs whose pods do not all run yet: the earliest stage of any pod, and what keeps it there.

use std::collections::{BTreeSet, HashMap};

use api::{CONDITION_STALLED, MPIJobStatus, Phase, WORKER};
use jiff::Timestamp;
use semantics::kept::condition_since;
use semantics::{has_ended, is_deleted, is_ready};

use super::gates::{gated, is_gated};
use super::{Explanation, Situation, Stage, Told, is_running_job, is_worker, named};
use crate::capacity::reports_too_few_gpus;
use crate::conditions::condition;
use crate::kept::Pod;
use crate::observed::{ObservedState, is_running, started_at};
use diagnosis::{
    Actor, Cause, Confidence, Diagnosis, Ending, Evidence, Facts, Gpus, Output, PodFacts, diagnose,
};

/// A job whose pods do not all run yet: the earliest stage of any pod, and what keeps it there.
pub(super) fn starting(situation: &Situation<'_>, status: &MPIJobStatus) -> Option<Explanation> {
    let job = situation.job;
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let wanted = job.spec.mpi_replica_specs.get(WORKER).map_or(0, |worker| worker.replicas.unwrap_or(0));
    let workers: Vec<&Pod> = situation.pods.iter().filter(|pod| is_worker(name, pod)).collect();
    let launchers: Vec<&Pod> =
        situation.pods.iter().filter(|pod| !is_worker(name, pod) && !has_ended(pod)).collect();
    let started = status.start_time.as_ref().or(job.metadata.creation_timestamp.as_ref()).map(|time| time.0);
    let all: Vec<&Pod> = workers.iter().chain(&launchers).copied().collect();
    let at = |stage: Stage| -> Vec<&Pod> {
        all.iter().copied().filter(|pod| stage_of(pod, is_worker(name, pod)) == Some(stage)).collect()
    };
    if let Some(found) = ended_worker(name, workers.iter().copied()).filter(|_| !is_running_job(status)) {
        let told = Explanation::new(Stage::Readiness, "", started).because_of(Some(found), status);
        return Some(Explanation { actor: Actor::User, ..told });
    }
    let stages = [
        (Stage::Scheduling, "wait for a node"),
        (Stage::Starting, "wait for their containers (images, volumes)"),
        (Stage::Readiness, "are running but not ready"),
    ];
    let restarting = status.phase_reason.as_deref() == Some(api::PHASE_REASON_RESTARTING);
    let state = |stage: Stage| if restarting { Stage::Restarting } else { stage };
    for (stage, what) in stages {
        let waiting = at(stage);
        if waiting.is_empty() {
            continue;
        }
        let since = waiting.iter().filter_map(|pod| since_of(pod, stage)).min();
        let message = format!("{} of {} pods {what}", waiting.len(), all.len());
        let mut told = Explanation::new(state(stage), message, since);
        told.evidence = named(&waiting);
        if let Some(preparing) = preparing(&waiting, all.len()) {
            (told.message, told.since) = preparing;
        }
        let found = trouble(situation, &waiting, name);
        if found.is_none() && waiting.iter().any(|pod| is_gated(pod)) {
            return Some(gated(told, job, &waiting, all.len()));
        }
        return Some(told.because_of(found, status));
    }
    // If the job runs, pods that are not visible are ones that we may not read, or another operator's.
    if !is_running_job(status) && (all.is_empty() || workers.len() < usize::try_from(wanted).unwrap_or(0)) {
        let told = if status.conditions.is_empty() && all.is_empty() {
            not_taken_up(started)
        } else {
            let message = format!("{} of {wanted} Workers are created", workers.len());
            Explanation::new(state(Stage::Creating), message, started)
        };
        return Some(told.because_of(trouble(situation, &[], name), status));
    }
    let since = workers.iter().filter_map(|pod| condition_since(pod, "Ready")).max().or(started);
    if !launchers.iter().any(|pod| is_running(pod)) && !is_running_job(status) {
        let message = "All Workers are ready; the Launcher is not running yet";
        let told = Explanation::new(state(Stage::Launching), message, since);
        // An operator without a phase does not say what a job waits for; events do.
        let found = if status.phase.is_none() { trouble(situation, &[], name) } else { None };
        return Some(told.because_of(found, status));
    }
    let printed = situation.has_printed.unwrap_or(true) || launchers.is_empty();
    (!printed && !is_stalled(status)).then(|| {
        let since = launchers.iter().filter_map(|pod| started_at(pod)).max();
        let message =
            "The Launcher is running but has printed nothing yet: it connects to the Workers and MPI starts up";
        Explanation::new(Stage::FirstOutput, message, since)
    })
}

/// Which init container pods are at, and since when; `None` if none runs.
fn preparing(pods: &[&Pod], of: usize) -> Option<(String, Option<Timestamp>)> {
    let at = |pod: &&&Pod| -> Option<(String, Option<Timestamp>)> {
        let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
        // A sidecar goes on running; the one that keeps the pod is the last that has started.
        let last =
            statuses.iter().rfind(|status| status.state.as_ref().is_some_and(|it| it.waiting.is_none()))?;
        let running = last.state.as_ref()?.running.as_ref()?;
        Some((last.name.clone(), running.started_at.as_ref().map(|time| time.0)))
    };
    let running: Vec<(String, Option<Timestamp>)> = pods.iter().filter_map(|pod| at(&pod)).collect();
    let (first, _) = running.first()?;
    let names: BTreeSet<String> = running.iter().map(|(name, _)| format!("{name:?}")).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let what =
        if running.iter().all(|(name, _)| name == first) { "init container" } else { "init containers" };
    let message = format!("{} of {of} pods run their {what} {names}", running.len());
    Some((message, running.iter().filter_map(|(_, since)| *since).min()))
}

/// A Worker whose own command has ended well, before the job has run: it has to run on until the Launcher has ended, and a
/// pod that has ended does not come back.
fn ended_worker<'a>(job: &str, mut pods: impl Iterator<Item = &'a Pod>) -> Option<Diagnosis> {
    let ended = |pod: &&Pod| is_worker(job, pod) && !is_deleted(pod) && semantics::phase(pod) == "Succeeded";
    let pod = pods.find(ended)?;
    let name = pod.metadata.name.clone().unwrap_or_default();
    let cause = Cause::WorkerLost;
    Some(Diagnosis {
        cause,
        confidence: Confidence::High,
        evidence: vec![Evidence { line: None, text: format!("pod {name}: Succeeded") }],
        worker: Some(name.clone()),
        message: format!(
            "The command of {name} has ended, but a Worker must go on running until the Launcher has ended"
        ),
        suggestion: "Leave the Workers' command out, or let it end with the program that serves the Launcher: the launch \
                     agent, or sshd in the foreground."
            .to_owned(),
        link: cause.link(),
    })
}

/// A job that no operator has reported on.
fn not_taken_up(since: Option<Timestamp>) -> Explanation {
    Explanation {
        actor: Actor::Administrator,
        advice: Some(
            "If this lasts more than a few seconds, the operator is not running or does not watch this namespace: ask an \
             administrator of the cluster."
                .into(),
        ),
        ..Explanation::new(Stage::Creating, "No operator has picked up the job yet", since)
    }
}

fn is_stalled(status: &MPIJobStatus) -> bool {
    condition(status, CONDITION_STALLED).is_some_and(|stalled| stalled.status == "True")
}

/// The stage of its start that a pod is in; `None` once it has started.
fn stage_of(pod: &Pod, worker: bool) -> Option<Stage> {
    if has_ended(pod) {
        return None;
    }
    if started_at(pod).is_none() {
        let scheduling = semantics::waits_for(pod).is_scheduling();
        return Some(if scheduling { Stage::Scheduling } else { Stage::Starting });
    }
    (worker && !is_ready(pod)).then_some(Stage::Readiness)
}

/// Since when a pod has been in that stage.
fn since_of(pod: &Pod, stage: Stage) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    match stage {
        Stage::Starting => condition_since(pod, "PodScheduled").or(created),
        Stage::Readiness => started_at(pod).or(created),
        _ => created,
    }
}

/// Whether a starting job waits for GPUs and its status has no GPU counts yet, so that they need counting.
#[must_use]
pub fn wants_gpus_counted(seen: &ObservedState) -> bool {
    let known = seen.status.waiting.as_ref().is_some_and(|waiting| waiting.gpus.is_some());
    let starting = matches!(seen.status.phase, None | Some(Phase::Pending));
    let lacks_gpus = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| {
            reports_too_few_gpus(&condition.type_, &condition.status, condition.message.as_deref())
        })
    };
    starting && !known && seen.workers.iter().any(|pod| lacks_gpus(pod))
}

/// What keeps a job's pods from starting, by their statuses and by the job's events; `None` for a job that starts
/// normally.
pub(crate) fn hindrance<'a>(
    job: &str,
    pods: impl Iterator<Item = &'a Pod>,
    told: Vec<(String, String)>,
    gpus: Option<Gpus>,
) -> Option<Diagnosis> {
    let pods: Vec<&Pod> = pods.collect();
    if let Some(found) = ended_worker(job, pods.iter().copied()) {
        return Some(found);
    }
    let starting = |pod: &&Pod| {
        let stage = stage_of(pod, is_worker(job, pod));
        !is_deleted(pod) && matches!(stage, Some(Stage::Scheduling | Stage::Starting))
    };
    // Where a queue assigns nodes, every pod has gates for a moment; they are explained only on request.
    let pods = pods
        .into_iter()
        .filter(|pod| starting(pod) && !is_gated(pod))
        .map(|pod| PodFacts::of(pod, is_worker(job, pod)))
        .collect();
    let facts = Facts { pods, events: told, gpus, ..Facts::default() };
    diagnose(&Output::default(), Ending::Unknown, &facts).filter(|found| found.cause != Cause::Unknown)
}

/// What keeps these pods from going on, by their statuses and events; without pods, what keeps them from being
/// created.
fn trouble(situation: &Situation<'_>, pods: &[&Pod], job: &str) -> Option<Diagnosis> {
    let pair = |told: &Told| (told.reason.clone(), told.message.clone());
    let mut by_pod: HashMap<&str, Vec<&Told>> = HashMap::new();
    for told in situation.events {
        if let Some(pod) = &told.pod {
            by_pod.entry(pod).or_default().push(told);
        }
    }
    let of_pod = |pod: &Pod| {
        let events = pod.metadata.name.as_deref().and_then(|name| by_pod.get(name)).into_iter().flatten();
        let mut facts = PodFacts::of(pod, is_worker(job, pod));
        facts.events = newest(events.map(|told| pair(told)));
        facts
    };
    let told = situation.events.iter().filter(|told| told.pod.is_none() && pods.is_empty());
    let facts = Facts {
        pods: pods.iter().map(|pod| of_pod(pod)).collect(),
        events: newest(told.map(pair)),
        gpus: situation.gpus,
        ..Facts::default()
    };
    diagnose(&Output::default(), Ending::Unknown, &facts).filter(|found| found.cause != Cause::Unknown)
}

/// Puts the newest first, because the first of equal findings wins.
fn newest(events: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut events: Vec<(String, String)> = events.collect();
    events.reverse();
    events
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::explanation::explain;
    use crate::explanation::samples::{alone, job, pod, told, unscheduled, up, waiting};

    #[test]
    fn a_pod_without_a_node_is_explained_with_the_numbers() {
        let no_gpus = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
        let pods = [pod("pi-worker-0", up("True")), pod("pi-worker-1", unscheduled(no_gpus))];
        let found = told(&pods, &[], Some(Gpus { requested: 32, available: 24 }), None);
        assert_eq!(found.state, Stage::Scheduling);
        assert_eq!(found.message, "Insufficient GPUs: requested 32, available 24");
        assert_eq!((found.cause.as_deref(), found.actor), (Some("Unschedulable"), Actor::Administrator));
        assert_eq!(found.since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert!(found.link.unwrap().ends_with("#unschedulable"));
    }

    #[test]
    fn gpus_are_counted_until_the_status_has_their_numbers() {
        let lacking =
            pod("pi-worker-0", unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."));
        let wants = |status: Value| {
            let status = serde_json::from_value(status).unwrap();
            wants_gpus_counted(&ObservedState {
                status,
                workers: vec![lacking.clone().into()],
                ..ObservedState::default()
            })
        };
        let waiting = |gpus: Value| {
            json!({ "phase": "Pending", "waiting": { "reason": "Unschedulable", "gpus": gpus,
                "message": "Insufficient GPUs: requested 16, available 2" } })
        };
        assert!(wants(json!({ "phase": "Pending" })));
        assert!(wants(waiting(Value::Null)), "whatever the message says");
        assert!(!wants(waiting(json!({ "requested": 16, "available": 2 }))));
        assert!(!wants(json!({ "phase": "Running" })));
    }

    #[test]
    fn each_stage_of_a_start_is_explained() {
        let image = waiting("ImagePullBackOff", "Back-off pulling image \"registry.example/train:1\"");
        let ready = || pod("pi-worker-1", up("True"));
        let launcher = |status| pod("pi-launcher-x", status);
        type Scene = (Vec<Pod>, Option<bool>, Stage, Option<&'static str>);
        let scenes: [Scene; 7] = [
            (vec![], None, Stage::Creating, None),
            (vec![pod("pi-worker-0", image), ready()], None, Stage::Starting, Some("ImagePull")),
            (
                vec![pod("pi-worker-0", waiting("ContainerCreating", "")), ready()],
                None,
                Stage::Starting,
                None,
            ),
            (
                vec![
                    pod("pi-worker-0", waiting("CreateContainerConfigError", "secret \"token\" not found")),
                    ready(),
                ],
                None,
                Stage::Starting,
                Some("MissingReference"),
            ),
            (vec![pod("pi-worker-0", up("False")), ready()], None, Stage::Readiness, None),
            (vec![pod("pi-worker-0", up("True")), ready()], None, Stage::Launching, None),
            (
                vec![pod("pi-worker-0", up("True")), ready(), launcher(up("True"))],
                Some(false),
                Stage::FirstOutput,
                None,
            ),
        ];
        for (pods, printed, stage, cause) in scenes {
            let found = told(&pods, &[], None, printed);
            assert_eq!((found.state, found.cause.as_deref()), (stage, cause), "{found:?}");
            assert!(found.since.is_some() || stage == Stage::Creating, "{found:?}");
        }
    }

    #[test]
    fn pods_that_a_quota_refuses_are_explained_by_the_event() {
        let message = "worker pod created failed: pods \"pi-worker-0\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4";
        let events = [Told { pod: None, reason: "MPIJobFailed".to_owned(), message: message.to_owned() }];
        let found = told(&[], &events, None, None);
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Creating, Some("QuotaExceeded")));
        assert!(found.evidence[0].contains("exceeded quota: compute"), "{found:?}");
    }

    #[test]
    fn the_status_explains_a_job_when_pods_and_events_do_not() {
        let status = json!({ "phase": "Pending", "phaseReason": "Initializing",
            "waiting": { "reason": "QuotaExceeded", "message": "Quota exceeded: pods", "suggestion": "ask" } });
        let job = job(status, json!({}));
        let starting = pod(
            "pi-worker-0",
            json!({ "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "True" }] }),
        );
        let found = explain(&Situation { pods: &[starting], ..alone(&job) });
        assert_eq!((found.state, found.cause.as_deref()), (Stage::Starting, Some("QuotaExceeded")));
        assert_eq!((found.message.as_str(), found.advice), ("Quota exceeded: pods", Some("ask".into())));
        assert_eq!(found.actor, Actor::Administrator);
    }

    #[test]
    fn a_worker_whose_command_has_ended_is_for_its_author() {
        let ended = pod("pi-worker-0", json!({ "phase": "Succeeded" }));
        let pods = [ended, pod("pi-worker-1", up("True")), pod("pi-launcher-x", up("True"))];
        let found = told(&pods, &[], None, Some(false));
        assert_eq!((found.cause.as_deref(), found.actor), (Some("WorkerLost"), Actor::User), "{found:?}");
        assert!(found.message.contains("must go on running until the Launcher has ended"), "{found:?}");
        assert!(hindrance("pi", pods.iter(), Vec::new(), None).is_some(), "the status says so, too");
    }

    #[test]
    fn init_containers_that_run_are_named() {
        let init = |name: &str, state: Value| {
            json!({ "name": name, "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state })
        };
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:05Z" } });
        let mut status = waiting("PodInitializing", "");
        status["initContainerStatuses"] =
            json!([init("install", json!({ "terminated": { "exitCode": 0 } })), init("fetch", running)]);
        let pods = [pod("pi-worker-0", status), pod("pi-worker-1", up("True"))];
        let found = told(&pods, &[], None, None);
        assert_eq!(found.message, "1 of 2 pods run their init container \"fetch\"");
        assert_eq!(found.since.unwrap().to_string(), "2026-01-01T00:00:05Z");
        let mut status = waiting("PodInitializing", "");
        status["initContainerStatuses"] =
            json!([init("fetch", json!({ "terminated": { "exitCode": 3, "reason": "Error" } }))]);
        let found = told(&[pod("pi-worker-0", status), pod("pi-worker-1", up("True"))], &[], None, None);
        assert_eq!(found.cause.as_deref(), Some("InitContainerFailed"), "{found:?}");
    }

    #[test]
    fn a_node_that_refuses_to_start_a_container_is_quoted() {
        let message = "this node does not run privileged containers: remove securityContext.privileged";
        let pods = [
            pod("pi-worker-0", waiting("CreateContainerConfigError", message)),
            pod("pi-worker-1", up("True")),
        ];
        let found = told(&pods, &[], None, None);
        assert_eq!((found.cause.as_deref(), found.actor), (Some("AdmissionRefused"), Actor::User));
        assert!(found.message.contains(message), "{found:?}");
    }
}

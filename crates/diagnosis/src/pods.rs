//! Finds out why a pod failed from its status alone: the part of a diagnosis that decides about a job while it runs. A
//! wrong cause is worse than none, so a cause that a status cannot prove is not named here. Messages of a pod's
//! runtime are read by the same [`super::rules`] as everything else.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated};
use semantics::{is_deleted, kept::condition_since};

use super::facts::PodFacts;
use super::{Cause, Diagnosis, Ending, Facts, Output, diagnose};
use semantics::kept::{ContainerStatus, Pod};

/// Why a pod failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// The cause.
    pub cause: Cause,
    /// What happened, without the pod's name, as the end of a sentence.
    pub message: String,
    /// What to do about it.
    pub suggestion: String,
    /// The container that failed.
    pub container: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i32>,
}

impl PodFailure {
    fn new(cause: Cause, message: impl Into<String>, suggestion: &str) -> Self {
        Self {
            cause,
            message: message.into(),
            suggestion: suggestion.to_owned(),
            container: None,
            exit_code: None,
        }
    }
}

/// A container's run that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedRun {
    /// The container.
    pub container: String,
    /// The number of restarts when it was observed.
    pub restarts: i32,
    /// Whether the container was restarted since: the output is then that of the previous run.
    pub previous: bool,
    /// How it ended.
    pub ended: ContainerStateTerminated,
}

/// Returns a pod's failed run, even if the container was restarted since: that of the MPI container, the first in the
/// spec, else that of any other container.
#[must_use]
pub fn failed_run(pod: &Pod) -> Option<FailedRun> {
    let main = &pod.spec.as_ref()?.containers.first()?.name;
    let statuses = || container_statuses(pod);
    let of_main = statuses().filter(|status| status.name == *main);
    of_main.chain(statuses()).find_map(|status| failed_run_of(status, is_deleted(pod)))
}

fn container_statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    })
}

/// The exit codes of a container that was asked to end, and of one that was killed.
const ENDED_BY_DELETION: [i32; 2] = [143, 137];

/// The run that ended last. If the pod is being deleted, the run before comes first, as the deletion itself ended the
/// last. What a restarted container ended with before may be gone by then: its end by the deletion does not take its place.
fn failed_run_of(status: &ContainerStatus, going: bool) -> Option<FailedRun> {
    let ended_badly = |state: &ContainerState| state.terminated.clone().filter(|ended| ended.exit_code != 0);
    let now = status.state.as_ref().and_then(ended_badly).map(|ended| (ended, false));
    let before = status.last_state.as_deref().and_then(ended_badly).map(|ended| (ended, true));
    let of_deletion = going && status.restart_count > 0;
    let now = now.filter(|(ended, _)| !(of_deletion && ENDED_BY_DELETION.contains(&ended.exit_code)));
    let (ended, previous) = if going { before.or(now) } else { now.or(before) }?;
    Some(FailedRun { container: status.name.clone(), restarts: status.restart_count, previous, ended })
}

/// Returns why a Worker's pod failed, or is being deleted.
#[must_use]
pub fn of_worker(pod: &Pod) -> PodFailure {
    if let Some(failure) = of_infrastructure(pod).or_else(|| of_unstartable(pod)) {
        return failure;
    }
    let Some(FailedRun { container, ended, .. }) = failed_run(pod) else {
        return PodFailure::new(Cause::WorkerLost, "its pod no longer exists", WORKER_GONE);
    };
    let known = out_of_memory(pod, &container, &ended).or_else(|| without_room(pod, &container, &ended));
    let mut failure = known.or_else(|| of_init_container(pod, &container, &ended)).unwrap_or_else(|| {
        let message = format!("its container {container:?} ended with {}", exit_text(&ended));
        PodFailure::new(
            Cause::WorkerLost,
            message,
            "Read the Worker's log: the Worker runs only as long as its first process. If its node or cluster was stopped meanwhile, run the job again.",
        )
    });
    failure.container = Some(container);
    failure.exit_code = Some(ended.exit_code);
    failure
}

/// Whether this container of the pod prepares it, and has to end before the pod's own containers start.
#[must_use]
pub fn is_init_container(pod: &Pod, container: &str) -> bool {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let statuses = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let mut names = inits.map(|init| &init.name).chain(statuses.map(|status| &status.name));
    names.any(|name| name == container)
}

/// Returns the failure of an init container that ended so; `None` for another container.
#[must_use]
pub fn of_init_container(pod: &Pod, container: &str, ended: &ContainerStateTerminated) -> Option<PodFailure> {
    is_init_container(pod, container).then(|| {
        if let Some(failure) = out_of_memory(pod, container, ended) {
            return failure;
        }
        let cause = Cause::InitContainerFailed;
        let message = format!("its init container {container:?} ended with {}", exit_text(ended));
        PodFailure::new(cause, message, cause.texts().suggestion)
    })
}

/// Finds a container that can never be started, because no permitted change of the pod would help: its program is
/// missing or not executable, or its image's name is invalid. Problems that may be solved from outside, such as a
/// ConfigMap that does not exist yet or an image that is not on the node, do not count.
#[must_use]
pub fn of_unstartable(pod: &Pod) -> Option<PodFailure> {
    container_statuses(pod).find_map(|status| {
        let run = failed_run_of(status, is_deleted(pod)).map(|run| run.ended);
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reasons = [
            run.as_ref().and_then(|ended| ended.reason.as_deref()),
            waiting.and_then(|waiting| waiting.reason.as_deref()),
        ];
        if !reasons.iter().flatten().any(|reason| START_FAILURES.contains(reason)) {
            return None;
        }
        let found = of_container(pod, &status.name)?;
        let for_good = match found.cause {
            Cause::ExecutableNotFound | Cause::ExecutableNotPermitted => true,
            Cause::ImagePull => reasons.contains(&Some("InvalidImageName")),
            _ => false,
        };
        for_good.then(|| PodFailure {
            cause: found.cause,
            message: found.message,
            suggestion: found.suggestion,
            container: Some(status.name.clone()),
            exit_code: run.map(|ended| ended.exit_code),
        })
    })
}

/// The diagnosis of a container's status, by the rules.
fn of_container(pod: &Pod, name: &str) -> Option<Diagnosis> {
    let mut facts = PodFacts::of(pod, false);
    facts.containers.retain(|container| container.name == name);
    diagnose(&Output::default(), Ending::Unknown, &Facts { pods: vec![facts], ..Facts::default() })
}

/// Reasons of a container that the runtime could not start, whether waiting or terminated.
const START_FAILURES: [&str; 5] =
    ["StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError", "InvalidImageName"];

const WORKER_GONE: &str = "If nobody deleted it, look at its node's events; then run the job again.";

/// Returns the failure of a Worker's pod that is gone or being deleted.
#[must_use]
pub fn of_missing_worker(pod: Option<&Pod>) -> PodFailure {
    pod.and_then(of_infrastructure).unwrap_or_else(|| {
        PodFailure::new(Cause::WorkerLost, "its pod was deleted while the job ran", WORKER_GONE)
    })
}

/// Returns the failure of a Worker that is not ready in time, by what its containers wait for.
#[must_use]
pub fn of_slow_worker(pod: &Pod, waited: &str) -> PodFailure {
    let waiting = container_statuses(pod)
        .filter_map(|status| Some((status.name.clone(), status.state.as_ref()?.waiting.as_ref()?)))
        .find(|(_, waiting)| waiting.reason.as_deref().is_some_and(|reason| !IDLE_WAITS.contains(&reason)));
    let Some((container, waiting)) = waiting else {
        return PodFailure::new(
            Cause::Timeout,
            format!("it was not ready {waited} after it was scheduled"),
            RAISE_START_TIMEOUT,
        );
    };
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let detail = waiting.message.as_deref().unwrap_or_default();
    let late = format!("it was not ready {waited} after it was scheduled");
    let explained = of_container(pod, &container).filter(|found| {
        [Cause::ImagePull, Cause::MissingReference, Cause::StorageUnusable, Cause::AdmissionRefused]
            .contains(&found.cause)
    });
    let mut cause = match explained {
        Some(found) => {
            let message = format!("{late}: {} ({reason}: {detail})", found.message);
            PodFailure::new(found.cause, message, &found.suggestion)
        }
        None => {
            let message = format!("{late}: {container:?} waits, {reason}: {detail}");
            PodFailure::new(Cause::Timeout, message, RAISE_START_TIMEOUT)
        }
    };
    cause.container = Some(container);
    cause
}

/// Reasons for waiting that every container passes through.
const IDLE_WAITS: [&str; 2] = ["ContainerCreating", "PodInitializing"];
const RAISE_START_TIMEOUT: &str = "read the Worker's events; if it only needs more time, raise the annotation training.opendatahub.io/start-timeout";

/// Returns the external reason for a pod's removal: eviction, preemption or a lost node.
#[must_use]
pub fn of_infrastructure(pod: &Pod) -> Option<PodFailure> {
    let status = pod.status.as_ref()?;
    let text = status.message.clone().unwrap_or_default();
    let told = |what: &str| if text.is_empty() { what.to_owned() } else { format!("{what}: {text}") };
    match status.reason.as_deref() {
        Some("Evicted") => {
            return Some(PodFailure::new(Cause::Evicted, told("its pod was evicted"), after_eviction(&text)));
        }
        Some("NodeLost") => {
            return Some(PodFailure::new(Cause::NodeLost, told("its node was lost"), RUN_AGAIN));
        }
        _ => {}
    }
    condition_since(pod, "DisruptionTarget")?;
    let conditions = status.conditions.iter().flatten();
    let target = conditions.into_iter().find(|condition| condition.type_ == "DisruptionTarget")?;
    let told = |what: &str| match target.message.as_deref() {
        Some(text) if !text.is_empty() => format!("{what}: {text}"),
        _ => what.to_owned(),
    };
    match target.reason.as_deref() {
        Some("PreemptionByScheduler") => Some(PodFailure::new(
            Cause::Preempted,
            told("its pod made room for one of higher priority"),
            "Give the job a higher priority class, or run it when there is room.",
        )),
        Some("DeletionByTaintManager" | "DeletionByPodGC") => {
            Some(PodFailure::new(Cause::NodeLost, told("its node was lost"), RUN_AGAIN))
        }
        Some("EvictionByEvictionAPI") => {
            Some(PodFailure::new(Cause::Evicted, told("its pod was evicted"), DRAINED))
        }
        _ => {
            let advice = after_eviction(target.message.as_deref().unwrap_or_default());
            Some(PodFailure::new(Cause::Evicted, told("its pod was evicted"), advice))
        }
    }
}

/// Returns the failure of a pod whose node no longer reports.
#[must_use]
pub fn lost_with_node(node: &str, told: &str) -> PodFailure {
    let told = if told.is_empty() { String::new() } else { format!(": {told}") };
    PodFailure::new(Cause::NodeLost, format!("its node {node} was lost{told}"), RUN_AGAIN)
}

/// What to do about an eviction by the kubelet, by the shortage that its message names.
fn after_eviction(text: &str) -> &'static str {
    if text.contains(" limit") {
        OWN_LIMIT
    } else if ["ephemeral-storage", "nodefs", "imagefs", "inodes", "DiskPressure"]
        .iter()
        .any(|what| text.contains(what))
    {
        SHORT_OF_DISK
    } else if text.contains("memory") || text.contains("MemoryPressure") {
        SHORT_OF_MEMORY
    } else {
        FREE_THE_NODE
    }
}

const FREE_THE_NODE: &str =
    "Lower what the pod uses beyond its requests, or raise its requests; then run the job again.";
const OWN_LIMIT: &str = "The pod wrote more than its own limit allows: raise resources.limits.ephemeral-storage or the volume's sizeLimit, \
     write to a volume claim, or delete old checkpoints; then run the job again.";
const SHORT_OF_DISK: &str = "The node's disk ran full: write to a volume claim, delete old checkpoints, or set resources.requests.ephemeral-storage \
     to what the pod writes, so that it goes to a node with room; then run the job again. If it is evicted again, an \
     administrator has to free the node's disk.";
const SHORT_OF_MEMORY: &str = "The node ran out of memory: set resources.requests.memory to what the pod uses, so that it goes to a node with room, or \
     use fewer processes per Worker; then run the job again. If it is evicted again, an administrator has to add memory \
     or move other pods away.";
const RUN_AGAIN: &str = "Nothing is wrong with the job: run it again.";
const DRAINED: &str =
    "Nothing is wrong with the job: its node was drained, or an administrator evicted the pod. Run it again.";

fn out_of_memory(pod: &Pod, container: &str, ended: &ContainerStateTerminated) -> Option<PodFailure> {
    let found = of_container(pod, container).filter(|_| ended.reason.as_deref() == Some("OOMKilled"))?;
    (found.cause == Cause::OutOfMemory)
        .then(|| PodFailure::new(found.cause, found.message, &found.suggestion))
}

/// A container that could not be started because the node's disk is full.
fn without_room(pod: &Pod, container: &str, ended: &ContainerStateTerminated) -> Option<PodFailure> {
    let not_started = ended.reason.as_deref().is_some_and(|reason| START_FAILURES.contains(&reason));
    let found = of_container(pod, container).filter(|_| not_started)?;
    (found.cause == Cause::StorageUnusable)
        .then(|| PodFailure::new(found.cause, found.message, &found.suggestion))
}

fn exit_text(ended: &ContainerStateTerminated) -> String {
    let code = ended.exit_code;
    match ended.reason.as_deref() {
        Some(reason) if reason != "Error" && reason != "Completed" => format!("exit code {code} ({reason})"),
        _ => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_finds_no_room_on_the_disk_is_no_lost_worker() {
        let ended = json!({ "terminated": { "exitCode": 128, "reason": "StartError",
            "message": "failed to start container \"main\": cannot create /pods/1/hosts: No space left on device (os error 28)" } });
        let pod = json!({ "metadata": { "name": "pi-worker-0" }, "spec": { "containers": [{ "name": "main" }] },
            "status": { "phase": "Failed", "containerStatuses": [{ "name": "main", "image": "", "imageID": "",
                "ready": false, "restartCount": 0, "state": ended }] } });
        let failure = of_worker(&serde_json::from_value(pod).unwrap());
        assert_eq!((failure.cause, failure.exit_code), (Cause::StorageUnusable, Some(128)));
        assert_eq!(failure.message, "The disk of the node of pi-worker-0 is full");
        assert!(
            failure.suggestion.starts_with("Free some space on the node's disk"),
            "{}",
            failure.suggestion
        );
    }

    /// A Worker with two init containers that are in these states.
    fn preparing(fetch: &serde_json::Value, unpack: &serde_json::Value) -> Pod {
        let status = |name: &str, state: &serde_json::Value| json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let waiting = json!({ "waiting": { "reason": "PodInitializing" } });
        let limits = json!({ "limits": { "memory": "1Gi" } });
        let pod = json!({ "metadata": { "name": "pi-worker-0" },
            "spec": { "initContainers": [{ "name": "fetch", "resources": limits }, { "name": "unpack", "resources": limits }],
                "containers": [{ "name": "main" }] },
            "status": { "phase": "Failed", "initContainerStatuses": [status("fetch", fetch), status("unpack", unpack)],
                "containerStatuses": [status("main", &waiting)] } });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn an_init_container_that_fails_is_named_also_if_it_is_not_the_first() {
        let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
        let failed = json!({ "terminated": { "exitCode": 3, "reason": "Error" } });
        let waiting = json!({ "waiting": { "reason": "PodInitializing" } });
        for (pod, name) in [(preparing(&failed, &waiting), "fetch"), (preparing(&done, &failed), "unpack")] {
            let failure = of_worker(&pod);
            assert_eq!((failure.cause, failure.exit_code), (Cause::InitContainerFailed, Some(3)));
            assert_eq!(failure.container.as_deref(), Some(name));
            assert_eq!(failure.message, format!("its init container {name:?} ended with exit code 3"));
        }
        let main = of_init_container(&preparing(&done, &done), "main", &ContainerStateTerminated::default());
        assert_eq!(main, None, "it prepares nothing");
    }

    #[test]
    fn an_init_container_that_was_killed_for_memory_is_short_of_memory() {
        let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
        let killed = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
        let pod = preparing(&done, &killed);
        let run = failed_run(&pod).unwrap();
        for failure in [of_worker(&pod), of_init_container(&pod, &run.container, &run.ended).unwrap()] {
            assert_eq!(failure.cause, Cause::OutOfMemory);
            assert_eq!(failure.message, "exit code 137 (OOMKilled) – memory limit (1 GB) exceeded");
        }
        assert_eq!(of_worker(&pod).container.as_deref(), Some("unpack"));
    }

    #[test]
    fn the_advice_on_an_eviction_names_the_shortage_and_what_the_user_can_do_first() {
        let advice = |message: &str| {
            let pod = json!({ "metadata": {}, "spec": { "containers": [{ "name": "main" }] },
                "status": { "phase": "Failed", "reason": "Evicted", "message": message } });
            of_infrastructure(&serde_json::from_value(pod).unwrap()).unwrap().suggestion
        };
        for (message, begin, field) in [
            (
                "The node was low on resource: memory. Container main was using 5Gi, which exceeds its request of 0.",
                "The node ran out of memory",
                "requests.memory",
            ),
            (
                "The node was low on resource: ephemeral-storage.",
                "The node's disk ran full",
                "requests.ephemeral-storage",
            ),
            (
                "The node had condition: [DiskPressure].",
                "The node's disk ran full",
                "requests.ephemeral-storage",
            ),
            ("The node had condition: [MemoryPressure].", "The node ran out of memory", "requests.memory"),
            (
                "Usage of EmptyDir volume \"out\" exceeds the limit \"1Gi\".",
                "The pod wrote more",
                "sizeLimit",
            ),
            ("gone", "Lower what the pod uses", "requests"),
        ] {
            let advice = advice(message);
            assert!(advice.starts_with(begin) && advice.contains(field), "{message}: {advice}");
        }
    }

    #[test]
    fn a_run_ended_by_a_deletion_does_not_hide_an_earlier_failure() {
        let ended = |code: i32| json!({ "terminated": { "exitCode": code } });
        let mut pod = json!({ "metadata": {}, "spec": { "containers": [{ "name": "main" }] },
            "status": { "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "ready": false,
                "restartCount": 1, "state": ended(1), "lastState": ended(3) }] } });
        let seen = |pod: &serde_json::Value| {
            let run = failed_run(&serde_json::from_value(pod.clone()).unwrap()).unwrap();
            (run.ended.exit_code, run.previous, run.restarts)
        };
        assert_eq!(seen(&pod), (1, false, 1));
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(seen(&pod), (3, true, 1));
    }

    #[test]
    fn an_end_by_a_deletion_is_no_failure_of_a_container_that_was_restarted() {
        let run = |code: i32, restarts: i32| {
            let pod = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
                "spec": { "containers": [{ "name": "main" }] },
                "status": { "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "ready": false,
                    "restartCount": restarts, "state": { "terminated": { "exitCode": code } } }] } });
            failed_run(&serde_json::from_value(pod).unwrap()).map(|run| run.ended.exit_code)
        };
        assert_eq!((run(143, 1), run(137, 2)), (None, None));
        assert_eq!((run(1, 1), run(143, 0)), (Some(1), Some(143)));
    }
}

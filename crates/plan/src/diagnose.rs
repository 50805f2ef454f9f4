//! Why a pod failed, from what its status says and nothing else. A wrong cause is worse than none, so what a status
//! cannot tell is `Unknown`. Rules that read output join here; callers see only [`Cause`].

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use crate::observed::{condition_since, mpi_container};

/// `128 + SIGKILL`.
const EXIT_KILLED: i32 = 137;
/// `128 + SIGSEGV`.
const EXIT_CRASHED: i32 = 139;
/// `128 + SIGTERM`.
const EXIT_TERMINATED: i32 = 143;

/// Why a pod failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// One of the causes of `status.failure.reason`.
    pub reason: &'static str,
    /// What happened, without the pod's name, as the end of a sentence.
    pub message: String,
    /// What to do about it.
    pub suggestion: &'static str,
    /// The container that failed.
    pub container: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i32>,
}

impl Cause {
    fn new(reason: &'static str, message: impl Into<String>, suggestion: &'static str) -> Self {
        Self { reason, message: message.into(), suggestion, container: None, exit_code: None }
    }
}

/// Why a Worker's pod failed, or is on its way out.
#[must_use]
pub fn of_worker(pod: &Pod) -> Cause {
    if let Some(cause) = of_infrastructure(pod) {
        return cause;
    }
    let Some((container, ended)) = terminated(pod) else {
        return Cause::new("WorkerLost", "its pod is gone", WORKER_GONE);
    };
    let mut cause = out_of_memory(&ended).unwrap_or_else(|| {
        let message = format!("its container {container:?} ended with {}", exit_text(&ended));
        Cause::new(
            "WorkerLost",
            message,
            "read the worker's log: its first process is what keeps the worker up",
        )
    });
    cause.container = Some(container);
    cause.exit_code = Some(ended.exit_code);
    cause
}

/// Why the Launcher's pod failed.
#[must_use]
pub fn of_launcher(pod: &Pod) -> Cause {
    if let Some(cause) = of_infrastructure(pod) {
        return cause;
    }
    let Some((container, ended)) = terminated(pod) else {
        return Cause::new("Unknown", "its pod failed", "read the launcher's log");
    };
    let mut cause = out_of_memory(&ended).unwrap_or_else(|| {
        let message = format!("its container {container:?} ended with {}", exit_text(&ended));
        match ended.exit_code {
            EXIT_KILLED => Cause::new(
                "RankKilled",
                message,
                "a rank or the launcher got SIGKILL: look for a memory limit that is too low",
            ),
            EXIT_CRASHED => Cause::new(
                "RankCrashed",
                message,
                "the program read or wrote memory that is not its own: run it in a debugger",
            ),
            EXIT_TERMINATED => {
                Cause::new("Terminated", message, "something asked it to stop: look at the job's events")
            }
            _ => Cause::new("Unknown", message, "read the launcher's log"),
        }
    });
    cause.container = Some(container);
    cause.exit_code = Some(ended.exit_code);
    cause
}

const WORKER_GONE: &str = "if nobody deleted it, look at its node's events; then run the job again";

/// A Worker's pod that is no more, or was told to go.
pub(crate) fn of_missing_worker(pod: Option<&Pod>) -> Cause {
    pod.and_then(of_infrastructure)
        .unwrap_or_else(|| Cause::new("WorkerLost", "its pod was deleted while the job ran", WORKER_GONE))
}

/// A Worker that is not ready in time: what its containers wait for.
pub(crate) fn of_slow_worker(pod: &Pod, waited: &str) -> Cause {
    let statuses = pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    let waiting = statuses
        .filter_map(|status| Some((status.name.clone(), status.state.as_ref()?.waiting.as_ref()?)))
        .find(|(_, waiting)| waiting.reason.as_deref().is_some_and(|reason| !IDLE_WAITS.contains(&reason)));
    let Some((container, waiting)) = waiting else {
        return Cause::new(
            "Timeout",
            format!("it was not ready {waited} after it was scheduled"),
            RAISE_START_TIMEOUT,
        );
    };
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let detail = waiting.message.as_deref().unwrap_or_default();
    let message =
        format!("it was not ready {waited} after it was scheduled: {container:?} waits, {reason}: {detail}");
    let mut cause = match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "RegistryUnavailable" => Cause::new(
            "ImagePull",
            message,
            "check the image's name and tag, and that the namespace has a pull secret for it",
        ),
        "CreateContainerConfigError" => {
            Cause::new("MissingReference", message, "create the ConfigMap or Secret that the pod refers to")
        }
        _ => Cause::new("Timeout", message, RAISE_START_TIMEOUT),
    };
    cause.container = Some(container);
    cause
}

/// Waits that every container passes through.
const IDLE_WAITS: [&str; 2] = ["ContainerCreating", "PodInitializing"];
const RAISE_START_TIMEOUT: &str = "read the worker's events; where it only needs longer, raise the annotation training.opendatahub.io/start-timeout";

/// What took the pod away from outside: eviction, preemption, a lost node.
fn of_infrastructure(pod: &Pod) -> Option<Cause> {
    let status = pod.status.as_ref()?;
    let text = status.message.clone().unwrap_or_default();
    let told = |what: &str| if text.is_empty() { what.to_owned() } else { format!("{what}: {text}") };
    match status.reason.as_deref() {
        Some("Evicted") => return Some(Cause::new("Evicted", told("its pod was evicted"), FREE_THE_NODE)),
        Some("NodeLost") => return Some(Cause::new("NodeLost", told("its node was lost"), RUN_AGAIN)),
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
        Some("PreemptionByScheduler") => Some(Cause::new(
            "Preempted",
            told("its pod made room for one of higher priority"),
            "give the job a higher priority class, or run it when there is room",
        )),
        Some("DeletionByTaintManager" | "DeletionByPodGC") => {
            Some(Cause::new("NodeLost", told("its node was lost"), RUN_AGAIN))
        }
        _ => Some(Cause::new("Evicted", told("its pod was evicted"), FREE_THE_NODE)),
    }
}

const FREE_THE_NODE: &str =
    "lower what the pod uses beyond its requests, or raise its requests; then run the job again";
const RUN_AGAIN: &str = "nothing is wrong with the job: run it again";

fn out_of_memory(ended: &ContainerStateTerminated) -> Option<Cause> {
    (ended.reason.as_deref() == Some("OOMKilled")).then(|| {
        let message = "it was killed because it used more memory than its limit".to_owned();
        Cause::new(
            "OutOfMemory",
            message,
            "raise resources.limits.memory of the container, or use less memory per rank",
        )
    })
}

fn exit_text(ended: &ContainerStateTerminated) -> String {
    let code = ended.exit_code;
    match ended.reason.as_deref() {
        Some(reason) if reason != "Error" && reason != "Completed" => format!("exit code {code} ({reason})"),
        _ => format!("exit code {code}"),
    }
}

/// The container that ended badly: the MPI container if it did, else the first that did.
fn terminated(pod: &Pod) -> Option<(String, ContainerStateTerminated)> {
    let main =
        mpi_container(pod).and_then(|(name, state)| Some((name.to_owned(), state.terminated.clone()?)));
    if let Some((name, ended)) = main.filter(|(_, ended)| ended.exit_code != 0) {
        return Some((name, ended));
    }
    let status = pod.status.as_ref()?;
    let all =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    all.filter_map(|status| Some((status.name.clone(), status.state.as_ref()?.terminated.clone()?)))
        .find(|(_, ended)| ended.exit_code != 0)
}

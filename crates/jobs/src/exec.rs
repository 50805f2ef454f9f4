//! Runs a command in one of a job's pods: chooses the pod and connects the streams.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, AttachedProcess};
use kube::{Client, ResourceExt};

use crate::{Action, Advice, Attempt, Error, Kind, describe, list};

/// Where and how to run a command.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The Worker's index; the Launcher if not given.
    pub worker: Option<i32>,
    /// The container; the first if not given.
    pub container: Option<String>,
    /// Whether to forward standard input.
    pub stdin: bool,
    /// Whether to allocate a terminal.
    pub tty: bool,
}

/// Starts the command; the returned process has its streams and its exit status.
///
/// # Errors
/// If the job or the pod does not exist, the pod does not run, or the server refuses.
pub async fn exec(
    client: &Client,
    kind: Kind,
    namespace: &str,
    job: &str,
    choice: &Choice,
    command: &[String],
) -> Result<AttachedProcess, Error> {
    let pod = pod(client, kind, namespace, job, choice.worker).await?;
    let main = semantics::main_container(&pod).map(|main| main.name.clone());
    let container = choice.container.clone().or(main);
    in_pod(client, namespace, &pod.name_any(), &Choice { container, ..choice.clone() }, command).await
}

/// Starts the command in a pod that is known by name.
///
/// # Errors
/// If the pod does not exist, does not run, or the server refuses.
pub async fn in_pod(
    client: &Client,
    namespace: &str,
    name: &str,
    choice: &Choice,
    command: &[String],
) -> Result<AttachedProcess, Error> {
    let parameters = AttachParams {
        container: choice.container.clone(),
        stdin: choice.stdin,
        stdout: true,
        // A terminal has a single output stream.
        stderr: !choice.tty,
        tty: choice.tty,
        ..AttachParams::default()
    };
    let attempt = Attempt { verb: "create", what: "pods/exec", name, namespace };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    api.exec(name, command, &parameters).await.map_err(|error| Error::from_kube(error, attempt))
}

/// The newest running pod of that role and index.
pub(crate) async fn pod(
    client: &Client,
    kind: Kind,
    namespace: &str,
    job: &str,
    worker: Option<i32>,
) -> Result<Pod, Error> {
    list::get(client, kind, namespace, job).await?;
    let pods = describe::pods(client, kind, namespace, job).await?;
    let wanted = |pod: &&Pod| {
        let view = describe::pod_view(pod);
        match worker {
            Some(index) => ["worker", "launcher"].contains(&view.role.as_str()) && view.index == Some(index),
            None => view.role != "worker",
        }
    };
    let what = worker.map_or_else(|| "the Launcher".to_owned(), |index| format!("Worker {index}"));
    let newest = pods.iter().filter(wanted).max_by_key(|pod| pod.creation_timestamp());
    let missing = |what: String| Error::NoPod {
        what,
        advice: Advice::from("see the pods").with(Action::Describe(kind.job(namespace, job))),
    };
    match newest {
        Some(pod) if describe::started(pod) && !semantics::has_ended(pod) => Ok(pod.clone()),
        Some(pod) => {
            let state = describe::pod_view(pod).state;
            Err(missing(format!("{what} ({}) is not running: {state}", pod.name_any())))
        }
        None => Err(missing(format!("there is no pod for {what}"))),
    }
}

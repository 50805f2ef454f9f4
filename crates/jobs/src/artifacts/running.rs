//! The pod to ask, and a script in it.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams, AttachedProcess};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::io::AsyncRead;

use super::mounts::{self, Mount};
use super::{Fault, Head, PATIENCE, Wanted, reader, spoken};
use crate::part::runs;
use crate::{Attempt, Error, describe, list};

/// Returns the job's running pods: the Launcher's first, or else the reader if that runs, then Workers by index.
pub(super) async fn pods(client: &Client, wanted: &Wanted) -> Result<Vec<Pod>, Fault> {
    let Wanted { kind, namespace, name, worker } = wanted;
    let job = list::get(client, *kind, namespace, name).await?;
    let all = describe::pods(client, *kind, namespace, name).await?;
    let mut running: Vec<Pod> = all.iter().filter(|pod| runs(pod)).cloned().collect();
    if let Some(worker) = worker {
        running.retain(|pod| describe::pod_view(pod).index == Some(*worker));
    }
    // Workers that outlive the Launcher need not mount what it has written to.
    if running.is_empty() || (worker.is_none() && !running.iter().any(reader::leads)) {
        running.extend(reader::running(client, &job).await?);
    }
    if running.is_empty() {
        return Err(no_pod(&all, job.data.get("spec"), *worker));
    }
    // Of the pods of several attempts, only one runs.
    running.sort_by_key(|pod| describe::pod_view(pod).index.unwrap_or(-1));
    Ok(running)
}

/// Says why there is no pod to ask, and how to reach the files all the same.
fn no_pod(all: &[Pod], spec: Option<&Value>, worker: Option<i32>) -> Fault {
    let who =
        worker.map_or_else(|| "No pod of the job".to_owned(), |index| format!("The pod of Worker {index}"));
    let verb = if worker.is_some() { "is not running" } else { "runs" };
    let waits = all.iter().any(|pod| !semantics::has_ended(pod));
    let more = if waits { " yet" } else { " any more" };
    let mut claims = Vec::new();
    if let Some(spec) = spec {
        claims_in(spec, &mut claims);
    }
    claims.sort_unstable();
    claims.dedup();
    let hint = match (waits, claims.is_empty()) {
        (true, _) => "try again when its pods run".to_owned(),
        (false, false) => {
            let claims = claims.join(", ");
            format!(
                "the files are still in the PersistentVolumeClaim {claims}: start a reader, a small pod that mounts it"
            )
        }
        (false, true) => {
            "files in a pod go with it; to keep them, let the job write into a PersistentVolumeClaim"
                .to_owned()
        }
    };
    let has_claims = !waits && !claims.is_empty();
    Fault::NoPod {
        has_claims,
        message: format!("{who} {verb}{more}, and files are read through a running pod"),
        hint,
    }
}

/// Collects the names of claims in all pod templates of a job, whatever its kind.
fn claims_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let claim = fields.get("persistentVolumeClaim").and_then(|claim| claim.get("claimName"));
            found.extend(claim.and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| claims_in(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| claims_in(item, found)),
        _ => {}
    }
}

/// A container in which scripts run.
pub(super) struct Shell {
    pub pod: String,
    pub container: String,
    pub mounts: Vec<Mount>,
    /// Whether it is a reader's, which has to know that it is used.
    is_reader: bool,
}

/// Finds the first running pod that shows the path.
pub(super) async fn at(client: &Client, wanted: &Wanted, path: &[u8]) -> Result<Shell, Fault> {
    for pod in pods(client, wanted).await? {
        let mounts = mounts::mounts(&pod);
        let container = semantics::main_container(&pod);
        if let (true, Some(container)) = (mounts::shows(&mounts, path), container) {
            let (container, is_reader) = (container.name.clone(), pod.labels().contains_key(reader::LABEL));
            return Ok(Shell { pod: pod.name_any(), container, mounts, is_reader });
        }
    }
    Err(Fault::Outside(spoken(path)))
}

impl Shell {
    /// Starts a script: its arguments are the path, `words`, then the places of all mounts.
    pub async fn start(
        &self,
        client: &Client,
        wanted: &Wanted,
        script: &str,
        path: &[u8],
        words: &[&str],
    ) -> Result<Running, Fault> {
        let script = &if self.is_reader { reader::marked(script) } else { script.to_owned() };
        let mut command = vec!["sh".to_owned(), "-c".to_owned()];
        match std::str::from_utf8(path) {
            Ok(path) => command.extend([script.clone(), "sh".to_owned(), path.to_owned()]),
            // Arguments are texts: the shell makes the bytes from octal escapes. The dot keeps a line feed at the end.
            Err(_) => {
                let escaped: String = path.iter().map(|byte| format!("\\0{byte:03o}")).collect();
                let decoded = "path=$(printf '%b.' \"$1\"); shift; set -- \"${path%.}\" \"$@\"\n";
                command.extend([format!("{decoded}{script}"), "sh".to_owned(), escaped]);
            }
        }
        command.extend(words.iter().map(|word| (*word).to_owned()));
        command.extend(self.mounts.iter().map(|mount| mount.path.clone()));
        let parameters = AttachParams {
            container: Some(self.container.clone()),
            stdin: false,
            stdout: true,
            // Streams share a connection, and nobody would read this one.
            stderr: false,
            ..AttachParams::default()
        };
        let attempt =
            Attempt { verb: "create", what: "pods/exec", name: &self.pod, namespace: &wanted.namespace };
        let api: Api<Pod> = Api::namespaced(client.clone(), &wanted.namespace);
        let started = api.exec(&self.pod, command, &parameters).await;
        let mut process = started.map_err(|error| Error::from_kube(error, attempt))?;
        let stdout = process.stdout().ok_or_else(|| Fault::Broken("it has no output".to_owned()))?;
        Ok(Running { stdout: Box::new(stdout), process })
    }

    /// Checks where the opened folder or file really is.
    pub fn inside(&self, head: &Head) -> Result<(), Fault> {
        let at = mounts::innermost(head.mounts.iter().map(Vec::as_slice), &head.place);
        let mount = at.and_then(|at| self.mounts.get(at));
        match mount.is_some_and(|mount| mount.shown.is_some()) {
            true => Ok(()),
            false => Err(Fault::Outside(spoken(&head.place))),
        }
    }
}

/// A script that runs.
pub(super) struct Running {
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    process: AttachedProcess,
}

/// How a script ended.
pub(super) enum Ended {
    With(u8),
    NotStarted,
    Unknown,
}

impl Running {
    /// Waits for the end.
    pub async fn ended(&mut self) -> Ended {
        let Some(status) = self.process.take_status() else { return Ended::Unknown };
        match tokio::time::timeout(PATIENCE, status).await {
            Ok(Some(status)) => ended(&status),
            _ => Ended::Unknown,
        }
    }
}

fn ended(status: &Status) -> Ended {
    if status.status.as_deref() == Some("Success") {
        return Ended::With(0);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes
        .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .find_map(|cause| cause.message.as_deref()?.parse().ok());
    code.map_or(Ended::NotStarted, Ended::With)
}

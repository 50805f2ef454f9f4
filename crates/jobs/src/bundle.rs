//! Collects everything that somebody else needs to understand a job, as files: manifest, status, pods, events,
//! explanation, and the ends of the logs; or to understand a cluster: its nodes, jobs, pods, warnings and operator.
//! Possible secrets are removed as described in [`crate::redaction`], and no Secret is read.

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{Event, Node, Pod, ResourceQuota};
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, Resource, ResourceExt};
use paging::MOST_PAGES;
use serde_json::Value;

use crate::list::Selection;
use crate::redaction::{clean, redact};
use crate::{Attempt, Error, Kind, describe, events, explanation, list};

/// The number of lines kept from the end of each log.
const LAST_LINES: i64 = 2_000;
/// The maximum size of a log, in bytes.
const MAX_LOG_BYTES: i64 = 4 * 1024 * 1024;
/// The number of logs read concurrently, and the maximum number of logs.
const AT_ONCE: usize = 8;
const MAX_PODS: usize = 64;
/// A file of the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the bundle.
    pub path: String,
    /// Its text, redacted.
    pub text: String,
}

/// Collects the files; `unread.txt` lists what could not be read.
///
/// # Errors
/// If the job itself cannot be read.
pub async fn collect(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<Vec<File>, Error> {
    let job = list::get(client, kind, namespace, name).await?;
    let (pods, events, explained) = futures::join!(
        describe::pods(client, kind, namespace, name),
        events::events(client, kind, namespace, name),
        explanation::explain_job(client, kind, namespace, name),
    );
    let mut unread = Vec::new();
    let mut files = vec![json_file("job.json", serde_json::to_value(&job))];
    match explained {
        Ok(explained) => files.push(json_file("explanation.json", serde_json::to_value(&explained))),
        Err(error) => unread.push(format!("explanation: {error}")),
    }
    match events {
        Ok(events) => {
            files.push(File { path: "events.txt".to_owned(), text: redact(&event_lines(&events)) });
        }
        Err(error) => unread.push(format!("events: {error}")),
    }
    match pods {
        Ok(pods) => {
            files.push(json_file("pods.json", serde_json::to_value(&pods)));
            let logs = stream::iter(pods.into_iter().take(MAX_PODS)).map(|pod| log(client, namespace, pod));
            for read in logs.buffered(AT_ONCE).collect::<Vec<_>>().await {
                match read {
                    Ok(file) => files.push(file),
                    Err(why) => unread.push(why),
                }
            }
        }
        Err(error) => unread.push(format!("pods: {error}")),
    }
    files.extend(unread_file(&unread));
    Ok(files)
}

/// Collects what describes the cluster as a whole; `unread.txt` lists what could not be read.
///
/// # Errors
/// If the server cannot be reached.
pub async fn of_cluster(client: &Client) -> Result<Vec<File>, Error> {
    let whole = Attempt { verb: "get", what: "version", name: "", namespace: "" };
    let version = client.apiserver_version().await.map_err(|error| Error::from_kube(error, whole))?;
    let mut files = vec![json_file("version.json", serde_json::to_value(&version))];
    let mut unread = Vec::new();
    let everything = Selection::default();
    let rows = list::rows(client, &everything);
    let (nodes, quotas, pods, events) =
        (all::<Node>(client), all::<ResourceQuota>(client), all::<Pod>(client), all::<Event>(client));
    let (rows, nodes, quotas, pods, events) = futures::join!(rows, nodes, quotas, pods, events);
    let mut keep = |path: &str, found: Result<Value, String>| match found {
        Ok(value) => files.push(json_file(path, Ok(value))),
        Err(why) => unread.push(format!("{path}: {why}")),
    };
    keep(
        "jobs.json",
        rows.map(|rows| serde_json::to_value(rows).unwrap_or_default()).map_err(|e| e.to_string()),
    );
    keep("nodes.json", nodes.map(|nodes| serde_json::to_value(nodes).unwrap_or_default()));
    keep("quotas.json", quotas.map(|quotas| serde_json::to_value(quotas).unwrap_or_default()));
    let own: Vec<Pod> = pods.iter().flatten().filter(|pod| is_operator(pod)).cloned().collect();
    match pods {
        Ok(pods) => {
            files.push(File { path: "pods.txt".to_owned(), text: pods.iter().map(pod_line).collect() })
        }
        Err(why) => unread.push(format!("pods: {why}")),
    }
    match events {
        Ok(mut events) => {
            events.retain(|event| event.type_.as_deref() == Some("Warning"));
            let mut seen: Vec<describe::EventView> = events.iter().map(describe::event_view).collect();
            seen.sort_by_key(|event| event.at);
            files.push(File { path: "warnings.txt".to_owned(), text: redact(&event_lines(&seen)) });
        }
        Err(why) => unread.push(format!("events: {why}")),
    }
    for pod in own.into_iter().take(AT_ONCE) {
        let namespace = pod.namespace().unwrap_or_default();
        match log(client, &namespace, pod).await {
            Ok(file) => files.push(file),
            Err(why) => unread.push(why),
        }
    }
    files.extend(unread_file(&unread));
    Ok(files)
}

/// Every object of a type, page by page.
async fn all<K>(client: &Client) -> Result<Vec<K>, String>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut found = Vec::new();
    let mut keep = |mut page: Vec<K>| {
        page.iter_mut().for_each(|object| object.meta_mut().managed_fields = None);
        found.append(&mut page);
    };
    let api: Api<K> = Api::all(client.clone());
    paging::each(&api, ListParams::default(), MOST_PAGES, &mut keep)
        .await
        .map_err(|error| error.to_string())?;
    Ok(found)
}

/// Whether a pod is the operator's or the training service's (`deploy/`).
fn is_operator(pod: &Pod) -> bool {
    pod.labels().get("app").is_some_and(|app| ["mpi-operator", "training-service"].contains(&app.as_str()))
}

/// A pod in a line: namespace, name, phase, node, restarts.
fn pod_line(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("-");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("-");
    let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let restarts: i32 = containers.map(|container| container.restart_count).sum();
    format!(
        "{}/{} {phase} on {node}, {restarts} restarts\n",
        pod.namespace().unwrap_or_default(),
        pod.name_any()
    )
}

fn event_lines(events: &[describe::EventView]) -> String {
    let line = |event: &describe::EventView| {
        let at = event.at.map(|at| at.to_string()).unwrap_or_default();
        format!("{at} {} {} {}: {}\n", event.kind, event.reason, event.object, event.message)
    };
    events.iter().map(line).collect()
}

fn unread_file(unread: &[String]) -> Option<File> {
    let text = redact(&(unread.join("\n") + "\n"));
    (!unread.is_empty()).then(|| File { path: "unread.txt".to_owned(), text })
}

async fn log(client: &Client, namespace: &str, pod: Pod) -> Result<File, String> {
    let name = pod.name_any();
    let container = semantics::main_container(&pod).map(|main| main.name.clone());
    let parameters = LogParams {
        container,
        tail_lines: Some(LAST_LINES),
        limit_bytes: Some(MAX_LOG_BYTES),
        timestamps: true,
        ..LogParams::default()
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match api.logs(&name, &parameters).await {
        Ok(text) => Ok(File { path: format!("logs/{name}.log"), text: redact(&text) }),
        Err(error) => Err(format!("logs of {name}: {error}")),
    }
}

fn json_file(path: &str, value: serde_json::Result<Value>) -> File {
    let mut value = value.unwrap_or_default();
    clean(&mut value);
    File { path: path.to_owned(), text: serde_json::to_string_pretty(&value).unwrap_or_default() + "\n" }
}

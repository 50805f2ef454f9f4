//! Collects everything that somebody else needs to understand a job, as files: manifest, status, pods, events,
//! explanation, and the ends of the logs. Possible secrets are removed as described in [`crate::redaction`], and no
//! Secret is read.

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::redaction::{clean, redact};
use crate::{Error, Kind, describe, events, explanation, list};

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
            let lines = events.iter().map(|event| {
                let at = event.at.map(|at| at.to_string()).unwrap_or_default();
                format!("{at} {} {} {}: {}\n", event.kind, event.reason, event.object, event.message)
            });
            files.push(File { path: "events.txt".to_owned(), text: redact(&lines.collect::<String>()) });
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
    if !unread.is_empty() {
        files.push(File { path: "unread.txt".to_owned(), text: redact(&(unread.join("\n") + "\n")) });
    }
    Ok(files)
}

async fn log(client: &Client, namespace: &str, pod: Pod) -> Result<File, String> {
    let name = pod.name_any();
    let container =
        pod.spec.as_ref().and_then(|spec| spec.containers.first()).map(|first| first.name.clone());
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

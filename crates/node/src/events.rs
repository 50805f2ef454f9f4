//! Records Events about pods, worded as kubelet's. A repeated Event is counted, not written again.
//!
//! Best effort: a full queue or a failed write loses an Event and never affects a pod.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{Mutex, mpsc};

/// Events waiting to be written; a hundred pods of two containers make six hundred.
const MAX_QUEUED: usize = 4096;
/// Distinct Events whose count is remembered. At this number the counts are cleared and start again from one.
const MAX_REMEMBERED: usize = 8192;
/// The component named in kubelet's Events; dashboards filter by it.
const COMPONENT: &str = "kubelet";

/// Something that happened to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Happening {
    namespace: String,
    pod: String,
    uid: String,
    container: Option<String>,
    warning: bool,
    reason: &'static str,
    message: String,
}

/// Accepts Events for recording.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<(Happening, String, Timestamp)>,
}

impl Events {
    /// Returns the recorder and its writer; the caller must run the writer.
    pub fn new(client: kube::Client) -> (Events, Writer) {
        let (queue, receiver) = mpsc::channel(MAX_QUEUED);
        (Events { queue }, Writer { client, queue: Arc::new(Mutex::new(receiver)) })
    }

    /// Records a `Normal` Event.
    pub fn normal(&self, pod: &Pod, container: Option<&str>, reason: &'static str, message: String) {
        self.tell(pod, container, false, reason, message);
    }

    /// Records a `Warning` Event.
    pub fn warning(&self, pod: &Pod, container: Option<&str>, reason: &'static str, message: String) {
        self.tell(pod, container, true, reason, message);
    }

    fn tell(&self, pod: &Pod, container: Option<&str>, warning: bool, reason: &'static str, message: String) {
        let meta = pod.metadata.clone();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let happening = Happening {
            namespace: meta.namespace.unwrap_or_default(),
            pod: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            container: container.map(str::to_owned),
            warning,
            reason,
            message,
        };
        let _ = self.queue.try_send((happening, node, Timestamp::now()));
    }
}

/// Writes the recorded Events to the API.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    queue: Arc<Mutex<mpsc::Receiver<(Happening, String, Timestamp)>>>,
}

impl Writer {
    /// Writes Events until every recorder is dropped. Concurrent calls wait for the first.
    pub async fn write_all(self) {
        let Writer { client, queue } = self;
        let mut queue = queue.lock().await;
        let mut seen: HashMap<Happening, (String, i32)> = HashMap::new();
        while let Some((happening, node, time)) = queue.recv().await {
            if seen.len() > MAX_REMEMBERED {
                seen.clear();
            }
            write(&client, &mut seen, happening, node, time).await;
        }
    }
}

async fn write(
    client: &kube::Client,
    seen: &mut HashMap<Happening, (String, i32)>,
    happening: Happening,
    node: String,
    time: Timestamp,
) {
    let api: Api<Event> = Api::namespaced(client.clone(), &happening.namespace);
    if let Some((name, count)) = seen.get_mut(&happening) {
        *count += 1;
        let patch = json!({"count": *count, "lastTimestamp": Time(time)});
        if api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.is_ok() {
            return;
        }
    }
    match api.create(&PostParams::default(), &event(&happening, node, time)).await {
        Ok(made) => {
            seen.insert(happening, (made.metadata.name.unwrap_or_default(), 1));
        }
        Err(error) => tracing::debug!(%error, "dropping an event"),
    }
}

fn event(happening: &Happening, node: String, time: Timestamp) -> Event {
    let number = u64::try_from(time.as_nanosecond()).unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{number:x}", happening.pod)),
            namespace: Some(happening.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(happening.pod.clone()),
            namespace: Some(happening.namespace.clone()),
            uid: Some(happening.uid.clone()),
            field_path: happening.container.as_ref().map(|name| format!("spec.containers{{{name}}}")),
            ..ObjectReference::default()
        },
        type_: Some(if happening.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(happening.reason.to_owned()),
        message: Some(happening.message.clone()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: Some(node.clone()) }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(node),
        first_timestamp: Some(Time(time)),
        last_timestamp: Some(Time(time)),
        count: Some(1),
        ..Event::default()
    }
}

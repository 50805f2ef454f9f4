//! Records Events (core/v1), as client-go's recorder does: a repeated Event about an object increments a count instead
//! of filling the store.
//!
//! Notes arrive through a bounded channel and never block a controller: if the channel is full, the note is dropped and
//! the drop is logged. Recording never fails a reconciliation.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Notes waiting to be written.
const WAITING_MAX: usize = 4096;
/// Different notes remembered for counting; the memory is cleared when it is full.
const REMEMBERED_MAX: usize = 4096;
/// The longest message that the API accepts, in bytes (core/v1 Event validation).
const MESSAGE_MAX: usize = 1024;

/// The content of an Event.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Whether the type is `Warning` rather than `Normal`.
    pub warning: bool,
    /// CamelCase, for programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Note {
    /// Creates a note of type `Normal`.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: false, reason, message: message.into() }
    }

    /// Creates a note of type `Warning`.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, reason, message: message.into() }
    }
}

/// Accepts a controller's Events.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: &'static str,
    to: mpsc::Sender<(&'static str, ObjectReference, Note)>,
}

impl Recorder {
    /// Creates a recorder with the name `component` (`source.component` of its Events), and starts the task that writes
    /// them.
    pub fn start(client: Client, component: &'static str, stop: CancellationToken) -> Self {
        let (to, from) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move { stop.run_until_cancelled(write_all(client, from)).await });
        Self { component, to }
    }

    /// Returns a recorder on the same channel with another component name.
    pub fn named(&self, component: &'static str) -> Self {
        Self { component, to: self.to.clone() }
    }

    /// Records `note` about `object`.
    pub fn note<K: Resource<DynamicType = ()>>(&self, object: &K, note: Note) {
        self.note_ref(object.object_ref(&()), note);
    }

    /// Records `note` about the object in `regarding`.
    pub fn note_ref(&self, regarding: ObjectReference, note: Note) {
        if let Err(error) = self.to.try_send((self.component, regarding, note)) {
            tracing::warn!(%error, "event dropped");
        }
    }
}

/// Identifies repetitions of an Event.
type Sameness = (String, String, String, bool, &'static str, String);

struct Written {
    name: String,
    count: i32,
}

async fn write_all(client: Client, mut from: mpsc::Receiver<(&'static str, ObjectReference, Note)>) {
    let mut remembered: HashMap<Sameness, Written> = HashMap::new();
    let mut serial: u64 = 0;
    while let Some((component, regarding, note)) = from.recv().await {
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        serial += 1;
        if let Err(error) = write_one(&client, &mut remembered, component, regarding, note, serial).await {
            tracing::debug!(%error, "event not written");
        }
    }
}

async fn write_one(
    client: &Client,
    remembered: &mut HashMap<Sameness, Written>,
    component: &'static str,
    regarding: ObjectReference,
    note: Note,
    serial: u64,
) -> Result<(), kube::Error> {
    let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".into());
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let now = Timestamp::now();
    let sameness = (
        regarding.uid.clone().unwrap_or_default(),
        regarding.field_path.clone().unwrap_or_default(),
        component.to_owned(),
        note.warning,
        note.reason,
        note.message.clone(),
    );
    if let Some(written) = remembered.get_mut(&sameness) {
        let patch = json!({"count": written.count + 1, "lastTimestamp": Time(now)});
        match api.patch(&written.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {
                written.count += 1;
                return Ok(());
            }
            // Expired or deleted meanwhile: create a new one.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let event = event(component, regarding, &note, &namespace, now, serial);
    let name = event.metadata.name.clone().unwrap_or_default();
    api.create(&PostParams::default(), &event).await?;
    remembered.insert(sameness, Written { name, count: 1 });
    Ok(())
}

fn event(
    component: &str,
    regarding: ObjectReference,
    note: &Note,
    namespace: &str,
    now: Timestamp,
    serial: u64,
) -> Event {
    let nanoseconds = u64::try_from(now.as_nanosecond()).unwrap_or(0).wrapping_add(serial);
    let mut message = note.message.clone();
    if message.len() > MESSAGE_MAX {
        let end = (0..=MESSAGE_MAX).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
        message.truncate(end);
    }
    Event {
        metadata: ObjectMeta {
            // Named as by client-go: object and time in hexadecimal.
            name: Some(format!("{}.{nanoseconds:x}", regarding.name.as_deref().unwrap_or("unknown"))),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: regarding,
        reason: Some(note.reason.to_owned()),
        message: Some(message),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}

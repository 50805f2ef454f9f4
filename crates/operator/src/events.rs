//! Records notices as core `Event`s, as upstream's recorder does, with its source. An event's name is made from what
//! it says, so what is said again is counted and dated in the same event; a failure to record is logged and otherwise
//! without effect.

use api::{EVENT_SOURCE, MPIJob};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams, PostParams};
use plan::Notice;
use semantics::LONGEST_SUBDOMAIN;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::context::Shared;
use crate::readable::{Told, Unreadable};

/// No more events of a job are remembered.
const MOST_EVENTS: usize = 64;

/// What an event is about.
pub(crate) struct Subject {
    /// The object.
    pub reference: ObjectReference,
    /// The event's source: who observed it.
    pub source: &'static str,
}

impl Subject {
    /// A job, or another object that was read.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(object: &K, source: &'static str) -> Self {
        Self { reference: object.object_ref(&()), source }
    }

    /// An MPIJob.
    pub(crate) fn of(job: &MPIJob) -> Self {
        Self::new(job, EVENT_SOURCE)
    }
}

/// Records notices about a job; `since` tells one life of the job from the next, so that a resumed job may tell again
/// that it runs.
pub(crate) async fn tell(
    context: &Shared,
    job: &Subject,
    notices: &[Notice],
    since: Option<&Time>,
    now: Timestamp,
) {
    let namespace = job.reference.namespace.as_deref().unwrap_or("default");
    let events: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    for notice in notices {
        let event = event(job, notice, since, now);
        if let Err(error) = record(context, &events, &event).await {
            tracing::warn!(reason = notice.reason, %error, "cannot record an event");
        }
    }
}

/// Says on each job that cannot be decoded that it cannot, and why. Never ends.
pub(crate) async fn tell_of_unreadable(context: &Shared, told: &mut Told, source: &'static str) {
    while let Some(Unreadable { reference, why }) = told.recv().await {
        let notice = Notice {
            warning: true,
            reason: api::REASON_VALIDATION.to_owned(),
            message: format!(
                "this operator cannot read the job, so changes of it have no effect: {why}. Correct the field, or delete the job"
            ),
        };
        tell(context, &Subject { reference, source }, &[notice], None, Timestamp::now()).await;
    }
    std::future::pending().await
}

/// Creates an event, or counts it once more. How often it was recorded is remembered; where that was forgotten, the event
/// that is there says it.
async fn record(context: &Shared, events: &Api<Event>, event: &Event) -> Result<(), kube::Error> {
    let _permit = context.writes.acquire().await;
    let name = event.metadata.name.clone().unwrap_or_default();
    let uid = event.involved_object.uid.as_deref().unwrap_or_default();
    let known = context.memory.of(uid, |memory| memory.events.get(&name).copied());
    let repeated = match known {
        Some(count) => again(events, event, Some(count.saturating_add(1))).await?,
        None => None,
    };
    let count = match repeated {
        Some(count) => count,
        None => match events.create(&PostParams::default(), event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                again(events, event, None).await?.map_or(1, |count| count.saturating_add(1))
            }
            created => created.map(|_| 1)?,
        },
    };
    context.memory.of(uid, |memory| {
        if memory.events.len() >= MOST_EVENTS {
            memory.events.clear();
        }
        memory.events.insert(name, count);
    });
    Ok(())
}

/// Sets when an event was recorded last, and its count if that is known. Returns the count; nothing if the event is gone.
async fn again(events: &Api<Event>, event: &Event, count: Option<i32>) -> Result<Option<i32>, kube::Error> {
    let mut change = json!({ "lastTimestamp": event.last_timestamp });
    if let Some(count) = count {
        change["count"] = json!(count);
    }
    let name = event.metadata.name.as_deref().unwrap_or_default();
    match events.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await {
        Ok(event) => Ok(Some(event.count.unwrap_or(1))),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn event(subject: &Subject, notice: &Notice, since: Option<&Time>, now: Timestamp) -> Event {
    let Subject { reference, source } = subject;
    let name = reference.name.clone().unwrap_or_default();
    let Notice { warning, reason, message } = notice;
    let suffix = format!(".{:016x}", fingerprint(reference, notice, since));
    let kept = name.len().min(LONGEST_SUBDOMAIN - suffix.len());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}{suffix}", &name[..kept])),
            namespace: Some(reference.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: reference.clone(),
        type_: Some(if *warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.clone()),
        message: Some(message.clone()),
        source: Some(EventSource { component: Some((*source).to_owned()), host: None }),
        reporting_component: Some((*source).to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// The same for the same words about the same life of a job, in every version of this program.
fn fingerprint(subject: &ObjectReference, notice: &Notice, since: Option<&Time>) -> u64 {
    let mut hash = Sha256::new();
    let since = since.map(|time| time.0.to_string()).unwrap_or_default();
    let uid = subject.uid.as_deref().unwrap_or_default();
    for part in [uid, &notice.reason, &notice.message, &since] {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_name_depends_on_what_it_says_alone() {
        let mut job = MPIJob::new("pi", api::MPIJobSpec::default());
        job.metadata.uid = Some("7f1c".to_owned());
        let notice = |message: &str| Notice {
            warning: false,
            reason: "MPIJobCreated".to_owned(),
            message: message.to_owned(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let name =
            |message: &str| event(&Subject::of(&job), &notice(message), None, now).metadata.name.unwrap();
        assert_eq!(name("it is created"), "pi.4058975b24b557ba");
        assert_ne!(name("it is created"), name("it is created."));
    }
}

//! Records notices as core `Event`s, as upstream's recorder does, with its source. An event's name is made from what
//! it tells, so a pass that is repeated after a crash tells nothing twice; a failure to record is logged and
//! otherwise without effect.

use std::hash::{DefaultHasher, Hash, Hasher};

use api::{EVENT_SOURCE, MPIJob};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, PostParams};
use plan::Notice;

use crate::run::Context;

/// Kubernetes' longest name.
const LONGEST_NAME: usize = 253;

/// Records notices about a job; `since` tells one life of the job from the next, so that a resumed job may tell again
/// that it runs.
pub(crate) async fn tell(
    context: &Context,
    job: &MPIJob,
    notices: &[Notice],
    since: Option<&Time>,
    now: Timestamp,
) {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    for notice in notices {
        match events.create(&PostParams::default(), &event(job, notice, since, now)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => tracing::warn!(reason = notice.reason, %error, "cannot record an event"),
        }
    }
}

fn event(job: &MPIJob, notice: &Notice, since: Option<&Time>, now: Timestamp) -> Event {
    let name = job.metadata.name.clone().unwrap_or_default();
    let Notice { warning, reason, message } = notice;
    let mut hash = DefaultHasher::new();
    (&job.metadata.uid, reason, message, since.map(|time| time.0)).hash(&mut hash);
    let suffix = format!(".{:016x}", hash.finish());
    let kept = name.len().min(LONGEST_NAME - suffix.len());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}{suffix}", &name[..kept])),
            namespace: job.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("kubeflow.org/v2beta1".to_owned()),
            kind: Some("MPIJob".to_owned()),
            name: Some(name),
            namespace: job.metadata.namespace.clone(),
            uid: job.metadata.uid.clone(),
            resource_version: job.metadata.resource_version.clone(),
            field_path: None,
        },
        type_: Some(if *warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.clone()),
        message: Some(message.clone()),
        source: Some(EventSource { component: Some(EVENT_SOURCE.to_owned()), host: None }),
        reporting_component: Some(EVENT_SOURCE.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

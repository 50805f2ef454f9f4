//! Explains the state of a job, read from the cluster: what it waits for, on what evidence, who must act, since when.
//!
//! The input is a client and a name, the output `plan`'s [`Explanation`], which every interface shows unchanged. Pods,
//! events and GPUs are read if the caller may; what may not be read is missing from the evidence. Of a job's logs,
//! only the Launcher's last line is read, however many Workers there are.

use diagnosis::Gpus;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, LogParams};
use kube::{Client, ResourceExt};
use plan::{Explanation, Situation, Told, kept};

use crate::{Error, Kind, describe, list, queue, view};

/// Explains the state of a job.
///
/// # Errors
/// If the job itself cannot be read.
pub async fn explain_job(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Explanation, Error> {
    let object = list::get(client, kind, namespace, name).await?;
    let ((pods, events), place) =
        futures::join!(describe::pods_and_events(client, &object), queue::place(client, namespace, &object));
    let (pods, events) = (pods.unwrap_or_default(), events.unwrap_or_default());
    let told = told(&object, &events);
    let gpus = if is_short_of_gpus(&pods) { count_gpus(client, &pods).await } else { None };
    let has_printed = has_printed(client, namespace, &pods).await;
    let job = view::in_our_words(&object);
    let place = place.as_ref();
    let pods: Vec<kept::Pod> = pods.into_iter().map(kept::Pod::from).collect();
    Ok(plan::explain(&Situation {
        job: &job,
        kind: kind.name(),
        pods: &pods,
        events: &told,
        gpus,
        has_printed,
        place,
    }))
}

/// The events that concern the job, oldest first.
fn told(object: &DynamicObject, events: &[k8s_openapi::api::core::v1::Event]) -> Vec<Told> {
    let mut views: Vec<describe::EventView> =
        events.iter().filter(|event| describe::concerns(event, object)).map(describe::event_view).collect();
    views.sort_by_key(|event| event.at);
    let told = |event: describe::EventView| Told {
        pod: event.object.strip_prefix("pod/").map(str::to_owned),
        reason: event.reason,
        message: event.message,
    };
    views.into_iter().map(told).collect()
}

fn is_short_of_gpus(pods: &[Pod]) -> bool {
    let conditions = pods.iter().filter_map(|pod| pod.status.as_ref()?.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| {
        plan::reports_too_few_gpus(&condition.type_, &condition.status, condition.message.as_deref())
    })
}

/// Counts the GPUs that the job's pods request, and those that are free or held by its own pods. `None` if the caller
/// may not list nodes or other users' pods.
async fn count_gpus(client: &Client, pods: &[Pod]) -> Option<Gpus> {
    let requested = pods.iter().filter_map(|pod| pod.spec.as_ref()).map(plan::gpus_of).sum();
    let own = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref());
    Some(paging::capacity(client).await?.gpus(requested, own))
}

/// Whether the Launcher has printed anything; `None` if it does not run or its log may not be read.
async fn has_printed(client: &Client, namespace: &str, pods: &[Pod]) -> Option<bool> {
    let launcher = pods.iter().filter(|pod| {
        pod.labels().get(api::LABEL_JOB_ROLE).is_some_and(|role| role == "launcher") && describe::started(pod)
    });
    let launcher = launcher.max_by_key(|pod| pod.creation_timestamp())?;
    let container = launcher.spec.as_ref()?.containers.first()?.name.clone();
    let last = LogParams { container: Some(container), tail_lines: Some(1), ..LogParams::default() };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let printed = pods.logs(&launcher.name_any(), &last).await.ok()?;
    Some(!printed.trim().is_empty())
}

//! Explains the state of a job, read from the cluster: what it waits for, on what evidence, who must act, since when.
//!
//! The input is a client and a name, the output `plan`'s [`Explanation`], which every interface shows unchanged. Pods,
//! events and GPUs are read if the caller may; what may not be read is missing from the evidence. Of a job's logs,
//! only the end of one pod's is read, however many Workers there are.

use api::{MPIJob, Phase, WORKER};
use diagnosis::Gpus;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, LogParams};
use kube::{Client, ResourceExt};
use plan::{Explanation, QueuePlace, Situation, Stage, Step, Told, kept};

use crate::describe::Children;
use crate::last_lines::{MOST_LINES, last_lines, read, recorded_failure};
use crate::part::is_launcher;
use crate::{Error, Kind, describe, list, queue, runtime, view};

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
    let (children, place) =
        futures::join!(Children::read(client, &object), queue::place(client, namespace, &object));
    let has_printed = has_printed(client, namespace, &children.pods).await;
    let Explained { explanation: mut found, crash_log, .. } =
        explained(client, &object, &children, place.as_ref(), has_printed).await;
    if found.state == Stage::Retrying && crash_log.is_some() {
        found.last_lines = diagnosis::last_words(&crash_log.unwrap_or_default(), None, MOST_LINES);
    } else if found.state.is_failure() || matches!(found.state, Stage::Stalled | Stage::Retrying) {
        found.last_lines = last_lines(client, &object, &children.pods, MOST_LINES).await;
    }
    Ok(found)
}

/// A job's state, explained.
pub(crate) struct Explained {
    /// What it waits for, or how it ended, without the last lines of its output.
    pub(crate) explanation: Explanation,
    /// Its steps, in order.
    pub(crate) steps: Vec<Step>,
    /// The end of the log of the run that failed, if a container is started again.
    pub(crate) crash_log: Option<String>,
}

/// Explains the state of a job from what was read; what neither the job nor its pods say is read. `has_printed` says whether
/// the Launcher has printed anything, if known.
pub(crate) async fn explained(
    client: &Client,
    object: &DynamicObject,
    children: &Children,
    place: Option<&QueuePlace>,
    has_printed: Option<bool>,
) -> Explained {
    let mut job = view::in_our_words(object);
    if Kind::of(object) == Kind::TrainJob {
        complete(client, object, &mut job).await;
    }
    let pods: Vec<kept::Pod> = children.pods.iter().cloned().map(kept::Pod::from).collect();
    let crash_log = crash_log(client, object, &children.pods, &pods).await;
    let situation = Situation {
        job: &job,
        kind: Kind::of(object).name(),
        pods: &pods,
        events: &told(object, &children.events),
        gpus: gpus(client, &job, &children.pods).await,
        has_printed,
        unmapped_images: &describe::unmapped_images(&children.pods),
        crash_log: crash_log.as_deref(),
        place,
    };
    let explanation = plan::explain(&situation);
    let steps = plan::steps(&situation, &explanation);
    Explained { explanation, steps, crash_log }
}

/// Adds to a TrainJob in our words what it keeps elsewhere: the number of its nodes in the runtime, the failure in the record
/// of the attempt.
async fn complete(client: &Client, object: &DynamicObject, job: &mut MPIJob) {
    let (runtime, record) = futures::join!(runtime::used(client, object), recorded_failure(client, object));
    if let (Some(runtime), Some(worker)) = (runtime, job.spec.mpi_replica_specs.get_mut(WORKER)) {
        let nodes = object.data.pointer("/spec/trainer/numNodes").and_then(|nodes| nodes.as_i64());
        let nodes = nodes.and_then(|nodes| i32::try_from(nodes).ok()).or(runtime.nodes).unwrap_or(1);
        // The Launcher is one of them, but there is at least one more.
        worker.replicas = Some(if runtime.launcher_is_node { (nodes - 1).max(1) } else { nodes });
    }
    let status = job.status.get_or_insert_default();
    if let (Some(Phase::Failed), Some(failure)) = (status.phase, record) {
        status.failure = Some(failure);
    }
}

/// The end of the log of the run that failed, if a container of a pod is started again.
async fn crash_log(
    client: &Client,
    object: &DynamicObject,
    pods: &[Pod],
    kept: &[kept::Pod],
) -> Option<String> {
    let (crashing, run) = plan::crashing(&object.name_any(), kept)?;
    let pod = pods.iter().find(|pod| pod.metadata.name == crashing.metadata.name)?;
    read(client, &object.namespace().unwrap_or_default(), pod, run.container, run.previous).await
}

/// The GPUs that the job lacks: as its operator counted them, or else counted here, if the caller may.
async fn gpus(client: &Client, job: &MPIJob, pods: &[Pod]) -> Option<Gpus> {
    if !is_short_of_gpus(pods) {
        return None;
    }
    let waiting = job.status.as_ref().and_then(|status| status.waiting.as_ref());
    match waiting.and_then(|waiting| waiting.gpus) {
        Some(api::GpuCounts { requested, available }) => Some(Gpus {
            requested: u64::try_from(requested).ok()?,
            available: u64::try_from(available).ok()?,
        }),
        None => count_gpus(client, pods).await,
    }
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
    let launcher = pods.iter().filter(|pod| is_launcher(pod) && describe::started(pod));
    let launcher = launcher.max_by_key(|pod| pod.creation_timestamp())?;
    let container = semantics::main_container(launcher)?.name.clone();
    let last = LogParams { container: Some(container), tail_lines: Some(1), ..LogParams::default() };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let printed = pods.logs(&launcher.name_any(), &last).await.ok()?;
    Some(!printed.trim().is_empty())
}

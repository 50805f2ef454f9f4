//! Everything about one job that a user needs to find out why it misbehaves: the job, its pods, its events.
//!
//! The input is a client and a name, the output a [`Description`] of plain values. Pods and events are read
//! concurrently; a caller who may not read them still gets the job, and `unread` lists what is missing.

use std::collections::BTreeSet;

use api::{MPIJobSpec, MPIJobStatus};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use plan::Explanation;
use semantics::local_images::ID_OF_THE_MACHINE;
use semantics::local_nodes::{ANNOTATION_NODE_MODE, IMAGE_OF_THE_MACHINE};
use semantics::{Wait, has_ended, is_deleted, is_ready, summary};

use crate::alike::{Alike, alike, without_names};
use crate::part::{index, role};
use crate::view::{self, Row};
use crate::{Attempt, Error, Kind, list};

/// A namespace with more pages of events than this counts as busy: its events are read per object.
const FEW_PAGES: usize = 4;
/// In a busy namespace, the maximum number of pods whose events are read, and the maximum pages per object.
const MOST_PODS: usize = 30;
const PAGES_OF_OBJECT: usize = 2;
/// The number of event lists requested concurrently.
const AT_ONCE: usize = 8;
/// The maximum number of events kept after grouping, the newest.
const MAX_EVENTS: usize = 10;
/// With more pods than this, pods in the same state are grouped.
const MAX_PODS: usize = 24;

/// Everything known about a job.
#[derive(Clone, Debug)]
pub struct Description {
    /// The job as the server returned it.
    pub object: DynamicObject,
    /// Its row in a list.
    pub row: Row,
    /// Its spec, typed.
    pub spec: MPIJobSpec,
    /// Its status, typed.
    pub status: MPIJobStatus,
    /// Its pods: the Launcher's first, then Workers by index.
    pub pods: Vec<PodView>,
    /// The events of the job and its pods, oldest first; equal events of several pods are grouped.
    pub events: Vec<Alike<EventView>>,
    /// The number of earlier events.
    pub earlier_events: usize,
    /// The last lines of the rank or the Launcher that failed or hangs, the oldest first.
    pub last_lines: Vec<String>,
    /// What may be wrong with the job although it runs or succeeded, one sentence each.
    pub warnings: Vec<String>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// A pod in the form shown to people.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// The pod's name.
    pub name: String,
    /// `launcher`, `worker`, or the name of another replicated job of a TrainJob.
    pub role: String,
    /// The number of a Worker.
    pub index: Option<i32>,
    /// kubectl's STATUS: `Running`, `Completed`, `Init:0/1`, `Unschedulable`, …
    pub state: String,
    /// What it waits for, if it waits.
    pub waits_for: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// The GPUs that it requests, of any vendor.
    pub gpus: u64,
    /// Its node.
    pub node: Option<String>,
    /// How the embedded cluster isolates it: `rootless`, `root`, `plain`; `None` on other clusters.
    pub mode: Option<String>,
    /// The number of restarts of its containers.
    pub restarts: i32,
    /// The exit code of its first container, once it has ended.
    pub exit_code: Option<i32>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// An event in the form shown to people.
#[derive(Clone, Debug, PartialEq)]
pub struct EventView {
    /// When it last occurred.
    pub at: Option<Timestamp>,
    /// `Normal` or `Warning`.
    pub kind: String,
    /// The reason, one CamelCase word.
    pub reason: String,
    /// What it is about, as `pod/NAME`.
    pub object: String,
    /// What happened.
    pub message: String,
    /// The number of occurrences.
    pub count: i32,
}

impl Description {
    /// Returns the pods that wait for something; those that wait for the same are grouped.
    pub fn waiting(&self) -> Vec<Alike<&PodView>> {
        alike(self.pods.iter().filter(|pod| pod.waits_for.is_some()), |pod| {
            without_names(pod.waits_for.as_deref().unwrap_or_default(), &pod.name, pod.node.as_deref())
        })
    }

    /// Gives the failure the advice of the explanation, which takes the events into account, too: the embedded cluster may
    /// have had no local environment for the image.
    pub(crate) fn advise(&mut self, explanation: &Explanation) {
        if let (Some(failure), Some(advice)) = (&mut self.status.failure, &explanation.advice)
            && explanation.state.is_failure()
        {
            failure.suggestion = Some(advice.text.clone());
        }
    }

    /// Returns the pods; if there are too many to read, those in the same state are grouped.
    pub fn pods_by_state(&self) -> Vec<Alike<&PodView>> {
        let fold = self.pods.len() > MAX_PODS;
        alike(&self.pods, |pod| {
            let name = if fold { pod.role.as_str() } else { pod.name.as_str() };
            (name, &pod.state, pod.ready, pod.exit_code, pod.restarts, &pod.mode)
        })
    }
}

/// What was read of a job's pods and events.
pub(crate) struct Children {
    /// Its pods.
    pub(crate) pods: Vec<Pod>,
    /// Events that include those of the job and its pods.
    pub(crate) events: Vec<Event>,
    /// What could not be read, and why.
    unread: Vec<String>,
}

impl Children {
    /// Reads them. What the caller may not read is noted.
    pub(crate) async fn read(client: &Client, job: &DynamicObject) -> Self {
        let (pods, events) = pods_and_events(client, job).await;
        let mut unread = Vec::new();
        unread.extend(pods.as_ref().err().map(|error| format!("pods: {error}")));
        unread.extend(events.as_ref().err().map(|error| format!("events: {error}")));
        Self { pods: pods.unwrap_or_default(), events: events.unwrap_or_default(), unread }
    }
}

/// Describes a job from what was read, without the last lines of its output.
pub(crate) async fn described(client: &Client, object: DynamicObject, children: &Children) -> Description {
    let Children { pods, events, unread } = children;
    let mut found = assemble(object, pods, events, unread.clone());
    list::fill_in_nodes(client, std::slice::from_mut(&mut found.row)).await;
    found
}

/// Assembles the description of what was read. Pure.
pub fn assemble(object: DynamicObject, pods: &[Pod], events: &[Event], unread: Vec<String>) -> Description {
    let mut views: Vec<PodView> = pods.iter().map(pod_view).collect();
    views.sort_by(|a, b| {
        (&a.role, a.index, &a.created, &a.name).cmp(&(&b.role, b.index, &b.created, &b.name))
    });
    let mut told: Vec<EventView> =
        events.iter().filter(|event| concerns(event, &object)).map(event_view).collect();
    told.sort_by_key(|event| event.at);
    let mut told = alike(told, |event| {
        let pod = event.object.strip_prefix("pod/").unwrap_or_default();
        let node = views.iter().find(|view| view.name == pod).and_then(|view| view.node.as_deref());
        let about = if pod.is_empty() { event.object.clone() } else { "pod".to_owned() };
        (about, event.kind.clone(), event.reason.clone(), without_names(&event.message, pod, node))
    });
    let kept = told.split_off(told.len().saturating_sub(MAX_EVENTS));
    Description {
        row: view::row(&object),
        spec: view::spec(&object),
        status: view::status(&object),
        pods: views,
        events: kept,
        last_lines: Vec::new(),
        warnings: unmapped_images(pods).iter().map(|image| of_unmapped(image)).collect(),
        earlier_events: told.iter().map(|event| event.others + 1).sum(),
        unread,
        object,
    }
}

/// Returns the images of containers that ran the machine's own programs, because the embedded cluster had no local
/// environment for them. The image by whose name a job asks for those programs is not among them.
pub(crate) fn unmapped_images(pods: &[Pod]) -> Vec<String> {
    let unmapped = |status: &&ContainerStatus| {
        status.image_id == ID_OF_THE_MACHINE && status.image != IMAGE_OF_THE_MACHINE
    };
    let all = pods
        .iter()
        .filter_map(|pod| pod.status.as_ref())
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten());
    let images: BTreeSet<&String> = all.filter(unmapped).map(|status| &status.image).collect();
    images.into_iter().cloned().collect()
}

/// The warning about an image that the embedded cluster does not know.
fn of_unmapped(image: &str) -> String {
    format!(
        "The image \"{image}\" is not mapped to a local environment, so this machine's own programs run in its place. Map it to \
         an environment that has what the job needs, or use the image \"{IMAGE_OF_THE_MACHINE}\" if those programs are wanted"
    )
}

/// Returns the job's pods.
///
/// # Errors
/// The server's refusal, explained.
pub async fn pods(client: &Client, kind: Kind, namespace: &str, job: &str) -> Result<Vec<Pod>, Error> {
    let attempt = Attempt { verb: "list", what: "pods", name: job, namespace };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default().labels(&kind.pod_selector(job))).await;
    found.map(|list| list.items).map_err(|error| Error::from_kube(error, attempt))
}

/// Reads the job's pods, and events that include the job's: all of the namespace if they are few, else those of the
/// job, its Launcher's Job and its pods.
pub(crate) async fn pods_and_events(
    client: &Client,
    job: &DynamicObject,
) -> (Result<Vec<Pod>, Error>, Result<Vec<Event>, Error>) {
    let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let mut found = Vec::new();
    let (pods, all_read) = futures::join!(
        pods(client, Kind::of(job), &namespace, &name),
        paging::each(&api, ListParams::default(), FEW_PAGES, |events| found.extend(events)),
    );
    let events = match all_read {
        Ok(true) => Ok(found),
        Ok(false) => events_of(&api, job, pods.as_deref().unwrap_or_default()).await,
        Err(error) => Err(error),
    };
    let attempt = Attempt { verb: "list", what: "events", name: "", namespace: &namespace };
    (pods, events.map_err(|error| Error::from_kube(error, attempt)))
}

/// Reads the events of a job object by object.
async fn events_of(api: &Api<Event>, job: &DynamicObject, pods: &[Pod]) -> Result<Vec<Event>, kube::Error> {
    let about: Vec<String> = objects_of(job, pods)
        .into_iter()
        .map(|(kind, name)| format!("involvedObject.kind={kind},involvedObject.name={name}"))
        .collect();
    let objects = futures::stream::iter(about).map(|about| async move {
        let mut found = Vec::new();
        paging::each(api, ListParams::default().fields(&about), PAGES_OF_OBJECT, |events| {
            found.extend(events)
        })
        .await?;
        Ok::<_, kube::Error>(found)
    });
    let found: Vec<Vec<Event>> = objects.buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// The objects whose events belong to a job, by kind and name: the job and its Launcher's Job, then at most
/// [`MOST_PODS`] of its pods, those that are not ready first. Missing Workers come after existing ones.
fn objects_of(job: &DynamicObject, pods: &[Pod]) -> Vec<(&'static str, String)> {
    let (kind, name) = (Kind::of(job), job.name_any());
    let mut pods: Vec<&Pod> = pods.iter().collect();
    pods.sort_by_key(is_ready);
    let mut names: Vec<String> = pods.into_iter().map(ResourceExt::name_any).collect();
    if kind == Kind::MpiJob {
        let there: BTreeSet<String> = names.iter().cloned().collect();
        let wanted = usize::try_from(kind.workers(job)).unwrap_or(0);
        let workers = (0..wanted).map(|index| plan::worker_name(&name, index));
        names.extend(workers.filter(|worker| !there.contains(worker)).take(MOST_PODS));
    }
    let pods = names.into_iter().take(MOST_PODS).map(|name| ("Pod", name));
    let launcher = kind.launcher(&name).map(|launcher| ("Job", launcher));
    [(kind.name(), name.clone())].into_iter().chain(launcher).chain(pods).collect()
}

/// Whether an event is about the job or an object created for it, and not about an earlier job of the same name.
pub fn concerns(event: &Event, job: &DynamicObject) -> bool {
    let about = &event.involved_object;
    let name = about.name.as_deref().unwrap_or("");
    let job_name = job.metadata.name.as_deref().unwrap_or("");
    let born = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let in_time = match (event_time(event), born) {
        (Some(at), Some(born)) => at.as_second() >= born.as_second(),
        _ => true,
    };
    let rest = name.strip_prefix(job_name);
    // A failed job's Launcher is stopped by suspending its Job, which says nothing about the job itself.
    let is_detail = about.kind.as_deref() == Some("Job")
        && event.reason.as_deref() == Some("Suspended")
        && !Kind::of(job).suspended(job);
    in_time
        && !is_detail
        && match about.kind.as_deref() {
            Some(kind) if kind == Kind::of(job).name() => {
                name == job_name && (about.uid.is_none() || about.uid == job.metadata.uid)
            }
            Some("Pod") => rest.is_some_and(|rest| Kind::of(job).makes_pod(rest)),
            Some("Job") => rest.is_some_and(|rest| Kind::of(job).makes_job(rest)),
            _ => false,
        }
}

/// When an event last occurred, by the first of its four times that is set.
fn event_time(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let micro = event.event_time.as_ref().map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.or(last).or(micro).or(created)
}

/// A reason or a message without the slash or the colon that MPI Operator puts before a part which is then empty:
/// `BackoffLimitExceeded/`, `Job has reached the specified backoff limit: `.
pub fn without_empty_part(text: Option<&str>) -> &str {
    text.unwrap_or_default().trim().trim_end_matches(['/', ':'])
}

/// Converts an event into the form shown to people.
pub fn event_view(event: &Event) -> EventView {
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or("").to_lowercase();
    let series = event.series.as_ref().and_then(|series| series.count);
    EventView {
        at: event_time(event),
        kind: event.type_.clone().unwrap_or_else(|| "Normal".to_owned()),
        reason: without_empty_part(event.reason.as_deref()).to_owned(),
        object: format!("{kind}/{}", about.name.as_deref().unwrap_or("")),
        message: without_empty_part(event.message.as_deref()).to_owned(),
        count: series.or(event.count).unwrap_or(1),
    }
}

/// Converts a pod into the form shown to people.
pub fn pod_view(pod: &Pod) -> PodView {
    let statuses = container_statuses(pod);
    let ended = statuses.first().and_then(|status| status.state.as_ref()?.terminated.as_ref());
    let summary = summary(pod);
    let restarts = i32::try_from(summary.restarts).unwrap_or(i32::MAX);
    PodView {
        name: pod.name_any(),
        role: role(pod.labels()).to_owned(),
        index: index(pod),
        state: state_word(pod, summary.status),
        waits_for: waits_for(pod),
        ready: is_ready(pod),
        gpus: pod.spec.as_ref().map_or(0, plan::gpus_of),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        mode: pod.annotations().get(ANNOTATION_NODE_MODE).cloned(),
        restarts,
        exit_code: ended.map(|ended| ended.exit_code),
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
    }
}

fn container_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

/// Whether the first container has started, so that there is a log to read.
pub fn started(pod: &Pod) -> bool {
    container_statuses(pod)
        .first()
        .and_then(|status| status.state.as_ref())
        .is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        || container_statuses(pod).first().is_some_and(|status| status.restart_count > 0)
}

/// kubectl's STATUS, except that a pod which no node can take is `Unschedulable`.
fn state_word(pod: &Pod, kubectl: String) -> String {
    let is_refused = kubectl == "Pending" && unschedulable(pod).is_some();
    if is_refused { "Unschedulable".to_owned() } else { kubectl }
}

/// Why no node can take the pod, as the scheduler says; `None` if the pod does not wait for one that can.
pub fn unschedulable(pod: &Pod) -> Option<&str> {
    match wait_of(pod) {
        Some(Wait::FittingNode(why)) if !is_deleted(pod) => Some(why),
        _ => None,
    }
}

/// What a pod that is not running yet waits for, as the second half of a sentence; `None` if it runs or has ended.
pub fn waits_for(pod: &Pod) -> Option<String> {
    wait_of(pod).map(|wait| wait.to_string())
}

fn wait_of(pod: &Pod) -> Option<Wait<'_>> {
    (!started(pod) && !has_ended(pod)).then(|| semantics::waits_for(pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::LABEL_JOB_ROLE;
    use serde_json::json;

    fn pod(status: serde_json::Value, node: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "pi-worker-3", "labels": {LABEL_JOB_ROLE: "worker"}},
            "spec": {"nodeName": node, "containers": [], "initContainers": [{"name": "w"}]}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn an_empty_part_of_upstreams_words_is_not_shown() {
        let event = json!({"metadata": {}, "involvedObject": {"kind": "MPIJob", "name": "pi"},
            "reason": "BackoffLimitExceeded/", "message": "Job has reached the specified backoff limit: "});
        let view = event_view(&serde_json::from_value(event).unwrap());
        assert_eq!(
            (view.reason.as_str(), view.message.as_str()),
            ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        );
    }

    #[test]
    fn images_whose_place_the_machines_own_programs_took_are_warned_of_once() {
        let ran = |image: &str, image_id: &str| {
            json!({"name": "w", "image": image, "imageID": image_id, "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0}}})
        };
        let with = |init: serde_json::Value, main: serde_json::Value| {
            pod(
                json!({"phase": "Succeeded", "initContainerStatuses": [init], "containerStatuses": [main]}),
                Some("n"),
            )
        };
        let pods = [
            with(ran("train:1", ID_OF_THE_MACHINE), ran("mapped", "local:/opt/env")),
            with(ran("local", ID_OF_THE_MACHINE), ran("train:1", ID_OF_THE_MACHINE)),
            with(ran("never-started", ""), ran("pulled", "quay.io/pulled@sha256:0")),
        ];
        assert_eq!(unmapped_images(&pods), ["train:1"]);
        let job = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi"}, "spec": {"mpiReplicaSpecs": {}}}))
        .unwrap();
        let warnings = assemble(job, &pods, &[], Vec::new()).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("The image \"train:1\" is not mapped"), "{warnings:?}");
    }

    #[test]
    fn pods_say_how_they_are_and_what_they_wait_for() {
        let waiting = |reason: &str, message: &str| {
            json!({"name": "w", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}})
        };
        let ended = |code: i32, reason: &str| {
            json!({"name": "w", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason}}})
        };
        let unschedulable = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]});
        let table = [
            (
                pod(unschedulable, None),
                "Unschedulable",
                Some("a node that can take it: 0/1 nodes are available: 1 Insufficient cpu."),
            ),
            (pod(json!({"phase": "Pending"}), None), "Pending", Some("a node to be chosen")),
            (
                pod(
                    json!({"phase": "Pending", "containerStatuses": [waiting("ErrImagePull", "no such image")]}),
                    Some("n"),
                ),
                "ErrImagePull",
                Some("container w: ErrImagePull: no such image"),
            ),
            (
                pod(
                    json!({"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing", "")]}),
                    Some("n"),
                ),
                "Init:0/1",
                Some("init container w"),
            ),
            (
                pod(json!({"phase": "Failed", "containerStatuses": [ended(137, "OOMKilled")]}), Some("n")),
                "OOMKilled",
                None,
            ),
            (
                pod(json!({"phase": "Failed", "containerStatuses": [ended(3, "")]}), Some("n")),
                "ExitCode:3",
                None,
            ),
        ];
        for (pod, state, waits) in table {
            let view = pod_view(&pod);
            assert_eq!((view.state.as_str(), view.waits_for.as_deref()), (state, waits));
            assert_eq!(view.index, Some(3));
        }
    }

    #[test]
    fn a_pod_with_scheduling_gates_says_which() {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
        let mut gated = pod(json!({"phase": "Pending", "conditions": [condition]}), None);
        gated.spec.as_mut().unwrap().scheduling_gates =
            serde_json::from_value(json!([{"name": "kueue.x-k8s.io/topology"}])).unwrap();
        let view = pod_view(&gated);
        assert_eq!(view.state, "SchedulingGated");
        assert_eq!(
            view.waits_for.as_deref(),
            Some("its scheduling gates to be removed: kueue.x-k8s.io/topology")
        );
    }

    #[test]
    fn events_of_another_job_or_of_an_older_one_are_left_out() {
        let job: DynamicObject = serde_json::from_value(json!({"apiVersion": "v", "kind": "MPIJob",
            "metadata": {"name": "pi", "uid": "u2", "creationTimestamp": "2026-01-01T00:00:10Z"}}))
        .unwrap();
        let event = |kind: &str, name: &str, uid: &str, at: &str| -> Event {
            serde_json::from_value(json!({"metadata": {}, "lastTimestamp": at,
                "involvedObject": {"kind": kind, "name": name, "uid": uid}}))
            .unwrap()
        };
        let late = "2026-01-01T00:00:20Z";
        assert!(concerns(&event("MPIJob", "pi", "u2", late), &job));
        assert!(!concerns(&event("MPIJob", "pi", "u1", late), &job));
        assert!(concerns(&event("Pod", "pi-worker-0", "x", late), &job));
        assert!(concerns(&event("Pod", "pi-launcher-x7k2p", "x", late), &job));
        assert!(!concerns(&event("Pod", "pi-worker-0", "x", "2026-01-01T00:00:09Z"), &job));
        assert!(!concerns(&event("Pod", "pi2-worker-0", "x", late), &job));
        assert!(concerns(&event("Job", "pi-launcher", "x", late), &job));
    }

    #[test]
    fn equal_states_of_many_pods_are_shown_once() {
        let job = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team"}, "spec": {"mpiReplicaSpecs": {}}}))
        .unwrap();
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "w", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {}}}]});
        let pods: Vec<Pod> = (0..100)
            .map(|index| {
                let waits = index >= 97;
                let mut pod = pod(
                    if waits { json!({"phase": "Pending"}) } else { running.clone() },
                    (!waits).then(|| format!("node-{index}")).as_deref(),
                );
                pod.metadata.name = Some(format!("pi-worker-{index}"));
                pod
            })
            .collect();
        let event = |kind: &str, name: &str, reason: &str, message: String| -> Event {
            serde_json::from_value(json!({"metadata": {}, "reason": reason, "message": message,
                "involvedObject": {"kind": kind, "name": name}}))
            .unwrap()
        };
        let mut events: Vec<Event> = (0..97)
            .map(|index| {
                let message = format!("Successfully assigned team/pi-worker-{index} to node-{index}");
                event("Pod", &format!("pi-worker-{index}"), "Scheduled", message)
            })
            .collect();
        events.extend((0..30).map(|number| event("MPIJob", "pi", "Told", format!("news {number}"))));
        let found = assemble(job, &pods, &events, Vec::new());

        let shown = |groups: Vec<Alike<&PodView>>| -> Vec<String> {
            groups.iter().map(|group| group.name(&group.first.name)).collect()
        };
        assert_eq!(shown(found.pods_by_state()), ["pi-worker-0 and 96 more", "pi-worker-97 and 2 more"]);
        assert_eq!(shown(found.waiting()), ["pi-worker-97 and 2 more"]);
        assert_eq!(found.events.len(), MAX_EVENTS);
        assert_eq!(found.earlier_events, 97 + 30 - MAX_EVENTS);
    }
}

//! The progress of a job as a stream of values: accepted, queued, scheduled, Workers ready, Launcher running, ended.
//!
//! Watches the job, its pods and its Warning events, and converts changes into the [`Progress`] that a user wants to
//! see. The conversion is pure ([`tell`]). Memory is bounded: only the last state of the job's own objects is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::time::{Duration, Instant};

use api::{Failure, Phase};
use diagnosis::{Cause, no_node_can_take};
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};

use crate::describe::{self, EventView, PodView};
use crate::part::is_launcher;
use crate::view::{self, Row};
use crate::{Attempt, Error, Kind, list};

/// The maximum number of consecutive failures of the watch.
const MAX_BREAKS: u32 = 20;
/// The maximum before the server has answered once: the watches of the job and of its pods may each fail once.
const FIRST_BREAKS: u32 = 2;
/// A job that has not started and of which nothing was reported for this long: what it is at is reported.
pub(crate) const QUIET: Duration = Duration::from_secs(3);
/// The maximum number of warnings reported; a pod that cannot start repeats its warnings forever.
const MAX_WARNINGS: usize = 50;

/// After this time, waiting for a job ends whose pods the API server has refused all along: it goes on only if somebody
/// changes the job or a policy of the cluster.
const REFUSED_FOR: Duration = Duration::from_secs(120);

/// One step of progress, in order of occurrence.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The job exists in the cluster.
    Accepted,
    /// The job waits for a queue, a resume, a node or similar.
    Waiting {
        /// One CamelCase word: `Queued`, `Suspended`, `Unschedulable`, `Restarting`.
        reason: String,
        /// What it waits for, as text.
        detail: String,
    },
    /// Some of its pods are scheduled.
    Scheduled {
        /// Pods with a node.
        pods: usize,
        /// The number of pods expected.
        of: usize,
    },
    /// Some of its Workers are ready.
    WorkersReady {
        /// The number of ready Workers.
        ready: i32,
        /// The number of Workers requested.
        of: i32,
    },
    /// The Launcher's container runs.
    LauncherRunning {
        /// Its pod.
        pod: String,
    },
    /// An event that may matter.
    Warning(EventView),
    /// The job has ended; its state is final.
    Ended(Outcome),
}

/// How the job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The job succeeded, with exit code 0.
    Succeeded,
    /// The job failed.
    Failed(Failure),
    /// It was deleted.
    Deleted,
}

/// The observed state of the job's objects.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The job, once observed.
    pub job: Option<DynamicObject>,
    /// Whether it was observed and then deleted.
    pub gone: bool,
    /// Its pods by name.
    pub pods: BTreeMap<String, Pod>,
}

/// What was already reported.
#[derive(Clone, Debug, Default)]
pub struct Told {
    accepted: bool,
    waiting: Option<(String, String)>,
    quiet: Option<(String, String)>,
    scheduled: usize,
    ready: Option<i32>,
    launcher: Option<String>,
    attempt: u32,
    ended: bool,
    warnings: BTreeSet<(String, String, String)>,
    /// Since when the API server has refused the job's pods.
    refused: Option<Instant>,
}

/// Returns the progress since the last call.
pub fn tell(told: &mut Told, seen: &Seen) -> Vec<Progress> {
    let mut news = Vec::new();
    if told.ended {
        return news;
    }
    if seen.gone {
        told.ended = true;
        return vec![Progress::Ended(Outcome::Deleted)];
    }
    let Some(job) = &seen.job else { return news };
    if !told.accepted {
        told.accepted = true;
        news.push(Progress::Accepted);
    }
    let row = view::row(job);
    tell_waiting(told, seen, &row, &mut news);
    tell_pods(told, seen, &row, &mut news);
    if row.has_ended() {
        told.ended = true;
        news.push(Progress::Ended(outcome(job)));
    }
    news
}

/// Returns why the API server refuses the job's pods, once it has done so for [`REFUSED_FOR`].
fn refused(told: &mut Told, seen: &Seen, now: Instant) -> Option<Error> {
    let waiting = seen.job.as_ref().and_then(|job| Some((job, view::status(job).waiting?)));
    let Some((job, waiting)) =
        waiting.filter(|(_, waiting)| waiting.reason == Cause::AdmissionRefused.word())
    else {
        told.refused = None;
        return None;
    };
    let since = *told.refused.get_or_insert(now);
    (now.duration_since(since) >= REFUSED_FOR).then(|| Error::PodsRefused {
        kind: Kind::of(job),
        name: job.name_any(),
        message: waiting.message,
        suggestion: waiting.suggestion,
    })
}

fn tell_waiting(told: &mut Told, seen: &Seen, row: &Row, news: &mut Vec<Progress>) {
    let waiting = seen.job.as_ref().and_then(|job| waiting(job, &seen.pods, row));
    // The operator reports a cause by an event, too.
    let is_told = |detail: &str| told.warnings.iter().any(|(_, _, message)| message == detail);
    if let Some((reason, detail)) = &waiting
        && told.waiting != waiting
        && !is_told(detail)
    {
        news.push(Progress::Waiting { reason: reason.clone(), detail: detail.clone() });
    }
    told.waiting = waiting;
}

/// What a job of which nothing was reported for a while is at, unless that was reported before.
fn tell_quiet(told: &mut Told, seen: &Seen) -> Option<Progress> {
    let at = seen.job.as_ref().filter(|_| told.waiting.is_none()).and_then(|job| standing(job, &seen.pods));
    if at.is_none() || told.quiet == at {
        return None;
    }
    told.quiet.clone_from(&at);
    at.map(|(reason, detail)| Progress::Waiting { reason, detail })
}

/// What a job that has not started is at, if nothing is known that hinders it: a reason, and what is waited for.
pub(crate) fn standing(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> Option<(String, String)> {
    let row = view::row(job);
    if row.phase != Phase::Pending {
        return None;
    }
    let reason = row.phase_reason.unwrap_or_else(|| view::phase_name(row.phase).to_owned());
    let waits = pods
        .values()
        .find_map(|pod| Some(format!("{} waits for {}", pod.name_any(), describe::waits_for(pod)?)));
    let detail = match waits {
        Some(waits) => waits,
        None if pods.is_empty() => "its pods are not created yet".to_owned(),
        None => "its Workers are not ready yet".to_owned(),
    };
    Some((reason, detail))
}

/// What keeps a job from going on, if something does: a reason, and what it waits for.
pub(crate) fn hindrance(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> Option<(String, String)> {
    waiting(job, pods, &view::row(job))
}

fn waiting(job: &DynamicObject, pods: &BTreeMap<String, Pod>, row: &Row) -> Option<(String, String)> {
    if row.phase == Phase::Running {
        return hindered(job, row);
    }
    if row.phase != Phase::Pending {
        return None;
    }
    let said = |detail: &str| row.phase_reason.clone().map(|reason| (reason, detail.to_owned()));
    match row.phase_reason.as_deref() {
        Some("Suspended") => return said(view::SUSPENDED),
        Some(api::PHASE_REASON_RESTARTING) => return said(&restarting(job, pods)),
        _ => {}
    }
    if let Some(leaving) = resuming(job, pods) {
        return said(&leaving);
    }
    let stuck: Vec<&str> = pods.values().filter_map(describe::unschedulable).collect();
    let Some(why) = stuck.first() else {
        // What its operator found out, such as an image that cannot be pulled.
        let reason = row.cause.clone().or_else(|| row.phase_reason.clone());
        return reason.zip(row.message.clone());
    };
    // Without their number: pods are found unschedulable one by one, and each would be news.
    let detail = no_node_can_take("all of its pods", why);
    Some(("Unschedulable".to_owned(), detail))
}

/// Why the gang is restarted, and what the next attempt waits for.
fn restarting(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> String {
    let status = view::status(job);
    let is_restart = |condition: &api::JobCondition| {
        condition.type_ == api::CONDITION_RESTARTING && condition.status == "True"
    };
    let failed = status.conditions.into_iter().find(is_restart).and_then(|condition| condition.message);
    let failed = failed.unwrap_or_else(|| "Its pods are being restarted".to_owned());
    match plan::leaving(pods.values().map(|pod| &pod.metadata)) {
        Some(leaving) => format!("{failed}: {leaving}"),
        None => failed,
    }
}

/// What a resumed job waits for before its Launcher starts.
fn resuming(job: &DynamicObject, pods: &BTreeMap<String, Pod>) -> Option<String> {
    plan::leaving_after_resume(&view::status(job), pods.values().map(|pod| &pod.metadata))
}

/// What keeps a running job from going on: its Launcher is to be started again, or it is stalled. Where to correct it is
/// part of the text.
fn hindered(job: &DynamicObject, row: &Row) -> Option<(String, String)> {
    let status = view::status(job);
    let reason = row.cause.clone()?;
    if let Some(waiting) = status.waiting.filter(|_| status.phase_reason.is_some()) {
        return Some((row.state.to_string(), waiting.message));
    }
    let stalled =
        status.conditions.into_iter().find(|condition| condition.type_ == api::CONDITION_STALLED)?;
    let advice = Cause::of_word(&reason).map(|cause| format!(". {}", cause.texts().suggestion));
    Some((reason, format!("{}{}", stalled.message?, advice.unwrap_or_default())))
}

fn tell_pods(told: &mut Told, seen: &Seen, row: &Row, news: &mut Vec<Progress>) {
    let attempt = seen.job.as_ref().map_or(0, |job| plan::attempt_of(&job.metadata));
    if attempt > told.attempt {
        (told.attempt, told.scheduled, told.ready) = (attempt, 0, None);
    }
    // Only pods of an MPIJob carry the number of their attempt as the job does.
    let former = |pod: &Pod| row.kind == Kind::MpiJob && plan::attempt_of(&pod.metadata) != attempt;
    // Nor do pods count that end, such as those of the run before a suspension.
    let leaves = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let pods: Vec<&Pod> = seen.pods.values().filter(|pod| !former(pod) && !leaves(pod)).collect();
    let placed = |pod: &&&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let scheduled = pods.iter().filter(placed).count();
    if scheduled > told.scheduled && told.ready.is_none_or(|ready| ready < row.workers.of) {
        told.scheduled = scheduled;
        // The Launcher, which may be one of a TrainJob's nodes, and the Workers, even while not all of them exist.
        let launchers = usize::from(row.kind != Kind::TrainJob);
        let wanted = usize::try_from(row.workers.of).unwrap_or(0) + launchers;
        news.push(Progress::Scheduled { pods: scheduled, of: wanted.max(pods.len()) });
    }
    let views = pods.iter().map(|pod| describe::pod_view(pod));
    let is_worker = |pod: &PodView| pod.role == "worker" || (pod.role == "launcher" && pod.index.is_some());
    let ready = views.filter(|pod| is_worker(pod) && pod.ready).count();
    let ready = i32::try_from(ready).unwrap_or(i32::MAX);
    if ready > told.ready.unwrap_or(0) {
        told.ready = Some(ready);
        news.push(Progress::WorkersReady { ready, of: row.workers.of });
    }
    let launcher = pods
        .iter()
        .filter(|pod| is_launcher(pod) && describe::started(pod))
        .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    if let Some(name) = launcher.map(|pod| pod.name_any())
        && told.launcher.as_ref() != Some(&name)
    {
        told.launcher = Some(name.clone());
        news.push(Progress::LauncherRunning { pod: name });
    }
}

/// Returns how a finished job ended.
pub fn outcome(job: &DynamicObject) -> Outcome {
    let row = view::row(job);
    let status = view::status(job);
    if row.phase == Phase::Succeeded {
        return Outcome::Succeeded;
    }
    Outcome::Failed(status.failure.unwrap_or_else(|| {
        let condition = status.conditions.iter().find(|condition| condition.type_ == api::CONDITION_FAILED);
        Failure {
            reason: row.phase_reason.unwrap_or_else(|| "Unknown".to_owned()),
            message: condition.and_then(|condition| condition.message.clone()).unwrap_or_default(),
            ..Failure::default()
        }
    }))
}

/// Reasons of warnings that the job's own status reports with more: its end, a restart, a stall.
const OF_THE_STATUS: [&str; 4] =
    [api::REASON_FAILED, api::REASON_RESTARTING, api::CONDITION_STALLED, api::PHASE_REASON_RETRYING];
/// The beginning of the reason with which the Launcher's Job and upstream's condition report its end.
const OF_THE_END: &str = "BackoffLimitExceeded";
/// The reason of a warning that repeats the condition of a pod.
const OF_A_CONDITION: &str = "FailedScheduling";
/// Reasons of warnings about pods that have not started.
const OF_A_START: [&str; 5] =
    ["FailedScheduling", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Failed"];

fn warn(told: &mut Told, seen: &Seen, event: &Event) -> Option<Progress> {
    let job = seen.job.as_ref()?;
    let view = describe::event_view(event);
    let key = (view.object.clone(), view.reason.clone(), without_pod(&view.message));
    let pod = view.object.strip_prefix("pod/").and_then(|name| seen.pods.get(name));
    let told_by_status = OF_THE_STATUS.contains(&view.reason.as_str())
        || view.reason.starts_with(OF_THE_END)
        || plan::trainjob::ENDINGS.contains(&view.reason.as_str())
        || told.waiting.as_ref().is_some_and(|(_, detail)| *detail == view.message)
        || pod.is_some() && view.reason == OF_A_CONDITION;
    // What kept a pod from starting is history once it has started.
    let is_over = pod.is_some_and(describe::started) && OF_A_START.contains(&view.reason.as_str());
    let new = view.kind == "Warning"
        && !told_by_status
        && !is_over
        && describe::concerns(event, job)
        && told.warnings.len() < MAX_WARNINGS
        && told.warnings.insert(key);
    new.then_some(Progress::Warning(view))
}

/// The message of an event without the name of a pod that could not be created: each try has another name.
fn without_pod(message: &str) -> String {
    match message.split_once("pods \"").and_then(|(before, rest)| Some((before, rest.split_once('"')?.1))) {
        Some((before, after)) => format!("{before}pods{after}"),
        None => message.to_owned(),
    }
}

enum Change {
    Job(Option<Box<DynamicObject>>),
    Pod(Box<watcher::Event<Pod>>),
    Event(Box<Event>),
    Broken(watcher::Error),
}

/// A running watch of one job.
pub struct Watch {
    client: Client,
    kind: Kind,
    namespace: String,
    name: String,
    changes: Pin<Box<dyn futures::Stream<Item = Change> + Send>>,
    seen: Seen,
    told: Told,
    pending: VecDeque<Progress>,
    breaks: u32,
    /// Whether the server has answered at all.
    heard: bool,
    pods_listed: bool,
    ends_if_refused: bool,
}

/// Creates a watch of a job; no request is made before [`Watch::next`] is awaited.
pub fn watch(client: &Client, kind: Kind, namespace: &str, name: &str) -> Watch {
    let jobs = job_changes(client, kind, namespace, name);
    let pods = pod_changes(client, kind, namespace, name);
    let events = event_changes(client, namespace);
    Watch {
        client: client.clone(),
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        changes: Box::pin(futures::stream::select(futures::stream::select(jobs, pods), events)),
        seen: Seen::default(),
        told: Told::default(),
        pending: VecDeque::new(),
        breaks: 0,
        heard: false,
        pods_listed: false,
        ends_if_refused: false,
    }
}

fn job_changes(client: &Client, kind: Kind, namespace: &str, name: &str) -> BoxStream<'static, Change> {
    let jobs = kind.api(client, namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut initial = false;
    watcher(jobs, config)
        .default_backoff()
        .filter_map(move |event| {
            let change = match event {
                Ok(watcher::Event::Init) => {
                    initial = false;
                    None
                }
                Ok(watcher::Event::InitApply(job)) => {
                    initial = true;
                    Some(Change::Job(Some(Box::new(job))))
                }
                Ok(watcher::Event::InitDone) => (!initial).then_some(Change::Job(None)),
                Ok(watcher::Event::Apply(job)) => Some(Change::Job(Some(Box::new(job)))),
                Ok(watcher::Event::Delete(_)) => Some(Change::Job(None)),
                Err(error) => Some(Change::Broken(error)),
            };
            futures::future::ready(change)
        })
        .boxed()
}

fn pod_changes(client: &Client, kind: Kind, namespace: &str, name: &str) -> BoxStream<'static, Change> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    watcher(api, watcher::Config::default().labels(&kind.pod_selector(name)))
        .default_backoff()
        .map(|event| match event {
            Ok(event) => Change::Pod(Box::new(event)),
            Err(error) => Change::Broken(error),
        })
        .boxed()
}

/// Ignores errors: a caller who may not read events still gets the rest of the progress.
fn event_changes(client: &Client, namespace: &str) -> BoxStream<'static, Change> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(|event| futures::future::ready(event.ok().map(|event| Change::Event(Box::new(event)))))
        .boxed()
}

impl Watch {
    /// Ends the watch with an error once the API server has refused the job's pods for two minutes.
    #[must_use]
    pub fn ending_if_refused(self) -> Self {
        Self { ends_if_refused: true, ..self }
    }

    /// Waits for the next step of progress; `None` after [`Progress::Ended`].
    ///
    /// # Errors
    /// [`Error::NotFound`] if the job does not exist, [`Error::PodsRefused`] after [`Watch::ending_if_refused`], or the
    /// server's refusal.
    pub async fn next(&mut self) -> Result<Option<Progress>, Error> {
        loop {
            if let Some(progress) = self.pending.pop_front() {
                return Ok(Some(progress));
            }
            if self.told.ended {
                return Ok(None);
            }
            match tokio::time::timeout(QUIET, self.changes.next()).await {
                Ok(Some(change)) => self.take_in(change).await?,
                Ok(None) => return Ok(None),
                Err(_) => self.pending.extend(tell_quiet(&mut self.told, &self.seen)),
            }
            let refused = refused(&mut self.told, &self.seen, Instant::now());
            if let Some(error) = refused.filter(|_| self.ends_if_refused) {
                return Err(error);
            }
        }
    }

    /// Processes one change without reporting it, for callers that read [`Watch::pods`] themselves. Returns `false`
    /// once the job has ended and its pods are known.
    ///
    /// # Errors
    /// As [`Watch::next`].
    pub async fn step(&mut self) -> Result<bool, Error> {
        match self.changes.next().await {
            Some(change) => self.take_in(change).await?,
            None => return Ok(false),
        }
        self.pending.clear();
        Ok(!(self.told.ended && self.pods_listed))
    }

    /// Returns the job as last observed.
    pub fn job(&self) -> Option<&DynamicObject> {
        self.seen.job.as_ref()
    }

    /// Returns the job's pods as last observed.
    pub fn pods(&self) -> &BTreeMap<String, Pod> {
        &self.seen.pods
    }

    async fn take_in(&mut self, change: Change) -> Result<(), Error> {
        match change {
            Change::Broken(error) => return self.broken(error),
            Change::Event(event) => {
                self.pending.extend(warn(&mut self.told, &self.seen, &event));
                return Ok(());
            }
            Change::Job(Some(job)) => {
                let has_ended = view::row(&job).has_ended();
                self.seen.job = Some(*job);
                if has_ended && self.told.launcher.is_none() {
                    self.catch_up().await;
                }
            }
            Change::Job(None) if self.seen.job.is_none() => {
                let kind = Some(self.kind);
                return Err(list::not_found(&self.client, kind, &self.namespace, &self.name).await);
            }
            Change::Job(None) => self.seen.gone = true,
            // The list is about to be requested; the server has not answered yet.
            Change::Pod(event) if matches!(*event, watcher::Event::Init) => {
                take_in_pod(&mut self.seen.pods, *event);
                return Ok(());
            }
            Change::Pod(event) => {
                self.pods_listed |= matches!(*event, watcher::Event::InitDone);
                take_in_pod(&mut self.seen.pods, *event);
            }
        }
        (self.breaks, self.heard) = (0, true);
        self.pending.extend(tell(&mut self.told, &self.seen));
        Ok(())
    }

    /// Lists the pods: their watch may be behind the job's, and a job that has ended so soon has output all the same. Without the
    /// list the job has ended no less.
    async fn catch_up(&mut self) {
        if let Ok(pods) = describe::pods(&self.client, self.kind, &self.namespace, &self.name).await {
            self.seen.pods.extend(pods.into_iter().map(|pod| (pod.name_any(), pod)));
        }
    }

    fn broken(&mut self, error: watcher::Error) -> Result<(), Error> {
        self.breaks += 1;
        let final_refusal = match &error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
                matches!(status.code, 401 | 403 | 404)
            }
            _ => false,
        };
        let most = if self.heard { MAX_BREAKS } else { FIRST_BREAKS };
        if !final_refusal && self.breaks <= most {
            return Ok(());
        }
        let attempt =
            Attempt { verb: "watch", what: self.kind.names(), name: &self.name, namespace: &self.namespace };
        Err(match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Error::from_kube(error, attempt),
            other => Error::BrokenStream { what: "the watch".to_owned(), detail: other.to_string() },
        })
    }
}

fn take_in_pod(pods: &mut BTreeMap<String, Pod>, event: watcher::Event<Pod>) {
    match event {
        watcher::Event::Init => pods.clear(),
        watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
            pods.insert(pod.name_any(), pod);
        }
        watcher::Event::Delete(pod) => {
            pods.remove(&pod.name_any());
        }
        watcher::Event::InitDone => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::LABEL_JOB_ROLE;
    use serde_json::json;

    fn job(status: serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": []}}}}},
            "status": status}))
        .unwrap()
    }

    fn pod(name: &str, role: &str, status: serde_json::Value) -> (String, Pod) {
        let pod = json!({"metadata": {"name": name, "labels": {LABEL_JOB_ROLE: role}},
            "spec": {"containers": [], "nodeName": status.get("phase").map(|_| "node")}, "status": status});
        (name.to_owned(), serde_json::from_value(pod).unwrap())
    }

    fn ready() -> serde_json::Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]})
    }

    #[test]
    fn each_step_of_progress_is_reported_once() {
        let mut told = Told::default();
        let mut seen = Seen {
            job: Some(job(json!({"phase": "Pending", "phaseReason": "Initializing"}))),
            ..Seen::default()
        };
        assert_eq!(tell(&mut told, &seen), [Progress::Accepted]);
        seen.pods.extend([pod("pi-worker-0", "worker", ready()), pod("pi-worker-1", "worker", json!({}))]);
        assert_eq!(
            tell(&mut told, &seen),
            [Progress::Scheduled { pods: 1, of: 3 }, Progress::WorkersReady { ready: 1, of: 2 }]
        );
        assert_eq!(tell(&mut told, &seen), []);
        seen.pods.extend([pod("pi-worker-1", "worker", ready()), pod("pi-launcher-x", "launcher", ready())]);
        assert_eq!(
            tell(&mut told, &seen),
            [
                Progress::Scheduled { pods: 3, of: 3 },
                Progress::WorkersReady { ready: 2, of: 2 },
                Progress::LauncherRunning { pod: "pi-launcher-x".into() }
            ]
        );
        let failure = json!({"reason": "WorkerLost", "message": "m", "worker": 1, "exitCode": 137});
        seen.job = Some(job(json!({"phase": "Failed", "phaseReason": "WorkerLost", "failure": failure})));
        let news = tell(&mut told, &seen);
        assert!(
            matches!(&news[..], [Progress::Ended(Outcome::Failed(f))] if f.worker == Some(1) && f.exit_code == Some(137))
        );
        assert_eq!(tell(&mut told, &seen), []);
    }

    #[test]
    fn a_job_whose_pods_are_refused_is_not_waited_for_without_end() {
        let waiting = |reason: &str| {
            let waiting =
                json!({"reason": reason, "message": "violates PodSecurity", "suggestion": "Set it."});
            let job = Some(job(json!({"phase": "Pending", "phaseReason": reason, "waiting": waiting})));
            Seen { job, ..Seen::default() }
        };
        let (mut told, start) = (Told::default(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(refused(&mut told, &waiting("AdmissionRefused"), start).is_none());
        assert!(refused(&mut told, &waiting("AdmissionRefused"), after(119)).is_none());
        let error = refused(&mut told, &waiting("AdmissionRefused"), after(120)).unwrap();
        assert_eq!((error.class().exit_code(), error.reason()), (5, "AdmissionRefused"));
        assert!(error.to_string().contains("violates PodSecurity"), "{error}");
        assert_eq!(error.advice().unwrap().text, "Set it.");
        assert!(refused(&mut told, &waiting("Unschedulable"), after(130)).is_none(), "it may start");
        assert!(refused(&mut told, &waiting("AdmissionRefused"), after(131)).is_none(), "refused again");
        assert!(refused(&mut told, &waiting("AdmissionRefused"), after(251)).is_some());
    }

    #[test]
    fn a_pod_that_is_refused_under_several_names_is_one_warning() {
        let (mut told, seen) = (Told::default(), Seen { job: Some(job(json!({}))), ..Seen::default() });
        let mut warned = |pod: &str, why: &str| {
            let message = format!("Error creating: pods \"{pod}\" is forbidden: {why}");
            let event = json!({"metadata": {"name": pod}, "type": "Warning", "reason": "FailedCreate", "message": message,
                "involvedObject": {"kind": "Job", "name": "pi-launcher"}});
            warn(&mut told, &seen, &serde_json::from_value(event).unwrap()).is_some()
        };
        assert!(warned("pi-launcher-abcde", "violates PodSecurity"));
        assert!(!warned("pi-launcher-fghij", "violates PodSecurity"));
        assert!(warned("pi-launcher-fghij", "exceeded quota"));
    }

    #[test]
    fn the_reason_for_waiting_is_reported_when_it_changes() {
        let mut told = Told::default();
        let mut seen = Seen {
            job: Some(job(json!({"phase": "Pending", "phaseReason": "Suspended"}))),
            ..Seen::default()
        };
        let news = tell(&mut told, &seen);
        assert!(matches!(&news[1], Progress::Waiting { reason, .. } if reason == "Suspended"), "{news:?}");
        seen.job = Some(job(json!({"phase": "Pending", "phaseReason": "Initializing"})));
        let stuck = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient cpu."}]});
        seen.pods.extend([pod("pi-worker-0", "worker", stuck)]);
        let news = tell(&mut told, &seen);
        assert_eq!(
            news,
            [Progress::Waiting {
                reason: "Unschedulable".into(),
                detail: "No node can take all of its pods: 0/1 nodes: Insufficient cpu.".into(),
            }]
        );
    }

    #[test]
    fn a_job_that_waits_for_what_its_operator_found_says_so_once() {
        let mut told = Told::default();
        let waiting = |message: &str| {
            job(
                json!({"phase": "Pending", "phaseReason": "Initializing", "waiting": {"reason": "ImagePull", "message": message}}),
            )
        };
        let mut seen = Seen { job: Some(waiting("no such tag")), ..Seen::default() };
        let said = Progress::Waiting { reason: "ImagePull".into(), detail: "no such tag".into() };
        assert_eq!(tell(&mut told, &seen), [Progress::Accepted, said]);
        seen.pods.extend([pod("pi-worker-0", "worker", json!({}))]);
        assert_eq!(tell(&mut told, &seen), []);
        assert_eq!(tell_quiet(&mut told, &seen), None, "it was said why");
    }

    #[test]
    fn a_job_that_just_takes_long_to_start_is_not_passed_over_in_silence() {
        let mut told = Told::default();
        let initializing = json!({"phase": "Pending", "phaseReason": "Initializing"});
        let mut seen = Seen { job: Some(job(initializing)), ..Seen::default() };
        tell(&mut told, &seen);
        let said = |detail: &str| {
            Some(Progress::Waiting { reason: "Initializing".to_owned(), detail: detail.to_owned() })
        };
        assert_eq!(tell_quiet(&mut told, &seen), said("its pods are not created yet"));
        assert_eq!(tell_quiet(&mut told, &seen), None, "once");
        let pulls = json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        seen.pods.extend([pod("pi-worker-0", "worker", pulls)]);
        let Some(Progress::Waiting { detail, .. }) = tell_quiet(&mut told, &seen) else { panic!("nothing") };
        assert!(detail.starts_with("pi-worker-0 waits for "), "{detail}");
        seen.job = Some(job(json!({"phase": "Running"})));
        assert_eq!(tell_quiet(&mut told, &seen), None);
    }

    #[test]
    fn a_restart_says_why_and_until_when_it_waits_and_then_counts_again() {
        let attempt = |number: &str, status| {
            let mut job = job(status);
            job.metadata.annotations = Some([(api::ANNOTATION_ATTEMPT.to_owned(), number.to_owned())].into());
            job
        };
        let of_attempt = |number: &str, (name, mut pod): (String, Pod)| {
            pod.metadata.annotations = Some([(api::ANNOTATION_ATTEMPT.to_owned(), number.to_owned())].into());
            (name, pod)
        };
        let mut told = Told::default();
        let mut seen = Seen { job: Some(attempt("1", json!({"phase": "Running"}))), ..Seen::default() };
        seen.pods.extend([pod("pi-worker-0", "worker", ready()), pod("pi-worker-1", "worker", ready())]);
        tell(&mut told, &seen);
        let restarting = json!({"phase": "Pending", "phaseReason": "Restarting", "conditions": [
            {"type": "Restarting", "status": "True", "message": "Attempt 1 of 3 failed: m; restarting the gang"}]});
        seen.job = Some(attempt("2", restarting.clone()));
        let ends = serde_json::from_value(json!("2026-01-01T10:00:30Z")).unwrap();
        seen.pods.get_mut("pi-worker-0").unwrap().metadata.deletion_timestamp = Some(ends);
        let news = tell(&mut told, &seen);
        assert!(
            matches!(&news[..], [Progress::Waiting { detail, .. }]
                if detail.starts_with("Attempt 1 of 3 failed: m; restarting the gang: its pods are terminating")
                    && detail.contains("until 10:00:30 UTC")),
            "{news:?}"
        );
        assert_eq!(tell(&mut told, &seen), []);
        seen.job = Some(attempt("2", json!({"phase": "Pending", "phaseReason": "Initializing"})));
        seen.pods = [
            of_attempt("2", pod("pi-worker-0", "worker", ready())),
            of_attempt("2", pod("pi-worker-1", "worker", ready())),
        ]
        .into();
        assert_eq!(
            tell(&mut told, &seen),
            [Progress::Scheduled { pods: 2, of: 3 }, Progress::WorkersReady { ready: 2, of: 2 }]
        );
    }

    #[test]
    fn a_resumed_job_says_until_when_it_waits_for_the_pods_of_its_former_run() {
        let resumed = job(json!({"phase": "Pending", "phaseReason": "Initializing",
            "startTime": "2026-01-01T10:00:00Z",
            "conditions": [{"type": "Suspended", "status": "False", "reason": "MPIJobResumed"}]}));
        let mut seen = Seen { job: Some(resumed), ..Seen::default() };
        let (name, mut former) = pod("pi-worker-0", "worker", ready());
        former.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T09:00:00Z")).unwrap();
        former.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T10:00:29Z")).unwrap();
        seen.pods.insert(name.clone(), former);
        let mut told = Told::default();
        let news = tell(&mut told, &seen);
        assert!(
            news.iter().any(|news| matches!(news, Progress::Waiting { reason, detail }
                if reason == "Initializing" && detail.contains("until 10:00:29 UTC; the Launcher starts after that"))),
            "{news:?}"
        );
        assert!(!news.iter().any(|news| matches!(news, Progress::WorkersReady { .. })), "{news:?}");
        seen.pods.remove(&name);
        assert_eq!(tell(&mut told, &seen), []);
    }

    #[test]
    fn a_warning_that_repeats_what_the_status_says_is_left_out() {
        let mut told = Told::default();
        let mut seen = Seen { job: Some(job(json!({}))), ..Seen::default() };
        seen.pods.extend([pod("pi-worker-0", "worker", json!({}))]);
        let event = |kind: &str, name: &str, reason: &str| -> Event {
            serde_json::from_value(
                json!({"metadata": {}, "type": "Warning", "reason": reason, "message": "m",
                "involvedObject": {"kind": kind, "name": name}}),
            )
            .unwrap()
        };
        for (kind, name, reason, is_told) in [
            ("MPIJob", "pi", "MPIJobFailed", false),
            ("MPIJob", "pi", "MPIJobRestarting", false),
            ("MPIJob", "pi", "BackoffLimitExceeded/Evicted", false),
            ("Job", "pi-launcher", "BackoffLimitExceeded", false),
            ("Pod", "pi-worker-0", "FailedScheduling", false),
            ("Pod", "pi-worker-1", "FailedScheduling", true),
            ("Pod", "pi-worker-0", "FailedMount", true),
        ] {
            assert_eq!(
                warn(&mut told, &seen, &event(kind, name, reason)).is_some(),
                is_told,
                "{reason} of {name}"
            );
        }
    }

    #[test]
    fn a_deleted_job_ends() {
        let mut told = Told::default();
        let mut seen = Seen { job: Some(job(json!({}))), ..Seen::default() };
        tell(&mut told, &seen);
        seen.gone = true;
        assert_eq!(tell(&mut told, &seen), [Progress::Ended(Outcome::Deleted)]);
    }
}

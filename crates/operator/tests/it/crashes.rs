//! Crashes: the operator is cut off at its n-th write, for every n, with that write committed or not. A new
//! operator then ends with the same objects and the same status as one that was never cut off.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::Resource;
use kube::api::{DeleteParams, ListParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::gate::{Cut, Gate};
use crate::stage::{Running, Stage, ended, job, restarted};

/// How many cuts are tested in parallel, each in a namespace of its own.
const CUTS_AT_ONCE: usize = 4;

/// What a test does to a job while an operator works on it, until the job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// It succeeds, and its Workers are deleted as this `cleanPodPolicy` says.
    Success(&'static str),
    /// It succeeds, and runs before its first status is written.
    Fast,
    /// A Worker fails; the others and the Launcher are released.
    WorkerFails,
    /// A Worker is evicted; the whole gang is restarted and succeeds.
    GangRestart,
    /// The Launcher fails in place, and its Job deletes its pod once the failure is recorded.
    LauncherFails,
    /// It is suspended while it runs, resumed with fields that a queue injects, and succeeds.
    SuspendAndResume,
    /// It gets a third Worker, then loses two, and succeeds.
    Scale,
    /// It is deleted as soon as its Service exists.
    Delete,
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_succeeds_changes_nothing() {
    survives(Story::Success("All")).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_cleans_running_pods_changes_nothing() {
    survives(Story::Success("Running")).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_keeps_its_pods_changes_nothing() {
    survives(Story::Success("None")).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_starts_fast_changes_nothing() {
    survives(Story::Fast).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_fails_changes_nothing() {
    survives(Story::WorkerFails).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_whose_launcher_fails_changes_nothing() {
    survives(Story::LauncherFails).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_suspended_and_resumed_changes_nothing() {
    survives(Story::SuspendAndResume).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_grows_and_shrinks_changes_nothing() {
    survives(Story::Scale).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_is_deleted_leaves_nothing() {
    survives(Story::Delete).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_whose_gang_is_restarted_changes_nothing() {
    survives(Story::GangRestart).await;
}

/// What a test does to a job while operators work on it, and what is left then.
pub trait CrashStory: Copy + std::fmt::Debug {
    /// The fewest writes that prove anything.
    fn least_writes(self) -> usize;

    /// The stage to play on.
    async fn stage(self) -> Stage;

    /// Starts an operator.
    fn operate(self, stage: &Stage, gate: Arc<Gate>) -> Running;

    /// Does it, until the job has ended.
    async fn act(self, stage: &Stage);

    /// Waits for what the end of the story does not wait for, and may change what is left; false if there is nothing.
    async fn settles(self, stage: &Stage) -> bool;

    /// Returns every object, without what differs from run to run.
    async fn snapshot(self, stage: &Stage) -> Value;
}

/// Plays a story with a crash at every write, and compares what is left with the same story without a crash.
pub async fn survives(story: impl CrashStory) {
    let gate = Gate::new(None);
    let stage = story.stage().await;
    let whole = stage.in_namespace("whole").await;
    let mut expected = play(&whole, story, gate.clone(), false).await;
    if story.settles(&whole).await {
        expected = story.snapshot(&whole).await;
    }
    let writes = gate.requests().iter().filter(|request| !request.starts_with("GET")).count();
    assert!(writes >= story.least_writes(), "{writes} writes are too few to prove anything");
    let cuts = (1..=writes).flat_map(|at| [false, true].map(|committed| Cut { at, committed }));
    let failed: Vec<String> = futures::stream::iter(cuts)
        .map(|cut| {
            let (stage, expected) = (&stage, &expected);
            async move {
                let Cut { at, committed } = cut;
                let stage = stage.in_namespace(&format!("cut-{at}-{committed}")).await;
                let mut found = play(&stage, story, Gate::new(Some(cut)), true).await;
                if found != *expected && story.settles(&stage).await {
                    found = story.snapshot(&stage).await;
                }
                let differs = differences("", &found, expected);
                (!differs.is_empty())
                    .then(|| format!("{story:?} {cut:?} of {writes}:\n{}", differs.join("\n")))
            }
        })
        .buffer_unordered(CUTS_AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Plays the story, with a second operator that takes over when the first is cut off. Returns the objects at the
/// end.
async fn play(stage: &Stage, story: impl CrashStory, gate: Arc<Gate>, cut: bool) -> Value {
    let first = story.operate(stage, gate.clone());
    let take_over = async {
        if cut {
            gate.closed.notified().await;
            drop(first);
            story.operate(stage, Gate::new(None))
        } else {
            first
        }
    };
    let mut take_over = std::pin::pin!(take_over);
    let mut end = std::pin::pin!(story.act(stage));
    // A cut at the very last writes may come after the story's end, or never in this run.
    let running = tokio::select! {
        running = &mut take_over => { end.await; Some(running) }
        () = &mut end => None,
    };
    let snapshot = story.snapshot(stage).await;
    drop(running);
    snapshot
}

impl CrashStory for Story {
    fn least_writes(self) -> usize {
        match self {
            Story::Delete => 1,
            Story::Fast => 11,
            _ => 12,
        }
    }

    async fn stage(self) -> Stage {
        // Garbage collection needs controllers.
        if self == Story::Delete { Stage::with_controllers().await } else { Stage::new().await }
    }

    fn operate(self, stage: &Stage, gate: Arc<Gate>) -> Running {
        match self {
            Story::Fast => stage.operate_patiently(gate),
            _ => stage.operate_behind(gate),
        }
    }

    async fn act(self, stage: &Stage) {
        stage.submit(&job_of(self)).await;
        act(self, stage).await;
    }

    async fn settles(self, stage: &Stage) -> bool {
        if self == Story::Delete {
            // What was being created when its job was deleted is collected a moment later.
            stage.until_none::<Job>().await;
            stage.until_none::<Pod>().await;
        }
        self == Story::Delete
    }

    async fn snapshot(self, stage: &Stage) -> Value {
        snapshot(stage).await
    }
}

fn job_of(story: Story) -> Value {
    let policy = match story {
        Story::Success(clean_pods) => json!({ "cleanPodPolicy": clean_pods }),
        Story::LauncherFails => json!({ "backoffLimit": 0 }),
        _ => json!({}),
    };
    let mut job = job("pi", 2, policy);
    if story == Story::GangRestart {
        job["metadata"]["annotations"] = json!({ api::ANNOTATION_MAX_GANG_RESTARTS: "1" });
    }
    job
}

async fn act(story: Story, stage: &Stage) {
    if story == Story::Delete {
        return delete(stage).await;
    }
    stage.bring_up("pi", 2).await;
    match story {
        Story::Success(clean_pods) => {
            // One has ended by itself: `Running` keeps it.
            stage.set_pod("pi-worker-0", ended("main", "Succeeded", 0)).await;
            succeed(stage).await;
            let gone: &[&str] = match clean_pods {
                "All" => &["pi-worker-0", "pi-worker-1"],
                "Running" => &["pi-worker-1"],
                _ => &[],
            };
            for pod in gone {
                stage.until_gone::<Pod>(pod).await;
            }
        }
        Story::Fast => succeed(stage).await,
        Story::WorkerFails => {
            stage.set_pod("pi-launcher-pod", ended("main", "Failed", 205)).await;
            stage.set_pod("pi-worker-1", ended("main", "Failed", 137)).await;
            stage.until_true("pi", "Failed").await;
            stage.until_gone::<Pod>("pi-worker-0").await;
            stage.until("pi-launcher", "was stopped", is_suspended).await;
        }
        Story::GangRestart => restart_gang(stage).await,
        Story::LauncherFails => fail_launcher(stage).await,
        Story::SuspendAndResume => suspend_and_resume(stage).await,
        Story::Scale => scale(stage).await,
        Story::Delete => {}
    }
}

/// The Launcher's old pod is removed as the garbage collector would, and nothing new is created before that.
async fn restart_gang(stage: &Stage) {
    let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" });
    stage.set_pod("pi-worker-1", evicted).await;
    stage.until_gone::<Job>("pi-launcher").await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    let at_once = DeleteParams::default().grace_period(0);
    stage.api::<Pod>().delete("pi-launcher-pod", &at_once).await.unwrap();
    stage.until::<Job>("pi-launcher", "was created again", |job| plan::attempt_of(&job.metadata) == 2).await;
    let second = |pod: &Pod| plan::attempt_of(&pod.metadata) == 2;
    for worker in ["pi-worker-0", "pi-worker-1"] {
        stage.until(worker, "was created again", second).await;
    }
    stage.bring_up("pi", 2).await;
    succeed(stage).await;
}

async fn succeed(stage: &Stage) {
    stage.complete_launcher("pi").await;
    stage.until_true("pi", "Succeeded").await;
    stage.until_event("pi", "MPIJobSucceeded").await;
}

fn is_suspended(launcher: &Job) -> bool {
    launcher.spec.as_ref().unwrap().suspend == Some(true)
}

/// The Job gives up after a run that failed in place and deletes the pod, which stays for its grace period: here
/// until the failure is recorded, and no longer.
async fn fail_launcher(stage: &Stage) {
    stage.set_pod("pi-launcher-pod", restarted("main", 3)).await;
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "reason": "BackoffLimitExceeded", "message": "no more retries" });
    let status = json!({ "failed": 1, "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("FailureTarget"), condition("Failed")] });
    stage.set_job("pi-launcher", status).await;
    stage.until::<ConfigMap>("pi-attempt-1", "was written", |_| true).await;
    let at_once = DeleteParams::default().grace_period(0);
    stage.api::<Pod>().delete("pi-launcher-pod", &at_once).await.unwrap();
    stage.until_true("pi", "Failed").await;
    stage.until_event("pi", "BackoffLimitExceeded").await;
}

async fn suspend_and_resume(stage: &Stage) {
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    stage.until("pi-launcher", "was suspended", is_suspended).await;
    stage.until_true("pi", "Suspended").await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.until_gone::<Pod>("pi-worker-1").await;
    // As the Job controller does.
    stage.api::<Pod>().delete("pi-launcher-pod", &DeleteParams::default().grace_period(0)).await.unwrap();
    stage.until_gone::<Pod>("pi-launcher-pod").await;
    let template = json!({ "template": { "spec": { "nodeSelector": { "zone": "a" } } } });
    let resume = json!({ "spec": { "runPolicy": { "suspend": false },
        "mpiReplicaSpecs": { "Launcher": template, "Worker": template } } });
    stage.change_job("pi", resume).await;
    stage.until("pi-launcher", "was resumed", |launcher| !is_suspended(launcher)).await;
    stage.bring_up("pi", 2).await;
    succeed(stage).await;
}

async fn scale(stage: &Stage) {
    let scale = |count: usize| json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": count } } } });
    let lines = |count: usize| {
        move |config: &ConfigMap| config.data.as_ref().unwrap()["hostfile"].lines().count() == count
    };
    stage.change_job("pi", scale(3)).await;
    stage.start_worker("pi", 2).await;
    stage.until("pi-config", "named three hosts", lines(3)).await;
    stage.change_job("pi", scale(1)).await;
    stage.until("pi-config", "named one host", lines(1)).await;
    stage.until_gone::<Pod>("pi-worker-1").await;
    stage.until_gone::<Pod>("pi-worker-2").await;
    let observed = |job: &api::MPIJob| job.status.as_ref().unwrap().observed_generation == Some(3);
    stage.until("pi", "was observed", observed).await;
    succeed(stage).await;
}

async fn delete(stage: &Stage) {
    stage.until::<Service>("pi", "came", |_| true).await;
    stage.api::<api::MPIJob>().delete("pi", &DeleteParams::background()).await.unwrap();
    stage.until_gone::<api::MPIJob>("pi").await;
    until_nothing_is_left(stage).await;
}

/// Waits until a deleted job has left nothing.
pub async fn until_nothing_is_left(stage: &Stage) {
    stage.until_none::<Job>().await;
    stage.until_none::<Service>().await;
    stage.until_none::<ConfigMap>().await;
    stage.until_none::<Secret>().await;
    stage.until_none::<Pod>().await;
}

/// Returns every object, without what differs from run to run: UIDs, versions, times, the key.
async fn snapshot(stage: &Stage) -> Value {
    let job = stage.api::<api::MPIJob>().get_opt("pi").await.unwrap();
    let mut status = job.map(|job| job.status.unwrap()).unwrap_or_default();
    // Counts and times may still change; the story does not wait for them.
    status.replica_statuses.clear();
    status.workers = None;
    status.startup = None;
    for attempt in &mut status.attempts {
        attempt.launcher_failures = None;
    }
    let mut events = stage.event_reasons("pi").await;
    if events.iter().any(|reason| ["MPIJobResumed", "MPIJobRestarting"].contains(&reason.as_str())) {
        // Two starts within one second, the clock's unit, are reported once; otherwise twice.
        events.dedup();
    }
    let mut snapshot = json!({
        "status": status,
        "services": all::<Service>(stage).await,
        "configMaps": all::<ConfigMap>(stage).await,
        "secrets": all::<Secret>(stage).await,
        "pods": all::<Pod>(stage).await,
        "jobs": all::<Job>(stage).await,
        // The events of a deleted job depend on how far it had come.
        "events": if status == api::MPIJobStatus::default() { Vec::new() } else { events },
    });
    strip(&mut snapshot);
    // Every run has a namespace of its own.
    let text = snapshot.to_string().replace(&stage.namespace, "team");
    serde_json::from_str(&text).unwrap()
}

pub async fn all<K>(stage: &Stage) -> Vec<Value>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let listed = stage.api::<K>().list(&ListParams::default()).await.unwrap();
    let mut objects: Vec<Value> =
        listed.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect();
    objects.sort_by_key(|object| object["metadata"]["name"].to_string());
    objects
}

/// Returns the differences between two snapshots, one line each.
fn differences(path: &str, found: &Value, expected: &Value) -> Vec<String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let keys: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
            let none = Value::Null;
            let differs = |key: &String| {
                let (found, expected) = (found.get(key).unwrap_or(&none), expected.get(key).unwrap_or(&none));
                differences(&format!("{path}.{key}"), found, expected)
            };
            keys.into_iter().flat_map(differs).collect()
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let pairs = found.iter().zip(expected).enumerate();
            pairs
                .flat_map(|(at, (found, expected))| differences(&format!("{path}[{at}]"), found, expected))
                .collect()
        }
        _ if found == expected => Vec::new(),
        _ => vec![format!("{path}: found {found}, expected {expected}")],
    }
}

/// Removes fields that differ from run to run.
pub fn strip(value: &mut Value) {
    const DIFFERS: [&str; 16] = [
        "startedAt",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "lastUpdateTime",
        "ssh-privatekey",
        "ssh-publickey",
        "discover_hosts.sh",
        "lastTransitionTime",
        "startTime",
        "completionTime",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "matchLabels",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !DIFFERS.contains(&key.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

//! Crashes: the operator is cut off at its n-th write, for every n, with that write committed or not; a fresh one then
//! ends in the same objects and the same status as one that was never cut off.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::Resource;
use kube::api::ListParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::gate::{Cut, Gate};
use crate::stage::{Stage, ended, job};

/// What a test does to a job while an operator works on it, up to the job's end.
#[derive(Clone, Copy, Debug)]
enum Story {
    /// It succeeds, and its workers are deleted.
    Success,
    /// A worker fails; the others and the launcher are released.
    Failure,
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_succeeds_changes_nothing() {
    survives(Story::Success).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_job_that_fails_changes_nothing() {
    survives(Story::Failure).await;
}

async fn survives(story: Story) {
    let gate = Gate::new(None);
    let stage = Stage::new().await;
    let expected = play(&stage.in_namespace("whole").await, story, gate.clone(), false).await;
    let writes = gate.requests().iter().filter(|request| !request.starts_with("GET")).count();
    assert!(writes >= 12, "{writes} writes are too few to prove anything");
    for at in 1..=writes {
        for committed in [false, true] {
            let cut = Cut { at, committed };
            let stage = stage.in_namespace(&format!("cut-{at}-{committed}")).await;
            let found = play(&stage, story, Gate::new(Some(cut)), true).await;
            let differs = differences("", &found, &expected);
            assert!(differs.is_empty(), "{story:?} {cut:?} of {writes}:\n{}", differs.join("\n"));
        }
    }
}

/// Plays the story, with a second operator taking over where the first is cut off, and returns what is there at the end.
async fn play(stage: &Stage, story: Story, gate: Arc<Gate>, cut: bool) -> Value {
    let first = stage.operate_behind(gate.clone());
    let take_over = async {
        if cut {
            gate.closed.notified().await;
            drop(first);
            stage.operate()
        } else {
            first
        }
    };
    let end = async {
        stage.submit(&job("pi", 2, policy(story))).await;
        act(story, stage).await;
    };
    let mut take_over = std::pin::pin!(take_over);
    let mut end = std::pin::pin!(end);
    // A cut at the very last writes may come after the story's end, or not at all in this run.
    let running = tokio::select! {
        running = &mut take_over => { end.await; Some(running) }
        () = &mut end => None,
    };
    let snapshot = snapshot(stage).await;
    drop(running);
    snapshot
}

fn policy(story: Story) -> Value {
    match story {
        Story::Success => json!({ "cleanPodPolicy": "All" }),
        Story::Failure => json!({}),
    }
}

async fn act(story: Story, stage: &Stage) {
    stage.bring_up("pi", 2).await;
    match story {
        Story::Success => {
            stage.complete_launcher("pi").await;
            stage.until_true("pi", "Succeeded").await;
            stage.until_gone::<Pod>("pi-worker-0").await;
            stage.until_gone::<Pod>("pi-worker-1").await;
        }
        Story::Failure => {
            stage.set_pod("pi-launcher-pod", ended("main", "Failed", 205)).await;
            stage.set_pod("pi-worker-1", ended("main", "Failed", 137)).await;
            stage.until_true("pi", "Failed").await;
            stage.until_gone::<Pod>("pi-worker-0").await;
            let stopped = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(true);
            stage.until("pi-launcher", "was stopped", stopped).await;
        }
    }
}

/// Every object, without what differs from run to run: UIDs, versions, times, the key.
async fn snapshot(stage: &Stage) -> Value {
    let job = stage.api::<api::MPIJob>().get("pi").await.unwrap();
    let mut status = job.status.unwrap();
    // Counts may still be on their way; the story's end does not wait for them.
    status.replica_statuses.clear();
    status.workers = None;
    let mut snapshot = json!({
        "status": status,
        "services": all::<Service>(stage).await,
        "configMaps": all::<ConfigMap>(stage).await,
        "secrets": all::<Secret>(stage).await,
        "pods": all::<Pod>(stage).await,
        "jobs": all::<Job>(stage).await,
        "events": stage.event_reasons("pi").await,
    });
    strip(&mut snapshot);
    // Every run has a namespace of its own.
    let text = snapshot.to_string().replace(&stage.namespace, "team");
    serde_json::from_str(&text).unwrap()
}

async fn all<K>(stage: &Stage) -> Vec<Value>
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

/// Where two snapshots differ, one line each.
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

/// Removes what differs from run to run.
fn strip(value: &mut Value) {
    const DIFFERS: [&str; 15] = [
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

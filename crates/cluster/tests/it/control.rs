//! Controllers and scheduler on a running server. The tests create Node objects, and a fake kubelet writes
//! pod status: a container named `works` keeps running, `ends` succeeds, `fails` fails.

use std::time::{Duration, Instant};

use cluster::controllers::Options;
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, Namespace, Node, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::served::{Served, serve, serve_with, soon};

pub async fn start() -> (Served, Client) {
    let served = serve_with(|options| options.nodes = 0).await;
    let client = served.cluster.client();
    (served, client)
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub async fn make<T>(api: &Api<T>, value: Value) -> T
where
    T: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &object(value)).await.unwrap()
}

pub async fn add_node(client: &Client, name: &str, allocatable: Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    make(&nodes, json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})).await;
    let status = json!({"status": {"allocatable": allocatable, "capacity": allocatable,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

pub fn plenty() -> Value {
    json!({"cpu": "64", "memory": "256Gi", "pods": "500", "nvidia.com/gpu": "2"})
}

/// A fake kubelet: updates every pod that has a node, until it is dropped.
pub struct Kubelet(tokio::task::JoinHandle<()>);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub fn kubelet(client: &Client) -> Kubelet {
    let client = client.clone();
    Kubelet(tokio::spawn(async move {
        let pods: Api<Pod> = Api::all(client.clone());
        let list = pods.list(&ListParams::default()).await.unwrap();
        let mut events = pods
            .watch(&WatchParams::default(), &list.metadata.resource_version.unwrap())
            .await
            .unwrap()
            .boxed();
        while let Some(event) = events.next().await {
            if let Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event {
                attend(&client, &pod).await;
            }
        }
    }))
}

async fn attend(client: &Client, pod: &Pod) {
    let spec = pod.spec.as_ref().unwrap();
    if spec.node_name.is_none() {
        return;
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
    let ended = matches!(phase, "Succeeded" | "Failed");
    let next = match spec.containers[0].name.as_str() {
        _ if pod.metadata.deletion_timestamp.is_some() && !ended => Some("Failed"),
        _ if ended => None,
        "ends" => Some("Succeeded"),
        "fails" => Some("Failed"),
        _ => (phase == "Pending").then_some("Running"),
    };
    if let Some(next) = next {
        let ready = if next == "Running" { "True" } else { "False" };
        let status = json!({"status": {"phase": next, "conditions": [{"type": "Ready", "status": ready}]}});
        // The pod may have been deleted meanwhile.
        let _ = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await;
    }
    if pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds != Some(0) {
        let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
    }
}

fn job(name: &str, container: &str, spec: Value) -> Value {
    let mut whole = json!({"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": container, "image": "image"}]}}});
    json_patch::merge(&mut whole, &spec);
    json!({"metadata": {"name": name}, "spec": whole})
}

fn has_condition(job: Option<&Job>, type_: &str, status: &str) -> bool {
    let conditions = job.and_then(|j| j.status.as_ref()).and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == type_ && c.status == status)
}

async fn job_with(client: &Client, name: &str, type_: &'static str, status: &'static str) -> Job {
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let wanted = await_condition(jobs, name, move |job: Option<&Job>| has_condition(job, type_, status));
    soon(wanted).await.unwrap().unwrap()
}

pub async fn gone<T>(api: Api<T>, name: &str)
where
    T: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    soon(await_condition(api, name, |found: Option<&T>| found.is_none())).await.unwrap();
}

/// Waits for an event with this reason about an object in the default namespace, and returns its message.
pub async fn event(client: &Client, about: &str, reason: &str) -> String {
    event_in(client, "default", about, reason).await
}

/// The same in any namespace.
pub async fn event_in(client: &Client, namespace: &str, about: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let fits =
        |e: &Event| e.involved_object.name.as_deref() == Some(about) && e.reason.as_deref() == Some(reason);
    let list = events.list(&ListParams::default()).await.unwrap();
    if let Some(found) = list.items.iter().find(|e| fits(e)) {
        return found.message.clone().unwrap_or_default();
    }
    let at = list.metadata.resource_version.unwrap();
    let mut news = events.watch(&WatchParams::default(), &at).await.unwrap().boxed();
    soon(async {
        loop {
            if let WatchEvent::Added(e) = news.next().await.unwrap().unwrap()
                && fits(&e)
            {
                return e.message.unwrap_or_default();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_job_completes_and_its_pods_are_deleted_with_it() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    make(&jobs, job("three", "ends", json!({"completions": 3, "parallelism": 2}))).await;
    let done = job_with(&client, "three", "Complete", "True").await;
    let status = done.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(3), None, None));
    assert!(status.start_time.is_some() && status.completion_time.is_some());
    let types: Vec<String> = status.conditions.unwrap().into_iter().map(|c| c.type_).collect();
    assert_eq!(types, ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(event(&client, "three", "Completed").await, "Job completed");
    assert!(event(&client, "three", "SuccessfulCreate").await.starts_with("Created pod: three-"));

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made =
        pods.list(&ListParams::default().labels("batch.kubernetes.io/job-name=three")).await.unwrap().items;
    assert_eq!(made.len(), 3);
    for pod in &made {
        assert_eq!(pod.metadata.finalizers, None, "let go once counted");
        assert_eq!(pod.name_any().len(), "three-".len() + 5);
        assert_eq!(pod.labels()["controller-uid"], done.metadata.uid.clone().unwrap());
    }
    jobs.delete("three", &DeleteParams::background()).await.unwrap();
    for pod in made {
        gone(pods.clone(), &pod.name_any()).await;
    }
}

#[tokio::test]
async fn a_job_fails_at_its_limits_with_a_reason() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    make(&jobs, job("bad", "fails", json!({"backoffLimit": 0}))).await;
    let failed = job_with(&client, "bad", "Failed", "True").await;
    assert_eq!(failed.status.as_ref().unwrap().failed, Some(1));
    let conditions = failed.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].type_, "FailureTarget");
    assert_eq!(conditions[1].reason.as_deref(), Some("BackoffLimitExceeded"));
    assert_eq!(
        event(&client, "bad", "BackoffLimitExceeded").await,
        "Job has reached the specified backoff limit"
    );

    make(
        &jobs,
        job("late", "works", json!({"activeDeadlineSeconds": 1, "parallelism": 2, "completions": 2})),
    )
    .await;
    let failed = job_with(&client, "late", "Failed", "True").await;
    assert_eq!(failed.status.unwrap().conditions.unwrap()[1].reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test]
async fn extreme_durations_of_a_job_do_not_break_its_controllers() {
    let (served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let most = json!({"activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": i32::MAX,
        "completions": i32::MAX, "parallelism": 1, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": format!("0-{}", i32::MAX - 1)}]}});
    make(&jobs, job("endless", "works", most)).await;
    soon(await_condition(jobs.clone(), "endless", |job: Option<&Job>| {
        job.and_then(|job| job.status.as_ref()?.active) == Some(1)
    }))
    .await
    .unwrap();
    make(
        &jobs,
        job("next", "ends", json!({"activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": i32::MAX})),
    )
    .await;
    job_with(&client, "next", "Complete", "True").await;
    assert_eq!(*served.cluster.health().subscribe().borrow(), std::collections::BTreeMap::new());
}

#[tokio::test]
async fn a_job_is_suspended_and_resumed() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(&jobs, job("s", "works", json!({"parallelism": 2, "completions": 2}))).await;
    let ready = |job: Option<&Job>| job.and_then(|j| j.status.as_ref()).and_then(|s| s.ready) == Some(2);
    soon(await_condition(jobs.clone(), "s", ready)).await.unwrap();

    let set = |suspend: bool| Patch::Merge(json!({"spec": {"suspend": suspend}}));
    jobs.patch("s", &PatchParams::default(), &set(true)).await.unwrap();
    job_with(&client, "s", "Suspended", "True").await;
    let stopped = |job: Option<&Job>| {
        let status = job.and_then(|j| j.status.as_ref());
        status.is_some_and(|s| s.active.is_none() && s.terminating == Some(0) && s.failed.is_none())
    };
    soon(await_condition(jobs.clone(), "s", stopped)).await.unwrap();
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0);

    jobs.patch("s", &PatchParams::default(), &set(false)).await.unwrap();
    job_with(&client, "s", "Suspended", "False").await;
    soon(await_condition(jobs.clone(), "s", ready)).await.unwrap();
    assert_eq!(event(&client, "s", "Resumed").await, "Job resumed");
}

#[tokio::test]
async fn a_finished_job_is_deleted_after_its_ttl() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    make(&jobs, job("brief", "ends", json!({"ttlSecondsAfterFinished": 0}))).await;
    gone(jobs, "brief").await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    soon(async {
        while !pods.list(&ListParams::default()).await.unwrap().items.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_hundred_pods_are_bound_quickly() {
    let (_served, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for n in 0..100 {
        make(&pods, json!({"metadata": {"name": format!("p{n}")}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await;
    }
    assert_eq!(event(&client, "p99", "FailedScheduling").await, "no nodes available to schedule pods");
    let list = pods.list(&ListParams::default()).await.unwrap();
    let mut news =
        pods.watch(&WatchParams::default(), &list.metadata.resource_version.unwrap()).await.unwrap().boxed();
    let start = Instant::now();
    add_node(&client, "n1", plenty()).await;
    let mut bound = 0;
    soon(async {
        while bound < 100 {
            if let WatchEvent::Modified(pod) = news.next().await.unwrap().unwrap()
                && pod.spec.unwrap().node_name.is_some()
            {
                bound += 1;
            }
        }
    })
    .await;
    let took = start.elapsed();
    println!("100 pods were bound in {took:?}");
    // Measured: 0.03 s. The limit leaves room for a busy machine.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn an_unschedulable_pod_reports_why_and_runs_once_it_fits() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let with_gpus = |name: &str, count: &str| {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "works", "image": "i",
            "resources": {"limits": {"nvidia.com/gpu": count}}}]}})
    };
    let on_node = |pod: Option<&Pod>| pod.is_some_and(|p| p.spec.as_ref().unwrap().node_name.is_some());
    make(&pods, with_gpus("first", "2")).await;
    soon(await_condition(pods.clone(), "first", on_node)).await.unwrap();
    assert_eq!(event(&client, "first", "Scheduled").await, "Successfully assigned default/first to n1");
    make(&pods, with_gpus("second", "1")).await;
    let message = event(&client, "second", "FailedScheduling").await;
    assert_eq!(
        message,
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    let told = move |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()).and_then(|s| s.conditions.as_ref());
        conditions.into_iter().flatten().any(|c| {
            c.type_ == "PodScheduled"
                && c.status == "False"
                && c.reason.as_deref() == Some("Unschedulable")
                && c.message.as_ref() == Some(&message)
        })
    };
    soon(await_condition(pods.clone(), "second", told)).await.unwrap();
    pods.delete("first", &DeleteParams::default()).await.unwrap();
    soon(await_condition(pods.clone(), "second", on_node)).await.unwrap();
    let scheduled = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()).and_then(|s| s.conditions.as_ref());
        conditions.into_iter().flatten().any(|c| c.type_ == "PodScheduled" && c.status == "True")
    };
    soon(await_condition(pods.clone(), "second", scheduled)).await.unwrap();

    let mut other = with_gpus("others", "1");
    other["spec"]["schedulerName"] = json!("volcano");
    make(&pods, other).await;
    let mut gated = with_gpus("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    make(&pods, gated).await;
    let held = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()).and_then(|s| s.conditions.as_ref());
        conditions.into_iter().flatten().any(|c| c.reason.as_deref() == Some("SchedulingGated"))
    };
    soon(await_condition(pods.clone(), "gated", held)).await.unwrap();
    pods.patch("gated", &PatchParams::default(), &Patch::Merge(json!({"spec": {"schedulingGates": null}})))
        .await
        .unwrap();
    soon(await_condition(pods.clone(), "gated", on_node)).await.unwrap();
    assert!(pods.get("others").await.unwrap().spec.unwrap().node_name.is_none(), "another scheduler's");
}

fn owned(name: &str, owner: &DynamicOrMap, blocks: bool) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": owner.0, "kind": owner.1, "name": owner.2,
        "uid": owner.3, "blockOwnerDeletion": blocks}]}})
}

/// `apiVersion`, kind, name and UID of an owner.
struct DynamicOrMap(&'static str, &'static str, String, String);

fn map_owner(map: &ConfigMap) -> DynamicOrMap {
    DynamicOrMap("v1", "ConfigMap", map.name_any(), map.uid().unwrap())
}

#[tokio::test]
async fn dependents_are_deleted_or_orphaned_by_propagation_policy() {
    let (_served, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let plain = |name: &str| json!({"metadata": {"name": name}});

    let owner = make(&maps, plain("background")).await;
    make(&maps, owned("background-child", &map_owner(&owner), false)).await;
    maps.delete("background", &DeleteParams::background()).await.unwrap();
    gone(maps.clone(), "background-child").await;

    let owner = make(&maps, plain("foreground")).await;
    let mut held = owned("foreground-child", &map_owner(&owner), true);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&maps, held).await;
    maps.delete("foreground", &DeleteParams::foreground()).await.unwrap();
    let deleted = |map: Option<&ConfigMap>| map.is_some_and(|m| m.metadata.deletion_timestamp.is_some());
    soon(await_condition(maps.clone(), "foreground-child", deleted)).await.unwrap();
    assert!(
        maps.get("foreground").await.unwrap().metadata.deletion_timestamp.is_some(),
        "waits for its dependent"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("foreground-child", &PatchParams::default(), &free).await.unwrap();
    gone(maps.clone(), "foreground").await;

    let owner = make(&maps, plain("orphaning")).await;
    make(&maps, owned("orphan", &map_owner(&owner), true)).await;
    maps.delete("orphaning", &DeleteParams::orphan()).await.unwrap();
    gone(maps.clone(), "orphaning").await;
    assert_eq!(maps.get("orphan").await.unwrap().metadata.owner_references, None);

    let stranger = DynamicOrMap("v1", "ConfigMap", "orphan".into(), "another-uid".into());
    make(&maps, owned("misled", &stranger, false)).await;
    gone(maps.clone(), "misled").await;
}

#[tokio::test]
async fn garbage_collection_covers_custom_kinds() {
    let (_served, client) = start().await;
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &kube::api::ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&()),
    );
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    make(&definitions, definition).await;
    let established = |found: Option<&DynamicObject>| {
        let conditions = found.and_then(|d| d.data["status"]["conditions"].as_array());
        conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
    };
    soon(await_condition(definitions, "things.example.com", established)).await.unwrap();
    let kind = kube::api::ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    };
    let things: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let thing =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}});
    let top = make(&things, thing("top")).await;
    let of = |o: &DynamicObject| DynamicOrMap("example.com/v1", "Thing", o.name_any(), o.uid().unwrap());
    let mut middle = owned("middle", &of(&top), true);
    middle["apiVersion"] = json!("example.com/v1");
    middle["kind"] = json!("Thing");
    let middle = make(&things, middle).await;
    make(&maps, owned("leaf", &of(&middle), true)).await;
    things.delete("top", &DeleteParams::background()).await.unwrap();
    gone(things, "middle").await;
    gone(maps, "leaf").await;
}

#[tokio::test]
async fn a_namespace_gets_defaults_and_is_emptied_before_deletion() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    make(&namespaces, json!({"metadata": {"name": "team"}})).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "team");
    let there = |account: Option<&ServiceAccount>| account.is_some();
    soon(await_condition(accounts, "default", there)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    let published = |map: Option<&ConfigMap>| {
        map.and_then(|m| m.data.as_ref()).is_some_and(|d| d["ca.crt"].contains("BEGIN CERTIFICATE"))
    };
    soon(await_condition(maps.clone(), "kube-root-ca.crt", published)).await.unwrap();

    let jobs: Api<Job> = Api::namespaced(client.clone(), "team");
    make(&jobs, job("j", "works", json!({"parallelism": 3, "completions": 3}))).await;
    let ready = |job: Option<&Job>| job.and_then(|j| j.status.as_ref()).and_then(|s| s.ready) == Some(3);
    soon(await_condition(jobs, "j", ready)).await.unwrap();
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    make(&maps, held).await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let waits = |namespace: Option<&Namespace>| {
        let status = namespace.and_then(|n| n.status.as_ref());
        status.and_then(|s| s.conditions.as_ref()).into_iter().flatten().any(|c| {
            c.message.as_deref()
                == Some("Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
        })
    };
    soon(await_condition(namespaces.clone(), "team", waits)).await.unwrap();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    gone(namespaces, "team").await;
    let pods: Api<Pod> = Api::all(client.clone());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn a_service_has_endpoints_for_its_pods() {
    let (_served, client) = start().await;
    add_node(&client, "n1", plenty()).await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(
        &services,
        json!({"metadata": {"name": "job"}, "spec": {"clusterIP": "None", "selector": {"app": "job"}}}),
    )
    .await;
    for n in 0..2 {
        make(&pods, json!({"metadata": {"name": format!("w{n}"), "labels": {"app": "job"}}, "spec": {"subdomain": "job",
            "hostname": format!("w{n}"), "containers": [{"name": "c", "image": "i"}]}})).await;
        let status = json!({"status": {"phase": "Running", "podIP": format!("10.0.0.{n}"),
            "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(&format!("w{n}"), &PatchParams::default(), &Patch::Strategic(status))
            .await
            .unwrap();
    }
    let endpoints: Api<Endpoints> = Api::default_namespaced(client.clone());
    let both = |found: Option<&Endpoints>| {
        let subsets = found.and_then(|e| e.subsets.as_ref());
        subsets.is_some_and(|s| {
            s[0].addresses.as_ref().is_some_and(|a| a.len() == 2 && a[1].hostname.as_deref() == Some("w1"))
        })
    };
    soon(await_condition(endpoints.clone(), "job", both)).await.unwrap();
    let slices: Api<EndpointSlice> = Api::default_namespaced(client.clone());
    let of_job = ListParams::default().labels("kubernetes.io/service-name=job");
    let name = slices.list(&of_job).await.unwrap().items[0].name_any();
    let both = |found: Option<&EndpointSlice>| {
        found.and_then(|s| s.endpoints.as_ref()).is_some_and(|e| e.len() == 2)
    };
    soon(await_condition(slices.clone(), &name, both)).await.unwrap();
    services.delete("job", &DeleteParams::default()).await.unwrap();
    gone(slices, &name).await;
    gone(endpoints, "job").await;
}

#[tokio::test]
async fn pods_of_a_silent_node_are_evicted() {
    let served = serve().await;
    let client = served.cluster.client();
    let stop = tokio_util::sync::CancellationToken::new();
    let options = Options { node_grace: Duration::from_millis(300), ..Options::default() };
    let running = tokio::spawn(cluster::controllers::run(client.clone(), options, stop.clone()));
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    make(&leases, json!({"metadata": {"name": "n1"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}))
        .await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let tolerations = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 0}]);
    make(
        &pods,
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "tolerations": tolerations,
        "containers": [{"name": "works", "image": "i"}]}}),
    )
    .await;
    add_node(&client, "n1", plenty()).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let lost = |node: Option<&Node>| {
        let conditions = node.and_then(|n| n.status.as_ref()).and_then(|s| s.conditions.as_ref());
        let unknown = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "Unknown");
        let taints = node.and_then(|n| n.spec.as_ref()).and_then(|s| s.taints.as_ref());
        unknown && taints.is_some_and(|t| t.iter().any(|t| t.key == "node.kubernetes.io/unreachable"))
    };
    soon(await_condition(nodes.clone(), "n1", lost)).await.unwrap();
    let evicted = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()).and_then(|s| s.conditions.as_ref());
        let told =
            conditions.into_iter().flatten().any(|c| c.reason.as_deref() == Some("DeletionByTaintManager"));
        told && pod.is_some_and(|p| p.metadata.deletion_timestamp.is_some())
    };
    soon(await_condition(pods.clone(), "p", evicted)).await.unwrap();
    nodes.delete("n1", &DeleteParams::default()).await.unwrap();
    gone(pods, "p").await;
    stop.cancel();
    soon(running).await.unwrap();
}

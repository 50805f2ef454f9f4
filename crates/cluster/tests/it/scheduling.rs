//! Scheduling: priorities and gangs on a running server, with the nodes of [`control`](crate::control).

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::control::{add_node, event, gone, kubelet, make, plenty, start};
use crate::served::soon;

fn wants_gpus(name: &str, gpus: &str, more: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "works", "image": "image", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}});
    json_patch::merge(&mut pod, &more);
    pod
}

fn is_bound(pod: Option<&Pod>) -> bool {
    pod.and_then(|p| p.spec.as_ref()).is_some_and(|s| s.node_name.is_some())
}

async fn classes(client: &Client) {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value) in [("urgent", 1000), ("idle", 10)] {
        make(&classes, json!({"metadata": {"name": name}, "value": value})).await;
    }
}

fn of_class(name: &str, value: i32) -> Value {
    json!({"spec": {"priorityClassName": name, "priority": value, "preemptionPolicy": "PreemptLowerPriority"}})
}

#[tokio::test]
async fn a_pod_preempts_one_of_lower_priority() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    classes(&client).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(&pods, wants_gpus("idle", "1", of_class("idle", 10))).await;
    make(&pods, wants_gpus("other", "1", of_class("urgent", 1000))).await;
    soon(await_condition(pods.clone(), "idle", conditions::is_pod_running())).await.unwrap();
    soon(await_condition(pods.clone(), "other", conditions::is_pod_running())).await.unwrap();
    // Its finalizer keeps it, so that the test can read its status.
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let idle = pods.patch("idle", &PatchParams::default(), &Patch::Merge(keep)).await.unwrap();

    let urgent = make(&pods, wants_gpus("urgent", "1", of_class("urgent", 1000))).await;
    let says = event(&client, "idle", "Preempted").await;
    assert_eq!(says, format!("Preempted by pod {} on node n1", urgent.uid().unwrap()));
    let leaving = pods.get("idle").await.unwrap();
    assert_eq!(leaving.uid(), idle.uid());
    assert!(leaving.metadata.deletion_timestamp.is_some());
    let target =
        leaving.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "DisruptionTarget");
    assert_eq!(
        target.map(|c| (c.status, c.reason.unwrap(), c.message.unwrap())),
        Some((
            "True".to_owned(),
            "PreemptionByScheduler".to_owned(),
            "default-scheduler: preempting to accommodate a higher priority pod".to_owned()
        ))
    );
    assert_eq!(
        event(&client, "urgent", "FailedScheduling").await,
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    );
    soon(await_condition(pods.clone(), "urgent", is_bound)).await.unwrap();
    let bound = pods.get("urgent").await.unwrap();
    assert_eq!(bound.status.unwrap().nominated_node_name, None, "the wish ends with its fulfilment");
    assert!(pods.get("other").await.unwrap().metadata.deletion_timestamp.is_none());
    pods.patch("idle", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    gone(pods.clone(), "idle").await;
}

#[tokio::test]
async fn capacity_of_terminating_victims_is_reserved_for_the_preemptor() {
    // There is no kubelet: victims stay until the test removes them.
    let (_served, client) = start().await;
    add_node(&client, "n1", plenty()).await;
    classes(&client).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(&pods, wants_gpus("idle", "2", of_class("idle", 10))).await;
    soon(await_condition(pods.clone(), "idle", is_bound)).await.unwrap();
    make(&pods, wants_gpus("urgent", "2", of_class("urgent", 1000))).await;
    let nominated = |pod: Option<&Pod>| {
        pod.and_then(|p| p.status.as_ref()).and_then(|s| s.nominated_node_name.as_deref()) == Some("n1")
    };
    soon(await_condition(pods.clone(), "urgent", nominated)).await.unwrap();
    soon(await_condition(pods.clone(), "idle", |pod: Option<&Pod>| {
        pod.is_some_and(|p| p.metadata.deletion_timestamp.is_some())
    }))
    .await
    .unwrap();
    make(&pods, wants_gpus("latecomer", "1", of_class("idle", 10))).await;
    assert_eq!(
        event(&client, "latecomer", "FailedScheduling").await,
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    pods.delete("idle", &DeleteParams::default().grace_period(0)).await.unwrap();
    soon(await_condition(pods.clone(), "urgent", is_bound)).await.unwrap();
    assert!(!is_bound(Some(&pods.get("latecomer").await.unwrap())));
}

/// Installs the PodGroup of a gang scheduler, and returns its API.
async fn pod_groups(client: &Client, group: &str, version: &str) -> Api<DynamicObject> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("podgroups.{group}");
    make(
        &definitions,
        json!({"metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
            "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]}}),
    )
    .await;
    soon(await_condition(definitions, &name, conditions::is_crd_established())).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "PodGroup"));
    Api::default_namespaced_with(client.clone(), &kind)
}

fn pod_group(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": kind, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec})
}

async fn has_phase(groups: &Api<DynamicObject>, name: &str, phase: &'static str) -> Value {
    let fits = move |group: Option<&DynamicObject>| group.is_some_and(|g| g.data["status"]["phase"] == phase);
    soon(await_condition(groups.clone(), name, fits)).await.unwrap().unwrap().data["status"].clone()
}

async fn bound_of(pods: &Api<Pod>, gang: &str) -> usize {
    let members = pods.list(&ListParams::default().labels(&format!("gang={gang}"))).await.unwrap();
    members.items.iter().filter(|pod| is_bound(Some(pod))).count()
}

#[tokio::test]
async fn volcano_gangs_are_scheduled_as_a_whole() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    let groups = pod_groups(&client, "scheduling.volcano.sh", "v1beta1").await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for gang in ["one", "two"] {
        let value = pod_group("scheduling.volcano.sh/v1beta1", gang, &json!({"minMember": 3}));
        make(&groups, value).await;
    }
    // Alternating, so that a scheduler that binds pods one by one would give two of the four GPUs to each
    // gang.
    for member in 0..3 {
        for gang in ["one", "two"] {
            let more = json!({"metadata": {"labels": {"gang": gang},
                "annotations": {"scheduling.k8s.io/group-name": gang}}, "spec": {"schedulerName": "volcano"}});
            make(&pods, wants_gpus(&format!("{gang}-{member}"), "1", more)).await;
        }
    }
    assert!(event(&client, "one-2", "FailedScheduling").await.starts_with("no nodes available"));
    add_node(&client, "n1", plenty()).await;
    add_node(&client, "n2", plenty()).await;
    for member in 0..3 {
        soon(await_condition(pods.clone(), &format!("one-{member}"), is_bound)).await.unwrap();
    }
    has_phase(&groups, "one", "Running").await;
    let unready = "pod group is not ready, 3 Pending, 3 minAvailable";
    let says_why = move |group: Option<&DynamicObject>| {
        group.is_some_and(|group| {
            let status = &group.data["status"];
            let said = &status["conditions"][0];
            status["phase"] == "Inqueue"
                && said["type"] == "Unschedulable"
                && said["reason"] == "NotEnoughResources"
                && said["message"].as_str().is_some_and(|message| message.contains(unready))
        })
    };
    soon(await_condition(groups.clone(), "two", says_why)).await.unwrap();
    assert!(event(&client, "two", "Unschedulable").await.contains("pod group is not ready"));
    assert_eq!(bound_of(&pods, "two").await, 0);

    let of_one = ListParams::default().labels("gang=one");
    pods.delete_collection(&DeleteParams::default(), &of_one).await.unwrap();
    for member in 0..3 {
        soon(await_condition(pods.clone(), &format!("two-{member}"), is_bound)).await.unwrap();
    }
    has_phase(&groups, "two", "Running").await;
}

#[tokio::test]
async fn a_gang_of_scheduler_plugins_waits_for_its_last_member() {
    let (_served, client) = start().await;
    let _kubelet = kubelet(&client);
    add_node(&client, "n1", plenty()).await;
    let groups = pod_groups(&client, "scheduling.x-k8s.io", "v1alpha1").await;
    let spec = json!({"minMember": 2, "scheduleTimeoutSeconds": 10});
    make(&groups, pod_group("scheduling.x-k8s.io/v1alpha1", "pair", &spec)).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let member = |scheduler: &str| {
        json!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "pair"}},
            "spec": {"schedulerName": scheduler}})
    };
    make(&pods, wants_gpus("first", "1", member("scheduler-plugins-scheduler"))).await;
    assert_eq!(
        event(&client, "first", "FailedScheduling").await,
        "0/1 nodes are available: pre-filter pod first cannot find enough sibling pods, current pods number: 1, \
         minMember of group: 2."
    );
    assert!(!is_bound(Some(&pods.get("first").await.unwrap())));
    make(&pods, wants_gpus("second", "1", member("scheduler-plugins-scheduler"))).await;
    soon(await_condition(pods.clone(), "first", is_bound)).await.unwrap();
    soon(await_condition(pods.clone(), "second", is_bound)).await.unwrap();
    has_phase(&groups, "pair", "Running").await;
}

#[tokio::test]
async fn a_gang_binds_only_after_all_of_its_victims_are_gone() {
    let (_served, client) = start().await;
    let groups = pod_groups(&client, "scheduling.x-k8s.io", "v1alpha1").await;
    add_node(&client, "n1", plenty()).await;
    classes(&client).await;
    let spec = json!({"minMember": 2});
    make(&groups, pod_group("scheduling.x-k8s.io/v1alpha1", "pair", &spec)).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(&pods, wants_gpus("idle", "1", of_class("idle", 10))).await;
    soon(await_condition(pods.clone(), "idle", is_bound)).await.unwrap();
    for name in ["first", "second"] {
        let mut more = of_class("urgent", 1000);
        more["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("pair");
        make(&pods, wants_gpus(name, "1", more)).await;
    }
    event(&client, "idle", "Preempted").await;
    make(&pods, wants_gpus("latecomer", "1", of_class("idle", 10))).await;
    event(&client, "latecomer", "FailedScheduling").await;
    for name in ["first", "second"] {
        let pod = pods.get(name).await.unwrap();
        assert!(!is_bound(Some(&pod)), "{name} waits for the other");
        assert_eq!(pod.status.unwrap().nominated_node_name.as_deref(), Some("n1"), "{name}");
    }
    pods.delete("idle", &DeleteParams::default().grace_period(0)).await.unwrap();
    for name in ["first", "second"] {
        soon(await_condition(pods.clone(), name, is_bound)).await.unwrap();
    }
}

//! PersistentVolumeClaims and their volumes: directories of the cluster, used by real pods.

use std::path::Path;

use cluster::{Cluster, Options};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::control::{add_node, event, gone, make, plenty};
use crate::served::soon;

async fn start(state: &Path) -> Cluster {
    let mut options = Options::new(state.join("c"));
    options.sandbox_program = vec![env!("CARGO_BIN_EXE_cluster-sandbox").into()];
    Cluster::start(options).await.unwrap()
}

fn claim(name: &str, more: Value) -> Value {
    let mut claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    json_patch::merge(&mut claim, &more);
    claim
}

fn pod(name: &str, claim: &str, script: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/part", "subPath": "a/b"}]}]}})
}

fn has_phase<'a>(wanted: &'a str) -> impl Fn(Option<&PersistentVolumeClaim>) -> bool + 'a {
    move |claim| claim.and_then(|c| c.status.as_ref()).and_then(|s| s.phase.as_deref()) == Some(wanted)
}

fn succeeded(pod: Option<&Pod>) -> bool {
    pod.and_then(|p| p.status.as_ref()).and_then(|s| s.phase.as_deref()) == Some("Succeeded")
}

#[tokio::test]
async fn a_claim_keeps_data_and_is_deleted_after_its_last_pod() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path()).await;
    let client = cluster.client();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(&claims, claim("data", json!({}))).await;
    assert_eq!(
        event(&client, "data", "WaitForFirstConsumer").await,
        "waiting for first consumer to be created before binding"
    );
    make(&pods, pod("writer", "data", "echo kept > /part/file")).await;
    soon(await_condition(pods.clone(), "writer", succeeded)).await.unwrap();
    let bound = soon(await_condition(claims.clone(), "data", has_phase("Bound"))).await.unwrap().unwrap();
    assert_eq!(bound.annotations()["volume.kubernetes.io/selected-node"], "node-0");
    assert_eq!(bound.finalizers(), ["kubernetes.io/pvc-protection"]);
    let name = bound.spec.unwrap().volume_name.unwrap();
    assert_eq!(name, format!("pvc-{}", bound.metadata.uid.unwrap()));
    assert_eq!(
        event(&client, "data", "ProvisioningSucceeded").await,
        format!("Successfully provisioned volume {name}")
    );
    let folder = dir.path().join("c/volumes").join(&name);
    assert_eq!(std::fs::read_to_string(folder.join("a/b/file")).unwrap(), "kept\n");

    let bigger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    claims.patch("data", &PatchParams::default(), &Patch::Merge(bigger)).await.unwrap();
    let grown = |claim: Option<&PersistentVolumeClaim>| {
        let capacity = claim.and_then(|c| c.status.as_ref()).and_then(|s| s.capacity.as_ref());
        capacity.and_then(|c| c.get("storage")).is_some_and(|size| size.0 == "2Gi")
    };
    soon(await_condition(claims.clone(), "data", grown)).await.unwrap();

    make(&pods, pod("reader", "data", "grep kept /data/a/b/file && sleep 1000")).await;
    soon(await_condition(pods.clone(), "reader", conditions::is_pod_running())).await.unwrap();
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    make(&pods, pod("late", "data", "true")).await;
    assert_eq!(
        event(&client, "late", "FailedScheduling").await,
        "0/1 nodes are available: persistentvolumeclaim \"data\" is being deleted. no new claims to deallocate, \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    assert!(claims.get_opt("data").await.unwrap().is_some(), "a pod uses it");
    pods.delete("late", &DeleteParams::default()).await.unwrap();
    gone(pods.clone(), "late").await;
    pods.delete("reader", &DeleteParams::default()).await.unwrap();
    gone(claims, "data").await;
    gone(volumes, &name).await;
    assert!(!folder.exists());
    cluster.stop().await;
}

#[tokio::test]
async fn a_local_volume_decides_the_node_and_is_retained() {
    let served = crate::served::serve_with(|options| options.nodes = 0).await;
    let client = served.cluster.client();
    add_node(&client, "n1", plenty()).await;
    add_node(&client, "n2", plenty()).await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    make(
        &classes,
        json!({"metadata": {"name": "disks"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"}),
    )
    .await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make(&claims, claim("scratch", json!({"spec": {"storageClassName": "disks"}}))).await;
    make(&pods, pod("user", "scratch", "true")).await;
    assert_eq!(
        event(&client, "user", "FailedScheduling").await,
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. no new claims to \
         deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    make(
        &volumes,
        json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disks", "local": {"path": "/"},
        "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]}}}}),
    )
    .await;
    let on = |pod: Option<&Pod>| pod.and_then(|p| p.spec.as_ref()).and_then(|s| s.node_name.clone());
    let placed = await_condition(pods.clone(), "user", |pod: Option<&Pod>| on(pod).is_some());
    let placed = soon(placed).await.unwrap();
    assert_eq!(on(placed.as_ref()).as_deref(), Some("n2"));
    soon(await_condition(claims.clone(), "scratch", has_phase("Bound"))).await.unwrap();
    let phase = |wanted: &'static str| {
        move |volume: Option<&PersistentVolume>| {
            volume.and_then(|v| v.status.as_ref()).and_then(|s| s.phase.as_deref()) == Some(wanted)
        }
    };
    soon(await_condition(volumes.clone(), "disk", phase("Bound"))).await.unwrap();
    pods.delete("user", &DeleteParams::default().grace_period(0)).await.unwrap();
    claims.delete("scratch", &DeleteParams::default()).await.unwrap();
    soon(await_condition(volumes.clone(), "disk", phase("Released"))).await.unwrap();
    assert_eq!(volumes.list(&ListParams::default()).await.unwrap().items.len(), 1);

    make(&pods, pod("lost", "nothing", "true")).await;
    assert!(
        event(&client, "lost", "FailedScheduling").await.starts_with(
            "0/2 nodes are available: persistentvolumeclaim \"nothing\" not found. no new claims"
        )
    );
    make(&claims, claim("unclassed", json!({}))).await;
    assert_eq!(
        event(&client, "unclassed", "FailedBinding").await,
        "no persistent volumes available for this claim and no storage class is set"
    );
}

//! Sums of GPUs for people who may create jobs and may not list nodes.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use serde_json::{Value, json};
use service::Settings;
use service::contract::ListGpusRequest;

use crate::line::Trouble;
use crate::overview::{holder, node};
use crate::stage::{ADMIN, JANE, OTHER_TEAM, PATIENCE, Stage, TEAM, VERA, call};

const GPUS: &str = "/api/v1/namespaces/team-cv/gpus";
const KUEUE: &str = "kueue.x-k8s.io";

/// A kind of Kueue.
fn resource(kind: &str) -> ApiResource {
    ApiResource {
        group: KUEUE.to_owned(),
        version: "v1beta1".to_owned(),
        api_version: format!("{KUEUE}/v1beta1"),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

/// Serves a kind with any fields.
pub async fn serve(stage: &Stage, resource: &ApiResource, scope: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(stage.admin.clone());
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = json!({ "metadata": { "name": name }, "spec": { "group": resource.group, "scope": scope,
        "names": { "plural": resource.plural, "kind": resource.kind },
        "versions": [{ "name": resource.version, "served": true, "storage": true,
            "schema": { "openAPIV3Schema": schema } }] } });
    crds.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    let served = await_condition(crds, &name, is_crd_established());
    tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
}

/// Serves Kueue's queues.
pub async fn serve_queues(stage: &Stage) {
    for (kind, scope) in [("LocalQueue", "Namespaced"), ("ClusterQueue", "Cluster")] {
        serve(stage, &resource(kind), scope).await;
    }
}

/// Creates a ClusterQueue of 16 GPUs, six of which are reserved, for the namespaces that it selects, and these LocalQueues of it.
pub async fn queues(stage: &Stage, selected: &[&str], local: &[(&str, &str)]) {
    let name = json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": selected });
    let flavors = |field: &str, amount: u32| json!([{ "name": "f", "resources": [{ "name": "nvidia.com/gpu", field: amount }] }]);
    let mut all = DynamicObject::new("everything", &resource("ClusterQueue"));
    all.data = json!({ "spec": { "namespaceSelector": { "matchExpressions": [name] },
            "resourceGroups": [{ "coveredResources": ["nvidia.com/gpu"], "flavors": flavors("nominalQuota", 16) }] },
        "status": { "flavorsReservation": flavors("total", 6) } });
    let cluster: Api<DynamicObject> = Api::all_with(stage.admin.clone(), &resource("ClusterQueue"));
    cluster.create(&PostParams::default(), &all).await.unwrap();
    for (namespace, name) in local {
        let mut queue = DynamicObject::new(name, &resource("LocalQueue"));
        queue.data = json!({ "spec": { "clusterQueue": "everything" } });
        let queues: Api<DynamicObject> =
            Api::namespaced_with(stage.admin.clone(), namespace, &resource("LocalQueue"));
        queues.create(&PostParams::default(), &queue).await.unwrap();
    }
}

/// The unknown parts of a response, with the reasons.
pub fn reasons(response: &Value) -> Vec<(&str, &str)> {
    let parts = response["unknown"].as_array().unwrap().iter();
    parts.map(|part| (part["part"].as_str().unwrap(), part["reason"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_person_who_may_create_jobs_but_not_list_nodes_sees_sums_without_names() {
    let stage = Stage::new().await;
    serve_queues(&stage).await;
    queues(&stage, &[TEAM], &[(TEAM, "ours"), (OTHER_TEAM, "theirs")]).await;
    node(&stage, "machine-a", "8").await;
    node(&stage, "machine-b", "8").await;
    holder(&stage, "machine-a", "5").await;
    assert_eq!(
        stage.get("/api/v1/capacity?workers=1&gpus=1", JANE).await.status,
        403,
        "she may not list nodes"
    );
    let reply = stage.get(GPUS, JANE).await;
    let cluster = json!([{ "resource": "nvidia.com/gpu", "model": "H100", "gpus": 16, "free": 11 }]);
    let quota = json!([{ "resource": "nvidia.com/gpu", "gpus": 16, "free": 10 }]);
    let queues = json!([{ "name": "ours", "stopped": false, "sums": quota }]);
    let expected = json!({ "cluster": { "sums": cluster }, "queues": { "queues": queues }, "unknown": [] });
    assert_eq!(reply.json(), expected);
    for name in ["machine", "holder", OTHER_TEAM, "theirs", "everything"] {
        assert!(!reply.text.contains(name), "{name}: {}", reply.text);
    }
    let request = ListGpusRequest { namespace: TEAM.to_owned() };
    let over_grpc = stage.grpc().await.list_gpus(call(JANE, request)).await.unwrap().into_inner();
    assert_eq!(serde_json::to_value(over_grpc).unwrap(), expected);
}

#[tokio::test]
async fn the_quota_of_a_cluster_queue_that_does_not_select_the_namespace_is_unknown() {
    let stage = Stage::new().await;
    serve_queues(&stage).await;
    queues(&stage, &[OTHER_TEAM], &[(TEAM, "ours")]).await;
    let message = format!("ClusterQueue everything does not select namespace {TEAM}");
    let unknown = |part: &str| json!({ "part": part, "reason": "NotSelected", "message": message });
    let sums = stage.get(GPUS, JANE).await.json();
    let queue = json!({ "name": "ours", "stopped": true, "sums": [], "unknown": unknown("sums") });
    assert_eq!(sums["queues"]["queues"], json!([queue]), "{sums:#}");
    let choices = stage.get(&format!("/api/v1/namespaces/{TEAM}/choices"), ADMIN).await.json();
    let queue =
        json!({ "name": "ours", "clusterQueue": "everything", "stopped": true, "unknown": unknown("free") });
    assert_eq!(choices["queues"]["queues"], json!([queue]), "{choices:#}");
    let path = format!("/api/v1/capacity?workers=1&gpus=1&namespace={TEAM}&queue=ours");
    let capacity = stage.get(&path, ADMIN).await.json();
    let queue = &capacity["queue"];
    assert_eq!((queue.get("free"), &queue["unknown"]), (None, &unknown("free")), "{capacity:#}");
    assert_eq!(capacity.get("workersInQueue"), None, "{capacity:#}");
    assert!(capacity["findings"].to_string().contains(&message), "{capacity:#}");
}

#[tokio::test]
async fn without_gpus_and_without_kueue_sums_are_known_to_be_empty() {
    let stage = Stage::new().await;
    let empty = json!({ "cluster": { "sums": [] }, "queues": { "queues": [] }, "unknown": [] });
    assert_eq!(stage.get(GPUS, JANE).await.json(), empty);
}

#[tokio::test]
async fn who_may_not_create_jobs_in_the_namespace_sees_no_sums() {
    let stage = Stage::new().await;
    let theirs = format!("/api/v1/namespaces/{OTHER_TEAM}/gpus");
    for (person, path) in [(VERA, GPUS), (JANE, theirs.as_str())] {
        let refused = stage.get(path, person).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text);
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("lacks 'create' permission for MPIJobs"), "{message}");
    }
    assert_eq!(stage.get(&theirs, ADMIN).await.status, 200);
}

#[tokio::test]
async fn who_may_create_jobs_of_another_kind_only_sees_sums_and_choices_too() {
    let stage = Stage::new().await;
    let rights =
        json!({ "apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["create"] });
    stage.create_role("creates-trainjobs", rights).await;
    stage.allow(OTHER_TEAM, "vera", "creates-trainjobs").await;
    for method in ["gpus", "choices"] {
        let path = format!("/api/v1/namespaces/{OTHER_TEAM}/{method}");
        assert_eq!(stage.get(&path, VERA).await.status, 200, "{method}");
    }
}

#[tokio::test]
async fn sums_that_an_administrator_turned_off_are_not_even_read() {
    let settings = Settings { hides_gpu_sums: true, ..Settings::default() };
    let stage = Stage::with(settings).await;
    node(&stage, "machine-a", "8").await;
    for person in [JANE, ADMIN] {
        let off = stage.get(GPUS, person).await.json();
        assert_eq!(reasons(&off), [("cluster", "TurnedOff"), ("queues", "TurnedOff")], "{off}");
        assert_eq!((off.get("cluster"), off.get("queues")), (None, None));
    }
    let read = |sent: &String| sent.contains("/nodes") || sent.contains("queues");
    assert!(!stage.requests().iter().any(read), "{:?}", stage.requests());
}

#[tokio::test]
async fn sums_that_cannot_be_read_are_unknown_and_not_zero() {
    let settings = Settings { patience: Duration::from_secs(4), ..Settings::default() };
    let stage = Stage::with(settings).await;
    node(&stage, "machine-a", "8").await;
    for (trouble, reason) in [(Trouble::Busy, "Unreadable"), (Trouble::Silent, "Late")] {
        let known = stage.get(GPUS, JANE).await.json();
        assert_eq!((&known["cluster"]["sums"][0]["free"], reasons(&known).len()), (&json!(8), 0), "{known}");
        stage.trouble(trouble);
        let unknown = stage.get(GPUS, JANE).await;
        assert_eq!(unknown.status, 200, "{}", unknown.text);
        let unknown = unknown.json();
        assert_eq!(reasons(&unknown), [("cluster", reason), ("queues", reason)], "{unknown}");
        assert_eq!((unknown.get("cluster"), unknown.get("queues")), (None, None));
        stage.trouble(Trouble::None);
    }
}

//! PodDisruptionBudgets: their status, and the evictions that they reject.

use http::Request;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::served::{Served, serve_with, soon};

async fn make_ready(client: &Client, name: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({"metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"nodeName": "elsewhere", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
}

/// Waits until the budget's status reports these numbers of allowed disruptions and healthy pods.
async fn allows(client: &Client, allowed: i32, healthy: i32) {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "default");
    soon(async {
        loop {
            let status = budgets.get("b").await.unwrap().status.unwrap_or_default();
            if (status.disruptions_allowed, status.current_healthy) == (Some(allowed), Some(healthy)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn evict(client: &Client, name: &str) -> kube::Result<Value> {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let request = Request::post(format!("/api/v1/namespaces/default/pods/{name}/eviction"))
        .header("content-type", "application/json");
    client.request(request.body(body.to_string().into_bytes()).unwrap()).await
}

#[tokio::test]
async fn a_budget_rejects_evictions_beyond_what_it_allows() {
    let Served { cluster, state: _state } = serve_with(|options| options.nodes = 0).await;
    let client = cluster.client();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "default");
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    make_ready(&client, "x").await;
    make_ready(&client, "y").await;
    allows(&client, 1, 2).await;
    evict(&client, "x").await.unwrap();
    allows(&client, 0, 1).await;
    let Err(kube::Error::Api(refusal)) = evict(&client, "y").await else { panic!("it went") };
    assert_eq!((refusal.code, refusal.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(refusal.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &refusal.details.unwrap().causes[0];
    assert_eq!(cause.reason, "DisruptionBudget");
    assert_eq!(cause.message, "The disruption budget b needs 1 healthy pods and has 1 currently");
    // A pod that has ended can always be evicted.
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let ended = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    pods.patch_status("y", &PatchParams::default(), &ended).await.unwrap();
    evict(&client, "y").await.unwrap();
    cluster.stop().await;
}

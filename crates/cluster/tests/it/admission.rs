//! Built-in admission: limits, quotas, priorities, default classes, Pod Security.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use cluster::apiserver::Endpoint;
use cluster::apiserver::auth::UserInfo;

use crate::served::{Served, serve, soon};

async fn post(client: &Client, path: &str, body: Value) -> kube::Result<Value> {
    let request = http::Request::post(path).header("content-type", "application/json");
    soon(client.request(request.body(body.to_string().into_bytes()).unwrap())).await
}

fn core(plural: &str) -> String {
    format!("/api/v1/namespaces/default/{plural}")
}

async fn make_quota(client: &Client, name: &str, spec: Value) {
    let quota =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec});
    post(client, &core("resourcequotas"), quota).await.unwrap();
}

fn pod(name: &str, resources: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

/// Returns the code and message of an expected error.
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("this should have been refused: {other:?}"),
    }
}

/// Waits until a quota's status reports this usage.
async fn used(client: &Client, name: &str, expected: Value) {
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "default");
    let mut last = Value::Null;
    let waiting = async {
        loop {
            last = json!(quotas.get(name).await.unwrap().status)["used"].clone();
            if last == expected {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let done = tokio::time::timeout(crate::served::PATIENCE, waiting).await;
    assert!(done.is_ok(), "{name} uses {last} and not {expected}");
}

#[tokio::test]
async fn a_limit_range_sets_defaults_and_enforces_limits() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "2"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}]}});
    post(&client, &core("limitranges"), range).await.unwrap();
    let made = post(&client, &core("pods"), pod("p", &json!({}))).await.unwrap();
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}})
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let big = post(&client, &core("pods"), pod("q", &json!({"limits": {"cpu": "3"}}))).await;
    let text = "pods \"q\" is forbidden: maximum cpu usage per Container is 2, but limit is 3";
    assert_eq!(refused(big), (403, text.into()));
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    let text = "persistentvolumeclaims \"c\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi";
    assert_eq!(refused(post(&client, &core("persistentvolumeclaims"), claim).await), (403, text.into()));
    cluster.stop().await;
}

#[tokio::test]
async fn a_quota_counts_pods_until_they_finish() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    make_quota(
        &client,
        "q",
        json!({"hard": {"pods": "2", "requests.nvidia.com/gpu": "4", "count/pods": "3"}}),
    )
    .await;
    used(&client, "q", json!({"pods": "0", "requests.nvidia.com/gpu": "0", "count/pods": "0"})).await;
    let gpus = |count: &str| json!({"limits": {"nvidia.com/gpu": count}});
    post(&client, &core("pods"), pod("a", &gpus("3"))).await.unwrap();
    // The status is updated at once.
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "default");
    let status = json!(quotas.get("q").await.unwrap().status);
    assert_eq!(status["used"], json!({"pods": "1", "requests.nvidia.com/gpu": "3", "count/pods": "1"}));
    let text = "pods \"b\" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=4";
    assert_eq!(refused(post(&client, &core("pods"), pod("b", &gpus("2"))).await), (403, text.into()));
    post(&client, &core("pods"), pod("b", &gpus("1"))).await.unwrap();
    let text = "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(refused(post(&client, &core("pods"), pod("c", &json!({}))).await), (403, text.into()));

    let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods(&client).patch_status("a", &PatchParams::default(), &done).await.unwrap();
    used(&client, "q", json!({"pods": "1", "requests.nvidia.com/gpu": "1", "count/pods": "2"})).await;
    post(&client, &core("pods"), pod("c", &gpus("3"))).await.unwrap();
    let text = "pods \"d\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=3,pods=2, limited: count/pods=3,pods=2";
    assert_eq!(refused(post(&client, &core("pods"), pod("d", &json!({}))).await), (403, text.into()));
    pods(&client).delete("b", &DeleteParams::default()).await.unwrap();
    used(&client, "q", json!({"pods": "1", "requests.nvidia.com/gpu": "3", "count/pods": "2"})).await;

    // A dry run is checked but not counted; a rejected name doesn't count either.
    let dry = format!("{}?dryRun=All", core("pods"));
    post(&client, &dry, pod("e", &gpus("1"))).await.unwrap();
    assert_eq!(refused(post(&client, &dry, pod("e", &gpus("2"))).await).0, 403);
    assert_eq!(refused(post(&client, &core("pods"), pod("c", &json!({}))).await).0, 409);
    used(&client, "q", json!({"pods": "1", "requests.nvidia.com/gpu": "3", "count/pods": "2"})).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_never_exceed_a_quota() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    make_quota(&client, "few", json!({"hard": {"configmaps": "17"}})).await;
    make_quota(&client, "many", json!({"hard": {"count/configmaps": "1k"}})).await;
    let mut tries = JoinSet::new();
    for index in 0..200 {
        let client = client.clone();
        tries.spawn(async move {
            let maps: Api<ConfigMap> = Api::namespaced(client, "default");
            // Each name twice, so that some writes fail after the quota check.
            let map = json!({"metadata": {"name": format!("m{}", index / 2)}});
            let made = maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await;
            if index % 7 == 0
                && let Ok(made) = made
            {
                maps.delete(&made.name_any(), &DeleteParams::default()).await.unwrap();
            }
            let there = maps.list(&Default::default()).await.unwrap().items.len();
            assert!(there <= 17, "{there} are more than the quota permits");
        });
    }
    soon(tries.join_all()).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut last = Ok(Value::Null);
    for index in 0..=17 {
        last = post(&client, &core("configmaps"), json!({"metadata": {"name": format!("n{index}")}})).await;
        if last.is_err() {
            break;
        }
    }
    let text = "is forbidden: exceeded quota: few, requested: configmaps=1, used: configmaps=17, limited: configmaps=17";
    assert!(refused(last).1.ends_with(text), "what is free can be used, and no more");
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 17);
    used(&client, "few", json!({"configmaps": "17"})).await;
    used(&client, "many", json!({"count/configmaps": "17"})).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_quota_counts_custom_objects_and_respects_scopes() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "mpijobs.kubeflow.org"}, "spec": {"group": "kubeflow.org", "scope": "Namespaced",
        "names": {"plural": "mpijobs", "kind": "MPIJob"}, "versions": [{"name": "v2beta1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.unwrap();
    make_quota(&client, "jobs", json!({"hard": {"count/mpijobs.kubeflow.org": "1"}})).await;
    let path = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs";
    let job = |name: &str| json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}});
    post(&client, path, job("a")).await.unwrap();
    let text = "mpijobs.kubeflow.org \"b\" is forbidden: exceeded quota: jobs, requested: count/mpijobs.kubeflow.org=1, \
                used: count/mpijobs.kubeflow.org=1, limited: count/mpijobs.kubeflow.org=1";
    assert_eq!(refused(post(&client, path, job("b")).await), (403, text.into()));
    let kind = kube::api::ApiResource {
        group: "kubeflow.org".into(),
        version: "v2beta1".into(),
        api_version: "kubeflow.org/v2beta1".into(),
        kind: "MPIJob".into(),
        plural: "mpijobs".into(),
    };
    let jobs: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    jobs.delete("a", &DeleteParams::default()).await.unwrap();
    used(&client, "jobs", json!({"count/mpijobs.kubeflow.org": "0"})).await;
    post(&client, path, job("b")).await.unwrap();

    make_quota(&client, "best", json!({"hard": {"pods": "0"}, "scopes": ["BestEffort"]})).await;
    make_quota(&client, "said", json!({"hard": {"limits.cpu": "1"}})).await;
    let text = "pods \"p\" is forbidden: failed quota: said: must specify limits.cpu for: c";
    assert_eq!(
        refused(post(&client, &core("pods"), pod("p", &json!({"requests": {"cpu": "1"}}))).await).1,
        text
    );
    post(&client, &core("pods"), pod("p", &json!({"limits": {"cpu": "1"}}))).await.unwrap();
    let text =
        "pods \"q\" is forbidden: exceeded quota: best, requested: pods=1, used: pods=0, limited: pods=0";
    assert_eq!(refused(post(&client, &core("pods"), pod("q", &json!({}))).await).1, text);
    cluster.stop().await;
}

#[tokio::test]
async fn pods_get_their_priority_and_tolerations() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let made = post(&client, &core("pods"), pod("plain", &json!({}))).await.unwrap();
    assert_eq!(
        (&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
    // What the server fills in has no owner.
    let owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].as_object().unwrap();
    assert!(!owned.contains_key("f:priority") && !owned.contains_key("f:tolerations"), "{owned:?}");

    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str, value: i32, default: bool| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "globalDefault": default, "preemptionPolicy": "Never"})
    };
    post(&client, classes, class("usual", 7, true)).await.unwrap();
    let text = "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist";
    assert_eq!(refused(post(&client, classes, class("second", 8, true)).await), (403, text.into()));
    let made = post(&client, &core("pods"), pod("usual", &json!({}))).await.unwrap();
    let spec = &made["spec"];
    assert_eq!(
        (&spec["priorityClassName"], &spec["priority"], &spec["preemptionPolicy"]),
        (&json!("usual"), &json!(7), &json!("Never"))
    );

    let with = |name: &str, change: Value| {
        let mut pod = pod(name, &json!({}));
        json_patch::merge(&mut pod["spec"], &change);
        pod
    };
    let critical = with("critical", json!({"priorityClassName": "system-node-critical"}));
    assert_eq!(post(&client, &core("pods"), critical).await.unwrap()["spec"]["priority"], 2_000_001_000);
    let table = [
        (json!({"priorityClassName": "none"}), "no PriorityClass with name none was found"),
        (
            json!({"priority": 3}),
            "the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 7 from the given PriorityClass name",
        ),
        (json!({"runtimeClassName": "gvisor"}), "pod rejected: RuntimeClass \"gvisor\" not found"),
    ];
    for (change, why) in table {
        let text = format!("pods \"bad\" is forbidden: {why}");
        assert_eq!(refused(post(&client, &core("pods"), with("bad", change)).await), (403, text));
    }
    cluster.stop().await;
}

#[tokio::test]
async fn claims_get_the_default_class() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x.y/z",
        "metadata": {"name": "usual", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    post(&client, "/apis/storage.k8s.io/v1/storageclasses", class).await.unwrap();
    let claim = |name: &str, class: Value| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
    };
    let path = core("persistentvolumeclaims");
    let table =
        [("a", Value::Null, json!("usual")), ("b", json!(""), json!("")), ("c", json!("own"), json!("own"))];
    for (name, given, expected) in table {
        assert_eq!(
            post(&client, &path, claim(name, given)).await.unwrap()["spec"]["storageClassName"],
            expected
        );
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_may_only_write_its_own_objects() {
    let Served { cluster, state: _state } = serve().await;
    let admin = cluster.client();
    let mut user = UserInfo::admin();
    user.name = "system:node:n1".into();
    user.groups.push("system:nodes".into());
    let node = Client::new(Endpoint::trusted(cluster.server().clone(), user), "default");
    let make_node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    post(&node, "/api/v1/nodes", make_node("n1")).await.unwrap();
    let text = "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"";
    assert_eq!(refused(post(&node, "/api/v1/nodes", make_node("n2")).await), (403, text.into()));
    for (name, host) in [("own", "n1"), ("other", "n2")] {
        let mut pod = pod(name, &json!({}));
        pod["spec"]["nodeName"] = json!(host);
        post(&admin, &core("pods"), pod).await.unwrap();
    }
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods(&node).patch_status("own", &PatchParams::default(), &running).await.unwrap();
    let text = "pods \"other\" is forbidden: node \"n1\" can only update pod status for pods with spec.nodeName set to itself";
    assert_eq!(refused(pods(&node).patch_status("other", &PatchParams::default(), &running).await).1, text);
    assert_eq!(refused(pods(&node).delete("other", &DeleteParams::default()).await).0, 403);
    assert_eq!(refused(post(&node, &core("pods"), pod("new", &json!({}))).await).0, 403);
    pods(&node).delete("own", &DeleteParams::default().grace_period(0)).await.unwrap();
    cluster.stop().await;
}

/// Returns the warnings of a response.
async fn warnings(client: &Client, method: &str, path: &str, body: Value) -> Vec<String> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.body(kube::client::Body::from(body.to_string().into_bytes())).unwrap();
    let answer = soon(client.send(request)).await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let headers = answer.headers().get_all("warning").iter();
    headers.map(|value| value.to_str().unwrap().replace("\\\"", "\"")).collect()
}

#[tokio::test]
async fn pod_security_rejects_pods_and_warns_about_templates() {
    let Served { cluster, state: _state } = serve().await;
    let client = cluster.client();
    let label = |value: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": value, "pod-security.kubernetes.io/enforce-version": "v1.30"}}});
    let mut lax = pod("lax", &json!({}));
    lax["spec"]["hostNetwork"] = json!(true);
    post(&client, &core("pods"), lax.clone()).await.unwrap();
    let told = warnings(&client, "PATCH", "/api/v1/namespaces/default", label("baseline")).await;
    assert_eq!(
        told,
        [
            "299 - \"existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:v1.30\"\"",
            "299 - \"lax: host namespaces\"",
        ]
    );
    lax["metadata"]["name"] = json!("other");
    let text = "pods \"other\" is forbidden: violates PodSecurity \"baseline:v1.30\": host namespaces (hostNetwork=true)";
    assert_eq!(refused(post(&client, &core("pods"), lax.clone()).await), (403, text.into()));
    // Existing pods may change, except in fields that are checked.
    let touch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    pods(&client).patch("lax", &PatchParams::default(), &touch).await.unwrap();
    let image = Patch::Strategic(json!({"spec": {"containers": [{"name": "c", "image": "j"}]}}));
    assert_eq!(refused(pods(&client).patch("lax", &PatchParams::default(), &image).await).0, 403);

    let mut template = lax["spec"].clone();
    template["restartPolicy"] = json!("Never");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": template}}});
    let told = warnings(&client, "POST", "/apis/batch/v1/namespaces/default/jobs", job).await;
    assert_eq!(
        told,
        ["299 - \"would violate PodSecurity \"baseline:v1.30\": host namespaces (hostNetwork=true)\""]
    );

    let wrong = json!({"metadata": {"name": "w", "labels": {"pod-security.kubernetes.io/warn": "none"}}});
    let text = "Namespace \"w\" is invalid: metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"none\": must be one of privileged, baseline, restricted";
    assert_eq!(refused(post(&client, "/api/v1/namespaces", wrong).await), (422, text.into()));
    cluster.stop().await;
}

//! The cluster in numbers, and when a job could start.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ResourceQuota};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::stage::{ADMIN, JANE, JOE, OTHER_TEAM, Stage, TEAM, call, set_prices};

const OVERVIEW: &str = "/api/v1/overview";
const CAPACITY: &str = "/api/v1/capacity";

/// Creates a node with GPUs.
pub async fn node(stage: &Stage, name: &str, gpus: &str) {
    let nodes: Api<Node> = Api::all(stage.admin.clone());
    let node = json!({ "metadata": { "name": name, "labels": { "nvidia.com/gpu.product": "H100" } } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = json!({ "status": {
        "allocatable": { "nvidia.com/gpu": gpus, "cpu": "64", "memory": "512Gi", "pods": "110" },
        "conditions": [{ "type": "Ready", "status": "True" }] } });
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Creates a quota of ten, and this many objects that count.
pub async fn quota(stage: &Stage, namespace: &str, used: usize) {
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.admin.clone(), namespace);
    let quota = json!({ "metadata": { "name": "most" }, "spec": { "hard": { "count/configmaps": "10" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(stage.admin.clone(), namespace);
    for number in 0..used {
        let map = json!({ "metadata": { "name": format!("m{number}") } });
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
}

/// Creates a pod that holds GPUs of a node.
pub async fn holder(stage: &Stage, node: &str, gpus: &str) {
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), OTHER_TEAM);
    let limits = json!({ "nvidia.com/gpu": gpus });
    let pod = json!({ "metadata": { "name": "holder" }, "spec": { "nodeName": node, "containers": [
        { "name": "main", "image": "i", "resources": { "limits": limits } }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

fn names<'v>(list: &'v Value, field: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_administrator_sees_gpus_jobs_and_quotas_of_all_and_others_only_their_own() {
    let stage = Stage::new().await;
    node(&stage, "gpu-0", "8").await;
    for (namespace, used) in [(TEAM, 1), (OTHER_TEAM, 9)] {
        quota(&stage, namespace, used).await;
        stage.job(namespace, "a").await;
        stage.status(namespace, "a", json!({ "phase": "Running" })).await;
        stage.until_shown(namespace, "a", |row| row["phase"] == "Running").await;
    }
    let seen = stage.get(OVERVIEW, ADMIN).await.json();
    assert_eq!(
        seen["nodes"][0],
        json!({ "name": "gpu-0", "model": "H100", "usable": true, "gpus": 8, "used": 0 })
    );
    assert_eq!(seen["models"][0], json!({ "model": "H100", "gpus": 8, "used": 0, "free": 8, "asked": 0 }));
    assert_eq!(names(&seen["namespaces"], "namespace"), [TEAM, OTHER_TEAM]);
    assert_eq!(seen["namespaces"][0]["jobs"]["running"], 1);
    assert_eq!(
        names(&seen["quotas"], "message"),
        ["team-nlp quota 90% consumed", "team-cv quota 10% consumed"]
    );
    let own = stage.get(OVERVIEW, JOE).await.json();
    assert_eq!(names(&own["namespaces"], "namespace"), [OTHER_TEAM]);
    assert_eq!(names(&own["quotas"], "namespace"), [OTHER_TEAM]);
    assert_eq!((&own["nodes"], &own["unread"][0]), (&json!([]), &json!("nodes")));
    assert_eq!(stage.get(&format!("{OVERVIEW}?namespace={OTHER_TEAM}"), JANE).await.status, 403);
    let one = stage.get(&format!("{OVERVIEW}?namespace={OTHER_TEAM}"), ADMIN).await.json();
    assert_eq!(names(&one["quotas"], "namespace"), [OTHER_TEAM]);
}

#[tokio::test]
async fn a_pytorchjob_is_judged_as_an_mpijob_is() {
    let stage = Stage::new().await;
    stage.define_pytorchjob().await;
    node(&stage, "gpu-0", "8").await;
    holder(&stage, "gpu-0", "4").await;
    let manifest = |workers: i32| {
        let template = json!({ "spec": { "containers": [{ "name": "pytorch", "image": "train:1",
            "resources": { "limits": { "nvidia.com/gpu": "2" } } }] } });
        let job = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "net" },
            "spec": { "pytorchReplicaSpecs": { "Master": { "template": template },
                "Worker": { "replicas": workers, "template": template } } } });
        json!({ "manifest": job.to_string() })
    };
    let check = async |body: Value| {
        stage.rest("POST", "/api/v1/namespaces/team-cv/availability", ADMIN, Some(body)).await.json()
    };
    let now = check(manifest(1)).await;
    assert_eq!((&now["start"], &now["requested"]["gpus"]), (&json!("Now"), &json!(4)), "{now:#}");
    let later = check(manifest(3)).await;
    assert_eq!((&later["start"], &later["requested"]["gpus"]), (&json!("Later"), &json!(8)), "{later:#}");
    let path = "/api/v1/namespaces/team-cv/jobs?dryRun=true";
    let dry = stage.rest("POST", path, ADMIN, Some(manifest(3))).await.json();
    assert_eq!((&dry["availability"], &dry["waits"]), (&later, &later["findings"]), "{dry:#}");
}

#[tokio::test]
async fn who_may_list_nodes_sees_what_would_fit_where_and_when() {
    let stage = Stage::new().await;
    for name in ["gpu-0", "gpu-1"] {
        node(&stage, name, "8").await;
    }
    holder(&stage, "gpu-0", "4").await;
    let ask = async |query: &str| stage.get(&format!("{CAPACITY}?{query}"), ADMIN).await.json();
    let now = ask("workers=2&gpus=4&cpu=8&memory=64Gi").await;
    assert_eq!(
        (&now["start"], &now["workersNow"], &now["workersAtMost"]),
        (&json!("Now"), &json!(3), &json!(4))
    );
    let nodes = json!([{ "name": "gpu-1", "workers": 2 }, { "name": "gpu-0", "workers": 1 }]);
    assert_eq!((&now["nodes"], &now["nodesWithRoom"]), (&nodes, &json!(2)), "{now:#}");
    assert_eq!((&now["requested"]["memory"], &now["free"]["gpus"]), (&json!("128Gi"), &json!(12)));
    let later = ask("workers=4&gpus=4").await;
    assert_eq!(later["start"], "Later", "{later:#}");
    assert!(later["wait"]["message"].as_str().unwrap().starts_with("unknown"), "{later:#}");
    assert_eq!(ask("workers=5&gpus=4").await["start"], "Never");
    let body = json!({ "workers": 4, "gpus": 4 });
    let over_grpc =
        stage.grpc().await.check_capacity(call(ADMIN, serde_json::from_value(body).unwrap())).await;
    let over_grpc = serde_json::to_value(over_grpc.unwrap().into_inner()).unwrap();
    assert_eq!((&over_grpc["start"], &over_grpc["findings"]), (&later["start"], &later["findings"]));
    quota(&stage, TEAM, 0).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.admin.clone(), TEAM);
    let few = json!({ "spec": { "hard": { "requests.nvidia.com/gpu": "2" } } });
    quotas.patch("most", &PatchParams::default(), &Patch::Merge(few)).await.unwrap();
    assert_eq!(ask("workers=1&gpus=4&namespace=team-cv").await["start"], "Refused");
    assert_eq!(ask("workers=1&gpus=4&namespace=team-nlp").await["start"], "Now");
    let without_kueue = ask("workers=1&gpus=4&namespace=team-nlp&queue=gpus").await;
    assert_eq!(without_kueue["start"], "Later", "{without_kueue:#}");
}

#[tokio::test]
async fn a_question_about_capacity_is_checked_before_it_is_answered() {
    let stage = Stage::new().await;
    let refused = stage.get(&format!("{CAPACITY}?workers=1&gpus=1"), JANE).await;
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("NotAllowed")));
    for (query, field) in [
        ("workers=0&gpus=1", "workers"),
        ("workers=10001&gpus=1", "workers"),
        ("workers=1&gpus=-1", "gpus"),
        ("workers=1", "gpus"),
        ("workers=1&memory=much", "memory"),
        ("workers=1&cpu=-1", "cpu"),
        ("workers=1&gpus=1&gpuResource=cpu", "gpuResource"),
        ("workers=1&gpus=1&queue=gpus", "namespace"),
    ] {
        let answer = stage.get(&format!("{CAPACITY}?{query}"), ADMIN).await;
        assert_eq!((answer.status, &answer.json()["fields"][0]["path"]), (422, &json!(field)), "{query}");
    }
}

#[tokio::test]
async fn a_dry_run_says_what_is_free_and_how_long_the_job_would_wait() {
    let stage = Stage::new().await;
    node(&stage, "gpu-0", "8").await;
    holder(&stage, "gpu-0", "4").await;
    let spec = |workers: i32| {
        json!({ "spec": { "name": "new", "workers": workers, "image": "train:1", "gpus": 4,
        "command": ["python", "/train.py"] } })
    };
    let check = async |body: Value| {
        stage.rest("POST", "/api/v1/namespaces/team-cv/availability", ADMIN, Some(body)).await.json()
    };
    let now = check(spec(1)).await;
    assert_eq!((&now["available"], &now["start"]), (&json!(true), &json!("Now")), "{now:#}");
    assert_eq!((&now["requested"]["gpus"], &now["free"]["gpus"]), (&json!(4), &json!(4)));
    let later = check(spec(2)).await;
    assert_eq!((&later["start"], &later["available"]), (&json!("Later"), &json!(false)), "{later:#}");
    let message = later["findings"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("Requested 8 GPUs but only 4 available. Estimated wait time:"), "{message}");
    assert!(later["wait"]["message"].as_str().unwrap().starts_with("unknown"), "{later:#}");
    assert!(later["wait"].get("lowSeconds").is_none());
    let path = "/api/v1/namespaces/team-cv/jobs?dryRun=true";
    let dry = stage.rest("POST", path, ADMIN, Some(spec(2))).await.json();
    assert_eq!((&dry["availability"], &dry["waits"]), (&later, &later["findings"]));
    assert_eq!(check(spec(1)).await["start"], "Now", "nothing was created");
    let unseen =
        stage.rest("POST", "/api/v1/namespaces/team-cv/availability", JANE, Some(spec(1))).await.json();
    assert_eq!((&unseen["start"], unseen.get("free")), (&json!("Unknown"), None));
}

#[tokio::test]
async fn a_job_has_a_cost_before_it_is_created_for_those_who_may_read_the_prices() {
    let stage = Stage::new().await;
    let check = async |token: &str| {
        let mut body = json!({ "spec": { "name": "new", "workers": 2, "image": "train:1", "gpus": 4, "command": ["x"] } });
        body["spec"]["memory"] = json!("1Gi");
        stage.rest("POST", "/api/v1/namespaces/team-cv/availability", token, Some(body)).await.json()
    };
    assert!(check(ADMIN).await.get("cost").is_none(), "no prices are set");
    set_prices(&stage, json!({ "currency": "EUR", "gpu-hour": "1.55" })).await;
    let cost = check(ADMIN).await["cost"].clone();
    assert_eq!((&cost["currency"], &cost["perHour"]), (&json!("EUR"), &json!("12.4000")));
    assert_eq!(cost["message"], "about 12.40 EUR per hour (8 GPUs at 1.55; without a price: 2Gi of memory)");
    assert_eq!(cost["parts"][0]["price"], "1.55", "{cost:#}");
    let capacity = stage.get(&format!("{CAPACITY}?workers=8&gpus=1"), ADMIN).await.json();
    assert_eq!(capacity["cost"]["perHour"], "12.4000");
    let body = json!({ "workers": 8, "gpus": 1 });
    let over_grpc =
        stage.grpc().await.check_capacity(call(ADMIN, serde_json::from_value(body).unwrap())).await;
    assert_eq!(over_grpc.unwrap().into_inner().cost.unwrap().per_hour, "12.4000");
    assert!(check(JANE).await.get("cost").is_none(), "she may not read the prices");
    set_prices(&stage, json!({ "currency": "EUR", "gpu-hour": "much" })).await;
    assert!(check(ADMIN).await.get("cost").is_none());
}

//! Templates: kept with versions, used with parameters, ruled by Kubernetes.

use jobs::template::SHARED;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::stage::{ADMIN, JANE, Stage, TEAM, VERA, job};

const TEMPLATES: &str = "/api/v1/namespaces/team-cv/templates";
const JOBS: &str = "/api/v1/namespaces/team-cv/jobs";

fn body(workers: i32) -> Value {
    let mut manifest = job("any");
    manifest["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = json!(workers);
    let rate = json!({ "name": "rate", "type": "number", "default": "0.1", "sets": ["env.LR"] });
    let memory = json!({ "name": "memory", "type": "quantity", "allowed": ["16Gi", "32Gi"], "sets": ["worker.memory"] });
    json!({ "manifest": manifest.to_string(), "description": "the usual", "parameters": [rate, memory] })
}

#[tokio::test]
async fn a_template_is_saved_in_versions_listed_used_and_deleted() {
    let stage = Stage::new().await;
    let path = format!("{TEMPLATES}/base");
    for (workers, version) in [(2, 1), (3, 2), (3, 2)] {
        let saved = stage.rest("PUT", &path, JANE, Some(body(workers))).await;
        assert_eq!((saved.status, saved.json()["version"].clone()), (200, json!(version)), "{}", saved.text);
    }
    let listed = stage.get(TEMPLATES, VERA).await.json();
    let found = &listed["templates"][0];
    assert_eq!(
        (&found["name"], &found["versions"], &found["shared"]),
        (&json!("base"), &json!([1, 2]), &json!(false))
    );
    assert_eq!(found["parameters"][1]["allowed"], json!(["16Gi", "32Gi"]));
    let first = stage.get(&format!("{path}?version=1"), VERA).await.json();
    assert!(first["manifest"].as_str().unwrap().contains("replicas: 2"), "{first}");

    let from =
        json!({ "name": "base", "jobName": "run", "parameters": { "memory": "32Gi" }, "set": ["workers=4"] });
    let made = stage.rest("POST", JOBS, JANE, Some(json!({ "template": from }))).await;
    assert_eq!(made.status, 200, "{}", made.text);
    assert_eq!(
        (&made.json()["job"]["name"], &made.json()["job"]["workers"]["of"]),
        (&json!("run"), &json!(4))
    );
    let manifest = made.json()["manifest"].as_str().unwrap().to_owned();
    assert!(
        manifest.contains("32Gi") && manifest.contains("training.opendatahub.io/template: base"),
        "{manifest}"
    );

    assert_eq!(stage.rest("DELETE", &path, JANE, None).await.status, 200);
    assert_eq!(stage.get(&path, JANE).await.status, 404);
}

#[tokio::test]
async fn every_fault_of_a_template_and_of_its_use_is_named() {
    let stage = Stage::new().await;
    let path = format!("{TEMPLATES}/base");
    assert_eq!(stage.rest("PUT", &path, JANE, Some(body(2))).await.status, 200);
    let faults = |reply: &Value| -> Vec<String> {
        let fields = reply["fields"].as_array().unwrap().iter();
        fields.map(|fault| fault["path"].as_str().unwrap().to_owned()).collect()
    };
    let from = json!({ "name": "base", "jobName": "run", "parameters": { "rate": "fast", "memroy": "1Gi" } });
    let refused = stage.rest("POST", JOBS, JANE, Some(json!({ "template": from }))).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(faults(&refused.json()), ["memroy", "rate", "memory"]);
    let mut wrong = body(2);
    wrong["parameters"][0]["type"] = json!("float");
    let refused = stage.rest("PUT", &path, JANE, Some(wrong)).await;
    assert_eq!((refused.status, faults(&refused.json())), (422, vec!["parameters[0].type".to_owned()]));
    let both = json!({ "template": { "name": "base", "jobName": "run" }, "manifest": job("a").to_string() });
    assert_eq!(stage.rest("POST", JOBS, JANE, Some(both)).await.status, 422);
    let gone = json!({ "template": { "name": "bsae", "jobName": "run" } });
    let missing = stage.rest("POST", JOBS, JANE, Some(gone)).await;
    assert_eq!((missing.status, missing.json()["hint"].clone()), (404, json!("did you mean \"base\"?")));
    assert_eq!(stage.get(&format!("{path}?version=7"), JANE).await.status, 404);
}

#[tokio::test]
async fn shared_templates_are_found_by_who_may_read_them() {
    let stage = Stage::new().await;
    let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
    let shared = serde_json::from_value(json!({ "metadata": { "name": SHARED } })).unwrap();
    namespaces.create(&PostParams::default(), &shared).await.unwrap();
    let path = format!("/api/v1/namespaces/{SHARED}/templates/common");
    assert_eq!(stage.rest("PUT", &path, ADMIN, Some(body(2))).await.status, 200);
    assert_eq!(stage.rest("PUT", &path, JANE, Some(body(2))).await.status, 403);
    let names = |reply: &Value| reply["templates"].as_array().unwrap().len();
    assert_eq!(names(&stage.get(TEMPLATES, JANE).await.json()), 0, "jane may not read there yet");
    stage.allow(SHARED, "jane", "system:aggregate-to-view").await;
    let found = stage.get(TEMPLATES, JANE).await.json();
    assert_eq!((names(&found), &found["templates"][0]["shared"]), (1, &json!(true)));
    let from =
        json!({ "template": { "name": "common", "jobName": "run", "parameters": { "memory": "16Gi" } } });
    let made = stage.rest("POST", JOBS, JANE, Some(from)).await;
    assert_eq!((made.status, made.json()["job"]["namespace"].clone()), (200, json!(TEAM)), "{}", made.text);

    let own = format!("{TEMPLATES}/common");
    let saved = stage.rest("PUT", &own, JANE, Some(body(3))).await;
    assert_eq!((saved.status, &saved.json()["hidesShared"]), (200, &json!(true)), "{}", saved.text);
    assert_eq!(stage.get(&own, JANE).await.json()["hidesShared"], true);
    let found = stage.get(TEMPLATES, JANE).await.json();
    let marks = |at: usize| {
        let template = &found["templates"][at];
        ["shared", "hidesShared"].map(|field| template[field] == true)
    };
    assert_eq!([marks(0), marks(1)], [[true, false], [false, true]], "{found}");
    let from = json!({ "template": { "name": "common", "namespace": SHARED, "jobName": "shared-run",
        "parameters": { "memory": "16Gi" } } });
    let made = stage.rest("POST", JOBS, JANE, Some(from)).await.json();
    assert_eq!(made["job"]["workers"]["of"], 2, "the shared one, by its namespace: {made}");
}

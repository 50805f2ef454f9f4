//! Templates: kept with versions, used with parameters, ruled by Kubernetes.

use jobs::template::{LABEL, MAX_TEMPLATES, SHARED};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
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
    assert!(found.get("manifest").is_none(), "{found}");
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
async fn a_list_of_large_templates_comes_in_pages_without_manifests() {
    let stage = Stage::new().await;
    let mut large = body(2);
    let mut manifest = job("any");
    let container = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0";
    let variable = |number: usize| json!({ "name": format!("E{number}"), "value": "x".repeat(100) });
    manifest.pointer_mut(container).unwrap()["env"] = (0..1_000).map(variable).collect();
    large["manifest"] = json!(manifest.to_string());
    let described = |letter: &str| {
        let mut body = large.clone();
        body["description"] = json!(letter.repeat(100 << 10));
        body
    };
    for letter in ["a", "b", "c"] {
        let saved = stage.rest("PUT", &format!("{TEMPLATES}/{letter}"), JANE, Some(described(letter))).await;
        assert_eq!(saved.status, 200, "{}", saved.text);
    }
    let names = |page: &Value| -> Vec<String> {
        let listed = page["templates"].as_array().unwrap().iter();
        listed.map(|template| template["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = stage.get(&format!("{TEMPLATES}?limit=2"), VERA).await;
    assert!(!first.text.contains("E999") && first.text.len() < 250 << 10, "{}", first.text.len());
    let first = first.json();
    assert_eq!(
        (names(&first).join(","), &first["templates"][0]["kind"]),
        ("a,b".to_owned(), &json!("MPIJob"))
    );
    let next = first["continue"].as_str().unwrap().replace('/', "%2F");
    let second = stage.get(&format!("{TEMPLATES}?limit=2&continue={next}"), VERA).await.json();
    assert_eq!((names(&second), second.get("continue")), (vec!["c".to_owned()], None));
    for wrong in ["limit=201", "limit=-1", "continue=x"] {
        assert_eq!(stage.get(&format!("{TEMPLATES}?{wrong}"), VERA).await.status, 422, "{wrong}");
    }
    let one = stage.get(&format!("{TEMPLATES}/c"), VERA).await.json();
    assert!(one["manifest"].as_str().unwrap().contains("E999"));
    let from =
        json!({ "name": "c", "jobName": "run", "parameters": { "memory": "32Gi" }, "set": ["env.E999=y"] });
    let tried = json!({ "template": from, "dryRun": true, "skipChecks": true });
    let made = stage.rest("POST", JOBS, JANE, Some(tried)).await;
    assert_eq!(made.status, 200, "{}", made.text);
}

#[tokio::test]
async fn a_namespace_has_a_bounded_number_of_templates() {
    let stage = Stage::new().await;
    let path = format!("{TEMPLATES}/last");
    assert_eq!(stage.rest("PUT", &path, JANE, Some(body(2))).await.status, 200);
    let kept: Api<ConfigMap> = Api::namespaced(stage.admin.clone(), TEAM);
    for number in 1..MAX_TEMPLATES {
        let other = json!({ "metadata": { "name": format!("training-template-{number}"), "labels": { LABEL: "true" } },
            "data": { "job.yaml": job("any").to_string() } });
        kept.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    }
    let refused = stage.rest("PUT", &format!("{TEMPLATES}/more"), JANE, Some(body(2))).await;
    let (status, reason) = (refused.status, refused.json()["reason"].clone());
    assert_eq!((status, reason), (403, json!("QuotaExceeded")), "{}", refused.text);
    assert!(refused.text.contains("has 200 templates"), "{}", refused.text);
    let next = stage.rest("PUT", &path, JANE, Some(body(3))).await;
    assert_eq!((next.status, next.json()["version"].clone()), (200, json!(2)), "a version is no template");
    assert_eq!(stage.rest("DELETE", &path, JANE, None).await.status, 200);
    let saved = stage.rest("PUT", &format!("{TEMPLATES}/more"), JANE, Some(body(2))).await;
    assert_eq!(saved.status, 200, "{}", saved.text);
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

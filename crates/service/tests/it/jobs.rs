//! What is done with jobs, as their owner.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use service::Settings;
use service::contract::{CreateJobRequest, JobSpec};
use tokio::net::TcpListener;

use crate::stage::{ADMIN, JANE, JOE, PATIENCE, Stage, TEAM, call, job, request};

const JOBS: &str = "/api/v1/namespaces/team-cv/jobs";

fn spec(name: &str) -> Value {
    json!({ "name": name, "workers": 2, "image": "quay.io/team-cv/resnet:1.0", "command": ["python", "/train.py"],
        "cpu": "1", "memory": "1Gi", "env": { "LR": "0.1" } })
}

#[tokio::test]
async fn a_job_is_created_from_a_specification_shown_changed_and_deleted() {
    let stage = Stage::new().await;
    let made = stage.rest("POST", JOBS, JANE, Some(json!({ "spec": spec("resnet") }))).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let made = made.json();
    assert_eq!((&made["job"]["name"], &made["job"]["owner"]), (&json!("resnet"), &json!("jane")));
    assert_eq!(made["job"]["workers"]["of"], 2);
    assert!(made["manifest"].as_str().unwrap().contains("kind: MPIJob"));
    // The list that follows shows it, without waiting.
    let rows = stage.get("/api/v1/jobs?owner=jane", JANE).await.json();
    assert_eq!(rows["jobs"][0]["name"], "resnet");
    let path = format!("{JOBS}/mpijob/resnet");
    let suspended = stage.rest("POST", &format!("{path}/suspend"), JANE, None).await.json();
    assert_eq!(suspended["changed"], true);
    let again = stage.rest("POST", &format!("{path}/suspend"), JANE, Some(json!({}))).await.json();
    assert_eq!(again["changed"], false);
    assert_eq!(stage.rest("POST", &format!("{path}/resume"), JANE, None).await.json()["changed"], true);
    let cancelled = stage.rest("POST", &format!("{path}/cancel"), JANE, None).await.json();
    assert_eq!(cancelled["job"]["name"], "resnet");
    let jobs: kube::Api<api::MPIJob> = kube::Api::namespaced(stage.admin.clone(), TEAM);
    let asked = jobs.get("resnet").await.unwrap().metadata.annotations.unwrap_or_default();
    assert_eq!(asked.get(api::ANNOTATION_CANCEL).map(String::as_str), Some("true"));
    let shown = stage.get(&path, JANE).await.json();
    assert_eq!(shown["row"]["name"], "resnet");
    assert!(shown["manifest"].as_str().unwrap().contains("0.1"));
    assert_eq!(stage.rest("DELETE", &path, JANE, None).await.status, 200);
    let gone = stage.get(&path, JANE).await;
    assert_eq!((gone.status, gone.json()["code"].clone()), (404, json!("NotFound")));
}

#[tokio::test]
async fn a_job_is_created_over_grpc_as_over_rest() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    let spec: JobSpec = serde_json::from_value(spec("resnet")).unwrap();
    let message =
        CreateJobRequest { namespace: TEAM.to_owned(), spec: Some(spec), ..CreateJobRequest::default() };
    let made = client.create_job(call(JANE, message.clone())).await.unwrap().into_inner();
    assert_eq!(made.job.unwrap().owner, "jane");
    let status = client.create_job(call(JANE, message)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::AlreadyExists);
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_created_and_creates_nothing() {
    let stage = Stage::new().await;
    let body = json!({ "manifest": job("a").to_string() });
    let checked = stage.rest("POST", &format!("{JOBS}?dryRun=true"), JANE, Some(body)).await;
    assert_eq!((checked.status, checked.json()["dryRun"].clone()), (200, json!(true)), "{}", checked.text);
    assert!(checked.json()["manifest"].as_str().unwrap().contains("name: a"));
    assert_eq!(stage.get(&format!("{JOBS}/mpijob/a"), JANE).await.status, 404);
}

#[tokio::test]
async fn a_manifest_may_be_the_body() {
    let stage = Stage::new().await;
    let mut sent = request("POST", JOBS, JANE, Some(job("from-yaml")));
    sent.headers_mut().insert("content-type", "application/yaml; charset=utf-8".parse().unwrap());
    let made = stage.send(sent).await;
    assert_eq!((made.status, made.json()["job"]["name"].clone()), (200, json!("from-yaml")), "{}", made.text);
}

#[tokio::test]
async fn every_fault_is_named_with_its_field_and_fix() {
    let stage = Stage::new().await;
    let mut wrong = job("a");
    wrong["spec"]["slotPerWorker"] = json!(2);
    wrong["spec"]["mpiImplementation"] = json!("openmpi");
    let refused = stage.rest("POST", JOBS, JANE, Some(json!({ "manifest": wrong.to_string() }))).await;
    let problem = refused.json();
    assert_eq!((refused.status, &problem["code"]), (422, &json!("Invalid")), "{problem:#}");
    let fix_of = |path: &str| {
        let faults = problem["fields"].as_array().unwrap();
        let fault =
            faults.iter().find(|fault| fault["path"] == path).unwrap_or_else(|| panic!("{problem:#}"));
        fault["fix"].as_str().unwrap().to_owned()
    };
    assert!(fix_of("spec.slotPerWorker").contains("slotsPerWorker"), "{problem:#}");
    assert!(fix_of("spec.mpiImplementation").contains("OpenMPI"), "{problem:#}");
    let other = json!({ "manifest": json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": "a", "namespace": "team-nlp" }, "spec": job("a")["spec"] }).to_string() });
    let refused = stage.rest("POST", JOBS, JANE, Some(other)).await;
    assert_eq!(
        (refused.status, refused.json()["fields"][0]["path"].clone()),
        (422, json!("metadata.namespace"))
    );
}

#[tokio::test]
async fn a_repeated_creation_with_its_key_returns_the_same_job() {
    let stage = Stage::new().await;
    let create = |token: &'static str, key: &str, name: &str| {
        let mut sent = request("POST", JOBS, token, Some(json!({ "spec": spec(name) })));
        sent.headers_mut().insert("idempotency-key", key.parse().unwrap());
        stage.send(sent)
    };
    let first = create(JANE, "k1", "resnet").await;
    let second = create(JANE, "k1", "resnet").await;
    assert_eq!((first.status, second.status), (200, 200), "{}", second.text);
    assert_eq!(first.json()["job"]["uid"], second.json()["job"]["uid"]);
    let other = create(JANE, "k1", "bert").await;
    assert_eq!((other.status, other.json()["fields"][0]["path"].clone()), (422, json!("idempotencyKey")));
    assert_eq!(stage.get("/api/v1/jobs?names=bert", JANE).await.json()["jobs"], json!([]));
    assert_eq!(create(JANE, "k2", "resnet").await.status, 409, "another request");
    assert_eq!(create(ADMIN, "k1", "resnet").await.status, 409, "another caller");
}

#[tokio::test]
async fn a_repeated_creation_of_a_job_that_the_server_names_creates_one() {
    let stage = Stage::new().await;
    let mut unnamed = job("");
    unnamed["metadata"] = json!({ "generateName": "run-" });
    let body = json!({ "manifest": unnamed.to_string(), "idempotencyKey": "k1" });
    let mut uids = Vec::new();
    for _ in 0..2 {
        let made = stage.rest("POST", JOBS, JANE, Some(body.clone())).await;
        assert_eq!(made.status, 200, "{}", made.text);
        uids.push(made.json()["job"]["uid"].clone());
    }
    assert_eq!(uids[0], uids[1]);
}

#[tokio::test]
async fn a_full_namespace_refuses_before_anything_is_created() {
    let stage = Stage::new().await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(stage.admin.clone());
    let full = json!({ "metadata": { "annotations": { api::ANNOTATION_MAX_CONCURRENT_JOBS: "1" } } });
    namespaces.patch(TEAM, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(full)).await.unwrap();
    stage.job(TEAM, "first").await;
    let namespace_reader = json!({ "spec": spec("second") });
    let refused = stage.rest("POST", JOBS, ADMIN, Some(namespace_reader.clone())).await;
    assert_eq!(
        (refused.status, refused.json()["code"].clone()),
        (403, json!("QuotaExceeded")),
        "{}",
        refused.text
    );
    assert!(refused.json()["message"].as_str().unwrap().contains("1/1 jobs running"), "{}", refused.text);
    let path = "/api/v1/namespaces/team-cv/availability";
    let checked = stage.rest("POST", path, ADMIN, Some(namespace_reader)).await.json();
    assert_eq!(
        (&checked["available"], &checked["findings"][0]["weight"]),
        (&json!(false), &json!("Refused"))
    );
}

#[tokio::test]
async fn jobs_are_run_again_copied_compared_and_exported() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let early = stage.rest("POST", &format!("{JOBS}/mpijob/a/retry"), JANE, None).await;
    assert_eq!((early.status, early.json()["reason"].clone()), (409, json!("NotEnded")));
    stage
        .status(
            TEAM,
            "a",
            json!({ "phase": "Failed", "conditions": [{ "type": "Failed", "status": "True" }] }),
        )
        .await;
    let retried = stage.rest("POST", &format!("{JOBS}/mpijob/a/retry"), JANE, None).await;
    assert_eq!(
        (retried.status, retried.json()["job"]["name"].clone()),
        (200, json!("a-retry-2")),
        "{}",
        retried.text
    );
    let changes = json!({ "newName": "b", "set": ["workers=3", "env.LR=0.01"] });
    let copied = stage.rest("POST", &format!("{JOBS}/mpijob/a/clone"), JANE, Some(changes)).await.json();
    assert_eq!((&copied["job"]["name"], &copied["job"]["workers"]["of"]), (&json!("b"), &json!(3)));
    let wrong = json!({ "set": ["workers"] });
    let refused = stage.rest("POST", &format!("{JOBS}/mpijob/a/clone"), JANE, Some(wrong)).await;
    assert_eq!((refused.status, refused.json()["fields"][0]["path"].clone()), (422, json!("set[0]")));
    let path = "/api/v1/namespaces/team-cv/compare";
    let compared = stage.rest("POST", path, JANE, Some(json!({ "names": ["a", "b"] }))).await.json();
    assert_eq!(compared["columns"], json!(["a", "b"]));
    assert!(compared["differences"].as_array().unwrap().iter().all(|line| line["same"] == false));
    let exported = stage.get(&format!("{JOBS}/mpijob/b/export?format=json"), JANE).await.json();
    let manifest: Value = serde_json::from_str(exported["text"].as_str().unwrap()).unwrap();
    assert_eq!(manifest["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 3);
    stage.rest("POST", JOBS, JANE, Some(json!({ "spec": spec("simple") }))).await;
    for (format, text) in [("cli", "odh training create mpijob simple"), ("python", "MPIJobSpec(")] {
        let exported = stage.get(&format!("{JOBS}/mpijob/simple/export?format={format}"), JANE).await;
        assert!(exported.text.contains(text), "{format}: {}", exported.text);
    }
}

#[tokio::test]
async fn several_jobs_are_changed_by_names_or_by_a_filter() {
    let stage = Stage::new().await;
    for name in ["a", "b", "c"] {
        stage.job(TEAM, name).await;
    }
    stage.status(TEAM, "c", json!({ "phase": "Failed" })).await;
    stage.until_shown(TEAM, "c", |row| row["phase"] == "Failed").await;
    let batch =
        async |body: Value| stage.rest("POST", "/api/v1/namespaces/team-cv/batch", JANE, Some(body)).await;
    let outcomes = |reply: &Value| -> Vec<(String, String)> {
        let results = reply["results"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        results.map(|result| (text(&result["job"]["name"]), text(&result["outcome"]))).collect()
    };
    let pair = |name: &str, outcome: &str| (name.to_owned(), outcome.to_owned());
    let all = batch(json!({ "action": "delete" })).await;
    assert_eq!(all.status, 422, "everything is no selection");
    let dry = batch(json!({ "action": "delete", "phase": ["Failed"], "dryRun": true })).await.json();
    assert_eq!(outcomes(&dry), [pair("c", "selected")]);
    let suspended = batch(json!({ "action": "suspend", "names": ["a", "missing"] })).await.json();
    assert_eq!(outcomes(&suspended), [pair("a", "done"), pair("missing", "failed")]);
    assert_eq!(
        (&suspended["failed"], &suspended["results"][1]["problem"]["status"]),
        (&json!(1), &json!(404))
    );
    let deleted =
        batch(json!({ "action": "delete", "labels": "team=vision", "names": ["a", "b"] })).await.json();
    assert_eq!(outcomes(&deleted), [pair("a", "done"), pair("b", "done")]);
    assert_eq!(stage.get(&format!("{JOBS}/mpijob/b"), JANE).await.status, 404);
    assert_eq!(stage.get(&format!("{JOBS}/mpijob/c"), JANE).await.status, 200);
}

#[tokio::test]
async fn a_failed_job_says_why() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let failure = json!({ "reason": "OutOfMemory", "message": "worker-1 ran out of memory", "exitCode": 137,
        "worker": 1, "suggestion": "Increase memory allocation", "evidence": ["OOMKilled"] });
    stage
        .status(TEAM, "a", json!({ "phase": "Failed", "phaseReason": "OutOfMemory", "failure": failure }))
        .await;
    let shown = stage.get(&format!("{JOBS}/mpijob/a"), JANE).await.json();
    assert_eq!(
        (&shown["failure"]["cause"], &shown["failure"]["exitCode"]),
        (&json!("OutOfMemory"), &json!(137))
    );
    assert_eq!(shown["failure"]["suggestion"], "Increase memory allocation");
    assert_eq!(shown["failure"]["actor"], "User");
    let fix = json!({ "kind": "memory", "role": "Worker", "path": "worker.memory", "now": "1Gi", "proposed": "2Gi" });
    assert_eq!(shown["fixes"], json!([fix]));
    let states: Vec<&Value> = shown["steps"].as_array().unwrap().iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["Done", "Failed", "Skipped", "Skipped", "Skipped"], "no Worker ever had a node");
    assert_eq!(stage.get(&format!("{JOBS}/mpijob/a/events"), JANE).await.json()["events"], json!([]));
    stage.unmapped_pod(TEAM, "a", "a-worker-0", "team/train:1").await;
    let failure =
        json!({ "reason": "ExecutableNotFound", "message": "no train", "suggestion": "put it there" });
    let status = json!({ "phase": "Failed", "phaseReason": "ExecutableNotFound", "failure": failure });
    stage.status(TEAM, "a", status).await;
    let shown = stage.get(&format!("{JOBS}/mpijob/a"), JANE).await.json();
    let advice = shown["failure"]["suggestion"].as_str().unwrap();
    assert!(advice.starts_with("First look at the image: \"team/train:1\" is not mapped"), "{advice}");
}

#[tokio::test]
async fn a_job_that_succeeds_with_the_machines_own_programs_says_so() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    stage.status(TEAM, "a", json!({ "phase": "Succeeded" })).await;
    let warnings = async || stage.get(&format!("{JOBS}/mpijob/a"), JANE).await.json()["warnings"].clone();
    assert_eq!(warnings().await, json!([]));
    stage.unmapped_pod(TEAM, "a", "a-worker-0", "team/train:1").await;
    let said = warnings().await;
    let said = said[0].as_str().unwrap_or_default();
    assert!(said.starts_with("The image \"team/train:1\" is not mapped to a local environment"), "{said}");
}

#[tokio::test]
async fn a_failed_job_quotes_what_its_program_said_last() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let path = format!("{JOBS}/mpijob/a");
    let failure = json!({ "reason": "PythonException", "message": "MemoryError", "evidence": ["MemoryError: batch 17"] });
    stage
        .status(TEAM, "a", json!({ "phase": "Failed", "phaseReason": "PythonException", "failure": failure }))
        .await;
    let shown = stage.get(&path, ADMIN).await.json();
    assert_eq!(shown["lastLines"], json!([]), "there is no pod and no record");
    let line = "-".repeat(74);
    let log = format!(
        "epoch 3\nMemoryError: batch 17\n{line}\nPrimary job  terminated normally, but 1 process returned\n\
         a non-zero exit code. Per user-direction, the job has been aborted.\n{line}\n"
    );
    let owner = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "a", "uid": shown["row"]["uid"] });
    let record = json!({ "metadata": { "name": plan::record_name("a", 1), "namespace": TEAM, "ownerReferences": [owner] },
        "data": { "launcher.log": log } });
    let records = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(stage.admin.clone(), TEAM);
    records.create(&PostParams::default(), &serde_json::from_value(record).unwrap()).await.unwrap();
    let shown = stage.get(&path, ADMIN).await.json();
    assert_eq!(shown["lastLines"], json!(["epoch 3", "MemoryError: batch 17"]));
}

#[tokio::test]
async fn a_waiting_job_says_what_it_waits_for_and_who_must_act() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let waiting =
        json!({ "reason": "Unschedulable", "message": "no node has room", "since": "2026-01-01T00:00:09Z" });
    let attempt =
        json!({ "number": 1, "outcome": "Failed", "reason": "NodeLost", "message": "the node is gone" });
    let status = json!({ "phase": "Pending", "phaseReason": "Initializing", "waiting": waiting,
        "startup": { "queued": "2026-01-01T00:00:01Z" }, "attempts": [attempt],
        "conditions": [{ "type": "Created", "status": "True" }] });
    stage.status(TEAM, "a", status).await;
    stage.pod_with(TEAM, "a", "worker", "a-worker-0", json!({ "nvidia.com/gpu": "4" })).await;
    let shown = stage.get(&format!("{JOBS}/mpijob/a"), JANE).await.json();
    let waiting = &shown["waiting"];
    assert_eq!(
        (&waiting["cause"], &waiting["actor"], &waiting["message"]),
        (&json!("Unschedulable"), &json!("Administrator"), &json!("no node has room")),
        "{shown:#}"
    );
    assert_eq!((&waiting["stage"], &waiting["since"]), (&json!("Starting"), &json!("2026-01-01T00:00:09Z")));
    assert_eq!(shown["pods"][0]["gpus"], 4);
    let queue = json!({ "name": "Queue", "state": "Done", "finished": "2026-01-01T00:00:01Z" });
    assert_eq!(shown["steps"][0], queue);
    let nodes = &shown["steps"][1];
    assert_eq!(
        (&nodes["state"], &nodes["actor"], &nodes["workersDone"]),
        (&json!("Blocked"), &json!("Administrator"), &json!(1))
    );
    let attempt = &shown["attemptList"][0];
    assert_eq!((&attempt["cause"], &attempt["actor"]), (&json!("NodeLost"), &json!("Administrator")));
    assert_eq!(
        (&shown["fixes"][0]["path"], &shown["fixes"][0]["proposed"]),
        (&json!("workers"), &json!("1"))
    );
}

#[tokio::test]
async fn the_answer_to_a_suspension_shows_the_job_as_it_is_then() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    stage.status(TEAM, "a", json!({ "phase": "Running", "observedGeneration": 1 })).await;
    let path = format!("{JOBS}/mpijob/a");
    let suspended = stage.rest("POST", &format!("{path}/suspend"), JANE, None).await.json();
    let held = (&json!("Pending"), &json!("Suspended"));
    assert_eq!((&suspended["job"]["phase"], &suspended["job"]["phaseReason"]), held);
    let listed = stage.get("/api/v1/jobs?names=a", JANE).await.json();
    assert_eq!((&listed["jobs"][0]["phase"], &listed["jobs"][0]["phaseReason"]), held);
    let status = json!({ "phase": "Pending", "phaseReason": "Suspended", "observedGeneration": 2 });
    stage.status(TEAM, "a", status).await;
    let resumed = stage.rest("POST", &format!("{path}/resume"), JANE, None).await.json();
    assert_eq!((&resumed["job"]["phase"], &resumed["job"]["phaseReason"]), (&json!("Pending"), &Value::Null));
}

/// Has the cluster ask a webhook at a port of loopback about each creation.
async fn ask_at(port: u16, stage: &Stage) -> Api<ValidatingWebhookConfiguration> {
    let rule = json!({ "apiGroups": ["kubeflow.org"], "apiVersions": ["v2beta1"], "operations": ["CREATE"],
        "resources": ["mpijobs"] });
    let webhook = json!({ "name": "silent.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "clientConfig": { "url": format!("https://127.0.0.1:{port}/") }, "rules": [rule] });
    let configuration = json!({ "metadata": { "name": "silent" }, "webhooks": [webhook] });
    let api: Api<ValidatingWebhookConfiguration> = Api::all(stage.admin.clone());
    api.create(&PostParams::default(), &serde_json::from_value(configuration).unwrap()).await.unwrap();
    api
}

#[tokio::test]
async fn a_creation_that_admission_does_not_answer_about_says_when_to_try_again() {
    let stage = Stage::with(Settings { admission: Duration::from_millis(600), ..Settings::default() }).await;
    // Nobody listens on the port of discarded data.
    ask_at(9, &stage).await;
    let refused = stage.rest("POST", JOBS, JANE, Some(json!({ "spec": spec("a") }))).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert_eq!(refused.headers["retry-after"], "5");
    let problem = refused.json();
    assert_eq!(
        (&problem["code"], &problem["reason"]),
        (&json!("Unavailable"), &json!("AdmissionUnavailable")),
        "{problem:#}"
    );
}

#[tokio::test]
async fn a_creation_waits_for_admission_to_come_back() {
    let stage = Stage::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhooks = ask_at(listener.local_addr().unwrap().port(), &stage).await;
    let body = json!({ "spec": spec("a") });
    let create = stage.rest("POST", JOBS, JANE, Some(body));
    let come_back = async {
        // The first attempt fails, because it is hung up on; later ones ask nobody.
        let connection = listener.accept().await.unwrap();
        webhooks.delete("silent", &DeleteParams::default()).await.unwrap();
        drop((connection, listener));
    };
    let (made, ()) = tokio::join!(create, come_back);
    assert_eq!(made.status, 200, "{}", made.text);
}

#[tokio::test]
async fn a_job_in_a_namespace_that_enforces_restricted_meets_that_standard() {
    let stage = Stage::new().await;
    let made = async || {
        let body = json!({ "spec": spec("resnet") });
        let made = stage.rest("POST", &format!("{JOBS}?dryRun=true"), JANE, Some(body)).await;
        assert_eq!(made.status, 200, "{}", made.text);
        made.json()["manifest"].as_str().unwrap().to_owned()
    };
    assert!(!made().await.contains("runAsNonRoot"));
    let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
    let label = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
    // A person who may create jobs may be unable to read the namespace.
    let bindings: Api<RoleBinding> = Api::namespaced(stage.admin.clone(), TEAM);
    bindings.delete("jane-views", &DeleteParams::default()).await.unwrap();
    namespaces.patch(TEAM, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let rendered = async |token| {
        let body = json!({ "spec": spec("resnet") });
        let path = format!("/api/v1/namespaces/{TEAM}/render");
        let rendered = stage.rest("POST", &path, token, Some(body)).await;
        assert_eq!(rendered.status, 200, "{}", rendered.text);
        rendered.json()["spec"]["restricted"] == true
    };
    let heard = async {
        while !rendered(JANE).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the service hears of the label");
    let manifest = made().await;
    assert!(manifest.contains("runAsNonRoot: true") && manifest.contains("allowPrivilegeEscalation: false"));
    assert!(!rendered(JOE).await, "joe may do nothing in that namespace");
}

#[tokio::test]
async fn a_dry_run_refuses_what_creation_refuses() {
    let stage = Stage::new().await;
    let answers = async |change: Value| {
        let mut asked = spec("resnet");
        asked.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let body = json!({ "spec": asked });
        let dry = stage.rest("POST", &format!("{JOBS}?dryRun=true"), ADMIN, Some(body.clone())).await;
        let path = format!("/api/v1/namespaces/{TEAM}/availability");
        let available = stage.rest("POST", &path, ADMIN, Some(body.clone())).await.json();
        let made = stage.rest("POST", JOBS, ADMIN, Some(body)).await;
        (dry, available, made)
    };
    // The administrator may read priority classes, which belong to the cluster.
    let (dry, available, made) = answers(json!({ "priority": "nosuch" })).await;
    assert_eq!((dry.status, dry.json()["reason"].clone()), (422, json!("MissingReference")), "{}", dry.text);
    assert_eq!((made.status, made.json()["detail"].clone()), (422, dry.json()["detail"].clone()));
    assert_eq!((&available["available"], &available["start"]), (&json!(false), &json!("Refused")));

    let (dry, _, made) = answers(json!({ "image": "Not An Image" })).await;
    assert_eq!((dry.status, made.status), (422, 422), "{}", dry.text);
    assert_eq!(dry.json()["fields"], made.json()["fields"]);

    // A claim that is missing is waited for.
    let claim = json!({ "nosuch": "/data" });
    let (dry, available, made) = answers(json!({ "volumes": claim })).await;
    assert_eq!((dry.status, made.status), (200, 200), "{}{}", dry.text, made.text);
    assert_eq!(dry.json()["waits"], made.json()["waits"]);
    assert_eq!((&available["findings"], &available["start"]), (&made.json()["waits"], &json!("Unknown")));
    assert_eq!(made.json()["waits"][0]["reason"], "MissingReference");
}

/// The fields that a dry run finds something wrong with, and what.
async fn faults(stage: &Stage, body: Value) -> Vec<(String, String)> {
    let dry = stage.rest("POST", &format!("{JOBS}?dryRun=true"), ADMIN, Some(body)).await;
    assert_eq!(dry.status, 422, "{}", dry.text);
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let found = dry.json()["fields"].as_array().cloned().unwrap();
    found.iter().map(|one| (text(&one["path"]), text(&one["fault"]))).collect()
}

fn paths(found: &[(String, String)]) -> Vec<&str> {
    found.iter().map(|(path, _)| path.as_str()).collect()
}

#[tokio::test]
async fn a_dry_run_reports_what_the_service_and_the_cluster_would_refuse_at_once() {
    let stage = Stage::new().await;
    stage.job(TEAM, "taken").await;
    let with = |name: &str, change: Value| {
        let mut asked = spec(name);
        asked.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({ "spec": asked })
    };
    let stall = "metadata.annotations[training.opendatahub.io/stall-timeout]";
    let wrong = json!({ "cpu": "many", "failures": { "stallTimeout": "soon" } });
    let found = faults(&stage, with("taken", wrong.clone())).await;
    assert_eq!(paths(&found), ["cpu", stall, "metadata.name"], "{found:?}");
    assert!(found[2].1.contains("already exists"), "{found:?}");

    let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
    let full = json!({ "metadata": { "annotations": { api::ANNOTATION_MAX_CONCURRENT_JOBS: "1" } } });
    namespaces.patch(TEAM, &PatchParams::default(), &Patch::Merge(full)).await.unwrap();
    let found = faults(&stage, with("No_Name", json!({ "command": [] }))).await;
    assert_eq!(paths(&found), ["command", "metadata.name", ""], "{found:?}");
    assert!(found[2].1.contains("1/1 jobs running"), "{found:?}");
    let found = faults(&stage, with("free", wrong)).await;
    assert_eq!(paths(&found), ["cpu", stall], "without its CPUs, the job would be judged by other amounts");
    let taken = Some(with("taken", json!({})));
    let full = stage.rest("POST", &format!("{JOBS}?dryRun=true"), ADMIN, taken).await;
    let problem = full.json();
    assert_eq!((full.status, &problem["code"]), (403, &json!("QuotaExceeded")), "{problem:#}");
    let places = [&problem["fields"][0]["path"], &problem["fields"][1]["path"]];
    assert_eq!(places, [&Value::Null, &json!("metadata.name")], "{problem:#}");

    let mut written = job("taken");
    written["spec"]["slotPerWorker"] = json!(2);
    let found = faults(&stage, json!({ "manifest": written.to_string() })).await;
    assert_eq!(paths(&found), ["spec.slotPerWorker", "metadata.name"], "{found:?}");
    let created = with("No_Name", json!({ "command": [] }));
    let refused = stage.rest("POST", JOBS, ADMIN, Some(created)).await;
    let fields = refused.json()["fields"].as_array().map(Vec::len);
    assert_eq!((refused.status, fields), (422, Some(2)), "only a dry run asks about a job with faults");
}

#[tokio::test]
async fn a_dry_run_says_that_the_namespace_would_refuse_the_pods_of_a_manifest() {
    let stage = Stage::new().await;
    let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
    let label = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
    namespaces.patch(TEAM, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let waits = async || {
        let body = json!({ "manifest": job("resnet").to_string() });
        let dry = stage.rest("POST", &format!("{JOBS}?dryRun=true"), JANE, Some(body)).await;
        assert_eq!(dry.status, 200, "{}", dry.text);
        dry.json()["waits"].clone()
    };
    let heard = async {
        loop {
            let found = waits().await;
            if found[0]["reason"] == "AdmissionRefused" {
                return found[0]["message"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let message = tokio::time::timeout(PATIENCE, heard).await.expect("the service hears of the label");
    assert!(message.contains("\"restricted") && message.contains("runAsNonRoot"), "{message}");
}

#[tokio::test]
async fn a_change_for_a_state_that_is_gone_is_not_made() {
    let stage = Stage::new().await;
    stage.job(TEAM, "a").await;
    let path = format!("{JOBS}/mpijob/a");
    let tag = async || stage.get(&path, JANE).await.headers["etag"].to_str().unwrap().to_owned();
    let change = async |verb: &str, path: &str, tag: &str| {
        let mut sent = request(verb, path, JANE, Some(json!({})));
        sent.headers_mut().insert("if-match", tag.parse().unwrap());
        stage.send(sent).await
    };
    let first = tag().await;
    let refused = change("DELETE", &path, "\"nonsense\"").await;
    assert_eq!((refused.status, refused.json()["reason"].clone()), (412, json!("PreconditionFailed")));
    assert!(refused.json()["detail"].as_str().unwrap().contains(&first), "{}", refused.text);
    let either = format!("\"0\", {first}");
    assert_eq!(change("POST", &format!("{path}/suspend"), &either).await.status, 200);
    assert_eq!(change("POST", &format!("{path}/resume"), &first).await.status, 412, "it was suspended since");
    assert_eq!(change("POST", &format!("{path}/resume"), "*").await.status, 200);
    assert_eq!(change("DELETE", &format!("{JOBS}/mpijob/nosuch"), &first).await.status, 404);
    let template = format!("/api/v1/namespaces/{TEAM}/templates/t");
    assert_eq!(change("DELETE", &template, &first).await.status, 412, "templates have no tags");
    assert_eq!(change("DELETE", &path, &tag().await).await.status, 200);
}

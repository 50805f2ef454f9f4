//! The table of specifications (`openapi/specifications.yaml`), over REST, over gRPC and through a template: each makes
//! the manifest, or has the faults, that the table says.

use prost::Message;
use serde::Deserialize;
use serde_json::{Value, json};
use service::contract::{
    CreateJobRequest, CreateJobResponse, FieldFault, FromTemplate, JobSpec, Problem, RenderJobRequest,
};

use crate::stage::{JANE, Stage, TEAM, call};

const CASES: &str = include_str!("../../../../openapi/specifications.yaml");
const JOBS: &str = include_str!("../../../../openapi/jobs.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    spec: JobSpec,
    #[serde(default)]
    faults: Vec<FieldFault>,
}

impl Case {
    /// Only the service's own kind is in this cluster.
    fn is_mpijob(&self) -> bool {
        self.spec.kind.is_empty()
    }
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(CASES).unwrap()
}

/// The job that a case makes.
fn job(case: &str) -> Value {
    let jobs: Value = serde_json::from_str(JOBS).unwrap();
    let mut job = jobs["base"].clone();
    json_patch::merge(&mut job, &jobs["changes"][case]);
    job
}

/// A manifest of a response, without what says where it is and who made it, and without the defaults of the CRD.
fn bare(manifest: &str) -> Value {
    let mut job: Value = serde_saphyr::from_str(manifest).unwrap();
    let spec = job["spec"].as_object_mut().unwrap();
    spec.retain(|field, _| !["runLauncherAsWorker", "sshAuthMountPath"].contains(&field.as_str()));
    if let Some(policy) = spec.get_mut("runPolicy").and_then(Value::as_object_mut) {
        policy.retain(|field, value| field != "suspend" || *value == json!(true));
    }
    let metadata = job["metadata"].as_object_mut().unwrap();
    metadata.remove("namespace");
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.retain(|name, _| !name.starts_with("training.opendatahub.io/template"));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    job
}

fn dry_run(case: &Case) -> CreateJobRequest {
    CreateJobRequest {
        namespace: TEAM.to_owned(),
        spec: Some(case.spec.clone()),
        dry_run: true,
        skip_checks: true,
        ..CreateJobRequest::default()
    }
}

/// `google.rpc.Status`, which the details of a refusal are.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

fn problem(refused: &tonic::Status) -> Problem {
    let status = RpcStatus::decode(refused.details()).unwrap();
    Problem::decode(&status.details[0].value[..]).unwrap()
}

#[tokio::test]
async fn rest_makes_the_jobs_of_the_table() {
    let stage = Stage::new().await;
    for case in cases() {
        let what = if case.is_mpijob() || !case.faults.is_empty() { "jobs" } else { "render" };
        let mut body = json!({ "spec": case.spec });
        if what == "jobs" {
            body["dryRun"] = json!(true);
            body["skipChecks"] = json!(true);
        }
        let path = format!("/api/v1/namespaces/{TEAM}/{what}");
        let reply = stage.rest("POST", &path, JANE, Some(body)).await;
        let answer = reply.json();
        if case.faults.is_empty() {
            assert_eq!(reply.status, 200, "{}: {}", case.case, reply.text);
            assert_eq!(bare(answer["manifest"].as_str().unwrap()), job(&case.case), "{}", case.case);
        } else {
            let faults: Vec<FieldFault> = serde_json::from_value(answer["fields"].clone()).unwrap();
            assert_eq!((reply.status, &faults), (422, &case.faults), "{}", case.case);
        }
    }
}

#[tokio::test]
async fn grpc_makes_the_jobs_of_the_table() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    for case in cases() {
        if !case.faults.is_empty() {
            let refused = client.create_job(call(JANE, dry_run(&case))).await.unwrap_err();
            assert_eq!(problem(&refused).fields, case.faults, "{}", case.case);
            continue;
        }
        let manifest = if case.is_mpijob() {
            client.create_job(call(JANE, dry_run(&case))).await.unwrap().into_inner().manifest
        } else {
            let asked = RenderJobRequest {
                namespace: TEAM.to_owned(),
                spec: Some(case.spec.clone()),
                ..RenderJobRequest::default()
            };
            client.render_job(call(JANE, asked)).await.unwrap().into_inner().manifest
        };
        assert_eq!(bare(&manifest), job(&case.case), "{}", case.case);
    }
}

#[tokio::test]
async fn a_template_makes_the_jobs_of_the_table() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    for (at, case) in cases().into_iter().enumerate().filter(|(_, case)| case.faults.is_empty()) {
        let mut manifest = job(&case.case);
        let job_name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
        manifest["metadata"]["name"] = json!("any");
        let name = format!("row-{at}");
        let path = format!("/api/v1/namespaces/{TEAM}/templates/{name}");
        let saved = stage.rest("PUT", &path, JANE, Some(json!({ "manifest": manifest.to_string() }))).await;
        assert_eq!(saved.status, 200, "{}: {}", case.case, saved.text);
        if case.is_mpijob() {
            let template = FromTemplate { name, job_name, ..FromTemplate::default() };
            let asked = CreateJobRequest { spec: None, template: Some(template), ..dry_run(&case) };
            let made: CreateJobResponse = client.create_job(call(JANE, asked)).await.unwrap().into_inner();
            assert_eq!(bare(&made.manifest), job(&case.case), "{}", case.case);
        } else {
            assert_eq!(bare(saved.json()["manifest"].as_str().unwrap()), manifest, "{}", case.case);
        }
    }
}

#[tokio::test]
async fn a_manifest_and_its_fields_are_rendered_from_one_another() {
    let stage = Stage::new().await;
    let path = format!("/api/v1/namespaces/{TEAM}/render");
    let render = async |body: Value| stage.rest("POST", &path, JANE, Some(body)).await.json();
    let blank = render(json!({})).await;
    assert_eq!((&blank["spec"]["workers"], &blank["complete"]), (&json!(2), &json!(true)), "{blank}");
    let spec = json!({ "name": "pi", "workers": 2, "image": "x:1", "command": ["train"] });
    let made = render(json!({ "spec": spec })).await;
    let mut written = bare(made["manifest"].as_str().unwrap());
    written["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwork"] = json!(true);
    let read = render(json!({ "manifest": written.to_string() })).await;
    assert_eq!((&read["spec"]["command"], &read["complete"]), (&json!(["train"]), &json!(false)), "{read}");
    let mut more = read["spec"].clone();
    more["workers"] = json!(5);
    let changed = render(json!({ "manifest": written.to_string(), "spec": more })).await;
    written["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = json!(5);
    assert_eq!(bare(changed["manifest"].as_str().unwrap()), written);
    let wrong = render(
        json!({ "spec": { "name": "pi", "workers": 2, "image": "", "command": [], "transport": "telnet" } }),
    );
    assert_eq!(wrong.await["fields"][0]["path"], "transport");
}
